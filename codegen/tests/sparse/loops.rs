//! Whole loops on matrices: legal schedules, exactly equal whatever the format, the schedule and the target.
//!
//! The matrix has small integers, and arithmetic is modulo a prime: all formats of one matrix, all schedules of one loop
//! and all ways to map them must give the same numbers, element by element, once the order of rows is undone.

use crate::formats;
use crate::matrices::Csr;
use crate::modular::{Machine, Result};
use kernelwright_codegen::check::check;
use kernelwright_codegen::format::{Basis, Options, Stored, operator, store};
use kernelwright_codegen::interp::Residue;
use kernelwright_codegen::map::{Target, Variant};
use kernelwright_codegen::math::Operator;
use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_codegen::plan::{Plan, plan, search::Limits};
use kernelwright_codegen::trace::{Input, trace};
use kernelwright_syntax::program::{Precision, Preconditioner, Solver};

const OPTIONS: Options = Options { basis: Basis::Permuted, diagonal: true };

/// Rows of 0 to 12 entries, one of them full; a diagonal that is nowhere zero.
pub fn matrix() -> Csr {
    let n = 45;
    let row = |i: usize| match i {
        17 => (0..n).collect(),
        _ => (0..i % 7).map(|k| (i * 5 + k * k * 11) % n).chain([i]).collect(),
    };
    let mut csr = Csr::new("integers", n, (0..n).map(row).collect(), 1);
    for (number, value) in csr.value.iter_mut().enumerate() {
        *value = ((number * 7) % 11) as f64 - 5.5 + 0.5;
        *value += f64::from(u8::from(*value == 0.0));
    }
    csr
}

pub fn plans(operator: &Operator, solver: &Solver, preconditioner: &Preconditioner) -> Vec<Plan> {
    let solvers = std::slice::from_ref(solver);
    let input = Input { operator, solvers, solver: 0, preconditioner, precision: Precision::F64 };
    let graph = trace(input).unwrap_or_else(|e| panic!("{}: {e}", solver.name));
    let plans = plan(&graph, Limits::default()).unwrap_or_else(|e| panic!("{}: {e}", solver.name));
    for plan in &plans {
        if let Err(error) = check(&plan.program, solvers, 0, preconditioner) {
            panic!("{}, {}: {error}", solver.name, plan.schedule.name);
        }
    }
    plans
}

/// What a mapped loop computes, in the order of the matrix as given.
pub fn run(plan: &Plan, stored: &Stored, target: Target, change: impl Fn(&mut Variant)) -> Result {
    let mut result = Machine::with_matrix(&plan.program, target, Some(stored), change).run();
    if let Some(order) = &stored.order {
        let mut given = vec![Residue::ZERO; order.len()];
        order.iter().zip(&result.solution).for_each(|(&row, value)| given[row as usize] = *value);
        result.solution = given;
    }
    result
}

#[test]
fn all_schedules_of_the_library_agree_on_a_matrix() {
    let matrix = matrix();
    let stored = store(&formats::named("sell_c_sigma"), &matrix.view(), OPTIONS).unwrap();
    let operator = operator("matrix", &stored.layout, Vec::new());
    let mut compared = 0;
    for name in kernelwright_syntax::library::names() {
        let solver = kernelwright_syntax::library::solver(name).unwrap();
        for preconditioner in [Preconditioner::Identity, Preconditioner::Jacobi] {
            if solver.operators.len() < 2 && preconditioner != Preconditioner::Identity {
                continue;
            }
            let plans = plans(&operator, &solver, &preconditioner);
            let expected = run(&plans[0], &stored, Target::Host, |_| {});
            for plan in &plans {
                for target in [Target::Host, Target::Cuda] {
                    let found = run(plan, &stored, target, |_| {});
                    assert_eq!(found, expected, "{name}, {} for {target:?}", plan.schedule.name);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 80, "only {compared} were compared");
}

#[test]
fn all_formats_agree_on_a_loop() {
    let matrix = matrix();
    let solver = kernelwright_syntax::library::solver("pcg").unwrap();
    let mut expected: Option<Result> = None;
    for format in formats::all() {
        let stored = store(&format, &matrix.view(), OPTIONS).unwrap();
        let operator = operator("matrix", &stored.layout, Vec::new());
        let plans = plans(&operator, &solver, &Preconditioner::Jacobi);
        let fewest = plans.iter().filter(|p| p.schedule.arithmetic == Arithmetic::Same);
        let fewest = fewest.min_by(|a, b| a.cost.words.total_cmp(&b.cost.words)).unwrap();
        for (target, lanes) in [(Target::Host, 1), (Target::Cuda, 1), (Target::Cuda, 4), (Target::Cuda, 0)] {
            // No lanes stand for the products cut by entries, where the format allows it.
            let found = run(fewest, &stored, target, |variant| {
                variant.balanced = Some(lanes == 0);
                variant.row_lanes = Some(lanes.max(1));
            });
            let want = expected.get_or_insert_with(|| found_of(&found));
            assert_eq!(&found, want, "{} for {target:?} with {lanes} lanes", format.name);
        }
    }
}

pub fn found_of(result: &Result) -> Result {
    Result { solution: result.solution.clone(), measure: result.measure, bound: result.bound }
}

#[test]
fn words_count_the_matrix() {
    let matrix = matrix();
    let solver = kernelwright_syntax::library::solver("cg").unwrap();
    let stored = store(&formats::named("csr"), &matrix.view(), OPTIONS).unwrap();
    let of_matrix = stored.layout.bytes(8) as f64 / 8.0 / matrix.rows() as f64;
    let plans = plans(&operator("matrix", &stored.layout, Vec::new()), &solver, &Preconditioner::Identity);
    let least = plans.iter().filter(|p| p.schedule.arithmetic == Arithmetic::Same);
    let least = least.map(|p| p.cost.words).fold(f64::INFINITY, f64::min);
    // Three sweeps: p and u from p, r, u; q from p, which is complete by then; r from r, q.
    assert!((least - 10.0 - of_matrix).abs() < 1e-6, "{least} words, {of_matrix} of them the matrix");
}

#[test]
fn a_line_of_a_matrix_is_refused() {
    let stored = store(&formats::named("csr"), &matrix().view(), OPTIONS).unwrap();
    let operator = operator("matrix", &stored.layout, Vec::new());
    let solver = kernelwright_syntax::library::solver("pcg").unwrap();
    let solvers = std::slice::from_ref(&solver);
    let preconditioner = &Preconditioner::Line(0);
    let error = trace(Input { operator: &operator, solvers, solver: 0, preconditioner, precision: Precision::F64 });
    assert!(error.is_err_and(|e| e.message.contains("lines")));
}
