//! Aligned slots: entries of a chunk that are equally far from their rows share a slot.
//!
//! What diagonals are to a matrix, distances are to a chunk of rows: a stencil has as many in every chunk as points, also
//! where a boundary takes some from a row, and all entries of a slot then have one distance. Rows of a matrix without such
//! an order have nearly as many distances as entries; a chunk where that shows is not aligned.

use rayon::prelude::*;

use super::Matrix;

/// Slots for each one of the longest row from which a chunk is not aligned.
const MOST: usize = 2;

/// Distances of the entries of every chunk from their rows, ascending; none of a chunk that is not aligned, or empty.
pub(super) fn distances(matrix: &Matrix<'_>, height: u64) -> Vec<Vec<i64>> {
    let chunks = (matrix.size() as u64).div_ceil(height);
    (0..chunks).into_par_iter().map(|chunk| of_chunk(matrix, chunk * height, height)).collect()
}

fn of_chunk(matrix: &Matrix<'_>, first: u64, height: u64) -> Vec<i64> {
    let end = (first + height).min(matrix.size() as u64);
    let longest = (first..end).map(|row| matrix.entries_of(row as usize).len()).max().unwrap_or(0);
    let mut found: Vec<i64> = Vec::with_capacity(longest);
    for row in first..end {
        let columns = &matrix.column[matrix.entries_of(row as usize)];
        let distance = |&column: &usize| column as i64 - row as i64;
        // Most rows are like the one before.
        if columns.len() == found.len() && columns.iter().zip(&found).all(|(column, known)| distance(column) == *known)
        {
            continue;
        }
        for own in columns.iter().map(distance) {
            if let Err(place) = found.binary_search(&own) {
                if found.len() == MOST * longest {
                    return Vec::new();
                }
                found.insert(place, own);
            }
        }
    }
    found
}

/// The entry of a row, by its place among the row's ascending columns, that a slot holds; none where the slot is padding.
/// `distances` are those of the chunk; without, slots are filled in the order of columns.
pub(super) fn entry(distances: &[i64], row: u64, columns: &[usize], slot: u64) -> Option<usize> {
    let slot = slot as usize;
    if distances.is_empty() {
        return (slot < columns.len()).then_some(slot);
    }
    let column = row as i64 + distances.get(slot)?;
    columns.binary_search(&usize::try_from(column).ok()?).ok()
}
