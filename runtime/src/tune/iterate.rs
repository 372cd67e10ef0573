//! Whole iterations: what decides between schedules, and between all that was chosen and the default.
//!
//! A schedule runs on the problem as it is, for a few iterations without a tolerance. Its residuals must be those of the
//! schedule it is compared with, as far as rounding goes; another recurrence must also keep the true residual.

use std::ops::ControlFlow;

use kernelwright_codegen::plan::Plan;
use kernelwright_syntax::program::{Precision, Problem};

use super::clock;
use crate::backend::shared::Shared;
use crate::solve::{Builder, Error, Inputs, Limits, Solver};

/// Iterations that are compared.
const COMPARED: u32 = 6;
/// Iterations of the shorter of two timed runs, whose difference is free of what happens once.
const SHORT: u32 = 2;
/// Seconds that the longer run should take, and its most iterations.
const LONG: (f64, u32) = (0.04, 120);

/// Where iterations start, evaluated once for all schedules.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// The right-hand side.
    pub rhs: Vec<f64>,
    /// The guess.
    pub guess: Vec<f64>,
    /// Data arrays of the operator, with their names.
    pub data: Vec<(String, Vec<f64>)>,
}

/// A schedule under a variant, loaded, with its inputs on the device.
pub struct Runner {
    /// The schedule.
    pub schedule: String,
    /// Number of the plan.
    pub plan: usize,
    /// Parts of the variant.
    pub variant: Vec<(String, String)>,
    solver: Solver,
    long: u32,
    timed: Timed,
    history: Vec<f64>,
    truth: Option<f64>,
}

/// Timed runs, each with its seconds and its iterations.
#[derive(Default)]
struct Timed {
    /// The shorter one that took least.
    short: Option<(f64, u32)>,
    /// Longer ones.
    long: Vec<(f64, u32)>,
}

impl Timed {
    fn push(&mut self, short: (f64, u32), long: (f64, u32)) {
        self.short = Some(self.short.filter(|least| least.0 <= short.0).unwrap_or(short));
        self.long.push(long);
    }

    /// Seconds of an iteration, by longer run: its difference to the least of the shorter ones, so that whatever disturbed any
    /// of them only adds. Of a loop that ends early all that happens once is counted in.
    fn samples(&self) -> Vec<f64> {
        let (short, few) = self.short.unwrap_or_default();
        let each = |&(long, many): &(f64, u32)| match many > few && long > short {
            true => (long - short) / f64::from(many - few),
            false => long / f64::from(many.max(1)),
        };
        self.long.iter().map(each).collect()
    }
}

impl Runner {
    /// Loads, and runs the first iterations.
    ///
    /// # Errors
    /// What does not compile, or a device that fails.
    pub fn new(
        builder: &Builder,
        plan: (usize, &Plan),
        variant: &[(String, String)],
        start: &Start,
        backend: Shared,
    ) -> Result<Runner, Error> {
        let (number, own) = builder.chosen()?;
        let mut solver = builder.load_plan(plan.1, variant, (number, problem(&own)), Box::new(backend))?;
        match first(&mut solver, start) {
            Ok((history, truth)) => Ok(Runner {
                schedule: plan.1.schedule.name.clone(),
                plan: plan.0,
                variant: variant.to_vec(),
                solver,
                long: 0,
                timed: Timed::default(),
                history,
                truth,
            }),
            Err(error) => {
                solver.close();
                Err(error)
            }
        }
    }

    /// Holds the first residuals against another's.
    ///
    /// # Errors
    /// What differs.
    pub fn agrees(&self, other: &Runner) -> Result<(), String> {
        let roundoff = match self.solver.problem().precision {
            Precision::F32 | Precision::Mixed => f64::from(f32::EPSILON),
            Precision::F64 => f64::EPSILON,
        };
        // The recurrences of a Krylov loop magnify rounding; half of the digits are left for a few iterations.
        let tolerance = roundoff.sqrt();
        let first = other.history.first().copied().unwrap_or(0.0);
        let near = |own: f64, expected: f64| (own - expected).abs() <= tolerance * expected.abs().max(first);
        let differs = |own: f64, expected: f64| !near(own, expected);
        for (at, (own, expected)) in self.history.iter().zip(&other.history).enumerate() {
            if differs(*own, *expected) {
                return Err(format!("the residual of iteration {at} is {own:e} instead of {expected:e}"));
            }
        }
        if self.history.len() != other.history.len() {
            return Err(format!("{} iterations instead of {}", self.history.len(), other.history.len()));
        }
        match (self.truth, other.truth) {
            (Some(own), Some(expected)) if differs(own, expected) => {
                Err(format!("the true residual is {own:e} instead of {expected:e}"))
            }
            _ => Ok(()),
        }
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// A device that fails.
    pub fn sample(&mut self) -> Result<(), Error> {
        if self.long == 0 {
            let (seconds, iterations) = run(&mut self.solver, SHORT + 2)?;
            let each = (seconds / f64::from(iterations.max(1))).max(1e-7);
            self.long = SHORT + ((LONG.0 / each) as u32).clamp(4, LONG.1 - SHORT);
        }
        let short = run(&mut self.solver, SHORT)?;
        let long = run(&mut self.solver, self.long)?;
        self.timed.push(short, long);
        Ok(())
    }

    /// Least seconds of an iteration, and the spread.
    pub fn seconds(&self) -> (f64, f64) {
        clock::summary(&self.samples())
    }

    /// Seconds of an iteration by each sample so far.
    pub fn samples(&self) -> Vec<f64> {
        self.timed.samples()
    }

    /// Forgets the samples.
    pub fn clear(&mut self) {
        self.timed = Timed::default();
    }

    /// Gives everything back.
    pub fn close(self) {
        self.solver.close();
    }
}

/// A problem as its loop is timed: with room for enough iterations; of mixed precision the loop alone, which is in f32.
pub fn problem(own: &Problem) -> Problem {
    let precision = if own.precision == Precision::Mixed { Precision::F32 } else { own.precision };
    Problem { iterations: own.iterations.max(LONG.1), precision, ..own.clone() }
}

/// The first iterations from the problem's guess: measures, and the true residual after them.
fn first(solver: &mut Solver, start: &Start) -> Result<(Vec<f64>, Option<f64>), Error> {
    solver.set_limits(Limits { tolerance: 0.0, iterations: COMPARED });
    let mut inputs = Inputs::new().rhs(&start.rhs).guess(&start.guess);
    for (name, values) in &start.data {
        inputs = inputs.data(name, values);
    }
    let report = solver.solve_watched(&inputs, &mut |_| ControlFlow::Continue(()))?;
    Ok((report.history, report.truth))
}

/// Seconds of a run from the last solution, and its iterations.
fn run(solver: &mut Solver, iterations: u32) -> Result<(f64, u32), Error> {
    solver.set_limits(Limits { tolerance: 0.0, iterations });
    let report = solver.solve_watched(&Inputs::new().guess_previous(), &mut |_| ControlFlow::Continue(()))?;
    Ok((report.timings.solve.as_secs_f64(), report.iterations))
}

#[cfg(test)]
mod tests {
    use super::Timed;

    #[test]
    fn a_disturbed_run_makes_no_iteration_faster() {
        let mut timed = Timed::default();
        // Half a second each, and one that happens once.
        timed.push((2.0, 2), (6.0, 10));
        assert_eq!(timed.samples(), [0.5]);
        timed.push((4.0, 2), (6.0, 10));
        assert_eq!(timed.samples(), [0.5, 0.5], "the short run was disturbed");
        timed.push((2.0, 2), (8.0, 10));
        assert_eq!(timed.samples(), [0.5, 0.5, 0.75], "the long run was");
        let mut early = Timed::default();
        early.push((2.0, 2), (2.0, 2));
        assert_eq!(early.samples(), [1.0]);
    }
}
