//! kernelwright: the facade library.

pub mod inputs;
pub mod backend;
pub mod solve;
