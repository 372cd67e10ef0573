//! Files to be written whose format is the option's, not the name's.
//!
//! A name that ends like another format is refused before anything is computed: a picture called `.png` that holds SVG is
//! opened by nothing. A name without an end (`/dev/stdout`) promises nothing.

use std::path::PathBuf;

/// A picture.
pub(super) fn svg(name: &str) -> Result<PathBuf, String> {
    ending(name, "svg", "a picture is written as .svg")
}

/// A table.
pub(super) fn csv(name: &str) -> Result<PathBuf, String> {
    ending(name, "csv", "a table is written as .csv")
}

/// A matrix of a probe.
pub(super) fn mtx(name: &str) -> Result<PathBuf, String> {
    ending(name, "mtx", "the matrix is written as .mtx")
}

/// A vector.
pub(super) fn npy(name: &str) -> Result<PathBuf, String> {
    ending(name, "npy", "a vector is written as .npy")
}

fn ending(name: &str, known: &str, what: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension() {
        Some(end) if !end.eq_ignore_ascii_case(known) => Err(what.to_string()),
        _ => Ok(path),
    }
}
