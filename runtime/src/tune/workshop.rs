//! Threads that prove candidates at small sizes and compile them, while the device measures others.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use kernelwright_codegen::kernel::Kernel;

use super::tunable::Proof;
use crate::backend::build::{Build, Stop};
use crate::backend::{Backend, BackendError};

/// Threads that compile, at most.
const WORKERS: usize = 16;
/// How often someone looks whether compilations have ended.
const LOOK: Duration = Duration::from_millis(1);
/// What a compilation says that was asked to end before it began.
const LATE: &str = "the compilation was asked to end";

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
///
/// What is submitted belongs to a round. [`Workshop::drop_all`] ends the round: compilations are asked to end, nobody waits
/// for them, and what they leave is thrown away. Dropping the workshop waits for its compilations, so that a process may end:
/// a library must not be used while it is unloaded. For proofs in the interpreter, which cannot be ended, nobody waits.
pub struct Workshop {
    pool: rayon::ThreadPool,
    build: Option<Arc<Compiling>>,
    sender: Sender<(u64, Made)>,
    receiver: Receiver<(u64, Made)>,
    /// Candidates of this round on their way.
    busy: usize,
    workers: usize,
    round: u64,
    stop: Stop,
}

/// Compiles, and knows how many threads do.
struct Compiling {
    inner: Arc<dyn Build>,
    running: AtomicUsize,
}

impl Compiling {
    fn counted<T>(&self, stop: &Stop, work: impl FnOnce() -> Result<T, BackendError>) -> Result<T, BackendError> {
        let _counted = Counted::new(&self.running);
        // Whoever waits for all to end has asked before: what is counted too late does nothing.
        if stop.asked() { Err(BackendError::Device(LATE.to_string())) } else { work() }
    }
}

/// One more, as long as it lives, whatever becomes of its thread.
struct Counted<'c>(&'c AtomicUsize);

impl Counted<'_> {
    fn new(count: &AtomicUsize) -> Counted<'_> {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Build for Compiling {
    fn build(&self, kernels: &[Kernel], stop: &Stop) -> Result<Vec<u8>, BackendError> {
        self.counted(stop, || self.inner.build(kernels, stop))
    }

    fn warm(&self, kernels: &[Kernel], stop: &Stop) -> Result<(), BackendError> {
        self.counted(stop, || self.inner.warm(kernels, stop))
    }

    fn beside(&self) -> bool {
        self.inner.beside()
    }
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
        let build = build.map(|inner| Arc::new(Compiling { inner, running: AtomicUsize::new(0) }));
        Ok(Workshop { pool, build, sender, receiver, busy: 0, workers, round: 0, stop: Stop::default() })
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

    /// Candidates on their way.
    pub fn busy(&self) -> usize {
        self.busy
    }

    /// Rounds of all threads that one more candidate has to wait for, its own among them.
    pub fn depth(&self) -> u32 {
        1 + (self.busy / self.workers) as u32
    }

    /// Takes a candidate in.
    pub fn submit(&mut self, job: Job) {
        let (build, sender, number, round) = (self.build.clone(), self.sender.clone(), job.number, self.round);
        self.busy += 1;
        self.spawn(move |stop| {
            let begin = Instant::now();
            // A panic is a fault of ours; it costs the candidate, not the process.
            let unit =
                catch_unwind(AssertUnwindSafe(|| job.run(build.as_deref().map(|build| build as &dyn Build), stop)));
            let unit = unit.unwrap_or_else(|panic| Err(format!("panicked: {}", text_of(panic.as_ref()))));
            // Nobody waits any more when the tune has ended.
            let _ = sender.send((round, Made { number, unit, took: begin.elapsed() }));
        });
    }

    /// Does something else in a thread; what it gives comes by the channel, unless the round ends before it begins.
    pub fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(Option<&dyn Build>, &Stop) -> T + Send + 'static,
    ) -> Receiver<T> {
        let (sender, receiver) = channel();
        let build = self.build.clone();
        self.spawn(move |stop| {
            let _ = sender.send(work(build.as_deref().map(|build| build as &dyn Build), stop));
        });
        receiver
    }

    fn spawn(&mut self, work: impl FnOnce(&Stop) + Send + 'static) {
        let stop = self.stop.clone();
        self.pool.spawn(move || {
            if !stop.asked() {
                // Whoever waits sees that the channel has closed.
                let _ = catch_unwind(AssertUnwindSafe(|| work(&stop)));
            }
        });
    }

    /// Drops what is on its way; waits for nothing.
    pub fn drop_all(&mut self) {
        self.stop.ask();
        self.stop = Stop::default();
        self.round += 1;
        self.busy = 0;
    }

    /// A finished candidate; waits so long for one.
    pub fn take(&mut self, wait: Duration) -> Option<Made> {
        let until = Instant::now() + wait;
        while self.busy > 0 {
            let left = until.saturating_duration_since(Instant::now());
            let (round, made) = self.receiver.recv_timeout(left).ok()?;
            if round == self.round {
                self.busy -= 1;
                return Some(made);
            }
        }
        None
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        self.stop.ask();
        // Rounds that ended before were asked as well.
        let running = || self.build.as_ref().is_some_and(|build| build.running.load(Ordering::SeqCst) > 0);
        while running() {
            std::thread::sleep(LOOK);
        }
    }
}

/// What a panic says.
fn text_of(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

impl Job {
    fn run(self, build: Option<&dyn Build>, stop: &Stop) -> Result<Option<Vec<u8>>, String> {
        (self.proof)().map_err(|why| format!("wrong at small sizes: {why}"))?;
        match build {
            Some(build) => build.build(&self.kernels, stop).map(Some).map_err(|error| error.to_string()),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compiles until it is asked to end.
    struct Endless;

    impl Build for Endless {
        fn build(&self, _: &[Kernel], stop: &Stop) -> Result<Vec<u8>, BackendError> {
            while !stop.asked() {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(BackendError::Device("asked to end".to_string()))
        }

        fn warm(&self, kernels: &[Kernel], stop: &Stop) -> Result<(), BackendError> {
            self.build(kernels, stop).map(drop)
        }

        fn beside(&self) -> bool {
            true
        }
    }

    fn job(number: usize, proof: impl FnOnce() -> Result<(), String> + Send + 'static) -> Job {
        Job { number, kernels: Vec::new(), proof: Box::new(proof) }
    }

    #[test]
    fn a_round_that_ends_leaves_nothing_behind_and_is_not_waited_for() {
        let mut workshop = Workshop::new(Some(Arc::new(Endless)), 2).expect("threads");
        (0..6).for_each(|number| workshop.submit(job(number, || Ok(()))));
        assert!(workshop.take(Duration::from_millis(5)).is_none());
        workshop.drop_all();
        workshop.submit(job(7, || Err("wrong".to_string())));
        let made = workshop.take(Duration::from_secs(60)).expect("of this round");
        assert_eq!((made.number, workshop.busy()), (7, 0));
        // An endless one again: the drop asks it to end and waits for it.
        workshop.submit(job(8, || Ok(())));
    }

    #[test]
    fn nobody_waits_for_a_proof_that_takes_long() {
        let mut workshop = Workshop::new(Some(Arc::new(Endless)), 1).expect("threads");
        let (tell, told) = channel();
        let slow = move || told.recv_timeout(Duration::from_secs(60)).map_err(|error| error.to_string());
        workshop.submit(job(0, slow));
        assert!(workshop.take(Duration::from_millis(5)).is_none());
        let begin = Instant::now();
        drop(workshop);
        assert!(begin.elapsed() < Duration::from_secs(30));
        // It was still at it, unless the machine has not even begun it.
        let _ = tell.send(());
    }

    #[test]
    fn a_panic_costs_the_candidate_alone() {
        let mut workshop = Workshop::new(None, 1).expect("threads");
        workshop.submit(job(0, || panic!("a fault of ours")));
        let made = workshop.take(Duration::from_secs(60)).expect("an answer");
        assert!(made.unit.is_err_and(|why| why.contains("a fault of ours")));
    }
}
