//! Products cut by entries: what a block does with a tile of them ([`balanced`](super::balanced)).
//!
//! A lane has consecutive entries: it loads them as vectors, or lanes load them side by side and hand the terms over in
//! shared memory. Where rows begin is a bit of each entry, which waits for nothing. Lanes find by a segmented scan what was
//! open before them, and pass over their terms once more, now with that sum and the row's number. Nothing but the
//! unknowns is gathered, so that near caches are theirs.
//!
//! A row begins at the number of entries too: what stands in the last tile beyond them belongs to it, and is stored
//! nowhere.

use super::MapError;
use super::balanced::Ahead;
use super::builder::Builder;
use super::context::{Context, Made};
use super::eval::{Eval, load_at};
use super::fold;
use super::slots::Product;
use super::sums::GROUP;
use super::variant::Variant;
use crate::format::layout::{HEADS, Layout, Role, TILE};
use crate::kernel::{Access, BufferId, Cmp, Element, Expr, LoopKind, Scope, Shuffle, Space, Stmt, VarId};
use crate::loops::Sweep;

/// Lanes of a block at least: more entries a lane would not fit its registers.
const FEWEST: u32 = 128;
/// Lanes of a multiprocessor that leave each 40 registers, enough for four entries, or in f64 64, for more. Told nothing, the
/// compiler takes few and waits for what it has asked for before it asks for the rest.
const RESIDENT: [u32; 2] = [1536, 1024];
/// Entries of a lane that are few.
const FEW: i64 = 4;
/// Banks of shared memory, of four bytes each.
const BANKS: i64 = 32;

impl Variant {
    /// Lanes of a block that takes a tile of entries: a power of two.
    fn cut_lanes(&self) -> u32 {
        (1 << self.row_block().max(1).ilog2()).clamp(FEWEST, 1024)
    }
}

/// Forms the sums of the rows that end in each tile, and of the one that does not.
pub(super) fn parts(
    cx: &Context,
    sweep: &Sweep,
    product: &Product,
    layout: &Layout,
    ahead: Ahead,
) -> Result<Made, MapError> {
    let value = &sweep.values[product.value.0];
    let mut eval = Eval::ahead(cx, sweep, &format!("{}_parts", value.name), ahead.stored());
    let text = value.text.as_deref().unwrap_or(&value.name).trim_end_matches(';');
    eval.b.doc.push(format!("{text}: sums of rows, cut by entries"));
    let lanes = cx.options.variant.cut_lanes();
    let begin = eval.b.bind("begin", fold::mul(Expr::Block(0), fold::int(TILE as i64)));
    let (heads, tile_row) = (eval.stored(Role::Head)?, eval.stored(Role::TileRow)?);
    let items = TILE as i64 / i64::from(lanes);
    let mut tile = Tile { eval: &mut eval, product, layout, ahead, begin, items, lanes: i64::from(lanes) };
    let bits = tile.bits(heads);
    let first = tile.eval.b.bind("first", load_at(tile_row, Expr::Block(0)));
    let next = fold::mul(fold::add(Expr::Block(0), fold::int(1)), fold::int((TILE / HEADS) as i64));
    let ends = fold::rem(load_at(heads, next), fold::int(2));
    let ends = tile.eval.b.bind("ends_with_row", fold::compare(Cmp::Eq, ends, fold::int(1)));
    let staged = cx.options.variant.row_staged;
    let terms = if staged { tile.handed_over()? } else { tile.own_terms()? };
    let begins: Vec<Expr> = (0..items).map(|n| tile.begins(&bits, n)).collect();
    let before = tile.scan(&terms, &begins, first);
    tile.store(&terms, &begins, before, ends)?;
    let blocks = layout.entries.div_ceil(TILE);
    let how = if staged { "handed over in shared memory" } else { "each" };
    eval.b.doc.push(format!("tiles of {TILE} entries, {lanes} lanes, {items} entries {how}"));
    let (mut kernel, args) = eval.b.finish([blocks, 1, 1], [lanes, 1, 1], cx.index);
    let few = items <= FEW;
    let holds = few || cx.options.precision == Element::F64;
    let usual = holds.then_some((RESIDENT[usize::from(!few)] / lanes).max(1));
    kernel.hold(cx.options.variant.resident.or(usual));
    Ok((kernel, args))
}

/// What is open before a lane.
struct Before {
    /// Sum of its row so far.
    sum: Expr,
    /// Its row, by its number among those that have entries.
    row: Expr,
    /// Rows that begin among the lane's entries.
    count: VarId,
}

/// State of the kernel.
struct Tile<'p, 'e, 'a, 'c> {
    eval: &'e mut Eval<'a, 'c>,
    product: &'p Product,
    layout: &'p Layout,
    ahead: Ahead,
    /// First entry.
    begin: Expr,
    /// Entries of a lane, and lanes.
    items: i64,
    lanes: i64,
}

impl Tile<'_, '_, '_, '_> {
    /// Bits of the lane's entries that begin rows, the lowest for the first one; the tile's first entry counts as none.
    fn bits(&mut self, heads: BufferId) -> Expr {
        let of_tile = fold::mul(Expr::Block(0), fold::int((TILE / HEADS) as i64));
        let per = HEADS as i64 / self.items;
        let at = fold::add(of_tile, fold::div(Expr::Lane(0), fold::int(per)));
        let mut bits = fold::var(self.eval.b.bind_here("heads", load_at(heads, at)));
        // One of the parts of a word that are as long as a lane's entries: halves, until it is left.
        let (mut width, mut parts) = (HEADS as i64, per);
        while parts > 1 {
            (width, parts) = (width / 2, parts / 2);
            let upper = fold::rem(fold::div(Expr::Lane(0), fold::int(parts)), fold::int(2));
            let half = fold::int(1 << width);
            let (low, high) = (fold::rem(bits.clone(), half.clone()), fold::div(bits, half));
            let chosen = fold::select(fold::compare(Cmp::Eq, upper, fold::int(1)), high, low);
            bits = fold::var(self.eval.b.bind_here("heads_of_lane", chosen));
        }
        let even = fold::sub(bits.clone(), fold::rem(bits.clone(), fold::int(2)));
        let bits = fold::select(fold::compare(Cmp::Eq, Expr::Lane(0), fold::int(0)), even, bits);
        fold::var(self.eval.b.bind_here("begins_at", bits))
    }

    /// Whether a row begins at one of the lane's entries.
    fn begins(&mut self, bits: &Expr, item: i64) -> Expr {
        let bit = fold::rem(fold::div(bits.clone(), fold::int(1 << item)), fold::int(2));
        fold::var(self.eval.b.bind_here("begins", fold::compare(Cmp::Eq, bit, fold::int(1))))
    }

    /// Terms of the lane's own entries, which it loads itself: columns and entries of all first, then unknowns.
    fn own_terms(&mut self) -> Result<Vec<Expr>, MapError> {
        let own = fold::add(self.begin.clone(), fold::mul(Expr::Lane(0), fold::int(self.items)));
        let own = fold::var(self.eval.b.bind_here("own", own));
        let cells = if self.layout.entries.is_multiple_of(TILE) { self.as_vectors(&own)? } else { self.near(&own)? };
        self.terms(cells)
    }

    /// Columns and entries from a cell on, as vectors.
    fn as_vectors(&mut self, own: &Expr) -> Result<Vec<[Expr; 2]>, MapError> {
        let (column, value) = (self.eval.stored(Role::Column)?, self.eval.stored(Role::Value)?);
        let real = self.eval.cx.real;
        let width = self.items.min(4);
        let b = &mut self.eval.b;
        let mut cells = Vec::new();
        for n in 0..self.items / width {
            let at = fold::add(own.clone(), fold::int(n * width));
            let columns: Vec<VarId> = (0..width).map(|_| b.result("column_at", crate::kernel::Type::Int)).collect();
            let entries: Vec<VarId> = (0..width).map(|_| b.result("entry", real)).collect();
            b.push(Stmt::LoadWide { vars: columns.clone(), buffer: column, index: at.clone() });
            b.push(Stmt::LoadWide { vars: entries.clone(), buffer: value, index: at });
            cells.extend(columns.into_iter().zip(entries).map(|(c, e)| [fold::var(c), fold::var(e)]));
        }
        Ok(cells)
    }

    /// The same of a tile that may end before the lane's entries do, which then takes the last one instead.
    fn near(&mut self, own: &Expr) -> Result<Vec<[Expr; 2]>, MapError> {
        let zero = fold::real(0.0, self.eval.cx.real);
        let declared: Vec<[VarId; 2]> = (0..self.items)
            .map(|_| {
                let b = &mut self.eval.b;
                [b.declare("column_near", fold::int(0)), b.declare("entry_near", zero.clone())]
            })
            .collect();
        let assign = |b: &mut Builder, cells: Vec<[Expr; 2]>| {
            for (vars, cell) in declared.iter().zip(cells) {
                vars.iter().zip(cell).for_each(|(&var, value)| b.push(Stmt::Assign(var, value)));
            }
        };
        self.eval.open_if();
        let cells = self.as_vectors(own)?;
        assign(&mut self.eval.b, cells);
        let then = self.eval.close_block();
        self.eval.open_if();
        let positions: Vec<Expr> = (0..self.items).map(|n| fold::add(own.clone(), fold::int(n))).collect();
        let cells = self.one_by_one(positions)?;
        assign(&mut self.eval.b, cells);
        let otherwise = self.eval.close_block();
        let end = fold::int(self.layout.entries as i64 - self.items);
        self.eval.b.push(Stmt::If { cond: fold::compare(Cmp::Le, own.clone(), end), then, otherwise });
        Ok(declared.into_iter().map(|vars| vars.map(fold::var)).collect())
    }

    /// Columns and entries of cells, the last one for those beyond it.
    fn one_by_one(&mut self, positions: Vec<Expr>) -> Result<Vec<[Expr; 2]>, MapError> {
        let (column, value) = (self.eval.stored(Role::Column)?, self.eval.stored(Role::Value)?);
        let last = fold::int(self.layout.entries as i64 - 1);
        let whole = self.layout.entries.is_multiple_of(TILE);
        let b = &mut self.eval.b;
        let cell = |position: Expr| {
            let at = if whole { position } else { fold::min(position, last.clone()) };
            let at = fold::var(b.bind_here("at", at));
            let column = fold::var(b.bind_here("column_at", load_at(column, at.clone())));
            [column, fold::var(b.bind_here("entry", load_at(value, at)))]
        };
        Ok(positions.into_iter().map(cell).collect())
    }

    /// Terms of cells.
    fn terms(&mut self, cells: Vec<[Expr; 2]>) -> Result<Vec<Expr>, MapError> {
        let mut terms = Vec::new();
        for [column, entry] in cells {
            let column = self.eval.known_column(self.layout, column);
            terms.push(self.eval.slot_term(self.product.reading, &entry, column)?);
        }
        Ok(terms.into_iter().map(|term| fold::var(self.eval.b.bind_here("term", term))).collect())
    }

    /// Terms that lanes form side by side, through shared memory, where those of a lane lie a stride apart: chosen so that
    /// neither writing them side by side nor reading them lane by lane meets a bank twice.
    fn handed_over(&mut self) -> Result<Vec<Expr>, MapError> {
        let precision = self.eval.cx.options.precision;
        let stride = self.lanes + (BANKS * 4 / precision.bytes() as i64 / self.items).max(1);
        let shared = self.eval.b.local("terms", Space::Shared, precision, (self.items * stride) as u64);
        let position = |n: i64| fold::add(Expr::Lane(0), fold::int(n * self.lanes));
        let positions: Vec<Expr> = (0..self.items).map(position).collect();
        let begin = self.begin.clone();
        let cells = self.one_by_one(positions.iter().map(|p| fold::add(begin.clone(), p.clone())).collect())?;
        let formed = self.terms(cells)?;
        let items = fold::int(self.items);
        let b = &mut self.eval.b;
        for (position, value) in positions.into_iter().zip(formed) {
            let of_lane = fold::mul(fold::rem(position.clone(), items.clone()), fold::int(stride));
            let index = fold::add(of_lane, fold::div(position, items.clone()));
            b.push(Stmt::Store { buffer: shared, index, value });
        }
        b.push(Stmt::Barrier(Scope::Block));
        let own = |n: i64| load_at(shared, fold::add(Expr::Lane(0), fold::int(n * stride)));
        Ok((0..self.items).map(|n| fold::var(b.bind_here("term", own(n)))).collect())
    }

    /// What is open before the lane: sums and counts of rows begun, of the lanes of a group by shuffles, of groups in order.
    fn scan(&mut self, terms: &[Expr], begins: &[Expr], first: Expr) -> Before {
        let group = fold::int(i64::from(GROUP));
        let in_group = self.eval.b.bind("in_group", fold::rem(Expr::Lane(0), group.clone()));
        let number = self.eval.b.bind("group", fold::div(Expr::Lane(0), group));
        let (sum, count) = self.of_lane(terms, begins);
        let b = &mut self.eval.b;
        let open = b.declare("open_sum", fold::var(sum));
        let begun = b.declare("begun", fold::var(count));
        let mut distance = 1;
        while distance < GROUP {
            let (earlier, more) = (up(b, fold::var(open), distance), up(b, fold::var(begun), distance));
            let reaches = fold::compare(Cmp::Ge, in_group.clone(), fold::int(i64::from(distance)));
            let reaches = fold::var(b.bind_here("reaches", reaches));
            // Until here a lane counts the rows begun in as many lanes as its sum is of.
            let joins = fold::and(reaches.clone(), fold::compare(Cmp::Eq, fold::var(begun), fold::int(0)));
            let total = fold::add(earlier, fold::var(open));
            b.push(Stmt::Assign(open, fold::select(joins, total, fold::var(open))));
            let all = fold::add(fold::var(begun), more);
            b.push(Stmt::Assign(begun, fold::select(reaches, all, fold::var(begun))));
            distance *= 2;
        }
        let (carried, before) = self.across([open, begun], &in_group, number);
        let b = &mut self.eval.b;
        let (earlier, count_before) = (up(b, fold::var(open), 1), up(b, fold::var(begun), 1));
        let inner = b.bind("inner", fold::compare(Cmp::Gt, in_group, fold::int(0)));
        let here = b.bind("begun_in_group", fold::select(inner.clone(), count_before, fold::int(0)));
        let joined = fold::add(fold::var(carried), earlier.clone());
        let in_this = fold::select(fold::compare(Cmp::Gt, here.clone(), fold::int(0)), earlier, joined);
        let sum = b.bind("sum_before", fold::select(inner, in_this, fold::var(carried)));
        let row = b.bind("row_before", fold::add(first, fold::add(fold::var(before), here)));
        Before { sum, row, count }
    }

    /// The lane's sum since the last row that begins there, and how many do.
    fn of_lane(&mut self, terms: &[Expr], begins: &[Expr]) -> (VarId, VarId) {
        let b = &mut self.eval.b;
        let sum = b.declare("tail", fold::real(0.0, self.eval.cx.real));
        let count = b.declare("count", fold::int(0));
        for (term, begins) in terms.iter().zip(begins) {
            let more = fold::add(fold::var(sum), term.clone());
            b.push(Stmt::Assign(sum, fold::select(begins.clone(), term.clone(), more)));
            let one = fold::select(begins.clone(), fold::int(1), fold::int(0));
            b.push(Stmt::Assign(count, fold::add(fold::var(count), one)));
        }
        (sum, count)
    }

    /// What is open before a group, and how many rows have begun: over the groups before it.
    fn across(&mut self, of_group: [VarId; 2], in_group: &Expr, number: Expr) -> (VarId, VarId) {
        let groups = self.lanes as u64 / u64::from(GROUP);
        let b = &mut self.eval.b;
        let buffers = [("group_sums", self.eval.cx.options.precision), ("group_begun", Element::I32)];
        let buffers = buffers.map(|(name, element)| b.local(name, Space::Shared, element, groups));
        b.open_if();
        for (buffer, var) in buffers.into_iter().zip(of_group) {
            b.push(Stmt::Store { buffer, index: number.clone(), value: fold::var(var) });
        }
        b.close_if(fold::compare(Cmp::Eq, in_group.clone(), fold::int(i64::from(GROUP) - 1)));
        b.push(Stmt::Barrier(Scope::Block));
        let carried = b.declare("carried", fold::real(0.0, self.eval.cx.real));
        let count = b.declare("begun_before", fold::int(0));
        let before = b.open_loop("before_group");
        let [sum, begun] = buffers.map(|buffer| load_at(buffer, fold::var(before)));
        let sum = fold::var(b.bind_here("sum_there", sum));
        let begun = fold::var(b.bind_here("begun_there", begun));
        let joined = fold::add(fold::var(carried), sum.clone());
        let any = fold::compare(Cmp::Gt, begun.clone(), fold::int(0));
        b.push(Stmt::Assign(carried, fold::select(any, sum, joined)));
        b.push(Stmt::Assign(count, fold::add(fold::var(count), begun)));
        b.close_loop(before, fold::int(0), number, 1, LoopKind::Sequential);
        (carried, count)
    }

    /// Stores the rows that end among the lane's entries; after the last lane's, the row that is open then.
    fn store(&mut self, terms: &[Expr], begins: &[Expr], before: Before, ends: Expr) -> Result<(), MapError> {
        let zero = fold::real(0.0, self.eval.cx.real);
        let last = fold::compare(Cmp::Eq, Expr::Lane(0), fold::int(self.lanes - 1));
        let last = self.eval.b.bind("is_last", last);
        self.eval.open_if();
        let sum = self.eval.b.declare("sum", before.sum);
        let row = self.eval.b.declare("row_number", before.row);
        for (term, begins) in terms.iter().zip(begins) {
            self.eval.open_if();
            self.put_row(row, sum)?;
            self.eval.b.push(Stmt::Assign(row, fold::add(fold::var(row), fold::int(1))));
            self.eval.b.push(Stmt::Assign(sum, zero.clone()));
            self.eval.close_if(begins.clone());
            self.eval.b.push(Stmt::Assign(sum, fold::add(fold::var(sum), term.clone())));
        }
        self.eval.open_if();
        self.eval.open_if();
        self.put_row(row, sum)?;
        self.eval.close_if(ends);
        // What is carried of a row that ended is not used.
        let buffer = self.eval.ahead_carry(self.ahead, Access::Write);
        self.eval.b.push(Stmt::Store { buffer, index: Expr::Block(0), value: fold::var(sum) });
        self.eval.close_if(last.clone());
        let any = fold::compare(Cmp::Gt, fold::var(before.count), fold::int(0));
        self.eval.close_if(fold::or(any, last));
        Ok(())
    }

    fn put_row(&mut self, row: VarId, sum: VarId) -> Result<(), MapError> {
        let index = self.eval.filled_row(self.layout, fold::var(row))?;
        let buffer = self.eval.ahead_rows(self.ahead, Access::Write);
        self.eval.b.push(Stmt::Store { buffer, index, value: fold::var(sum) });
        Ok(())
    }
}

/// The value of the lane so many before.
fn up(b: &mut Builder, value: Expr, distance: u32) -> Expr {
    let ty = b.type_of(&value);
    let var = b.result("earlier", ty);
    b.push(Stmt::Shuffle { var, value, mode: Shuffle::Up(distance), width: GROUP });
    fold::var(var)
}
