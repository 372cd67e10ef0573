//! The time loop.
//!
//! Steps are counted and all of one length, which divides the time between outputs; time is step times dt. The state is
//! looked at where something is due: energy, probes, outputs, checkpoints. Between, the engine is on its own. A run that
//! is restarted from a checkpoint makes the same calls with the same numbers, and so the same bits.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::checkpoint::fingerprint;
use super::{Bound, Checkpoint, Engine, Norms, Probe, Watch};
use crate::solve::Error;

/// Looks at the energy in a run without outputs.
const LOOKS: u64 = 100;
/// Steps that outputs make so many times shorter than they could be are worth a note.
const SHORT: f64 = 100.0;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The end of time was reached.
    Finished,
    /// The energy grew beyond what the system can do.
    Unstable,
    /// Whoever watched it said stop.
    Interrupted,
}

/// Where a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Steps made.
    pub step: u64,
    /// Steps in all.
    pub steps: u64,
    /// Time reached.
    pub time: f64,
    /// Energy there.
    pub energy: f64,
    /// Time since the run began.
    pub elapsed: Duration,
}

/// How a run went.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Steps made, of this run and before its restart.
    pub step: u64,
    /// Time reached.
    pub time: f64,
    /// Length of a step.
    pub dt: f64,
    /// Energy at the start and at the end.
    pub energy: [f64; 2],
    /// L2 error and norm of each component with an exact solution.
    pub errors: Vec<Option<(f64, f64)>>,
    /// Time of stepping alone, and of all.
    pub seconds: [f64; 2],
    /// Steps made in this run.
    pub made: u64,
}

/// What is done with a run on its way.
pub trait Events {
    /// Called where the energy is looked at.
    ///
    /// # Errors
    /// Ends the run with an error.
    fn progress(&mut self, progress: &Progress) -> Result<ControlFlow<()>, Error> {
        let _ = progress;
        Ok(ControlFlow::Continue(()))
    }

    /// Called at outputs: at the start, every `every`, and at the end.
    ///
    /// # Errors
    /// Ends the run with an error.
    fn output(&mut self, time: f64, state: &[f64]) -> Result<(), Error> {
        let _ = (time, state);
        Ok(())
    }

    /// Called with the values of all probes.
    ///
    /// # Errors
    /// Ends the run with an error.
    fn probe(&mut self, time: f64, probes: &[(String, Vec<f64>)]) -> Result<(), Error> {
        let _ = (time, probes);
        Ok(())
    }

    /// Called at outputs, at the end and when a run is interrupted, unless the last step was a shorter one.
    ///
    /// # Errors
    /// Ends the run with an error.
    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), Error> {
        let _ = checkpoint;
        Ok(())
    }
}

/// No events.
impl Events for () {}

/// A run of a bound problem.
pub struct Marcher<'b> {
    bound: &'b Bound,
    norms: Norms,
    probes: Vec<Probe>,
    /// Length of a step.
    pub dt: f64,
    /// Steps in all.
    pub steps: u64,
    /// Steps between outputs.
    output: u64,
    /// Steps between looks.
    look: u64,
}

impl<'b> Marcher<'b> {
    /// Plans a run with steps of at most `longest`.
    ///
    /// # Errors
    /// Probes outside the mesh; more steps than can be made.
    pub fn new(bound: &'b Bound, longest: f64) -> Result<Marcher<'b>, Error> {
        let run = &bound.run;
        if longest <= 0.0 {
            return Err(Error::Input(format!(
                "{}: time step `{}` amplifies waves however short it is (its region of stability holds no part of the \
                 imaginary axis); use `lserk4`, `rk4`, `ssprk3` or another one that has such a part",
                run.name, bound.system.step.name
            )));
        }
        let every = run.every.unwrap_or(run.until).min(run.until);
        // With the step of an earlier run, its number of steps: the quotient may be rounded up.
        let output = (every / longest - 1e-6).ceil().max(1.0);
        let dt = every / output;
        let steps = (run.until / dt - 1e-6).ceil().max(1.0);
        if !(steps < 1e15 && dt > 0.0) {
            return Err(Error::Input(format!(
                "{}: until {:?} would take {steps:.3e} steps of {dt:.3e}",
                run.name, run.until
            )));
        }
        let (output, steps) = (output as u64, steps as u64);
        let probes = Probe::all(bound)?;
        let looks = (steps / LOOKS).max(1);
        let look = if probes.is_empty() { looks } else { (steps / 1000).max(1) };
        let norms = Norms::new(bound);
        Ok(Marcher { bound, norms, probes, dt, steps, output, look })
    }

    /// What there is to know about steps far shorter than the longest ones that are stable.
    pub fn note(&self, longest: f64) -> Option<String> {
        let every = self.bound.run.every.filter(|_| self.output == 1 && SHORT * self.dt < longest)?;
        Some(format!(
            "outputs every {every:?} make {} steps of {:.3e}, where {longest:.3e} is stable",
            self.steps, self.dt
        ))
    }

    /// Time after a number of steps; the last one may be shorter.
    fn time(&self, step: u64) -> f64 {
        if step >= self.steps { self.bound.run.until } else { step as f64 * self.dt }
    }

    /// Whether the steps so far were all of the full length, as those of a checkpoint are.
    fn whole(&self, step: u64) -> bool {
        (step as f64 * self.dt - self.time(step)).abs() <= 1e-6 * self.dt
    }

    /// Times of the outputs of this run in its first steps, so many of them.
    pub fn outputs(&self, step: u64) -> Vec<f64> {
        (0..=step.min(self.steps) / self.output).map(|number| self.time(number * self.output)).collect()
    }

    /// The next step at which something is due.
    fn next(&self, step: u64) -> u64 {
        let due = |interval: u64| (step / interval + 1) * interval;
        let next = due(self.output).min(due(self.look)).min(self.steps);
        // The last step has its own length.
        if step < self.steps - 1 { next.min(self.steps - 1) } else { next }
    }

    /// Runs to the end of time, from the start or from a checkpoint.
    ///
    /// # Errors
    /// A checkpoint of a run with other steps, or beyond the end of this one; a failing engine, or an error of the events.
    pub fn run(
        &self,
        engine: &mut dyn Engine,
        from: Option<Checkpoint>,
        events: &mut dyn Events,
    ) -> Result<Report, Error> {
        let begin = Instant::now();
        if let Some(from) = from.as_ref().filter(|from| from.dt.to_bits() != self.dt.to_bits()) {
            return Err(Error::Input(format!(
                "{}: the checkpoint was made with steps of {:e}, this run would make steps of {:e}; go on with the \
                 `until` and `every` that it began with",
                self.bound.run.name, from.dt, self.dt
            )));
        }
        if let Some(from) = from.as_ref().filter(|from| from.step > self.steps) {
            return Err(Error::Input(format!(
                "{}: the checkpoint was made after {} steps, this run has {} until {}",
                self.bound.run.name, from.step, self.steps, self.bound.run.until
            )));
        }
        let (mut step, mut state) = match &from {
            Some(checkpoint) => (checkpoint.step, checkpoint.state.clone()),
            None => (0, self.bound.initial.clone()),
        };
        let first = step;
        engine.load(&state)?;
        // Measured as it will be on the way.
        let loaded = engine.energy()?.unwrap_or_else(|| self.norms.energy(self.bound, &state));
        let start = from.as_ref().map_or(loaded, |checkpoint| checkpoint.energy);
        if from.is_none() {
            self.show(0, &state, events)?;
        }
        let (mut stepping, mut energy, mut outcome) = (0.0, loaded, Outcome::Finished);
        let mut watch = Watch::new(self.bound, &self.norms.of, start);
        while step < self.steps {
            let next = self.next(step);
            let (time, dt) =
                (self.time(step), if next == self.steps { self.time(next) - self.time(step) } else { self.dt });
            let clock = Instant::now();
            engine.advance(time, dt, next - step)?;
            stepping += clock.elapsed().as_secs_f64();
            step = next;
            let known = engine.energy()?;
            if known.is_none() || self.due(step) {
                engine.store(&mut state)?;
            }
            energy = known.unwrap_or_else(|| self.norms.energy(self.bound, &state));
            let progress =
                Progress { step, steps: self.steps, time: self.time(step), energy, elapsed: begin.elapsed() };
            let flow = events.progress(&progress)?;
            let unstable = watch.unstable(self.time(step), energy);
            if (flow.is_break() || unstable) && !self.due(step) {
                engine.store(&mut state)?;
            }
            if unstable {
                outcome = Outcome::Unstable;
                break;
            }
            self.show(step, &state, events)?;
            let wanted = step.is_multiple_of(self.output) || step == self.steps || flow.is_break();
            if wanted && self.whole(step) {
                events.checkpoint(self.checkpoint(step, start, &state))?;
            }
            if flow.is_break() && step < self.steps {
                outcome = Outcome::Interrupted;
                break;
            }
        }
        let time = self.time(step);
        let errors = self.norms.errors(self.bound, &state, time);
        let seconds = [stepping, begin.elapsed().as_secs_f64()];
        Ok(Report { outcome, step, time, dt: self.dt, energy: [start, energy], errors, seconds, made: step - first })
    }

    fn checkpoint(&self, step: u64, energy: f64, state: &[f64]) -> Checkpoint {
        Checkpoint { step, dt: self.dt, energy, state: state.to_vec(), fingerprint: fingerprint(self.bound) }
    }

    /// Whether the state is wanted after a step.
    fn due(&self, step: u64) -> bool {
        step.is_multiple_of(self.output)
            || step == self.steps
            || (!self.probes.is_empty() && step.is_multiple_of(self.look))
    }

    /// Outputs and probes that are due.
    fn show(&self, step: u64, state: &[f64], events: &mut dyn Events) -> Result<(), Error> {
        let time = self.time(step);
        if step.is_multiple_of(self.output) || step == self.steps {
            events.output(time, state)?;
        }
        if !self.probes.is_empty() && (step.is_multiple_of(self.look) || step == self.steps) {
            let one = |probe: &Probe| (probe.name.clone(), probe.values(self.bound, state));
            events.probe(time, &self.probes.iter().map(one).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}
