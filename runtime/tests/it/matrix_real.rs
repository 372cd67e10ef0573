//! The real matrices of `KERNELWRIGHT_DATA`.

use std::path::PathBuf;

use kernelwright::matrix::file;
use kernelwright::matrix::statistics::Statistics;

/// Name, rows, entries with both triangles, entries of the file, and what else is known.
struct Known {
    name: &'static str,
    rows: usize,
    entries: usize,
    stored: usize,
    longest: usize,
    symmetric: bool,
}

const KNOWN: [Known; 4] = [
    Known { name: "1138_bus.mtx", rows: 1138, entries: 4054, stored: 2596, longest: 18, symmetric: true },
    Known { name: "ani4.mtx", rows: 3081, entries: 20971, stored: 20971, longest: 9, symmetric: false },
    Known { name: "bcsstk13.mtx", rows: 2003, entries: 83883, stored: 42943, longest: 95, symmetric: true },
    Known { name: "lap3D_7pt_n20.mtx", rows: 8000, entries: 53600, stored: 30800, longest: 7, symmetric: true },
];

#[test]
fn real_matrices_are_what_is_known_of_them() {
    let Some(folder) = std::env::var_os("KERNELWRIGHT_DATA").map(PathBuf::from) else {
        eprintln!("skipped: KERNELWRIGHT_DATA is not set");
        return;
    };
    for known in KNOWN {
        let matrix = file::read(&folder.join(known.name)).expect(known.name);
        let statistics = Statistics::of(&matrix.csr);
        assert_eq!((statistics.rows, statistics.columns), (known.rows, known.rows), "{}", known.name);
        assert_eq!((statistics.entries, matrix.stored), (known.entries, known.stored), "{}", known.name);
        assert_eq!(statistics.row_lengths.max, known.longest, "{}", known.name);
        assert_eq!((matrix.duplicates, matrix.zeros, matrix.upper), (0, 0, false), "{}", known.name);
        let symmetry = statistics.symmetry.expect("square");
        assert_eq!(symmetry.defect == 0.0, known.symmetric, "{}", known.name);
        assert_eq!(symmetry.unmatched, 0, "{}", known.name);
        assert!(symmetry.defect < 1e-12, "{}: {}", known.name, symmetry.defect);
        assert!(statistics.diagonal.expect("square").is_positive(), "{}", known.name);
    }
}

/// To 1e-8 of the right-hand side in f64, conjugate gradients with the diagonal; the iterations are stated.
#[test]
fn real_systems_are_solved_to_eight_digits() {
    let Some(folder) = std::env::var_os("KERNELWRIGHT_DATA").map(PathBuf::from) else {
        eprintln!("skipped: KERNELWRIGHT_DATA is not set");
        return;
    };
    // Iterations move with rounding on ill-conditioned matrices: a twentieth either way.
    let expected = [("1138_bus.mtx", "pcg", 936), ("bcsstk13.mtx", "pcg", 1361), ("ani4.mtx", "pcg", 340)];
    for (name, solver, iterations) in expected {
        let path = folder.join(name).display().to_string();
        let ran = crate::cli::run(&["solve", "--matrix", &path, "--backend", "host", "--json"]);
        let object = ran.json();
        assert_eq!((ran.status, &object["matrix"]["solver"]), (0, &solver.into()), "{name}: {}", ran.err);
        let (truth, bound) = (&object["residual"]["true"], &object["residual"]["bound"]);
        assert!(truth.as_f64().expect("a number") <= bound.as_f64().expect("a number"), "{name}: {object}");
        let took = object["iterations"].as_i64().expect("a number");
        assert!((took - iterations).abs() <= iterations / 20, "{name}: {took} iterations instead of {iterations}");
    }
}
