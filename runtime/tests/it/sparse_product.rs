//! Products in every format, on every kind of matrix and on hostile shapes, on the host and interpreted as for both
//! targets; the result's buffer holds NaN before.

use kernelwright::backend::cuda::cusparse::Cusparse;
use kernelwright::backend::cuda::{CudaBackend, CudaOptions};
use kernelwright::backend::host::{HostBackend, HostOptions};
use kernelwright::backend::interp::{InterpBackend, InterpOptions};
use kernelwright::backend::{Backend, Target};
use kernelwright::inputs::random;
use kernelwright::matrix::{Csr, Entry, Symmetry, Triplets, kinds};
use kernelwright::sparse::choice::{formats, named, shapes};
use kernelwright::sparse::product::{Product, convert};
use kernelwright::sparse::vendor;
use kernelwright_codegen::kernel::Element;
use kernelwright_syntax::program::{Format, Order, Precision};

fn matrix(rows: usize, columns: usize, places: impl IntoIterator<Item = (usize, usize)>) -> Csr {
    let entry = |(n, (row, column))| Entry { row, column, value: random::uniform(5, n as u64) };
    let entries = places.into_iter().enumerate().map(entry).collect();
    Triplets { rows, columns, symmetry: Symmetry::General, parts: vec![entries] }.into_csr().expect("small").0
}

/// Shapes that break assumptions, by name.
fn hostile() -> Vec<(String, Csr)> {
    let arrow = (0..70).flat_map(|n| [(0, n), (n, 0), (n, n)]);
    let shapes = [
        ("one entry", matrix(1, 1, [(0, 0)])),
        ("only the last place", matrix(65, 65, [(64, 64)])),
        ("no entries", matrix(40, 40, [])),
        ("one full row", matrix(100, 100, (0..100).map(|n| (37, n)).chain((0..100).map(|n| (n, n))))),
        ("an arrow", matrix(70, 70, arrow)),
        ("dense", matrix(33, 33, (0..33 * 33).map(|n| (n / 33, n % 33)))),
        ("empty rows", matrix(90, 90, (0..90).filter(|n| n % 3 == 0).flat_map(|n| [(n, 89 - n), (n, n)]))),
        ("wide", matrix(20, 95, (0..20).flat_map(|n| [(n, n), (n, 94 - n), (n, 50)]))),
        ("tall", matrix(95, 20, (0..95).map(|n| (n, n % 20)))),
        ("far columns", matrix(3, 65_600, [(0, 0), (0, 40_000), (0, 65_599), (2, 65_537), (2, 5)])),
    ];
    shapes.map(|(name, matrix)| (name.to_string(), matrix)).into()
}

fn kinds_of(scale: f64) -> Vec<(String, Csr)> {
    kinds::all(scale).iter().map(|kind| (kind.name.to_string(), kind.build())).collect()
}

/// Multiplies with every format; errors of rounding at most gamma_n |A| |x|.
#[track_caller]
fn check(matrices: &[(String, Csr)], precision: Precision, open: &dyn Fn() -> Box<dyn Backend>) {
    for (name, matrix) in matrices {
        let x = random::fill(9, 0, matrix.columns());
        let exact = matrix.multiply(&x);
        for format in formats(None) {
            let stored = convert(matrix, &format).expect("every format of the library stores every matrix");
            let mut product = Product::compile(&stored, precision, &[], open()).expect("it compiles");
            let y = product.multiply(&x).expect("it runs");
            assert_eq!(y.len(), matrix.rows());
            for row in 0..matrix.rows() {
                let magnitude: f64 = matrix.row(row).map(|(column, value)| (value * x[column]).abs()).sum();
                let roundoff = if precision == Precision::F32 { 2f64.powi(-24) } else { 2f64.powi(-53) };
                let allowed = 2.0 * (matrix.row_length(row) as f64 + 2.0) * roundoff * magnitude;
                let error = (y[row] - exact[row]).abs();
                let place = format!("{name} in {}, {precision:?}, row {row}", format.name);
                assert!(error <= allowed, "{place}: {} instead of {}", y[row], exact[row]);
            }
        }
    }
}

/// Chunks of other heights and other windows, on rows longer than the ones before them; pjds in windows is no format.
#[test]
fn other_shapes_store_what_formats_store() {
    let rows = (0..1200).flat_map(|row| (0..1 + row % 40).map(move |k| (row, (row + 7 * k) % 1200)));
    let matrix = matrix(1200, 1200, rows);
    for shape in formats(None).iter().flat_map(shapes) {
        let stored = convert(&matrix, &shape).unwrap_or_else(|error| panic!("{}: {error}", shape.name));
        assert!(stored.layout.entries == 24_600, "{}", shape.name);
    }
    let pjds = named(&formats(None), "pjds").expect("a format of the library");
    let windows = Format { order: Order::Sorted { window: Some(512) }, ..pjds };
    let error = convert(&matrix, &windows).expect_err("a later row may be longer").to_string();
    assert!(error.contains("slot by slot rows that are not sorted as a whole"), "{error}");
}

fn interp(target: Target) -> Box<dyn Backend> {
    Box::new(InterpBackend::new(InterpOptions { target, ..InterpOptions::default() }))
}

#[test]
fn interpreted_for_the_host() {
    check(&hostile(), Precision::F32, &|| interp(Target::Host));
    check(&kinds_of(1e-5), Precision::F64, &|| interp(Target::Host));
}

#[test]
fn interpreted_for_cuda() {
    check(&hostile(), Precision::F64, &|| interp(Target::Cuda));
    check(&kinds_of(1e-5), Precision::F32, &|| interp(Target::Cuda));
}

#[test]
fn on_the_host() {
    let open = || -> Box<dyn Backend> { Box::new(HostBackend::new(HostOptions::default()).expect("a compiler")) };
    if HostBackend::new(HostOptions::default()).is_err() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    check(&hostile(), Precision::F64, &open);
    check(&kinds_of(1e-4), Precision::F32, &open);
}

fn card() -> Option<Box<dyn Backend>> {
    Some(Box::new(CudaBackend::new(CudaOptions::default()).ok()?))
}

#[test]
fn on_a_card() {
    if card().is_none() {
        eprintln!("skipped: there is no CUDA device");
        return;
    }
    for precision in [Precision::F32, Precision::F64] {
        check(&hostile(), precision, &|| card().expect("it was there"));
        check(&kinds_of(1e-3), precision, &|| card().expect("it was there"));
    }
}

#[test]
fn cusparse_multiplies_the_same_matrices() {
    let mut library = match Cusparse::open(0) {
        Ok(library) => library,
        Err(why) => {
            assert!(!why.to_string().is_empty());
            eprintln!("skipped: {why}");
            return;
        }
    };
    for (name, matrix) in kinds_of(1e-3) {
        let x = random::fill(9, 0, matrix.columns());
        let exact = matrix.multiply(&x);
        for (stored, sorted) in [(vendor::csr(&matrix), false), (vendor::sliced(&matrix, true), true)] {
            let stored = stored.expect("small");
            for product in library.measure(&stored, &x, Element::F64).expect("it runs") {
                let y = if sorted { vendor::unsorted(&matrix, &product.y) } else { product.y };
                let close = y.iter().zip(&exact).all(|(a, b)| (a - b).abs() < 1e-10);
                assert!(close, "{name} by {}", product.algorithm);
            }
        }
    }
}
