//! Expressions of a solver: scalars, vectors and operators.

use crate::ast::{self, Argument, Binary, ExprKind as Ast, Name, Unary};
use crate::check::expression::{arithmetic, builtin, comparison};
use crate::check::names::{FUNCTIONS, count, unknown_function};
use crate::check::number::whole;
use crate::check::solver::{Build, Meaning};
use crate::diagnostic::Diagnostic;
use crate::program::{BinaryOp, Function, Kind, Scalar, ScalarCondition, VarId, Vector};
use crate::source::Span;

/// Largest seed: every whole number up to here is an f64.
const SEEDS: u64 = 1 << 53;

/// A checked expression.
#[derive(Debug, Clone)]
pub enum Value {
    /// A real number.
    Scalar(Scalar),
    /// A vector.
    Vector(Vector),
    /// A product of operators that waits for its vector; the last factor is applied first.
    Operator(Vec<Factor>),
}

/// A factor of an operator.
#[derive(Debug, Clone)]
pub enum Factor {
    /// A number.
    Scale(Scalar),
    /// -1.
    Neg,
    /// An operator by position.
    Apply(usize),
    /// Its transpose.
    Transpose(usize),
    /// Its inverse.
    Solve(usize),
}

impl Value {
    fn kind(&self) -> &'static str {
        match self {
            Value::Scalar(_) => "a scalar",
            Value::Vector(_) => "a vector",
            Value::Operator(_) => "an operator",
        }
    }
}

/// Functions of a solver besides those of reals.
const VECTOR_FUNCTIONS: [&str; 6] = ["dot", "norm", "norm_max", "random", "transpose", "inv"];

impl Build<'_> {
    /// Any expression; none if it has an error, which is recorded.
    pub fn value(&mut self, expr: &ast::Expr) -> Option<Value> {
        match &expr.kind {
            Ast::Number(_, value) => Some(Value::Scalar(Scalar::Number(*value))),
            Ast::Name(name) => self.named(name, expr.span),
            Ast::Unary(Unary::Neg, inner) => Some(match self.value(inner)? {
                Value::Scalar(scalar) => Value::Scalar(Scalar::Neg(Box::new(scalar))),
                Value::Vector(vector) => Value::Vector(Vector::Neg(Box::new(vector))),
                Value::Operator(factors) => Value::Operator([vec![Factor::Neg], factors].concat()),
            }),
            Ast::Binary(operator, left, right) => match arithmetic(*operator) {
                Some(operator) => self.binary(operator, left, right, expr.span),
                None => self.mistake(expr.span, "a condition is not a value", Some("use an `if` statement")),
            },
            Ast::Call(name, arguments) => self.call(name, arguments, expr.span),
            Ast::Unary(Unary::Not, _) => {
                self.mistake(expr.span, "a condition is not a value", Some("use an `if` statement"))
            }
            Ast::If(..) => self.mistake(
                expr.span,
                "`if` is a statement in a solver",
                Some("assign in its branches, or use `min` and `max`"),
            ),
            Ast::At(name, _) => self.mistake(expr.span, &format!("`{}` has no positions in a solver", name.text), None),
            Ast::Text(_) => self.mistake(expr.span, "a string is not a value", None),
            Ast::Tuple(_) => self.mistake(expr.span, "a tuple is not a value", None),
            Ast::List(_) => self.mistake(expr.span, "a list is not a value", None),
        }
    }

    /// An expression that must be a scalar.
    pub fn scalar(&mut self, expr: &ast::Expr, what: &str) -> Option<Scalar> {
        match self.value(expr)? {
            Value::Scalar(scalar) => Some(scalar),
            other => {
                let help = match other {
                    Value::Vector(_) => Some("its length is `norm(v)`, a product of two is `dot(v, w)`"),
                    _ => Some("an operator is applied to a vector: `A*v`"),
                };
                self.mistake(expr.span, &format!("{what} must be a scalar, not {}", other.kind()), help)
            }
        }
    }

    /// An expression that must be a vector.
    pub fn vector(&mut self, expr: &ast::Expr, what: &str) -> Option<Vector> {
        match self.value(expr)? {
            Value::Vector(vector) => Some(vector),
            other => {
                let help = match other {
                    Value::Scalar(_) => Some("the zero vector is `zero`"),
                    _ => Some("an operator is applied to a vector: `A*v`"),
                };
                self.mistake(expr.span, &format!("{what} must be a vector, not {}", other.kind()), help)
            }
        }
    }

    /// A condition on scalars.
    pub fn condition(&mut self, expr: &ast::Expr) -> Option<ScalarCondition> {
        match &expr.kind {
            Ast::Unary(Unary::Not, inner) => Some(ScalarCondition::Not(Box::new(self.condition(inner)?))),
            Ast::Binary(operator @ (Binary::And | Binary::Or), left, right) => {
                let (left, right) = (self.condition(left), self.condition(right));
                let (left, right) = (Box::new(left?), Box::new(right?));
                Some(match operator {
                    Binary::And => ScalarCondition::And(left, right),
                    _ => ScalarCondition::Or(left, right),
                })
            }
            Ast::Binary(operator, left, right) if comparison(*operator).is_some() => {
                let operator = comparison(*operator)?;
                let (left, right) =
                    (self.scalar(left, "a side of a comparison"), self.scalar(right, "a side of a comparison"));
                Some(ScalarCondition::Compare(operator, left?, right?))
            }
            _ => self.mistake(expr.span, "a value is not a condition", Some("compare it: `x > 0`")),
        }
    }

    /// Records a type error.
    pub fn mistake<T>(&mut self, span: Span, message: &str, help: Option<&str>) -> Option<T> {
        self.errors.push(Diagnostic::new("type", span, message).help_if(help.map(str::to_string)));
        None
    }

    fn named(&mut self, name: &str, span: Span) -> Option<Value> {
        Some(match self.meaning(name, span)? {
            Meaning::Pi => Value::Scalar(Scalar::Number(std::f64::consts::PI)),
            Meaning::Zero => Value::Vector(Vector::Zero),
            Meaning::Tolerance => Value::Scalar(Scalar::Tolerance),
            Meaning::Iteration => Value::Scalar(Scalar::Iteration),
            Meaning::Param(param) => Value::Scalar(Scalar::Param(param)),
            Meaning::Operator(0) => Value::Operator(vec![Factor::Apply(0)]),
            Meaning::Operator(_) => {
                let help = format!("write `inv({name})*v`");
                return self.mistake(
                    span,
                    &format!("`{name}` is a preconditioner: only its inverse can be applied"),
                    Some(&help),
                );
            }
            Meaning::Variable(id, Kind::Scalar) => Value::Scalar(Scalar::Var(id)),
            Meaning::Variable(id, Kind::Vector) => Value::Vector(Vector::Var(id)),
        })
    }

    fn binary(&mut self, operator: BinaryOp, left: &ast::Expr, right: &ast::Expr, span: Span) -> Option<Value> {
        let (first, second) = (self.value(left), self.value(right));
        let (first, second) = (first?, second?);
        let (a, b) = (first.kind(), second.kind());
        match (operator, first, second) {
            (operator, Value::Scalar(a), Value::Scalar(b)) => {
                Some(Value::Scalar(Scalar::Binary(operator, Box::new(a), Box::new(b))))
            }
            (BinaryOp::Add, Value::Vector(a), Value::Vector(b)) => {
                Some(Value::Vector(Vector::Add(Box::new(a), Box::new(b))))
            }
            (BinaryOp::Sub, Value::Vector(a), Value::Vector(b)) => {
                Some(Value::Vector(Vector::Sub(Box::new(a), Box::new(b))))
            }
            (BinaryOp::Mul, Value::Scalar(s), Value::Vector(v))
            | (BinaryOp::Mul, Value::Vector(v), Value::Scalar(s)) => Some(Value::Vector(Vector::Scale(s, Box::new(v)))),
            (BinaryOp::Div, Value::Vector(v), Value::Scalar(s)) => {
                let inverse = Scalar::Binary(BinaryOp::Div, Box::new(Scalar::Number(1.0)), Box::new(s));
                Some(Value::Vector(Vector::Scale(inverse, Box::new(v))))
            }
            (BinaryOp::Mul, Value::Scalar(s), Value::Operator(factors)) => {
                Some(Value::Operator([vec![Factor::Scale(s)], factors].concat()))
            }
            (BinaryOp::Mul, Value::Operator(a), Value::Operator(b)) => Some(Value::Operator([a, b].concat())),
            (BinaryOp::Mul, Value::Operator(factors), Value::Vector(v)) => Some(Value::Vector(applied(factors, v))),
            (operator, first, second) => {
                let (message, help) = misfit(operator, &first, &second);
                let error = Diagnostic::new("type", span, message).help_if(help.map(str::to_string));
                self.errors
                    .push(error.note(left.span, format!("this is {a}")).note(right.span, format!("this is {b}")));
                None
            }
        }
    }

    fn call(&mut self, name: &Name, arguments: &[Argument], span: Span) -> Option<Value> {
        match name.text.as_str() {
            "dot" => {
                let [first, second] = self.arguments(name, arguments, span)?;
                let (first, second) =
                    (self.vector(first, "an argument of `dot`"), self.vector(second, "an argument of `dot`"));
                Some(Value::Scalar(Scalar::Dot(Box::new(first?), Box::new(second?))))
            }
            "norm" => {
                let [vector] = self.arguments(name, arguments, span)?;
                Some(Value::Scalar(Scalar::Norm(Box::new(self.vector(vector, "the argument of `norm`")?))))
            }
            "norm_max" => {
                let [vector] = self.arguments(name, arguments, span)?;
                Some(Value::Scalar(Scalar::NormMax(Box::new(self.vector(vector, "the argument of `norm_max`")?))))
            }
            "random" => self.random(name, arguments, span),
            "transpose" | "inv" => self.of_operator(name, arguments, span),
            _ => self.function(name, arguments),
        }
    }

    fn random(&mut self, name: &Name, arguments: &[Argument], span: Span) -> Option<Value> {
        let seed = match arguments {
            [Argument { name: Some(key), value }] if key.text == "seed" => value,
            _ => {
                let [seed] = self.arguments(name, arguments, span)?;
                seed
            }
        };
        whole(seed, "a seed", 0..=SEEDS, self.errors).map(|seed| Value::Vector(Vector::Random(seed)))
    }

    fn of_operator(&mut self, name: &Name, arguments: &[Argument], span: Span) -> Option<Value> {
        let [argument] = self.arguments(name, arguments, span)?;
        let operator = match &argument.kind {
            Ast::Name(operator) => match self.meaning(operator, argument.span)? {
                Meaning::Operator(operator) => Some(operator),
                _ => None,
            },
            _ => None,
        };
        match (name.text.as_str(), operator) {
            ("transpose", Some(0)) => Some(Value::Operator(vec![Factor::Transpose(0)])),
            ("inv", Some(operator @ 1..)) => Some(Value::Operator(vec![Factor::Solve(operator)])),
            ("transpose", Some(_)) => {
                self.mistake(span, "the transpose of a preconditioner is not available", Some("only `inv(M)*v` is"))
            }
            (_, Some(_)) => {
                let error = Diagnostic::new(
                    "inverse",
                    span,
                    "the inverse of the system's own operator is what the solver computes",
                );
                self.errors.push(error.help("only a preconditioner, the second operator, has an `inv`"));
                None
            }
            (function, None) => {
                self.mistake(argument.span, &format!("`{function}` takes the name of an operator"), None)
            }
        }
    }

    fn function(&mut self, name: &Name, arguments: &[Argument]) -> Option<Value> {
        let Some((_, arity)) = FUNCTIONS.iter().find(|(function, _)| *function == name.text) else {
            self.errors.push(unknown_function(name, &VECTOR_FUNCTIONS));
            return None;
        };
        if arguments.len() != *arity || arguments.iter().any(|argument| argument.name.is_some()) {
            let message = format!("`{}` takes {}", name.text, count(*arity, "argument"));
            self.errors.push(Diagnostic::new("arguments", name.span, message));
            return None;
        }
        let what = format!("an argument of `{}`", name.text);
        let values: Vec<Option<Scalar>> =
            arguments.iter().map(|argument| self.scalar(&argument.value, &what)).collect();
        let values: Vec<Scalar> = values.into_iter().collect::<Option<_>>()?;
        Some(Value::Scalar(scalar_function(&name.text, values)?))
    }

    fn arguments<'a, const N: usize>(
        &mut self,
        name: &Name,
        arguments: &'a [Argument],
        span: Span,
    ) -> Option<[&'a ast::Expr; N]> {
        let values: Vec<&ast::Expr> =
            arguments.iter().filter(|argument| argument.name.is_none()).map(|argument| &argument.value).collect();
        let values = if values.len() == arguments.len() { values } else { Vec::new() };
        let given = values.len();
        let values: Result<[&ast::Expr; N], _> = values.try_into();
        if values.is_err() {
            let message = format!("`{}` takes {}, not {}", name.text, count(N, "argument"), given.max(arguments.len()));
            self.errors.push(Diagnostic::new("arguments", span, message));
        }
        values.ok()
    }
}

fn scalar_function(name: &str, values: Vec<Scalar>) -> Option<Scalar> {
    if let Some(function) = builtin(name) {
        return Some(Scalar::Call(function, values));
    }
    let power = if name == "sqr" { 2 } else { 3 };
    let base = values.into_iter().next()?;
    let multiply = |a: Scalar, b: &Scalar| Scalar::Binary(BinaryOp::Mul, Box::new(a), Box::new(b.clone()));
    Some(match base {
        Scalar::Var(_) | Scalar::Param(_) | Scalar::Number(_) => {
            (1..power).fold(base.clone(), |product, _| multiply(product, &base))
        }
        _ => Scalar::Call(Function::Pow, vec![base, Scalar::Number(f64::from(power))]),
    })
}

/// The factors applied to a vector, the last one first.
fn applied(factors: Vec<Factor>, vector: Vector) -> Vector {
    factors.into_iter().rev().fold(vector, |vector, factor| {
        let vector = Box::new(vector);
        match factor {
            Factor::Scale(scalar) => Vector::Scale(scalar, vector),
            Factor::Neg => Vector::Neg(vector),
            Factor::Apply(operator) => Vector::Apply(operator, vector),
            Factor::Transpose(operator) => Vector::ApplyTranspose(operator, vector),
            Factor::Solve(operator) => Vector::Solve(operator, vector),
        }
    })
}

fn misfit(operator: BinaryOp, left: &Value, right: &Value) -> (String, Option<&'static str>) {
    let verb = match operator {
        BinaryOp::Add => "add",
        BinaryOp::Sub => "subtract",
        BinaryOp::Mul => "multiply",
        BinaryOp::Div => "divide",
    };
    let help = match (operator, left, right) {
        (BinaryOp::Mul, Value::Vector(_), Value::Vector(_)) => Some("their product is `dot(v, w)`"),
        (BinaryOp::Mul, Value::Operator(_), Value::Scalar(_)) => Some("an operator is applied to a vector: `A*v`"),
        (BinaryOp::Mul, Value::Vector(_), Value::Operator(_)) => {
            Some("the operator stands on the left: `A*v`, or `transpose(A)*v`")
        }
        (BinaryOp::Div, _, Value::Vector(_)) => Some("only scalars divide"),
        (BinaryOp::Div, _, Value::Operator(_)) => Some("use a preconditioner: `inv(M)*v`"),
        (_, Value::Operator(_), _) | (_, _, Value::Operator(_)) => {
            Some("apply each operator to a vector first: `A*v + w`")
        }
        (BinaryOp::Add | BinaryOp::Sub, ..) => Some("a vector and a scalar do not add; did you forget a vector?"),
        _ => None,
    };
    (format!("cannot {verb} {} and {}", left.kind(), right.kind()), help)
}

/// Whether the vector reads the variable.
pub fn reads(vector: &Vector, variable: VarId) -> bool {
    match vector {
        Vector::Var(id) => *id == variable,
        Vector::Zero | Vector::Random(_) => false,
        Vector::Apply(_, v)
        | Vector::ApplyTranspose(_, v)
        | Vector::Solve(_, v)
        | Vector::Scale(_, v)
        | Vector::Neg(v) => reads(v, variable),
        Vector::Add(a, b) | Vector::Sub(a, b) => reads(a, variable) || reads(b, variable),
    }
}

/// Whether all factors in the vector are numbers and parameters, the same at any time.
pub fn fixed(vector: &Vector) -> bool {
    match vector {
        Vector::Var(_) | Vector::Zero | Vector::Random(_) => true,
        Vector::Apply(_, v) | Vector::ApplyTranspose(_, v) | Vector::Solve(_, v) | Vector::Neg(v) => fixed(v),
        Vector::Scale(scalar, v) => fixed_scalar(scalar) && fixed(v),
        Vector::Add(a, b) | Vector::Sub(a, b) => fixed(a) && fixed(b),
    }
}

fn fixed_scalar(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Number(_) | Scalar::Param(_) => true,
        Scalar::Neg(inner) => fixed_scalar(inner),
        Scalar::Binary(_, a, b) => fixed_scalar(a) && fixed_scalar(b),
        Scalar::Call(_, arguments) => arguments.iter().all(fixed_scalar),
        _ => false,
    }
}
