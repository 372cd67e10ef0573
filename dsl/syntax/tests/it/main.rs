//! Tests of the language, through its public interface.
#![allow(clippy::unwrap_used)]

mod bad;
mod files;
mod library;
mod meaning;
mod programs;
mod robust;
