//! One suite for every back end.
//!
//! A case is a program, sizes, inputs and what the oracle says about them; it runs on a back end in every precision and
//! schedule. `cargo test` runs the suite on the host and in the interpreter; the program `kernelwright-suite` runs it
//! on a card, on a machine that has a driver and NVRTC and nothing else.

pub mod applied;
pub mod run;
pub mod solved;

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
    cases
}
