//! Tests of the language, through its public interface.
#![allow(clippy::unwrap_used)]

mod bad;
mod files;
mod formats;
mod library;
mod manual;
mod meaning;
mod programs;
mod rendering;
mod robust;
mod systems;
