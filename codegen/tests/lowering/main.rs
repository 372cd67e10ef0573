//! Lowering, evaluation, couplings and facts on operators made by hand.

#![allow(clippy::unwrap_used)] // a test that cannot unwrap has failed

mod build;
mod couplings;
mod facts;
mod matrices;
mod operators;
mod random;
mod tables;
