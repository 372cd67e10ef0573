//! Hyperbolicity: whether waves in every direction travel at real speeds.
//!
//! The system q_t = sum of A_a q_x_a is strongly hyperbolic if exp(i t A(n)) stays bounded for all t and all directions n
//! (Kreiss and Lorenz, Initial-Boundary Value Problems, 1989, chapter 2), A(n) = sum of n_a A_a. Complex speeds make it
//! grow exponentially with t, missing eigenvectors linearly. Tested for a long t at random directions, materials and
//! parameters. Where weights symmetrise the system it is hyperbolic without a test.

use super::energy;
use super::evaluate::{Point, Samples, evaluate};
use super::reference::dense::Matrix;
use super::system::System;

/// Directions tested.
const DIRECTIONS: usize = 8;
/// t times the norm of A, a power of two: 2^DOUBLINGS.
const DOUBLINGS: usize = 14;
/// Growth allowed: that of eigenvectors far from orthogonal, far below the 2^14 of a missing one.
const GROWTH: f64 = 1e3;

/// What the test says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Weights symmetrise it.
    Symmetric,
    /// Waves are bounded in all directions tested; they grow by this factor at most.
    Bounded(f64),
    /// They grow along this one.
    Grows([f64; 3]),
    /// No sample of materials and parameters gives finite coefficients.
    Undefined,
}

/// Whether a system is hyperbolic.
pub fn judge(system: &System) -> Verdict {
    if energy::derive(system).symmetric {
        return Verdict::Symmetric;
    }
    let finite = |at: &Point| {
        let matrix = directional(system, at);
        (0..matrix.rows()).all(|row| matrix.row(row).iter().all(|entry| entry.is_finite()))
    };
    let points = Samples::new(41).faces(system, DIRECTIONS, finite);
    let growths: Vec<f64> = points.iter().map(|at| growth(&directional(system, at))).collect();
    match points.iter().zip(&growths).find(|(_, growth)| **growth > GROWTH) {
        Some((at, _)) => Verdict::Grows(at.normal),
        None if points.is_empty() => Verdict::Undefined,
        None => Verdict::Bounded(growths.into_iter().fold(1.0, f64::max)),
    }
}

/// A(n).
fn directional(system: &System, at: &Point) -> Matrix {
    let size = system.components.len();
    let mut matrix = Matrix::zeros(size, size);
    for (row, rate) in system.rates.iter().enumerate() {
        for term in &rate.terms {
            if let Some(axis) = term.axis {
                *matrix.at_mut(row, term.component) += evaluate(&term.coefficient, at) * at.normal[axis];
            }
        }
    }
    matrix
}

/// Largest entry of exp(i t A): as the real matrix exp(t [[0, -A], [A, 0]]), by a Taylor series for a small t and
/// squaring.
fn growth(matrix: &Matrix) -> f64 {
    let size = matrix.rows();
    let norm = (0..size).map(|i| matrix.row(i).iter().map(|a| a.abs()).sum::<f64>()).fold(0.0, f64::max);
    if norm == 0.0 {
        return 1.0;
    }
    let small = Matrix::from_fn(2 * size, 2 * size, |i, j| match (i < size, j < size) {
        (true, false) => -matrix.at(i, j - size) / norm,
        (false, true) => matrix.at(i - size, j) / norm,
        _ => 0.0,
    });
    let identity = Matrix::from_fn(2 * size, 2 * size, |i, j| f64::from(u8::from(i == j)));
    // Horner's scheme: 1 + s (1 + s/2 (1 + s/3 (…))), exact to rounding for a norm of one.
    let mut power = identity.clone();
    for n in (1..=20).rev() {
        let product = small.times(&power);
        power = Matrix::from_fn(2 * size, 2 * size, |i, j| identity.at(i, j) + product.at(i, j) / f64::from(n));
    }
    for _ in 0..DOUBLINGS {
        power = power.times(&power);
    }
    let entries = (0..2 * size).flat_map(|i| power.row(i).to_vec());
    entries.fold(0.0, |largest, entry| if entry.is_nan() { f64::INFINITY } else { largest.max(entry.abs()) })
}
