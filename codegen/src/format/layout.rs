//! Layouts: a format for a matrix, in numbers.

use kernelwright_syntax::program::{Base, Coding, Format, Height, Level, Order, Origin, Padding};

use super::{FormatError, Matrix, aligned};
use crate::kernel::{MULTIPROCESSOR_LANES, MULTIPROCESSORS};

/// Rows of a single chunk are filled up to a multiple of this, so that every slot begins on a boundary of memory
/// transactions: 128 bytes of 4-byte elements.
const ALIGNED: u64 = 32;
/// Entries that are taken together where a product is cut by entries.
pub const TILE: u64 = 2048;
/// Entries whose bits make up an element of [`Role::Head`].
pub const HEADS: u64 = 16;
/// Lanes that keep a large device busy to the end: all that it holds, four times over, so that the last blocks,
/// which leave some of them without work, are few among all.
const ENOUGH_LANES: u64 = 4 * MULTIPROCESSORS * MULTIPROCESSOR_LANES as u64;
/// Entries of a row from which its length may matter.
const UNEVEN: u64 = 2048;
/// Rows of the longest one's length that a device works on at a time, some of them: below this part of the entries the
/// longest row ends with the rest.
const ENOUGH_ROWS: u64 = 1024;
/// Slots that a lane asks for together at most: columns and entries of eight fit 40 registers in f32.
const MOST_TOGETHER: u64 = 8;
/// Groups of slots up to which a row is brief.
const FEW_GROUPS: u64 = 4;
/// Entries of a row on average up to which rows are short.
const SHORT: u64 = 32;
/// A row so many times as long as the mean is a power law's.
const OUTLIER: u64 = 64;
/// Cells beyond this many are refused.
const MOST_CELLS: u128 = 1 << 48;
/// Cells from which padding may be too much: 2 GiB of f64.
const MANY_CELLS: u128 = 1 << 28;
/// Cells for each entry and row that are too many then.
const MOST_PADDING: u128 = 100;

/// How a matrix lies in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// The declaration.
    pub format: Format,
    /// Rows of the matrix.
    pub rows: u64,
    /// Columns of the matrix.
    pub columns: u64,
    /// Elements of vectors: the larger of rows and columns.
    pub size: u64,
    /// Entries of the matrix.
    pub entries: u64,
    /// Stored cells: entries and padding.
    pub cells: u64,
    /// Rows of a chunk, h; 1 where rows are stored one by one.
    pub height: u64,
    /// Chunks.
    pub chunks: u64,
    /// Slots of the longest chunk: those of its longest row, or more where slots are aligned.
    pub longest: u64,
    /// Columns stored aside.
    pub escapes: u64,
    /// Whether rows are in another order than the matrix has them.
    pub permuted: bool,
    /// Arrays, in the order of [`math::Operator::data`](crate::math::Operator).
    pub arrays: Vec<Array>,
}

/// An array of a stored matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// What it holds.
    pub role: Role,
    /// Its elements.
    pub kind: Kind,
    /// Number of elements.
    pub len: u64,
}

/// What an array holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Values, one a cell.
    Value,
    /// Columns, one a cell.
    Column,
    /// 16-bit codes of columns, one a cell; where some chunks have none ([`Layout::elides`]) one a cell of the others.
    Code,
    /// Slots of chunks with codes before each chunk, where some have none; chunks + 1 elements.
    CodeStart,
    /// The first column of each row, where columns are counted from it; of rows up to chunks·h.
    First,
    /// Rows, one an entry (nest `entry`).
    Row,
    /// P: slots before each chunk; chunks + 1 elements. In units of slots, so that P\[c\]·h is the first cell.
    ChunkStart,
    /// Q: chunks that have a slot before each slot; longest + 1 elements.
    SlotStart,
    /// Slots of each chunk, where they follow from no start.
    ChunkLength,
    /// Entries of each row; of rows up to chunks·h.
    Length,
    /// Base of each unit of 16-bit codes.
    Base,
    /// Columns aside before each chunk; chunks + 1 elements.
    EscapeStart,
    /// Columns aside.
    Escape,
    /// The row of every [`TILE`]-th entry, by its number among those that have entries, and how many do; where a product may
    /// be cut by entries ([`Layout::cuts`]).
    TileRow,
    /// A bit for every entry, [`HEADS`] to an element, the first one lowest: whether a row begins there, as one does at the
    /// number of entries; up to the end of the last tile and one element more. Where a product may be cut by entries.
    Head,
    /// Rows that have entries, where some have none and a product may be cut by entries.
    Filled,
    /// The step at which a row of a companion has its turn, one a row; whole numbers.
    Step,
    /// The diagonal, one a row, in the order of the format; zero where there is no entry.
    Diagonal,
}

impl Role {
    /// Identifier in generated code and reports.
    pub fn name(self) -> &'static str {
        match self {
            Role::Value => "value",
            Role::Column => "column",
            Role::Code => "code",
            Role::CodeStart => "code_start",
            Role::First => "first_column",
            Role::Row => "row_of",
            Role::ChunkStart => "start",
            Role::SlotStart => "slot_start",
            Role::ChunkLength => "chunk_length",
            Role::Length => "length",
            Role::Base => "base",
            Role::EscapeStart => "aside_start",
            Role::Escape => "aside",
            Role::TileRow => "tile_row",
            Role::Head => "begins_row",
            Role::Filled => "filled_row",
            Role::Step => "step",
            Role::Diagonal => "diagonal",
        }
    }
}

/// Elements of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Reals in the precision of vectors.
    Real,
    /// 16 bits, unsigned.
    U16,
    /// 32 bits, unsigned.
    U32,
    /// 64 bits, below 2^63.
    U64,
}

impl Kind {
    /// Bytes of an element; `real` is that of a vector's.
    pub fn bytes(self, real: u64) -> u64 {
        match self {
            Kind::Real => real,
            Kind::U16 => 2,
            Kind::U32 => 4,
            Kind::U64 => 8,
        }
    }
}

/// What starts say where cells of a chunk, or of a slot, begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// Every row has as many cells as the longest, or entries store their rows: nothing is stored.
    Even,
    /// P.
    Chunks,
    /// Q.
    Slots,
}

impl Layout {
    /// The array of a role and its number.
    pub fn array(&self, role: Role) -> Option<(usize, &Array)> {
        self.arrays.iter().enumerate().find(|(_, array)| array.role == role)
    }

    /// Whether entries each store their row.
    pub fn by_entries(&self) -> bool {
        self.format.nest == [Level::Entry]
    }

    /// Which starts are stored.
    pub fn starts(&self) -> Starts {
        starts(&self.format)
    }

    /// Whether a product may be cut by entries instead of rows: rows lie one after another without padding, and an entry
    /// needs no more than its own place.
    pub fn cuts(&self) -> bool {
        cuts(&self.format)
    }

    /// Whether chunks whose columns follow from their bases alone store no codes. A layout without [`Role::Code`] then has no
    /// others.
    pub fn elides(&self) -> bool {
        let counted = matches!(
            self.format.coding,
            Coding::Delta { base: Base::ChunkSlot, origin: Origin::Row | Origin::First, .. }
        );
        counted && nest(&self.format)[0] == Level::Chunk
    }

    /// What distances are raised by, so that none is negative.
    pub fn bias(&self) -> u64 {
        if matches!(self.format.coding, Coding::Delta { origin: Origin::Row, .. }) { self.size } else { 0 }
    }

    /// Adds the arrays of the chunks that have codes: so many slots in all, if [some chunks have none](Layout::elides), and
    /// so many columns aside.
    pub(super) fn add_codes(&mut self, coded: u64, escapes: u64) {
        if self.elides() && coded > 0 {
            self.arrays.push(Array { role: Role::CodeStart, kind: index(self.cells), len: self.chunks + 1 });
            self.arrays.push(Array { role: Role::Code, kind: Kind::U16, len: coded * self.height });
        }
        if escapes > 0 {
            self.escapes = escapes;
            self.arrays.push(Array { role: Role::EscapeStart, kind: index(escapes), len: self.chunks + 1 });
            self.arrays.push(Array { role: Role::Escape, kind: index(self.size + self.bias()), len: escapes });
        }
    }

    /// Entries of the longest row beyond which a product is cut by entries on a device, where it [can be](Layout::cuts): a
    /// longer row would keep its lanes busy for longer than a good part of the device works on the rest, or than its
    /// neighbours do.
    pub fn cut_beyond(&self) -> u64 {
        let mean = self.entries / self.rows.max(1);
        (self.entries / ENOUGH_ROWS).min(OUTLIER * mean).max(UNEVEN)
    }

    /// Whether rows are short enough for a device to read their entries in strips, wherever rows begin, where they [lie one
    /// after another](Layout::cuts). Measured on an H200 in f32, against lanes that share rows: 183, 145 and 234 us for 210, 179
    /// and 271 with 7, 27 and 13 entries a row; but 243 and 561 for 216 and 273 with 144 and 209.
    pub fn is_short(&self) -> bool {
        self.cuts() && !self.is_cut() && self.entries <= SHORT * self.size
    }

    /// Whether products are cut by entries on a device, unless asked otherwise.
    pub fn is_cut(&self) -> bool {
        self.cuts() && self.longest > self.cut_beyond()
    }

    /// Lanes of a device that share a row, by the mean length of rows; a power of two.
    pub fn row_lanes(&self) -> u32 {
        let mean = self.entries / self.size.max(1);
        if self.side_by_side() {
            // Chunks are read side by side already: rows are shared only where there are too few to fill the device.
            let missing = ENOUGH_LANES / self.size.max(1);
            return missing.min(mean / 8).clamp(1, 8).next_power_of_two() as u32;
        }
        (mean / 2).clamp(1, 32).next_power_of_two() as u32
    }

    /// Slots of a row that a lane of a device asks for together, where so many lanes share a row: more than it usually has,
    /// so that rows end with the first group, up to what registers hold without leaving room for fewer lanes.
    pub fn slots_together(&self, lanes: u64) -> u32 {
        let mean = self.slots_of_lane(lanes);
        if self.is_brief(lanes) {
            // All groups of a row have as many slots: none is padded.
            return mean.div_ceil(mean.div_ceil(MOST_TOGETHER).max(1)).max(2) as u32;
        }
        (mean + 1).clamp(2, MOST_TOGETHER).next_power_of_two() as u32
    }

    /// Slots that a lane walks through on average, where so many share a row.
    fn slots_of_lane(&self, lanes: u64) -> u64 {
        let read = if self.format.lengths { self.entries } else { self.cells };
        read.div_ceil(self.size.max(1) * lanes.max(1))
    }

    /// Whether a row is a few groups of slots whose columns are at hand: what such a lane waits for is the begin of its row,
    /// which more lanes hide and larger groups do not. Measured on an H200 in f32: 79 us for 8 million rows of 7 slots in one
    /// group of 7 whatever its registers, 96 with registers for 8 together; but 228 and 172 for rows of 209.
    pub fn is_brief(&self, lanes: u64) -> bool {
        self.elides() && self.slots_of_lane(lanes) <= FEW_GROUPS * MOST_TOGETHER
    }

    /// Whether cells should leave a device's caches first, so that the operand stays there: very unequal rows have columns
    /// anywhere; long rows without codes read little else. Short ones lose by it.
    pub fn reads_once(&self) -> bool {
        self.is_cut() || (self.elides() && !self.is_brief(u64::from(self.row_lanes())))
    }

    /// Whether neighbouring rows have a slot in neighbouring cells.
    pub fn side_by_side(&self) -> bool {
        let row = if self.height == 1 { Level::Chunk } else { Level::Lane };
        let inner = nest(&self.format).into_iter().rfind(|level| *level == row || *level == Level::Slot);
        !self.by_entries() && inner == Some(row)
    }

    /// Bytes of all arrays that a product by rows reads; `real` is the size of a vector's element.
    pub fn bytes(&self, real: u64) -> u64 {
        let aside = |array: &&Array| matches!(array.role, Role::Diagonal | Role::TileRow | Role::Head | Role::Filled);
        let product = self.arrays.iter().filter(|array| !aside(array));
        product.map(|array| array.len * array.kind.bytes(real)).sum()
    }

    /// Bytes of the matrix that a product moves: every array that it reads once. Where lengths are kept, padding within
    /// them is not read.
    pub fn read_bytes(&self, real: u64) -> u64 {
        let skipped = if self.format.lengths { self.cells - self.entries } else { 0 };
        let of_cell = |array: &&Array| matches!(array.role, Role::Value | Role::Column | Role::Code);
        // Of codes that only some chunks have, as much is skipped as of all cells.
        let part = |array: &Array| (u128::from(skipped) * u128::from(array.len) / u128::from(self.cells.max(1))) as u64;
        let unread: u64 = self.arrays.iter().filter(of_cell).map(|array| part(array) * array.kind.bytes(real)).sum();
        self.bytes(real) - unread
    }

    /// Bytes of all arrays for each entry.
    pub fn bytes_per_entry(&self, real: u64) -> f64 {
        self.bytes(real) as f64 / self.entries.max(1) as f64
    }

    /// Cells beyond the entries, as a part of the entries.
    pub fn padding_overhead(&self) -> f64 {
        (self.cells - self.entries) as f64 / self.entries.max(1) as f64
    }
}

/// The nest without what a single chunk, or single rows, leave out: positions of chunk, slot and lane.
pub fn nest(format: &Format) -> [Level; 3] {
    let mut full: Vec<Level> = format.nest.iter().map(|l| if *l == Level::Row { Level::Chunk } else { *l }).collect();
    // The loop over one lane, or one chunk, may stand anywhere.
    for missing in [Level::Chunk, Level::Lane] {
        if !full.contains(&missing) {
            if missing == Level::Chunk { full.insert(0, missing) } else { full.push(missing) }
        }
    }
    [full[0], full[1], *full.last().unwrap_or(&Level::Lane)]
}

fn cuts(format: &Format) -> bool {
    format.nest == [Level::Row, Level::Slot]
        && format.padding == Padding::None
        && !matches!(format.coding, Coding::Delta { .. })
}

/// Which starts a format stores.
pub fn starts(format: &Format) -> Starts {
    if format.padding == Padding::Matrix || format.height == Height::All || format.nest == [Level::Entry] {
        return Starts::Even;
    }
    let place = |level: Level| nest(format).iter().position(|l| *l == level);
    if place(Level::Slot) < place(Level::Chunk) { Starts::Slots } else { Starts::Chunks }
}

/// Lengths of a matrix's rows, arranged for a format.
#[derive(Debug, Clone)]
pub struct Arranged {
    /// The layout; [`Layout::escapes`] is zero yet.
    pub layout: Layout,
    /// Rows in order ([`order`](super::order::order)).
    pub order: Option<Vec<u64>>,
    /// Slots of each chunk.
    pub slots: Vec<u64>,
    /// Distances that the slots of each chunk are aligned by; empty of a chunk, or of all, where they are not.
    pub distances: Vec<Vec<i64>>,
}

impl Arranged {
    /// Distances that the slots of a chunk are aligned by.
    pub(super) fn distances_of(&self, chunk: u64) -> &[i64] {
        self.distances.get(chunk as usize).map_or(&[], Vec::as_slice)
    }
}

/// Arranges the rows of a matrix, of given lengths.
pub fn of_matrix(format: &Format, matrix: &Matrix<'_>, lengths: &[u64]) -> Result<Arranged, FormatError> {
    let distances = match format.padding {
        Padding::Aligned if !lengths.is_empty() => aligned::distances(matrix, height(format, lengths.len() as u64)),
        _ => Vec::new(),
    };
    arranged(format, [matrix.rows() as u64, matrix.columns as u64], lengths, distances)
}

/// Arranges rows of given lengths, one up to the size of vectors; nothing is aligned.
pub fn arrange(format: &Format, rows: u64, columns: u64, lengths: &[u64]) -> Result<Arranged, FormatError> {
    arranged(format, [rows, columns], lengths, Vec::new())
}

/// Rows of a chunk of a matrix of so many rows.
fn height(format: &Format, size: u64) -> u64 {
    match format.height {
        Height::Rows(height) => height,
        Height::All => size.next_multiple_of(ALIGNED),
    }
}

fn arranged(
    format: &Format,
    [rows, columns]: [u64; 2],
    lengths: &[u64],
    distances: Vec<Vec<i64>>,
) -> Result<Arranged, FormatError> {
    let size = lengths.len() as u64;
    if size == 0 {
        return Err(FormatError::Empty);
    }
    if format.has_ragged_slots() {
        return Err(FormatError::Ragged { format: format.name.clone() });
    }
    let order = super::order::order(format.order, lengths);
    let entries: u64 = lengths.iter().sum();
    let most_aligned = distances.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let longest = lengths.iter().copied().max().unwrap_or(0).max(most_aligned);
    let height = height(format, size);
    let chunks = size.div_ceil(height);
    let even = starts(format) == Starts::Even && format.nest != [Level::Entry];
    let at = |row: u64| order.as_ref().map_or(lengths[row as usize], |o| lengths[o[row as usize] as usize]);
    let of_chunk = |c: u64| {
        let longest = (c * height..((c + 1) * height).min(size)).map(at).max().unwrap_or(0);
        distances.get(c as usize).map_or(0, Vec::len).max(longest as usize) as u64
    };
    let slots: Vec<u64> = (0..chunks).map(|c| if even { longest } else { of_chunk(c) }).collect();
    let cells: u128 = slots.iter().map(|&n| u128::from(n) * u128::from(height)).sum();
    let mostly_padding = cells > MANY_CELLS && cells > MOST_PADDING * u128::from(entries + size);
    if cells > MOST_CELLS || mostly_padding {
        return Err(FormatError::Padding { format: format.name.clone(), cells, entries });
    }
    let mut layout = Layout {
        format: format.clone(),
        rows,
        columns,
        size,
        entries,
        cells: cells as u64,
        height,
        chunks,
        longest,
        escapes: 0,
        permuted: order.is_some(),
        arrays: Vec::new(),
    };
    layout.arrays = arrays(&layout, lengths.iter().filter(|&&n| n > 0).count() as u64)?;
    Ok(Arranged { layout, order, slots, distances })
}

/// The arrays of a layout of so many rows with entries, columns aside, codes of some chunks and the diagonal excepted.
fn arrays(layout: &Layout, filled: u64) -> Result<Vec<Array>, FormatError> {
    let format = &layout.format;
    let cells = layout.cells;
    let array = |role, kind, len| Array { role, kind, len };
    let wide = || FormatError::Wide { format: format.name.clone(), columns: layout.size };
    let narrow = layout.size <= 1 << 32;
    let mut arrays = vec![array(Role::Value, Kind::Real, cells)];
    match format.coding {
        Coding::U32 if !narrow => return Err(wide()),
        Coding::U32 => arrays.push(array(Role::Column, Kind::U32, cells)),
        Coding::U64 => arrays.push(array(Role::Column, Kind::U64, cells)),
        Coding::Delta { base, origin, .. } => {
            let units = match base {
                Base::Row => layout.chunks * layout.height,
                Base::Chunk => layout.chunks,
                Base::ChunkSlot => cells / layout.height,
            };
            if !layout.elides() {
                arrays.push(array(Role::Code, Kind::U16, cells));
            }
            arrays.push(array(Role::Base, index(layout.size + layout.bias()), units));
            if origin == Origin::First {
                arrays.push(array(Role::First, index(layout.size), layout.chunks * layout.height));
            }
        }
    }
    if layout.by_entries() {
        arrays.push(array(Role::Row, if format.coding == Coding::U64 { Kind::U64 } else { Kind::U32 }, cells));
        return Ok(arrays);
    }
    match layout.starts() {
        Starts::Even => {}
        Starts::Chunks => arrays.push(array(Role::ChunkStart, index(cells), layout.chunks + 1)),
        Starts::Slots => {
            arrays.push(array(Role::SlotStart, index(cells), layout.longest + 1));
            if !format.lengths {
                arrays.push(array(Role::ChunkLength, Kind::U32, layout.chunks));
            }
        }
    }
    if cuts(format) {
        let tiles = cells.div_ceil(TILE);
        arrays.push(array(Role::TileRow, index(layout.size), tiles + 1));
        arrays.push(array(Role::Head, Kind::U16, tiles * (TILE / HEADS) + 1));
        if (1..layout.size).contains(&filled) {
            arrays.push(array(Role::Filled, index(layout.size), filled));
        }
    }
    if format.lengths {
        arrays.push(array(Role::Length, Kind::U32, layout.chunks * layout.height));
    }
    Ok(arrays)
}

/// The narrowest integer that holds indices up to `largest`, as kernels read them.
pub(super) fn index(largest: u64) -> Kind {
    if largest < 1 << 31 { Kind::U32 } else { Kind::U64 }
}

/// Whether an order may move rows.
pub fn sorts(format: &Format) -> bool {
    format.order != Order::Given
}
