//! Mapped kernels, interpreted, against the reference evaluation of Math IR.

mod exact;
mod fences;
mod lines;
mod points;
mod support;
