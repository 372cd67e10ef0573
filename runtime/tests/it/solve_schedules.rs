//! Every schedule solves the model problem as the text of the solver does, on easy and on stiff columns.

use std::sync::{Arc, LazyLock};

use kernelwright::backend::Target;
use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::{Loaded, from_text};
use kernelwright::solve::{Inputs, Outcome, Report, Solver};

use crate::cli::example;

/// Schedules have many kernels in common, and parameters are no part of them.
static CACHE: LazyLock<Arc<Cache>> = LazyLock::new(|| Arc::new(Cache::in_memory()));

fn model(solver: &str, preconditioner: &str) -> Loaded {
    let text = std::fs::read_to_string(example("pressure_correction.kw")).expect("an example");
    let text = text.replace("solver pcg;", &format!("solver {solver};"));
    let text = text.replace("preconditioner line(k);", &format!("preconditioner {preconditioner};"));
    from_text("model.kw", text).expect("a right program")
}

/// Solves on the host, or where there is no C compiler a smaller problem in the interpreter.
fn solve(loaded: &Loaded, lambda: f64, schedule: &str) -> Report {
    let on = |choice, sizes: [f64; 3]| {
        let set = [("nx", sizes[0]), ("ny", sizes[1]), ("nz", sizes[2]), ("lambda", lambda)];
        let builder = set.into_iter().fold(Solver::builder(loaded), |b, (name, value)| b.set(name, value));
        builder.schedule(schedule).tolerance(1e-8).cache(CACHE.clone()).backend(choice).compile()
    };
    let solver = on(Choice::Host, [14.0, 10.0, 12.0]).or_else(|_| on(Choice::Interp(Target::Host), [5.0, 4.0, 6.0]));
    solver.expect("the interpreter is always there").solve(&Inputs::new()).expect("it works").report
}

#[test]
fn every_schedule_takes_as_many_iterations_as_the_text_but_two() {
    for (solver, preconditioner, lambdas) in [
        ("pcg", "line(k)", vec![0.1, 1.0]),
        ("pcg", "jacobi", vec![0.01]),
        ("conjugate_residual", "line(k)", vec![1.0]),
        ("minres", "line(k)", vec![0.1]),
    ] {
        let loaded = model(solver, preconditioner);
        let planned = Solver::builder(&loaded).plan().expect("it has schedules");
        let names: Vec<&str> = planned.plans.iter().map(|plan| plan.schedule.name.as_str()).collect();
        assert!(names.len() > 4, "{names:?}");
        for lambda in lambdas {
            let text = solve(&loaded, lambda, "statement");
            assert_eq!(text.outcome, Outcome::Converged, "{solver}");
            for name in &names[1..] {
                let report = solve(&loaded, lambda, name);
                let what = format!("{solver} {preconditioner} {name} at lambda {lambda}");
                assert_eq!(report.outcome, Outcome::Converged, "{what}: {:?}", report.detail);
                assert!(report.truth.is_some_and(|truth| truth <= report.bound), "{what}");
                let off = report.iterations.abs_diff(text.iterations);
                assert!(off <= 2, "{what}: {} iterations for {}", report.iterations, text.iterations);
            }
        }
    }
}

#[test]
fn a_prediction_survives_convergence_at_once() {
    // The preconditioner is the operator: after one iteration nothing is left, and a prediction of it cancels completely.
    let text = "operator columns { grid cells [i: nx, k: nz]; flux Z[k+1/2] = u[k+1] - u; apply u => u - div(Z);
            boundary i, k: no_flux; claim symmetric; }
        problem p { operator columns(nx = 5, nz = 6); rhs random(1); solver pcg; preconditioner line(k); tolerance 1e-12; }";
    let loaded = from_text("columns.kw", text.to_string()).expect("a right program");
    let planned = Solver::builder(&loaded).plan().expect("it has schedules");
    let predicted = planned.plans.iter().filter(|plan| plan.schedule.predicted.is_some());
    let mut seen = 0;
    for plan in predicted {
        let builder = Solver::builder(&loaded).schedule(&plan.schedule.name).cache(Arc::new(Cache::none()));
        let mut solver = builder.backend(Choice::Interp(Target::Host)).compile().expect("it compiles");
        let report = solver.solve(&Inputs::new()).expect("it works").report;
        assert_eq!(report.outcome, Outcome::Converged, "{}: {report:?}", plan.schedule.name);
        assert!(report.iterations <= 3, "{}: {}", plan.schedule.name, report.iterations);
        seen += 1;
    }
    assert!(seen > 0, "pcg has a schedule with one fence");
}
