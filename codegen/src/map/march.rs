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
use super::tile::{Tile, leaves};
use crate::kernel::{Expr, Stmt, VarId};
use crate::loops::{Sweep, ValueId, ValueKind};

/// A component of a value.
pub(super) type Part = (ValueId, usize);

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

/// A load that a lane makes a step before it needs it: of a component of a value, at a distance along the walk.
pub(super) type Early = (Part, i64);

/// The variable of an early load.
pub(super) struct Pending {
    of: Early,
    var: VarId,
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

    /// A value known on the own column.
    pub(super) fn known(&self, part: Part, distance: i64) -> Option<Expr> {
        self.carried.get(&(part, distance)).cloned()
    }

    /// Hands over what is known on the own column, and forgets it.
    pub(super) fn take(&mut self) -> BTreeMap<(Part, i64), Expr> {
        std::mem::take(&mut self.carried)
    }

    /// Says what is known on the own column.
    pub(super) fn put(&mut self, known: BTreeMap<(Part, i64), Expr>) {
        self.carried = known;
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
    pub(super) part: Part,
    pub(super) low: i64,
    pub(super) high: i64,
}

/// Variables of a carried value, at the distances `low..high`.
pub(super) struct Carried {
    of: Carry,
    vars: Vec<VarId>,
}

/// What is worth carrying along the last axis.
pub(super) fn carries(cx: &Context, sweep: &Sweep) -> Result<Vec<Carry>, MapError> {
    let first = rehearse(cx, sweep, &[], false)?;
    let found: Vec<Carry> = first.asked.iter().filter_map(|(&part, at)| carry(part, at)).collect();
    with_loads(cx, sweep, found, false)
}

/// What a walk carries whose neighbours beside the column read some values from tiles, at these levels: those are
/// carried in any case, for the tile is filled from what is carried. None where one would be carried too far.
pub(super) fn carries_with(
    cx: &Context,
    sweep: &Sweep,
    levels: &[(Part, (i64, i64))],
) -> Result<Option<Vec<Carry>>, MapError> {
    let first = rehearse(cx, sweep, &[], true)?;
    let mut found: Vec<Carry> = first.asked.iter().filter_map(|(&part, at)| carry(part, at)).collect();
    for &(part, (low, high)) in levels {
        let asked = first.asked.get(&part).into_iter().flatten().copied();
        let all: BTreeSet<i64> = asked.chain([low, high]).collect();
        let (low, high) = (*all.first().unwrap_or(&0), *all.last().unwrap_or(&0));
        if low < -FARTHEST || high > FARTHEST {
            return Ok(None);
        }
        found.retain(|c| c.part != part);
        found.push(Carry { part, low, high });
    }
    // What is carried is evaluated by lanes beside the grid too, where coefficients must not be read.
    let plain = |c: &Carry| leaves(sweep, c.part.0).is_some();
    found.retain(plain);
    found.sort_unstable();
    let mut found = with_loads(cx, sweep, found, true)?;
    found.retain(plain);
    Ok(Some(found))
}

/// Vector loads of a walk on the own column, at the distances at which they are made.
pub(super) fn loads(cx: &Context, sweep: &Sweep, carries: &[Carry]) -> Result<Vec<Early>, MapError> {
    let march = rehearse(cx, sweep, carries, true)?;
    let all = march.asked.iter().chain(&march.inner);
    let loads = all.filter(|(part, _)| matches!(sweep.values[part.0.0].kind, ValueKind::Load(_)));
    let loads: BTreeSet<Early> = loads.flat_map(|(&part, at)| at.iter().map(move |&d| (part, d))).collect();
    Ok(loads.into_iter().collect())
}

/// Adds loads that an earlier point made for what is carried.
fn with_loads(cx: &Context, sweep: &Sweep, mut found: Vec<Carry>, tiled: bool) -> Result<Vec<Carry>, MapError> {
    // With these carried, what still is loaded at the own point may have been loaded for one of them before.
    let second = rehearse(cx, sweep, &found, tiled)?;
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

/// A value is carried this far at most.
const FARTHEST: i64 = 4;

/// A value met at several distances, none too far.
fn carry(part: Part, at: &BTreeSet<i64>) -> Option<Carry> {
    let (low, high) = (*at.first()?.min(&0), *at.last()?.max(&0));
    (at.len() > 1 && low >= -FARTHEST && high <= FARTHEST && high > low).then_some(Carry { part, low, high })
}

/// Evaluates a point for the record; where tiles are read, where a reading lands on the own column counts.
fn rehearse(cx: &Context, sweep: &Sweep, carries: &[Carry], tiled: bool) -> Result<March, MapError> {
    Ok(rehearsed(cx, sweep, carries, tiled)?.march)
}

/// Offsets at which values are read beside the own column.
pub(super) fn beside(cx: &Context, sweep: &Sweep) -> Result<BTreeMap<Part, BTreeSet<[i64; 3]>>, MapError> {
    Ok(rehearsed(cx, sweep, &[], true)?.tile.take_record())
}

/// Offsets from the own point at which values are read, where one is read beside the own column.
pub(super) fn around(cx: &Context, sweep: &Sweep) -> Result<BTreeMap<Part, BTreeSet<[i64; 3]>>, MapError> {
    let Eval { tile, march, .. } = rehearsed(cx, sweep, &[], true)?;
    let mut around = tile.take_record();
    for (part, offsets) in &mut around {
        let own = march.asked.get(part).into_iter().flatten();
        offsets.extend(own.map(|&level| [0, 0, level]).chain([[0; 3]]));
    }
    Ok(around)
}

fn rehearsed<'a, 'c>(
    cx: &'c Context<'a>,
    sweep: &'a Sweep,
    carries: &[Carry],
    tiled: bool,
) -> Result<Eval<'a, 'c>, MapError> {
    let mut eval = Eval::new(cx, sweep, Guarding::Predicate);
    if tiled {
        eval.tile = Tile::recording();
    }
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
    Ok(eval)
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
    pub(super) fn at_distance(&mut self, carry: Carry, distance: i64) -> Result<Expr, MapError> {
        let Some(at) = self.along(distance) else {
            return Ok(fold::real(0.0, self.cx.real));
        };
        let (v, c) = carry.part;
        let before = self.march.leave(true);
        let value = self.value(v, c, &at);
        self.march.back(before);
        value
    }

    /// The position at a distance along the own column, guarded where it may be outside; none if it always is.
    fn along(&mut self, distance: i64) -> Option<Position> {
        let mut at = self.frame.here();
        at.guard = self.tile.live();
        self.at_level(at, distance)
    }

    /// A position moved along the last axis, guarded where it may be outside; none if it always is.
    pub(super) fn at_level(&mut self, mut at: Position, distance: i64) -> Option<Position> {
        let axis = self.cx.dims() - 1;
        let n = self.cx.size(axis) as i64;
        let own = at.coords[axis].clone();
        at.coords[axis].off = distance;
        let want = (own.range.0.max(-distance), own.range.1.min(n - 1 - distance));
        if want.0 > want.1 {
            return None;
        }
        if want != own.range {
            let inside = self.frame.within(self.cx, &mut self.b, axis, &own, want);
            at.guard = Some(self.guard_with(at.guard, inside));
            at.coords[axis].range = want;
        }
        Some(at)
    }

    /// Before the walk: the loads that its first point makes.
    pub(super) fn start_early(&mut self, loads: &[Early]) -> Result<Vec<Pending>, MapError> {
        let mut pending = Vec::new();
        for &of in loads {
            let (part, distance) = of;
            let value = self.at_distance(Carry { part, low: distance, high: distance }, distance)?;
            let name = format!("{}_early", self.distant_name(part, distance));
            pending.push(Pending { of, var: self.b.declare(&name, value) });
        }
        Ok(pending)
    }

    /// At a point of the walk: what was loaded early is known.
    pub(super) fn take_early(&mut self, pending: &[Pending]) {
        for &Pending { of: (part, distance), var } in pending {
            let name = self.distant_name(part, distance);
            let value = fold::var(self.b.bind_here(&name, fold::var(var)));
            self.march.carried.insert((part, distance), value);
        }
    }

    /// At a point of the walk: makes the loads of the next one, where `more` says that there is one.
    pub(super) fn load_early(&mut self, pending: &[Pending], more: &Expr) -> Result<Vec<Stmt>, MapError> {
        let mut moves = Vec::new();
        for &Pending { of: (part, distance), var } in pending {
            let next = match (self.march.known(part, distance + 1), self.along(distance + 1)) {
                (Some(known), _) => known,
                (None, None) => continue,
                (None, Some(mut at)) => {
                    at.guard = Some(self.guard_with(at.guard, more.clone()));
                    self.loaded(part, &at)?
                }
            };
            moves.push(Stmt::Assign(var, next));
        }
        Ok(moves)
    }

    /// A load at a position, bound to a name.
    pub(super) fn loaded(&mut self, (v, c): Part, at: &Position) -> Result<Expr, MapError> {
        let ValueKind::Load(version) = self.sweep.values[v.0].kind else {
            return Err(MapError::Internal("only loads are made early".into()));
        };
        let name = format!("{}_next", self.value_name(v, c, at));
        let value = self.load_vector(version, c, at, &name)?;
        Ok(fold::var(self.b.bind_here(&name, value)))
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
        self.distant_name(of.part, distance)
    }

    fn distant_name(&self, part: Part, distance: i64) -> String {
        let mut at = self.frame.here();
        if let Some(last) = at.coords.last_mut() {
            last.off = distance;
        }
        self.value_name(part.0, part.1, &at)
    }
}
