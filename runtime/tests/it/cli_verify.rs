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
fn a_coefficient_that_is_not_finite_is_named() {
    let text = |row: &str| {
        format!(
            "operator o {{ grid cells [i: n]; data k[i] outside mirror; apply u => {row}; boundary i: periodic; }}
            problem p {{ operator o(n = 8); data k = if i == 3 {{ 0 }} else {{ 1 }}; rhs 1; solver bicgstab; }}"
        )
    };
    let cases = [
        ("3*u - u[i+1]*k*k[i+1]/(k*k[i+1])", "a coefficient in the row of u(2) is not finite"),
        ("3*u + 1/k", "what the row of u(3) adds to the right-hand side is not finite"),
    ];
    for (row, expected) in cases {
        let program = file(&folder("cli_verify_finite"), "o.kw", &text(row));
        let ran = run(&["verify", &program]);
        assert!(ran.status == 1 && ran.err.contains(expected), "{row}: {}", ran.err);
        let ran = run(&["solve", &program, "--backend", "interp"]);
        assert!(ran.status == 3 && ran.out.contains(expected), "{row}: {}", ran.out);
    }
}

#[test]
fn a_null_space_that_is_not_there_is_an_error() {
    let text = "operator o { grid cells [i: n]; apply u => 2.5*u - u[i+1] - u[i-1]; boundary i: periodic;
        nullspace constant; }
        problem p { operator o(n = 8); rhs i - 3.5; solver cg; }";
    let program = file(&folder("cli_verify_null_space"), "o.kw", text);
    let expected = "`nullspace constant` is declared, but the row of u(0) does not map constants to zero";
    let ran = run(&["verify", &program]);
    assert!(ran.status == 1 && ran.out.contains(expected), "{}", ran.out);
    let side = text.replace("i - 3.5", "1");
    let program = file(&folder("cli_verify_null_space"), "o.kw", &side);
    let ran = run(&["solve", &program, "--backend", "interp"]);
    assert!(ran.status == 3 && ran.out.contains(expected), "{}", ran.out);
}

#[test]
fn too_large_a_probe_is_refused() {
    let ran = run(&["verify", &example("poisson_2d.kw"), "--set", "nx=100", "--set", "ny=100"]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("10000 unknowns"), "{}", ran.err);
}
