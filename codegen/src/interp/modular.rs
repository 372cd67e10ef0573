//! The integers modulo the prime 2^61 - 1 as the field of reals.
//!
//! Sums, differences, products and quotients are exact, so two schedules of one computation agree bit for bit
//! whenever they agree as rational functions; a wrong one agrees by chance once in about 2^61 random inputs. What is
//! not a rational function is *uninterpreted*: a fixed hash of its arguments, equal for equal arguments and nothing
//! else. Order, `Min` and `Max` come from one arbitrary total order of the residues, so that maxima do not depend on
//! the order in which they are taken.

use std::ops::{Add, Mul, Neg, Sub};

use super::field::{Field, Precision};
use crate::kernel::{Cmp, Math, Op};

/// The modulus.
const P: u64 = (1 << 61) - 1;

/// Integers up to this size are recognised in residues where one is needed ([`Field::truncate`]).
const SMALL: u64 = 1 << 31;

/// Exponents up to this size are powers and not a hash.
const SMALL_EXPONENT: u64 = 64;

/// An integer modulo 2^61 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Residue(u64);

impl Residue {
    /// Zero.
    pub const ZERO: Residue = Residue(0);
    /// One.
    pub const ONE: Residue = Residue(1);

    /// The class of an unsigned number.
    pub fn new(value: u64) -> Residue {
        Residue(value % P)
    }

    /// The class of a signed number.
    pub fn signed(value: i64) -> Residue {
        Residue(value.rem_euclid(P as i64) as u64)
    }

    /// The representative in 0 … p-1.
    pub fn value(self) -> u64 {
        self.0
    }

    /// The representative of least magnitude, if that is at most `limit`.
    fn small(self, limit: u64) -> Option<i64> {
        if self.0 <= limit {
            Some(self.0 as i64)
        } else if P - self.0 <= limit {
            Some(-((P - self.0) as i64))
        } else {
            None
        }
    }

    fn power(self, mut exponent: u64) -> Residue {
        let (mut base, mut result) = (self, Residue::ONE);
        while exponent > 0 {
            if exponent & 1 == 1 {
                result = result * base;
            }
            base = base * base;
            exponent >>= 1;
        }
        result
    }

    /// The inverse (Fermat); none of zero.
    pub fn inverse(self) -> Option<Residue> {
        (self.0 != 0).then(|| self.power(P - 2))
    }

    /// A finite f64 is k * 2^m with integers k and m.
    fn from_f64(value: f64) -> Option<Residue> {
        if !value.is_finite() {
            return None;
        }
        let bits = value.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let exponent = (bits >> 52) & 0x7ff;
        let (k, m) = if exponent == 0 { (fraction, -1074) } else { (fraction | (1 << 52), exponent as i64 - 1075) };
        // The order of 2 is 61, so every power of two, negative ones too, is one of 61.
        let magnitude = Residue::new(k) * Residue(1 << m.rem_euclid(61));
        Some(if value.is_sign_negative() { -magnitude } else { magnitude })
    }
}

impl Add for Residue {
    type Output = Residue;

    fn add(self, other: Residue) -> Residue {
        let sum = self.0 + other.0;
        Residue(if sum >= P { sum - P } else { sum })
    }
}

impl Neg for Residue {
    type Output = Residue;

    fn neg(self) -> Residue {
        Residue(if self.0 == 0 { 0 } else { P - self.0 })
    }
}

impl Sub for Residue {
    type Output = Residue;

    fn sub(self, other: Residue) -> Residue {
        self + -other
    }
}

impl Mul for Residue {
    type Output = Residue;

    fn mul(self, other: Residue) -> Residue {
        let product = u128::from(self.0) * u128::from(other.0);
        // 2^61 = 1 modulo p: the high part counts as is.
        Residue((product as u64) & P) + Residue((product >> 61) as u64)
    }
}

/// How comparisons of reals turn out in the modular run. Equality is exact in the first two modes.
#[derive(Debug, Clone, Copy, Default)]
pub enum CompareMode {
    /// By an arbitrary fixed total order.
    #[default]
    Hash,
    /// As if the left operand were the larger one, unless they are equal: `left <= right` never holds and
    /// `left > right` does. With tests of the kind `measure <= bound` and `require value > 0` a loop goes on.
    LeftLarger,
    /// As the caller says.
    By(fn(Cmp, Residue, Residue) -> bool),
}

/// The field. F32 and F64 are the same; conversions do nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modular {
    /// Outcome of comparisons.
    pub compare: CompareMode,
}

/// A bijection of 64-bit words without visible structure (the finaliser of SplitMix64).
fn mix(word: u64) -> u64 {
    let a = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

/// An uninterpreted function of some arguments.
fn uninterpreted(tag: u64, args: &[Residue]) -> Residue {
    let word = args.iter().fold(mix(tag ^ 0x9e37_79b9_7f4a_7c15), |state, arg| {
        mix(state.wrapping_add(arg.0).wrapping_add(0x9e37_79b9_7f4a_7c15))
    });
    Residue::new(word)
}

/// Position in the arbitrary order.
fn rank(a: Residue) -> u64 {
    mix(a.0)
}

fn power(base: Residue, exponent: Residue) -> Option<Residue> {
    match exponent.small(SMALL_EXPONENT) {
        Some(n) if n >= 0 => Some(base.power(n as u64)),
        Some(n) => Some(base.inverse()?.power(n.unsigned_abs())),
        None => Some(uninterpreted(Math::Pow as u64, &[base, exponent])),
    }
}

impl Field for Modular {
    type Real = Residue;

    fn zero(&self) -> Residue {
        Residue::ZERO
    }

    /// The f64 itself, not rounded to f32: conversions do nothing, so neither may constants.
    fn constant(&self, value: f64, _: Precision) -> Option<Residue> {
        Residue::from_f64(value)
    }

    fn integer(&self, value: i64, _: Precision) -> Residue {
        Residue::signed(value)
    }

    fn truncate(&self, value: Residue) -> Option<i64> {
        value.small(SMALL)
    }

    fn convert(&self, value: Residue, _: Precision) -> Residue {
        value
    }

    fn neg(&self, a: Residue) -> Residue {
        -a
    }

    fn binary(&self, op: Op, a: Residue, b: Residue, _: Precision) -> Option<Residue> {
        Some(match op {
            Op::Add => a + b,
            Op::Sub => a - b,
            Op::Mul => a * b,
            Op::Div => a * b.inverse()?,
            Op::Min => std::cmp::min_by_key(a, b, |&x| rank(x)),
            Op::Max => std::cmp::max_by_key(a, b, |&x| rank(x)),
            Op::Rem | Op::And | Op::Or => return None,
        })
    }

    fn call(&self, function: Math, args: &[Residue], _: Precision) -> Option<Residue> {
        let &a = args.first()?;
        Some(match function {
            Math::Fma => a * *args.get(1)? + *args.get(2)?,
            Math::Pow => power(a, *args.get(1)?)?,
            Math::Reciprocal => a.inverse()?,
            Math::IsFinite => Residue::ONE,
            // Kept: |0| = 0, sqrt(0) = 0 and |-a| = |a|, which padding and symmetric code rely on.
            Math::Abs | Math::Sqrt if a == Residue::ZERO => Residue::ZERO,
            Math::Abs => uninterpreted(function as u64, &[a.min(-a)]),
            _ => uninterpreted(function as u64, &[a]),
        })
    }

    fn compare(&self, cmp: Cmp, a: Residue, b: Residue) -> bool {
        let less = match self.compare {
            CompareMode::By(decide) => return decide(cmp, a, b),
            CompareMode::Hash => rank(a) < rank(b),
            CompareMode::LeftLarger => false,
        };
        match cmp {
            Cmp::Eq => a == b,
            Cmp::Ne => a != b,
            Cmp::Lt => less,
            Cmp::Ge => !less,
            Cmp::Le => less || a == b,
            Cmp::Gt => !less && a != b,
        }
    }
}
