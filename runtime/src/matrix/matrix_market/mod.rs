//! The MatrixMarket format: reader and writer.
//!
//! A file is the banner `%%MatrixMarket matrix LAYOUT FIELD SYMMETRY`, comments (`%`), a line of sizes, and the entries:
//! `row column value` each on a line (`coordinate`), or all values column by column (`array`). Words of the banner may
//! be in any case, lines end with or without a carriage return, blank lines and comments may stand anywhere below the
//! banner. Entries are parsed in parallel ([`super::pieces`]).

mod body;
mod header;
mod write;

use std::io::{BufReader, Read};

use super::pieces::{self, Cut, Declared};
use super::triangle::{Triangle, mirror};
use super::{Csr, Entry, Matrix, MatrixError, Symmetry, Triplets, Vectors, bad};
use body::{Coordinates, Values};
use header::{Header, Layout, Sizes};

pub(super) use header::is_banner;
pub use write::write;

/// Reads a matrix.
///
/// # Errors
/// The line and the reason why it is not one.
pub fn read(source: impl Read) -> Result<Matrix, MatrixError> {
    read_cut(source, Cut::default())
}

/// The same, with the text cut as is asked for; the result does not depend on it.
///
/// # Errors
/// As [`read`].
pub fn read_cut(source: impl Read, cut: Cut) -> Result<Matrix, MatrixError> {
    let mut source = BufReader::with_capacity(64 << 10, source);
    let (header, sizes, line) = header::read(&mut source)?;
    match header.layout {
        Layout::Coordinate => coordinate(source, cut, header, sizes, line),
        Layout::Array => array(source, cut, header, sizes, line),
    }
}

fn coordinate(source: impl Read, cut: Cut, header: Header, sizes: Sizes, line: usize) -> Result<Matrix, MatrixError> {
    let form = header.to_string();
    let symmetry = header.symmetry;
    let declared = Declared { count: sizes.entries, name: "entries" };
    let body = body::Context { header, sizes };
    let pieces = pieces::read::<Coordinates>(source, cut, line, declared, &body)?;
    let mut triangle = Triangle::default();
    let mut zeros = 0;
    let mut parts = Vec::with_capacity(pieces.len());
    for (before, piece) in pieces {
        triangle = triangle.then(piece.triangle, before);
        zeros += piece.zeros;
        parts.push(piece.entries);
    }
    let upper = triangle.is_upper(symmetry)?;
    if upper {
        mirror(&mut parts);
    }
    let (csr, duplicates) = Triplets { rows: sizes.rows, columns: sizes.columns, symmetry, parts }.into_csr()?;
    let stored = sizes.entries;
    Ok(Matrix { csr, symmetry, form, title: None, stored, duplicates, zeros, upper, vectors: Vectors::default() })
}

/// Zeros of an array are not entries: the layout has no other way to say that there is none.
fn array(source: impl Read, cut: Cut, header: Header, sizes: Sizes, line: usize) -> Result<Matrix, MatrixError> {
    let form = header.to_string();
    let symmetry = header.symmetry;
    let declared = Declared { count: sizes.entries, name: "values" };
    let body = body::Context { header, sizes };
    let pieces = pieces::read::<Values>(source, cut, line, declared, &body)?;
    let mut place = Place::first(sizes.rows, symmetry);
    let mut parts = Vec::with_capacity(pieces.len());
    for (_, piece) in pieces {
        let mut part = Vec::new();
        for value in piece.values {
            if value != 0.0 {
                part.push(Entry { row: place.row, column: place.column, value });
            }
            place.step();
        }
        parts.push(part);
    }
    let triplets = Triplets { rows: sizes.rows, columns: sizes.columns, symmetry, parts };
    let stored = triplets.len();
    let (csr, duplicates) = triplets.into_csr()?;
    let vectors = Vectors::default();
    Ok(Matrix { csr, symmetry, form, title: None, stored, duplicates, zeros: 0, upper: false, vectors })
}

/// Where a value of an array belongs: column by column, of a symmetric one from the diagonal down, of a
/// skew-symmetric one from below the diagonal.
struct Place {
    row: usize,
    column: usize,
    rows: usize,
    symmetry: Symmetry,
}

impl Place {
    fn first(rows: usize, symmetry: Symmetry) -> Place {
        let row = if symmetry == Symmetry::Skew { 1 } else { 0 };
        Place { row, column: 0, rows, symmetry }
    }

    fn step(&mut self) {
        self.row += 1;
        if self.row >= self.rows {
            self.column += 1;
            self.row = match self.symmetry {
                Symmetry::General => 0,
                Symmetry::Symmetric => self.column,
                Symmetry::Skew => self.column + 1,
            };
        }
    }
}

/// Number of values of an array.
fn array_values(rows: usize, columns: usize, symmetry: Symmetry) -> Result<usize, MatrixError> {
    let count = match symmetry {
        Symmetry::General => rows.checked_mul(columns),
        Symmetry::Symmetric => rows.checked_add(1).and_then(|next| rows.checked_mul(next)).map(|twice| twice / 2),
        Symmetry::Skew => rows.checked_mul(rows.saturating_sub(1)).map(|twice| twice / 2),
    };
    count.ok_or_else(|| bad(format!("{rows} x {columns} values are too many")))
}

/// The part of a matrix that a form with this symmetry stores.
fn stores(symmetry: Symmetry, row: usize, column: usize) -> bool {
    match symmetry {
        Symmetry::General => true,
        Symmetry::Symmetric => row >= column,
        Symmetry::Skew => row > column,
    }
}

/// Number of entries that a form with this symmetry stores.
fn stored(csr: &Csr, symmetry: Symmetry) -> usize {
    (0..csr.rows()).map(|row| csr.row(row).filter(|(column, _)| stores(symmetry, row, *column)).count()).sum()
}
