//! Columns of a chunk as distances and codes: what conversion writes and prediction counts.
//!
//! Columns are counted from an origin of their row first ([`Origin`]), then from the base of their unit ([`delta`]). Counted
//! from the row's number, a distance may be negative: all are raised by the number of columns, which kernels take off again.
//!
//! Where rows of a chunk have one shape, all its codes are 0, and none are stored ([`Layout::elides`]). So that padding does
//! not spoil that, it takes the column its base gives wherever that is inside the matrix; where it is not, padding is
//! coded like an entry at the nearest column inside.

use kernelwright_syntax::program::{Base, Coding, Origin};

use super::aligned::entry;
use super::delta::{self, Cell};
use super::layout::Layout;

/// How a layout codes columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coder<'l> {
    layout: &'l Layout,
    base: Base,
    origin: Origin,
    escape: bool,
}

/// An entry that no base reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Far {
    /// The lane of its row.
    pub(super) lane: u64,
    /// Its column.
    pub(super) column: u64,
}

impl<'l> Coder<'l> {
    /// That of a layout with distances; none for plain columns.
    pub(super) fn of(layout: &'l Layout) -> Option<Coder<'l>> {
        match layout.format.coding {
            Coding::Delta { base, origin, escape } => Some(Coder { layout, base, origin, escape }),
            Coding::U32 | Coding::U64 => None,
        }
    }

    /// Units of a chunk of so many slots.
    pub(super) fn units(&self, slots: u64) -> u64 {
        match self.base {
            Base::Row => self.layout.height,
            Base::Chunk => 1,
            Base::ChunkSlot => slots,
        }
    }

    /// Codes a chunk: `rows` are the ascending columns of its rows, `distances` those that its slots are aligned by.
    pub(super) fn chunk(
        &self,
        chunk: u64,
        rows: &[&[usize]],
        slots: u64,
        distances: &[i64],
    ) -> Result<delta::Chunk, Far> {
        let first = chunk * self.layout.height;
        let mut cells = self.cells(first, rows, slots, distances);
        // A unit without entries holds what is nearest to hand: the row's own number, or its first column.
        let rest = self.layout.bias();
        loop {
            let coded = delta::chunk(&cells, self.units(slots) as usize, rest);
            if !self.escape && !coded.aside.is_empty() {
                return Err(self.far(first, rows, &cells, &coded));
            }
            if self.origin == Origin::Zero || !self.pin(first, rows, &mut cells, &coded) {
                return Ok(coded);
            }
        }
    }

    /// Whether bases alone say every column of a chunk.
    pub(super) fn is_exact(&self, coded: &delta::Chunk) -> bool {
        coded.aside.is_empty() && coded.codes.iter().all(|code| *code == 0)
    }

    /// Cells in the order (slot, lane).
    fn cells(&self, first: u64, rows: &[&[usize]], slots: u64, distances: &[i64]) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(rows.len() * slots as usize);
        for slot in 0..slots {
            for (lane, columns) in rows.iter().enumerate() {
                let row = first + lane as u64;
                let unit = match self.base {
                    Base::Row => lane,
                    Base::Chunk => 0,
                    Base::ChunkSlot => slot as usize,
                };
                let column = entry(distances, row, columns, slot).map(|at| self.distance(row, columns, columns[at]));
                let fill = self.distance(row, columns, columns.last().copied().unwrap_or(0));
                cells.push(Cell { column, fill, unit, follows: self.origin != Origin::Zero });
            }
        }
        cells
    }

    /// A column of a row as it is coded.
    fn distance(&self, row: u64, columns: &[usize], column: usize) -> u64 {
        match self.origin {
            Origin::Zero => column as u64,
            // Rows that fill up the last chunk have no columns.
            Origin::Row => (column as u64 + self.layout.size).saturating_sub(row),
            Origin::First => column.saturating_sub(columns.first().copied().unwrap_or(0)) as u64,
        }
    }

    /// The column of a distance, which may be outside.
    fn column(&self, row: u64, columns: &[usize], distance: u64) -> i64 {
        match self.origin {
            Origin::Zero => distance as i64,
            Origin::Row => distance as i64 + row as i64 - self.layout.size as i64,
            Origin::First => distance as i64 + columns.first().map_or(0, |&first| first as i64),
        }
    }

    /// Makes entries of padding whose column would be outside; whether there was any.
    fn pin(&self, first: u64, rows: &[&[usize]], cells: &mut [Cell], coded: &delta::Chunk) -> bool {
        let (size, height, count) = (self.layout.size, rows.len(), coded.aside.len() as u64);
        let aside = |n: u64| coded.aside[n as usize];
        let mut any = false;
        for (at, cell) in cells.iter_mut().enumerate().filter(|(_, cell)| cell.column.is_none()) {
            let (row, columns) = (first + (at % height) as u64, rows[at % height]);
            let distance = delta::decode(coded.codes[at], coded.bases[cell.unit], count, &aside, at as u64);
            let column = self.column(row, columns, distance);
            if row < size && !(0..size as i64).contains(&column) {
                let near = column.clamp(0, size as i64 - 1) as usize;
                cell.column = Some(self.distance(row, columns, near));
                any = true;
            }
        }
        any
    }

    /// The first entry that lies aside.
    fn far(&self, first: u64, rows: &[&[usize]], cells: &[Cell], coded: &delta::Chunk) -> Far {
        let distance = coded.aside[0];
        let at = cells.iter().position(|cell| cell.column == Some(distance)).unwrap_or(0);
        let lane = at % rows.len().max(1);
        let column = self.column(first + lane as u64, rows.get(lane).copied().unwrap_or(&[]), distance);
        Far { lane: lane as u64, column: column.max(0) as u64 }
    }
}
