//! Tests of the compiler, one binary.

mod interp_faults;
mod interp_launch;
mod interp_order;
mod interp_random;
mod interp_reduction;
mod interp_support;

mod interp_galerkin;
mod interp_sell;
mod interp_tridiagonal;
