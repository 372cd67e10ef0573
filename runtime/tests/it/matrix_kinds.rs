//! The generated matrices: those of the published measurements to the last column, at any number of threads.

use kernelwright::matrix::{Csr, kinds};

/// Name, rows, entries and checksum of the pattern at a thousandth of the size, from the C++ of the yardstick.
const SMALL: [(&str, usize, usize, u64); 7] = [
    ("poisson7", 8000, 53600, 0xf051046bc388dcf9),
    ("fem27", 2197, 50653, 0x4e05b8821392bc16),
    ("hpfem-p4", 729, 117649, 0x3c7961323cac947e),
    ("hmep-like", 6200, 79945, 0xf74cf6b37a89a6d5),
    ("samg-like", 3400, 18025, 0x7fcb0cc847e32b79),
    ("powerlaw", 1000, 18956, 0x100aef127329b2b5),
    ("dlr1-like", 280, 21146, 0x434b06dbcefac055),
];

fn checksum(matrix: &Csr) -> u64 {
    let mix = |sum: u64, number: &usize| sum.wrapping_mul(1099511628211).wrapping_add(*number as u64 + 1);
    let columns = matrix.column_indices().iter().fold(0, mix);
    matrix.row_starts().iter().fold(columns, mix)
}

#[test]
fn the_kinds_are_those_of_the_yardstick() {
    let made: Vec<_> = kinds::all(1e-3).iter().map(|kind| (kind.name, kind.build())).collect();
    let is: Vec<_> = made.iter().map(|(name, m)| (*name, m.rows(), m.entries(), checksum(m))).collect();
    assert_eq!(is, SMALL);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let alone = rayon_of(1, || kinds::all(3e-3).iter().map(kinds::Kind::build).collect::<Vec<_>>());
    let many = rayon_of(5, || kinds::all(3e-3).iter().map(kinds::Kind::build).collect::<Vec<_>>());
    assert_eq!(alone, many);
    for matrix in alone {
        assert!(matrix.values().iter().all(|v| (-0.5..0.5).contains(v) && f64::from(*v as f32) == *v));
        assert!((0..matrix.rows()).all(|row| matrix.row(row).map(|entry| entry.0).is_sorted_by(|a, b| a < b)));
    }
}

fn rayon_of<T: Send>(threads: usize, run: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(run)
}

#[test]
fn any_scale_gives_a_matrix() {
    for scale in [0.0, 1e-9, 1e-5] {
        for kind in kinds::all(scale) {
            let matrix = kind.build();
            assert!(matrix.rows() >= 1 && matrix.is_square(), "{} at {scale}", kind.name);
        }
    }
}
