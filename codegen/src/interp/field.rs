//! The reals a kernel is interpreted over.
//!
//! [`Native`] rounds every value to its type, as a device does. The other field is [`Modular`](super::Modular):
//! exact arithmetic without rounding, in which two orders of evaluation of one formula agree.

use std::fmt;

pub use kernelwright_syntax::program::Precision;

use crate::kernel::{Cmp, Math, Op};

/// Arithmetic of reals. A method returns `None` where the operation has no value in the field; the interpreter
/// reports it and goes on with zero.
pub trait Field {
    /// A value; one representation for both precisions.
    type Real: Copy + PartialEq + fmt::Debug;

    /// Zero.
    fn zero(&self) -> Self::Real;
    /// A constant, or a value written by the host.
    fn constant(&self, value: f64, precision: Precision) -> Option<Self::Real>;
    /// An integer as a real.
    fn integer(&self, value: i64, precision: Precision) -> Self::Real;
    /// A real as an integer, truncated.
    fn truncate(&self, value: Self::Real) -> Option<i64>;
    /// Conversion between precisions.
    fn convert(&self, value: Self::Real, to: Precision) -> Self::Real;
    /// `-a`.
    fn neg(&self, a: Self::Real) -> Self::Real;
    /// `a op b` for the operators of reals: `Add`, `Sub`, `Mul`, `Div`, `Min`, `Max`.
    fn binary(&self, op: Op, a: Self::Real, b: Self::Real, precision: Precision) -> Option<Self::Real>;
    /// A function; the number of arguments fits.
    fn call(&self, function: Math, args: &[Self::Real], precision: Precision) -> Option<Self::Real>;
    /// A comparison.
    fn compare(&self, cmp: Cmp, a: Self::Real, b: Self::Real) -> bool;
}

/// IEEE arithmetic. Values are held as f64; those of type F32 are always exactly representable in f32.
///
/// `Min` and `Max` are C's `fmin` and `fmax`: a NaN operand is ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Native;

impl Field for Native {
    type Real = f64;

    fn zero(&self) -> f64 {
        0.0
    }

    fn constant(&self, value: f64, precision: Precision) -> Option<f64> {
        Some(self.convert(value, precision))
    }

    fn integer(&self, value: i64, precision: Precision) -> f64 {
        match precision {
            // Straight from the integer: through f64 it could be rounded twice.
            Precision::F32 => f64::from(value as f32),
            Precision::F64 | Precision::Mixed => value as f64,
        }
    }

    fn truncate(&self, value: f64) -> Option<i64> {
        // 2^63 is the first f64 that does not fit; -2^63 does.
        let limit = 9_223_372_036_854_775_808.0;
        (value.trunc() >= -limit && value < limit).then_some(value as i64)
    }

    fn convert(&self, value: f64, to: Precision) -> f64 {
        match to {
            Precision::F32 => f64::from(value as f32),
            Precision::F64 | Precision::Mixed => value,
        }
    }

    fn neg(&self, a: f64) -> f64 {
        -a
    }

    fn binary(&self, op: Op, a: f64, b: f64, precision: Precision) -> Option<f64> {
        match precision {
            Precision::F32 => binary32(op, a as f32, b as f32).map(f64::from),
            Precision::F64 | Precision::Mixed => binary64(op, a, b),
        }
    }

    fn call(&self, function: Math, args: &[f64], precision: Precision) -> Option<f64> {
        match precision {
            Precision::F32 => call32(function, args).map(f64::from),
            Precision::F64 | Precision::Mixed => call64(function, args),
        }
    }

    fn compare(&self, cmp: Cmp, a: f64, b: f64) -> bool {
        match cmp {
            Cmp::Lt => a < b,
            Cmp::Le => a <= b,
            Cmp::Gt => a > b,
            Cmp::Ge => a >= b,
            Cmp::Eq => a == b,
            Cmp::Ne => a != b,
        }
    }
}

/// Defines the operators and functions for one width of IEEE arithmetic.
macro_rules! ieee {
    ($ty:ty, $binary:ident, $call:ident) => {
        fn $binary(op: Op, a: $ty, b: $ty) -> Option<$ty> {
            Some(match op {
                Op::Add => a + b,
                Op::Sub => a - b,
                Op::Mul => a * b,
                Op::Div => a / b,
                Op::Min => a.min(b),
                Op::Max => a.max(b),
                Op::Rem | Op::And | Op::Or => return None,
            })
        }

        fn $call(function: Math, args: &[f64]) -> Option<$ty> {
            let arg = |n: usize| args.get(n).map(|&value| value as $ty);
            let a = arg(0)?;
            Some(match function {
                Math::Sqrt => a.sqrt(),
                Math::Exp => a.exp(),
                Math::Log => a.ln(),
                Math::Sin => a.sin(),
                Math::Cos => a.cos(),
                Math::Tan => a.tan(),
                Math::Tanh => a.tanh(),
                Math::Abs => a.abs(),
                Math::Floor => a.floor(),
                Math::Pow => a.powf(arg(1)?),
                Math::Fma => a.mul_add(arg(1)?, arg(2)?),
                Math::Reciprocal => 1.0 / a,
                Math::IsFinite => <$ty>::from(a.is_finite() as u8),
            })
        }
    };
}

ieee!(f32, binary32, call32);
ieee!(f64, binary64, call64);
