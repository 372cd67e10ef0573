//! The kernelwright compiler: from a checked program to CUDA C++ and C.
//!
//! Modules in the order of the data:
//! [`math`] (operators) and [`loops`] (sweeps and fences), then [`kernel`] (lanes and memory) and [`module`]
//! (kernels with their launches), run by [`interp`] (the reference semantics).

pub mod interp;
pub mod kernel;
pub mod kernel_text;
pub mod kernel_verify;
pub mod kernel_walk;
pub mod loops;
pub mod math;
pub mod module;
pub mod print;
