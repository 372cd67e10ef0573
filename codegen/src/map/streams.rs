//! Vectors that only pass through a device's cache.
//!
//! A sweep over vectors that together exceed the second-level cache finds there nothing of what the sweep before has
//! written, even if that vector alone would fit: everything else that passed has taken its place. So accesses to vectors
//! that the next sweep does not load are marked as made once ([`Kernel::streamed`](crate::kernel::Kernel)): what they
//! bring leaves the cache first, and the vectors that sweeps hand on to each other stay.

use std::collections::BTreeSet;

use super::context::{Context, Made};
use crate::kernel::BufferId;
use crate::loops::{Control, Program, Sweep, SweepId, ValueKind, VectorId};
use crate::module::Arg;

/// Buffers that a sweep's kernel should mark.
pub(super) fn streamed(cx: &Context, sweep: SweepId, (kernel, args): &Made) -> Vec<BufferId> {
    let next = named_next(cx.program, sweep);
    if !cx.options.variant.stream || next.is_empty() {
        return Vec::new();
    }
    let kept: BTreeSet<VectorId> = next.into_iter().flat_map(|s| loaded(&cx.program.sweeps[s.0])).collect();
    let passes = |arg: &Arg| matches!(arg, Arg::Vector(version) if !kept.contains(&version.vector));
    kernel.arguments().zip(args).filter(|(_, arg)| passes(arg)).map(|(buffer, _)| buffer).collect()
}

/// Vectors that a sweep loads.
fn loaded(sweep: &Sweep) -> Vec<VectorId> {
    let load = |kind: &ValueKind| match kind {
        ValueKind::Load(version) => Some(version.vector),
        _ => None,
    };
    sweep.values.iter().filter_map(|value| load(&value.kind)).collect()
}

/// The sweep named next in the text of the program, at each place of a sweep: alternatives and inner loops are read as
/// straight lines, which is enough for a hint.
fn named_next(program: &Program, sweep: SweepId) -> BTreeSet<SweepId> {
    let mut order = Vec::new();
    flatten(&program.body, &mut order);
    let mut next = BTreeSet::new();
    for (n, &at) in order.iter().enumerate() {
        if at == sweep {
            next.insert(order[(n + 1) % order.len()]);
        }
    }
    next
}

/// Sweeps in the order in which the program names them; both sides of an alternative, one after the other.
fn flatten(controls: &[Control], order: &mut Vec<SweepId>) {
    for control in controls {
        match control {
            Control::Sweep(sweep) => order.push(*sweep),
            Control::Loop { body, .. } => flatten(body, order),
            Control::Every { body, otherwise, .. } => {
                flatten(body, order);
                flatten(otherwise, order);
            }
            Control::Fence(_) | Control::Rotate(_) => {}
        }
    }
}
