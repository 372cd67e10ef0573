//! Products of a matrix: the walk over the slots of a row.
//!
//! All products of a sweep with one matrix are formed in one walk, so that the matrix is read once. Where a cell lies is
//! the table in [`format`](crate::format); what does not depend on the slot is bound outside the loop.

use super::MapError;
use super::columns::Coded;
use super::context::Context;
use super::eval::{Eval, load_at};
use super::fold;
use super::position::{Coord, Position};
use super::rows::Reading;
use crate::format::layout::{Layout, Role, Starts, nest};
use crate::kernel::{Access, BufferId, Cmp, Expr, LoopKind, Stmt, Type, VarId};
use crate::loops::{ScalarId, Sweep, ValueId, ValueKind};
use crate::math::{self, BinaryOp, Rows};
use crate::module::Arg;
use kernelwright_syntax::program::Level;

/// Mean row length from which a host's loop over contiguous slots is worth vector instructions.
const SIMD_SLOTS: u64 = 8;
/// Slots that a device's loop over a known number of them asks for together.
const UNROLLED: u32 = 4;

/// A value that is a sum over slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    /// The value.
    pub(super) value: ValueId,
    /// The companion it is a product of; none is the operator's own matrix.
    pub(super) companion: Option<usize>,
    /// The scalar that rows wait for.
    pub(super) step: Option<ScalarId>,
    /// How unknowns are read.
    pub(super) reading: Reading,
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
        let (reading, companion, step) = match value.kind {
            ValueKind::Apply(x) => (Reading::Linear(x.0), None, None),
            ValueKind::Magnitude(x) => (Reading::Magnitude(x.0), None, None),
            ValueKind::Companion { number, step, operand } => (Reading::Linear(operand.0), Some(number), step),
            _ => return None,
        };
        Some(Product { value: ValueId(number), companion, step, reading })
    };
    sweep.values.iter().enumerate().filter_map(product).collect()
}

/// The rows of the operator's matrix.
fn rows_of<'a>(cx: &Context<'a>) -> Result<&'a Rows, MapError> {
    let rows = cx.program.operator.space.rows();
    rows.ok_or_else(|| MapError::Internal("a sum over slots on a grid".into()))
}

/// Whether the slots of a row are consecutive cells.
fn is_contiguous(layout: &Layout) -> bool {
    match nest(&layout.format) {
        [_, _, Level::Slot] => true,
        [Level::Chunk, ..] => layout.height == 1,
        _ => false,
    }
}

/// How the slots of a row are counted and where their cells lie.
pub(super) struct Walk {
    /// First and last (exclusive) value of the loop variable.
    pub(super) from: Expr,
    pub(super) to: Expr,
    /// Value of the loop variable at slot 0; none where it is the slot itself.
    pub(super) origin: Option<Expr>,
    pub(super) row: Expr,
    /// Chunk and lane of the row.
    pub(super) chunk: Expr,
    pub(super) lane: Expr,
    /// Slots before the chunk, P; of every chunk.
    pub(super) before: Expr,
    /// How its columns are written.
    pub(super) coded: Coded,
}

impl<'a> Eval<'a, '_> {
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
        let (ahead, missing): (Vec<Product>, Vec<Product>) =
            missing.into_iter().partition(|p| self.cx.ahead.contains_key(&p.value));
        for product in ahead {
            let value = self.formed_ahead(product.value, row.clone())?;
            self.known.insert((product.value, 0), value);
        }
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
        let mut sums = vec![None; products.len()];
        for first in products {
            let same = |p: &Product| p.companion == first.companion && p.step == first.step;
            let places: Vec<usize> = (0..products.len()).filter(|&at| same(&products[at])).collect();
            if sums[places[0]].is_some() {
                continue;
            }
            let together: Vec<Product> = places.iter().map(|&at| products[at]).collect();
            let formed = self.walk_sums(&together, row.clone(), share)?;
            places.into_iter().zip(formed).for_each(|(at, sum)| sums[at] = Some(sum));
        }
        Ok(sums.into_iter().flatten().collect())
    }

    /// Quotes the statements of products.
    pub(super) fn quote_products(&mut self, products: &[Product]) {
        for product in products {
            if let Some(text) = &self.sweep.values[product.value.0].text {
                self.quote(text);
            }
        }
    }

    /// The same for products of one matrix at one step: in one walk.
    fn walk_sums(&mut self, products: &[Product], row: Expr, share: Option<&Share>) -> Result<Vec<VarId>, MapError> {
        self.companion = products[0].companion;
        let layout = self.layout()?;
        let zero = fold::real(0.0, self.cx.real);
        self.quote_products(products);
        let names: Vec<String> = products.iter().map(|p| self.sweep.values[p.value.0].name.clone()).collect();
        let sums: Vec<VarId> = names.iter().map(|name| self.b.declare(&format!("{name}_sum"), zero.clone())).collect();
        let turn = self.turn(products[0].step, &row)?;
        if turn.is_some() {
            self.open_if();
        }
        let mut walk = self.walk(layout, row)?;
        walk.coded = self.coded(layout, &walk)?;
        let together = self.together(layout, &walk, share.map_or(1, |s| s.count));
        if together > 1 {
            self.grouped_slots(products, &sums, layout, &walk, share, together)?;
        } else {
            self.slot_by_slot(products, &sums, layout, &walk, share)?;
        }
        if let Some(turn) = turn {
            self.close_if(turn);
        }
        self.companion = None;
        Ok(sums)
    }

    /// Where a row's slots begin, or one lane's share of them.
    pub(super) fn first_slot(&mut self, walk: &Walk, share: Option<&Share>) -> Expr {
        match share {
            Some(share) => self.b.bind("first", fold::add(walk.from.clone(), share.first.clone())),
            None => walk.from.clone(),
        }
    }

    /// The loop over a row's slots, or one lane's share of them.
    fn slot_by_slot(
        &mut self,
        products: &[Product],
        sums: &[VarId],
        layout: &Layout,
        walk: &Walk,
        share: Option<&Share>,
    ) -> Result<(), MapError> {
        let from = self.first_slot(walk, share);
        self.by_codes(layout, walk, true, &mut |eval, reach| {
            let counts_cells = walk.origin.is_some();
            let counter = eval.open_loop(if counts_cells { "at" } else { "slot" });
            let (at, slot) = eval.cell(layout, walk, fold::var(counter))?;
            let column = eval.column(layout, walk, at.clone(), slot, reach)?;
            let value = eval.stored(Role::Value)?;
            let entry = eval.b.bind("entry", load_at(value, at));
            for (product, &sum) in products.iter().zip(sums) {
                let term = eval.slot_term(product.reading, &entry, column)?;
                eval.b.push(Stmt::Assign(sum, fold::add(fold::var(sum), term)));
            }
            let kind = eval.slot_loop(layout, counts_cells, sums);
            eval.close_loop(counter, from.clone(), walk.to.clone(), share.map_or(1, |s| s.count), kind);
            Ok(())
        })
    }

    /// Whether a row has its turn at the step that rows wait for, if they do.
    fn turn(&mut self, step: Option<ScalarId>, row: &Expr) -> Result<Option<Expr>, MapError> {
        let Some(step) = step else { return Ok(None) };
        let (wanted, own) = (self.scalar(step), self.load(Role::Step, row.clone())?);
        Ok(Some(fold::compare(Cmp::Eq, fold::cast(self.cx.real, Type::Int, own), wanted)))
    }

    /// How the loop over slots may run.
    fn slot_loop(&self, layout: &Layout, contiguous: bool, sums: &[VarId]) -> LoopKind {
        let cuda = self.cx.options.target == super::Target::Cuda;
        match self.cx.options.variant.row_unroll.or(cuda.then_some(UNROLLED)) {
            Some(0 | 1) => LoopKind::Sequential,
            Some(n) => LoopKind::Unroll(n),
            None if contiguous && layout.entries >= SIMD_SLOTS * layout.size => LoopKind::Simd(sums.to_vec()),
            None => LoopKind::Sequential,
        }
    }

    /// The layout of the matrix that is read.
    fn layout(&self) -> Result<&'a Layout, MapError> {
        Ok(self.matrix_read()?.0)
    }

    /// The same, and the number of its first array among the operator's data.
    fn matrix_read(&self) -> Result<(&'a Layout, usize), MapError> {
        let found = rows_of(self.cx)?.layout_of(self.companion);
        found.ok_or_else(|| MapError::Internal("a companion that does not exist".into()))
    }

    /// An array of the matrix that is read.
    pub(super) fn stored(&mut self, role: Role) -> Result<BufferId, MapError> {
        let (layout, first) = self.matrix_read()?;
        let Some((number, array)) = layout.array(role) else {
            return Err(MapError::Unsupported(format!(
                "the matrix was stored without its {}, which `{}` needs",
                role.name(),
                self.sweep.name
            )));
        };
        let number = first + number;
        let element = super::context::element(array.kind, self.cx.options.precision);
        let name = self.cx.operator().data[number].name.as_str();
        let of_cell = matches!(role, Role::Value | Role::Column | Role::Code);
        let once = of_cell && self.cx.options.target == super::Target::Cuda && self.cx.options.variant.row_once;
        let access = if once { Access::ReadOnce } else { Access::Read };
        Ok(self.b.global(Arg::Data(number), name, element, array.len, access))
    }

    pub(super) fn load(&mut self, role: Role, index: Expr) -> Result<Expr, MapError> {
        let buffer = self.stored(role)?;
        Ok(load_at(buffer, index))
    }

    /// The walk over a row's slots.
    fn walk(&mut self, layout: &Layout, row: Expr) -> Result<Walk, MapError> {
        if layout.by_entries() {
            return self.walk_entries(layout, row);
        }
        let (chunk, lane) = self.chunk_of(layout, &row);
        let before = match layout.starts() {
            Starts::Even => fold::mul(chunk.clone(), fold::int(layout.longest as i64)),
            Starts::Chunks => {
                let start = self.load(Role::ChunkStart, chunk.clone())?;
                self.b.bind("start_here", start)
            }
            Starts::Slots => fold::int(0),
        };
        let of_chunk = self.slots_of(layout, &chunk, &before)?;
        let contiguous = is_contiguous(layout);
        // Padded rows side by side need the chunk's slots to find their cells, others for nothing but the end.
        let of_chunk = if contiguous { self.b.bind("slots", of_chunk) } else { of_chunk };
        let slots = match layout.format.lengths {
            true => self.load(Role::Length, row.clone())?,
            false => of_chunk.clone(),
        };
        if !contiguous {
            let to = self.b.bind("slots", slots);
            return Ok(Walk {
                from: fold::int(0),
                to,
                origin: None,
                row,
                chunk,
                lane,
                before,
                coded: Coded::default(),
            });
        }
        let first = if nest(&layout.format)[0] == Level::Lane {
            fold::add(fold::mul(lane.clone(), fold::int((layout.cells / layout.height) as i64)), before.clone())
        } else {
            let chunks = fold::mul(before.clone(), fold::int(layout.height as i64));
            fold::add(chunks, fold::mul(lane.clone(), of_chunk))
        };
        let first = self.b.bind("first_cell", first);
        let to = self.b.bind("end_cell", fold::add(first.clone(), slots));
        Ok(Walk { from: first.clone(), to, origin: Some(first), row, chunk, lane, before, coded: Coded::default() })
    }

    /// Chunk and lane of a row.
    fn chunk_of(&mut self, layout: &Layout, row: &Expr) -> (Expr, Expr) {
        match (layout.height, layout.chunks) {
            (1, _) => (row.clone(), fold::int(0)),
            (_, 1) => (fold::int(0), row.clone()),
            (h, _) => {
                let h = fold::int(h as i64);
                let chunk = self.b.bind("chunk", fold::div(row.clone(), h.clone()));
                (chunk, self.b.bind("lane_of_chunk", fold::rem(row.clone(), h)))
            }
        }
    }

    /// Slots of a chunk.
    fn slots_of(&mut self, layout: &Layout, chunk: &Expr, before: &Expr) -> Result<Expr, MapError> {
        Ok(match layout.starts() {
            Starts::Even => fold::int(layout.longest as i64),
            Starts::Chunks => {
                let next = self.load(Role::ChunkStart, fold::add(chunk.clone(), fold::int(1)))?;
                fold::sub(next, before.clone())
            }
            // Not needed where rows have their own lengths.
            Starts::Slots if layout.format.lengths => fold::int(0),
            Starts::Slots => self.load(Role::ChunkLength, chunk.clone())?,
        })
    }

    /// Entries that store their rows: the row's range is searched for.
    fn walk_entries(&mut self, layout: &Layout, row: Expr) -> Result<Walk, MapError> {
        let from = self.search(layout, row.clone())?;
        let to = self.search(layout, fold::add(row.clone(), fold::int(1)))?;
        let zero = fold::int(0);
        Ok(Walk {
            from: from.clone(),
            to,
            origin: Some(from),
            row: row.clone(),
            chunk: row,
            lane: zero.clone(),
            before: zero,
            coded: Coded::default(),
        })
    }

    /// The first entry of a row or a later one, by bisection.
    fn search(&mut self, layout: &Layout, row: Expr) -> Result<Expr, MapError> {
        let wanted = self.b.bind("wanted", row);
        let low = self.b.declare("low", fold::int(0));
        let high = self.b.declare("high", fold::int(layout.entries as i64));
        let rows = self.stored(Role::Row)?;
        let steps = u64::BITS - layout.entries.leading_zeros() + 1;
        let step = self.open_loop("step");
        // Half of what is left: the sum of both ends might not be an integer of the kernel.
        let half = fold::div(fold::sub(fold::var(high), fold::var(low)), fold::int(2));
        let middle = fold::var(self.b.bind_here("middle", fold::add(fold::var(low), half)));
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
    pub(super) fn cell(&mut self, layout: &Layout, walk: &Walk, counter: Expr) -> Result<(Expr, Expr), MapError> {
        if let Some(origin) = &walk.origin {
            return Ok((counter.clone(), fold::sub(counter, origin.clone())));
        }
        let h = fold::int(layout.height as i64);
        let at = match nest(&layout.format) {
            [Level::Chunk, ..] => {
                let first = fold::add(fold::mul(walk.before.clone(), h.clone()), walk.lane.clone());
                let first = self.b.bind("first_cell", first);
                fold::add(first, fold::mul(counter.clone(), h))
            }
            // Chunk after chunk, lane after lane: row after row.
            [Level::Slot, Level::Chunk, _] => {
                let start = self.chunks_before(layout, counter.clone())?;
                fold::add(walk.row.clone(), fold::mul(start, h))
            }
            [Level::Slot, ..] => {
                let start = self.chunks_before(layout, counter.clone())?;
                let next = self.chunks_before(layout, fold::add(counter.clone(), fold::int(1)))?;
                let having = match layout.starts() {
                    Starts::Slots => fold::sub(next, start.clone()),
                    _ => fold::int(layout.chunks as i64),
                };
                let of_lane = fold::add(fold::mul(walk.lane.clone(), having), walk.chunk.clone());
                fold::add(fold::mul(start, h), of_lane)
            }
            _ => {
                let total = fold::int((layout.cells / layout.height) as i64);
                let first = fold::add(fold::mul(walk.lane.clone(), total), walk.chunk.clone());
                let first = self.b.bind("first_cell", first);
                fold::add(first, self.chunks_before(layout, counter.clone())?)
            }
        };
        Ok((self.b.bind("at", at), counter))
    }

    /// Chunks that have a slot before a slot, Q.
    pub(super) fn chunks_before(&mut self, layout: &Layout, slot: Expr) -> Result<Expr, MapError> {
        match layout.starts() {
            Starts::Slots => self.load(Role::SlotStart, slot),
            _ => Ok(fold::mul(slot, fold::int(layout.chunks as i64))),
        }
    }

    /// The term of a slot.
    pub(super) fn slot_term(&mut self, reading: Reading, entry: &Expr, column: VarId) -> Result<Expr, MapError> {
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
