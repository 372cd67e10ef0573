//! Scalars, parameters and the status word in kernels; functions and comparisons of the languages above in Kernel IR.

use super::builder::Builder;
use super::context::Context;
use super::eval::load_at;
use super::fold;
use crate::kernel::{Access, BufferId, Cmp, Element, Expr, Math, Op, Stmt};
use crate::loops::{ScalarId, status};
use crate::math::Function;
use crate::module::Arg;
use kernelwright_syntax::program::CompareOp;

/// The buffer of scalars.
pub(super) fn buffer(b: &mut Builder, cx: &Context, access: Access) -> BufferId {
    b.global(Arg::Scalars, "scalars", Element::F64, cx.program.scalars.len() as u64, access)
}

/// A scalar of the loop, f64.
pub(super) fn load(b: &mut Builder, cx: &Context, s: ScalarId) -> Expr {
    let buffer = buffer(b, cx, Access::Read);
    load_at(buffer, fold::int(s.0 as i64))
}

/// A parameter of the operator (numbers from 0), then of the solver, f64.
pub(super) fn param(b: &mut Builder, cx: &Context, p: usize) -> Expr {
    let len = cx.operator().params.len() + cx.program.solver_params.len();
    let buffer = b.global(Arg::Params, "params", Element::F64, len as u64, Access::Read);
    load_at(buffer, fold::int(p as i64))
}

/// The buffer of the status word.
pub(super) fn status(b: &mut Builder, access: Access) -> BufferId {
    b.global(Arg::Status, "status", Element::I32, 2, access)
}

/// Ends the kernel when the solve is over, or where the predicate does not hold.
pub(super) fn exits(b: &mut Builder, cx: &Context, predicate: Option<ScalarId>) {
    let word = status(b, Access::Read);
    let running = fold::int(i64::from(status::RUNNING));
    b.push(Stmt::ExitIf(fold::compare(Cmp::Ne, load_at(word, fold::int(0)), running)));
    if let Some(s) = predicate {
        let scalar = load(b, cx, s);
        b.push(Stmt::ExitIf(fold::compare(Cmp::Eq, scalar, fold::real(0.0, crate::kernel::Type::F64))));
    }
}

/// A function of reals.
pub(super) fn call(f: Function, mut args: Vec<Expr>) -> Expr {
    let math = match f {
        Function::Sqrt => Math::Sqrt,
        Function::Exp => Math::Exp,
        Function::Log => Math::Log,
        Function::Sin => Math::Sin,
        Function::Cos => Math::Cos,
        Function::Tan => Math::Tan,
        Function::Tanh => Math::Tanh,
        Function::Abs => Math::Abs,
        Function::Floor => Math::Floor,
        Function::Pow => Math::Pow,
        Function::Min | Function::Max => {
            let op = if f == Function::Min { Op::Min } else { Op::Max };
            let second = args.pop().expect("checked programs call functions with their arity");
            let first = args.pop().expect("checked programs call functions with their arity");
            return fold::binary(op, first, second);
        }
    };
    Expr::Call(math, args)
}

/// A comparison.
pub(super) fn comparison(op: CompareOp) -> Cmp {
    match op {
        CompareOp::Lt => Cmp::Lt,
        CompareOp::Le => Cmp::Le,
        CompareOp::Gt => Cmp::Gt,
        CompareOp::Ge => Cmp::Ge,
        CompareOp::Eq => Cmp::Eq,
        CompareOp::Ne => Cmp::Ne,
    }
}
