//! Examples of kernelwright, numbered, smallest first: `cargo run -p kernelwright-examples --example 01_solve_a_file`.
//!
//! programs/ holds programs of the language for the command.

/// A program of the examples, wherever the example is started.
pub fn program(name: &str) -> String {
    format!("{}/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}
