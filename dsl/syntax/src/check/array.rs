//! Where a problem's arrays come from: expressions, random numbers, files.

use crate::ast::{Argument, Expr, ExprKind as Ast, Name};
use crate::check::expression::{LetInfo, Place, Scope};
use crate::check::names::{Names, Symbol, count};
use crate::check::number::whole;
use crate::diagnostic::{Diagnostic, closest};
use crate::program::{Condition, ExprKind, Operator, Source};
use crate::source::Span;

/// Largest seed: every whole number up to here is an f64.
const SEEDS: u64 = 1 << 53;

/// The names of a checked operator, for expressions of a problem.
pub struct Known<'a> {
    operator: &'a Operator,
    names: Names,
    lets: Vec<LetInfo>,
}

/// An array to fill.
pub struct Wanted<'a> {
    /// How messages name it.
    pub what: &'a str,
    /// Its axes, ascending.
    pub axes: &'a [usize],
    /// The axis along which it lives on faces.
    pub half: Option<usize>,
}

impl<'a> Known<'a> {
    /// Everything the operator declares.
    pub fn of(operator: &'a Operator) -> Known<'a> {
        let mut known = Known { operator, names: Names::default(), lets: Vec::new() };
        for (index, axis) in operator.axes.iter().enumerate() {
            known.declare(&axis.letter, axis.span, Symbol::Letter(index));
            known.declare(&axis.size, axis.span, Symbol::Size(index));
        }
        operator
            .params
            .iter()
            .enumerate()
            .for_each(|(index, param)| known.declare(&param.name, param.span, Symbol::Param(index)));
        operator
            .data
            .iter()
            .enumerate()
            .for_each(|(index, data)| known.declare(&data.name, data.span, Symbol::Data(index)));
        for (index, value) in operator.lets.iter().enumerate() {
            known.declare(&value.name, value.span, Symbol::Let(index));
            let data = known.reads_data(&value.value);
            known.lets.push(LetInfo { axes: value.depends, data });
        }
        for (index, unknown) in operator.unknowns.iter().enumerate() {
            known.declare(unknown, operator.span, Symbol::Unknown(index));
        }
        known
    }

    fn declare(&mut self, name: &str, span: Span, symbol: Symbol) {
        self.names.declare(&Name { text: name.to_string(), span }, symbol, &mut Vec::new());
    }

    fn reads_data(&self, expr: &crate::program::Expr) -> bool {
        match &expr.kind {
            ExprKind::Data(..) => true,
            ExprKind::Let(index, _) => self.lets.get(*index).is_some_and(|info| info.data),
            ExprKind::Neg(inner) => self.reads_data(inner),
            ExprKind::Binary(_, left, right) => self.reads_data(left) || self.reads_data(right),
            ExprKind::Call(_, arguments) => arguments.iter().any(|argument| self.reads_data(argument)),
            ExprKind::If(condition, then, other) => {
                self.condition_reads_data(condition) || self.reads_data(then) || self.reads_data(other)
            }
            _ => false,
        }
    }

    fn condition_reads_data(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Compare(_, left, right) => self.reads_data(left) || self.reads_data(right),
            Condition::And(left, right) | Condition::Or(left, right) => {
                self.condition_reads_data(left) || self.condition_reads_data(right)
            }
            Condition::Not(inner) => self.condition_reads_data(inner),
        }
    }

    /// The source an expression of the program stands for; none after an error.
    pub fn source(&self, wanted: &Wanted<'_>, expr: &Expr, errors: &mut Vec<Diagnostic>) -> Option<Source> {
        match &expr.kind {
            Ast::Call(name, arguments) if name.text == "random" => random(name, arguments, errors),
            Ast::Call(name, arguments) if name.text == "file" => self.file(wanted, name, arguments, errors),
            Ast::Tuple(parts) => {
                let message = format!("{} is one array, not {}", wanted.what, parts.len());
                errors.push(Diagnostic::new("arguments", expr.span, message));
                None
            }
            _ => self.expression(wanted, expr, errors),
        }
    }

    fn expression(&self, wanted: &Wanted<'_>, expr: &Expr, errors: &mut Vec<Diagnostic>) -> Option<Source> {
        let place = Place { what: "a problem", half: wanted.half, unknowns: false, fluxes: false, data: false };
        let mut scope = Scope { operator: self.operator, names: &self.names, lets: &self.lets, place, errors };
        let typed = scope.value(expr)?;
        let foreign = (0..self.operator.axes.len()).find(|axis| typed.depends[*axis] && !wanted.axes.contains(axis));
        if let Some(axis) = foreign {
            let letter = &self.operator.axes[axis].letter;
            let error = Diagnostic::new("wrong-axis", expr.span, format!("{} has no axis `{letter}`", wanted.what));
            errors.push(error.label(format!("varies along `{letter}`")));
            return None;
        }
        Some(Source::Expr(typed.expr))
    }

    /// `file("kappa.npy", order = [k, j, i])`; the order may be left out with one axis.
    fn file(
        &self,
        wanted: &Wanted<'_>,
        name: &Name,
        arguments: &[Argument],
        errors: &mut Vec<Diagnostic>,
    ) -> Option<Source> {
        let (mut path, mut order) = (None, None);
        for argument in arguments {
            match (argument.name.as_ref().map(|name| name.text.as_str()), &argument.value.kind) {
                (None, Ast::Text(text)) if path.is_none() && !text.is_empty() => path = Some(text.clone()),
                (Some("order"), Ast::List(letters)) if order.is_none() => {
                    order = Some(self.order(wanted, letters, argument.value.span, errors)?)
                }
                _ => {
                    errors.push(file_usage(Diagnostic::new(
                        "arguments",
                        argument.value.span,
                        "not an argument of `file`",
                    )));
                    return None;
                }
            }
        }
        let single = (wanted.axes.len() == 1).then(|| wanted.axes.to_vec());
        match (path, order.or(single)) {
            (Some(path), Some(order)) => Some(Source::File { path, order }),
            (None, _) => {
                errors.push(file_usage(Diagnostic::new("arguments", name.span, "`file` needs a path")));
                None
            }
            (_, None) => {
                errors.push(file_usage(Diagnostic::new("arguments", name.span, "`file` needs the order of the axes")));
                None
            }
        }
    }

    /// A permutation of the array's letters, slowest first.
    fn order(
        &self,
        wanted: &Wanted<'_>,
        letters: &[Expr],
        span: Span,
        errors: &mut Vec<Diagnostic>,
    ) -> Option<Vec<usize>> {
        let known: Vec<&str> = wanted.axes.iter().map(|&axis| self.operator.axes[axis].letter.as_str()).collect();
        let mut order = Vec::new();
        for letter in letters {
            let Ast::Name(text) = &letter.kind else {
                errors.push(Diagnostic::new("arguments", letter.span, "the order is a list of letters"));
                return None;
            };
            match known.iter().position(|known| known == text).map(|position| wanted.axes[position]) {
                Some(axis) if !order.contains(&axis) => order.push(axis),
                Some(_) => {
                    errors.push(Diagnostic::new(
                        "arguments",
                        letter.span,
                        format!("the letter `{text}` is given twice"),
                    ));
                    return None;
                }
                None => {
                    let near = closest(text, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                    let message = format!("{} has no axis `{text}`", wanted.what);
                    errors.push(Diagnostic::new("wrong-axis", letter.span, message).help_if(near));
                    return None;
                }
            }
        }
        if order.len() != wanted.axes.len() {
            let message = format!(
                "{} has {}, the order names {}",
                wanted.what,
                count(known.len(), "axis").replace("axiss", "axes"),
                order.len()
            );
            errors.push(Diagnostic::new("arguments", span, message).help(format!("its axes are {}", known.join(", "))));
            return None;
        }
        Some(order)
    }
}

fn file_usage(error: Diagnostic) -> Diagnostic {
    error.help("write `file(\"name.npy\", order = [k, j, i])`, the slowest axis first")
}

/// `random(seed = 1)` or `random(1)`.
fn random(name: &Name, arguments: &[Argument], errors: &mut Vec<Diagnostic>) -> Option<Source> {
    match arguments {
        [Argument { name: key, value }] if key.as_ref().is_none_or(|key| key.text == "seed") => {
            whole(value, "a seed", 0..=SEEDS, errors).map(Source::Random)
        }
        _ => {
            let error = Diagnostic::new("arguments", name.span, "`random` takes a seed");
            errors.push(error.help("write `random(seed = 1)`"));
            None
        }
    }
}
