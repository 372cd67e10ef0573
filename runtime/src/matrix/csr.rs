//! Compressed sparse rows.

use kernelwright_codegen::format;
use rayon::prelude::*;

/// A sparse matrix, row after row.
///
/// Invariants, kept by every constructor: `start` has `rows + 1` elements, ascends from 0 to the number of entries;
/// columns are below `columns` and ascend strictly within a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Csr {
    rows: usize,
    columns: usize,
    start: Vec<usize>,
    column: Vec<usize>,
    value: Vec<f64>,
}

impl Csr {
    /// The parts of a matrix whose invariants the caller has established.
    pub(super) fn of_parts(columns: usize, start: Vec<usize>, column: Vec<usize>, value: Vec<f64>) -> Csr {
        Csr { rows: start.len().saturating_sub(1), columns, start, column, value }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of stored entries, explicit zeros among them.
    pub fn entries(&self) -> usize {
        self.column.len()
    }

    /// Whether there are as many rows as columns.
    pub fn is_square(&self) -> bool {
        self.rows == self.columns
    }

    /// Where each row begins among the entries; one element more than rows.
    pub fn row_starts(&self) -> &[usize] {
        &self.start
    }

    /// Columns of all entries.
    pub fn column_indices(&self) -> &[usize] {
        &self.column
    }

    /// Values of all entries.
    pub fn values(&self) -> &[f64] {
        &self.value
    }

    /// The matrix as the compiler takes it.
    pub fn view(&self) -> format::Matrix<'_> {
        format::Matrix { columns: self.columns, starts: &self.start, column: &self.column, value: &self.value }
    }

    /// The product with a vector, each row's sum in the order of its columns.
    ///
    /// # Panics
    /// A vector with other than as many elements as there are columns.
    pub fn multiply(&self, x: &[f64]) -> Vec<f64> {
        assert_eq!(x.len(), self.columns, "a vector has an element for every column");
        let row = |row: usize| self.row(row).map(|(column, value)| value * x[column]).sum();
        (0..self.rows).into_par_iter().map(row).collect()
    }

    /// Number of entries of a row.
    pub fn row_length(&self, row: usize) -> usize {
        self.start[row + 1] - self.start[row]
    }

    /// Entries of a row as (column, value), columns ascending.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.start[row]..self.start[row + 1];
        self.column[range.clone()].iter().copied().zip(self.value[range].iter().copied())
    }

    /// The stored value at a place.
    pub fn get(&self, row: usize, column: usize) -> Option<f64> {
        let first = self.start[row];
        let place = self.column[first..self.start[row + 1]].binary_search(&column).ok()?;
        Some(self.value[first + place])
    }

    /// Columns become rows.
    pub fn transposed(&self) -> Csr {
        let mut start = vec![0usize; self.columns + 1];
        self.column.iter().for_each(|column| start[column + 1] += 1);
        (0..self.columns).for_each(|column| start[column + 1] += start[column]);
        let mut next = start.clone();
        let mut column = vec![0; self.entries()];
        let mut value = vec![0.0; self.entries()];
        for row in 0..self.rows {
            for (old, entry) in self.row(row) {
                column[next[old]] = row;
                value[next[old]] = entry;
                next[old] += 1;
            }
        }
        Csr::of_parts(self.rows, start, column, value)
    }
}
