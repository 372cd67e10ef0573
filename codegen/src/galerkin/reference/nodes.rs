//! Nodes of simplices: recursive interpolation of Gauss-Lobatto-Legendre points.
//!
//! T. Isaac, *Recursive, parameter-free, explicitly defined interpolation nodes for simplices*, SIAM J. Sci. Comput. 42
//! (2020), equation 3.1. Taken instead of warp and blend (Warburton, 2006) because those nodes need a table of one
//! optimised parameter per order and these need none, for any order, at Lebesgue constants of the same size. Both have
//! Gauss-Lobatto points on edges; nodes are symmetric under all permutations of the vertices, and those on a face are
//! the nodes of the triangle, so that neighbours' nodes meet.

/// Multi-indices of a tetrahedron's nodes: four numbers with sum `order`; the last two vary fastest.
pub fn tetrahedron(order: usize) -> Vec<[usize; 4]> {
    let mut list = Vec::new();
    for third in 0..=order {
        for second in 0..=order - third {
            for first in 0..=order - third - second {
                list.push([order - first - second - third, first, second, third]);
            }
        }
    }
    list
}

/// Multi-indices of a triangle's nodes.
pub fn triangle(order: usize) -> Vec<[usize; 3]> {
    let mut list = Vec::new();
    for second in 0..=order {
        for first in 0..=order - second {
            list.push([order - first - second, first, second]);
        }
    }
    list
}

/// Barycentric coordinates of the node with a multi-index.
pub fn place<const D: usize>(order: usize, index: &[usize; D]) -> [f64; D] {
    let lines: Vec<Vec<f64>> = (0..=order).map(gauss_lobatto).collect();
    let coordinates = recursive(&lines, index);
    std::array::from_fn(|i| coordinates[i])
}

/// x(a) = sum over i of w_i x(a without i), w_i the one-dimensional node with number |a| - a_i among |a| + 1.
fn recursive(lines: &[Vec<f64>], index: &[usize]) -> Vec<f64> {
    if let [_] = index {
        return vec![1.0];
    }
    let order: usize = index.iter().sum();
    let mut sum = vec![0.0; index.len()];
    let mut weights = 0.0;
    for removed in 0..index.len() {
        let weight = lines[order][order - index[removed]];
        if weight == 0.0 {
            continue;
        }
        let rest: Vec<usize> = (0..index.len()).filter(|&i| i != removed).map(|i| index[i]).collect();
        let mut inner = recursive(lines, &rest).into_iter();
        for (i, value) in sum.iter_mut().enumerate() {
            if i != removed {
                *value += weight * inner.next().expect("one coordinate for every number left");
            }
        }
        weights += weight;
    }
    sum.iter().map(|value| value / weights).collect()
}

/// Gauss-Lobatto-Legendre points on [0, 1]: the ends and the zeros of P_n', symmetric to the last bit.
pub fn gauss_lobatto(order: usize) -> Vec<f64> {
    if order == 0 {
        return vec![0.5];
    }
    let mut points = vec![0.0; order + 1];
    for i in 0..=order {
        let mirror = order - i;
        if i > mirror {
            break;
        }
        // Chebyshev-Lobatto points are near enough for Newton's method on (1 - x^2) P_n'.
        let mut x = -(std::f64::consts::PI * i as f64 / order as f64).cos();
        if i > 0 && i < mirror {
            for _ in 0..60 {
                let (p, before) = legendre(order, x);
                // (1 - x^2) P_n' = n (P_(n-1) - x P_n); its derivative is -n (n + 1) P_n.
                let change = (before - x * p) / ((order + 1) as f64 * p);
                x += change;
                if change.abs() < 1e-16 {
                    break;
                }
            }
        }
        let half = if i == mirror { 0.5 } else { (x + 1.0) / 2.0 };
        points[i] = if i == 0 { 0.0 } else { half };
        points[mirror] = 1.0 - points[i];
    }
    points
}

/// P_n and P_(n-1) at a point.
fn legendre(n: usize, x: f64) -> (f64, f64) {
    let (mut before, mut p) = (1.0, x);
    for k in 2..=n {
        let k = k as f64;
        (before, p) = (p, ((2.0 * k - 1.0) * x * p - (k - 1.0) * before) / k);
    }
    (p, before)
}
