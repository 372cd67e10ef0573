//! Expressions with the trivial cases folded, so that kernels read as a person would write them.
//!
//! Integers fold fully; reals fold only where no rounding and no NaN could tell the difference (`1 * x`, `-(-x)`, sums
//! with a term that is structurally absent are never built).

use crate::kernel::{Cmp, Expr, Math, Op, Type, VarId};

/// A variable.
pub(crate) fn var(v: VarId) -> Expr {
    Expr::Var(v)
}

/// An integer.
pub(crate) fn int(n: i64) -> Expr {
    Expr::Int(n)
}

/// A real constant.
pub(crate) fn real(x: f64, ty: Type) -> Expr {
    Expr::Real(x, ty)
}

/// `a op b` without folding.
pub(crate) fn binary(op: Op, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

/// `a + b`; constants of integer sums gather at the end.
pub(crate) fn add(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Int(x), Expr::Int(y)) => int(x + y),
        (Expr::Int(0), x) | (x, Expr::Int(0)) => x,
        (a, Expr::Int(y)) if y < 0 => sub(a, int(-y)),
        (Expr::Int(x), b) => add(b, int(x)),
        (Expr::Binary(Op::Add, l, r), Expr::Int(y)) if matches!(*r, Expr::Int(_)) => add(*l, add(*r, int(y))),
        (Expr::Binary(Op::Sub, l, r), Expr::Int(y)) if matches!(*r, Expr::Int(_)) => add(*l, sub(int(y), *r)),
        (a, Expr::Neg(b)) => sub(a, *b),
        (Expr::Neg(a), b) => sub(b, *a),
        (a, b) => binary(Op::Add, a, b),
    }
}

/// `a - b`.
pub(crate) fn sub(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Int(x), Expr::Int(y)) => int(x - y),
        (a, Expr::Int(0)) => a,
        (a, Expr::Int(y)) if y < 0 => add(a, int(-y)),
        (Expr::Int(0), b) => neg(b),
        (Expr::Binary(Op::Add, l, r), Expr::Int(y)) if matches!(*r, Expr::Int(_)) => add(*l, sub(*r, int(y))),
        (Expr::Binary(Op::Sub, l, r), Expr::Int(y)) if matches!(*r, Expr::Int(_)) => sub(*l, add(*r, int(y))),
        (a, Expr::Neg(b)) => add(a, *b),
        (a, b) => binary(Op::Sub, a, b),
    }
}

/// `a * b`.
pub(crate) fn mul(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Int(x), Expr::Int(y)) => int(x * y),
        (Expr::Int(0), _) | (_, Expr::Int(0)) => int(0),
        (Expr::Int(1), x) | (x, Expr::Int(1)) => x,
        (Expr::Real(1.0, _), x) | (x, Expr::Real(1.0, _)) => x,
        (Expr::Real(-1.0, _), x) | (x, Expr::Real(-1.0, _)) => neg(x),
        (Expr::Int(-1), x) | (x, Expr::Int(-1)) => neg(x),
        (a, b) => binary(Op::Mul, a, b),
    }
}

/// `a / b`.
pub(crate) fn div(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (x, Expr::Int(1)) | (x, Expr::Real(1.0, _)) => x,
        (Expr::Int(x), Expr::Int(y)) if x >= 0 && y > 0 => int(x / y),
        (a, b) => binary(Op::Div, a, b),
    }
}

/// `a % b` of integers.
pub(crate) fn rem(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (_, Expr::Int(1)) => int(0),
        (Expr::Int(x), Expr::Int(y)) if x >= 0 && y > 0 => int(x % y),
        (a, b) => binary(Op::Rem, a, b),
    }
}

/// `-a`.
pub(crate) fn neg(a: Expr) -> Expr {
    match a {
        Expr::Int(x) => int(-x),
        Expr::Real(x, ty) => real(-x, ty),
        Expr::Neg(a) => *a,
        a => Expr::Neg(Box::new(a)),
    }
}

/// The smaller of two.
pub(crate) fn min(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Int(x), Expr::Int(y)) => int(x.min(y)),
        (a, b) => binary(Op::Min, a, b),
    }
}

/// `a && b`.
pub(crate) fn and(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Bool(true), x) | (x, Expr::Bool(true)) => x,
        (Expr::Bool(false), _) | (_, Expr::Bool(false)) => Expr::Bool(false),
        (a, b) if a == b => a,
        (a, b) => binary(Op::And, a, b),
    }
}

/// `a || b`.
pub(crate) fn or(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Bool(false), x) | (x, Expr::Bool(false)) => x,
        (Expr::Bool(true), _) | (_, Expr::Bool(true)) => Expr::Bool(true),
        (a, b) => binary(Op::Or, a, b),
    }
}

/// `!a`.
pub(crate) fn not(a: Expr) -> Expr {
    match a {
        Expr::Bool(x) => Expr::Bool(!x),
        Expr::Not(a) => *a,
        a => Expr::Not(Box::new(a)),
    }
}

/// `a op b`.
pub(crate) fn compare(op: Cmp, a: Expr, b: Expr) -> Expr {
    if let (Expr::Int(x), Expr::Int(y)) = (&a, &b) {
        return Expr::Bool(match op {
            Cmp::Lt => x < y,
            Cmp::Le => x <= y,
            Cmp::Gt => x > y,
            Cmp::Ge => x >= y,
            Cmp::Eq => x == y,
            Cmp::Ne => x != y,
        });
    }
    Expr::Compare(op, Box::new(a), Box::new(b))
}

/// `c ? a : b`.
pub(crate) fn select(c: Expr, a: Expr, b: Expr) -> Expr {
    match c {
        Expr::Bool(true) => a,
        Expr::Bool(false) => b,
        _ if a == b => a,
        c => Expr::Select(Box::new(c), Box::new(a), Box::new(b)),
    }
}

/// `|a|`.
pub(crate) fn abs(a: Expr) -> Expr {
    match a {
        Expr::Real(x, ty) => real(x.abs(), ty),
        Expr::Neg(a) => abs(*a),
        Expr::Call(Math::Abs, args) => Expr::Call(Math::Abs, args),
        a => Expr::Call(Math::Abs, vec![a]),
    }
}

/// Conversion of a value of type `from`.
pub(crate) fn cast(to: Type, from: Type, a: Expr) -> Expr {
    match a {
        a if to == from => a,
        Expr::Real(x, _) if to == Type::F64 || f64::from(x as f32) == x => real(x, to),
        a => Expr::Cast(to, Box::new(a)),
    }
}
