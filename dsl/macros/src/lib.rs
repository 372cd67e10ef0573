//! Procedural macros that declare kernelwright programs in Rust sources.
