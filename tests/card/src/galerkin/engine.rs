//! A mapped system on a back end.

use kernelwright::backend::open::{Choice, open};
use kernelwright::backend::{Arithmetic, Backend, BufferHandle, KernelHandle, KernelInfo, Target};
use kernelwright_codegen::galerkin::map::{Options, Target as MapTarget, map};
use kernelwright_codegen::galerkin::mesh::Mesh;
use kernelwright_codegen::galerkin::module::{Contents, Launch, Module};
use kernelwright_codegen::galerkin::system::System;

/// A back end with a system's kernels and buffers.
pub struct Engine {
    backend: Box<dyn Backend>,
    pub module: Module,
    kernels: Vec<KernelHandle>,
    buffers: Vec<BufferHandle>,
    parity: usize,
    stages: usize,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Opens a back end.
pub fn device(choice: Choice) -> Result<Box<dyn Backend>, String> {
    let opened = open(choice, Arithmetic::Contracted, &crate::run::cache()).map_err(text)?;
    Ok(opened.backend)
}

impl Engine {
    /// Opens a back end and maps the system for its target.
    pub fn open<'a>(
        choice: Choice,
        make: impl FnOnce(MapTarget) -> (&'a System, &'a Mesh, Options),
    ) -> Result<Engine, String> {
        let backend = device(choice)?;
        let target = if backend.target() == Target::Cuda { MapTarget::Cuda } else { MapTarget::Host };
        let (system, mesh, options) = make(target);
        Engine::on(backend, system, mesh, &options).map_err(|(_, error)| error)
    }

    /// Maps, compiles and allocates on a back end, which comes back if that fails.
    pub fn on(
        mut backend: Box<dyn Backend>,
        system: &System,
        mesh: &Mesh,
        options: &Options,
    ) -> Result<Engine, (Box<dyn Backend>, String)> {
        let module = match map(system, mesh, options) {
            Ok(module) => module,
            Err(error) => return Err((backend, error.to_string())),
        };
        let kernels = match backend.compile(&module.kernels) {
            Ok(kernels) => kernels,
            Err(error) => return Err((backend, error.to_string())),
        };
        let mut engine =
            Engine { backend, module, kernels, buffers: Vec::new(), parity: 0, stages: system.step.stages.len() };
        match engine.allocate() {
            Ok(()) => Ok(engine),
            Err(error) => Err((engine.close(), error)),
        }
    }

    fn allocate(&mut self) -> Result<(), String> {
        for buffer in &self.module.buffers {
            let handle = self.backend.allocate(buffer.element, buffer.len).map_err(text)?;
            self.buffers.push(handle);
            if let Contents::Values(values) = &buffer.contents {
                self.backend.write(handle, values).map_err(text)?;
            }
        }
        Ok(())
    }

    /// Gives everything but the back end back.
    pub fn close(mut self) -> Box<dyn Backend> {
        self.buffers.iter().for_each(|&buffer| self.backend.free(buffer));
        self.backend.release(&self.kernels);
        self.backend
    }

    /// Writes parameters, materials, time and dt, and the state.
    pub fn begin(
        &mut self,
        params: &[f64],
        materials: &[Vec<f64>],
        [time, dt]: [f64; 2],
        state: &[f64],
    ) -> Result<(), String> {
        let mut writes = vec![
            (self.module.clock, vec![time, dt, 0.0, time]),
            (self.module.state[0], self.module.layout.scatter(state)),
        ];
        writes.extend(self.module.params.map(|id| (id, params.to_vec())));
        writes.extend(self.module.materials.map(|id| (id, self.module.spread(materials))));
        self.parity = 0;
        for (id, values) in writes {
            self.backend.write(self.buffers[id], &values).map_err(text)?;
        }
        self.run(&self.module.prepare.clone())
    }

    fn bound(&self, launches: &[Launch]) -> Vec<(KernelHandle, Vec<BufferHandle>)> {
        let bind =
            |launch: &Launch| (self.kernels[launch.kernel], launch.args.iter().map(|&arg| self.buffers[arg]).collect());
        launches.iter().map(bind).collect()
    }

    fn run(&mut self, launches: &[Launch]) -> Result<(), String> {
        for (kernel, args) in self.bound(launches) {
            self.backend.launch(kernel, &args).map_err(text)?;
        }
        Ok(())
    }

    /// Makes a step.
    pub fn step(&mut self) -> Result<(), String> {
        self.run(&self.module.step[self.parity].clone())?;
        self.parity = self.module.parity_after(self.parity, self.stages);
        Ok(())
    }

    /// The state, by element, component and node.
    pub fn state(&mut self) -> Result<Vec<f64>, String> {
        let mut stored = vec![0.0; self.module.layout.len()];
        self.backend.read(self.buffers[self.module.state[self.parity]], &mut stored).map_err(text)?;
        Ok(self.module.layout.gather(&stored))
    }

    /// The energy.
    pub fn energy(&mut self) -> Result<f64, String> {
        self.run(&self.module.energy[self.parity].clone())?;
        let mut value = [0.0];
        self.backend.read(self.buffers[self.module.energy_output], &mut value).map_err(text)?;
        Ok(value[0])
    }

    /// Seconds of a stage: the median over several times some steps (an even number, so that the state is where it was).
    pub fn seconds(&mut self, repeats: usize) -> Result<f64, String> {
        let mut launches = Vec::new();
        let mut parity = 0;
        for _ in 0..4 {
            launches.extend(self.bound(&self.module.step[parity].clone()));
            parity = self.module.parity_after(parity, self.stages);
        }
        let recorded = self.backend.record(&launches).map_err(text)?;
        let mut times = Vec::new();
        for n in 0..repeats + 1 {
            let time = self.backend.time(&recorded).map_err(text)?;
            if n > 0 {
                times.push(time / (4 * self.stages) as f64);
            }
        }
        self.backend.forget(recorded);
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }

    /// Resources of the kernel that takes most of a stage.
    pub fn info(&self) -> Option<KernelInfo> {
        let launch = self.module.step[0].iter().max_by_key(|launch| launch.args.len())?;
        self.backend.kernel_info(self.kernels[launch.kernel])
    }
}
