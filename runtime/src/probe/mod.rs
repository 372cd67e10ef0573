//! Probes an operator on a small grid: its matrix, how far it is from symmetric, its extreme eigenvalues, its null
//! space. What the compiler proves symbolically is checked here with numbers.

mod eigen;

use kernelwright_codegen::math_eval::Matrix;

pub use eigen::extreme_eigenvalues;

/// What a matrix turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Rows that take part.
    pub unknowns: usize,
    /// Entries that are not zero.
    pub entries: usize,
    /// Largest magnitude of an entry.
    pub largest: f64,
    /// Largest |a_ij - a_ji| over the largest |a_ij|, and where it is.
    pub asymmetry: (f64, usize, usize),
    /// Smallest and largest eigenvalue of the symmetric part, over the unknowns that take part.
    pub eigenvalues: (f64, f64),
    /// Largest magnitude of A·1 over the largest row sum of magnitudes: zero when constants are in the null space.
    pub constants: f64,
}

/// A symmetry defect of this many units of rounding times the size of a row is rounding.
const ROUNDING: f64 = 64.0 * f64::EPSILON;

impl Findings {
    /// Measures a matrix. Rows without entries belong to points that take no part.
    pub fn of(matrix: &Matrix) -> Findings {
        let active: Vec<usize> = (0..matrix.rows.len()).filter(|row| !matrix.rows[*row].is_empty()).collect();
        let mut largest: f64 = 0.0;
        let mut defect = (0.0, 0, 0);
        let (mut sum_of_row, mut magnitude_of_row): (f64, f64) = (0.0, 0.0);
        for &row in &active {
            for &(column, value) in &matrix.rows[row] {
                largest = largest.max(value.abs());
                let difference = (value - matrix.at(column, row)).abs();
                if difference > defect.0 {
                    defect = (difference, row, column);
                }
            }
            sum_of_row = sum_of_row.max(matrix.rows[row].iter().map(|entry| entry.1).sum::<f64>().abs());
            magnitude_of_row = magnitude_of_row.max(matrix.rows[row].iter().map(|entry| entry.1.abs()).sum());
        }
        let scale = |value: f64, by: f64| if by > 0.0 { value / by } else { 0.0 };
        Findings {
            unknowns: active.len(),
            entries: active.iter().map(|row| matrix.rows[*row].iter().filter(|entry| entry.1 != 0.0).count()).sum(),
            largest,
            asymmetry: (scale(defect.0, largest), defect.1, defect.2),
            eigenvalues: extreme_eigenvalues(&symmetric_part(matrix, &active), active.len()),
            constants: scale(sum_of_row, magnitude_of_row),
        }
    }

    /// Whether the matrix is symmetric up to rounding.
    pub fn is_symmetric(&self) -> bool {
        self.asymmetry.0 <= ROUNDING
    }

    /// Whether A·1 = 0 up to rounding.
    pub fn constants_vanish(&self) -> bool {
        self.constants <= ROUNDING
    }

    /// Whether all eigenvalues are positive; with constants in the null space, none is negative beyond rounding.
    pub fn is_positive(&self) -> bool {
        let (low, high) = self.eigenvalues;
        let rounding = ROUNDING * self.unknowns as f64 * high.abs();
        if self.constants_vanish() { low >= -rounding } else { low > rounding }
    }
}

/// (A + Aᵀ)/2 over the active rows, dense, row after row.
fn symmetric_part(matrix: &Matrix, active: &[usize]) -> Vec<f64> {
    let n = active.len();
    let mut place = vec![usize::MAX; matrix.rows.len()];
    active.iter().enumerate().for_each(|(position, row)| place[*row] = position);
    let mut dense = vec![0.0; n * n];
    for (r, row) in active.iter().enumerate() {
        for &(column, value) in &matrix.rows[*row] {
            let c = place[column];
            // A column without a row of its own takes no part.
            if c != usize::MAX {
                dense[r * n + c] += value / 2.0;
                dense[c * n + r] += value / 2.0;
            }
        }
    }
    dense
}
