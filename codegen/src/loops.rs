//! Loop IR: a whole solve as sweeps over the space and fences between them.
//!
//! A *sweep* passes once over all points (or lines) and computes values there from vectors; a *fence* finishes the
//! sums of the sweeps before it in a fixed order, runs scalar statements and may raise the status word. Vectors live
//! in numbered *versions* so that a sweep may read one and write another; [`Control::Rotate`] renames them.
//!
//! # Evaluation
//! A [`Value`] is defined at every point. It can be evaluated at the sweep's own point, or *at a neighbour* when an
//! [`ValueKind::Apply`] reads it there: then its definition is evaluated at the neighbour (recomputed), down to loads.
//! A [`ValueKind::Solve`] couples the points of a line: it is evaluated once per line and exists on the sweep's own
//! line only.
//!
//! # Sections
//! `prepare` (once per right-hand side), `start` (statements before the loop), `body` (the loop and what follows),
//! `residual` (recomputes the true residual and the scalars of the test, replacing the recursive residual),
//! `finish` (what an exit must fix up). The driver runs them; while the status word is not zero all sweeps and fences
//! of the device are no-ops, so a loop may be run past its end.
//!
//! # Exits
//! A statement that raises the status word ends its fence: later statements of the fence do not run. Inside the main
//! loop buffers turn over ([`Control::Rotate`]) at the end of a round only. A driver that runs rounds ahead of the
//! device therefore goes back, when it finds the status raised in round n (the word beside the status), to the
//! versions as they were when round n began; raised in `start`, to those of the start; not raised, it keeps the
//! versions after the last round. Then it clears the status and runs `finish`, after which version 0 of the solution
//! is the solution, and `residual`. To go on it runs `prepare`, which sets the iteration to 0 and forgets what the loop
//! still owed, and `start` again, which begins from that solution; the driver adds the iterations up.
//!
//! # Invariants (checked by `loops_verify`)
//! - values are in order: each reads earlier ones; granule `Point` has no `Solve`, granule `Line(a)` only solves along a;
//! - a version loaded at a neighbour, directly or through values, is not stored by the same sweep;
//! - a version loaded at the own point and stored by the same sweep is loaded before it is stored (a sweep loads all
//!   it needs at a point, or line, before it stores there);
//! - each (vector, version) is stored at most once per sweep; f and data are never stored, a random vector only by a
//!   sweep that puts zeros outside the mask where it is;
//! - a scalar is read by a sweep only after the fence that assigns it; each sum belongs to one sweep and one fence
//!   that follows it;
//! - values read at neighbours contain no `Solve`, no `Apply` and no `Along`.

use kernelwright_syntax::program::{CompareOp, Function, Outcome};

pub use kernelwright_syntax::program::BinaryOp;

/// A scheduled solve.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// Name of the solver and of the schedule.
    pub name: String,
    /// The operator (its space is the space of all vectors).
    pub operator: crate::math::Operator,
    /// Vectors, by [`VectorId`].
    pub vectors: Vec<Vector>,
    /// Scalars, by [`ScalarId`]; f64 on the device. The first ones are [`ScalarId::TOLERANCE`] and so on.
    pub scalars: Vec<String>,
    /// Solver parameters, read by scalar programs ([`ScalarExpr::Param`]).
    pub solver_params: Vec<String>,
    /// Partial sums, by [`SumId`]: how they are combined.
    pub sums: Vec<SumKind>,
    /// Sweeps, by [`SweepId`].
    pub sweeps: Vec<Sweep>,
    /// Fences, by [`FenceId`].
    pub fences: Vec<Fence>,
    /// What a failing `require` means, by number; status word [`status::REQUIRE`] + number.
    pub requires: Vec<RequireInfo>,
    /// Once per right-hand side: f minus the affine part, projection on the range, norms.
    pub prepare: Vec<Control>,
    /// Before the loop, the first test included.
    pub start: Vec<Control>,
    /// The loop.
    pub body: Vec<Control>,
    /// True residual into the residual vector, then [`ScalarId::MEASURE`] and [`ScalarId::BOUND`] anew, and
    /// [`ScalarId::ATTAINABLE`].
    pub residual: Vec<Control>,
    /// After the loop: delayed updates, projection of the solution.
    pub finish: Vec<Control>,
}

/// Values of the status word.
pub mod status {
    /// The loop goes on.
    pub const RUNNING: i32 = 0;
    /// A check was met.
    pub const CONVERGED: i32 = 1;
    /// A checked measure or a sum is infinite or NaN.
    pub const NOT_FINITE: i32 = 2;
    /// The right-hand side is not in the range of a singular operator.
    pub const INCOMPATIBLE: i32 = 3;
    /// A predicted scalar parted from the one it stands for: the loop should start over from the solution it has.
    pub const PARTED: i32 = 4;
    /// 16 + number of the `require` that failed.
    pub const REQUIRE: i32 = 16;
}

/// Where a `require` stands and what it means.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct RequireInfo {
    pub outcome: Outcome,
    pub text: String,
    pub line: u32,
}

/// Index into [`Program::vectors`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VectorId(pub usize);
/// Index into [`Program::scalars`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScalarId(pub usize);
/// Index into [`Program::sums`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SumId(pub usize);
/// Index into [`Program::sweeps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SweepId(pub usize);
/// Index into [`Program::fences`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FenceId(pub usize);
/// Index into [`Sweep::values`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub usize);

impl ScalarId {
    /// The problem's tolerance; written by the driver.
    pub const TOLERANCE: ScalarId = ScalarId(0);
    /// Iteration of the outermost loop, advanced by a fence; 0 before it.
    pub const ITERATION: ScalarId = ScalarId(1);
    /// Left side of the convergence test at the last check (or true-residual section).
    pub const MEASURE: ScalarId = ScalarId(2);
    /// Right side of the convergence test, likewise.
    pub const BOUND: ScalarId = ScalarId(3);
    /// Estimate of the measure that rounding allows (set by the `residual` section).
    pub const ATTAINABLE: ScalarId = ScalarId(4);
    /// Number of reserved scalars.
    pub const RESERVED: usize = 5;
}

/// A vector of the operator's space.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector {
    /// Name in the program.
    pub name: String,
    /// Role.
    pub role: Role,
    /// Number of buffers it owns.
    pub versions: u32,
}

/// Role of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The right-hand side as given; never written.
    Rhs,
    /// The unknown; given at the start, taken at the end.
    Solution,
    /// Filled by the driver once: `random(seed)`. `prepare` makes it zero outside the mask; doing so again changes nothing.
    Random(u64),
    /// Everything else.
    Work,
}

/// A buffer of a vector: the version `ahead` steps after the current one, modulo their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Version {
    pub vector: VectorId,
    pub ahead: u32,
}

/// Combination of partial sums; always f64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SumKind {
    /// Addition in a fixed order.
    Add,
    /// Largest value (NaN wins).
    Max,
}

/// One pass over all points.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Identifier, from what it computes (`update_u_r`).
    pub name: String,
    /// The statements it carries out, for quoting.
    pub text: Vec<String>,
    /// What is visited as a unit.
    pub granule: Granule,
    /// Values in order of definition.
    pub values: Vec<Value>,
    /// What is stored at the own point.
    pub stores: Vec<Store>,
    /// What is summed over all points.
    pub sums: Vec<Sum>,
    /// Runs only where this scalar is nonzero.
    pub predicate: Option<ScalarId>,
}

/// Unit of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Granule {
    /// One point after another, in any order.
    Point,
    /// All points of a line along an axis together.
    Line(usize),
}

/// A value at every point (all components).
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Name in the program, or its role.
    pub name: String,
    /// Definition.
    pub kind: ValueKind,
    /// The statement it comes from, if it is a named one.
    pub text: Option<String>,
}

/// Definitions of values.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueKind {
    /// The stored vector.
    Load(Version),
    /// Pointwise arithmetic.
    Map(PointExpr),
    /// The operator (linear reading) on a value.
    Apply(ValueId),
    /// The affine part of the operator.
    AffinePart,
    /// The magnitude reading of the operator on a value.
    Magnitude(ValueId),
    /// Solution of the operator's part along an axis (couplings along it only), per line, with the value as right side.
    Solve(usize, ValueId),
    /// The operator's part along an axis on a value: what [`ValueKind::Solve`] undoes.
    Along(usize, ValueId),
    /// The value divided by the operator's diagonal.
    Diagonal(ValueId),
    /// A companion of a matrix on a value.
    Companion {
        /// Index into [`Rows::companions`](crate::math::Rows).
        number: usize,
        /// The scalar that says which rows have their turn; the others give zero. None if all do.
        step: Option<ScalarId>,
        /// The value.
        operand: ValueId,
    },
    /// The value at points that take part, zero outside the operator's mask, whatever the value is there.
    Inside(ValueId),
}

impl ValueKind {
    /// Whether the value reads its operand at neighbours.
    pub fn gathers(&self) -> bool {
        matches!(
            self,
            ValueKind::Apply(_) | ValueKind::Magnitude(_) | ValueKind::Along(..) | ValueKind::Companion { .. }
        )
    }
}

/// Pointwise expressions, in the working precision; scalars are converted to it where they are read.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum PointExpr {
    Value(ValueId),
    Scalar(ScalarId),
    Number(f64),
    Neg(Box<PointExpr>),
    Binary(BinaryOp, Box<PointExpr>, Box<PointExpr>),
    Abs(Box<PointExpr>),
}

/// A store at the own point.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Store {
    pub value: ValueId,
    pub to: Version,
}

/// A partial sum: `left * right` (f64 product of working-precision values), summed over points and components;
/// without `right`, `left` alone; with kind `Max`, the absolute value of `left`.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Sum {
    pub sum: SumId,
    pub left: ValueId,
    pub right: Option<ValueId>,
}

/// End of sums, scalar statements.
#[derive(Debug, Clone, PartialEq)]
pub struct Fence {
    /// Identifier.
    pub name: String,
    /// Statements in order; they may read sums of earlier sweeps that no other fence reads.
    pub statements: Vec<ScalarStmt>,
    /// Runs only where this scalar is nonzero.
    pub predicate: Option<ScalarId>,
}

/// Scalar statements, f64.
#[derive(Debug, Clone, PartialEq)]
pub enum ScalarStmt {
    /// Assigns a scalar.
    Assign {
        /// Target.
        scalar: ScalarId,
        /// Value.
        value: ScalarExpr,
        /// The statement, for quoting.
        text: String,
    },
    /// Raises status `REQUIRE + number` unless the condition holds (a NaN fails).
    Require {
        /// Index into [`Program::requires`].
        number: usize,
        /// What must hold.
        condition: ScalarCondition,
    },
    /// Records measure and bound, appends the measure to the history at the iteration, raises `CONVERGED` when
    /// measure <= bound and `NOT_FINITE` when measure is not finite.
    Check {
        /// Left side.
        measure: ScalarExpr,
        /// Right side.
        bound: ScalarExpr,
    },
    /// Records measure and bound without raising (the true residual's section).
    Measure {
        /// Left side.
        measure: ScalarExpr,
        /// Right side.
        bound: ScalarExpr,
    },
    /// Raises a given status when the condition holds.
    Raise {
        /// Status word.
        status: i32,
        /// When.
        condition: ScalarCondition,
    },
}

impl ScalarStmt {
    /// The scalars that it assigns.
    pub fn assigned(&self) -> &[ScalarId] {
        match self {
            ScalarStmt::Assign { scalar, .. } => std::slice::from_ref(scalar),
            ScalarStmt::Check { .. } | ScalarStmt::Measure { .. } => &[ScalarId::MEASURE, ScalarId::BOUND],
            ScalarStmt::Require { .. } | ScalarStmt::Raise { .. } => &[],
        }
    }
}

/// Scalar expressions.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum ScalarExpr {
    Number(f64),
    Scalar(ScalarId),
    /// The finished value of a sum.
    Sum(SumId),
    /// Parameter of the solver.
    Param(usize),
    Neg(Box<ScalarExpr>),
    Binary(BinaryOp, Box<ScalarExpr>, Box<ScalarExpr>),
    Call(Function, Vec<ScalarExpr>),
    /// 1 or 0.
    Truth(Box<ScalarCondition>),
    /// The first value where the condition holds, otherwise the second. The other one may be infinite or NaN.
    Select(Box<ScalarCondition>, Box<ScalarExpr>, Box<ScalarExpr>),
}

/// Conditions.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum ScalarCondition {
    Compare(CompareOp, ScalarExpr, ScalarExpr),
    And(Box<ScalarCondition>, Box<ScalarCondition>),
    Or(Box<ScalarCondition>, Box<ScalarCondition>),
    Not(Box<ScalarCondition>),
}

/// What the driver does, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Control {
    /// Runs a sweep.
    Sweep(SweepId),
    /// Runs a fence.
    Fence(FenceId),
    /// The vector's version 1 becomes its version 0.
    Rotate(VectorId),
    /// Repeats: a fixed number of times, or until the status word is raised.
    Loop {
        /// Number of times, if fixed.
        times: Option<u32>,
        /// What is repeated.
        body: Vec<Control>,
    },
    /// On rounds n, 2n, … of the innermost loop around it, or on the others.
    Every {
        /// n.
        n: u32,
        /// What is done on these rounds.
        body: Vec<Control>,
        /// What is done on the other rounds.
        otherwise: Vec<Control>,
    },
}

impl Control {
    /// Whether a fence is passed, in some rounds at least.
    pub fn holds_fence(&self) -> bool {
        match self {
            Control::Fence(_) => true,
            Control::Sweep(_) | Control::Rotate(_) => false,
            Control::Loop { body, .. } => body.iter().any(Control::holds_fence),
            Control::Every { body, otherwise, .. } => body.iter().chain(otherwise).any(Control::holds_fence),
        }
    }
}
