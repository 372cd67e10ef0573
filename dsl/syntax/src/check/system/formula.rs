//! Expressions of systems: names, shapes, and how they depend on the fields.

use std::cell::Cell;

use super::algebra::{self, NoDerivative, cross, derivative, dot, is_zero, minus, negative, over, plus, select, times};
use crate::ast::{self, Argument, Binary, ExprKind as Ast, Name, Position, Unary};
use crate::check::expression::{arithmetic, builtin, comparison};
use crate::check::names::{FUNCTIONS, count, unknown_function};
use crate::diagnostic::{Diagnostic, closest};
use crate::program::system::{Formula, Quantity, Side, Test};
use crate::program::{BinaryOp, Function};
use crate::source::Span;

/// Formulas that an expression is made of, and names read in it: named values are substituted where they are read.
const LARGEST: u32 = 200_000;

/// Functions of the language that only systems have, with their arguments.
pub const OPERATIONS: [(&str, usize); 13] = [
    ("grad", 1),
    ("div", 1),
    ("curl", 1),
    ("dx", 1),
    ("dy", 1),
    ("dz", 1),
    ("dot", 2),
    ("cross", 2),
    ("norm", 1),
    ("interior", 1),
    ("exterior", 1),
    ("jump", 1),
    ("average", 1),
];

/// What may be read in an expression.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// How messages name it.
    pub what: &'static str,
    /// Fields.
    pub fields: bool,
    /// Derivatives of fields.
    pub derivatives: bool,
    /// Materials.
    pub materials: bool,
    /// The unit normal, and the interior of a face.
    pub face: bool,
    /// The exterior of a face.
    pub exterior: bool,
    /// Coordinates.
    pub position: bool,
    /// Time.
    pub time: bool,
}

/// How a value depends on the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Degree {
    /// Not.
    Constant,
    /// A linear combination.
    Linear,
    /// A linear combination and a constant.
    Affine,
}

/// A checked expression: one formula, or three for a vector.
#[derive(Debug, Clone)]
pub struct Value {
    /// The components.
    pub parts: Vec<Formula>,
    /// How it depends on the fields.
    pub degree: Degree,
    /// Where it stands.
    pub span: Span,
}

impl Value {
    fn is_zero(&self) -> bool {
        self.parts.iter().all(is_zero)
    }
}

/// What is declared.
#[derive(Debug, Default, Clone)]
pub struct Table {
    /// Fields.
    pub fields: Vec<Quantity>,
    /// Materials.
    pub materials: Vec<Quantity>,
    /// Parameters.
    pub params: Vec<Quantity>,
    /// Named values; each may read those before it.
    pub lets: Vec<(Name, ast::Expr)>,
    /// Names with errors of their own.
    pub broken: Vec<String>,
}

/// Checks expressions at one place.
pub struct Scope<'a> {
    /// What is declared.
    pub table: &'a Table,
    /// What may be read.
    pub place: Place,
    /// Side of the face that bare names mean.
    pub side: Side,
    /// Inside `interior(…)` or `exterior(…)`.
    pub sided: bool,
    /// How many of the named values may be read.
    pub visible: usize,
    /// Names left that may be read.
    pub left: u32,
    /// Where errors go.
    pub errors: &'a mut Vec<Diagnostic>,
}

impl<'a> Scope<'a> {
    /// Everything declared, bare names mean the interior.
    pub fn new(table: &'a Table, place: Place, errors: &'a mut Vec<Diagnostic>) -> Scope<'a> {
        let visible = table.lets.len();
        Scope { table, place, side: Side::Interior, sided: false, visible, left: LARGEST, errors }
    }

    fn fail<T>(&mut self, error: Diagnostic) -> Option<T> {
        self.errors.push(error);
        None
    }

    /// The value of an expression; none after an error.
    pub fn value(&mut self, expr: &ast::Expr) -> Option<Value> {
        let value = self.checked(expr)?;
        // Products of vectors and powers copy their operands.
        let left = Cell::new(LARGEST);
        let last = |_: &Formula| {
            left.set(left.get() - 1);
            left.get() == 0
        };
        if value.parts.iter().any(|part| part.any(&last)) { self.too_large(expr.span) } else { Some(value) }
    }

    fn checked(&mut self, expr: &ast::Expr) -> Option<Value> {
        let span = expr.span;
        match &expr.kind {
            Ast::Number(_, value) => Some(number(*value, span)),
            Ast::Name(name) => self.named(name, span),
            Ast::At(name, positions) => self.component(name, positions, span),
            Ast::Call(name, arguments) => self.call(name, arguments, span),
            Ast::List(parts) => self.list(parts, span),
            Ast::Unary(Unary::Neg, inner) => {
                let inner = self.value(inner)?;
                Some(Value { parts: inner.parts.into_iter().map(negative).collect(), degree: inner.degree, span })
            }
            Ast::Binary(operator, left, right) => match arithmetic(*operator) {
                Some(operator) => self.binary(operator, left, right, span),
                None => self.not_a_number(span, "a condition"),
            },
            Ast::Unary(Unary::Not, _) => self.not_a_number(span, "a condition"),
            Ast::If(condition, then, other) => self.choice(condition, then, other, span),
            Ast::Text(_) => self.not_a_number(span, "a string"),
            Ast::Tuple(_) => {
                let error = Diagnostic::new("type", span, "a tuple is neither a number nor a vector");
                self.fail(error.help("write a vector as `[a, b, c]`"))
            }
        }
    }

    /// The same, and it must have so many components; the literal 0 has any number.
    pub fn sized(&mut self, expr: &ast::Expr, size: usize, what: &str) -> Option<Value> {
        let value = self.value(expr)?;
        if value.parts.len() == size {
            return Some(value);
        }
        if value.is_zero() && value.parts.len() == 1 {
            return Some(Value { parts: vec![algebra::zero(); size], ..value });
        }
        let message = format!("{what} is {}, not {}", shape(size), shape(value.parts.len()));
        self.fail(Diagnostic::new("shape", expr.span, message).label(shape(value.parts.len())))
    }

    fn not_a_number(&mut self, span: Span, what: &str) -> Option<Value> {
        self.fail(Diagnostic::new("type", span, format!("{what} is not a number")).label(what.to_string()))
    }

    fn refuse(&mut self, span: Span, what: &str) -> Option<Value> {
        let message = format!("{what} cannot be read in {}", self.place.what);
        self.fail(Diagnostic::new("not-allowed", span, message).label("not known here"))
    }

    fn too_large(&mut self, span: Span) -> Option<Value> {
        let message = "with all named values put in, the expression is too large";
        self.fail(Diagnostic::new("too-large", span, message))
    }

    fn named(&mut self, name: &str, span: Span) -> Option<Value> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return self.too_large(span);
        }
        let found = self.table.lets[..self.visible].iter().rposition(|(of, _)| of.text == name);
        if let Some(place) = found {
            let body = &self.table.lets[place].1;
            let visible = std::mem::replace(&mut self.visible, place);
            let value = self.value(body);
            self.visible = visible;
            return value.map(|value| Value { span, ..value });
        }
        let axes = |make: fn(usize) -> Formula| (0..3).map(make).collect::<Vec<_>>();
        let table = self.table;
        if let Some(field) = table.fields.iter().find(|field| field.name == name) {
            if !self.place.fields {
                return self.refuse(span, &format!("the field `{name}`"));
            }
            let side = self.side;
            return Some(quantity(field, Degree::Linear, span, &|c| Formula::Component(side, c)));
        }
        if let Some(material) = table.materials.iter().find(|material| material.name == name) {
            if !self.place.materials {
                return self.refuse(span, &format!("the material `{name}`"));
            }
            let side = self.side;
            return Some(quantity(material, Degree::Constant, span, &|c| Formula::Material(side, c)));
        }
        if let Some(param) = table.params.iter().find(|param| param.name == name) {
            return Some(quantity(param, Degree::Constant, span, &Formula::Param));
        }
        let constant = |parts| Some(Value { parts, degree: Degree::Constant, span });
        match name {
            "pi" => Some(number(std::f64::consts::PI, span)),
            "n" if self.place.face => constant(axes(Formula::Normal)),
            "n" => self.refuse(span, "the normal `n`"),
            "x" | "y" | "z" if self.place.position => constant(vec![Formula::Position(axis(name)?)]),
            "x" | "y" | "z" => self.refuse(span, &format!("the coordinate `{name}`")),
            "t" if self.place.time => constant(vec![Formula::Time]),
            "t" => self.refuse(span, "the time `t`"),
            _ if table.broken.iter().any(|broken| broken == name) => None,
            _ => self.unknown(name, span),
        }
    }

    fn unknown(&mut self, name: &str, span: Span) -> Option<Value> {
        if self.table.lets.iter().any(|(of, _)| of.text == name) {
            let error =
                Diagnostic::new("used-before-definition", span, format!("`{name}` is used before its definition"));
            return self.fail(error.help("a value reads only what is defined before it"));
        }
        let all = [&self.table.fields, &self.table.materials, &self.table.params];
        let known = all.into_iter().flatten().map(|quantity| quantity.name.as_str());
        let known = known.chain(self.table.lets.iter().map(|(name, _)| name.text.as_str()));
        let near = closest(name, known.chain(["pi"])).map(|near| format!("did you mean `{near}`?"));
        let error = Diagnostic::new("unknown-name", span, format!("nothing is called `{name}`"));
        self.fail(error.label("unknown name").help_if(near))
    }

    /// `E[x]`
    fn component(&mut self, name: &Name, positions: &[Position], span: Span) -> Option<Value> {
        let value = self.named(&name.text, name.span)?;
        let usage = || format!("write `{0}[x]`, `{0}[y]` or `{0}[z]`", name.text);
        if value.parts.len() != 3 {
            let error = Diagnostic::new("shape", span, format!("`{}` is a number and has no components", name.text));
            return self.fail(error);
        }
        let picked = match positions {
            [Position { letter, halves: 0, .. }] => axis(&letter.text),
            _ => None,
        };
        let Some(axis) = picked else {
            return self.fail(Diagnostic::new("shape", span, "this is no component of a vector").help(usage()));
        };
        Some(Value { parts: vec![value.parts[axis].clone()], degree: value.degree, span })
    }

    /// `[a, b, c]`
    fn list(&mut self, parts: &[ast::Expr], span: Span) -> Option<Value> {
        if parts.len() != 3 {
            let error = Diagnostic::new("shape", span, format!("a vector has 3 components, not {}", parts.len()));
            return self.fail(error);
        }
        let values: Vec<Option<Value>> =
            parts.iter().map(|part| self.sized(part, 1, "a component of a vector")).collect();
        let values: Vec<Value> = values.into_iter().collect::<Option<_>>()?;
        let degree = values.iter().fold(None, joined).unwrap_or(Degree::Constant);
        Some(Value { parts: values.into_iter().flat_map(|value| value.parts).collect(), degree, span })
    }

    fn binary(&mut self, operator: BinaryOp, left: &ast::Expr, right: &ast::Expr, span: Span) -> Option<Value> {
        let (left, right) = (self.value(left), self.value(right));
        let (left, right) = (left?, right?);
        match operator {
            BinaryOp::Add | BinaryOp::Sub => self.sum(operator, left, right, span),
            BinaryOp::Mul => self.product(left, right, span),
            BinaryOp::Div => self.quotient(left, right, span),
        }
    }

    fn sum(&mut self, operator: BinaryOp, left: Value, right: Value, span: Span) -> Option<Value> {
        let degree = joined(joined(None, &left), &right).unwrap_or(Degree::Constant);
        if left.parts.len() != right.parts.len() && !left.is_zero() && !right.is_zero() {
            let verb = if operator == BinaryOp::Add { "added to" } else { "subtracted from" };
            let error = Diagnostic::new("shape", span, format!("a number and a vector cannot be {verb} each other"));
            let error = error.note(left.span, shape(left.parts.len())).note(right.span, shape(right.parts.len()));
            return self.fail(error);
        }
        let size = left.parts.len().max(right.parts.len());
        let part = |value: &Value, place: usize| value.parts.get(place).cloned().unwrap_or_else(algebra::zero);
        let combine = if operator == BinaryOp::Add { plus } else { minus };
        let parts = (0..size).map(|place| combine(part(&left, place), part(&right, place))).collect();
        Some(Value { parts, degree, span })
    }

    fn product(&mut self, left: Value, right: Value, span: Span) -> Option<Value> {
        if left.parts.len() == 3 && right.parts.len() == 3 {
            let error = Diagnostic::new("shape", span, "a product of two vectors");
            return self.fail(error.help("write `dot(a, b)` or `cross(a, b)`"));
        }
        let degree = self.product_degree(&left, &right, span)?;
        let (scalar, vector) = if left.parts.len() == 1 { (&left, &right) } else { (&right, &left) };
        let parts = vector.parts.iter().map(|part| times(scalar.parts[0].clone(), part.clone())).collect();
        Some(Value { parts, degree, span })
    }

    /// At most one factor reads fields.
    fn product_degree(&mut self, left: &Value, right: &Value, span: Span) -> Option<Degree> {
        match (left.degree, right.degree) {
            (Degree::Constant, degree) | (degree, Degree::Constant) => Some(degree),
            _ => {
                let error = Diagnostic::new("not-linear", span, "a product of two values that depend on fields");
                let error = error.label("a system is linear in its fields");
                self.fail(error.note(left.span, "depends on a field").note(right.span, "depends on a field"))
            }
        }
    }

    fn quotient(&mut self, left: Value, right: Value, span: Span) -> Option<Value> {
        if right.parts.len() == 3 {
            return self.fail(Diagnostic::new("shape", right.span, "division by a vector").label("a vector"));
        }
        if right.degree != Degree::Constant {
            let error = Diagnostic::new("not-linear", right.span, "division by a value that depends on a field");
            return self.fail(error.label("a system is linear in its fields"));
        }
        let parts = left.parts.into_iter().map(|part| over(part, right.parts[0].clone())).collect();
        Some(Value { parts, degree: left.degree, span })
    }

    fn choice(&mut self, condition: &ast::Expr, then: &ast::Expr, other: &ast::Expr, span: Span) -> Option<Value> {
        let condition = self.test(condition);
        let (then, other) = (self.value(then), self.value(other));
        let (condition, then, other) = (condition?, then?, other?);
        if then.parts.len() != other.parts.len() {
            let error = Diagnostic::new("shape", span, "one choice is a number, the other one a vector");
            return self.fail(error);
        }
        let degree = joined(joined(None, &then), &other).unwrap_or(Degree::Constant);
        let parts = then.parts.into_iter().zip(other.parts).map(|(a, b)| select(condition.clone(), a, b)).collect();
        Some(Value { parts, degree, span })
    }

    fn test(&mut self, expr: &ast::Expr) -> Option<Test> {
        match &expr.kind {
            Ast::Unary(Unary::Not, inner) => Some(Test::Not(Box::new(self.test(inner)?))),
            Ast::Binary(operator @ (Binary::And | Binary::Or), left, right) => {
                let (left, right) = (self.test(left), self.test(right));
                let (left, right) = (Box::new(left?), Box::new(right?));
                Some(if *operator == Binary::And { Test::And(left, right) } else { Test::Or(left, right) })
            }
            Ast::Binary(operator, left, right) if comparison(*operator).is_some() => {
                let (left, right) = (self.plain(left, "a comparison"), self.plain(right, "a comparison"));
                Some(Test::Compare(comparison(*operator)?, left?, right?))
            }
            _ => {
                let error = Diagnostic::new("type", expr.span, "a number is not a condition");
                self.fail(error.label("expected a comparison").help("compare it: `x > 0`"))
            }
        }
    }

    /// A number that does not depend on fields.
    fn plain(&mut self, expr: &ast::Expr, what: &str) -> Option<Formula> {
        let mut value = self.sized(expr, 1, &format!("an operand of {what}"))?;
        if value.degree != Degree::Constant {
            let error = Diagnostic::new("not-linear", expr.span, format!("{what} of a value that depends on a field"));
            return self.fail(error.label("a system is linear in its fields"));
        }
        value.parts.pop()
    }

    fn call(&mut self, name: &Name, arguments: &[Argument], span: Span) -> Option<Value> {
        let operation = OPERATIONS.iter().find(|(known, _)| *known == name.text);
        let function = FUNCTIONS.iter().find(|(known, _)| *known == name.text);
        let Some((_, arity)) = operation.or(function) else {
            let further: Vec<&'static str> = OPERATIONS.iter().map(|(name, _)| *name).collect();
            return self.fail(unknown_function(name, &further));
        };
        if let Some(key) = arguments.iter().find_map(|argument| argument.name.as_ref()) {
            let message = format!("`{}` takes no named arguments", name.text);
            return self.fail(Diagnostic::new("arguments", key.span, message));
        }
        if arguments.len() != *arity {
            let message = format!("`{}` takes {}, not {}", name.text, count(*arity, "argument"), arguments.len());
            return self.fail(Diagnostic::new("arguments", span, message));
        }
        if operation.is_none() {
            let what = format!("`{}`", name.text);
            let values: Vec<Option<Formula>> =
                arguments.iter().map(|argument| self.plain(&argument.value, &what)).collect();
            let values: Vec<Formula> = values.into_iter().collect::<Option<_>>()?;
            return Some(Value { parts: vec![function_of(&name.text, values)?], degree: Degree::Constant, span });
        }
        match name.text.as_str() {
            "interior" | "exterior" => self.on_side(name, &arguments[0].value, span),
            "jump" | "average" => self.both_sides(name, &arguments[0].value, span),
            "dot" | "cross" => self.vectors(name, arguments, span),
            "norm" => {
                let value = self.sized(&arguments[0].value, 3, "an argument of `norm`")?;
                if value.degree != Degree::Constant {
                    let error = Diagnostic::new("not-linear", span, "`norm` of a value that depends on a field");
                    return self.fail(error.label("a system is linear in its fields"));
                }
                let root = Formula::Call(Function::Sqrt, vec![dot(&value.parts, &value.parts)]);
                Some(Value { parts: vec![root], degree: Degree::Constant, span })
            }
            _ => self.differential(name, &arguments[0].value, span),
        }
    }

    fn on_side(&mut self, name: &Name, argument: &ast::Expr, span: Span) -> Option<Value> {
        self.face_only(name)?;
        if self.sided {
            let error = Diagnostic::new("not-allowed", span, format!("`{}` within one side of the face", name.text));
            return self.fail(error.label("the side is already chosen"));
        }
        let side = if name.text == "interior" { Side::Interior } else { Side::Exterior };
        let value = self.at(side, argument)?;
        Some(Value { span, ..value })
    }

    /// `jump(a) = interior(a) - exterior(a)`, `average(a)` is half their sum.
    fn both_sides(&mut self, name: &Name, argument: &ast::Expr, span: Span) -> Option<Value> {
        self.face_only(name)?;
        if self.sided {
            let error = Diagnostic::new("not-allowed", span, format!("`{}` within one side of the face", name.text));
            return self.fail(error.label("the side is already chosen"));
        }
        let (interior, exterior) = (self.at(Side::Interior, argument)?, self.at(Side::Exterior, argument)?);
        let jump = name.text == "jump";
        let half = Formula::Number(0.5);
        let combine = |(a, b): (Formula, Formula)| if jump { minus(a, b) } else { times(half.clone(), plus(a, b)) };
        let parts = interior.parts.into_iter().zip(exterior.parts).map(combine).collect();
        Some(Value { parts, degree: interior.degree, span })
    }

    fn at(&mut self, side: Side, argument: &ast::Expr) -> Option<Value> {
        (self.side, self.sided) = (side, true);
        let value = self.value(argument);
        (self.side, self.sided) = (Side::Interior, false);
        value
    }

    fn face_only(&mut self, name: &Name) -> Option<()> {
        let exterior = name.text != "interior";
        if self.place.face && (self.place.exterior || !exterior) {
            return Some(());
        }
        let message = format!("`{}` cannot be used in {}", name.text, self.place.what);
        let error = Diagnostic::new("not-allowed", name.span, message);
        self.fail(error.label(if self.place.face { "this is what is being defined" } else { "there is no face here" }))
    }

    fn vectors(&mut self, name: &Name, arguments: &[Argument], span: Span) -> Option<Value> {
        let what = format!("an argument of `{}`", name.text);
        let values = [0, 1].map(|place| self.sized(&arguments[place].value, 3, &what));
        let [Some(left), Some(right)] = values else { return None };
        let degree = self.product_degree(&left, &right, span)?;
        let parts = match name.text.as_str() {
            "dot" => vec![dot(&left.parts, &right.parts)],
            _ => cross(&left.parts, &right.parts),
        };
        Some(Value { parts, degree, span })
    }

    fn differential(&mut self, name: &Name, argument: &ast::Expr, span: Span) -> Option<Value> {
        if !self.place.derivatives {
            let message = format!("`{}` cannot be used in {}", name.text, self.place.what);
            let error = Diagnostic::new("not-allowed", name.span, message).label("derivatives stand in `ddt` only");
            let with = match name.text.as_str() {
                "grad" => "n*p",
                "curl" => "cross(n, E)",
                _ => "dot(n, v)",
            };
            return self.fail(
                error.help_if(self.place.face.then(|| format!("in a flux the normal takes its place: `{with}`"))),
            );
        }
        let what = format!("an argument of `{}`", name.text);
        let value = match name.text.as_str() {
            "grad" => self.sized(argument, 1, &what)?,
            "div" | "curl" => self.sized(argument, 3, &what)?,
            _ => self.value(argument)?,
        };
        if value.degree == Degree::Constant {
            let error = Diagnostic::new("not-linear", argument.span, format!("`{}` of what is no field", name.text));
            return self.fail(error.label("does not depend on a field"));
        }
        let d = |part: usize, axis: usize| derivative(&value.parts[part], axis);
        let result: Result<Vec<Formula>, NoDerivative> = match name.text.as_str() {
            "grad" => (0..3).map(|axis| d(0, axis)).collect(),
            "div" => (0..3).try_fold(algebra::zero(), |sum, i| Ok(plus(sum, d(i, i)?))).map(|sum| vec![sum]),
            "curl" => (0..3).map(|i| Ok(minus(d((i + 2) % 3, (i + 1) % 3)?, d((i + 1) % 3, (i + 2) % 3)?))).collect(),
            _ => {
                let along = axis(&name.text[1..])?;
                (0..value.parts.len()).map(|part| d(part, along)).collect()
            }
        };
        match result {
            Ok(parts) => Some(Value { parts, degree: Degree::Linear, span }),
            Err(NoDerivative::Second) => {
                let error = Diagnostic::new("not-first-order", span, "a derivative of a derivative");
                self.fail(error.help("a system is of first order: make the inner derivative a field of its own"))
            }
            Err(NoDerivative::Varies) => {
                let error = Diagnostic::new("varies", span, "a derivative of what depends on x, y or z itself");
                self.fail(error.help("declare a `material`: it is constant on each element"))
            }
        }
    }
}

/// 0, 1, 2 for x, y, z.
pub fn axis(letter: &str) -> Option<usize> {
    ["x", "y", "z"].iter().position(|axis| *axis == letter)
}

/// How messages name a shape.
pub fn shape(size: usize) -> &'static str {
    if size == 1 { "a number" } else { "a vector" }
}

fn number(value: f64, span: Span) -> Value {
    Value { parts: vec![Formula::Number(value)], degree: Degree::Constant, span }
}

fn quantity(of: &Quantity, degree: Degree, span: Span, make: &dyn Fn(usize) -> Formula) -> Value {
    Value { parts: (of.first..of.first + of.size).map(make).collect(), degree, span }
}

/// The degree of a sum; the literal zero has every degree.
fn joined(degree: Option<Degree>, value: &Value) -> Option<Degree> {
    match degree {
        _ if value.is_zero() && value.degree == Degree::Constant => degree,
        None => Some(value.degree),
        Some(degree) if degree == value.degree => Some(degree),
        Some(_) => Some(Degree::Affine),
    }
}

fn function_of(name: &str, mut values: Vec<Formula>) -> Option<Formula> {
    if let "sqr" | "cube" = name {
        let value = values.pop()?;
        let square = times(value.clone(), value.clone());
        return Some(if name == "sqr" { square } else { times(square, value) });
    }
    Some(Formula::Call(builtin(name)?, values))
}
