//! What the searches of one tune share: the device, the store, the workshop, the budget, and whoever watches.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::bench::{Bench, Inputs};
use super::key;
use super::race::Entry;
use super::record::{About, FORMAT, Kind, Record, Verdict, now};
use super::store::Store;
use super::workshop::Workshop;
use super::{Ended, Options, Progress, Watch};
use crate::backend::interp::{InterpBackend, InterpOptions};
use crate::backend::shared::Shared;
use crate::backend::{Backend, Target};
use crate::solve::Error;

/// State of a tune.
pub struct Session<'w> {
    /// The device.
    backend: Shared,
    /// Which kernels it runs.
    pub target: Target,
    /// What was asked for.
    pub options: Options,
    /// Numbers that kernels are given.
    pub inputs: Inputs,
    /// Where measurements go.
    pub store: Store,
    /// Threads that compile.
    pub workshop: Workshop,
    /// Measurements of earlier tunes that still hold.
    known: Vec<Record>,
    family: String,
    key: String,
    about: About,
    begin: Instant,
    /// When searching ends, and when everything does.
    search_until: Option<Instant>,
    until: Option<Instant>,
    counted: usize,
    /// Longest of the last times in the workshop.
    compile: Duration,
    interrupted: bool,
    watch: Watch<'w>,
    agreed: BTreeSet<String>,
}

/// Identity of what is tuned.
pub struct Subject {
    /// Hash without sizes.
    pub family: String,
    /// Hash of everything.
    pub key: String,
    /// In words.
    pub about: About,
}

/// Where a search stands.
pub struct Stage {
    /// The kernel or the schedule.
    pub what: String,
    /// Candidates looked at, and all there are.
    pub looked_at: usize,
    /// All there are.
    pub space: usize,
    /// Best time so far.
    pub best: Option<f64>,
    /// Time of the default.
    pub default: Option<f64>,
}

/// Share of a budget that is left to the final, where whole iterations meet.
const FINAL: f64 = 0.2;

impl<'w> Session<'w> {
    /// Begins; the store is read.
    pub fn new(
        backend: Shared,
        options: Options,
        (inputs, workshop): (Inputs, Workshop),
        mut store: Store,
        subject: Subject,
        (watch, begin): (Watch<'w>, Instant),
    ) -> Session<'w> {
        let known = if options.fresh { Vec::new() } else { store.read(&subject.family) };
        let known = known.into_iter().filter(|record| record.key == subject.key).collect();
        let until = options.budget.map(|budget| begin + budget);
        let search_until = options.budget.map(|budget| begin + budget.mul_f64(1.0 - FINAL));
        Session {
            target: backend.target(),
            backend,
            options,
            inputs,
            store,
            workshop,
            known,
            family: subject.family,
            key: subject.key,
            about: subject.about,
            begin,
            search_until,
            until,
            counted: 0,
            compile: Duration::ZERO,
            interrupted: false,
            watch,
            agreed: BTreeSet::new(),
        }
    }

    /// A handle of the device.
    pub fn backend(&self) -> Shared {
        self.backend.clone()
    }

    /// Candidates sent to the workshop so far.
    pub fn counted(&self) -> usize {
        self.counted
    }

    /// Counts a candidate.
    pub fn count(&mut self) {
        self.counted += 1;
    }

    /// Learns how long a candidate takes in the workshop.
    pub fn compiled(&mut self, took: Duration) {
        self.compile = took.max(self.compile.mul_f64(0.9));
    }

    /// How long a candidate takes in the workshop, at most.
    pub fn compile_time(&self) -> Duration {
        self.compile
    }

    /// Whether no more candidates should be begun.
    pub fn over(&self) -> bool {
        let counted = self.options.count.is_some_and(|most| self.counted >= most);
        let late = self.search_until.is_some_and(|until| Instant::now() + self.compile >= until);
        counted || late || self.interrupted
    }

    /// Whether what is not measured yet should be dropped.
    pub fn late(&self) -> bool {
        self.search_until.is_some_and(|until| Instant::now() >= until) || self.interrupted
    }

    /// Whether even the final should end.
    pub fn stopped(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until) || self.interrupted
    }

    /// Why the search ended.
    pub fn ended(&self) -> Ended {
        match () {
            () if self.interrupted => Ended::Interrupted,
            () if self.options.count.is_some_and(|most| self.counted >= most) => Ended::Count,
            () if self.search_until.is_some_and(|until| Instant::now() >= until) => Ended::Budget,
            () => Ended::Complete,
        }
    }

    /// Time left for searching, where there is a limit.
    pub fn left(&self) -> Option<Duration> {
        self.search_until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// An earlier measurement of some code under the same key; failures of the environment are not remembered.
    pub fn recall(&self, kernel: &str, code: &str) -> Option<&Record> {
        let fits = |record: &&Record| record.kind == Kind::Kernel && record.code == code && record.kernel == kernel;
        let last = self.known.iter().rev().find(fits)?;
        let lasting = last.verdict != Verdict::Failed || last.reason.starts_with("wrong at small sizes");
        lasting.then_some(last)
    }

    /// The last choice of an earlier tune.
    pub fn last_choice(&self) -> Option<&Record> {
        self.known.iter().rev().find(|record| record.kind == Kind::Choice)
    }

    /// A record to be filled in.
    pub fn record(&self, kind: Kind, schedule: &str) -> Record {
        Record {
            format: FORMAT,
            family: self.family.clone(),
            key: self.key.clone(),
            kind,
            about: self.about.clone(),
            schedule: schedule.to_string(),
            kernel: String::new(),
            code: String::new(),
            variant: Vec::new(),
            threads: None,
            verdict: Verdict::Timed,
            reason: String::new(),
            seconds: None,
            spread: 0.0,
            samples: 0,
            info: None,
            default_seconds: None,
            copy_bandwidth: None,
            when: now(),
        }
    }

    /// Tells the watcher where the search stands.
    pub fn show(&mut self, stage: &Stage) {
        let progress = Progress {
            what: &stage.what,
            looked_at: stage.looked_at,
            space: stage.space,
            best: stage.best,
            default: stage.default,
            elapsed: self.begin.elapsed(),
            left: self.until.map(|until| until.saturating_duration_since(Instant::now())),
        };
        self.interrupted |= (self.watch)(&progress) == ControlFlow::Break(());
    }

    /// Holds the default kernels of a step, run by the device at small sizes, against the interpreter; once for each
    /// code.
    ///
    /// # Errors
    /// Kernels that do not agree, or a device that fails.
    pub fn agree(&mut self, entry: &Entry) -> Result<(), Error> {
        let backend = &mut self.backend();
        let Some(program) = entry.small.first() else { return Ok(()) };
        if backend.small_problems_only().is_some() {
            return Ok(());
        }
        let module = entry.mapping.module(program, entry.step, None).map_err(Error::Internal)?;
        let kernels = entry.step.kernels(&module);
        if !self.agreed.insert(key::code(self.target, &kernels)) {
            return Ok(());
        }
        let inputs = self.inputs.resized(&program.operator);
        let mut interpreter = InterpBackend::new(InterpOptions { target: self.target, ..InterpOptions::default() });
        let expected = established(&mut interpreter, entry, program, &module, &inputs)?;
        let found = established(backend, entry, program, &module, &inputs)?;
        let agrees = found.agrees(backend, &expected, &mut interpreter, module.vector_len as usize);
        found.close(backend);
        agrees?.map_err(|why| {
            let name = entry.step.name(entry.program);
            Error::Internal(format!("the default of {name} and the interpreter disagree: {why}"))
        })
    }
}

/// A bench with the default's results as reference; its kernels are given back.
fn established<'p>(
    backend: &mut dyn Backend,
    entry: &Entry,
    program: &'p kernelwright_codegen::loops::Program,
    module: &kernelwright_codegen::module::Module,
    inputs: &Inputs,
) -> Result<Bench<'p>, Error> {
    let mut bench = Bench::new(backend, program, module, entry.step, inputs)?;
    let handles = backend.compile(&entry.step.kernels(module))?;
    let candidate = bench.candidate(backend, module.clone(), handles)?;
    let result = bench.establish(backend, &candidate);
    bench.discard(backend, candidate);
    match result {
        Ok(()) => Ok(bench),
        Err(error) => {
            bench.close(backend);
            Err(error.into())
        }
    }
}
