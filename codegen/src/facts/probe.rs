//! Facts from an assembled matrix on a small grid.

use crate::math::{Fact, Operator};
use crate::math_eval::{EvalError, Evaluator, Matrix};

use super::dense::extreme_eigenvalues;

/// Relative difference of two couplings that counts as rounding.
const ROUNDING: f64 = 1e-9;

/// What an assembled matrix shows. Points outside the mask are left out.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Sizes of the grid, `7 x 7 x 7`.
    pub grid: String,
    /// Unknowns that take part.
    pub unknowns: usize,
    /// Largest |a_rc - a_cr|, relative to the largest entry.
    pub asymmetry: f64,
    /// Smallest eigenvalue of the symmetric part (outside constants, for a singular operator).
    pub smallest: f64,
    /// Largest eigenvalue of the symmetric part.
    pub largest: f64,
    asymmetric_pair: Option<String>,
    positive_coupling: Option<String>,
    bad_pivot: Option<String>,
}

/// Assembles the operator as it stands and measures it. Cost grows with the cube of the number of unknowns.
///
/// # Errors
/// When parameters or arrays do not fit.
pub fn probe(op: &Operator, params: &[f64], data: &[Vec<f64>]) -> Result<Probe, EvalError> {
    let evaluator = Evaluator::new(op, params, data)?;
    let matrix = evaluator.matrix();
    let active: Vec<usize> = (0..evaluator.unknowns()).filter(|r| evaluator.active()[r % evaluator.points()]).collect();
    let grid = op.space.grid();
    let sizes: Vec<String> = grid.axes.iter().map(|a| a.size.to_string()).collect();
    let (smallest, largest) = spectrum(&matrix, &active, op.nullspace);
    Ok(Probe {
        grid: sizes.join(" x "),
        unknowns: active.len(),
        asymmetry: asymmetry(&matrix),
        smallest,
        largest,
        asymmetric_pair: asymmetric_pair(&evaluator, &matrix),
        positive_coupling: positive_coupling(&evaluator, &matrix),
        bad_pivot: bad_pivot(&evaluator, &matrix, &active, op.nullspace),
    })
}

impl Probe {
    /// Whether a fact holds on this grid, and what shows it.
    pub fn holds(&self, fact: Fact) -> Result<String, String> {
        let on = format!("on a grid of {}", self.grid);
        match fact {
            Fact::Symmetric => match &self.asymmetric_pair {
                None => Ok(format!("the assembled matrix is symmetric {on}")),
                Some(pair) => Err(format!("{pair} ({on})")),
            },
            Fact::PositiveDefinite => {
                let text = format!("smallest eigenvalue {:.3e}, largest {:.3e} {on}", self.smallest, self.largest);
                // Rounding of the reduction is relative to the largest eigenvalue.
                let least = 1e-14 * self.unknowns as f64 * self.largest.abs();
                if self.unknowns == 0 || self.smallest > least { Ok(text) } else { Err(text) }
            }
            Fact::MMatrix => match self.positive_coupling.as_ref().or(self.bad_pivot.as_ref()) {
                None => Ok(format!("couplings are <= 0 and pivots > 0 {on}")),
                Some(why) => Err(format!("{why} ({on})")),
            },
        }
    }
}

fn asymmetry(m: &Matrix) -> f64 {
    let largest = m.rows.iter().flatten().map(|(_, v)| v.abs()).fold(0.0, f64::max);
    let pairs = m.rows.iter().enumerate().flat_map(|(r, row)| row.iter().map(move |(c, v)| (r, *c, *v)));
    let worst = pairs.map(|(r, c, v)| (v - m.at(c, r)).abs()).fold(0.0, f64::max);
    if worst == 0.0 { 0.0 } else { worst / largest }
}

/// The pair of couplings that differs most.
fn asymmetric_pair(evaluator: &Evaluator, m: &Matrix) -> Option<String> {
    let mut worst = (0.0, None);
    let largest = m.rows.iter().flatten().map(|(_, v)| v.abs()).fold(0.0, f64::max);
    for (r, row) in m.rows.iter().enumerate() {
        for &(c, v) in row {
            let back = m.at(c, r);
            let defect = (v - back).abs();
            let counts = defect > ROUNDING * v.abs().max(back.abs()) && defect > 1e-13 * largest;
            if (counts && defect > worst.0) || !defect.is_finite() {
                worst = (defect, Some((r, c, v, back)));
            }
        }
    }
    worst.1.map(|(r, c, v, back)| {
        let (here, there) = (evaluator.name(r), evaluator.name(c));
        if !v.is_finite() || !back.is_finite() {
            return format!("row {here} couples to {there} with a number that is not finite");
        }
        format!("row {here} couples to {there} with {v}, but row {there} couples to {here} with {back}")
    })
}

fn positive_coupling(evaluator: &Evaluator, m: &Matrix) -> Option<String> {
    for (r, row) in m.rows.iter().enumerate() {
        let size = row.iter().map(|(_, v)| v.abs()).fold(0.0, f64::max);
        if let Some((c, v)) = row.iter().find(|(c, v)| *c != r && *v > 1e-13 * size) {
            return Some(format!("row {} couples to {} with {v} > 0", evaluator.name(r), evaluator.name(*c)));
        }
    }
    None
}

/// Symmetric part on the points that take part, row after row.
fn symmetric_part(m: &Matrix, active: &[usize]) -> Vec<f64> {
    let pairs = active.iter().flat_map(|&r| active.iter().map(move |&c| (r, c)));
    pairs.map(|(r, c)| 0.5 * (m.at(r, c) + m.at(c, r))).collect()
}

fn spectrum(m: &Matrix, active: &[usize], nullspace: bool) -> (f64, f64) {
    let n = active.len();
    let mut a = symmetric_part(m, active);
    if nullspace && n > 0 {
        // Lifts constants to the middle of the diagonal; what is orthogonal to them stays.
        let lift = (0..n).map(|i| a[i * n + i]).sum::<f64>() / n as f64;
        a.iter_mut().for_each(|v| *v += lift / n as f64);
    }
    if a.iter().any(|v| !v.is_finite()) {
        return (f64::NAN, f64::NAN);
    }
    extreme_eigenvalues(&a, n)
}

/// The first pivot of an elimination without exchange that is not positive. The last one of a singular operator is zero.
fn bad_pivot(evaluator: &Evaluator, m: &Matrix, active: &[usize], nullspace: bool) -> Option<String> {
    let n = active.len();
    let pairs = active.iter().flat_map(|&r| active.iter().map(move |&c| (r, c)));
    let mut a: Vec<f64> = pairs.map(|(r, c)| m.at(r, c)).collect();
    for k in 0..n {
        let pivot = a[k * n + k];
        let size = m.at(active[k], active[k]).abs();
        let last = nullspace && k + 1 == n;
        if !last && (pivot.is_nan() || pivot <= 1e-14 * n as f64 * size) {
            return Some(format!("the pivot of row {} is {pivot}", evaluator.name(active[k])));
        }
        for r in k + 1..n {
            let factor = a[r * n + k] / pivot;
            if factor != 0.0 {
                (k + 1..n).for_each(|c| a[r * n + c] -= factor * a[k * n + c]);
            }
        }
    }
    None
}
