//! Compiling beside the back end: in other threads, while the device measures.

use super::BackendError;
use kernelwright_codegen::kernel::Kernel;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Asks what is being compiled to end: a compilation that nobody waits for any more would only take time. Clones are one
/// request; once asked, it stays asked.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// Asks by itself then.
    until: Option<Instant>,
}

impl Stop {
    /// One that asks by itself at some time, if there is one.
    pub fn at(until: Option<Instant>) -> Stop {
        Stop { until, ..Stop::default() }
    }

    /// Asks.
    pub fn ask(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// What a compilation says that was asked to end.
pub(super) fn stopped() -> BackendError {
    BackendError::Device("the compilation was asked to end".to_owned())
}

/// Compiles kernels for a back end without touching its device; see [`Backend::builder`](super::Backend::builder).
pub trait Build: Send + Sync {
    /// Compiles kernels that belong together; [`Backend::load_built`](super::Backend::load_built) takes the result.
    /// Nothing is put into the kernel cache: most candidates of a tune are never used again.
    ///
    /// # Errors
    /// Kernels that are not well formed or that the downstream compiler refuses; a compilation that was asked to end.
    fn build(&self, kernels: &[Kernel], stop: &Stop) -> Result<Vec<u8>, BackendError>;

    /// Compiles kernels as [`Backend::compile`](super::Backend::compile) would, into the kernel cache, where it will find
    /// them.
    ///
    /// # Errors
    /// As [`Build::build`].
    fn warm(&self, kernels: &[Kernel], stop: &Stop) -> Result<(), BackendError>;

    /// Whether the device can measure undisturbed meanwhile.
    fn beside(&self) -> bool;
}

/// What decides how fast a kernel is and what it computes, beside the kernel: part of the keys of measurements.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Identity {
    /// The device.
    pub device: String,
    /// Its driver.
    pub driver: String,
    /// The downstream compiler.
    pub compiler: String,
    /// Its options.
    pub options: Vec<String>,
}
