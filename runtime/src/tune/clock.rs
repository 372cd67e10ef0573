//! Measurement: warm-up, repeats until the spread is known, early rejection, finalists in turns.
//!
//! What disturbs a measurement makes it longer, never shorter, so that the least of several samples is the estimate;
//! the median says how far samples spread. Samples of rivals are taken in turns, so that a clock that changes its rate
//! changes it for all.
//!
//! On a host that is not enough: where other work shares the cores, a sample takes half as long again as another, or twice as
//! long, and the least one is luck. There every sample of a candidate has one of the reference beside it, and the median
//! of their ratios is the estimate.

use std::time::{Duration, Instant};

use super::budget::ends;
use super::tunable::Tunable;
use crate::backend::{Backend, BackendError, Recorded};

/// Seconds that a sample should take at least: well above what a launch or an event costs.
const SAMPLE: f64 = 1e-3;
/// Launches of a sample at most.
const LAUNCHES: usize = 256;
/// Samples at least and at most.
const SAMPLES: [usize; 2] = [3, 9];
/// Spread that is small enough to stop.
const STEADY: f64 = 0.01;
/// A candidate this much slower than the best so far is not measured any further.
const HOPELESS: f64 = 1.25;

/// A measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Least seconds of one launch.
    pub seconds: f64,
    /// Median over least, less one.
    pub spread: f64,
    /// Samples taken.
    pub samples: u32,
    /// Given up early, being far slower than the limit.
    pub rejected: bool,
}

/// Launches of a candidate, recorded for sampling.
pub struct Lap {
    recorded: Recorded,
    launches: usize,
    /// Seconds of a launch, by sample.
    samples: Vec<f64>,
    /// The reference, where times do not hold by themselves.
    reference: Option<Beside>,
}

/// A reference that is sampled beside something.
struct Beside {
    /// Its seconds, which ratios are multiplied with.
    seconds: f64,
    /// Its samples.
    samples: Vec<f64>,
}

impl Lap {
    /// Records and warms up: the inputs are as at first, caches and clocks have settled.
    ///
    /// # Errors
    /// A device that fails.
    pub fn new<T: Tunable>(
        backend: &mut dyn Backend,
        bench: &T,
        candidate: &T::Candidate,
    ) -> Result<Lap, BackendError> {
        bench.reset(backend, candidate)?;
        let mut lap = Lap::of(backend, bench, candidate, bench.sets())?;
        let first = lap.warm(backend, bench)?;
        let wanted = (SAMPLE / first.max(1e-9)).ceil().min(LAUNCHES as f64) as usize;
        // After a fence the status word may be raised: it is cleared between launches.
        if !bench.raises() && wanted > lap.launches {
            let rounds = wanted.div_ceil(bench.sets());
            let longer = Lap::of(backend, bench, candidate, rounds * bench.sets())?;
            std::mem::replace(&mut lap, longer).close(backend);
            lap.warm(backend, bench)?;
        }
        Ok(lap)
    }

    fn of<T: Tunable>(
        backend: &mut dyn Backend,
        bench: &T,
        candidate: &T::Candidate,
        launches: usize,
    ) -> Result<Lap, BackendError> {
        let list: Vec<_> = (0..launches).flat_map(|set| bench.launches(candidate, set)).collect();
        Ok(Lap { recorded: backend.record(&list)?, launches, samples: Vec::new(), reference: None })
    }

    /// A run that does not count.
    fn warm(&self, backend: &mut dyn Backend, bench: &impl Tunable) -> Result<f64, BackendError> {
        self.run(backend, bench)
    }

    /// Seconds of one launch.
    fn run(&self, backend: &mut dyn Backend, bench: &impl Tunable) -> Result<f64, BackendError> {
        if bench.raises() {
            bench.clear(backend)?;
        }
        Ok(backend.time(&self.recorded)? / self.launches as f64)
    }

    /// Takes a sample: seconds of one launch.
    ///
    /// # Errors
    /// A device that fails.
    pub fn sample(&mut self, backend: &mut dyn Backend, bench: &impl Tunable) -> Result<f64, BackendError> {
        let seconds = self.run(backend, bench)?;
        self.samples.push(seconds);
        Ok(seconds)
    }

    /// Becomes a reference: its time is what it is now.
    pub fn refer(&mut self) {
        self.reference = Some(Beside { seconds: self.timed().seconds, samples: self.samples.clone() });
    }

    /// Notes the sample of the reference that was taken beside the last one.
    pub fn note(&mut self, sample: f64) {
        if let Some(reference) = &mut self.reference {
            reference.samples.push(sample);
        }
    }

    /// Gives the recorded list back.
    pub fn close(self, backend: &mut dyn Backend) {
        backend.forget(self.recorded);
    }

    /// Forgets the samples so far.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.reference.iter_mut().for_each(|reference| reference.samples.clear());
    }

    /// The samples so far, in order.
    pub fn samples(&self) -> &[f64] {
        &self.samples
    }

    /// What the samples say.
    pub fn timed(&self) -> Timed {
        let (seconds, spread) = match &self.reference {
            None => summary(&self.samples),
            Some(Beside { seconds, samples }) => relative(*seconds, &self.samples, samples),
        };
        Timed { seconds, spread, samples: self.samples.len() as u32, rejected: false }
    }

    /// Samples until the spread is known, the candidate is hopeless against a limit, or time is up; once in any case. With a
    /// reference each sample has one of that beside it, and a single one does not make a candidate hopeless.
    ///
    /// # Errors
    /// A device that fails.
    pub fn settle(
        &mut self,
        backend: &mut dyn Backend,
        bench: &impl Tunable,
        reference: Option<&Lap>,
        limit: Option<f64>,
        until: Option<Instant>,
    ) -> Result<Timed, BackendError> {
        let [least, most] = SAMPLES;
        // What an interpreter takes is no measure of anything.
        let most = if backend.small_problems_only().is_some() { least } else { most };
        self.reference = reference.map(|reference| Beside { seconds: reference.timed().seconds, samples: Vec::new() });
        while self.samples.len() < most {
            self.sample(backend, bench)?;
            if let Some(reference) = reference {
                self.note(reference.run(backend, bench)?);
            }
            let timed = self.timed();
            let several = reference.is_none() || self.samples.len() >= least;
            if several && limit.is_some_and(|limit| timed.seconds > HOPELESS * limit) {
                return Ok(Timed { rejected: true, ..timed });
            }
            let known = self.samples.len() >= least && timed.spread < STEADY;
            if known || !ends(Duration::ZERO, until) {
                break;
            }
        }
        Ok(self.timed())
    }
}

/// The time of something beside a reference of so many seconds, and the upper quartile of ratios over their median, less one.
fn relative(seconds: f64, samples: &[f64], reference: &[f64]) -> (f64, f64) {
    let Some([_, median, upper]) = quartiles(&ratios(samples, reference)) else { return (f64::INFINITY, 0.0) };
    (seconds * median, if median > 0.0 { upper / median - 1.0 } else { 0.0 })
}

/// Least value, and median over it less one.
pub fn summary(samples: &[f64]) -> (f64, f64) {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (least, median) = match sorted.len() {
        0 => return (f64::INFINITY, 0.0),
        n => (sorted[0], sorted[n / 2]),
    };
    (least, if least > 0.0 { median / least - 1.0 } else { 0.0 })
}

/// Times closer than this are not told apart.
const ALIKE: f64 = 0.01;

/// The best of rivals that were sampled in turns, by number: of those that no measurement tells apart from the fastest the
/// one with the least key.
pub fn choose<K: Ord>(samples: &[Vec<f64>], key: impl Fn(usize) -> K) -> usize {
    let times: Vec<f64> = samples.iter().map(|samples| summary(samples).0).collect();
    let first = (0..times.len()).min_by(|a, b| times[*a].total_cmp(&times[*b])).unwrap_or(0);
    let alike = |number: &usize| {
        times[*number] <= (1.0 + ALIKE) * times[first] && ratio(&samples[*number], &samples[first]) <= 1.0 + ALIKE
    };
    (0..times.len()).filter(alike).min_by_key(|number| key(*number)).unwrap_or(first)
}

/// Which of two rivals, sampled in turns, is faster: the median of the ratios `a / b` of neighbouring samples.
pub fn ratio(a: &[f64], b: &[f64]) -> f64 {
    quartiles(&ratios(a, b)).map_or(1.0, |[_, median, _]| median)
}

/// Ratios `a / b` of neighbouring samples.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b.max(1e-12)).collect()
}

/// Lower quartile, median and upper quartile of numbers; none of none.
pub fn quartiles(numbers: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| sorted.get(quarter * sorted.len() / 4).copied();
    Some([at(1)?, at(2)?, at(3)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbances_do_not_move_the_estimate() {
        let (least, spread) = summary(&[1.0, 1.01, 5.0]);
        assert_eq!(least, 1.0);
        assert!((spread - 0.01).abs() < 1e-12);
        // A clock that slows down by half in the middle: neighbours still compare.
        let (a, b) = ([1.0, 1.0, 2.0, 2.0, 2.0], [1.1, 1.1, 2.2, 2.2, 2.2]);
        assert!((ratio(&a, &b) - 1.0 / 1.1).abs() < 1e-12);
    }

    /// Both cores in the third sample, one in the others: the least would be the luck of who had it.
    #[test]
    fn times_beside_a_reference_are_by_ratios() {
        let (samples, reference) = ([2.2, 2.2, 1.1, 2.2, 1.1], [2.0, 2.0, 1.0, 2.0, 2.0]);
        let (seconds, spread) = relative(1.5, &samples, &reference);
        assert!((seconds - 1.65).abs() < 1e-12 && spread < 1e-12, "{seconds} {spread}");
        assert_eq!(relative(1.5, &[], &[]), (f64::INFINITY, 0.0));
    }

    #[test]
    fn quartiles_are_numbers_of_the_list() {
        assert_eq!(quartiles(&[5.0, 1.0, 4.0, 2.0, 3.0]), Some([2.0, 3.0, 4.0]));
        assert_eq!((quartiles(&[7.0]), quartiles(&[])), (Some([7.0; 3]), None));
    }
}
