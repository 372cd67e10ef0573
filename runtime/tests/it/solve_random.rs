//! Solvers that begin with a random vector begin with the same one every time.

use std::sync::Arc;

use kernelwright::backend::Target;
use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::load;
use kernelwright::solve::{Inputs, Solver};

use crate::cli::{file, folder};

/// Power iteration: the loop overwrites the vector that it begins with.
const POWER: &str = "solver power(A: any) {
    v = random(5);
    w = A*v;
    square = dot(w, w);
    residual r = f - A*u;
    converge when norm(r) <= tolerance*norm(f);
    repeat {
        v = (1/sqrt(square))*w;
        w = A*v;
        square = dot(w, w);
        u = u + (0.9/sqrt(square))*r;
        r = f - A*u;
        check;
    }
}
operator line { grid cells [i: n]; apply u => 3*u - u[i+1] - u[i-1]; boundary i: periodic; }
problem power { operator line(n = 24); rhs random(1); solver power; tolerance 1e-7; iterations 400; }";

#[test]
fn a_second_solve_repeats_the_first() {
    let loaded = load(&file(&folder("solve_random"), "power.kw", POWER)).expect("a right program");
    let explained = Solver::builder(&loaded).plan().expect("it can be planned");
    assert!(explained.plans.len() > 1);
    for plan in &explained.plans {
        let builder = Solver::builder(&loaded).schedule(&plan.schedule.name).backend(Choice::Interp(Target::Host));
        let mut solver = builder.cache(Arc::new(Cache::none())).compile().expect("the interpreter is always there");
        let first = solver.solve(&Inputs::new()).expect("it solves");
        let second = solver.solve(&Inputs::new()).expect("it solves");
        assert!(first.report.outcome.is_converged(), "{}: {:?}", plan.schedule.name, first.report.outcome);
        assert_eq!(first.report.history, second.report.history, "{}", plan.schedule.name);
    }
}
