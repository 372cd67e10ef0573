//! Exit statuses, --json, and the commands that need no back end.

use std::process::Stdio;

use crate::cli::{command, example, file, folder, run};

#[test]
fn help_and_version_go_to_standard_output() {
    for args in [&["--help"][..], &["solve", "--help"], &["--version"]] {
        let ran = run(args);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""));
        assert!(!ran.out.is_empty());
    }
    assert!(run(&["solve", "--help"]).out.contains("Exit status"));
}

#[test]
fn wrong_usage_is_two() {
    let poisson = example("poisson_2d.kw");
    let cases: [&[&str]; 16] = [
        &[],
        &["frobnicate"],
        &["solve"],
        &["solve", &poisson, "--precision", "f16"],
        &["solve", &poisson, "--backend", "abacus"],
        &["solve", &poisson, "--set", "nx"],
        &["solve", &poisson, "--tolerance", "-1"],
        &["solve", &poisson, "--out", "u.txt"],
        &["solve", &poisson, "--plot", "p.png"],
        &["solve", &poisson, "--history", "h.json"],
        &["tune", &poisson, "--plot", "p.pdf"],
        &["verify", &poisson, "--out", "a.npz"],
        &["info", "a.mtx", "--spy", "a.png"],
        &["spmv", "a.mtx", "--out", "y.txt"],
        &["solve", &poisson, "--format", "csr"],
        &["verify", &poisson, "--problem", "nobody"],
    ];
    for args in cases {
        let ran = run(args);
        assert_eq!(ran.status, 2, "{args:?}: {}", ran.err);
        assert!(!ran.err.is_empty() && ran.out.is_empty());
    }
}

#[test]
fn what_is_wrong_with_an_argument_is_said_in_both_ways() {
    let poisson = example("poisson_2d.kw");
    let cases = [
        (["solve", "--tolerance", "-1"], "it is zero or a finite number above"),
        (["explain", "--bandwidth", "-5"], "greater than zero"),
        (["tune", "--budget", "-3s"], "is no time"),
        (["solve", "--frob", "1"], "unexpected argument '--frob'"),
    ];
    for (args, reason) in cases {
        let ran = run(&[&args[..], &[&poisson, "--json"]].concat());
        let object = ran.json();
        let message = object["error"]["message"].as_str().unwrap_or_default();
        assert_eq!((ran.status, &object["error"]["kind"]), (2, &"usage".into()), "{args:?}");
        assert!(ran.err.contains(reason) && message.contains(reason), "{args:?}: {} {message}", ran.err);
    }
}

#[test]
fn a_missing_or_broken_program_is_one() {
    let folder = folder("cli_broken");
    let broken = file(&folder, "broken.kw", "operator a { grid cells [i: n]; apply u => u + v; }\nsolver {");
    for args in [["check", "no_such.kw"], ["check", &broken], ["verify", &broken], ["solve", "no_such.kw"]] {
        let ran = run(&args);
        assert_eq!(ran.status, 1, "{args:?}: {}", ran.err);
        assert!(ran.err.contains("error"), "{}", ran.err);
    }
    let ran = run(&["solve", &example("poisson_2d.kw"), "--out", "no_such_folder/u.npy"]);
    assert!(ran.status == 1 && ran.err.contains("there is no folder no_such_folder"), "{}", ran.err);
    let ran = run(&["solve", &example("cavity.kw"), "--checkpoint", "no_such_folder/c"]);
    assert!(ran.status == 1 && ran.err.contains("there is no folder no_such_folder"), "{}", ran.err);
    let bytes = folder.join("latin.kw");
    std::fs::write(&bytes, [0xe9, 0x0a]).expect("a file of the target directory");
    assert!(run(&["check", &bytes.display().to_string()]).err.contains("not UTF-8"));
}

#[test]
fn check_looks_at_every_file_and_reports_all_errors() {
    let folder = folder("cli_check");
    let broken = file(&folder, "broken.kw", "operator a { grid cells [i: n]; apply u => u + v + w; }");
    let ran = run(&["check", &broken, &example("poisson_2d.kw"), "--json"]);
    let object = ran.json();
    assert_eq!((ran.status, object["ok"].as_bool()), (1, Some(false)));
    assert_eq!(object["files"][1]["ok"], true, "the second file is checked all the same");
    let codes = object["files"][0]["diagnostics"].as_array().expect("a list");
    assert!(codes.len() >= 2 && codes[0]["line"] == 1, "{object}");
    assert!(ran.err.contains("broken.kw"), "{}", ran.err);
}

#[test]
fn every_example_is_right() {
    let folder = std::path::Path::new(&example("poisson_2d.kw")).parent().expect("a folder").to_path_buf();
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|entry| entry.expect("an entry").path().display().to_string())
        .filter(|path| path.ends_with(".kw"))
        .collect();
    files.sort();
    let args: Vec<&str> = ["check"].into_iter().chain(files.iter().map(String::as_str)).collect();
    let ran = run(&args);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(ran.out.lines().count(), files.len());
}

#[test]
fn a_program_comes_from_standard_input() {
    use std::io::Write;
    let mut child = command(&["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let text = std::fs::read(example("poisson_2d.kw")).expect("an example");
    child.stdin.take().expect("a pipe").write_all(&text).expect("the command reads");
    assert!(child.wait_with_output().expect("the command ends").status.success());
}

#[test]
fn errors_are_one_object_too() {
    for args in [["verify", "no_such.kw", "--json"], ["solve", "no_such.kw", "--json"]] {
        let ran = run(&args);
        assert_eq!(ran.status, 1);
        assert!(ran.json()["error"]["message"].as_str().expect("a text").contains("no_such.kw"));
    }
}

#[test]
fn every_command_prints_one_object() {
    let poisson = example("poisson_2d.kw");
    let matrix = file(&folder("cli_objects"), "a.mtx", "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2\n");
    let small = ["--set", "nx=6", "--set", "ny=5"];
    let commands: [&[&str]; 11] = [
        &["check", &poisson],
        &["explain", &poisson],
        &["ir", &poisson, "--stage", "math"],
        &["emit", &poisson, "--target", "host"],
        &["verify", &poisson],
        &["solve", &poisson, "--backend", "interp", small[0], small[1], small[2], small[3]],
        &["bench", &poisson, "--backend", "interp", "--runs", "1", small[0], small[1], small[2], small[3]],
        &["info", &matrix],
        &["list"],
        &["doctor"],
        &["cache", "list"],
    ];
    for args in commands {
        let ran = run(&[args, &["--json"]].concat());
        assert_eq!(ran.status, 0, "{args:?}: {}", ran.err);
        assert!(ran.json().is_object(), "{args:?}");
    }
}

#[test]
fn list_doctor_and_cache_answer() {
    let solvers = run(&["list", "--json"]).json();
    let names: Vec<&str> =
        solvers["solvers"].as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert!(names.contains(&"pcg"), "{names:?}");
    assert!(run(&["list"]).out.contains("pcg"));
    let ran = run(&["doctor", "--json"]);
    assert!(ran.status == 0 && ran.json().is_object());
    for action in ["list", "verify", "clear"] {
        let cache = folder("cli_cache");
        let output =
            command(&["cache", action, "--json"]).env("KERNELWRIGHT_CACHE", &cache).output().expect("it starts");
        assert_eq!(output.status.code(), Some(0));
        let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
        assert_eq!(object["directory"], cache.display().to_string());
    }
}

#[test]
#[cfg(unix)]
fn a_closed_pipe_is_no_panic() {
    let mut child = command(&["list"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
