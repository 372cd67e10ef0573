//! Numbers of a problem: evaluation in f64, and sizes and parameters changed from outside.

use crate::diagnostic::{Diagnostic, Diagnostics, closest};
use crate::program::{BinaryOp, CompareOp, Condition, Expr, ExprKind, Function, Problem, Program};
use crate::source::{Source, Span};

/// Largest size of an axis, and largest number of points.
pub const LARGEST: u64 = 1 << 40;

/// What an expression of numbers may read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Values<'a> {
    /// Sizes of the axes.
    pub sizes: &'a [usize],
    /// Parameters, where known.
    pub params: &'a [Option<f64>],
    /// Values of the letters, for expressions at a point.
    pub letters: Option<[f64; 3]>,
}

/// The value of an expression, or none if it reads anything that is not among the values.
pub fn evaluate(expr: &Expr, values: &Values<'_>) -> Option<f64> {
    Some(match &expr.kind {
        ExprKind::Number(value) => *value,
        ExprKind::Size(axis) => *values.sizes.get(*axis)? as f64,
        ExprKind::Param(param) => (*values.params.get(*param)?)?,
        ExprKind::Index(axis) => *values.letters.as_ref()?.get(*axis)?,
        ExprKind::Let(..) | ExprKind::Data(..) | ExprKind::Unknown(..) | ExprKind::Flux(..) => return None,
        ExprKind::Neg(inner) => -evaluate(inner, values)?,
        ExprKind::Binary(operator, left, right) => {
            let (left, right) = (evaluate(left, values)?, evaluate(right, values)?);
            binary(*operator, left, right)
        }
        ExprKind::Call(function, arguments) => {
            let first = evaluate(arguments.first()?, values)?;
            let second = arguments.get(1).map_or(Some(0.0), |second| evaluate(second, values))?;
            call(*function, first, second)
        }
        ExprKind::If(condition, then, other) => match holds(condition, values)? {
            true => evaluate(then, values)?,
            false => evaluate(other, values)?,
        },
    })
}

/// The value of an operation.
pub(crate) fn binary(operator: BinaryOp, left: f64, right: f64) -> f64 {
    match operator {
        BinaryOp::Add => left + right,
        BinaryOp::Sub => left - right,
        BinaryOp::Mul => left * right,
        BinaryOp::Div => left / right,
    }
}

/// Whether a comparison holds.
pub(crate) fn compare(operator: CompareOp, left: f64, right: f64) -> bool {
    match operator {
        CompareOp::Lt => left < right,
        CompareOp::Le => left <= right,
        CompareOp::Gt => left > right,
        CompareOp::Ge => left >= right,
        CompareOp::Eq => left == right,
        CompareOp::Ne => left != right,
    }
}

/// The value of a function; the second argument of one with a single argument is not used.
pub(crate) fn call(function: Function, first: f64, second: f64) -> f64 {
    match function {
        Function::Sqrt => first.sqrt(),
        Function::Exp => first.exp(),
        Function::Log => first.ln(),
        Function::Sin => first.sin(),
        Function::Cos => first.cos(),
        Function::Tan => first.tan(),
        Function::Tanh => first.tanh(),
        Function::Abs => first.abs(),
        Function::Floor => first.floor(),
        Function::Pow => first.powf(second),
        Function::Min => first.min(second),
        Function::Max => first.max(second),
    }
}

fn holds(condition: &Condition, values: &Values<'_>) -> Option<bool> {
    Some(match condition {
        Condition::Compare(operator, left, right) => {
            compare(*operator, evaluate(left, values)?, evaluate(right, values)?)
        }
        Condition::And(left, right) => holds(left, values)? && holds(right, values)?,
        Condition::Or(left, right) => holds(left, values)? || holds(right, values)?,
        Condition::Not(inner) => !holds(inner, values)?,
    })
}

impl Problem {
    /// The value of every parameter of the operator; NaN for one that cannot be evaluated.
    pub fn parameters(&self) -> Vec<f64> {
        let mut known: Vec<Option<f64>> = vec![None; self.params.len()];
        loop {
            let mut progress = false;
            for (index, param) in self.params.iter().enumerate() {
                if known[index].is_none() {
                    let values = Values { sizes: &self.sizes, params: &known, letters: None };
                    known[index] = evaluate(param, &values);
                    progress |= known[index].is_some();
                }
            }
            if !progress {
                return known.into_iter().map(|value| value.unwrap_or(f64::NAN)).collect();
            }
        }
    }
}

impl Program {
    /// A problem with sizes or parameters set from outside before anything that depends on them is evaluated.
    ///
    /// Names are those of sizes and parameters of the operator, then those of parameters of the solver. In the result
    /// every parameter is a number.
    pub fn problem_with(&self, problem: usize, overrides: &[(String, f64)]) -> Result<Problem, Diagnostics> {
        let mut errors = Vec::new();
        let Some(mut changed) = self.problems.get(problem).cloned() else {
            errors.push(plain("unknown-name", format!("there is no problem number {problem}")));
            return Err(self.report(errors));
        };
        for (name, value) in overrides {
            self.set(&mut changed, name, *value, &mut errors);
        }
        points(&changed.sizes, Span::default(), &mut errors);
        self.settle(&mut changed, &mut errors);
        if errors.is_empty() { Ok(changed) } else { Err(self.report(errors)) }
    }

    fn report(&self, errors: Vec<Diagnostic>) -> Diagnostics {
        Diagnostics::new(Source { name: self.file.clone(), text: None }, errors)
    }

    fn set(&self, problem: &mut Problem, name: &str, value: f64, errors: &mut Vec<Diagnostic>) {
        let (Some(operator), Some(solver)) = (self.operators.get(problem.operator), self.solvers.get(problem.solver))
        else {
            return;
        };
        if !value.is_finite() {
            errors.push(plain("bad-number", format!("`{name}` is set to {value}, which is not finite")));
            return;
        }
        if let Some(axis) = operator.axes.iter().position(|axis| axis.size == name) {
            match size(value) {
                Ok(size) => problem.sizes[axis] = size,
                Err(why) => errors.push(plain("bad-size", format!("`{name}` cannot be {value}: {why}"))),
            }
        } else if let Some(param) = operator.params.iter().position(|param| param.name == name) {
            problem.params[param].kind = ExprKind::Number(value);
        } else if let Some(param) = solver.params.iter().position(|param| param.name == name) {
            problem.solver_params[param] = value;
        } else {
            let sizes = operator.axes.iter().map(|axis| axis.size.as_str());
            let params = operator.params.iter().chain(&solver.params).map(|param| param.name.as_str());
            let known: Vec<&str> = sizes.chain(params).collect();
            let help = match closest(name, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("it has {}", known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
                }
            };
            let message = format!("problem `{}` has no size or parameter `{name}`", problem.name);
            errors.push(plain("unknown-name", message).help(help));
        }
    }

    fn settle(&self, problem: &mut Problem, errors: &mut Vec<Diagnostic>) {
        let values = problem.parameters();
        for (index, value) in values.into_iter().enumerate() {
            if !value.is_finite() {
                let params = self.operators.get(problem.operator).map(|operator| &operator.params);
                let name = params.and_then(|params| params.get(index)).map_or("", |param| param.name.as_str());
                errors.push(Diagnostic::new(
                    "bad-number",
                    problem.params[index].span,
                    format!("parameter `{name}` is {value}"),
                ));
            }
            problem.params[index].kind = ExprKind::Number(value);
        }
    }
}

fn plain(code: &'static str, message: String) -> Diagnostic {
    Diagnostic::new(code, Span::default(), message)
}

/// A number as the size of an axis, or why it cannot be one.
pub fn size(value: f64) -> Result<usize, &'static str> {
    if !value.is_finite() || value.fract() != 0.0 {
        return Err("a size is a whole number");
    }
    if value < 1.0 {
        return Err("an axis has at least one point");
    }
    if value > LARGEST as f64 {
        return Err("an axis has at most 2^40 points");
    }
    usize::try_from(value as u64).map_err(|_| "too large for this machine")
}

/// Reports a grid with too many points.
pub fn points(sizes: &[usize], span: Span, errors: &mut Vec<Diagnostic>) {
    let points = sizes.iter().try_fold(1u64, |product, &size| product.checked_mul(size as u64));
    if points.is_none_or(|points| points > LARGEST) {
        errors.push(Diagnostic::new("bad-size", span, "the grid has more than 2^40 points"));
    }
}
