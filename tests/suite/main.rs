//! Tests across all packages: the invariants of the sources, the macros, orders of convergence.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod macros;
mod orders;
mod tidy;
