//! The tuner: the best schedule, and the best variant of each of its kernels, for the device at hand.
//!
//! # How
//! 1. Schedules of the front run a few whole iterations each under the default variant ([`iterate`]); the fastest few go
//!    on.
//! 2. Each of their sweeps and fences is searched by itself ([`race`]), since the time of a kernel depends on its own
//!    variant alone: a [`strategy`] picks candidates of a [`space`], the [`workshop`] proves them at small sizes
//!    ([`exact`]) and compiles them, the [`bench`] proves them at the sizes asked for ([`proof`]) and a [`clock`] times
//!    them. What can be searched is a [`tunable`]; a [`step`] is one.
//! 3. Whole iterations decide: the default, the tuned schedules and the choice of the tune before meet in turns.
//!
//! [`compare`] times what searches in other processes chose, in turns in this one.
//!
//! Every measurement goes to the [`store`] at once; a tune that is killed goes on where it was. [`known`] is how
//! solves find the choice.

pub mod bench;
pub mod budget;
pub mod clock;
pub mod comparison;
pub mod element;
pub mod exact;
pub mod held;
pub mod iterate;
pub mod key;
pub mod kit;
pub mod known;
pub mod known_product;
pub mod matrix;
pub mod plot;
pub mod proof;
pub mod race;
pub mod record;
pub mod report;
pub mod session;
pub mod space;
pub mod step;
pub mod store;
pub mod strategy;
pub mod structure;
pub mod system;
pub mod trial;
pub mod tunable;
mod tuner;
mod turns;
pub mod workshop;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

pub use held::Recorded;
pub use report::Report;
pub use tuner::{compare, tune};

/// What a tune may take, and how it searches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Wall-clock time, planning and compiling included; none is no limit.
    pub budget: Option<Duration>,
    /// When the budget began, if not with the tune: reading a matrix may be part of it.
    pub since: Option<Instant>,
    /// Candidates sent to the compiler at most.
    pub count: Option<usize>,
    /// Which candidate is next.
    pub strategy: strategy::Choice,
    /// Leave out what earlier tunes measured.
    pub fresh: bool,
    /// Kernels of a loop to search, by name; none is all of them.
    pub kernels: Vec<String>,
}

/// Time of a tune, if nothing else is said.
pub const BUDGET: Duration = Duration::from_secs(60);

impl Default for Options {
    fn default() -> Options {
        let strategy = strategy::Choice::Guided;
        Options { budget: Some(BUDGET), since: None, count: None, strategy, fresh: false, kernels: Vec::new() }
    }
}

/// Why a tune ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// The strategy had nothing left to look at.
    Complete,
    /// The time was used up.
    Budget,
    /// So many candidates were looked at.
    Count,
    /// Whoever watched asked to stop.
    Interrupted,
}

/// State of a running tune.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The kernel or schedule that is looked at.
    pub what: &'a str,
    /// Candidates of it looked at.
    pub looked_at: usize,
    /// Candidates of it that there are.
    pub space: usize,
    /// Best seconds so far.
    pub best: Option<f64>,
    /// Seconds of the default.
    pub default: Option<f64>,
    /// Time since the tune began.
    pub elapsed: Duration,
    /// Time left, where there is a limit.
    pub left: Option<Duration>,
}

/// Called now and then; breaks to end the search, after which the best of what is known is chosen.
pub type Watch<'w> = &'w mut dyn FnMut(&Progress) -> ControlFlow<()>;
