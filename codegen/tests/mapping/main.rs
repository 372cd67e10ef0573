//! Mapped kernels, interpreted, against the reference evaluation of Math IR.

mod points;
mod support;
