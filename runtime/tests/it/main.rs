//! Tests of the library and the command as users see them, one binary.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backend_all;
mod backend_cuda;
mod backend_host;
mod backend_kernels;
mod cache_entries;
mod cache_sharing;
mod cli;
mod cli_matrix;
mod cli_outcomes;
mod cli_solve;
mod cli_sparse;
mod cli_usage;
mod cli_verify;
mod doctor;
mod fake;
mod march;
mod march_meshes;
mod matrix_corpus;
mod matrix_fuzz;
mod matrix_kinds;
mod matrix_read;
mod matrix_real;
mod matrix_statistics;
mod mesh;
mod mesh_corpus;
mod mesh_write;
mod npy;
mod outputs;
mod solve_accuracy;
mod solve_driver;
mod solve_library;
mod solve_mixed;
mod solve_random;
mod solve_schedules;
mod sparse_product;
