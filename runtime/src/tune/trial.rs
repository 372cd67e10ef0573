//! Candidates of a search and what became of them.

use serde::Serialize;

use super::record::{Record, Verdict};
use crate::backend::{Backend, KernelHandle, KernelInfo};

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

impl Trial {
    /// One that failed.
    pub(super) fn failed(variant: Vec<(String, String)>, reason: String) -> Trial {
        let verdict = Verdict::Failed;
        Trial { variant, verdict, reason, seconds: None, spread: 0.0, samples: 0, info: None, remembered: false }
    }

    /// One that an earlier tune measured.
    pub(super) fn remembered(variant: Vec<(String, String)>, record: &Record) -> Trial {
        Trial {
            variant,
            verdict: record.verdict,
            reason: record.reason.clone(),
            seconds: record.seconds,
            spread: record.spread,
            samples: record.samples,
            info: record.info.clone(),
            remembered: true,
        }
    }
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

/// Resources of a candidate: of several kernels the largest.
pub(super) fn info(backend: &dyn Backend, kernels: &[KernelHandle]) -> Option<KernelInfo> {
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
