//! The kernelwright compiler.
