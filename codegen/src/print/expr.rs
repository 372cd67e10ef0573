//! Expressions as text, with the fewest parentheses that keep the tree.
//!
//! Floating-point operations are not associative: the text groups exactly as the IR does. The languages differ in
//! names only ([`Dialect`]); what C and CUDA C++ share is the default.
//!
//! Integers of 64-bit kernels are `long long`. Where both operands of an operation would be narrower in C (literals,
//! loaded 32-bit indices), one is widened, so that no product of indices is computed in `int`.

use super::numbers;
use crate::kernel::{Access, BufferId, Cmp, Element, Expr, IndexWidth, Kernel, Math, Op, Type, VarId};

/// How strongly the outermost operator of a text binds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Strength {
    Ternary,
    Or,
    And,
    Equality,
    Order,
    Sum,
    Product,
    Unary,
    Postfix,
}

/// The text of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub text: String,
    pub strength: Strength,
}

impl Piece {
    pub fn new(text: impl Into<String>, strength: Strength) -> Piece {
        Piece { text: text.into(), strength }
    }

    /// A name, literal, call or element.
    pub fn atom(text: impl Into<String>) -> Piece {
        Piece::new(text, Strength::Postfix)
    }

    /// A number, which is a negation if it begins with a sign.
    fn number(text: String) -> Piece {
        let strength = if text.starts_with('-') { Strength::Unary } else { Strength::Postfix };
        Piece { text, strength }
    }

    /// The text, in parentheses if it binds less strongly than asked.
    pub fn at_least(self, strength: Strength) -> String {
        if self.strength < strength { format!("({})", self.text) } else { self.text }
    }

    /// As [`at_least`](Piece::at_least), and in parentheses if it begins with a sign.
    fn unsigned(self, strength: Strength) -> String {
        if self.text.starts_with('-') { format!("({})", self.text) } else { self.at_least(strength) }
    }
}

/// Which position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    Lane,
    Block,
}

pub(crate) const AXES: [&str; 3] = ["x", "y", "z"];

/// Letter of an axis of lanes or blocks.
pub(crate) fn axis_letter(axis: u8) -> &'static str {
    AXES.get(usize::from(axis)).copied().unwrap_or("?")
}

/// What the languages write differently.
pub(crate) trait Dialect {
    fn kernel(&self) -> &Kernel;

    /// An infinity or NaN of a type.
    fn special(&self, value: f64, ty: Type) -> Piece;

    /// A lane's or block's position, as an integer of the kernel's width.
    fn position(&self, which: Position, axis: u8) -> Piece;

    /// The same where it is converted anyway: an initialiser or an index.
    fn bare_position(&self, which: Position, axis: u8) -> Piece {
        self.position(which, axis)
    }

    /// Name of the smaller or larger of two integers.
    fn integer_extremum(&self, op: Op) -> &'static str;

    /// A choice that is written in another way than with `?` and `:`.
    fn choice(&self, _cond: &Expr, _a: &Expr, _b: &Expr) -> Option<Piece> {
        None
    }

    fn var(&self, id: VarId) -> Piece {
        Piece::atom(self.kernel().var_name(id))
    }

    fn buffer(&self, id: BufferId) -> String {
        self.kernel().buffer_name(id)
    }

    /// An element that need not stay in a cache.
    fn load_once(&self, element: String) -> String {
        element
    }

    fn int(&self, value: i64, wide: bool) -> Piece {
        Piece::number(numbers::int(value, wide))
    }

    fn cast(&self, ty: Type, operand: Piece) -> Piece {
        let ty = type_name(ty, self.kernel().index);
        Piece::new(format!("({ty}){}", operand.unsigned(Strength::Unary)), Strength::Unary)
    }

    fn function(&self, function: Math, ty: Type) -> String {
        let name = match function {
            Math::Sqrt => "sqrt",
            Math::Exp => "exp",
            Math::Log => "log",
            Math::Sin => "sin",
            Math::Cos => "cos",
            Math::Tan => "tan",
            Math::Tanh => "tanh",
            Math::Abs => "fabs",
            Math::Floor => "floor",
            Math::Pow => "pow",
            Math::Fma => "fma",
            Math::Reciprocal => "reciprocal",
            Math::IsFinite => "isfinite",
        };
        with_suffix(name, ty)
    }

    fn real_extremum(&self, op: Op, ty: Type) -> String {
        with_suffix(if op == Op::Min { "fmin" } else { "fmax" }, ty)
    }

    /// A truth value as a real.
    fn is_finite(&self, argument: String, ty: Type) -> Piece {
        let (one, zero) = if ty == Type::F32 { ("1.0f", "0.0f") } else { ("1.0", "0.0") };
        Piece::new(format!("isfinite({argument}) ? {one} : {zero}"), Strength::Ternary)
    }

    /// 1 / a.
    fn reciprocal(&self, argument: Piece, ty: Type) -> Piece {
        let one = if ty == Type::F32 { "1.0f" } else { "1.0" };
        Piece::new(format!("{one} / {}", argument.at_least(Strength::Unary)), Strength::Product)
    }

    /// Whether integers of the kernel are wider than `int`, so that narrow operands need care.
    fn widens(&self) -> bool {
        self.kernel().index == IndexWidth::I64
    }
}

fn with_suffix(name: &str, ty: Type) -> String {
    let suffix = if ty == Type::F32 { "f" } else { "" };
    format!("{name}{suffix}")
}

/// The C name of a type.
pub(crate) fn type_name(ty: Type, index: IndexWidth) -> &'static str {
    match (ty, index) {
        (Type::F32, _) => "float",
        (Type::F64, _) => "double",
        (Type::Bool, _) => "bool",
        (Type::Int, IndexWidth::I32) => "int",
        (Type::Int, IndexWidth::I64) => "long long",
    }
}

/// The C name of an element type.
pub(crate) fn element_name(element: Element) -> &'static str {
    match element {
        Element::F32 => "float",
        Element::F64 => "double",
        Element::I16 => "short",
        Element::U16 => "unsigned short",
        Element::I32 => "int",
        Element::U32 => "unsigned int",
        Element::I64 => "long long",
    }
}

/// An expression on its own.
pub(crate) fn full(dialect: &dyn Dialect, expr: &Expr) -> String {
    piece(dialect, expr).text
}

/// An expression where its value is converted to a given type anyway: conversions of the language can be left out.
pub(crate) fn converted(dialect: &dyn Dialect, expr: &Expr) -> String {
    match expr {
        Expr::Lane(axis) => dialect.bare_position(Position::Lane, *axis).text,
        Expr::Block(axis) => dialect.bare_position(Position::Block, *axis).text,
        Expr::Load(buffer, index) => loaded(dialect, *buffer, index),
        _ => full(dialect, expr),
    }
}

/// `buffer[index]`.
pub(crate) fn element(dialect: &dyn Dialect, buffer: BufferId, index: &Expr) -> String {
    format!("{}[{}]", dialect.buffer(buffer), converted(dialect, index))
}

/// An expression with the strength of its outermost operator.
pub(crate) fn piece(dialect: &dyn Dialect, expr: &Expr) -> Piece {
    match expr {
        Expr::Real(value, ty) => match numbers::real(*value, *ty) {
            Some(text) => Piece::number(text),
            None => dialect.special(*value, *ty),
        },
        Expr::Int(value) => dialect.int(*value, false),
        Expr::Bool(value) => Piece::atom(value.to_string()),
        Expr::Var(id) => dialect.var(*id),
        Expr::Lane(axis) => dialect.position(Position::Lane, *axis),
        Expr::Block(axis) => dialect.position(Position::Block, *axis),
        Expr::Load(buffer, index) => load(dialect, *buffer, index),
        Expr::Neg(a) => Piece::new(format!("-{}", piece(dialect, a).unsigned(Strength::Unary)), Strength::Unary),
        Expr::Not(a) => Piece::new(format!("!{}", piece(dialect, a).at_least(Strength::Unary)), Strength::Unary),
        Expr::Binary(op, a, b) => binary(dialect, *op, a, b),
        Expr::Compare(cmp, a, b) => compare(dialect, *cmp, a, b),
        Expr::Select(cond, a, b) => select(dialect, cond, a, b),
        Expr::Call(function, args) => call(dialect, *function, args),
        Expr::Cast(ty, a) => dialect.cast(*ty, piece(dialect, a)),
    }
}

/// Unsigned and narrow integers become integers of the kernel's width before they take part in arithmetic.
/// `buffer[index]` where it is read.
fn loaded(dialect: &dyn Dialect, buffer: BufferId, index: &Expr) -> String {
    let place = element(dialect, buffer, index);
    match dialect.kernel().buffers.get(buffer.0) {
        Some(of) if of.access == Access::ReadOnce => dialect.load_once(place),
        _ => place,
    }
}

fn load(dialect: &dyn Dialect, buffer: BufferId, index: &Expr) -> Piece {
    let loaded = Piece::atom(loaded(dialect, buffer, index));
    let kernel = dialect.kernel();
    let stored = kernel.buffers.get(buffer.0).map(|buffer| buffer.element);
    let converts = match stored {
        Some(Element::U32) => true,
        Some(Element::I16 | Element::U16 | Element::I32) => kernel.index == IndexWidth::I64,
        Some(Element::I64) => kernel.index == IndexWidth::I32,
        Some(Element::F32 | Element::F64) | None => false,
    };
    if converts { dialect.cast(Type::Int, loaded) } else { loaded }
}

fn binary(dialect: &dyn Dialect, op: Op, a: &Expr, b: &Expr) -> Piece {
    let (symbol, strength, right) = match op {
        Op::Add => ("+", Strength::Sum, Strength::Product),
        Op::Sub => ("-", Strength::Sum, Strength::Product),
        Op::Mul => ("*", Strength::Product, Strength::Unary),
        Op::Div => ("/", Strength::Product, Strength::Unary),
        Op::Rem => ("%", Strength::Product, Strength::Unary),
        Op::And | Op::Or => return logic(dialect, op, a, b),
        Op::Min | Op::Max => return extremum(dialect, op, a, b),
    };
    if let (Op::Add | Op::Sub, Some(positive)) = (op, opposite(b)) {
        // x + -1 is x - 1, exactly, in integers and reals.
        return binary(dialect, if op == Op::Add { Op::Sub } else { Op::Add }, a, &positive);
    }
    let (left, b) = operands(dialect, a, b);
    let left = left.at_least(strength);
    let right = if strength == Strength::Sum { b.unsigned(right) } else { b.at_least(right) };
    Piece::new(format!("{left} {symbol} {right}"), strength)
}

/// A negative literal without its sign.
fn opposite(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Int(value) if *value < 0 && *value > i64::from(i32::MIN) => Some(Expr::Int(-value)),
        Expr::Real(value, ty) if *value < 0.0 && value.is_finite() => Some(Expr::Real(-value, *ty)),
        _ => None,
    }
}

/// Both operands, the left one widened if C would compute in `int`.
fn operands(dialect: &dyn Dialect, a: &Expr, b: &Expr) -> (Piece, Piece) {
    let left = if dialect.widens() && is_narrow(a) && is_narrow(b) { wide(dialect, a) } else { piece(dialect, a) };
    (left, piece(dialect, b))
}

/// Whether C gives the text of an integer the type `int` in a 64-bit kernel.
fn is_narrow(expr: &Expr) -> bool {
    match expr {
        Expr::Int(value) => i32::try_from(*value).is_ok(),
        Expr::Neg(a) => is_narrow(a),
        Expr::Select(_, a, b) => is_narrow(a) && is_narrow(b),
        _ => false,
    }
}

fn wide(dialect: &dyn Dialect, expr: &Expr) -> Piece {
    match expr {
        Expr::Int(value) => dialect.int(*value, true),
        _ => dialect.cast(Type::Int, piece(dialect, expr)),
    }
}

/// `&&` within `||` keeps its parentheses: compilers ask for them, and so do readers.
fn logic(dialect: &dyn Dialect, op: Op, a: &Expr, b: &Expr) -> Piece {
    let (symbol, strength) = if op == Op::And { ("&&", Strength::And) } else { ("||", Strength::Or) };
    let side = |expr: &Expr| match expr {
        Expr::Binary(Op::And, ..) if op == Op::Or => format!("({})", full(dialect, expr)),
        _ => piece(dialect, expr).at_least(strength),
    };
    Piece::new(format!("{} {symbol} {}", side(a), side(b)), strength)
}

fn extremum(dialect: &dyn Dialect, op: Op, a: &Expr, b: &Expr) -> Piece {
    let ty = dialect.kernel().type_of(a);
    if ty != Type::Int {
        let (a, b) = (full(dialect, a), full(dialect, b));
        return Piece::atom(format!("{}({a}, {b})", dialect.real_extremum(op, ty)));
    }
    // Overloads are chosen by both arguments, which must therefore have one type.
    let side =
        |expr: &Expr| if dialect.widens() && is_narrow(expr) { wide(dialect, expr) } else { piece(dialect, expr) };
    Piece::atom(format!("{}({}, {})", dialect.integer_extremum(op), side(a).text, side(b).text))
}

fn compare(dialect: &dyn Dialect, cmp: Cmp, a: &Expr, b: &Expr) -> Piece {
    // The truth value itself, not its comparison with a number.
    if let (Expr::Call(Math::IsFinite, args), Expr::Real(0.0, _), Cmp::Eq | Cmp::Ne) = (a, b, cmp)
        && let [argument] = &args[..]
    {
        let not = if cmp == Cmp::Eq { "!" } else { "" };
        return Piece::new(format!("{not}isfinite({})", full(dialect, argument)), Strength::Unary);
    }
    let (symbol, strength) = match cmp {
        Cmp::Lt => ("<", Strength::Order),
        Cmp::Le => ("<=", Strength::Order),
        Cmp::Gt => (">", Strength::Order),
        Cmp::Ge => (">=", Strength::Order),
        Cmp::Eq => ("==", Strength::Equality),
        Cmp::Ne => ("!=", Strength::Equality),
    };
    // A negated truth value beside a comparison reads as if the comparison were negated. A position needs no
    // conversion beside a number that is not negative.
    let side = |expr: &Expr, other: &Expr| match (expr, other) {
        (Expr::Not(_), _) => format!("({})", full(dialect, expr)),
        (Expr::Lane(_) | Expr::Block(_), Expr::Int(0..)) => converted(dialect, expr),
        _ => piece(dialect, expr).at_least(Strength::Sum),
    };
    Piece::new(format!("{} {symbol} {}", side(a, b), side(b, a)), strength)
}

fn select(dialect: &dyn Dialect, cond: &Expr, a: &Expr, b: &Expr) -> Piece {
    if let Some(piece) = dialect.choice(cond, a, b) {
        return piece;
    }
    let cond = piece(dialect, cond).at_least(Strength::Or);
    let chosen = piece(dialect, a).at_least(Strength::Or);
    Piece::new(format!("{cond} ? {chosen} : {}", full(dialect, b)), Strength::Ternary)
}

fn call(dialect: &dyn Dialect, function: Math, args: &[Expr]) -> Piece {
    let ty = args.first().map_or(Type::F64, |arg| dialect.kernel().type_of(arg));
    if let (Math::Reciprocal, [argument]) = (function, args) {
        return dialect.reciprocal(piece(dialect, argument), ty);
    }
    let texts: Vec<String> = args.iter().map(|arg| full(dialect, arg)).collect();
    let args = texts.join(", ");
    match function {
        Math::IsFinite => dialect.is_finite(args, ty),
        _ => Piece::atom(format!("{}({args})", dialect.function(function, ty))),
    }
}
