//! The checked program: what every later stage works on.
//!
//! A [`Program`] is total: names are resolved to ids, every expression has a type, every offset is known, every boundary
//! side has a rule. Lowering may index without checking. Text survives only for people: `doc` (from `///`), `text` (the
//! statement as the pretty printer writes it) and [`Span`].
//!
//! # Positions
//! The letters of a grid (`i`, `j`, `k`) name the point a value belongs to, or, for a value on faces such as `X[i+1/2]`,
//! the point on the low side of the face. All offsets here are whole steps of the letters, relative to the *declared*
//! position: for `let rf[k+1/2]`, the reading `rf[k-1/2]` has shift -1 and `rf[k+1/2]`, or a bare `rf` in another value on
//! the same faces, has shift 0; for a cell value `u[k+1]` has shift 1. So a definition at a shift is `k := k + shift`.

mod format;
pub mod system;
mod uses;

use crate::source::Span;
pub use format::{Base, Coding, Format, Height, Level, Order, Origin, Padding};

/// At most three axes; shifts of absent axes are zero. Axis 0 is the fastest in memory.
pub type Shift = [i32; 3];

/// A whole source file after checking.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Name of the file, for messages.
    pub file: String,
    /// Operators in source order.
    pub operators: Vec<Operator>,
    /// Solvers in source order, then those of the library that the problems use.
    pub solvers: Vec<Solver>,
    /// Problems in source order.
    pub problems: Vec<Problem>,
    /// Formats of sparse matrices in source order; those of the library are in [`crate::library`].
    pub formats: Vec<Format>,
    /// Systems in source order, then those of the library that the problems use.
    pub systems: Vec<system::System>,
    /// Time steps in source order, then those of the library that the problems use.
    pub steps: Vec<system::TimeStep>,
    /// Problems of systems in source order.
    pub runs: Vec<system::Run>,
}

/// A linear (affine) operator on a structured grid.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// Where it is declared (its name).
    pub span: Span,
    /// Whether values live on cells or on nodes.
    pub centring: Centring,
    /// Axes, fastest first.
    pub axes: Vec<Axis>,
    /// Run-time arguments.
    pub params: Vec<Param>,
    /// Arrays from outside.
    pub data: Vec<Data>,
    /// Named values in order of definition: a `let` reads only earlier ones.
    pub lets: Vec<Let>,
    /// Fluxes in order of definition.
    pub fluxes: Vec<Flux>,
    /// Names of the unknowns (components), in the order of `apply (u, v) => …`.
    pub unknowns: Vec<String>,
    /// One expression per unknown: its row of the operator, at the unknown's own point.
    pub apply: Vec<Applied>,
    /// The rule outside, per axis: low side, high side.
    pub boundary: Vec<[Rule; 2]>,
    /// Points that take part, if not all: nonzero where the point is active.
    pub mask: Option<Expr>,
    /// A declared null space.
    pub nullspace: Option<NullSpace>,
    /// What the author claims; to be proved, tested or reported as assumed.
    pub claims: Vec<Claim>,
}

/// Where unknowns live along every axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Centring {
    /// `n` cells; boundaries are the faces -1/2 and n-1/2.
    Cells,
    /// `n` nodes with unknowns; a Dirichlet boundary node is outside (-1 and n).
    Nodes,
}

/// One axis: `i: nx`.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Index letter, `i`.
    pub letter: String,
    /// Name of the size, `nx`.
    pub size: String,
    /// Where it is declared.
    pub span: Span,
}

/// A run-time argument of an operator or solver; changing it never recompiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// `param lambda = 0.1`.
    pub default: Option<f64>,
    /// Where it is declared.
    pub span: Span,
}

/// An array from outside: `data kappa[i, j, k] outside mirror`.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// Axes it depends on, ascending; extents are the axis sizes, plus one along a half axis.
    pub axes: Vec<usize>,
    /// Axis along which it lives on faces: `data kx[i+1/2, j]` holds n + 1 values, faces -1/2 … n-1/2.
    pub half: Option<usize>,
    /// What is read outside the array.
    pub outside: Outside,
    /// Where it is declared.
    pub span: Span,
}

/// Values of a data array outside its extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outside {
    /// Every reading is inside (checked for the declared boundaries).
    Error,
    /// Mirrored at the boundary face: `a[-1-t] = a[t]`.
    Mirror,
    /// The nearest value inside.
    Clamp,
    /// Index modulo n (what periodic axes do by themselves).
    Periodic,
    /// Zero.
    Zero,
}

/// `let rc[k] = …;`
#[derive(Debug, Clone, PartialEq)]
pub struct Let {
    /// Name in the source.
    pub name: String,
    /// Axis along which it lives on faces, if any.
    pub half: Option<usize>,
    /// Which axes it depends on, inferred; always the one on whose faces it lives.
    pub depends: [bool; 3],
    /// Whether it depends on an unknown (then it is substituted, never tabulated).
    pub on_unknown: bool,
    /// Definition, in terms of the letters at its own position.
    pub value: Expr,
    /// The statement, pretty printed.
    pub text: String,
    /// Where it is declared.
    pub span: Span,
}

/// `flux X[i+1/2] = …;` — one value per face, shared by both neighbours.
///
/// On a `no_flux` side the value on the boundary face is zero. On a periodic axis the letter along the axis is
/// taken modulo n before the definition is evaluated, so that face -1/2 *is* face n-1/2.
#[derive(Debug, Clone, PartialEq)]
pub struct Flux {
    /// Name in the source.
    pub name: String,
    /// The axis its faces are normal to.
    pub axis: usize,
    /// Definition, in terms of the letters at the face's low side.
    pub value: Expr,
    /// The statement, pretty printed.
    pub text: String,
    /// Where it is declared.
    pub span: Span,
}

/// The right side of `apply` for one unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The row.
    pub value: Expr,
    /// The statement, pretty printed.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// The value outside one side of one axis, as `s * u[m] + g`; see docs/LANGUAGE.md.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// s = 1, mirrored at the boundary face; fluxes through it are zero.
    NoFlux,
    /// Cells: s = -1, g = 2·value, mirrored at the boundary face. Nodes: s = 0, g = value.
    /// The expression may depend on the other axes, not on this one.
    Dirichlet(Expr),
    /// Index modulo n (always both sides of an axis).
    Periodic,
}

/// A null space declared by the author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullSpace {
    /// Constant vectors.
    Constant,
    /// `nullspace none`: overrides recognition.
    None,
}

/// `claim symmetric, positive_definite;`
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// What is claimed.
    pub fact: Fact,
    /// Where.
    pub span: Span,
}

/// A property of an operator, claimed of an operator or required by a solver of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// A = Aᵀ.
    Symmetric,
    /// (v, A v) > 0 for v != 0 (outside the null space).
    PositiveDefinite,
    /// Only positive pivots and non-positive couplings.
    MMatrix,
}

/// A real expression at a point of the grid. All arithmetic is real: `1/2` is one half.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// Kinds of [`Expr`].
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A literal or a named constant (`pi`).
    Number(f64),
    /// The size of an axis, `nx`.
    Size(usize),
    /// The letter of an axis as a number.
    Index(usize),
    /// A parameter, by position in `params`.
    Param(usize),
    /// A named value at a shift.
    Let(usize, Shift),
    /// A data array at a shift.
    Data(usize, Shift),
    /// An unknown at a shift.
    Unknown(usize, Shift),
    /// A flux at a shift; `div(X)` is `X[+1/2] - X[-1/2]`, that is shifts 0 and -1.
    Flux(usize, Shift),
    /// `-a`.
    Neg(Box<Expr>),
    /// `a op b`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `f(a, …)` with the right number of arguments.
    Call(Function, Vec<Expr>),
    /// `if c { a } else { b }`; only the chosen side counts.
    If(Box<Condition>, Box<Expr>, Box<Expr>),
}

/// Arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    /// a + b
    Add,
    /// a - b
    Sub,
    /// a * b
    Mul,
    /// a / b
    Div,
}

/// Built-in functions; the number of arguments is [`Function::arity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Function {
    Sqrt,
    Exp,
    Log,
    Sin,
    Cos,
    Tan,
    Tanh,
    Abs,
    Floor,
    Pow,
    Min,
    Max,
}

/// A condition of an operator's `if`; it never depends on an unknown.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// Comparison of two reals.
    Compare(CompareOp, Expr, Expr),
    /// Both.
    And(Box<Condition>, Box<Condition>),
    /// Either.
    Or(Box<Condition>, Box<Condition>),
    /// Not.
    Not(Box<Condition>),
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CompareOp {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

/// A Krylov (or other) loop over vectors and scalars.
#[derive(Debug, Clone, PartialEq)]
pub struct Solver {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// Where it is declared.
    pub span: Span,
    /// `A: spd, M: spd`: operator 0 is the system; a second one is the preconditioner, used as `inv(M)`.
    pub operators: Vec<OperatorArg>,
    /// Numbers the problem may set, `param omega = 1;`.
    pub params: Vec<Param>,
    /// Variables; [`Solver::SOLUTION`] is `u` and [`Solver::RHS`] is `f`.
    pub variables: Vec<Variable>,
    /// Sequential statements.
    pub body: Vec<Statement>,
}

impl Solver {
    /// The solution, the guess at the start.
    pub const SOLUTION: VarId = VarId(0);
    /// The right-hand side; never written.
    pub const RHS: VarId = VarId(1);
}

/// An operator a solver takes.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorArg {
    /// Name in the source.
    pub name: String,
    /// What the solver needs it to be (`spd` is symmetric and positive definite).
    pub requires: Vec<Fact>,
    /// Where it is declared.
    pub span: Span,
}

/// Index into [`Solver::variables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub usize);

/// A variable of a solver.
#[derive(Debug, Clone, PartialEq)]
pub struct Variable {
    /// Name in the source.
    pub name: String,
    /// Vector or scalar, fixed by the first assignment.
    pub kind: Kind,
    /// First assignment.
    pub span: Span,
}

/// Type of a solver value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A real number on the device, f64.
    Scalar,
    /// A vector of the unknown's space.
    Vector,
}

/// A statement with its text and place.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// The statement, pretty printed on one line (without bodies).
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// Kinds of [`Statement`].
#[derive(Debug, Clone, PartialEq)]
pub enum StatementKind {
    /// `v = vector;` or, for a copy, an alias.
    AssignVector(VarId, Vector),
    /// `s = scalar;`
    AssignScalar(VarId, Scalar),
    /// `residual r = …;`: assigns, and is what the runtime recomputes to verify a claimed convergence.
    Residual(VarId, Vector),
    /// `converge when measure <= bound;`: declares the test; tested here too (before the first step).
    Converge {
        /// Left side, recorded as the history.
        measure: Scalar,
        /// Right side.
        bound: Scalar,
    },
    /// `check;`: the convergence test happens here.
    Check,
    /// `require c else outcome;`
    Require(ScalarCondition, Outcome),
    /// `if c { … } else { … }` on scalars.
    If(ScalarCondition, Vec<Statement>, Vec<Statement>),
    /// `every n { … }`: on iterations n, 2n, … of the enclosing loop.
    Every(u32, Vec<Statement>),
    /// `repeat { … }` (left through a check or require) or `repeat n times { … }`.
    Repeat(Option<u32>, Vec<Statement>),
}

/// Outcomes a solver may name in `require … else outcome`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Outcome {
    IndefiniteOperator,
    IndefinitePreconditioner,
    Breakdown,
    Diverged,
}

/// A vector expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Vector {
    /// A variable (including `u` and `f`).
    Var(VarId),
    /// The literal `0` used as a vector.
    Zero,
    /// `random(seed)`: uniform in [-1/2, 1/2), the same on every back end.
    Random(u64),
    /// `A*v`.
    Apply(usize, Box<Vector>),
    /// `transpose(A)*v`.
    ApplyTranspose(usize, Box<Vector>),
    /// `inv(M)*v`.
    Solve(usize, Box<Vector>),
    /// `s*v`.
    Scale(Scalar, Box<Vector>),
    /// `-v`.
    Neg(Box<Vector>),
    /// `v + w`.
    Add(Box<Vector>, Box<Vector>),
    /// `v - w`.
    Sub(Box<Vector>, Box<Vector>),
}

/// A scalar expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A literal.
    Number(f64),
    /// A variable.
    Var(VarId),
    /// A parameter of the solver.
    Param(usize),
    /// `tolerance`, given by the problem.
    Tolerance,
    /// `iteration`: 0 before the loop, then 1, 2, …
    Iteration,
    /// `dot(v, w)`.
    Dot(Box<Vector>, Box<Vector>),
    /// `norm(v)`: Euclidean.
    Norm(Box<Vector>),
    /// `norm_max(v)`: largest absolute value.
    NormMax(Box<Vector>),
    /// `-a`.
    Neg(Box<Scalar>),
    /// `a op b`.
    Binary(BinaryOp, Box<Scalar>, Box<Scalar>),
    /// `f(a, …)`.
    Call(Function, Vec<Scalar>),
}

/// A condition on scalars.
#[derive(Debug, Clone, PartialEq)]
pub enum ScalarCondition {
    /// Comparison.
    Compare(CompareOp, Scalar, Scalar),
    /// Both.
    And(Box<ScalarCondition>, Box<ScalarCondition>),
    /// Either.
    Or(Box<ScalarCondition>, Box<ScalarCondition>),
    /// Not.
    Not(Box<ScalarCondition>),
}

/// Everything the command needs to solve one system.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// Where it is declared.
    pub span: Span,
    /// Index into [`Program::operators`].
    pub operator: usize,
    /// One size per axis.
    pub sizes: Vec<usize>,
    /// One per parameter of the operator, of numbers, sizes and parameters before it: see [`Problem::parameters`].
    pub params: Vec<Expr>,
    /// One source per data array.
    pub data: Vec<Source>,
    /// Right-hand side, one source per unknown.
    pub rhs: Vec<Source>,
    /// Initial guess, one source per unknown.
    pub guess: Vec<Source>,
    /// Index into [`Program::solvers`].
    pub solver: usize,
    /// One value per parameter of the solver.
    pub solver_params: Vec<f64>,
    /// Preconditioner (identity for solvers that take one operator only).
    pub preconditioner: Preconditioner,
    /// Where it is chosen; the problem's name if it is not.
    pub preconditioner_span: Span,
    /// What the solver calls `tolerance`.
    pub tolerance: f64,
    /// Iteration limit.
    pub iterations: u32,
    /// Precision of vectors.
    pub precision: Precision,
}

/// Where the values of an array come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// An expression of the operator's letters, sizes, parameters and lets without data or unknowns.
    Expr(Expr),
    /// `random(seed)`.
    Random(u64),
    /// `file("f.npy", order = [k, j, i])`: slowest axis first, as stored in C order; axis numbers.
    File {
        /// Path, relative to the program's file.
        path: String,
        /// Axis numbers from slowest to fastest.
        order: Vec<usize>,
    },
}

/// How `inv(M)` is made.
#[derive(Debug, Clone, PartialEq)]
pub enum Preconditioner {
    /// M = 1.
    Identity,
    /// The diagonal of A.
    Jacobi,
    /// Couplings of A along one axis.
    Line(usize),
    /// The diagonal blocks of A of so many consecutive rows; for matrices.
    BlockJacobi(u32),
    /// One symmetric sweep of over-relaxation with this factor, colour after colour; for matrices.
    Ssor(f64),
    /// A fixed number of iterations of another solver on A z = r from z = 0.
    Inner {
        /// Index into [`Program::solvers`].
        solver: usize,
        /// One value per parameter of that solver.
        params: Vec<f64>,
        /// Iterations.
        iterations: u32,
        /// The inner solver's own preconditioner.
        preconditioner: Box<Preconditioner>,
    },
}

/// Precision of vectors and coefficients; scalars and sums are always f64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Precision {
    F32,
    F64,
    /// The solution and its residual in f64, the vectors of the loop in f32.
    Mixed,
}

impl Precision {
    /// The word of the language.
    pub fn word(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::F64 => "f64",
            Precision::Mixed => "mixed",
        }
    }
}
