//! From a loaded program to a [`Solver`]: which problem, what is set, which back end.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernelwright_codegen::format::{self, Stored};
use kernelwright_codegen::loops::Program as Loops;
use kernelwright_codegen::map::Work;
use kernelwright_codegen::math::{self, KnownFact};
use kernelwright_codegen::module::Module;
use kernelwright_codegen::plan::Plan;
use kernelwright_syntax::program::{Precision, Problem};

use super::Error;
use super::engine::Engine;
use super::outcome::Stages;
use super::refine::Refinement;
use super::solver::{Solver, Stale, unknown};
use super::suspects::Suspects;
use crate::backend::open::{Choice, Opened, open};
use crate::backend::shared::Shared;
use crate::backend::{Arithmetic, Backend, Target};
use crate::cache::Cache;
use crate::load::Loaded;
use crate::pipeline;
use crate::sparse::cost::bytes_of;
use crate::tune::known_product::KnownProduct;
use crate::tune::store::Store;
use crate::tune::{self, known};

/// What to compile. Sizes, precision and schedule are part of the kernels; everything else can change from solve to
/// solve.
#[derive(Clone)]
pub struct Builder<'l> {
    loaded: &'l Loaded,
    problem: Option<String>,
    set: Vec<(String, f64)>,
    precision: Option<Precision>,
    tolerance: Option<f64>,
    iterations: Option<u32>,
    schedule: Option<String>,
    variant: Vec<(String, String)>,
    choice: Choice,
    arithmetic: Arithmetic,
    cache: Option<Arc<Cache>>,
    /// Whether choices of earlier tunes are used.
    tuned: bool,
    /// What a tune before compiling may take.
    tune: Option<tune::Options>,
    /// Where choices are kept, if not in the user's store.
    store: Option<PathBuf>,
    stored: Option<(&'l Stored, Vec<KnownFact>)>,
    /// What an earlier tune chose for products of the matrix.
    product: Option<&'l KnownProduct>,
}

impl<'l> Builder<'l> {
    pub(super) fn new(loaded: &'l Loaded) -> Self {
        Builder {
            loaded,
            problem: None,
            set: Vec::new(),
            precision: None,
            tolerance: None,
            iterations: None,
            schedule: None,
            variant: Vec::new(),
            choice: Choice::Auto,
            arithmetic: Arithmetic::default(),
            cache: None,
            tuned: true,
            tune: None,
            store: None,
            stored: None,
            product: None,
        }
    }

    /// Which problem; needed where a program has several.
    pub fn problem(mut self, name: impl Into<String>) -> Self {
        self.problem = Some(name.into());
        self
    }

    /// Sets a size or a parameter.
    pub fn set(mut self, name: impl Into<String>, value: f64) -> Self {
        self.set.push((name.into(), value));
        self
    }

    /// Precision of vectors, instead of the problem's.
    pub fn precision(mut self, precision: Precision) -> Self {
        self.precision = Some(precision);
        self
    }

    /// Tolerance, instead of the problem's.
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Iteration limit, instead of the problem's.
    pub fn iterations(mut self, iterations: u32) -> Self {
        self.iterations = Some(iterations);
        self
    }

    /// A schedule by name, instead of the planner's choice.
    pub fn schedule(mut self, name: impl Into<String>) -> Self {
        self.schedule = Some(name.into());
        self
    }

    /// Sets a part of the variant of the kernels, as `Variant::set` of the compiler does.
    pub fn variant(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.variant.push((key.into(), value.into()));
        self
    }

    /// Which back end; the first one that is there by default.
    pub fn backend(mut self, choice: Choice) -> Self {
        self.choice = choice;
        self
    }

    /// Where compiled kernels are kept; the user's cache by default.
    pub fn cache(mut self, cache: Arc<Cache>) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Leaves out what earlier tunes chose: the planner's schedule and the default variant.
    pub fn untuned(mut self) -> Self {
        self.tuned = false;
        self
    }

    /// Where tunes keep what they measure and choose; the user's store by default.
    pub fn tuned_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.store = Some(folder.into());
        self
    }

    /// Tunes for so long when it is compiled, on the same device, and uses the result; what earlier tunes measured
    /// counts. See [`Builder::tune_now`] for the report.
    pub fn tune(mut self, budget: Duration) -> Self {
        self.tune = Some(tune::Options { budget: Some(budget), ..tune::Options::default() });
        self
    }

    /// Tunes now and stores the choice, which [`Builder::compile`] then uses. The back end is that of the builder.
    ///
    /// # Errors
    /// As [`Builder::compile`].
    pub fn tune_now(&self, options: &tune::Options, watch: tune::Watch) -> Result<tune::Report, Error> {
        let opened = self.opened()?;
        let (mut report, _) = tune::tune(self, opened.backend, options, watch)?;
        report.notices.splice(0..0, opened.notices);
        Ok(report)
    }

    /// Tunes now, on a given back end, which is given back.
    ///
    /// # Errors
    /// As [`Builder::compile`].
    pub fn tune_on(
        &self,
        backend: Box<dyn Backend>,
        options: &tune::Options,
        watch: tune::Watch,
    ) -> Result<(tune::Report, Box<dyn Backend>), Error> {
        tune::tune(self, backend, options, watch)
    }

    /// Times what searches of several stores chose for the kernels, in turns, on the back end of the builder.
    ///
    /// # Errors
    /// As [`Builder::compile`]; stores of which none has anything for the problem.
    pub fn compare_now(
        &self,
        stores: &[tune::Recorded],
        options: &tune::Options,
        watch: tune::Watch,
    ) -> Result<tune::comparison::Comparison, Error> {
        let opened = self.opened()?;
        let (mut comparison, _) = tune::compare(self, opened.backend, stores, options, watch)?;
        comparison.notices.splice(0..0, opened.notices);
        Ok(comparison)
    }

    /// The store in use.
    pub(crate) fn store(&self) -> Store {
        self.store.as_ref().map_or_else(Store::of_user, Store::at)
    }

    /// The program, for the tuner.
    pub(crate) fn loaded(&self) -> &'l Loaded {
        self.loaded
    }

    /// Whether the operator is a matrix in a format.
    pub(crate) fn has_matrix(&self) -> bool {
        self.stored.is_some()
    }

    /// The schedule that was asked for.
    pub(crate) fn asked_schedule(&self) -> Option<&str> {
        self.schedule.as_deref()
    }

    /// The operator of the problem is a matrix in a format, whatever the program says; `facts` is what is known of it.
    /// Vectors of a solve are in the order of the matrix, also where the format stores its rows in another.
    pub fn stored(mut self, matrix: &'l Stored, facts: Vec<KnownFact>) -> Self {
        self.stored = Some((matrix, facts));
        self
    }

    /// Kernels with products of the matrix are as an earlier tune chose.
    pub fn tuned_product(mut self, known: &'l KnownProduct) -> Self {
        self.product = Some(known);
        self
    }

    /// The problem as it will be compiled, and its number.
    ///
    /// # Errors
    /// A problem or a name that does not exist, a value that cannot be.
    pub fn chosen(&self) -> Result<(usize, Problem), Error> {
        let program = &self.loaded.program;
        let names = || program.problems.iter().map(|problem| problem.name.as_str());
        let number = match &self.problem {
            Some(name) => names().position(|own| own == name).ok_or_else(|| unknown("problem", name, names()))?,
            None if program.problems.len() == 1 => 0,
            None if program.problems.is_empty() && !program.runs.is_empty() => {
                let why = "its problems are of systems, which only `solve`, `tune`, `explain`, `ir`, `emit` and `verify` know";
                return Err(Error::Usage(format!("{}: {why}", program.file)));
            }
            None if program.problems.is_empty() => {
                return Err(Error::Input(format!("{} declares no problem", program.file)));
            }
            None => {
                let names: Vec<&str> = names().collect();
                return Err(Error::Usage(format!("several problems; choose one of {}", names.join(", "))));
            }
        };
        let mut problem = program.problem_with(number, &self.set).map_err(Error::Program)?;
        problem.precision = self.precision.unwrap_or(problem.precision);
        problem.tolerance = self.tolerance.unwrap_or(problem.tolerance);
        problem.iterations = self.iterations.unwrap_or(problem.iterations);
        Ok((number, problem))
    }

    /// All stages up to the choice of a schedule.
    ///
    /// # Errors
    /// As [`Builder::chosen`], and what the compiler cannot do.
    pub fn plan(&self) -> Result<pipeline::Planned, Error> {
        let (_, problem) = self.chosen()?;
        pipeline::plan(&self.loaded.program, &problem, self.operator(&problem)?, self.schedule.as_deref())
    }

    /// The operator of the problem, lowered, or the matrix in its place.
    ///
    /// # Errors
    /// An operator the compiler cannot handle.
    pub fn operator(&self, problem: &Problem) -> Result<math::Operator, Error> {
        match &self.stored {
            Some((stored, facts)) => Ok(format::with_companions("A", stored, facts.clone())),
            None => pipeline::operator(&self.loaded.program, problem),
        }
    }

    /// Words of the working precision that a round moves per point. Those of a matrix, whose columns do not grow with
    /// the precision, are planned as words of eight bytes.
    fn words(&self, plan: &Plan, precision: Precision) -> f64 {
        let Some((stored, _)) = &self.stored else { return plan.cost.words };
        let real = bytes_of(precision);
        let planned = stored.bytes(8).max(1) as f64 / 8.0;
        let moved = stored.bytes(real) as f64 / real as f64;
        plan.cost.words + plan.cost.coefficient_words * (moved / planned - 1.0)
    }

    /// As [`Builder::plan`], without the schedules that are only used when asked for.
    ///
    /// # Errors
    /// As [`Builder::plan`].
    pub fn plan_to_run(&self) -> Result<pipeline::Planned, Error> {
        let (_, problem) = self.chosen()?;
        self.plan_named(&problem, self.schedule.as_deref())
    }

    /// The plan of a name, or the preferred one, as the cache remembers it.
    fn plan_named(&self, problem: &Problem, schedule: Option<&str>) -> Result<pipeline::Planned, Error> {
        pipeline::plan_to_run(&self.loaded.program, problem, self.operator(problem)?, schedule, &self.kept())
    }

    /// Where what is compiled is kept.
    fn kept(&self) -> Arc<Cache> {
        self.cache.clone().unwrap_or_else(|| Arc::new(Cache::of_user()))
    }

    /// The kernels of a scheduled loop for a target.
    ///
    /// # Errors
    /// A loop the mapping cannot handle, a variant that does not fit.
    pub fn module(&self, loops: &Loops, target: Target, problem: &Problem) -> Result<Module, Error> {
        pipeline::module(loops, target, problem.precision, problem.iterations, &self.variant)
    }

    /// Compiles and loads.
    ///
    /// # Errors
    /// As [`Builder::plan`], and a back end that is not there.
    pub fn compile(&self) -> Result<Solver, Error> {
        let opened = self.opened()?;
        let mut solver = self.compile_on(opened.backend)?;
        solver.notices.splice(0..0, opened.notices);
        Ok(solver)
    }

    /// Opens the back end alone.
    ///
    /// # Errors
    /// A back end that is not there.
    pub fn open(&self) -> Result<Box<dyn Backend>, Error> {
        Ok(self.opened()?.backend)
    }

    fn opened(&self) -> Result<Opened, Error> {
        Ok(open(self.choice, self.arithmetic, &self.kept())?)
    }

    /// In mixed precision, what is kept in f64; it shares the back end.
    fn refined(
        &self,
        backend: Box<dyn Backend>,
        problem: &Problem,
    ) -> Result<(Box<dyn Backend>, Option<Refinement>), Error> {
        if problem.precision != Precision::Mixed {
            return Ok((backend, None));
        }
        let shared = Shared::new(backend);
        let residual = pipeline::residual(&self.loaded.program, problem, &self.operator(problem)?)?;
        let (target, limit) = (shared.target(), problem.iterations);
        // Parts of single kernels are those of the loop.
        let variant: Vec<_> = self.variant.iter().filter(|(key, _)| !key.contains('.')).cloned().collect();
        let module = pipeline::module(&residual.0, target, Precision::F64, limit, &variant)?;
        let mut refinement = Refinement::new(residual, module, &shared, limit)?;
        self.bring_matrix(&mut refinement.engine)?;
        Ok((Box::new(shared), Some(refinement)))
    }

    /// Brings the arrays of a matrix to an engine.
    fn bring_matrix(&self, engine: &mut Engine) -> Result<(), Error> {
        let Some((stored, _)) = &self.stored else { return Ok(()) };
        engine.set_order(stored.order.as_deref())?;
        let arrays = stored.contents.iter().enumerate();
        arrays.into_iter().try_for_each(|(number, contents)| engine.set_contents(number, contents))
    }

    /// Compiles and loads on a given back end.
    ///
    /// # Errors
    /// As [`Builder::compile`].
    pub fn compile_on(&self, backend: Box<dyn Backend>) -> Result<Solver, Error> {
        let Some(options) = &self.tune else { return self.compile_known(backend, Vec::new()) };
        let (report, backend) = tune::tune(self, backend, options, &mut |_| ControlFlow::Continue(()))?;
        self.compile_known(backend, report.notices)
    }

    /// Compiles what an earlier tune chose, if it still can be; else the default.
    fn compile_known(&self, mut backend: Box<dyn Backend>, mut notices: Vec<String>) -> Result<Solver, Error> {
        let begin = Instant::now();
        let (number, problem) = self.chosen()?;
        let free = self.tuned && self.stored.is_none() && self.schedule.is_none() && self.variant.is_empty();
        let found = if free {
            known::find(self.store(), &self.loaded.program, &problem, backend.as_ref())
        } else {
            known::Found::default()
        };
        notices.extend(found.notices);
        // A choice that does not hold is not used, and said so; an earlier one may hold.
        let chosen = found.known.into_iter().find_map(|known| {
            let planned = self.plan_named(&problem, Some(&known.schedule)).map_err(|error| error.to_string());
            let held = planned.and_then(|p| known.holds(p.plan(), backend.as_ref(), &problem).map(|()| p));
            held.map_err(|why| notices.push(format!("what was tuned is not used: {why}"))).ok().map(|p| (p, known))
        });
        let (planned, known) = match chosen {
            Some((planned, known)) => (planned, Some(known)),
            None => (self.plan_named(&problem, self.schedule.as_deref())?, None),
        };
        let planning = begin.elapsed();
        let mut variant = self.variant.as_slice();
        if let Some(known) = &known {
            variant = known.variant.as_slice();
            notices.push(known.text());
            known::set_threads(known.threads, backend.as_mut())?;
        }
        let product = self.product_parts(planned.plan(), backend.as_mut(), &problem, &mut notices)?;
        let variant = [product.as_slice(), variant].concat();
        let mut solver = self.load_plan(planned.plan(), &variant, (number, problem), backend)?;
        solver.compile_time = begin.elapsed();
        solver.stages.plan = planning;
        solver.tuned = known;
        solver.notices.splice(0..0, notices);
        Ok(solver)
    }

    /// What an earlier tune chose for the product of the matrix, for the sweeps that have one.
    fn product_parts(
        &self,
        plan: &Plan,
        backend: &mut dyn Backend,
        problem: &Problem,
        notices: &mut Vec<String>,
    ) -> Result<Vec<(String, String)>, Error> {
        let Some(known) = self.product else { return Ok(Vec::new()) };
        known.set_threads(backend)?;
        let sweeps = plan.program.sweeps.iter().filter(|sweep| Work::of(&plan.program, sweep) == Work::Rows);
        let named = |name: &str| {
            let parts = known.variant.iter().map(move |(key, value)| (format!("{name}.{key}"), value.clone()));
            parts.collect::<Vec<_>>()
        };
        let parts: Vec<_> = sweeps.flat_map(|sweep| named(&sweep.name)).collect();
        match pipeline::module(&plan.program, backend.target(), problem.precision, problem.iterations, &parts) {
            Ok(_) => Ok(parts),
            Err(why) => {
                notices.push(format!("of what was tuned only the format is used: {why}"));
                Ok(Vec::new())
            }
        }
    }

    /// Loads one plan under one variant.
    pub(crate) fn load_plan(
        &self,
        plan: &Plan,
        variant: &[(String, String)],
        (number, problem): (usize, Problem),
        backend: Box<dyn Backend>,
    ) -> Result<Solver, Error> {
        let begin = Instant::now();
        let words = Some(self.words(plan, problem.precision));
        let module = pipeline::module(&plan.program, backend.target(), problem.precision, problem.iterations, variant)?;
        let mapping = begin.elapsed();
        let name = plan.schedule.name.clone();
        let (backend, refinement) = self.refined(backend, &problem)?;
        let mut engine = Engine::new(plan.program.clone(), module, backend, problem.iterations)?;
        self.bring_matrix(&mut engine)?;
        let notices = engine.notices();
        let stages = Stages { map: mapping, ..engine.stages };
        let data = problem.data.len();
        Ok(Solver {
            program: self.loaded.program.clone(),
            number,
            problem,
            folder: self.loaded.folder.clone(),
            engine,
            refinement,
            set: self.set.clone(),
            stale: Stale {
                params: true,
                data: vec![true; data],
                rhs: true,
                given_data: vec![false; data],
                given_rhs: false,
            },
            suspects: Suspects::default(),
            compile_time: begin.elapsed(),
            stages,
            schedule: name,
            words,
            copy_bandwidth: None,
            notices,
            tuned: None,
        })
    }
}
