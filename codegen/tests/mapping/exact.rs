//! Every schedule of a loop, mapped for every target, computes exactly the same.
//!
//! In the integers modulo a prime nothing is rounded: after some iterations all schedules, those with another
//! recurrence too, must agree in every bit with the one that has a sweep per statement. The loop is left by its own
//! check, so that what an exit has to fix up (delayed updates, versions) is part of what is compared.

use crate::modular::Machine;
use kernelwright_codegen::lower::lower;
use kernelwright_codegen::map::{Finish, Target, Variant};
use kernelwright_codegen::plan::{Plan, plan, search::Limits};
use kernelwright_codegen::trace::{Input, trace};
use kernelwright_tests::loops;

fn plans(text: &str) -> Vec<Plan> {
    let program = kernelwright_syntax::compile("case.kw", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let problem = &program.problems[0];
    let sizes: Vec<u64> = problem.sizes.iter().map(|&n| n as u64).collect();
    let operator = lower(&program.operators[problem.operator], &sizes).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let input = Input {
        operator: &operator,
        solvers: &program.solvers,
        solver: problem.solver,
        preconditioner: &problem.preconditioner,
        precision: problem.precision,
    };
    let graph = trace(input).unwrap_or_else(|e| panic!("{e}\n{text}"));
    plan(&graph, Limits::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Other shapes of kernels than the usual ones.
fn reshape(variant: &mut Variant) {
    let (fence, segments, shared) = (Some(Finish::Own), Some(2), Some(2));
    let tiles = Variant { staged: Some(true), block: Some([8, 4]), chunk: Some(2), ..variant.clone() };
    *variant = Variant { fence, segments, shared, ..tiles };
}

/// What is read at neighbours in planes of small tiles.
fn hold(variant: &mut Variant) {
    (variant.staged, variant.tile) = (Some(true), Some([2, 3]));
}

/// Nothing in planes.
fn read_directly(variant: &mut Variant) {
    variant.staged = Some(false);
}

/// Sums finished by the sweeps that follow, where that can be.
fn lead(variant: &mut Variant) {
    variant.fence = Some(Finish::Next);
}

/// Number of schedules compared.
#[track_caller]
fn agree(text: &str) -> usize {
    let plans = plans(text);
    assert_eq!(plans[0].schedule.name, "statement");
    let expected = Machine::new(&plans[0].program, Target::Host).run();
    for (number, plan) in plans.iter().enumerate() {
        for target in [Target::Host, Target::Cuda] {
            let shape: fn(&mut Variant) = [|_: &mut Variant| {}, reshape, lead, hold, read_directly][number % 5];
            let found = Machine::with_matrix(&plan.program, target, None, shape).run();
            let wrong = found.solution.iter().zip(&expected.solution).filter(|(a, b)| a != b).count();
            let name = &plan.schedule.name;
            assert_eq!(wrong, 0, "{name} for {target:?}: {wrong} of {} values\n{text}", expected.solution.len());
            assert_eq!(found, expected, "{name} for {target:?}: the residual\n{text}");
        }
    }
    plans.len()
}

const COLUMN: (&str, &str) = (
    "operator op { grid cells [i: ni, j: nj, k: nk]; param a; data c[i, j, k] outside mirror;
     flux X[i+1/2] = (c + c[i+1])*(u[i+1] - u); flux Z[k+1/2] = (2 + k)*(u[k+1] - u);
     apply u => (3 + i)*u - a*(div(X) + div(Z)) - (u[j+1] - 2*u + u[j-1]);
     boundary i: no_flux; boundary j: periodic; boundary low(k): dirichlet(2 + a*j); boundary high(k): no_flux; }",
    "operator op(ni = 5, nj = 3, nk = 4, a = 0.5); data c = 1; rhs 0;",
);

const NODES: (&str, &str) = (
    "operator op { grid nodes [i: ni, j: nj];
     apply u => 5*u - u[i+1] - 2*u[i-1, j+1] - u[j-2] - 3*u[i-3];
     boundary i: periodic; boundary j: dirichlet(1 + i); }",
    "operator op(ni = 2, nj = 7); rhs 0;",
);

const COUPLED: (&str, &str) = (
    "operator op { grid cells [i: ni, j: nj]; flux X[i+1/2] = u[i+1] - u; flux V[j+1/2] = (1 + j)*(v[j+1] - v);
     apply (u, v) => (2*u - div(X) + 0.5*v[j-1], 3*v - div(V) - u[i+1]); boundary i, j: no_flux; }",
    "operator op(ni = 6, nj = 1); rhs (0, 0);",
);

fn text(operator: (&str, &str), solver: &str, preconditioner: &str) -> String {
    let (operator, head) = operator;
    format!("{operator}\nproblem main {{ {head} solver {solver}; preconditioner {preconditioner}; }}\n")
}

const PRECONDITIONERS: [&str; 4] = ["identity", "jacobi", "line(i)", "inner(richardson(omega = 0.25), iterations = 2)"];

#[test]
fn all_schedules_of_the_library_agree() {
    let mut compared = 0;
    for solver in kernelwright_syntax::library::names() {
        let count = if solver == "cg" { 1 } else { PRECONDITIONERS.len() };
        for preconditioner in &PRECONDITIONERS[..count] {
            compared += agree(&text(COLUMN, solver, preconditioner));
        }
    }
    assert!(compared > 100, "only {compared} schedules were compared");
}

#[test]
fn all_schedules_agree_on_short_axes_and_coupled_unknowns() {
    for operator in [NODES, COUPLED] {
        for (solver, preconditioner) in
            [("pcg", "line(j)"), ("pcg", "jacobi"), ("cg", "identity"), ("minres", "line(i)")]
        {
            agree(&text(operator, solver, preconditioner));
        }
    }
}

#[test]
fn all_schedules_of_random_loops_agree() {
    let mut compared = 0;
    for seed in 0..24 {
        let operator = [COLUMN, NODES, COUPLED][seed as usize % 3];
        let preconditioner = PRECONDITIONERS[seed as usize % 4];
        compared += agree(&(text(operator, "random", preconditioner) + &loops::solver(seed)));
    }
    assert!(compared > 60, "only {compared} schedules were compared");
}
