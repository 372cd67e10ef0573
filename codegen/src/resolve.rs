//! What stands outside a grid: the specification that the evaluator and the mapped kernels share.
//!
//! Everything here concerns one axis; a reading outside several axes applies them in order, axis 0 first. A prescribed
//! value g met on the way is read where the other axes stand at that moment: those before it are already inside,
//! those after it may still be outside.
//!
//! # Mirrors
//! About the boundary faces -1/2 and n-1/2: cell q goes to -1-q on the low side and to 2n-1-q on the high side; face q
//! (between q and q+1) goes to -2-q and 2n-2-q. Repeated until inside, so offsets may exceed the axis.

use crate::math::{Centring, Outside, Rule};

/// A reading of an unknown: `sign * u[index] + sum of factor * g[side]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Index inside the axis; none where the value outside is prescribed (`sign` is zero then).
    pub index: Option<u64>,
    /// Product of the s of all mirrors passed.
    pub sign: f64,
    /// Prescribed values met on the way, in order: side (0 low, 1 high) and factor of its table.
    pub given: Vec<(usize, f64)>,
}

/// Resolves position `q` of an unknown along an axis of `n` points.
pub fn unknown(rules: &[Rule; 2], centring: Centring, q: i64, n: u64) -> Reading {
    let n = n as i64;
    let mut reading = Reading { index: None, sign: 1.0, given: Vec::new() };
    let mut q = q;
    while q < 0 || q >= n {
        let side = usize::from(q >= n);
        match (&rules[side], centring) {
            (Rule::Periodic, _) => q = q.rem_euclid(n),
            (Rule::NoFlux, _) => q = mirror(q, n),
            (Rule::Dirichlet(_), Centring::Cells) => {
                reading.given.push((side, 2.0 * reading.sign));
                reading.sign = -reading.sign;
                q = mirror(q, n);
            }
            (Rule::Dirichlet(_), Centring::Nodes) => {
                reading.given.push((side, reading.sign));
                reading.sign = 0.0;
                return reading;
            }
        }
    }
    reading.index = Some(q as u64);
    reading
}

/// Cell `q`, outside, mirrored once at the boundary face it lies behind.
fn mirror(q: i64, n: i64) -> i64 {
    if q < 0 { -1 - q } else { 2 * n - 1 - q }
}

/// Position at which a flux is evaluated along its own axis; none where it is zero (a face on a no-flux side).
pub fn flux(rules: &[Rule; 2], q: i64, n: u64) -> Option<i64> {
    let n = n as i64;
    match rules {
        [Rule::Periodic, _] => Some(q.rem_euclid(n)),
        [Rule::NoFlux, _] if q == -1 => None,
        [_, Rule::NoFlux] if q == n - 1 => None,
        _ => Some(q),
    }
}

/// A reading of a data array along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// Index into the array along the axis.
    At(u64),
    /// The value is zero.
    Zero,
    /// Never used by a checked program; kernels may read anything that exists.
    Missing,
}

/// Resolves position `q` of a data array along an axis of `n` points (a period is `n`, for faces too); `faces` says that it lives on the n + 1 faces
/// (element 0 is position -1).
pub fn data(outside: Outside, periodic: bool, faces: bool, q: i64, n: u64) -> Element {
    let n = n as i64;
    let first = if faces { -1 } else { 0 };
    if periodic {
        // Faces -1 and n-1 are one face: the second of its two elements is the one that counts.
        return Element::At((q.rem_euclid(n) - first) as u64);
    }
    if (first..n).contains(&q) {
        return Element::At((q - first) as u64);
    }
    match outside {
        Outside::Error => Element::Missing,
        Outside::Zero => Element::Zero,
        Outside::Clamp => Element::At((q.clamp(first, n - 1) - first) as u64),
        Outside::Periodic => Element::At((q.rem_euclid(n) - first) as u64),
        Outside::Mirror => Element::At((mirrored(q, n, faces) - first) as u64),
    }
}

/// Position `q` mirrored at the boundary faces until it is inside.
fn mirrored(q: i64, n: i64, faces: bool) -> i64 {
    let period = 2 * n;
    if faces {
        let q = (q + 1).rem_euclid(period) - 1;
        if q < n { q } else { 2 * n - 2 - q }
    } else {
        let q = q.rem_euclid(period);
        if q < n { q } else { 2 * n - 1 - q }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rules: [Rule; 2], centring: Centring, q: i64, n: u64) -> (Option<u64>, f64, Vec<(usize, f64)>) {
        let r = unknown(&rules, centring, q, n);
        (r.index, r.sign, r.given)
    }

    #[test]
    fn mirrors_repeat_and_compose() {
        use Centring::Cells;
        let walls = || [Rule::Dirichlet(0), Rule::Dirichlet(1)];
        assert_eq!(read(walls(), Cells, -1, 3), (Some(0), -1.0, vec![(0, 2.0)]));
        assert_eq!(read(walls(), Cells, -2, 1), (Some(0), 1.0, vec![(0, 2.0), (1, -2.0)]));
        assert_eq!(read([Rule::Dirichlet(0), Rule::NoFlux], Cells, 4, 2), (Some(0), -1.0, vec![(0, 2.0)]));
        assert_eq!(read([Rule::NoFlux, Rule::NoFlux], Cells, 7, 2), (Some(0), 1.0, vec![]));
    }

    #[test]
    fn nodes_stop_at_the_prescribed_value() {
        let rules = [Rule::Dirichlet(0), Rule::NoFlux];
        assert_eq!(read(rules.clone(), Centring::Nodes, -3, 4), (None, 0.0, vec![(0, 1.0)]));
        assert_eq!(read(rules, Centring::Nodes, 12, 4), (None, 0.0, vec![(0, 1.0)]));
    }

    #[test]
    fn periodic_axes_of_one_point() {
        assert_eq!(read([Rule::Periodic, Rule::Periodic], Centring::Cells, -5, 1), (Some(0), 1.0, vec![]));
        assert_eq!(flux(&[Rule::Periodic, Rule::Periodic], -1, 1), Some(0));
        assert_eq!(flux(&[Rule::NoFlux, Rule::NoFlux], 0, 1), None);
        assert_eq!(flux(&[Rule::Dirichlet(0), Rule::NoFlux], -1, 4), Some(-1));
    }

    #[test]
    fn data_outside() {
        assert_eq!(data(Outside::Mirror, false, false, -2, 4), Element::At(1));
        assert_eq!(data(Outside::Mirror, false, false, 4, 4), Element::At(3));
        assert_eq!(data(Outside::Mirror, false, true, -2, 4), Element::At(1));
        assert_eq!(data(Outside::Mirror, false, true, 4, 4), Element::At(3));
        assert_eq!(data(Outside::Clamp, false, true, 9, 4), Element::At(4));
        assert_eq!(data(Outside::Error, true, true, -1, 4), Element::At(4));
        assert_eq!(data(Outside::Zero, false, false, 4, 4), Element::Zero);
        assert_eq!(data(Outside::Error, false, false, 4, 4), Element::Missing);
    }
}
