//! Conversion: the contents of all arrays of a layout.
//!
//! One pass over the rows in their new order; time and memory are linear in cells (sorting columns of a permuted row
//! aside).

use kernelwright_syntax::program::{Base, Coding, Format, Level};

use super::delta::{self, Cell};
use super::layout::{self, Arranged, Array, Kind, Layout, Role, Starts};
use super::order::inverse;
use super::{FormatError, Matrix};

/// What is wanted beside the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Basis of the columns.
    pub basis: Basis,
    /// Whether the diagonal is stored too ([`Role::Diagonal`]), for `jacobi`.
    pub diagonal: bool,
}

/// Order of the columns, where a format moves rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// As the rows: P A Pᵀ acts on permuted vectors, as loops need it; square matrices only. Before a solve the
    /// right-hand side and the guess are permuted (element r of a permuted vector is element `order[r]` of the given
    /// one), after it the solution is permuted back.
    Permuted,
    /// As given: P A. The product is permuted, its operand is not.
    Given,
}

/// A stored matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// How it lies in memory.
    pub layout: Layout,
    /// Contents, one per array of the layout.
    pub contents: Vec<Contents>,
    /// Row r of the stored matrix is row `order[r]` of the given one; none where nothing moved.
    pub order: Option<Vec<u64>>,
    /// The first row of the given matrix (by its number) that has no diagonal entry or a zero there, if the diagonal was
    /// asked for.
    pub zero_diagonal: Option<u64>,
}

/// Elements of an array.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Contents {
    Real(Vec<f64>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
}

impl Contents {
    fn zeros(array: &Array) -> Contents {
        let len = array.len as usize;
        match array.kind {
            Kind::Real => Contents::Real(vec![0.0; len]),
            Kind::U16 => Contents::U16(vec![0; len]),
            Kind::U32 => Contents::U32(vec![0; len]),
            Kind::U64 => Contents::U64(vec![0; len]),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Contents::Real(v) => v.len(),
            Contents::U16(v) => v.len(),
            Contents::U32(v) => v.len(),
            Contents::U64(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// An element as a real: exact for all integers below 2^53.
    pub fn real(&self, at: usize) -> f64 {
        match self {
            Contents::Real(v) => v[at],
            Contents::U16(v) => f64::from(v[at]),
            Contents::U32(v) => f64::from(v[at]),
            Contents::U64(v) => v[at] as f64,
        }
    }

    /// An element of an array of integers.
    pub fn index(&self, at: usize) -> u64 {
        match self {
            Contents::Real(v) => v[at] as u64,
            Contents::U16(v) => u64::from(v[at]),
            Contents::U32(v) => u64::from(v[at]),
            Contents::U64(v) => v[at],
        }
    }

    /// All elements as reals, as back ends take them.
    pub fn reals(&self) -> Vec<f64> {
        (0..self.len()).map(|at| self.real(at)).collect()
    }

    fn set(&mut self, at: usize, value: u64) {
        match self {
            Contents::Real(v) => v[at] = value as f64,
            Contents::U16(v) => v[at] = value as u16,
            Contents::U32(v) => v[at] = value as u32,
            Contents::U64(v) => v[at] = value,
        }
    }
}

/// Stores a matrix in a format.
pub fn store(format: &Format, matrix: &Matrix<'_>, options: Options) -> Result<Stored, FormatError> {
    matrix.check()?;
    if options.basis == Basis::Permuted && matrix.rows() != matrix.columns && layout::sorts(format) {
        return Err(FormatError::NotSquare);
    }
    let arranged = layout::arrange(format, matrix.rows() as u64, matrix.columns as u64, &matrix.lengths())?;
    let mut writer = Writer::new(matrix, arranged, options);
    writer.starts();
    if writer.layout.by_entries() {
        writer.entries()
    } else {
        writer.chunks()?
    }
    Ok(writer.finish(options))
}

/// A conversion under way.
struct Writer<'m> {
    matrix: &'m Matrix<'m>,
    layout: Layout,
    contents: Vec<Contents>,
    order: Option<Vec<u64>>,
    /// Where columns go, if they move.
    inverse: Option<Vec<u64>>,
    /// Slots of each chunk.
    slots: Vec<u64>,
    /// P and Q, whether stored or not.
    chunk_start: Vec<u64>,
    slot_start: Vec<u64>,
    /// Columns aside of all chunks so far.
    aside: Vec<u64>,
    aside_start: Vec<u64>,
    diagonal: Vec<f64>,
    zero_diagonal: Option<u64>,
}

impl<'m> Writer<'m> {
    fn new(matrix: &'m Matrix<'m>, arranged: Arranged, options: Options) -> Writer<'m> {
        let Arranged { layout, order, slots } = arranged;
        let inverse = order.as_deref().filter(|_| options.basis == Basis::Permuted).map(inverse);
        let contents = layout.arrays.iter().map(Contents::zeros).collect();
        let diagonal = if options.diagonal { vec![0.0; layout.size as usize] } else { Vec::new() };
        Writer {
            matrix,
            layout,
            contents,
            order,
            inverse,
            slots,
            chunk_start: Vec::new(),
            slot_start: Vec::new(),
            aside: Vec::new(),
            aside_start: vec![0],
            diagonal,
            zero_diagonal: None,
        }
    }

    fn array(&mut self, role: Role) -> Option<&mut Contents> {
        let (number, _) = self.layout.array(role)?;
        self.contents.get_mut(number)
    }

    fn put(&mut self, role: Role, at: usize, value: u64) {
        if let Some(array) = self.array(role) {
            array.set(at, value);
        }
    }

    /// P, Q and lengths.
    fn starts(&mut self) {
        self.chunk_start = prefix(self.slots.iter().copied());
        // Chunks by their number of slots, then how many have more than s.
        let mut count = vec![0u64; self.layout.longest as usize + 1];
        self.slots.iter().for_each(|&n| count[n as usize] += 1);
        let mut having = self.layout.chunks;
        let per_slot: Vec<u64> = (0..self.layout.longest as usize)
            .map(|s| {
                having -= count[s];
                having
            })
            .collect();
        self.slot_start = prefix(per_slot.into_iter());
        for (role, values) in [
            (Role::ChunkStart, self.chunk_start.clone()),
            (Role::SlotStart, self.slot_start.clone()),
            (Role::ChunkLength, self.slots.clone()),
        ] {
            if let Some(array) = self.array(role) {
                values.into_iter().enumerate().for_each(|(at, value)| array.set(at, value));
            }
        }
        if self.layout.cuts() {
            self.tile_rows();
        }
        for row in 0..self.layout.size {
            let length = self.matrix.entries_of(self.given(row)).len() as u64;
            self.put(Role::Length, row as usize, length);
        }
    }

    /// The row of every so many entries; of those that begin at a place the one that is not empty.
    fn tile_rows(&mut self) {
        let last = self.slots.iter().rposition(|&n| n > 0).unwrap_or(0);
        let mut row = 0;
        for tile in 0..self.layout.entries.div_ceil(layout::TILE) {
            while self.chunk_start[row + 1] <= tile * layout::TILE {
                row += 1;
            }
            self.put(Role::TileRow, tile as usize, row as u64);
        }
        self.put(Role::TileRow, self.layout.entries.div_ceil(layout::TILE) as usize, last as u64);
    }

    /// The given row that is row `row` of the stored matrix.
    fn given(&self, row: u64) -> usize {
        self.order.as_ref().map_or(row as usize, |order| order[row as usize] as usize)
    }

    /// Entries of a stored row with their stored columns, ascending; also takes the diagonal.
    fn row(&mut self, row: u64) -> Vec<(u64, f64)> {
        if row >= self.layout.size {
            return Vec::new();
        }
        let given = self.given(row);
        let range = self.matrix.entries_of(given);
        let column = |&c: &usize| self.inverse.as_ref().map_or(c as u64, |inverse| inverse[c]);
        let columns = self.matrix.column[range.clone()].iter();
        let values = self.matrix.value[range.clone()].iter();
        let mut entries: Vec<(u64, f64)> = columns.map(column).zip(values.copied()).collect();
        if self.inverse.is_some() {
            entries.sort_unstable_by_key(|entry| entry.0);
        }
        if !self.diagonal.is_empty() {
            let place = self.matrix.column[range.clone()].binary_search(&given);
            let value = place.map_or(0.0, |at| self.matrix.value[range.start + at]);
            self.diagonal[row as usize] = value;
            let earlier = self.zero_diagonal.is_none_or(|found| found > given as u64);
            if value == 0.0 && earlier && given < self.matrix.rows() {
                self.zero_diagonal = Some(given as u64);
            }
        }
        entries
    }

    fn value(&mut self, at: usize, value: f64) {
        if let Some(Contents::Real(values)) = self.array(Role::Value) {
            values[at] = value;
        }
    }

    /// Entry after entry, each with its row.
    fn entries(&mut self) {
        let mut at = 0;
        for row in 0..self.layout.size {
            for (column, value) in self.row(row) {
                self.value(at, value);
                self.put(Role::Column, at, column);
                self.put(Role::Row, at, row);
                at += 1;
            }
        }
    }

    /// Chunk after chunk, wherever its cells lie.
    fn chunks(&mut self) -> Result<(), FormatError> {
        for chunk in 0..self.layout.chunks {
            let height = self.layout.height;
            let rows: Vec<Vec<(u64, f64)>> = (0..height).map(|lane| self.row(chunk * height + lane)).collect();
            let slots = self.slots[chunk as usize];
            for slot in 0..slots {
                for (lane, entries) in rows.iter().enumerate() {
                    let at = self.cell(chunk, slot, lane as u64);
                    let entry = entries.get(slot as usize).copied();
                    self.value(at, entry.map_or(0.0, |e| e.1));
                    let fill = entries.last().map_or(0, |e| e.0);
                    self.put(Role::Column, at, entry.map_or(fill, |e| e.0));
                }
            }
            if let Coding::Delta { base, escape } = self.layout.format.coding {
                self.codes(chunk, &rows, base, escape)?;
            }
        }
        Ok(())
    }

    /// Codes, bases and columns aside of a chunk.
    fn codes(&mut self, chunk: u64, rows: &[Vec<(u64, f64)>], base: Base, escape: bool) -> Result<(), FormatError> {
        let slots = self.slots[chunk as usize];
        let units = match base {
            Base::Row => rows.len(),
            Base::Chunk => 1,
            Base::ChunkSlot => slots as usize,
        };
        let coded = delta::chunk(&cells(rows, slots as usize, base), units);
        if !escape && !coded.aside.is_empty() {
            return Err(self.too_far(chunk, rows, &coded.aside));
        }
        for (number, code) in coded.codes.iter().enumerate() {
            let (slot, lane) = (number as u64 / rows.len() as u64, number as u64 % rows.len() as u64);
            let at = self.cell(chunk, slot, lane);
            self.put(Role::Code, at, u64::from(*code));
        }
        for (unit, value) in coded.bases.iter().enumerate() {
            let at = match base {
                Base::Row => chunk * self.layout.height + unit as u64,
                Base::Chunk => chunk,
                Base::ChunkSlot => self.unit(chunk, unit as u64),
            };
            self.put(Role::Base, at as usize, *value);
        }
        self.aside.extend(coded.aside);
        self.aside_start.push(self.aside.len() as u64);
        Ok(())
    }

    /// The error for a column that no base reaches.
    fn too_far(&self, chunk: u64, rows: &[Vec<(u64, f64)>], aside: &[u64]) -> FormatError {
        let column = aside[0];
        let lane = rows.iter().position(|entries| entries.iter().any(|e| e.0 == column)).unwrap_or(0);
        let row = chunk * self.layout.height + lane as u64;
        let given = self.inverse.as_ref().map_or(column, |_| self.given(column) as u64);
        FormatError::TooFar { format: self.layout.format.name.clone(), row: self.given(row) as u64, column: given }
    }

    /// The number of a slot of a chunk among all of them, in the order of storage.
    fn unit(&self, chunk: u64, slot: u64) -> u64 {
        let nest = layout::nest(&self.layout.format);
        let by_slot = nest.iter().position(|l| *l == Level::Slot) < nest.iter().position(|l| *l == Level::Chunk);
        if by_slot { self.slot_start[slot as usize] + chunk } else { self.chunk_start[chunk as usize] + slot }
    }

    /// Where a cell lies; the table in [`super`].
    fn cell(&self, chunk: u64, slot: u64, lane: u64) -> usize {
        let (h, slots) = (self.layout.height, self.slots[chunk as usize]);
        let (p, q) = (self.chunk_start[chunk as usize], self.slot_start[slot as usize]);
        let total = self.layout.cells / h;
        let having = self.slot_start[slot as usize + 1] - q;
        use Level::{Chunk, Slot};
        let place = match layout::nest(&self.layout.format) {
            [Chunk, Slot, _] => (p + slot) * h + lane,
            [Chunk, _, _] => p * h + lane * slots + slot,
            [Slot, Chunk, _] => (q + chunk) * h + lane,
            [Slot, _, _] => q * h + lane * having + chunk,
            [_, Chunk, _] => lane * total + p + slot,
            [_, _, _] => lane * total + q + chunk,
        };
        place as usize
    }

    fn finish(mut self, options: Options) -> Stored {
        if let Coding::Delta { .. } = self.layout.format.coding
            && !self.aside.is_empty()
        {
            self.layout.escapes = self.aside.len() as u64;
            let start = layout::index(self.layout.escapes);
            let kinds = [(Role::EscapeStart, start), (Role::Escape, layout::index(self.layout.size))];
            for ((role, kind), values) in kinds.into_iter().zip([self.aside_start, self.aside]) {
                let array = Array { role, kind, len: values.len() as u64 };
                let mut contents = Contents::zeros(&array);
                values.into_iter().enumerate().for_each(|(at, value)| contents.set(at, value));
                self.layout.arrays.push(array);
                self.contents.push(contents);
            }
        }
        if options.diagonal {
            self.layout.arrays.push(Array { role: Role::Diagonal, kind: Kind::Real, len: self.layout.size });
            self.contents.push(Contents::Real(self.diagonal));
        }
        debug_assert!(self.layout.starts() != Starts::Slots || self.slots.windows(2).all(|w| w[0] >= w[1]));
        Stored { layout: self.layout, contents: self.contents, order: self.order, zero_diagonal: self.zero_diagonal }
    }
}

/// Cells of a chunk with their units, in the order (slot, lane).
fn cells(rows: &[Vec<(u64, f64)>], slots: usize, base: Base) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(rows.len() * slots);
    for slot in 0..slots {
        for (lane, entries) in rows.iter().enumerate() {
            let unit = match base {
                Base::Row => lane,
                Base::Chunk => 0,
                Base::ChunkSlot => slot,
            };
            let fill = entries.last().map_or(0, |e| e.0);
            cells.push(Cell { column: entries.get(slot).map(|e| e.0), fill, unit });
        }
    }
    cells
}

/// Sums of all before: one element more than there are values.
fn prefix(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut total = 0;
    std::iter::once(0)
        .chain(values.map(|value| {
            total += value;
            total
        }))
        .collect()
}
