//! Extreme eigenvalues of a small symmetric matrix: Householder reduction to tridiagonal form, then bisection with
//! Sturm sequences (Golub and Van Loan, Matrix Computations, sections 8.3 and 8.4).

/// Smallest and largest eigenvalue of a symmetric matrix, row after row; zeros for an empty one.
pub(super) fn extreme_eigenvalues(a: &[f64], n: usize) -> (f64, f64) {
    if n == 0 {
        return (0.0, 0.0);
    }
    let (d, e) = tridiagonal(a.to_vec(), n);
    let beside = |i: usize| if i > 0 { e[i - 1].abs() } else { 0.0 } + if i + 1 < n { e[i].abs() } else { 0.0 };
    let low = (0..n).map(|i| d[i] - beside(i)).fold(f64::INFINITY, f64::min);
    let high = (0..n).map(|i| d[i] + beside(i)).fold(f64::NEG_INFINITY, f64::max);
    (bisect(&d, &e, low, high, 1), bisect(&d, &e, low, high, n))
}

/// Diagonal and subdiagonal of a similar tridiagonal matrix.
fn tridiagonal(mut a: Vec<f64>, n: usize) -> (Vec<f64>, Vec<f64>) {
    for k in 0..n.saturating_sub(2) {
        let mut v: Vec<f64> = (k + 1..n).map(|r| a[r * n + k]).collect();
        let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm == 0.0 {
            continue;
        }
        v[0] += norm.copysign(v[0]);
        let vv = v.iter().map(|x| x * x).sum::<f64>();
        reflect(&mut a, n, k, &v, 2.0 / vv);
    }
    let e = (1..n).map(|i| a[i * n + i - 1]).collect();
    ((0..n).map(|i| a[i * n + i]).collect(), e)
}

/// H A H with H = 1 - beta v vᵀ acting on rows and columns after k.
fn reflect(a: &mut [f64], n: usize, k: usize, v: &[f64], beta: f64) {
    let m = v.len();
    // A is symmetric: the trailing block becomes A - v wᵀ - w vᵀ, and column k is reflected by itself.
    let block = |a: &[f64], i: usize, j: usize| a[(k + 1 + i) * n + k + 1 + j];
    let p: Vec<f64> = (0..m).map(|i| beta * (0..m).map(|j| block(a, i, j) * v[j]).sum::<f64>()).collect();
    let half = 0.5 * beta * p.iter().zip(v).map(|(p, v)| p * v).sum::<f64>();
    let w: Vec<f64> = p.iter().zip(v).map(|(p, v)| p - half * v).collect();
    for i in 0..m {
        for j in 0..m {
            a[(k + 1 + i) * n + k + 1 + j] -= v[i] * w[j] + w[i] * v[j];
        }
    }
    let along = beta * (0..m).map(|i| v[i] * a[(k + 1 + i) * n + k]).sum::<f64>();
    for (i, v) in v.iter().enumerate() {
        a[(k + 1 + i) * n + k] -= along * v;
        a[k * n + k + 1 + i] = a[(k + 1 + i) * n + k];
    }
}

/// The `number`-th eigenvalue from below, between two bounds.
fn bisect(d: &[f64], e: &[f64], mut low: f64, mut high: f64, number: usize) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if below(d, e, middle) >= number {
            high = middle;
        } else {
            low = middle;
        }
    }
    0.5 * (low + high)
}

/// Number of eigenvalues below x: negative pivots of T - x.
fn below(d: &[f64], e: &[f64], x: f64) -> usize {
    let mut count = 0;
    let mut pivot = 1.0;
    for (i, d) in d.iter().enumerate() {
        let off = if i == 0 { 0.0 } else { e[i - 1] };
        pivot = d - x - off * off / pivot;
        if pivot == 0.0 {
            pivot = f64::EPSILON * (d.abs() + x.abs()).max(f64::MIN_POSITIVE);
        }
        count += usize::from(pivot < 0.0);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::extreme_eigenvalues;

    #[test]
    fn second_differences() {
        let n = 30;
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            // Numbered so that the matrix is not tridiagonal as it stands.
            let p = i * 7 % n;
            let q = (i + 1) * 7 % n;
            a[p * n + p] += 2.0;
            if i + 1 < n {
                a[p * n + q] = -1.0;
                a[q * n + p] = -1.0;
            }
        }
        let (low, high) = extreme_eigenvalues(&a, n);
        let exact = |k: f64| 2.0 - 2.0 * (k * std::f64::consts::PI / 31.0).cos();
        assert!((low - exact(1.0)).abs() < 1e-13 && (high - exact(30.0)).abs() < 1e-13, "{low} {high}");
    }

    #[test]
    fn small_ones() {
        assert_eq!(extreme_eigenvalues(&[], 0), (0.0, 0.0));
        assert_eq!(extreme_eigenvalues(&[3.0], 1), (3.0, 3.0));
        let (low, high) = extreme_eigenvalues(&[1.0, 2.0, 2.0, 1.0], 2);
        assert!((low + 1.0).abs() < 1e-14 && (high - 3.0).abs() < 1e-14);
    }
}
