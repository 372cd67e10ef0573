//! Mixed precision: f64 tolerances with a loop in f32, and honest ends where that cannot be.

use std::sync::Arc;

use kernelwright::backend::Target;
use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::{Loaded, from_text, load};
use kernelwright::solve::{Builder, Inputs, Outcome, Report, Solution, Solver};
use kernelwright_syntax::program::Precision;

use crate::cli::{example, run};

fn text(rest: &str) -> Loaded {
    let operator = "operator diffusion {
        grid cells [i: nx, j: ny];
        param m = 0.1; param wall = 0; param heat = 0;
        data kappa[i, j];
        flux X[i+1/2] = (kappa + kappa[i+1])/2*(u[i+1] - u);
        flux Y[j+1/2] = u[j+1] - u + heat*j/8;
        apply u => m*u - (div(X) + div(Y)) - heat*(1 + i);
        boundary i: no_flux; boundary j: dirichlet(wall);
    }";
    let problem = format!("problem p {{ operator diffusion(nx = 9, ny = 8{rest} }}");
    from_text("mixed.kw", format!("{operator} {problem}")).expect("a right program")
}

fn interp(loaded: &Loaded, precision: Precision) -> Builder<'_> {
    let builder = Solver::builder(loaded).backend(Choice::Interp(Target::Host)).cache(Arc::new(Cache::none()));
    builder.precision(precision)
}

fn solve(builder: Builder<'_>) -> Solution {
    builder.compile().expect("it compiles").solve(&Inputs::new()).expect("the back end works")
}

#[track_caller]
fn expect_verified(report: &Report, what: &str) {
    assert_eq!(report.outcome, Outcome::Converged, "{what}: {report:?}");
    let truth = report.truth.expect("verified");
    assert!(truth <= report.bound, "{what}: {truth} {}", report.bound);
    assert_eq!(report.history.len() as u32, report.iterations + 1, "{what}: a measure an iteration");
}

fn far(a: &[f64], b: &[f64]) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(x, y)| x - y)) / norm(&mut b.iter().copied())
}

#[test]
fn every_solver_of_the_library_reaches_what_f32_cannot() {
    let solvers = [
        ("richardson(omega = 0.9)", "jacobi"),
        ("steepest_descent", "jacobi"),
        ("cg", "identity"),
        ("pcg", "line(j)"),
        ("pcg_flexible", "inner(chebyshev, iterations = 3)"),
        ("conjugate_residual", "jacobi"),
        ("minres", "line(i)"),
        ("chebyshev(lower = 0.05)", "jacobi"),
        ("bicgstab", "line(j)"),
    ];
    for (solver, preconditioner) in solvers {
        let rest = format!(
            ", m = 0.5, wall = 2, heat = 3); data kappa = 1 + i/4; rhs 1 + i*j; solver {solver}; preconditioner {preconditioner};
            tolerance 1e-11; iterations 3000;"
        );
        let loaded = text(&rest);
        let mixed = solve(interp(&loaded, Precision::Mixed));
        expect_verified(&mixed.report, solver);
        assert!(mixed.report.restarts >= 1, "{solver}: one run of f32 is not enough for 1e-11");
        let whole = solve(interp(&loaded, Precision::F64));
        expect_verified(&whole.report, solver);
        // The condition of this operator is below 200.
        assert!(far(&mixed.values, &whole.values) < 1e-8, "{solver}: {}", far(&mixed.values, &whole.values));
        // Recurrences that go on beyond what f32 can reach may do anything with time; of this side none does.
        let single = solve(interp(&loaded, Precision::F32).set("heat", 0.0)).report;
        assert_eq!(single.outcome, Outcome::AttainableAccuracy, "{solver}");
    }
}

#[test]
fn neither_tiny_nor_huge_sides_leave_the_range_of_f32() {
    for size in [1e-60, 1e60] {
        let loaded =
            text(&format!("); data kappa = 1; rhs {size}*(1 + i); solver cg; tolerance 1e-10; iterations 500;"));
        expect_verified(&solve(interp(&loaded, Precision::Mixed)).report, "scaled");
    }
}

#[test]
fn inputs_change_without_compiling() {
    let loaded = text("); data kappa = 1; rhs 1; solver cg; tolerance 1e-10; iterations 500;");
    let mut solver = interp(&loaded, Precision::Mixed).compile().expect("it compiles");
    let first = solver.solve(&Inputs::new()).expect("it works");
    let compiles = solver.engine().counters();
    let kappa: Vec<f64> = (0..72).map(|n| 1.0 + f64::from(n % 5)).collect();
    let changed = Inputs::new().param("m", 0.7).data("kappa", &kappa).rhs(&kappa);
    let second = solver.solve(&changed).expect("it works");
    expect_verified(&second.report, "changed");
    assert!(far(&second.values, &first.values) > 1e-3, "something was changed");
    let mut whole = interp(&loaded, Precision::F64).compile().expect("it compiles");
    let expected = whole.solve(&changed).expect("it works");
    assert!(far(&second.values, &expected.values) < 1e-8);
    let again = solver.solve(&Inputs::new().guess_previous()).expect("it works").report;
    assert_eq!((again.outcome, again.iterations), (Outcome::Converged, 0), "the solution is still there");
    assert_eq!(solver.engine().counters().compiles, compiles.compiles);
    assert_eq!(solver.engine().counters().buffers, compiles.buffers, "memory stays flat");
}

#[test]
fn ends_are_honest() {
    let base = "data kappa = 1; rhs 1 + i; solver cg; iterations 500;";
    let limited = solve(interp(&text(&format!("); {base} tolerance 1e-10;")), Precision::Mixed).iterations(4)).report;
    assert_eq!((limited.outcome, limited.iterations), (Outcome::IterationLimit, 4));
    let negative = solve(interp(&text(&format!(", m = -9); {base} tolerance 1e-10;")), Precision::Mixed)).report;
    assert_eq!(negative.outcome, Outcome::IndefiniteOperator);
    assert!(negative.detail.expect("names the statement").contains("sigma > 0"));
    let beyond = solve(interp(&text(&format!("); {base} tolerance 1e-18;")), Precision::Mixed)).report;
    assert_eq!(beyond.outcome, Outcome::AttainableAccuracy, "{beyond:?}");
    assert!(beyond.truth.expect("measured") < 1e-12, "as far as f64 goes");
    let nothing =
        solve(interp(&text("); data kappa = 1; rhs 0; solver cg; tolerance 1e-10;"), Precision::Mixed)).report;
    assert_eq!((nothing.outcome, nothing.iterations), (Outcome::Converged, 0));
    let poisoned = text("); data kappa = 1; rhs 1/i; solver cg; tolerance 1e-10;");
    assert_eq!(solve(interp(&poisoned, Precision::Mixed)).report.outcome, Outcome::NotFinite);
}

#[test]
fn a_singular_operator_and_its_incompatible_side() {
    let loaded = load(&example("neumann.kw")).expect("an example");
    let builder = |precision| interp(&loaded, precision).set("nx", 12.0).set("ny", 10.0).tolerance(1e-11);
    let mixed = solve(builder(Precision::Mixed));
    expect_verified(&mixed.report, "singular");
    assert!(mixed.values.iter().sum::<f64>().abs() < 1e-9, "the solution's mean is zero");
    let mut solver = builder(Precision::Mixed).compile().expect("it compiles");
    let ones = vec![1.0; solver.len()];
    let report = solver.solve(&Inputs::new().rhs(&ones)).expect("it works").report;
    assert_eq!(report.outcome, Outcome::Incompatible);
}

#[test]
fn the_model_problem_takes_little_more_than_in_f64() {
    // Stiff columns (lambda = 1): the residual of an f32 solution stays far above the tolerance.
    for (lambda, tolerance) in [(0.1, 1e-5), (0.1, 1e-10), (1.0, 1e-5), (1.0, 1e-9)] {
        let loaded = load(&example("pressure_correction.kw")).expect("an example");
        let at = |precision| {
            let sizes = [("nx", 24.0), ("ny", 24.0), ("nz", 32.0), ("lambda", lambda)];
            let builder = sizes.into_iter().fold(Solver::builder(&loaded), |b, (name, value)| b.set(name, value));
            let builder = builder.tolerance(tolerance).cache(Arc::new(Cache::none())).precision(precision);
            match builder.clone().backend(Choice::Host).compile() {
                Ok(mut solver) => solver.solve(&Inputs::new()).expect("it works").report,
                // No C compiler: the interpreter gives the same numbers, slowly.
                Err(_) => solve(builder.backend(Choice::Interp(Target::Host))).report,
            }
        };
        let (mixed, whole) = (at(Precision::Mixed), at(Precision::F64));
        expect_verified(&mixed, "mixed");
        let (n, most) = (mixed.iterations, whole.iterations * 13 / 10 + 20);
        println!("lambda {lambda}, {tolerance}: mixed {n} ({} replaced), f64 {}", mixed.restarts, whole.iterations);
        assert!(n <= most, "lambda {lambda}, {tolerance}: {n} iterations for {}", whole.iterations);
        if lambda == 1.0 {
            let single = at(Precision::F32);
            assert!(single.truth.expect("measured") > 10.0 * single.bound, "f32 alone is out of reach of this");
        }
    }
}

#[test]
fn the_command_knows_the_precision() {
    let program = example("poisson_2d.kw");
    let args = ["solve", &program, "--set", "nx=12", "--set", "ny=12", "--backend", "interp", "--precision", "mixed"];
    let ran = run(&[&args[..], &["--json", "--tolerance", "1e-11"]].concat());
    let object = ran.json();
    assert_eq!((ran.status, &object["precision"]), (0, &"mixed".into()), "{}", ran.err);
    assert!(object["restarts"].as_u64().is_some_and(|n| n >= 1));
}
