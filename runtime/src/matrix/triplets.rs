//! Entries in any order, and how they become compressed rows.

use super::{Csr, MatrixError, Symmetry, bad};

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
/// Rows for an entry that are believed beyond that.
const SPARSEST: usize = 64;

/// Whether entries speak for a size: storage grows with it, and a short file can name any number.
pub(super) fn is_believable(size: usize, entries: usize) -> bool {
    size <= entries.saturating_mul(SPARSEST).saturating_add(FREE)
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

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.parts.iter().flatten()
    }

    /// The entry that follows by symmetry from one beside the diagonal.
    fn mirror(&self, entry: &Entry) -> Option<Entry> {
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
    /// Sizes far beyond what the entries speak for.
    pub fn into_csr(self) -> Result<(Csr, usize), MatrixError> {
        if !is_believable(self.rows, self.len()) {
            return Err(bad(format!(
                "{} rows for so few entries ({}) are refused; at most {SPARSEST} for every entry are believed, beyond {FREE}",
                self.rows,
                self.len()
            )));
        }
        let mut start = vec![0usize; self.rows + 1];
        for entry in self.entries() {
            start[entry.row + 1] += 1;
            if let Some(mirrored) = self.mirror(entry) {
                start[mirrored.row + 1] += 1;
            }
        }
        (0..self.rows).for_each(|row| start[row + 1] += start[row]);
        let count = start[self.rows];
        let (mut column, mut value) = (vec![0usize; count], vec![0f64; count]);
        let mut next = start[..self.rows].to_vec();
        let mut place = |entry: &Entry| {
            let position = next[entry.row];
            column[position] = entry.column;
            value[position] = entry.value;
            next[entry.row] += 1;
        };
        for entry in self.entries() {
            place(entry);
            if let Some(mirrored) = self.mirror(entry) {
                place(&mirrored);
            }
        }
        let (columns, symmetry) = (self.columns, self.symmetry);
        drop(self);
        let duplicates = tidy(&mut start, &mut column, &mut value, symmetry);
        Ok((Csr::of_parts(columns, start, column, value), duplicates))
    }
}

/// Sorts the rows that need it and adds up entries at one place; returns how many entries of the stored form vanish.
fn tidy(start: &mut [usize], column: &mut Vec<usize>, value: &mut Vec<f64>, symmetry: Symmetry) -> usize {
    let mut duplicates = 0;
    let mut kept = 0;
    let mut row_entries: Vec<(usize, f64)> = Vec::new();
    let mut first = 0;
    for row in 0..start.len() - 1 {
        let end = start[row + 1];
        let begin = kept;
        let sorted = column[first..end].windows(2).all(|pair| pair[0] < pair[1]);
        if sorted {
            // Nothing moves until the first duplicate of the matrix.
            if kept != first {
                column.copy_within(first..end, kept);
                value.copy_within(first..end, kept);
            }
            kept += end - first;
        } else {
            row_entries.clear();
            row_entries.extend(column[first..end].iter().copied().zip(value[first..end].iter().copied()));
            // Stable: sums are in the order of the file.
            row_entries.sort_by_key(|entry| entry.0);
            for &(at, entry) in &row_entries {
                if kept > begin && column[kept - 1] == at {
                    value[kept - 1] += entry;
                    // Of mirrored entries only the stored one counts.
                    duplicates += usize::from(symmetry == Symmetry::General || at <= row);
                } else {
                    (column[kept], value[kept]) = (at, entry);
                    kept += 1;
                }
            }
        }
        first = end;
        start[row + 1] = kept;
    }
    column.truncate(kept);
    value.truncate(kept);
    duplicates
}
