//! The search over the candidates of one kernel: compiled in the workshop, proven, timed, the best ones in turns.
//!
//! A strategy names candidates in waves. What it is told of a wave it is told at once, when the whole wave is done: what it
//! names next depends on times alone, not on how many cores there are or on who is ready first, so that two tunes look at
//! the same candidates. Beside a device the next wave is compiled while one is measured.
//!
//! Halving: every candidate that passes its proof is sampled a few times, and given up at once where it is hopeless; the
//! best few stay loaded for the [`finals`].

mod compare;
mod finals;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use kernelwright_codegen::kernel::Kernel;

use super::budget::{Act, ends};
use super::clock::Lap;
use super::key;
use super::record::{Kind, Record, Verdict};
use super::session::{Session, Stage};
use super::space::with_resources;
use super::strategy::{State, Strategy};
use super::trial::info;
pub use super::trial::{Searched, Trial};
use super::tunable::Tunable;
use super::workshop::{Job, Made};
use crate::backend::shared::Shared;
use crate::backend::{Backend, BackendError, KernelInfo};
use crate::solve::Error;
pub use compare::{Sampled, compare};

/// Candidates that a strategy names before it is told of any of them.
const WAVE: usize = 8;
/// Candidates that are tried as the reference where the default cannot be.
const REFERENCES: usize = 8;

/// A candidate on the device, before its proof.
struct Loaded<C> {
    number: usize,
    candidate: C,
    code: String,
    info: Option<KernelInfo>,
    expected: f64,
    /// Time that loading it took.
    took: Duration,
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
    /// What is known of every candidate, and what the strategy was told.
    states: Vec<State>,
    told: Vec<State>,
    /// Candidates on their way, by wave.
    waves: VecDeque<Vec<usize>>,
    /// Trial of each candidate that was looked at.
    trials: Vec<Trial>,
    numbers: Vec<usize>,
    /// Candidate of every generated code seen so far.
    codes: BTreeMap<String, usize>,
    waiting: BTreeMap<usize, Waiting<T::Mapped>>,
    live: Vec<Live<T::Candidate>>,
    until: Option<Instant>,
    /// Trial of the reference.
    reference: Option<usize>,
    /// Candidates that stay loaded at most.
    most: usize,
    /// Time of the last samples of all that are left.
    turn: Duration,
}

/// How a search is asked for.
#[derive(Default)]
pub struct Asked<'a> {
    /// What its records are filed under.
    pub schedule: &'a str,
    /// When it ends, if not before.
    pub until: Option<Instant>,
    /// Variants to look at first: the best of kernels like this one.
    pub seeds: Vec<Vec<(String, String)>>,
    /// When its preparation began.
    pub begun: Option<Instant>,
}

/// Searches the candidates of something as long as the strategy finds something to look at, and there is time.
///
/// # Errors
/// A device that no longer answers, or a default (and candidates in its place) that cannot be a reference.
pub fn search<T: Tunable>(session: &mut Session<'_>, tunable: T, asked: &Asked<'_>) -> Result<Searched, Error> {
    let mut race = Race::new(session, tunable, asked, finals::FINALISTS);
    let result = race.run(asked);
    if result.is_ok() {
        race.keep_winner();
    }
    let found = race.close();
    result.map(|()| found)
}

impl<'s, 'e, T: Tunable> Race<'s, 'e, T> {
    fn new(session: &'s mut Session<'e>, tunable: T, asked: &Asked<'s>, most: usize) -> Self {
        let open = vec![State::Open; tunable.points().values.len()];
        Race {
            states: open.clone(),
            told: open,
            session,
            schedule: asked.schedule,
            tunable,
            waves: VecDeque::new(),
            trials: Vec::new(),
            numbers: Vec::new(),
            codes: BTreeMap::new(),
            waiting: BTreeMap::new(),
            live: Vec::new(),
            until: asked.until,
            reference: None,
            most,
            turn: Duration::ZERO,
        }
    }

    fn run(&mut self, asked: &Asked<'_>) -> Result<(), Error> {
        self.reference()?;
        if let Some(begun) = asked.begun {
            self.session.budget.learn(Act::Open, begun.elapsed());
        }
        self.tell(0);
        let mut strategy = self.session.options.strategy.strategy();
        let places =
            |parts: &Vec<(String, String)>| (1..self.states.len()).find(|number| self.tunable.parts(*number) == *parts);
        let mut seeds: VecDeque<usize> = asked.seeds.iter().filter_map(places).collect();
        loop {
            self.fill(strategy.as_mut(), &mut seeds);
            if self.waves.is_empty() {
                break;
            }
            let Some(loaded) = self.finished() else { break };
            for loaded in loaded {
                self.meet(loaded)?;
                self.show();
            }
            self.reveal();
        }
        // What is still being compiled comes too late.
        self.session.workshop.drop_all();
        self.waiting.clear();
        self.recall()?;
        self.final_rounds()
    }

    /// The reference is the default, which was held against the interpreter before. Where it cannot run on the device,
    /// the first candidate that can, after its proof.
    fn reference(&mut self) -> Result<(), Error> {
        let predicted = &self.tunable.points().predicted;
        let mut order: Vec<usize> = (1..predicted.len()).collect();
        order.sort_by(|a, b| predicted[*a].total_cmp(&predicted[*b]).then(a.cmp(b)));
        let mut first = None;
        for number in std::iter::once(0).chain(order).take(REFERENCES) {
            let (code, error) = match self.refer(number) {
                Ok(()) if matches!(self.states[number], State::Timed(_)) => return Ok(()),
                // It broke when it was timed, which is recorded.
                Ok(()) => continue,
                Err(failure) => failure,
            };
            let (reason, answers) = self.session.excuse(&self.name_of(number), &error);
            self.failed(number, code, reason);
            self.tell(number);
            answers?;
            first.get_or_insert(error);
            if self.session.over() {
                break;
            }
        }
        Err(first.unwrap_or_else(|| Error::Internal("no candidate can be timed".to_string())))
    }

    /// Takes a candidate as the reference; else the hash of its code, where it is to be recorded, and what is wrong.
    fn refer(&mut self, number: usize) -> Result<(), (String, Error)> {
        let nameless = |why| (String::new(), Error::Internal(why));
        let (kernels, mapped) = self.tunable.map(number).map_err(nameless)?;
        let code = key::code(self.session.target, &kernels);
        match self.session.recall(Kind::Kernel, self.tunable.name(), &code) {
            Some(known) if known.verdict == Verdict::Failed => return Err(nameless(known.reason.clone())),
            _ => {}
        }
        if number != 0 {
            (self.tunable.proof(number))().map_err(nameless)?;
        }
        self.load_reference(number, &kernels, mapped, &code).map_err(|error| (code, error))
    }

    fn load_reference(
        &mut self,
        number: usize,
        kernels: &[Kernel],
        mapped: T::Mapped,
        code: &str,
    ) -> Result<(), Error> {
        let backend = &mut self.session.backend();
        let begin = Instant::now();
        let handles = backend.compile(kernels)?;
        self.session.budget.learn(Act::Compile, begin.elapsed());
        let begin = Instant::now();
        let candidate = self.tunable.load(backend, mapped, handles)?;
        match self.establish(backend, &candidate) {
            Ok(lap) => {
                self.codes.insert(code.to_string(), number);
                let info = info(backend, self.tunable.kernels(&candidate));
                let (code, took) = (code.to_string(), begin.elapsed());
                let timed = self.time(Loaded { number, candidate, code, info, expected: 1.0, took }, lap);
                self.session.budget.learn(Act::Measure, begin.elapsed());
                timed
            }
            Err(error) => {
                self.tunable.discard(backend, candidate);
                Err(error)
            }
        }
    }

    fn establish(&mut self, backend: &mut Shared, candidate: &T::Candidate) -> Result<Lap, Error> {
        self.tunable.establish(backend, candidate)?;
        if let Err(why) = self.tunable.prove(backend, candidate)? {
            let name = self.tunable.name();
            return Err(Error::Internal(format!("the default of {name} fails its proof: two runs differ: {why}")));
        }
        Ok(Lap::new(backend, &self.tunable, candidate)?)
    }

    fn over(&self) -> bool {
        self.session.over() || !ends(self.session.candidate_time(), self.until)
    }

    /// Sends waves to the workshop. Where compiling disturbs measuring, one at a time.
    fn fill(&mut self, strategy: &mut dyn Strategy, seeds: &mut VecDeque<usize>) {
        let most = if self.session.workshop.beside() { 2 } else { 1 };
        while self.waves.len() < most {
            let mut wave = Vec::new();
            while wave.len() < WAVE && !self.over() {
                let seed = std::iter::from_fn(|| seeds.pop_front()).find(|seed| self.told[*seed] == State::Open);
                let Some(next) = seed.or_else(|| strategy.next(self.tunable.points(), &self.told)) else { break };
                if self.enter(next) {
                    wave.push(next);
                }
                self.tell(next);
            }
            if wave.is_empty() {
                break;
            }
            self.waves.push_back(wave);
        }
    }

    fn tell(&mut self, number: usize) {
        self.told[number] = self.states[number];
    }

    /// Tells the strategy of waves that are done, in their order.
    fn reveal(&mut self) {
        while let Some(wave) = self.waves.front()
            && wave.iter().all(|number| self.states[*number] != State::Pending)
        {
            self.waves.pop_front().into_iter().flatten().for_each(|number| self.tell(number));
        }
    }

    /// Maps a candidate and sends it to the workshop, unless its time is known or it is the same as another one; whether
    /// it was sent.
    fn enter(&mut self, number: usize) -> bool {
        let (kernels, mapped) = match self.tunable.map(number) {
            Ok(made) => made,
            Err(why) => {
                self.failed(number, String::new(), why);
                return false;
            }
        };
        let code = key::code(self.session.target, &kernels);
        if self.codes.contains_key(&code) {
            self.states[number] = State::Out;
            return false;
        }
        self.codes.insert(code.clone(), number);
        if self.remembered(number, &code) {
            return false;
        }
        self.states[number] = State::Pending;
        self.submit(number, (mapped, kernels, code));
        true
    }

    fn submit(&mut self, number: usize, waiting: Waiting<T::Mapped>) {
        let job = Job { number, kernels: waiting.1.clone(), proof: self.tunable.proof(number) };
        self.waiting.insert(number, waiting);
        self.session.count();
        self.session.workshop.submit(job);
    }

    /// Takes the time of a candidate from the store.
    fn remembered(&mut self, number: usize, code: &str) -> bool {
        let Some(record) = self.session.recall(Kind::Kernel, self.tunable.name(), code) else { return false };
        let trial = Trial::remembered(self.tunable.parts(number), record);
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

    /// Finished candidates, loaded, the most promising first; where compiling disturbs measuring, all that are on their
    /// way. None if time is up before there is one.
    fn finished(&mut self) -> Option<Vec<Loaded<T::Candidate>>> {
        let stage = self.stage();
        let mut made = vec![self.session.wait_made(self.until, &stage)?];
        let beside = self.session.workshop.beside();
        loop {
            let more = if beside {
                self.session.workshop.take(Duration::ZERO)
            } else {
                self.session.wait_made(self.until, &stage)
            };
            let Some(more) = more else { break };
            made.push(more);
        }
        if !beside {
            // Whatever did not make it would only disturb those that did.
            self.session.workshop.drop_all();
        }
        let mut loaded = Vec::new();
        for made in made {
            loaded.extend(self.load(made));
        }
        loaded.sort_by(|a, b| a.expected.total_cmp(&b.expected).then(a.number.cmp(&b.number)));
        Some(loaded)
    }

    /// Loads a candidate; one that cannot be is recorded with the reason.
    fn load(&mut self, made: Made) -> Option<Loaded<T::Candidate>> {
        let (mapped, kernels, code) = self.waiting.remove(&made.number)?;
        let number = made.number;
        self.session.budget.learn(Act::Compile, made.took);
        let backend = &mut self.session.backend();
        let begin = Instant::now();
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
                Some(Loaded { number, candidate, code, info, expected, took: begin.elapsed() })
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
        let (begin, took) = (Instant::now(), loaded.took);
        let met = self.prove_and_time(loaded);
        self.session.budget.learn(Act::Measure, took + begin.elapsed());
        met
    }

    fn prove_and_time(&mut self, loaded: Loaded<T::Candidate>) -> Result<(), Error> {
        let backend = &mut self.session.backend();
        let lap = match self.tunable.prove(backend, &loaded.candidate) {
            Ok(Ok(())) => Lap::new(backend, &self.tunable, &loaded.candidate),
            Ok(Err(why)) => {
                self.tunable.discard(backend, loaded.candidate);
                self.failed(loaded.number, loaded.code, why);
                return Ok(());
            }
            Err(error) => Err(error),
        };
        match lap {
            Ok(lap) => self.time(loaded, lap),
            Err(error) => self.broke(loaded, &error),
        }
    }

    /// Records a candidate that the device could not run.
    fn broke(&mut self, loaded: Loaded<T::Candidate>, error: &BackendError) -> Result<(), Error> {
        self.tunable.discard(&mut self.session.backend(), loaded.candidate);
        let (reason, answers) = self.session.excuse(&self.name_of(loaded.number), error);
        self.failed(loaded.number, loaded.code, reason);
        answers
    }

    /// A candidate for people.
    fn name_of(&self, number: usize) -> String {
        let parts: Vec<String> =
            self.tunable.parts(number).iter().map(|(key, value)| format!("{key}={value}")).collect();
        format!("{} of {} with {}", self.tunable.name(), self.schedule, parts.join(" "))
    }

    /// Times a proven candidate; it stays loaded while it is among the best.
    fn time(&mut self, loaded: Loaded<T::Candidate>, mut lap: Lap) -> Result<(), Error> {
        let backend = &mut self.session.backend();
        let limit = self.live.iter().map(|live| live.lap.timed().seconds).min_by(f64::total_cmp);
        let (limit, until) = (limit.filter(|_| loaded.number != 0), self.session.budget.search_until());
        let beside = self.live.iter().find(|live| self.session.disturbed() && Some(live.trial) == self.reference);
        let beside = beside.map(|live| &live.lap);
        let timed = match lap.settle(backend, &self.tunable, beside, limit, until) {
            Ok(timed) => timed,
            Err(error) => {
                lap.close(backend);
                return self.broke(loaded, &error);
            }
        };
        let Loaded { number, candidate, code, info, .. } = loaded;
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
        self.keep(Kind::Kernel, &trial, code);
        self.push(number, trial);
        let trial = self.trials.len() - 1;
        if self.reference.is_none() {
            self.reference = Some(trial);
            if self.session.disturbed() {
                lap.refer();
            }
        }
        self.live.push(Live { trial, candidate, lap });
        self.thin(self.most);
        Ok(())
    }

    fn failed(&mut self, number: usize, code: String, reason: String) {
        self.states[number] = State::Out;
        let trial = Trial::failed(self.tunable.parts(number), reason);
        if !code.is_empty() {
            self.keep(Kind::Kernel, &trial, code);
        }
        self.push(number, trial);
    }

    fn keep(&mut self, kind: Kind, trial: &Trial, code: String) {
        let record = Record {
            kernel: self.tunable.name().to_string(),
            code,
            variant: trial.variant.clone(),
            verdict: trial.verdict,
            reason: trial.reason.clone(),
            seconds: trial.seconds,
            spread: trial.spread,
            samples: trial.samples,
            info: trial.info.clone(),
            ..self.session.record(kind, self.schedule)
        };
        self.session.store.append(&record);
    }

    fn stage(&self) -> Stage {
        Stage {
            what: self.tunable.name().to_string(),
            looked_at: self.trials.len(),
            space: self.states.len(),
            best: self.live.first().map(|live| live.lap.timed().seconds),
            default: self.trials.first().and_then(|trial| trial.seconds),
        }
    }

    fn show(&mut self) {
        let stage = self.stage();
        self.session.show(&stage);
    }
}
