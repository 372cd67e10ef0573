//! The invariants of ARCHITECTURE.md, by number.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace").to_path_buf()
}

/// Files below a folder of the workspace whose name ends so, sorted, as (path relative to the root, text).
fn files(folder: &str, end: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, end: &str, out: &mut Vec<PathBuf>) {
        let entries = fs::read_dir(folder).expect("a folder of the workspace is readable");
        for entry in entries {
            let path = entry.expect("a folder entry is readable").path();
            if path.is_dir() {
                walk(&path, end, out);
            } else if path.to_string_lossy().ends_with(end) {
                out.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(folder), end, &mut paths);
    paths.sort();
    assert!(!paths.is_empty(), "no {end} under {folder}");
    let relative = |p: &Path| p.strip_prefix(root()).expect("found below the root").display().to_string();
    paths.iter().map(|p| (relative(p), fs::read_to_string(p).expect("sources are UTF-8"))).collect()
}

fn sources() -> Vec<(String, String)> {
    ["dsl/syntax/src", "dsl/macros/src", "codegen/src", "runtime/src", "tests/src", "examples"]
        .iter()
        .flat_map(|f| files(f, ".rs"))
        .collect()
}

/// The text before the unit tests of a file.
fn shipped(text: &str) -> &str {
    text.split("#[cfg(test)]").next().expect("split yields a first part")
}

/// Lines of code (no comments) of shipped text that contain a word.
fn uses(text: &str, word: &str) -> Vec<usize> {
    let code = |l: &&str| !l.trim_start().starts_with("//");
    let hit = |(n, l): (usize, &str)| (code(&l) && l.contains(word)).then_some(n + 1);
    shipped(text).lines().enumerate().filter_map(hit).collect()
}

#[track_caller]
fn nowhere(words: &[&str], folder: &str, allowed: &[&str], why: &str) {
    let mut found = Vec::new();
    for (path, text) in files(folder, ".rs") {
        // Unit tests in a file of their own are not shipped.
        if path.ends_with("/tests.rs") || allowed.iter().any(|a| path.starts_with(a)) {
            continue;
        }
        for word in words {
            found.extend(uses(&text, word).iter().map(|line| format!("{path}:{line}: {word}")));
        }
    }
    assert!(found.is_empty(), "{why}:\n{}", found.join("\n"));
}

#[test]
fn invariant_1_packages_depend_in_one_direction() {
    let manifest = |p: &str| fs::read_to_string(root().join(p)).expect("a manifest is readable");
    let shipped = |p: &str| manifest(p).split("[dev-dependencies]").next().expect("a first part").to_string();
    for p in ["dsl/syntax/Cargo.toml", "dsl/macros/Cargo.toml"] {
        assert!(!shipped(p).contains("kernelwright-codegen") && !shipped(p).contains("kernelwright.workspace"), "{p}");
    }
    assert!(!shipped("codegen/Cargo.toml").contains("kernelwright.workspace"));
}

#[test]
fn invariant_2_codegen_does_no_io() {
    let words = ["std::fs", "std::process", "std::env", "std::net", "cudarc", "proc_macro", "libloading"];
    nowhere(&words, "codegen/src", &[], "codegen is pure");
}

#[test]
fn invariant_3_foreign_code_stands_at_the_edge() {
    let cuda = ["runtime/src/backend/cuda"];
    let edge = ["runtime/src/backend/cuda", "runtime/src/backend/host"];
    nowhere(&["cudarc::"], "runtime/src", &cuda, "only backend/cuda touches cudarc");
    nowhere(&["unsafe ", "libloading::"], "runtime/src", &edge, "unsafe stands at the edge to foreign code");
    for folder in ["dsl", "codegen/src", "tests/src"] {
        nowhere(&["unsafe "], folder, &[], "unsafe stands at the edge to foreign code");
    }
}

#[test]
fn invariant_4_no_kernel_is_written_by_hand() {
    let words = ["__global__", "threadIdx", "#pragma", "for (int"];
    nowhere(&words, "runtime/src", &[], "kernels come out of the compiler");
    nowhere(&words, "codegen/src", &["codegen/src/print"], "only the printers know C");
}

#[test]
fn invariant_5_modules_say_what_they_are_for() {
    for (path, text) in sources() {
        let first = text.lines().find(|l| !l.trim().is_empty() && !l.starts_with("#!"));
        assert!(first.is_some_and(|l| l.starts_with("//!")), "{path} does not open with //!");
        for word in ["todo!(", "unimplemented!(", "#[ignore", ".unwrap()"] {
            assert!(uses(&text, word).is_empty(), "{path} uses {word} at {:?}", uses(&text, word));
        }
    }
}

#[test]
fn invariant_6_no_file_is_too_long() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| text.lines().count() > 600)
        .map(|(path, text)| format!("{path}: {}", text.lines().count()))
        .collect();
    assert!(long.is_empty(), "is there a room missing?\n{}", long.join("\n"));
}

#[test]
fn invariant_7_order_never_depends_on_a_hash() {
    nowhere(&["HashMap", "HashSet"], "codegen/src", &[], "codegen is deterministic");
}
