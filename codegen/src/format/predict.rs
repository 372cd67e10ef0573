//! Predictions: what a format would cost for a matrix, without converting it.
//!
//! Everything but codes that only some chunks have, and columns aside, follows from the lengths of rows (and distances that
//! are aligned) and is exact. Those are counted on a sample of chunks, evenly spread, and scaled.

use kernelwright_syntax::program::Format;

use super::coding::{Coder, Far};
use super::layout::{self, Arranged, Layout};
use super::order::inverse;
use super::{Basis, FormatError, Matrix};

/// Entries that a sample of chunks holds about.
const SAMPLED: u64 = 1 << 18;

/// The layout of a matrix in a format, columns in a basis, with a predicted number of codes and columns aside. An error
/// where the format cannot store the matrix.
pub fn predict(format: &Format, matrix: &Matrix<'_>, basis: Basis) -> Result<Layout, FormatError> {
    let lengths = matrix.lengths();
    let arranged = layout::of_matrix(format, matrix, &lengths)?;
    let (coded, escapes) = codes(&arranged, matrix, &lengths, basis)?;
    let mut layout = arranged.layout;
    layout.add_codes(coded, escapes);
    Ok(layout)
}

/// Slots of chunks that have codes, and columns aside, scaled from a sample.
fn codes(arranged: &Arranged, matrix: &Matrix<'_>, lengths: &[u64], basis: Basis) -> Result<(u64, u64), FormatError> {
    let layout = &arranged.layout;
    let Some(coder) = Coder::of(layout) else {
        return Ok((0, 0));
    };
    let mean = (layout.entries / layout.chunks).max(1);
    let every = (layout.chunks / (SAMPLED / mean).max(1)).max(1);
    let moves = arranged.order.as_deref().filter(|_| basis == Basis::Permuted).map(inverse);
    let (mut seen, mut aside, mut seen_slots, mut coded_slots) = (0, 0, 0, 0);
    for chunk in (0..layout.chunks).step_by(usize::try_from(every).unwrap_or(usize::MAX)) {
        let rows = rows(arranged, matrix, moves.as_deref(), chunk);
        let rows: Vec<&[usize]> = rows.iter().map(Vec::as_slice).collect();
        let slots = arranged.slots[chunk as usize];
        let coded = coder.chunk(chunk, &rows, slots, arranged.distances_of(chunk));
        let coded = coded.map_err(|far| too_far(arranged, chunk, far, basis))?;
        aside += coded.aside.len() as u64;
        coded_slots += if coder.is_exact(&coded) { 0 } else { slots };
        seen += (0..layout.height).filter_map(|l| row(arranged, chunk, l)).map(|r| lengths[r]).sum::<u64>();
        seen_slots += slots;
    }
    let scaled = |found: u64, all: u64, of: u64| (found as f64 * all as f64 / of.max(1) as f64).ceil() as u64;
    Ok((scaled(coded_slots, layout.cells / layout.height, seen_slots), scaled(aside, layout.entries, seen)))
}

/// The error for an entry, in the order of the format, that no base reaches.
fn too_far(arranged: &Arranged, chunk: u64, far: Far, basis: Basis) -> FormatError {
    let row = row(arranged, chunk, far.lane).unwrap_or(0) as u64;
    let column = arranged
        .order
        .as_ref()
        .filter(|_| basis == Basis::Permuted)
        .map_or(far.column, |order| order[far.column as usize]);
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

/// Columns of the rows of a chunk, in the order of the format.
fn rows(arranged: &Arranged, matrix: &Matrix<'_>, moves: Option<&[u64]>, chunk: u64) -> Vec<Vec<usize>> {
    let of_lane = |lane: u64| {
        let Some(row) = row(arranged, chunk, lane) else { return Vec::new() };
        let column = |&c: &usize| moves.map_or(c, |moves| moves[c] as usize);
        let mut columns: Vec<usize> = matrix.column[matrix.entries_of(row)].iter().map(column).collect();
        if moves.is_some() {
            columns.sort_unstable();
        }
        columns
    };
    (0..arranged.layout.height).map(of_lane).collect()
}
