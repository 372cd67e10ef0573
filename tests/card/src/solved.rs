//! Systems solved by every solver of the library, with every preconditioner and schedule, checked by the assembled
//! matrix.

use kernelwright_syntax::program::Precision;
use kernelwright_tests::dense::norm;

use crate::Case;
use crate::run::{Given, How, instance, load, roundoff, schedules, solve};

/// Operators of small grids; `A` positive definite in all of them.
const OPERATORS: [(&str, &str, &str); 5] = [
    (
        "poisson_1d",
        "operator op { grid cells [i: ni]; flux X[i+1/2] = u[i+1] - u; apply u => -div(X);
         boundary i: dirichlet(0.5); }",
        "ni = 23",
    ),
    (
        "variable_2d",
        "operator op { grid cells [i: ni, j: nj]; param tau = 0.7;
         let c[i+1/2] = 1 + sqr((i + 1)/ni); let d[j+1/2] = 2 + sin(j);
         flux X[i+1/2] = c*(u[i+1] - u); flux Y[j+1/2] = d*(u[j+1] - u);
         apply u => u - tau*(div(X) + div(Y));
         boundary i: periodic; boundary low(j): dirichlet(1 + i/ni); boundary high(j): no_flux; }",
        "ni = 9, nj = 14",
    ),
    (
        "column_3d",
        "operator op { grid cells [i: ni, j: nj, k: nk];
         let area = 1 + 0.1*sqr(i - j); let h[k+1/2] = 1/(0.05 + 0.01*(k + 1));
         flux X[i+1/2] = u[i+1] - u; flux Y[j+1/2] = u[j+1] - u; flux Z[k+1/2] = area*h*(u[k+1] - u);
         apply u => area*u - 0.4*(div(X) + div(Y)) - div(Z); boundary i, j, k: no_flux; }",
        "ni = 7, nj = 5, nk = 11",
    ),
    (
        "wide_nodes_2d",
        "operator op { grid nodes [i: ni, j: nj];
         apply u => 5*u - (u[i+1] - 2*u + u[i-1]) - (u[j+1] - 2*u + u[j-1])
                    + 0.125*(u[i+2] - 4*u[i+1] + 6*u - 4*u[i-1] + u[i-2]);
         boundary i: dirichlet(0); boundary j: periodic; }",
        "ni = 12, nj = 8",
    ),
    (
        "coupled_2d",
        "operator op { grid cells [i: ni, j: nj];
         flux X[i+1/2] = u[i+1] - u; flux Y[j+1/2] = u[j+1] - u; flux V[i+1/2] = 2*(v[i+1] - v);
         apply (u, v) => (2*u - div(X) - div(Y) + 0.5*v, 3*v - div(V) + 0.5*u); boundary i, j: no_flux; }",
        "ni = 8, nj = 9",
    ),
];

const SOLVERS: [&str; 8] = [
    "richardson(omega = 0.05)",
    "steepest_descent",
    "cg",
    "pcg",
    "pcg_flexible",
    "conjugate_residual",
    "minres",
    "bicgstab",
];

/// Solvers that take a preconditioner are paired with all of them.
fn preconditioners(solver: &str, operator: &str) -> Vec<&'static str> {
    if !matches!(solver, "pcg" | "pcg_flexible" | "bicgstab" | "chebyshev") {
        return vec!["identity"];
    }
    let axes = ["line(i)", "line(j)", "line(k)"];
    let count = if operator.contains("k: nk") { 3 } else { 1 + usize::from(operator.contains("j: nj")) };
    let mut all = vec!["identity", "jacobi", "inner(richardson(omega = 0.05), iterations = 3)"];
    all.extend(&axes[..count]);
    all
}

/// All systems.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, operator, sizes) in OPERATORS {
        for solver in SOLVERS.iter().copied().chain(["chebyshev"]) {
            for preconditioner in preconditioners(solver, operator) {
                for precision in [Precision::F64, Precision::F32] {
                    let short = solver.split('(').next().unwrap_or(solver);
                    let with = preconditioner.replace("inner(richardson(omega = 0.05), iterations = 3)", "inner");
                    cases.push(Case {
                        name: format!("solved/{name}/{short}/{with}/{precision:?}").to_lowercase(),
                        run: Box::new(move |choice| {
                            let text = text(operator, sizes, solver, preconditioner, precision);
                            solved(&text, &How { precision, schedule: None, choice })
                        }),
                    });
                }
            }
        }
    }
    cases
}

fn text(operator: &str, sizes: &str, solver: &str, preconditioner: &str, precision: Precision) -> String {
    let tolerance = if precision == Precision::F64 { "1e-9" } else { "1e-4" };
    let zeros = if operator.contains("(u, v)") { "(0, 0)" } else { "0" };
    format!(
        "{operator}\nproblem main {{ operator op({sizes}); rhs {zeros}; solver {solver}; \
         preconditioner {preconditioner}; tolerance {tolerance}; iterations 20000; }}\n"
    )
}

/// Every schedule reaches the tolerance, by the oracle's own residual.
fn solved(text: &str, how: &How) -> Result<(), String> {
    let loaded = load(text)?;
    let problem = &loaded.program.problems[0];
    let instance = instance(&loaded, problem);
    let given = Given::random(&instance, 11);
    let system = instance.assemble();
    let scale = norm(&given.rhs.iter().zip(&system.affine).map(|(f, g)| f - g).collect::<Vec<f64>>());
    for schedule in schedules(&loaded)? {
        let how = How { schedule: Some(schedule.clone()), ..how.clone() };
        let fail = |what: String| format!("schedule {schedule}: {what}\n{text}");
        let solution = solve(&loaded, &given, &how).map_err(fail)?;
        let outcome = solution.report.outcome;
        if !outcome.is_converged() {
            return Err(fail(format!("{} after {} iterations", outcome.name(), solution.report.iterations)));
        }
        let product = system.matrix.times(&solution.values);
        let rows = given.rhs.iter().zip(&system.affine).zip(&product);
        let residual: Vec<f64> = rows.map(|((f, g), p)| f - g - p).collect();
        let size: Vec<f64> = solution.values.iter().map(|v| v.abs()).collect();
        let size: Vec<f64> = system.magnitude.times(&size).iter().zip(&given.rhs).map(|(a, f)| a + f.abs()).collect();
        let rounding = instance.operations() as f64 * roundoff(how.precision) * norm(&size);
        let bound = problem.tolerance * scale + rounding;
        if norm(&residual) > bound {
            return Err(fail(format!("residual {:e} above {bound:e}", norm(&residual))));
        }
    }
    Ok(())
}
