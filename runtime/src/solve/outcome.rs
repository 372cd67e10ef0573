//! How a solve ended, and everything a report says about it.

use std::time::Duration;

use crate::backend::CompileTimes;
use kernelwright_syntax::program;

/// How a solve ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The true residual meets the test.
    Converged,
    /// The test is out of reach of the precision: rounding alone keeps the true residual above the bound.
    AttainableAccuracy,
    /// The iterations allowed were used up.
    IterationLimit,
    /// The operator has a direction of non-positive energy.
    IndefiniteOperator,
    /// The preconditioner has a direction of non-positive energy.
    IndefinitePreconditioner,
    /// A quantity the loop divides by vanished, or what it carries on parted from what that stands for.
    Breakdown,
    /// The iteration moves away from the solution.
    Diverged,
    /// The operator is singular and the right-hand side is not in its range.
    Incompatible,
    /// A value became infinite or is not a number.
    NotFinite,
    /// Stopped from outside; the solution is that of the last iteration.
    Interrupted,
}

impl Outcome {
    /// Name in reports, `attainable_accuracy`.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Converged => "converged",
            Outcome::AttainableAccuracy => "attainable_accuracy",
            Outcome::IterationLimit => "iteration_limit",
            Outcome::IndefiniteOperator => "indefinite_operator",
            Outcome::IndefinitePreconditioner => "indefinite_preconditioner",
            Outcome::Breakdown => "breakdown",
            Outcome::Diverged => "diverged",
            Outcome::Incompatible => "incompatible",
            Outcome::NotFinite => "not_finite",
            Outcome::Interrupted => "interrupted",
        }
    }

    /// Whether the solution meets the test.
    pub fn is_converged(self) -> bool {
        self == Outcome::Converged
    }
}

impl From<program::Outcome> for Outcome {
    fn from(outcome: program::Outcome) -> Self {
        match outcome {
            program::Outcome::IndefiniteOperator => Outcome::IndefiniteOperator,
            program::Outcome::IndefinitePreconditioner => Outcome::IndefinitePreconditioner,
            program::Outcome::Breakdown => Outcome::Breakdown,
            program::Outcome::Diverged => Outcome::Diverged,
        }
    }
}

/// What a solve tells about itself.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// More about it, for people: the `require` that failed, or what would help.
    pub detail: Option<String>,
    /// Iterations of the loop.
    pub iterations: u32,
    /// The measure as the loop carries it on, at the last check.
    pub recursive: f64,
    /// The measure of the residual computed anew from the solution; none when it was not computed.
    pub truth: Option<f64>,
    /// Estimate of what rounding allows the measure to become.
    pub attainable: Option<f64>,
    /// What the measure is compared with.
    pub bound: f64,
    /// The measure at the last check of every iteration, from iteration 0 on; of the first million where there are more.
    pub history: Vec<f64>,
    /// How often the loop was started over from its solution because the true residual missed the bound.
    pub restarts: u32,
    /// Where the time went.
    pub timings: Timings,
    /// Memory traffic of the loop, where the schedule says how much it moves.
    pub traffic: Option<Traffic>,
}

/// Wall-clock times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// From the program to loaded kernels; once per solver.
    pub compile: Duration,
    /// The stages of that.
    pub stages: Stages,
    /// Tables and the transfer of inputs.
    pub setup: Duration,
    /// Sections and loop, until the device is done.
    pub solve: Duration,
}

/// Stages of the way from a checked program to kernels that can be launched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stages {
    /// Lowering, tracing, the choice of a schedule and carrying it out.
    pub plan: Duration,
    /// From sweeps to kernels.
    pub map: Duration,
    /// In the back end: verifying, printing, compiling or the cache, loading.
    pub backend: CompileTimes,
    /// Buffers of vectors, tables and scalars.
    pub allocate: Duration,
}

/// Memory traffic of the loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    /// Words of the working precision moved per point and iteration, as the schedule counts them.
    pub words: f64,
    /// Words × points × bytes × iterations / time of the solve.
    pub bytes_per_second: f64,
    /// The same as a fraction of the measured copy bandwidth, where that is known.
    pub fraction_of_copy: Option<f64>,
}

/// State of a running solve.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Iterations so far.
    pub iteration: u32,
    /// Iterations allowed.
    pub limit: u32,
    /// The recursive measure.
    pub measure: f64,
    /// What it is compared with.
    pub bound: f64,
    /// Time since the solve began.
    pub elapsed: Duration,
}
