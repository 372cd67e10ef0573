//! Companions: matrices that are made of a matrix for its preconditioners and loops, and stored beside it.
//!
//! A preconditioner of a matrix, and its transpose, are carried out as sparse products like any other, so that what is
//! derived for products (formats, sharing of rows, fusion) serves them too:
//! - **block Jacobi**: z = B r, with B the inverses of the diagonal blocks of b consecutive rows (Saad 2003, section 4.1);
//! - **SSOR** (Saad 2003, section 4.1): M = (D/w + L) (D/w)^-1 (D/w + U) / (2 - w), with the rows in the order of their
//!   colours (Saad 2003, section 12.4). Let E be w D^-1 L and F be w D^-1 U. Then M z = r is solved by
//!   t = w (2 - w) D^-1 r; then, colour after colour, t <- t - E t at the rows of the colour; then the same with F, from
//!   the last colour but one to the first. At the time of a colour its row of E finds final values only: of equal colours
//!   no row has an entry in another's column. So every colour is one product, whose rows may be formed in any order;
//! - **the transpose**, for loops on a matrix that is not symmetric.
//!
//! Colours are those of the greedy algorithm in the order of the matrix, on the pattern of A + A^T.

use kernelwright_syntax::library;
use kernelwright_syntax::program::Preconditioner;

use super::compressed::Compressed;
use super::layout::{Array, Kind, Layout, Role};
use super::store::{Basis, Contents, Options, Stored, store};
use super::{FormatError, Matrix};

/// A matrix beside the operator's.
#[derive(Debug, Clone, PartialEq)]
pub struct Companion {
    /// What it is.
    pub of: Derived,
    /// How it lies in memory, its rows and columns in the order of the operator's.
    pub layout: Layout,
}

/// What a companion is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Derived {
    /// The transpose.
    Transpose,
    /// The inverses of the diagonal blocks of so many rows.
    BlockInverse(u32),
    /// E or F; see the module.
    Sweep {
        /// w.
        relaxation: f64,
        /// Whether it is F.
        backward: bool,
        /// Colours that have entries: products that the sweep takes. [`Role::Step`] says at which of them, from 1, a row
        /// has its turn.
        steps: u32,
    },
}

impl Derived {
    /// What its arrays' names begin with.
    pub fn name(&self) -> &'static str {
        match self {
            Derived::Transpose => "transpose",
            Derived::BlockInverse(_) => "block",
            Derived::Sweep { backward: false, .. } => "forward",
            Derived::Sweep { backward: true, .. } => "backward",
        }
    }

    /// Products that one application takes.
    pub fn products(&self) -> u32 {
        match self {
            Derived::Transpose | Derived::BlockInverse(_) => 1,
            Derived::Sweep { steps, .. } => *steps,
        }
    }
}

/// Whether a preconditioner reads the diagonal.
pub fn reads_diagonal(preconditioner: &Preconditioner) -> bool {
    match preconditioner {
        Preconditioner::Jacobi | Preconditioner::Ssor(_) => true,
        Preconditioner::Inner { preconditioner, .. } => reads_diagonal(preconditioner),
        Preconditioner::Identity | Preconditioner::Line(_) | Preconditioner::BlockJacobi(_) => false,
    }
}

/// Makes the companions that a preconditioner and those of its inner solvers need, and stores them beside the matrix.
///
/// # Errors
/// A diagonal block that is singular.
pub fn add(stored: &mut Stored, matrix: &Matrix<'_>, preconditioner: &Preconditioner) -> Result<(), FormatError> {
    match preconditioner {
        Preconditioner::Identity | Preconditioner::Jacobi | Preconditioner::Line(_) => Ok(()),
        Preconditioner::Inner { preconditioner, .. } => add(stored, matrix, preconditioner),
        Preconditioner::BlockJacobi(size) => {
            let of = Derived::BlockInverse(*size);
            if has(stored, &of) {
                return Ok(());
            }
            let blocks = block_inverses(matrix, *size as usize)?;
            // Every row has as many entries: padding is that of the last block.
            push(stored, of, blocks, "ellpack", None)
        }
        Preconditioner::Ssor(relaxation) => {
            let colours = colours(matrix);
            let steps = colours.iter().copied().max().unwrap_or(0);
            for backward in [false, true] {
                let of = Derived::Sweep { relaxation: *relaxation, backward, steps };
                if has(stored, &of) {
                    continue;
                }
                let step = |&c: &u32| if backward { steps - c } else { c };
                let step = colours.iter().map(step).collect();
                let part = triangle(matrix, &colours, *relaxation, backward);
                push(stored, of, part, "csr", Some(step))?;
            }
            Ok(())
        }
    }
}

/// Stores the transpose beside the matrix.
///
/// # Errors
/// As [`store`].
pub fn add_transpose(stored: &mut Stored, matrix: &Matrix<'_>) -> Result<(), FormatError> {
    if has(stored, &Derived::Transpose) {
        return Ok(());
    }
    push(stored, Derived::Transpose, transposed(matrix), "csr", None)
}

fn has(stored: &Stored, of: &Derived) -> bool {
    stored.companions.iter().any(|companion| companion.of == *of)
}

/// Stores a companion in a format of the library that moves no rows, in the order of the matrix.
fn push(
    stored: &mut Stored,
    of: Derived,
    mut rows: Compressed,
    format: &str,
    mut step: Option<Vec<u32>>,
) -> Result<(), FormatError> {
    if let Some(order) = &stored.order {
        rows = Compressed::moved(&rows.view(rows.rows()), order);
        step = step.map(|step| order.iter().map(|&row| step[row as usize]).collect());
    }
    let format = library::format(format).expect("invariant: the library's formats are declared");
    let mut made = store(&format, &rows.view(rows.rows()), Options { basis: Basis::Given, diagonal: false })?;
    if let Some(step) = step {
        // Every product of a sweep reads all of them.
        let narrow: Result<Vec<u16>, _> = step.iter().map(|&step| u16::try_from(step)).collect();
        let (kind, contents) = match narrow {
            Ok(step) => (Kind::U16, Contents::U16(step)),
            Err(_) => (Kind::U32, Contents::U32(step)),
        };
        made.layout.arrays.push(Array { role: Role::Step, kind, len: made.layout.size });
        made.contents.push(contents);
    }
    stored.contents.append(&mut made.contents);
    stored.companions.push(Companion { of, layout: made.layout });
    Ok(())
}

/// The transpose of a square matrix; entries of its rows by ascending column.
fn transposed(matrix: &Matrix<'_>) -> Compressed {
    let rows = matrix.rows();
    let mut starts = vec![0usize; rows + 1];
    matrix.column.iter().for_each(|&column| starts[column + 1] += 1);
    (0..rows).for_each(|row| starts[row + 1] += starts[row]);
    let mut entries = vec![(0usize, 0.0); matrix.column.len()];
    let mut next = starts.clone();
    for row in 0..rows {
        for at in matrix.entries_of(row) {
            let place = &mut next[matrix.column[at]];
            entries[*place] = (row, matrix.value[at]);
            *place += 1;
        }
    }
    let mut out = Compressed::new();
    for row in 0..rows {
        entries[starts[row]..starts[row + 1]].iter().for_each(|&(column, value)| out.push(column, value));
        out.end();
    }
    out
}

/// The inverses of the diagonal blocks, the last of which may be smaller.
fn block_inverses(matrix: &Matrix<'_>, size: usize) -> Result<Compressed, FormatError> {
    let mut out = Compressed::new();
    let mut first = 0;
    while first < matrix.rows() {
        let count = size.min(matrix.rows() - first);
        let mut block = vec![0.0; count * count];
        for row in 0..count {
            for at in matrix.entries_of(first + row) {
                if let Some(column) = matrix.column[at].checked_sub(first).filter(|&column| column < count) {
                    block[row * count + column] = matrix.value[at];
                }
            }
        }
        let inverse = invert(&block, count).ok_or(FormatError::Singular { row: first as u64, size: count as u64 })?;
        for row in inverse.chunks_exact(count) {
            row.iter().enumerate().for_each(|(column, &value)| out.push(first + column, value));
            out.end();
        }
        first += count;
    }
    Ok(out)
}

/// The inverse of a dense matrix, by Gauss-Jordan elimination with partial pivoting (Higham 2002, section 14.4) on rows
/// scaled to their largest entry; none where a pivot is what rounding leaves of a singular matrix. That of a symmetric
/// matrix is symmetric.
fn invert(block: &[f64], n: usize) -> Option<Vec<f64>> {
    let (mut a, mut x) = (block.to_vec(), vec![0.0; n * n]);
    for row in 0..n {
        let scale = a[row * n..][..n].iter().fold(0.0, |m: f64, v| m.max(v.abs()));
        if scale == 0.0 {
            return None;
        }
        a[row * n..][..n].iter_mut().for_each(|v| *v /= scale);
        x[row * n + row] = 1.0 / scale;
    }
    for step in 0..n {
        let larger = |&i: &usize, &j: &usize| a[i * n + step].abs().total_cmp(&a[j * n + step].abs());
        let pivot = (step..n).max_by(larger)?;
        for column in 0..n {
            a.swap(step * n + column, pivot * n + column);
            x.swap(step * n + column, pivot * n + column);
        }
        let value = a[step * n + step];
        if value.abs() <= n as f64 * f64::EPSILON {
            return None;
        }
        for m in [&mut a, &mut x] {
            m[step * n..][..n].iter_mut().for_each(|v| *v /= value);
        }
        for row in (0..n).filter(|&row| row != step) {
            let factor = a[row * n + step];
            for m in [&mut a, &mut x] {
                for column in 0..n {
                    m[row * n + column] -= factor * m[step * n + column];
                }
            }
        }
    }
    let symmetric = (0..n * n).all(|at| block[at] == block[at % n * n + at / n]);
    if symmetric {
        x = (0..n * n).map(|at| 0.5 * (x[at] + x[at % n * n + at / n])).collect();
    }
    x.iter().all(|v| v.is_finite()).then_some(x)
}

/// The colour of every row, from 0: the smallest that none of its neighbours of smaller number has.
fn colours(matrix: &Matrix<'_>) -> Vec<u32> {
    let rows = matrix.rows();
    // For every row the smaller rows that have an entry in its column.
    let upper = |row: usize| matrix.entries_of(row).map(|at| matrix.column[at]).filter(move |&column| column > row);
    let mut starts = vec![0usize; rows + 1];
    (0..rows).flat_map(upper).for_each(|column| starts[column + 1] += 1);
    (0..rows).for_each(|row| starts[row + 1] += starts[row]);
    let mut mirrored = vec![0usize; starts[rows]];
    let mut next = starts.clone();
    for row in 0..rows {
        for column in upper(row) {
            mirrored[next[column]] = row;
            next[column] += 1;
        }
    }
    let mut colour = vec![0u32; rows];
    // The row that last saw a colour at a neighbour.
    let mut seen: Vec<usize> = Vec::new();
    for row in 0..rows {
        let own = matrix.entries_of(row).map(|at| matrix.column[at]).filter(|&column| column < row);
        for neighbour in own.chain(mirrored[starts[row]..starts[row + 1]].iter().copied()) {
            seen[colour[neighbour] as usize] = row + 1;
        }
        let free = seen.iter().position(|&by| by != row + 1).unwrap_or(seen.len());
        if free == seen.len() {
            seen.push(0);
        }
        colour[row] = free as u32;
    }
    colour
}

/// E or F: entries at columns of smaller, or larger, colours over the diagonal, times w.
fn triangle(matrix: &Matrix<'_>, colours: &[u32], relaxation: f64, backward: bool) -> Compressed {
    let mut out = Compressed::new();
    for row in 0..matrix.rows() {
        let diagonal = matrix.diagonal(row);
        for at in matrix.entries_of(row) {
            let column = matrix.column[at];
            let (here, there) = (colours[row], colours[column]);
            if if backward { there > here } else { there < here } {
                out.push(column, relaxation * matrix.value[at] / diagonal);
            }
        }
        out.end();
    }
    out
}
