//! Runs a loop: batches of iterations without a look at the device in between, verification of what the loop
//! claims, outcomes.
//!
//! The device stops by itself: once a fence raises the status word every later sweep and fence does nothing. The
//! driver therefore enqueues many rounds, looks at the status word, and replays the control without launching to
//! find the step that raised it; versions that were renamed behind that step are renamed back.
//!
//! A loop that reports convergence is not believed: `finish` completes the solution and `residual` computes the
//! residual from it. When the true measure misses the bound, the loop starts over from its solution: the statements
//! before the loop take the true residual, and directions that belong to the old one are dropped with it. (A fence
//! that raises a status does not run its further statements, so that there is no way to go on behind it.) When that
//! gains nothing, the accuracy is taken for what rounding allows; [`verdict`](super::verdict) decides.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use kernelwright_codegen::loops::{self, Control, ScalarId, status};

use super::Error;
use super::cursor::{Cursor, Step};
use super::engine::{Device, Engine, Rotation};
use super::outcome::{Outcome, Progress, Report, Timings};
use super::raise::{Raises, follow_fence, may_raise};
use super::verdict::{Next, Verdict, stalled};

/// A batch should take about this long, so that progress and interrupts are seen.
const BATCH_TIME: Duration = Duration::from_millis(100);
/// Rounds of a first batch, and the largest batch: what is enqueued past a convergence runs in vain.
const BATCH_ROUNDS: (u32, u32) = (8, 1024);
/// A loop that never advances the iteration number is stopped this many rounds past the limit (a pipelined loop
/// needs a round or two more than it has iterations).
const SPARE_ROUNDS: u64 = 16;

/// What bounds a solve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// What the program calls `tolerance`.
    pub tolerance: f64,
    /// Iterations allowed, at most the limit the engine was made with.
    pub iterations: u32,
}

/// Called after every batch; breaks to stop the solve.
pub type Watch<'w> = &'w mut dyn FnMut(&Progress) -> ControlFlow<()>;

/// Why a run of steps ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The device raised this status.
    Raised(i32),
    /// The iterations allowed were used up.
    Limit,
    /// The control has ended (a loop of fixed length).
    End,
    /// The watcher asked to stop.
    Interrupted,
}

/// Measures of the residual computed anew.
#[derive(Debug, Clone, Copy)]
pub(super) struct Truth {
    pub(super) measure: f64,
    pub(super) bound: f64,
    pub(super) attainable: f64,
}

impl Truth {
    /// A sum of the residual's section was not finite.
    pub(super) const LOST: Truth = Truth { measure: f64::NAN, bound: f64::NAN, attainable: f64::NAN };
}

impl Engine {
    /// Solves with the inputs set so far, from the guess in the solution's buffer.
    pub fn solve(&mut self, limits: Limits, watch: Watch) -> Result<Report, Error> {
        self.drive(limits, watch, true)
    }

    /// The same, taking the loop at its word: for callers that verify better themselves.
    pub(super) fn solve_unverified(&mut self, limits: Limits, watch: Watch) -> Result<Report, Error> {
        self.drive(limits, watch, false)
    }

    fn drive(&mut self, limits: Limits, watch: Watch, verified: bool) -> Result<Report, Error> {
        let begin = Instant::now();
        self.setup()?;
        let setup = begin.elapsed();
        let begin = Instant::now();
        self.begin(limits.tolerance)?;
        let program = &self.program;
        let run = Run {
            program,
            raises: &self.raises,
            device: &mut self.device,
            limit: limits.iterations.min(self.limit),
            position: Position {
                cursor: Cursor::over(&[&program.prepare, &program.start, &program.body]),
                iteration: 0,
                rounds: 0,
                limited: false,
            },
            before: 0,
            batch: Batch { rounds: BATCH_ROUNDS.0 },
            history: Vec::new(),
            begin,
            verified,
        };
        let mut report = run.drive(watch)?;
        report.timings = Timings { setup, solve: begin.elapsed(), ..Timings::default() };
        Ok(report)
    }
}

/// A solve on its way.
struct Run<'p> {
    program: &'p loops::Program,
    raises: &'p Raises,
    device: &'p mut Device,
    limit: u32,
    position: Position<'p>,
    /// Iterations before the loop was last started over.
    before: u32,
    batch: Batch,
    /// Measures before the loop was last started over.
    history: Vec<f64>,
    begin: Instant,
    /// Whether claims are verified.
    verified: bool,
}

/// Where the loop is, but for the versions of vectors.
#[derive(Clone)]
struct Position<'p> {
    cursor: Cursor<'p>,
    /// The device's iteration number, followed on the host.
    iteration: i64,
    rounds: u64,
    /// Whether the limit made it leave the loop.
    limited: bool,
}

/// How far a batch was enqueued.
#[derive(PartialEq, Eq)]
enum Enqueued {
    Batch,
    /// A fence was looked at and had raised: the position is exact.
    Raised,
    End,
}

impl<'p> Run<'p> {
    fn drive(mut self, watch: Watch) -> Result<Report, Error> {
        let mut verdict = Verdict::new(self.device.is_single());
        loop {
            let stop = self.advance(watch)?;
            let claimed = self.device.scalars()?;
            if stop == Stop::Raised(status::CONVERGED) {
                self.run_what_follows()?;
            }
            let truth = if stop == Stop::Raised(status::INCOMPATIBLE) {
                None
            } else {
                self.section(&self.program.finish)?;
                self.verify()?
            };
            let (history, iterations) = self.history(claimed[ScalarId::ITERATION.0])?;
            match verdict.judge(stop, truth, self.program) {
                Next::StartOver => {
                    (self.history, self.before) = (history, iterations);
                    self.start_over()?;
                }
                Next::End(outcome, detail) => {
                    // What no test has measured is no number, rather than what the device began with.
                    let measured = outcome != Outcome::NotFinite || iterations > 0;
                    let truth = truth.filter(|_| measured);
                    let history = if measured { history } else { Vec::new() };
                    let detail = detail.or_else(|| {
                        let help = self.device.is_single().then_some("f64 vectors or mixed precision");
                        if outcome == Outcome::IterationLimit { stalled(&history, help) } else { None }
                    });
                    return Ok(Report {
                        outcome,
                        detail,
                        iterations,
                        recursive: if measured { claimed[ScalarId::MEASURE.0] } else { f64::NAN },
                        truth: truth.map(|truth| truth.measure),
                        attainable: truth.map(|truth| truth.attainable).filter(|attainable| *attainable > 0.0),
                        bound: truth.map_or(claimed[ScalarId::BOUND.0], |truth| truth.bound),
                        history,
                        restarts: verdict.restarts,
                        timings: Timings::default(),
                        traffic: None,
                    });
                }
            }
        }
    }

    /// Batches until the loop stops.
    fn advance(&mut self, watch: Watch) -> Result<Stop, Error> {
        loop {
            let (position, rotation): (Position<'p>, Rotation) = (self.position.clone(), self.device.rotation());
            let started = Instant::now();
            let enqueued = self.enqueue()?;
            let (word, at) = self.device.status()?;
            if word != status::RUNNING {
                if enqueued != Enqueued::Raised {
                    self.position = position;
                    self.device.set_rotation(rotation);
                    self.replay_to(word, at)?;
                }
                return Ok(Stop::Raised(word));
            }
            if enqueued == Enqueued::End {
                return Ok(if self.position.limited { Stop::Limit } else { Stop::End });
            }
            self.batch.learn(started.elapsed(), self.position.rounds);
            let progress = self.progress()?;
            if watch(&progress).is_break() {
                return Ok(Stop::Interrupted);
            }
        }
    }

    /// Launches until the batch is full or the control ends.
    fn enqueue(&mut self) -> Result<Enqueued, Error> {
        let mut left = self.batch.rounds;
        if self.position.rounds > 0 {
            self.device.round()?;
        }
        while let Some(step) = self.step() {
            match step {
                Step::Sweep(sweep) => self.device.sweep(sweep)?,
                Step::Fence(fence) => {
                    self.device.fence(fence)?;
                    follow_fence(&self.program.fences[fence.0], &mut self.position.iteration);
                    if self.raises.ambiguous(fence) && self.device.status()?.0 != status::RUNNING {
                        return Ok(Enqueued::Raised);
                    }
                }
                Step::Rotate(_) => {}
                Step::Round if left == 0 => return Ok(Enqueued::Batch),
                Step::Round => {
                    left -= 1;
                    self.device.round()?;
                }
            }
        }
        Ok(Enqueued::End)
    }

    /// The next step, with what the host does itself: renaming versions, counting rounds, stopping at the limit.
    fn step(&mut self) -> Option<Step> {
        loop {
            let step = self.position.cursor.next()?;
            match step {
                Step::Rotate(vector) => self.device.rotate(vector),
                Step::Round => {
                    let iterations = i64::from(self.before) + self.position.iteration;
                    let limit = i64::from(self.limit);
                    if iterations >= limit || self.position.rounds >= limit as u64 + SPARE_ROUNDS {
                        self.position.cursor.leave_loop();
                        self.position.limited = true;
                        continue;
                    }
                    self.position.rounds += 1;
                }
                Step::Sweep(_) | Step::Fence(_) => {}
            }
            return Some(step);
        }
    }

    /// Replays without launching up to the fence that raised the status.
    fn replay_to(&mut self, word: i32, at: i64) -> Result<(), Error> {
        while let Some(step) = self.step() {
            if let Step::Fence(fence) = step
                && may_raise(&self.program.fences[fence.0], word, at, &mut self.position.iteration)
            {
                return Ok(());
            }
        }
        Err(Error::Internal(format!("no fence can raise status {word} at iteration {at}")))
    }

    /// Statements behind an unbounded loop run when the loop is left by its check.
    fn run_what_follows(&mut self) -> Result<(), Error> {
        let mut cursor = self.position.cursor.clone();
        cursor.leave_loop();
        self.device.clear_status()?;
        while let Some(step) = cursor.next() {
            self.device.perform(step)?;
        }
        Ok(())
    }

    /// Computes the residual from the solution; none when the program declares no residual.
    fn verify(&mut self) -> Result<Option<Truth>, Error> {
        if self.program.residual.is_empty() || !self.verified {
            return Ok(None);
        }
        self.section(&self.program.residual)?;
        let scalars = self.device.scalars()?;
        Ok(Some(Truth {
            measure: scalars[ScalarId::MEASURE.0],
            bound: scalars[ScalarId::BOUND.0],
            attainable: scalars[ScalarId::ATTAINABLE.0],
        }))
    }

    /// Runs a section from beginning to end, whatever was raised before.
    fn section(&mut self, control: &[Control]) -> Result<(), Error> {
        self.device.clear_status()?;
        let mut cursor = Cursor::over(&[control]);
        while let Some(step) = cursor.next() {
            self.device.perform(step)?;
        }
        Ok(())
    }

    /// Starts over from the current solution. `prepare` runs again: it sets the scalars that say where the loop is.
    fn start_over(&mut self) -> Result<(), Error> {
        let mut scalars = self.device.scalars()?;
        scalars[ScalarId::ITERATION.0] = 0.0;
        self.device.set_scalars(&scalars)?;
        self.device.clear_status()?;
        let program = self.program;
        self.device.fill_random(program)?;
        self.position.cursor = Cursor::over(&[&program.prepare, &program.start, &program.body]);
        self.position.iteration = 0;
        Ok(())
    }

    /// All measures so far and the number of iterations they belong to.
    fn history(&mut self, iteration: f64) -> Result<(Vec<f64>, u32), Error> {
        let last = (iteration.max(0.0) as u32).min(self.limit);
        let mut history = self.history.clone();
        // The first test after starting over is at the iteration of the last one before.
        let again = usize::from(!history.is_empty());
        history.extend(self.device.history(last)?.into_iter().skip(again));
        Ok((history, self.before + last))
    }

    fn progress(&mut self) -> Result<Progress, Error> {
        let scalars = self.device.scalars()?;
        Ok(Progress {
            iteration: self.before + scalars[ScalarId::ITERATION.0] as u32,
            limit: self.limit,
            measure: scalars[ScalarId::MEASURE.0],
            bound: scalars[ScalarId::BOUND.0],
            elapsed: self.begin.elapsed(),
        })
    }
}

/// Rounds enqueued at once.
struct Batch {
    rounds: u32,
}

impl Batch {
    /// Grows with the number of rounds done, so that what runs in vain past a convergence stays a fraction of them,
    /// as long as a batch takes less than its time.
    fn learn(&mut self, took: Duration, done: u64) {
        if took > BATCH_TIME {
            self.rounds = (self.rounds / 2).max(1);
        } else if took < BATCH_TIME / 2 {
            let share = (done / 2).min(u64::from(BATCH_ROUNDS.1)) as u32;
            self.rounds = (self.rounds * 2).min(share.max(BATCH_ROUNDS.0));
        }
    }
}
