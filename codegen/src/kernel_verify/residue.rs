//! What is known of an index modulo four: whether wide accesses can be aligned.

use crate::kernel::{Expr, IndexWidth, Kernel, Op};

/// The value is `value` modulo `modulus`, which is 1 (nothing known), 2 or 4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Residue {
    modulus: i64,
    value: i64,
}

impl Residue {
    pub const UNKNOWN: Residue = Residue { modulus: 1, value: 0 };

    fn new(value: i64, modulus: i64) -> Residue {
        Residue { modulus, value: value.rem_euclid(modulus) }
    }

    /// Whether the value is known not to be a multiple of `n` (2 or 4).
    pub fn excludes_multiples_of(self, n: usize) -> bool {
        // Odd values are not multiples of four either.
        self.value % self.modulus.min(n as i64) != 0
    }

    fn combine(self, other: Residue, op: impl Fn(i64, i64) -> i64) -> Residue {
        let modulus = self.modulus.min(other.modulus);
        Residue::new(op(self.value, other.value), modulus)
    }

    /// What both have in common.
    fn join(self, other: Residue) -> Residue {
        let mut modulus = self.modulus.min(other.modulus);
        while (self.value - other.value) % modulus != 0 {
            modulus /= 2;
        }
        Residue::new(self.value, modulus)
    }

    fn product(self, other: Residue) -> Residue {
        // A factor known to be a multiple of two or four makes the product one, whatever the other is.
        let zero = |r: Residue| if r.value == 0 { r.modulus } else { 1 << r.value.trailing_zeros() };
        let known = self.combine(other, |a, b| a * b);
        let vanishing = zero(self).max(zero(other)).max((zero(self) * zero(other)).min(4));
        if vanishing > known.modulus { Residue::new(0, vanishing) } else { known }
    }
}

/// Residue of an expression, given those of the variables.
pub(super) fn of(kernel: &Kernel, vars: &[Residue], expr: &Expr) -> Residue {
    let part = |e: &Expr| of(kernel, vars, e);
    match expr {
        Expr::Int(value) => Residue::new(*value, 4),
        Expr::Var(var) => vars.get(var.0).copied().unwrap_or(Residue::UNKNOWN),
        Expr::Lane(axis) if kernel.lanes.get(usize::from(*axis)) == Some(&1) => Residue::new(0, 4),
        Expr::Block(axis) if kernel.grid.get(usize::from(*axis)) == Some(&1) => Residue::new(0, 4),
        Expr::Neg(a) => part(a).combine(Residue::new(0, 4), |a, _| -a),
        Expr::Select(_, a, b) | Expr::Binary(Op::Min | Op::Max, a, b) => part(a).join(part(b)),
        Expr::Binary(Op::Add, a, b) => part(a).combine(part(b), |a, b| a + b),
        Expr::Binary(Op::Sub, a, b) => part(a).combine(part(b), |a, b| a - b),
        Expr::Binary(Op::Mul, a, b) => part(a).product(part(b)),
        _ => Residue::UNKNOWN,
    }
}

/// Residue of a loop's variable.
pub(super) fn of_loop(from: Residue, step: i64) -> Residue {
    from.join(from.combine(Residue::new(step, 4), |a, b| a + b))
}

/// Largest integer of a width.
pub(super) fn fits(value: i64, index: IndexWidth) -> bool {
    index == IndexWidth::I64 || i32::try_from(value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_of_residues() {
        let (one, two, even) = (Residue::new(1, 4), Residue::new(2, 4), Residue::new(0, 2));
        assert!(two.excludes_multiples_of(4) && !two.excludes_multiples_of(2));
        assert!(one.excludes_multiples_of(2) && one.excludes_multiples_of(4));
        assert!(!even.excludes_multiples_of(4), "may be");
        assert!(!Residue::UNKNOWN.excludes_multiples_of(2));
        assert_eq!(even.product(even), Residue::new(0, 4));
        assert_eq!(two.product(Residue::UNKNOWN), even);
        assert_eq!(of_loop(one, 2), Residue::new(1, 2));
        assert_eq!(of_loop(one, 4), one);
        assert_eq!(of_loop(one, 3), Residue::new(0, 1));
    }
}
