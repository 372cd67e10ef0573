//! The energy of a system: weights w_c > 0, expressions of materials and parameters, in which
//! `sum over c of w_c * |q_c|^2` is conserved by the equations inside every element.
//!
//! Weights symmetrise the system: w_c A_cd = w_d A_dc for the coefficient matrix A of every axis, and the products are
//! free of materials where they can be, so that fluxes of energy match between elements of different materials (for
//! Maxwell epsilon |E|^2 + mu |H|^2). They are sought along the couplings of components and then tested; where there
//! are none, the energy is the sum of squares, which measures growth as well but is not conserved.

use super::evaluate::{Samples, evaluate};
use super::system::{BinaryOp, Expr, System};

/// Points at which symmetry is tested.
const POINTS: usize = 16;

/// The energy of a system.
#[derive(Debug, Clone, PartialEq)]
pub struct Energy {
    /// Weight of every component; coefficients (interior materials and parameters).
    pub weights: Vec<Expr>,
    /// Whether the weights symmetrise the system; if not they are ones.
    pub symmetric: bool,
}

/// Derives the energy of a system.
pub fn derive(system: &System) -> Energy {
    let weights = spread(system);
    if symmetric(system, &weights) {
        return Energy { weights, symmetric: true };
    }
    let ones = vec![Expr::Number(1.0); system.components.len()];
    let symmetric = symmetric(system, &ones);
    Energy { weights: ones, symmetric }
}

/// Coefficient of `d component / d axis` in a rate, if it is there.
fn coefficient(system: &System, rate: usize, component: usize, axis: usize) -> Option<Expr> {
    let terms = system.rates[rate].terms.iter().filter(|term| term.component == component && term.axis == Some(axis));
    terms.map(|term| term.coefficient.clone()).reduce(|a, b| binary(BinaryOp::Add, a, b))
}

/// An axis along which two different components drive each other.
fn coupling(system: &System, c: usize, d: usize) -> Option<(Expr, Expr)> {
    (0..3).find_map(|axis| Some((coefficient(system, c, d, axis)?, coefficient(system, d, c, axis)?)))
}

/// Weights along a spanning tree of the couplings.
fn spread(system: &System) -> Vec<Expr> {
    let count = system.components.len();
    let mut weights: Vec<Option<Expr>> = vec![None; count];
    for root in 0..count {
        if weights[root].is_some() {
            continue;
        }
        let first = (0..count).filter(|&d| d != root).find_map(|d| coupling(system, root, d));
        weights[root] = Some(match first {
            // Makes the product with the coupling one.
            Some((there, _)) => magnitude(binary(BinaryOp::Div, Expr::Number(1.0), there)),
            None => Expr::Number(1.0),
        });
        let mut reached = vec![root];
        while let Some(c) = reached.pop() {
            for d in 0..count {
                if weights[d].is_some() {
                    continue;
                }
                let Some((there, back)) = coupling(system, c, d) else { continue };
                let known = weights[c].clone().expect("reached components have weights");
                weights[d] = Some(magnitude(binary(BinaryOp::Div, binary(BinaryOp::Mul, known, there), back)));
                reached.push(d);
            }
        }
    }
    weights.into_iter().map(|weight| weight.unwrap_or(Expr::Number(1.0))).collect()
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn magnitude(a: Expr) -> Expr {
    Expr::Call(super::system::Function::Abs, vec![a])
}

/// Tests w_c A_cd = w_d A_dc, and that weights are positive, at random materials and parameters.
fn symmetric(system: &System, weights: &[Expr]) -> bool {
    let mut samples = Samples::new(23);
    let count = system.components.len();
    (0..POINTS).all(|_| {
        let at = samples.face(system);
        let weight: Vec<f64> = weights.iter().map(|w| evaluate(w, &at)).collect();
        let value = |c, d, axis| coefficient(system, c, d, axis).map_or(0.0, |a| evaluate(&a, &at));
        let positive = weight.iter().all(|w| w.is_finite() && *w > 0.0);
        positive
            && (0..3).all(|axis| {
                (0..count).all(|c| {
                    (0..c).all(|d| {
                        let (a, b) = (weight[c] * value(c, d, axis), weight[d] * value(d, c, axis));
                        (a - b).abs() <= 1e-10 * (a.abs() + b.abs() + 1.0)
                    })
                })
            })
    })
}
