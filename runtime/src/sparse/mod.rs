//! Sparse matrices in formats of the language: choice of a format, products, systems.
//!
//! In the order of use: [`known`] says what is known of a matrix, [`choice`] which format suits it, [`product`]
//! multiplies with it and takes times, [`system`] makes the program that solves with it, [`cost`] says what a format
//! costs; [`vendor`] brings a matrix to the forms of cuSPARSE, to compare with, and [`bench`] does. Formats themselves, from the declaration
//! to arrays in memory, are [`kernelwright_codegen::format`].

pub mod known;
pub mod choice;
pub mod product;
pub mod measured;
pub mod system;
pub mod cost;
pub mod vendor;
pub mod bench;
