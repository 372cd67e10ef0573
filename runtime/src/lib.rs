//! kernelwright: the facade library.

pub mod cache;
pub mod backend;
