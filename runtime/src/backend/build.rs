//! Compiling beside the back end: in other threads, while the device measures.

use super::BackendError;
use kernelwright_codegen::kernel::Kernel;
use serde::{Deserialize, Serialize};

/// Compiles kernels for a back end without touching its device; see [`Backend::builder`](super::Backend::builder).
pub trait Build: Send + Sync {
    /// Compiles kernels that belong together; [`Backend::load_built`](super::Backend::load_built) takes the result.
    /// Nothing is put into the kernel cache: most candidates of a tune are never used again.
    ///
    /// # Errors
    /// Kernels that are not well formed or that the downstream compiler refuses.
    fn build(&self, kernels: &[Kernel]) -> Result<Vec<u8>, BackendError>;

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
