//! Predictions: what a format would cost for a matrix, without converting it.
//!
//! Everything but the columns aside follows from the lengths of rows and is exact. Columns aside are counted on a sample
//! of chunks, evenly spread, and scaled.

use kernelwright_syntax::program::{Base, Coding, Format};

use super::delta::{self, Cell};
use super::layout::{Arranged, Layout, Role, arrange, index, sorts};
use super::order::inverse;
use super::{Array, FormatError, Matrix};

/// Entries that a sample of chunks holds about.
const SAMPLED: u64 = 1 << 18;

/// The layout of a matrix in a format, with a predicted number of columns aside. An error where the format cannot store
/// the matrix.
pub fn predict(format: &Format, matrix: &Matrix<'_>) -> Result<Layout, FormatError> {
    let lengths = matrix.lengths();
    let arranged = arrange(format, matrix.rows() as u64, matrix.columns as u64, &lengths)?;
    let escapes = aside(&arranged, matrix, &lengths)?;
    let mut layout = arranged.layout;
    if escapes > 0 {
        layout.escapes = escapes;
        layout.arrays.push(Array { role: Role::EscapeStart, kind: index(escapes), len: layout.chunks + 1 });
        layout.arrays.push(Array { role: Role::Escape, kind: index(layout.size), len: escapes });
    }
    Ok(layout)
}

/// Columns aside, scaled from a sample.
fn aside(arranged: &Arranged, matrix: &Matrix<'_>, lengths: &[u64]) -> Result<u64, FormatError> {
    let layout = &arranged.layout;
    let Coding::Delta { base, escape } = layout.format.coding else {
        return Ok(0);
    };
    let mean = (layout.entries / layout.chunks).max(1);
    let every = (layout.chunks / (SAMPLED / mean).max(1)).max(1);
    let moves = arranged.order.as_deref().filter(|_| sorts(&layout.format)).map(inverse);
    let (mut seen, mut found) = (0, 0);
    for chunk in (0..layout.chunks).step_by(usize::try_from(every).unwrap_or(usize::MAX)) {
        let cells = cells(arranged, matrix, moves.as_deref(), chunk, base);
        let units = cells.iter().map(|(_, cell)| cell.unit + 1).max().unwrap_or(0);
        let plain: Vec<Cell> = cells.iter().map(|(_, cell)| *cell).collect();
        let coded = delta::chunk(&plain, units);
        if let Some(&column) = coded.aside.first().filter(|_| !escape) {
            return Err(too_far(arranged, &cells, chunk, column));
        }
        found += coded.aside.len() as u64;
        seen += (0..layout.height).filter_map(|l| row(arranged, chunk, l)).map(|r| lengths[r]).sum::<u64>();
    }
    Ok((found as f64 * layout.entries as f64 / seen.max(1) as f64).ceil() as u64)
}

/// The error for a column, in the order of the format, that no base reaches.
fn too_far(arranged: &Arranged, cells: &[(usize, Cell)], chunk: u64, column: u64) -> FormatError {
    let lane = cells.iter().find(|(_, cell)| cell.column == Some(column)).map_or(0, |(lane, _)| *lane as u64);
    let row = row(arranged, chunk, lane).unwrap_or(0) as u64;
    let column = arranged.order.as_ref().map_or(column, |order| order[column as usize]);
    FormatError::TooFar { format: arranged.layout.format.name.clone(), row, column }
}

/// The given row at a lane of a chunk.
fn row(arranged: &Arranged, chunk: u64, lane: u64) -> Option<usize> {
    let row = chunk * arranged.layout.height + lane;
    if row >= arranged.layout.size {
        return None;
    }
    Some(arranged.order.as_ref().map_or(row as usize, |order| order[row as usize] as usize))
}

/// Cells of a chunk with their lanes, entries only.
fn cells(
    arranged: &Arranged,
    matrix: &Matrix<'_>,
    moves: Option<&[u64]>,
    chunk: u64,
    base: Base,
) -> Vec<(usize, Cell)> {
    let mut cells = Vec::new();
    for lane in 0..arranged.layout.height {
        let Some(row) = row(arranged, chunk, lane) else { continue };
        let column = |&c: &usize| moves.map_or(c as u64, |moves| moves[c]);
        let mut columns: Vec<u64> = matrix.column[matrix.entries_of(row)].iter().map(column).collect();
        columns.sort_unstable();
        for (slot, &column) in columns.iter().enumerate() {
            let unit = match base {
                Base::Row => lane as usize,
                Base::Chunk => 0,
                Base::ChunkSlot => slot,
            };
            cells.push((lane as usize, Cell { column: Some(column), fill: column, unit }));
        }
    }
    cells
}
