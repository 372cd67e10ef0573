//! What the searches of one tune share: the device, the store, the workshop, the budget, and whoever watches.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::race::Trial;
use super::record::{About, FORMAT, Kind, Record, Verdict, now};
use super::report::{Finalist, KernelReport, Nouns, Report, ScheduleTrial};
use super::store::Store;
use super::workshop::Workshop;
use super::{Ended, Options, Progress, Watch};
use crate::backend::shared::Shared;
use crate::backend::{Backend, Target};
use crate::bandwidth::{Pattern, measure, sensible_bytes};
use crate::solve::Error;

/// State of a tune.
pub struct Session<'w> {
    /// The device.
    backend: Shared,
    /// Which kernels it runs.
    pub target: Target,
    /// What was asked for.
    pub options: Options,
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

/// Times closer than this are not told apart.
const ALIKE: f64 = 0.01;
/// Share of a budget that is left to the final, where whole iterations meet.
const FINAL: f64 = 0.2;

impl<'w> Session<'w> {
    /// Begins; the store is read.
    pub fn new(
        backend: Shared,
        options: Options,
        workshop: Workshop,
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

    /// Whether some code is seen for the first time.
    pub fn first_time(&mut self, code: String) -> bool {
        self.agreed.insert(code)
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

    /// What a copy reaches on the device, bytes a second, where that means anything.
    ///
    /// # Errors
    /// A device that fails.
    pub fn copy_bandwidth(&mut self) -> Result<Option<f64>, Error> {
        let backend = &mut self.backend();
        if backend.small_problems_only().is_some() {
            return Ok(None);
        }
        let bytes = sensible_bytes(backend.target());
        Ok(Some(measure(backend, Pattern::Copy, bytes)?.bytes_per_second))
    }

    /// Fewer threads, where their number can be chosen and fewer are faster than `now`; `sample` takes a time.
    ///
    /// # Errors
    /// A device that fails.
    pub fn threads(
        &mut self,
        now: f64,
        sample: &mut dyn FnMut() -> Result<f64, Error>,
    ) -> Result<Option<(usize, f64)>, Error> {
        let mut backend = self.backend();
        let Some(all) = backend.threads() else { return Ok(None) };
        let mut best = (all, now);
        let mut count = all / 2;
        while count >= 1 && !self.stopped() {
            backend.set_threads(count)?;
            let seconds = sample()?;
            if seconds < (1.0 - ALIKE) * best.1 {
                best = (count, seconds);
            }
            count /= 2;
        }
        backend.set_threads(all)?;
        Ok((best.0 != all).then_some(best))
    }

    /// Keeps a choice.
    pub fn choose(&mut self, (default, best): (&Finalist, &Finalist), code: String, copy: Option<f64>) {
        let mut record = self.record(Kind::Choice, &best.schedule);
        record.code = code;
        record.variant.clone_from(&best.variant);
        record.threads = best.threads;
        (record.seconds, record.spread) = (Some(best.seconds), best.spread);
        record.default_seconds = Some(default.seconds);
        record.copy_bandwidth = copy;
        self.store.append(&record);
    }

    /// What the tune found; the first of all finalists is the default.
    pub fn report(
        &self,
        problem: String,
        schedules: Vec<ScheduleTrial>,
        kernels: Vec<KernelReport>,
        (finalists, best): (Vec<Finalist>, usize),
        (copy, elements, word_bytes): (Option<f64>, u64, u64),
    ) -> Report {
        let count = |fits: fn(&Trial) -> bool| {
            kernels.iter().flat_map(|report| &report.searched.trials).filter(|trial| fits(trial)).count()
        };
        Report {
            nouns: Nouns::default(),
            problem,
            sizes: self.about.sizes.clone(),
            precision: self.about.precision.clone(),
            device: self.about.device.clone(),
            strategy: self.options.strategy.name(),
            schedules,
            default: finalists[0].clone(),
            best: finalists[best].clone(),
            finalists,
            elements,
            word_bytes,
            copy_bandwidth: copy,
            candidates: self.counted,
            remembered: count(|trial| trial.remembered),
            failed: count(|trial| trial.verdict == Verdict::Failed),
            wall_seconds: self.elapsed().as_secs_f64(),
            ended: self.ended(),
            store: self.store.directory().map(|place| place.display().to_string()),
            notices: Vec::new(),
            kernels,
        }
    }

    /// Ends: the report with what the user should know, and the device.
    pub fn end(mut self, mut report: Report, mut notices: Vec<String>) -> (Report, Box<dyn Backend>) {
        let mut shared = self.backend();
        notices.extend(self.store.take_notices());
        notices.extend(shared.notices());
        report.notices = notices;
        drop(self);
        let backend = shared.into_inner().unwrap_or_else(|shared| Box::new(shared));
        (report, backend)
    }
}
