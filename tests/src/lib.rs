//! What the tests compare with: an oracle that reads checked programs and nothing else of kernelwright, a generator
//! of random programs, and small dense algebra.
//!
//! The oracle shares no code with the compiler: it evaluates the mathematics of docs/LANGUAGE.md at one point after
//! another, reflects outside positions step by step, and keeps every value as an affine form in the unknowns.

pub mod dense;
pub mod loops;
pub mod oracle;
pub mod random;
