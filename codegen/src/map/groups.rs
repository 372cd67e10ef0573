//! Slots of a row that a lane of a device asks for together.
//!
//! A product waits for memory, not for arithmetic: a slot's column must be there before its unknown can be asked for, and
//! a loop that finishes slot after slot waits twice for each. So a group of slots is read at once: first all columns and
//! entries, then all unknowns, then the terms are added in order. Slots beyond the last full group make one group more, in
//! which those that do not exist read the last one of the row again and are not added.
//!
//! Where columns lie aside, a chunk without any (nearly all, where compressing pays) takes a loop that does not test for
//! them; in the other, the test chooses between two columns that are both read ([`columns`](super::columns)).

use super::columns::Reach;
use super::context::Context;
use super::eval::{Eval, load_at};
use super::fold;
use super::slots::{Product, Share, Walk, products};
use super::{MapError, Target};
use crate::format::layout::{Layout, Role, Starts};
use crate::kernel::{Cmp, Element, Expr, LoopKind, Stmt, VarId};
use crate::loops::Sweep;

/// Slots of a group from which the compiler has to be told that registers may be taken for it: left alone it saves them
/// for more blocks, by loading what should be on its way already only after something has arrived.
const LARGE: u32 = 8;
/// Lanes of a multiprocessor that have as many registers as a large group asks for, in f32 and f64: 48 and 64.
const RESIDENT: [u32; 2] = [1280, 1024];

/// Blocks that a multiprocessor should hold of a sweep over rows, each shared by so many lanes of a block.
pub(super) fn resident(cx: &Context, sweep: &Sweep, sharing: u32, block: u32) -> Option<u32> {
    if let Some(blocks) = cx.options.variant.resident {
        return Some(blocks).filter(|&blocks| blocks > 0);
    }
    let rows = cx.program.operator.space.rows()?;
    let of = |product: &Product| rows.layout_of(product.companion).map(|found| found.0);
    let large = |layout: &Layout| {
        let known = layout.starts() == Starts::Even && !layout.format.lengths;
        let sharing = u64::from(sharing);
        !known && !layout.is_brief(sharing) && together(cx, layout, sharing) >= LARGE
    };
    let formed = products(sweep).into_iter().filter(|product| !cx.ahead.contains_key(&product.value));
    let any = formed.filter_map(|product| of(&product)).any(large);
    let lanes = RESIDENT[usize::from(cx.options.precision != Element::F32)];
    any.then(|| (lanes / block).max(1))
}

/// Slots that are asked for together.
fn together(cx: &Context, layout: &Layout, lanes: u64) -> u32 {
    cx.options.variant.row_unroll.unwrap_or_else(|| layout.slots_together(lanes))
}

/// Products that are formed in one walk, with their sums.
struct Terms<'p> {
    products: &'p [Product],
    sums: &'p [VarId],
    layout: &'p Layout,
    walk: &'p Walk,
    /// Slots of a group, and the distance of two of them.
    together: i64,
    stride: i64,
}

impl Eval<'_, '_> {
    /// Slots that a lane asks for together; 1 where a plain loop does as well: on a host, and where all rows have the
    /// same number of slots, so that the compiler knows all there is.
    pub(super) fn together(&self, layout: &Layout, walk: &Walk, lanes: i64) -> i64 {
        if self.cx.options.target == Target::Host || matches!(walk.to, Expr::Int(_)) {
            return 1;
        }
        i64::from(together(self.cx, layout, lanes as u64))
    }

    /// The loop over a row's slots, or one lane's share of them, in groups.
    pub(super) fn grouped_slots(
        &mut self,
        products: &[Product],
        sums: &[VarId],
        layout: &Layout,
        walk: &Walk,
        share: Option<&Share>,
        together: i64,
    ) -> Result<(), MapError> {
        let terms = Terms { products, sums, layout, walk, together, stride: share.map_or(1, |s| s.count) };
        let from = self.first_slot(walk, share);
        self.by_codes(layout, walk, false, &mut |eval, reach| terms.groups(eval, from.clone(), reach))
    }
}

impl Terms<'_> {
    /// Full groups, and the one that is not.
    fn groups(&self, eval: &mut Eval, from: Expr, reach: Reach) -> Result<(), MapError> {
        let to = &self.walk.to;
        let next = eval.b.declare("next", from.clone());
        let step = self.together * self.stride;
        let full = fold::sub(to.clone(), fold::int(step - self.stride));
        let full = eval.b.bind("end_of_groups", full);
        let counter = eval.open_loop(if self.walk.origin.is_some() { "at" } else { "slot" });
        self.group(eval, &fold::var(counter), self.together, false, reach)?;
        eval.b.push(Stmt::Assign(next, fold::add(fold::var(counter), fold::int(step))));
        eval.close_loop(counter, from, full, step, LoopKind::Unroll(1));
        eval.open_if();
        self.group(eval, &fold::var(next), (self.together - 1).max(1), true, reach)?;
        eval.close_if(fold::compare(Cmp::Lt, fold::var(next), to.clone()));
        Ok(())
    }

    /// So many slots from a value of the loop variable on; all exist, or the first and perhaps others.
    fn group(&self, eval: &mut Eval, first: &Expr, count: i64, partial: bool, reach: Reach) -> Result<(), MapError> {
        let to = &self.walk.to;
        let mut read = Vec::new();
        for n in 0..count {
            let own = fold::add(first.clone(), fold::int(n * self.stride));
            let exists = (partial && n > 0).then(|| fold::compare(Cmp::Lt, own.clone(), to.clone()));
            let near = match exists {
                Some(_) => {
                    let last = eval.b.bind("last", fold::sub(to.clone(), fold::int(1)));
                    fold::var(eval.b.bind_here("near", fold::min(own, last)))
                }
                None => own,
            };
            let (at, slot) = eval.cell(self.layout, self.walk, near)?;
            let column = eval.column(self.layout, self.walk, at.clone(), slot, reach)?;
            let value = eval.stored(Role::Value)?;
            let entry = fold::var(eval.b.bind_here("entry", load_at(value, at)));
            read.push((exists, column, entry));
        }
        let mut terms = Vec::new();
        for (exists, column, entry) in read {
            for (product, &sum) in self.products.iter().zip(self.sums) {
                terms.push((exists.clone(), sum, eval.slot_term(product.reading, &entry, column)?));
            }
        }
        for (exists, sum, term) in terms {
            let more = fold::add(fold::var(sum), term);
            let value = match exists {
                Some(exists) => fold::select(exists, more, fold::var(sum)),
                None => more,
            };
            eval.b.push(Stmt::Assign(sum, value));
        }
        Ok(())
    }
}
