//! Sparse matrices in MatrixMarket form.

use std::io::{self, Write};

use kernelwright_codegen::math_eval::Matrix;

/// Writes all entries that are not zero; `comment` lines say what the matrix is.
pub fn write(mut target: impl Write, matrix: &Matrix, comment: &[String]) -> io::Result<()> {
    writeln!(target, "%%MatrixMarket matrix coordinate real general")?;
    comment.iter().try_for_each(|line| writeln!(target, "% {line}"))?;
    let shown = |entry: &&(usize, f64)| entry.1 != 0.0;
    let entries: usize = matrix.rows.iter().map(|row| row.iter().filter(shown).count()).sum();
    let n = matrix.rows.len();
    writeln!(target, "{n} {n} {entries}")?;
    for (row, entries) in matrix.rows.iter().enumerate() {
        for (column, value) in entries.iter().filter(shown) {
            writeln!(target, "{} {} {value:e}", row + 1, column + 1)?;
        }
    }
    target.flush()
}
