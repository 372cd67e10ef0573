//! What the searches of one tune share: the device, the store, the workshop, the budget, and whoever watches.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::budget::{Act, Budget};
use super::race::Trial;
use super::record::{About, FORMAT, Kind, Record, Verdict, now};
use super::report::{Finalist, KernelReport, Nouns, Report, ScheduleTrial};
use super::store::Store;
use super::turns::ROUNDS;
use super::workshop::{Made, Workshop};
use super::{Ended, Options, Progress, Watch};
use crate::backend::build::Stop;
use crate::backend::shared::Shared;
use crate::backend::{Backend, BackendError, Target};
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
    /// What is tuned, in words.
    pub about: About,
    /// The time.
    pub budget: Budget,
    counted: usize,
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

/// Reasons of failures that are remembered: what is wrong stays wrong, and what takes the device along is not tried again.
const LASTING: [&str; 3] = ["wrong at small sizes", "not what the program says", DEVICE];
/// How the reason of a failure begins after which the device no longer answers.
const DEVICE: &str = "the device failed";
/// How long nobody looks whether the tune should end.
const LOOK: Duration = Duration::from_millis(100);
/// Samples for a number of threads, at most.
const SAMPLES: u32 = (ROUNDS as u32).div_ceil(2);
/// Times closer than this are not told apart.
const ALIKE: f64 = 0.01;

impl Stage {
    /// Of something whose look has only begun.
    pub fn named(what: &str) -> Stage {
        Stage { what: what.to_string(), looked_at: 0, space: 1, best: None, default: None }
    }
}

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
        let budget = Budget::new(options.since.unwrap_or(begin), options.budget);
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
            budget,
            counted: 0,
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

    /// How long a candidate that is begun now takes to be timed, at most, as far as is known.
    pub fn candidate_time(&self) -> Duration {
        let compile = self.budget.takes(Act::Compile) * self.workshop.depth();
        let measure = self.budget.takes(Act::Measure);
        // Where compiling disturbs measuring, all that is on its way waits for the last of it.
        compile + if self.workshop.beside() { measure } else { measure * (1 + self.workshop.busy()) as u32 }
    }

    /// Whether no more candidates should be begun: they are counted, or would not be timed in time.
    pub fn over(&self) -> bool {
        let counted = self.options.count.is_some_and(|most| self.counted >= most);
        counted || self.interrupted || !self.budget.searches(self.candidate_time())
    }

    /// Whether a search can still be begun, with a candidate beside the default.
    pub fn opens(&self) -> bool {
        let takes = self.budget.takes(Act::Open) + self.candidate_time();
        !self.over() && self.budget.searches(takes)
    }

    /// Compilations that someone waits for end with the searching, or with everything, from now on.
    pub fn limit(&mut self, until: Option<Instant>) {
        self.backend.limit(&Stop::at(until));
    }

    /// A candidate that is ready; none when `until` comes, or the end of all searching. `stage` is where the search stands.
    pub fn wait_made(&mut self, until: Option<Instant>, stage: &Stage) -> Option<Made> {
        loop {
            if let Some(made) = self.workshop.take(self.look(until)) {
                return Some(made);
            }
            self.show(stage);
            if self.workshop.busy() == 0 || self.late() || until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
        }
    }

    /// Whether samples of one kernel differ by more than rivals do: other work shares the cores of a host.
    pub fn disturbed(&self) -> bool {
        self.target == Target::Host && self.backend.small_problems_only().is_none()
    }

    /// What work of a thread gives; none when `until` comes, when whoever watches asks to stop, or when it panicked.
    pub fn wait<T>(&mut self, work: &Receiver<T>, until: Option<Instant>, stage: &Stage) -> Option<T> {
        loop {
            match work.recv_timeout(self.look(until)) {
                Ok(given) => return Some(given),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.show(stage),
            }
            if self.interrupted || until.is_some_and(|until| Instant::now() >= until) {
                return None;
            }
        }
    }

    /// How long to wait before looking round.
    fn look(&self, until: Option<Instant>) -> Duration {
        until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()).min(LOOK))
    }

    /// Whether something that takes so long still ends in time.
    pub fn fits(&self, takes: Duration) -> bool {
        !self.interrupted && self.budget.fits(takes)
    }

    /// Whether something that takes so long still ends before searching does.
    pub fn searches(&self, takes: Duration) -> bool {
        !self.interrupted && self.budget.searches(takes)
    }

    /// Whether another finalist can still be loaded and sampled.
    pub fn loads(&self) -> bool {
        !self.interrupted && self.budget.ready_until().is_none_or(|until| Instant::now() <= until)
    }

    /// Whether what is not measured yet should be dropped: it would not be timed in time.
    pub fn late(&self) -> bool {
        !self.searches(self.budget.takes(Act::Measure))
    }

    /// Whether even the final should end.
    pub fn stopped(&self) -> bool {
        !self.fits(Duration::ZERO)
    }

    /// Why the search ended.
    pub fn ended(&self) -> Ended {
        match () {
            () if self.interrupted => Ended::Interrupted,
            () if self.options.count.is_some_and(|most| self.counted >= most) => Ended::Count,
            () if !self.budget.searches(Duration::ZERO) => Ended::Budget,
            () => Ended::Complete,
        }
    }

    /// An earlier measurement of some code under the same key: of a kernel by its name, of whole iterations by that of
    /// the schedule. Failures of the environment are not remembered.
    pub fn recall(&self, kind: Kind, name: &str, code: &str) -> Option<&Record> {
        let named =
            |record: &Record| if kind == Kind::Kernel { record.kernel == name } else { record.schedule == name };
        let fits = |record: &&Record| record.kind == kind && record.code == code && named(record);
        let last = self.known.iter().rev().find(fits)?;
        let lasting = LASTING.iter().any(|word| last.reason.starts_with(word));
        (last.verdict != Verdict::Failed || lasting).then_some(last)
    }

    /// Whether the device still answers.
    pub fn answers(&mut self) -> bool {
        self.backend.synchronize().is_ok()
    }

    /// Why something failed on the device, so that it is recorded. What it may have done to the device cannot be undone
    /// here: a device that no longer answers ends the tune, and the next one leaves the candidate out.
    ///
    /// # Errors
    /// A device that no longer answers.
    pub fn excuse(&mut self, what: &str, error: &dyn Display) -> (String, Result<(), Error>) {
        if self.answers() {
            return (format!("cannot run: {error}"), Ok(()));
        }
        let gone = format!("{DEVICE} under {what}: {error}");
        (format!("{DEVICE}: {error}"), Err(Error::Backend(BackendError::Device(gone))))
    }

    /// Whether a record is of what is tuned.
    pub fn owns(&self, record: &Record) -> bool {
        record.key == self.key
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
            elapsed: self.budget.elapsed(),
            left: self.budget.until().map(|until| until.saturating_duration_since(Instant::now())),
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

    /// Fewer threads, where their number can be chosen and fewer are faster than `now`; `sample` takes a time, by half as
    /// many samples as finalists have.
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
        // Fewer threads take longer.
        let (mut count, mut took) = (all / 2, 2 * SAMPLES * self.budget.takes(Act::Sample));
        while count >= 1 && self.fits(took) {
            backend.set_threads(count)?;
            let begin = Instant::now();
            let seconds = sample()?;
            took = 2 * begin.elapsed();
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
            default: finalists[0].clone(),
            best: finalists[best].clone(),
            finalists,
            elements,
            word_bytes,
            copy_bandwidth: copy,
            candidates: self.counted,
            remembered: count(|trial| trial.remembered) + schedules.iter().filter(|trial| trial.remembered).count(),
            failed: count(|trial| trial.verdict == Verdict::Failed),
            wall_seconds: self.budget.elapsed().as_secs_f64(),
            ended: self.ended(),
            store: self.store.kept().map(|place| place.display().to_string()),
            notices: Vec::new(),
            kernels,
            schedules,
        }
    }

    /// Ends: the report with what the user should know, and the device.
    pub fn end(self, mut report: Report, notices: Vec<String>) -> (Report, Box<dyn Backend>) {
        let (notices, backend) = self.close(notices);
        report.notices = notices;
        (report, backend)
    }

    /// Gives everything back: what the user should know, and the device.
    pub fn close(mut self, mut notices: Vec<String>) -> (Vec<String>, Box<dyn Backend>) {
        let mut shared = self.backend();
        self.limit(None);
        notices.extend(self.store.take_notices());
        notices.extend(shared.notices());
        drop(self);
        let backend = shared.into_inner().unwrap_or_else(|shared| Box::new(shared));
        (notices, backend)
    }
}
