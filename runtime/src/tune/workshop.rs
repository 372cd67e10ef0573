//! Threads that prove candidates at small sizes and compile them, while the device measures others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use kernelwright_codegen::kernel::Kernel;

use super::tunable::Proof;
use crate::backend::Backend;
use crate::backend::build::Build;

/// Threads that compile, at most.
const WORKERS: usize = 8;

/// What is done to a candidate before it meets the device.
pub struct Job {
    /// Its number.
    pub number: usize,
    /// Its kernels at the sizes asked for.
    pub kernels: Vec<Kernel>,
    /// Its proof at small sizes.
    pub proof: Proof,
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

    /// Threads beside a back end.
    ///
    /// # Errors
    /// A system that has no threads left.
    pub fn with(backend: &dyn Backend) -> Result<Workshop, String> {
        let build = backend.builder();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let beside = build.as_ref().is_some_and(|build| build.beside());
        // Beside a device one core is left to the thread that drives it.
        Workshop::new(build, cores.saturating_sub(usize::from(beside)).clamp(1, WORKERS))
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
        let (build, sender, number) = (self.build.clone(), self.sender.clone(), job.number);
        self.busy += 1;
        let (round, own) = (self.round.clone(), self.round.load(Ordering::Relaxed));
        self.pool.spawn(move || {
            let begin = Instant::now();
            let current = round.load(Ordering::Relaxed) == own;
            let unit = if current { job.run(build.as_deref()) } else { Err("dropped".to_string()) };
            let made = Made { number, unit, took: begin.elapsed() };
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
    fn run(self, build: Option<&dyn Build>) -> Result<Option<Vec<u8>>, String> {
        (self.proof)().map_err(|why| format!("wrong at small sizes: {why}"))?;
        match build {
            Some(build) => build.build(&self.kernels).map(Some).map_err(|error| error.to_string()),
            None => Ok(None),
        }
    }
}
