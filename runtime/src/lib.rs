//! kernelwright: the facade library.

pub mod backend;
