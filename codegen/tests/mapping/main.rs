//! Mapped kernels, interpreted, against the reference evaluation of Math IR.

mod fences;
mod lines;
mod points;
mod support;
