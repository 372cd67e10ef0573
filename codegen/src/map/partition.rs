//! Sweeps that solve along lines, each line split over the lanes of a block.
//!
//! A block has some lines side by side along the fastest axis that is not their own (lanes x) and cuts each into segments
//! (lanes y). A lane evaluates all points of its segment before it stores any, so that many loads are in flight, and keeps
//! them in registers, long segments in part in shared memory: arrays are indexed by loops that are unrolled completely. How
//! many of each there are is said in [`shape`]. Three kinds of loops over a segment remain as in [`super::line`]: values,
//! elimination, substitution; between the last two the lanes of a line solve a small system together
//! ([`super::separators`]).
//!
//! A line that the segments do not divide ends in *rows beyond its end*: they read the last point, count as the identity
//! and are not stored.

mod shape;

use std::collections::BTreeMap;

use super::MapError;
use super::context::{Context, Made};
use super::eval::{Eval, Guarding, Kept};
use super::fold;
use super::line::{Array, ArrayId};
use super::line_plan::Plan;
use super::point::Blocks;
use super::separators::System;
use super::sums::{Accumulators, Places};
use crate::kernel::{BufferId, Cmp, Element, Expr, LoopKind, MULTIPROCESSORS, VarId};
use crate::kernel_verify::MAX_SHARED_BYTES;
use crate::loops::{Store, Sum, Sweep, ValueId};
pub(super) use shape::Shape;

/// Registers of a multiprocessor, and as many a lane as let it hold half of its lanes, a little less, or a quarter.
const REGISTERS: [u64; 4] = [1 << 16, 64, 80, 128];
/// Kinds of arrays that stand in shared memory if they are long, and the bytes a block may have there: two blocks fit.
const SHARED: (u32, u64) = (2, 99 << 10);
/// Words of a long array.
const LONG: u64 = 16;
/// Words of arrays that fit into the registers of a lane, with all else.
const HELD: u64 = 128;

/// Arrays of a kernel, by what becomes of them.
struct Arrays {
    /// Per kind that may stand in shared memory: what is stored on the way, couplings, right sides.
    kinds: [usize; 4],
    /// Others.
    kept: usize,
    /// Bytes of one for a block, and of what the lanes exchange.
    bytes: u64,
    exchanged: u64,
}

impl Arrays {
    fn of(cx: &Context, plan: &Plan, shape: Shape) -> Arrays {
        let components = cx.grid.components;
        let solves = plan.solves.len() * components;
        let stored = plan.stores.iter().filter(|at| at.is_multiple_of(2)).count() * components;
        let lanes = shape.columns * shape.segments * 4 * cx.words();
        Arrays {
            kinds: [stored, solves, solves, solves],
            kept: plan.keeps.len() * components,
            bytes: lanes * shape.levels,
            exchanged: 8 * lanes,
        }
    }

    /// Kinds of arrays in shared memory: long ones, where that leaves room for another block; in f32 more than usual where the
    /// registers would not hold the others. In f64 those of lines across the fastest axis that fit into registers stay there: a
    /// multiprocessor would not hold more lanes without them.
    fn shared(&self, cx: &Context, shape: Shape, axis: usize) -> u32 {
        let (kinds, most) = SHARED;
        let stay = axis > 0 && cx.words() == 2 && self.in_registers(cx, shape, 0) <= HELD;
        let long = shape.levels * cx.words() >= LONG && !stay;
        let kinds = match self.in_registers(cx, shape, kinds) {
            words if cx.words() == 1 && words > HELD / 2 && self.in_shared(kinds + 1) <= most => kinds + 1,
            _ => kinds,
        };
        cx.options.variant.shared.unwrap_or(if long && self.in_shared(kinds) <= most { kinds } else { 0 })
    }

    /// Words of a lane's arrays that stand in registers, with so many kinds in shared memory.
    fn in_registers(&self, cx: &Context, shape: Shape, shared: u32) -> u64 {
        let arrays = self.kinds.iter().skip(shared as usize).sum::<usize>() + self.kept;
        arrays as u64 * shape.levels * cx.words()
    }

    /// Bytes of shared memory with so many kinds of arrays there.
    fn in_shared(&self, kinds: u32) -> u64 {
        self.exchanged + self.kinds.iter().take(kinds as usize).sum::<usize>() as u64 * self.bytes
    }

    /// Blocks that a multiprocessor should hold, of so many: where the arrays leave three eighths of the registers to all
    /// else, as many as make all of them end sooner. In f64 what is not in arrays takes too many for a quarter of its lanes.
    fn resident(&self, cx: &Context, shape: Shape, shared: u32, blocks: u64) -> Option<u32> {
        match cx.options.variant.line_resident {
            Some(0) => None,
            Some(blocks) => Some(blocks),
            None => {
                let [all, half, less, twice] = REGISTERS;
                let words = self.in_registers(cx, shape, shared);
                let lanes = shape.columns * shape.segments;
                let rounds = |held: u64| blocks.div_ceil(MULTIPROCESSORS * held) * held;
                let several = |registers: u64| Some(all / registers / lanes).filter(|&held| held > 1);
                let leave = |registers: u64| 8 * words <= 5 * registers;
                let held = if leave(half) {
                    [less, half].into_iter().filter_map(several).min_by_key(|&held| rounds(held))
                } else {
                    several(twice).filter(|_| cx.words() == 1 && !leave(less) && leave(twice))
                };
                held.map(|held| held as u32)
            }
        }
    }
}

/// Maps a sweep that solves along an axis.
pub(super) fn kernel(cx: &mut Context, sweep: &Sweep, axis: usize, plan: Plan, shape: Shape) -> Result<Made, MapError> {
    let others: Vec<usize> = (0..cx.dims()).filter(|&a| a != axis).collect();
    let size = |cx: &Context, n: usize| others.get(n).map_or(1, |&a| cx.size(a));
    let blocks = Blocks::new([size(cx, 0).div_ceil(shape.columns), size(cx, 1), 1]);
    let count = blocks.count();
    let mut places = Places::reserve(cx, &sweep.sums, count);
    let cx: &Context = cx;
    let arrays = Arrays::of(cx, &plan, shape);
    let shared = arrays.shared(cx, shape, axis);
    // The sums of the groups of lanes take a little more.
    if arrays.in_shared(shared) > MAX_SHARED_BYTES - (8 << 10) {
        return Err(MapError::Variant("the arrays of a block do not fit into shared memory".into()));
    }
    let mut eval = Eval::new(cx, sweep, Guarding::Predicate);
    let lane = fold::add(Expr::Lane(0), fold::mul(fold::int(shape.columns as i64), Expr::Lane(1)));
    let lanes = (shape.columns * shape.segments) as u32;
    super::lead::open(&mut eval, lane.clone(), lanes, blocks.count())?;
    let place = eval.b.bind("place", lane.clone());
    eval.arrays = super::line::Arrays::of_lane((shape.columns * shape.segments) as i64, place);
    eval.frame.own = vec![VarId(usize::MAX); cx.dims()];
    let sums = Accumulators::declare(&mut eval);
    let mut split = Split {
        eval,
        axis,
        shape,
        plan,
        sums,
        live: Expr::Bool(true),
        first: fold::int(0),
        arrays_shared: shared,
        shared: Vec::new(),
        turn: 0,
        stored: BTreeMap::new(),
    };
    split.lane(&others, &blocks);
    split.solves()?;
    let Split { mut eval, sums, .. } = split;
    sums.finish(&mut eval.b, &mut places, lane.clone(), lanes, blocks.number());
    super::fence::close(&mut eval, lane, lanes, blocks.count())?;
    let Shape { columns, segments, levels, .. } = shape;
    eval.b.doc.push(format!("{columns} lines a block, each in {segments} segments of {levels}"));
    let (mut kernel, args) = eval.b.finish(blocks.grid(), [columns as u32, segments as u32, 1], cx.index);
    kernel.hold(arrays.resident(cx, shape, shared, count));
    Ok((kernel, args))
}

/// Writes the kernel.
pub(super) struct Split<'a, 'c> {
    pub(super) eval: Eval<'a, 'c>,
    pub(super) axis: usize,
    pub(super) shape: Shape,
    plan: Plan,
    sums: Accumulators,
    /// Whether the lane's line exists.
    live: Expr,
    /// First point of the lane's segment.
    first: Expr,
    /// Kinds of arrays that stand in shared memory.
    arrays_shared: u32,
    /// Numbers that the lanes of a line exchange: two sets that take turns, so that one barrier an exchange is enough.
    pub(super) shared: Vec<Vec<BufferId>>,
    pub(super) turn: usize,
    /// Values stored by loops forwards, by the number of the store.
    stored: BTreeMap<usize, ArrayId>,
}

/// A point of the lane's segment.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Its place in the segment.
    pub(super) place: Expr,
    /// Whether it is a point of the line, where that is not sure.
    pub(super) live: Option<Expr>,
}

/// Which points of a segment a loop visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visit {
    /// All, one like the other.
    All,
    /// All; the ends apart, because what lies beyond them is another matter.
    Ends,
}

impl Split<'_, '_> {
    /// Declares the lane's place in the grid.
    fn lane(&mut self, others: &[usize], blocks: &Blocks) {
        for (number, &axis) in others.iter().enumerate() {
            let (columns, size) = (self.shape.columns, self.eval.cx.size(axis));
            let at = match number {
                0 => fold::add(fold::mul(blocks.tile(0), fold::int(columns as i64)), Expr::Lane(0)),
                _ => blocks.tile(number),
            };
            let var = self.eval.b.bind_here(self.eval.cx.letters()[axis], at);
            self.eval.frame.know(var, (0, size as i64 - 1));
            self.eval.frame.own[axis] = var;
            if number == 0 && !size.is_multiple_of(columns) {
                let inside = fold::compare(Cmp::Lt, fold::var(var), fold::var(self.eval.frame.sizes[axis]));
                self.live = self.eval.b.bind("is_line", inside);
            }
        }
        let first = fold::mul(Expr::Lane(1), fold::int(self.shape.levels as i64));
        self.first = self.eval.b.bind("first", first);
    }

    /// All solves of the sweep, in order.
    fn solves(&mut self) -> Result<(), MapError> {
        let components = self.eval.cx.grid.components;
        let mut kept = BTreeMap::new();
        for v in self.plan.keeps.clone().into_keys() {
            let arrays = self.arrays(&format!("{}_line", self.eval.sweep.values[v].name), components);
            kept.insert(ValueId(v), self.eval.keep(arrays));
        }
        for (number, store) in self.eval.sweep.stores.iter().enumerate() {
            if self.plan.stores[number].is_multiple_of(2) {
                let name = format!("{}_line", self.eval.sweep.values[store.value.0].name);
                let arrays = (0..components).map(|_| self.array(&name, 1)).collect();
                let id = self.eval.keep(arrays);
                self.stored.insert(number, id);
            }
        }
        for number in 0..self.plan.solves.len() {
            self.solve(number, &kept)?;
        }
        Ok(())
    }

    /// An array of a segment's length: in shared memory if the variant puts so many kinds of arrays there. Those that are
    /// read last of all come first.
    pub(super) fn array(&mut self, name: &str, kind: u32) -> Array {
        if self.arrays_shared >= kind {
            return self.eval.shared_array(name, self.shape.levels);
        }
        self.eval.array(name, self.shape.levels)
    }

    /// One array per component, of a segment's length.
    fn arrays(&mut self, name: &str, components: usize) -> Vec<Array> {
        (0..components).map(|_| self.eval.array(name, self.shape.levels)).collect()
    }

    /// One solve: forwards, the separators, backwards, with all that is done on the way.
    fn solve(&mut self, number: usize, kept: &BTreeMap<ValueId, ArrayId>) -> Result<(), MapError> {
        let (solution, right) = self.plan.solves[number];
        let name = self.eval.sweep.values[solution.0].name.clone();
        let letter = self.eval.cx.letters()[self.axis];
        let systems: Vec<System> = (0..self.eval.cx.grid.components).map(|c| System::new(self, c, &name)).collect();
        self.enter(2 * number, kept);
        self.where_live(|m| {
            m.eval.b.comment("values at the points of the segment");
            m.rows(Visit::Ends, false, |m, row| m.values(&systems, number, right, kept, row))?;
            m.stores(number)?;
            m.eval.b.comment(format!("{name}, elimination along {letter}"));
            systems.iter().try_for_each(|s| m.eliminate(s))
        })?;
        systems.iter().for_each(|s| self.join(s, &name));
        self.enter(2 * number + 1, kept);
        self.where_live(|m| {
            m.eval.b.comment(format!("{name}, substitution"));
            m.rows(Visit::Ends, true, |m, row| m.substitute(&systems, number, solution, kept, row))
        })?;
        self.eval.known.clear();
        let id = self.eval.keep(systems.iter().map(|s| s.rhs).collect());
        self.eval.kept.insert(solution, Kept::Array(id, self.axis));
        Ok(())
    }

    /// What only lanes with a line do.
    fn where_live(&mut self, f: impl FnOnce(&mut Self) -> Result<(), MapError>) -> Result<(), MapError> {
        if self.live == Expr::Bool(true) {
            return f(self);
        }
        self.eval.open_if();
        f(self)?;
        self.eval.close_if(self.live.clone());
        Ok(())
    }

    /// Says how values of earlier loops are read in a loop.
    fn enter(&mut self, at: usize, kept: &BTreeMap<ValueId, ArrayId>) {
        let sweep = self.eval.sweep;
        for (v, &earlier) in &self.plan.keeps {
            if earlier < at {
                self.eval.kept.insert(ValueId(*v), Kept::Array(kept[&ValueId(*v)], self.axis));
            }
        }
        for (number, store) in sweep.stores.iter().enumerate() {
            if self.plan.stores[number] < at {
                let how = match self.stored.get(&number) {
                    Some(&array) => Kept::Array(array, self.axis),
                    None => Kept::Stored(store.to),
                };
                self.eval.kept.insert(store.value, how);
            }
        }
    }

    /// Visits the points of the segment.
    pub(super) fn rows(
        &mut self,
        visit: Visit,
        backwards: bool,
        mut f: impl FnMut(&mut Self, &Row) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let Shape { segments, levels, .. } = self.shape;
        let n = self.eval.cx.size(self.axis);
        // In the last segment, rows from here on are beyond the end.
        let whole = levels - (segments * levels - n);
        let mut cuts = vec![0, whole, levels];
        if visit == Visit::Ends {
            cuts.extend([1, levels - 1]);
        }
        cuts.sort_unstable();
        cuts.dedup();
        let mut parts: Vec<(u64, u64)> = cuts.windows(2).map(|w| (w[0], w[1])).collect();
        if backwards {
            parts.reverse();
        }
        for (from, to) in parts {
            self.part((from as i64, to as i64), to > whole, backwards, &mut f)?;
        }
        Ok(())
    }

    /// Visits some points of the segment that are alike.
    fn part(
        &mut self,
        (from, to): (i64, i64),
        beyond: bool,
        backwards: bool,
        f: &mut impl FnMut(&mut Self, &Row) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let n = self.eval.cx.size(self.axis) as i64;
        let last_first = (self.shape.segments as i64 - 1) * self.shape.levels as i64;
        let looped = (to - from > 1).then(|| self.eval.open_loop("level"));
        let place = looped.map_or(fold::int(from), fold::var);
        let letter = self.eval.cx.letters()[self.axis];
        let at = fold::add(self.first.clone(), place.clone());
        let (at, live) = if beyond {
            let end = fold::var(self.eval.frame.sizes[self.axis]);
            let live = self.eval.b.bind("is_point", fold::compare(Cmp::Lt, at.clone(), end.clone()));
            (fold::min(at, fold::sub(end, fold::int(1))), Some(live))
        } else {
            (at, None)
        };
        let var = self.eval.b.bind_here(letter, at);
        self.eval.frame.know(var, (from, (last_first + to - 1).min(n - 1)));
        self.eval.frame.own[self.axis] = var;
        self.eval.arrays.enter(place.clone());
        f(self, &Row { place, live })?;
        if let Some(level) = looped {
            let (from, to, step) = if backwards { (to - 1, from - 1, -1) } else { (from, to, 1) };
            self.eval.close_loop(level, fold::int(from), fold::int(to), step, LoopKind::Unroll(0));
        }
        Ok(())
    }

    /// What only points of the line do.
    fn at_point(&mut self, row: &Row, f: impl FnOnce(&mut Self) -> Result<(), MapError>) -> Result<(), MapError> {
        let Some(live) = row.live.clone() else {
            return f(self);
        };
        self.eval.open_if();
        f(self)?;
        self.eval.close_if(live);
        Ok(())
    }

    /// Evaluates a point on the way forwards: right sides, what is kept or stored, sums.
    fn values(
        &mut self,
        systems: &[System],
        number: usize,
        right: ValueId,
        kept: &BTreeMap<ValueId, ArrayId>,
        row: &Row,
    ) -> Result<(), MapError> {
        let here = self.eval.frame.here();
        for system in systems {
            let value = self.eval.value(right, system.component, &here)?;
            self.eval.put(system.rhs, row.place.clone(), value);
        }
        self.keep_values(2 * number, kept, row)?;
        let stores = self.eval.sweep.stores.iter().enumerate();
        for (n, store) in stores.filter(|s| self.plan.stores[s.0] == 2 * number).collect::<Vec<_>>() {
            for c in 0..systems.len() {
                let value = self.eval.value(store.value, c, &here)?;
                let array = self.eval.arrays.component(self.stored[&n], c);
                self.eval.put(array, row.place.clone(), value);
            }
        }
        self.add_sums(2 * number, row)
    }

    /// Puts what later loops need again into arrays.
    fn keep_values(&mut self, at: usize, kept: &BTreeMap<ValueId, ArrayId>, row: &Row) -> Result<(), MapError> {
        let here = self.eval.frame.here();
        let now: Vec<usize> = self.plan.keeps.iter().filter(|k| *k.1 == at).map(|k| *k.0).collect();
        for v in now {
            for c in 0..self.eval.cx.grid.components {
                let value = self.eval.value(ValueId(v), c, &here)?;
                let array = self.eval.arrays.component(kept[&ValueId(v)], c);
                self.eval.put(array, row.place.clone(), value);
            }
        }
        Ok(())
    }

    /// Adds the sums of a loop.
    fn add_sums(&mut self, at: usize, row: &Row) -> Result<(), MapError> {
        let sweep = self.eval.sweep;
        let here = self.eval.frame.here();
        let now: Vec<Sum> = picked(&sweep.sums, &self.plan.sums, at);
        for sum in now {
            for c in 0..self.eval.cx.grid.components {
                let left = self.eval.value(sum.left, c, &here)?;
                let right = sum.right.map(|r| self.eval.value(r, c, &here)).transpose()?;
                self.at_point(row, |m| {
                    m.sums.add(&mut m.eval, sum.sum, left, right);
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Stores what a loop forwards has evaluated: after all loads of the segment.
    fn stores(&mut self, number: usize) -> Result<(), MapError> {
        let stores: Vec<(ArrayId, Store)> = self
            .stored
            .iter()
            .filter(|s| self.plan.stores[*s.0] == 2 * number)
            .map(|(&n, &array)| (array, self.eval.sweep.stores[n].clone()))
            .collect();
        if stores.is_empty() {
            return Ok(());
        }
        self.rows(Visit::All, false, |m, row| {
            m.at_point(row, |m| {
                for (array, store) in &stores {
                    for c in 0..m.eval.cx.grid.components {
                        let array = m.eval.arrays.component(*array, c);
                        let value = m.eval.get(array, row.place.clone());
                        m.eval.store(store.to, c, value);
                    }
                }
                Ok(())
            })
        })
    }

    /// A point on the way back: its solution and all that depends on it.
    fn substitute(
        &mut self,
        systems: &[System],
        number: usize,
        solution: ValueId,
        kept: &BTreeMap<ValueId, ArrayId>,
        row: &Row,
    ) -> Result<(), MapError> {
        let again = number + 1 < self.plan.solves.len();
        let name = format!("{}_new", self.eval.sweep.values[solution.0].name);
        for system in systems {
            let value = self.substituted(system, row);
            let value = fold::var(self.eval.b.bind_here(&name, value));
            if again {
                self.eval.put(system.rhs, row.place.clone(), value.clone());
            }
            self.eval.known.insert((solution, system.component), value);
        }
        self.keep_values(2 * number + 1, kept, row)?;
        let sweep = self.eval.sweep;
        let here = self.eval.frame.here();
        let stores: Vec<Store> = picked(&sweep.stores, &self.plan.stores, 2 * number + 1);
        let mut stored = Vec::new();
        for store in &stores {
            for c in 0..systems.len() {
                stored.push((store.to, c, self.eval.value(store.value, c, &here)?));
            }
        }
        self.add_sums(2 * number + 1, row)?;
        self.at_point(row, |m| {
            stored.into_iter().for_each(|(to, c, value)| m.eval.store(to, c, value));
            Ok(())
        })
    }

    /// The element type of vectors.
    pub(super) fn element(&self) -> Element {
        self.eval.cx.options.precision
    }
}

/// Elements whose loop is `at`.
fn picked<T: Clone>(all: &[T], loops: &[usize], at: usize) -> Vec<T> {
    all.iter().zip(loops).filter(|x| *x.1 == at).map(|x| x.0.clone()).collect()
}
