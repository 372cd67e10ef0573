//! A problem compiled once and solved many times: the interface for user code.
//!
//! ```no_run
//! use kernelwright::solve::{Inputs, Solver};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let program = kernelwright::load::load("model.kw")?;
//! let mut solver = Solver::builder(&program).set("nx", 128.0).compile()?;
//! for step in 0..100 {
//!     let f = vec![step as f64; solver.len()];
//!     let solution = solver.solve(&Inputs::new().param("omega", 0.1).rhs(&f).guess_previous())?;
//!     assert!(solution.report.outcome.is_converged());
//! }
//! # Ok(()) }
//! ```

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kernelwright_syntax::program::{Operator, Problem, Program, Source};

use super::Error;
use super::builder::Builder;
use super::driver::{Limits, Watch};
use super::engine::Engine;
use super::outcome::{Report, Stages, Traffic};
use super::refine::Refinement;
use super::suspects::Suspects;
use crate::backend::{Backend, VectorMut, VectorRef};
use crate::inputs::sources::Context;
use crate::load::Loaded;
use crate::tune::known::Known;

/// A compiled problem with its buffers.
///
/// What a solve is not given stays as it was in the solve before; at first everything is as the problem says.
/// Nothing given to [`Solver::solve`] compiles anything.
pub struct Solver {
    pub(super) program: Program,
    pub(super) number: usize,
    pub(super) problem: Problem,
    pub(super) folder: PathBuf,
    pub(super) engine: Engine,
    /// In mixed precision, what is kept in f64.
    pub(super) refinement: Option<Refinement>,
    /// Sizes and parameters set so far.
    pub(super) set: Vec<(String, f64)>,
    pub(super) stale: Stale,
    pub(super) suspects: Suspects,
    pub(super) compile_time: Duration,
    pub(super) stages: Stages,
    /// Name of the schedule.
    pub(super) schedule: String,
    /// Words per point and iteration of the schedule.
    pub(super) words: Option<f64>,
    /// Measured copy bandwidth of the device, bytes per second.
    pub(super) copy_bandwidth: Option<f64>,
    pub(super) notices: Vec<String>,
    /// What a tune chose, where it is in use.
    pub(super) tuned: Option<Known>,
}

/// What has to be brought to the device before the next solve.
pub(super) struct Stale {
    pub(super) params: bool,
    /// Arrays that come from the problem and have to be evaluated (again).
    pub(super) data: Vec<bool>,
    pub(super) rhs: bool,
    /// Arrays given by the caller: parameters do not change them.
    pub(super) given_data: Vec<bool>,
    pub(super) given_rhs: bool,
}

/// What a solve starts from.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Guess<'a> {
    /// The guess of the problem.
    #[default]
    Problem,
    /// The solution of the solve before.
    Previous,
    /// These values, one component after another, axis 0 fastest.
    Values(VectorRef<'a>),
}

/// What changes from solve to solve; nothing at all by default.
#[derive(Default)]
pub struct Inputs<'a> {
    params: Vec<(&'a str, f64)>,
    data: Vec<(&'a str, VectorRef<'a>)>,
    rhs: Option<VectorRef<'a>>,
    guess: Guess<'a>,
}

impl<'a> Inputs<'a> {
    /// Nothing changes.
    pub fn new() -> Self {
        Inputs::default()
    }

    /// Sets a parameter of the operator or of the solver.
    pub fn param(mut self, name: &'a str, value: f64) -> Self {
        self.params.push((name, value));
        self
    }

    /// Sets a data array: axis 0 fastest, one value more along an axis on whose faces it lives.
    pub fn data(mut self, name: &'a str, values: impl Into<VectorRef<'a>>) -> Self {
        self.data.push((name, values.into()));
        self
    }

    /// Sets the right-hand side, a slice or memory of the device: one component after another, axis 0 fastest.
    pub fn rhs(mut self, values: impl Into<VectorRef<'a>>) -> Self {
        self.rhs = Some(values.into());
        self
    }

    /// Starts from these values.
    pub fn guess(mut self, values: impl Into<VectorRef<'a>>) -> Self {
        self.guess = Guess::Values(values.into());
        self
    }

    /// Starts from the solution of the solve before.
    pub fn guess_previous(mut self) -> Self {
        self.guess = Guess::Previous;
        self
    }
}

/// A solution and how it was found.
#[derive(Debug, Clone)]
pub struct Solution {
    /// One component after another, axis 0 fastest.
    pub values: Vec<f64>,
    /// Outcome, residuals, history, timings.
    pub report: Report,
}

impl Solver {
    /// Begins with the only problem of a program; see the methods of [`Builder`].
    pub fn builder(loaded: &Loaded) -> Builder<'_> {
        Builder::new(loaded)
    }

    /// Elements of the solution: points times components.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.engine.vector_len()
    }

    /// The problem with everything set so far.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The operator of the problem.
    pub fn operator(&self) -> &Operator {
        &self.program.operators[self.problem.operator]
    }

    /// The engine below: of the loop.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Name of the schedule that is used.
    pub fn schedule(&self) -> &str {
        &self.schedule
    }

    /// The copy bandwidth measured last, in bytes per second.
    pub fn copy_bandwidth(&self) -> Option<f64> {
        self.copy_bandwidth
    }

    /// What bounds the solves that follow.
    pub fn limits(&self) -> Limits {
        Limits { tolerance: self.problem.tolerance, iterations: self.problem.iterations }
    }

    /// Bounds the solves that follow. The number of iterations is at most the one the problem was compiled with.
    pub fn set_limits(&mut self, limits: Limits) {
        self.problem.tolerance = limits.tolerance;
        self.problem.iterations = limits.iterations.min(self.engine.limit);
    }

    /// What the user should know about the choices made while compiling.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// The choice of an earlier tune that is in use, if there is one.
    pub fn tuned(&self) -> Option<&Known> {
        self.tuned.as_ref()
    }

    /// Gives everything on the back end back, and the back end itself.
    pub fn close(self) -> Box<dyn Backend> {
        if let Some(refinement) = self.refinement {
            refinement.close();
        }
        self.engine.into_backend()
    }

    /// How long compiling took.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// Measures the copy bandwidth of the device, which reports compare with.
    ///
    /// # Errors
    /// A device that fails.
    pub fn measure_copy_bandwidth(&mut self) -> Result<(), Error> {
        self.copy_bandwidth = self.engine.copy_bandwidth()?;
        Ok(())
    }

    /// Solves.
    ///
    /// # Errors
    /// A name that the program does not have, an array of the wrong length, a file that cannot be read, a back end
    /// that fails. How the iteration ended is in the report.
    pub fn solve(&mut self, inputs: &Inputs) -> Result<Solution, Error> {
        let report = self.solve_watched(inputs, &mut |_| ControlFlow::Continue(()))?;
        let mut values = vec![0.0; self.len()];
        self.read_solution(&mut values)?;
        Ok(Solution { values, report })
    }

    /// Solves into memory of the caller: a slice, or memory of the device, where the solution then stays.
    ///
    /// # Errors
    /// As [`Solver::solve`].
    pub fn solve_into<'v>(&mut self, inputs: &Inputs, values: impl Into<VectorMut<'v>>) -> Result<Report, Error> {
        let report = self.solve_watched(inputs, &mut |_| ControlFlow::Continue(()))?;
        self.read_solution(values)?;
        Ok(report)
    }

    /// Solves, calling `watch` now and then; the solution stays on the device until [`Solver::read_solution`].
    ///
    /// # Errors
    /// As [`Solver::solve`].
    pub fn solve_watched(&mut self, inputs: &Inputs, watch: Watch) -> Result<Report, Error> {
        let begin = Instant::now();
        self.take_params(&inputs.params)?;
        self.take_data(&inputs.data)?;
        self.take_vectors(inputs)?;
        let transfer = begin.elapsed();
        let limits = self.limits();
        let mut report = match &mut self.refinement {
            Some(refinement) => refinement.solve(&mut self.engine, limits, watch)?,
            None => self.engine.solve(limits, watch)?,
        };
        report.timings.setup += transfer;
        (report.timings.compile, report.timings.stages) = (self.compile_time, self.stages);
        report.traffic = self.traffic(&report);
        self.suspects.explain(&mut report);
        Ok(report)
    }

    /// Reads the solution of the last solve.
    ///
    /// # Errors
    /// A wrong length, or a back end that fails.
    pub fn read_solution<'v>(&mut self, values: impl Into<VectorMut<'v>>) -> Result<(), Error> {
        self.main().read_solution(values)
    }

    /// The engine that holds right-hand side and solution.
    fn main(&mut self) -> &mut Engine {
        match &mut self.refinement {
            Some(refinement) => &mut refinement.engine,
            None => &mut self.engine,
        }
    }

    fn set_data(&mut self, number: usize, values: VectorRef) -> Result<(), Error> {
        self.suspects.look(format!("data `{}`", self.operator().data[number].name), &values);
        if let Some(refinement) = &mut self.refinement {
            refinement.engine.set_data(number, values)?;
        }
        self.engine.set_data(number, values)
    }

    fn take_params(&mut self, params: &[(&str, f64)]) -> Result<(), Error> {
        for (name, value) in params {
            let operator = &self.program.operators[self.problem.operator];
            let solver = &self.program.solvers[self.problem.solver];
            if !operator.params.iter().chain(&solver.params).any(|param| param.name == *name) {
                let known = operator.params.iter().chain(&solver.params).map(|param| param.name.as_str());
                return Err(unknown("parameter", name, known));
            }
            self.set.retain(|(known, _)| known != name);
            self.set.push((name.to_string(), *value));
            self.stale.params = true;
        }
        if !self.stale.params {
            return Ok(());
        }
        let changed = self.program.problem_with(self.number, &self.set).map_err(Error::Program)?;
        (self.problem.params, self.problem.solver_params) = (changed.params, changed.solver_params);
        let values = [self.problem.parameters(), self.problem.solver_params.clone()].concat();
        self.engine.set_params(&values)?;
        if let Some(refinement) = &mut self.refinement {
            refinement.engine.set_params(&values)?;
        }
        self.stale.params = false;
        // Expressions may read what changed.
        for (number, source) in self.problem.data.iter().enumerate() {
            self.stale.data[number] |= !self.stale.given_data[number] && matches!(source, Source::Expr(_));
        }
        self.stale.rhs |= !self.stale.given_rhs && self.problem.rhs.iter().any(|s| matches!(s, Source::Expr(_)));
        Ok(())
    }

    fn take_data(&mut self, data: &[(&str, VectorRef)]) -> Result<(), Error> {
        for (name, values) in data {
            let operator = &self.program.operators[self.problem.operator];
            let Some(number) = operator.data.iter().position(|data| data.name == *name) else {
                return Err(unknown("data array", name, operator.data.iter().map(|data| data.name.as_str())));
            };
            self.set_data(number, *values)?;
            (self.stale.data[number], self.stale.given_data[number]) = (false, true);
        }
        for number in 0..self.stale.data.len() {
            if self.stale.data[number] {
                let values = self.context(|context| context.data(number))?;
                self.set_data(number, VectorRef::F64(&values))?;
                self.stale.data[number] = false;
            }
        }
        Ok(())
    }

    fn take_vectors(&mut self, inputs: &Inputs) -> Result<(), Error> {
        if let Some(rhs) = inputs.rhs {
            self.set_rhs(rhs)?;
            (self.stale.rhs, self.stale.given_rhs) = (false, true);
        }
        if self.stale.rhs {
            let rhs = self.context(|context| context.vector("rhs", &context.problem.rhs))?;
            self.set_rhs(VectorRef::F64(&rhs))?;
            self.stale.rhs = false;
        }
        match inputs.guess {
            Guess::Previous => Ok(()),
            Guess::Values(values) => self.set_guess(values),
            Guess::Problem => {
                let guess = self.context(|context| context.vector("guess", &context.problem.guess))?;
                self.set_guess(VectorRef::F64(&guess))
            }
        }
    }

    fn set_rhs(&mut self, values: VectorRef) -> Result<(), Error> {
        self.suspects.look("the right-hand side".to_string(), &values);
        self.main().set_rhs(values)
    }

    fn set_guess(&mut self, values: VectorRef) -> Result<(), Error> {
        self.suspects.look("the guess".to_string(), &values);
        self.main().set_guess(values)
    }

    fn context<T>(&self, run: impl FnOnce(&Context) -> Result<T, String>) -> Result<T, Error> {
        let (operator, params) = (self.operator(), self.problem.parameters());
        let context = Context { operator, problem: &self.problem, params: &params, folder: &self.folder };
        run(&context).map_err(Error::Input)
    }

    fn traffic(&self, report: &Report) -> Option<Traffic> {
        let words = self.words?;
        let time = report.timings.solve.as_secs_f64();
        let bytes = words * self.len() as f64 * self.word_bytes() as f64 * f64::from(report.iterations);
        let bytes_per_second = if time > 0.0 { bytes / time } else { 0.0 };
        let fraction_of_copy = self.copy_bandwidth.map(|copy| bytes_per_second / copy);
        Some(Traffic { words, bytes_per_second, fraction_of_copy })
    }

    fn word_bytes(&self) -> usize {
        match self.problem.precision {
            kernelwright_syntax::program::Precision::F32 | kernelwright_syntax::program::Precision::Mixed => 4,
            kernelwright_syntax::program::Precision::F64 => 8,
        }
    }
}

/// An error that names what there is.
pub(super) fn unknown<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> Error {
    let known: Vec<&str> = known.collect();
    let there = if known.is_empty() { "there is none".to_string() } else { format!("there are {}", known.join(", ")) };
    Error::Usage(format!("no {what} is called `{name}`; {there}"))
}
