//! Any bytes are a matrix or are refused.
//!
//! From the root of the repository, with the corpus of the test suite as a start; what is found goes to the first folder:
//!
//! ```sh
//! mkdir -p fuzz/corpus/matrix
//! cargo +nightly fuzz run matrix fuzz/corpus/matrix tests/matrices -- -rss_limit_mb=2048
//! ```
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(matrix) = kernelwright::matrix::file::from(bytes) {
        assert_eq!(matrix.csr.row_starts().len(), matrix.csr.rows() + 1);
        assert!(matrix.csr.values().iter().all(|value| value.is_finite()));
    }
});
