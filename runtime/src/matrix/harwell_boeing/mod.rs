//! The Harwell-Boeing and Rutherford-Boeing formats: reader and writer.
//!
//! A file is a title, the numbers of lines of each part, the type of the matrix with its sizes, Fortran's formats of the
//! parts, and the parts: where columns begin, row indices, values, and (Harwell-Boeing only) right-hand sides with
//! initial guesses and exact solutions. Each part begins on a new line. Read are assembled matrices of real numbers,
//! integers and patterns; the elemental and the complex ones are refused by name.
//!
//! Fields stand where the format puts them; blanks within a number are an error, where Fortran would drop them: they
//! mean that the columns have shifted.

mod format;
mod header;
mod lines;
mod write;

use super::triangle::{Triangle, mirror};
use super::{Entry, Matrix, MatrixError, Symmetry, Triplets, Vectors, at};
pub(super) use header::is_one;
use header::{Header, Sides};
use lines::Lines;
pub use write::{Flavour, type_of, write};

/// Reads a matrix with its vectors.
///
/// # Errors
/// The line and the reason why it is not one.
pub fn read(bytes: &[u8]) -> Result<Matrix, MatrixError> {
    let mut lines = Lines::new(bytes);
    let header = header::read(&mut lines)?;
    let starts = starts(&mut lines, &header)?;
    let indices = lines.integers(&header.indices, header.entries, "row indices")?;
    let values = match &header.values {
        Some(format) => lines.reals(format, header.entries, "values")?,
        None => vec![1.0; header.entries],
    };
    let (entries, triangle) = entries(&header, &starts, &indices, values)?;
    drop((starts, indices));
    let vectors = match &header.sides {
        Some(sides) => vectors(&mut lines, &header, sides)?,
        None => Vectors::default(),
    };
    lines.finish()?;
    assemble(header, entries, triangle, vectors)
}

fn assemble(header: Header, entries: Vec<Entry>, triangle: Triangle, vectors: Vectors) -> Result<Matrix, MatrixError> {
    let Header { symmetry, rows, columns, .. } = header;
    let zeros = entries.iter().filter(|entry| entry.value == 0.0).count();
    let mut parts = vec![entries];
    let upper = symmetry != Symmetry::General && triangle.is_upper(symmetry)?;
    if upper {
        mirror(&mut parts);
    }
    let (csr, duplicates) = Triplets { rows, columns, symmetry, parts }.into_csr()?;
    let field = if header.has_values { "real" } else { "pattern" };
    let form = format!("Harwell-Boeing {} ({field} {})", header.kind, symmetry.name());
    let title = Some(header.title).filter(|title| !title.is_empty());
    Ok(Matrix { csr, symmetry, form, title, stored: header.entries, duplicates, zeros, upper, vectors })
}

/// Where columns begin, counted from 0, and where the last one ends.
fn starts(lines: &mut Lines, header: &Header) -> Result<Vec<usize>, MatrixError> {
    let count = header.columns.saturating_add(1);
    let starts = lines.integers(&header.pointers, count, "column pointers")?;
    let end = header.entries.saturating_add(1);
    let mut before = 1;
    for (column, (start, line)) in starts.iter().enumerate() {
        let last = column == header.columns;
        if column == 0 && *start != 1 {
            return Err(at(*line, format!("the first column begins at {start}, not at 1")));
        }
        if *start < before {
            return Err(at(*line, format!("a column begins at {start}, the one before it at {before}")));
        }
        if (last && *start != end) || *start > end {
            let entries = header.entries;
            return Err(at(*line, format!("a column pointer {start} where the {entries} entries end at {end}")));
        }
        before = *start;
    }
    Ok(starts.into_iter().map(|(start, _)| start - 1).collect())
}

fn entries(
    header: &Header,
    starts: &[usize],
    indices: &[(usize, usize)],
    values: Vec<f64>,
) -> Result<(Vec<Entry>, Triangle), MatrixError> {
    let mut triangle = Triangle::default();
    let mut entries = Vec::with_capacity(values.len());
    for (column, bounds) in starts.windows(2).enumerate() {
        for place in bounds[0]..bounds[1] {
            let ((index, line), value) = (indices[place], values[place]);
            let row = row(index, header.rows, line)?;
            triangle.note(row, column, line);
            if header.symmetry == Symmetry::Skew && row == column && value != 0.0 {
                return Err(at(line, "a value on the diagonal of a skew-symmetric matrix is zero"));
            }
            entries.push(Entry { row, column, value });
        }
    }
    Ok((entries, triangle))
}

/// The row of an index that counts from 1.
fn row(index: usize, rows: usize, line: usize) -> Result<usize, MatrixError> {
    match index {
        0 => Err(at(line, "row 0: indices count from 1")),
        _ if index > rows => Err(at(line, format!("row {index} of a matrix with {rows} rows"))),
        _ => Ok(index - 1),
    }
}

fn vectors(lines: &mut Lines, header: &Header, sides: &Sides) -> Result<Vectors, MatrixError> {
    let right_hand_sides = match sides.sparse {
        true => sparse_sides(lines, header, sides)?,
        false => dense(lines, header.rows, sides, "right-hand sides")?,
    };
    let guesses = if sides.guesses { dense(lines, header.columns, sides, "guesses")? } else { Vec::new() };
    let solutions = if sides.solutions { dense(lines, header.columns, sides, "solutions")? } else { Vec::new() };
    Ok(Vectors { right_hand_sides, guesses, solutions })
}

fn dense(lines: &mut Lines, length: usize, sides: &Sides, what: &str) -> Result<Vec<Vec<f64>>, MatrixError> {
    let values = lines.reals(&sides.format, length.saturating_mul(sides.count), what)?;
    Ok(values.chunks(length.max(1)).map(<[f64]>::to_vec).collect())
}

/// Right-hand sides stored as the columns of a sparse matrix; entries at one place are added.
fn sparse_sides(lines: &mut Lines, header: &Header, sides: &Sides) -> Result<Vec<Vec<f64>>, MatrixError> {
    let starts = lines.integers(&header.pointers, sides.count.saturating_add(1), "pointers of right-hand sides")?;
    let count = starts.last().map_or(0, |start| start.0.saturating_sub(1));
    let indices = lines.integers(&header.indices, count, "indices of right-hand sides")?;
    let values = lines.reals(&sides.format, count, "right-hand sides")?;
    let mut out = Vec::new();
    for bounds in starts.windows(2) {
        let ((first, line), (end, _)) = (bounds[0], bounds[1]);
        if first == 0 || end < first || end - 1 > count {
            return Err(at(line, format!("a right-hand side from {first} to {end} of {count} entries")));
        }
        let mut side = vec![0.0; header.rows];
        for place in first - 1..end - 1 {
            let (index, line) = indices[place];
            side[row(index, header.rows, line)?] += values[place];
        }
        out.push(side);
    }
    Ok(out)
}
