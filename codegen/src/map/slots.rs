//! Products of a matrix: the walk over the slots of a row.
//!
//! All products of a sweep with the matrix are formed in one walk, so that the matrix is read once. Where a cell lies is
//! the table in [`format`](crate::format); what does not depend on the slot is bound outside the loop.

use super::MapError;
use super::context::Context;
use super::eval::{Eval, load_at};
use super::fold;
use super::position::{Coord, Position};
use super::rows::Reading;
use crate::format::layout::{Layout, Role, Starts, nest};
use crate::kernel::{Access, BufferId, Cmp, Expr, LoopKind, Stmt, VarId};
use crate::loops::{Sweep, ValueId, ValueKind};
use crate::math::{self, BinaryOp, Rows};
use crate::module::Arg;
use kernelwright_syntax::program::{Base, Coding, Level};

/// Mean row length from which a host's loop over contiguous slots is worth vector instructions.
const SIMD_SLOTS: u64 = 8;
/// Codes there are; see [`format`](crate::format), "Columns".
const CODES: i64 = 1 << 16;

/// A value that is a sum over slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    /// The value.
    pub(super) value: ValueId,
    /// How unknowns are read.
    reading: Reading,
}

/// The lanes that share a row: this one takes slots `first`, `first + count`, ….
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub(super) first: Expr,
    pub(super) count: i64,
}

/// Products of a sweep with the matrix.
pub(super) fn products(sweep: &Sweep) -> Vec<Product> {
    let product = |(number, value): (usize, &crate::loops::Value)| {
        let reading = match value.kind {
            ValueKind::Apply(x) => Reading::Linear(x.0),
            ValueKind::Magnitude(x) => Reading::Magnitude(x.0),
            _ => return None,
        };
        Some(Product { value: ValueId(number), reading })
    };
    sweep.values.iter().enumerate().filter_map(product).collect()
}

/// The rows of the operator's matrix.
fn rows_of<'a>(cx: &Context<'a>) -> Result<&'a Rows, MapError> {
    let rows = cx.program.operator.space.rows();
    rows.ok_or_else(|| MapError::Internal("a sum over slots on a grid".into()))
}

/// How the slots of a row are counted and where their cells lie.
struct Walk {
    /// First and last (exclusive) value of the loop variable.
    from: Expr,
    to: Expr,
    /// Value of the loop variable at slot 0; none where it is the slot itself.
    origin: Option<Expr>,
    /// Chunk and lane of the row.
    chunk: Expr,
    lane: Expr,
    /// Slots before the chunk, P; of every chunk.
    before: Expr,
}

impl Eval<'_, '_> {
    /// Forms the products of the sweep at the own row, those that are not known yet.
    pub(super) fn own_products(&mut self) -> Result<(), MapError> {
        if self.cx.operator().space.rows().is_none() {
            return Ok(());
        }
        let wanted = |p: &Product| !self.known.contains_key(&(p.value, 0));
        let missing: Vec<Product> = products(self.sweep).into_iter().filter(wanted).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let row = fold::var(self.frame.own[0]);
        let sums = self.row_sums(&missing, row, None)?;
        for (product, sum) in missing.iter().zip(sums) {
            self.known.insert((product.value, 0), fold::var(sum));
        }
        Ok(())
    }

    /// Sums over the slots of a row that exists, or over one lane's share of them; one variable per product.
    pub(super) fn row_sums(
        &mut self,
        products: &[Product],
        row: Expr,
        share: Option<&Share>,
    ) -> Result<Vec<VarId>, MapError> {
        let rows = rows_of(self.cx)?;
        let zero = fold::real(0.0, self.cx.real);
        for product in products {
            if let Some(text) = &self.sweep.values[product.value.0].text {
                self.quote(text);
            }
        }
        let walk = self.walk(&rows.layout, row.clone())?;
        let names: Vec<String> = products.iter().map(|p| self.sweep.values[p.value.0].name.clone()).collect();
        let sums: Vec<VarId> = names.iter().map(|name| self.b.declare(&format!("{name}_sum"), zero.clone())).collect();
        let from = match share {
            Some(share) => self.b.bind("first", fold::add(walk.from.clone(), share.first.clone())),
            None => walk.from.clone(),
        };
        let counts_cells = walk.origin.is_some();
        let counter = self.open_loop(if counts_cells { "at" } else { "slot" });
        let (at, slot) = self.cell(&rows.layout, &walk, counter);
        let column = self.column(&rows.layout, &walk, row, at.clone(), slot)?;
        let value = self.stored(Role::Value)?;
        let entry = self.b.bind("entry", load_at(value, at));
        for (product, &sum) in products.iter().zip(&sums) {
            let term = self.slot_term(product.reading, &entry, column)?;
            self.b.push(Stmt::Assign(sum, fold::add(fold::var(sum), term)));
        }
        let kind = self.slot_loop(&rows.layout, counts_cells, &sums);
        self.close_loop(counter, from, walk.to, share.map_or(1, |s| s.count), kind);
        Ok(sums)
    }

    /// How the loop over slots may run.
    fn slot_loop(&self, layout: &Layout, contiguous: bool, sums: &[VarId]) -> LoopKind {
        match self.cx.options.target {
            super::Target::Cuda => match self.cx.options.variant.row_unroll {
                0 | 1 => LoopKind::Sequential,
                n => LoopKind::Unroll(n),
            },
            super::Target::Host if contiguous && layout.entries >= SIMD_SLOTS * layout.size => {
                LoopKind::Simd(sums.to_vec())
            }
            super::Target::Host => LoopKind::Sequential,
        }
    }

    /// An array of the stored matrix.
    pub(super) fn stored(&mut self, role: Role) -> Result<BufferId, MapError> {
        let found = rows_of(self.cx)?.layout.array(role).map(|(number, array)| (number, array.clone()));
        let Some((number, array)) = found else {
            return Err(MapError::Unsupported(format!(
                "the matrix was stored without its {}, which `{}` needs",
                role.name(),
                self.sweep.name
            )));
        };
        let element = super::context::element(array.kind, self.cx.options.precision);
        Ok(self.b.global(Arg::Data(number), role.name(), element, array.len, Access::Read))
    }

    fn load(&mut self, role: Role, index: Expr) -> Result<Expr, MapError> {
        let buffer = self.stored(role)?;
        Ok(load_at(buffer, index))
    }

    /// The walk over a row's slots.
    fn walk(&mut self, layout: &Layout, row: Expr) -> Result<Walk, MapError> {
        if layout.by_entries() {
            return self.walk_entries(layout, row);
        }
        let int = |n: u64| fold::int(n as i64);
        let (chunk, lane) = match (layout.height, layout.chunks) {
            (1, _) => (row.clone(), fold::int(0)),
            (_, 1) => (fold::int(0), row.clone()),
            (h, _) => {
                let chunk = self.b.bind("chunk", fold::div(row.clone(), int(h)));
                (chunk, self.b.bind("lane_of_chunk", fold::rem(row.clone(), int(h))))
            }
        };
        let before = match layout.starts() {
            Starts::Even => fold::mul(chunk.clone(), int(layout.longest)),
            Starts::Chunks => {
                let start = self.load(Role::ChunkStart, chunk.clone())?;
                self.b.bind("start_here", start)
            }
            Starts::Slots => fold::int(0),
        };
        let of_chunk = match layout.starts() {
            Starts::Even => int(layout.longest),
            Starts::Chunks => {
                let next = self.load(Role::ChunkStart, fold::add(chunk.clone(), fold::int(1)))?;
                fold::sub(next, before.clone())
            }
            Starts::Slots if layout.format.lengths => fold::int(0),
            Starts::Slots => self.load(Role::ChunkLength, chunk.clone())?,
        };
        let contiguous = matches!((layout.height, nest(&layout.format)), (_, [_, _, Level::Slot]))
            || layout.height == 1 && layout.starts() != Starts::Slots && nest(&layout.format)[0] == Level::Chunk;
        if !contiguous {
            let slots = if layout.format.lengths { self.load(Role::Length, row)? } else { of_chunk };
            let to = self.b.bind("slots", slots);
            return Ok(Walk { from: fold::int(0), to, origin: None, chunk, lane, before });
        }
        let of_chunk = self.b.bind("slots", of_chunk);
        let first = if nest(&layout.format)[0] == Level::Lane {
            fold::add(fold::mul(lane.clone(), int(layout.cells / layout.height)), before.clone())
        } else {
            let chunks = fold::mul(before.clone(), int(layout.height));
            fold::add(chunks, fold::mul(lane.clone(), of_chunk.clone()))
        };
        let first = self.b.bind("first_cell", first);
        let slots = if layout.format.lengths { self.load(Role::Length, row)? } else { of_chunk };
        let to = self.b.bind("end_cell", fold::add(first.clone(), slots));
        Ok(Walk { from: first.clone(), to, origin: Some(first), chunk, lane, before })
    }

    /// Entries that store their rows: the row's range is searched for.
    fn walk_entries(&mut self, layout: &Layout, row: Expr) -> Result<Walk, MapError> {
        let from = self.search(layout, row.clone())?;
        let to = self.search(layout, fold::add(row.clone(), fold::int(1)))?;
        let zero = fold::int(0);
        Ok(Walk { from: from.clone(), to, origin: Some(from), chunk: row, lane: zero.clone(), before: zero })
    }

    /// The first entry of a row or a later one, by bisection.
    fn search(&mut self, layout: &Layout, row: Expr) -> Result<Expr, MapError> {
        let wanted = self.b.bind("wanted", row);
        let low = self.b.declare("low", fold::int(0));
        let high = self.b.declare("high", fold::int(layout.entries as i64));
        let rows = self.stored(Role::Row)?;
        let steps = u64::BITS - layout.entries.leading_zeros() + 1;
        let step = self.open_loop("step");
        let sum = fold::add(fold::var(low), fold::var(high));
        let middle = fold::var(self.b.bind_here("middle", fold::div(sum, fold::int(2))));
        // Once nothing is left, the middle is the end and is not read.
        let open = fold::compare(Cmp::Lt, fold::var(low), fold::var(high));
        let before = fold::compare(Cmp::Lt, load_at(rows, middle.clone()), wanted);
        let before = self.b.bind_here("is_before", fold::and(open.clone(), before));
        let narrowed = fold::select(fold::and(open, fold::not(fold::var(before))), middle.clone(), fold::var(high));
        self.b.push(Stmt::Assign(high, narrowed));
        let raised = fold::select(fold::var(before), fold::add(middle, fold::int(1)), fold::var(low));
        self.b.push(Stmt::Assign(low, raised));
        self.close_loop(step, fold::int(0), fold::int(i64::from(steps)), 1, LoopKind::Sequential);
        Ok(fold::var(self.b.bind_here("found", fold::var(low))))
    }

    /// The cell and the slot at a value of the loop variable.
    fn cell(&mut self, layout: &Layout, walk: &Walk, counter: VarId) -> (Expr, Expr) {
        let counter = fold::var(counter);
        if let Some(origin) = &walk.origin {
            return (counter.clone(), fold::sub(counter, origin.clone()));
        }
        let int = |n: u64| fold::int(n as i64);
        let (h, total) = (layout.height, layout.cells / layout.height);
        let row = fold::add(fold::mul(walk.chunk.clone(), int(h)), walk.lane.clone());
        let slot_start = |eval: &mut Self, slot: Expr| match layout.starts() {
            Starts::Slots => eval.load(Role::SlotStart, slot),
            _ => Ok(fold::mul(slot, int(layout.chunks))),
        };
        let starts = |eval: &mut Self| slot_start(eval, counter.clone()).unwrap_or(fold::int(0));
        let at = match nest(&layout.format) {
            [Level::Chunk, ..] => {
                let first = fold::add(fold::mul(walk.before.clone(), int(h)), walk.lane.clone());
                let first = self.b.bind("first_cell", first);
                fold::add(first, fold::mul(counter.clone(), int(h)))
            }
            [Level::Slot, Level::Chunk, _] => {
                let row = self.b.bind("in_slot", row);
                fold::add(row, fold::mul(starts(self), int(h)))
            }
            [Level::Slot, ..] => {
                let start = starts(self);
                let next = slot_start(self, fold::add(counter.clone(), fold::int(1))).unwrap_or(fold::int(0));
                let having =
                    if layout.starts() == Starts::Slots { fold::sub(next, start.clone()) } else { int(layout.chunks) };
                let of_lane = fold::add(fold::mul(walk.lane.clone(), having), walk.chunk.clone());
                fold::add(fold::mul(start, int(h)), of_lane)
            }
            _ => {
                let first = fold::add(fold::mul(walk.lane.clone(), int(total)), walk.chunk.clone());
                let first = self.b.bind("first_cell", first);
                fold::add(first, starts(self))
            }
        };
        (self.b.bind("at", at), counter)
    }

    /// The column of a cell, as a variable.
    fn column(&mut self, layout: &Layout, walk: &Walk, row: Expr, at: Expr, slot: Expr) -> Result<VarId, MapError> {
        let Coding::Delta { base, .. } = layout.format.coding else {
            let column = self.load(Role::Column, at)?;
            return Ok(self.known_column(layout, column));
        };
        let order = nest(&layout.format);
        let by_slot = order.iter().position(|l| *l == Level::Slot) < order.iter().position(|l| *l == Level::Chunk);
        let unit = match base {
            Base::Row => row,
            Base::Chunk => walk.chunk.clone(),
            Base::ChunkSlot if by_slot => {
                let start = match layout.starts() {
                    Starts::Slots => self.load(Role::SlotStart, slot.clone())?,
                    _ => fold::mul(slot.clone(), fold::int(layout.chunks as i64)),
                };
                fold::add(start, walk.chunk.clone())
            }
            Base::ChunkSlot => fold::add(walk.before.clone(), slot.clone()),
        };
        let base = self.load(Role::Base, unit)?;
        let base = self.b.bind("base_here", base);
        let code = self.load(Role::Code, at)?;
        let code = self.b.bind("code_here", code);
        let near = fold::add(base, code.clone());
        if layout.array(Role::Escape).is_none() {
            return Ok(self.known_column(layout, near));
        }
        let from = self.load(Role::EscapeStart, walk.chunk.clone())?;
        let from = self.b.bind("aside_from", from);
        let next = self.load(Role::EscapeStart, fold::add(walk.chunk.clone(), fold::int(1)))?;
        let count = self.b.bind("aside_count", fold::sub(next, from.clone()));
        let first = self.b.bind("first_aside", fold::sub(fold::int(CODES), count));
        let numbered = fold::sub(code.clone(), first.clone());
        let number = if layout.escapes > CODES as u64 {
            // Only a chunk with more columns aside than there are codes is stored by position.
            let ordinal = fold::add(fold::mul(slot, fold::int(layout.height as i64)), walk.lane.clone());
            fold::select(fold::compare(Cmp::Lt, first.clone(), fold::int(0)), ordinal, numbered)
        } else {
            numbered
        };
        let aside = self.load(Role::Escape, fold::add(from, number))?;
        let column = fold::select(fold::compare(Cmp::Lt, code, first), near, aside);
        Ok(self.known_column(layout, column))
    }

    fn known_column(&mut self, layout: &Layout, column: Expr) -> VarId {
        let var = self.b.bind_here("column_here", column);
        self.frame.know(var, (0, layout.size as i64 - 1));
        var
    }

    /// The term of a slot.
    fn slot_term(&mut self, reading: Reading, entry: &Expr, column: VarId) -> Result<Expr, MapError> {
        let op = self.cx.operator();
        let math::Expr::Slots(term) = &op.rows[0].value else {
            return Err(MapError::Unsupported("rows of a matrix that are more than a sum over slots".into()));
        };
        self.slot_expr(term, reading, entry, column)
    }

    fn slot_expr(&mut self, e: &math::Expr, reading: Reading, entry: &Expr, column: VarId) -> Result<Expr, MapError> {
        let (operand, magnitude) = match reading {
            Reading::Linear(x) => (ValueId(x), false),
            Reading::Magnitude(x) => (ValueId(x), true),
            Reading::Affine => return Err(MapError::Internal("a matrix has no prescribed values".into())),
        };
        let absolute = |e: Expr| if magnitude { fold::abs(e) } else { e };
        Ok(match e {
            math::Expr::Entry => absolute(entry.clone()),
            math::Expr::Gather(c) => {
                let range = self.frame.range(column);
                let at = Position { coords: vec![Coord { var: column, off: 0, range }], guard: None };
                absolute(self.value(operand, *c, &at)?)
            }
            math::Expr::Neg(a) => {
                let a = self.slot_expr(a, reading, entry, column)?;
                if magnitude { a } else { fold::neg(a) }
            }
            math::Expr::Binary(op, a, b) => {
                let (a, b) = (self.slot_expr(a, reading, entry, column)?, self.slot_expr(b, reading, entry, column)?);
                let op = if magnitude && *op == BinaryOp::Sub { BinaryOp::Add } else { *op };
                super::eval::arithmetic(op, a, b)
            }
            constant => {
                let here = self.frame.here();
                absolute(self.coefficient(constant, &here)?)
            }
        })
    }

    /// A value over the stored diagonal at a position.
    pub(super) fn over_stored_diagonal(&mut self, x: ValueId, at: &Position) -> Result<Expr, MapError> {
        let coord = &at.coords[0];
        let index = fold::add(fold::var(coord.var), fold::int(coord.off));
        let diagonal = self.load(Role::Diagonal, index)?;
        let diagonal = self.b.bind("diagonal_here", diagonal);
        let value = self.value(x, 0, at)?;
        Ok(fold::div(value, diagonal))
    }
}
