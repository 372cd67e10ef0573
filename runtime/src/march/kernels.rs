//! An engine that runs generated kernels on a back end.
//!
//! Time advances on the device: the clock holds time, dt, the number of steps and the time of step 0. Where one kernel
//! makes a whole stage, the state is in one of two buffers, by parity; steps are recorded once for each parity.

use std::collections::BTreeSet;

use kernelwright_codegen::galerkin::map::{Options, map};
use kernelwright_codegen::galerkin::module::{Contents, Launch, Module};
use kernelwright_codegen::galerkin::system::System;
use kernelwright_codegen::kernel::Element;
use kernelwright_syntax::program::Precision;

use super::{Bound, Engine, shapes};
use crate::backend::{Backend, BufferHandle, KernelHandle, Recorded, Target};
use crate::solve::Error;
use crate::tune::known::set_threads;

/// Steps that are timed at a stretch, at most.
const MOST_STEPS: usize = 256;

/// A system, its parameters, and one number per material for each element.
pub type Numbers<'p> = (&'p System, &'p [f64], &'p [Vec<f64>]);

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
    let precision = match bound.run.precision {
        Precision::F32 => Element::F32,
        Precision::F64 | Precision::Mixed => Element::F64,
    };
    let mut options = Options::new(target.into(), precision, bound.element.order, system);
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
        set_threads(bound.threads, backend.as_mut())?;
        let module = map(system, &bound.plain, options).map_err(|error| Error::Input(error.to_string()))?;
        KernelEngine::load_module((system, &bound.run.params, &bound.materials), module, backend)
    }

    /// Compiles a module.
    ///
    /// # Errors
    /// A back end that fails.
    pub fn load_module(
        numbers: Numbers<'_>,
        module: Module,
        mut backend: Box<dyn Backend>,
    ) -> Result<KernelEngine, Error> {
        let kernels = backend.compile(&module.kernels)?;
        KernelEngine::loaded(numbers, module, kernels, backend)
    }

    /// An engine from the compiled kernels of a module.
    ///
    /// # Errors
    /// A back end that fails; buffers and kernels are given back then.
    pub fn loaded(
        numbers: Numbers<'_>,
        module: Module,
        kernels: Vec<KernelHandle>,
        mut backend: Box<dyn Backend>,
    ) -> Result<KernelEngine, Error> {
        let mut buffers = Vec::new();
        match fill(numbers, &module, backend.as_mut(), &mut buffers)
            .and_then(|()| prepare(&module, &kernels, &buffers, backend.as_mut()))
            .and_then(|()| record(&module, &kernels, &buffers, backend.as_mut()))
        {
            Ok(step) => {
                let stages = numbers.0.step.stages.len();
                Ok(KernelEngine { backend, module, kernels, buffers, step, parity: 0, stages })
            }
            Err(error) => {
                buffers.into_iter().for_each(|buffer| backend.free(buffer));
                backend.release(&kernels);
                Err(error)
            }
        }
    }

    /// Gives everything back.
    pub fn close(mut self) {
        self.step.into_iter().for_each(|step| self.backend.forget(step));
        self.buffers.iter().for_each(|buffer| self.backend.free(*buffer));
        self.backend.release(&self.kernels);
    }

    /// Makes what kernels must write no number: the state, the other registers, the rate.
    ///
    /// # Errors
    /// A failing back end.
    pub fn poison(&mut self) -> Result<(), Error> {
        let layout = self.module.layout;
        let nothing = layout.scatter(&vec![f64::NAN; layout.elements * layout.components * layout.nodes]);
        let written: BTreeSet<usize> =
            self.module.registers.iter().chain(&self.module.state).chain([&self.module.rate_output]).copied().collect();
        written.into_iter().try_for_each(|buffer| Ok(self.backend.write(self.buffers[buffer], &nothing)?))
    }

    /// Launches of a step, the first (`turn` 0) from where [`load`](Engine::load) puts the state, the second from where
    /// that leaves it.
    pub fn step_launches(&self, turn: usize) -> Vec<(KernelHandle, Vec<BufferHandle>)> {
        let parity = if turn == 0 { 0 } else { self.module.parity_after(0, self.stages) };
        resolved(&self.module.step[parity], &self.kernels, &self.buffers)
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

    /// Seconds of one step on the device, by as many at a stretch as take `sample` seconds.
    ///
    /// # Errors
    /// A failing back end.
    pub fn time_steps(&mut self, sample: f64) -> Result<f64, Error> {
        let first = self.time_step()?;
        if first >= sample {
            return self.time_step();
        }
        // After an even number the state is where it was.
        let count = ((sample / first.max(1e-9)).ceil() as usize).min(MOST_STEPS).next_multiple_of(2);
        let (mut launches, mut parity) = (Vec::new(), self.parity);
        for _ in 0..count {
            launches.extend(resolved(&self.module.step[parity], &self.kernels, &self.buffers));
            parity = self.module.parity_after(parity, self.stages);
        }
        let recorded = self.backend.record(&launches)?;
        // A device takes a list in when it runs for the first time.
        let seconds = self.backend.time(&recorded).and_then(|_| self.backend.time(&recorded));
        self.backend.forget(recorded);
        Ok(seconds? / count as f64)
    }
}

/// Allocates the buffers of a module and brings everything to them that does not change.
fn fill(
    (system, params, materials): Numbers<'_>,
    module: &Module,
    backend: &mut dyn Backend,
    buffers: &mut Vec<BufferHandle>,
) -> Result<(), Error> {
    for buffer in &module.buffers {
        let handle = backend.allocate(buffer.element, buffer.len)?;
        buffers.push(handle);
        if let Contents::Values(values) = &buffer.contents {
            backend.write(handle, values)?;
        }
    }
    if let Some(number) = module.params {
        backend.write(buffers[number], params)?;
    }
    if let Some(number) = module.materials {
        let count = system.materials.len();
        let columns: Vec<Vec<f64>> =
            (0..count).map(|number| materials.iter().map(|own| own[number]).collect()).collect();
        backend.write(buffers[number], &module.spread(&columns))?;
    }
    Ok(())
}

/// Computes on the device what follows from materials and parameters.
fn prepare(
    module: &Module,
    kernels: &[KernelHandle],
    buffers: &[BufferHandle],
    backend: &mut dyn Backend,
) -> Result<(), Error> {
    let launches = resolved(&module.prepare, kernels, buffers);
    launches.iter().try_for_each(|(kernel, args)| Ok(backend.launch(*kernel, args)?))
}

/// One step, from each parity.
fn record(
    module: &Module,
    kernels: &[KernelHandle],
    buffers: &[BufferHandle],
    backend: &mut dyn Backend,
) -> Result<[Recorded; 2], Error> {
    let step = |parity: usize| resolved(&module.step[parity], kernels, buffers);
    let first = backend.record(&step(0))?;
    match backend.record(&step(1)) {
        Ok(second) => Ok([first, second]),
        Err(error) => {
            backend.forget(first);
            Err(error.into())
        }
    }
}

fn resolved(
    launches: &[Launch],
    kernels: &[KernelHandle],
    buffers: &[BufferHandle],
) -> Vec<(KernelHandle, Vec<BufferHandle>)> {
    let one = |launch: &Launch| {
        (kernels[launch.kernel], launch.args.iter().map(|buffer| buffers[*buffer]).collect::<Vec<_>>())
    };
    launches.iter().map(one).collect()
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
