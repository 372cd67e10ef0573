//! The kernelwright compiler: from a checked program to CUDA C++ and C.
//!
//! Modules in the order of the data:
//! [`lower`](lower::lower) turns a checked operator into [`math`] (with [`math_verify`], [`math_text`] and the
//! reference evaluation [`math_eval`]); [`couplings`] and [`facts`] read it; [`trace`] turns a solver into a [`graph`],
//! [`plan`] finds schedules for it and [`apply`] carries one out ([`correct`] makes what mixed precision needs beside it): [`loops`] (sweeps and fences), which [`check`] holds against the graph, is mapped by
//! [`map`](map::map) to [`kernel`] (lanes and memory) and [`module`] (kernels with their launches), which [`print`] writes
//! and [`interp`] runs (the reference semantics).

pub mod real;
pub mod format;
pub mod lower;
pub mod math;
pub mod math_verify;
pub mod math_text;
pub mod resolve;
pub mod math_eval;
pub mod couplings;
pub mod facts;
pub mod trace;
pub mod graph;
pub mod graph_verify;
mod graph_rename;
pub mod plan;
pub mod apply;
pub mod correct;
mod sources;
pub mod loops;
pub mod loops_verify;
pub mod loops_text;
pub mod check;
pub mod map;
pub mod kernel;
pub mod kernel_text;
pub mod kernel_verify;
pub mod kernel_walk;
pub mod module;
pub mod print;
pub mod interp;
pub mod galerkin;
