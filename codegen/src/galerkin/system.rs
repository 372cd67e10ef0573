//! System IR: a linear hyperbolic system of first order, as the language states it.
//!
//! # Semantics
//! The unknowns are *components* (`E_x`, `p`, …), polynomials on every element. Inside an element
//!
//! ```text
//! d q_c / dt  =  sum over terms of rate c:  coefficient * d q_j / d x_a   or   coefficient * q_j,   plus the source,
//! ```
//!
//! where a coefficient is an expression of materials (one number an element) and parameters, and the source one of
//! x, y, z, t, materials and parameters. What a rate differentiates defines the physical flux: with the convention
//! `dq/dt = + div F`, the flux of component c through a face with outer unit normal n is
//!
//! ```text
//! n.F_c (q)  =  sum over derivative terms:  coefficient * n_a * q_j        (materials of the element itself).
//! ```
//!
//! [`System::flux`] gives the numerical flux `n.F*_c` of every component, an expression of n, of interior and exterior
//! components and materials and of parameters. The strong form adds `lift(n.F* - n.F(interior))` to the rate (Hesthaven
//! and Warburton, Nodal Discontinuous Galerkin Methods, 2008, equation 6.14). At a face shared by two elements, exterior
//! is the neighbour's; at a boundary face a [`Boundary`] says what it is, as expressions of the interior, n, x, y, z, t
//! and parameters.
//!
//! # Invariants (checked by [`verify`](crate::galerkin::verify))
//! - ids are in range; names are unique; one rate and one flux a component; a boundary gives an exterior value for every
//!   component and every material;
//! - coefficients read interior materials and parameters only; sources also x, y, z, t;
//! - fluxes read no position and no time; exterior values read nothing exterior, exterior materials no component;
//! - fluxes are linear in the components; exterior values are affine in them;
//! - *consistency*: with equal states and materials on both sides the numerical flux is the physical one;
//! - the system is [hyperbolic](crate::galerkin::hyperbolic);
//! - the time step is consistent ([`Step`]).

pub use kernelwright_syntax::program::system::Side;
pub use kernelwright_syntax::program::{BinaryOp, CompareOp, Function};

use super::step::Step;

/// A system.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Name in the program.
    pub name: String,
    /// Names of the components, flattened (`E_x`, `E_y`, `E_z`, `H_x`, …).
    pub components: Vec<String>,
    /// Names of the materials: one number an element each.
    pub materials: Vec<String>,
    /// Names of run-time arguments (f64 each).
    pub params: Vec<String>,
    /// One rate a component.
    pub rates: Vec<Rate>,
    /// The numerical flux n.F* of every component.
    pub flux: Vec<Expr>,
    /// Boundary conditions; a mesh refers to them by number.
    pub boundaries: Vec<Boundary>,
    /// How time advances.
    pub step: Step,
    /// Lines of the program for people: the equations and fluxes.
    pub text: Vec<String>,
}

/// What a component changes by.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rate {
    /// Terms, added.
    pub terms: Vec<Term>,
    /// A source, added.
    pub source: Option<Expr>,
}

/// `coefficient * d component / d axis`, or `coefficient * component`.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// Of interior materials and parameters.
    pub coefficient: Expr,
    /// Component.
    pub component: usize,
    /// Axis (0, 1, 2 for x, y, z) of the derivative, if it is one.
    pub axis: Option<usize>,
}

/// A boundary condition: what is on the other side of a face.
#[derive(Debug, Clone, PartialEq)]
pub struct Boundary {
    /// Its tag in the program (the physical group of a mesh).
    pub tag: String,
    /// Exterior value of every component.
    pub components: Vec<Expr>,
    /// Exterior value of every material; the usual one is the interior's.
    pub materials: Vec<Expr>,
}

/// Scalar expressions. Axes are 0, 1, 2 for x, y, z.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number.
    Number(f64),
    /// A parameter, by number.
    Param(usize),
    /// A material of a side, by number. Away from faces: of the element, [`Side::Interior`].
    Material(Side, usize),
    /// A component on a side, by number. Away from faces: at the point, [`Side::Interior`].
    Component(Side, usize),
    /// A component of the outer unit normal.
    Normal(usize),
    /// A coordinate of the point.
    Position(usize),
    /// The time (of the stage).
    Time,
    /// `-a`.
    Neg(Box<Expr>),
    /// `a op b`.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `f(args)`.
    Call(Function, Vec<Expr>),
    /// `a` where the condition holds, else `b`.
    Select(Box<Condition>, Box<Expr>, Box<Expr>),
}

/// Conditions; they read no components.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Condition {
    Compare(CompareOp, Expr, Expr),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
}

impl System {
    /// `n.F` of a component with the interior's state and materials.
    pub fn physical_flux(&self, component: usize) -> Expr {
        let mut sum: Option<Expr> = None;
        for term in self.rates.get(component).map_or(&[][..], |rate| &rate.terms) {
            let Some(axis) = term.axis else { continue };
            let value = Expr::Component(Side::Interior, term.component);
            let product = times(times(term.coefficient.clone(), Expr::Normal(axis)), value);
            sum = Some(match sum {
                None => product,
                Some(sum) => Expr::Binary(BinaryOp::Add, Box::new(sum), Box::new(product)),
            });
        }
        sum.unwrap_or(Expr::Number(0.0))
    }
}

fn times(a: Expr, b: Expr) -> Expr {
    match a {
        Expr::Number(1.0) => b,
        a => Expr::Binary(BinaryOp::Mul, Box::new(a), Box::new(b)),
    }
}

impl Expr {
    /// The expressions it is made of, in order (those of conditions included).
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Expr::Neg(a) => vec![a],
            Expr::Binary(_, a, b) => vec![a, b],
            Expr::Call(_, args) => args.iter().collect(),
            Expr::Select(c, a, b) => {
                let mut operands = c.operands();
                operands.extend([&**a, &**b]);
                operands
            }
            _ => Vec::new(),
        }
    }

    /// Visits it and all expressions inside.
    pub fn visit(&self, f: &mut impl FnMut(&Expr)) {
        f(self);
        self.operands().into_iter().for_each(|operand| operand.visit(f));
    }

    /// Whether any expression inside satisfies a test.
    pub fn any(&self, test: impl Fn(&Expr) -> bool) -> bool {
        let mut found = false;
        self.visit(&mut |e| found |= test(e));
        found
    }
}

impl Condition {
    /// The expressions it compares.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Condition::Compare(_, a, b) => vec![a, b],
            Condition::And(a, b) | Condition::Or(a, b) => {
                let mut operands = a.operands();
                operands.extend(b.operands());
                operands
            }
            Condition::Not(a) => a.operands(),
        }
    }
}
