//! When a growing energy means that something is wrong.
//!
//! The equations bound the energy: with weights that symmetrise them, d/dt |q|^2 <= 2 g |q|^2 + what is fed, where g is
//! the largest eigenvalue of the symmetric part of the terms without derivatives (Gustafsson, Kreiss and Oliger, Time
//! Dependent Problems and Difference Methods, section 6.2). Where nothing is fed, more than that is an instability. Where
//! sources or boundaries feed a system, or it has no such energy, no bound is known: an instability is then what no
//! longer is a number, or has grown by many orders of magnitude and still does so at a steady exponential rate.

use kernelwright_codegen::galerkin::energy::Energy;
use kernelwright_codegen::galerkin::evaluate::{Point, evaluate};
use kernelwright_codegen::galerkin::system::{Expr, Side, Term};

use super::Bound;
use super::spectrum::{vanishes, without_components};

/// Growth of a bounded energy that rounding, and jumps of materials on coarse meshes, do not explain.
const BOUNDED: f64 = 1.5;

/// Growth of other energies from where on their rate is looked at.
const SUSPECT: f64 = 1e12;

/// Looks over which a rate must be steady, and how much of the first look's the last one's is.
const STEADY: usize = 8;
const KEPT: f64 = 0.95;

/// Growth over these looks.
const STRONG: f64 = 1e3;

/// Watches the energy of a run.
#[derive(Debug, Clone)]
pub struct Watch {
    /// Whether the energy is bounded by what it was at the start.
    isolated: bool,
    /// Largest rate at which terms without derivatives can make the norm grow.
    rate: f64,
    /// Energy at the start, or the first one above zero.
    start: f64,
    /// Logarithms of the energies of the last looks.
    recent: Vec<f64>,
}

impl Watch {
    /// For a bound problem; `conserved` says whether the energy symmetrises the equations.
    pub fn new(bound: &Bound, energy: &Energy, start: f64) -> Watch {
        let fed = bound.system.rates.iter().any(|rate| rate.source.is_some())
            || bound.system.boundaries.iter().flat_map(|boundary| &boundary.components).any(adds);
        Watch { isolated: energy.symmetric && !fed, rate: rate(bound, energy), start, recent: Vec::new() }
    }

    /// Whether an energy is beyond what the system can do.
    pub fn unstable(&mut self, time: f64, energy: f64) -> bool {
        if !energy.is_finite() {
            return true;
        }
        let own = (2.0 * self.rate * time).exp();
        if self.isolated {
            return energy > BOUNDED * own * self.start.max(1e-300);
        }
        if self.start <= 0.0 {
            self.start = energy.max(0.0);
        }
        self.recent.push(energy.max(f64::MIN_POSITIVE).ln());
        if self.recent.len() > STEADY {
            self.recent.remove(0);
        }
        energy > SUSPECT * own * self.start && self.steady()
    }

    /// Whether the last looks show exponential growth: what is switched on smoothly grows ever more slowly.
    fn steady(&self) -> bool {
        let [first, second, .., before, last] = self.recent.as_slice() else { return false };
        self.recent.len() == STEADY && last - before >= KEPT * (second - first) && last - first >= STRONG.ln()
    }
}

/// Whether an exterior state has a part that is not of the interior.
fn adds(e: &Expr) -> bool {
    !vanishes(&without_components(e))
}

/// An upper bound (Gershgorin's) of the eigenvalues of the symmetric part of W^(1/2) B W^(-1/2), for B the coefficients of
/// terms without derivatives and W the weights.
fn rate(bound: &Bound, energy: &Energy) -> f64 {
    let mut seen: Vec<&Vec<f64>> = Vec::new();
    let mut largest: f64 = 0.0;
    let still = |term: &&Term| term.axis.is_none();
    if !bound.system.rates.iter().flat_map(|rate| &rate.terms).any(|term| still(&term)) {
        return 0.0;
    }
    let reads = |e: &Expr| matches!(e, Expr::Material(Side::Interior, _));
    let uniform = !bound.system.rates.iter().flat_map(|r| &r.terms).any(|term| term.coefficient.any(reads))
        && !energy.weights.iter().any(|weight| weight.any(reads));
    for own in &bound.materials {
        if seen.last().is_some_and(|last| uniform || *last == own) {
            continue;
        }
        seen.push(own);
        let at = Point { params: bound.run.params.clone(), materials: [own.clone(), own.clone()], ..Point::default() };
        let weights: Vec<f64> = energy.weights.iter().map(|weight| evaluate(weight, &at)).collect();
        let size = weights.len();
        let mut scaled = vec![0.0; size * size];
        for (row, rate) in bound.system.rates.iter().enumerate() {
            for term in rate.terms.iter().filter(still) {
                let value = evaluate(&term.coefficient, &at) * (weights[row] / weights[term.component]).sqrt();
                scaled[row * size + term.component] += value;
            }
        }
        let part = |i: usize, j: usize| 0.5 * (scaled[i * size + j] + scaled[j * size + i]);
        for i in 0..size {
            let others: f64 = (0..size).filter(|j| *j != i).map(|j| part(i, j).abs()).sum();
            largest = largest.max(part(i, i) + others);
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(isolated: bool, rate: f64, start: f64) -> Watch {
        Watch { isolated, rate, start, recent: Vec::new() }
    }

    #[test]
    fn a_bounded_energy_stays_in_its_bound() {
        let mut quiet = watch(true, 0.0, 2.0);
        assert!(!quiet.unstable(1.0, 2.9) && quiet.unstable(1.0, 3.1) && quiet.unstable(1.0, f64::NAN));
        // exp(2 * 3 * 2) = 1.6e5.
        let mut growing = watch(true, 3.0, 2.0);
        assert!(!growing.unstable(2.0, 3e5) && growing.unstable(2.0, 6e5));
    }

    #[test]
    fn what_is_fed_may_grow_but_not_for_ever_at_one_rate() {
        // From rest, whatever the units; then a pulse that is switched on smoothly from 1e-100.
        let mut driven = watch(false, 0.0, 0.0);
        assert!((1..=100).all(|n| !driven.unstable(f64::from(n), 1e20 * f64::from(n * n))));
        let mut pulse = watch(false, 0.0, 0.0);
        assert!((0..=100).all(|n| !pulse.unstable(f64::from(n), (-f64::from((50 - n) * (50 - n)) / 10.0).exp())));
        let mut unstable = watch(false, 0.0, 1.0);
        let first = (1..=100).find(|n| unstable.unstable(f64::from(*n), f64::from(*n).exp()));
        assert_eq!(first, Some(28), "a steady rate is found at 1e12");
    }
}
