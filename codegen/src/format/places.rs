//! Where cells lie, and arrays of cells filled by all cores.
//!
//! The cells of one element of the outermost level lie together. So an array is cut there, whatever the nest, and pieces are
//! written side by side; what is written does not depend on how many there are.

use std::ops::Range;

use kernelwright_syntax::program::Level;
use rayon::prelude::*;

use super::layout::{self, Layout};

/// Cells of a piece at least, where its elements are small.
const PIECE: u64 = 1 << 16;
/// Slots of a piece at most, where slots are outermost: of each row as many are read together as a cache line holds.
const SLOTS: u64 = 8;
/// Pieces there should be, where slots are outermost.
const PIECES: u64 = 16;

/// Places of the cells of a layout; the table in [`super`].
pub(super) struct Places {
    /// That of the layout's format, in full.
    nest: [Level; 3],
    height: u64,
    chunks: u64,
    longest: u64,
    /// Slots of all chunks.
    total: u64,
    /// Slots of each chunk.
    pub(super) slots: Vec<u64>,
    /// P and Q, whether stored or not.
    pub(super) chunk_start: Vec<u64>,
    pub(super) slot_start: Vec<u64>,
}

impl Places {
    pub(super) fn new(layout: &Layout, slots: Vec<u64>) -> Places {
        // Chunks by their number of slots, then how many have more than s.
        let mut count = vec![0u64; layout.longest as usize + 1];
        slots.iter().for_each(|&n| count[n as usize] += 1);
        let mut having = layout.chunks;
        let per_slot: Vec<u64> = (0..layout.longest as usize)
            .map(|s| {
                having -= count[s];
                having
            })
            .collect();
        // Entries that store their rows come row after row.
        let by_entries = layout.by_entries();
        let nest = if by_entries { [Level::Chunk, Level::Slot, Level::Lane] } else { layout::nest(&layout.format) };
        Places {
            nest,
            height: layout.height,
            chunks: layout.chunks,
            longest: layout.longest,
            total: layout.cells / layout.height,
            chunk_start: prefix(slots.iter().copied()),
            slot_start: prefix(per_slot.into_iter()),
            slots,
        }
    }

    fn position(&self, level: Level) -> Option<usize> {
        self.nest.iter().position(|l| *l == level)
    }

    /// Whether cells lie in the order (chunk, slot, lane).
    pub(super) fn is_plain(&self) -> bool {
        self.nest == [Level::Chunk, Level::Slot, Level::Lane]
    }

    /// The number of a slot of a chunk among all of them, in the order of storage.
    pub(super) fn unit(&self, chunk: u64, slot: u64) -> u64 {
        let by_slot = self.position(Level::Slot) < self.position(Level::Chunk);
        if by_slot { self.slot_start[slot as usize] + chunk } else { self.chunk_start[chunk as usize] + slot }
    }

    /// Where a cell lies.
    fn cell(&self, chunk: u64, slot: u64, lane: u64) -> u64 {
        let (h, slots) = (self.height, self.slots[chunk as usize]);
        let p = self.chunk_start[chunk as usize];
        let q = |s: u64| self.slot_start[s as usize];
        use Level::{Chunk, Slot};
        match self.nest {
            [Chunk, Slot, _] => (p + slot) * h + lane,
            [Chunk, _, _] => p * h + lane * slots + slot,
            [Slot, Chunk, _] => (q(slot) + chunk) * h + lane,
            [Slot, _, _] => q(slot) * h + lane * (q(slot + 1) - q(slot)) + chunk,
            [_, Chunk, _] => lane * self.total + p + slot,
            [_, _, _] => lane * self.total + q(slot) + chunk,
        }
    }

    /// Number of elements of a level.
    fn extent(&self, level: Level) -> u64 {
        match level {
            Level::Chunk => self.chunks,
            Level::Slot => self.longest,
            _ => self.height,
        }
    }

    /// The outermost level that has several elements.
    fn outermost(&self) -> Level {
        self.nest.into_iter().find(|level| self.extent(*level) > 1).unwrap_or(self.nest[0])
    }

    /// The first cell of an element of the outermost level.
    fn first(&self, outermost: Level, element: u64) -> u64 {
        match outermost {
            Level::Chunk => self.chunk_start[element as usize] * self.height,
            Level::Slot => self.slot_start[element as usize] * self.height,
            _ => element * self.total,
        }
    }

    /// Elements of the outermost level, piece by piece.
    fn pieces(&self, outermost: Level) -> Vec<Range<u64>> {
        let extent = self.extent(outermost);
        if outermost == Level::Slot {
            let each = (self.longest / PIECES).clamp(1, SLOTS);
            return (0..extent).step_by(each as usize).map(|first| first..(first + each).min(extent)).collect();
        }
        let (mut pieces, mut begin) = (Vec::new(), 0);
        for end in 1..=extent {
            let cells = self.first(outermost, end) - self.first(outermost, begin);
            if cells >= PIECE || end == extent {
                pieces.push(begin..end);
                begin = end;
            }
        }
        pieces
    }

    /// Fills an array of cells: `row` gives what is to be had of a lane of a chunk, `element` from it that of a slot.
    pub(super) fn fill<T: Send, R>(
        &self,
        array: &mut [T],
        row: impl Fn(u64, u64) -> R + Sync,
        element: impl Fn(&R, u64) -> T + Sync,
    ) {
        let outermost = self.outermost();
        let pieces = self.pieces(outermost);
        let len = |piece: &Range<u64>| self.first(outermost, piece.end) - self.first(outermost, piece.start);
        let parts = cut(array, pieces.iter().map(|piece| len(piece) as usize));
        pieces.into_par_iter().zip(parts).for_each(|(piece, part)| {
            let origin = self.first(outermost, piece.start);
            let mut write = |chunk: u64, lane: u64, slots: Range<u64>| {
                let row = row(chunk, lane);
                for slot in slots {
                    part[(self.cell(chunk, slot, lane) - origin) as usize] = element(&row, slot);
                }
            };
            let (all_chunks, all_lanes) = (0..self.chunks, 0..self.height);
            let (chunks, lanes, from, to) = match outermost {
                Level::Chunk => (piece, all_lanes, 0, self.longest),
                Level::Slot => (all_chunks, all_lanes, piece.start, piece.end),
                _ => (all_chunks, piece, 0, self.longest),
            };
            for chunk in chunks {
                let slots = from..to.min(self.slots[chunk as usize]);
                if !slots.is_empty() {
                    lanes.clone().for_each(|lane| write(chunk, lane, slots.clone()));
                }
            }
        });
    }
}

/// Ranges of rows, or chunks, with about as many cells each; `start` are the cells before each.
pub(super) fn ranges(start: &[u64], cells: u64) -> Vec<Range<usize>> {
    let (mut ranges, mut begin) = (Vec::new(), 0);
    for end in 1..start.len() {
        if start[end] - start[begin] >= cells || end + 1 == start.len() {
            ranges.push(begin..end);
            begin = end;
        }
    }
    ranges
}

/// An array in consecutive parts of given lengths.
pub(super) fn cut<T>(array: &mut [T], lengths: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut rest = array;
    let one = |len: usize| {
        let (part, behind) = std::mem::take(&mut rest).split_at_mut(len);
        rest = behind;
        part
    };
    lengths.map(one).collect()
}

/// Sums of all before: one element more than there are values.
pub(super) fn prefix(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut total = 0;
    std::iter::once(0)
        .chain(values.map(|value| {
            total += value;
            total
        }))
        .collect()
}
