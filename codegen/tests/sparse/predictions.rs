//! Predictions against conversions, and the numbers of the pJDS paper.

use crate::formats;
use crate::matrices::{self, Csr};
use kernelwright_codegen::format::{Basis, Options, predict, store};

#[test]
fn predictions_are_what_conversion_finds() {
    for (format, basis) in formats::all().iter().flat_map(|f| [(f, Basis::Permuted), (f, Basis::Given)]) {
        let options = Options { basis, diagonal: false };
        for matrix in matrices::square() {
            let predicted = predict(format, &matrix.view(), options.basis).unwrap();
            let stored = store(format, &matrix.view(), options).unwrap().layout;
            assert_eq!(predicted, stored, "{} in {}", matrix.name, format.name);
        }
    }
}

#[test]
fn columns_aside_are_predicted_from_a_sample() {
    let matrix = matrices::wide();
    let options = Options { basis: Basis::Permuted, diagonal: false };
    for name in ["csr_delta", "sell_delta", "sell_pattern"] {
        let format = formats::named(name);
        let predicted = predict(&format, &matrix.view(), options.basis).unwrap();
        let stored = store(&format, &matrix.view(), options).unwrap().layout;
        let (got, want) = (predicted.escapes as f64, stored.escapes as f64);
        assert!((got - want).abs() <= 0.2 * want, "{name}: {got} predicted, {want} found");
    }
}

/// One full row and single entries elsewhere: ELLPACK stores N*N, pJDS (b_r+1)*N - b_r (Kreutzer et al. 2012, section II-B).
#[test]
fn one_full_row_costs_what_the_paper_says() {
    let n = 128;
    let rows = (0..n).map(|i| if i == 40 { (0..n).collect() } else { vec![i] }).collect();
    let matrix = Csr::new("one full row", n, rows, 1);
    let cells = |name: &str| predict(&formats::named(name), &matrix.view(), Basis::Given).unwrap();
    let n = n as u64;
    assert_eq!(cells("ellpack").cells, n * n);
    assert_eq!(cells("pjds").cells, (32 + 1) * n - 32);
    assert_eq!(cells("csr").cells, 2 * n - 1);
    let against_ellpack = cells("pjds").cells as f64 / cells("ellpack").cells as f64;
    assert!((against_ellpack - 33.0 / 128.0).abs() < 0.01);
    assert_eq!(cells("csr").padding_overhead(), 0.0);
}

#[test]
fn bytes_are_counted_array_by_array() {
    let matrix =
        Csr::new("band", 1000, (0..1000).map(|i: usize| (i.max(1) - 1..(i + 2).min(1000)).collect()).collect(), 1);
    let nnz = 3 * 1000 - 2;
    let bytes =
        |name: &str, real| predict(&formats::named(name), &matrix.view(), Basis::Given).unwrap().read_bytes(real);
    assert_eq!(bytes("csr", 8), nnz * 12 + 1001 * 4);
    assert_eq!(bytes("csr", 4), nnz * 8 + 1001 * 4);
    assert_eq!(bytes("csr_delta", 4), nnz * 6 + 1001 * 4 + 1000 * 4);
    assert_eq!(bytes("coo", 8), nnz * 16);
    // Lengths kept: the padding of two short rows and of the fill to 1024 rows is not read.
    assert_eq!(bytes("ellpack_r", 8), nnz * 12 + 1024 * 4);
    assert_eq!(bytes("ellpack", 8), 3 * 1024 * 12);
}
