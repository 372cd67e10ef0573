//! One suite for every back end.
//!
//! A case is a program, sizes, inputs, a precision and a schedule, and what the oracle says about them. `cargo test` runs the suite on the host and in the interpreter; the program `kernelwright-suite` runs it
//! on a card, on a machine that has a driver and NVRTC and nothing else.

pub mod applied;
pub mod cover;
pub mod galerkin;
pub mod run;
pub mod solved;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A named piece of work that can fail.
pub struct Case {
    /// Unique, for filters and reports.
    pub name: String,
    /// Runs it on a back end; the text of a failure says what differs and where.
    pub run: Box<dyn Fn(kernelwright::backend::open::Choice) -> Result<(), String> + Send + Sync>,
}

/// All cases, in a fixed order. `random` is the number of random operators.
pub fn cases(random: u64) -> Vec<Case> {
    let mut cases = solved::cases();
    cases.extend(applied::cases(random));
    cases.extend(galerkin::cases());
    cases
}

/// Runs the cases whose name contains `filter` on all cores but never more than eight, and gives every result in the
/// order of the cases.
pub fn run_all(cases: &[Case], choice: kernelwright::backend::open::Choice, filter: &str) -> Vec<Outcome> {
    let wanted: Vec<&Case> = cases.iter().filter(|case| case.name.contains(filter)).collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some(case) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begin = Instant::now();
            let result = (case.run)(choice);
            let outcome = Outcome { name: case.name.clone(), result, time: begin.elapsed() };
            done.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut outcomes = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let place = |outcome: &Outcome| wanted.iter().position(|case| case.name == outcome.name);
    outcomes.sort_by_key(place);
    outcomes
}

/// What became of a case.
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What differs, if something does.
    pub result: Result<(), String>,
    /// How long it took.
    pub time: Duration,
}
