//! A mapped system in the interpreter's memory, and cases for it.

use kernelwright_codegen::galerkin::evaluate::Samples;
use kernelwright_codegen::galerkin::map::{Options, Target, map};
use kernelwright_codegen::galerkin::mesh::Mesh;
use kernelwright_codegen::galerkin::module::{Contents, Launch, Module};
use kernelwright_codegen::galerkin::reference::Element;
use kernelwright_codegen::galerkin::system::System;
use kernelwright_codegen::interp::{BufferHandle, Memory, Native, Options as RunOptions, launch};
use kernelwright_codegen::kernel;
use kernelwright_codegen::kernel_verify::verify_all;
use kernelwright_codegen::print;

use crate::oracle::Oracle;

/// A system with data.
pub struct Case {
    pub system: System,
    pub mesh: Mesh,
    pub element: Element,
    pub params: Vec<f64>,
    pub materials: Vec<Vec<f64>>,
    pub dt: f64,
}

impl Case {
    pub fn new(system: System, mesh: Mesh, order: usize) -> Case {
        let mut samples = Samples::new(17);
        let params = samples.many(system.params.len(), 0.5, 1.5);
        let count = mesh.elements.len();
        let materials = system.materials.iter().map(|_| samples.many(count, 0.5, 2.0)).collect();
        let element = Element::new(order).expect("a supported order");
        Case { system, mesh, element, params, materials, dt: 0.05 / (order * order) as f64 }
    }

    pub fn oracle(&self) -> Oracle<'_> {
        Oracle::new(&self.system, &self.mesh, &self.element, &self.params, &self.materials)
    }

    /// A random state.
    pub fn state(&self) -> Vec<f64> {
        let len = self.mesh.elements.len() * self.system.components.len() * self.element.node_count();
        Samples::new(5).many(len, -1.0, 1.0)
    }
}

pub struct Machine {
    pub module: Module,
    memory: Memory<Native>,
    buffers: Vec<BufferHandle>,
    pub parity: usize,
    stages: usize,
    target: Target,
}

impl Machine {
    pub fn new(case: &Case, options: &Options, time: f64) -> Machine {
        let module = map(&case.system, &case.mesh, options).unwrap_or_else(|e| panic!("{e}\n{options:?}"));
        if let Err(errors) = verify_all(&module.kernels) {
            panic!("{errors:#?}\n{}", print::cuda(&module.kernels));
        }
        let mut memory = Memory::new(Native);
        let mut buffers = Vec::new();
        for buffer in &module.buffers {
            let handle = memory.allocate(buffer.element, buffer.len as usize);
            // Zeros are never asked for but in the clock: what nobody wrote must not be read.
            if let Contents::Values(values) = &buffer.contents {
                memory.write(handle, values).expect("it fits");
            }
            buffers.push(handle);
        }
        let mut write = |buffer: usize, values: &[f64]| memory.write(buffers[buffer], values).expect("it fits");
        write(module.clock, &[time, case.dt, 0.0, time]);
        if let Some(params) = module.params {
            write(params, &case.params);
        }
        if let Some(materials) = module.materials {
            write(materials, &module.spread(&case.materials));
        }
        let stages = case.system.step.stages.len();
        let mut machine = Machine { module, memory, buffers, parity: 0, stages, target: options.target };
        machine.run(&machine.module.prepare.clone());
        machine
    }

    pub fn write(&mut self, values: &[f64]) {
        let stored = self.module.layout.scatter(values);
        self.memory.write(self.buffers[self.module.state[self.parity]], &stored).expect("it fits");
    }

    pub fn read(&self, buffer: usize) -> Vec<f64> {
        self.module.layout.gather(self.raw(buffer))
    }

    pub fn raw(&self, buffer: usize) -> &[f64] {
        self.memory.reals(self.buffers[buffer]).expect("a real buffer")
    }

    pub fn state(&self) -> Vec<f64> {
        self.read(self.module.state[self.parity])
    }

    pub fn run(&mut self, launches: &[Launch]) {
        for l in launches {
            let args: Vec<BufferHandle> = l.args.iter().map(|&arg| self.buffers[arg]).collect();
            let kernel = &self.module.kernels[l.kernel];
            let options = RunOptions { max_steps: 1 << 33, ..RunOptions::default() };
            launch(kernel, &args, &mut self.memory, &options).unwrap_or_else(|e| {
                let text = match self.target {
                    Target::Cuda => print::cuda(std::slice::from_ref(kernel)),
                    Target::Host => print::c(std::slice::from_ref(kernel)),
                };
                panic!("{e}\n{text}")
            });
        }
    }

    pub fn step(&mut self) {
        self.run(&self.module.step[self.parity].clone());
        self.parity = self.module.parity_after(self.parity, self.stages);
    }

    pub fn energy(&mut self) -> f64 {
        self.run(&self.module.energy[self.parity].clone());
        self.raw(self.module.energy_output)[0]
    }
}

/// Largest difference relative to the largest value.
pub fn difference(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let size = expected.iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let worst = found.iter().zip(expected).map(|(a, b)| if a.is_nan() { f64::INFINITY } else { (a - b).abs() });
    worst.fold(0.0, f64::max) / size
}

/// Rounding of a rate: sums of N_p terms whose cancellation grows with the entries of the derivative matrix, about N^2.
pub fn tolerance(precision: kernel::Element, order: usize) -> f64 {
    let epsilon = if precision == kernel::Element::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    30.0 * epsilon * (order * order) as f64
}
