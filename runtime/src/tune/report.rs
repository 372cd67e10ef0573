//! What a tune tells about itself.

use serde::Serialize;

use super::Ended;
use super::race::Searched;

/// Words for what a tune chooses from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Nouns {
    /// What stands in the place of schedules.
    pub choices: &'static str,
    /// One of them.
    pub choice: &'static str,
    /// What meets in the final.
    pub whole: &'static str,
    /// One of those.
    pub one: &'static str,
}

impl Default for Nouns {
    fn default() -> Nouns {
        Nouns { choices: "Schedules", choice: "schedule", whole: "Whole iterations", one: "an iteration" }
    }
}

/// A schedule that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleTrial {
    /// Its name.
    pub schedule: String,
    /// Words a point and iteration, as the planner counts them.
    pub words: f64,
    /// Seconds of an iteration under the default variant.
    pub seconds: Option<f64>,
    /// Why it was not timed.
    pub reason: String,
    /// Taken from the store.
    pub remembered: bool,
}

/// A schedule under a variant in the final.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finalist {
    /// The schedule.
    pub schedule: String,
    /// Words a point and iteration.
    pub words: f64,
    /// Parts of the variant that differ from the default, by kernel.
    pub variant: Vec<(String, String)>,
    /// Threads, where they were chosen.
    pub threads: Option<usize>,
    /// Least seconds of an iteration.
    pub seconds: f64,
    /// Median over least, less one.
    pub spread: f64,
}

/// A search over one kernel, with its place in an iteration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelReport {
    /// The schedule it was taken from.
    pub schedule: String,
    /// Runs in an iteration.
    pub weight: f64,
    /// The search.
    #[serde(flatten)]
    pub searched: Searched,
}

/// What a tune found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// What the words below stand for.
    #[serde(skip)]
    pub nouns: Nouns,
    /// Name of the problem.
    pub problem: String,
    /// Points along the axes.
    pub sizes: Vec<usize>,
    /// `f32` or `f64`.
    pub precision: String,
    /// The back end in words.
    pub device: String,
    /// Name of the strategy.
    pub strategy: &'static str,
    /// Schedules under the default variant, the planner's choice first.
    pub schedules: Vec<ScheduleTrial>,
    /// Searches, in order.
    pub kernels: Vec<KernelReport>,
    /// The untuned default in the final.
    pub default: Finalist,
    /// What was chosen.
    pub best: Finalist,
    /// All that met in the final.
    pub finalists: Vec<Finalist>,
    /// Points times components.
    pub elements: u64,
    /// Bytes of a word.
    pub word_bytes: u64,
    /// Copy bandwidth of the device, measured in the same run, bytes a second.
    pub copy_bandwidth: Option<f64>,
    /// Candidates that were compiled.
    pub candidates: usize,
    /// Candidates whose times came from the store.
    pub remembered: usize,
    /// Candidates that failed.
    pub failed: usize,
    /// Wall-clock seconds of the tune.
    pub wall_seconds: f64,
    /// Why it ended.
    pub ended: Ended,
    /// Where measurements are kept, all of them.
    pub store: Option<String>,
    /// What the user should know.
    pub notices: Vec<String>,
}

impl Report {
    /// Fraction of the copy bandwidth that an iteration reaches with the words of its schedule.
    pub fn fraction_of_copy(&self, finalist: &Finalist) -> Option<f64> {
        let bytes = finalist.words * (self.elements * self.word_bytes) as f64;
        self.copy_bandwidth.map(|copy| bytes / finalist.seconds / copy)
    }

    /// Default over best time.
    pub fn gain(&self) -> f64 {
        self.default.seconds / self.best.seconds
    }
}
