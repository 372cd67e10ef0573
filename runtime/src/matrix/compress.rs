//! Entries in any order to compressed rows, in parallel.
//!
//! Rows are dealt out in bands, each with its own part of the arrays. A band goes through the entries in their order and
//! takes its own, skipping parts of the file that have none of its rows; so the result is the same for any number of
//! threads, and files sorted by rows, as well as matrices with a narrow band, are read once.

use std::ops::Range;

use rayon::prelude::*;

use super::{Csr, Entry, MatrixError, Symmetry, Triplets, bad};

/// Rows that one thread takes, and where their entries lie.
struct Band<'a> {
    rows: Range<usize>,
    /// Where the rows begin, in the arrays of the whole matrix.
    start: &'a [usize],
    column: &'a mut [usize],
    value: &'a mut [f64],
}

/// What a band found when its rows were sorted.
struct Tidied {
    /// Lengths of rows after coinciding entries were added; empty if none coincide.
    lengths: Vec<usize>,
    /// Entries of the stored form that vanished.
    duplicates: usize,
    /// The first place whose sum is not finite: row and column.
    overflow: Option<(usize, usize)>,
}

/// Compressed rows, and the number of entries that were added to others.
pub(super) fn compress(triplets: Triplets) -> Result<(Csr, usize), MatrixError> {
    let threads = rayon::current_num_threads();
    let reach: Vec<Range<usize>> = triplets.parts.par_iter().map(|part| reach(part, triplets.symmetry)).collect();
    let start = starts(&triplets, &reach, threads);
    let count = start[triplets.rows];
    let (mut column, mut value) = (vec![0usize; count], vec![0f64; count]);
    let mut bands = bands(&start, &mut column, &mut value, threads);
    bands.par_iter_mut().for_each(|band| band.take(&triplets, &reach));
    let (columns, symmetry) = (triplets.columns, triplets.symmetry);
    drop(triplets);
    let tidied: Vec<Tidied> = bands.par_iter_mut().map(|band| band.tidy(symmetry)).collect();
    if let Some((row, column)) = tidied.iter().find_map(|tidied| tidied.overflow) {
        let place = format!("row {}, column {}", row + 1, column + 1);
        return Err(bad(format!("{place}: the entries at this place add up to a number too large for 64 bits")));
    }
    let duplicates = tidied.iter().map(|tidied| tidied.duplicates).sum();
    if tidied.iter().all(|tidied| tidied.lengths.is_empty()) {
        return Ok((Csr::of_parts(columns, start, column, value), duplicates));
    }
    let lengths: Vec<(Range<usize>, Vec<usize>)> =
        bands.iter().map(|band| band.rows.clone()).zip(tidied.into_iter().map(|tidied| tidied.lengths)).collect();
    Ok((close_gaps(columns, start, column, value, &lengths), duplicates))
}

/// Rows that a part of the file has entries for.
fn reach(part: &[Entry], symmetry: Symmetry) -> Range<usize> {
    let (mut first, mut end) = (usize::MAX, 0);
    for entry in part {
        let (mut low, mut high) = (entry.row, entry.row);
        if symmetry != Symmetry::General {
            (low, high) = (low.min(entry.column), high.max(entry.column));
        }
        (first, end) = (first.min(low), end.max(high + 1));
    }
    first..end
}

/// Calls `take` for every entry, mirrored ones included, of some rows.
fn for_rows(triplets: &Triplets, reach: &[Range<usize>], rows: &Range<usize>, mut take: impl FnMut(&Entry)) {
    for (part, reach) in triplets.parts.iter().zip(reach) {
        if reach.start >= rows.end || reach.end <= rows.start {
            continue;
        }
        for entry in part {
            if rows.contains(&entry.row) {
                take(entry);
            }
            if let Some(mirrored) = triplets.mirror(entry).filter(|mirrored| rows.contains(&mirrored.row)) {
                take(&mirrored);
            }
        }
    }
}

/// Where each row begins, coinciding entries counted one by one.
fn starts(triplets: &Triplets, reach: &[Range<usize>], threads: usize) -> Vec<usize> {
    let mut start = vec![0usize; triplets.rows + 1];
    let rows = triplets.rows.div_ceil(threads).max(1);
    start[1..].par_chunks_mut(rows).enumerate().for_each(|(band, counts)| {
        let first = band * rows;
        for_rows(triplets, reach, &(first..first + counts.len()), |entry| counts[entry.row - first] += 1);
    });
    (0..triplets.rows).for_each(|row| start[row + 1] += start[row]);
    start
}

/// Deals out the rows, with about as many entries to each band.
fn bands<'a>(start: &'a [usize], mut column: &'a mut [usize], mut value: &'a mut [f64], count: usize) -> Vec<Band<'a>> {
    let (rows, entries) = (start.len() - 1, column.len());
    let mut bands = Vec::new();
    let mut first = 0;
    for band in 1..=count {
        let target = (entries as u128 * band as u128 / count as u128) as usize;
        let end = if band == count { rows } else { start.partition_point(|begin| *begin < target).clamp(first, rows) };
        let length = start[end] - start[first];
        let (columns, values);
        (columns, column) = column.split_at_mut(length);
        (values, value) = value.split_at_mut(length);
        bands.push(Band { rows: first..end, start: &start[first..=end], column: columns, value: values });
        first = end;
    }
    bands
}

impl Band<'_> {
    /// Puts the entries of the rows in their places, in the order of the file.
    fn take(&mut self, triplets: &Triplets, reach: &[Range<usize>]) {
        let (first, offset) = (self.rows.start, self.start[0]);
        let mut next: Vec<usize> = self.start.iter().map(|begin| begin - offset).collect();
        for_rows(triplets, reach, &self.rows.clone(), |entry| {
            let place = &mut next[entry.row - first];
            self.column[*place] = entry.column;
            self.value[*place] = entry.value;
            *place += 1;
        });
    }

    /// Sorts the rows that need it and adds up entries at one place.
    fn tidy(&mut self, symmetry: Symmetry) -> Tidied {
        let mut out = Tidied { lengths: Vec::new(), duplicates: 0, overflow: None };
        let offset = self.start[0];
        let mut scratch: Vec<(usize, f64)> = Vec::new();
        for (n, bounds) in self.start.windows(2).enumerate() {
            let range = bounds[0] - offset..bounds[1] - offset;
            let (columns, values) = (&mut self.column[range.clone()], &mut self.value[range]);
            let mut length = columns.len();
            if !columns.is_sorted_by(|a, b| a < b) {
                let row = self.rows.start + n;
                scratch.clear();
                scratch.extend(columns.iter().copied().zip(values.iter().copied()));
                // Stable: sums are in the order of the file.
                scratch.sort_by_key(|entry| entry.0);
                length = merge(&scratch, columns, values);
                // Of mirrored entries only the stored one counts.
                let counted = |pair: &&[(usize, f64)]| symmetry == Symmetry::General || pair[0].0 <= row;
                out.duplicates += scratch.windows(2).filter(|pair| pair[0].0 == pair[1].0).filter(counted).count();
                let overflow = values[..length].iter().position(|value| !value.is_finite());
                out.overflow = out.overflow.or(overflow.map(|place| (row, columns[place])));
            }
            if out.lengths.is_empty() && length < columns.len() {
                out.lengths = self.start.windows(2).take(n).map(|bounds| bounds[1] - bounds[0]).collect();
            }
            if !out.lengths.is_empty() || length < columns.len() {
                out.lengths.push(length);
            }
        }
        out
    }
}

/// Writes sorted entries with sums for those at one place; returns how many are left.
fn merge(sorted: &[(usize, f64)], columns: &mut [usize], values: &mut [f64]) -> usize {
    let mut length = 0;
    for (column, value) in sorted {
        if length > 0 && columns[length - 1] == *column {
            values[length - 1] += value;
        } else {
            (columns[length], values[length]) = (*column, *value);
            length += 1;
        }
    }
    length
}

/// Moves the rows together; `lengths` of a band are empty where its rows have none to spare.
fn close_gaps(
    columns: usize,
    start: Vec<usize>,
    mut column: Vec<usize>,
    mut value: Vec<f64>,
    lengths: &[(Range<usize>, Vec<usize>)],
) -> Csr {
    let mut kept = 0;
    let mut closed = Vec::with_capacity(start.len());
    for (rows, lengths) in lengths {
        for row in rows.clone() {
            let begin = start[row];
            let length = lengths.get(row - rows.start).copied().unwrap_or(start[row + 1] - begin);
            closed.push(kept);
            column.copy_within(begin..begin + length, kept);
            value.copy_within(begin..begin + length, kept);
            kept += length;
        }
    }
    closed.push(kept);
    column.truncate(kept);
    value.truncate(kept);
    Csr::of_parts(columns, closed, column, value)
}
