//! The library as a time-stepping code uses it: compiled once, solved with changing inputs.

use std::sync::Arc;

use kernelwright::backend::Target;
use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::{Loaded, load};
use kernelwright::solve::{Inputs, Solver};

use crate::cli::{file, folder};

const PROGRAM: &str = "operator conduction {
    grid cells [i: nx, j: ny];
    param dt;
    data kappa[i, j];
    flux X[i+1/2] = (kappa + kappa[i+1])/2 * (u[i+1] - u);
    flux Y[j+1/2] = (kappa + kappa[j+1])/2 * (u[j+1] - u);
    apply u => u - dt*(div(X) + div(Y));
    boundary i, j: no_flux;
}
problem conduction {
    operator conduction(nx = 8, ny = 6, dt = 0.25);
    data kappa = 1 + i/10;
    rhs 1 + dt*j;
    solver cg;
    tolerance 1e-11;
    iterations 300;
}";

fn loaded(name: &str) -> Loaded {
    load(&file(&folder(name), "conduction.kw", PROGRAM)).expect("a right program")
}

fn solver(loaded: &Loaded) -> Solver {
    let builder = Solver::builder(loaded).backend(Choice::Interp(Target::Host)).cache(Arc::new(Cache::none()));
    builder.compile().expect("the interpreter is always there")
}

/// Largest difference between A u and f, with dt and conductivities as given.
fn defect(u: &[f64], f: impl Fn(usize, usize) -> f64, dt: f64, kappa: impl Fn(usize, usize) -> f64) -> f64 {
    let (nx, ny) = (8, 6);
    let mut largest: f64 = 0.0;
    for (i, j) in (0..nx).flat_map(|i| (0..ny).map(move |j| (i, j))) {
        let flow = |p: usize, q: usize| (kappa(i, j) + kappa(p, q)) / 2.0 * (u[q * nx + p] - u[j * nx + i]);
        let mut sum = 0.0;
        if i > 0 {
            sum += flow(i - 1, j)
        }
        if i + 1 < nx {
            sum += flow(i + 1, j)
        }
        if j > 0 {
            sum += flow(i, j - 1)
        }
        if j + 1 < ny {
            sum += flow(i, j + 1)
        }
        largest = largest.max((u[j * nx + i] - dt * sum - f(i, j)).abs());
    }
    largest
}

#[test]
fn parameters_data_right_hand_sides_and_guesses_change_without_compiling() {
    let loaded = loaded("library_changes");
    let mut solver = solver(&loaded);
    let kappa = |i: usize, _: usize| 1.0 + i as f64 / 10.0;
    let first = solver.solve(&Inputs::new()).expect("it solves");
    assert!(first.report.outcome.is_converged());
    assert!(defect(&first.values, |_, j| 1.0 + 0.25 * j as f64, 0.25, kappa) < 1e-9);

    // The right-hand side of the problem reads the parameter: both change.
    let second = solver.solve(&Inputs::new().param("dt", 2.0)).expect("it solves");
    assert!(defect(&second.values, |_, j| 1.0 + 2.0 * j as f64, 2.0, kappa) < 1e-9);

    let given: Vec<f64> = (0..48).map(|n| if n % 8 < 4 { 1.0 } else { 3.0 }).collect();
    let third = solver.solve(&Inputs::new().data("kappa", &given)).expect("it solves");
    let steps = |i: usize, _: usize| if i < 4 { 1.0 } else { 3.0 };
    assert!(defect(&third.values, |_, j| 1.0 + 2.0 * j as f64, 2.0, steps) < 1e-9);

    let f: Vec<f64> = (0..48).map(|n| f64::from(n % 5)).collect();
    let fourth = solver.solve(&Inputs::new().rhs(&f)).expect("it solves");
    assert!(defect(&fourth.values, |i, j| f[j * 8 + i], 2.0, steps) < 1e-9);

    // What is given stays: a parameter does not bring the problem's arrays back.
    let fifth = solver.solve(&Inputs::new().param("dt", 0.5)).expect("it solves");
    assert!(defect(&fifth.values, |i, j| f[j * 8 + i], 0.5, steps) < 1e-9);

    let sixth = solver.solve(&Inputs::new().guess_previous()).expect("it solves");
    assert_eq!(sixth.report.iterations, 0, "the previous solution is the solution");
    let seventh = solver.solve(&Inputs::new().guess(&fifth.values)).expect("it solves");
    assert_eq!(seventh.report.iterations, 0);
}

#[test]
fn two_runs_give_the_same_bits() {
    let loaded = loaded("library_bits");
    let (mut one, mut other) = (solver(&loaded), solver(&loaded));
    let first = one.solve(&Inputs::new()).expect("it solves");
    let again = one.solve(&Inputs::new()).expect("it solves");
    let fresh = other.solve(&Inputs::new()).expect("it solves");
    assert_eq!((&first.values, &first.report.history), (&again.values, &again.report.history));
    assert_eq!((&first.values, &first.report.history), (&fresh.values, &fresh.report.history));
}

#[test]
fn wrong_names_and_lengths_are_named() {
    let loaded = loaded("library_names");
    let mut solver = solver(&loaded);
    let error = |inputs: &Inputs, solver: &mut Solver| solver.solve(inputs).expect_err("it is wrong").to_string();
    assert_eq!(error(&Inputs::new().param("dx", 1.0), &mut solver), "no parameter is called `dx`; there are dt");
    assert!(error(&Inputs::new().param("nx", 9.0), &mut solver).contains("`nx`"), "a size is compiled in");
    assert!(error(&Inputs::new().data("k", &[]), &mut solver).contains("there are kappa"));
    assert!(error(&Inputs::new().data("kappa", &[1.0]), &mut solver).contains("1 values given, 48 expected"));
    assert!(error(&Inputs::new().rhs(&[1.0]), &mut solver).contains("right-hand side"));
    assert!(error(&Inputs::new().guess(&[1.0]), &mut solver).contains("guess"));
    assert!(solver.solve(&Inputs::new()).expect("errors leave it usable").report.outcome.is_converged());
}

#[test]
fn the_builder_names_what_is_wrong() {
    let loaded = loaded("library_builder");
    let error = |builder: kernelwright::solve::Builder| match builder.backend(Choice::Interp(Target::Host)).compile() {
        Ok(_) => panic!("it is wrong"),
        Err(error) => error.to_string(),
    };
    assert!(error(Solver::builder(&loaded).problem("heat")).contains("there are conduction"));
    assert!(error(Solver::builder(&loaded).set("nz", 3.0)).contains("nz"));
    assert!(error(Solver::builder(&loaded).set("nx", 0.0)).contains("nx"));
    assert!(error(Solver::builder(&loaded).schedule("magic")).contains("statement"));
}

#[test]
fn vectors_of_the_caller_may_be_of_either_precision() {
    let loaded = loaded("library_vectors");
    let mut solver = solver(&loaded);
    let f: Vec<f64> = (0..48).map(|n| f64::from(n % 5) - 2.0).collect();
    let narrow: Vec<f32> = f.iter().map(|value| *value as f32).collect();
    let wide = solver.solve(&Inputs::new().rhs(&f)).expect("it solves");
    let (mut u, mut single) = (vec![0.0f64; 48], vec![0.0f32; 48]);
    let report = solver.solve_into(&Inputs::new().rhs(&narrow), &mut u).expect("it solves");
    assert!(report.outcome.is_converged() && u == wide.values);
    solver.read_solution(&mut single).expect("right length");
    assert!(single.iter().zip(&u).all(|(single, u)| *single == *u as f32));
    let error = solver.read_solution(&mut single[1..]).expect_err("too short").to_string();
    assert!(error.contains("the solution: 47 values given, 48 expected"), "{error}");
}

/// A pool in a rectangle, closed along its edge: constants on the pool are the null space.
#[test]
fn a_null_space_under_a_mask_is_projected() {
    let text = "operator pool {
    grid cells [i: nx, j: ny];
    let wet = if sqr(i - 3) + sqr(j - 3) < 10 { 1 } else { 0 };
    flux X[i+1/2] = wet*wet[i+1]*(u[i+1] - u);
    flux Y[j+1/2] = wet*wet[j+1]*(u[j+1] - u);
    mask wet;
    apply u => -(div(X) + div(Y));
    boundary i, j: no_flux;
    nullspace constant;
    claim symmetric;
}
problem pool { operator pool(nx = 8, ny = 7); rhs 0; solver cg; tolerance 1e-10; iterations 100; }";
    let loaded = load(&file(&folder("library_pool"), "pool.kw", text)).expect("a right program");
    let mut solver = solver(&loaded);
    let wet = |n: usize| (n % 8) as f64 - 3.0;
    let wet = |n: usize| wet(n).powi(2) + ((n / 8) as f64 - 3.0).powi(2) < 10.0;
    // What stands outside is not looked at.
    let mut f = vec![f64::NAN; 56];
    (0..56).filter(|n| wet(*n)).for_each(|n| f[n] = 0.0);
    (f[3 * 8 + 2], f[3 * 8 + 4]) = (1.0, -1.0);
    let solution = solver.solve(&Inputs::new().rhs(&f)).expect("it solves");
    assert!(solution.report.outcome.is_converged(), "{:?}", solution.report);
    let u = &solution.values;
    assert!((0..56).all(|n| wet(n) || u[n] == 0.0), "zero outside: {u:?}");
    assert!(u.iter().sum::<f64>().abs() < 1e-9, "mean zero: {u:?}");
    for n in (0..56).filter(|n| wet(*n)) {
        let near = [n.wrapping_sub(1), n + 1, n.wrapping_sub(8), n + 8];
        let flows: f64 = near.iter().filter(|m| **m < 56 && wet(**m)).map(|m| u[n] - u[*m]).sum();
        assert!((flows - f[n]).abs() < 1e-8, "point {n}: {flows} instead of {}", f[n]);
    }
    (0..56).filter(|n| wet(*n)).for_each(|n| f[n] = 1.0);
    let report = solver.solve(&Inputs::new().rhs(&f)).expect("it runs").report;
    assert_eq!(report.outcome, kernelwright::solve::Outcome::Incompatible);
}
