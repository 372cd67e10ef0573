//! Systems solved by every solver of the library, with every preconditioner and schedule, checked by the assembled
//! matrix.

use kernelwright::backend::open::Choice;
use kernelwright::solve::{Outcome, Report};
use kernelwright_syntax::program::Precision;
use kernelwright_tests::dense::norm;
use kernelwright_tests::oracle::{Assembled, Instance};

use crate::Case;
use crate::cover::pairwise;
use crate::run::{Given, How, instance, load, roundoff, schedules, solve};

/// An operator on a small grid, positive definite.
struct System {
    name: &'static str,
    text: &'static str,
    sizes: &'static str,
    axes: usize,
    /// A damping with which Richardson's iteration converges without a preconditioner: below 2 over the largest
    /// eigenvalue, by Gershgorin.
    damping: f64,
}

const SYSTEMS: [System; 7] = [
    System {
        name: "poisson_1d",
        text: "operator op { grid cells [i: ni]; flux X[i+1/2] = u[i+1] - u; apply u => -div(X);
         boundary i: dirichlet(0.5); }",
        sizes: "ni = 23",
        axes: 1,
        damping: 0.3,
    },
    System {
        name: "variable_2d",
        text: "operator op { grid cells [i: ni, j: nj]; param tau = 0.7;
         let c[i+1/2] = 1 + sqr((i + 1)/ni); let d[j+1/2] = 2 + sin(j);
         flux X[i+1/2] = c*(u[i+1] - u); flux Y[j+1/2] = d*(u[j+1] - u);
         apply u => u - tau*(div(X) + div(Y));
         boundary i: periodic; boundary low(j): dirichlet(1 + i/ni); boundary high(j): no_flux; }",
        sizes: "ni = 9, nj = 14",
        axes: 2,
        damping: 0.06,
    },
    System {
        name: "column_3d",
        text: "operator op { grid cells [i: ni, j: nj, k: nk];
         let area = 1 + 0.1*sqr(i - j); let h[k+1/2] = 1/(0.05 + 0.01*(k + 1));
         flux X[i+1/2] = u[i+1] - u; flux Y[j+1/2] = u[j+1] - u; flux Z[k+1/2] = area*h*(u[k+1] - u);
         apply u => area*u - 0.4*(div(X) + div(Y)) - div(Z); boundary i, j, k: no_flux; }",
        sizes: "ni = 5, nj = 4, nk = 7",
        axes: 3,
        damping: 0.004,
    },
    System {
        name: "wide_nodes_2d",
        text: "operator op { grid nodes [i: ni, j: nj];
         apply u => 5*u - (u[i+1] - 2*u + u[i-1]) - (u[j+1] - 2*u + u[j-1])
                    + 0.125*(u[i+2] - 4*u[i+1] + 6*u - 4*u[i-1] + u[i-2]);
         boundary i: dirichlet(0); boundary j: periodic; }",
        sizes: "ni = 12, nj = 8",
        axes: 2,
        damping: 0.1,
    },
    System {
        name: "coupled_2d",
        text: "operator op { grid cells [i: ni, j: nj];
         flux X[i+1/2] = u[i+1] - u; flux Y[j+1/2] = u[j+1] - u; flux V[i+1/2] = 2*(v[i+1] - v);
         apply (u, v) => (2*u - div(X) - div(Y) + 0.5*v, 3*v - div(V) + 0.5*u); boundary i, j: no_flux; }",
        sizes: "ni = 8, nj = 9",
        axes: 2,
        damping: 0.1,
    },
    System {
        name: "lake_2d",
        text: "operator op { grid cells [i: ni, j: nj];
         mask if sqr(i - ni/2) + sqr(j - nj/2) < sqr(nj/2) && i != 3 { 1 } else { 0 };
         flux X[i+1/2] = u[i+1] - u; flux Y[j+1/2] = (2 + sin(i))*(u[j+1] - u);
         apply u => 0.3*u - div(X) - div(Y); boundary i: no_flux; boundary j: periodic; }",
        sizes: "ni = 11, nj = 9",
        axes: 2,
        damping: 0.1,
    },
    System {
        name: "coupled_lake_2d",
        text: "operator op { grid nodes [i: ni, j: nj];
         mask if i + 2*j < 12 && i*j != 4 { 1 } else { 0 };
         flux X[i+1/2] = u[i+1] - u; flux Y[j+1/2] = u[j+1] - u; flux V[j+1/2] = 2*(v[j+1] - v);
         apply (u, v) => (2*u - div(X) - div(Y) + 0.5*v, 3*v - div(V) + 0.5*u + 0.25);
         boundary i: dirichlet(0.5); boundary j: no_flux; }",
        sizes: "ni = 8, nj = 7",
        axes: 2,
        damping: 0.1,
    },
];

const SOLVERS: [&str; 9] = [
    "richardson",
    "steepest_descent",
    "chebyshev",
    "cg",
    "pcg",
    "pcg_flexible",
    "conjugate_residual",
    "minres",
    "bicgstab",
];

/// The last one gives eigenvalues of at most 2 with `jacobi`, by Gershgorin once more.
const PRECONDITIONERS: [&str; 6] = [
    "identity",
    "jacobi",
    "line(i)",
    "line(j)",
    "line(k)",
    "inner(chebyshev(upper = 2), iterations = 2, preconditioner = jacobi)",
];

/// Schedules are told apart by number: of a loop with fewer the number modulo theirs, of one with more as far apart as they
/// go, each variant beginning with another.
const SCHEDULES: usize = 8;

/// Shapes of kernels: the usual ones, and others that small grids would not have. What a back end has no use for it
/// passes over.
pub const VARIANTS: [&[(&str, &str)]; 4] = [
    &[],
    &[("staged", "true"), ("block", "8x4"), ("chunk", "3"), ("fence", "own")],
    &[("staged", "false"), ("block", "4x8"), ("segments", "2"), ("columns", "16"), ("shared", "2"), ("fence", "last")],
    &[
        ("staged", "true"),
        ("block", "16x2"),
        ("chunk", "2"),
        ("rows", "3"),
        ("early", "false"),
        ("shared", "4"),
        ("fence", "next"),
    ],
];

/// A choice of one level per factor.
#[derive(Clone, Copy)]
struct Chosen {
    system: &'static System,
    solver: &'static str,
    preconditioner: &'static str,
    precision: Precision,
    schedule: usize,
    variant: usize,
}

impl Chosen {
    fn of(levels: &[usize]) -> Chosen {
        Chosen {
            system: &SYSTEMS[levels[0]],
            solver: SOLVERS[levels[1]],
            preconditioner: PRECONDITIONERS[levels[2]],
            precision: [Precision::F64, Precision::F32][levels[3]],
            schedule: levels[4],
            variant: levels[5],
        }
    }

    /// Whether there is such a problem.
    fn exists(&self) -> bool {
        let axis = ["line(i)", "line(j)", "line(k)"].iter().position(|line| *line == self.preconditioner);
        let takes_one = self.solver != "cg" || self.preconditioner == "identity";
        takes_one && axis.is_none_or(|axis| axis < self.system.axes)
    }

    /// Iterations that converge no faster than the condition number are only watched for a while.
    fn is_slow(&self) -> bool {
        matches!(self.solver, "richardson" | "steepest_descent" | "chebyshev")
    }

    fn name(&self) -> String {
        let with = if self.preconditioner.starts_with("inner") { "inner" } else { self.preconditioner };
        let (system, solver) = (self.system.name, self.solver);
        let Chosen { precision, schedule, variant, .. } = self;
        format!("solved/{system}/{solver}/{with}/{precision:?}/{schedule}/{variant}").to_lowercase()
    }

    fn text(&self) -> String {
        let System { text, sizes, damping, .. } = self.system;
        let tolerance = if self.precision == Precision::F64 { "1e-9" } else { "1e-4" };
        let iterations = if self.is_slow() { 60 } else { 1000 };
        let zeros = if text.contains("(u, v)") { "(0, 0)" } else { "0" };
        let solver = match (self.solver, self.preconditioner) {
            ("richardson", "identity") => format!("richardson(omega = {damping})"),
            ("richardson", _) => "richardson(omega = 0.8)".to_string(),
            (solver, _) => solver.to_string(),
        };
        format!(
            "{text}\nproblem main {{ operator op({sizes}); rhs {zeros}; solver {solver}; preconditioner {}; \
             tolerance {tolerance}; iterations {iterations}; }}\n",
            self.preconditioner
        )
    }
}

/// Systems, solvers, preconditioners, precisions, schedules and variants, every two of them together.
pub fn cases() -> Vec<Case> {
    let levels = [SYSTEMS.len(), SOLVERS.len(), PRECONDITIONERS.len(), 2, SCHEDULES, VARIANTS.len()];
    let chosen = pairwise(&levels, &|levels| Chosen::of(levels).exists());
    let case = |levels: &Vec<usize>| {
        let chosen = Chosen::of(levels);
        Case { name: chosen.name(), run: Box::new(move |choice| solved(&chosen, choice)) }
    };
    chosen.iter().map(case).collect()
}

fn solved(chosen: &Chosen, choice: Choice) -> Result<(), String> {
    let text = chosen.text();
    let loaded = load(&text)?;
    let problem = &loaded.program.problems[0];
    let instance = instance(&loaded, problem);
    let given = Given::random(&instance, 11);
    let names = schedules(&loaded)?;
    let number = match names.len() {
        more if more > SCHEDULES => chosen.schedule * more / SCHEDULES + chosen.variant,
        _ => chosen.schedule,
    };
    let schedule = names[number % names.len()].clone();
    let how = How {
        precision: chosen.precision,
        schedule: Some(schedule.clone()),
        choice,
        variant: VARIANTS[chosen.variant],
    };
    let result = solve(&loaded, &given, &how).and_then(|solution| {
        let checked = Checked { instance: &instance, given: &given, system: &instance.assemble(), how: &how };
        checked.residual(&solution.values, &solution.report, problem.tolerance, chosen.is_slow())
    });
    result.map_err(|what| format!("schedule {schedule}: {what}\n{text}"))
}

/// What a solution is checked by.
struct Checked<'a> {
    instance: &'a Instance<'a>,
    given: &'a Given,
    system: &'a Assembled,
    how: &'a How,
}

impl Checked<'_> {
    /// The residual by the oracle's matrix, and the norm of what its rounding is relative to.
    fn oracle(&self, u: &[f64]) -> (f64, f64) {
        let product = self.system.matrix.times(u);
        let rows = self.given.rhs.iter().zip(&self.system.affine).zip(&product);
        let residual: Vec<f64> = rows.map(|((f, g), p)| f - g - p).collect();
        let size: Vec<f64> = u.iter().map(|v| v.abs()).collect();
        let size = self.system.magnitude.times(&size);
        let rows = size.iter().zip(&self.given.rhs).zip(&self.system.affine_magnitude);
        let size: Vec<f64> = rows.map(|((a, f), g)| a + f.abs() + g).collect();
        (norm(&residual), norm(&size))
    }

    /// The oracle confirms what the report says of the true residual, that it meets the test if it is said to, and
    /// that a slow iteration came nearer at least.
    fn residual(&self, u: &[f64], report: &Report, tolerance: f64, slow: bool) -> Result<(), String> {
        let (residual, size) = self.oracle(u);
        let (initial, _) = self.oracle(&self.given.guess);
        let rounding = self.instance.operations() as f64 * roundoff(self.how.precision) * size;
        let f = self.given.rhs.iter().zip(&self.system.affine).map(|(f, g)| f - g).collect::<Vec<f64>>();
        if let Some(point) = (0..u.len()).find(|&n| self.given.outside[n] && u[n] != 0.0) {
            return Err(format!("{} at point {point} outside the mask", u[point]));
        }
        let truth = report.truth.ok_or("the report has no true residual")?;
        if (truth - residual).abs() > rounding {
            return Err(format!("true residual {truth:e} reported, {residual:e} found, rounding {rounding:e}"));
        }
        match report.outcome {
            Outcome::Converged if residual > tolerance * norm(&f) + rounding => {
                Err(format!("residual {residual:e} above {:e}", tolerance * norm(&f)))
            }
            Outcome::Converged => Ok(()),
            Outcome::IterationLimit if slow && residual < initial => Ok(()),
            other => Err(format!(
                "{} after {} iterations: residual {residual:e}, at first {initial:e}",
                other.name(),
                report.iterations
            )),
        }
    }
}
