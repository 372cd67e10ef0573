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
