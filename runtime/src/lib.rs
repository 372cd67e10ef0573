//! kernelwright: the facade library.

pub mod backend;
pub mod inputs;
pub mod outputs;
pub mod solve;
