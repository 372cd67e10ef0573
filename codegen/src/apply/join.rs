//! Fences that need not be passed where they stand join the next one.
//!
//! A fence between two sweeps is needed if the second sweep reads a scalar of it. Otherwise its statements can run in the
//! next fence of the round, ahead of that fence's own: one pass over partial sums and one launch less.
//!
//! # Precondition
//! The steps of a round; `finish` is known.
//!
//! # Postcondition
//! Statements run in the order they did. If a status is raised by one of them, sweeps have run meanwhile that would have
//! stood aside; so fences that may raise are moved only past sweeps that store nothing that `finish` or the solution need.

use std::collections::BTreeSet;

use super::build::Parts;
use crate::loops::{Control, FenceId, PointExpr, Program, ScalarId, ScalarStmt, Sweep, ValueKind, VectorId};

/// Joins fences of a round.
pub(super) fn join(parts: &mut Parts, body: &mut Vec<Control>, finish: &[Control], solution: VectorId) {
    let kept = kept_at_exit(parts, finish, solution);
    let mut at = 0;
    while at < body.len() {
        match next_fence(parts, body, at, &kept) {
            Some((first, second)) => {
                let mut statements = std::mem::take(&mut parts.fences[first.0].statements);
                statements.append(&mut parts.fences[second.0].statements);
                let name = std::mem::take(&mut parts.fences[first.0].name);
                let fence = &mut parts.fences[second.0];
                fence.name = joined(&name, &fence.name);
                fence.statements = statements;
                body.remove(at);
            }
            None => at += 1,
        }
    }
}

/// `finish_a` and `finish_b` become `finish_a_b`.
fn joined(first: &str, second: &str) -> String {
    format!("{first}_{}", second.strip_prefix("finish_").unwrap_or(second))
}

/// The fence at a position and the one it can join.
fn next_fence(parts: &Parts, body: &[Control], at: usize, kept: &BTreeSet<VectorId>) -> Option<(FenceId, FenceId)> {
    let Control::Fence(first) = body[at] else { return None };
    let fence = &parts.fences[first.0];
    let raises = fence.statements.iter().any(|s| !matches!(s, ScalarStmt::Assign { .. }));
    let assigned: BTreeSet<ScalarId> = fence
        .statements
        .iter()
        .filter_map(|s| if let ScalarStmt::Assign { scalar, .. } = s { Some(*scalar) } else { None })
        .collect();
    for step in &body[at + 1..] {
        match step {
            Control::Sweep(id) => {
                let sweep = &parts.sweeps[id.0];
                let disturbs = raises && sweep.stores.iter().any(|s| kept.contains(&s.to.vector));
                if fence.predicate.is_some() || sweep.predicate.is_some() || disturbs || reads(sweep, &assigned) {
                    return None;
                }
            }
            Control::Fence(second) => {
                let predicate = fence.predicate.or(parts.fences[second.0].predicate);
                return predicate.is_none().then_some((first, *second));
            }
            Control::Rotate(_) | Control::Loop { .. } | Control::Every { .. } => return None,
        }
    }
    None
}

fn reads(sweep: &Sweep, scalars: &BTreeSet<ScalarId>) -> bool {
    sweep.values.iter().any(|v| match &v.kind {
        ValueKind::Map(e) => reads_point(e, scalars),
        ValueKind::Companion { step, .. } => step.is_some_and(|step| scalars.contains(&step)),
        _ => false,
    })
}

fn reads_point(e: &PointExpr, scalars: &BTreeSet<ScalarId>) -> bool {
    match e {
        PointExpr::Scalar(s) => scalars.contains(s),
        PointExpr::Value(_) | PointExpr::Number(_) => false,
        PointExpr::Neg(a) | PointExpr::Abs(a) => reads_point(a, scalars),
        PointExpr::Binary(_, a, b) => reads_point(a, scalars) || reads_point(b, scalars),
    }
}

/// Vectors that must be at an exit as the fence found them.
fn kept_at_exit(parts: &Parts, finish: &[Control], solution: VectorId) -> BTreeSet<VectorId> {
    let mut kept = BTreeSet::from([solution]);
    for step in finish {
        if let Control::Sweep(id) = step {
            let loads = parts.sweeps[id.0].values.iter();
            kept.extend(loads.filter_map(|v| if let ValueKind::Load(v) = v.kind { Some(v.vector) } else { None }));
        }
    }
    kept
}

/// Drops the fences that no section runs any more.
pub(super) fn compact(program: &mut Program) {
    let mut used = BTreeSet::new();
    for section in sections(program) {
        visit(section, &mut |fence| {
            used.insert(*fence);
        });
    }
    let number = |fence: &FenceId| FenceId(used.range(..fence).count());
    for section in sections(program) {
        visit(section, &mut |fence| *fence = number(fence));
    }
    let mut id = 0;
    program.fences.retain(|_| {
        id += 1;
        used.contains(&FenceId(id - 1))
    });
}

fn sections(program: &mut Program) -> [&mut Vec<Control>; 5] {
    let Program { prepare, start, body, residual, finish, .. } = program;
    [prepare, start, body, residual, finish]
}

fn visit(controls: &mut [Control], f: &mut dyn FnMut(&mut FenceId)) {
    for control in controls {
        match control {
            Control::Fence(fence) => f(fence),
            Control::Loop { body, .. } => visit(body, f),
            Control::Every { body, otherwise, .. } => {
                visit(body, f);
                visit(otherwise, f);
            }
            Control::Sweep(_) | Control::Rotate(_) => {}
        }
    }
}
