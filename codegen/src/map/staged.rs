//! Sweeps over points with tiles in shared memory: lanes over the fastest axes, a walk along the last one, and a plane
//! around the block that every step fills ahead of what is computed; see [`tile`](super::tile).
//!
//! A step hands down what the lane carries, fills the planes with the values that come in sight, starts the loads of
//! the next step, waits once, and computes the points of the lane. So loads are on their way all the time.

use std::collections::BTreeMap;

use super::MapError;
use super::context::{Context, Made};
use super::eval::{Eval, Guarding, Key};
use super::fence;
use super::fold;
use super::lead;
use super::march::{self, Carried, Carry, Early, Part, Pending};
use super::point::{Blocks, end_of, grid_fits};
use super::position::{Coord, Position};
use super::reading::Landed;
use super::sums::{Accumulators, Places};
use super::tile::{LONG, Plan, Staged, Tile, is_light, leaves};
use crate::kernel::{Cmp, Expr, LoopKind, MULTIPROCESSORS, Scope, Space, Stmt, VarId};
use crate::loops::{Sweep, ValueId};

/// Maps a sweep whose plan says what stands in tiles; none where its values would be carried too far.
pub(super) fn kernel(cx: &mut Context, sweep: &Sweep, plan: Plan) -> Result<Option<Made>, MapError> {
    let Some(carries) = march::carries_with(cx, sweep, &plan.staged)? else {
        return Ok(None);
    };
    let loads = if cx.options.variant.early { march::loads(cx, sweep, &carries)? } else { Vec::new() };
    let dims = cx.dims();
    let resident = cx.options.variant.resident.unwrap_or((plan.together / (plan.lanes[0] * plan.lanes[1])) as u32);
    let chunk = chunk(cx, &plan, resident);
    let across = |axis: usize, points: i64| cx.size(axis).div_ceil(points as u64);
    let along = cx.size(dims - 1).div_ceil(chunk);
    // Along the walk before the second axis: blocks that follow one another share planes.
    let blocks = Blocks::new(match dims {
        2 => [across(0, plan.extent(0)), along, 1],
        _ => [across(0, plan.extent(0)), along, across(1, plan.extent(1))],
    });
    grid_fits(&blocks)?;
    let mut places = Places::reserve(cx, &sweep.sums, blocks.count());
    let [x, y] = plan.lanes.map(|n| n as u32);
    let mut eval = Eval::new(cx, sweep, Guarding::Predicate);
    lead::open(&mut eval, lane_in_block(&plan), x * y, blocks.count())?;
    let sums = Accumulators::declare(&mut eval);
    let staged = plan.staged.iter().map(|&(part, levels)| {
        let name = format!("{}_tile", sweep.values[part.0.0].name);
        let extent = (plan.ring(levels) * plan.plane()) as u64;
        Staged { part, levels, buffer: eval.b.local(&name, Space::Shared, cx.options.precision, extent) }
    });
    let staged: Vec<Staged> = staged.collect();
    eval.tile = Tile::new(plan.clone(), staged.clone());
    let unroll = cx.options.variant.unroll.unwrap_or(if chunk >= LONG && is_light(cx, sweep) { 2 } else { 1 });
    let mut writer = Writer { eval, sums, plan, staged, blocks, carries, loads, chunk, unroll };
    writer.walk()?;
    let Writer { mut eval, sums, blocks, plan, .. } = writer;
    let lane = lane_in_block(&plan);
    sums.finish(&mut eval.b, &mut places, lane.clone(), x * y, blocks.number());
    fence::close(&mut eval, lane, x * y, blocks.count())?;
    let rows = if plan.rows > 1 { format!(", {} rows a lane", plan.rows) } else { String::new() };
    eval.b.doc.push(format!("{x} x {y} lanes{rows}, {chunk} points a lane, tiles in shared memory"));
    let (mut kernel, args) = eval.b.finish(blocks.grid(), [x, y, 1], cx.index);
    kernel.hold(Some(resident));
    Ok(Some((kernel, args)))
}

/// Points of a walk, at least and at most: its two ends are read by the neighbours too, which long walks make up for.
const POINTS: (u64, u64) = (4, 128);
/// What the two ends of a walk take, in points.
const ENDS: u64 = 2;

/// Points of a walk. If the variant does not say, in three dimensions, as many as let the device end soonest: blocks run in
/// rounds of as many as it holds, each as long as a walk and its ends.
fn chunk(cx: &Context, plan: &Plan, resident: u32) -> u64 {
    let variant = &cx.options.variant;
    if variant.chunk.is_some() || cx.dims() < 3 || resident == 0 {
        return variant.walk(cx.grid);
    }
    let tiles: u64 = (0..2).map(|axis| cx.size(axis).div_ceil(plan.extent(axis) as u64)).product();
    let n = cx.size(2);
    let time = |chunk: u64| {
        let blocks = tiles * n.div_ceil(chunk);
        blocks.div_ceil(MULTIPROCESSORS * u64::from(resident)) * (chunk + ENDS)
    };
    let walks = n.div_ceil(POINTS.1)..=n.div_ceil(POINTS.0);
    walks.map(|count| n.div_ceil(count)).min_by_key(|&chunk| time(chunk)).unwrap_or(n)
}

/// Number of the lane in its block.
fn lane_in_block(plan: &Plan) -> Expr {
    let [x, y] = plan.lanes;
    let above = if y > 1 { fold::mul(fold::int(x), Expr::Lane(1)) } else { fold::int(0) };
    fold::add(Expr::Lane(0), above)
}

/// Writes the kernel.
struct Writer<'a, 'c> {
    eval: Eval<'a, 'c>,
    sums: Accumulators,
    plan: Plan,
    staged: Vec<Staged>,
    blocks: Blocks,
    carries: Vec<Carry>,
    loads: Vec<Early>,
    /// Points of a walk, and how many of them are in hand at a time.
    chunk: u64,
    unroll: u32,
}

/// A column of the lane.
struct Column {
    /// Indices along the axes of the lanes.
    own: Vec<VarId>,
    /// Whether it is in the grid, where that is not sure.
    live: Option<VarId>,
    /// Place in a plane.
    place: Expr,
    carried: Vec<Carried>,
    early: Vec<Pending>,
}

/// A column of the halo that the lane fills.
struct Beside {
    /// Whether there is one for the lane.
    present: Expr,
    /// Place in a plane.
    place: Expr,
    /// Where it is read, at the level of the walk.
    landed: Landed,
    /// Loads on their way, by the number of the staged value.
    early: BTreeMap<(usize, Part), VarId>,
}

impl Writer<'_, '_> {
    fn size(&self, axis: usize) -> i64 {
        self.eval.cx.size(axis) as i64
    }

    /// The axis of the walk.
    fn last(&self) -> usize {
        self.eval.cx.dims() - 1
    }

    /// First point of the block along an axis of the lanes.
    fn corner(&mut self, axis: usize) -> Expr {
        let at = fold::mul(self.blocks.tile(2 * axis), fold::int(self.plan.extent(axis)));
        self.eval.b.bind(&format!("{}_first", self.eval.cx.letters()[axis]), at)
    }

    /// Whether blocks divide an axis.
    fn whole(&self, axis: usize) -> bool {
        self.size(axis) % self.plan.extent(axis) == 0
    }

    /// The whole kernel but for the sums of the block.
    fn walk(&mut self) -> Result<(), MapError> {
        let mut columns: Vec<Column> = (0..self.plan.rows).map(|row| self.column(row)).collect();
        let mut halo: Vec<Beside> = (0..self.plan.rounds()).map(|round| self.beside(round)).collect();
        let (last, n) = (self.last(), self.size(self.last()));
        let chunk = self.chunk.min(n as u64);
        let first = fold::mul(self.blocks.tile(1), fold::int(chunk as i64));
        let first = self.eval.b.bind("first", first);
        let end = end_of(&mut self.eval, last, first.clone(), chunk, "end");
        let start = self.eval.b.bind_here("start", first.clone());
        self.eval.frame.know(start, (0, n - 1));
        self.eval.tile.set_step(fold::int(0));
        self.start(start, &mut columns, &mut halo)?;
        let k = self.eval.open_loop(self.eval.cx.letters()[last]);
        self.eval.frame.know(k, (0, n - 1));
        let step = self.eval.b.bind("step", fold::sub(fold::var(k), first.clone()));
        self.eval.tile.set_step(step);
        self.step(k, &end, &columns, &halo)?;
        let kind = match self.unroll {
            0 | 1 => LoopKind::Sequential,
            n => LoopKind::Unroll(n),
        };
        self.eval.close_loop(k, first, end, 1, kind);
        Ok(())
    }

    /// A column of the lane, one of several along the second axis.
    fn column(&mut self, row: i64) -> Column {
        let mut own = Vec::new();
        let mut inside = Expr::Bool(true);
        let mut place = fold::int(self.plan.reach[0] + self.plan.reach[1] * self.plan.width());
        for axis in 0..self.last() {
            let corner = self.corner(axis);
            let lane = if self.plan.lanes[axis] == 1 { fold::int(0) } else { Expr::Lane(axis as u8) };
            let lane = fold::add(lane, fold::int(if axis == 1 { row * self.plan.lanes[1] } else { 0 }));
            let stride = if axis == 0 { 1 } else { self.plan.width() };
            place = fold::add(fold::mul(lane.clone(), fold::int(stride)), place);
            let var = self.eval.b.bind_here(self.eval.cx.letters()[axis], fold::add(corner, lane));
            self.eval.frame.know(var, (0, self.size(axis) - 1));
            own.push(var);
            if !self.whole(axis) {
                let n = fold::var(self.eval.frame.sizes[axis]);
                inside = fold::and(inside, fold::compare(Cmp::Lt, fold::var(var), n));
            }
        }
        let live = (inside != Expr::Bool(true)).then(|| self.eval.b.bind_var("is_point", inside));
        let place = self.eval.b.bind("place", place);
        Column { own, live, place, carried: Vec::new(), early: Vec::new() }
    }

    /// A column of the halo: first those of the rows before and behind the block, then those at the ends of its rows.
    fn beside(&mut self, round: i64) -> Beside {
        let plan = self.plan.clone();
        let lanes = plan.lanes[0] * plan.lanes[1];
        let number = fold::add(lane_in_block(&plan), fold::int(round * lanes));
        let number = fold::var(self.eval.b.bind_here("beside", number));
        let in_rows = plan.in_rows();
        let all = in_rows == plan.halo();
        let is_row = if all { Expr::Bool(true) } else { fold::compare(Cmp::Lt, number.clone(), fold::int(in_rows)) };
        let is_row = if in_rows == 0 { Expr::Bool(false) } else { self.eval.b.bind("is_row", is_row) };
        let rest = fold::sub(number.clone(), fold::int(in_rows));
        let ends = fold::int((2 * plan.reach[0]).max(1));
        let of_row = fold::rem(number.clone(), fold::int(plan.row()));
        let of_row = fold::sub(of_row, fold::int(if plan.corners { plan.reach[0] } else { 0 }));
        let along_x = [of_row, self.outside(0, fold::rem(rest.clone(), ends.clone()))];
        let along_y = [self.outside(1, fold::div(number.clone(), fold::int(plan.row()))), fold::div(rest, ends)];
        let mut present = Expr::Bool(true);
        if round + 1 == plan.rounds() && plan.halo() % lanes != 0 {
            present = fold::compare(Cmp::Lt, number, fold::int(plan.halo()));
        }
        let mut coords = Vec::new();
        let mut place = fold::int(plan.reach[0] + plan.reach[1] * plan.width());
        for (axis, [in_row, in_end]) in [along_x, along_y].into_iter().enumerate().take(self.last()) {
            let (letter, n) = (self.eval.cx.letters()[axis], self.size(axis));
            let local = fold::select(is_row.clone(), in_row, in_end);
            let local = self.eval.b.bind(&format!("{letter}_beside"), local);
            let corner = self.corner(axis);
            let var = self.eval.b.bind_here(&format!("{letter}_halo"), fold::add(corner, local.clone()));
            self.eval.frame.know(var, (-plan.reach[axis], n - 1 + plan.reach[axis]));
            place = fold::add(fold::mul(local, fold::int(if axis == 0 { 1 } else { plan.width() })), place);
            if !self.whole(axis) {
                // Where the block is cut, what is beside it starts right behind its last point.
                let size = fold::var(self.eval.frame.sizes[axis]);
                let behind = fold::int(if axis == 0 && plan.corners { plan.reach[0] } else { 0 });
                let cut = fold::compare(Cmp::Lt, fold::var(var), fold::add(size, behind));
                let cut = match axis {
                    0 => fold::or(fold::not(is_row.clone()), cut),
                    _ => fold::or(is_row.clone(), cut),
                };
                present = fold::and(present, cut);
            }
            coords.push(Coord { var, off: 0, range: self.eval.frame.range(var) });
        }
        let present = self.eval.b.bind("is_beside", present);
        let place = self.eval.b.bind("place_beside", place);
        // The walk's coordinate is filled in at every level; until then any variable inside will do.
        let landed = self.eval.land_across(coords);
        Beside { present, place, landed, early: BTreeMap::new() }
    }

    /// Place from the block's first point of the n-th column before it or behind its last point.
    fn outside(&mut self, axis: usize, number: Expr) -> Expr {
        let (reach, extent) = (self.plan.reach[axis], self.plan.extent(axis));
        if reach == 0 || axis >= self.last() {
            return fold::int(0);
        }
        let end = if self.whole(axis) {
            fold::int(extent)
        } else {
            let corner = self.corner(axis);
            let rest = fold::sub(fold::var(self.eval.frame.sizes[axis]), corner);
            self.eval.b.bind(&format!("{}_points", self.eval.cx.letters()[axis]), fold::min(rest, fold::int(extent)))
        };
        let before = fold::sub(number.clone(), fold::int(reach));
        let behind = fold::add(before.clone(), end);
        fold::select(fold::compare(Cmp::Lt, number, fold::int(reach)), before, behind)
    }

    /// Before the walk: what is carried, loads of the first step, and the planes below its first level.
    fn start(&mut self, start: VarId, columns: &mut [Column], halo: &mut [Beside]) -> Result<(), MapError> {
        for column in columns.iter_mut() {
            self.at(column, start);
            column.carried = self.eval.start_march(&self.carries)?;
            column.early = self.eval.start_early(&self.loads)?;
            for staged in self.staged.clone() {
                for level in staged.levels.0..staged.levels.1 {
                    let value = self.eval.at_distance(Carry { part: staged.part, low: level, high: level }, level)?;
                    self.fill_own(&staged, level, column, value);
                }
            }
        }
        for beside in halo.iter_mut() {
            for (number, staged) in self.staged.clone().iter().enumerate() {
                for level in staged.levels.0..staged.levels.1 {
                    self.fill_beside(beside, staged, level, start)?;
                }
                if self.eval.cx.options.variant.early {
                    for part in self.leaves(staged.part) {
                        let value = self.load_beside(beside, part, staged.levels.1, start, None)?;
                        let name = format!("{}_halo", self.eval.sweep.values[part.0.0].name);
                        beside.early.insert((number, part), self.eval.b.declare(&name, value));
                    }
                }
            }
        }
        Ok(())
    }

    /// The lane is at a point of a column.
    fn at(&mut self, column: &Column, along: VarId) {
        self.eval.frame.own = column.own.iter().copied().chain([along]).collect();
        self.eval.tile.set_live(column.live);
    }

    /// Puts a value into a plane.
    fn fill(&mut self, staged: &Staged, level: i64, place: Expr, value: Expr) {
        let index = self.eval.tile.index(staged, level, place);
        self.eval.b.push(Stmt::Store { buffer: staged.buffer, index, value });
    }

    /// Puts a value of the own column into a plane; behind a cut block that place belongs to the halo.
    fn fill_own(&mut self, staged: &Staged, level: i64, column: &Column, value: Expr) {
        self.eval.b.open_if();
        self.fill(staged, level, column.place.clone(), value);
        self.eval.b.close_if(column.live.map_or(Expr::Bool(true), fold::var));
    }

    /// Loads behind a value.
    fn leaves(&self, (v, c): Part) -> Vec<Part> {
        leaves(self.eval.sweep, v).into_iter().flatten().map(|v: ValueId| (v, c)).collect()
    }

    /// Position of a column of the halo at a level; none where that is outside the walk.
    fn level_beside(&mut self, beside: &Beside, level: i64, along: VarId) -> Option<Position> {
        let mut at = beside.landed.at.clone();
        let range = self.eval.frame.range(along);
        at.coords.push(Coord { var: along, off: 0, range });
        self.eval.at_level(at, level)
    }

    /// A load for the halo, where the lane has a column of it and `more` holds.
    fn load_beside(
        &mut self,
        beside: &Beside,
        part: Part,
        level: i64,
        along: VarId,
        more: Option<&Expr>,
    ) -> Result<Expr, MapError> {
        let Some(mut at) = self.level_beside(beside, level, along) else {
            return Ok(fold::real(0.0, self.eval.cx.real));
        };
        let wanted = fold::and(beside.present.clone(), more.cloned().unwrap_or(Expr::Bool(true)));
        if wanted != Expr::Bool(true) {
            at.guard = Some(self.eval.guard_with(at.guard, wanted));
        }
        self.eval.loaded(part, &at)
    }

    /// Fills a column of the halo at a level.
    fn fill_beside(&mut self, beside: &Beside, staged: &Staged, level: i64, along: VarId) -> Result<(), MapError> {
        self.eval.open_if();
        let zero = fold::real(0.0, self.eval.cx.real);
        let mut value = match self.level_beside(beside, level, along) {
            Some(at) => self.eval.value(staged.part.0, staged.part.1, &at)?,
            None => zero.clone(),
        };
        if let Some(flipped) = &beside.landed.flipped {
            value = fold::select(flipped.clone(), fold::neg(value.clone()), value);
        }
        let value = fold::select(beside.landed.present.clone(), value, zero);
        self.fill(staged, level, beside.place.clone(), value);
        self.eval.close_if(beside.present.clone());
        Ok(())
    }

    /// A step of the walk.
    fn step(&mut self, k: VarId, end: &Expr, columns: &[Column], halo: &[Beside]) -> Result<(), MapError> {
        let next = fold::add(fold::var(k), fold::int(1));
        let more = self.eval.b.bind("more", fold::compare(Cmp::Lt, next, end.clone()));
        let mut known = Vec::new();
        let mut moves = Vec::new();
        for column in columns {
            self.at(column, k);
            self.eval.take_early(&column.early);
            self.eval.step_march(&column.carried)?;
            for staged in self.staged.clone() {
                let level = staged.levels.1;
                if let Some(value) = self.eval.march.known(staged.part, level) {
                    self.fill_own(&staged, level, column, value);
                }
            }
            moves.push(self.eval.load_early(&column.early, &more)?);
            known.push(self.eval.march.take());
        }
        for beside in halo {
            self.step_beside(beside, k, &more)?;
        }
        self.eval.b.push(Stmt::Barrier(Scope::Block));
        for ((column, known), moves) in columns.iter().zip(known).zip(moves) {
            self.at(column, k);
            self.eval.tile.set_live(None);
            self.eval.march.put(known);
            self.eval.tile.enter(column.place.clone());
            self.point(column)?;
            self.eval.tile.leave();
            self.eval.end_step(&column.carried);
            moves.into_iter().for_each(|m| self.eval.b.push(m));
        }
        Ok(())
    }

    /// Computes the own point.
    fn point(&mut self, column: &Column) -> Result<(), MapError> {
        let sweep = self.eval.sweep;
        let Some(live) = column.live else {
            return self.sums.point(&mut self.eval, &sweep.stores, &sweep.sums);
        };
        self.eval.open_if();
        self.sums.point(&mut self.eval, &sweep.stores, &sweep.sums)?;
        self.eval.close_if(fold::var(live));
        Ok(())
    }

    /// A column of the halo in a step: its planes, and the loads of the next step.
    fn step_beside(&mut self, beside: &Beside, k: VarId, more: &Expr) -> Result<(), MapError> {
        for (number, staged) in self.staged.clone().iter().enumerate() {
            let level = staged.levels.1;
            if let Some(at) = self.level_beside(beside, level, k) {
                for (&(_, (v, c)), &var) in beside.early.iter().filter(|e| e.0.0 == number) {
                    let name = format!("{}_beside", self.eval.sweep.values[v.0].name);
                    let now = fold::var(self.eval.b.bind_here(&name, fold::var(var)));
                    self.eval.remember(Key::Value(v.0, c, at.clone()), Some(now));
                }
            }
            self.fill_beside(beside, staged, level, k)?;
            for (&(_, part), &var) in beside.early.iter().filter(|e| e.0.0 == number) {
                let next = self.load_beside(beside, part, level + 1, k, Some(more))?;
                self.eval.b.push(Stmt::Assign(var, next));
            }
        }
        Ok(())
    }
}
