//! Products cut by entries: every block takes as many, however they spread over rows.
//!
//! After Merrill and Garland 2016 (merge-based SpMV) in what a lane does within a tile, with tiles of equal numbers of
//! entries; a product takes two launches ahead of the sweep that reads it:
//! 1. *parts*: a block forms the terms of its tile side by side, marks where rows begin, and adds up: a lane its
//!    consecutive terms, a segmented scan over lanes the rest. A row that ends within the tile, another following, goes
//!    to `rows`; the sum of the row that is open at the tile's end goes to `carry`;
//! 2. *runs*: the carries of a row that is open at the end of several tiles are added into its first one.
//!
//! The sweep then finds the product of a row as at most two numbers ([`Eval::formed_ahead`]). All orders are fixed.

use super::MapError;
use super::context::{Context, Made};
use super::eval::{Eval, load_at};
use super::fold;
use super::point;
use super::slots::Product;
use super::sums::GROUP;
use crate::format::layout::{Layout, Role, TILE};
use crate::kernel::{Access, BufferId, Cmp, Element, Expr, IndexWidth, LoopKind, Scope, Shuffle, Space, Stmt, VarId};
use crate::loops::{SweepId, ValueId};
use crate::module::Arg;

/// Lanes of a block.
const LANES: u32 = 256;
/// Entries of a lane.
const ITEMS: i64 = TILE as i64 / LANES as i64;
/// Distance of a lane's terms in shared memory: chosen so that neither writing them side by side nor reading them lane
/// by lane meets a bank twice.
const STRIDE: i64 = LANES as i64 + GROUP as i64 / ITEMS;
/// Blocks of a multiprocessor that leave 64 registers a lane: by itself the compiler takes 32 in f64, and waits when ten of a
/// lane's 27 loads are on their way.
const RESIDENT_F64: u32 = 4;

/// Buffers of a product that was formed ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ahead {
    /// Sums of rows that end within a tile.
    rows: usize,
    /// Sums of the rows that are open at the end of each tile.
    carry: usize,
    /// Their rows.
    open: usize,
}

/// Maps a sweep: two launches for each product, and the sweep.
pub(super) fn kernels(
    cx: &mut Context,
    sweep: SweepId,
    products: &[Product],
    layout: &Layout,
) -> Result<Vec<Made>, MapError> {
    let program = cx.program;
    let of = &program.sweeps[sweep.0];
    let mut made = Vec::new();
    for product in products {
        let name = &of.values[product.value.0].name;
        let (real, index) = (cx.options.precision, index_element(cx.index));
        let tiles = layout.entries.div_ceil(TILE);
        let ahead = Ahead {
            rows: cx.buffer(format!("{name}_rows"), real, layout.size),
            carry: cx.buffer(format!("{name}_carry"), real, tiles),
            open: cx.buffer(format!("{name}_open"), index, tiles),
        };
        made.push(parts(cx, sweep, product, layout, ahead)?);
        made.push(runs(cx, sweep, product, layout, ahead)?);
        cx.ahead.insert(product.value, ahead);
    }
    made.push(point::kernel(cx, sweep)?);
    cx.ahead.clear();
    Ok(made)
}

fn index_element(index: IndexWidth) -> Element {
    if index == IndexWidth::I32 { Element::I32 } else { Element::I64 }
}

/// Where a term lies in shared memory: those of a lane a stride apart.
fn place(position: &Expr) -> Expr {
    let (items, stride) = (fold::int(ITEMS), fold::int(STRIDE));
    fold::add(fold::mul(fold::rem(position.clone(), items.clone()), stride), fold::div(position.clone(), items))
}

fn positive(e: Expr) -> Expr {
    fold::compare(Cmp::Gt, e, fold::int(0))
}

/// State of the kernel that forms parts.
struct Parts<'p, 'e, 'a, 'c> {
    eval: &'e mut Eval<'a, 'c>,
    product: &'p Product,
    ahead: Ahead,
    layout: &'p Layout,
    terms: BufferId,
    heads: BufferId,
    /// First entry of the tile, and how many it has.
    begin: Expr,
    count: Expr,
    /// Row of the first entry.
    first: Expr,
}

/// What a lane found in its terms.
struct Found {
    /// Sum before the first row that begins here.
    before: VarId,
    /// Sum since the last one.
    tail: VarId,
    /// Whether any begins here (1 or 0).
    seen: VarId,
    /// The last one, by its number in the tile from 1; 0 if none.
    last: VarId,
}

fn parts(cx: &Context, sweep: SweepId, product: &Product, layout: &Layout, ahead: Ahead) -> Result<Made, MapError> {
    let stored = vec![Arg::Module(ahead.rows), Arg::Module(ahead.carry), Arg::Module(ahead.open)];
    let sweep = &cx.program.sweeps[sweep.0];
    let value = &sweep.values[product.value.0];
    let mut eval = Eval::ahead(cx, sweep, &format!("{}_parts", value.name), stored);
    let text = value.text.as_deref().unwrap_or(&value.name).trim_end_matches(';');
    eval.b.doc.push(format!("{text}: sums of rows, cut by entries"));
    let words = (ITEMS * STRIDE) as u64;
    let terms = eval.b.local("terms", Space::Shared, cx.options.precision, words);
    let heads = eval.b.local("heads", Space::Shared, Element::I32, words);
    let begin = eval.b.bind("begin", fold::mul(Expr::Block(0), fold::int(TILE as i64)));
    let rest = fold::sub(fold::int(layout.entries as i64), begin.clone());
    let count = eval.b.bind("count", fold::min(rest, fold::int(TILE as i64)));
    let tile_row = eval.stored(Role::TileRow)?;
    let first = eval.b.bind("first", load_at(tile_row, Expr::Block(0)));
    let end = eval.b.bind("last", load_at(tile_row, fold::add(Expr::Block(0), fold::int(1))));
    let mut parts = Parts { eval: &mut eval, product, ahead, layout, terms, heads, begin, count, first };
    // Terms first: what they wait for is not known from the rows of the tile, which are asked for meanwhile.
    parts.clear();
    parts.form()?;
    parts.eval.b.push(Stmt::Barrier(Scope::Block));
    parts.marks(end)?;
    parts.eval.b.push(Stmt::Barrier(Scope::Block));
    let found = parts.add_up();
    parts.join(&found);
    let blocks = layout.entries.div_ceil(TILE);
    let (mut kernel, args) = eval.b.finish([blocks, 1, 1], [LANES, 1, 1], cx.index);
    let wide = cx.options.precision == Element::F64;
    kernel.hold(cx.options.variant.resident.or(wide.then_some(RESIDENT_F64)));
    Ok((kernel, args))
}

impl Parts<'_, '_, '_, '_> {
    /// A store to a buffer of the module.
    fn put(&mut self, buffer: usize, index: Expr, value: Expr) {
        let of = &self.eval.cx.buffers[buffer];
        let (name, element, len) = (of.name.clone(), of.element, of.len);
        let buffer = self.eval.b.global(Arg::Module(buffer), &name, element, len, Access::Write);
        self.eval.b.push(Stmt::Store { buffer, index, value });
    }

    /// No row begins anywhere.
    fn clear(&mut self) {
        let item = self.eval.open_loop("item");
        let index = fold::add(fold::mul(fold::var(item), fold::int(STRIDE)), Expr::Lane(0));
        self.eval.b.push(Stmt::Store { buffer: self.heads, index, value: fold::int(0) });
        self.eval.close_loop(item, fold::int(0), fold::int(ITEMS), 1, LoopKind::Unroll(0));
    }

    /// Marks the first entry of every row that begins in the tile.
    fn marks(&mut self, last: Expr) -> Result<(), MapError> {
        let start = self.eval.stored(Role::ChunkStart)?;
        let eval = &mut *self.eval;
        let row = eval.open_loop("row");
        let from = fold::var(eval.b.bind_here("from", load_at(start, fold::var(row))));
        let next = load_at(start, fold::add(fold::var(row), fold::int(1)));
        let next = fold::var(eval.b.bind_here("next", next));
        let inside = fold::compare(Cmp::Ge, from.clone(), self.begin.clone());
        let position = fold::sub(from.clone(), self.begin.clone());
        let inside = fold::and(inside, fold::compare(Cmp::Lt, position.clone(), self.count.clone()));
        let inside = fold::and(inside, fold::compare(Cmp::Gt, next, from));
        eval.open_if();
        let position = fold::var(eval.b.bind_here("position", position));
        let value = fold::add(fold::sub(fold::var(row), self.first.clone()), fold::int(1));
        eval.b.push(Stmt::Store { buffer: self.heads, index: place(&position), value });
        eval.close_if(inside);
        let begin = fold::add(self.first.clone(), Expr::Lane(0));
        let end = fold::add(last, fold::int(1));
        eval.close_loop(row, begin, end, i64::from(LANES), LoopKind::Sequential);
        Ok(())
    }

    /// The terms of the tile, side by side: columns and entries of all of a lane's first, then unknowns. Lanes beyond the
    /// last entry take that one and leave zero, so that no branch stands between loads.
    fn form(&mut self) -> Result<(), MapError> {
        let (column, values) = (self.eval.stored(Role::Column)?, self.eval.stored(Role::Value)?);
        let zero = fold::real(0.0, self.eval.cx.real);
        let eval = &mut *self.eval;
        let last = eval.b.bind("last_entry", fold::sub(self.count.clone(), fold::int(1)));
        let mut read = Vec::new();
        for item in 0..ITEMS {
            let position = fold::add(Expr::Lane(0), fold::int(item * i64::from(LANES)));
            let position = fold::var(eval.b.bind_here("position", position));
            let near = fold::min(position.clone(), last.clone());
            let at = fold::var(eval.b.bind_here("at", fold::add(self.begin.clone(), near)));
            let here = eval.known_column(self.layout, load_at(column, at.clone()));
            let entry = fold::var(eval.b.bind_here("entry", load_at(values, at)));
            read.push((position, here, entry));
        }
        let mut terms = Vec::new();
        for (position, here, entry) in read {
            let term = eval.slot_term(self.product.reading, &entry, here)?;
            terms.push((position, term));
        }
        for (position, term) in terms {
            let within = fold::compare(Cmp::Lt, position.clone(), self.count.clone());
            let value = fold::select(within, term, zero.clone());
            eval.b.push(Stmt::Store { buffer: self.terms, index: place(&position), value });
        }
        Ok(())
    }

    /// A lane's consecutive terms; rows that begin and end among them are done.
    fn add_up(&mut self) -> Found {
        let zero = fold::real(0.0, self.eval.cx.real);
        let before = self.eval.b.declare("before", zero.clone());
        let tail = self.eval.b.declare("tail", zero.clone());
        let seen = self.eval.b.declare("seen", fold::int(0));
        let last = self.eval.b.declare("last_seen", fold::int(0));
        let item = self.eval.open_loop("item");
        let index = fold::add(fold::mul(fold::var(item), fold::int(STRIDE)), Expr::Lane(0));
        let index = fold::var(self.eval.b.bind_here("place", index));
        let head = fold::var(self.eval.b.bind_here("head", load_at(self.heads, index.clone())));
        self.eval.open_if();
        self.eval.open_if();
        let row = fold::add(self.first.clone(), fold::sub(fold::var(last), fold::int(1)));
        self.put(self.ahead.rows, row, fold::var(tail));
        self.eval.close_if(positive(fold::var(seen)));
        let b = &mut self.eval.b;
        b.push(Stmt::Assign(before, fold::select(positive(fold::var(seen)), fold::var(before), fold::var(tail))));
        b.push(Stmt::Assign(seen, fold::int(1)));
        b.push(Stmt::Assign(last, head.clone()));
        b.push(Stmt::Assign(tail, zero));
        self.eval.close_if(positive(head));
        let term = load_at(self.terms, index);
        self.eval.b.push(Stmt::Assign(tail, fold::add(fold::var(tail), term)));
        self.eval.close_loop(item, fold::int(0), fold::int(ITEMS), 1, LoopKind::Unroll(0));
        Found { before, tail, seen, last }
    }

    /// Joins the lanes: a segmented scan of tails gives each lane the sum, and the row, that was open before it.
    fn join(&mut self, found: &Found) {
        let group = fold::int(i64::from(GROUP));
        let in_group = self.eval.b.bind("in_group", fold::rem(Expr::Lane(0), group.clone()));
        let number = self.eval.b.bind("group", fold::div(Expr::Lane(0), group));
        let scanned = self.scan(found, &in_group);
        let (carry, carry_last) = self.across(&scanned, &in_group, number);
        let b = &mut self.eval.b;
        let [sum, flag, last] = scanned.map(|var| up(b, fold::var(var), 1));
        let inner = b.bind("inner", positive(in_group));
        let open_before = fold::and(inner.clone(), positive(flag));
        let before = fold::select(inner, fold::add(sum.clone(), fold::var(carry)), fold::var(carry));
        let before = fold::select(open_before.clone(), sum, before);
        let before = b.bind("sum_before", before);
        let row = b.bind("open_before", fold::select(open_before, last, fold::var(carry_last)));
        // A row that begins with the tile has nothing before it.
        let begins = fold::compare(Cmp::Eq, Expr::Lane(0), fold::int(0));
        let begins = fold::and(begins, positive(load_at(self.heads, fold::int(0))));
        let ends = b.bind("ends", fold::and(positive(fold::var(found.seen)), fold::not(begins)));
        self.eval.open_if();
        let total = fold::add(before, fold::var(found.before));
        let at = self.row_of(row);
        self.put(self.ahead.rows, at, total);
        self.eval.close_if(ends);
        let [sum, flag, last] = scanned.map(fold::var);
        let flag = positive(flag);
        self.eval.open_if();
        let total = fold::select(flag.clone(), sum.clone(), fold::add(sum, fold::var(carry)));
        self.put(self.ahead.carry, Expr::Block(0), total);
        let at = self.row_of(fold::select(flag, last, fold::var(carry_last)));
        self.put(self.ahead.open, Expr::Block(0), at);
        self.eval.close_if(fold::compare(Cmp::Eq, Expr::Lane(0), fold::int(i64::from(LANES) - 1)));
    }

    /// The row of a number in the tile; 0 is the one open at its begin, the first.
    fn row_of(&self, number: Expr) -> Expr {
        let number = fold::sub(fold::binary(crate::kernel::Op::Max, number, fold::int(1)), fold::int(1));
        fold::add(self.first.clone(), number)
    }

    /// Tails, whether a row begins, and the last one, added up over the lanes of a group.
    fn scan(&mut self, found: &Found, in_group: &Expr) -> [VarId; 3] {
        let b = &mut self.eval.b;
        let scanned = [("scanned", found.tail), ("begun", found.seen), ("open", found.last)];
        let scanned = scanned.map(|(name, var)| b.declare(name, fold::var(var)));
        let [sum, flag, last] = scanned;
        let mut distance = 1;
        while distance < GROUP {
            let [other, begun, row] = scanned.map(|var| up(b, fold::var(var), distance));
            let reaches = fold::compare(Cmp::Ge, in_group.clone(), fold::int(i64::from(distance)));
            let joins = fold::and(reaches, fold::compare(Cmp::Eq, fold::var(flag), fold::int(0)));
            let joins = fold::var(b.bind_here("joins", joins));
            let total = fold::add(fold::var(sum), other);
            b.push(Stmt::Assign(sum, fold::select(joins.clone(), total, fold::var(sum))));
            b.push(Stmt::Assign(last, fold::select(joins.clone(), row, fold::var(last))));
            b.push(Stmt::Assign(flag, fold::select(joins, begun, fold::var(flag))));
            distance *= 2;
        }
        scanned
    }

    /// What is open before a group: over the groups before it.
    fn across(&mut self, scanned: &[VarId; 3], in_group: &Expr, number: Expr) -> (VarId, VarId) {
        let groups = u64::from(LANES / GROUP);
        let element = self.eval.cx.options.precision;
        let b = &mut self.eval.b;
        let buffers = [("group_sums", element), ("group_begun", Element::I32), ("group_open", Element::I32)];
        let buffers = buffers.map(|(name, element)| b.local(name, Space::Shared, element, groups));
        b.open_if();
        for (buffer, var) in buffers.into_iter().zip(scanned) {
            b.push(Stmt::Store { buffer, index: number.clone(), value: fold::var(*var) });
        }
        b.close_if(fold::compare(Cmp::Eq, in_group.clone(), fold::int(i64::from(GROUP) - 1)));
        b.push(Stmt::Barrier(Scope::Block));
        let carry = b.declare("carried", fold::real(0.0, self.eval.cx.real));
        let last = b.declare("carried_open", fold::int(0));
        let before = b.open_loop("before_group");
        let [sum, begun, open] = buffers.map(|buffer| load_at(buffer, fold::var(before)));
        let begun = fold::var(b.bind_here("begun_there", positive(begun)));
        let sum = fold::var(b.bind_here("sum_there", sum));
        let added = fold::add(fold::var(carry), sum.clone());
        b.push(Stmt::Assign(carry, fold::select(begun.clone(), sum, added)));
        b.push(Stmt::Assign(last, fold::select(begun, open, fold::var(last))));
        b.close_loop(before, fold::int(0), number, 1, LoopKind::Sequential);
        (carry, last)
    }
}

/// The value of the lane so many before.
fn up(b: &mut super::builder::Builder, value: Expr, distance: u32) -> Expr {
    let ty = b.type_of(&value);
    let var = b.result("earlier", ty);
    b.push(Stmt::Shuffle { var, value, mode: Shuffle::Up(distance), width: GROUP });
    fold::var(var)
}

/// How a row meets the tiles.
struct Span {
    /// Tile of the first entry.
    first: Expr,
    /// Tile of the last entry.
    last: Expr,
    /// Whether the row has entries and ends within its last tile, another row following there.
    ends: Expr,
    /// Whether it has no entries.
    empty: Expr,
}

impl Eval<'_, '_> {
    fn span(&mut self, row: &Expr, entries: u64) -> Result<Span, MapError> {
        let (tile, start) = (fold::int(TILE as i64), self.stored(Role::ChunkStart)?);
        let from = self.b.bind("from", load_at(start, row.clone()));
        let next = self.b.bind("next", load_at(start, fold::add(row.clone(), fold::int(1))));
        let empty = fold::compare(Cmp::Eq, from.clone(), next.clone());
        let first = self.b.bind("first_tile", fold::div(from, tile.clone()));
        let before = fold::sub(fold::binary(crate::kernel::Op::Max, next.clone(), fold::int(1)), fold::int(1));
        let last = self.b.bind("last_tile", fold::div(before, tile.clone()));
        let end = fold::mul(fold::add(last.clone(), fold::int(1)), tile);
        let following = fold::compare(Cmp::Lt, next, fold::min(end, fold::int(entries as i64)));
        let ends = fold::and(fold::not(empty.clone()), following);
        let ends = self.b.bind("ends_within", ends);
        Ok(Span { first, last, ends, empty })
    }

    /// A buffer of the module that is read.
    fn read_ahead(&mut self, number: usize) -> BufferId {
        let of = &self.cx.buffers[number];
        let (name, element, len) = (of.name.clone(), of.element, of.len);
        self.b.global(Arg::Module(number), &name, element, len, Access::Read)
    }

    /// The product of a row that was formed ahead of the sweep.
    pub(super) fn formed_ahead(&mut self, value: ValueId, row: Expr) -> Result<Expr, MapError> {
        let ahead = self.cx.ahead[&value];
        let entries = self.cx.operator().space.rows().map_or(0, |rows| rows.layout.entries);
        let Span { first, last, ends, empty } = self.span(&row, entries)?;
        let (rows, carry) = (self.read_ahead(ahead.rows), self.read_ahead(ahead.carry));
        let zero = fold::real(0.0, self.cx.real);
        let ended = fold::select(ends.clone(), load_at(rows, row), zero.clone());
        let alone = fold::and(ends, fold::compare(Cmp::Eq, first.clone(), last));
        let within = self.b.bind("ended_here", ended);
        let joined = fold::add(load_at(carry, first), within.clone());
        let total = fold::select(empty, zero, fold::select(alone, within, joined));
        let name = format!("{}_new", self.sweep.values[value.0].name);
        Ok(self.b.bind(&name, total))
    }
}

/// Adds the carries of rows that are open at the end of several tiles; a group of lanes a tile.
fn runs(cx: &Context, sweep: SweepId, product: &Product, layout: &Layout, ahead: Ahead) -> Result<Made, MapError> {
    let sweep = &cx.program.sweeps[sweep.0];
    let name = &sweep.values[product.value.0].name;
    let mut eval = Eval::ahead(cx, sweep, &format!("{name}_runs"), vec![Arg::Module(ahead.carry)]);
    eval.b.doc.push(format!("{name}: sums of rows that go over several tiles"));
    let tiles = layout.entries.div_ceil(TILE);
    let group = i64::from(GROUP);
    let groups = i64::from(LANES) / group;
    let in_group = eval.b.bind("in_group", fold::rem(Expr::Lane(0), fold::int(group)));
    let tile = fold::mul(Expr::Block(0), fold::int(groups));
    let tile = fold::var(eval.b.bind_here("tile", fold::add(tile, fold::div(Expr::Lane(0), fold::int(group)))));
    let sum = eval.b.declare("sum", fold::real(0.0, cx.real));
    let longer = eval.b.declare("is_longer", Expr::Bool(false));
    let (open, of) = (eval.read_ahead(ahead.open), &cx.buffers[ahead.carry]);
    let carry = eval.b.global(Arg::Module(ahead.carry), &of.name, of.element, of.len, Access::ReadWrite);
    eval.open_if();
    let row = fold::var(eval.b.bind_here("row", load_at(open, tile.clone())));
    let Span { first, last, ends, .. } = eval.span(&row, layout.entries)?;
    let last = fold::select(ends, fold::sub(last.clone(), fold::int(1)), last);
    let last = eval.b.bind("last_open", last);
    let run =
        fold::and(fold::compare(Cmp::Eq, first, tile.clone()), fold::compare(Cmp::Gt, last.clone(), tile.clone()));
    eval.b.push(Stmt::Assign(longer, run));
    let end = fold::select(fold::var(longer), fold::add(last, fold::int(1)), tile.clone());
    let end = fold::var(eval.b.bind_here("end", end));
    let at = eval.open_loop("at");
    let total = fold::add(fold::var(sum), load_at(carry, fold::var(at)));
    eval.b.push(Stmt::Assign(sum, total));
    eval.close_loop(at, fold::add(tile.clone(), in_group.clone()), end, group, LoopKind::Unroll(4));
    eval.close_if(fold::compare(Cmp::Lt, tile.clone(), fold::int(tiles as i64)));
    let mut distance = GROUP / 2;
    while distance > 0 {
        let other = eval.b.result("other", cx.real);
        eval.b.push(Stmt::Shuffle { var: other, value: fold::var(sum), mode: Shuffle::Xor(distance), width: GROUP });
        eval.b.push(Stmt::Assign(sum, fold::add(fold::var(sum), fold::var(other))));
        distance /= 2;
    }
    eval.open_if();
    eval.b.push(Stmt::Store { buffer: carry, index: tile, value: fold::var(sum) });
    eval.close_if(fold::and(fold::compare(Cmp::Eq, in_group, fold::int(0)), fold::var(longer)));
    Ok(eval.b.finish([tiles.div_ceil(groups as u64), 1, 1], [LANES, 1, 1], cx.index))
}
