//! What the runtime runs: kernels of one target with their arguments, mapped from a [`loops::Program`].
//!
//! [`loops::Program`]: crate::loops::Program

use crate::kernel::{Element, Kernel};
use crate::loops::{SumId, Version};

/// Mapped kernels and how to launch them.
#[derive(Debug, Clone, PartialEq)]
pub struct Module {
    /// Kernels, in order of first use; several launches may share one.
    pub kernels: Vec<Kernel>,
    /// Evaluation of the tables, in order; run whenever a parameter or profile changes.
    pub setup: Vec<Launch>,
    /// One launch (or more, in order) per sweep of the loop program.
    pub sweeps: Vec<Vec<Launch>>,
    /// The launches of every fence, in order; none where the sweep before it does its work.
    pub fences: Vec<Vec<Launch>>,
    /// Buffers of the module beside vectors: tables, partial sums, counters. Those of integers must be zero at first.
    pub buffers: Vec<ModuleBuffer>,
    /// Elements of one version of a vector (points times components).
    pub vector_len: u64,
    /// Element type of vectors and data.
    pub real: Element,
}

impl Module {
    /// The buffer with the partial sums of a sum, one per block; none where the program has no such sum.
    pub fn partial_sums(&self, sum: SumId) -> Option<usize> {
        // Tables, which come first, have names of the program.
        let name = partial_name(sum);
        self.buffers.iter().rposition(|buffer| buffer.name == name)
    }
}

/// Name of the buffer with the partial sums of a sum.
pub(crate) fn partial_name(sum: SumId) -> String {
    format!("partial_{}", sum.0)
}

/// A kernel with its arguments, one per global buffer of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    /// Index into [`Module::kernels`].
    pub kernel: usize,
    /// Arguments in order.
    pub args: Vec<Arg>,
}

/// A buffer the module needs.
#[derive(Debug, Clone, PartialEq)]
pub struct ModuleBuffer {
    /// Name, for people.
    pub name: String,
    /// Element type.
    pub element: Element,
    /// Number of elements.
    pub len: u64,
}

/// An argument of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Arg {
    /// A version of a vector.
    Vector(Version),
    /// The loop program's scalars (f64, one element each).
    Scalars,
    /// Parameters of the operator (f64), then of the solver.
    Params,
    /// The status word (i32): [0] status, [1] iteration at which it was raised.
    Status,
    /// History of measures (f64), one element per iteration from 0 to the limit; written where the iteration fits.
    History,
    /// A data array of the operator, by number (f64 for profiles, as it says for arrays of a stored matrix, working
    /// precision otherwise).
    Data(usize),
    /// A buffer of the module, by number.
    Module(usize),
}
