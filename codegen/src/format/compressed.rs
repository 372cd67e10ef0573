//! Compressed rows that are made here: of companions, and of matrices whose rows change places.

use rayon::prelude::*;

use super::Matrix;
use super::order::inverse;
use super::places::{cut, prefix, ranges};

/// Entries of the rows that one core moves at a time.
const PIECE: u64 = 1 << 15;

/// Compressed rows under construction, in order.
#[derive(Debug)]
pub(super) struct Compressed {
    starts: Vec<usize>,
    column: Vec<usize>,
    value: Vec<f64>,
}

impl Compressed {
    pub(super) fn new() -> Compressed {
        Compressed { starts: vec![0], column: Vec::new(), value: Vec::new() }
    }

    /// Adds an entry to the row that is open.
    pub(super) fn push(&mut self, column: usize, value: f64) {
        self.column.push(column);
        self.value.push(value);
    }

    /// Ends the row that is open.
    pub(super) fn end(&mut self) {
        self.starts.push(self.column.len());
    }

    /// A matrix whose row and column r are `order[r]` of the given one.
    pub(super) fn moved(matrix: &Matrix<'_>, order: &[u64]) -> Compressed {
        let inverse = inverse(order);
        let starts = prefix(order.iter().map(|&given| matrix.entries_of(given as usize).len() as u64));
        let entries = matrix.column.len();
        let (mut column, mut value) = (vec![0; entries], vec![0.0; entries]);
        let pieces = ranges(&starts, PIECE);
        let lengths = || pieces.iter().map(|rows| (starts[rows.end] - starts[rows.start]) as usize);
        let parts: Vec<_> = cut(&mut column, lengths()).into_iter().zip(cut(&mut value, lengths())).collect();
        pieces.clone().into_par_iter().zip(parts).for_each(|(rows, (columns, values))| {
            let mut row: Vec<(usize, f64)> = Vec::new();
            let mut to = columns.iter_mut().zip(values);
            for &given in &order[rows] {
                let range = matrix.entries_of(given as usize);
                row.clear();
                row.extend(range.map(|at| (inverse[matrix.column[at]] as usize, matrix.value[at])));
                row.sort_unstable_by_key(|entry| entry.0);
                row.iter().zip(&mut to).for_each(|(from, (column, value))| (*column, *value) = *from);
            }
        });
        Compressed { starts: starts.into_iter().map(|start| start as usize).collect(), column, value }
    }

    /// The rows as a matrix of so many columns.
    pub(super) fn view(&self, columns: usize) -> Matrix<'_> {
        Matrix { columns, starts: &self.starts, column: &self.column, value: &self.value }
    }

    /// Columns and values of a row.
    pub(super) fn row(&self, row: usize) -> (&[usize], &[f64]) {
        let range = self.starts[row]..self.starts[row + 1];
        (&self.column[range.clone()], &self.value[range])
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> usize {
        self.starts.len() - 1
    }
}
