//! `solve`: outcomes and their exit statuses, inputs, outputs, interruption.

use std::io::Read;
use std::process::Stdio;

use kernelwright::inputs::npy::{Float, read, write};

use crate::cli::{DIFFUSION, command, example, file, folder, run};

/// Problems on it, small enough for the interpreter.
const PROBLEMS: &str = "problem diffusion { operator diffusion(nx = 9, ny = 7); rhs random(3); solver cg; tolerance 1e-9; iterations 200; }
problem exact { operator diffusion(nx = 9, ny = 7, m = 2); rhs 2; guess 1; solver cg; tolerance 1e-9; iterations 9; }
problem nothing { operator diffusion(nx = 9, ny = 7); rhs 0; solver cg; tolerance 1e-9; iterations 9; }
problem single { operator diffusion(nx = 9, ny = 7); rhs random(3); solver cg; tolerance 1e-9; iterations 900;
    precision f32; }
problem negative { operator diffusion(nx = 9, ny = 7, m = -1); rhs random(3); solver cg; tolerance 1e-9; iterations 200; }
problem insulated { operator diffusion(nx = 9, ny = 7, m = 0); rhs 1; solver cg; tolerance 1e-9; iterations 200; }";

fn diffusion(name: &str) -> (std::path::PathBuf, String) {
    let folder = folder(name);
    let program = file(&folder, "diffusion.kw", &format!("{DIFFUSION}{PROBLEMS}"));
    (folder, program)
}

#[track_caller]
fn outcome(program: &str, problem: &str, more: &[&str]) -> (String, i32, serde_json::Value) {
    let args = [&["solve", program, "--problem", problem, "--backend", "interp", "--json"], more].concat();
    let ran = run(&args);
    let object = ran.json();
    (object["outcome"].as_str().expect("an outcome").to_string(), ran.status, object)
}

#[test]
fn outcomes_and_exit_statuses() {
    let (_, program) = diffusion("cli_solve_outcomes");
    let (name, status, object) = outcome(&program, "diffusion", &[]);
    assert_eq!((name.as_str(), status), ("converged", 0));
    let (truth, bound) = (&object["residual"]["true"], &object["residual"]["bound"]);
    assert!(truth.as_f64().expect("verified") <= bound.as_f64().expect("a bound"), "{object}");
    for problem in ["exact", "nothing"] {
        let (name, status, object) = outcome(&program, problem, &[]);
        assert_eq!((name.as_str(), status, &object["iterations"]), ("converged", 0, &0.into()), "{problem}");
    }
    let (name, status, object) = outcome(&program, "single", &[]);
    assert_eq!((name.as_str(), status), ("attainable_accuracy", 3), "{object}");
    assert!(object["detail"].as_str().expect("says what helps").contains("f64"));
    let (name, status, _) = outcome(&program, "single", &["--precision", "f64"]);
    assert_eq!((name.as_str(), status), ("converged", 0));
    let (name, status, object) = outcome(&program, "diffusion", &["--iterations", "3"]);
    assert_eq!((name.as_str(), status, &object["iterations"]), ("iteration_limit", 3, &3.into()));
    assert_eq!(object["history"].as_array().expect("a list").len(), 4);
    let (name, status, _) = outcome(&program, "negative", &[]);
    assert_eq!((name.as_str(), status), ("indefinite_operator", 3));
}

#[test]
fn a_singular_operator_without_a_solution_is_incompatible() {
    let ran =
        run(&["solve", &example("neumann.kw"), "--set", "nx=6", "--set", "ny=6", "--backend", "interp", "--json"]);
    assert_eq!(ran.json()["outcome"], "converged", "{}", ran.err);
    let text = std::fs::read_to_string(example("neumann.kw")).expect("an example");
    let start = text.find("rhs if").expect("its right-hand side");
    let end = start + text[start..].find(';').expect("a statement");
    let folder = folder("cli_solve_singular");
    let program = file(&folder, "one.kw", &format!("{}rhs 1{}", &text[..start], &text[end..]));
    let ran = run(&["solve", &program, "--set", "nx=6", "--set", "ny=6", "--backend", "interp", "--json"]);
    assert_eq!((ran.json()["outcome"].as_str(), ran.status), (Some("incompatible"), 3));
}

#[test]
fn schedules_agree_and_unknown_ones_are_named() {
    let (_, program) = diffusion("cli_solve_schedules");
    let explained = run(&["explain", &program, "--problem", "diffusion", "--json"]).json();
    let names: Vec<&str> =
        explained["schedules"].as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert!(names.len() >= 3, "{names:?}");
    let iterations =
        |schedule: &&str| outcome(&program, "diffusion", &["--schedule", schedule]).2["iterations"].clone();
    let counts: Vec<_> = names.iter().map(iterations).collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "{names:?} {counts:?}");
    let ran = run(&["solve", &program, "--problem", "diffusion", "--schedule", "best", "--backend", "interp"]);
    assert!(ran.status == 2 && ran.err.contains("statement"), "{}", ran.err);
}

#[test]
fn files_in_and_out() {
    let (folder, program) = diffusion("cli_solve_files");
    let path = |name: &str| folder.join(name).display().to_string();
    // A right-hand side with its axes in the order i, j.
    let values: Vec<f64> = (0..63).map(|n| f64::from(n % 11) - 5.0).collect();
    let mut bytes = Vec::new();
    write(&mut bytes, &[9, 7], &values, Float::F64).expect("memory takes it");
    std::fs::write(path("f.npy"), bytes).expect("a file");
    let files = [path("f.npy"), path("u.npy"), path("h.csv"), path("c.svg")];
    let more =
        ["--rhs", &files[0], "--rhs-order", "i,j", "--out", &files[1], "--history", &files[2], "--plot", &files[3]];
    let (name, _, object) = outcome(&program, "diffusion", &more);
    assert_eq!(name, "converged");
    let u = read(std::fs::File::open(&files[1]).expect("written")).expect("a .npy file");
    assert_eq!(u.shape, [7, 9], "last axis first");
    // m*u - (div X + div Y) = f, with no flux along i and period 7 along j.
    let at = |i: usize, j: usize| u.values[j * 9 + i];
    for (i, j) in (0..9usize).flat_map(|i| (0..7).map(move |j| (i, j))) {
        let (low, high) = (i.saturating_sub(1), (i + 1).min(8));
        let around = at(low, j) + at(high, j) + at(i, (j + 1) % 7) + at(i, (j + 6) % 7);
        let left = 0.1 * at(i, j) + 4.0 * at(i, j) - around;
        assert!((left - values[i * 7 + j]).abs() < 1e-6, "({i}, {j})");
    }
    let history = std::fs::read_to_string(&files[2]).expect("written");
    assert_eq!(history.lines().count() as u64, object["iterations"].as_u64().expect("a count") + 2);
    assert!(std::fs::read_to_string(&files[3]).expect("written").contains("tolerance"));
    // The solution as a guess needs no iteration.
    let (_, _, again) =
        outcome(&program, "diffusion", &["--rhs", &files[0], "--rhs-order", "i,j", "--guess", &files[1]]);
    assert_eq!((&again["outcome"], &again["iterations"]), (&"converged".into(), &0.into()), "{again}");
}

#[test]
fn a_file_of_the_wrong_shape_is_named() {
    let (folder, program) = diffusion("cli_solve_shape");
    let path = folder.join("f.npy").display().to_string();
    let mut bytes = Vec::new();
    write(&mut bytes, &[9, 7], &[0.0; 63], Float::F32).expect("memory takes it");
    std::fs::write(&path, bytes).expect("a file");
    let args = ["solve", &program, "--problem", "diffusion", "--backend", "interp", "--rhs", &path];
    let ran = run(&args);
    assert!(ran.status == 1 && ran.err.contains("f.npy") && ran.err.contains("[j, i] means [7, 9]"), "{}", ran.err);
    let ran = run(&[&args[..], &["--rhs-order", "k,j"]].concat());
    assert!(ran.status == 2 && ran.err.contains("the axes are i, j"), "{}", ran.err);
    let text = "operator o { grid cells [i: n]; apply u => 2*u - u[i+1]; boundary i: periodic; }
        problem p { operator o(n = 4); rhs file(\"gone.npy\", order = [i]); solver cg; tolerance 1e-6; iterations 9; }";
    let ran = run(&["solve", &file(&folder, "gone.kw", text), "--backend", "interp"]);
    assert!(ran.status == 1 && ran.err.contains("gone.npy"), "{}", ran.err);
}

#[test]
fn a_paraview_file_has_the_grid() {
    let (folder, program) = diffusion("cli_solve_vti");
    let path = folder.join("u.vti").display().to_string();
    outcome(&program, "diffusion", &["--out", &path]);
    let bytes = std::fs::read(path).expect("written");
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("WholeExtent=\"0 9 0 7 0 1\"") && text.contains("Name=\"u\""));
}

#[test]
fn names_that_do_not_exist_are_wrong_usage_or_a_wrong_problem() {
    let (_, program) = diffusion("cli_solve_names");
    let ran = run(&["solve", &program]);
    assert!(ran.status == 2 && ran.err.contains("choose one of"), "{}", ran.err);
    let ran = run(&["solve", &program, "--problem", "diffusion", "--set", "mm=1", "--backend", "interp"]);
    assert!(ran.status != 0 && ran.err.contains("mm"), "{}", ran.err);
}

#[test]
fn a_back_end_that_is_not_there_is_four() {
    let (_, program) = diffusion("cli_solve_cuda");
    let ran = run(&["solve", &program, "--problem", "diffusion", "--backend", "cuda:99", "--json"]);
    assert_eq!(ran.status, 4, "{}", ran.err);
    assert_eq!(ran.json()["error"]["kind"], "backend");
}

#[test]
fn emit_and_ir_print_every_stage() {
    let (_, program) = diffusion("cli_solve_stages");
    for stage in ["program", "math", "graph", "schedule", "loops", "kernel"] {
        let ran = run(&["ir", &program, "--problem", "diffusion", "--stage", stage]);
        assert!(ran.status == 0 && ran.out.lines().count() > 2, "{stage}: {}{}", ran.out, ran.err);
        assert_eq!(run(&["ir", &program, "--problem", "diffusion", "--stage", stage]).out, ran.out, "{stage}");
    }
    let cuda = run(&["emit", &program, "--problem", "diffusion", "--target", "cuda", "--json"]).json();
    let kernels = cuda["kernels"].as_array().expect("a list").clone();
    assert!(kernels.len() > 3 && cuda["source"].as_str().expect("a text").contains("__global__"));
    let name = kernels[0].as_str().expect("a name");
    let one = run(&["emit", &program, "--problem", "diffusion", "--target", "host", "--kernel", name]);
    assert!(one.out.contains(name), "{}", one.out);
    assert_eq!(run(&["emit", &program, "--problem", "diffusion", "--target", "host", "--kernel", "no"]).status, 2);
}

#[test]
fn bench_is_repeatable() {
    let (_, program) = diffusion("cli_solve_bench");
    let ran = run(&["bench", &program, "--problem", "diffusion", "--backend", "interp", "--runs", "2", "--json"]);
    let object = ran.json();
    let case = &object["cases"][0];
    assert_eq!((ran.status, &case["repeatable"], case["seconds"].as_array().map(Vec::len)), (0, &true.into(), Some(2)));
    assert!(case["seconds_per_iteration"].as_f64().is_some_and(|time| time > 0.0));
}

#[test]
fn bench_runs_every_case_of_the_model_problem() {
    let args = ["bench", "pcg", "--backend", "interp", "--runs", "1", "--json", "--iterations", "60"];
    let more = ["--sizes", "4x4x4,6x3x5", "--precisions", "f32,f64", "--schedules", "statement,2_sweeps_9_words"];
    let ran = run(&[&args[..], &more].concat());
    let object = ran.json();
    assert_eq!(object["floor_words"], 9.0);
    let cases = object["cases"].as_array().expect("a list").clone();
    assert_eq!(cases.len(), 8, "{}", ran.err);
    assert_eq!(cases[0]["median"]["sizes"], serde_json::json!([4, 4, 4]));
    assert_eq!(cases[7]["median"]["precision"], "f64");
    assert_eq!((&cases[6]["schedule"], &cases[7]["schedule"]), (&"statement".into(), &"2_sweeps_9_words".into()));
    for arguments in [["--sizes", "4x4"], ["--sizes", "4x0x4"], ["--schedules", "best"], ["--floor", "0"]] {
        assert_eq!(run(&[&args[..], &arguments].concat()).status, 2, "{arguments:?}");
    }
}

#[test]
fn explain_predicts_times_and_counts_as_the_paper() {
    let args = ["explain", &example("pressure_correction_eq18.kw"), "--bandwidth", "4000", "--paper"];
    let object = run(&[&args[..], &["--json"]].concat()).json();
    let nine = object["schedules"].as_array().expect("a list").iter().find(|s| s["name"] == "2_sweeps_9_words");
    let nine = nine.expect("it is on the front");
    // A table fills the grid: the product of level and column values in the diagonal. Two sweeps read it.
    assert_eq!(nine["words"], 11.0);
    let time = 11.0 * 256.0 * 256.0 * 128.0 * 8.0 / 4e12;
    assert!((nine["predicted_seconds"].as_f64().expect("a number") - time).abs() < 1e-12);
    assert_eq!(nine["loads"].as_f64().zip(nine["stores"].as_f64()).map(|(l, s)| l + s), Some(9.0));
    let row = |number: usize| {
        let row = &object["paper"][number];
        ["operations", "words", "words_levels_cached", "words_columns_cached"].map(|key| row[key].as_f64().expect(key))
    };
    // Their table 2; forming the line matrix takes one operation more than eq. 19, which divides by the area first.
    assert_eq!(row(0), [20.0, 12.0, 8.0, 6.0], "product");
    assert_eq!(row(1), [14.0, 12.0, 8.0, 5.0], "preconditioner");
    assert_eq!(row(2), [13.0, 16.0, 16.0, 16.0], "updates and sums");
    assert_eq!(row(3), [47.0, 40.0, 32.0, 27.0], "total");
    assert_eq!(row(4), [20.0, 16.0, 12.0, 9.0], "preconditioner with what is fused");
    assert_eq!(row(5), [28.0, 17.0, 13.0, 11.0], "product with what is fused");
    assert_eq!(row(6), [48.0, 33.0, 25.0, 20.0], "total");
    let text = run(&args).out;
    assert!(text.contains("columns cached") && text.contains("4000 GB/s (as given)"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_interrupt_ends_cleanly_with_the_solution_so_far() {
    let (folder, program) = diffusion("cli_solve_interrupt");
    let out = folder.join("u.npy").display().to_string();
    // A tolerance out of reach keeps the loop busy until the signal comes.
    let args = ["solve", &program, "--problem", "diffusion", "--backend", "interp", "--json", "--out", &out];
    let loud =
        [&args[..], &["--set", "nx=60", "--set", "ny=60", "--tolerance", "0", "--iterations", "1000000"]].concat();
    let mut child = command(&loud).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let id = child.id().to_string();
    // Early signals would end the process before it listens: wait until it has computed for a while.
    let busy = || {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let ticks = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(11)?.parse::<u64>().ok());
        ticks.unwrap_or(0) >= 100
    };
    while !busy() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &id]).status().expect("kill is there");
    assert!(sent.success());
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    let object: serde_json::Value = serde_json::from_str(&text).expect("one object");
    assert_eq!(object["outcome"], "interrupted");
    let u = read(std::fs::File::open(&out).expect("written")).expect("a .npy file");
    assert!(u.values.iter().all(|value| value.is_finite()) && u.values.iter().any(|value| *value != 0.0));
}
