//! The driver: outcomes, versions after an exit, missed bounds, interruption.

use std::ops::ControlFlow;

use kernelwright::solve::{Engine, Limits, Outcome, Report};
use kernelwright_syntax::program;

use crate::fake::{Faults, POINTS, engine};

const RHS: [f64; POINTS] = [1.0, -2.0, 3.0, 0.5, 4.0];

fn run(engine: &mut Engine, tolerance: f64, iterations: u32) -> Report {
    engine.set_params(&[1.0]).expect("one parameter");
    engine.set_rhs(&RHS).expect("right length");
    engine.solve(Limits { tolerance, iterations }, &mut |_| ControlFlow::Continue(())).expect("the device works")
}

fn solve(faults: Faults, tolerance: f64, iterations: u32) -> (Report, Vec<f64>) {
    let (mut engine, _) = engine(faults, program::Outcome::IndefiniteOperator, iterations);
    let report = run(&mut engine, tolerance, iterations);
    let mut u = vec![0.0; POINTS];
    engine.read_solution(&mut u).expect("right length");
    (report, u)
}

#[test]
fn every_iteration_count_ends_with_the_version_of_that_iteration() {
    // The loop overruns in batches and renames three versions; the solution after m iterations is f (1 - 2^-m).
    for m in 1..40 {
        let tolerance = 0.5f64.powi(m) * 1.001;
        let (report, u) = solve(Faults::default(), tolerance, 100);
        assert_eq!((report.outcome, report.iterations), (Outcome::Converged, m as u32));
        assert_eq!(report.history.len(), m as usize + 1);
        for (value, f) in u.iter().zip(RHS) {
            assert!((value - f * (1.0 - 0.5f64.powi(m))).abs() < 1e-14, "after {m} iterations: {value}");
        }
    }
}

#[test]
fn a_zero_right_hand_side_and_an_exact_guess_take_no_iteration() {
    let (mut engine, _) = engine(Faults::default(), program::Outcome::Breakdown, 10);
    let limits = Limits { tolerance: 1e-6, iterations: 10 };
    engine.set_params(&[1.0]).expect("one parameter");
    let report = engine.solve(limits, &mut |_| ControlFlow::Continue(())).expect("the device works");
    assert_eq!((report.outcome, report.iterations, report.history), (Outcome::Converged, 0, vec![0.0]));
    engine.set_rhs(&RHS).expect("right length");
    engine.set_guess(&RHS).expect("right length");
    let report = engine.solve(limits, &mut |_| ControlFlow::Continue(())).expect("the device works");
    assert_eq!((report.outcome, report.iterations), (Outcome::Converged, 0));
}

#[test]
fn the_limit_is_exact_and_reports_the_true_residual() {
    for limit in [0, 1, 3, 4, 5, 17] {
        let (report, u) = solve(Faults::default(), 1e-12, limit);
        assert_eq!((report.outcome, report.iterations), (Outcome::IterationLimit, limit));
        assert!((u[2] - 3.0 * (1.0 - 0.5f64.powi(limit as i32))).abs() < 1e-14);
        let truth = report.truth.expect("a residual section");
        assert!((truth / report.recursive - 1.0).abs() < 1e-12);
    }
}

#[test]
fn a_failed_require_becomes_its_outcome_with_the_statement() {
    let faults = Faults { require_at: Some(6.0), ..Faults::default() };
    let (report, u) = solve(faults, 1e-12, 100);
    assert_eq!((report.outcome, report.iterations), (Outcome::IndefiniteOperator, 6));
    assert!(report.detail.expect("names the statement").contains("line 7: `require sigma > 0"));
    assert!((u[0] - (1.0 - 0.5f64.powi(6))).abs() < 1e-14);
}

#[test]
fn a_breakdown_away_from_the_solution_is_no_convergence() {
    let faults = Faults { require_at: Some(9.0), ..Faults::default() };
    let (mut engine, _) = engine(faults, program::Outcome::Breakdown, 100);
    let report = run(&mut engine, 0.5f64.powi(10), 100);
    assert_eq!(report.outcome, Outcome::Breakdown, "the residual is still twice the bound");
}

#[test]
fn nan_and_incompatibility_are_outcomes() {
    let (report, _) = solve(Faults { nan_at: Some(5.0), ..Faults::default() }, 1e-12, 100);
    assert_eq!((report.outcome, report.iterations), (Outcome::NotFinite, 5));
    let (report, _) = solve(Faults { incompatible: true, ..Faults::default() }, 1e-12, 100);
    assert_eq!((report.outcome, report.iterations, report.truth), (Outcome::Incompatible, 0, None));
}

#[test]
fn a_claim_the_residual_refutes_is_not_convergence() {
    // u is stored in steps of 1/16, so the true residual stays near 1/16 while the recursive one falls.
    let faults = Faults { quantum: 1.0 / 16.0, ..Faults::default() };
    let (report, _) = solve(faults, 1e-6, 500);
    assert_eq!(report.outcome, Outcome::AttainableAccuracy);
    assert!(report.truth.expect("verified") > report.bound);
    assert!(report.restarts >= 2, "tried to start over");
    assert_eq!(report.history.len() as u32, report.iterations + 1, "one measure per iteration over all attempts");
    assert!(report.detail.expect("says what helps").contains("tolerance"));
}

#[test]
fn a_claim_that_rounding_does_not_explain_is_no_attainable_accuracy() {
    let faults = Faults { quantum: 1.0 / 16.0, attainable: 1e-9, ..Faults::default() };
    let (report, _) = solve(faults, 1e-6, 500);
    assert_eq!(report.outcome, Outcome::Breakdown);
    assert!(report.detail.expect("says why").contains("far above what rounding explains"));
}

#[test]
fn a_residual_at_what_rounding_allows_ends_at_once() {
    let faults = Faults { quantum: 1.0 / 16.0, attainable: 1.0, ..Faults::default() };
    let (report, _) = solve(faults, 1e-6, 500);
    assert_eq!((report.outcome, report.restarts), (Outcome::AttainableAccuracy, 0));
    let (report, _) =
        solve(Faults { quantum: 1.0 / 16.0, honest: true, attainable: 0.1, ..Faults::default() }, 1e-6, 50);
    assert_eq!(report.outcome, Outcome::AttainableAccuracy, "at the limit too");
}

#[test]
fn a_missed_bound_is_mended_by_starting_over() {
    // Rounding down to 2^-24 adds up over the iterations: starting from the true residual brings it below the bound.
    let faults = Faults { quantum: 2f64.powi(-24), relax: 0.3, ..Faults::default() };
    let (report, _) = solve(faults, 1e-7, 500);
    assert!(report.outcome == Outcome::Converged && report.restarts > 0);
    assert!(report.truth.expect("verified") <= report.bound);
}

#[test]
fn a_watcher_stops_the_solve_with_the_iterate_so_far() {
    let (mut engine, _) = engine(Faults::default(), program::Outcome::Breakdown, 1000);
    engine.set_params(&[1.0]).expect("one parameter");
    engine.set_rhs(&RHS).expect("right length");
    let mut seen = 0;
    let limits = Limits { tolerance: 0.0, iterations: 1000 };
    let report = engine
        .solve(limits, &mut |progress| {
            seen = progress.iteration;
            if seen >= 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .expect("the device works");
    assert_eq!((report.outcome, report.iterations), (Outcome::Interrupted, seen));
    let mut u = vec![0.0; POINTS];
    engine.read_solution(&mut u).expect("right length");
    assert!((u[4] - 4.0 * (1.0 - 0.5f64.powi(seen as i32))).abs() < 1e-14);
}

#[test]
fn solving_again_does_not_compile_again() {
    let (mut engine, faults) = engine(Faults::default(), program::Outcome::Breakdown, 100);
    let first = run(&mut engine, 1e-3, 100);
    engine.set_guess(&[0.0; POINTS]).expect("right length");
    let second = run(&mut engine, 1e-3, 100);
    assert_eq!((first.iterations, first.history), (second.iterations, second.history));
    assert_eq!(faults.borrow().compiles, 1);
    let third = run(&mut engine, 1e-3, 100);
    assert_eq!(third.iterations, 0, "without a new guess it starts from its solution");
}

#[test]
fn wrong_lengths_are_named() {
    let (mut engine, _) = engine(Faults::default(), program::Outcome::Breakdown, 10);
    let error = engine.set_rhs(&[1.0]).expect_err("too short").to_string();
    assert_eq!(error, "the right-hand side: 1 values given, 5 expected");
    assert!(engine.set_params(&[]).is_err());
}

#[test]
fn no_more_than_a_fraction_of_the_rounds_runs_in_vain() {
    let (mut engine, faults) = engine(Faults { relax: 0.01, ..Faults::default() }, program::Outcome::Breakdown, 10_000);
    let report = run(&mut engine, 1e-8, 10_000);
    assert_eq!(report.outcome, Outcome::Converged);
    let launched = faults.borrow().launches["step"];
    assert!(report.iterations > 1000 && launched as f64 <= 1.5 * f64::from(report.iterations), "{launched}");
}
