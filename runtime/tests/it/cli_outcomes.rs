//! Every way a solve can end, from a program's text to the exit status.

use crate::cli::{DIFFUSION, file, folder, run};

const SOLVERS: &str = "solver runaway(A: any) {
    param limit = 0;
    residual r = f - A*u;
    converge when norm(r) <= tolerance*norm(f);
    first = norm(r);
    repeat {
        u = u + 3*r;
        r = f - A*u;
        require limit == 0 || norm(r) <= limit*first else diverged;
        check;
    }
}
solver stuck(A: any) {
    residual r = f - A*u;
    converge when norm(r) <= tolerance*norm(f);
    repeat {
        q = A*r;
        s = dot(r, q) - dot(q, r);
        require s > 0 else breakdown;
        u = u + (1/s)*r;
        r = f - A*u;
        check;
    }
}
";

/// Name of the outcome, exit status, and what the report says about it.
#[track_caller]
fn solved(name: &str, problem: &str) -> (String, i32, serde_json::Value) {
    let text = format!(
        "{DIFFUSION}{SOLVERS}problem p {{ operator diffusion(nx = 9, ny = 7); rhs random(3); {problem} tolerance 1e-9; \
         iterations 900; }}"
    );
    let program = file(&folder(&format!("outcomes_{name}")), "p.kw", &text);
    let ran = run(&["solve", &program, "--backend", "interp", "--json"]);
    let object = ran.json();
    (object["outcome"].as_str().unwrap_or_else(|| panic!("{object}")).to_string(), ran.status, object)
}

#[test]
fn an_iteration_that_moves_away_has_diverged() {
    let (outcome, status, object) = solved("diverged", "solver runaway(limit = 100);");
    assert_eq!((outcome.as_str(), status), ("diverged", 3), "{object}");
    assert!(object["detail"].as_str().expect("names the statement").contains("require"), "{object}");
}

#[test]
fn numbers_that_overflow_are_not_finite() {
    let (outcome, status, object) = solved("not_finite", "solver runaway;");
    assert_eq!((outcome.as_str(), status), ("not_finite", 3), "{object}");
}

#[test]
fn an_input_that_is_not_finite_is_named() {
    let text = format!(
        "{DIFFUSION}problem p {{ operator diffusion(nx = 9, ny = 7); rhs 1/(i - 3); solver cg; tolerance 1e-9; iterations 90; }}"
    );
    let program = file(&folder("outcomes_named"), "p.kw", &text);
    let ran = run(&["solve", &program, "--backend", "interp", "--json"]);
    let object = ran.json();
    assert_eq!((object["outcome"].as_str(), ran.status), (Some("not_finite"), 3), "{object}");
    let named = "not finite from the beginning: the right-hand side (element 3, counted from 0)";
    assert_eq!(object["detail"], named);
    assert!(object["residual"]["true"].is_null() && object["residual"]["recursive"].is_null(), "{object}");
    assert!(run(&["solve", &program, "--backend", "interp"]).out.contains("never measured"));
}

#[test]
fn a_vanishing_divisor_is_a_breakdown() {
    let (outcome, status, object) = solved("breakdown", "solver stuck;");
    assert_eq!((outcome.as_str(), status), ("breakdown", 3), "{object}");
}

#[test]
fn a_negative_preconditioner_is_indefinite() {
    let problem =
        "solver pcg; preconditioner inner(richardson(omega = -1), iterations = 1, preconditioner = identity);";
    let (outcome, status, object) = solved("indefinite_preconditioner", problem);
    assert_eq!((outcome.as_str(), status), ("indefinite_preconditioner", 3), "{object}");
    assert_eq!(object["detail"], "`require rho_new > 0 else indefinite_preconditioner` does not hold");
}

/// Compiling is measured stage by stage; what an empty cache compiles, a full one has.
#[test]
fn a_full_cache_compiles_nothing() {
    let text = format!("{DIFFUSION}problem p {{ operator diffusion(nx = 9, ny = 7); rhs 1; solver cg; }}");
    let program = file(&folder("outcomes_bench"), "p.kw", &text);
    let ran = run(&["bench", &program, "--compile", "--backend", "host", "--runs", "1", "--json"]);
    if ran.status == 4 {
        println!("skipped: {}", ran.err);
        return;
    }
    let object = ran.json();
    let units = |of: &str, what: &str| object[of][what].as_u64().expect("a count");
    assert!(units("cold", "units_compiled") > 0, "{object}");
    assert_eq!(units("warm", "units_compiled"), 0, "{object}");
    assert_eq!(units("warm", "units_from_cache"), units("cold", "units_compiled"), "{object}");
    for stage in ["plan", "map", "verify", "print", "build", "load", "allocate"] {
        let seconds = object["warm"]["stages"][stage].as_f64().expect("a time");
        assert!(seconds >= 0.0 && seconds <= object["warm"]["seconds"].as_f64().expect("a time"), "{stage}: {object}");
    }
}
