//! Expressions of a system as expressions of a kernel.

use crate::galerkin::system::{BinaryOp, CompareOp, Condition, Expr, Function};
use crate::kernel::{self as k, Cmp, Math, Op, Type};
use crate::map::fold;

use super::writer::Writer;

/// What leaves are in a kernel.
pub(super) type Leaves<'f> = dyn Fn(&mut Writer<'_, '_>, &Expr) -> k::Expr + 'f;

/// Writes an expression; everything that is computed gets a name.
pub(super) fn write(w: &mut Writer<'_, '_>, real: Type, leaves: &Leaves<'_>, e: &Expr) -> k::Expr {
    match e {
        Expr::Number(x) => k::Expr::Real(*x, real),
        Expr::Neg(a) => fold::neg(write(w, real, leaves, a)),
        Expr::Binary(op, left, right) => {
            let (left, right) = (write(w, real, leaves, left), write(w, real, leaves, right));
            let (name, value) = match op {
                BinaryOp::Add => ("sum", fold::add(left, right)),
                BinaryOp::Sub => ("difference", fold::sub(left, right)),
                BinaryOp::Mul => ("product", fold::mul(left, right)),
                BinaryOp::Div => ("quotient", w.quotient(left, right)),
            };
            w.b.bind(name, value)
        }
        Expr::Call(function, args) => {
            let args: Vec<k::Expr> = args.iter().map(|arg| write(w, real, leaves, arg)).collect();
            call(w, *function, args)
        }
        Expr::Select(c, yes, no) => {
            let c = condition(w, real, leaves, c);
            let (yes, no) = (write(w, real, leaves, yes), write(w, real, leaves, no));
            w.b.bind("chosen", fold::select(c, yes, no))
        }
        leaf => leaves(w, leaf),
    }
}

fn call(w: &mut Writer<'_, '_>, function: Function, args: Vec<k::Expr>) -> k::Expr {
    let (name, math) = match function {
        Function::Sqrt => ("root", Math::Sqrt),
        Function::Exp => ("exponential", Math::Exp),
        Function::Log => ("logarithm", Math::Log),
        Function::Sin => ("sine", Math::Sin),
        Function::Cos => ("cosine", Math::Cos),
        Function::Tan => ("tangent", Math::Tan),
        Function::Tanh => ("hyperbolic", Math::Tanh),
        Function::Abs => ("magnitude", Math::Abs),
        Function::Floor => ("floored", Math::Floor),
        Function::Pow => ("power", Math::Pow),
        Function::Min | Function::Max => {
            let op = if function == Function::Min { Op::Min } else { Op::Max };
            let value = args.into_iter().reduce(|a, b| fold::binary(op, a, b));
            return w.b.bind("extreme", value.expect("functions have arguments"));
        }
    };
    w.b.bind(name, k::Expr::Call(math, args))
}

fn condition(w: &mut Writer<'_, '_>, real: Type, leaves: &Leaves<'_>, c: &Condition) -> k::Expr {
    match c {
        Condition::Compare(op, left, right) => {
            let cmp = match op {
                CompareOp::Lt => Cmp::Lt,
                CompareOp::Le => Cmp::Le,
                CompareOp::Gt => Cmp::Gt,
                CompareOp::Ge => Cmp::Ge,
                CompareOp::Eq => Cmp::Eq,
                CompareOp::Ne => Cmp::Ne,
            };
            let (left, right) = (write(w, real, leaves, left), write(w, real, leaves, right));
            fold::compare(cmp, left, right)
        }
        Condition::And(left, right) => {
            let (left, right) = (condition(w, real, leaves, left), condition(w, real, leaves, right));
            fold::and(left, right)
        }
        Condition::Or(left, right) => {
            let (left, right) = (condition(w, real, leaves, left), condition(w, real, leaves, right));
            fold::or(left, right)
        }
        Condition::Not(inner) => fold::not(condition(w, real, leaves, inner)),
    }
}
