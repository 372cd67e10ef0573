//! The kernelwright compiler: from a checked program to CUDA C++ and C.
//!
//! Modules in the order of the data:
//! [`lower`](lower::lower) turns a checked operator into [`math`] (with [`math_verify`], [`math_text`] and the
//! reference evaluation [`math_eval`]); [`couplings`] and [`facts`] read it; [`loops`] (sweeps and fences), then
//! [`kernel`] (lanes and memory) and [`module`] (kernels with their launches).

pub mod couplings;
pub mod facts;
pub mod kernel;
pub mod loops;
pub mod lower;
pub mod math;
pub mod math_eval;
pub mod math_text;
pub mod math_verify;
pub mod module;
pub mod real;
pub mod resolve;
