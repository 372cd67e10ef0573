//! Dense matrices, for problems of a few hundred unknowns.

/// A square matrix, row by row.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// Order.
    pub n: usize,
    /// Entries, row-major.
    pub a: Vec<f64>,
}

impl Matrix {
    /// The zero matrix.
    pub fn zero(n: usize) -> Matrix {
        Matrix { n, a: vec![0.0; n * n] }
    }

    /// Entry (row, column).
    pub fn at(&self, r: usize, c: usize) -> f64 {
        self.a[r * self.n + c]
    }

    /// The product with a vector.
    pub fn times(&self, x: &[f64]) -> Vec<f64> {
        self.a.chunks(self.n.max(1)).map(|row| row.iter().zip(x).map(|(a, x)| a * x).sum()).collect()
    }

    /// Largest difference from the transposed matrix.
    pub fn asymmetry(&self) -> f64 {
        let pairs = (0..self.n).flat_map(|r| (0..r).map(move |c| (r, c)));
        pairs.map(|(r, c)| (self.at(r, c) - self.at(c, r)).abs()).fold(0.0, f64::max)
    }

    /// Solution of `self * x = b` by elimination with row pivoting; `None` when singular to working precision.
    pub fn solve(&self, b: &[f64]) -> Option<Vec<f64>> {
        let n = self.n;
        let mut a = self.a.clone();
        let mut x = b.to_vec();
        let scale = a.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for k in 0..n {
            let pivot = (k..n).max_by(|&r, &s| a[r * n + k].abs().total_cmp(&a[s * n + k].abs()))?;
            if a[pivot * n + k].abs() <= scale * 1e-14 {
                return None;
            }
            if pivot != k {
                for c in 0..n {
                    a.swap(k * n + c, pivot * n + c);
                }
                x.swap(k, pivot);
            }
            for r in k + 1..n {
                let factor = a[r * n + k] / a[k * n + k];
                if factor != 0.0 {
                    for c in k..n {
                        a[r * n + c] -= factor * a[k * n + c];
                    }
                    x[r] -= factor * x[k];
                }
            }
        }
        for k in (0..n).rev() {
            let known: f64 = (k + 1..n).map(|c| a[k * n + c] * x[c]).sum();
            x[k] = (x[k] - known) / a[k * n + k];
        }
        Some(x)
    }
}

/// Euclidean norm.
pub fn norm(x: &[f64]) -> f64 {
    x.iter().map(|v| v * v).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn solves_what_it_multiplies() {
        let n = 7;
        let a = (0..n * n).map(|t| ((t * 37 % 11) as f64) - 5.0 + if t % (n + 1) == 0 { 20.0 } else { 0.0 }).collect();
        let m = Matrix { n, a };
        let x: Vec<f64> = (0..n).map(|t| t as f64 - 2.5).collect();
        let y = m.solve(&m.times(&x)).expect("diagonally dominant");
        assert!(x.iter().zip(&y).all(|(a, b)| (a - b).abs() < 1e-12));
        assert!(Matrix::zero(3).solve(&[1.0, 0.0, 0.0]).is_none());
    }
}
