//! Discretisations of second order converge with second order: the whole way from a text to a solution is consistent.

use kernelwright::backend::Target;
use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::from_text;
use kernelwright::solve::Solver;
use std::sync::Arc;

const SIZES: [usize; 4] = [8, 16, 32, 64];

/// Largest error at the points of a grid of n x n, where `exact` is the solution at (x, y).
fn error(text: &str, n: usize, at: fn(usize, usize) -> f64, exact: fn(f64, f64) -> f64) -> f64 {
    let loaded = from_text("order.kw", text.to_string()).expect("a right program");
    let builder = Solver::builder(&loaded).set("n", n as f64).set("m", n as f64).cache(Arc::new(Cache::none()));
    // Without a C compiler the interpreter computes the same.
    let solver = builder.clone().backend(Choice::Host).compile();
    let mut solver = solver.or_else(|_| builder.backend(Choice::Interp(Target::Host)).compile()).expect("compiles");
    let solution = solver.solve(&Default::default()).expect("solves");
    assert!(solution.report.outcome.is_converged(), "{:?}", solution.report);
    let points = solution.values.iter().enumerate();
    points.map(|(p, u)| (u - exact(at(p % n, n), at(p / n, n))).abs()).fold(0.0, f64::max)
}

/// The error falls by four when the spacing is halved. `offset` of the orders allows for what is of higher order.
fn second_order(text: &str, at: fn(usize, usize) -> f64, exact: fn(f64, f64) -> f64) {
    let errors: Vec<f64> = SIZES.iter().map(|n| error(text, *n, at, exact)).collect();
    let orders: Vec<f64> = errors.windows(2).map(|pair| (pair[0] / pair[1]).log2()).collect();
    let last = orders.last().copied().expect("several sizes");
    assert!((1.9..=2.1).contains(&last), "orders {orders:?} of errors {errors:?}\n{text}");
}

fn centre(i: usize, n: usize) -> f64 {
    (i as f64 + 0.5) / n as f64
}

/// Nodes inside the interval, n of them: the boundary lies at nodes -1 and n.
fn node(i: usize, n: usize) -> f64 {
    (i as f64 + 1.0) / (n as f64 + 1.0)
}

fn waves(x: f64, y: f64) -> f64 {
    use std::f64::consts::PI;
    (PI * x).sin() * (PI * y).sin()
}

#[test]
fn cells_with_dirichlet_sides() {
    let text = "operator op {
        grid cells [i: n, j: m];
        let x = (i + 1/2)/n; let y = (j + 1/2)/m;
        flux X[i+1/2] = n*n*(u[i+1] - u);
        flux Y[j+1/2] = m*m*(u[j+1] - u);
        apply u => -(div(X) + div(Y));
        boundary i, j: dirichlet(0);
    }
    problem main {
        operator op(n = 8, m = 8);
        rhs 2*sqr(pi)*sin(pi*x)*sin(pi*y);
        solver cg; tolerance 1e-10; iterations 2000;
    }";
    second_order(text, centre, waves);
}

#[test]
fn variable_coefficients_in_flux_form() {
    // -div(k grad u) with k = 1 + x: -(1 + x) lap u - u_x, and a boundary value that is not zero (u = 1 + waves).
    let text = "operator op {
        grid cells [i: n, j: m];
        let x = (i + 1/2)/n; let y = (j + 1/2)/m;
        let kx[i+1/2] = 1 + (i + 1)/n;
        flux X[i+1/2] = n*n*kx*(u[i+1] - u);
        flux Y[j+1/2] = m*m*(1 + x)*(u[j+1] - u);
        apply u => -(div(X) + div(Y));
        boundary i, j: dirichlet(1);
    }
    problem main {
        operator op(n = 8, m = 8);
        rhs 2*sqr(pi)*(1 + x)*sin(pi*x)*sin(pi*y) - pi*cos(pi*x)*sin(pi*y);
        solver pcg; preconditioner line(j); tolerance 1e-10; iterations 2000;
    }";
    second_order(text, centre, |x, y| 1.0 + waves(x, y));
}

#[test]
fn nodes_with_values_on_the_sides() {
    // u = exp(x) sin(y) is harmonic; its values on the sides are given.
    let text = "operator op {
        grid nodes [i: n, j: m];
        let x = (i + 1)/(n + 1); let y = (j + 1)/(m + 1);
        apply u => sqr(n + 1)*(2*u - u[i-1] - u[i+1]) + sqr(m + 1)*(2*u - u[j-1] - u[j+1]);
        boundary low(i): dirichlet(sin(3*y));
        boundary high(i): dirichlet(exp(3)*sin(3*y));
        boundary low(j): dirichlet(0);
        boundary high(j): dirichlet(exp(3*x)*sin(3));
    }
    problem main {
        operator op(n = 8, m = 8);
        rhs 0;
        solver pcg; preconditioner jacobi; tolerance 1e-10; iterations 2000;
    }";
    second_order(text, node, |x, y| (3.0 * x).exp() * (3.0 * y).sin());
}
