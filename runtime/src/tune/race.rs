//! The search over the candidates of one kernel: compiled in the workshop, proven, timed, the best ones in turns.
//!
//! Halving: every candidate that passes its proof is sampled a few times, and given up at once where it is hopeless; the
//! best few stay loaded and are sampled in turns, after which half of them goes, until one is left. Of those that no
//! measurement tells apart the one with fewer resources wins, then the one whose name comes first.

use std::collections::BTreeMap;
use std::time::Instant;

use kernelwright_codegen::kernel::Kernel;
use serde::Serialize;

use super::clock::{self, Lap, Timed};
use super::key;
use super::record::{Kind, Record, Verdict};
use super::session::{Session, Stage};
use super::space::with_resources;
use super::strategy::State;
use super::tunable::Tunable;
use super::workshop::{Job, Made};
use crate::backend::shared::Shared;
use crate::backend::{Backend, BackendError, KernelHandle, KernelInfo};
use crate::solve::Error;

/// Candidates that stay loaded for the final, the default among them.
const FINALISTS: usize = 5;
/// Samples of each finalist in a round of the final.
const ROUND: usize = 6;
/// Times closer than this are not told apart.
const ALIKE: f64 = 0.01;

/// A candidate and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Parts that were chosen, with their values.
    pub variant: Vec<(String, String)>,
    /// How it ended.
    pub verdict: Verdict,
    /// Why it failed.
    pub reason: String,
    /// Least seconds of a launch.
    pub seconds: Option<f64>,
    /// Median over least, less one.
    pub spread: f64,
    /// Samples taken.
    pub samples: u32,
    /// Registers and the like: of several kernels the largest of each, and the least occupancy.
    pub info: Option<KernelInfo>,
    /// Taken from the store.
    pub remembered: bool,
}

/// What a search over a step found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Searched {
    /// Name of the sweep or fence.
    pub kernel: String,
    /// Size of the space.
    pub space: usize,
    /// Candidates in the order in which they were looked at; the first is the default.
    pub trials: Vec<Trial>,
    /// The best one, by number in `trials`.
    pub best: usize,
    /// Bytes that a launch moves at least.
    pub bytes: u64,
}

impl Searched {
    /// Seconds of the default and of the best.
    pub fn seconds(&self) -> (f64, f64) {
        let of = |n: usize| self.trials.get(n).and_then(|trial| trial.seconds).unwrap_or(f64::INFINITY);
        (of(0), of(self.best))
    }
}

/// A candidate on the device, before its proof.
struct Loaded<C> {
    number: usize,
    candidate: C,
    code: String,
    info: Option<KernelInfo>,
    expected: f64,
}

/// A proven candidate that stays on the device.
struct Live<C> {
    trial: usize,
    candidate: C,
    lap: Lap,
}

/// A candidate on its way through the workshop: what mapping gave, its kernels, the hash of their code.
type Waiting<M> = (M, Vec<Kernel>, String);

struct Race<'s, 'e, T: Tunable> {
    session: &'s mut Session<'e>,
    schedule: &'s str,
    tunable: T,
    states: Vec<State>,
    /// Trial of each candidate that was looked at.
    trials: Vec<Trial>,
    numbers: Vec<usize>,
    /// Candidate of every generated code seen so far.
    codes: BTreeMap<String, usize>,
    waiting: BTreeMap<usize, Waiting<T::Mapped>>,
    live: Vec<Live<T::Candidate>>,
    until: Option<Instant>,
}

/// Searches the candidates of something until `until`, or as long as the strategy finds something to look at; `schedule`
/// is what its records are filed under.
///
/// # Errors
/// A device that fails, or a default that leaves no numbers.
pub fn search<T: Tunable>(
    session: &mut Session<'_>,
    tunable: T,
    schedule: &str,
    until: Option<Instant>,
) -> Result<Searched, Error> {
    let mut race = Race {
        states: vec![State::Open; tunable.points().values.len()],
        session,
        schedule,
        tunable,
        trials: Vec::new(),
        numbers: Vec::new(),
        codes: BTreeMap::new(),
        waiting: BTreeMap::new(),
        live: Vec::new(),
        until,
    };
    let result = race.run();
    let found = race.close();
    result.map(|()| found)
}

impl<T: Tunable> Race<'_, '_, T> {
    fn run(&mut self) -> Result<(), Error> {
        self.default()?;
        let mut strategy = self.session.options.strategy.strategy();
        loop {
            while self.session.workshop.busy() < self.session.workshop.capacity() && !self.over() {
                let Some(next) = strategy.next(self.tunable.points(), &self.states) else { break };
                self.enter(next);
            }
            if self.session.workshop.busy() == 0 {
                break;
            }
            for loaded in self.finished() {
                self.meet(loaded)?;
                self.show();
            }
        }
        self.recall()?;
        self.final_rounds()
    }

    /// The reference: built here, held against the interpreter before.
    fn default(&mut self) -> Result<(), Error> {
        let (kernels, mapped) = self.tunable.map(0).map_err(Error::Internal)?;
        let backend = &mut self.session.backend();
        let code = key::code(self.session.target, &kernels);
        self.codes.insert(code.clone(), 0);
        let handles = backend.compile(&kernels)?;
        let candidate = self.tunable.load(backend, mapped, handles)?;
        self.states[0] = State::Pending;
        let lap = self.reference(backend, &candidate);
        match lap {
            Ok(lap) => {
                let info = info(backend, self.tunable.kernels(&candidate));
                self.time(Loaded { number: 0, candidate, code, info, expected: 1.0 }, lap)
            }
            Err(error) => {
                self.tunable.discard(backend, candidate);
                Err(error)
            }
        }
    }

    fn reference(&mut self, backend: &mut Shared, candidate: &T::Candidate) -> Result<Lap, Error> {
        self.tunable.establish(backend, candidate)?;
        if let Err(why) = self.tunable.prove(backend, candidate)? {
            let name = self.tunable.name();
            return Err(Error::Internal(format!("the default of {name} fails its proof: two runs differ: {why}")));
        }
        Ok(Lap::new(backend, &self.tunable, candidate)?)
    }

    fn over(&self) -> bool {
        self.session.over() || self.until.is_some_and(|until| Instant::now() + self.session.compile_time() >= until)
    }

    /// Maps a candidate and sends it to the workshop, unless its time is known or it is the same as another one.
    fn enter(&mut self, number: usize) {
        let (kernels, mapped) = match self.tunable.map(number) {
            Ok(made) => made,
            Err(why) => return self.failed(number, String::new(), why),
        };
        let code = key::code(self.session.target, &kernels);
        if self.codes.contains_key(&code) {
            self.states[number] = State::Out;
            return;
        }
        self.codes.insert(code.clone(), number);
        if self.remembered(number, &code) {
            return;
        }
        self.states[number] = State::Pending;
        self.submit(number, (mapped, kernels, code));
    }

    fn submit(&mut self, number: usize, waiting: Waiting<T::Mapped>) {
        let job = Job { number, kernels: waiting.1.clone(), proof: self.tunable.proof(number) };
        self.waiting.insert(number, waiting);
        self.session.count();
        self.session.workshop.submit(job);
    }

    /// Takes the time of a candidate from the store.
    fn remembered(&mut self, number: usize, code: &str) -> bool {
        let Some(record) = self.session.recall(self.tunable.name(), code) else { return false };
        let trial = Trial {
            variant: self.tunable.parts(number),
            verdict: record.verdict,
            reason: record.reason.clone(),
            seconds: record.seconds,
            spread: record.spread,
            samples: record.samples,
            info: record.info.clone(),
            remembered: true,
        };
        self.states[number] = match (trial.verdict, trial.seconds) {
            (Verdict::Failed, _) | (_, None) => State::Out,
            (_, Some(seconds)) => State::Timed(seconds),
        };
        self.push(number, trial);
        true
    }

    fn push(&mut self, number: usize, trial: Trial) {
        self.trials.push(trial);
        self.numbers.push(number);
    }

    /// Finished candidates, loaded, the most promising first. Where compiling disturbs measuring, all that are on their
    /// way.
    fn finished(&mut self) -> Vec<Loaded<T::Candidate>> {
        let mut made: Vec<Made> = self.session.workshop.take(true).into_iter().collect();
        let all = !self.session.workshop.beside();
        while let Some(more) = self.session.workshop.take(all) {
            made.push(more);
        }
        let mut loaded: Vec<Loaded<T::Candidate>> = made.into_iter().filter_map(|made| self.load(made)).collect();
        loaded.sort_by(|a, b| a.expected.total_cmp(&b.expected).then(a.number.cmp(&b.number)));
        loaded
    }

    /// Loads a candidate; one that cannot be is recorded with the reason.
    fn load(&mut self, made: Made) -> Option<Loaded<T::Candidate>> {
        let (mapped, kernels, code) = self.waiting.remove(&made.number)?;
        let number = made.number;
        self.session.compiled(made.took);
        let backend = &mut self.session.backend();
        let loaded = made.unit.and_then(|unit| {
            let loaded = match &unit {
                Some(unit) => backend.load_built(&kernels, unit),
                None => backend.compile(&kernels),
            };
            let candidate = loaded.and_then(|handles| self.tunable.load(backend, mapped, handles));
            candidate.map_err(|error| format!("cannot be loaded: {error}"))
        });
        match loaded {
            Ok(candidate) => {
                let info = info(backend, self.tunable.kernels(&candidate));
                let expected = with_resources(self.tunable.points().predicted[number], info.as_ref());
                Some(Loaded { number, candidate, code, info, expected })
            }
            Err(why) => {
                self.failed(number, code, why);
                None
            }
        }
    }

    /// Proves and times a candidate.
    fn meet(&mut self, loaded: Loaded<T::Candidate>) -> Result<(), Error> {
        let backend = &mut self.session.backend();
        if self.session.late() {
            self.states[loaded.number] = State::Out;
            self.tunable.discard(backend, loaded.candidate);
            return Ok(());
        }
        let fail = |error: BackendError| format!("cannot run: {error}");
        let proven = self.tunable.prove(backend, &loaded.candidate).map_err(fail);
        let lap = proven
            .and_then(|proven| proven)
            .and_then(|()| Lap::new(backend, &self.tunable, &loaded.candidate).map_err(fail));
        match lap {
            Ok(lap) => self.time(loaded, lap),
            Err(why) => {
                self.tunable.discard(backend, loaded.candidate);
                self.failed(loaded.number, loaded.code, why);
                Ok(())
            }
        }
    }

    /// Times a proven candidate; it stays loaded while it is among the best.
    fn time(&mut self, loaded: Loaded<T::Candidate>, mut lap: Lap) -> Result<(), Error> {
        let Loaded { number, candidate, code, info, .. } = loaded;
        let backend = &mut self.session.backend();
        let limit = self.live.iter().map(|live| live.lap.timed().seconds).min_by(f64::total_cmp);
        let timed = lap.settle(backend, &self.tunable, limit.filter(|_| number != 0))?;
        self.states[number] = State::Timed(timed.seconds);
        let trial = Trial {
            variant: self.tunable.parts(number),
            verdict: if timed.rejected { Verdict::Slow } else { Verdict::Timed },
            reason: String::new(),
            seconds: Some(timed.seconds),
            spread: timed.spread,
            samples: timed.samples,
            info,
            remembered: false,
        };
        self.keep(&trial, code, timed);
        self.push(number, trial);
        self.live.push(Live { trial: self.trials.len() - 1, candidate, lap });
        self.thin(FINALISTS);
        Ok(())
    }

    /// Gives back all but the default and the best of those that are loaded.
    fn thin(&mut self, most: usize) {
        self.live.sort_by(|a, b| a.lap.timed().seconds.total_cmp(&b.lap.timed().seconds));
        while self.live.len() > most.max(1) {
            let Some(at) = self.live.iter().rposition(|live| live.trial != 0) else { break };
            let Live { candidate, lap, .. } = self.live.remove(at);
            let backend = &mut self.session.backend();
            lap.close(backend);
            self.tunable.discard(backend, candidate);
        }
    }

    fn failed(&mut self, number: usize, code: String, reason: String) {
        self.states[number] = State::Out;
        let trial = Trial {
            variant: self.tunable.parts(number),
            verdict: Verdict::Failed,
            reason,
            seconds: None,
            spread: 0.0,
            samples: 0,
            info: None,
            remembered: false,
        };
        if !code.is_empty() {
            self.keep(&trial, code, Timed { seconds: f64::NAN, spread: 0.0, samples: 0, rejected: true });
        }
        self.push(number, trial);
    }

    fn keep(&mut self, trial: &Trial, code: String, timed: Timed) {
        let mut record: Record = self.session.record(Kind::Kernel, self.schedule);
        record.kernel = self.tunable.name().to_string();
        record.code = code;
        record.variant.clone_from(&trial.variant);
        record.verdict = trial.verdict;
        record.reason.clone_from(&trial.reason);
        record.seconds = trial.seconds;
        record.spread = timed.spread;
        record.samples = timed.samples;
        record.info.clone_from(&trial.info);
        self.session.store.append(&record);
    }

    /// Candidates that the store knows as good as the best ones here are built after all, for the final.
    fn recall(&mut self) -> Result<(), Error> {
        let mut known: Vec<(f64, usize)> = (0..self.trials.len())
            .filter(|trial| self.trials[*trial].remembered && self.trials[*trial].verdict == Verdict::Timed)
            .filter_map(|trial| self.trials[trial].seconds.map(|seconds| (seconds, trial)))
            .collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        known.truncate(FINALISTS - 2);
        let best = self.live.first().map_or(f64::INFINITY, |live| live.lap.timed().seconds);
        for (seconds, trial) in known {
            if seconds > (1.0 + 5.0 * ALIKE) * best || self.session.over() {
                continue;
            }
            let number = self.numbers[trial];
            let Ok((kernels, mapped)) = self.tunable.map(number) else { continue };
            let code = key::code(self.session.target, &kernels);
            self.submit(number, (mapped, kernels, code));
            for loaded in self.finished() {
                self.meet(loaded)?;
            }
        }
        Ok(())
    }

    /// The best ones in turns, half of them leaving after every round.
    fn final_rounds(&mut self) -> Result<(), Error> {
        self.thin(FINALISTS);
        let mut most = self.live.len();
        while self.live.len() > 1 && !self.session.stopped() {
            let backend = &mut self.session.backend();
            let rounds = if backend.small_problems_only().is_some() { 1 } else { ROUND };
            for _ in 0..rounds {
                for live in &mut self.live {
                    live.lap.sample(backend, &self.tunable)?;
                }
            }
            for live in &self.live {
                let timed = live.lap.timed();
                let trial = &mut self.trials[live.trial];
                (trial.seconds, trial.spread, trial.samples) = (Some(timed.seconds), timed.spread, timed.samples);
            }
            if most <= 2 {
                break;
            }
            most = most.div_ceil(2).max(2);
            self.thin(most);
        }
        Ok(())
    }

    /// The winner among those that were timed to the end; of equals the one that takes least.
    fn winner(&self) -> usize {
        let measured: Vec<(usize, f64, &[f64])> =
            self.live.iter().map(|live| (live.trial, live.lap.timed().seconds, live.lap.samples())).collect();
        let Some(best) = measured.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else { return 0 };
        let last = |samples: &[f64]| samples[samples.len().saturating_sub(ROUND)..].to_vec();
        let alike = measured.iter().filter(|rival| {
            rival.1 <= (1.0 + ALIKE) * best.1 && clock::ratio(&last(rival.2), &last(best.2)) <= 1.0 + ALIKE
        });
        let cost = |trial: usize| {
            let info = self.trials[trial].info.as_ref();
            let of = |f: fn(&KernelInfo) -> u32| info.map_or(0, f);
            let resources = [of(|i| i.local_bytes), of(|i| i.registers), of(|i| i.shared_bytes)];
            (resources, self.trials[trial].variant.clone())
        };
        alike.map(|rival| rival.0).min_by_key(|trial| cost(*trial)).unwrap_or(best.0)
    }

    fn show(&mut self) {
        let best = self.live.first().map(|live| live.lap.timed().seconds);
        let stage = Stage {
            what: self.tunable.name().to_string(),
            looked_at: self.trials.len(),
            space: self.states.len(),
            best,
            default: self.trials.first().and_then(|trial| trial.seconds),
        };
        self.session.show(&stage);
    }

    fn close(mut self) -> Searched {
        let best = self.winner();
        // What is still being compiled belongs to nobody else.
        self.session.workshop.drop_all();
        let backend = &mut self.session.backend();
        for Live { candidate, lap, .. } in self.live.drain(..) {
            lap.close(backend);
            self.tunable.discard(backend, candidate);
        }
        let (kernel, space) = (self.tunable.name().to_string(), self.states.len());
        let bytes = self.tunable.bytes();
        self.tunable.close(backend);
        Searched { kernel, space, trials: self.trials, best, bytes }
    }
}

/// Resources of a candidate: of several kernels the largest.
fn info(backend: &dyn Backend, kernels: &[KernelHandle]) -> Option<KernelInfo> {
    let infos = kernels.iter().filter_map(|kernel| backend.kernel_info(*kernel));
    infos.reduce(|a, b| KernelInfo {
        registers: a.registers.max(b.registers),
        shared_bytes: a.shared_bytes.max(b.shared_bytes),
        local_bytes: a.local_bytes.max(b.local_bytes),
        occupancy: a.occupancy.min(b.occupancy),
        blocks_per_multiprocessor: a.blocks_per_multiprocessor.min(b.blocks_per_multiprocessor),
        name: a.name,
    })
}
