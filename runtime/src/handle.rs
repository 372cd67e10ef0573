//! Operators declared in Rust with [`operator!`](crate::operator), ready to be solved.
//!
//! ```
//! kernelwright::operator! {
//!     /// Implicit diffusion.
//!     diffusion {
//!         grid cells [i: nx, j: ny];
//!         param tau;
//!         flux X[i+1/2] = u[i+1] - u;
//!         flux Y[j+1/2] = u[j+1] - u;
//!         apply u => u - tau*(div(X) + div(Y));
//!         boundary i, j: no_flux;
//!     }
//! }
//! use kernelwright::solve::Inputs;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let system = diffusion::system(diffusion::Sizes { nx: 16, ny: 8 }, diffusion::Parameters { tau: 0.5 });
//! let mut solver = system.solver("cg").tolerance(1e-10).compile()?;
//! let f = vec![1.0; solver.len()];
//! let solution = solver.solve(&Inputs::new().rhs(&f))?;
//! assert!(solution.values.iter().all(|u| (u - 1.0).abs() < 1e-8));
//! # Ok(()) }
//! ```

use std::fmt::Write;

use kernelwright_syntax::program::{Operator, Precision};

use crate::backend::open::Choice;
use crate::load::{Loaded, from_text};
use crate::registry::Registered;
use crate::solve::{Error, Solver};

/// An operator with sizes and parameters, on its way to a [`Solver`].
///
/// Defaults: conjugate gradients, no preconditioner, tolerance 1e-8, at most 1000 iterations, f64, the first back end
/// that is there; right-hand side and data are zero until a solve gives them.
#[derive(Debug, Clone)]
pub struct System {
    operator: Registered,
    solver_program: Option<Registered>,
    arguments: String,
    solver: String,
    preconditioner: String,
    tolerance: f64,
    iterations: u32,
    precision: Precision,
    choice: Choice,
}

impl System {
    /// What the macro calls; `sizes` and `parameters` are those of the operator.
    pub fn new(operator: &Registered, sizes: &[(&str, usize)], parameters: &[(&str, f64)]) -> System {
        let mut arguments = String::new();
        for (name, size) in sizes {
            write!(arguments, "{}{name} = {size}", comma(&arguments)).expect("a string grows");
        }
        for (name, value) in parameters {
            write!(arguments, "{}{name} = {value:?}", comma(&arguments)).expect("a string grows");
        }
        System {
            operator: *operator,
            solver_program: None,
            arguments,
            solver: "cg".into(),
            preconditioner: "identity".into(),
            tolerance: 1e-8,
            iterations: 1000,
            precision: Precision::F64,
            choice: Choice::Auto,
        }
    }

    /// A solver of the library, with its parameters if any: `"pcg"`, `"chebyshev(lower = 0.1)"`.
    pub fn solver(mut self, solver: &str) -> Self {
        self.solver = solver.into();
        self
    }

    /// A solver declared with [`solver!`](crate::solver).
    pub fn own_solver(mut self, program: &Registered) -> Self {
        self.solver = program.name.into();
        self.solver_program = Some(*program);
        self
    }

    /// A preconditioner: `"jacobi"`, `"line(k)"`, `"inner(chebyshev, iterations = 4)"`.
    pub fn preconditioner(mut self, preconditioner: &str) -> Self {
        self.preconditioner = preconditioner.into();
        self
    }

    /// What the solver calls `tolerance`.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Iteration limit.
    pub fn iterations(mut self, iterations: u32) -> Self {
        self.iterations = iterations;
        self
    }

    /// Precision of vectors.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = precision;
        self
    }

    /// Which back end.
    pub fn backend(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// The system as the text of a program with one problem, `main`.
    ///
    /// # Errors
    /// A solver or preconditioner that does not parse or fit; its place is in the text of the problem.
    pub fn load(&self) -> Result<Loaded, Error> {
        let failed = |error: crate::load::LoadError| Error::Input(error.to_string());
        let mut text = self.operator.source.to_string();
        if let Some(own) = self.solver_program.filter(|own| own.source != self.operator.source) {
            text.push_str(own.source);
        }
        let declared = from_text(self.operator.file, text.clone()).map_err(failed)?.program;
        let operator = declared.operators.iter().find(|operator| operator.name == self.operator.name);
        let operator = operator.ok_or_else(|| Error::Input(format!("there is no operator {}", self.operator.name)))?;
        text.push_str(&self.problem(operator));
        from_text(self.operator.file, text).map_err(failed)
    }

    /// Compiles once; the result solves many times.
    ///
    /// # Errors
    /// As [`System::load`], and what the compiler or the back end reports.
    pub fn compile(&self) -> Result<Solver, Error> {
        let loaded = self.load()?;
        Solver::builder(&loaded).problem("main").backend(self.choice).compile()
    }

    fn problem(&self, operator: &Operator) -> String {
        let precision = self.precision.word();
        let data: String = operator.data.iter().map(|data| format!("    data {} = 0;\n", data.name)).collect();
        let zeros = vec!["0"; operator.unknowns.len()].join(", ");
        let rhs = if operator.unknowns.len() == 1 { zeros } else { format!("({zeros})") };
        format!(
            "problem main {{\n    operator {}({});\n{data}    rhs {rhs};\n    solver {};\n    preconditioner {};\n    \
             tolerance {:?};\n    iterations {};\n    precision {precision};\n}}\n",
            operator.name, self.arguments, self.solver, self.preconditioner, self.tolerance, self.iterations,
        )
    }
}

fn comma(before: &str) -> &'static str {
    if before.is_empty() { "" } else { ", " }
}
