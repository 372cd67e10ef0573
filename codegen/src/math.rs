//! Math IR: an operator as couplings between points of a space.
//!
//! Lowering ([`lower`](crate::lower)) decides what a coefficient is made of: *tables* are profiles and geometry,
//! evaluated in f64 by a set-up kernel whenever parameters change and stored in the working precision; what remains
//! in the rows is arithmetic on tables, data and unknowns. Difference forms stay differences: nothing is folded
//! into a diagonal.
//!
//! # Positions
//! As in [`kernelwright_syntax::program`]: every expression is evaluated at a *position* (one integer per axis) and
//! reads relative to it. Evaluating a flux at a shift evaluates its body at the shifted position; along a periodic
//! flux axis the position is first taken modulo n; on a `no_flux` side the flux through the boundary face (positions
//! -1 and n-1 along its axis) is zero and its body is not evaluated.
//!
//! # Boundary rule
//! An unknown read outside is `s * u[m] + g`, applied axis by axis in order; see [`Rule`]. Three readings of a row:
//! - *linear*: all g are zero. This is the operator A of the loops;
//! - *affine part*: u is zero, only the g and terms without unknown remain; the right-hand side becomes f minus this;
//! - *magnitude*: every term by its absolute value; bounds what rounding can do.
//!
//! # Matrices
//! On [`Space::Rows`] a point is a row and has *slots*. `Slots(e)` is the sum of e over the slots of the row; within it
//! `Entry` is the stored value of the slot and `Gather(c)` the unknown at the slot's column. A stencil and a sparse
//! product are so the same thing, a sum over an access: the three readings apply as on a grid (there is no affine part),
//! and a value that an operator reads is evaluated at the gathered row as it is at a neighbour. Nothing reads at a
//! shift. The arrays of the layout are the operator's data, in order, and after them those of its companions.
//!
//! # Invariants (checked by `math_verify`)
//! - ids are in range; shifts of absent axes are zero; tables read at a shift are covered by their margins;
//! - rows and fluxes are affine in the unknowns; conditions and tables do not depend on them;
//! - fluxes do not read fluxes; a table's definition reads lets, data of `profile` kind and parameters only;
//! - lets read earlier lets only;
//! - `Slots`, `Entry` and `Gather` stand on rows of a matrix only, the last two within the first, which is not nested;
//!   there, data are the arrays of the layout and nothing has a shift.

pub use kernelwright_syntax::program::{BinaryOp, Centring, Fact, Function, Outside, Shift};

/// The space of an operator's unknowns. This is where further families join: elements with nodes and faces.
#[derive(Debug, Clone, PartialEq)]
pub enum Space {
    /// A structured grid.
    Axes(Grid),
    /// The rows of a sparse matrix.
    Rows(Box<Rows>),
}

impl Space {
    /// The points as a grid: of a matrix, one axis of rows. What is pointwise needs no more.
    pub fn grid(&self) -> &Grid {
        match self {
            Space::Axes(grid) => grid,
            Space::Rows(rows) => &rows.line,
        }
    }

    /// The rows, where it is a matrix.
    pub fn rows(&self) -> Option<&Rows> {
        match self {
            Space::Axes(_) => None,
            Space::Rows(rows) => Some(rows),
        }
    }
}

/// The rows of a sparse matrix, each with as many slots as its layout says.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// The rows as points of one axis, in the order of the format; one component.
    pub line: Grid,
    /// How the matrix lies in memory.
    pub layout: crate::format::Layout,
    /// Matrices that were made of it for preconditioners.
    pub companions: Vec<crate::format::Companion>,
}

impl Rows {
    /// The layout of the matrix, or of a companion, and the number of its first array among the operator's data.
    pub fn layout_of(&self, companion: Option<usize>) -> Option<(&crate::format::Layout, usize)> {
        let Some(number) = companion else { return Some((&self.layout, 0)) };
        let before = self.companions.get(..number)?.iter().map(|companion| companion.layout.arrays.len());
        Some((&self.companions.get(number)?.layout, self.layout.arrays.len() + before.sum::<usize>()))
    }
}

/// A structured grid with concrete sizes. Axis 0 is the fastest in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Letters, sizes' names and sizes, one to three.
    pub axes: Vec<Axis>,
    /// Cells or nodes.
    pub centring: Centring,
    /// Number of unknowns at a point; a vector stores one whole grid after another.
    pub components: usize,
}

/// An axis of a grid.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Axis {
    pub letter: String,
    pub size_name: String,
    pub size: u64,
}

/// A lowered operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Operator {
    /// Name in the program.
    pub name: String,
    /// Where values live.
    pub space: Space,
    /// Names of run-time arguments (f64 each).
    pub params: Vec<String>,
    /// Arrays from outside.
    pub data: Vec<Data>,
    /// f64 definitions that tables share.
    pub lets: Vec<Definition>,
    /// Stored coefficients.
    pub tables: Vec<Table>,
    /// Values on faces.
    pub fluxes: Vec<Flux>,
    /// Names of the unknowns.
    pub unknowns: Vec<String>,
    /// One row per unknown.
    pub rows: Vec<Row>,
    /// Rule per axis, low and high side.
    pub boundary: Vec<[Rule; 2]>,
    /// Points that take part (nonzero), if not all. Outside the mask every vector is zero and rows give zero.
    pub mask: Option<Expr>,
    /// Whether constants are in the null space.
    pub nullspace: bool,
    /// What is known, with its standing.
    pub facts: Vec<KnownFact>,
}

/// A property and how we know it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownFact {
    /// The property.
    pub fact: Fact,
    /// How it is known.
    pub standing: Standing,
    /// The proof, the test or the offending pair of couplings, for people.
    pub why: String,
}

/// Standing of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Standing {
    Proved,
    /// To be tested when parameters and data are known.
    ToTest,
    Tested,
    Assumed,
    Refuted,
}

/// An array from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct Data {
    /// Name in the program.
    pub name: String,
    /// Axes, ascending; extents are sizes, plus one along `half`.
    pub axes: Vec<usize>,
    /// Axis along which it lives on faces; element 0 is then position -1.
    pub half: Option<usize>,
    /// Reading outside, per rule; periodic axes wrap whatever it says.
    pub outside: Outside,
    /// A profile (fewer axes than the grid) is kept in f64 and read by tables; others are kept in the working
    /// precision and read by rows.
    pub profile: bool,
    /// An array of a stored matrix: its elements and length are here, it has no axes.
    pub stored: Option<crate::format::Array>,
}

/// An f64 definition shared by tables.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Definition {
    pub name: String,
    pub value: TableExpr,
}

/// A stored coefficient: a function of some axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Name, from the `let` or the role (`z_coefficient_k`).
    pub name: String,
    /// Axes it depends on, ascending; empty for one number.
    pub axes: Vec<usize>,
    /// Positions before 0 that are stored, per axis of the grid.
    pub below: [u32; 3],
    /// Positions from n on that are stored, per axis of the grid.
    pub above: [u32; 3],
    /// Its definition, evaluated in f64.
    pub value: TableExpr,
    /// The same for people.
    pub text: String,
}

/// f64 expressions of tables.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum TableExpr {
    Number(f64),
    Param(usize),
    Size(usize),
    Index(usize),
    Let(usize, Shift),
    Data(usize, Shift),
    Neg(Box<TableExpr>),
    Binary(BinaryOp, Box<TableExpr>, Box<TableExpr>),
    Call(Function, Vec<TableExpr>),
    Select(Box<TableCondition>, Box<TableExpr>, Box<TableExpr>),
}

/// Conditions of table expressions.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum TableCondition {
    Compare(kernelwright_syntax::program::CompareOp, TableExpr, TableExpr),
    And(Box<TableCondition>, Box<TableCondition>),
    Or(Box<TableCondition>, Box<TableCondition>),
    Not(Box<TableCondition>),
}

/// Expressions of rows and fluxes, in the working precision.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Expr {
    Number(f64),
    Param(usize),
    /// A table at a shift.
    Table(usize, Shift),
    /// A (non-profile) data array at a shift.
    Data(usize, Shift),
    /// A component of the unknown at a shift.
    Unknown(usize, Shift),
    /// A flux at a shift.
    Flux(usize, Shift),
    Neg(Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
    /// Second operand where the first (free of unknowns) is nonzero, else the third; only the chosen one counts.
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// 1 where the comparison of two coefficient expressions holds, else 0.
    Compare(kernelwright_syntax::program::CompareOp, Box<Expr>, Box<Expr>),
    /// The sum over the slots of a matrix's row.
    Slots(Box<Expr>),
    /// The value stored in a slot.
    Entry,
    /// A component of the unknown at the column of a slot.
    Gather(usize),
}

/// A value on the faces normal to an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Flux {
    /// Name in the program.
    pub name: String,
    /// Axis the faces are normal to.
    pub axis: usize,
    /// Body, at the position of the face's low side.
    pub value: Expr,
    /// The statement.
    pub text: String,
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Row {
    pub value: Expr,
    pub text: String,
}

/// What is outside one side of an axis: `s * u[m] + g`.
#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// s = 1, m mirrored at the boundary face, repeatedly if need be; zero flux through the face.
    NoFlux,
    /// Cells: s = -1, mirrored, g = twice the table. Nodes: s = 0, g = the table. The table (index into
    /// `Operator::tables`) depends on the other axes only and has margins for positions outside them.
    Dirichlet(usize),
    /// m = index modulo n.
    Periodic,
}

/// A row as a sum of terms, for preconditioners, facts and counting. See [`couplings`](crate::couplings).
///
/// term = outer * coefficient * (u[plus] - u[minus]), or outer * coefficient * u[plus]. With `flux`, the coefficient
/// and the unknowns are read at the flux's position (the row's position + shift, wrapped along a periodic axis), and
/// the term vanishes where the flux does; `outer` is what the row multiplies the flux by, read at the row's position.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The flux the term belongs to and its shift from the row.
    pub flux: Option<(usize, Shift)>,
    /// Factor read at the row's own position; only with a flux, and only where it is not one.
    pub outer: Option<Expr>,
    /// Free of unknowns.
    pub coefficient: Expr,
    /// Component and shift relative to the term's position.
    pub plus: (usize, Shift),
    /// Component and shift subtracted with the same coefficient.
    pub minus: Option<(usize, Shift)>,
}
