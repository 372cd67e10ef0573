//! Formats of sparse matrices: how the entries of a matrix lie in memory.
//!
//! A format is a loop nest around one entry. Rows come in an order ([`Order`]); consecutive rows of that order form
//! *chunks* of a height ([`Height`]); within a row the entries, by ascending column, are numbered by *slots*; a row's
//! place within its chunk is its *lane*. [`Padding`] says how many slots a row has beyond its entries. The nest
//! ([`Format::nest`]) says in which order these loops visit the cells (chunk, slot, lane): cell after cell in the order
//! of the visit is the order in memory. Everything else — which offsets must be stored, how a kernel walks a row, what
//! an entry costs — follows and is derived by the compiler.
//!
//! After the checks of [`crate::check`] a format satisfies:
//! - `nest` is `[Entry]`, or a permutation of `Row, Slot` where chunks are single rows, of `Slot, Lane` where one chunk
//!   is the whole matrix, of `Chunk, Slot, Lane` otherwise;
//! - chunks of several rows are padded;
//! - where `Slot` comes before the rows (or chunks), their lengths never grow: rows are sorted as a whole, or padded to
//!   the longest of all;
//! - `[Entry]` has no chunks, no padding, no kept lengths and plain indices;
//! - lengths are kept only where padding at the end of rows hides them;
//! - where slots are aligned, rows are in the given order and form chunks.

use crate::source::Span;

/// A declared format.
#[derive(Debug, Clone, PartialEq)]
pub struct Format {
    /// Name in the source.
    pub name: String,
    /// Text of its `///` lines.
    pub doc: String,
    /// Where it is declared (its name).
    pub span: Span,
    /// Order of the rows.
    pub order: Order,
    /// Rows of a chunk.
    pub height: Height,
    /// Slots beyond a row's entries.
    pub padding: Padding,
    /// Whether the number of entries of every row is stored beside the padded cells, so that a kernel reads no padding.
    pub lengths: bool,
    /// Loops around an entry, the outermost first.
    pub nest: Vec<Level>,
    /// How columns (and, with `[Entry]`, rows) are written.
    pub coding: Coding,
}

impl Format {
    /// Whether `slot` is outside although a row, or chunk, may be longer than the one before it. What has a slot are then
    /// not the first so many, and nothing says where a cell is.
    pub fn has_ragged_slots(&self) -> bool {
        let outside = self.nest.iter().position(|level| *level == Level::Slot);
        let rows = self.nest.iter().position(|level| matches!(level, Level::Row | Level::Chunk));
        let grows = self.padding != Padding::Matrix && self.order != Order::Sorted { window: None };
        self.height != Height::All && outside < rows && grows
    }
}

/// Order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// As the matrix has them.
    Given,
    /// By the number of entries, longest first; rows of one length keep their order.
    Sorted {
        /// Rows are sorted within windows of so many consecutive rows; none: the whole matrix is one window.
        window: Option<u64>,
    },
}

/// Rows of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Height {
    /// So many; 1 where rows are stored one by one. The last chunk is filled up with empty rows.
    Rows(u64),
    /// One chunk is the whole matrix.
    All,
}

/// Slots beyond a row's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Padding {
    /// None.
    None,
    /// As many slots as the longest row of the chunk has.
    Chunk,
    /// As many slots as the longest row of the matrix has.
    Matrix,
    /// Entries of a chunk that are equally far from their rows, by column, have one slot: as many slots as there are
    /// distances. A chunk that would take more than twice as many as its longest row has is padded as by `Chunk`.
    Aligned,
}

/// A loop of the nest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// Over all entries, row by row; each one stores its row too.
    Entry,
    /// Over rows, where they are stored one by one.
    Row,
    /// Over chunks.
    Chunk,
    /// Over the slots of a row.
    Slot,
    /// Over the rows of a chunk.
    Lane,
}

/// How an index is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// 32 bits.
    U32,
    /// 64 bits.
    U64,
    /// 16 bits, the distance from a base.
    Delta {
        /// What shares a base.
        base: Base,
        /// What columns are counted from.
        origin: Origin,
        /// Whether columns that are too far from the base are stored aside; if not, a matrix that has any cannot be
        /// stored in this format.
        escape: bool,
    },
}

/// What shares a base of [`Coding::Delta`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Base {
    /// A row.
    Row,
    /// A chunk.
    Chunk,
    /// One slot of a chunk: as many entries as the chunk has rows.
    ChunkSlot,
}

/// What the columns of [`Coding::Delta`] are counted from, before a base is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// From the first column of the matrix.
    Zero,
    /// From the row's own number, in the order of the format: the same for all rows of a stencil.
    Row,
    /// From the first column of the row, which is stored: the same for all rows of a shape, wherever they stand.
    First,
}
