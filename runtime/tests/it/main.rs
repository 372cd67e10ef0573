//! Tests of the library and the command as users see them.

mod fake;
mod npy;
mod outputs;
mod solve_driver;
