//! Any bytes are a matrix or are refused.
//!
//! `cargo +nightly fuzz run matrix tests/matrices -- -rss_limit_mb=2048`, from the root of the repository; the corpus of the test
//! suite is a good start.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(matrix) = kernelwright::matrix::file::from(bytes) {
        assert_eq!(matrix.csr.row_starts().len(), matrix.csr.rows() + 1);
        assert!(matrix.csr.values().iter().all(|value| value.is_finite()));
    }
});
