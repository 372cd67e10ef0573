//! Several neighbouring points of the fastest axis a lane, loaded and stored as vectors.
//!
//! A sweep that reads nothing beside its points moves words and hardly computes: with vectors of up to 16 bytes a lane
//! asks for as much with a quarter of the instructions. Vectors must not cross the end of a row, which is why their
//! length has to divide the axis; where it does not, and in sweeps that read neighbours, a lane has a point at a time.

use std::collections::BTreeMap;

use super::MapError;
use super::context::Context;
use super::eval::Eval;
use super::fold;
use super::sums::Accumulators;
use crate::kernel::{Access, Expr, Stmt, VarId};
use crate::loops::{Sweep, ValueId, ValueKind, Version};

/// Points that a lane has side by side.
pub(super) fn width(cx: &Context, sweep: &Sweep) -> u32 {
    let wanted = cx.options.variant.vector;
    let fits = cx.size(0).is_multiple_of(u64::from(wanted)) && cx.operator().space.rows().is_none();
    if fits && is_pointwise(sweep) { wanted } else { 1 }
}

/// Whether a sweep reads nothing beside its points.
pub(super) fn is_pointwise(sweep: &Sweep) -> bool {
    sweep.values.iter().all(|value| matches!(value.kind, ValueKind::Load(_) | ValueKind::Map(_)))
}

/// Evaluates the own point and those after it, so many together.
pub(super) fn points(eval: &mut Eval, sums: &Accumulators, width: u32) -> Result<(), MapError> {
    let sweep = eval.sweep;
    if width == 1 {
        return sums.point(eval, &sweep.stores, &sweep.sums);
    }
    let first = eval.frame.own[0];
    let loaded = loads(eval, width);
    let mut stored: BTreeMap<(usize, usize), Vec<Expr>> = BTreeMap::new();
    for n in 0..width as usize {
        if n > 0 {
            let (letter, last) = (eval.cx.letters()[0], eval.cx.size(0) as i64 - 1);
            let own = eval.b.bind_here(letter, fold::add(fold::var(first), fold::int(n as i64)));
            eval.frame.know(own, (n as i64, last));
            eval.frame.own[0] = own;
        }
        eval.known = loaded.iter().map(|(&of, vars)| (of, fold::var(vars[n]))).collect();
        let here = eval.frame.here();
        for c in 0..eval.cx.grid.components {
            for (number, store) in sweep.stores.iter().enumerate() {
                let value = eval.value(store.value, c, &here)?;
                stored.entry((number, c)).or_default().push(value);
            }
            for sum in &sweep.sums {
                let left = eval.value(sum.left, c, &here)?;
                let right = sum.right.map(|r| eval.value(r, c, &here)).transpose()?;
                sums.add(eval, sum.sum, left, right);
            }
        }
    }
    eval.known.clear();
    eval.frame.own[0] = first;
    for ((number, c), values) in stored {
        let (buffer, index) = place(eval, sweep.stores[number].to, c, Access::Write);
        eval.b.push(Stmt::StoreWide { buffer, index, values });
    }
    Ok(())
}

/// Loads all vectors that the sweep reads at the points.
fn loads(eval: &mut Eval, width: u32) -> BTreeMap<(ValueId, usize), Vec<VarId>> {
    let (sweep, real) = (eval.sweep, eval.cx.real);
    let mut loaded = BTreeMap::new();
    for (number, value) in sweep.values.iter().enumerate() {
        let ValueKind::Load(version) = value.kind else {
            continue;
        };
        for c in 0..eval.cx.grid.components {
            let (buffer, index) = place(eval, version, c, Access::Read);
            let name = format!("{}_here", value.name);
            let vars: Vec<VarId> = (0..width).map(|_| eval.b.result(&name, real)).collect();
            eval.b.push(Stmt::LoadWide { vars: vars.clone(), buffer, index });
            loaded.insert((ValueId(number), c), vars);
        }
    }
    loaded
}

/// Buffer of a version and the place of the own point's component there.
fn place(eval: &mut Eval, version: Version, c: usize, access: Access) -> (crate::kernel::BufferId, Expr) {
    let here = eval.frame.here();
    let (base, _) = eval.address(&here);
    let index = fold::add(base, fold::int(c as i64 * eval.cx.points as i64));
    (eval.vector_buffer(version, access), index)
}
