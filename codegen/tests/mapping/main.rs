//! Mapped kernels, interpreted, against the reference evaluation of Math IR.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exact;
mod fences;
mod lines;
#[allow(dead_code)]
mod modular;
mod points;
mod support;
