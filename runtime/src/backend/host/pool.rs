//! Blocks of a launch on the cores of the host.
//!
//! Every thread owns a contiguous share of the blocks, the same in every launch, so that it meets the memory it touched
//! first; when done it helps others. Which thread runs a block never changes a result: blocks write what is theirs.

use crate::backend::BackendError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pieces a share is handed out in: more balance better, fewer cost less.
const PIECES: u64 = 8;

/// Worker threads.
#[derive(Debug)]
pub struct Pool {
    pool: rayon::ThreadPool,
}

/// A contiguous range of items with the first one not yet taken; on a cache line of its own.
#[repr(align(64))]
struct Share {
    next: AtomicU64,
    end: u64,
}

impl Pool {
    /// A pool of so many threads; one per core (or `RAYON_NUM_THREADS`) if not given.
    pub fn new(threads: Option<usize>) -> Result<Pool, BackendError> {
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads.unwrap_or(0))
            .thread_name(|number| format!("kernelwright-{number}"))
            .build()
            .map(|pool| Pool { pool })
            .map_err(|error| BackendError::Device(format!("no worker threads: {error}")))
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `run(from, to)` for ranges that cover `0..items` once, and waits.
    pub fn cover(&self, items: u64, run: &(dyn Fn(u64, u64) + Sync)) {
        let threads = self.threads() as u64;
        if items <= 1 || threads == 1 {
            return run(0, items);
        }
        // items * share may exceed 64 bits.
        let bound = |share: u64| (u128::from(items) * u128::from(share) / u128::from(threads)) as u64;
        let shares: Vec<Share> =
            (0..threads).map(|t| Share { next: AtomicU64::new(bound(t)), end: bound(t + 1) }).collect();
        let piece = (items / threads / PIECES).max(1);
        self.pool.broadcast(|worker| {
            let (others, own) = shares.split_at(worker.index());
            for share in own.iter().chain(others) {
                work_off(share, piece, run);
            }
        });
    }
}

fn work_off(share: &Share, piece: u64, run: &(dyn Fn(u64, u64) + Sync)) {
    loop {
        let from = share.next.fetch_add(piece, Ordering::Relaxed);
        if from >= share.end {
            return;
        }
        run(from, (from + piece).min(share.end));
    }
}
