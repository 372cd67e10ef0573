//! Checked systems of conservation laws, time steps and their problems.
//!
//! Fields, materials and parameters are flattened to *components* (`E` with three of them is `E_x`, `E_y`, `E_z`), and
//! every equation to one [`Formula`] a component. All names are ids; shapes, linearity and the consistency of numerical
//! fluxes are checked.

use super::{BinaryOp, CompareOp, Function, Precision};
use crate::source::Span;

/// A linear hyperbolic system of first order.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// Where it is declared (its name).
    pub span: Span,
    /// Name of the polynomial order and its default.
    pub order: Option<(String, Option<u32>)>,
    /// Fields as declared.
    pub fields: Vec<Quantity>,
    /// Materials as declared: constant on each element.
    pub materials: Vec<Quantity>,
    /// Parameters as declared.
    pub params: Vec<Quantity>,
    /// What each component of the fields changes by.
    pub rates: Vec<Rate>,
    /// Numerical fluxes, the first one is the default.
    pub fluxes: Vec<NumericalFlux>,
    /// Boundary conditions.
    pub conditions: Vec<ExteriorState>,
    /// Name of the default time step.
    pub step: Option<String>,
    /// Equations as the pretty printer writes them.
    pub text: Vec<String>,
}

impl System {
    /// Names of the components of the fields.
    pub fn components(&self) -> Vec<String> {
        flat_names(&self.fields)
    }

    /// Names of the components of the materials.
    pub fn material_names(&self) -> Vec<String> {
        flat_names(&self.materials)
    }

    /// Names of the components of the parameters.
    pub fn param_names(&self) -> Vec<String> {
        flat_names(&self.params)
    }
}

/// Names of all components of some quantities.
fn flat_names(quantities: &[Quantity]) -> Vec<String> {
    let names = |quantity: &Quantity| match quantity.size {
        1 => vec![quantity.name.clone()],
        _ => ["x", "y", "z"].iter().map(|axis| format!("{}_{axis}", quantity.name)).collect(),
    };
    quantities.iter().flat_map(names).collect()
}

/// A field, material or parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// Name in the source.
    pub name: String,
    /// Text of the `///` lines of its statement.
    pub doc: String,
    /// Components: 1, or 3 for a vector.
    pub size: usize,
    /// Number of its first component.
    pub first: usize,
    /// Values of the components if none are given.
    pub default: Option<Vec<f64>>,
    /// Where it is declared.
    pub span: Span,
}

/// What a component changes by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rate {
    /// Terms, added.
    pub terms: Vec<Term>,
    /// A source of x, y, z, t, added.
    pub source: Option<Formula>,
}

/// `coefficient * d component / d axis`, or without axis `coefficient * component`.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Of materials and parameters.
    pub coefficient: Formula,
    /// Component of the fields.
    pub component: usize,
    /// 0, 1, 2 for x, y, z.
    pub axis: Option<usize>,
}

/// `flux upwind { … }`
#[derive(Debug, Clone, PartialEq)]
pub struct NumericalFlux {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// One value a component of the fields.
    pub values: Vec<Formula>,
    /// Statements as the pretty printer writes them.
    pub text: Vec<String>,
    /// Where it is declared.
    pub span: Span,
}

/// `boundary pec { exterior(E) = …; }`
#[derive(Debug, Clone, PartialEq)]
pub struct ExteriorState {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// One value a component of the fields.
    pub fields: Vec<Formula>,
    /// One value a component of the materials.
    pub materials: Vec<Formula>,
    /// Statements as the pretty printer writes them.
    pub text: Vec<String>,
    /// Where it is declared.
    pub span: Span,
}

/// Sides of a face, seen from an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Side {
    Interior,
    Exterior,
}

/// A real expression at a point of an element or face. Axes are 0, 1, 2 for x, y, z.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    /// A number.
    Number(f64),
    /// Component of the parameters.
    Param(usize),
    /// Component of the materials on a side (in an element: the interior).
    Material(Side, usize),
    /// Component of the fields on a side (in an element: the interior).
    Component(Side, usize),
    /// Derivative of a component of the fields along an axis; only while equations are checked.
    Derivative(usize, usize),
    /// Component of the outer unit normal.
    Normal(usize),
    /// A coordinate.
    Position(usize),
    /// The time.
    Time,
    /// `-a`
    Neg(Box<Formula>),
    /// `a op b`
    Binary(BinaryOp, Box<Formula>, Box<Formula>),
    /// `f(a, …)`
    Call(Function, Vec<Formula>),
    /// The first value where the test holds, otherwise the second.
    Select(Box<Test>, Box<Formula>, Box<Formula>),
}

/// A condition on formulas.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Test {
    Compare(CompareOp, Formula, Formula),
    And(Box<Test>, Box<Test>),
    Or(Box<Test>, Box<Test>),
    Not(Box<Test>),
}

/// `step NAME { stage … }`: an explicit time step.
///
/// Each stage evaluates the rate at register 0, the state `u`, and time t + `time`·dt, then makes its assignments in order.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeStep {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// Names of the registers, `u` first.
    pub registers: Vec<String>,
    /// Stages in order.
    pub stages: Vec<Stage>,
    /// Where it is declared.
    pub span: Span,
}

/// A stage of a time step.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Time of the rate, as a fraction of the step.
    pub time: f64,
    /// Assignments in order.
    pub updates: Vec<Update>,
}

/// `register = sum of factor·register + rate·dt·rate`
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The register assigned.
    pub register: usize,
    /// Registers read, with their factors.
    pub terms: Vec<(usize, f64)>,
    /// Factor of dt·rate.
    pub rate: f64,
}

/// A problem of a system: everything the command needs to run it.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// Where it is declared.
    pub span: Span,
    /// Index into [`Program::systems`](super::Program::systems).
    pub system: usize,
    /// Index into the system's fluxes.
    pub flux: usize,
    /// Index into [`Program::steps`](super::Program::steps).
    pub step: usize,
    /// Polynomial order, 1 to 9.
    pub order: u32,
    /// Values of the components of the parameters.
    pub params: Vec<f64>,
    /// Where the mesh comes from, unless the command line says.
    pub mesh: Option<MeshSource>,
    /// Values of the materials' components; a region's own before those for all. Where none fits, the default.
    pub materials: Vec<MaterialValue>,
    /// Values of the components at t = 0.
    pub initial: Vec<Formula>,
    /// Exact solution of each component, where it is given, to compare with.
    pub exact: Vec<Option<Formula>>,
    /// Boundary conditions (index into the system's) by boundary tag; the tag `*` stands for all others.
    pub boundaries: Vec<(String, usize)>,
    /// End of time.
    pub until: f64,
    /// Time between two outputs.
    pub every: Option<f64>,
    /// Points at which the fields are recorded.
    pub probes: Vec<(String, [f64; 3])>,
    /// Precision of fields and geometry.
    pub precision: Precision,
}

/// `material epsilon("glass") = 2.25;`
#[derive(Debug, Clone, PartialEq)]
pub struct MaterialValue {
    /// Component of the materials.
    pub material: usize,
    /// Regions it holds in; all if empty.
    pub regions: Vec<String>,
    /// Value, of the coordinates of the element's centre and parameters.
    pub value: Formula,
}

/// Where a mesh comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum MeshSource {
    /// `mesh box(nx = 8, …);`
    Box {
        /// Cubes along x, y, z.
        cells: [usize; 3],
        /// Corner with the smallest coordinates.
        low: [f64; 3],
        /// Corner with the largest coordinates.
        high: [f64; 3],
        /// Whether the sides along each axis are joined.
        periodic: [bool; 3],
        /// Cut into twelve tetrahedra around the centre instead of six along the diagonal.
        centred: bool,
    },
    /// `mesh file("cavity.msh");`, relative to the program's file.
    File(String),
}

/// Everything a formula may read.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// Components of the parameters.
    pub params: &'a [f64],
    /// Components of the materials, interior and exterior.
    pub materials: [&'a [f64]; 2],
    /// Components of the fields, interior and exterior.
    pub components: [&'a [f64]; 2],
    /// Outer unit normal.
    pub normal: [f64; 3],
    /// Coordinates.
    pub position: [f64; 3],
    /// Time.
    pub time: f64,
}

impl Formula {
    /// The value; NaN where it reads what is not known.
    pub fn evaluate(&self, known: &Known<'_>) -> f64 {
        let read = |values: &[f64], n: usize| values.get(n).copied().unwrap_or(f64::NAN);
        match self {
            Formula::Number(value) => *value,
            Formula::Param(n) => read(known.params, *n),
            Formula::Material(side, n) => read(known.materials[*side as usize], *n),
            Formula::Component(side, n) => read(known.components[*side as usize], *n),
            Formula::Derivative(..) => f64::NAN,
            Formula::Normal(axis) => known.normal[*axis],
            Formula::Position(axis) => known.position[*axis],
            Formula::Time => known.time,
            Formula::Neg(inner) => -inner.evaluate(known),
            Formula::Binary(operator, left, right) => {
                crate::constant::binary(*operator, left.evaluate(known), right.evaluate(known))
            }
            Formula::Call(function, arguments) => {
                let value = |place: usize| arguments.get(place).map_or(0.0, |argument| argument.evaluate(known));
                crate::constant::call(*function, value(0), value(1))
            }
            Formula::Select(test, then, other) => if test.holds(known) { then } else { other }.evaluate(known),
        }
    }

    /// Whether any formula inside satisfies a test.
    pub fn any(&self, test: &dyn Fn(&Formula) -> bool) -> bool {
        test(self)
            || match self {
                Formula::Neg(inner) => inner.any(test),
                Formula::Binary(_, left, right) => left.any(test) || right.any(test),
                Formula::Call(_, arguments) => arguments.iter().any(|argument| argument.any(test)),
                Formula::Select(condition, then, other) => condition.any(test) || then.any(test) || other.any(test),
                _ => false,
            }
    }
}

impl Test {
    /// Whether it holds.
    pub fn holds(&self, known: &Known<'_>) -> bool {
        match self {
            Test::Compare(operator, left, right) => {
                crate::constant::compare(*operator, left.evaluate(known), right.evaluate(known))
            }
            Test::And(left, right) => left.holds(known) && right.holds(known),
            Test::Or(left, right) => left.holds(known) || right.holds(known),
            Test::Not(inner) => !inner.holds(known),
        }
    }

    /// Whether any formula inside satisfies a test.
    pub fn any(&self, test: &dyn Fn(&Formula) -> bool) -> bool {
        match self {
            Test::Compare(_, left, right) => left.any(test) || right.any(test),
            Test::And(left, right) | Test::Or(left, right) => left.any(test) || right.any(test),
            Test::Not(inner) => inner.any(test),
        }
    }
}
