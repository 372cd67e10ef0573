//! Sweeps whose points are independent: which lane, block or loop iteration visits which point.
//!
//! CUDA: lanes over the fastest axes, a walk along the last one. Host: a tile of rows a block; the row is cut where its
//! ends could reach outside, so that the middle has no tests and vectorises.

use super::context::{Context, Made};
use super::eval::{Eval, Guarding, largest};
use super::fence;
use super::fold;
use super::held;
use super::lead;
use super::march::{self, Carry};
use super::staged;
use super::sums::{Accumulators, Places};
use super::tile::Plan;
use super::{MapError, Target, groups, wide};
use crate::kernel::{Cmp, Expr, LoopKind, VarId};
use crate::loops::{Sweep, SweepId, ValueId, ValueKind};
use crate::math::{self, Operator};

/// Maps a sweep of granule `Point`.
pub(super) fn kernel(cx: &mut Context, sweep: SweepId) -> Result<Made, MapError> {
    let sweep = &cx.program.sweeps[sweep.0];
    match cx.options.target {
        Target::Cuda => cuda(cx, sweep),
        Target::Host => host(cx, sweep),
    }
}

/// A grid of blocks over tiles along the axes, folded into one dimension where the device's limits ask for it.
pub(super) struct Blocks {
    tiles: [u64; 3],
    folded: bool,
}

impl Blocks {
    /// A grid with some number of tiles along x, y and z.
    pub(super) fn new(tiles: [u64; 3]) -> Blocks {
        const LIMIT: u64 = 65535;
        Blocks { tiles, folded: tiles[1] > LIMIT || tiles[2] > LIMIT }
    }

    /// Blocks along x, y, z.
    pub(super) fn grid(&self) -> [u64; 3] {
        if self.folded { [self.count(), 1, 1] } else { self.tiles }
    }

    /// All blocks.
    pub(super) fn count(&self) -> u64 {
        self.tiles.iter().product()
    }

    /// The tile's position along x, y or z.
    pub(super) fn tile(&self, along: usize) -> Expr {
        if self.tiles[along] == 1 {
            return fold::int(0);
        }
        if !self.folded {
            return Expr::Block(along as u8);
        }
        let before: u64 = self.tiles[..along].iter().product();
        let all = fold::div(Expr::Block(0), fold::int(before as i64));
        if along == 2 { all } else { fold::rem(all, fold::int(self.tiles[along] as i64)) }
    }

    /// Number of the block.
    pub(super) fn number(&self) -> Expr {
        if self.folded {
            return Expr::Block(0);
        }
        let [x, y, _] = self.tiles.map(|t| fold::int(t as i64));
        let plane = fold::add(self.tile(1), fold::mul(y, self.tile(2)));
        fold::add(self.tile(0), fold::mul(x, plane))
    }
}

/// Whether a launch can have so many blocks.
pub(super) fn grid_fits(blocks: &Blocks) -> Result<(), MapError> {
    if blocks.grid()[0] > largest(crate::kernel::IndexWidth::I32) as u64 {
        return Err(MapError::Variant("more blocks than a launch can have".into()));
    }
    Ok(())
}

/// Lanes over the fastest axes.
fn cuda(cx: &mut Context, sweep: &Sweep) -> Result<Made, MapError> {
    let dims = cx.dims();
    let variant = &cx.options.variant;
    let [x, y] = variant.lanes(cx.grid);
    let [x, y] = if dims == 3 { [x, y] } else { [x * y, 1] };
    let chunk = walked(cx, sweep);
    let walks = dims > 1 && chunk.min(cx.size(dims - 1)) > 1;
    if walks
        && let Some(plan) = Plan::of(cx, sweep)?
        && let Some(made) = staged::kernel(cx, sweep, plan)?
    {
        return Ok(made);
    }
    let width = wide::width(cx, sweep);
    let across = |axis: usize, lanes: u32| cx.size(axis).div_ceil(u64::from(lanes));
    let blocks = Blocks::new(match dims {
        1 => [across(0, x * width).div_ceil(chunk), 1, 1],
        2 => [across(0, x * width), cx.size(1).div_ceil(chunk), 1],
        _ => [across(0, x * width), cx.size(2).div_ceil(chunk), across(1, y)],
    });
    grid_fits(&blocks)?;
    let mut places = Places::reserve(cx, &sweep.sums, blocks.count());
    let carries = if walks && cx.options.variant.carry { march::carries(cx, sweep)? } else { Vec::new() };
    let mut eval = Eval::new(cx, sweep, Guarding::Predicate);
    let lane =
        fold::add(Expr::Lane(0), if y > 1 { fold::mul(fold::int(i64::from(x)), Expr::Lane(1)) } else { fold::int(0) });
    lead::open(&mut eval, lane.clone(), x * y, blocks.count())?;
    let sums = Accumulators::declare(&mut eval);
    if dims == 1 {
        one_axis(&mut eval, &sums, &blocks, x, width, chunk)?;
    } else {
        let lanes = if dims == 3 { vec![(0, x), (1, y)] } else { vec![(0, x)] };
        walk(&mut eval, &sums, &blocks, &lanes, width, chunk, &carries)?;
    }
    sums.finish(&mut eval.b, &mut places, lane.clone(), x * y, blocks.number());
    fence::close(&mut eval, lane, x * y, blocks.count())?;
    let beside = if width > 1 { format!(", {width} side by side") } else { String::new() };
    eval.b.doc.push(format!("{x} x {y} lanes, {chunk} points a lane{beside}"));
    let (mut kernel, args) = eval.b.finish(blocks.grid(), [x, y, 1], cx.index);
    kernel.hold(groups::resident(cx, sweep, 1, x * y));
    Ok((kernel, args))
}

/// Points that a lane has of a sweep that only moves words: no neighbour is read at their ends and no block leaves a sum, so
/// that many small blocks even out. With these an H200 adds eight vectors to one at 4.2 TB/s, with 32 at 3.7.
const FEW_POINTS: u64 = 4;

/// Points of the last axis that a lane walks through; on one axis, points a block apart.
fn walked(cx: &Context, sweep: &Sweep) -> u64 {
    let variant = &cx.options.variant;
    let moves = variant.chunk.is_none() && sweep.sums.is_empty() && wide::is_pointwise(sweep);
    if moves { variant.walk(cx.grid).min(FEW_POINTS) } else { variant.walk(cx.grid) }
}

/// One axis: every lane takes points a block apart.
fn one_axis(
    eval: &mut Eval,
    sums: &Accumulators,
    blocks: &Blocks,
    x: u32,
    width: u32,
    chunk: u64,
) -> Result<(), MapError> {
    let letter = eval.cx.letters()[0];
    let lanes = fold::int(i64::from(x));
    let step = (chunk > 1).then(|| eval.open_loop("step"));
    let first = match step {
        Some(step) => fold::add(fold::mul(blocks.tile(0), fold::int(chunk as i64)), fold::var(step)),
        None => blocks.tile(0),
    };
    let lane = fold::add(fold::mul(first, lanes), Expr::Lane(0));
    let i = eval.b.bind_here(letter, fold::mul(lane, fold::int(i64::from(width))));
    eval.frame.own = vec![i];
    eval.frame.know(i, (0, eval.cx.size(0) as i64 - 1));
    let whole = eval.cx.size(0).is_multiple_of(u64::from(x * width) * chunk);
    inside(eval, &[(0, i, whole)], |eval| wide::points(eval, sums, width))?;
    if let Some(step) = step {
        eval.close_loop(step, fold::int(0), fold::int(chunk as i64), 1, LoopKind::Sequential);
    }
    Ok(())
}

/// Lanes over the first axes, a loop along the last. Blocks go along x and the walk before they go along y: those that
/// follow one another share planes, and go through the grid as sweeps by lines do.
fn walk(
    eval: &mut Eval,
    sums: &Accumulators,
    blocks: &Blocks,
    lanes: &[(usize, u32)],
    width: u32,
    chunk: u64,
    carries: &[Carry],
) -> Result<(), MapError> {
    let cx = eval.cx;
    let last = cx.dims() - 1;
    let mut guards = Vec::new();
    for &(axis, count) in lanes {
        let from = fold::mul(blocks.tile(2 * axis), fold::int(i64::from(count)));
        let lane = if count == 1 { fold::int(0) } else { Expr::Lane(axis as u8) };
        let each = if axis == 0 { width } else { 1 };
        let at = fold::mul(fold::add(from, lane), fold::int(i64::from(each)));
        let var = eval.b.bind_here(cx.letters()[axis], at);
        eval.frame.know(var, (0, cx.size(axis) as i64 - 1));
        eval.frame.own.push(var);
        guards.push((axis, var, cx.size(axis).is_multiple_of(u64::from(count * each))));
    }
    let (n, chunk) = (cx.size(last), chunk.min(cx.size(last)));
    inside(eval, &guards, |eval| {
        if chunk == 1 {
            let k = eval.b.bind_here(cx.letters()[last], blocks.tile(1));
            eval.frame.know(k, (0, n as i64 - 1));
            eval.frame.own.push(k);
            return wide::points(eval, sums, width);
        }
        let first = fold::mul(blocks.tile(1), fold::int(chunk as i64));
        let first = eval.b.bind("first", first);
        let end = end_of(eval, last, first.clone(), chunk, "end");
        let start = eval.b.bind_here("start", first.clone());
        eval.frame.know(start, (0, n as i64 - 1));
        eval.frame.own.push(start);
        let carried = eval.start_march(carries)?;
        eval.frame.own.pop();
        let k = eval.open_loop(cx.letters()[last]);
        eval.frame.know(k, (0, n as i64 - 1));
        eval.frame.own.push(k);
        eval.step_march(&carried)?;
        wide::points(eval, sums, width)?;
        eval.end_step(&carried);
        let kind = match cx.options.variant.unroll {
            None | Some(0 | 1) => LoopKind::Sequential,
            Some(n) => LoopKind::Unroll(n),
        };
        eval.close_loop(k, first, end, 1, kind);
        Ok(())
    })
}

/// End of a chunk that starts at `first`, cut at the end of the axis.
pub(super) fn end_of(eval: &mut Eval, axis: usize, first: Expr, chunk: u64, name: &str) -> Expr {
    let end = fold::add(first, fold::int(chunk as i64));
    let n = eval.cx.size(axis);
    let end = if n.is_multiple_of(chunk) { end } else { fold::min(end, fold::var(eval.frame.sizes[axis])) };
    eval.b.bind(name, end)
}

/// Runs `f` where the lanes' indices are inside the grid; those marked are inside in any case.
pub(super) fn inside(
    eval: &mut Eval,
    indices: &[(usize, VarId, bool)],
    f: impl FnOnce(&mut Eval) -> Result<(), MapError>,
) -> Result<(), MapError> {
    let mut cond = Expr::Bool(true);
    for &(axis, var, whole) in indices {
        if !whole {
            let n = fold::var(eval.frame.sizes[axis]);
            cond = fold::and(cond, fold::compare(Cmp::Lt, fold::var(var), n));
        }
    }
    if cond == Expr::Bool(true) {
        return f(eval);
    }
    eval.open_if();
    f(eval)?;
    eval.close_if(cond);
    Ok(())
}

/// A tile of rows a block.
fn host(cx: &mut Context, sweep: &Sweep) -> Result<Made, MapError> {
    if let Some(made) = held::kernel(cx, sweep)? {
        return Ok(made);
    }
    let dims = cx.dims();
    let tile = cx.options.variant.tile_of(cx.grid);
    // A single row is cut into pieces long enough to be worth a call.
    let piece = cx.size(0).div_ceil(64).max(2048);
    let blocks = Blocks::new(match dims {
        1 => [cx.size(0).div_ceil(piece), 1, 1],
        2 => [cx.size(1).div_ceil(tile[0]), 1, 1],
        _ => [cx.size(1).div_ceil(tile[0]), cx.size(2).div_ceil(tile[1]), 1],
    });
    let mut places = Places::reserve(cx, &sweep.sums, blocks.count());
    let mut eval = Eval::new(cx, sweep, Guarding::Clamp);
    let sums = Accumulators::declare(&mut eval);
    eval.frame.own = vec![VarId(usize::MAX); dims];
    if dims == 1 {
        let from = eval.b.bind("from", fold::mul(blocks.tile(0), fold::int(piece as i64)));
        let to = end_of(&mut eval, 0, from.clone(), piece, "to");
        row(&mut eval, &sums, &[], from, to)?;
    } else {
        rows(&mut eval, &sums, &blocks, dims - 1)?;
    }
    sums.finish(&mut eval.b, &mut places, fold::int(0), 1, blocks.number());
    Ok(eval.b.finish(blocks.grid(), [1, 1, 1], cx.index))
}

/// Loops over the tile's range of an axis, then over those below it.
fn rows(eval: &mut Eval, sums: &Accumulators, blocks: &Blocks, axis: usize) -> Result<(), MapError> {
    let cx = eval.cx;
    let (letter, chunk) = (cx.letters()[axis], cx.options.variant.tile_of(cx.grid)[axis - 1].min(cx.size(axis)));
    let first = eval.b.bind(&format!("first_{letter}"), fold::mul(blocks.tile(axis - 1), fold::int(chunk as i64)));
    let end = end_of(eval, axis, first.clone(), chunk, &format!("end_{letter}"));
    if axis == 1 {
        return groups_of_rows(eval, sums, (first, end), chunk);
    }
    let var = eval.open_loop(letter);
    eval.frame.know(var, (0, cx.size(axis) as i64 - 1));
    eval.frame.own[axis] = var;
    rows(eval, sums, blocks, axis - 1)?;
    eval.close_loop(var, first, end, 1, LoopKind::Sequential);
    Ok(())
}

/// The rows of a tile: as many together as the variant says, then those that are left, one by one. Rows of a group share
/// what they read of their neighbours, and a round of the inner loop has more to do at a time.
fn groups_of_rows(
    eval: &mut Eval,
    sums: &Accumulators,
    (first, end): (Expr, Expr),
    chunk: u64,
) -> Result<(), MapError> {
    let together = u64::from(eval.cx.options.variant.unroll.unwrap_or(1)).clamp(1, chunk);
    if together == 1 {
        return each_row(eval, sums, (first, end), 1);
    }
    let group = fold::int(together as i64);
    let whole = chunk.is_multiple_of(together) && eval.cx.size(1).is_multiple_of(chunk);
    if whole {
        return each_row(eval, sums, (first, end), together);
    }
    let count = fold::div(fold::sub(end.clone(), first.clone()), group.clone());
    let rest = eval.b.bind("end_of_groups", fold::add(first.clone(), fold::mul(count, group)));
    each_row(eval, sums, (first, rest.clone()), together)?;
    each_row(eval, sums, (rest, end), 1)
}

/// The rows of a range, so many together.
fn each_row(eval: &mut Eval, sums: &Accumulators, (first, end): (Expr, Expr), together: u64) -> Result<(), MapError> {
    let (letter, last) = (eval.cx.letters()[1], eval.cx.size(1) as i64 - 1);
    let var = eval.open_loop(letter);
    eval.frame.know(var, (0, last + 1 - together as i64));
    let mut group = vec![var];
    for n in 1..together as i64 {
        let own = eval.b.bind_here(letter, fold::add(fold::var(var), fold::int(n)));
        eval.frame.know(own, (n, last));
        group.push(own);
    }
    eval.frame.own[1] = var;
    let n = fold::var(eval.frame.sizes[0]);
    row(eval, sums, &group, fold::int(0), n)?;
    eval.close_loop(var, first, end, together as i64, LoopKind::Sequential);
    Ok(())
}

/// The points `from..to` of a group of rows.
fn row(eval: &mut Eval, sums: &Accumulators, group: &[VarId], from: Expr, to: Expr) -> Result<(), MapError> {
    let reach = reach_of_sweep(eval.cx, eval.sweep);
    cut(eval, reach, from, to, &mut |eval, piece| part(eval, sums, group, piece))
}

/// A piece of a row: its name, which values its index has, and its bounds.
pub(super) struct Piece {
    pub(super) name: String,
    pub(super) range: (i64, i64),
    pub(super) from: Expr,
    pub(super) to: Expr,
    /// Long enough for vectors.
    pub(super) simd: bool,
}

/// Cuts the points `from..to` of a row: the two ends, where readings may leave the grid, and the middle.
pub(super) fn cut(
    eval: &mut Eval,
    (below, above): (i64, i64),
    from: Expr,
    to: Expr,
    each: &mut dyn FnMut(&mut Eval, Piece) -> Result<(), MapError>,
) -> Result<(), MapError> {
    let n = eval.cx.size(0) as i64;
    let letter = eval.cx.letters()[0];
    let piece = |name: String, range, (from, to), simd| Piece { name, range, from, to, simd };
    if below == 0 && above == 0 || below + above >= n {
        return each(eval, piece(letter.to_string(), (0, n - 1), (from, to), true));
    }
    let size = fold::var(eval.frame.sizes[0]);
    let first = if below > 0 { clipped_above(from.clone(), below) } else { from.clone() };
    let last = if above > 0 { clipped_below(to.clone(), &size, above) } else { to.clone() };
    if below > 0 {
        let end = if from == fold::int(0) { fold::int(below) } else { fold::min(to.clone(), fold::int(below)) };
        each(eval, piece(format!("{letter}_low"), (0, below - 1), (from.clone(), end), false))?;
    }
    each(eval, piece(letter.to_string(), (below, n - 1 - above), (first, last.clone()), true))?;
    if above > 0 {
        let start = if from == fold::int(0) {
            last
        } else {
            fold::binary(crate::kernel::Op::Max, from, fold::sub(size, fold::int(above)))
        };
        each(eval, piece(format!("{letter}_high"), (n - above, n - 1), (start, to), false))?;
    }
    Ok(())
}

/// `max(from, low)`.
fn clipped_above(from: Expr, low: i64) -> Expr {
    match from {
        Expr::Int(x) => fold::int(x.max(low)),
        from => fold::binary(crate::kernel::Op::Max, from, fold::int(low)),
    }
}

/// `min(to, n - high)`.
fn clipped_below(to: Expr, size: &Expr, high: i64) -> Expr {
    let bound = fold::sub(size.clone(), fold::int(high));
    if to == *size { bound } else { fold::min(to, bound) }
}

/// One loop of a group of rows (none: there is one axis), whose index is known to be in `range`.
fn part(
    eval: &mut Eval,
    sums: &Accumulators,
    group: &[VarId],
    Piece { name, range, from, to, simd }: Piece,
) -> Result<(), MapError> {
    let i = eval.open_loop(&name);
    eval.frame.know(i, range);
    eval.frame.own[0] = i;
    match group {
        [] => sums.point(eval, &eval.sweep.stores, &eval.sweep.sums)?,
        group => {
            for &own in group {
                eval.frame.own[1] = own;
                sums.point(eval, &eval.sweep.stores, &eval.sweep.sums)?;
            }
        }
    }
    let kind = if simd { sums.simd() } else { LoopKind::Sequential };
    eval.close_loop(i, from, to, 1, kind);
    Ok(())
}

/// How far a sweep's readings go from its point along the first axis, down and up.
pub(super) fn reach_of_sweep(cx: &Context, sweep: &Sweep) -> (i64, i64) {
    reach_of_values(cx, sweep, &|_| false, false).into_iter().fold((0, 0), |mut all, own| {
        widen(&mut all, own);
        all
    })
}

/// How far a row of the operator reaches along the first axis, down and up.
pub(super) fn reach_of_row(cx: &Context) -> (i64, i64) {
    let op = cx.operator();
    let mut row = (0, 0);
    for r in &op.rows {
        widen(&mut row, reach(op, &r.value));
    }
    if let Some(mask) = &op.mask {
        widen(&mut row, reach(op, mask));
    }
    row
}

/// How far the evaluation of each value reaches along the first axis; those that are kept are only read back, and couplings
/// along a line may have been `formed` before.
pub(super) fn reach_of_values(
    cx: &Context,
    sweep: &Sweep,
    kept: &dyn Fn(ValueId) -> bool,
    formed: bool,
) -> Vec<(i64, i64)> {
    let row = reach_of_row(cx);
    let mut values: Vec<(i64, i64)> = Vec::new();
    for (number, value) in sweep.values.iter().enumerate() {
        let of = |v: &ValueId| values[v.0];
        let own = match &value.kind {
            _ if kept(ValueId(number)) => (0, 0),
            ValueKind::Load(_) | ValueKind::Solve(..) | ValueKind::Companion { .. } => (0, 0),
            ValueKind::Map(e) => {
                let mut total = (0, 0);
                operands(e, &mut |v| widen(&mut total, of(&v)));
                total
            }
            ValueKind::Along(axis, v) if formed && *axis != 0 => of(v),
            // Couplings along a line are a part of the row, and its coefficients are read where they are.
            ValueKind::Apply(v) | ValueKind::Magnitude(v) | ValueKind::Along(_, v) => {
                (of(v).0 + row.0, of(v).1 + row.1)
            }
            ValueKind::Diagonal(v) | ValueKind::Inside(v) => (of(v).0.max(row.0), of(v).1.max(row.1)),
            ValueKind::AffinePart => row,
        };
        values.push(own);
    }
    values
}

/// Values that a pointwise expression reads.
pub(super) fn operands(e: &crate::loops::PointExpr, f: &mut impl FnMut(ValueId)) {
    use crate::loops::PointExpr as P;
    match e {
        P::Value(v) => f(*v),
        P::Scalar(_) | P::Number(_) => {}
        P::Neg(a) | P::Abs(a) => operands(a, f),
        P::Binary(_, a, b) => {
            operands(a, f);
            operands(b, f);
        }
    }
}

pub(super) fn widen(total: &mut (i64, i64), other: (i64, i64)) {
    *total = (total.0.max(other.0), total.1.max(other.1));
}

/// Reach of an expression along the first axis; faces count as the points beyond them.
fn reach(op: &Operator, e: &math::Expr) -> (i64, i64) {
    use math::Expr as E;
    let at = |s: i32| (i64::from(-s).max(0), i64::from(s).max(0));
    match e {
        E::Number(_) | E::Param(_) | E::Slots(_) | E::Entry | E::Gather(_) => (0, 0),
        E::Table(_, s) | E::Data(_, s) | E::Unknown(_, s) => at(s[0]),
        E::Flux(f, s) => {
            let inner = reach(op, &op.fluxes[*f].value);
            let (shift, face) = (i64::from(s[0]), i64::from(op.fluxes[*f].axis == 0));
            ((inner.0 - shift).max(0), (inner.1.max(face) + shift).max(0))
        }
        E::Neg(a) => reach(op, a),
        E::Binary(_, a, b) | E::Compare(_, a, b) => {
            let mut total = reach(op, a);
            widen(&mut total, reach(op, b));
            total
        }
        E::Call(_, args) => args.iter().fold((0, 0), |mut t, a| {
            widen(&mut t, reach(op, a));
            t
        }),
        E::Select(c, a, b) => [c, a, b].iter().fold((0, 0), |mut t, a| {
            widen(&mut t, reach(op, a));
            t
        }),
    }
}
