//! `solve --matrix`, `spmv`, `bench spmv` and `bench read`.

use serde_json::Value;

use crate::cli::{Ran, file, folder, run};

/// Second differences with a stronger diagonal: symmetric, positive definite, rows of several lengths.
pub fn system(rows: usize) -> String {
    let mut lines = Vec::new();
    for row in 1..=rows {
        lines.push(format!("{row} {row} {}", 4.0 + row as f64 / 8.0));
        if row > 1 {
            lines.push(format!("{row} {} -1", row - 1));
        }
        if row > 7 && row % 3 == 0 {
            lines.push(format!("{row} {} -0.5", row - 7));
        }
    }
    format!("%%MatrixMarket matrix coordinate real symmetric\n{rows} {rows} {}\n{}\n", lines.len(), lines.join("\n"))
}

pub fn solve(path: &str, more: &[&str]) -> Ran {
    run(&[&["solve", "--matrix", path, "--backend", "interp", "--json"], more].concat())
}

fn error_of(ran: &Ran) -> f64 {
    ran.json()["largest_error"].as_f64().expect("the solution is known")
}

#[test]
fn every_format_gives_the_solution_in_the_order_of_the_matrix() {
    let folder = folder("cli_sparse_formats");
    let path = file(&folder, "system.mtx", &system(75));
    for format in [
        "coo",
        "csr",
        "csr_delta",
        "ellpack",
        "ellpack_r",
        "pjds",
        "sell_c_sigma",
        "sell_delta",
        "sell_pattern",
        "sliced_dia",
    ] {
        let ran = solve(&path, &["--format", format, "--tolerance", "1e-12"]);
        let object = ran.json();
        assert_eq!((ran.status, &object["outcome"]), (0, &"converged".into()), "{format}: {}", ran.err);
        assert_eq!(object["matrix"]["format"], format);
        assert!(error_of(&ran) < 1e-11, "{format}: {}", error_of(&ran));
    }
    let chosen = solve(&path, &["--precision", "f32", "--tolerance", "1e-5"]);
    assert_eq!(chosen.json()["matrix"]["preconditioner"], "jacobi");
    assert!(chosen.json()["matrix"]["choice"]["why"].as_str().expect("a reason").contains("MB a product"));
    assert!(error_of(&chosen) < 1e-4);
}

#[test]
fn every_solver_of_the_library_takes_a_matrix() {
    let folder = folder("cli_sparse_solvers");
    let path = file(&folder, "system.mtx", &system(60));
    let solvers = ["cg", "pcg", "pcg_flexible", "minres", "conjugate_residual", "chebyshev", "bicgstab"];
    for solver in solvers {
        let ran = solve(&path, &["--solver", solver, "--format", "pjds"]);
        assert_eq!(ran.status, 0, "{solver}: {}{}", ran.out, ran.err);
        assert!(error_of(&ran) < 1e-6, "{solver}: {}", error_of(&ran));
    }
    let inner = ["--solver", "pcg_flexible", "--preconditioner", "inner(chebyshev, iterations = 2)"];
    assert_eq!(solve(&path, &inner).status, 0);
    let line = solve(&path, &["--preconditioner", "line(row)"]);
    assert_eq!(line.status, 1);
    assert!(line.err.contains("a matrix has no lines"), "{}", line.err);
}

#[test]
fn vectors_come_and_go_in_the_order_of_the_matrix() {
    let folder = folder("cli_sparse_vectors");
    let path = file(&folder, "system.mtx", &system(50));
    let [x, b, u] = ["x.npy", "b.npy", "u.npy"].map(|name| folder.join(name).display().to_string());
    let values: Vec<f64> = (0..50).map(|n| (n as f64).sin()).collect();
    let write = |path: &str, values: &[f64]| {
        let target = std::fs::File::create(path).expect("a file of the target directory");
        kernelwright::inputs::npy::write(target, &[values.len()], values, kernelwright::inputs::npy::Float::F64)
    };
    write(&x, &values).expect("written");
    let spmv = ["spmv", &path, "--x", &x, "--out", &b, "--backend", "interp", "--format", "pjds", "--repeat", "1"];
    assert_eq!(run(&spmv).status, 0);
    let matrix = kernelwright::matrix::file::read(path.as_ref()).expect("read");
    let read = |path: &str| kernelwright::inputs::npy::read_file(path.as_ref()).expect("written").values;
    let expected = matrix.csr.multiply(&values);
    assert!(read(&b).iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-13));
    let ran = solve(&path, &["--rhs", &b, "--out", &u, "--format", "sell_c_sigma", "--tolerance", "1e-13"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(read(&u).iter().zip(&values).all(|(a, b)| (a - b).abs() < 1e-11));
    // The solution as the guess: nothing is left to do.
    let again = solve(&path, &["--rhs", &b, "--guess", &u, "--format", "pjds"]);
    assert_eq!((again.status, &again.json()["iterations"]), (0, &0.into()));
}

#[test]
fn the_file_s_own_vectors_are_used() {
    let corpus = crate::matrix_corpus::folder().join("right_hand_sides.rua").display().to_string();
    let ran = solve(&corpus, &["--tolerance", "1e-14"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    // Of the file: the matrix diag(1, 2), the first right-hand side (1, 2), its exact solution (1, 1).
    assert!(error_of(&ran) < 1e-13, "{}", ran.out);
}

#[test]
fn the_tolerance_is_relative_to_what_is_said() {
    let folder = folder("cli_sparse_tolerance");
    let path = file(&folder, "system.mtx", &system(60));
    let matrix = kernelwright::matrix::file::read(path.as_ref()).expect("read").csr;
    let rhs = matrix.multiply(&[1.0; 60]);
    let norm = rhs.iter().map(|b| b * b).sum::<f64>().sqrt();
    let bound = |more: &[&str]| solve(&path, more).json()["residual"]["bound"].as_f64().expect("a bound");
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-12 * b;
    assert!(close(bound(&["--tolerance", "1e-6"]), 1e-6 * norm));
    assert!(close(bound(&["--tolerance", "1e-6", "--relative-to", "r0"]), 1e-6 * norm), "the guess is zero");
    assert!(close(bound(&["--tolerance", "1e-6", "--relative-to", "nothing"]), 1e-6));
}

#[test]
fn the_residual_is_computed_anew_on_the_way() {
    let folder = folder("cli_sparse_restart");
    let path = file(&folder, "system.mtx", &system(60));
    let [plain, every] = [&[][..], &["--restart-every", "2"]].map(|more| solve(&path, more).json());
    let iterations = |object: &Value| object["iterations"].as_i64().expect("a number");
    assert_eq!((&every["outcome"], &every["matrix"]["restart"]), (&"converged".into(), &2.into()));
    assert!((iterations(&plain) - iterations(&every)).abs() <= 1, "directions are kept");
    assert_ne!(plain["history"], every["history"], "rounding differs");
    let explained = run(&["explain", "--matrix", &path, "--restart-every", "2"]);
    assert!(explained.out.contains("every 2"), "{}", explained.out);
}

#[test]
fn what_cannot_be_solved_is_said() {
    let folder = folder("cli_sparse_refused");
    let zero = system(20).replace("\n5 5 4.625\n", "\n5 5 0\n");
    let path = file(&folder, "zero.mtx", &zero);
    let ran = solve(&path, &["--solver", "pcg", "--preconditioner", "jacobi"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("jacobi divides by the diagonal, which is zero or not stored in row 5"), "{}", ran.err);
    let wide = file(&folder, "wide.mtx", "%%MatrixMarket matrix coordinate real general\n1 2 1\n1 2 3\n");
    let ran = solve(&wide, &[]);
    assert!(ran.status == 1 && ran.err.contains("this matrix is 1 x 2"), "{}", ran.err);
    let ran = solve(&path, &["--format", "csc"]);
    assert!(ran.status == 2 && ran.err.contains("no format is called `csc`"), "{}", ran.err);
    let ran = solve(&path, &["--solver", "nope"]);
    assert!(
        ran.status == 1 && ran.err.lines().any(|line| line.starts_with("error: there is no solver `nope`")),
        "{}",
        ran.err
    );
    for text in ["chebyshev(lower=", "pcg; tolerance 1", "cg)", ""] {
        let ran = solve(&path, &["--solver", text]);
        assert!(ran.status == 2 && ran.err.contains("a name is expected"), "{text}: {}", ran.err);
    }
    let ran = run(&["solve"]);
    assert_eq!(ran.status, 2, "a program or a matrix");
    let negative = system(20).replace("\n5 5 4.625\n", "\n5 5 -9\n");
    let path = file(&folder, "negative.mtx", &negative);
    let ran = solve(&path, &["--solver", "cg"]);
    assert_eq!((ran.status, &ran.json()["outcome"]), (3, &"indefinite_operator".into()));
    assert!(ran.err.contains("the diagonal is negative in row 5"), "{}", ran.err);
    let ran = solve(&path, &[]);
    assert_eq!((ran.status, &ran.json()["matrix"]["solver"]), (0, &"minres".into()), "{}", ran.err);
}

#[test]
fn formats_of_one_s_own() {
    let folder = folder("cli_sparse_own");
    let path = file(&folder, "system.mtx", &system(60));
    let own = "/// Short chunks.\nformat mine {\n    rows sort(length, descending, window = 8).chunk(4).pad(longest);\n    \
               store chunk, lane, slot;\n    index u32;\n}\n";
    let own = file(&folder, "mine.kw", own);
    let ran = solve(&path, &["--formats", &own, "--format", "mine", "--tolerance", "1e-10"]);
    assert_eq!((ran.status, &ran.json()["matrix"]["format"]), (0, &"mine".into()), "{}", ran.err);
    assert!(error_of(&ran) < 1e-8);
}

#[test]
fn systems_that_are_unusual_or_wrong() {
    let folder = folder("cli_sparse_loop");
    let path = file(&folder, "a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 4\n1 2 1\n2 2 4\n");
    let ran = solve(&path, &[]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(!ran.err.contains("is not"), "bicgstab asks for nothing: {}", ran.err);
    let empty = file(&folder, "empty.mtx", "%%MatrixMarket matrix coordinate real general\n0 0 0\n");
    assert!(solve(&empty, &[]).err.contains("without rows is no system"));
    let own = "solver mine(A: any) {\n    residual r = f - A*u;\n    converge when norm(r) <= tolerance;\n    \
               repeat { u = u + inv(A)*r; r = f - A*u; check; }\n}\n";
    let wrong = file(&folder, "mine.kw", own);
    let ran = solve(&path, &["--formats", &wrong, "--solver", "mine"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("mine.kw:4:"), "{}", ran.err);
    // Landweber's iteration: of an upper triangle, and the transpose is not the matrix.
    let own = file(&folder, "landweber.kw", &own.replace("inv(A)", "0.05*transpose(A)"));
    let ran = solve(&path, &["--formats", &own, "--solver", "mine", "--tolerance", "1e-10"]);
    assert_eq!((ran.status, &ran.json()["outcome"]), (0, &"converged".into()), "{}", ran.err);
    assert!(error_of(&ran) < 1e-10, "the smallest singular value exceeds 3");
}

#[test]
fn products_are_measured_side_by_side() {
    let kinds = ["--kind", "samg-like", "--kind", "powerlaw"];
    let args = ["bench", "spmv", "--scale", "2e-4", "--backend", "interp", "--precision", "f32", "--json"];
    let ran = run(&[&args[..], &kinds].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    let object = ran.json();
    assert_eq!(object["cusparse"], Value::Null);
    let matrices = object["matrices"].as_array().expect("a list");
    assert_eq!(matrices.len(), 2);
    for matrix in matrices {
        let products = matrix["products"].as_array().expect("a list");
        assert_eq!(products.iter().filter(|product| product["chosen"] == true).count(), 1);
        for product in products {
            let why = product["failure"].as_str().unwrap_or_default();
            assert!(why.is_empty() || why.starts_with("left out"), "{product}");
        }
    }
    let unknown = run(&["bench", "spmv", "--kind", "none"]);
    assert!(unknown.status == 2 && unknown.err.contains("there are poisson7"), "{}", unknown.err);
    let large = run(&["bench", "spmv", "--scale", "1e14"]);
    assert!(large.status == 2 && large.err.contains("it is between 0 and 100"), "{}", large.err);
    let large = run(&["tune", "--kind", "powerlaw", "--scale", "1e14"]);
    assert!(large.status == 2 && large.err.contains("it is between 0 and 100"), "{}", large.err);
    let read = run(&["bench", "read", "--scale", "1e-3", "--runs", "1", "--json"]);
    assert!(read.json()["read"][0]["megabytes_per_second_and_thread"].as_f64().expect("a speed") > 0.0);
}

#[test]
fn a_choice_by_measurement_says_what_it_measured() {
    let folder = folder("cli_sparse_measure");
    let path = file(&folder, "system.mtx", &system(60));
    let ran = run(&["spmv", &path, "--backend", "interp", "--format", "measure", "--repeat", "1", "--json"]);
    let object = ran.json();
    let measured = object["choice"]["measured"].as_array().expect("a list");
    assert_eq!((ran.status, measured.len()), (0, 4), "{}", ran.err);
    assert!(measured.iter().any(|trial| trial["format"] == object["format"]));
    let emit = run(&["emit", "--matrix", &path, "--target", "cuda", "--format", "measure"]);
    assert!(emit.status == 2 && emit.err.contains("needs a back end"), "{}", emit.err);
    let emit = run(&["emit", "--matrix", &path, "--target", "cuda", "--format", "csr"]);
    assert!(emit.status == 0 && emit.out.contains("start"), "{}", emit.err);
}
