//! kernelwright: the facade library.

pub mod registry;
pub mod load;
pub mod inputs;
pub mod backend;
pub mod bandwidth;
pub mod cache;
pub mod pipeline;
pub mod solve;
pub mod probe;
pub mod outputs;
pub mod doctor;
pub mod cli;
