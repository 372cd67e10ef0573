//! Solving: a compiled loop, its driver, and how a solve ends.
//!
//! [`Solver`] is what user code calls; [`Builder`] makes one. Below it an [`Engine`] holds a loop on a back end and
//! runs it.

mod builder;
mod solver;
mod engine;
mod queue;
mod driver;
mod cursor;
mod raise;
mod verdict;
mod refine;
mod suspects;
mod outcome;

pub use builder::Builder;
pub use driver::{Limits, Watch};
pub use engine::Engine;
pub(crate) use engine::data_element;
pub use outcome::{Outcome, Progress, Report, Stages, Timings, Traffic};
pub use solver::{Guess, Inputs, Solution, Solver};

use kernelwright_syntax::diagnostic::Diagnostics;

use crate::backend::BackendError;

/// What can go wrong around a solve. How a solve itself ends is an [`Outcome`], not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program has errors, each with its place.
    #[error("{0}")]
    Program(Diagnostics),
    /// An argument or a file is wrong: the caller can mend it.
    #[error("{0}")]
    Input(String),
    /// Something was asked for by a name that does not exist.
    #[error("{0}")]
    Usage(String),
    /// A back end is missing or failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The stages of kernelwright disagree with one another.
    #[error("{0}; this is a bug of kernelwright")]
    Internal(String),
}
