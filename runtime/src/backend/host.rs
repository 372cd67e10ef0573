//! The host back end: generated C, compiled by the system's `cc`, run on all cores.
//!
//! Launches run at once and in order; a launch's blocks are spread over a thread pool. Results do not depend on the
//! number of threads: a block writes only what is its own, and sums are kept per block and finished by fences in fixed
//! order.

pub mod cc;
mod ffi;
pub mod memory;
mod pool;

use super::build::{Build, Identity, Stop};
use super::convert::{bytes_of, decode, encode, size_of};
use super::signature::Signature;
use super::slots::Slots;
use super::units::{self, Built, CompileTimes, Image, Unit};
use super::{Arithmetic, Backend, BackendError, BufferHandle, Counters, Integers, KernelHandle};
use crate::cache::{Cache, Description, KeyBuilder};
use cc::Compiler;
use ffi::{Library, Memory};
use kernelwright_codegen::kernel::{Element, Kernel};
use kernelwright_codegen::print;
use pool::Pool;
use std::ffi::OsString;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Instant;

pub(super) use ffi::load_for_good;

/// Choices of a host back end.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// Worker threads; one per core if not given.
    pub threads: Option<usize>,
    /// Rounding of compiled arithmetic.
    pub arithmetic: Arithmetic,
    /// The C compiler, with options if need be; that of `CC`, else `cc`, if not given.
    pub compiler: Option<OsString>,
    /// Where compiled units are kept.
    pub cache: Option<Arc<Cache>>,
}

/// Bytes from which on an allocation is compared with the memory that is left.
const UNCHECKED: usize = 64 << 20;

/// The host as a device.
#[derive(Debug)]
pub struct HostBackend {
    libraries: Libraries,
    pool: Pool,
    /// Ends compilations.
    stop: Stop,
    kernels: Slots<HostKernel>,
    buffers: Slots<HostBuffer>,
    /// Large buffers made so far.
    made: u64,
    counters: Counters,
    times: CompileTimes,
}

#[derive(Debug)]
struct HostKernel {
    signature: Signature,
    blocks: u64,
    /// Shared by the kernels of the unit and unloaded with the last of them.
    unit: Arc<Library>,
    entry: usize,
}

#[derive(Debug)]
struct HostBuffer {
    element: Element,
    len: u64,
    memory: Memory,
}

impl HostBackend {
    /// Opens the host; `Unavailable` without a C compiler.
    pub fn new(options: HostOptions) -> Result<HostBackend, BackendError> {
        Ok(HostBackend {
            libraries: Libraries {
                compiler: options.compiler.map_or_else(Compiler::of_user, |command| Compiler::named(&command))?,
                processor: cc::processor(),
                arithmetic: options.arithmetic,
                cache: options.cache.unwrap_or_else(|| Arc::new(Cache::of_user())),
            },
            pool: Pool::new(options.threads)?,
            stop: Stop::default(),
            kernels: Slots::new(),
            buffers: Slots::new(),
            made: 0,
            counters: Counters::default(),
            times: CompileTimes::default(),
        })
    }

    /// The compiler in use.
    pub fn compiler(&self) -> &Compiler {
        &self.libraries.compiler
    }

    /// Loads the libraries of units and puts their kernels in order.
    fn load(&mut self, units: &[Image], kernels: &[Kernel]) -> Result<Vec<HostKernel>, BackendError> {
        let mut loaded: Vec<Option<HostKernel>> = kernels.iter().map(|_| None).collect();
        for (numbers, image) in units {
            let names: Vec<&str> = numbers.iter().map(|&number| kernels[number].name.as_str()).collect();
            let library = Arc::new(load(image, &names)?);
            for (entry, &number) in numbers.iter().enumerate() {
                let signature = Signature::of(&kernels[number]);
                let blocks = signature.blocks()?;
                loaded[number] = Some(HostKernel { signature, blocks, unit: library.clone(), entry });
            }
        }
        self.counters.modules += units.len() as u64;
        Ok(loaded.into_iter().flatten().collect())
    }

    fn buffer(&self, handle: BufferHandle) -> Result<&HostBuffer, BackendError> {
        self.buffers.get(handle.0).ok_or_else(|| super::no_buffer(handle))
    }
}

/// Only kernels of one lane a block run here.
fn for_host(kernels: &[Kernel]) -> Result<(), BackendError> {
    if let Some(kernel) = kernels.iter().find(|kernel| kernel.lane_count() != 1 || kernel.waits_for_grid()) {
        let text = format!("kernel {} is not for the host: it has several lanes or a grid barrier", kernel.name);
        return Err(BackendError::Argument(text));
    }
    Ok(())
}

/// Shared libraries of sources: from the cache, else from the compiler.
#[derive(Debug, Clone)]
struct Libraries {
    compiler: Compiler,
    processor: String,
    arithmetic: Arithmetic,
    cache: Arc<Cache>,
}

impl Libraries {
    /// The compiled unit of a source, from the cache or from the compiler.
    fn of(&self, unit: &Unit, stop: &Stop) -> Result<Built, BackendError> {
        let options = Compiler::options(self.arithmetic);
        let key = KeyBuilder::new("host")
            .list("compiler", &self.compiler.identity())
            .list("options", &options)
            .part("processor", &self.processor)
            .part("source", &unit.source.text)
            .finish();
        let about = Description {
            backend: "host".to_owned(),
            kernels: unit.names.clone(),
            compiler: self.compiler.version.clone(),
            architecture: std::env::consts::ARCH.to_owned(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            source_bytes: unit.source.text.len() as u64,
            ..Description::default()
        };
        let mut compiled = false;
        let image = self.cache.get_or_build(&key, about, || {
            compiled = true;
            self.compile(unit, stop)
        })?;
        Ok(Built { image, compiled })
    }

    fn compile(&self, unit: &Unit, stop: &Stop) -> Result<Vec<u8>, BackendError> {
        self.compiler.compile(&unit.source.text, unit.name(), self.arithmetic, stop)
    }
}

/// The C compiler in any thread; it takes the cores that kernels are measured on.
impl Build for Libraries {
    fn build(&self, kernels: &[Kernel], stop: &Stop) -> Result<Vec<u8>, BackendError> {
        for_host(kernels)?;
        units::build_one(kernels, print::c_with_lines, |unit| self.compile(unit, stop))
    }

    fn warm(&self, kernels: &[Kernel], stop: &Stop) -> Result<(), BackendError> {
        for_host(kernels)?;
        let (mut counters, mut times) = (Counters::default(), CompileTimes::default());
        units::build(kernels, print::c_with_lines, &mut counters, &mut times, |unit| self.of(unit, stop)).map(drop)
    }

    fn beside(&self) -> bool {
        false
    }
}

impl Backend for HostBackend {
    fn describe(&self) -> String {
        format!("host: {} threads, {}", self.pool.threads(), self.libraries.compiler.version)
    }

    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
        for_host(kernels)?;
        let (mut times, mut counters) = (self.times, self.counters);
        let (libraries, stop) = (&self.libraries, &self.stop);
        let one = |unit: &Unit| libraries.of(unit, stop);
        let units = units::build(kernels, print::c_with_lines, &mut counters, &mut times, one)?;
        self.counters = counters;
        let begin = Instant::now();
        let loaded = self.load(&units, kernels)?;
        times.load += begin.elapsed();
        self.times = times;
        Ok(loaded.into_iter().map(|kernel| KernelHandle(self.kernels.put(kernel))).collect())
    }

    fn release(&mut self, kernels: &[KernelHandle]) {
        for handle in kernels {
            if let Some(kernel) = self.kernels.take(handle.0) {
                self.counters.modules -= u64::from(Arc::strong_count(&kernel.unit) == 1);
            }
        }
    }

    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError> {
        let free = memory::available();
        let refuse = || super::too_large("host", element, len, free);
        // Systems promise memory they do not have and end the process when it is touched: look first.
        let fits = |&bytes: &usize| bytes < UNCHECKED || free.is_none_or(|free| bytes as u64 <= free);
        let bytes = bytes_of(element, len).filter(fits).ok_or_else(refuse)?;
        let colour = self.made;
        self.made += u64::from(Memory::is_large(bytes));
        let memory = Memory::zeroed(bytes, colour, |bytes, zero| self.pool.cover(bytes, zero)).ok_or_else(refuse)?;
        self.counters.buffers += 1;
        self.counters.bytes += bytes as u64;
        Ok(BufferHandle(self.buffers.put(HostBuffer { element, len, memory })))
    }

    fn free(&mut self, buffer: BufferHandle) {
        if let Some(freed) = self.buffers.take(buffer.0) {
            self.counters.buffers -= 1;
            self.counters.bytes -= freed.len * size_of(freed.element) as u64;
        }
    }

    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError> {
        let target = self.buffers.get_mut(buffer.0).ok_or_else(|| super::no_buffer(buffer))?;
        super::fits(values.len(), target.len)?;
        let bytes = values.len() * size_of(target.element);
        encode(target.element, values, &mut target.memory.bytes_mut()[..bytes]).map_err(BackendError::Argument)
    }

    fn write_integers(&mut self, buffer: BufferHandle, values: Integers) -> Result<(), BackendError> {
        let target = self.buffers.get_mut(buffer.0).ok_or_else(|| super::no_buffer(buffer))?;
        super::fits(values.len(), target.len)?;
        values.fits(target.element).map_err(BackendError::Argument)?;
        let bytes = values.len() * size_of(target.element);
        values.encode(0, &mut target.memory.bytes_mut()[..bytes]);
        Ok(())
    }

    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError> {
        let source = self.buffer(buffer)?;
        super::fits(values.len(), source.len)?;
        decode(source.element, &source.memory.bytes()[..values.len() * size_of(source.element)], values);
        Ok(())
    }

    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
        let kernel = self.kernels.get(kernel.0).ok_or_else(|| super::no_kernel(kernel))?;
        let facts = |buffer: &HostBuffer| (buffer.element, buffer.len);
        let buffers = kernel.signature.take(args, |handle| self.buffer(handle), facts)?;
        let memories: Vec<&Memory> = buffers.iter().map(|buffer| &buffer.memory).collect();
        let call = kernel.unit.call(kernel.entry, kernel.signature.grid, &memories);
        self.pool.cover(kernel.blocks, &|from, to| call.blocks(from, to));
        self.counters.launches += 1;
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn compile_times(&self) -> CompileTimes {
        self.times
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn builder(&self) -> Option<Arc<dyn Build>> {
        Some(Arc::new(self.libraries.clone()))
    }

    fn load_built(&mut self, kernels: &[Kernel], unit: &[u8]) -> Result<Vec<KernelHandle>, BackendError> {
        let loaded = self.load(&[((0..kernels.len()).collect(), unit.to_vec())], kernels)?;
        Ok(loaded.into_iter().map(|kernel| KernelHandle(self.kernels.put(kernel))).collect())
    }

    fn identity(&self) -> Identity {
        let options = Compiler::options(self.libraries.arithmetic).into_iter().map(str::to_owned);
        Identity {
            device: self.libraries.processor.clone(),
            driver: String::new(),
            compiler: self.libraries.compiler.identity().join("\n"),
            options: options.collect(),
        }
    }

    fn threads(&self) -> Option<usize> {
        Some(self.pool.threads())
    }

    fn limit(&mut self, stop: &Stop) {
        self.stop = stop.clone();
    }

    fn set_threads(&mut self, threads: usize) -> Result<(), BackendError> {
        if threads != self.pool.threads() {
            self.pool = Pool::new(Some(threads))?;
        }
        Ok(())
    }

    fn notices(&mut self) -> Vec<String> {
        self.libraries.cache.take_notices()
    }
}

/// Loads a unit from its bytes: written to a private file, so that what runs is what was checked, and taken away
/// at once, since a loaded library needs no name.
fn load(library: &[u8], kernels: &[&str]) -> Result<Library, BackendError> {
    let place = std::env::temp_dir();
    let fail = |why: String| {
        let place = place.display();
        BackendError::Device(format!(
            "a compiled unit cannot be loaded from {place}: {why} (TMPDIR names another place)"
        ))
    };
    let mut file = tempfile::Builder::new()
        .prefix("kernelwright-")
        .suffix(".so")
        .tempfile()
        .map_err(|error| fail(error.to_string()))?;
    file.write_all(library).and_then(|()| file.flush()).map_err(|error| fail(error.to_string()))?;
    Library::load(file.path(), kernels).map_err(fail)
}
