//! What the searches of one tune share: the device, the store, the workshop, the budget, and whoever watches.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::race::Trial;
use super::record::{About, FORMAT, Kind, Record, Verdict, now};
use super::report::{Finalist, KernelReport, Nouns, Report, ScheduleTrial};
use super::store::Store;
use super::workshop::{Made, Workshop};
use super::{Ended, Options, Progress, Watch};
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
    about: About,
    begin: Instant,
    /// When searching ends, and when everything does.
    search_until: Option<Instant>,
    until: Option<Instant>,
    counted: usize,
    /// Longest of the last times in the workshop.
    compile: Duration,
    /// Shortest time in which a finalist was loaded.
    load: Option<Duration>,
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
impl Stage {
    /// Of something whose look has only begun.
    pub fn named(what: &str) -> Stage {
        Stage { what: what.to_string(), looked_at: 0, space: 1, best: None, default: None }
    }
}

/// Times closer than this are not told apart.
const ALIKE: f64 = 0.01;
/// Share of a budget that is left to the final, where whole iterations meet.
const FINAL: f64 = 0.2;
/// Finalists for which there is time in any case, sampling included, and the share of a budget that this may take.
const FINALISTS: (u32, f64) = (4, 0.5);

/// How much of a budget is left to a final whose finalists take so long to load.
fn kept(budget: Duration, load: Duration) -> Duration {
    let (finalists, most) = FINALISTS;
    (load * finalists).min(budget.mul_f64(most)).max(budget.mul_f64(FINAL))
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
            load: None,
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

    /// How long a candidate that is begun now takes to come out of the workshop, at most, as far as is known.
    pub fn compile_time(&self) -> Duration {
        self.compile * self.workshop.depth()
    }

    /// Whether no more candidates should be begun: they are counted, or would not be ready in time.
    pub fn over(&self) -> bool {
        let counted = self.options.count.is_some_and(|most| self.counted >= most);
        let late = self.search_until.is_some_and(|until| Instant::now() + self.compile_time() >= until);
        counted || late || self.interrupted
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

    /// When everything ends.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// The time at which a share of the budget is used up.
    pub fn at(&self, share: f64) -> Option<Instant> {
        self.options.budget.map(|budget| self.begin + budget.mul_f64(share))
    }

    /// Whether something that takes so long still ends in time.
    pub fn fits(&self, takes: Duration) -> bool {
        !self.interrupted && self.until.is_none_or(|until| Instant::now() + takes <= until)
    }

    /// Learns how long a finalist takes to be loaded and run first: inputs of large problems take seconds to reach a device.
    /// Searching ends early enough for several.
    pub fn loaded(&mut self, took: Duration) {
        let load = self.load.map_or(took, |load| load.min(took));
        self.load = Some(load);
        if let (Some(until), Some(budget)) = (self.until, self.options.budget) {
            self.search_until = Some(until - kept(budget, load));
        }
    }

    /// Whether another finalist can still be loaded.
    pub fn loads(&self) -> bool {
        self.fits(self.load.unwrap_or_default())
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
        let (mut count, mut took) = (all / 2, Duration::ZERO);
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
            wall_seconds: self.elapsed().as_secs_f64(),
            ended: self.ended(),
            store: self.store.directory().map(|place| place.display().to_string()),
            notices: Vec::new(),
            kernels,
            schedules,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_problems_keep_more_time_for_the_final() {
        let [ms, s] = [Duration::from_millis, Duration::from_secs];
        assert_eq!(kept(s(60), ms(10)), s(12));
        assert_eq!(kept(s(22), ms(1500)), s(6));
        assert_eq!(kept(s(10), s(10)), s(5));
    }
}
