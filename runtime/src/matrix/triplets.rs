//! Entries in any order, and how they become compressed rows.

use super::{Csr, MatrixError, Symmetry, bad, compress};

/// An entry; indices count from 0.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct Entry {
    pub row: usize,
    pub column: usize,
    pub value: f64,
}

/// A matrix as entries in the order of a file.
///
/// Of a symmetric or skew-symmetric matrix only one triangle (and the diagonal) is here.
#[derive(Debug, Clone, PartialEq)]
pub struct Triplets {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// What follows from the entries.
    pub symmetry: Symmetry,
    /// Entries, in parts that follow each other; indices are below the sizes.
    pub parts: Vec<Vec<Entry>>,
}

/// Sizes that are believed without entries to show for them.
const FREE: usize = 1 << 24;
/// Rows, or columns, for an entry that are believed beyond that.
const SPARSEST: usize = 64;

/// Whether entries speak for a size: storage grows with it, and a short file can name any number.
pub(super) fn is_believable(size: usize, entries: usize) -> bool {
    size <= entries.saturating_mul(SPARSEST).saturating_add(FREE)
}

/// Refuses a size that entries do not speak for; `what` is of that size: rows, or columns where vectors are as long.
pub(crate) fn believe(what: &str, size: usize, entries: usize) -> Result<(), MatrixError> {
    if is_believable(size, entries) {
        return Ok(());
    }
    Err(bad(format!(
        "{size} {what} for so few entries ({entries}) are refused; at most {SPARSEST} for every entry are believed, \
         beyond {FREE}"
    )))
}

impl Triplets {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entry that follows by symmetry from one beside the diagonal.
    #[inline]
    pub(super) fn mirror(&self, entry: &Entry) -> Option<Entry> {
        if self.symmetry == Symmetry::General || entry.row == entry.column {
            return None;
        }
        // Adding zero keeps a zero from becoming a negative one.
        let value = if self.symmetry == Symmetry::Skew { -entry.value + 0.0 } else { entry.value };
        Some(Entry { row: entry.column, column: entry.row, value })
    }

    /// Compressed rows of the whole matrix, and how many of the entries here met an earlier one at their place; their
    /// values are added in the order of the entries.
    ///
    /// # Errors
    /// More rows than the entries speak for; a sum that is not finite.
    pub fn into_csr(self) -> Result<(Csr, usize), MatrixError> {
        believe("rows", self.rows, self.len())?;
        compress::compress(self)
    }
}
