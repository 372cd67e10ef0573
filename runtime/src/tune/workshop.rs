//! Threads that prove candidates at small sizes and compile them, while the device measures others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use kernelwright_codegen::kernel::Kernel;
use kernelwright_codegen::loops::Program;
use kernelwright_codegen::map::{self, Finish, Own, Variant};
use kernelwright_codegen::module::Module;
use kernelwright_syntax::program::Precision;

use super::bench::Step;
use super::exact;
use crate::backend::build::Build;
use crate::pipeline::element_of;

/// A program at small sizes with what its default leaves there.
pub struct Small {
    /// The program.
    pub program: Program,
    /// What every candidate must leave; none where the default itself cannot be interpreted.
    expected: std::collections::BTreeMap<String, Vec<i64>>,
}

/// How a step's candidates are mapped.
#[derive(Clone)]
pub struct Mapping {
    /// What for.
    pub target: map::Target,
    /// Precision of vectors.
    pub precision: Precision,
    /// Measures that the history holds.
    pub history_len: u64,
}

impl Mapping {
    /// A program with one variant for a step and defaults for all else.
    ///
    /// # Errors
    /// A variant that cannot be mapped.
    pub fn module(&self, program: &Program, step: Step, variant: Option<&Variant>) -> Result<Module, String> {
        let own: Own = variant.map(|variant| (step.name(program).to_string(), variant.clone())).into_iter().collect();
        self.module_each(program, &own)
    }

    /// A program with variants of their own for some kernels.
    ///
    /// # Errors
    /// A variant that cannot be mapped.
    pub fn module_each(&self, program: &Program, own: &Own) -> Result<Module, String> {
        let options = map::Options {
            target: self.target,
            precision: element_of(self.precision),
            history_len: self.history_len,
            // A trial is a sweep or a fence by itself: no sweep ends with the fence after it.
            variant: Variant { fence: Some(Finish::Own), ..Variant::for_space(self.target, &program.operator.space) },
        };
        map::map_each(program, &options, own).map_err(|error| error.to_string())
    }
}

impl Small {
    /// A small program and what its default leaves for a step.
    ///
    /// # Errors
    /// What the default's kernels do that they may not.
    pub fn new(mapping: &Mapping, program: Program, step: Step) -> Result<Small, String> {
        let expected = exact::left(&program, &mapping.module(&program, step, None)?, step)?;
        Ok(Small { program, expected })
    }

    fn proves(&self, mapping: &Mapping, step: Step, variant: &Variant) -> Result<(), String> {
        let module = mapping.module(&self.program, step, Some(variant))?;
        let left = exact::left(&self.program, &module, step)?;
        exact::equal(&left, &self.expected)
    }
}

/// What is done to a candidate before it meets the device.
pub struct Job {
    /// Its number.
    pub number: usize,
    /// Its variant.
    pub variant: Variant,
    /// Its kernels at the sizes asked for.
    pub kernels: Vec<Kernel>,
    /// How it is mapped.
    pub mapping: Mapping,
    /// The step.
    pub step: Step,
    /// The program at small sizes.
    pub small: Arc<Vec<Small>>,
}

/// A candidate that went through the workshop.
pub struct Made {
    /// Its number.
    pub number: usize,
    /// The compiled unit, where the back end compiles apart; or why there is none.
    pub unit: Result<Option<Vec<u8>>, String>,
    /// Time it took.
    pub took: Duration,
}

/// The threads.
pub struct Workshop {
    pool: rayon::ThreadPool,
    build: Option<Arc<dyn Build>>,
    sender: Sender<Made>,
    receiver: Receiver<Made>,
    busy: usize,
    workers: usize,
    /// What is submitted belongs to a round; jobs of an earlier round are not begun any more.
    round: Arc<AtomicU64>,
}

impl Workshop {
    /// Threads for a builder; `workers` is what remains beside the thread that measures.
    ///
    /// # Errors
    /// A system that has no threads left.
    pub fn new(build: Option<Arc<dyn Build>>, workers: usize) -> Result<Workshop, String> {
        let workers = workers.max(1);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).thread_name(|n| format!("tune-{n}")).build();
        let (sender, receiver) = channel();
        let pool = pool.map_err(|error| format!("no threads to compile in: {error}"))?;
        Ok(Workshop { pool, build, sender, receiver, busy: 0, workers, round: Arc::default() })
    }

    /// Whether the device may measure while there is work.
    pub fn beside(&self) -> bool {
        self.build.as_ref().is_some_and(|build| build.beside())
    }

    /// Candidates that may be on their way at a time.
    pub fn capacity(&self) -> usize {
        // Beside the device a few wait for it, so that it never waits.
        if self.beside() { 2 * self.workers } else { self.workers }
    }

    /// Candidates on their way.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// Takes a candidate in.
    pub fn submit(&mut self, job: Job) {
        let (build, sender) = (self.build.clone(), self.sender.clone());
        self.busy += 1;
        let (round, own) = (self.round.clone(), self.round.load(Ordering::Relaxed));
        self.pool.spawn(move || {
            let begin = Instant::now();
            let current = round.load(Ordering::Relaxed) == own;
            let unit = if current { job.run(build.as_deref()) } else { Err("dropped".to_string()) };
            let made = Made { number: job.number, unit, took: begin.elapsed() };
            // Nobody waits any more when the tune has ended.
            let _ = sender.send(made);
        });
    }

    /// Drops what is on its way; waits for what has begun.
    pub fn drop_all(&mut self) {
        self.round.fetch_add(1, Ordering::Relaxed);
        while self.take(true).is_some() {}
    }

    /// A finished candidate; waits for one where `wait` says so.
    pub fn take(&mut self, wait: bool) -> Option<Made> {
        if self.busy == 0 {
            return None;
        }
        let made = if wait { self.receiver.recv().ok() } else { self.receiver.try_recv().ok() };
        self.busy -= usize::from(made.is_some());
        made
    }
}

impl Job {
    fn run(&self, build: Option<&dyn Build>) -> Result<Option<Vec<u8>>, String> {
        for small in self.small.iter() {
            let proven = small.proves(&self.mapping, self.step, &self.variant);
            proven.map_err(|why| format!("wrong at small sizes: {why}"))?;
        }
        match build {
            Some(build) => build.build(&self.kernels).map(Some).map_err(|error| error.to_string()),
            None => Ok(None),
        }
    }
}
