//! The kernelwright language: grammar, checks, diagnostics and pretty printer.

pub mod program;
pub mod source;
