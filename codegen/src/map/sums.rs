//! Partial sums: accumulated in f64 by every lane, combined within the block in a fixed order, one number per block.

use super::MapError;
use super::builder::Builder;
use super::context::Context;
use super::eval::{Eval, load_at};
use super::fold;
use crate::kernel::{Access, Cmp, Element, Expr, LoopKind, Op, Scope, Shuffle, Space, Stmt, Type, VarId};
use crate::loops::{Store, Sum, SumId, SumKind};
use crate::module::Arg;

/// Lanes that exchange values by shuffles.
pub(super) const GROUP: u32 = 32;

/// The running sums of a lane.
pub(super) struct Accumulators {
    running: Vec<(SumId, SumKind, VarId)>,
}

impl Accumulators {
    /// Declares a variable per sum of the sweep.
    pub(super) fn declare(eval: &mut Eval) -> Accumulators {
        let sums = &eval.sweep.sums;
        let mut running = Vec::new();
        for sum in sums {
            let left = &eval.sweep.values[sum.left.0].name;
            let right = sum.right.map_or(String::new(), |r| format!("_{}", eval.sweep.values[r.0].name));
            let kind = eval.cx.program.sums[sum.sum.0];
            let role = if kind == SumKind::Max { "max" } else { "sum" };
            let var = eval.b.declare(&format!("{role}_{left}{right}"), fold::real(0.0, Type::F64));
            running.push((sum.sum, kind, var));
        }
        Accumulators { running }
    }

    /// How an inner loop over independent points may run.
    pub(super) fn simd(&self) -> LoopKind {
        // A maximum in which NaN wins is not a sum: a loop with one runs in order.
        LoopKind::Simd(self.running.iter().filter(|r| r.1 == SumKind::Add).map(|r| r.2).collect())
    }

    fn of(&self, sum: SumId) -> Option<(SumKind, VarId)> {
        self.running.iter().find(|r| r.0 == sum).map(|r| (r.1, r.2))
    }

    /// Evaluates the own point: everything it stores and sums, then sums it, then stores it.
    pub(super) fn point(&self, eval: &mut Eval, stores: &[Store], sums: &[Sum]) -> Result<(), MapError> {
        eval.own_products()?;
        let here = eval.frame.here();
        let components = eval.cx.grid.components;
        let mut stored = Vec::new();
        for c in 0..components {
            for store in stores {
                stored.push((store.to, c, eval.value(store.value, c, &here)?));
            }
        }
        for sum in sums {
            for c in 0..components {
                let left = eval.value(sum.left, c, &here)?;
                let right = sum.right.map(|r| eval.value(r, c, &here)).transpose()?;
                self.add(eval, sum.sum, left, right);
            }
        }
        for (to, c, value) in stored {
            eval.store(to, c, value);
        }
        Ok(())
    }

    /// Adds a point's contribution.
    pub(super) fn add(&self, eval: &mut Eval, sum: SumId, left: Expr, right: Option<Expr>) {
        let Some((kind, var)) = self.of(sum) else {
            return;
        };
        let real = eval.cx.real;
        let left = fold::cast(Type::F64, real, left);
        let term = match right {
            Some(right) => fold::mul(left, fold::cast(Type::F64, real, right)),
            None if kind == SumKind::Max => fold::abs(left),
            None => left,
        };
        let total = combined(&mut eval.b, kind, fold::var(var), term);
        eval.b.push(Stmt::Assign(var, total));
    }

    /// Combines the lanes of a block and stores one number per sum at the block's place.
    pub(super) fn finish(&self, b: &mut Builder, cx: &mut Places, lane: Expr, lanes: u32, block: Expr) {
        if self.running.is_empty() {
            return;
        }
        if lanes == 1 {
            for (number, &(sum, _, var)) in self.running.iter().enumerate() {
                cx.store(b, number, sum, block.clone(), fold::var(var));
            }
            return;
        }
        b.comment("sums of the block");
        let lane = b.bind("lane_in_block", lane);
        let totals: Vec<(SumKind, VarId)> = self.running.iter().map(|r| (r.1, r.2)).collect();
        let totals = block_totals(b, &totals, lane.clone(), lanes);
        b.open_if();
        for (number, (&(sum, ..), total)) in self.running.iter().zip(totals).enumerate() {
            let total = total.value(b);
            cx.store(b, number, sum, block.clone(), total);
        }
        b.close_if(fold::compare(Cmp::Eq, lane, fold::int(0)));
    }
}

/// Buffers of partial sums of one kernel, one per sum of the sweep.
pub(super) struct Places {
    /// Module buffer of each.
    pub(super) buffers: Vec<usize>,
    /// Elements of each.
    pub(super) blocks: u64,
}

impl Places {
    /// Reserves module buffers for the sums of a sweep that runs in some number of blocks, and decides by that number
    /// whether the last of them finishes the sums.
    pub(super) fn reserve(cx: &mut Context, sums: &[Sum], blocks: u64) -> Places {
        super::fence::part_from_many(cx, blocks);
        Places { buffers: sums.iter().map(|s| cx.partial(s.sum, blocks)).collect(), blocks }
    }

    fn store(&mut self, b: &mut Builder, number: usize, sum: SumId, block: Expr, value: Expr) {
        let arg = Arg::Module(self.buffers[number]);
        let name = format!("partial_{}", sum.0);
        let buffer = b.global(arg, &name, Element::F64, self.blocks, Access::Write);
        b.push(Stmt::Store { buffer, index: block, value });
    }
}

/// A total that lane 0 can read.
pub(super) struct Total {
    kind: SumKind,
    /// Totals of the groups in shared memory, or the only group's total.
    groups: Result<(crate::kernel::BufferId, u32), VarId>,
}

impl Total {
    /// The value; in lane 0 only.
    pub(super) fn value(self, b: &mut Builder) -> Expr {
        match self.groups {
            Err(var) => fold::var(var),
            Ok((buffer, groups)) => {
                let total = b.declare("total", load_at(buffer, fold::int(0)));
                let group = b.open_loop("group");
                let term = load_at(buffer, fold::var(group));
                let next = combined(b, self.kind, fold::var(total), term);
                b.push(Stmt::Assign(total, next));
                b.close_loop(group, fold::int(1), fold::int(i64::from(groups)), 1, LoopKind::Sequential);
                fold::var(total)
            }
        }
    }
}

/// Combines a variable of every lane: by shuffles within groups, through shared memory between them.
pub(super) fn block_totals(b: &mut Builder, sums: &[(SumKind, VarId)], lane: Expr, lanes: u32) -> Vec<Total> {
    let groups = lanes / GROUP;
    let mut totals = Vec::new();
    for &(kind, var) in sums {
        let mut distance = GROUP / 2;
        while distance > 0 {
            let other = b.result("other", Type::F64);
            let mode = Shuffle::Down(distance);
            b.push(Stmt::Shuffle { var: other, value: fold::var(var), mode, width: GROUP });
            let next = combined(b, kind, fold::var(var), fold::var(other));
            b.push(Stmt::Assign(var, next));
            distance /= 2;
        }
        let place = if groups > 1 {
            Ok((b.local("group_totals", Space::Shared, Element::F64, u64::from(groups)), groups))
        } else {
            Err(var)
        };
        totals.push(Total { kind, groups: place });
    }
    if groups > 1 {
        let group = i64::from(GROUP);
        b.open_if();
        for (total, &(_, var)) in totals.iter().zip(sums) {
            if let Ok((buffer, _)) = total.groups {
                let index = fold::div(lane.clone(), fold::int(group));
                b.push(Stmt::Store { buffer, index, value: fold::var(var) });
            }
        }
        b.close_if(fold::compare(Cmp::Eq, fold::rem(lane, fold::int(group)), fold::int(0)));
        b.push(Stmt::Barrier(Scope::Block));
    }
    totals
}

/// `a` and `b` combined; of a maximum, NaN wins.
pub(super) fn combined(b: &mut Builder, kind: SumKind, total: Expr, term: Expr) -> Expr {
    match kind {
        SumKind::Add => fold::add(total, term),
        SumKind::Max => {
            let term = fold::var(b.bind_here("term", term));
            let larger = fold::compare(Cmp::Ge, total.clone(), term.clone());
            let nan = fold::compare(Cmp::Ne, total.clone(), total.clone());
            fold::select(fold::binary(Op::Or, larger, nan), total, term)
        }
    }
}
