//! The program as written: untyped, with a place for everything.
//!
//! Parentheses and comments are gone, documentation is kept. Nothing here is known to make sense; that is what
//! [`crate::check`] finds out.

use crate::source::{Source, Span};

/// A source file.
#[derive(Debug, Clone, Default)]
pub struct Ast {
    /// What it was read from.
    pub source: Source,
    /// Operators, solvers, problems and formats in source order.
    pub items: Vec<Item>,
}

/// A declaration at the top level.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its `///` lines.
    pub doc: String,
    /// Its name.
    pub name: Name,
    /// The rest.
    pub kind: ItemKind,
}

/// Kinds of [`Item`].
#[derive(Debug, Clone, PartialEq)]
pub enum ItemKind {
    /// `operator NAME { … }`
    Operator(Vec<Documented<Clause>>),
    /// `solver NAME(A: spd) { … }`
    Solver(Vec<Takes>, Vec<Documented<Step>>),
    /// `problem NAME { … }`
    Problem(Vec<Documented<Setting>>),
    /// `format NAME { … }`
    Format(Vec<Documented<Layout>>),
    /// `system NAME { … }`
    System(Vec<Documented<Part>>),
    /// `step NAME { … }`
    TimeStep(Vec<Documented<Stage>>),
}

/// A statement with its `///` lines and place.
#[derive(Debug, Clone, PartialEq)]
pub struct Documented<T> {
    /// Its `///` lines, empty if there are none.
    pub doc: String,
    /// From its first token to its last.
    pub span: Span,
    /// The statement.
    pub kind: T,
}

/// An identifier.
#[derive(Debug, Clone, PartialEq)]
pub struct Name {
    /// Its text.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// A letter with an offset: `i`, `j-1`, `k+1/2`.
#[derive(Debug, Clone, PartialEq)]
pub struct Position {
    /// The letter.
    pub letter: Name,
    /// Offset in halves of a step.
    pub halves: i32,
    /// The whole of it.
    pub span: Span,
}

/// A statement of an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Clause {
    /// `grid cells [i: nx, …];` — centring word, letters with sizes.
    Grid(Name, Vec<(Name, Name)>),
    /// `param omega, lambda = 0.1;`
    Param(Vec<(Name, Option<Expr>)>),
    /// `data kappa[i, j] outside mirror;`
    Data(Name, Vec<Position>, Option<Name>),
    /// `let x = …;` or `let rf[k+1/2] = …;`
    Let(Name, Option<Vec<Position>>, Expr),
    /// `flux X[i+1/2] = …;`
    Flux(Name, Vec<Position>, Expr),
    /// `mask …;`
    Mask(Expr),
    /// `apply u => …;` or `apply (u, v) => (…, …);`
    Apply(Vec<Name>, Vec<Expr>),
    /// `boundary i, low(j): no_flux;` — sides, rule, its argument.
    Boundary(Vec<Side>, Name, Option<Expr>),
    /// `nullspace constant;`
    Nullspace(Name),
    /// `claim symmetric, m_matrix;`
    Claim(Vec<Name>),
}

/// `i`, `low(i)` or `high(i)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// `low` or `high`; both if absent.
    pub end: Option<Name>,
    /// The letter.
    pub letter: Name,
}

/// `A: spd + m_matrix` of a solver's head.
#[derive(Debug, Clone, PartialEq)]
pub struct Takes {
    /// The operator's name.
    pub name: Name,
    /// Requirements, or `any`.
    pub requires: Vec<Name>,
}

/// A statement of a solver.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// `param omega = 1;`
    Param(Vec<(Name, Option<Expr>)>),
    /// `residual r = …;`
    Residual(Name, Expr),
    /// `converge when …;`
    Converge(Expr),
    /// `v = …;`
    Assign(Name, Expr),
    /// `check;`
    Check,
    /// `require … else outcome;`
    Require(Expr, Name),
    /// `if … { … } else { … }`
    If(Expr, Vec<Documented<Step>>, Vec<Documented<Step>>),
    /// `every n { … }`
    Every(Expr, Vec<Documented<Step>>),
    /// `repeat { … }` or `repeat n times { … }`
    Repeat(Option<Expr>, Vec<Documented<Step>>),
}

/// A statement of a problem: `key value;`, for one of several things `key name = value;` or `key name(tags) = value;`, for
/// boundaries `boundary tags: condition;`.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// `operator`, `data`, `rhs`, …
    pub key: Name,
    /// The array of `data`, the field of `initial`, …
    pub name: Option<Name>,
    /// Regions of a material or tags of a boundary: names or strings.
    pub tags: Vec<Expr>,
    /// The value.
    pub value: Expr,
}

/// A statement of a format.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// `rows sort(length, descending).chunk(32).pad(longest);` — steps, each a name or a call.
    Rows(Vec<Expr>),
    /// `store chunk, slot, lane;` — loops around an entry, the outermost first.
    Store(Vec<Name>),
    /// `lengths kept;`
    Lengths(Name),
    /// `index delta(u16, base = row, escape);`
    Index(Expr),
}

/// A statement of a system.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// `mesh tetrahedra;`
    Mesh(Name),
    /// `order N = 3;`
    Order(Name, Option<Expr>),
    /// `field E[3], p;`
    Field(Vec<Quantity>),
    /// `material epsilon = 1;`
    Material(Vec<Quantity>),
    /// `param c[3] = [1, 0, 0];`
    Param(Vec<Quantity>),
    /// `let Z = …;`
    Let(Name, Expr),
    /// `ddt E = …;`
    Ddt(Name, Expr),
    /// `source E = …;`
    Source(Name, Expr),
    /// `flux upwind { … }`
    Flux(Name, Vec<Documented<Entry>>),
    /// `boundary pec { … }`
    Boundary(Name, Vec<Documented<Entry>>),
    /// `step lserk4;`
    Step(Name),
}

/// `E[3] = [1, 0, 0]`: a name, how many components it has, and their values.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// The name.
    pub name: Name,
    /// The number in brackets.
    pub size: Option<Expr>,
    /// The value.
    pub default: Option<Expr>,
}

/// A statement of a numerical flux, boundary condition or stage.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// `let v = …;`
    Let(Name, Expr),
    /// `E = …;`
    Assign(Name, Expr),
    /// `exterior(E) = …;`
    Exterior(Name, Expr),
}

/// `stage 1/2 { k = dt*rate; u = u + k; }` of a time step.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Time of the rate, as a fraction of the step.
    pub time: Expr,
    /// Assignments.
    pub updates: Vec<Documented<Entry>>,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
}

/// Kinds of [`Expr`].
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A number as written and its value (finite).
    Number(String, f64),
    /// A string.
    Text(String),
    /// A name.
    Name(String),
    /// `name[i+1, k-1/2]`
    At(Name, Vec<Position>),
    /// `name(a, key = b)`
    Call(Name, Vec<Argument>),
    /// `(a, b)`: one value for each unknown.
    Tuple(Vec<Expr>),
    /// `[k, j, i]`
    List(Vec<Expr>),
    /// `-a` or `!a`
    Unary(Unary, Box<Expr>),
    /// `a op b`
    Binary(Binary, Box<Expr>, Box<Expr>),
    /// `if c { a } else { b }`
    If(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// An argument of a call, named or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// `seed` of `seed = 1`.
    pub name: Option<Name>,
    /// The value.
    pub value: Expr,
}

/// Prefix operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Unary {
    Neg,
    Not,
}

/// Infix operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Binary {
    Or,
    And,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    Add,
    Sub,
    Mul,
    Div,
}

impl Binary {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Binary::Or => "||",
            Binary::And => "&&",
            Binary::Lt => "<",
            Binary::Le => "<=",
            Binary::Gt => ">",
            Binary::Ge => ">=",
            Binary::Eq => "==",
            Binary::Ne => "!=",
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::Div => "/",
        }
    }

    /// How tightly it binds; operators of one level associate to the left.
    pub fn level(self) -> u8 {
        match self {
            Binary::Or => 1,
            Binary::And => 2,
            Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge | Binary::Eq | Binary::Ne => 3,
            Binary::Add | Binary::Sub => 4,
            Binary::Mul | Binary::Div => 5,
        }
    }

    /// The operator written `symbol`.
    pub fn of_symbol(symbol: &str) -> Option<Binary> {
        use Binary::*;
        [Or, And, Lt, Le, Gt, Ge, Eq, Ne, Add, Sub, Mul, Div].into_iter().find(|operator| operator.symbol() == symbol)
    }
}
