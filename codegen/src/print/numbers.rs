//! Text of numbers: the shortest that reads back as the same value.

use crate::kernel::Type;

/// A finite real with the suffix C and CUDA want; `None` when it rounds to infinity or is NaN.
pub(crate) fn real(value: f64, ty: Type) -> Option<String> {
    match ty {
        Type::F32 => {
            let rounded = value as f32;
            rounded.is_finite().then(|| format!("{rounded:?}f"))
        }
        _ => value.is_finite().then(|| format!("{value:?}")),
    }
}

/// An `int` literal, or a `long long` one if `wide` or if the value needs it.
pub(crate) fn int(value: i64, wide: bool) -> String {
    let fits = i32::try_from(value).is_ok();
    let suffix = if wide || !fits { "LL" } else { "" };
    // The most negative numbers have no literal: the minus sign is an operator on a literal that is too large.
    if value == i64::MIN || value == i64::from(i32::MIN) {
        return format!("({}{suffix} - 1)", value + 1);
    }
    format!("{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reals_are_the_shortest_that_read_back() {
        let check = |value: f64, ty, expected: &str| assert_eq!(real(value, ty).as_deref(), Some(expected));
        check(0.1, Type::F64, "0.1");
        check(0.1, Type::F32, "0.1f");
        check(1.0, Type::F32, "1.0f");
        check(-0.0, Type::F64, "-0.0");
        check(1.0 / 3.0, Type::F64, "0.3333333333333333");
        check(1.0 / 3.0, Type::F32, "0.33333334f");
        check(1e-30, Type::F32, "1e-30f");
        check(5e-324, Type::F64, "5e-324");
        check(f64::MAX, Type::F64, "1.7976931348623157e308");
    }

    #[test]
    fn what_is_not_finite_has_no_literal() {
        assert_eq!(real(f64::NAN, Type::F64), None);
        assert_eq!(real(f64::NEG_INFINITY, Type::F32), None);
        assert_eq!(real(1e300, Type::F32), None, "too large for single precision");
    }

    #[test]
    fn integers() {
        assert_eq!(int(7, false), "7");
        assert_eq!(int(7, true), "7LL");
        assert_eq!(int(1 << 31, false), "2147483648LL");
        assert_eq!(int(i64::from(i32::MIN), false), "(-2147483647 - 1)");
        assert_eq!(int(i64::MIN, true), "(-9223372036854775807LL - 1)");
    }
}
