//! Mixed precision: a solution in f64, corrected by a loop in f32 until the residual in f64 meets the test.
//!
//! Two programs share a back end. The *residual* program keeps u and f in f64 and computes r = f - A*u and the test; the
//! loop, as in any other precision, solves A*d = r in f32 for a correction: u = u + d (reliable residual replacement, once
//! per run of the loop). r is scaled by a power of two before it is rounded, so that no correction underflows.
//!
//! The loop is asked for the reduction that is still missing, at most [`SMALLEST`] a run. What it claims is not looked at:
//! the residual in f64 decides. On stiff lines the first residual may be far above the claim although u is good, because d
//! is stored in f32; that part of the residual is local to the lines and goes in a few more iterations.

use std::time::Instant;

use kernelwright_codegen::correct::transfer::Transfer;
use kernelwright_codegen::loops::{Program, Role, ScalarId, VectorId, status};
use kernelwright_codegen::module::Module;

use super::Error;
use super::driver::{Limits, Truth, Watch};
use super::engine::{Engine, Section};
use super::outcome::{Outcome, Progress, Report, Timings};
use super::verdict::{GAIN, INCOMPATIBLE, NEAR_ATTAINABLE, attainable, stalled};
use crate::backend::shared::Shared;
use crate::backend::{Backend, BufferHandle, KernelHandle};
use kernelwright_codegen::kernel::Element;

/// Smallest reduction of the residual that is asked of one run of the loop: about where its own recurrence and the
/// residual of what it stores part.
const SMALLEST: f64 = 3e-7;
/// What is asked for is a little more than what is missing.
const MARGIN: f64 = 0.7;
/// Corrections in a row that need not gain anything: the first may uncover what f32 could not hold.
const PATIENCE: u32 = 2;

/// The part of a mixed solver that is in f64.
pub(super) struct Refinement {
    pub(super) engine: Engine,
    backend: Shared,
    residual: VectorId,
    assign: KernelHandle,
    add: KernelHandle,
    clear: KernelHandle,
    scale: BufferHandle,
}

/// Where a refinement stands.
struct State {
    begin: Instant,
    truth: Truth,
    iterations: u32,
    corrections: u32,
    history: Vec<f64>,
    recursive: f64,
    best: f64,
    without_gain: u32,
}

impl Refinement {
    /// Compiles the residual program and the transfers on a shared back end.
    pub(super) fn new(
        program: (Program, VectorId),
        module: Module,
        backend: &Shared,
        limit: u32,
    ) -> Result<Self, Error> {
        let (program, residual) = program;
        let mut shared = backend.clone();
        let target = shared.target().into();
        let len = module.vector_len;
        let kernels = [Transfer::Assign, Transfer::Add, Transfer::Clear].map(|t| t.kernel(target, len));
        let engine = Engine::new(program, module, Box::new(backend.clone()), limit)?;
        let [assign, add, clear] = shared.compile(&kernels)?[..] else {
            return Err(Error::Internal("three kernels were to be compiled".to_string()));
        };
        let scale = shared.allocate(Element::F64, 1)?;
        Ok(Refinement { engine, backend: shared, residual, assign, add, clear, scale })
    }

    /// Gives everything on the back end back.
    pub(super) fn close(mut self) {
        self.engine.into_backend();
        self.backend.free(self.scale);
        self.backend.release(&[self.assign, self.add, self.clear]);
    }

    /// Solves from the solution in f64, with corrections of the loop.
    pub(super) fn solve(&mut self, inner: &mut Engine, limits: Limits, watch: Watch) -> Result<Report, Error> {
        let begin = Instant::now();
        self.engine.setup()?;
        inner.setup()?;
        let setup = begin.elapsed();
        let begin = Instant::now();
        let limits = Limits { iterations: limits.iterations.min(inner.limit), ..limits };
        self.engine.begin(limits.tolerance)?;
        let word = self.engine.run(Section::Prepare)?;
        let mut report = if word == status::RUNNING {
            let word = self.engine.run(Section::Start)?;
            let truth = if word == status::RUNNING { self.truth()? } else { Truth::LOST };
            let history = vec![truth.measure];
            let (recursive, best) = (truth.measure, f64::INFINITY);
            let (iterations, corrections, without_gain) = (0, 0, 0);
            let state = State { begin, truth, iterations, corrections, history, recursive, best, without_gain };
            self.refine(inner, limits, watch, state)?
        } else {
            incompatible()
        };
        report.timings = Timings { setup, solve: begin.elapsed(), ..Timings::default() };
        Ok(report)
    }

    fn refine(&mut self, inner: &mut Engine, limits: Limits, watch: Watch, mut s: State) -> Result<Report, Error> {
        if let Some(end) = s.judge() {
            return Ok(s.report(end));
        }
        loop {
            let before = s.truth.measure;
            let scale = scale_of(before);
            self.restrict(inner, scale)?;
            let wanted = (MARGIN * s.truth.bound / before).max(SMALLEST);
            let tolerance = self.tolerance(inner, wanted)?;
            let left = Limits { tolerance, iterations: limits.iterations - s.iterations };
            let run = {
                let (iterations, bound, begin) = (s.iterations, s.truth.bound, s.begin);
                let mut factor = None;
                let mut follow = |p: &Progress| {
                    let factor = *factor.get_or_insert(before / p.measure.max(f64::MIN_POSITIVE));
                    watch(&Progress {
                        iteration: iterations + p.iteration,
                        limit: limits.iterations,
                        measure: p.measure * factor,
                        bound,
                        elapsed: begin.elapsed(),
                    })
                };
                inner.solve_unverified(left, &mut follow)?
            };
            let first = run.history.first().copied().unwrap_or(0.0);
            let factor = if first > 0.0 { before / first } else { 1.0 };
            s.history.extend(run.history.iter().skip(1).map(|measure| measure * factor));
            s.recursive = run.recursive * factor;
            s.iterations += run.iterations;
            if run.outcome == Outcome::NotFinite {
                let text = "the loop in f32 overflowed; f64 vectors would help";
                return Ok(s.report((Outcome::NotFinite, Some(text.to_string()))));
            }
            self.correct(inner, 1.0 / scale)?;
            s.corrections += 1;
            s.truth = self.truth()?;
            if let Some(end) = s.judge_after(&run, before, limits.iterations) {
                return Ok(s.report(end));
            }
        }
    }

    /// The residual of the solution, with the test.
    fn truth(&mut self) -> Result<Truth, Error> {
        self.engine.run(Section::Finish)?;
        if self.engine.run(Section::Residual)? != status::RUNNING {
            return Ok(Truth::LOST);
        }
        let scalars = self.engine.device.scalars()?;
        Ok(Truth {
            measure: scalars[ScalarId::MEASURE.0],
            bound: scalars[ScalarId::BOUND.0],
            attainable: scalars[ScalarId::ATTAINABLE.0],
        })
    }

    /// Right-hand side and guess of the next correction.
    fn restrict(&mut self, inner: &mut Engine, scale: f64) -> Result<(), Error> {
        let residual = self.engine.device.current(self.residual);
        let rhs = inner.device.of_role(&inner.program, Role::Rhs);
        let guess = inner.device.of_role(&inner.program, Role::Solution);
        let (Some(rhs), Some(guess)) = (rhs, guess) else {
            return Err(Error::Internal("the loop has no right-hand side or no solution".to_string()));
        };
        self.engine.device.flush()?;
        inner.device.flush()?;
        self.backend.write(self.scale, &[scale])?;
        self.backend.launch(self.assign, &[residual, self.scale, rhs])?;
        Ok(self.backend.launch(self.clear, &[guess])?)
    }

    /// Adds the correction to the solution.
    fn correct(&mut self, inner: &mut Engine, scale: f64) -> Result<(), Error> {
        let correction = inner.device.of_role(&inner.program, Role::Solution);
        let solution = self.engine.device.of_role(&self.engine.program, Role::Solution);
        let (Some(correction), Some(solution)) = (correction, solution) else {
            return Err(Error::Internal("there is no solution to correct".to_string()));
        };
        self.engine.device.flush()?;
        inner.device.flush()?;
        self.backend.write(self.scale, &[scale])?;
        Ok(self.backend.launch(self.add, &[correction, self.scale, solution])?)
    }

    /// The tolerance at which the loop's test asks for a reduction: bounds are linear in the tolerance, whatever they are
    /// relative to, so one look at the first test tells.
    fn tolerance(&mut self, inner: &mut Engine, wanted: f64) -> Result<f64, Error> {
        inner.begin(1.0)?;
        inner.run(Section::Prepare)?;
        inner.run(Section::Start)?;
        let scalars = inner.device.scalars()?;
        let tolerance = wanted * scalars[ScalarId::MEASURE.0] / scalars[ScalarId::BOUND.0];
        Ok(if tolerance.is_finite() && tolerance > 0.0 { tolerance } else { wanted })
    }
}

/// A power of two that brings the measure near one; exact to multiply with.
fn scale_of(measure: f64) -> f64 {
    if measure > 0.0 && measure.is_finite() { (-measure.log2().round()).clamp(-1000.0, 1000.0).exp2() } else { 1.0 }
}

impl State {
    /// Whether the residual ends the solve.
    fn judge(&self) -> Option<(Outcome, Option<String>)> {
        let truth = self.truth;
        if !truth.measure.is_finite() {
            return Some((Outcome::NotFinite, None));
        }
        if truth.measure <= truth.bound {
            return Some((Outcome::Converged, None));
        }
        (truth.measure <= truth.attainable).then(|| attainable(false))
    }

    /// The same after a run of the loop that began at a measure.
    fn judge_after(&mut self, run: &Report, before: f64, limit: u32) -> Option<(Outcome, Option<String>)> {
        if let Some(end) = self.judge() {
            return Some(end);
        }
        let measure = self.truth.measure;
        let near = measure <= NEAR_ATTAINABLE * self.truth.attainable;
        let gained = measure < GAIN * before;
        self.without_gain = if measure < GAIN * self.best { 0 } else { self.without_gain + 1 };
        self.best = self.best.min(measure);
        match run.outcome {
            Outcome::Interrupted => return Some((Outcome::Interrupted, None)),
            Outcome::Converged | Outcome::AttainableAccuracy => {}
            Outcome::IterationLimit if self.iterations >= limit => {
                let stalled = || stalled(&run.history, Some("f64 vectors"));
                return Some(if near { attainable(false) } else { (Outcome::IterationLimit, stalled()) });
            }
            // A loop of fixed length ends like this; it is run again as long as it gains.
            Outcome::IterationLimit if gained => {}
            Outcome::IterationLimit => return Some((Outcome::IterationLimit, None)),
            // Rounding may break what has been of use so far.
            _ if gained && run.iterations > 0 => {}
            _ if near => return Some(attainable(false)),
            outcome => return Some((outcome, run.detail.clone())),
        }
        if self.without_gain > PATIENCE {
            let text = "corrections by the loop in f32 no longer reduce the residual; f64 vectors would help";
            return Some(if near { attainable(false) } else { (Outcome::AttainableAccuracy, Some(text.to_string())) });
        }
        None
    }

    fn report(self, end: (Outcome, Option<String>)) -> Report {
        let attainable = self.truth.attainable;
        Report {
            outcome: end.0,
            detail: end.1,
            iterations: self.iterations,
            recursive: self.recursive,
            truth: Some(self.truth.measure),
            attainable: Some(attainable).filter(|attainable| *attainable > 0.0),
            bound: self.truth.bound,
            history: self.history,
            restarts: self.corrections.saturating_sub(1),
            timings: Timings::default(),
            traffic: None,
        }
    }
}

fn incompatible() -> Report {
    Report {
        outcome: Outcome::Incompatible,
        detail: Some(INCOMPATIBLE.to_string()),
        iterations: 0,
        recursive: 0.0,
        truth: None,
        attainable: None,
        bound: 0.0,
        history: Vec::new(),
        restarts: 0,
        timings: Timings::default(),
        traffic: None,
    }
}
