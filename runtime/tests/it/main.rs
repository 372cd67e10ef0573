//! Integration tests of the runtime, one binary.

mod cache_entries;
mod cache_sharing;
