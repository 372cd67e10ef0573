//! kernelwright: the facade library.

pub mod backend;
pub mod cache;
pub mod doctor;
