//! Extreme eigenvalues of a dense symmetric matrix: Householder reduction to tridiagonal form, then bisection with
//! Sturm counts (Golub and Van Loan, "Matrix Computations", sections 8.3 and 8.4).

/// Smallest and largest eigenvalue of a symmetric matrix of order `n`, row after row; zeros for order 0.
pub fn extreme_eigenvalues(matrix: &[f64], n: usize) -> (f64, f64) {
    if n == 0 {
        return (0.0, 0.0);
    }
    let (diagonal, beside) = tridiagonal(matrix.to_vec(), n);
    (kth(&diagonal, &beside, 0), kth(&diagonal, &beside, n - 1))
}

/// Diagonal and first off-diagonal of an orthogonally similar tridiagonal matrix.
fn tridiagonal(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    for k in 0..n.saturating_sub(2) {
        let scale = (k + 1..n).map(|i| a[i * n + k] * a[i * n + k]).sum::<f64>().sqrt();
        if scale == 0.0 {
            continue;
        }
        let alpha = if a[(k + 1) * n + k] > 0.0 { -scale } else { scale };
        let mut v = vec![0.0; n];
        (k + 1..n).for_each(|i| v[i] = a[i * n + k]);
        v[k + 1] -= alpha;
        let square: f64 = v.iter().map(|x| x * x).sum();
        if square > 0.0 {
            reflect(&mut a, n, k, &v, square);
        }
    }
    let diagonal = (0..n).map(|i| a[i * n + i]).collect();
    let beside = (1..n).map(|i| a[i * n + i - 1]).collect();
    (diagonal, beside)
}

/// a := H a H with H = 1 - 2 v vᵀ / vᵀv; v is zero up to and including k.
fn reflect(a: &mut [f64], n: usize, k: usize, v: &[f64], square: f64) {
    let mut p = vec![0.0; n];
    for (i, sum) in p.iter_mut().enumerate().skip(k) {
        let row = &a[i * n..(i + 1) * n];
        *sum = 2.0 / square * row.iter().zip(v).skip(k + 1).map(|(x, y)| x * y).sum::<f64>();
    }
    let half = v.iter().zip(&p).map(|(x, y)| x * y).sum::<f64>() / square;
    let w: Vec<f64> = p.iter().zip(v).map(|(x, y)| x - half * y).collect();
    for i in k..n {
        for j in k..n {
            a[i * n + j] -= v[i] * w[j] + w[i] * v[j];
        }
    }
}

/// Eigenvalue number `k` (ascending) of a symmetric tridiagonal matrix.
fn kth(diagonal: &[f64], beside: &[f64], k: usize) -> f64 {
    let n = diagonal.len();
    let reach = |i: usize| {
        let left = if i > 0 { beside[i - 1].abs() } else { 0.0 };
        left + if i + 1 < n { beside[i].abs() } else { 0.0 }
    };
    // Gershgorin's discs hold all eigenvalues.
    let mut low = (0..n).map(|i| diagonal[i] - reach(i)).fold(f64::INFINITY, f64::min);
    let mut high = (0..n).map(|i| diagonal[i] + reach(i)).fold(f64::NEG_INFINITY, f64::max);
    if !(low.is_finite() && high.is_finite()) {
        return f64::NAN;
    }
    let scale = low.abs().max(high.abs());
    for _ in 0..2000 {
        let middle = low + (high - low) / 2.0;
        if high - low <= 2.0 * f64::EPSILON * scale || middle <= low || middle >= high {
            break;
        }
        if count_below(diagonal, beside, middle) > k { high = middle } else { low = middle }
    }
    low + (high - low) / 2.0
}

/// Number of eigenvalues below x: negative pivots of the factorisation of T - x.
fn count_below(diagonal: &[f64], beside: &[f64], x: f64) -> usize {
    let mut count = 0;
    let mut pivot = 1.0;
    for (i, d) in diagonal.iter().enumerate() {
        let coupling = if i > 0 { beside[i - 1] * beside[i - 1] } else { 0.0 };
        pivot = d - x - coupling / pivot;
        if pivot == 0.0 {
            pivot = f64::MIN_POSITIVE;
        }
        count += usize::from(pivot < 0.0);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eigenvalues of the three-point operator are 2 - 2 cos(m pi / (n + 1)).
    #[test]
    fn three_point_operator() {
        for n in [1, 2, 3, 10, 57] {
            let mut a = vec![0.0; n * n];
            for i in 0..n {
                a[i * n + i] = 2.0;
                if i + 1 < n {
                    (a[i * n + i + 1], a[(i + 1) * n + i]) = (-1.0, -1.0);
                }
            }
            let exact = |m: usize| 2.0 - 2.0 * (m as f64 * std::f64::consts::PI / (n + 1) as f64).cos();
            let (low, high) = extreme_eigenvalues(&a, n);
            assert!((low - exact(1)).abs() < 1e-13 && (high - exact(n)).abs() < 1e-13, "{n}: {low} {high}");
        }
    }

    /// A full matrix with known eigenvalues: Q diag(1 … n) Qᵀ with a reflection Q.
    #[test]
    fn full_matrix() {
        let n = 24;
        let v: Vec<f64> = (0..n).map(|i| 1.0 / (1.0 + i as f64)).collect();
        let square: f64 = v.iter().map(|x| x * x).sum();
        let q = |i: usize, j: usize| f64::from(u8::from(i == j)) - 2.0 * v[i] * v[j] / square;
        let entry = |i, j| (0..n).map(|m| q(i, m) * (m as f64 - 3.0) * q(j, m)).sum::<f64>();
        let a: Vec<f64> = (0..n * n).map(|e| entry(e / n, e % n)).collect();
        let (low, high) = extreme_eigenvalues(&a, n);
        assert!((low + 3.0).abs() < 1e-12 && (high - 20.0).abs() < 1e-12, "{low} {high}");
    }
}
