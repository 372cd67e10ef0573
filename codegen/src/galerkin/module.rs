//! What the runtime runs: the kernels of a system on a mesh, their buffers and launches.
//!
//! A driver allocates [`Module::buffers`], writes [`Contents::Values`] once, materials, parameters, the clock and the
//! initial state (through [`Layout`]), enqueues [`Module::prepare`], then [`Module::step`] over and over: time advances on the device. The
//! state is double-buffered where one kernel makes a whole stage; [`Module::parity_after`] says where it is then.

use crate::kernel::{Element, Kernel};

/// Kernels and how to run them.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// Kernels.
    pub kernels: Vec<Kernel>,
    /// Everything the kernels read and write.
    pub buffers: Vec<Buffer>,
    /// Where values of the state and the other registers are.
    pub layout: Layout,
    /// The state, at parity 0 and 1; the same buffer twice where it is updated in place.
    pub state: [usize; 2],
    /// The other registers of the step.
    pub registers: Vec<usize>,
    /// Parameters (f64, in the system's order), if there are any.
    pub params: Option<usize>,
    /// Materials, if there are any: see [`Module::spread`].
    pub materials: Option<usize>,
    /// f64: time, dt, steps done, time of step 0. Each step ends with steps += 1, time = start + steps * dt.
    pub clock: usize,
    /// Launches before the first step, once materials and parameters are written; again when they change.
    pub prepare: Vec<Launch>,
    /// Launches of one step, beginning at parity 0 and 1.
    pub step: [Vec<Launch>; 2],
    /// Launches that evaluate the rate L of the state at parity 0 (time as the clock has it) into [`Module::rate_output`].
    pub rate: Vec<Launch>,
    /// Where the rate goes, in the state's layout.
    pub rate_output: usize,
    /// Launches that sum the energy of the state, at parity 0 and 1.
    pub energy: [Vec<Launch>; 2],
    /// f64: the energy; infinite or NaN if any value of the state is.
    pub energy_output: usize,
    /// Whether the energy is one that the equations conserve (otherwise the sum of squares).
    pub energy_conserved: bool,
    /// Traffic and arithmetic of a stage.
    pub model: Model,
}

/// A kernel with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Index into [`Module::kernels`].
    pub kernel: usize,
    /// Indices into [`Module::buffers`], one per global buffer of the kernel.
    pub args: Vec<usize>,
}

/// A buffer.
#[derive(Debug, Clone, PartialEq)]
pub struct Buffer {
    /// Name, for people.
    pub name: String,
    /// Element type.
    pub element: Element,
    /// Number of elements.
    pub len: u64,
    /// What is in it at first.
    pub contents: Contents,
}

/// What is in a buffer before the first launch.
#[derive(Debug, Clone, PartialEq)]
pub enum Contents {
    /// Zeros.
    Zeros,
    /// These values; never changed.
    Values(Vec<f64>),
}

/// Where a value of a component at a node of an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Elements of the mesh.
    pub elements: usize,
    /// Elements stored: a whole number of blocks.
    pub padded: usize,
    /// Elements side by side in memory.
    pub pack: usize,
    /// Components.
    pub components: usize,
    /// Nodes of an element.
    pub nodes: usize,
    /// Whether the elements of a pack are adjacent (SIMD), or the nodes of an element.
    pub interleaved: bool,
}

impl Layout {
    /// Number of values stored.
    pub fn len(&self) -> usize {
        self.padded * self.components * self.nodes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of a value.
    pub fn index(&self, element: usize, component: usize, node: usize) -> usize {
        let (pack, lane) = (element / self.pack, element % self.pack);
        let inner = if self.interleaved { node * self.pack + lane } else { lane * self.nodes + node };
        (pack * self.components + component) * self.pack * self.nodes + inner
    }

    /// Values as stored, from values by element, component and node (node fastest). Padding is zero.
    pub fn scatter(&self, values: &[f64]) -> Vec<f64> {
        let mut stored = vec![0.0; self.len()];
        self.each(|number, index| stored[index] = values.get(number).copied().unwrap_or(0.0));
        stored
    }

    /// The reverse of [`Layout::scatter`].
    pub fn gather(&self, stored: &[f64]) -> Vec<f64> {
        let mut values = vec![0.0; self.elements * self.components * self.nodes];
        self.each(|number, index| values[number] = stored.get(index).copied().unwrap_or(f64::NAN));
        values
    }

    fn each(&self, mut f: impl FnMut(usize, usize)) {
        let mut number = 0;
        for element in 0..self.elements {
            for component in 0..self.components {
                for node in 0..self.nodes {
                    f(number, self.index(element, component, node));
                    number += 1;
                }
            }
        }
    }
}

impl Module {
    /// Parity of the state after a step that began at one.
    pub fn parity_after(&self, parity: usize, stages: usize) -> usize {
        if self.state[0] == self.state[1] { 0 } else { (parity + stages) % 2 }
    }

    /// The contents of the materials' buffer, from one value per element for each material. Padding repeats element 0.
    pub fn spread(&self, materials: &[Vec<f64>]) -> Vec<f64> {
        let pick = |values: &Vec<f64>, element: usize| {
            let element = if element < self.layout.elements { element } else { 0 };
            values.get(element).copied().unwrap_or(f64::NAN)
        };
        materials.iter().flat_map(|values| (0..self.layout.padded).map(move |e| pick(values, e))).collect()
    }
}

/// Traffic and arithmetic of one stage, per value (a component at a node of an element).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Bytes read and written that cannot be had from a cache: state, registers, geometry, connectivity.
    pub bytes: f64,
    /// Bytes of neighbours' traces: from memory if they miss the cache.
    pub trace_bytes: f64,
    /// Arithmetic operations.
    pub flops: f64,
    /// Values of a stage: elements times components times nodes.
    pub values: u64,
    /// Stages of a step.
    pub stages: usize,
}

impl Model {
    /// Values per second and stage that a device could reach, with traces from the cache.
    pub fn roof(&self, bytes_per_second: f64, flops_per_second: f64) -> f64 {
        (bytes_per_second / self.bytes).min(flops_per_second / self.flops)
    }
}
