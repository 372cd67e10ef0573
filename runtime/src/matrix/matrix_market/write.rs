//! Writer.

use std::io::{self, Write};

use super::super::{Csr, Symmetry};
use super::{stored, stores};

/// Writes a matrix in the layout `coordinate`, values with as few digits as give the same f64 back; `comment` lines say
/// what it is. With a symmetry only one triangle is written; the matrix must have it.
pub fn write(mut target: impl Write, matrix: &Csr, symmetry: Symmetry, comment: &[String]) -> io::Result<()> {
    writeln!(target, "%%MatrixMarket matrix coordinate real {}", symmetry.name())?;
    // A line break in a comment would end it.
    let lines = comment.iter().flat_map(|text| text.lines());
    for line in lines {
        writeln!(target, "% {line}")?;
    }
    writeln!(target, "{} {} {}", matrix.rows(), matrix.columns(), stored(matrix, symmetry))?;
    for row in 0..matrix.rows() {
        for (column, value) in matrix.row(row).filter(|(column, _)| stores(symmetry, row, *column)) {
            writeln!(target, "{} {} {value:e}", row + 1, column + 1)?;
        }
    }
    target.flush()
}
