//! Solving: a compiled loop, its driver, and how a solve ends.
//!
//! [`Engine`] holds a loop on a back end and runs it.

mod cursor;
mod driver;
mod engine;
mod outcome;
mod raise;
mod verdict;

pub use driver::{Limits, Watch};
pub use engine::Engine;
pub use outcome::{Outcome, Progress, Report, Timings, Traffic};

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
