//! The course of a tune: schedules, kernels, final.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kernelwright_codegen::format::Contents;
use kernelwright_codegen::graph::Graph;
use kernelwright_codegen::map::Target;
use kernelwright_codegen::plan::Plan;
use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_codegen::{apply, check};
use kernelwright_syntax::program::Problem;

use super::bench::{Inputs, Step};
use super::clock;
use super::iterate::{Runner, Start};
use super::race::{self, Searched};
use super::record::{About, Kind, Verdict};
use super::report::{Finalist, KernelReport, Report, ScheduleTrial};
use super::session::{Session, Stage, Subject};
use super::step::{Entry, Mapping, StepSearch, steps};
use super::strategy::Choice;
use super::workshop::Workshop;
use super::{Options, Watch, key, known};
use crate::backend::Backend;
use crate::backend::shared::Shared;
use crate::inputs::sources::Context;
use crate::pipeline::{self, Planned};
use crate::solve::{Builder, Error};

/// Schedules that are timed under the default variant, and that go on from there.
const SCHEDULES: [usize; 2] = [6, 3];
/// Slower schedules do not go on.
const NEAR: f64 = 1.3;
/// Share of a budget after which no further schedule is timed.
const FIRST: f64 = 0.3;
/// Seconds of an iteration beside which fences take no time.
const LONG: f64 = 1e-3;
/// Samples of each finalist.
const ROUNDS: usize = 7;

/// Tunes what a builder would compile, on a back end, which is given back.
///
/// # Errors
/// What the compiler cannot do, and a back end that fails. Trouble with a candidate or with the store is none.
pub fn tune(
    builder: &Builder,
    backend: Box<dyn Backend>,
    options: &Options,
    watch: Watch,
) -> Result<(Report, Box<dyn Backend>), Error> {
    let begin = Instant::now();
    let backend = Shared::new(backend);
    let mut tuner = Tuner::new(builder, backend, options, watch, begin)?;
    let copy = tuner.session.copy_bandwidth()?;
    let (schedules, default, near) = tuner.schedules()?;
    let kernels = match tuner.kernels(&near) {
        Ok(kernels) => kernels,
        Err(error) => {
            default.close();
            return Err(error);
        }
    };
    let finalists = tuner.finals(default, &near, &kernels)?;
    tuner.finish(copy, schedules, kernels, finalists)
}

struct Tuner<'b, 'l, 'w> {
    builder: &'b Builder<'l>,
    problem: Problem,
    planned: Planned,
    /// Graphs at small sizes.
    small: Vec<Graph>,
    inputs: Inputs,
    mapping: Mapping,
    start: Start,
    session: Session<'w>,
    notices: Vec<String>,
}

/// What met in the final: the default, all, the best by number.
struct Final {
    all: Vec<Finalist>,
    best: usize,
    /// Plan of the best.
    plan: usize,
}

/// A plan by number, and a variant.
type Chosen = (usize, Vec<(String, String)>);

/// A schedule that goes on.
struct Near {
    plan: usize,
    seconds: f64,
}

impl<'b, 'l, 'w> Tuner<'b, 'l, 'w> {
    fn new(
        builder: &'b Builder<'l>,
        backend: Shared,
        options: &Options,
        watch: Watch<'w>,
        begin: Instant,
    ) -> Result<Self, Error> {
        let (_, problem) = builder.chosen()?;
        let loaded = builder.loaded();
        let program = &loaded.program;
        if builder.has_matrix() {
            return Err(Error::Input("a program on a matrix in a format is not tuned yet".to_string()));
        }
        let operator = pipeline::operator(program, &problem)?;
        let planned = pipeline::plan(program, &problem, operator, builder.asked_schedule())?;
        let mut small = Vec::new();
        for problem in key::small(&problem) {
            small.push(pipeline::graph(program, &problem, &pipeline::operator_of_loop(program, &problem)?)?);
        }
        let params = problem.parameters();
        let operator = &program.operators[problem.operator];
        let context = Context { operator, problem: &problem, params: &params, folder: &loaded.folder };
        let data: Result<Vec<_>, String> = (0..operator.data.len()).map(|number| context.data(number)).collect();
        let data = data.map_err(Error::Input)?;
        let names = operator.data.iter().map(|data| data.name.clone());
        let start = Start {
            rhs: context.vector("rhs", &problem.rhs).map_err(Error::Input)?,
            guess: context.vector("guess", &problem.guess).map_err(Error::Input)?,
            data: names.zip(data.iter().cloned()).collect(),
        };
        let data = data.into_iter().map(Contents::Real).collect();
        let inputs = Inputs { params: [params, problem.solver_params.clone()].concat(), data };
        let family = key::family(program, &problem, &backend)?;
        let space = key::space(backend.target(), &planned.operator, problem.precision);
        let about = About {
            operator: operator.name.clone(),
            solver: program.solvers[problem.solver].name.clone(),
            sizes: problem.sizes.clone(),
            class: key::class_of(&problem.sizes),
            structure: String::new(),
            precision: format!("{:?}", problem.precision).to_lowercase(),
            device: backend.describe(),
        };
        let subject = Subject { key: key::exact(&family, &problem.sizes, &space), family, about };
        let workshop = Workshop::with(&backend).map_err(Error::Internal)?;
        let mapping = Mapping {
            target: backend.target().into(),
            precision: problem.precision,
            history_len: pipeline::history_len(problem.iterations),
        };
        let store = builder.store();
        let session = Session::new(backend, options.clone(), workshop, store, subject, (watch, begin));
        Ok(Tuner { builder, problem, planned, small, inputs, mapping, start, session, notices: Vec::new() })
    }

    /// Times schedules under the default variant: what was tried, the loaded default, and what goes on, fastest first.
    fn schedules(&mut self) -> Result<(Vec<ScheduleTrial>, Runner, Vec<Near>), Error> {
        let exhaustive = self.session.options.strategy == Choice::Exhaustive;
        let most = if exhaustive { usize::MAX } else { SCHEDULES[0] };
        let rivals: Vec<usize> = self.candidates().into_iter().take(most.saturating_sub(1)).collect();
        let mut default = self.runner(self.planned.chosen, &[])?;
        let seconds = sampled(&mut default, &self.session)?;
        let mut trials = vec![self.tried(self.planned.chosen, Ok(seconds))];
        let mut near = vec![Near { plan: self.planned.chosen, seconds }];
        for plan in rivals {
            let late = self.session.options.budget.is_some_and(|all| self.session.elapsed() > all.mul_f64(FIRST));
            if late || self.session.over() {
                break;
            }
            let result = self.time_schedule(plan, &default);
            if let Ok(seconds) = &result {
                near.push(Near { plan, seconds: *seconds });
            }
            trials.push(self.tried(plan, result));
        }
        near.sort_by(|a, b| a.seconds.total_cmp(&b.seconds).then(a.plan.cmp(&b.plan)));
        let limit = NEAR * near[0].seconds;
        near.retain(|one| one.seconds <= limit);
        near.truncate(if exhaustive { SCHEDULES[0] } else { SCHEDULES[1] });
        Ok((trials, default, near))
    }

    /// Schedules beside the planner's choice, cheapest first. One asked for by name has no rivals.
    fn candidates(&self) -> Vec<usize> {
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
        numbers.sort_by(|a, b| pipeline::weight(&plans[*a]).total_cmp(&pipeline::weight(&plans[*b])));
        numbers
    }

    fn runner(&self, plan: usize, variant: &[(String, String)]) -> Result<Runner, Error> {
        Runner::new(self.builder, (plan, &self.planned.plans[plan]), variant, &self.start, self.session.backend())
    }

    /// Proves a schedule, in exact arithmetic and by its residuals, and times it.
    fn time_schedule(&mut self, number: usize, default: &Runner) -> Result<f64, String> {
        let plan = &self.planned.plans[number];
        let program = &self.builder.loaded().program;
        check::check(&plan.program, &program.solvers, self.problem.solver, &self.problem.preconditioner)
            .map_err(|why| format!("not what the program says: {why}"))?;
        let mut runner = self.runner(number, &[]).map_err(|error| error.to_string())?;
        let result = runner.agrees(default);
        let result = result.and_then(|()| sampled(&mut runner, &self.session).map_err(|error| error.to_string()));
        runner.close();
        result
    }

    /// Notes and stores a schedule's time.
    fn tried(&mut self, number: usize, result: Result<f64, String>) -> ScheduleTrial {
        let plan = &self.planned.plans[number];
        let (name, words) = (plan.schedule.name.clone(), plan.cost.words);
        let mut record = self.session.record(Kind::Iteration, &name);
        let (seconds, reason) = match result {
            Ok(seconds) => (Some(seconds), String::new()),
            Err(reason) => (None, reason),
        };
        record.verdict = if seconds.is_some() { Verdict::Timed } else { Verdict::Failed };
        (record.seconds, record.reason) = (seconds, reason.clone());
        self.session.store.append(&record);
        self.session.show(&Stage { what: name.clone(), looked_at: 1, space: 1, best: seconds, default: None });
        ScheduleTrial { schedule: name, words, seconds, reason }
    }

    /// Searches the kernels of the schedules that went on; kernels that several schedules share are searched once.
    fn kernels(&mut self, near: &[Near]) -> Result<Vec<KernelReport>, Error> {
        let mut open = Vec::new();
        let mut seen = Vec::new();
        for one in near {
            let plan = &self.planned.plans[one.plan];
            for (step, weight) in steps(&plan.program, delay(plan)) {
                let code = self.code(plan, step)?;
                let space = self.mapping.space(&plan.program, step);
                let idle = matches!(step, Step::Fence(_)) && one.seconds > LONG;
                if space.variants.len() > 1 && !idle && !seen.contains(&code) {
                    seen.push(code);
                    open.push((one.plan, step, weight));
                }
            }
        }
        // Sweeps take the time; what fences gain is seen at small sizes only.
        let share = |step: Step| if matches!(step, Step::Sweep(_)) { 1.0 } else { 0.15 };
        let mut left: f64 = open.iter().map(|(_, step, _)| share(*step)).sum();
        let mut reports = Vec::new();
        for (plan, step, weight) in open {
            if self.session.over() {
                break;
            }
            let own = share(step);
            let until = self.session.left().map(|time| Instant::now() + time.mul_f64(own / left));
            left -= own;
            match self.search(plan, step, until) {
                Ok(searched) => {
                    let schedule = self.planned.plans[plan].schedule.name.clone();
                    reports.push(KernelReport { schedule, weight, searched });
                }
                // A kernel that cannot be proven is left as it is; the others are tuned all the same.
                Err(Error::Internal(why)) => self.notices.push(format!("a kernel is not tuned: {why}")),
                Err(error) => return Err(error),
            }
        }
        Ok(reports)
    }

    fn search(&mut self, plan: usize, step: Step, until: Option<Instant>) -> Result<Searched, Error> {
        let plan = &self.planned.plans[plan];
        let small = self.small.iter().map(|graph| apply::apply(graph, &plan.schedule));
        let small = small.collect::<Result<Vec<_>, _>>().map_err(|error| Error::Internal(error.to_string()))?;
        let small = small.into_iter().map(|program| (program, Vec::new())).collect();
        let (program, mapping) = (&plan.program, self.mapping.clone());
        let entry = Entry { program, inputs: &self.inputs, small, step, mapping };
        let found = StepSearch::new(&mut self.session, entry)?;
        race::search(&mut self.session, found, &plan.schedule.name, until)
    }

    /// Hash of a step's default code.
    fn code(&self, plan: &Plan, step: Step) -> Result<String, Error> {
        let module = self.mapping.module(&plan.program, step, None).map_err(Error::Internal)?;
        Ok(key::code(self.session.target, &step.kernels(&module)))
    }

    /// The variant that the searches found best for a schedule.
    fn tuned(&self, plan: &Plan, kernels: &[KernelReport]) -> Result<Vec<(String, String)>, Error> {
        let mut best = BTreeMap::new();
        for report in kernels {
            let from = self.planned.plans.iter().find(|plan| plan.schedule.name == report.schedule);
            let Some(from) = from else { continue };
            for (step, _) in steps(&from.program, delay(from)) {
                if step.name(&from.program) == report.searched.kernel && report.searched.best != 0 {
                    best.insert(self.code(from, step)?, &report.searched.trials[report.searched.best].variant);
                }
            }
        }
        let mut variant = Vec::new();
        for (step, _) in steps(&plan.program, delay(plan)) {
            let name = step.name(&plan.program);
            if let Some(parts) = best.get(&self.code(plan, step)?) {
                variant.extend(parts.iter().map(|(key, value)| (format!("{name}.{key}"), value.clone())));
            }
        }
        Ok(variant)
    }

    /// The first of the tuned schedules with its sums finished in kernels of their own and in the last blocks of sweeps,
    /// where that is a choice: only whole iterations tell.
    fn fences(&self, near: &[Near], wanted: &[Chosen]) -> Vec<Chosen> {
        let plan = &self.planned.plans[near[0].plan].program;
        let fences = self.mapping.target == Target::Cuda && !plan.fences.is_empty();
        // What an interpreter takes is no measure of anything.
        let long = near[0].seconds > LONG && self.session.backend().small_problems_only().is_none();
        if !fences || long {
            return Vec::new();
        }
        let with = |word: &str| {
            let (plan, mut variant) = wanted[0].clone();
            variant.insert(0, ("fence".to_string(), word.to_string()));
            (plan, variant)
        };
        vec![with("own"), with("last")]
    }

    /// The default, the tuned schedules and the last choice in turns.
    fn finals(&mut self, default: Runner, near: &[Near], kernels: &[KernelReport]) -> Result<Final, Error> {
        let mut wanted: Vec<Chosen> = Vec::new();
        for one in near {
            wanted.push((one.plan, self.tuned(&self.planned.plans[one.plan], kernels)?));
        }
        wanted.extend(self.fences(near, &wanted));
        if let Some(last) = self.session.last_choice() {
            let plan = self.planned.plans.iter().position(|plan| plan.schedule.name == last.schedule);
            wanted.extend(plan.map(|plan| (plan, last.variant.clone())));
        }
        wanted.retain(|(plan, variant)| *plan != default.plan || *variant != default.variant);
        wanted.dedup();
        let mut runners = vec![default];
        let mut longest = Duration::ZERO;
        for (plan, variant) in wanted {
            let known = runners.iter().any(|runner| runner.plan == plan && runner.variant == variant);
            let left = self.session.options.budget.map(|budget| budget.saturating_sub(self.session.elapsed()));
            if known || left.is_some_and(|left| left < longest) || self.session.stopped() {
                continue;
            }
            let begin = Instant::now();
            match self.runner(plan, &variant) {
                Ok(runner) => match runner.agrees(&runners[0]) {
                    Ok(()) => runners.push(runner),
                    Err(why) => {
                        self.notices.push(format!("{} drops out of the final: {why}", runner.schedule));
                        runner.close();
                    }
                },
                Err(error) => self.notices.push(format!("a finalist cannot be run: {error}")),
            }
            longest = longest.max(begin.elapsed());
        }
        let result = self.meet(&mut runners);
        runners.into_iter().for_each(Runner::close);
        result
    }

    /// Samples in turns and chooses.
    fn meet(&mut self, runners: &mut [Runner]) -> Result<Final, Error> {
        runners.iter_mut().for_each(Runner::clear);
        for round in 0..ROUNDS {
            if round > 0 && self.session.stopped() {
                break;
            }
            for runner in runners.iter_mut() {
                runner.sample()?;
            }
        }
        let samples: Vec<Vec<f64>> = runners.iter().map(|runner| runner.samples().to_vec()).collect();
        // Of those that are not told apart the one that changes least.
        let best = clock::choose(&samples, |number| (runners[number].variant.len(), runners[number].schedule.clone()));
        let mut all: Vec<Finalist> = runners
            .iter()
            .map(|runner| Finalist {
                schedule: runner.schedule.clone(),
                words: self.planned.plans[runner.plan].cost.words,
                variant: runner.variant.clone(),
                threads: None,
                seconds: runner.seconds().0,
                spread: runner.seconds().1,
            })
            .collect();
        let plan = runners[best].plan;
        let runner = &mut runners[best];
        let mut sample = || {
            runner.clear();
            (0..ROUNDS.div_ceil(2)).try_for_each(|_| runner.sample().map(drop))?;
            Ok(runner.seconds().0)
        };
        if let Some((threads, seconds)) = self.session.threads(all[best].seconds, &mut sample)? {
            (all[best].threads, all[best].seconds) = (Some(threads), seconds);
        }
        Ok(Final { all, best, plan })
    }

    fn finish(
        self,
        copy: Option<f64>,
        schedules: Vec<ScheduleTrial>,
        kernels: Vec<KernelReport>,
        finals: Final,
    ) -> Result<(Report, Box<dyn Backend>), Error> {
        let Tuner { problem, planned, mut session, notices, .. } = self;
        let Final { all, best, plan } = finals;
        let plan = &planned.plans[plan];
        let module = known::module(plan, session.target, &problem, &all[best].variant).map_err(Error::Internal)?;
        session.choose((&all[0], &all[best]), known::code(plan, &module, session.target), copy);
        let about = (copy, module.vector_len, module.real.bytes());
        let report = session.report(problem.name.clone(), schedules, kernels, (all, best), about);
        Ok(session.end(report, notices))
    }
}

fn delay(plan: &Plan) -> u32 {
    plan.schedule.main.as_ref().map_or(1, |main| main.delay)
}

/// Seconds of an iteration by a few samples.
fn sampled(runner: &mut Runner, session: &Session) -> Result<f64, Error> {
    for round in 0..3 {
        if round > 0 && session.stopped() {
            break;
        }
        runner.sample()?;
    }
    Ok(runner.seconds().0)
}
