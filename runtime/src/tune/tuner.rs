//! The course of a tune: schedules, kernels, final.

mod compare;
mod schedules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use kernelwright_codegen::format::Contents;
use kernelwright_codegen::graph::Graph;
use kernelwright_codegen::map::Target;
use kernelwright_codegen::plan::Plan;
use kernelwright_codegen::{apply, check};
use kernelwright_syntax::program::{Preconditioner, Problem, Solver};

use super::bench::{Inputs, Step};
use super::budget::Act;
use super::clock;
use super::iterate::{self, Runner, Start};
use super::race::{self, Searched};
use super::record::About;
use super::report::{Finalist, KernelReport, Report, ScheduleTrial};
use super::session::{Session, Stage, Subject};
use super::step::{Entry, Mapping, StepSearch, steps};
use super::store::Store;
use super::turns::{LATE, ROUNDS, turns};
use super::workshop::Workshop;
use super::{Options, Watch, key, known};
use crate::backend::Backend;
use crate::backend::shared::Shared;
use crate::inputs::sources::Context;
use crate::pipeline::{self, Planned};
use crate::solve::{Builder, Error};
pub use compare::compare;

/// Share of the time of kernels of the next slower schedule, to that of the one before.
const SLOWER: f64 = 0.5;
/// Iterations that the beginning of a search takes, at least as long as none has begun: filling vectors, a few launches.
const OPENING: f64 = 10.0;
/// Seconds of an iteration beside which fences take no time.
const LONG: f64 = 1e-3;

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
    let mut tuner = Tuner::new(builder, backend, options, builder.store(), (watch, begin))?;
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

/// Parts of a variant with their values.
type Parts = Vec<(String, String)>;

/// A plan by number, and a variant.
type Chosen = (usize, Parts);

/// Solvers with the number of the one meant, and its preconditioner.
type Against = (Vec<Solver>, usize, Preconditioner);

/// A kernel to be searched.
struct OpenStep {
    plan: usize,
    step: Step,
    /// Runs in an iteration.
    weight: f64,
    /// Its part of the time, beside the others'.
    share: f64,
}

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
        store: Store,
        watch: (Watch<'w>, Instant),
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
        let session = Session::new(backend, options.clone(), workshop, store, subject, watch);
        Ok(Tuner { builder, problem, planned, small, inputs, mapping, start, session, notices: Vec::new() })
    }

    /// Searches the kernels of the schedules that went on, those of the fastest first and longest; kernels that several
    /// schedules share are searched once.
    fn kernels(&mut self, near: &[Near]) -> Result<Vec<KernelReport>, Error> {
        let open = self.open(near)?;
        self.session.limit(self.session.budget.search_until());
        if let Some(first) = near.first() {
            self.session.budget.learn(Act::Open, Duration::from_secs_f64(OPENING * first.seconds));
        }
        let mut left: f64 = open.iter().map(|one| one.share).sum();
        let mut reports: Vec<KernelReport> = Vec::new();
        for one in open {
            if !self.session.opens() {
                break;
            }
            let until = self.session.budget.left().map(|time| Instant::now() + time.mul_f64(one.share / left));
            left -= one.share;
            // Where a kernel like this one was fastest, this one may be as well.
            let others = reports.iter().map(|report| &report.searched).filter(|other| other.best != 0);
            let seeds = others.map(|other| other.trials[other.best].variant.clone()).collect();
            match self.search(one.plan, one.step, until, seeds) {
                Ok(searched) => {
                    let schedule = self.planned.plans[one.plan].schedule.name.clone();
                    reports.push(KernelReport { schedule, weight: one.weight, searched });
                }
                Err(error) if !self.session.answers() => return Err(error),
                // A kernel that cannot be proven is left as it is; the others are tuned all the same.
                Err(why) => self.notices.push(format!("a kernel is not tuned: {why}")),
            }
        }
        Ok(reports)
    }

    /// Kernels to search, with their shares of the time.
    fn open(&self, near: &[Near]) -> Result<Vec<OpenStep>, Error> {
        let mut open = Vec::new();
        let mut seen = Vec::new();
        let mut names = BTreeSet::new();
        let mut rank = 1.0;
        for one in near {
            let plan = &self.planned.plans[one.plan];
            for (step, weight) in steps(&plan.program, delay(plan)) {
                let code = self.code(plan, step)?;
                let choice = !self.mapping.parts(&plan.program, step).is_empty();
                let wanted = &self.session.options.kernels;
                let idle = match wanted.is_empty() {
                    true => matches!(step, Step::Fence(_)) && one.seconds > LONG,
                    false => !wanted.iter().any(|name| name == step.name(&plan.program)),
                };
                names.insert(step.name(&plan.program));
                if choice && !idle && !seen.contains(&code) {
                    seen.push(code);
                    // Sweeps take the time; what fences gain is seen at small sizes only.
                    let share = rank * if matches!(step, Step::Sweep(_)) { weight.min(1.0) } else { 0.15 };
                    open.push(OpenStep { plan: one.plan, step, weight, share });
                }
            }
            rank *= SLOWER;
        }
        if let Some(name) = self.session.options.kernels.iter().find(|name| !names.contains(name.as_str())) {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Error::Input(format!("no kernel is called `{name}`; there are {names}")));
        }
        Ok(open)
    }

    fn runner(&self, plan: usize, variant: &[(String, String)]) -> Result<Runner, Error> {
        Runner::new(self.builder, (plan, &self.planned.plans[plan]), variant, &self.start, self.session.backend())
    }

    /// Has a thread map a plan under a variant and compile what [`Tuner::runner`] will load, after a check against a solver's
    /// statements where there is one.
    fn prepare(
        &mut self,
        plan: usize,
        variant: &[(String, String)],
        checked: Option<Against>,
    ) -> Receiver<Result<(), String>> {
        let (program, problem) = (self.planned.plans[plan].program.clone(), iterate::problem(&self.problem));
        let (target, variant) = (self.session.target, variant.to_vec());
        self.session.workshop.run(move |build, stop| {
            if let Some((solvers, solver, preconditioner)) = checked {
                check::check(&program, &solvers, solver, &preconditioner)
                    .map_err(|why| format!("not what the program says: {why}"))?;
            }
            let module = pipeline::module(&program, target, problem.precision, problem.iterations, &variant);
            let module = module.map_err(|error| error.to_string())?;
            if let Some(build) = build {
                // What does not compile shows when it is loaded.
                let _ = build.warm(&module.kernels, stop);
            }
            Ok(())
        })
    }

    fn search(
        &mut self,
        plan: usize,
        step: Step,
        until: Option<Instant>,
        seeds: Vec<Parts>,
    ) -> Result<Searched, Error> {
        let begun = Some(Instant::now());
        let plan = &self.planned.plans[plan];
        let entry = entry(plan, &self.small, &self.inputs, (step, &self.mapping))?;
        let found = StepSearch::new(&mut self.session, entry)?;
        let schedule = plan.schedule.name.as_str();
        race::search(&mut self.session, found, &race::Asked { schedule, until, seeds, begun })
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

    /// The first of the tuned schedules with its sums finished in kernels of their own, in the last blocks of sweeps, and by
    /// every block of the next, where that is a choice: only whole iterations tell.
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
        ["own", "last", "next"].map(with).into()
    }

    /// The default, the tuned schedules and the last choice in turns. They are compiled side by side first.
    fn finals(&mut self, default: Runner, near: &[Near], kernels: &[KernelReport]) -> Result<Final, Error> {
        let wanted = match self.wanted(&default, near, kernels) {
            Ok(wanted) => wanted,
            Err(error) => {
                default.close();
                return Err(error);
            }
        };
        self.session.limit(self.session.budget.until());
        let mut runners = vec![default];
        let ready: Vec<_> =
            wanted.into_iter().map(|(plan, variant)| (self.prepare(plan, &variant, None), plan, variant)).collect();
        for (ready, plan, variant) in ready {
            let stage = Stage::named("the final");
            // One that cannot be mapped says so when it is loaded.
            let _ = self.session.wait(&ready, self.session.budget.ready_until(), &stage);
            if !self.session.loads() {
                let name = &self.planned.plans[plan].schedule.name;
                self.notices.push(format!("{name} was left out of the final: there was no time to load it"));
                continue;
            }
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
        }
        self.session.workshop.drop_all();
        let result = self.meet(&mut runners);
        runners.into_iter().for_each(Runner::close);
        result
    }

    /// What meets the default in the final, without repetitions, what matters most first.
    fn wanted(&self, default: &Runner, near: &[Near], kernels: &[KernelReport]) -> Result<Vec<Chosen>, Error> {
        let mut tuned: Vec<Chosen> = Vec::new();
        for one in near {
            tuned.push((one.plan, self.tuned(&self.planned.plans[one.plan], kernels)?));
        }
        let fences = self.fences(near, &tuned);
        let last = self.session.last_choice().and_then(|last| {
            let plan = self.planned.plans.iter().position(|plan| plan.schedule.name == last.schedule);
            plan.map(|plan| (plan, last.variant.clone()))
        });
        let others = tuned.split_off(1);
        let mut wanted: Vec<Chosen> = Vec::new();
        for one in tuned.into_iter().chain(last).chain(others).chain(fences) {
            let known = (one.0 == default.plan && one.1 == default.variant) || wanted.contains(&one);
            if !known {
                wanted.push(one);
            }
        }
        Ok(wanted)
    }

    /// Samples of the finalists in turns. Where there is no time for it, the default's from the beginning, and the default is
    /// alone.
    fn samples(&mut self, runners: &mut Vec<Runner>) -> Result<Vec<Vec<f64>>, Error> {
        let time = self.session.fits(self.session.budget.takes(Act::Sample));
        let notices = &mut self.notices;
        let mut drops = |runner: Runner, why: &dyn std::fmt::Display| {
            notices.push(format!("{} drops out of the final: {why}", runner.schedule));
            runner.close();
        };
        if !time && !runners[0].samples().is_empty() {
            runners.drain(1..).for_each(|runner| drops(runner, &LATE));
            return Ok(vec![runners[0].samples()]);
        }
        runners.iter_mut().for_each(Runner::clear);
        turns(&mut self.session, runners, Runner::sample, |runner, error| drops(runner, &error))?;
        Ok(runners.iter().map(Runner::samples).collect())
    }

    /// Samples in turns and chooses.
    fn meet(&mut self, runners: &mut Vec<Runner>) -> Result<Final, Error> {
        let samples = self.samples(runners)?;
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
            (0..ROUNDS.div_ceil(2)).try_for_each(|_| runner.sample())?;
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

/// What a step of a plan is searched with; `small` are the graphs at small sizes.
fn entry<'p>(
    plan: &'p Plan,
    small: &[Graph],
    inputs: &'p Inputs,
    (step, mapping): (Step, &Mapping),
) -> Result<Entry<'p>, Error> {
    let small = small.iter().map(|graph| apply::apply(graph, &plan.schedule));
    let small = small.collect::<Result<Vec<_>, _>>().map_err(|error| Error::Internal(error.to_string()))?;
    let small = small.into_iter().map(|program| (program, Vec::new())).collect();
    Ok(Entry { program: &plan.program, inputs, small, step, mapping: mapping.clone() })
}

fn delay(plan: &Plan) -> u32 {
    plan.schedule.main.as_ref().map_or(1, |main| main.delay)
}
