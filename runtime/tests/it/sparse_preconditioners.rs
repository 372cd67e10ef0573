//! Block Jacobi and SSOR of a matrix, applied alone and within solves, against dense definitions.
//!
//! One step of Richardson's iteration from zero is the preconditioner on the right-hand side, and so tests it alone.

use std::sync::Arc;

use kernelwright::backend::Target;
use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::inputs::random;
use kernelwright::matrix::{Csr, Entry, Symmetry, Triplets};
use kernelwright::solve::{Inputs, Solver};
use kernelwright::sparse::choice::formats;
use kernelwright::sparse::system::{self, Against, Choices};
use kernelwright_syntax::program::Precision;

use crate::cli::{file, folder, run};
use crate::cli_sparse::{solve, system as symmetric};

const ROWS: usize = 46;

/// Rows of three to eight entries wherever they fall, none of them symmetric, diagonals that outweigh them; one row is
/// full.
fn matrix() -> Csr {
    let mut entries = Vec::new();
    for row in 0..ROWS {
        let others = (0..2 + row % 6).map(|k| (row * 7 + k * k * 5 + 3) % ROWS);
        let columns: Vec<usize> = if row == 19 { (0..ROWS).collect() } else { others.collect() };
        let value = |n: usize| random::uniform(3, (row * ROWS + n) as u64) - 0.5;
        let off = columns.into_iter().filter(|&column| column != row);
        entries.extend(off.map(|column| Entry { row, column, value: value(column) }));
        let diagonal = (3.0 + row as f64 / 16.0) * if row % 4 == 1 { -1.0 } else { 1.0 };
        entries.push(Entry { row, column: row, value: if row == 19 { 20.0 } else { diagonal } });
    }
    let parts = vec![entries];
    Triplets { rows: ROWS, columns: ROWS, symmetry: Symmetry::General, parts }.into_csr().expect("small").0
}

type Dense = Vec<Vec<f64>>;

fn dense(matrix: &Csr) -> Dense {
    let mut out = vec![vec![0.0; ROWS]; ROWS];
    for (row, out) in out.iter_mut().enumerate() {
        matrix.row(row).for_each(|(column, value)| out[column] += value);
    }
    out
}

fn product(a: &Dense, b: &Dense) -> Dense {
    let sum = |i: usize, j: usize| (0..ROWS).map(|k| a[i][k] * b[k][j]).sum();
    (0..ROWS).map(|i| (0..ROWS).map(|j| sum(i, j)).collect()).collect()
}

fn map(a: &Dense, f: impl Fn(usize, usize, f64) -> f64) -> Dense {
    let row = |(i, row): (usize, &Vec<f64>)| row.iter().enumerate().map(|(j, &x)| f(i, j, x)).collect();
    a.iter().enumerate().map(row).collect()
}

/// M, and a bound of its terms: |L| |D^-1| |U| for a product, |M| for blocks.
fn definition(matrix: &Csr, preconditioner: &str) -> (Dense, Dense) {
    let a = dense(matrix);
    let argument = preconditioner.split(['(', ')']).nth(1);
    if preconditioner.starts_with("block_jacobi") {
        let size: usize = argument.expect("a size").parse().expect("a number");
        let m = map(&a, |i, j, x| if i / size == j / size { x } else { 0.0 });
        let bound = map(&m, |_, _, x| x.abs());
        return (m, bound);
    }
    let w: f64 = argument.map_or(1.0, |text| text.parse().expect("a number"));
    let mut colour = vec![0; ROWS];
    for row in 0..ROWS {
        let near = |&other: &usize| a[row][other] != 0.0 || a[other][row] != 0.0;
        let taken: Vec<usize> = (0..row).filter(near).map(|other| colour[other]).collect();
        colour[row] = (0..).find(|c| !taken.contains(c)).expect("one is free");
    }
    let part = |later: bool| {
        map(&a, |i, j, x| match i == j {
            true => x / w,
            false if (colour[j] > colour[i]) == later => x,
            false => 0.0,
        })
    };
    let over = |m: &Dense| map(m, |i, _, x| x * w / ((2.0 - w) * a[i][i]));
    let (lower, upper) = (part(false), over(&part(true)));
    let absolute = |m: &Dense| map(m, |_, _, x| x.abs());
    (product(&lower, &upper), product(&absolute(&lower), &absolute(&upper)))
}

/// One application on a right-hand side.
fn applied(matrix: &Csr, preconditioner: &str, format: &str, precision: Precision, backend: Choice) -> Vec<f64> {
    let choices = Choices {
        name: "once".into(),
        solver: "richardson".into(),
        preconditioner: preconditioner.into(),
        tolerance: 0.0,
        against: Against::Nothing,
        iterations: 1,
        precision,
        restart: None,
    };
    let loaded = system::program(ROWS, &choices, None).expect("a program");
    let format = formats(None).into_iter().find(|declared| declared.name == format).expect("a format");
    let stored = system::convert(matrix, &format, &loaded.program).expect("it is stored");
    let builder = Solver::builder(&loaded).stored(&stored, Vec::new()).backend(backend).cache(Arc::new(Cache::none()));
    let mut solver = builder.compile().expect("it compiles");
    solver.solve(&Inputs::new().rhs(&rhs()[..])).expect("it runs").values
}

fn rhs() -> Vec<f64> {
    // Numbers of f32, so that both precisions have the same.
    (0..ROWS).map(|n| f64::from(random::uniform(8, n as u64) as f32) - 0.5).collect()
}

/// M z = f but for rounding: every entry of M is a product and a sum of at most m + 4 factors and terms, in both sweeps
/// (Higham 2002, theorem 8.5); of inverted blocks, b + 4 terms of a block whose condition is below 100.
#[track_caller]
fn check(backend: Choice, precisions: &[Precision]) {
    let matrix = matrix();
    let f = rhs();
    for preconditioner in ["block_jacobi(1)", "block_jacobi(4)", "block_jacobi(32)", "ssor", "ssor(1.4)", "ssor(0.3)"] {
        let (m, bound) = definition(&matrix, preconditioner);
        let condition = if preconditioner.starts_with("block") { 100.0 } else { 1.0 };
        for (&precision, format) in precisions.iter().flat_map(|p| ["csr", "sell_c_sigma", "pjds"].map(|f| (p, f))) {
            let z = applied(&matrix, preconditioner, format, precision, backend);
            let roundoff = if precision == Precision::F32 { 2f64.powi(-24) } else { 2f64.powi(-53) };
            for row in 0..ROWS {
                let residual: f64 = (0..ROWS).map(|k| m[row][k] * z[k]).sum::<f64>() - f[row];
                let magnitude: f64 = (0..ROWS).map(|k| bound[row][k] * z[k].abs()).sum();
                let allowed = condition * 3.0 * (ROWS as f64 + 4.0) * roundoff * magnitude;
                let place = format!("{preconditioner} in {format}, {precision:?}, row {row}");
                assert!(residual.abs() <= allowed, "{place}: {residual} beyond {allowed}");
            }
        }
    }
}

#[test]
fn interpreted() {
    check(Choice::Interp(Target::Host), &[Precision::F64]);
    check(Choice::Interp(Target::Cuda), &[Precision::F32]);
}

#[test]
fn on_the_host() {
    if kernelwright::backend::host::HostBackend::new(Default::default()).is_err() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    check(Choice::Host, &[Precision::F32, Precision::F64]);
}

#[test]
fn on_a_card() {
    if kernelwright::backend::cuda::CudaBackend::new(Default::default()).is_err() {
        eprintln!("skipped: there is no CUDA device");
        return;
    }
    check(Choice::Cuda(0), &[Precision::F32, Precision::F64]);
}

#[test]
fn solves_converge_in_fewer_iterations() {
    let folder = folder("sparse_preconditioners");
    let path = file(&folder, "system.mtx", &symmetric(75));
    let iterations = |preconditioner: &str, more: &[&str]| {
        let ran = solve(&path, &[&["--preconditioner", preconditioner, "--tolerance", "1e-11"], more].concat());
        assert_eq!((ran.status, &ran.json()["outcome"]), (0, &"converged".into()), "{preconditioner}: {}", ran.err);
        assert!(ran.json()["largest_error"].as_f64().expect("known") < 1e-9, "{preconditioner}");
        ran.json()["iterations"].as_i64().expect("a number")
    };
    let jacobi = iterations("jacobi", &[]);
    let beside = solve(&path, &["--preconditioner", "ssor"]).json()["matrix"]["companions"].clone();
    assert_eq!((&beside[0]["name"], &beside[1]["name"]), (&"forward".into(), &"backward".into()));
    assert!(iterations("ssor", &[]) < jacobi, "Gauss-Seidel forward and back");
    assert!(iterations("block_jacobi(8)", &["--format", "pjds"]) <= jacobi);
    iterations("ssor(1.1)", &["--precision", "mixed", "--format", "sell_c_sigma"]);
    iterations("inner(richardson, iterations = 2, preconditioner = ssor)", &["--solver", "pcg_flexible"]);
    iterations("block_jacobi(3)", &["--solver", "bicgstab", "--format", "csr_delta"]);
}

#[test]
fn what_cannot_be_inverted_is_said() {
    let folder = folder("sparse_preconditioners_refused");
    let banner = "%%MatrixMarket matrix coordinate real general\n";
    let text = format!("{banner}5 5 9\n1 1 1\n2 2 1\n3 3 1\n3 4 2\n4 3 2\n4 4 4\n5 5 0\n1 5 1\n5 1 1\n");
    let path = file(&folder, "singular.mtx", &text);
    let refused = [
        (
            "block_jacobi(2)",
            1,
            "block_jacobi inverts diagonal blocks, and that of the 2 rows from row 3 on is singular",
        ),
        ("block_jacobi(1)", 1, "that of the 1 rows from row 5 on is singular"),
        ("ssor", 1, "ssor divides by the diagonal, which is zero or not stored in row 5"),
        ("block_jacobi(0)", 1, "a whole number from 1 to 32"),
        ("block_jacobi", 1, "write `block_jacobi(4)`"),
        ("ssor(2)", 1, "the factor of `ssor` is between 0 and 2"),
    ];
    for (preconditioner, status, expected) in refused {
        let ran = solve(&path, &["--solver", "bicgstab", "--preconditioner", preconditioner]);
        assert_eq!(ran.status, status, "{preconditioner}: {}", ran.err);
        assert!(ran.err.contains(expected), "{preconditioner}: {}", ran.err);
        let error = ran.err.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or_default();
        assert!(!error.starts_with("error"), "{preconditioner}: {}", ran.err);
    }
    let grid = "operator second { grid cells [i: n]; apply u => 3*u - u[i-1]; boundary i: no_flux; }
        problem grid { operator second(n = 9); rhs 1; solver bicgstab; preconditioner block_jacobi(4); }";
    let grid = file(&folder, "grid.kw", grid);
    let ran = run(&["solve", &grid, "--backend", "interp"]);
    assert!(ran.status == 1 && ran.err.contains("`block_jacobi` is for matrices"), "{}", ran.err);
}
