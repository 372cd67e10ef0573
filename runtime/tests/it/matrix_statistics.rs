//! Statistics and pictures of matrices that are known by heart.

use kernelwright::matrix::statistics::{Bandwidth, Bin, Statistics};
use kernelwright::matrix::{Csr, Entry, Symmetry, Triplets, drawing};

fn csr(rows: usize, columns: usize, entries: &[(usize, usize, f64)]) -> Csr {
    let entries = entries.iter().map(|(row, column, value)| Entry { row: *row, column: *column, value: *value });
    let parts = vec![entries.collect()];
    Triplets { rows, columns, symmetry: Symmetry::General, parts }.into_csr().expect("small").0
}

fn arrow(n: usize) -> Csr {
    let first = (0..n).map(|column| (0, column, 1.0));
    let rest = (1..n).map(|row| (row, row, -2.0));
    csr(n, n, &first.chain(rest).collect::<Vec<_>>())
}

#[test]
fn an_arrow() {
    let statistics = Statistics::of(&arrow(100));
    let lengths = &statistics.row_lengths;
    assert_eq!((lengths.min, lengths.max, lengths.longest, lengths.empty), (1, 100, Some(1), 0));
    assert!((lengths.mean - 1.99).abs() < 1e-15);
    assert_eq!(lengths.histogram.iter().map(|bin| bin.rows).sum::<usize>(), 100);
    assert_eq!(lengths.histogram.first(), Some(&Bin { from: 1, to: 1, rows: 99 }));
    assert_eq!(lengths.histogram.last(), Some(&Bin { from: 64, to: 100, rows: 1 }));
    assert_eq!(statistics.bandwidth, Bandwidth { lower: 0, upper: 99 });
    assert_eq!(statistics.magnitudes, Some([1.0, 2.0]));
    let symmetry = statistics.symmetry.expect("square");
    assert_eq!((symmetry.unmatched, symmetry.defect), (99, 1.0));
    let diagonal = statistics.diagonal.expect("square");
    assert_eq!((diagonal.negative, diagonal.first_negative, diagonal.missing), (99, Some(2), 0));
    assert_eq!(diagonal.dominant, 0);
}

#[test]
fn a_diagonal_with_holes() {
    let matrix = csr(5, 5, &[(0, 0, 2.0), (1, 0, 1.0), (2, 2, 0.0), (3, 3, 1.0), (3, 4, 0.5), (4, 3, 0.25)]);
    let statistics = Statistics::of(&matrix);
    let diagonal = statistics.diagonal.expect("square");
    assert_eq!((diagonal.missing, diagonal.first_missing), (2, Some(2)));
    assert_eq!((diagonal.zero, diagonal.first_zero), (1, Some(3)));
    assert!(!diagonal.is_positive());
    // Rows 1, 3 (nothing stands beside its zero) and 4.
    assert_eq!(diagonal.dominant, 3);
    let symmetry = statistics.symmetry.expect("square");
    assert_eq!((symmetry.unmatched, symmetry.defect, symmetry.place), (1, 1.0, Some([1, 2])));
}

#[test]
fn a_skew_matrix_and_a_rectangle() {
    let skew = csr(3, 3, &[(0, 1, 2.0), (1, 0, -2.0), (1, 2, 1.0), (2, 1, -1.0)]);
    let symmetry = Statistics::of(&skew).symmetry.expect("square");
    assert_eq!((symmetry.unmatched, symmetry.defect, symmetry.skew_defect), (0, 4.0, 0.0));
    let statistics = Statistics::of(&csr(2, 3, &[(0, 2, 1.0)]));
    assert!(statistics.symmetry.is_none() && statistics.diagonal.is_none());
    assert_eq!((statistics.row_lengths.empty, statistics.row_lengths.first_empty), (1, Some(2)));
    assert!((statistics.density() - 1.0 / 6.0).abs() < 1e-15);
}

#[test]
fn dense_blocks_are_found() {
    let mut entries = Vec::new();
    for block in 0..4 {
        for (row, column) in (0..9).map(|n| (n / 3, n % 3)) {
            entries.push((3 * block + row, 3 * block + column, 1.0));
            entries.push((3 * block + row, (3 * block + 6) % 12 + column, 1.0));
        }
    }
    let blocks = Statistics::of(&csr(12, 12, &entries)).blocks.expect("blocks");
    assert_eq!((blocks.size, blocks.fill), (3, 1.0));
    assert!(Statistics::of(&arrow(96)).blocks.is_none());
}

#[test]
fn nothing_is_no_problem() {
    for (rows, columns) in [(0, 0), (0, 7), (7, 0), (3, 3)] {
        let matrix = csr(rows, columns, &[]);
        let statistics = Statistics::of(&matrix);
        assert_eq!((statistics.entries, statistics.row_lengths.empty), (0, rows));
        assert_eq!((statistics.density(), statistics.blocks, statistics.magnitudes), (0.0, None, None));
        for svg in [drawing::spy(&matrix, "nothing"), drawing::histogram(&statistics, "nothing")] {
            assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}

#[test]
fn a_small_spy_plot_has_a_cell_for_every_entry() {
    let svg = drawing::spy(&csr(3, 4, &[(0, 0, 1.0), (0, 1, 1.0), (2, 3, 1.0)]), "<A & B>");
    assert!(svg.contains("M0 0.5h2M3 2.5h1\""), "{svg}");
    assert!(svg.contains("&lt;A &amp; B&gt;") && svg.contains("3 x 4, 3 entries"), "{svg}");
}

#[test]
fn a_large_spy_plot_stays_small() {
    let svg = drawing::spy(&arrow(10_000), "arrow");
    assert!(svg.len() < 20_000 && svg.contains("a cell has 42 x 42 places"), "{} bytes", svg.len());
}
