//! Golden texts, and every generated source compiled by the compiler it is meant for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cuda;
mod golden;
mod host;
