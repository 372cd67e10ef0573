//! The first part of a tune: schedules under the default variant, side by side in the workshop, then one after the other on
//! the device.

use std::sync::mpsc::Receiver;
use std::time::Instant;

use kernelwright_codegen::plan::schedule::Arithmetic;

use super::{Near, Tuner};
use crate::pipeline;
use crate::solve::Error;
use crate::tune::budget::Act;
use crate::tune::iterate::Runner;
use crate::tune::record::{Kind, Verdict};
use crate::tune::report::ScheduleTrial;
use crate::tune::session::{Session, Stage};
use crate::tune::strategy::Choice;
use crate::tune::{key, known};

/// Schedules that are timed under the default variant, and that go on from there.
const SCHEDULES: [usize; 2] = [6, 3];
/// Slower schedules do not go on.
const NEAR: f64 = 1.3;
/// Share of a budget after which no further schedule is timed.
const FIRST: f64 = 0.3;

/// A schedule on its way.
struct Entered {
    plan: usize,
    /// Hash of its code under the default variant.
    code: String,
    /// Its time, or why it failed, if an earlier tune measured this code.
    known: Option<Result<f64, String>>,
    /// Its check and its compilation, if they were begun.
    ready: Option<Receiver<Result<(), String>>>,
    /// What came of them.
    checked: Option<Result<(), String>>,
}

impl Tuner<'_, '_, '_> {
    /// Times schedules under the default variant: what was tried, the one that is loaded as the default, and what goes on,
    /// fastest first. The default is the planner's choice or, if that cannot run, the first one that can.
    pub(super) fn schedules(&mut self) -> Result<(Vec<ScheduleTrial>, Runner, Vec<Near>), Error> {
        let exhaustive = self.session.options.strategy == Choice::Exhaustive;
        let most = if exhaustive { usize::MAX } else { SCHEDULES[0] };
        let plans: Vec<usize> = std::iter::once(self.planned.chosen).chain(self.rivals()).take(most).collect();
        let beside = self.session.workshop.beside();
        let mut entered = Vec::new();
        for plan in plans {
            entered.push(self.enter(plan)?);
            if !beside && let [default] = entered.as_mut_slice() {
                // There has to be a default: where cores are few, nothing else is compiled before it.
                self.check(default);
            }
        }
        if !beside {
            // Where compiling disturbs measuring, it is done before; what takes too long is left out.
            entered.iter_mut().for_each(|one| self.check(one));
            self.session.workshop.drop_all();
        }
        let (mut default, mut trials, mut near) = (None, Vec::new(), Vec::new());
        for mut one in entered {
            // A time that is known costs nothing.
            if default.is_some() && one.known.is_none() && (self.late() || self.session.over()) {
                continue;
            }
            let Some(result) = self.time_schedule(&mut one, &mut default)? else { continue };
            if let Ok(seconds) = &result {
                near.push(Near { plan: one.plan, seconds: *seconds });
            }
            trials.push(self.tried(&one, result));
        }
        self.session.workshop.drop_all();
        let Some(default) = default else {
            let why = trials.first().map_or("none was tried", |trial: &ScheduleTrial| trial.reason.as_str());
            return Err(Error::Internal(format!("no schedule can be run: {why}")));
        };
        near.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.plan.cmp(&b.plan)));
        let limit = NEAR * near.first().map_or(f64::INFINITY, |first| first.seconds);
        near.retain(|one| one.seconds <= limit);
        near.truncate(if exhaustive { SCHEDULES[0] } else { SCHEDULES[1] });
        Ok((trials, default, near))
    }

    /// Schedules beside the planner's choice, cheapest first. One asked for by name has no rivals.
    fn rivals(&self) -> Vec<usize> {
        if self.builder.asked_schedule().is_some() {
            return Vec::new();
        }
        let plans = &self.planned.plans;
        let fits = |number: &usize| {
            let plan = &plans[*number];
            let same = plan.schedule.arithmetic == Arithmetic::Same;
            *number != self.planned.chosen && (same || !plan.program.residual.is_empty())
        };
        let mut numbers: Vec<usize> = (0..plans.len()).filter(fits).collect();
        let weight = |number: usize| pipeline::weight(&plans[number]);
        numbers.sort_by(|a, b| weight(*a).total_cmp(&weight(*b)).then(a.cmp(b)));
        numbers
    }

    /// Looks whether a schedule's time is known, and sends it to the workshop.
    fn enter(&mut self, plan: usize) -> Result<Entered, Error> {
        let about = &self.planned.plans[plan];
        let module = known::module(about, self.session.target, &self.problem, &[]).map_err(Error::Internal)?;
        let code = key::code(self.session.target, &module.kernels);
        let known = self.session.recall(Kind::Iteration, &about.schedule.name, &code);
        let known = known.map(|record| record.seconds.ok_or_else(|| record.reason.clone()));
        let needed = plan == self.planned.chosen || (known.is_none() && !self.late());
        let solvers = &self.builder.loaded().program.solvers;
        let checked = Some((solvers.clone(), self.problem.solver, self.problem.preconditioner.clone()));
        let ready = needed.then(|| self.prepare(plan, &[], checked));
        Ok(Entered { plan, code, known, ready, checked: None })
    }

    /// Whether no further schedule is timed.
    fn late(&self) -> bool {
        let budget = &self.session.budget;
        !budget.fits_share(budget.load(), FIRST)
    }

    /// Waits for the check of a schedule; as long as it takes for the default, which there has to be.
    fn check(&mut self, one: &mut Entered) {
        let until = if one.plan == self.planned.chosen { None } else { self.session.budget.at(FIRST) };
        if one.checked.is_none()
            && let Some(ready) = &one.ready
        {
            let stage = Stage::named(&self.planned.plans[one.plan].schedule.name);
            one.checked = self.session.wait(ready, until, &stage);
        }
    }

    /// Proves a schedule, in exact arithmetic and by its residuals, and times it. None if it is not ready in time. The first
    /// one that runs becomes the default.
    #[allow(clippy::type_complexity, reason = "a failure of the schedule is no failure of the tune")]
    fn time_schedule(
        &mut self,
        one: &mut Entered,
        default: &mut Option<Runner>,
    ) -> Result<Option<Result<f64, String>>, Error> {
        if default.is_some()
            && let Some(known) = one.known.take()
        {
            return Ok(Some(known));
        }
        self.check(one);
        match one.checked.take() {
            Some(Err(why)) => return Ok(Some(Err(why))),
            None if default.is_some() => return Ok(None),
            None | Some(Ok(())) => {}
        }
        match self.first_run(one, default) {
            Ok(result) => Ok(Some(result)),
            Err(Error::Backend(error)) => {
                let name = self.planned.plans[one.plan].schedule.name.clone();
                let (reason, answers) = self.session.excuse(&name, &error);
                answers.map(|()| Some(Err(reason)))
            }
            Err(error) => Ok(Some(Err(error.to_string()))),
        }
    }

    fn first_run(&mut self, one: &Entered, default: &mut Option<Runner>) -> Result<Result<f64, String>, Error> {
        let begin = Instant::now();
        let mut runner = self.runner(one.plan, &[])?;
        self.session.budget.loaded(begin.elapsed());
        let Some(other) = default else {
            let seconds = match &one.known {
                Some(Ok(seconds)) => Ok(*seconds),
                _ => sampled(&mut runner, &mut self.session),
            };
            return match seconds {
                Ok(seconds) => {
                    *default = Some(runner);
                    Ok(Ok(seconds))
                }
                Err(error) => {
                    runner.close();
                    Err(error)
                }
            };
        };
        let result = match runner.agrees(other) {
            Ok(()) => sampled(&mut runner, &mut self.session).map(Ok),
            Err(why) => Ok(Err(format!("not what the program says: {why}"))),
        };
        runner.close();
        result
    }

    /// Notes and stores a schedule's time.
    fn tried(&mut self, one: &Entered, result: Result<f64, String>) -> ScheduleTrial {
        let plan = &self.planned.plans[one.plan];
        let (name, words) = (plan.schedule.name.clone(), plan.cost.words);
        let remembered = self.session.recall(Kind::Iteration, &name, &one.code).is_some();
        let mut record = self.session.record(Kind::Iteration, &name);
        let (seconds, reason) = match result {
            Ok(seconds) => (Some(seconds), String::new()),
            Err(reason) => (None, reason),
        };
        record.code.clone_from(&one.code);
        record.verdict = if seconds.is_some() { Verdict::Timed } else { Verdict::Failed };
        (record.seconds, record.reason) = (seconds, reason.clone());
        if !remembered {
            self.session.store.append(&record);
        }
        self.session.show(&Stage { looked_at: 1, best: seconds, ..Stage::named(&name) });
        ScheduleTrial { schedule: name, words, seconds, reason, remembered }
    }
}

/// Seconds of an iteration by a few samples, as far as there is time.
fn sampled(runner: &mut Runner, session: &mut Session) -> Result<f64, Error> {
    for round in 0..3 {
        if round > 0 && !session.searches(session.budget.takes(Act::Sample)) {
            break;
        }
        let begin = Instant::now();
        runner.sample()?;
        session.budget.learn(Act::Sample, begin.elapsed());
    }
    Ok(runner.seconds().0)
}
