//! Tests of the library and the command as users see them.

mod cache_entries;
mod cache_sharing;
mod cli;
mod cli_usage;
mod cli_verify;
mod fake;
mod npy;
mod outputs;
mod solve_driver;
