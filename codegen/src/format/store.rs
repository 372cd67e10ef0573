//! Conversion: the contents of all arrays of a layout.
//!
//! Time and memory are linear in cells (sorting columns of a permuted row aside); all cores write ([`places`](super::places)).

use kernelwright_syntax::program::{Base, Coding, Format, Level, Origin};
use rayon::prelude::*;

use super::aligned;
use super::coding::{Coder, Far};
use super::compressed::Compressed;
use super::layout::{self, Arranged, Array, Kind, Layout, Role, Starts};
use super::places::{Places, cut, ranges};
use super::{Companion, FormatError, Matrix};

/// Cells of the chunks that are coded one after another.
const CODED: u64 = 1 << 15;

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
    let arranged = layout::of_matrix(format, matrix, &matrix.lengths())?;
    let mut writer = Writer::new(matrix, arranged, options);
    writer.starts();
    writer.take_diagonal();
    writer.cells();
    if let Coding::Delta { base, origin, .. } = writer.layout.format.coding {
        writer.codes(base)?;
        writer.first_columns(origin);
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

/// What is found of consecutive chunks while they are coded.
#[derive(Default)]
struct Piece {
    /// Whether each needs no codes.
    exact: Vec<bool>,
    /// Columns aside of each.
    aside: Vec<Vec<u64>>,
}

/// A stored row.
#[derive(Clone, Copy)]
struct Line<'w> {
    row: u64,
    columns: &'w [usize],
    values: &'w [f64],
    distances: &'w [i64],
}

impl Line<'_> {
    /// The entry of a slot; none where it is padding.
    fn entry(&self, slot: u64) -> Option<usize> {
        aligned::entry(self.distances, self.row, self.columns, slot)
    }
}

/// A conversion under way.
struct Writer<'m> {
    matrix: &'m Matrix<'m>,
    layout: Layout,
    places: Places,
    contents: Vec<Contents>,
    order: Option<Vec<u64>>,
    rows: Rows,
    /// Distances that slots are aligned by.
    distances: Vec<Vec<i64>>,
    /// Slots of chunks with codes before each chunk, where some have none.
    code_start: Vec<u64>,
    codes: Vec<u16>,
    /// Columns aside of all chunks.
    aside: Vec<u64>,
    aside_start: Vec<u64>,
    diagonal: Vec<f64>,
    zero_diagonal: Option<u64>,
}

impl<'m> Writer<'m> {
    fn new(matrix: &'m Matrix<'m>, arranged: Arranged, options: Options) -> Writer<'m> {
        let Arranged { layout, order, slots, distances } = arranged;
        let moves = order.as_deref().filter(|_| options.basis == Basis::Permuted);
        let rows = moves.map_or(Rows::Given, |order| Rows::Moved(Compressed::moved(matrix, order)));
        let contents = layout.arrays.iter().map(Contents::zeros).collect();
        let diagonal = if options.diagonal { vec![0.0; layout.size as usize] } else { Vec::new() };
        let places = Places::new(&layout, slots);
        Writer {
            matrix,
            layout,
            places,
            contents,
            order,
            rows,
            distances,
            code_start: Vec::new(),
            codes: Vec::new(),
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
        let lengths = match self.layout.array(Role::Length) {
            None => Vec::new(),
            Some(_) => (0..self.layout.size).map(|row| self.matrix.entries_of(self.given(row)).len() as u64).collect(),
        };
        for (role, values) in [
            (Role::ChunkStart, self.places.chunk_start.clone()),
            (Role::SlotStart, self.places.slot_start.clone()),
            (Role::ChunkLength, self.places.slots.clone()),
            (Role::Length, lengths),
        ] {
            if let Some(array) = self.array(role) {
                values.into_iter().enumerate().for_each(|(at, value)| array.set(at, value));
            }
        }
        if self.layout.cuts() {
            self.cuts();
        }
    }

    /// What products that are cut by entries know of rows: where they begin, those of tiles, and which have entries.
    fn cuts(&mut self) {
        let (tile, word) = (layout::TILE, layout::HEADS);
        let entries = self.layout.entries;
        let mut heads = vec![0; self.layout.array(Role::Head).map_or(0, |(_, array)| array.len as usize)];
        let mut begin = |entry: u64| heads[(entry / word) as usize] |= 1_u16 << (entry % word);
        let (mut filled, mut tile_row) = (Vec::new(), Vec::new());
        for (row, ends) in self.places.chunk_start.windows(2).enumerate().filter(|(_, ends)| ends[0] < ends[1]) {
            begin(ends[0]);
            tile_row.resize(ends[1].div_ceil(tile) as usize, filled.len() as u64);
            filled.push(row as u64);
        }
        begin(entries);
        tile_row.push(filled.len() as u64);
        for (role, values) in [(Role::TileRow, tile_row), (Role::Filled, filled)] {
            if let Some(array) = self.array(role) {
                values.into_iter().enumerate().for_each(|(at, value)| array.set(at, value));
            }
        }
        if let Some(array) = self.array(Role::Head) {
            *array = Contents::U16(heads);
        }
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

    /// Values, columns and rows of all cells.
    fn cells(&mut self) {
        let [mut values, mut columns, mut rows] = [Role::Value, Role::Column, Role::Row].map(|role| self.taken(role));
        let (places, height) = (&self.places, self.layout.height);
        let line = |chunk: u64, lane: u64| {
            let (columns, values) = self.row(chunk * height + lane);
            Line { row: chunk * height + lane, columns, values, distances: self.distances_of(chunk) }
        };
        if let Some((_, Contents::Real(values))) = &mut values {
            places.fill(values, line, |line, slot| line.entry(slot).map_or(0.0, |at| line.values[at]));
        }
        // Padding has a column of its row.
        let columns_of = |chunk: u64, lane: u64| {
            let line = line(chunk, lane);
            (line, line.columns.last().copied().unwrap_or(0))
        };
        let column =
            |(line, last): &(Line<'_>, usize), slot: u64| line.entry(slot).map_or(*last, |at| line.columns[at]) as u64;
        match &mut columns {
            Some((_, Contents::U32(array))) => places.fill(array, columns_of, |row, slot| column(row, slot) as u32),
            Some((_, Contents::U64(array))) => places.fill(array, columns_of, column),
            _ => {}
        }
        match &mut rows {
            Some((_, Contents::U32(array))) => places.fill(array, |row, _| row as u32, |row, _| *row),
            Some((_, Contents::U64(array))) => places.fill(array, |row, _| row, |row, _| *row),
            _ => {}
        }
        [values, columns, rows].into_iter().for_each(|taken| self.give_back(taken));
    }

    /// Distances that the slots of a chunk are aligned by.
    fn distances_of(&self, chunk: u64) -> &[i64] {
        self.distances.get(chunk as usize).map_or(&[], Vec::as_slice)
    }

    /// Codes, bases and columns aside: in the order (chunk, slot, lane) first, then to their places.
    fn codes(&mut self, base: Base) -> Result<(), FormatError> {
        let Some(coder) = Coder::of(&self.layout) else { return Ok(()) };
        let mut codes = vec![0; self.layout.cells as usize];
        let units: Vec<u64> = self.places.slots.iter().map(|&slots| coder.units(slots)).collect();
        let mut bases = vec![0; units.iter().sum::<u64>() as usize];
        let height = self.layout.height;
        let chunk_start = &self.places.chunk_start;
        // Chunks of a few rows are many: a piece holds some, even of empty rows.
        let cost: Vec<u64> = chunk_start.iter().zip(0..).map(|(slots, chunk)| slots * height + chunk).collect();
        let pieces = ranges(&cost, CODED);
        let cells = pieces.iter().map(|piece| ((chunk_start[piece.end] - chunk_start[piece.start]) * height) as usize);
        let parts = cut(&mut codes, cells);
        let of_units = pieces.iter().map(|piece| units[piece.clone()].iter().sum::<u64>() as usize);
        let unit_parts = cut(&mut bases, of_units);
        let coded: Vec<Result<Piece, FormatError>> = pieces
            .into_par_iter()
            .zip(parts.into_par_iter().zip(unit_parts))
            .map(|(chunks, (codes, bases))| self.code(&coder, chunks, codes, bases))
            .collect();
        let mut exact = Vec::with_capacity(self.layout.chunks as usize);
        for piece in coded {
            let piece = piece?;
            exact.extend(piece.exact);
            for aside in piece.aside {
                self.aside.extend(aside);
                self.aside_start.push(self.aside.len() as u64);
            }
        }
        self.place_bases(base, &bases);
        if self.layout.elides() {
            self.keep_codes(&codes, &exact)
        } else {
            self.place_codes(codes)
        }
        Ok(())
    }

    /// Codes and bases of consecutive chunks.
    fn code(
        &self,
        coder: &Coder<'_>,
        chunks: std::ops::Range<usize>,
        mut codes: &mut [u16],
        mut bases: &mut [u64],
    ) -> Result<Piece, FormatError> {
        let mut piece = Piece::default();
        let height = self.layout.height;
        for chunk in chunks {
            let (chunk, slots) = (chunk as u64, self.places.slots[chunk]);
            let rows: Vec<&[usize]> = (0..height).map(|lane| self.row(chunk * height + lane).0).collect();
            let coded = coder.chunk(chunk, &rows, slots, self.distances_of(chunk));
            let coded = coded.map_err(|far| self.too_far(chunk, far))?;
            let (here, behind) = codes.split_at_mut(coded.codes.len());
            here.copy_from_slice(&coded.codes);
            codes = behind;
            let (here, behind) = bases.split_at_mut(coded.bases.len());
            here.copy_from_slice(&coded.bases);
            bases = behind;
            piece.exact.push(coder.is_exact(&coded));
            piece.aside.push(coded.aside);
        }
        Ok(piece)
    }

    /// Codes of the chunks that need some, given in the order (chunk, slot, lane).
    fn keep_codes(&mut self, codes: &[u16], exact: &[bool]) {
        let height = self.layout.height as usize;
        // Chunk after chunk; within one, slots or lanes are outside.
        let by_lane = layout::nest(&self.layout.format)[1] == Level::Lane;
        self.code_start.push(0);
        let mut kept = 0;
        for (chunk, is_exact) in exact.iter().enumerate() {
            let slots = if *is_exact { 0 } else { self.places.slots[chunk] as usize };
            let from = self.places.chunk_start[chunk] as usize * height;
            let codes = &codes[from..from + slots * height];
            if by_lane {
                let lanes = (0..height).flat_map(|lane| (0..slots).map(move |slot| slot * height + lane));
                self.codes.extend(lanes.map(|at| codes[at]));
            } else {
                self.codes.extend_from_slice(codes);
            }
            kept += slots as u64;
            self.code_start.push(kept);
        }
    }

    /// The first column of every row, where columns are counted from it.
    fn first_columns(&mut self, origin: Origin) {
        if origin != Origin::First {
            return;
        }
        for row in 0..self.layout.size {
            let first = self.row(row).0.first().copied().unwrap_or(0);
            self.put(Role::First, row as usize, first as u64);
        }
    }

    /// Bases, given chunk after chunk.
    fn place_bases(&mut self, base: Base, bases: &[u64]) {
        let mut array = self.taken(Role::Base);
        if let Some((_, array)) = &mut array {
            if base != Base::ChunkSlot || self.places.is_plain() {
                bases.iter().enumerate().for_each(|(at, value)| array.set(at, *value));
            } else {
                let slots = self.places.slots.iter().zip(0..);
                let units = slots.flat_map(|(&slots, chunk)| (0..slots).map(move |slot| (chunk, slot)));
                units.zip(bases).for_each(|((chunk, slot), value)| {
                    array.set(self.places.unit(chunk, slot) as usize, *value);
                });
            }
        }
        self.give_back(array);
    }

    /// Codes, given in the order (chunk, slot, lane).
    fn place_codes(&mut self, codes: Vec<u16>) {
        let mut array = self.taken(Role::Code);
        if let Some((_, Contents::U16(array))) = &mut array {
            if self.places.is_plain() {
                *array = codes;
            } else {
                let (places, height) = (&self.places, self.layout.height);
                let first = |chunk: u64, lane: u64| places.chunk_start[chunk as usize] * height + lane;
                places.fill(array, first, |first, slot| codes[(first + slot * height) as usize]);
            }
        }
        self.give_back(array);
    }

    /// The error for an entry that no base reaches.
    fn too_far(&self, chunk: u64, far: Far) -> FormatError {
        let row = chunk * self.layout.height + far.lane;
        let given = if matches!(self.rows, Rows::Given) { far.column } else { self.given(far.column) as u64 };
        FormatError::TooFar { format: self.layout.format.name.clone(), row: self.given(row) as u64, column: given }
    }

    fn finish(mut self, options: Options) -> Stored {
        let known = self.layout.arrays.len();
        self.layout.add_codes(self.code_start.last().copied().unwrap_or(0), self.aside.len() as u64);
        for array in &self.layout.arrays[known..] {
            let mut contents = Contents::zeros(array);
            let values = match array.role {
                Role::CodeStart => std::mem::take(&mut self.code_start),
                Role::EscapeStart => std::mem::take(&mut self.aside_start),
                Role::Escape => std::mem::take(&mut self.aside),
                _ => Vec::new(),
            };
            values.into_iter().enumerate().for_each(|(at, value)| contents.set(at, value));
            let codes = array.role == Role::Code;
            self.contents.push(if codes { Contents::U16(std::mem::take(&mut self.codes)) } else { contents });
        }
        if options.diagonal {
            self.layout.arrays.push(Array { role: Role::Diagonal, kind: Kind::Real, len: self.layout.size });
            self.contents.push(Contents::Real(self.diagonal));
        }
        debug_assert!(self.layout.starts() != Starts::Slots || self.places.slots.windows(2).all(|w| w[0] >= w[1]));
        Stored {
            layout: self.layout,
            contents: self.contents,
            companions: Vec::new(),
            order: self.order,
            zero_diagonal: self.zero_diagonal,
        }
    }
}
