//! What a choice for the product of a matrix depends on: the structure of the matrix, and small matrices like it.

use super::key::{VERIFICATION, family_with, hash};
use crate::backend::Backend;
use crate::matrix::{Csr, Entry, Symmetry, Triplets};
use kernelwright_syntax::program::Precision;

/// Rows whose columns are part of a structure's hash.
const SAMPLED: usize = 4096;
/// Rows (and at most so many columns) of small matrices: prime, and more than a block of lanes holds.
const SMALL: [usize; 2] = [67, 331];
/// Entries of a row there.
const LONGEST: usize = 64;

/// Hash of the structure: sizes, the length of every row, and the columns of some 4,096 rows from first to last. Values and
/// names do not count.
pub fn hash_of(matrix: &Csr) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut add = |numbers: &[usize]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| (*number as u64).to_le_bytes()).collect();
        hasher.update(&bytes);
    };
    add(&[matrix.rows(), matrix.columns(), matrix.entries()]);
    matrix.row_starts().chunks(1 << 16).for_each(&mut add);
    for row in (0..matrix.rows()).step_by(matrix.rows().div_ceil(SAMPLED).max(1)) {
        let columns: Vec<usize> = matrix.row(row).map(|(column, _)| column).collect();
        add(&columns);
    }
    hasher.finalize().to_hex()[..32].to_string()
}

/// The class of a structure: rows, mean and longest row, each rounded to a power of two.
pub fn class(matrix: &Csr) -> String {
    let longest = (0..matrix.rows()).map(|row| matrix.row_length(row)).max().unwrap_or(0);
    let mean = matrix.entries() as f64 / matrix.rows().max(1) as f64;
    let rounded = |number: f64| number.max(1.0).log2().round().exp2();
    let [rows, mean, longest] = [matrix.rows() as f64, mean, longest as f64].map(rounded);
    format!("{rows} rows of {mean} up to {longest}")
}

/// Hash of all that measurements of products depend on, but for the matrix and the space of candidates.
pub fn family(precision: Precision, backend: &dyn Backend) -> String {
    family_with(&["product"], VERIFICATION, precision, backend.target(), &backend.identity())
}

/// Small matrices with rows of a matrix, from first to last, their columns folded and their lengths bounded, for proofs; one
/// row is empty and one is full.
pub fn small(matrix: &Csr) -> Vec<Csr> {
    let one = |rows: usize| {
        let columns = if matrix.is_square() { rows } else { matrix.columns().clamp(1, rows) };
        let mut entries = Vec::new();
        for row in 0..rows {
            let own = row * matrix.rows().max(1) / rows;
            let places: Vec<usize> = match row {
                3 => Vec::new(),
                5 => (0..columns).collect(),
                _ if own < matrix.rows() => matrix.row(own).take(LONGEST).map(|entry| entry.0 % columns).collect(),
                _ => vec![row % columns],
            };
            entries.extend(places.into_iter().map(|column| Entry { row, column, value: 1.0 }));
        }
        let parts = vec![entries];
        Triplets { rows, columns, symmetry: Symmetry::General, parts }.into_csr().ok().map(|made| made.0)
    };
    SMALL.into_iter().filter_map(one).collect()
}

/// The key of the measurements of a matrix among some formats.
pub fn key(family: &str, structure: &str, formats: &[&str]) -> String {
    hash(&[family, structure, &formats.join(" ")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::kinds;

    fn built(name: &str, scale: f64) -> Csr {
        kinds::all(scale).into_iter().find(|kind| kind.name == name).expect("a kind").build()
    }

    #[test]
    fn structures_differ_where_a_row_or_a_column_does() {
        let matrix = built("samg-like", 0.0001);
        let entries = |change: usize, value: f64| {
            let all = (0..matrix.rows()).flat_map(|row| matrix.row(row).map(move |(column, _)| (row, column)));
            let moved = |(number, (row, column)): (usize, (usize, usize))| {
                let column = if number == change { (column + 1) % matrix.columns() } else { column };
                Entry { row, column, value }
            };
            let parts = vec![all.enumerate().map(moved).collect()];
            let (rows, columns) = (matrix.rows(), matrix.columns());
            Triplets { rows, columns, symmetry: Symmetry::General, parts }.into_csr().expect("small").0
        };
        assert_eq!(hash_of(&entries(usize::MAX, 2.0)), hash_of(&matrix), "values do not count");
        assert_ne!(hash_of(&entries(0, 1.0)), hash_of(&matrix));
        assert_ne!(hash_of(&built("poisson7", 0.0001)), hash_of(&matrix));
    }

    #[test]
    fn small_matrices_have_an_empty_and_a_full_row() {
        for matrix in [built("powerlaw", 0.001), built("dlr1-like", 0.001)] {
            for small in small(&matrix) {
                assert_eq!((small.row_length(3), small.row_length(5)), (0, small.columns()));
            }
        }
    }
}
