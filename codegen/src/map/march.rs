//! Values carried along the walk of a lane.
//!
//! A lane that walks along the last axis meets a value at k + 1, then at k, then at k - 1: it is evaluated once, when it
//! comes in sight, and handed down from variable to variable. Which values that pays for is found by evaluating a point
//! once for the record ([`carries`]) before the kernel is written.

use std::collections::{BTreeMap, BTreeSet};

use super::MapError;
use super::context::Context;
use super::eval::{Eval, Guarding};
use super::fold;
use super::position::Position;
use super::sums::Accumulators;
use crate::kernel::{Expr, Stmt, VarId};
use crate::loops::{Sweep, ValueId};

/// A component of a value.
type Part = (ValueId, usize);

/// What is carried, and what was asked for.
#[derive(Default)]
pub(super) struct March {
    /// Values known on the own column, by distance from the own point.
    carried: BTreeMap<(Part, i64), Expr>,
    /// Distances at which a point, or another one beside the column, asks for a value.
    asked: BTreeMap<Part, BTreeSet<i64>>,
    /// Distances at which a value is needed for another one away from the own point.
    inner: BTreeMap<Part, BTreeSet<i64>>,
    /// A value away from the own point is being evaluated.
    away: bool,
}

impl March {
    /// A value asked for on the own column: what is carried, or none, and the question is recorded.
    pub(super) fn ask(&mut self, part: Part, distance: i64) -> Option<Expr> {
        if let Some(known) = self.carried.get(&(part, distance)) {
            return Some(known.clone());
        }
        let record = if self.away { &mut self.inner } else { &mut self.asked };
        record.entry(part).or_default().insert(distance);
        None
    }

    /// Says whether the value evaluated next is away from the own point; what it was before is returned.
    pub(super) fn leave(&mut self, away: bool) -> bool {
        let before = self.away;
        self.away |= away;
        before
    }

    /// Undoes [`March::leave`].
    pub(super) fn back(&mut self, before: bool) {
        self.away = before;
    }
}

/// A value that a lane carries: at the distances `low..=high` from its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Carry {
    part: Part,
    low: i64,
    high: i64,
}

/// Variables of a carried value, at the distances `low..high`.
pub(super) struct Carried {
    of: Carry,
    vars: Vec<VarId>,
}

/// What is worth carrying along the last axis.
pub(super) fn carries(cx: &Context, sweep: &Sweep) -> Result<Vec<Carry>, MapError> {
    let first = rehearse(cx, sweep, &[])?;
    let mut found: Vec<Carry> = first.asked.iter().filter_map(|(&part, at)| carry(part, at)).collect();
    // With these carried, what still is loaded at the own point may have been loaded for one of them before.
    let second = rehearse(cx, sweep, &found)?;
    for (part, at) in &second.asked {
        let (Some(inner), true) = (second.inner.get(part), at.contains(&0)) else {
            continue;
        };
        let all: BTreeSet<i64> = at.union(inner).copied().filter(|&d| d >= 0).collect();
        if !found.iter().any(|c| c.part == *part) {
            found.extend(carry(*part, &all));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// A value met at several distances, none too far.
fn carry(part: Part, at: &BTreeSet<i64>) -> Option<Carry> {
    let (low, high) = (*at.first()?.min(&0), *at.last()?.max(&0));
    (at.len() > 1 && low >= -4 && high <= 4 && high > low).then_some(Carry { part, low, high })
}

/// Evaluates a point for the record.
fn rehearse(cx: &Context, sweep: &Sweep, carries: &[Carry]) -> Result<March, MapError> {
    let mut eval = Eval::new(cx, sweep, Guarding::Predicate);
    let sums = Accumulators::declare(&mut eval);
    for axis in 0..cx.dims() {
        let var = eval.b.bind_here(cx.letters()[axis], Expr::Block(axis as u8));
        eval.frame.know(var, (0, cx.size(axis) as i64 - 1));
        eval.frame.own.push(var);
    }
    for carry in carries {
        let value = eval.at_distance(*carry, carry.high)?;
        for distance in carry.low..=carry.high {
            eval.march.carried.insert((carry.part, distance), value.clone());
        }
    }
    eval.march.asked.clear();
    sums.point(&mut eval, &sweep.stores, &sweep.sums)?;
    Ok(eval.march)
}

impl Eval<'_, '_> {
    /// Distance of a position from the own point along the last axis, if that is all.
    pub(super) fn on_column(&self, at: &Position) -> Option<i64> {
        let (last, others) = at.coords.split_last()?;
        let (own_last, own_others) = self.frame.own.split_last()?;
        let beside = others.iter().zip(own_others).any(|(c, own)| c.var != *own || c.off != 0);
        (!others.is_empty() && !beside && last.var == *own_last).then_some(last.off)
    }

    /// A carried value where it comes in sight; meaningless beyond the ends of the axis.
    fn at_distance(&mut self, carry: Carry, distance: i64) -> Result<Expr, MapError> {
        let axis = self.cx.dims() - 1;
        let n = self.cx.size(axis) as i64;
        let mut at = self.frame.here();
        let own = at.coords[axis].clone();
        at.coords[axis].off = distance;
        let want = (own.range.0.max(-distance), own.range.1.min(n - 1 - distance));
        if want.0 > want.1 {
            return Ok(fold::real(0.0, self.cx.real));
        }
        if want != own.range {
            let inside = self.frame.within(self.cx, &mut self.b, axis, &own, want);
            at.guard = Some(self.guard_with(None, inside));
            at.coords[axis].range = want;
        }
        let (v, c) = carry.part;
        let before = self.march.leave(true);
        let value = self.value(v, c, &at);
        self.march.back(before);
        value
    }

    /// Before the walk: what is met at its first point, which is the own point for now.
    pub(super) fn start_march(&mut self, carries: &[Carry]) -> Result<Vec<Carried>, MapError> {
        let mut carried = Vec::new();
        for &of in carries {
            let mut vars = Vec::new();
            for distance in of.low..of.high {
                let value = self.at_distance(of, distance)?;
                let name = self.carried_name(of, distance);
                vars.push(self.b.declare(&name, value));
            }
            carried.push(Carried { of, vars });
        }
        Ok(carried)
    }

    /// At a point of the walk: what comes in sight, and names for what is carried.
    pub(super) fn step_march(&mut self, carried: &[Carried]) -> Result<(), MapError> {
        for Carried { of, vars } in carried {
            for (distance, &var) in (of.low..of.high).zip(vars) {
                let name = format!("{}_now", self.carried_name(*of, distance));
                let value = fold::var(self.b.bind_here(&name, fold::var(var)));
                self.march.carried.insert((of.part, distance), value);
            }
            if let Some(text) = &self.sweep.values[of.part.0.0].text {
                self.quote(text);
            }
            let value = self.at_distance(*of, of.high)?;
            self.march.carried.insert((of.part, of.high), value);
        }
        Ok(())
    }

    /// After a point: everything moves by one.
    pub(super) fn end_step(&mut self, carried: &[Carried]) {
        for Carried { of, vars } in carried {
            for (distance, &var) in (of.low..of.high).zip(vars) {
                if let Some(next) = self.march.carried.get(&(of.part, distance + 1)) {
                    let next = next.clone();
                    self.b.push(Stmt::Assign(var, next));
                }
            }
        }
        self.march.carried.clear();
    }

    fn carried_name(&self, of: Carry, distance: i64) -> String {
        let mut at = self.frame.here();
        if let Some(last) = at.coords.last_mut() {
            last.off = distance;
        }
        self.value_name(of.part.0, of.part.1, &at)
    }
}
