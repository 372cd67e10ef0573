//! Sweeps over the rows of a matrix: which lane takes which row, or which part of one.
//!
//! A sweep without a product is pointwise ([`point`](super::point)). One with products is laid out by the lanes that
//! share a row:
//! - one: a lane forms its row's products and does the row's vector work at once, on the host and where rows of a chunk
//!   lie side by side in memory;
//! - several, where a row's cells are contiguous: neighbouring lanes take neighbouring cells and add up by shuffles;
//! - several, where rows lie side by side: lanes far apart share a row, so that neighbours still read neighbours.
//!
//! Short rows without padding are read in [`strips`]. Of very unequal rows, products are cut by entries ahead of the sweep ([`balanced`](super::balanced)).
//!
//! Where rows are shared the sums go through shared memory to the lanes that do the vector work, one a row: whatever the
//! sharing, vectors are read and written side by side, and each sum has its fixed order.

use super::balanced;
use super::context::{Context, Made};
use super::eval::{Eval, Guarding, load_at};
use super::fold;
use super::point::{self, Blocks, grid_fits, inside};
use super::slots::{Product, Share, products};
use super::strips;
use super::sums::{Accumulators, Places};
use super::{MapError, Target, groups};
use crate::format::layout::Layout;
use crate::kernel::{BufferId, Cmp, Expr, LoopKind, Scope, Shuffle, Space, Stmt, VarId};
use crate::loops::{Sweep, SweepId};

/// Maps a sweep to one launch or more.
pub(super) fn kernels(cx: &mut Context, sweep: SweepId) -> Result<Vec<Made>, MapError> {
    let program = cx.program;
    let of = &program.sweeps[sweep.0];
    let products = products(of);
    let Some(rows) = program.operator.space.rows() else {
        return Err(MapError::Internal("a sweep over rows on a grid".into()));
    };
    // Rows are shared as the operator's own matrix wants it, where the sweep reads that.
    let own: Vec<Product> = products.iter().copied().filter(|p| p.companion.is_none()).collect();
    let first = if own.is_empty() { products.first().and_then(|p| p.companion) } else { None };
    let missing = || MapError::Internal("a companion that does not exist".into());
    let layout = rows.layout_of(first).ok_or_else(missing)?.0;
    let lanes = match cx.options.target {
        Target::Host => 1,
        Target::Cuda => cx.options.variant.row_lanes.unwrap_or_else(|| layout.row_lanes()),
    };
    if cx.options.target == Target::Cuda && !own.is_empty() && is_balanced(cx, layout) {
        return balanced::kernels(cx, sweep, &own, layout);
    }
    if cx.options.target == Target::Cuda
        && let Some(items) = strips::items(cx, &products, layout)
    {
        return Ok(vec![strips::kernel(cx, of, &products, layout, items)?]);
    }
    if products.is_empty() || lanes == 1 {
        return Ok(vec![point::kernel(cx, sweep)?]);
    }
    Ok(vec![shared(cx, of, &products, layout, lanes)?])
}

/// Whether products are cut by entries: where asked for, or where the longest row is too long for its lanes.
fn is_balanced(cx: &Context, layout: &Layout) -> bool {
    layout.cuts() && layout.entries > 0 && cx.options.variant.balanced.unwrap_or_else(|| layout.is_cut())
}

/// Opens the loop over the tiles of rows that a block takes one after another, where it takes several; its variable, and
/// the first row of a tile.
pub(super) fn first_row(eval: &mut Eval, blocks: &Blocks, steps: u64, tile: u64) -> (Option<VarId>, Expr) {
    let step = (steps > 1).then(|| eval.open_loop("step"));
    let number = fold::mul(blocks.tile(0), fold::int(steps as i64));
    let number = step.map_or(number.clone(), |step| fold::add(number, fold::var(step)));
    (step, fold::var(eval.b.bind_here("first_row", fold::mul(number, fold::int(tile as i64)))))
}

/// A sweep whose rows are shared by lanes.
fn shared(
    cx: &mut Context,
    sweep: &Sweep,
    products: &[Product],
    layout: &Layout,
    lanes: u32,
) -> Result<Made, MapError> {
    let variant = &cx.options.variant;
    let block = variant.row_block();
    let spread = layout.side_by_side();
    // Rows that a block takes at a time: as many as lanes, in several passes, or as many as fit at once.
    let tile = if spread { u64::from(block / lanes) } else { u64::from(block) };
    let tiles = layout.size.div_ceil(tile);
    let steps = variant.passes().min(tiles);
    let blocks = Blocks::new([tiles.div_ceil(steps), 1, 1]);
    grid_fits(&blocks)?;
    let mut places = Places::reserve(cx, &sweep.sums, blocks.count());
    let mut eval = Eval::new(cx, sweep, Guarding::Predicate);
    let sums = Accumulators::declare(&mut eval);
    let element = cx.options.precision;
    let mut buffers = Vec::new();
    for product in products {
        let name = format!("{}_rows", sweep.values[product.value.0].name);
        buffers.push(eval.b.local(&name, Space::Shared, element, u64::from(block)));
    }
    let job = Job { products, buffers: &buffers, block: i64::from(block), lanes: i64::from(lanes), tile: tile as i64 };
    let (step, first) = first_row(&mut eval, &blocks, steps, tile);
    if spread {
        job.spread(&mut eval, first.clone())?
    } else {
        job.grouped(&mut eval, first.clone())?
    }
    eval.b.push(Stmt::Barrier(Scope::Block));
    job.rows(&mut eval, &sums, first, spread)?;
    if let Some(step) = step {
        eval.b.push(Stmt::Barrier(Scope::Block));
        eval.close_loop(step, fold::int(0), fold::int(steps as i64), 1, LoopKind::Sequential);
    }
    sums.finish(&mut eval.b, &mut places, Expr::Lane(0), block, blocks.number());
    eval.b.doc.push(format!("{block} lanes, {lanes} a row, {steps} times {tile} rows a block"));
    let (mut kernel, args) = eval.b.finish(blocks.grid(), [block, 1, 1], cx.index);
    kernel.hold(groups::resident(cx, sweep, lanes, block));
    Ok((kernel, args))
}

/// How a block shares rows.
struct Job<'p> {
    products: &'p [Product],
    /// Sums of the block's rows, in shared memory.
    buffers: &'p [BufferId],
    block: i64,
    lanes: i64,
    /// Rows at a time.
    tile: i64,
}

impl Job<'_> {
    /// Neighbouring lanes share a row; the block passes over its rows.
    fn grouped(&self, eval: &mut Eval, first: Expr) -> Result<(), MapError> {
        let lanes = fold::int(self.lanes);
        let in_row = eval.b.bind("lane_in_row", fold::rem(Expr::Lane(0), lanes.clone()));
        let group = eval.b.bind("group", fold::div(Expr::Lane(0), lanes));
        let pass = eval.open_loop("pass");
        let local = fold::add(fold::mul(fold::var(pass), fold::int(self.block / self.lanes)), group);
        let local = fold::var(eval.b.bind_here("row_in_block", local));
        let share = Share { first: in_row.clone(), count: self.lanes };
        let sums = self.guarded(eval, fold::add(first, local.clone()), &share)?;
        for (&sum, &buffer) in sums.iter().zip(self.buffers) {
            let mut distance = self.lanes as u32 / 2;
            while distance > 0 {
                let other = eval.b.result("other", eval.cx.real);
                let (value, mode) = (fold::var(sum), Shuffle::Xor(distance));
                eval.b.push(Stmt::Shuffle { var: other, value, mode, width: self.lanes as u32 });
                eval.b.push(Stmt::Assign(sum, fold::add(fold::var(sum), fold::var(other))));
                distance /= 2;
            }
            eval.open_if();
            eval.b.push(Stmt::Store { buffer, index: local.clone(), value: fold::var(sum) });
            eval.close_if(fold::compare(Cmp::Eq, in_row.clone(), fold::int(0)));
        }
        eval.close_loop(pass, fold::int(0), fold::int(self.lanes), 1, LoopKind::Sequential);
        Ok(())
    }

    /// Lanes a whole tile apart share a row.
    fn spread(&self, eval: &mut Eval, first: Expr) -> Result<(), MapError> {
        let tile = fold::int(self.tile);
        let local = eval.b.bind("row_in_block", fold::rem(Expr::Lane(0), tile.clone()));
        let part = eval.b.bind("part", fold::div(Expr::Lane(0), tile));
        let share = Share { first: part, count: self.lanes };
        let sums = self.guarded(eval, fold::add(first, local), &share)?;
        for (&sum, &buffer) in sums.iter().zip(self.buffers) {
            eval.b.push(Stmt::Store { buffer, index: Expr::Lane(0), value: fold::var(sum) });
        }
        Ok(())
    }

    /// Sums of a row that may be beyond the last.
    fn guarded(&self, eval: &mut Eval, row: Expr, share: &Share) -> Result<Vec<VarId>, MapError> {
        let size = eval.cx.size(0) as i64;
        let zero = fold::real(0.0, eval.cx.real);
        let row = fold::var(eval.b.bind_here("row", row));
        let totals: Vec<VarId> = self
            .products
            .iter()
            .map(|p| eval.b.declare(&format!("{}_total", eval.sweep.values[p.value.0].name), zero.clone()))
            .collect();
        eval.open_if();
        let sums = eval.row_sums(self.products, row.clone(), Some(share))?;
        for (&total, &sum) in totals.iter().zip(&sums) {
            eval.b.push(Stmt::Assign(total, fold::var(sum)));
        }
        eval.close_if(fold::compare(Cmp::Lt, row, fold::int(size)));
        Ok(totals)
    }

    /// The vector work of the tile, a lane a row.
    fn rows(&self, eval: &mut Eval, sums: &Accumulators, first: Expr, spread: bool) -> Result<(), MapError> {
        let all = self.tile < self.block;
        if all {
            eval.open_if();
        }
        let own = eval.b.bind_here("row", fold::add(first, Expr::Lane(0)));
        eval.frame.own = vec![own];
        eval.frame.know(own, (0, eval.cx.size(0) as i64 - 1));
        let whole = eval.cx.size(0).is_multiple_of(self.tile as u64) && eval.cx.size(0) > 0;
        let whole = whole && self.covers(eval);
        inside(eval, &[(0, own, whole)], |eval| {
            for (product, &buffer) in self.products.iter().zip(self.buffers) {
                let mut total = load_at(buffer, Expr::Lane(0));
                for part in 1..if spread { self.lanes } else { 1 } {
                    let at = fold::add(Expr::Lane(0), fold::int(part * self.tile));
                    total = fold::add(total, load_at(buffer, at));
                }
                let name = eval.sweep.values[product.value.0].name.clone();
                let total = eval.b.bind_here(&format!("{name}_new"), total);
                eval.known.insert((product.value, 0), fold::var(total));
            }
            sums.point(eval, &eval.sweep.stores, &eval.sweep.sums)
        })?;
        if all {
            eval.close_if(fold::compare(Cmp::Lt, Expr::Lane(0), fold::int(self.tile)));
        }
        Ok(())
    }

    /// Whether the blocks' tiles end where the rows do.
    fn covers(&self, eval: &Eval) -> bool {
        let tiles = eval.cx.size(0).div_ceil(self.tile as u64);
        tiles.is_multiple_of(eval.cx.options.variant.passes().min(tiles))
    }
}
