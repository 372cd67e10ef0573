//! Back ends: compile kernels, hold buffers, launch in order.
//!
//! One trait, three implementations: `cuda` (NVRTC and the driver), `host` (C compiled by `cc`, all cores),
//! `interp` (the reference interpreter; small problems only).
//!
//! Invariants: only `cuda/ffi.rs`, `cuda/nvrtc.rs` and `cuda/cusparse.rs` name `cudarc`; they, `cuda/vector.rs` and
//! `host/ffi.rs` are the only ones with `unsafe`; nothing here panics for want of a library, a compiler or a device;
//! nothing here prints
//! ([`Backend::notices`] collects what a user should hear).

mod blame;
pub mod build;
pub mod convert;
pub mod cuda;
pub mod host;
pub mod interp;
pub mod open;
pub mod shared;
pub mod signature;
mod slots;
mod units;
pub mod vector;

use kernelwright_codegen::format::store::Contents;
use kernelwright_codegen::kernel::{Element, Kernel};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

use build::{Build, Identity, Stop};

pub use units::CompileTimes;
pub use vector::{DeviceVector, VectorMut, VectorRef};

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
    /// Compiles kernels that belong together.
    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError>;
    /// Allocates a buffer, filled with zeros.
    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError>;
    /// Gives a buffer back.
    fn free(&mut self, buffer: BufferHandle);
    /// Writes the first `values.len()` elements, converted to the element type.
    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError>;
    /// Writes the first elements of a buffer of whole numbers of the same width.
    fn write_integers(&mut self, buffer: BufferHandle, values: Integers) -> Result<(), BackendError> {
        self.write(buffer, &values.reals())
    }
    /// Reads the first `values.len()` elements, converted to f64.
    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError>;
    /// Writes the first elements from memory of the caller.
    fn write_from(&mut self, buffer: BufferHandle, from: VectorRef) -> Result<(), BackendError> {
        match from {
            VectorRef::F64(values) => self.write(buffer, values),
            other => self.write(buffer, &other.on_host()?),
        }
    }
    /// Reads the first elements into memory of the caller.
    fn read_into(&mut self, buffer: BufferHandle, into: VectorMut) -> Result<(), BackendError> {
        into.fill(|values| self.read(buffer, values))
    }
    /// Enqueues a kernel with one buffer per global buffer of the kernel.
    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError>;
    /// Waits for everything enqueued.
    fn synchronize(&mut self) -> Result<(), BackendError>;

    /// Gives compiled kernels back; their unit is unloaded with the last of them (of a recorded list: when that is
    /// forgotten).
    fn release(&mut self, kernels: &[KernelHandle]) {
        let _ = kernels;
    }
    /// Which kernels it runs: one lane a block for the host, many for CUDA.
    fn target(&self) -> Target {
        Target::Host
    }
    /// The largest number of elements of a buffer it accepts, where it is meant for small problems only.
    fn small_problems_only(&self) -> Option<u64> {
        None
    }
    /// Prepares a list of launches that is enqueued many times, say one iteration of a solver.
    fn record(&mut self, launches: &[(KernelHandle, Vec<BufferHandle>)]) -> Result<Recorded, BackendError> {
        Ok(Recorded::list(launches))
    }
    /// Enqueues a recorded list.
    fn replay(&mut self, recorded: &Recorded) -> Result<(), BackendError> {
        recorded.launches.iter().try_for_each(|(kernel, args)| self.launch(*kernel, args))
    }
    /// Gives back what a recorded list holds on the device.
    fn forget(&mut self, recorded: Recorded) {
        drop(recorded);
    }
    /// Seconds that one replay takes on the device, after everything enqueued before.
    fn time(&mut self, recorded: &Recorded) -> Result<f64, BackendError> {
        self.synchronize()?;
        let start = std::time::Instant::now();
        self.replay(recorded)?;
        self.synchronize()?;
        Ok(start.elapsed().as_secs_f64())
    }
    /// What the device says about a compiled kernel, where it says anything.
    fn kernel_info(&self, kernel: KernelHandle) -> Option<KernelInfo> {
        let _ = kernel;
        None
    }
    /// Where the time of compiling went, summed over all calls.
    fn compile_times(&self) -> CompileTimes {
        CompileTimes::default()
    }
    /// What ends the compilations of [`Backend::compile`] from now on; of no effect where nothing is compiled.
    fn limit(&mut self, stop: &Stop) {
        let _ = stop;
    }
    /// What was done so far; shows that a parameter never recompiles and that memory stays flat.
    fn counters(&self) -> Counters {
        Counters::default()
    }
    /// What compiles for it in other threads, where anything does.
    fn builder(&self) -> Option<Arc<dyn Build>> {
        None
    }
    /// Loads a unit that its builder made from these kernels.
    fn load_built(&mut self, kernels: &[Kernel], unit: &[u8]) -> Result<Vec<KernelHandle>, BackendError> {
        let _ = unit;
        self.compile(kernels)
    }
    /// What measurements on it depend on.
    fn identity(&self) -> Identity {
        Identity { device: self.describe(), ..Identity::default() }
    }
    /// Threads that run kernels, where their number can be chosen.
    fn threads(&self) -> Option<usize> {
        None
    }
    /// Chooses the number of threads; of no effect where there is no such choice.
    fn set_threads(&mut self, threads: usize) -> Result<(), BackendError> {
        let _ = threads;
        Ok(())
    }
    /// What the user should know (a cache that cannot be written, a damaged entry); each notice is given once.
    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Whole numbers on their way to a buffer; those of 64 bits are below 2^63.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Integers<'a> {
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

impl<'a> Integers<'a> {
    /// The integers of an array of a matrix.
    ///
    /// # Errors
    /// Its numbers, if it holds reals.
    pub fn of(contents: &'a Contents) -> Result<Integers<'a>, &'a [f64]> {
        match contents {
            Contents::Real(values) => Err(values),
            Contents::U16(values) => Ok(Integers::U16(values)),
            Contents::U32(values) => Ok(Integers::U32(values)),
            Contents::U64(values) => Ok(Integers::U64(values)),
        }
    }
}

/// Which kernels a back end runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// One lane a block, loops over points, SIMD marked: `host` and `interp`.
    Host,
    /// Many lanes a block.
    Cuda,
}

impl From<Target> for kernelwright_codegen::map::Target {
    fn from(target: Target) -> Self {
        match target {
            Target::Cuda => Self::Cuda,
            Target::Host => Self::Host,
        }
    }
}

/// How floating-point arithmetic is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Arithmetic {
    /// `a * b + c` may be one operation with one rounding. The usual choice: it is as accurate, and faster where
    /// arithmetic counts.
    #[default]
    Contracted,
    /// Every operation rounds as written: for comparing bits between back ends, and with the interpreter.
    Strict,
}

/// A prepared list of launches; of the back end that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    launches: Vec<(KernelHandle, Vec<BufferHandle>)>,
    /// Number of the device's own form of the list, where it has one.
    graph: Option<usize>,
}

impl Recorded {
    /// A list without a form of the device's own.
    pub fn list(launches: &[(KernelHandle, Vec<BufferHandle>)]) -> Recorded {
        Recorded { launches: launches.to_vec(), graph: None }
    }

    /// The launches, in order.
    pub fn launches(&self) -> &[(KernelHandle, Vec<BufferHandle>)] {
        &self.launches
    }
}

/// Resources of a compiled kernel on a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelInfo {
    /// Its name.
    pub name: String,
    /// Registers a lane.
    pub registers: u32,
    /// Bytes of shared memory a block.
    pub shared_bytes: u32,
    /// Bytes of local memory a lane: private arrays and spilled registers.
    pub local_bytes: u32,
    /// Blocks that fit on a multiprocessor at the kernel's block size.
    pub blocks_per_multiprocessor: u32,
    /// Lanes that fit, over the multiprocessor's capacity.
    pub occupancy: f64,
}

/// Running totals of a back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counters {
    /// Units taken from the kernel cache.
    pub cache_hits: u64,
    /// Units not found there.
    pub cache_misses: u64,
    /// Runs of the downstream compiler.
    pub compiles: u64,
    /// Units loaded now.
    pub modules: u64,
    /// Buffers allocated now.
    pub buffers: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Launches enqueued, one by one or in a replay.
    pub launches: u64,
}

impl Counters {
    /// Counts a unit that was compiled now, or found in the cache.
    fn count_unit(&mut self, compiled: bool) {
        self.cache_hits += u64::from(!compiled);
        self.cache_misses += u64::from(compiled);
        self.compiles += u64::from(compiled);
    }
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
    /// Arguments that do not fit the kernel or buffer: a bug of the caller.
    #[error("{0}")]
    Argument(String),
}

/// A buffer or kernel the memory has no room for.
fn too_large(device: &str, element: Element, len: u64, free: Option<u64>) -> BackendError {
    let mib = |bytes: f64| format!("{:.1} MiB", bytes / (1024.0 * 1024.0));
    let want = mib(len as f64 * convert::size_of(element) as f64);
    let have = free.map_or_else(String::new, |free| format!(", {} free", mib(free as f64)));
    let name = convert::name_of(element);
    BackendError::TooLarge(format!("{device}: no memory for a buffer of {len} {name} ({want}{have})"))
}

/// Checks that a transfer stays within a buffer.
fn fits(values: usize, len: u64) -> Result<(), BackendError> {
    if values as u64 > len {
        return Err(BackendError::Argument(format!("{values} values do not fit a buffer of {len}")));
    }
    Ok(())
}

fn no_kernel(handle: KernelHandle) -> BackendError {
    BackendError::Argument(format!("there is no kernel {}", handle.0))
}

fn no_buffer(handle: BufferHandle) -> BackendError {
    BackendError::Argument(format!("there is no buffer {} (freed, or of another back end)", handle.0))
}

/// Only what the verifier accepts is printed or interpreted.
fn verified<K: std::borrow::Borrow<Kernel>>(kernels: &[K]) -> Result<(), BackendError> {
    kernelwright_codegen::kernel_verify::verify_all(kernels).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        BackendError::Argument(format!(
            "kernels that are not well formed, a bug of kernelwright:\n{}",
            lines.join("\n")
        ))
    })
}
