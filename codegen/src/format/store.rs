//! Conversion: the contents of all arrays of a layout.
//!
//! One pass over the rows in their new order; time and memory are linear in cells (sorting columns of a permuted row
//! aside).

use kernelwright_syntax::program::{Base, Coding, Format, Level};

use super::compressed::Compressed;
use super::delta::{self, Cell};
use super::layout::{self, Arranged, Array, Kind, Layout, Role, Starts};
use super::{Companion, FormatError, Matrix};

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
    /// Contents, one per array of the layout, and after them those of the companions.
    pub contents: Vec<Contents>,
    /// Matrices stored beside it ([`companion::add`](super::companion::add)).
    pub companions: Vec<Companion>,
    /// Row r of the stored matrix is row `order[r]` of the given one; none where nothing moved.
    pub order: Option<Vec<u64>>,
    /// The first row of the given matrix (by its number) that has no diagonal entry or a zero there, if the diagonal was
    /// asked for.
    pub zero_diagonal: Option<u64>,
}

impl Stored {
    /// Bytes of all arrays that products with the matrix and its companions read; `real` is the size of a vector's
    /// element.
    pub fn bytes(&self, real: u64) -> u64 {
        let companions = self.companions.iter().map(|companion| companion.layout.bytes(real));
        self.layout.bytes(real) + companions.sum::<u64>()
    }
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

    /// All elements as reals, as back ends take them.
    pub fn reals(&self) -> Vec<f64> {
        (0..self.len()).map(|at| self.real(at)).collect()
    }

    fn set_real(&mut self, at: usize, value: f64) {
        if let Contents::Real(values) = self {
            values[at] = value;
        }
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
    writer.take_diagonal();
    if writer.layout.by_entries() {
        writer.entries()
    } else {
        writer.chunks()?
    }
    Ok(writer.finish(options))
}

/// Rows with the columns that are stored for them, ascending.
enum Rows {
    /// Those of the matrix, in the order of the format.
    Given,
    /// Copies, in order: their columns moved.
    Moved(Compressed),
}

/// A conversion under way.
struct Writer<'m> {
    matrix: &'m Matrix<'m>,
    layout: Layout,
    /// That of the layout's format, in full.
    nest: [Level; 3],
    contents: Vec<Contents>,
    order: Option<Vec<u64>>,
    rows: Rows,
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
        let moves = order.as_deref().filter(|_| options.basis == Basis::Permuted);
        let rows = moves.map_or(Rows::Given, |order| Rows::Moved(Compressed::moved(matrix, order)));
        let contents = layout.arrays.iter().map(Contents::zeros).collect();
        let diagonal = if options.diagonal { vec![0.0; layout.size as usize] } else { Vec::new() };
        Writer {
            matrix,
            nest: layout::nest(&layout.format),
            layout,
            contents,
            order,
            rows,
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

    /// Stored columns, ascending, and values of a stored row; of none beyond the last.
    fn row(&self, row: u64) -> (&[usize], &[f64]) {
        if row >= self.layout.size {
            return (&[], &[]);
        }
        match &self.rows {
            Rows::Given => {
                let range = self.matrix.entries_of(self.given(row));
                (&self.matrix.column[range.clone()], &self.matrix.value[range])
            }
            Rows::Moved(moved) => moved.row(row as usize),
        }
    }

    /// The diagonal, and the first row that has none.
    fn take_diagonal(&mut self) {
        for row in 0..self.diagonal.len() {
            let given = self.given(row as u64);
            let value = self.matrix.diagonal(given);
            self.diagonal[row] = value;
            let earlier = self.zero_diagonal.is_none_or(|found| found > given as u64);
            if value == 0.0 && earlier && given < self.matrix.rows() {
                self.zero_diagonal = Some(given as u64);
            }
        }
    }

    /// An array, out of the others while it is filled, with its number.
    fn taken(&mut self, role: Role) -> Option<(usize, Contents)> {
        let (number, _) = self.layout.array(role)?;
        Some((number, std::mem::replace(&mut self.contents[number], Contents::U16(Vec::new()))))
    }

    fn give_back(&mut self, taken: Option<(usize, Contents)>) {
        if let Some((number, contents)) = taken {
            self.contents[number] = contents;
        }
    }

    /// Entry after entry, each with its row.
    fn entries(&mut self) {
        let [mut values, mut columns, mut rows] = [Role::Value, Role::Column, Role::Row].map(|role| self.taken(role));
        let mut at = 0;
        for row in 0..self.layout.size {
            let (column, value) = self.row(row);
            for (&column, &value) in column.iter().zip(value) {
                values.iter_mut().for_each(|array| array.1.set_real(at, value));
                columns.iter_mut().for_each(|array| array.1.set(at, column as u64));
                rows.iter_mut().for_each(|array| array.1.set(at, row));
                at += 1;
            }
        }
        [values, columns, rows].into_iter().for_each(|taken| self.give_back(taken));
    }

    /// Chunk after chunk, wherever its cells lie.
    fn chunks(&mut self) -> Result<(), FormatError> {
        let height = self.layout.height;
        let [mut values, mut columns] = [Role::Value, Role::Column].map(|role| self.taken(role));
        for chunk in 0..self.layout.chunks {
            for lane in 0..height {
                let (column, value) = self.row(chunk * height + lane);
                let fill = column.last().copied().unwrap_or(0);
                for slot in 0..self.slots[chunk as usize] {
                    let at = self.cell(chunk, slot, lane);
                    let entry = slot as usize;
                    // Padding is zero already.
                    if let (Some((_, array)), Some(&value)) = (&mut values, value.get(entry)) {
                        array.set_real(at, value);
                    }
                    if let Some((_, array)) = &mut columns {
                        array.set(at, *column.get(entry).unwrap_or(&fill) as u64);
                    }
                }
            }
            if let Coding::Delta { base, escape } = self.layout.format.coding {
                self.codes(chunk, base, escape)?;
            }
        }
        [values, columns].into_iter().for_each(|taken| self.give_back(taken));
        Ok(())
    }

    /// Codes, bases and columns aside of a chunk.
    fn codes(&mut self, chunk: u64, base: Base, escape: bool) -> Result<(), FormatError> {
        let (slots, height) = (self.slots[chunk as usize], self.layout.height);
        let units = match base {
            Base::Row => height as usize,
            Base::Chunk => 1,
            Base::ChunkSlot => slots as usize,
        };
        let rows: Vec<&[usize]> = (0..height).map(|lane| self.row(chunk * height + lane).0).collect();
        let coded = delta::chunk(&cells(&rows, slots as usize, base), units);
        if !escape && !coded.aside.is_empty() {
            return Err(self.too_far(chunk, &rows, coded.aside[0]));
        }
        let mut codes = self.taken(Role::Code);
        for (number, code) in coded.codes.iter().enumerate() {
            let at = self.cell(chunk, number as u64 / height, number as u64 % height);
            codes.iter_mut().for_each(|array| array.1.set(at, u64::from(*code)));
        }
        self.give_back(codes);
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
    fn too_far(&self, chunk: u64, rows: &[&[usize]], column: u64) -> FormatError {
        let lane = rows.iter().position(|columns| columns.contains(&(column as usize))).unwrap_or(0);
        let row = chunk * self.layout.height + lane as u64;
        let given = if matches!(self.rows, Rows::Given) { column } else { self.given(column) as u64 };
        FormatError::TooFar { format: self.layout.format.name.clone(), row: self.given(row) as u64, column: given }
    }

    /// The number of a slot of a chunk among all of them, in the order of storage.
    fn unit(&self, chunk: u64, slot: u64) -> u64 {
        let place = |level: Level| self.nest.iter().position(|l| *l == level);
        let by_slot = place(Level::Slot) < place(Level::Chunk);
        if by_slot { self.slot_start[slot as usize] + chunk } else { self.chunk_start[chunk as usize] + slot }
    }

    /// Where a cell lies; the table in [`super`].
    fn cell(&self, chunk: u64, slot: u64, lane: u64) -> usize {
        let (h, slots) = (self.layout.height, self.slots[chunk as usize]);
        let (p, q) = (self.chunk_start[chunk as usize], self.slot_start[slot as usize]);
        let total = self.layout.cells / h;
        let having = self.slot_start[slot as usize + 1] - q;
        use Level::{Chunk, Slot};
        let place = match self.nest {
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
        Stored {
            layout: self.layout,
            contents: self.contents,
            companions: Vec::new(),
            order: self.order,
            zero_diagonal: self.zero_diagonal,
        }
    }
}

/// Cells of a chunk with their units, in the order (slot, lane).
fn cells(rows: &[&[usize]], slots: usize, base: Base) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(rows.len() * slots);
    for slot in 0..slots {
        for (lane, columns) in rows.iter().enumerate() {
            let unit = match base {
                Base::Row => lane,
                Base::Chunk => 0,
                Base::ChunkSlot => slot,
            };
            let fill = columns.last().map_or(0, |&c| c as u64);
            cells.push(Cell { column: columns.get(slot).map(|&c| c as u64), fill, unit });
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
