//! What a comparison of stores tells: the kernels that searches chose, timed in turns in one process.

use serde::Serialize;

use super::clock;
use super::race::Sampled;

/// Kernels of a program with what stores hold for each.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the problem.
    pub problem: String,
    /// Points along the axes.
    pub sizes: Vec<usize>,
    /// `f32` or `f64`.
    pub precision: String,
    /// The back end in words.
    pub device: String,
    /// The stores, in the order in which they were named.
    pub stores: Vec<String>,
    /// The kernels.
    pub kernels: Vec<Compared>,
    /// Wall-clock seconds.
    pub wall_seconds: f64,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// A kernel as several stores have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compared {
    /// The schedule it was taken from.
    pub schedule: String,
    /// Name of the sweep or fence.
    pub kernel: String,
    /// Samples of each.
    pub turns: usize,
    /// The one with the least median, by number in `rivals`.
    pub best: usize,
    /// The default and what stores hold, different kernels all.
    pub rivals: Vec<Rival>,
}

/// A kernel under a variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rival {
    /// Stores that hold it; the first rival is the default, which may be what stores hold.
    pub stores: Vec<String>,
    /// Parts of the variant, with their values.
    pub variant: Vec<(String, String)>,
    /// Why it was not timed.
    pub reason: String,
    /// Median seconds of a launch.
    pub seconds: Option<f64>,
    /// Its time over that of each rival, by number.
    pub over: Vec<Option<Ratio>>,
    /// Seconds of a launch, turn by turn.
    pub samples: Vec<f64>,
}

/// Ratios of the samples of two kernels, turn by turn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// Their median.
    pub median: f64,
    /// A quarter is below the first and a quarter above the second.
    pub quartiles: [f64; 2],
}

impl Ratio {
    fn of(a: &[f64], b: &[f64]) -> Option<Ratio> {
        let [lower, median, upper] = clock::quartiles(&clock::ratios(a, b))?;
        Some(Ratio { median, quartiles: [lower, upper] })
    }
}

impl Compared {
    /// From samples in turns, with the stores that hold each; the first is the default.
    pub(super) fn of(schedule: String, kernel: String, sampled: Vec<(Vec<String>, Sampled)>) -> Compared {
        let all: Vec<Vec<f64>> = sampled.iter().map(|(_, one)| one.samples.clone()).collect();
        let rivals = sampled.into_iter().map(|(stores, Sampled { variant, samples, reason })| Rival {
            stores,
            variant,
            reason,
            seconds: clock::quartiles(&samples).map(|[_, median, _]| median),
            over: all.iter().map(|other| Ratio::of(&samples, other)).collect(),
            samples,
        });
        let rivals: Vec<Rival> = rivals.collect();
        let seconds = |number: &usize| rivals[*number].seconds.unwrap_or(f64::INFINITY);
        let best = (0..rivals.len()).min_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap_or(0);
        let turns = all.iter().map(Vec::len).max().unwrap_or(0);
        Compared { schedule, kernel, turns, best, rivals }
    }

    /// Number of the rival that a store holds.
    pub fn held_by(&self, store: &str) -> Option<usize> {
        self.rivals.iter().position(|rival| rival.stores.iter().any(|name| name == store))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(stores: &[&str], samples: &[f64]) -> (Vec<String>, Sampled) {
        let stores = stores.iter().map(|name| (*name).to_string()).collect();
        (stores, Sampled { variant: Vec::new(), samples: samples.to_vec(), reason: String::new() })
    }

    /// A clock that slows down by half: medians of times say nothing, ratios of neighbours all.
    #[test]
    fn ratios_are_of_samples_of_one_turn() {
        let default = sampled(&[], &[1.5, 1.5, 3.0, 3.0]);
        let (a, b) = (sampled(&["a"], &[1.0, 1.1, 2.0, 2.0]), sampled(&["b"], &[1.25, 1.1, 2.5, 2.5]));
        let compared = Compared::of("s".to_string(), "k".to_string(), vec![default, a, b]);
        assert_eq!((compared.best, compared.turns, compared.held_by("b")), (1, 4, Some(2)));
        let ratio = compared.rivals[2].over[1].expect("both were timed");
        assert_eq!((ratio.median, ratio.quartiles), (1.25, [1.25, 1.25]));
        assert_eq!(compared.rivals[1].over[1].map(|own| own.median), Some(1.0));
    }

    #[test]
    fn one_that_failed_has_no_ratio_and_does_not_win() {
        let compared = Compared::of("s".to_string(), "k".to_string(), vec![sampled(&[], &[2.0]), sampled(&["a"], &[])]);
        assert_eq!((compared.best, compared.rivals[0].over[1], compared.rivals[1].seconds), (0, None, None));
    }
}
