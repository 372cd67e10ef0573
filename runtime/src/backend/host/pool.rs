//! Blocks of a launch on the cores of the host.
//!
//! Every thread owns a contiguous share of the blocks, the same in every launch, so that it meets the memory it touched
//! first; when done it helps others. Which thread runs a block never changes a result: blocks write what is theirs.
//!
//! The caller works too, and waits for blocks that others have begun, never for threads that have not woken: on a busy
//! machine a thread may sleep for longer than a launch takes. That takes `unsafe`: a thread that wakes late still holds the
//! job, whose blocks are all claimed by then, and so never calls what the caller lent.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::backend::BackendError;

/// Pieces a share is handed out in: more balance better, fewer cost less.
const PIECES: u64 = 8;

/// Rounds that a thread looks for news before it sleeps, some ten microseconds: launches follow each other closely.
const ROUNDS: u32 = 500;

/// Worker threads.
#[derive(Debug)]
pub struct Pool {
    board: Arc<Board>,
    workers: Vec<JoinHandle<()>>,
}

/// Where work is announced.
#[derive(Debug, Default)]
struct Board {
    /// Number of the latest job; the end at [`u64::MAX`].
    latest: AtomicU64,
    job: Mutex<Option<Arc<Job>>>,
    news: Condvar,
}

/// A contiguous range of items with the first one not yet taken; on a cache line of its own.
#[repr(align(64))]
#[derive(Debug)]
struct Share {
    next: AtomicU64,
    end: u64,
}

/// What the items of a job are run with.
struct Run(*const (dyn Fn(u64, u64) + Sync));

// SAFETY: what is pointed to is `Sync`, so calling it from several threads is sound while it lives; see `Job::take`.
unsafe impl Send for Run {}
// SAFETY: as above.
unsafe impl Sync for Run {}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Run")
    }
}

/// Items to be covered.
#[derive(Debug)]
struct Job {
    shares: Vec<Share>,
    piece: u64,
    items: u64,
    run: Run,
    /// Items that are done with.
    done: AtomicU64,
    failed: AtomicBool,
    sleeper: Mutex<()>,
    finished: Condvar,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// A pool of so many threads, the caller's included; one per core (or `RAYON_NUM_THREADS`) if not given.
    pub fn new(threads: Option<usize>) -> Result<Pool, BackendError> {
        let named = || std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok().filter(|count| *count > 0);
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.filter(|count| *count > 0).or_else(named).unwrap_or_else(cores);
        let mut pool = Pool { board: Arc::default(), workers: Vec::new() };
        for number in 1..threads {
            let board = Arc::clone(&pool.board);
            let builder = std::thread::Builder::new().name(format!("kernelwright-{number}"));
            let worker = builder.spawn(move || board.serve(number));
            pool.workers.push(worker.map_err(|error| BackendError::Device(format!("no worker threads: {error}")))?);
        }
        Ok(pool)
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Runs `run(from, to)` for ranges that cover `0..items` once, and waits.
    pub fn cover(&self, items: u64, run: &(dyn Fn(u64, u64) + Sync)) {
        let threads = self.threads() as u64;
        if items <= 1 || threads == 1 {
            return run(0, items);
        }
        // items * share may exceed 64 bits.
        let bound = |share: u64| (u128::from(items) * u128::from(share) / u128::from(threads)) as u64;
        // SAFETY: only the lifetime changes. `Job::take` calls it for items that it has claimed, and `Waiting` keeps this
        // function from returning, or unwinding, before all items are claimed and done with.
        let run = unsafe { std::mem::transmute::<&(dyn Fn(u64, u64) + Sync), *const (dyn Fn(u64, u64) + Sync)>(run) };
        let job = Arc::new(Job {
            shares: (0..threads).map(|t| Share { next: AtomicU64::new(bound(t)), end: bound(t + 1) }).collect(),
            piece: (items / threads / PIECES).max(1),
            items,
            run: Run(run),
            done: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            sleeper: Mutex::new(()),
            finished: Condvar::new(),
        });
        let waiting = Waiting(&job);
        self.board.announce(Some(Arc::clone(&job)), |latest| latest + 1);
        job.work(0);
        drop(waiting);
        assert!(!job.failed.load(Ordering::Relaxed), "a block panicked on another thread");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.board.announce(None, |_| u64::MAX);
        for worker in self.workers.drain(..) {
            // Workers catch what blocks throw; there is nothing to tell.
            let _ = worker.join();
        }
    }
}

impl Board {
    /// Puts up a job under a new number.
    fn announce(&self, job: Option<Arc<Job>>, number: fn(u64) -> u64) {
        let mut place = lock(&self.job);
        *place = job;
        self.latest.store(number(self.latest.load(Ordering::Relaxed)), Ordering::Release);
        drop(place);
        self.news.notify_all();
    }

    /// The life of a worker.
    fn serve(&self, number: usize) {
        let mut seen = 0;
        loop {
            for _ in 0..ROUNDS {
                if self.latest.load(Ordering::Acquire) != seen {
                    break;
                }
                std::hint::spin_loop();
            }
            let mut job = lock(&self.job);
            while self.latest.load(Ordering::Acquire) == seen {
                job = self.news.wait(job).unwrap_or_else(PoisonError::into_inner);
            }
            seen = self.latest.load(Ordering::Acquire);
            let latest = job.clone();
            drop(job);
            if seen == u64::MAX {
                return;
            }
            if let Some(job) = latest {
                // `Piece` tells the caller of a panic.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.work(number)));
            }
        }
    }
}

impl Job {
    /// Works off the own share, then those of others.
    fn work(&self, own: usize) {
        let (others, rest) = self.shares.split_at(own);
        for share in rest.iter().chain(others) {
            while let Some((from, to)) = self.claim(share) {
                self.take(from, to);
            }
        }
    }

    fn claim(&self, share: &Share) -> Option<(u64, u64)> {
        let from = share.next.fetch_add(self.piece, Ordering::Relaxed);
        (from < share.end).then(|| (from, (from + self.piece).min(share.end)))
    }

    /// Runs items that have been claimed.
    fn take(&self, from: u64, to: u64) {
        let _piece = Piece { job: self, items: to - from };
        // SAFETY: these items are claimed and not done, so that the caller of `Pool::cover` has not returned: what it was
        // given lives.
        let run = unsafe { &*self.run.0 };
        run(from, to);
    }

    fn account(&self, items: u64) {
        if self.done.fetch_add(items, Ordering::AcqRel) + items == self.items {
            let _held = lock(&self.sleeper);
            self.finished.notify_all();
        }
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire) == self.items
    }
}

/// Claimed items, which are done with even if running them panics.
struct Piece<'j> {
    job: &'j Job,
    items: u64,
}

impl Drop for Piece<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.job.failed.store(true, Ordering::Relaxed);
        }
        self.job.account(self.items);
    }
}

/// Waits, when dropped, until all items are done with; those that nobody has claimed are dropped.
struct Waiting<'j>(&'j Arc<Job>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let job = self.0;
        for share in &job.shares {
            while let Some((from, to)) = job.claim(share) {
                job.account(to - from);
            }
        }
        for _ in 0..ROUNDS {
            if job.is_done() {
                return;
            }
            std::hint::spin_loop();
        }
        let mut held = lock(&job.sleeper);
        while !job.is_done() {
            held = job.finished.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_run_once() {
        for threads in [1, 2, 3, 5] {
            let pool = Pool::new(Some(threads)).expect("threads");
            assert_eq!(pool.threads(), threads);
            for items in (0..70).chain([1000, 12_345]) {
                let counts: Vec<AtomicU64> = (0..items).map(|_| AtomicU64::new(0)).collect();
                pool.cover(items, &|from, to| {
                    (from..to).for_each(|item| {
                        counts[item as usize].fetch_add(1, Ordering::Relaxed);
                    });
                });
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{items} on {threads}");
            }
        }
    }

    /// What one launch writes the next one reads, whoever ran it.
    #[test]
    fn launches_see_each_other() {
        let pool = Pool::new(Some(4)).expect("threads");
        let cells: [Vec<AtomicU64>; 2] = [0, 1].map(|_| (0..9).map(|_| AtomicU64::new(1)).collect());
        for launch in 0..2000 {
            let (from, to) = (&cells[launch % 2], &cells[(launch + 1) % 2]);
            pool.cover(9, &|low, high| {
                for item in low as usize..high as usize {
                    let sum = from[item].load(Ordering::Relaxed) + from[(item + 4) % 9].load(Ordering::Relaxed);
                    to[item].store(sum % 1_000_003, Ordering::Relaxed);
                }
            });
        }
        let mut expected = [1u64; 9];
        for _ in 0..2000 {
            expected = std::array::from_fn(|item| (expected[item] + expected[(item + 4) % 9]) % 1_000_003);
        }
        assert!(cells[0].iter().zip(expected).all(|(cell, expected)| cell.load(Ordering::Relaxed) == expected));
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::new(Some(3)).expect("threads");
        let run = |from: u64, to: u64| assert!(!(from..to).contains(&17), "item 17");
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| pool.cover(40, &run)));
        assert!(caught.is_err());
        let sum = AtomicU64::new(0);
        pool.cover(40, &|from, to| {
            sum.fetch_add((from..to).sum(), Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 780);
    }
}
