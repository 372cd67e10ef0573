//! What is known of a matrix: solvers require some of it.
//!
//! Rows are counted from 1, as in the files.

use kernelwright_codegen::math::{Fact, KnownFact, Standing};

use crate::matrix::statistics::{Diagonal, Statistics};

/// What rounding in the program that wrote a matrix explains, as a part of its largest entry; with room for long sums.
const ROUNDING: f64 = 1e-12;

/// Facts of a square matrix; nothing is known of another.
pub fn facts(statistics: &Statistics) -> Vec<KnownFact> {
    let (Some(comparison), Some(diagonal)) = (&statistics.symmetry, &statistics.diagonal) else { return Vec::new() };
    let largest = statistics.magnitudes.map_or(0.0, |range| range[1]);
    let symmetric = comparison.defect <= ROUNDING * largest;
    let (standing, why) = match comparison.place {
        None => (Standing::Proved, "every entry equals its mirror".to_string()),
        Some([row, column]) => {
            let defect = comparison.defect;
            let place = format!("row {row}, column {column} differs from its mirror by {defect:.3e}");
            (if symmetric { Standing::Tested } else { Standing::Refuted }, place)
        }
    };
    let definite = definite(statistics.rows, symmetric, diagonal);
    vec![KnownFact { fact: Fact::Symmetric, standing, why }, definite]
}

fn definite(rows: usize, symmetric: bool, diagonal: &Diagonal) -> KnownFact {
    let bad = [
        (diagonal.first_missing, "row {} has no diagonal entry"),
        (diagonal.first_zero, "the diagonal is zero in row {}"),
        (diagonal.first_negative, "the diagonal is negative in row {}"),
    ];
    let found = bad.into_iter().find_map(|(row, text)| Some(text.replace("{}", &row?.to_string())));
    let (standing, why) = match found {
        Some(why) => (Standing::Refuted, why),
        // Gershgorin's circles touch zero at most; only where all do, and the matrix falls apart, is there a null space.
        None if symmetric && diagonal.strictly_dominant == rows => {
            (Standing::Proved, "symmetric, and the positive diagonal dominates every row strictly".to_string())
        }
        None => (Standing::Assumed, "the diagonal is positive; no more was tried".to_string()),
    };
    KnownFact { fact: Fact::PositiveDefinite, standing, why }
}
