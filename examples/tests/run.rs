//! Every example runs and says what it is meant to.

use std::path::PathBuf;
use std::process::Command;

/// Runs an example that `cargo test` has built; its output.
#[track_caller]
fn run(name: &str, args: &[&str]) -> String {
    let test = std::env::current_exe().expect("a running test has a file");
    let folder: PathBuf = test.parent().and_then(|deps| deps.parent()).expect("target/debug/deps").join("examples");
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cache");
    let output = Command::new(folder.join(name)).args(args).env("KERNELWRIGHT_CACHE", cache).output();
    let output = output.expect("cargo test builds examples first");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {out}{err}");
    out.into_owned()
}

#[test]
fn solve_a_file() {
    assert!(run("01_solve_a_file", &[]).starts_with("converged after"));
}

#[test]
fn operator_in_rust() {
    assert!(run("02_operator_in_rust", &[]).starts_with("converged after"));
}

#[test]
fn time_steps_keep_the_mean() {
    let out = run("03_time_steps", &[]);
    assert_eq!(out.lines().count(), 6, "{out}");
    assert!(out.lines().all(|line| line.contains("mean 0.5000000") || line.contains("mean 0.4999999")), "{out}");
}

#[test]
fn own_solver() {
    let out = run("04_own_solver", &[]);
    assert_eq!(out.lines().filter(|line| line.contains("converged after")).count(), 3, "{out}");
}

#[test]
fn own_command_knows_its_programs() {
    assert!(run("05_own_command", &["list"]).contains("tank"));
    assert!(run("05_own_command", &["solve", "tank"]).contains("converged after"));
}

#[test]
fn march_a_system() {
    let out = run("06_march_a_system", &[]);
    assert!(out.contains("finished") && out.lines().filter(|line| line.starts_with("t = ")).count() >= 5, "{out}");
}
