//! Integers modulo the prime 2^61 - 1: exact arithmetic in which two formulas agree on random arguments only if they
//! are the same formula, but for a chance of about 1e-16 (Schwartz and Zippel).

use std::ops::{Add, Mul, Neg, Sub};

const P: u64 = (1 << 61) - 1;

/// An element of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Element(u64);

impl Element {
    /// Zero.
    pub const ZERO: Element = Element(0);
    /// One.
    pub const ONE: Element = Element(1);

    /// An element from 64 random bits.
    pub fn from_bits(bits: u64) -> Element {
        Element(bits % P)
    }

    /// The element as bits, for seeds.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// The exact value of a finite number; what is not finite becomes a fixed element.
    pub fn from_f64(x: f64) -> Element {
        if !x.is_finite() {
            return Element::from_bits(mix(x.to_bits()));
        }
        let bits = x.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i64;
        let fraction = bits & ((1 << 52) - 1);
        let (mantissa, exponent) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        // 2^61 = 1, so exponents count modulo 61.
        let value = Element(mantissa % P) * Element(1u64 << exponent.rem_euclid(61));
        if x < 0.0 { -value } else { value }
    }

    /// Multiplicative inverse; zero for zero.
    pub fn inverse(self) -> Element {
        let (mut base, mut exponent, mut out) = (self, P - 2, Element::ONE);
        while exponent > 0 {
            if exponent & 1 == 1 {
                out = out * base;
            }
            base = base * base;
            exponent >>= 1;
        }
        out
    }

    /// A function of the arguments without algebraic relations: stands for `sqrt`, comparisons and the like.
    pub fn opaque(tag: u64, args: &[Element]) -> Element {
        Element::from_bits(args.iter().fold(mix(tag ^ 0x9e37_79b9_7f4a_7c15), |h, a| mix(h ^ mix(a.0))))
    }

    /// A truth value that depends on the element only.
    pub fn truth(self) -> bool {
        mix(self.0) & 1 == 1
    }
}

/// The residue of a number below 2P.
fn reduced(x: u64) -> u64 {
    if x >= P { x - P } else { x }
}

impl Add for Element {
    type Output = Element;
    fn add(self, other: Element) -> Element {
        Element(reduced(self.0 + other.0))
    }
}

impl Sub for Element {
    type Output = Element;
    fn sub(self, other: Element) -> Element {
        Element(reduced(self.0 + P - other.0))
    }
}

impl Neg for Element {
    type Output = Element;
    fn neg(self) -> Element {
        Element::ZERO - self
    }
}

impl Mul for Element {
    type Output = Element;
    fn mul(self, other: Element) -> Element {
        // 2^61 = 1: the high bits of the product count as they stand.
        let product = u128::from(self.0) * u128::from(other.0);
        Element(reduced((product as u64 & P) + (product >> 61) as u64))
    }
}

/// Scrambles 64 bits (the finaliser of a well-known generator, splitmix64).
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        let third = Element::ONE * Element::from_f64(3.0).inverse();
        assert_eq!(third * Element::from_f64(3.0), Element::ONE);
        assert_eq!(Element::from_f64(0.75) * Element::from_f64(-8.0), Element::from_f64(-6.0));
        assert_eq!(Element::from_f64(5e-324) * Element::from_f64(2.0), Element::from_f64(1e-323));
    }
}
