//! The kernelwright compiler: from a checked program to CUDA C++ and C.
//!
//! Modules in the order of the data:
//! [`math`] (operators) and [`loops`] (sweeps and fences), then [`kernel`] (lanes and memory) and [`module`]
//! (kernels with their launches).

pub mod apply;
pub mod check;
pub mod graph;
pub mod kernel;
pub mod loops;
pub mod loops_text;
pub mod loops_verify;
pub mod math;
pub mod module;
pub mod plan;
pub mod trace;
