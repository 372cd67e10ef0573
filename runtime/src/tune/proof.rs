//! Proof before time: a candidate's results on a bench against the reference's.
//!
//! # Proof
//! A candidate runs on scratch copies of the inputs; what it must write is filled with NaN before, so that nothing an
//! earlier run left there can stand in for it. Vectors are compared element by element, sums in their totals, scalars
//! and the status word as they are.
//!
//! # Tolerance
//! Candidates do the reference's arithmetic in another order, or eliminate along a line in another way. How much that
//! may change is not guessed: the reference itself runs on inputs (vectors, tables, scalars) perturbed at random by a
//! few units of roundoff, as a backward stable method might see them, and the change of each result, times
//! [`MARGIN`], is allowed, beside a few roundoffs of its size.

use std::collections::BTreeMap;

use kernelwright_codegen::loops::{SumId, SumKind, Version};

use super::bench::{Bench, Candidate, Step, scalar_count};
use crate::backend::{Backend, BackendError, BufferHandle};
use crate::inputs::random;

/// Roundoffs by which inputs are perturbed, at most.
pub(super) const PERTURBED: f64 = 4.0;
/// Largest change under perturbation that a candidate may show, in units of the reference's own.
pub(super) const MARGIN: f64 = 32.0;
/// Roundoffs of its own size by which any result may differ.
pub(super) const ROUNDOFFS: f64 = 16.0;
/// Perturbed runs: one might happen to change nothing.
const DRAWS: u64 = 2;
/// Tables of more elements are not perturbed: they would have to pass through the host.
const TABLE: u64 = 1 << 22;

/// Whether two numbers are within a tolerance; nothing is within anything of a NaN.
fn within(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

/// The sum of so many numbers, rounded as if there were a few (Neumaier, ZAMM 54, 1974): candidates leave sums in a few
/// parts or in a million, and what adding these up would round is not theirs.
fn total(parts: &[f64]) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0);
    for &part in parts {
        let next = sum + part;
        lost += if sum.abs() >= part.abs() { (sum - next) + part } else { (part - next) + sum };
        sum = next;
    }
    // What is not finite says so.
    if sum.is_finite() { sum + lost } else { sum }
}

/// Totals of sums with the sums of their parts' absolute values.
type Totals = BTreeMap<SumId, (f64, f64)>;

/// What the reference left, and by how much a candidate may differ.
#[derive(Default)]
pub(super) struct Reference {
    pub(super) vectors: BTreeMap<Version, (BufferHandle, f64)>,
    sums: Totals,
    /// Scalars and history, with a tolerance each; the status word.
    scalars: Vec<(f64, f64)>,
    history: Vec<(f64, f64)>,
    status: [f64; 2],
}

impl Bench<'_> {
    /// Takes the results of a candidate, and what perturbations do to them, as what all others are held against.
    ///
    /// # Errors
    /// A device that fails; a reference that writes no numbers.
    pub fn establish(&mut self, backend: &mut dyn Backend, candidate: &Candidate) -> Result<(), BackendError> {
        let (real, len) = (candidate.module.real, candidate.module.vector_len);
        self.start(backend, candidate, 0.0, 0)?;
        self.run(backend, candidate)?;
        for version in &self.written {
            let kept = backend.allocate(real, len)?;
            self.reference.vectors.insert(*version, (kept, 0.0));
            self.kit.copy(backend, kept, self.sets[0][version])?;
        }
        let sums = self.totals(backend, candidate)?;
        let scalars = self.read_f64(backend, self.scalars, scalar_count(self.program) as usize)?;
        let history = self.read_f64(backend, self.history, self.history_len)?;
        let mut found = Responses {
            vectors: self.written.iter().map(|version| (*version, 0.0)).collect(),
            sums: sums.keys().map(|sum| (*sum, 0.0)).collect(),
            scalars: vec![0.0; scalars.len()],
            history: vec![0.0; history.len()],
        };
        let mut status = [0.0; 2];
        backend.read(self.status, &mut status)?;
        for draw in 0..DRAWS {
            self.start(backend, candidate, PERTURBED * self.roundoff, 1 + draw)?;
            self.run(backend, candidate)?;
            self.respond(backend, candidate, (&sums, &scalars, &history), &mut found)?;
        }
        self.tables(backend)?;
        self.settle(backend, len, sums, (scalars, history), found, status)
    }

    /// Inputs, perturbed by so much.
    fn start(
        &self,
        backend: &mut dyn Backend,
        candidate: &Candidate,
        amount: f64,
        draw: u64,
    ) -> Result<(), BackendError> {
        self.reset_vectors(backend, 0)?;
        // Scalars and sums are f64 whatever the vectors are.
        let small = if amount > 0.0 { PERTURBED * f64::EPSILON } else { 0.0 };
        self.reset_small(backend, small, draw)?;
        self.reset_own(backend, candidate, small, draw)?;
        if amount > 0.0 {
            for (number, version) in self.read.iter().enumerate() {
                let shift = 104_729 * draw + 15_485 * number as u64;
                self.kit.perturb(backend, self.sets[0][version], self.source, shift, 2.0 * amount)?;
            }
            self.tables(backend)?;
            for (number, table) in self.tables.iter().enumerate() {
                let len = candidate.module.buffers[number].len;
                if len <= TABLE {
                    let mut values = self.read_f64(backend, *table, len as usize)?;
                    let noise = random::fill(70 + draw, 1 << number, values.len());
                    values.iter_mut().zip(noise).for_each(|(x, e)| *x *= 1.0 + 2.0 * amount * e);
                    backend.write(*table, &values)?;
                }
            }
        }
        Ok(())
    }

    fn respond(
        &self,
        backend: &mut dyn Backend,
        candidate: &Candidate,
        (sums, scalars, history): (&Totals, &[f64], &[f64]),
        found: &mut Responses,
    ) -> Result<(), BackendError> {
        for (version, largest) in &mut found.vectors {
            let kept = self.reference.vectors[version].0;
            *largest = largest.max(self.kit.compare(backend, kept, self.sets[0][version])?.largest);
        }
        for (sum, (total, _)) in self.totals(backend, candidate)? {
            let response = found.sums.entry(sum).or_default();
            *response = response.max((total - sums[&sum].0).abs());
        }
        let widen = |response: &mut Vec<f64>, now: Vec<f64>, before: &[f64]| {
            for ((response, now), before) in response.iter_mut().zip(now).zip(before) {
                *response = response.max((now - before).abs());
            }
        };
        widen(&mut found.scalars, self.read_f64(backend, self.scalars, scalars.len())?, scalars);
        widen(&mut found.history, self.read_f64(backend, self.history, history.len())?, history);
        Ok(())
    }

    /// From responses to tolerances.
    fn settle(
        &mut self,
        backend: &mut dyn Backend,
        len: u64,
        sums: Totals,
        (scalars, history): (Vec<f64>, Vec<f64>),
        found: Responses,
        status: [f64; 2],
    ) -> Result<(), BackendError> {
        let fail = |what: &str| Err(BackendError::Device(format!("the default kernel leaves {what} without a number")));
        for (version, response) in &found.vectors {
            let Some((kept, tolerance)) = self.reference.vectors.get_mut(version) else { continue };
            // Against zeros, so that what is no number counts as missing.
            let zeros = self.sets[0][version];
            self.kit.fill(backend, zeros, 0.0)?;
            let own = self.kit.compare(backend, *kept, zeros)?;
            *tolerance = MARGIN * response + ROUNDOFFS * self.roundoff * own.scale;
            if own.missing == len || !tolerance.is_finite() {
                return fail(&self.program.vectors[version.vector.0].name);
            }
        }
        for (sum, (total, size)) in sums {
            let tolerance = MARGIN * found.sums.get(&sum).copied().unwrap_or(0.0) + ROUNDOFFS * self.roundoff * size;
            if !tolerance.is_finite() {
                return fail("a sum");
            }
            self.reference.sums.insert(sum, (total, tolerance));
        }
        let allow = |values: Vec<f64>, responses: Vec<f64>| -> Vec<(f64, f64)> {
            let pairs = values.into_iter().zip(responses);
            pairs.map(|(v, response)| (v, MARGIN * response + ROUNDOFFS * f64::EPSILON * v.abs())).collect()
        };
        self.reference.scalars = allow(scalars, found.scalars);
        self.reference.history = allow(history, found.history);
        self.reference.status = status;
        Ok(())
    }

    /// Totals of the sums a sweep leaves, with the sum of their parts' absolute values.
    fn totals(&self, backend: &mut dyn Backend, candidate: &Candidate) -> Result<Totals, BackendError> {
        let Step::Sweep(number) = self.step else { return Ok(BTreeMap::new()) };
        let mut totals = BTreeMap::new();
        for sum in self.program.sweeps[number].sums.iter().map(|sum| sum.sum) {
            let Some(at) = candidate.module.partial_sums(sum) else { continue };
            let Some(buffer) = candidate.own.get(&at) else { continue };
            let parts = self.read_f64(backend, *buffer, candidate.module.buffers[at].len as usize)?;
            let size = parts.iter().map(|part| part.abs()).sum();
            let total = match self.program.sums[sum.0] {
                SumKind::Add => total(&parts),
                SumKind::Max => parts.iter().fold(0.0, |a: f64, b| if b.is_nan() { f64::NAN } else { a.max(*b) }),
            };
            totals.insert(sum, (total, size));
        }
        Ok(totals)
    }

    /// Runs a candidate and holds its results against the reference's; the error says what differs first.
    ///
    /// # Errors
    /// Inside: why the candidate is wrong. Outside: a device that fails.
    pub fn prove(&self, backend: &mut dyn Backend, candidate: &Candidate) -> Result<Result<(), String>, BackendError> {
        self.start(backend, candidate, 0.0, 0)?;
        self.run(backend, candidate)?;
        backend.synchronize()?;
        for (version, (kept, tolerance)) in &self.reference.vectors {
            let name = &self.program.vectors[version.vector.0].name;
            let found = self.kit.compare(backend, *kept, self.sets[0][version])?;
            if found.missing > 0 {
                return Ok(Err(format!("{} elements of {name} are left or made NaN", found.missing)));
            }
            if found.largest > *tolerance {
                let largest = found.largest;
                return Ok(Err(format!("{name} is off by {largest:.2e}, rounding explains {tolerance:.2e}")));
            }
        }
        for (sum, (total, _)) in self.totals(backend, candidate)? {
            let (expected, tolerance) = self.reference.sums[&sum];
            if !within(total, expected, tolerance) {
                return Ok(Err(format!("sum {} is {total:e} instead of {expected:e} ± {tolerance:.1e}", sum.0)));
            }
        }
        self.prove_small(backend)
    }

    fn prove_small(&self, backend: &mut dyn Backend) -> Result<Result<(), String>, BackendError> {
        let scalars = self.read_f64(backend, self.scalars, self.reference.scalars.len())?;
        let history = self.read_f64(backend, self.history, self.reference.history.len())?;
        let wrong = |now: &[f64], expected: &[(f64, f64)]| {
            let differs =
                |(n, (e, t)): (&f64, &(f64, f64))| !(within(*n, *e, *t) || n.is_nan() && e.is_nan() || n == e);
            now.iter().zip(expected).position(differs)
        };
        if let Some(number) = wrong(&scalars, &self.reference.scalars) {
            let (expected, tolerance) = self.reference.scalars[number];
            let (name, now) = (&self.program.scalars[number], scalars[number]);
            return Ok(Err(format!("{name} is {now:e} instead of {expected:e} ± {tolerance:.1e}")));
        }
        if let Some(number) = wrong(&history, &self.reference.history) {
            return Ok(Err(format!("the history differs at {number}")));
        }
        let mut status = [0.0; 2];
        backend.read(self.status, &mut status)?;
        let same = status == self.reference.status;
        Ok(if same { Ok(()) } else { Err(format!("status {status:?} instead of {:?}", self.reference.status)) })
    }

    /// Holds the reference's results against another bench's of the same step and sizes: two back ends, one semantics.
    ///
    /// # Errors
    /// Inside: what differs. Outside: a device that fails.
    pub fn agrees(
        &self,
        backend: &mut dyn Backend,
        other: &Bench,
        theirs: &mut dyn Backend,
        len: usize,
    ) -> Result<Result<(), String>, BackendError> {
        for (version, (kept, tolerance)) in &self.reference.vectors {
            let (expected, more) = other.reference.vectors[version];
            let ours = self.read_f64(backend, *kept, len)?;
            let expected = other.read_f64(theirs, expected, len)?;
            let limit = tolerance + more;
            let differs = |(a, b): &(f64, f64)| !(within(*a, *b, limit) || a.is_nan() && b.is_nan());
            if let Some((a, b)) = ours.into_iter().zip(expected).find(differs) {
                let name = &self.program.vectors[version.vector.0].name;
                return Ok(Err(format!("{name} is {a:e} and, interpreted, {b:e} (± {limit:.1e})")));
            }
        }
        for (sum, (total, tolerance)) in &self.reference.sums {
            let (expected, more) = other.reference.sums[sum];
            if !within(*total, expected, tolerance + more) {
                return Ok(Err(format!("sum {} is {total:e} and, interpreted, {expected:e}", sum.0)));
            }
        }
        let pairs = self.reference.scalars.iter().zip(&other.reference.scalars);
        let wrong = pairs.filter(|(a, b)| !(within(a.0, b.0, a.1 + b.1) || a.0.is_nan() && b.0.is_nan())).count();
        Ok(if wrong == 0 { Ok(()) } else { Err(format!("{wrong} scalars differ from the interpreted ones")) })
    }
}

/// Largest changes under perturbation.
struct Responses {
    vectors: BTreeMap<Version, f64>,
    sums: BTreeMap<SumId, f64>,
    scalars: Vec<f64>,
    history: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::total;

    #[test]
    fn a_total_does_not_depend_on_how_many_parts_there_are() {
        let parts: Vec<f64> = (0..1_000_000).map(|n| 0.1 + f64::from(n % 7)).collect();
        let pairs: Vec<f64> = parts.chunks(8).map(total).collect();
        let (fine, coarse) = (total(&parts), total(&pairs));
        assert!((fine - coarse).abs() <= 2.0 * f64::EPSILON * fine, "{fine:e} and {coarse:e}");
        assert_eq!(total(&[1.0, 1e100, 1.0, -1e100]), 2.0);
        assert!(total(&[1.0, f64::NAN]).is_nan() && total(&[f64::MAX, f64::MAX]).is_infinite());
    }
}
