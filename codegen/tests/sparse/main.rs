//! Sparse matrices: formats carried out, sweeps with products, whole loops.
#![allow(clippy::unwrap_used)]

#[path = "../mapping/support.rs"]
#[allow(dead_code)]
mod support;

#[path = "../mapping/modular.rs"]
#[allow(dead_code)]
mod modular;

mod companions;
mod formats;
mod loops;
mod matrices;
mod predictions;
mod products;
mod stored;
