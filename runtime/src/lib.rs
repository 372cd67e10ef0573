//! kernelwright: the facade library.

pub mod backend;
pub mod bandwidth;
pub mod cache;
pub mod doctor;
