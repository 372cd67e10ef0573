//! Products of rows that lie one after another, read in strips: a block's lanes take its entries side by side, wherever
//! rows begin, and leave the terms in shared memory, where the lane of every row adds up its own.
//!
//! After Greathouse and Daga 2014 (CSR-Stream), with strips instead of blocks of few enough entries, so that rows may be
//! of any length. Against lanes that share a row: loads are aligned and many at a time, and the start of a row is read
//! once. A row's terms are added in the order of the matrix, by one lane.

use super::context::{Context, Made};
use super::eval::{Eval, Guarding, load_at};
use super::fold;
use super::matrix::first_row;
use super::point::{Blocks, grid_fits, inside};
use super::slots::Product;
use super::sums::{Accumulators, GROUP, Places};
use super::{MapError, Variant};
use crate::format::layout::{Layout, Role};
use crate::kernel::{BufferId, Cmp, Element, Expr, LoopKind, Scope, Space, Stmt, VarId};
use crate::kernel_verify::STATIC_SHARED_BYTES;
use crate::loops::Sweep;

/// Entries of a strip for every lane, where nothing else is asked for.
const USUAL: u32 = 8;
/// Lanes of a block over rows where nothing is said.
const ROW_BLOCK: u32 = 256;

/// Entries of a strip for every lane; none where products are not formed in strips. They can be of the operator's own matrix,
/// whose rows have no padding. In f64 lanes that share rows are as fast unless asked otherwise: 258, 229 and 374 us with 7,
/// 27 and 13 entries a row for 281, 226 and 393.
pub(super) fn items(cx: &Context, products: &[Product], layout: &Layout) -> Option<u32> {
    let variant = &cx.options.variant;
    let own = !products.is_empty() && products.iter().all(|p| p.companion.is_none());
    if !(own && layout.cuts() && layout.entries > 0) {
        return None;
    }
    let shared = variant.row_lanes.is_some() || variant.row_unroll.is_some();
    let narrow = cx.options.precision == Element::F32;
    let usual = narrow
        && !shared
        && layout.is_short()
        && holds(variant.row_block() * USUAL, products.len(), cx.options.precision);
    variant.row_strips.or(usual.then_some(USUAL)).filter(|&items| items > 0)
}

/// Maps a sweep, with so many entries of a strip for every lane.
pub(super) fn kernel(
    cx: &mut Context,
    sweep: &Sweep,
    products: &[Product],
    layout: &Layout,
    items: u32,
) -> Result<Made, MapError> {
    let variant = &cx.options.variant;
    let block = variant.row_block();
    let strip = block * items;
    if !holds(strip, products.len(), cx.options.precision) {
        return Err(MapError::Variant(format!("strips of {strip} entries do not fit the shared memory of a block")));
    }
    let tiles = layout.size.div_ceil(u64::from(block));
    let steps = variant.passes().min(tiles);
    let blocks = Blocks::new([tiles.div_ceil(steps), 1, 1]);
    grid_fits(&blocks)?;
    let words = words(strip.into());
    let mut places = Places::reserve(cx, &sweep.sums, blocks.count());
    let mut eval = Eval::new(cx, sweep, Guarding::Predicate);
    let sums = Accumulators::declare(&mut eval);
    let terms = products.iter().map(|product| {
        let name = format!("{}_terms", sweep.values[product.value.0].name);
        eval.b.local(&name, Space::Shared, cx.options.precision, words)
    });
    let terms: Vec<BufferId> = terms.collect();
    let strips = Strips { products, terms, layout, block: i64::from(block), items: i64::from(items) };
    let (step, first) = first_row(&mut eval, &blocks, steps, u64::from(block));
    let totals = strips.totals(&mut eval, &first)?;
    strips.rows(&mut eval, &sums, first, &totals, tiles.is_multiple_of(steps))?;
    if let Some(step) = step {
        eval.close_loop(step, fold::int(0), fold::int(steps as i64), 1, LoopKind::Sequential);
    }
    sums.finish(&mut eval.b, &mut places, Expr::Lane(0), block, blocks.number());
    eval.b.doc.push(format!("{block} rows a block, {steps} times; their entries in strips of {strip}"));
    let (mut kernel, args) = eval.b.finish(blocks.grid(), [block, 1, 1], cx.index);
    kernel.hold(cx.options.variant.resident);
    Ok((kernel, args))
}

/// Places for the terms of a strip. Lanes that read rows of an even number of entries would meet in few banks: every group
/// of terms is followed by a free place.
fn words(strip: u64) -> u64 {
    strip + strip / u64::from(GROUP)
}

/// Whether a block has shared memory for strips of so many entries of so many products.
fn holds(strip: u32, products: usize, element: Element) -> bool {
    products as u64 * words(strip.into()) * element.bytes() <= STATIC_SHARED_BYTES
}

impl Variant {
    /// Lanes of a block over rows.
    pub(super) fn row_block(&self) -> u32 {
        self.block.map_or(ROW_BLOCK, |[x, y]| x * y)
    }

    /// Whether a block has shared memory for the strips of so many products that are asked for.
    pub fn holds_strips(&self, products: usize, element: Element) -> bool {
        holds(self.row_block() * self.row_strips.unwrap_or(0), products, element)
    }
}

/// How a block reads its entries.
struct Strips<'p> {
    products: &'p [Product],
    /// Terms of a strip, one buffer a product.
    terms: Vec<BufferId>,
    layout: &'p Layout,
    /// Lanes, and rows at a time.
    block: i64,
    /// Entries of a strip for every lane.
    items: i64,
}

/// Where a term lies in shared memory.
fn place(position: &Expr) -> Expr {
    fold::add(position.clone(), fold::div(position.clone(), fold::int(i64::from(GROUP))))
}

impl Strips<'_> {
    /// Sums of the own row's products; of no row beyond the last.
    fn totals(&self, eval: &mut Eval, first: &Expr) -> Result<Vec<VarId>, MapError> {
        let start = eval.stored(Role::ChunkStart)?;
        let size = fold::int(self.layout.size as i64);
        let start_of = |eval: &mut Eval, name: &str, row: Expr| {
            let row = fold::min(row, size.clone());
            fold::var(eval.b.bind_here(name, load_at(start, row)))
        };
        let begin = start_of(eval, "begin", first.clone());
        let end = start_of(eval, "end", fold::add(first.clone(), fold::int(self.block)));
        let lane = fold::add(first.clone(), Expr::Lane(0));
        let from = start_of(eval, "row_begin", lane.clone());
        let to = start_of(eval, "row_end", fold::add(lane, fold::int(1)));
        let zero = fold::real(0.0, eval.cx.real);
        let name = |p: &Product| format!("{}_total", eval.sweep.values[p.value.0].name);
        let names: Vec<String> = self.products.iter().map(name).collect();
        let totals: Vec<VarId> = names.iter().map(|name| eval.b.declare(name, zero.clone())).collect();
        eval.quote_products(self.products);
        // The first strip begins where memory transactions do.
        let aligned = fold::sub(begin.clone(), fold::rem(begin.clone(), fold::int(i64::from(GROUP))));
        let strip = eval.open_loop("strip");
        self.form(eval, strip, &begin, &end)?;
        eval.b.push(Stmt::Barrier(Scope::Block));
        self.add_up(eval, strip, from, to, &totals);
        eval.b.push(Stmt::Barrier(Scope::Block));
        eval.close_loop(strip, aligned, end, self.block * self.items, LoopKind::Sequential);
        Ok(totals)
    }

    /// The terms of a strip. Lanes before the first entry and beyond the last take one of them and leave zero, so that
    /// no branch stands between loads.
    fn form(&self, eval: &mut Eval, strip: VarId, begin: &Expr, end: &Expr) -> Result<(), MapError> {
        let (column, values) = (eval.stored(Role::Column)?, eval.stored(Role::Value)?);
        let zero = fold::real(0.0, eval.cx.real);
        let item = eval.open_loop("item");
        let position = fold::add(fold::mul(fold::var(item), fold::int(self.block)), Expr::Lane(0));
        let position = fold::var(eval.b.bind_here("position", position));
        let at = fold::var(eval.b.bind_here("at", fold::add(fold::var(strip), position.clone())));
        let within = fold::and(
            fold::compare(Cmp::Ge, at.clone(), begin.clone()),
            fold::compare(Cmp::Lt, at.clone(), end.clone()),
        );
        let near = fold::min(at, fold::sub(end.clone(), fold::int(1)));
        let near = fold::var(eval.b.bind_here("entry_at", near));
        let here = eval.known_column(self.layout, load_at(column, near.clone()));
        let entry = eval.b.bind("entry", load_at(values, near));
        for (product, &terms) in self.products.iter().zip(&self.terms) {
            let term = eval.slot_term(product.reading, &entry, here)?;
            let value = fold::select(within.clone(), term, zero.clone());
            eval.b.push(Stmt::Store { buffer: terms, index: place(&position), value });
        }
        eval.close_loop(item, fold::int(0), fold::int(self.items), 1, LoopKind::Unroll(0));
        Ok(())
    }

    /// The own row's terms of a strip.
    fn add_up(&self, eval: &mut Eval, strip: VarId, from: Expr, to: Expr, totals: &[VarId]) {
        let origin = fold::var(strip);
        // Positions within the strip; a row that begins before it has been added so far.
        let begun = fold::compare(Cmp::Lt, from.clone(), origin.clone());
        let from = fold::select(begun, fold::int(0), fold::sub(from, origin.clone()));
        let to = fold::min(fold::sub(to, origin), fold::int(self.block * self.items));
        let position = eval.open_loop("position");
        for (&total, &terms) in totals.iter().zip(&self.terms) {
            let term = load_at(terms, place(&fold::var(position)));
            eval.b.push(Stmt::Assign(total, fold::add(fold::var(total), term)));
        }
        eval.close_loop(position, from, to, 1, LoopKind::Sequential);
    }

    /// The vector work of the block's rows.
    fn rows(
        &self,
        eval: &mut Eval,
        sums: &Accumulators,
        first: Expr,
        totals: &[VarId],
        covers: bool,
    ) -> Result<(), MapError> {
        let size = eval.cx.size(0);
        let own = eval.b.bind_here("row", fold::add(first, Expr::Lane(0)));
        eval.frame.own = vec![own];
        eval.frame.know(own, (0, size as i64 - 1));
        let whole = covers && size.is_multiple_of(self.block as u64);
        inside(eval, &[(0, own, whole)], |eval| {
            for (product, &total) in self.products.iter().zip(totals) {
                eval.known.insert((product.value, 0), fold::var(total));
            }
            sums.point(eval, &eval.sweep.stores, &eval.sweep.sums)
        })
    }
}
