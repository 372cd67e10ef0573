//! Formats carried out: from a declared format and a matrix to arrays in memory.
//!
//! Pure arithmetic, no input or output, the same result on every machine. In the order of use:
//! - [`Matrix`] is a view of compressed rows, the common form that readers produce;
//! - [`layout::Layout`] says, in numbers, how a matrix of certain row lengths lies in memory in a format: which arrays
//!   there are, of which elements, how long. Kernels are made from it alone (`math::Space::Rows`); matrices of equal
//!   layouts share kernels;
//! - [`store::store`] converts: layout, permutation and the contents of all arrays;
//! - [`decode`] reads it back, one row at a time;
//! - [`predict::predict`] says what a format would cost without converting, for an automatic choice;
//! - [`companion::add`] stores beside it what its preconditioner multiplies with;
//! - [`operator::operator`] makes the linear operator that loops, planner and mapping work on.
//!
//! # Cells
//! Let h be the height of a chunk, c a chunk, s a slot, l a lane; len(c) the slots of a chunk, N(s) the number of chunks
//! that have slot s. With P the prefix sums of len and Q those of N, the cell (c, s, l) lies at
//!
//! | nest | place |
//! |---|---|
//! | chunk, slot, lane | (P\[c\] + s)·h + l |
//! | chunk, lane, slot | P\[c\]·h + l·len(c) + s |
//! | lane, chunk, slot | l·(sum of len) + P\[c\] + s |
//! | slot, chunk, lane | (Q\[s\] + c)·h + l |
//! | slot, lane, chunk | Q\[s\]·h + l·N(s) + c |
//! | lane, slot, chunk | l·(sum of N) + Q\[s\] + c |
//!
//! Rows that are stored one by one are chunks of height 1; a single chunk is padded to the matrix by itself. Where all
//! rows are padded to the longest of the matrix, P\[c\] = c·longest and Q\[s\] = s·chunks, and neither is stored.
//!
//! # Columns
//! A plain column is stored as it is. A 16-bit *code* is relative to the base of its unit (a row, a chunk or one slot
//! of a chunk). Let E be the number of columns of a chunk that are stored aside (of a row, where rows are stored one by
//! one). A code below 2^16 - E is the distance from the base; the code 2^16 - E + n means the n-th column aside of the
//! chunk. A chunk with more than 2^16 of them stores all its columns aside, in the order (slot, lane), and its codes
//! mean nothing. So a kernel finds every column without searching.
//!
//! What is coded may be counted from the row's number or from its first column instead of from the first of the matrix; then
//! rows of one shape have equal distances, and a chunk whose codes are all 0 stores none (`coding`). Aligned slots
//! hold equal distances also where rows lack entries ([`Padding::Aligned`](kernelwright_syntax::program::Padding)).
//!
//! # Values of padding
//! Zero, with a column that the row has itself, if it can be written, else one of its unit: a kernel that multiplies
//! padding reads nothing that is infinite or NaN unless the row does, save for empty rows. Where columns are counted from
//! the row, padding has the column that its unit's base gives, which may be any inside the matrix.

use rayon::prelude::*;

pub mod layout;
pub mod order;
pub mod delta;
mod aligned;
mod coding;
mod compressed;
mod places;
pub mod store;
pub mod decode;
pub mod predict;
pub mod companion;
pub mod operator;

pub use companion::{Companion, Derived};
pub use layout::{Array, Kind, Layout, Role};
pub use operator::{operator, with_companions};
pub use predict::predict;
pub use store::{Basis, Contents, Options, Stored, store};

/// A view of a sparse matrix in compressed rows.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// Number of columns.
    pub columns: usize,
    /// Where each row begins among the entries; one element more than rows, ascending from 0.
    pub starts: &'a [usize],
    /// Columns of all entries, ascending strictly within a row, below `columns`.
    pub column: &'a [usize],
    /// Values of all entries.
    pub value: &'a [f64],
}

impl Matrix<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Elements of a vector that both rows and columns index: the larger number of the two. A matrix that is not
    /// square is taken with empty rows, or columns without entries, up to this size.
    pub fn size(&self) -> usize {
        self.rows().max(self.columns)
    }

    /// Entries of a row, of which those beyond the last are empty: places in `column` and `value`.
    pub fn entries_of(&self, row: usize) -> std::ops::Range<usize> {
        if row < self.rows() { self.starts[row]..self.starts[row + 1] } else { 0..0 }
    }

    /// The entry of a row on the diagonal; zero if none is stored.
    pub fn diagonal(&self, row: usize) -> f64 {
        let range = self.entries_of(row);
        let place = self.column[range.clone()].binary_search(&row);
        place.map_or(0.0, |at| self.value[range.start + at])
    }

    /// Number of entries of every row up to [`Matrix::size`].
    pub fn lengths(&self) -> Vec<u64> {
        (0..self.size()).into_par_iter().map(|row| self.entries_of(row).len() as u64).collect()
    }

    /// Checks what the other functions rely on; the error says what is wrong.
    pub fn check(&self) -> Result<(), FormatError> {
        let ascending = self.starts.first() == Some(&0) && self.starts.windows(2).all(|w| w[0] <= w[1]);
        if !ascending || self.starts.last() != Some(&self.column.len()) || self.column.len() != self.value.len() {
            return Err(FormatError::Matrix("the starts of rows do not fit the entries".into()));
        }
        let is_wrong = |row: &usize| {
            let columns = &self.column[self.entries_of(*row)];
            columns.last().is_some_and(|&last| last >= self.columns) || columns.windows(2).any(|w| w[0] >= w[1])
        };
        match (0..self.rows()).into_par_iter().find_first(is_wrong) {
            Some(row) => Err(FormatError::Matrix(format!("columns of row {row} do not ascend within the matrix"))),
            None => Ok(()),
        }
    }
}

/// Why a matrix cannot be stored in a format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Not a matrix in compressed rows: a bug of the caller.
    #[error("not a matrix in compressed rows: {0}")]
    Matrix(String),
    /// No elements.
    #[error("a matrix without rows or columns has nothing to store")]
    Empty,
    /// Rows that may be longer than the one before, slot by slot: the language refuses such a format.
    #[error("format `{format}` stores slot by slot rows that are not sorted as a whole")]
    Ragged {
        /// The format's name.
        format: String,
    },
    /// A column that the format cannot write.
    #[error("format `{format}` cannot store column {column} of row {row}: it is too far from its base; add `escape`")]
    TooFar {
        /// The format's name.
        format: String,
        /// Row, from 0.
        row: u64,
        /// Column, from 0.
        column: u64,
    },
    /// More columns than an index has values.
    #[error("format `{format}` has 32-bit indices, the matrix {columns} columns; choose `index u64`")]
    Wide {
        /// The format's name.
        format: String,
        /// Columns of the matrix.
        columns: u64,
    },
    /// So much padding that the number of cells overflows, or is absurd.
    #[error("format `{format}` would store {cells} cells for {entries} entries")]
    Padding {
        /// The format's name.
        format: String,
        /// Cells.
        cells: u128,
        /// Entries.
        entries: u64,
    },
    /// A diagonal block without an inverse.
    #[error("block_jacobi inverts diagonal blocks, and that of the {size} rows from row {} on is singular", row + 1)]
    Singular {
        /// First row, from 0.
        row: u64,
        /// Number of rows.
        size: u64,
    },
    /// The permuted basis of a matrix that is not square.
    #[error("only a square matrix has one order for rows and columns")]
    NotSquare,
}
