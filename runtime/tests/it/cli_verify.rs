//! Probing operators.

use crate::cli::{example, file, folder, run};

/// The three-point operator with Dirichlet nodes: eigenvalues are known.
const LINE: &str = "operator line { grid nodes [i: n]; apply u => 2*u - u[i+1] - u[i-1]; boundary i: dirichlet(0); }
problem line { operator line(n = 1000); rhs 1; solver cg; tolerance 1e-6; iterations 10; }";

#[test]
fn eigenvalues_of_the_three_point_operator() {
    let folder = folder("cli_verify_line");
    let program = file(&folder, "line.kw", LINE);
    let object = run(&["verify", &program, "--set", "n=9", "--json"]).json();
    let exact = 2.0 - 2.0 * (std::f64::consts::PI / 10.0).cos();
    let low = object["eigenvalues"][0].as_f64().expect("a number");
    assert!((low - exact).abs() < 1e-13 && object["symmetric"] == true && object["positive"] == true, "{object}");
    assert_eq!(object["entries"], 9 + 16);
    let reduced = run(&["verify", &program, "--json"]).json();
    assert_eq!(reduced["sizes"][0], 64, "sizes that are not set are reduced");
}

#[test]
fn the_matrix_is_saved() {
    let folder = folder("cli_verify_mtx");
    let program = file(&folder, "line.kw", LINE);
    let path = folder.join("A.mtx").display().to_string();
    assert_eq!(run(&["verify", &program, "--set", "n=3", "--out", &path]).status, 0);
    let text = std::fs::read_to_string(path).expect("the file is there");
    let entries: Vec<&str> = text.lines().filter(|line| !line.starts_with('%')).collect();
    assert_eq!(entries, ["3 3 7", "1 1 2e0", "1 2 -1e0", "2 1 -1e0", "2 2 2e0", "2 3 -1e0", "3 2 -1e0", "3 3 2e0"]);
}

#[test]
fn constants_in_the_null_space_are_seen() {
    let object = run(&["verify", &example("neumann.kw"), "--json"]).json();
    assert_eq!((&object["constants_in_null_space"], &object["positive"]), (&true.into(), &true.into()), "{object}");
}

#[test]
fn a_claim_that_numbers_contradict_is_an_error() {
    let folder = folder("cli_verify_claim");
    let text = "operator drift { grid cells [i: n]; apply u => 2*u - 1.5*u[i+1] - 0.5*u[i-1];
        boundary i: periodic; claim symmetric; }
        problem drift { operator drift(n = 8); rhs 1; solver cg; tolerance 1e-6; iterations 10; }";
    let ran = run(&["verify", &file(&folder, "drift.kw", text)]);
    assert_eq!(ran.status, 1);
    assert!(ran.out.contains("not symmetric") && ran.out.contains("REFUTED"), "{}", ran.out);
}

#[test]
fn too_large_a_probe_is_refused() {
    let ran = run(&["verify", &example("poisson_2d.kw"), "--set", "nx=100", "--set", "ny=100"]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("10000 unknowns"), "{}", ran.err);
}
