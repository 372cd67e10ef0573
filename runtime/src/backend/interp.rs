//! The interpreter as a back end: the reference semantics, for small problems and tests.
//!
//! It checks every access of every lane and says where a kernel does what it may not; in return it is some thousand
//! times slower than the host back end and refuses anything large. It runs kernels of either target, so that CUDA
//! kernels can be checked where there is no card.

use super::{Backend, BackendError, BufferHandle, Counters, KernelHandle, Target};
use crate::backend::convert::{name_of, size_of};
use crate::backend::slots::Slots;
use kernelwright_codegen::interp::{self, InterpError, Memory, Native, Options, Prepared};
use kernelwright_codegen::kernel::{Element, Kernel};

/// Choices of an interpreter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterpOptions {
    /// Which kernels it is given.
    pub target: Target,
    /// Elements a buffer may have.
    pub max_elements: u64,
    /// Steps a launch may take: statements times lanes, roughly.
    pub max_steps: u64,
    /// Whether reading what was never written is a fault, though buffers are said to start as zeros.
    pub poison: bool,
}

impl Default for InterpOptions {
    fn default() -> InterpOptions {
        InterpOptions { target: Target::Host, max_elements: 1 << 20, max_steps: 1 << 30, poison: false }
    }
}

/// The interpreter as a device.
pub struct InterpBackend {
    options: InterpOptions,
    memory: Memory<Native>,
    kernels: Slots<Prepared>,
    buffers: Slots<(interp::BufferHandle, Element, u64)>,
    counters: Counters,
}

impl InterpBackend {
    /// A fresh interpreter.
    pub fn new(options: InterpOptions) -> InterpBackend {
        InterpBackend {
            options,
            memory: Memory::new(Native),
            kernels: Slots::new(),
            buffers: Slots::new(),
            counters: Counters::default(),
        }
    }

    fn buffer(&self, handle: BufferHandle) -> Result<(interp::BufferHandle, Element, u64), BackendError> {
        self.buffers.get(handle.0).copied().ok_or_else(|| super::no_buffer(handle))
    }
}

impl Backend for InterpBackend {
    fn describe(&self) -> String {
        format!("interp: the reference interpreter, buffers of up to {} elements", self.options.max_elements)
    }

    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
        super::verified(kernels)?;
        let prepared = kernels.iter().map(Prepared::new).collect::<Result<Vec<_>, _>>().map_err(explain)?;
        self.counters.count_unit(true);
        self.counters.modules += prepared.len() as u64;
        Ok(prepared.into_iter().map(|kernel| KernelHandle(self.kernels.put(kernel))).collect())
    }

    fn release(&mut self, kernels: &[KernelHandle]) {
        for handle in kernels {
            self.counters.modules -= u64::from(self.kernels.take(handle.0).is_some());
        }
    }

    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError> {
        if len > self.options.max_elements {
            let (name, most) = (name_of(element), self.options.max_elements);
            return Err(BackendError::TooLarge(format!(
                "the interpreter is for small problems: {len} {name} in one buffer, it takes {most}; use the host back \
                 end, which needs a C compiler"
            )));
        }
        let buffer = self.memory.allocate(element, len as usize);
        if !self.options.poison {
            self.memory.clear(buffer).map_err(explain)?;
        }
        self.counters.buffers += 1;
        self.counters.bytes += len * size_of(element) as u64;
        Ok(BufferHandle(self.buffers.put((buffer, element, len))))
    }

    fn free(&mut self, buffer: BufferHandle) {
        if let Some((freed, element, len)) = self.buffers.take(buffer.0) {
            self.memory.free(freed);
            self.counters.buffers -= 1;
            self.counters.bytes -= len * size_of(element) as u64;
        }
    }

    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError> {
        let (target, _, len) = self.buffer(buffer)?;
        super::fits(values.len(), len)?;
        self.memory.write(target, values).map_err(explain)
    }

    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError> {
        let (source, element, len) = self.buffer(buffer)?;
        super::fits(values.len(), len)?;
        match element {
            Element::F32 | Element::F64 => {
                let reals = self.memory.reals(source).map_err(explain)?;
                values.copy_from_slice(&reals[..values.len()]);
            }
            _ => {
                let ints = self.memory.ints(source).map_err(explain)?;
                values.iter_mut().zip(ints).for_each(|(value, &int)| *value = int as f64);
            }
        }
        Ok(())
    }

    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
        let prepared = self.kernels.get(kernel.0).ok_or_else(|| super::no_kernel(kernel))?;
        let args = args.iter().map(|&arg| Ok(self.buffer(arg)?.0)).collect::<Result<Vec<_>, BackendError>>()?;
        let options = Options { max_steps: self.options.max_steps, ..Options::default() };
        prepared.launch(&args, &mut self.memory, &options).map_err(explain)?;
        self.counters.launches += 1;
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    fn target(&self) -> Target {
        self.options.target
    }

    fn small_problems_only(&self) -> Option<u64> {
        Some(self.options.max_elements)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

fn explain(error: InterpError) -> BackendError {
    match error {
        InterpError::Argument(text) => BackendError::Argument(text),
        InterpError::TooLarge { .. } => {
            BackendError::TooLarge(format!("{error}; use the host back end, which needs a C compiler"))
        }
        InterpError::Malformed { .. } => BackendError::Argument(format!("a bug of kernelwright: {error}")),
        InterpError::Faults(_) => BackendError::Device(format!("a bug of kernelwright: {error}")),
    }
}
