//! A lower bound of the steps of a kernel, known without running it.

use crate::kernel::{Expr, Kernel, Stmt};

/// Lane steps that a launch takes at the least: one per statement, lane and iteration of a loop with constant
/// bounds; loops with other bounds may not run at all, and after an exit nothing may.
pub(super) fn least_steps(kernel: &Kernel) -> u64 {
    let lanes = kernel.lanes.iter().fold(1, |product: u64, &n| product.saturating_mul(n.into()));
    let blocks = kernel.grid.iter().fold(1, |product: u64, &n| product.saturating_mul(n));
    let end = kernel.body.iter().position(|stmt| matches!(stmt, Stmt::ExitIf(_)));
    let body = end.map_or(&kernel.body[..], |end| &kernel.body[..=end]);
    steps(body).max(1).saturating_mul(lanes).saturating_mul(blocks)
}

fn steps(body: &[Stmt]) -> u64 {
    body.iter().map(step).fold(0, u64::saturating_add)
}

fn step(stmt: &Stmt) -> u64 {
    match stmt {
        Stmt::Comment(_) => 0,
        Stmt::For { from, to, step, body, .. } => trips(from, to, *step).saturating_mul(1 + steps(body)),
        Stmt::If { then, otherwise, .. } => 1 + steps(then).min(steps(otherwise)),
        _ => 1,
    }
}

fn trips(from: &Expr, to: &Expr, step: i64) -> u64 {
    let (Some(from), Some(to)) = (from.constant(), to.constant()) else {
        return 0;
    };
    let runs = if step > 0 { from < to } else { from > to };
    if runs && step != 0 { to.abs_diff(from).div_ceil(step.unsigned_abs()) } else { 0 }
}
