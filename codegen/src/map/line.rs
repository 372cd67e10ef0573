//! Sweeps that solve along lines: lanes, loops, and what happens in which of them.
//!
//! Each solve is a loop forwards along the line (right side, elimination) and one backwards (substitution). Values,
//! stores and sums go into the first loop in which all they need is known; what a later loop needs again is read back
//! from where it was stored, evaluated anew if that is only loads, or kept in an array along the line.
//!
//! CUDA: a lane per line. Host: a block of lines that advance together in an inner loop.

use std::collections::BTreeMap;

use super::builder::Lines;
use super::context::{Context, Made};
use super::elimination::Solver;
use super::eval::{Eval, Guarding, Kept, load_at};
use super::factors::couplings_split;
use super::fence;
use super::fold;
use super::lead;
use super::line_plan::Plan;
use super::partition;
use super::point::{Blocks, reach_of_row, reach_of_values, widen};
use super::sums::{Accumulators, Places};
use super::{MapError, Target};
use crate::kernel::{Access, BufferId, Cmp, Element, Expr, LoopKind, Op, Space, Stmt, VarId};
use crate::loops::{Store, Sum, SweepId, ValueId};
use crate::module::Arg;

/// Bytes of arrays that a lane may keep in its private memory.
const PRIVATE_BYTES: u64 = 48 << 10;
/// Bytes of arrays that a block of the host may keep on its stack.
const STACK_BYTES: u64 = 1 << 20;
/// Bytes of them that stay in the second cache of a core beside what streams through it.
const CACHE_BYTES: u64 = 400 << 10;
/// Blocks of lines that keep the cores of a host busy.
const ENOUGH_BLOCKS: u64 = 64;
/// Points from which on a loop of a lane is long, and how many of them are unrolled: some loads on their way together.
const LONG: i64 = 32;
const UNROLL: u32 = 4;

/// Maps a sweep that solves along an axis.
pub(super) fn kernel(cx: &mut Context, sweep: SweepId, axis: usize) -> Result<Made, MapError> {
    let sweep = &cx.program.sweeps[sweep.0];
    let host = cx.options.target == Target::Host;
    let mut plan = Plan::new(sweep, axis, host)?;
    let others: Vec<usize> = (0..cx.dims()).filter(|&a| a != axis).collect();
    let size = |cx: &Context, n: usize| others.get(n).map_or(1, |&a| cx.size(a));
    let solvers: Vec<Solver> = (0..cx.grid.components).map(|c| Solver::new(cx, c, axis)).collect::<Result<_, _>>()?;
    if let Some(shape) = partition::Shape::of(cx, &solvers, axis) {
        return partition::kernel(cx, sweep, axis, plan, shape);
    }
    let mut arrays = plan.arrays(cx.grid.components, &solvers);
    let bytes = arrays * cx.size(axis) * if cx.options.precision == Element::F32 { 4 } else { 8 };
    let (lanes, scratch) = if host {
        let (chunk, scratch) = chunk(cx.options.variant.simd, [size(cx, 0), size(cx, 1)], bytes);
        if scratch {
            // Arrays in global memory are no nearer than the vectors.
            plan = Plan::new(sweep, axis, false)?;
            arrays = plan.arrays(cx.grid.components, &solvers);
        }
        ([chunk, 1], scratch)
    } else {
        let [x, y] = cx.options.variant.line_block.map(u64::from);
        (if others.len() == 2 { [x, y] } else { [x * y, 1] }, bytes > PRIVATE_BYTES)
    };
    let blocks = Blocks::new([size(cx, 0).div_ceil(lanes[0]), size(cx, 1).div_ceil(lanes[1]), 1]);
    let mut places = Places::reserve(cx, &sweep.sums, blocks.count());
    let lines = cx.points / cx.size(axis);
    let scratch = scratch.then(|| {
        let len = arrays * cx.points;
        let number = cx.buffer(format!("scratch_{}", sweep.name), cx.options.precision, len);
        Scratch { number, len, lines }
    });
    let guarding = if host { Guarding::Clamp } else { Guarding::Predicate };
    let mut eval = Eval::new(cx, sweep, guarding);
    if let Some(scratch) = scratch {
        eval.b.also_stores(Arg::Module(scratch.number));
    }
    eval.arrays = Arrays { stride: if host { lanes[0] as i64 } else { 1 }, scratch, ..Arrays::default() };
    eval.frame.own = vec![VarId(usize::MAX); cx.dims()];
    let count = if host { 1 } else { (lanes[0] * lanes[1]) as u32 };
    let lane = fold::add(
        Expr::Lane(0),
        if lanes[1] > 1 { fold::mul(fold::int(lanes[0] as i64), Expr::Lane(1)) } else { fold::int(0) },
    );
    lead::open(&mut eval, lane.clone(), count, blocks.count())?;
    let sums = Accumulators::declare(&mut eval);
    let mut mapper = Mapper { eval, axis, others, plan, solvers, sums, lanes, host, blocks, piece: None, walk: None };
    mapper.lines()?;
    let Mapper { mut eval, sums, blocks, .. } = mapper;
    sums.finish(&mut eval.b, &mut places, lane.clone(), count, blocks.number());
    fence::close(&mut eval, lane, count, blocks.count())?;
    let shape = if host { [1, 1, 1] } else { [lanes[0] as u32, lanes[1] as u32, 1] };
    let how = if host { format!("{} lines at a time", lanes[0]) } else { "a lane per line".to_string() };
    eval.b.doc.push(how);
    Ok(eval.b.finish(blocks.grid(), shape, cx.index))
}

/// Lines of a host block on a grid of `n` lines, and whether their arrays are too large for the stack all the same.
/// Many lines make long rows, which stream; their arrays should stay in a cache.
fn chunk(wanted: u64, n: [u64; 2], bytes: u64) -> (u64, bool) {
    let mut chunk = wanted.min(n[0]).max(1);
    while chunk > 8 && chunk * bytes > CACHE_BYTES || chunk > 32 && n[0].div_ceil(chunk) * n[1] < ENOUGH_BLOCKS {
        chunk = chunk.div_ceil(2);
    }
    (chunk, chunk * bytes > STACK_BYTES)
}

/// One element per point of the own line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Array {
    buffer: BufferId,
    /// First row in a shared scratch buffer.
    row: i64,
    /// In memory that the block shares, a row of all lanes per point.
    shared: bool,
}

/// Global memory for the arrays of long lines.
#[derive(Debug, Clone, Copy)]
struct Scratch {
    /// Module buffer.
    number: usize,
    len: u64,
    lines: u64,
}

/// Index into the kept arrays of [`Arrays`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArrayId(usize);

/// Arrays along the own line: private to the lane (on the host: to the block, lines fastest) or, for long lines, in
/// global memory.
#[derive(Default)]
pub(super) struct Arrays {
    /// Arrays of values, per component.
    kept: Vec<Vec<Array>>,
    /// Distance of consecutive points in private arrays.
    stride: i64,
    /// Place among the lines of the block.
    lane: Option<Expr>,
    scratch: Option<Scratch>,
    /// Number of the line in the grid.
    line: Option<Expr>,
    /// Rows of the scratch buffer given out.
    used: i64,
    /// The own point's place in arrays that hold a segment of the line.
    place: Option<Expr>,
    /// Lanes of the block and the number of the own one, for arrays in shared memory.
    block: Option<(i64, Expr)>,
}

impl Arrays {
    /// Arrays of a lane, one of so many of a block, for a segment of a line.
    pub(super) fn of_lane(lanes: i64, lane: Expr) -> Arrays {
        Arrays { stride: 1, block: Some((lanes, lane)), ..Arrays::default() }
    }

    /// Says where in the segment the own point is.
    pub(super) fn enter(&mut self, place: Expr) {
        self.place = Some(place);
    }

    /// The array of a component of a kept value.
    pub(super) fn component(&self, id: ArrayId, c: usize) -> Array {
        self.kept[id.0][c]
    }

    /// Element of a point.
    fn index(&self, array: Array, row: Expr) -> Expr {
        if let (true, Some((lanes, lane))) = (array.shared, &self.block) {
            return fold::add(fold::mul(row, fold::int(*lanes)), lane.clone());
        }
        let place = if self.scratch.is_some() { &self.line } else { &self.lane };
        let stride = self.scratch.map_or(self.stride, |s| s.lines as i64);
        let row = fold::mul(fold::add(row, fold::int(array.row)), fold::int(stride));
        fold::add(row, place.clone().unwrap_or(fold::int(0)))
    }
}

impl Eval<'_, '_> {
    /// A new array with some number of rows.
    pub(super) fn array(&mut self, name: &str, rows: u64) -> Array {
        let element = self.cx.options.precision;
        if let Some(s) = self.arrays.scratch {
            let buffer = self.b.global(Arg::Module(s.number), "scratch", element, s.len, Access::ReadWrite);
            let row = self.arrays.used;
            self.arrays.used += rows as i64;
            return Array { buffer, row, shared: false };
        }
        let buffer = self.b.local(name, Space::Private, element, rows * self.arrays.stride as u64);
        Array { buffer, row: 0, shared: false }
    }

    /// A new array of the lane in the memory that the block shares.
    pub(super) fn shared_array(&mut self, name: &str, rows: u64) -> Array {
        let lanes = self.arrays.block.as_ref().map_or(1, |b| b.0 as u64);
        let buffer = self.b.local(name, Space::Shared, self.cx.options.precision, rows * lanes);
        Array { buffer, row: 0, shared: true }
    }

    /// Reads an array.
    pub(super) fn get(&self, array: Array, row: Expr) -> Expr {
        load_at(array.buffer, self.arrays.index(array, row))
    }

    /// Writes an array.
    pub(super) fn put(&mut self, array: Array, row: Expr, value: Expr) {
        let index = self.arrays.index(array, row);
        self.b.push(Stmt::Store { buffer: array.buffer, index, value });
    }

    /// A kept value at the own point.
    pub(super) fn load_kept(&self, id: ArrayId, c: usize, axis: usize) -> Expr {
        let place = self.arrays.place.clone().unwrap_or(fold::var(self.frame.own[axis]));
        self.get(self.arrays.kept[id.0][c], place)
    }

    /// Makes arrays (one per component) available as a kept value.
    pub(super) fn keep(&mut self, arrays: Vec<Array>) -> ArrayId {
        self.arrays.kept.push(arrays);
        ArrayId(self.arrays.kept.len() - 1)
    }
}

/// A number a line carries from point to point: a variable of the lane, or one element per line of the block.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell {
    /// CUDA.
    Variable(VarId),
    /// Host.
    Element(BufferId),
}

/// Writes the kernel.
pub(super) struct Mapper<'a, 'c> {
    pub(super) eval: Eval<'a, 'c>,
    pub(super) axis: usize,
    others: Vec<usize>,
    pub(super) plan: Plan,
    pub(super) solvers: Vec<Solver>,
    sums: Accumulators,
    lanes: [u64; 2],
    host: bool,
    blocks: Blocks,
    /// Lines of the block that loops go through, from and to; none for all.
    pub(super) piece: Option<(Expr, Expr)>,
    /// Depth of the block of the walk along the line, inside one.
    walk: Option<usize>,
}

impl Mapper<'_, '_> {
    /// All lines of a block.
    fn lines(&mut self) -> Result<(), MapError> {
        if self.host {
            if let Some(&slow) = self.others.get(1) {
                self.own(slow, self.blocks.tile(1));
            }
            return self.solves();
        }
        let mut cond = Expr::Bool(true);
        for (number, axis) in self.others.clone().into_iter().enumerate() {
            let count = self.lanes[number];
            let lane = if count == 1 { fold::int(0) } else { Expr::Lane(number as u8) };
            let from = fold::mul(self.blocks.tile(number), fold::int(count as i64));
            let var = self.own(axis, fold::add(from, lane));
            if !self.eval.cx.size(axis).is_multiple_of(count) {
                let n = fold::var(self.eval.frame.sizes[axis]);
                cond = fold::and(cond, fold::compare(Cmp::Lt, fold::var(var), n));
            }
        }
        if self.others.is_empty() {
            // One line: the other lanes only help with the sums.
            cond = fold::compare(Cmp::Eq, Expr::Lane(0), fold::int(0));
        }
        if cond == Expr::Bool(true) {
            return self.solves();
        }
        self.eval.open_if();
        self.solves()?;
        self.eval.close_if(cond);
        Ok(())
    }

    /// Declares the own position along an axis.
    fn own(&mut self, axis: usize, value: Expr) -> VarId {
        let var = self.eval.b.bind_here(self.eval.cx.letters()[axis], value);
        self.eval.frame.know(var, (0, self.eval.cx.size(axis) as i64 - 1));
        self.eval.frame.own[axis] = var;
        var
    }

    /// All solves of the sweep, in order.
    fn solves(&mut self) -> Result<(), MapError> {
        let components = self.eval.cx.grid.components;
        let n = self.eval.cx.size(self.axis);
        let mut kept = BTreeMap::new();
        for v in self.plan.keeps.clone().into_keys() {
            let name = format!("{}_line", self.eval.sweep.values[v].name);
            let arrays = (0..components).map(|_| self.eval.array(&name, n)).collect();
            kept.insert(ValueId(v), self.eval.keep(arrays));
        }
        for number in 0..self.plan.solves.len() {
            self.solve(number, &kept)?;
        }
        Ok(())
    }

    /// Says how values of earlier loops are read in a loop.
    pub(super) fn enter(&mut self, at: usize, kept: &BTreeMap<ValueId, ArrayId>) {
        for (v, &earlier) in &self.plan.keeps {
            if earlier < at {
                self.eval.kept.insert(ValueId(*v), Kept::Array(kept[&ValueId(*v)], self.axis));
            }
        }
        let sweep = self.eval.sweep;
        for (store, &earlier) in sweep.stores.iter().zip(&self.plan.stores) {
            let near = self.host && matches!(self.eval.kept.get(&store.value), Some(Kept::Array(..)));
            if earlier < at && !near {
                self.eval.kept.insert(store.value, Kept::Stored(store.to));
            }
        }
    }

    /// How far what a loop evaluates reaches along the axis of the block's lines, down and up; to be asked after
    /// [`Mapper::enter`]. On a walk, what of the operator's row is the same along the line is formed before it.
    pub(super) fn reach(&self, at: usize, walks: bool) -> (i64, i64) {
        let (cx, sweep) = (self.eval.cx, self.eval.sweep);
        if !self.host || self.others.first() != Some(&0) {
            return (0, 0);
        }
        let formed = walks && couplings_split(cx.operator(), self.axis, 0);
        let values = reach_of_values(cx, sweep, &|v| self.eval.kept.contains_key(&v), formed);
        let eliminated = if at.is_multiple_of(2) && !formed { reach_of_row(cx) } else { (0, 0) };
        self.plan.roots(sweep, at).into_iter().fold(eliminated, |mut all, v| {
            widen(&mut all, values[v.0]);
            all
        })
    }

    /// What a loop does at the own point beside the elimination: arrays, sums, stores.
    pub(super) fn tasks(&mut self, at: usize, kept: &BTreeMap<ValueId, ArrayId>) -> Result<(), MapError> {
        let sweep = self.eval.sweep;
        let here = self.eval.frame.here();
        let row = fold::var(self.eval.frame.own[self.axis]);
        let here_kept: Vec<usize> = self.plan.keeps.iter().filter(|k| *k.1 == at).map(|k| *k.0).collect();
        for v in here_kept {
            for c in 0..self.eval.cx.grid.components {
                let value = self.eval.value(ValueId(v), c, &here)?;
                let array = self.eval.arrays.kept[kept[&ValueId(v)].0][c];
                self.eval.put(array, row.clone(), value);
            }
        }
        let stores: Vec<Store> = picked(&sweep.stores, &self.plan.stores, at);
        let sums: Vec<Sum> = picked(&sweep.sums, &self.plan.sums, at);
        self.sums.point(&mut self.eval, &stores, &sums)
    }

    /// A loop over points of the line; on the host, all lines of the block advance together.
    pub(super) fn rows(
        &mut self,
        from: i64,
        to: i64,
        step: i64,
        reach: (i64, i64),
        f: &dyn Fn(&mut Self) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let count = (to - from) * step;
        if count <= 0 {
            return Ok(());
        }
        let name = self.eval.cx.letters()[self.axis];
        let k = self.eval.open_loop(name);
        self.eval.frame.know(k, if step > 0 { (from, to - 1) } else { (to + 1, from) });
        self.eval.frame.own[self.axis] = k;
        self.walk = Some(self.eval.b.depth());
        self.step_asking(k, step, |m| m.parts(reach, f))?;
        self.walk = None;
        let (from, to) = (self.bound(from), self.bound(to));
        // Left alone, a compiler unrolls even long loops over arrays of known size, to have the arrays in registers that
        // there are not.
        let long = self.eval.cx.options.target == Target::Cuda && count > LONG;
        self.eval.close_loop(k, from, to, step, if long { LoopKind::Unroll(UNROLL) } else { LoopKind::Sequential });
        Ok(())
    }

    /// A bound relative to the size where it is near it.
    fn bound(&self, x: i64) -> Expr {
        let n = self.eval.cx.size(self.axis) as i64;
        if x > 1 && n - x <= 8 {
            fold::add(fold::var(self.eval.frame.sizes[self.axis]), fold::int(x - n))
        } else {
            fold::int(x)
        }
    }

    /// A single point of the line.
    pub(super) fn row(
        &mut self,
        at: i64,
        reach: (i64, i64),
        f: &dyn Fn(&mut Self) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let name = format!("{}_border", self.eval.cx.letters()[self.axis]);
        let var = self.eval.b.bind_here(&name, fold::int(at));
        self.eval.frame.know(var, (at, at));
        self.eval.frame.own[self.axis] = var;
        self.parts(reach, f)
    }

    /// Something done for all lines of a block.
    pub(super) fn across(&mut self, f: impl FnOnce(&mut Self) -> Result<(), MapError>) -> Result<(), MapError> {
        if !self.host {
            self.eval.arrays.line = Some(self.line());
            return f(self);
        }
        if self.others.is_empty() {
            self.eval.arrays.lane = Some(fold::int(0));
            self.eval.arrays.line = Some(fold::int(0));
            return f(self);
        };
        let (lane, from, to) = self.open_lines();
        self.eval.arrays.lane = Some(fold::var(lane));
        self.eval.arrays.line = Some(self.line());
        f(self)?;
        if let Some(walk) = self.walk {
            let (count, most) = self.line_count();
            let element = self.eval.cx.options.precision;
            self.eval.b.spread(&Lines { line: lane, count, most: most as u64, walk, element });
        }
        let kind = self.sums.simd();
        self.eval.close_loop(lane, from, to, 1, kind);
        Ok(())
    }

    /// First line of a host block.
    fn first_line(&mut self) -> Expr {
        self.eval.b.bind("first", fold::mul(self.blocks.tile(0), fold::int(self.lanes[0] as i64)))
    }

    /// Lines of a host block, and how many there are at most.
    pub(super) fn line_count(&mut self) -> (Expr, i64) {
        let (fast, chunk) = (self.others[0], self.lanes[0]);
        if self.eval.cx.size(fast).is_multiple_of(chunk) {
            return (fold::int(chunk as i64), chunk as i64);
        }
        let rest = fold::sub(fold::var(self.eval.frame.sizes[fast]), self.first_line());
        (self.eval.b.bind("lines", fold::min(fold::int(chunk as i64), rest)), chunk as i64)
    }

    /// Opens a loop over the lines of a host block, or of a piece of it, with the own position in it; its variable and
    /// bounds are returned.
    pub(super) fn open_lines(&mut self) -> (VarId, Expr, Expr) {
        let first = self.first_line();
        let count = self.line_count().0;
        let (from, to) = self.piece.clone().unwrap_or((fold::int(0), count));
        let lane = self.eval.open_loop("line");
        self.own(self.others[0], fold::add(first, fold::var(lane)));
        (lane, from, to)
    }

    /// Whether the points that advance together are neighbours in memory: a block of the host with lines across the
    /// fastest axis.
    pub(super) fn in_rows(&self) -> bool {
        self.host && self.others.first() == Some(&0)
    }

    /// Something done for all lines of a block that reads their neighbours: the lines at the two ends of the axis, whose
    /// readings may leave the grid, apart from those between them, which have no tests and no gathered loads.
    fn parts(
        &mut self,
        (below, above): (i64, i64),
        f: &dyn Fn(&mut Self) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let n = self.others.first().map_or(1, |&a| self.eval.cx.size(a) as i64);
        if !self.host || (below, above) == (0, 0) || below + above >= n {
            return self.across(f);
        }
        let chunk = self.lanes[0] as i64;
        let first = self.first_line();
        let size = fold::var(self.eval.frame.sizes[self.others[0]]);
        let (low, end) = match self.piece.clone() {
            Some((from, to)) => (self.eval.b.bind("low", fold::add(first.clone(), from)), fold::add(first.clone(), to)),
            None => {
                let end = fold::add(first.clone(), fold::int(chunk));
                (first.clone(), if n % chunk == 0 { end } else { fold::min(end, size.clone()) })
            }
        };
        let end = self.eval.b.bind("end", end);
        let letter = self.eval.cx.letters()[self.others[0]];
        if below > 0 {
            let to = fold::min(end.clone(), fold::int(below));
            self.part(&format!("{letter}_low"), (0, below - 1), low.clone(), to, &first, f)?;
        }
        let rest = fold::sub(size, fold::int(above));
        let from = if below > 0 { fold::binary(Op::Max, low.clone(), fold::int(below)) } else { low.clone() };
        let to = if above > 0 { fold::min(end.clone(), rest.clone()) } else { end.clone() };
        self.part(letter, (below, n - 1 - above), from, to, &first, f)?;
        if above > 0 {
            let from = fold::binary(Op::Max, low, rest);
            self.part(&format!("{letter}_high"), (n - above, n - 1), from, end, &first, f)?;
        }
        Ok(())
    }

    /// The lines `from..to` of a block that starts at `first`; their positions are known to be in `range`.
    fn part(
        &mut self,
        name: &str,
        range: (i64, i64),
        from: Expr,
        to: Expr,
        first: &Expr,
        f: &dyn Fn(&mut Self) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let i = self.eval.open_loop(name);
        self.eval.frame.know(i, range);
        self.eval.frame.own[self.others[0]] = i;
        let lane = self.eval.b.bind("line", fold::sub(fold::var(i), first.clone()));
        self.eval.arrays.lane = Some(lane);
        self.eval.arrays.line = Some(self.line());
        f(self)?;
        let kind = self.sums.simd();
        self.eval.close_loop(i, from, to, 1, kind);
        Ok(())
    }

    /// Number of the own line.
    fn line(&self) -> Expr {
        let own = |n: usize| self.others.get(n).map_or(fold::int(0), |&a| fold::var(self.eval.frame.own[a]));
        let size = self.others.first().map_or(fold::int(1), |&a| fold::var(self.eval.frame.sizes[a]));
        fold::add(own(0), fold::mul(size, own(1)))
    }

    /// A number carried along the line, zero at first.
    pub(super) fn cell(&mut self, name: &str) -> Cell {
        if self.host {
            let lanes = self.lanes[0];
            return Cell::Element(self.eval.b.local(name, Space::Private, self.eval.cx.options.precision, lanes));
        }
        Cell::Variable(self.eval.b.declare(name, fold::real(0.0, self.eval.cx.real)))
    }

    /// Zeroes cells, where declaring them does not.
    pub(super) fn clear(&mut self, cells: &[Cell]) -> Result<(), MapError> {
        if !self.host || cells.is_empty() {
            return Ok(());
        }
        let zero = fold::real(0.0, self.eval.cx.real);
        self.across(|m| {
            cells.iter().for_each(|&cell| m.set(cell, zero.clone()));
            Ok(())
        })
    }

    /// Value of a cell.
    pub(super) fn value(&self, cell: Cell) -> Expr {
        match cell {
            Cell::Variable(v) => fold::var(v),
            Cell::Element(b) => load_at(b, self.lane()),
        }
    }

    /// Changes a cell.
    pub(super) fn set(&mut self, cell: Cell, value: Expr) {
        match cell {
            Cell::Variable(v) => self.eval.b.push(Stmt::Assign(v, value)),
            Cell::Element(buffer) => {
                let index = self.lane();
                self.eval.b.push(Stmt::Store { buffer, index, value });
            }
        }
    }

    fn lane(&self) -> Expr {
        self.eval.arrays.lane.clone().unwrap_or(fold::int(0))
    }
}

/// Elements whose loop is `at`.
fn picked<T: Clone>(all: &[T], loops: &[usize], at: usize) -> Vec<T> {
    all.iter().zip(loops).filter(|x| *x.1 == at).map(|x| x.0.clone()).collect()
}
