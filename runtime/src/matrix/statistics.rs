//! What a matrix looks like: row lengths, bandwidth, symmetry, diagonal, dense blocks.
//!
//! Rows and columns that are named here count from 1, as in the files.

use serde::Serialize;

use super::Csr;
use super::triplets::is_believable;

/// Everything that one pass over a matrix and one over its transpose show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Number of entries, explicit zeros among them.
    pub entries: usize,
    /// Lengths of rows.
    pub row_lengths: RowLengths,
    /// Distance of the outermost entries from the diagonal.
    pub bandwidth: Bandwidth,
    /// Smallest and largest magnitude of entries that are not zero.
    pub magnitudes: Option<[f64; 2]>,
    /// Comparison with the transpose; only of square matrices.
    pub symmetry: Option<Comparison>,
    /// The diagonal; only of square matrices.
    pub diagonal: Option<Diagonal>,
    /// Dense blocks, if most entries stand in such.
    pub blocks: Option<Blocks>,
}

/// Numbers of entries of the rows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowLengths {
    /// Shortest row.
    pub min: usize,
    /// Mean length; zero if there are no rows.
    pub mean: f64,
    /// Longest row.
    pub max: usize,
    /// Standard deviation of the lengths.
    pub deviation: f64,
    /// Rows without entries.
    pub empty: usize,
    /// The first of them.
    pub first_empty: Option<usize>,
    /// The longest row; the first of several.
    pub longest: Option<usize>,
    /// How many rows there are of which length.
    pub histogram: Vec<Bin>,
}

/// Rows whose length lies in a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// Shortest length.
    pub from: usize,
    /// Longest length.
    pub to: usize,
    /// Number of rows.
    pub rows: usize,
}

/// Distance of the outermost entries from the diagonal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bandwidth {
    /// Below it.
    pub lower: usize,
    /// Above it.
    pub upper: usize,
}

/// A matrix beside its transpose; an entry that is not stored counts as zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Stored entries whose mirror is not stored.
    pub unmatched: usize,
    /// Largest `|a[i,j] - a[j,i]|`.
    pub defect: f64,
    /// Where it is: row and column.
    pub place: Option<[usize; 2]>,
    /// Largest `|a[i,j] + a[j,i]|`.
    pub skew_defect: f64,
}

/// The diagonal of a square matrix.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Diagonal {
    /// Rows without a stored diagonal.
    pub missing: usize,
    /// The first of them.
    pub first_missing: Option<usize>,
    /// Rows whose stored diagonal is zero.
    pub zero: usize,
    /// The first of them.
    pub first_zero: Option<usize>,
    /// Rows with a negative diagonal.
    pub negative: usize,
    /// The first of them.
    pub first_negative: Option<usize>,
    /// Rows whose diagonal is at least the sum of the magnitudes beside it.
    pub dominant: usize,
    /// Rows whose diagonal is greater than that sum.
    pub strictly_dominant: usize,
}

impl Diagonal {
    /// Whether every row has a diagonal above zero.
    pub fn is_positive(&self) -> bool {
        self.missing + self.zero + self.negative == 0
    }
}

/// Square blocks at multiples of their size.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Blocks {
    /// Rows of a block.
    pub size: usize,
    /// Share of the places in touched blocks that are stored.
    pub fill: f64,
}

impl Statistics {
    /// Looks at a matrix.
    pub fn of(matrix: &Csr) -> Statistics {
        Statistics {
            rows: matrix.rows(),
            columns: matrix.columns(),
            entries: matrix.entries(),
            row_lengths: row_lengths(matrix),
            bandwidth: bandwidth(matrix),
            magnitudes: magnitudes(matrix.values()),
            symmetry: matrix.is_square().then(|| compare(matrix, &matrix.transposed())),
            diagonal: matrix.is_square().then(|| diagonal(matrix)),
            blocks: blocks(matrix),
        }
    }

    /// Share of the places that are stored.
    pub fn density(&self) -> f64 {
        let places = self.rows as f64 * self.columns as f64;
        if places > 0.0 { self.entries as f64 / places } else { 0.0 }
    }
}

fn row_lengths(matrix: &Csr) -> RowLengths {
    let lengths = || (0..matrix.rows()).map(|row| matrix.row_length(row));
    let (min, max) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    let rows = matrix.rows().max(1) as f64;
    let mean = matrix.entries() as f64 / rows;
    // The sum of nothing is a negative zero.
    let variance = (lengths().map(|length| (length as f64 - mean).powi(2)).sum::<f64>() + 0.0) / rows;
    let mut histogram = bins(min, max);
    for length in lengths() {
        let bin = histogram.partition_point(|bin| bin.to < length);
        histogram[bin].rows += 1;
    }
    let first = |wanted: usize| lengths().position(|length| length == wanted).map(|row| row + 1);
    RowLengths {
        min,
        mean,
        max,
        deviation: variance.sqrt(),
        empty: lengths().filter(|length| *length == 0).count(),
        first_empty: first(0),
        longest: first(max),
        histogram,
    }
}

/// Lengths of their own as long as they are few, powers of two otherwise.
fn bins(min: usize, max: usize) -> Vec<Bin> {
    const FEW: usize = 32;
    if max - min < FEW {
        return (min..=max).map(|length| Bin { from: length, to: length, rows: 0 }).collect();
    }
    let mut bins = Vec::new();
    let mut from = 0;
    let mut to = 0;
    while from <= max {
        if to >= min {
            bins.push(Bin { from: from.max(min), to: to.min(max), rows: 0 });
        }
        from = to + 1;
        to = 2 * to + 1;
    }
    bins
}

fn bandwidth(matrix: &Csr) -> Bandwidth {
    let mut band = Bandwidth::default();
    for row in 0..matrix.rows() {
        let columns = &matrix.column_indices()[matrix.row_starts()[row]..matrix.row_starts()[row + 1]];
        if let [first, .., last] | [first @ last] = columns {
            band.lower = band.lower.max(row.saturating_sub(*first));
            band.upper = band.upper.max(last.saturating_sub(row));
        }
    }
    band
}

fn magnitudes(values: &[f64]) -> Option<[f64; 2]> {
    let shown = values.iter().map(|value| value.abs()).filter(|value| *value > 0.0);
    shown.fold(None, |range, value| match range {
        None => Some([value, value]),
        Some([low, high]) => Some([value.min(low), value.max(high)]),
    })
}

fn compare(matrix: &Csr, transpose: &Csr) -> Comparison {
    let mut out = Comparison::default();
    for row in 0..matrix.rows() {
        let (mut here, mut there) = (matrix.row(row).peekable(), transpose.row(row).peekable());
        loop {
            let column = match (here.peek(), there.peek()) {
                (None, None) => break,
                (Some(a), Some(b)) => a.0.min(b.0),
                (Some(a), None) => a.0,
                (None, Some(b)) => b.0,
            };
            let [a, b] = [&mut here, &mut there].map(|entries| entries.next_if(|entry| entry.0 == column));
            // Of a pair of places each one is met once, here or in the mirrored row.
            out.unmatched += usize::from(b.is_none());
            let [a, b] = [a, b].map(|entry| entry.map_or(0.0, |entry| entry.1));
            if (a - b).abs() > out.defect {
                out.defect = (a - b).abs();
                out.place = Some([row + 1, column + 1]);
            }
            out.skew_defect = out.skew_defect.max((a + b).abs());
        }
    }
    out
}

fn diagonal(matrix: &Csr) -> Diagonal {
    let mut out = Diagonal::default();
    for row in 0..matrix.rows() {
        let note = |count: &mut usize, first: &mut Option<usize>| {
            *count += 1;
            first.get_or_insert(row + 1);
        };
        let value = matrix.get(row, row);
        match value {
            None => note(&mut out.missing, &mut out.first_missing),
            Some(0.0) => note(&mut out.zero, &mut out.first_zero),
            Some(value) if value < 0.0 => note(&mut out.negative, &mut out.first_negative),
            Some(_) => {}
        }
        let beside: f64 = matrix.row(row).filter(|(column, _)| *column != row).map(|(_, value)| value.abs()).sum();
        out.dominant += usize::from(value.unwrap_or(0.0) >= beside);
        out.strictly_dominant += usize::from(value.unwrap_or(0.0) > beside);
    }
    out
}

/// The largest block size whose blocks are mostly full.
fn blocks(matrix: &Csr) -> Option<Blocks> {
    const SIZES: [usize; 6] = [8, 6, 5, 4, 3, 2];
    const FULL: f64 = 0.75;
    let divides = |size: &usize| matrix.rows().is_multiple_of(*size) && matrix.columns().is_multiple_of(*size);
    let looked_at = matrix.entries() > 0 && is_believable(matrix.columns(), matrix.entries());
    let fits = SIZES.into_iter().filter(|_| looked_at).filter(divides);
    let mut filled = fits.map(|size| Blocks { size, fill: fill(matrix, size) });
    filled.find(|blocks| blocks.fill >= FULL)
}

fn fill(matrix: &Csr, size: usize) -> f64 {
    // The row of blocks that touched a column of blocks last, counted from 1.
    let mut touched = vec![0usize; matrix.columns().div_ceil(size)];
    let mut blocks = 0usize;
    for row in 0..matrix.rows() {
        let stamp = row / size + 1;
        for (column, _) in matrix.row(row) {
            let last = &mut touched[column / size];
            blocks += usize::from(*last != stamp);
            *last = stamp;
        }
    }
    matrix.entries() as f64 / (blocks as f64 * (size * size) as f64)
}
