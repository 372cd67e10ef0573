//! kernelwright: describe an operator and a loop, get kernels and the solution.
//!
//! [`solve`] is where user code begins: a program ([`load`], or declared in Rust with [`operator!`], see [`handle`]) is
//! compiled once and solved many times. [`cli`] is the same for the command line.

pub mod registry;
pub mod handle;
pub mod load;
pub mod inputs;
pub mod matrix;
pub mod mesh;
pub mod sparse;
pub mod backend;
pub mod bandwidth;
pub mod cache;
pub mod pipeline;
pub mod solve;
pub mod tune;
pub mod march;
pub mod probe;
pub mod outputs;
pub mod doctor;
pub mod cli;

pub use kernelwright_macros::{operator, program, solver};
