//! Where the cases are.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files with an ending in a folder, sorted, with their names and texts.
pub fn all(folder: &str, ending: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|found| found == ending) {
            let name = path.file_name().unwrap().to_str().unwrap().to_string();
            files.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    files.sort();
    assert!(!files.is_empty(), "no .{ending} files in {folder}");
    files
}

/// Every program that is right: the examples and the library.
pub fn good() -> Vec<(String, String)> {
    [all("examples/programs", "kw"), all("dsl/syntax/src/library", "kw")].concat()
}
