//! The macros as a Rust program uses them: handles, registration, time steps without a second compilation, and errors
//! at the tokens they are about.

use std::sync::Arc;

use kernelwright::backend::Target;
use kernelwright::backend::interp::{InterpBackend, InterpOptions};
use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::registry::programs;
use kernelwright::solve::{Inputs, Solver};

kernelwright::operator! {
    /// Implicit diffusion with a conductivity from outside.
    diffusion {
        grid cells [i: nx, j: ny];
        /// Time step.
        param tau;
        /// Reaction.
        param mass = 1;
        data kappa[i, j];
        flux X[i+1/2] = (kappa + kappa[i+1])/2*(u[i+1] - u);
        flux Y[j+1/2] = (kappa + kappa[j+1])/2*(u[j+1] - u);
        apply u => mass*u - tau*(div(X) + div(Y));
        boundary i, j: no_flux;
    }
}

kernelwright::solver! {
    /// Damped Richardson iteration.
    damped(A: any) {
        param omega = 0.3;
        residual r = f - A*u;
        converge when norm(r) <= tolerance*norm(f);
        repeat {
            u = u + omega*r;
            r = f - A*u;
            check;
        }
    }
}

/// Several items as one program.
mod together {
    kernelwright::program! {
        operator type {
            grid nodes [i: n];
            apply u => 3*u - u[i-1] - u[i+1];
            boundary i: periodic;
        }
        problem first {
            operator type(n = 6);
            rhs 1;
            solver cg;
        }
    }
}

mod from_file {
    kernelwright::program!(file = "../examples/programs/heat_step.kw");
}

const INTERPRETER: Choice = Choice::Interp(Target::Host);

#[test]
fn programs_are_registered_under_their_names() {
    let names: Vec<&str> = programs().iter().map(|program| program.name).collect();
    assert_eq!(names, ["damped", "diffusion", "heat_step", "type"]);
    assert!(programs()[1].source.contains("operator diffusion"));
    assert!(programs()[1].file.ends_with("macros.rs"));
}

#[test]
fn a_handle_knows_sizes_parameters_and_data() {
    let sizes = diffusion::Sizes { nx: 5, ny: 3 };
    let system = diffusion::system(sizes, diffusion::Parameters { tau: 0.5, mass: 2.0 }).tolerance(1e-12);
    let mut solver = system.backend(INTERPRETER).compile().expect("compiles");
    let kappa = vec![1.5; solver.len()];
    let data = diffusion::Data { kappa: &kappa };
    let f = vec![3.0; solver.len()];
    let solution = solver.solve(&data.set(Inputs::new().rhs(&f))).expect("solves");
    assert!(solution.values.iter().all(|u| (u - 1.5).abs() < 1e-10), "a constant is not diffused");
    let faster = diffusion::Parameters { tau: 0.1, mass: 3.0 };
    let solution = solver.solve(&faster.set(Inputs::new())).expect("solves");
    assert!(solution.values.iter().all(|u| (u - 1.0).abs() < 1e-10), "the right-hand side stays");
}

#[test]
fn parameters_with_defaults_have_them() {
    // `type` is a keyword of Rust, and `together` has no parameters: its module is raw and its defaults are empty.
    let system = together::r#type::system(together::r#type::Sizes { n: 4 }, Default::default());
    let mut solver = system.backend(INTERPRETER).tolerance(1e-12).compile().expect("compiles");
    let f = vec![1.0; 4];
    let solution = solver.solve(&Inputs::new().rhs(&f)).expect("solves");
    assert!(solution.values.iter().all(|u| (u - 1.0).abs() < 1e-10));
    assert_eq!(from_file::heat_step::PROGRAM.name, "heat_step");
}

#[test]
fn an_own_solver_solves_an_own_operator() {
    let parameters = diffusion::Parameters { tau: 0.25, mass: 1.0 };
    let system = diffusion::system(diffusion::Sizes { nx: 4, ny: 4 }, parameters).own_solver(&damped::PROGRAM);
    let mut solver = system.tolerance(1e-11).backend(INTERPRETER).compile().expect("compiles");
    let (kappa, f) = (vec![1.0; 16], vec![2.0; 16]);
    let inputs = diffusion::Data { kappa: &kappa }.set(Inputs::new().rhs(&f));
    let solution = solver.solve(&inputs).expect("solves");
    assert!(solution.report.outcome.is_converged(), "{:?}", solution.report);
    assert!(solution.values.iter().all(|u| (u - 2.0).abs() < 1e-9));
}

#[test]
fn time_steps_compile_once() {
    let parameters = diffusion::Parameters { tau: 0.1, mass: 1.0 };
    let loaded = diffusion::system(diffusion::Sizes { nx: 6, ny: 4 }, parameters).load().expect("loads");
    let backend = Box::new(InterpBackend::new(InterpOptions::default()));
    let builder = Solver::builder(&loaded).tolerance(1e-12).cache(Arc::new(Cache::none()));
    let mut solver = builder.compile_on(backend).expect("compiles");
    let compiled = solver.engine().counters();
    let mut u: Vec<f64> = (0..24).map(|p| f64::from(p % 5)).collect();
    let total: f64 = u.iter().sum();
    for step in 1..=5 {
        let kappa = vec![1.0 + f64::from(step); 24];
        let now = diffusion::Parameters { tau: 0.1 * f64::from(step), mass: 1.0 };
        let inputs = diffusion::Data { kappa: &kappa }.set(now.set(Inputs::new().rhs(&u).guess_previous()));
        let solution = solver.solve(&inputs).expect("solves");
        assert!(solution.report.outcome.is_converged());
        u = solution.values;
        assert!((u.iter().sum::<f64>() - total).abs() < 1e-9 * total, "walls let nothing through");
    }
    let now = solver.engine().counters();
    assert_eq!((now.compiles, now.buffers), (compiled.compiles, compiled.buffers));
    assert!(now.launches > compiled.launches, "it ran");
}

/// `TRYBUILD=overwrite cargo test -p kernelwright-tests mistakes` accepts what the compiler says now.
#[test]
fn mistakes_are_reported_where_they_are() {
    trybuild::TestCases::new().compile_fail("macros/*.rs");
}
