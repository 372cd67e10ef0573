//! A matrix in the forms of cuSPARSE, to compare with.

use crate::backend::cuda::cusparse::{Layout, Stored};
use crate::matrix::Csr;
use rayon::prelude::*;

/// Rows of a slice: the warp, as cuSPARSE's examples have it.
pub const SLICE: usize = 32;
/// Slices that a core fills at a time.
const SLICES: usize = 256;
/// Padding beyond so many times the entries is not worth measuring.
const MOST_PADDING: usize = 4;

/// Compressed rows. None for a matrix beyond 32-bit indices, or not square.
pub fn csr(matrix: &Csr) -> Option<Stored> {
    Some(Stored {
        rows: square(matrix)?,
        entries: matrix.entries(),
        layout: Layout::Csr,
        start: narrow(matrix.row_starts())?,
        column: narrow(matrix.column_indices())?,
        value: matrix.values().to_vec(),
    })
}

/// Slices of [`SLICE`] rows, with rows as they are or sorted by length, longest first; columns are left as they are. None
/// where that pads too much, or where indices have more than 32 bits.
pub fn sliced(matrix: &Csr, sorted: bool) -> Option<Stored> {
    let rows = square(matrix)?;
    let order = if sorted { by_length(matrix) } else { (0..rows).collect() };
    let widths = order.chunks(SLICE).map(|slice| slice.iter().map(|row| matrix.row_length(*row)).max().unwrap_or(0));
    i32::try_from(rows).ok()?;
    let mut start = vec![0];
    for width in widths {
        start.push(start[start.len() - 1] + width * SLICE);
    }
    let cells = start[start.len() - 1];
    if cells > MOST_PADDING * matrix.entries() {
        return None;
    }
    let (mut column, mut value) = (vec![0; cells], vec![0.0; cells]);
    let (mut columns, mut values) = (column.as_mut_slice(), value.as_mut_slice());
    let mut slices = Vec::with_capacity(rows / SLICE + 1);
    for (slice, rows) in order.chunks(SLICE).enumerate() {
        let cells = start[slice + 1] - start[slice];
        let (column, more_columns) = columns.split_at_mut(cells);
        let (value, more_values) = values.split_at_mut(cells);
        slices.push((rows, column, value));
        (columns, values) = (more_columns, more_values);
    }
    slices.into_par_iter().with_min_len(SLICES).for_each(|(rows, column, value)| {
        column.fill(-1);
        for (lane, row) in rows.iter().enumerate() {
            // Below the number of rows, which fits.
            let cells = (lane..).step_by(SLICE).zip(matrix.row(*row));
            cells.for_each(|(cell, (at, entry))| (column[cell], value[cell]) = (at as i32, entry));
        }
    });
    let start = narrow(&start)?;
    let layout = Layout::SlicedEllpack(SLICE);
    Some(Stored { rows, entries: matrix.entries(), layout, start, column, value })
}

/// Rows by length, longest first; rows of one length keep their order.
fn by_length(matrix: &Csr) -> Vec<usize> {
    let mut order: Vec<usize> = (0..matrix.rows()).collect();
    order.par_sort_by_key(|row| std::cmp::Reverse(matrix.row_length(*row)));
    order
}

/// A product of sorted slices, brought to the order of the matrix.
pub fn unsorted(matrix: &Csr, sorted: &[f64]) -> Vec<f64> {
    let mut values = vec![0.0; sorted.len()];
    by_length(matrix).into_iter().zip(sorted).for_each(|(row, value)| values[row] = *value);
    values
}

fn square(matrix: &Csr) -> Option<usize> {
    (matrix.is_square() && matrix.entries() > 0).then_some(matrix.rows())
}

fn narrow(numbers: &[usize]) -> Option<Vec<i32>> {
    numbers.par_iter().map(|number| i32::try_from(*number).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::kinds;

    /// The product of a stored form, cell by cell.
    fn product(stored: &Stored, x: &[f64]) -> Vec<f64> {
        let mut y = vec![0.0; stored.rows];
        for (unit, bounds) in stored.start.windows(2).enumerate() {
            for cell in bounds[0] as usize..bounds[1] as usize {
                let row = match stored.layout {
                    Layout::Csr => unit,
                    Layout::SlicedEllpack(slice) => unit * slice + (cell - bounds[0] as usize) % slice,
                };
                if stored.column[cell] >= 0 {
                    y[row] += stored.value[cell] * x[stored.column[cell] as usize];
                }
            }
        }
        y
    }

    #[test]
    fn every_form_is_the_matrix() {
        for kind in kinds::all(1e-3) {
            let matrix = kind.build();
            let x: Vec<f64> = (0..matrix.rows()).map(|n| 1.0 + n as f64 / 7.0).collect();
            let y = matrix.multiply(&x);
            assert_eq!(product(&csr(&matrix).expect("small"), &x), y, "{}", kind.name);
            if let Some(plain) = sliced(&matrix, false) {
                assert_eq!(product(&plain, &x), y, "{}", kind.name);
            }
            let moved = product(&sliced(&matrix, true).expect("sorted rows pad little"), &x);
            assert_eq!(unsorted(&matrix, &moved), y, "{}", kind.name);
        }
    }
}
