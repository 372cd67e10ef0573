//! Lowering, evaluation, couplings and facts on operators made by hand.

mod build;
mod matrices;
mod operators;
mod tables;
