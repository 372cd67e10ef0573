//! Arithmetic of reals as every stage understands it: f64 folding, evaluation of tables, the reference evaluator.

use kernelwright_syntax::program::{BinaryOp, CompareOp, Function};

/// `a op b`.
pub fn binary(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
    }
}

/// `f(args)`; missing arguments count as NaN (a checked program has none).
pub fn call(f: Function, args: &[f64]) -> f64 {
    let arg = |n: usize| args.get(n).copied().unwrap_or(f64::NAN);
    let x = arg(0);
    match f {
        Function::Sqrt => x.sqrt(),
        Function::Exp => x.exp(),
        Function::Log => x.ln(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tan => x.tan(),
        Function::Tanh => x.tanh(),
        Function::Abs => x.abs(),
        Function::Floor => x.floor(),
        Function::Pow => x.powf(arg(1)),
        Function::Min => x.min(arg(1)),
        Function::Max => x.max(arg(1)),
    }
}

/// Whether `a op b` holds.
pub fn compare(op: CompareOp, a: f64, b: f64) -> bool {
    match op {
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
    }
}
