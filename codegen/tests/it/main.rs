//! Tests of the compiler through its public interface.
#![allow(clippy::unwrap_used)]

mod c_program;
mod kernel_samples;
mod printing;
mod programs;

mod interp_support;

mod interp_sell;
mod interp_galerkin;
mod interp_tridiagonal;
mod interp_reduction;
mod interp_order;
mod interp_faults;
mod interp_launch;
mod interp_random;
