//! The shadow of a buffer: for every element its last write and the reads since, to find accesses in no order.

use std::collections::BTreeMap;

use super::order::{Access, Knowledge};

/// An unordered pair: the earlier access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conflict {
    Write(Access),
    Read(Access),
}

/// Shadow of a buffer that a launch may write to.
#[derive(Debug, Clone, Default)]
pub(super) struct Shadow {
    writes: Vec<Access>,
    /// Reads since the last write, by the block that read last: its last epoch.
    reads: Vec<Access>,
    /// The same for the blocks before it, of the same era. Blocks run one after another within an era, so a block
    /// that has moved here does not read again.
    earlier: BTreeMap<usize, Vec<Access>>,
}

impl Shadow {
    /// Makes it cover `len` elements.
    pub fn cover(&mut self, len: usize) {
        if self.writes.len() < len {
            self.writes.resize(len, Access::NONE);
            self.reads.resize(len, Access::NONE);
        }
    }

    /// Whether it covers nothing.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.writes.fill(Access::NONE);
        self.reads.fill(Access::NONE);
        self.earlier.clear();
    }

    /// A plain read.
    pub fn read(&mut self, index: usize, now: &Access, known: Option<&Knowledge>) -> Option<Conflict> {
        self.record_read(index, now);
        let write = &self.writes[index];
        (!write.precedes(now, known)).then_some(Conflict::Write(*write))
    }

    /// A write, plain or atomic. Atomic operations do not conflict with each other.
    pub fn write(&mut self, index: usize, now: &Access, known: Option<&Knowledge>) -> Option<Conflict> {
        let write = self.writes[index];
        let conflict = if !(write.precedes(now, known) || (write.atomic && now.atomic)) {
            Some(Conflict::Write(write))
        } else {
            self.unordered_read(index, now, known).map(Conflict::Read)
        };
        self.writes[index] = *now;
        if self.reads[index].spilled {
            self.earlier.remove(&index);
        }
        self.reads[index] = Access::NONE;
        conflict
    }

    fn unordered_read(&self, index: usize, now: &Access, known: Option<&Knowledge>) -> Option<Access> {
        let last = self.reads[index];
        if !last.precedes(now, known) {
            return Some(last);
        }
        if !last.spilled {
            return None;
        }
        let earlier = self.earlier.get(&index)?;
        earlier.iter().find(|read| !read.precedes(now, known)).copied()
    }

    fn record_read(&mut self, index: usize, now: &Access) {
        let last = &mut self.reads[index];
        if last.era < now.era {
            if last.spilled {
                self.earlier.remove(&index);
            }
            *last = *now;
        } else if last.block != now.block {
            self.earlier.entry(index).or_default().push(*last);
            *last = Access { spilled: true, ..*now };
        } else {
            let lane = if last.epoch == now.epoch && last.lane != now.lane { Access::SEVERAL } else { now.lane };
            *last = Access { lane, spilled: last.spilled, ..*now };
        }
    }
}
