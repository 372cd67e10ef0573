//! An engine that runs generated kernels on a back end.
//!
//! Time advances on the device: the clock holds time, dt, the number of steps and the time of step 0. Where one kernel
//! makes a whole stage, the state is in one of two buffers, by parity; steps are recorded once for each parity.

use kernelwright_codegen::galerkin::map::{Options, Target as MapTarget, map};
use kernelwright_codegen::galerkin::module::{Contents, Launch, Module};
use kernelwright_codegen::galerkin::system::System;
use kernelwright_codegen::kernel::Element;
use kernelwright_syntax::program::Precision;

use super::{Bound, Engine, shapes};
use crate::backend::{Backend, BufferHandle, KernelHandle, Recorded, Target};
use crate::solve::Error;

/// Kernels and buffers of a system on a back end.
pub struct KernelEngine {
    backend: Box<dyn Backend>,
    module: Module,
    kernels: Vec<KernelHandle>,
    buffers: Vec<BufferHandle>,
    /// One step, from each parity.
    step: [Recorded; 2],
    parity: usize,
    stages: usize,
}

/// How a problem's system is mapped for a target.
///
/// # Errors
/// A part of a variant that does not exist.
pub fn options(bound: &Bound, system: &System, target: Target) -> Result<Options, Error> {
    let target = match target {
        Target::Cuda => MapTarget::Cuda,
        Target::Host => MapTarget::Host,
    };
    let precision = match bound.run.precision {
        Precision::F32 => Element::F32,
        Precision::F64 | Precision::Mixed => Element::F64,
    };
    let mut options = Options::new(target, precision, bound.element.order, system);
    for (key, value) in &bound.variant {
        shapes::change(&mut options.variant, key, value).map_err(Error::Usage)?;
    }
    Ok(options)
}

/// The kernels of a problem for a target.
///
/// # Errors
/// A system that cannot be mapped.
pub fn module(bound: &Bound, target: Target) -> Result<Module, Error> {
    let options = options(bound, &bound.system, target)?;
    map(&bound.system, &bound.plain, &options).map_err(|error| Error::Input(error.to_string()))
}

impl KernelEngine {
    /// Compiles a system (the problem's own, or its linear part) with the problem's shapes.
    ///
    /// # Errors
    /// A system that cannot be mapped; a back end that fails.
    pub fn new(bound: &Bound, system: &System, backend: Box<dyn Backend>) -> Result<KernelEngine, Error> {
        let options = options(bound, system, backend.target())?;
        KernelEngine::with(bound, system, backend, &options)
    }

    /// Compiles a system with given shapes.
    ///
    /// # Errors
    /// A system that cannot be mapped; a back end that fails.
    pub fn with(
        bound: &Bound,
        system: &System,
        mut backend: Box<dyn Backend>,
        options: &Options,
    ) -> Result<KernelEngine, Error> {
        let module = map(system, &bound.plain, options).map_err(|error| Error::Input(error.to_string()))?;
        let kernels = backend.compile(&module.kernels)?;
        let mut buffers = Vec::new();
        for buffer in &module.buffers {
            let handle = backend.allocate(buffer.element, buffer.len)?;
            if let Contents::Values(values) = &buffer.contents {
                backend.write(handle, values)?;
            }
            buffers.push(handle);
        }
        if let Some(params) = module.params {
            backend.write(buffers[params], &bound.run.params)?;
        }
        if let Some(materials) = module.materials {
            let count = system.materials.len();
            let columns: Vec<Vec<f64>> =
                (0..count).map(|number| bound.materials.iter().map(|own| own[number]).collect()).collect();
            backend.write(buffers[materials], &module.spread(&columns))?;
        }
        let resolve = |launch: &Launch| {
            (kernels[launch.kernel], launch.args.iter().map(|buffer| buffers[*buffer]).collect::<Vec<_>>())
        };
        let mut record = |parity: usize| {
            let launches: Vec<_> = module.step[parity].iter().map(resolve).collect();
            backend.record(&launches)
        };
        let step = [record(0)?, record(1)?];
        let stages = system.step.stages.len();
        Ok(KernelEngine { backend, module, kernels, buffers, step, parity: 0, stages })
    }

    fn launch(&mut self, launches: &[Launch]) -> Result<(), Error> {
        for launch in launches {
            let args: Vec<BufferHandle> = launch.args.iter().map(|buffer| self.buffers[*buffer]).collect();
            self.backend.launch(self.kernels[launch.kernel], &args)?;
        }
        Ok(())
    }

    fn set_clock(&mut self, time: f64, dt: f64) -> Result<(), Error> {
        Ok(self.backend.write(self.buffers[self.module.clock], &[time, dt, 0.0, time])?)
    }

    fn read_state(&mut self, buffer: usize, state: &mut [f64]) -> Result<(), Error> {
        let mut stored = vec![0.0; self.module.layout.len()];
        self.backend.read(self.buffers[buffer], &mut stored)?;
        state.copy_from_slice(&self.module.layout.gather(&stored));
        Ok(())
    }

    /// The kernels, for looking at them.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Seconds of one step on the device, once the earlier ones are made.
    ///
    /// # Errors
    /// A failing back end.
    pub fn time_step(&mut self) -> Result<f64, Error> {
        let seconds = self.backend.time(&self.step[self.parity])?;
        self.parity = self.module.parity_after(self.parity, self.stages);
        Ok(seconds)
    }
}

impl Engine for KernelEngine {
    fn describe(&self) -> String {
        self.backend.describe()
    }

    fn load(&mut self, state: &[f64]) -> Result<(), Error> {
        self.parity = 0;
        let stored = self.module.layout.scatter(state);
        Ok(self.backend.write(self.buffers[self.module.state[0]], &stored)?)
    }

    fn store(&mut self, state: &mut [f64]) -> Result<(), Error> {
        self.read_state(self.module.state[self.parity], state)
    }

    fn advance(&mut self, time: f64, dt: f64, steps: u64) -> Result<(), Error> {
        self.set_clock(time, dt)?;
        for _ in 0..steps {
            self.backend.replay(&self.step[self.parity])?;
            self.parity = self.module.parity_after(self.parity, self.stages);
        }
        Ok(self.backend.synchronize()?)
    }

    fn rate(&mut self, time: f64, rate: &mut [f64]) -> Result<(), Error> {
        // The launches read the state at parity 0.
        if self.parity == 1 {
            let mut state = vec![0.0; rate.len()];
            self.store(&mut state)?;
            self.load(&state)?;
        }
        self.set_clock(time, 0.0)?;
        let launches = self.module.rate.clone();
        self.launch(&launches)?;
        self.read_state(self.module.rate_output, rate)
    }

    fn energy(&mut self) -> Result<Option<f64>, Error> {
        let launches = self.module.energy[self.parity].clone();
        self.launch(&launches)?;
        let mut energy = [0.0];
        self.backend.read(self.buffers[self.module.energy_output], &mut energy)?;
        Ok(Some(energy[0]))
    }

    fn notices(&mut self) -> Vec<String> {
        self.backend.notices()
    }
}
