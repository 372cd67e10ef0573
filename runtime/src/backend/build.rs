//! Compiling beside the back end: in other threads, while the device measures.

use super::BackendError;
use kernelwright_codegen::kernel::Kernel;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks what is being compiled to end: a compilation that nobody waits for any more would only take time. Clones are one
/// request; once asked, it stays asked.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
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
