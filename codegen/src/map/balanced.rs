//! Products cut by entries: every block takes as many, however they spread over rows.
//!
//! After Merrill and Garland 2016 (merge-based SpMV) in what a lane does within a tile, with tiles of equal numbers of
//! entries; a product takes two launches ahead of the sweep that reads it:
//! 1. *parts* ([`cut`]): sums of the rows that end within a tile, from where they or the tile begin, and of the row that
//!    goes on beyond its end, which are carried;
//! 2. *joins*: a row that goes over tiles gets what they carried.
//!
//! What is left of the sweep reads the product as a vector. Where nothing is left, because it only stores the product and
//! every row has entries, there is no third launch: sums go to the vector they are for. All orders are fixed.

use super::MapError;
use super::context::{Context, Made};
use super::cut;
use super::eval::{Eval, load_at};
use super::fold;
use super::point;
use super::slots::{Product, products};
use super::sums::GROUP;
use crate::format::layout::{HEADS, Layout, Role, TILE};
use crate::kernel::{Access, BufferId, Cmp, Expr, LoopKind, Op, Shuffle, Stmt, VarId};
use crate::loops::{Sweep, SweepId, ValueId, Version};
use crate::module::Arg;

/// Lanes of a block that joins.
const JOINING: u32 = 128;
/// Tiles that a lane looks back over at most, all at once.
const FEW_TILES: u64 = 4;

/// Where a product that is formed ahead goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ahead {
    /// Where sums of rows go.
    rows: Rows,
    /// Number of the module's buffer for what tiles carry.
    carry: usize,
}

/// Where sums of rows go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// To the vector that the sweep would store.
    Stored(Version),
    /// To a buffer of the module, which the sweep reads.
    Module(usize),
}

/// Maps a sweep: two launches for each product, and the sweep if anything is left of it.
pub(super) fn kernels(
    cx: &mut Context,
    sweep: SweepId,
    products: &[Product],
    layout: &Layout,
) -> Result<Vec<Made>, MapError> {
    let program = cx.program;
    let of = &program.sweeps[sweep.0];
    let stored = stored_alone(of, layout);
    let mut made = Vec::new();
    for (number, product) in products.iter().enumerate() {
        let name = &of.values[product.value.0].name;
        let tiles = layout.entries.div_ceil(TILE);
        let rows = match &stored {
            Some(stored) => Rows::Stored(stored[number]),
            None => Rows::Module(cx.buffer(format!("{name}_rows"), cx.options.precision, layout.size)),
        };
        let ahead = Ahead { rows, carry: cx.buffer(format!("{name}_carry"), cx.options.precision, tiles) };
        made.push(cut::parts(cx, of, product, layout, ahead)?);
        if tiles > 1 {
            made.push(joins(cx, of, product, layout, ahead)?);
        }
        cx.ahead.insert(product.value, ahead);
    }
    if stored.is_none() {
        made.push(point::kernel(cx, sweep)?);
    }
    cx.ahead.clear();
    Ok(made)
}

/// Where a sweep stores its products, one after another, if that is all that it does and every row has entries.
fn stored_alone(sweep: &Sweep, layout: &Layout) -> Option<Vec<Version>> {
    let products = products(sweep);
    let own = products.iter().all(|product| product.companion.is_none());
    let alone = own && sweep.sums.is_empty() && sweep.stores.len() == products.len();
    if !alone || layout.array(Role::Filled).is_some() {
        return None;
    }
    let stored = |product: &Product| sweep.stores.iter().find(|store| store.value == product.value).map(|s| s.to);
    products.iter().map(stored).collect()
}

impl Ahead {
    /// Arguments that the kernels ahead store to.
    pub(super) fn stored(self) -> Vec<Arg> {
        let rows = match self.rows {
            Rows::Stored(version) => Arg::Vector(version),
            Rows::Module(number) => Arg::Module(number),
        };
        vec![rows, Arg::Module(self.carry)]
    }
}

impl Eval<'_, '_> {
    /// Sums of rows.
    pub(super) fn ahead_rows(&mut self, ahead: Ahead, access: Access) -> BufferId {
        match ahead.rows {
            Rows::Stored(version) => self.vector_buffer(version, access),
            Rows::Module(number) => self.module_buffer(number, access),
        }
    }

    /// What tiles carry.
    pub(super) fn ahead_carry(&mut self, ahead: Ahead, access: Access) -> BufferId {
        self.module_buffer(ahead.carry, access)
    }

    fn module_buffer(&mut self, number: usize, access: Access) -> BufferId {
        let of = &self.cx.buffers[number];
        let (name, element, len) = (of.name.clone(), of.element, of.len);
        self.b.global(Arg::Module(number), &name, element, len, access)
    }

    /// The row of a number among those that have entries.
    pub(super) fn filled_row(&mut self, layout: &Layout, number: Expr) -> Result<Expr, MapError> {
        if layout.array(Role::Filled).is_none() {
            return Ok(number);
        }
        self.load(Role::Filled, number)
    }

    /// The product of a row that was formed ahead of the sweep: nothing was, of a row without entries.
    pub(super) fn formed_ahead(&mut self, value: ValueId, row: Expr) -> Result<Expr, MapError> {
        let rows = self.ahead_rows(self.cx.ahead[&value], Access::Read);
        let some_are_empty =
            self.cx.operator().space.rows().is_some_and(|rows| rows.layout.array(Role::Filled).is_some());
        let mut total = load_at(rows, row.clone());
        if some_are_empty {
            let start = self.stored(Role::ChunkStart)?;
            let from = self.b.bind("from", load_at(start, row.clone()));
            let next = self.b.bind("next", load_at(start, fold::add(row, fold::int(1))));
            total = fold::select(fold::compare(Cmp::Lt, from, next), total, fold::real(0.0, self.cx.real));
        }
        let name = format!("{}_new", self.sweep.values[value.0].name);
        Ok(self.b.bind(&name, total))
    }
}

/// Adds to a row that goes over several tiles, and ends in one, what those before it carried.
fn joins(cx: &Context, sweep: &Sweep, product: &Product, layout: &Layout, ahead: Ahead) -> Result<Made, MapError> {
    let name = &sweep.values[product.value.0].name;
    let mut eval = Eval::ahead(cx, sweep, &format!("{name}_joins"), ahead.stored());
    eval.b.doc.push(format!("{name}: rows that go over several tiles of entries"));
    // Tiles that a row can meet before the one it ends in.
    let before = (layout.longest + TILE - 2) / TILE;
    let group = if before <= FEW_TILES { 1 } else { i64::from(GROUP) };
    let groups = i64::from(JOINING) / group;
    let in_group = eval.b.bind("in_group", fold::rem(Expr::Lane(0), fold::int(group)));
    // The first tile continues nothing.
    let number = fold::add(fold::mul(Expr::Block(0), fold::int(groups)), fold::div(Expr::Lane(0), fold::int(group)));
    let tile = fold::var(eval.b.bind_here("tile", fold::add(number, fold::int(1))));
    let joined = Joined {
        sum: eval.b.declare("carried", fold::real(0.0, cx.real)),
        row: eval.b.declare("row", fold::int(0)),
        found: eval.b.declare("is_joined", Expr::Bool(false)),
    };
    let tiles = layout.entries.div_ceil(TILE);
    eval.open_if();
    if group == 1 {
        joined.few(&mut eval, layout, ahead, tile.clone(), before)?;
    } else {
        joined.many(&mut eval, layout, ahead, tile.clone(), &in_group)?;
    }
    eval.close_if(fold::compare(Cmp::Lt, tile, fold::int(tiles as i64)));
    let Joined { sum, row, found } = joined;
    let mut distance = group as u32 / 2;
    while distance > 0 {
        let other = eval.b.result("other", cx.real);
        eval.b.push(Stmt::Shuffle { var: other, value: fold::var(sum), mode: Shuffle::Xor(distance), width: GROUP });
        eval.b.push(Stmt::Assign(sum, fold::add(fold::var(sum), fold::var(other))));
        distance /= 2;
    }
    let rows = eval.ahead_rows(ahead, Access::ReadWrite);
    eval.open_if();
    let value = fold::binary(Op::Add, fold::var(sum), load_at(rows, fold::var(row)));
    eval.b.push(Stmt::Store { buffer: rows, index: fold::var(row), value });
    eval.close_if(fold::and(fold::var(found), fold::compare(Cmp::Eq, in_group, fold::int(0))));
    Ok(eval.b.finish([(tiles - 1).div_ceil(groups as u64), 1, 1], [JOINING, 1, 1], cx.index))
}

/// The row that goes on at the begin of a tile, if it ends there.
struct Joined {
    /// What tiles before carried of it.
    sum: VarId,
    row: VarId,
    /// Whether there is one.
    found: VarId,
}

impl Joined {
    /// A lane looks back over at most so many tiles: all that it reads is asked for at once.
    fn few(&self, eval: &mut Eval, layout: &Layout, ahead: Ahead, tile: Expr, before: u64) -> Result<(), MapError> {
        let (tile_row, heads) = (eval.stored(Role::TileRow)?, eval.stored(Role::Head)?);
        let carry = eval.ahead_carry(ahead, Access::Read);
        let open = fold::var(eval.b.bind_here("open", load_at(tile_row, tile.clone())));
        let next = fold::var(eval.b.bind_here("next", load_at(tile_row, fold::add(tile.clone(), fold::int(1)))));
        let begins = |eval: &mut Eval, tile: Expr| {
            let first = load_at(heads, fold::mul(tile, fold::int((TILE / HEADS) as i64)));
            fold::var(eval.b.bind_here("begins_there", fold::rem(first, fold::int(2))))
        };
        let mut read = Vec::new();
        let first = begins(eval, tile.clone());
        for distance in 1..=before as i64 {
            let there = fold::binary(Op::Max, fold::sub(tile.clone(), fold::int(distance)), fold::int(0));
            let there = fold::var(eval.b.bind_here("there", there));
            let row = fold::var(eval.b.bind_here("row_there", load_at(tile_row, there.clone())));
            let sum = fold::var(eval.b.bind_here("sum_there", load_at(carry, there.clone())));
            read.push((begins(eval, there), row, sum));
        }
        let row = eval.filled_row(layout, open.clone())?;
        let b = &mut eval.b;
        b.push(Stmt::Assign(self.row, row));
        // A tile carries of the row if that goes on at the begin of every tile since.
        let goes_on = |begins: Expr| fold::compare(Cmp::Eq, begins, fold::int(0));
        let mut on = goes_on(first);
        b.push(Stmt::Assign(self.found, fold::and(on.clone(), fold::compare(Cmp::Gt, next, open.clone()))));
        let mut carried = Vec::new();
        for (begins, row, sum) in read {
            on = fold::var(b.bind_here("goes_on", on));
            carried.push((on.clone(), sum));
            on = fold::and(fold::and(on, goes_on(begins)), fold::compare(Cmp::Eq, row, open.clone()));
        }
        for (on, sum) in carried.into_iter().rev() {
            let total = fold::add(fold::var(self.sum), sum);
            b.push(Stmt::Assign(self.sum, fold::select(on, total, fold::var(self.sum))));
        }
        Ok(())
    }

    /// A group of lanes adds up the tiles since the row's begin.
    fn many(
        &self,
        eval: &mut Eval,
        layout: &Layout,
        ahead: Ahead,
        tile: Expr,
        in_group: &Expr,
    ) -> Result<(), MapError> {
        let tile_row = eval.stored(Role::TileRow)?;
        let carry = eval.ahead_carry(ahead, Access::Read);
        let open = fold::var(eval.b.bind_here("open", load_at(tile_row, tile.clone())));
        let next = fold::var(eval.b.bind_here("next", load_at(tile_row, fold::add(tile.clone(), fold::int(1)))));
        let row = eval.filled_row(layout, open.clone())?;
        let row = fold::var(eval.b.bind_here("row_here", row));
        let from = eval.load(Role::ChunkStart, row.clone())?;
        let from = fold::var(eval.b.bind_here("from", from));
        let continues = fold::compare(Cmp::Lt, from.clone(), fold::mul(tile.clone(), fold::int(TILE as i64)));
        eval.b.push(Stmt::Assign(self.row, row));
        eval.b.push(Stmt::Assign(self.found, fold::and(continues, fold::compare(Cmp::Gt, next, open))));
        let first = fold::var(eval.b.bind_here("first_tile", fold::div(from, fold::int(TILE as i64))));
        let end = fold::select(fold::var(self.found), tile, first.clone());
        let end = fold::var(eval.b.bind_here("end", end));
        let at = eval.open_loop("at");
        let total = fold::add(fold::var(self.sum), load_at(carry, fold::var(at)));
        eval.b.push(Stmt::Assign(self.sum, total));
        let begin = fold::add(first, in_group.clone());
        eval.close_loop(at, begin, end, i64::from(GROUP), LoopKind::Unroll(4));
        Ok(())
    }
}
