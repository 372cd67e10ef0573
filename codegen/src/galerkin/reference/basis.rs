//! Orthonormal polynomials on the unit triangle and tetrahedron (Proriol 1957, Koornwinder 1975, Dubiner 1991).
//!
//! With barycentric coordinates l and the partial sums s_1 = l0 + l1, s_2 = s_1 + l2, s_3 = 1,
//!
//! ```text
//! psi_ijk = c * [P_i(l1 - l0; s_1)] * [P_j^(2i+1)(l2 - s_1; s_2)] * [P_k^(2i+2j+2)(l3 - s_2; s_3)] ,
//! ```
//!
//! P_n^a(x; y) = y^n P_n^(a,0)(x / y) the scaled Jacobi polynomials, whose recurrence never divides: nothing is singular
//! at the vertices where collapsed coordinates are. Derivatives come from the same formula by dual numbers.

use std::ops::{Add, Mul, Sub};

/// A value with its derivatives by l1, l2, l3 (l0 follows).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dual {
    /// The value.
    pub value: f64,
    /// Its derivatives.
    pub slope: [f64; 3],
}

impl Dual {
    fn constant(value: f64) -> Dual {
        Dual { value, slope: [0.0; 3] }
    }

    fn scaled(self, factor: f64) -> Dual {
        Dual { value: factor * self.value, slope: self.slope.map(|s| factor * s) }
    }
}

impl Add for Dual {
    type Output = Dual;

    fn add(self, other: Dual) -> Dual {
        Dual { value: self.value + other.value, slope: std::array::from_fn(|a| self.slope[a] + other.slope[a]) }
    }
}

impl Sub for Dual {
    type Output = Dual;

    fn sub(self, other: Dual) -> Dual {
        self + other.scaled(-1.0)
    }
}

impl Mul for Dual {
    type Output = Dual;

    fn mul(self, other: Dual) -> Dual {
        let parts = self.scaled(other.value) + other.scaled(self.value);
        Dual { value: self.value * other.value, slope: parts.slope }
    }
}

/// y^n P_n^(a,0)(x / y) for n = 0 … `order`.
fn jacobi(order: usize, a: usize, x: Dual, y: Dual) -> Vec<Dual> {
    let a = a as f64;
    let mut list = vec![Dual::constant(1.0)];
    if order > 0 {
        list.push((x.scaled(a + 2.0) + y.scaled(a)).scaled(0.5));
    }
    for n in 2..=order {
        let n_ = n as f64;
        let m = 2.0 * n_ + a;
        let linear = (x.scaled(m * (m - 2.0)) + y.scaled(a * a)).scaled(m - 1.0) * list[n - 1];
        let before = (y * y * list[n - 2]).scaled(2.0 * (n_ + a - 1.0) * (n_ - 1.0) * m);
        list.push((linear - before).scaled(1.0 / (2.0 * n_ * (n_ + a) * (m - 2.0))));
    }
    list
}

/// The basis of a tetrahedron at a point.
pub fn tetrahedron(order: usize, at: [f64; 4]) -> Vec<Dual> {
    let coordinate = |i: usize| {
        let slope = std::array::from_fn(|a| if i == 0 { -1.0 } else { f64::from(u8::from(i == a + 1)) });
        Dual { value: at[i], slope }
    };
    let [l0, l1, l2, l3] = [0, 1, 2, 3].map(coordinate);
    let (s1, s2, s3) = (l0 + l1, l0 + l1 + l2, Dual::constant(1.0));
    let mut list = Vec::new();
    for (i, first) in jacobi(order, 0, l1 - l0, s1).into_iter().enumerate() {
        for (j, second) in jacobi(order - i, 2 * i + 1, l2 - s1, s2).into_iter().enumerate() {
            for (k, third) in jacobi(order - i - j, 2 * (i + j) + 2, l3 - s2, s3).into_iter().enumerate() {
                // The square's integral, from those of the three factors.
                let inverse = (2 * i + 1) * (2 * (i + j) + 2) * (2 * (i + j + k) + 3);
                list.push((first * second * third).scaled((inverse as f64).sqrt()));
            }
        }
    }
    list
}

/// The basis of a triangle at a point.
pub fn triangle(order: usize, at: [f64; 3]) -> Vec<f64> {
    let [l0, l1, l2] = at.map(Dual::constant);
    let s1 = l0 + l1;
    let mut list = Vec::new();
    for (i, first) in jacobi(order, 0, l1 - l0, s1).into_iter().enumerate() {
        let second = jacobi(order - i, 2 * i + 1, l2 - s1, Dual::constant(1.0));
        for (j, second) in second.into_iter().enumerate() {
            let inverse = (2 * i + 1) * (2 * (i + j) + 2);
            list.push((first * second).value * (inverse as f64).sqrt());
        }
    }
    list
}
