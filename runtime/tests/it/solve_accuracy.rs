//! How good solutions are: in f32 against f64, and by a residual that shares no code with the compiler.

use std::sync::Arc;

use kernelwright::backend::BackendError;
use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::load;
use kernelwright::solve::{Error, Inputs, Outcome, Solution, Solver};
use kernelwright_syntax::program::Precision;
use kernelwright_tests::dense::norm;
use kernelwright_tests::oracle::Instance;

use crate::cli::{example, folder, run};

/// The shell of 64 x 64 columns with 128 levels, the lowest of which are thin.
fn shell(precision: Precision, tolerance: f64, lambda: f64) -> Option<Solution> {
    let loaded = load(&example("pressure_correction.kw")).expect("an example");
    let builder = Solver::builder(&loaded).set("nx", 64.0).set("ny", 64.0).set("omega", 10.0 / 64.0);
    let builder = builder.set("lambda", lambda).precision(precision).tolerance(tolerance).backend(Choice::Host);
    match builder.cache(Arc::new(Cache::none())).compile() {
        Ok(mut solver) => Some(solver.solve(&Inputs::new()).expect("it solves")),
        Err(Error::Backend(BackendError::Unavailable(why))) => {
            println!("skipped: {why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A diagonal into which the couplings are folded loses the zero-order term: f32 is then wrong by a percent and more,
/// while the recursive residual says 1e-5.
#[test]
fn single_precision_agrees_with_double_on_a_stiff_shell() {
    let Some(double) = shell(Precision::F64, 1e-10, 1.0) else { return };
    let Some(single) = shell(Precision::F32, 1e-7, 1.0) else { return };
    assert_eq!(double.report.outcome, Outcome::Converged);
    let difference: Vec<f64> = double.values.iter().zip(&single.values).map(|(a, b)| a - b).collect();
    let relative = norm(&difference) / norm(&double.values);
    assert!(relative <= 1e-5, "{relative:e}");
    // The solution is stored in f32, so that its residual is far from the bound: that is said, not hidden.
    let report = &single.report;
    assert_eq!(report.outcome, Outcome::AttainableAccuracy);
    assert!(report.truth.expect("verified") > report.bound && report.recursive <= report.bound, "{report:?}");
    assert!(report.detail.as_ref().expect("says what helps").contains("f64"));
}

/// Bytes of a .npy file of f64, as NumPy documents the format.
fn npy(shape: &[usize], values: &[f64]) -> Vec<u8> {
    let shape: String = shape.iter().map(|n| format!("{n}, ")).collect();
    let header = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}), }}", shape.trim_end());
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

fn values_of(bytes: &[u8]) -> Vec<f64> {
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let header = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let text = String::from_utf8_lossy(&bytes[10..10 + header]);
    assert!(text.contains("'<f8'") && text.contains("False"), "{text}");
    let value = |chunk: &[u8]| f64::from_le_bytes(chunk.try_into().expect("eight bytes"));
    bytes[10 + header..].chunks_exact(8).map(value).collect()
}

/// From a right-hand side in a file to a solution in a file, whose residual, by a matrix assembled in plain Rust, meets
/// the tolerance.
#[test]
fn a_right_hand_side_in_a_file_gives_a_solution_in_a_file() {
    let folder = folder("accuracy_files");
    let path = |name: &str| folder.join(name).display().to_string();
    let (f, u) = (path("f.npy"), path("u.npy"));
    let sizes = [6, 5, 8];
    let rhs: Vec<f64> = (0..240).map(|n| ((n * 37 % 101) as f64 - 50.0) / 17.0).collect();
    // Axis i is the fastest, so that the file's axes are k, j, i.
    std::fs::write(&f, npy(&[8, 5, 6], &rhs)).expect("a file");
    let program = example("pressure_correction.kw");
    let args = ["solve", &program, "--set", "nx=6", "--set", "ny=5", "--set", "nz=8", "--backend", "interp"];
    let ran = run(&[&args[..], &["--rhs", &f, "--rhs-order", "k,j,i", "--out", &u, "--json"]].concat());
    assert_eq!(ran.json()["outcome"], "converged", "{}", ran.err);
    let found = values_of(&std::fs::read(&u).expect("written"));
    let loaded = load(&program).expect("an example");
    let set: Vec<(String, f64)> =
        ["nx", "ny", "nz"].iter().zip(sizes).map(|(n, s)| (n.to_string(), s as f64)).collect();
    let problem = loaded.program.problem_with(0, &set).expect("sizes fit");
    let operator = &loaded.program.operators[problem.operator];
    let instance = Instance { operator, sizes: problem.sizes.clone(), params: problem.parameters(), data: Vec::new() };
    let product = instance.assemble().matrix.times(&found);
    let residual: Vec<f64> = rhs.iter().zip(&product).map(|(f, a)| f - a).collect();
    assert!(norm(&residual) <= problem.tolerance * norm(&rhs) * (1.0 + 1e-9), "{:e}", norm(&residual));
}
