//! Expressions of an operator: names, kinds and linearity.

use crate::ast::{self, Argument, Binary, ExprKind as Ast, Name, Position, Unary};
use crate::check::names::{FUNCTIONS, Names, Symbol, count, unknown_function};
use crate::check::reading::{Target, shift};
use crate::diagnostic::Diagnostic;
use crate::program::{BinaryOp, CompareOp, Condition, Expr, ExprKind, Function, Operator, Shift};
use crate::source::Span;

/// Trees up to this many nodes are multiplied out by `sqr` and `cube`; larger ones become `pow`.
const SMALL: usize = 16;

/// A checked expression and what it depends on.
#[derive(Debug, Clone)]
pub struct Typed {
    /// The expression.
    pub expr: Expr,
    /// Axes it varies along.
    pub depends: [bool; 3],
    /// Whether it is (affinely) a function of an unknown.
    pub unknown: bool,
    /// Whether it reads arrays, perhaps through named values.
    pub data: bool,
}

/// What a named value may be read along, and whether it reads arrays.
#[derive(Debug, Clone, Copy, Default)]
pub struct LetInfo {
    /// Axes it depends on or is declared along.
    pub axes: [bool; 3],
    /// Whether it reads arrays.
    pub data: bool,
}

/// What may stand in an expression.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// How messages name it.
    pub what: &'static str,
    /// The axis on whose faces the value lives.
    pub half: Option<usize>,
    /// Whether unknowns may be read.
    pub unknowns: bool,
    /// Whether fluxes may be read.
    pub fluxes: bool,
    /// Whether arrays may be read.
    pub data: bool,
}

/// Everything needed to check expressions of one operator.
pub struct Scope<'a> {
    /// The operator as far as it is known.
    pub operator: &'a Operator,
    /// Its names.
    pub names: &'a Names,
    /// One entry per named value.
    pub lets: &'a [LetInfo],
    /// What may stand here.
    pub place: Place,
    /// Where errors go.
    pub errors: &'a mut Vec<Diagnostic>,
}

impl Scope<'_> {
    /// A real expression; none if it has an error, which is recorded.
    pub fn value(&mut self, expr: &ast::Expr) -> Option<Typed> {
        let span = expr.span;
        match &expr.kind {
            Ast::Number(_, value) => Some(plain(ExprKind::Number(*value), span)),
            Ast::Name(name) if name == "pi" => Some(plain(ExprKind::Number(std::f64::consts::PI), span)),
            Ast::Name(name) => self.reading(name, None, span, span),
            Ast::At(name, at) => self.reading(&name.text, Some(at), name.span, span),
            Ast::Call(name, arguments) => self.call(name, arguments, span),
            Ast::Unary(Unary::Neg, inner) => {
                let inner = self.value(inner)?;
                Some(Typed { expr: Expr { kind: ExprKind::Neg(Box::new(inner.expr)), span }, ..inner })
            }
            Ast::Binary(operator, left, right) => match arithmetic(*operator) {
                Some(operator) => self.binary(operator, left, right, span),
                None => self.reject("type", span, "a condition is not a number", "condition", CONDITION),
            },
            Ast::Unary(Unary::Not, _) => {
                self.reject("type", span, "a condition is not a number", "condition", CONDITION)
            }
            Ast::If(condition, then, other) => self.choice(condition, then, other, span),
            Ast::Text(_) => self.reject("type", span, "a string is not a number", "string", None),
            Ast::Tuple(_) => self.reject("type", span, "a tuple is not a number", "several values", None),
            Ast::List(_) => self.reject("type", span, "a list is not a number", "list", None),
        }
    }

    fn reject(
        &mut self,
        code: &'static str,
        span: Span,
        message: &str,
        label: &str,
        help: Option<&str>,
    ) -> Option<Typed> {
        let error = Diagnostic::new(code, span, message).label(label);
        self.errors.push(error.help_if(help.map(str::to_string)));
        None
    }

    fn binary(&mut self, operator: BinaryOp, left: &ast::Expr, right: &ast::Expr, span: Span) -> Option<Typed> {
        let (left, right) = (self.value(left), self.value(right));
        let (left, right) = (left?, right?);
        if operator == BinaryOp::Mul && left.unknown && right.unknown {
            self.errors.push(
                Diagnostic::new("not-linear", span, "a product of two values that depend on an unknown")
                    .label("an operator is linear in its unknowns")
                    .note(left.expr.span, "depends on an unknown")
                    .note(right.expr.span, "depends on an unknown"),
            );
            return None;
        }
        if operator == BinaryOp::Div && right.unknown {
            let error =
                Diagnostic::new("not-linear", right.expr.span, "division by a value that depends on an unknown");
            self.errors.push(error.label("an operator is linear in its unknowns"));
            return None;
        }
        let joined = join(&left, &right);
        let kind = ExprKind::Binary(operator, Box::new(left.expr), Box::new(right.expr));
        Some(Typed { expr: Expr { kind, span }, ..joined })
    }

    fn choice(&mut self, condition: &ast::Expr, then: &ast::Expr, other: &ast::Expr, span: Span) -> Option<Typed> {
        let condition = self.condition(condition);
        let (then, other) = (self.value(then), self.value(other));
        let ((condition, of_condition), then, other) = (condition?, then?, other?);
        let joined = join(&join(&then, &other), &of_condition);
        let kind = ExprKind::If(Box::new(condition), Box::new(then.expr), Box::new(other.expr));
        Some(Typed { expr: Expr { kind, span }, ..joined })
    }

    /// A condition, and as a value what it depends on.
    pub fn condition(&mut self, expr: &ast::Expr) -> Option<(Condition, Typed)> {
        match &expr.kind {
            Ast::Unary(Unary::Not, inner) => {
                let (inner, typed) = self.condition(inner)?;
                Some((Condition::Not(Box::new(inner)), typed))
            }
            Ast::Binary(operator @ (Binary::And | Binary::Or), left, right) => {
                let (left, right) = (self.condition(left), self.condition(right));
                let ((left, first), (right, second)) = (left?, right?);
                let (left, right) = (Box::new(left), Box::new(right));
                let condition =
                    if *operator == Binary::And { Condition::And(left, right) } else { Condition::Or(left, right) };
                Some((condition, join(&first, &second)))
            }
            Ast::Binary(operator, left, right) if comparison(*operator).is_some() => {
                let operator = comparison(*operator)?;
                let (left, right) = (self.compared(left), self.compared(right));
                let (left, right) = (left?, right?);
                let joined = join(&left, &right);
                Some((Condition::Compare(operator, left.expr, right.expr), joined))
            }
            _ => {
                let error =
                    Diagnostic::new("type", expr.span, "a number is not a condition").label("expected a comparison");
                self.errors.push(error.help("compare it: `x > 0`"));
                None
            }
        }
    }

    fn compared(&mut self, expr: &ast::Expr) -> Option<Typed> {
        let typed = self.value(expr)?;
        if typed.unknown {
            let error = Diagnostic::new("not-linear", expr.span, "a condition that depends on an unknown");
            self.errors.push(error.label("an operator is linear in its unknowns"));
            return None;
        }
        Some(typed)
    }

    fn call(&mut self, name: &Name, arguments: &[Argument], span: Span) -> Option<Typed> {
        if name.text == "div" {
            return self.divergence(arguments, span);
        }
        let Some((_, arity)) = FUNCTIONS.iter().find(|(function, _)| *function == name.text) else {
            self.errors.push(unknown_function(name, &["div"]));
            return None;
        };
        let values: Vec<Option<Typed>> = arguments.iter().map(|argument| self.positional(name, argument)).collect();
        if arguments.len() != *arity {
            let message = format!("`{}` takes {}, not {}", name.text, count(*arity, "argument"), arguments.len());
            self.errors.push(Diagnostic::new("arguments", span, message));
            return None;
        }
        let values: Vec<Typed> = values.into_iter().collect::<Option<_>>()?;
        if let Some(value) = values.iter().find(|value| value.unknown) {
            let message = format!("`{}` of a value that depends on an unknown", name.text);
            let error = Diagnostic::new("not-linear", value.expr.span, message);
            self.errors.push(error.label("an operator is linear in its unknowns"));
            return None;
        }
        let joined = values.iter().skip(1).fold(values.first()?.clone(), |sum, value| join(&sum, value));
        let kind = function(&name.text, values.into_iter().map(|value| value.expr).collect(), span)?;
        Some(Typed { expr: Expr { kind, span }, ..joined })
    }

    fn positional(&mut self, function: &Name, argument: &Argument) -> Option<Typed> {
        if let Some(name) = &argument.name {
            let message = format!("`{}` takes no named arguments", function.text);
            self.errors.push(Diagnostic::new("arguments", name.span, message));
            return None;
        }
        self.value(&argument.value)
    }

    /// `div(X)`: what leaves through the high face less what enters through the low one.
    fn divergence(&mut self, arguments: &[Argument], span: Span) -> Option<Typed> {
        let name = match arguments {
            [Argument { name: None, value: ast::Expr { kind: Ast::Name(name), span } }] => Some((name, *span)),
            _ => None,
        };
        let Some((name, place)) = name else {
            return self.reject("type", span, "`div` takes the name of a flux", "expected `div(X)`", None);
        };
        let symbol = self.find(name, place)?;
        let Symbol::Flux(flux) = symbol else {
            if symbol != Symbol::Broken {
                let error =
                    Diagnostic::new("type", place, format!("`{name}` is not a flux")).label("`div` is of a flux");
                self.errors.push(error.help(format!("declare it with `flux {name}[i+1/2] = …;`")));
            }
            return None;
        };
        self.flux_allowed(name, span)?;
        let mut low: Shift = [0; 3];
        low[self.operator.fluxes.get(flux)?.axis] = -1;
        let at = |shift| Box::new(Expr { kind: ExprKind::Flux(flux, shift), span });
        let kind = ExprKind::Binary(BinaryOp::Sub, at([0; 3]), at(low));
        Some(Typed { expr: Expr { kind, span }, depends: self.all_axes(), unknown: true, data: false })
    }

    fn flux_allowed(&mut self, name: &str, span: Span) -> Option<()> {
        if self.place.fluxes {
            return Some(());
        }
        let error =
            Diagnostic::new("flux-outside-apply", span, format!("the flux `{name}` is read in {}", self.place.what));
        self.errors.push(error.label("fluxes are read in `apply` only"));
        None
    }

    fn find(&mut self, name: &str, span: Span) -> Option<Symbol> {
        match self.names.find(name, span) {
            Ok(symbol) => Some(symbol),
            Err(error) => {
                self.errors.push(*error);
                None
            }
        }
    }

    /// A name, bare or at a position.
    fn reading(&mut self, name: &str, at: Option<&[Position]>, place: Span, span: Span) -> Option<Typed> {
        let symbol = self.find(name, place)?;
        let operator = self.operator;
        let all = self.all_axes();
        let (target, unknown, data) = match symbol {
            Symbol::Broken => return None,
            Symbol::Letter(axis) => return self.number(name, ExprKind::Index(axis), Some(axis), at, span),
            Symbol::Size(axis) => return self.number(name, ExprKind::Size(axis), None, at, span),
            Symbol::Param(param) => return self.number(name, ExprKind::Param(param), None, at, span),
            Symbol::Data(index) => {
                let data = operator.data.get(index)?;
                let mut axes = [false; 3];
                data.axes.iter().for_each(|&axis| axes[axis] = true);
                (Target { name, axes, half: data.half, span: data.span }, false, true)
            }
            Symbol::Let(index) => {
                let (value, info) = (operator.lets.get(index)?, self.lets.get(index)?);
                (Target { name, axes: info.axes, half: value.half, span: value.span }, value.on_unknown, info.data)
            }
            Symbol::Flux(index) => {
                self.flux_allowed(name, span)?;
                let flux = operator.fluxes.get(index)?;
                (Target { name, axes: all, half: Some(flux.axis), span: flux.span }, true, false)
            }
            Symbol::Unknown(_) => (Target { name, axes: all, half: None, span }, true, false),
        };
        self.permitted(name, unknown, data, span)?;
        let shift = shift(self, symbol, &target, at, span)?;
        let (kind, depends) = match symbol {
            Symbol::Data(index) => (ExprKind::Data(index, shift), target.axes),
            Symbol::Let(index) => (ExprKind::Let(index, shift), operator.lets.get(index)?.depends),
            Symbol::Flux(index) => (ExprKind::Flux(index, shift), all),
            Symbol::Unknown(index) => (ExprKind::Unknown(index, shift), all),
            _ => return None,
        };
        Some(Typed { expr: Expr { kind, span }, depends, unknown, data })
    }

    fn permitted(&mut self, name: &str, unknown: bool, data: bool, span: Span) -> Option<()> {
        let (why, label) = match (unknown && !self.place.unknowns, data && !self.place.data) {
            (true, _) => ("unknown-not-allowed", "depends on an unknown"),
            (_, true) => ("data-not-allowed", "depends on an array"),
            _ => return Some(()),
        };
        let error = Diagnostic::new(why, span, format!("`{name}` cannot be read in {}", self.place.what));
        self.errors.push(error.label(label));
        None
    }

    /// A letter, size or parameter: a number without a position.
    fn number(
        &mut self,
        name: &str,
        kind: ExprKind,
        axis: Option<usize>,
        at: Option<&[Position]>,
        span: Span,
    ) -> Option<Typed> {
        if at.is_some() {
            let error = Diagnostic::new("wrong-axis", span, format!("`{name}` is a number and has no positions"));
            self.errors.push(error.help(format!("write `{name}`, or `({name} + 1)` for the next one")));
            return None;
        }
        let mut typed = plain(kind, span);
        if let Some(axis) = axis {
            typed.depends[axis] = true;
        }
        Some(typed)
    }

    /// One entry per axis of the grid.
    pub fn all_axes(&self) -> [bool; 3] {
        std::array::from_fn(|axis| axis < self.operator.axes.len())
    }
}

const CONDITION: Option<&str> = Some("write `if condition { a } else { b }`");

fn plain(kind: ExprKind, span: Span) -> Typed {
    Typed { expr: Expr { kind, span }, depends: [false; 3], unknown: false, data: false }
}

/// What depends on both; the expression is the first's.
fn join(a: &Typed, b: &Typed) -> Typed {
    Typed {
        expr: Expr { kind: ExprKind::Number(0.0), span: a.expr.span },
        depends: std::array::from_fn(|axis| a.depends[axis] || b.depends[axis]),
        unknown: a.unknown || b.unknown,
        data: a.data || b.data,
    }
}

/// The arithmetic operator, if it is one.
pub fn arithmetic(operator: Binary) -> Option<BinaryOp> {
    match operator {
        Binary::Add => Some(BinaryOp::Add),
        Binary::Sub => Some(BinaryOp::Sub),
        Binary::Mul => Some(BinaryOp::Mul),
        Binary::Div => Some(BinaryOp::Div),
        _ => None,
    }
}

/// The comparison, if it is one.
pub fn comparison(operator: Binary) -> Option<CompareOp> {
    match operator {
        Binary::Lt => Some(CompareOp::Lt),
        Binary::Le => Some(CompareOp::Le),
        Binary::Gt => Some(CompareOp::Gt),
        Binary::Ge => Some(CompareOp::Ge),
        Binary::Eq => Some(CompareOp::Eq),
        Binary::Ne => Some(CompareOp::Ne),
        _ => None,
    }
}

/// The built-in function of that name; `sqr` and `cube` are not among them.
pub fn builtin(name: &str) -> Option<Function> {
    Some(match name {
        "sqrt" => Function::Sqrt,
        "exp" => Function::Exp,
        "log" => Function::Log,
        "sin" => Function::Sin,
        "cos" => Function::Cos,
        "tan" => Function::Tan,
        "tanh" => Function::Tanh,
        "abs" => Function::Abs,
        "floor" => Function::Floor,
        "pow" => Function::Pow,
        "min" => Function::Min,
        "max" => Function::Max,
        _ => return None,
    })
}

fn function(name: &str, arguments: Vec<Expr>, span: Span) -> Option<ExprKind> {
    if let Some(function) = builtin(name) {
        return Some(ExprKind::Call(function, arguments));
    }
    let power = if name == "sqr" { 2 } else { 3 };
    let base = arguments.into_iter().next()?;
    Some(match size(&base) <= SMALL {
        true => (1..power).fold(base.clone(), |product, _| multiply(product, base.clone(), span)).kind,
        false => {
            let power = Expr { kind: ExprKind::Number(f64::from(power)), span };
            ExprKind::Call(Function::Pow, vec![base, power])
        }
    })
}

fn multiply(left: Expr, right: Expr, span: Span) -> Expr {
    Expr { kind: ExprKind::Binary(BinaryOp::Mul, Box::new(left), Box::new(right)), span }
}

/// Nodes of the tree; a choice counts as large.
fn size(expr: &Expr) -> usize {
    match &expr.kind {
        ExprKind::Neg(inner) => 1 + size(inner),
        ExprKind::Binary(_, left, right) => 1 + size(left) + size(right),
        ExprKind::Call(_, arguments) => 1 + arguments.iter().map(size).sum::<usize>(),
        ExprKind::If(..) => SMALL + 1,
        _ => 1,
    }
}
