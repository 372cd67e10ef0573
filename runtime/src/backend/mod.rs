//! Back ends: compile kernels, hold buffers, launch in order.
//!
//! One trait, three implementations: `cuda` (NVRTC and the driver), `host` (C compiled by `cc`, all cores),
//! `interp` (the reference interpreter; small problems only).

use kernelwright_codegen::kernel::{Element, Kernel};

/// A compiled kernel of a back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelHandle(pub usize);

/// A buffer of a back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferHandle(pub usize);

/// What every back end can do. Launches run in the order given, possibly later; reads wait for them.
pub trait Backend {
    /// `cuda`, `host` or `interp`, and the device's name.
    fn describe(&self) -> String;
    /// Compiles kernels that belong together, in one unit.
    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError>;
    /// Allocates a buffer, filled with zeros.
    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError>;
    /// Gives a buffer back.
    fn free(&mut self, buffer: BufferHandle);
    /// Writes the first `values.len()` elements, converted to the element type.
    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError>;
    /// Reads the first `values.len()` elements, converted to f64.
    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError>;
    /// Enqueues a kernel with one buffer per global buffer of the kernel.
    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError>;
    /// Waits for everything enqueued.
    fn synchronize(&mut self) -> Result<(), BackendError>;
}

/// What can go wrong in a back end.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The library, compiler or device is not there; the text says which and what would help.
    #[error("{0}")]
    Unavailable(String),
    /// A problem too large for this back end or device.
    #[error("{0}")]
    TooLarge(String),
    /// The downstream compiler refused a generated source: a bug of kernelwright.
    #[error("the generated {language} did not compile; this is a bug of kernelwright\n{log}")]
    Compile {
        /// C or CUDA C++.
        language: &'static str,
        /// The compiler's log.
        log: String,
    },
    /// The device or the operating system reported an error.
    #[error("{0}")]
    Device(String),
}
