//! Fences: one block finishes the sums and runs the scalar statements in lane 0, in a kernel of its own or as the last
//! block of the sweep before. ([`lead`](super::lead) has every block of the sweep after do it.)
//!
//! A statement that raises the status word ends the fence: what follows runs in the branch where nothing was raised.

use std::collections::{BTreeMap, BTreeSet};

use super::builder::Builder;
use super::context::{Context, Made};
use super::eval::{Eval, arithmetic, load_at};
use super::fold;
use super::lead::{self, Lead};
use super::scalars;
use super::sums::{block_totals, combined};
use super::{Finish, MapError, Target};
use crate::kernel::{Access, BufferId, Cmp, Element, Expr, LoopKind, Math, Scope, Space, Stmt, Type, VarId};
use crate::loops::{
    Control, Fence, FenceId, Program, ScalarCondition, ScalarExpr, ScalarId, ScalarStmt, SumId, SumKind, SweepId,
    status,
};
use crate::loops_verify::{Read, statement_reads};
use crate::module::Arg;

/// Partial sums that a lane has on their way at a time.
const UNROLL: u32 = 8;

/// Partial sums of one kind beyond which a fence takes as many lanes as a block may have.
const MANY_PARTIALS: u64 = 4096;

/// Maps a fence to a kernel of its own.
pub(super) fn kernel(cx: &Context, fence: &Fence) -> Result<Made, MapError> {
    let sums = sums_of(fence);
    let many = cx.options.target == Target::Cuda && !sums.is_empty();
    let lanes = if many { cx.options.variant.fence_lanes.unwrap_or_else(|| enough(cx, &sums)) } else { 1 };
    let mut b = Builder::new(&fence.name, written().to_vec());
    let what = if sums.is_empty() { "scalar statements" } else { "finishes sums and runs the scalar statements" };
    b.doc.push(format!("{what} between sweeps"));
    scalars::exits(&mut b, cx, fence.predicate);
    body(cx, &mut b, fence, None, Expr::Lane(0), lanes)?;
    Ok(b.finish([1, 1, 1], [lanes, 1, 1], cx.index))
}

/// Lanes for the partial sums at hand: one multiprocessor reads many only as fast as its lanes ask for them.
fn enough(cx: &Context, sums: &BTreeSet<SumId>) -> u32 {
    let most = sums.iter().filter_map(|sum| cx.partials[sum.0]).map(|(_, blocks)| blocks).max();
    if most.is_some_and(|blocks| blocks > MANY_PARTIALS) { 1024 } else { 256 }
}

/// What a fence stores to.
pub(super) fn written() -> [Arg; 3] {
    [Arg::Scalars, Arg::Status, Arg::History]
}

/// Sweeps that a fence follows directly, wherever either of them stands, under the same predicate: what the fence does
/// may be left to the sweep's last block.
pub(super) fn followers(program: &Program) -> BTreeMap<SweepId, FenceId> {
    let mut pairs = Pairs::default();
    for section in [&program.prepare, &program.start, &program.body, &program.residual, &program.finish] {
        pairs.visit(section);
    }
    let only = |set: &BTreeSet<Option<FenceId>>| set.iter().next().copied().flatten().filter(|_| set.len() == 1);
    let fitting = pairs.after.iter().filter_map(|(&sweep, after)| {
        let fence = only(after)?;
        let before = &pairs.before[&fence];
        let alike = program.sweeps[sweep.0].predicate == program.fences[fence.0].predicate;
        (alike && before.len() == 1 && before.contains(&Some(sweep))).then_some((sweep, fence))
    });
    fitting.collect()
}

/// What follows each sweep, and what precedes each fence.
#[derive(Default)]
struct Pairs {
    after: BTreeMap<SweepId, BTreeSet<Option<FenceId>>>,
    before: BTreeMap<FenceId, BTreeSet<Option<SweepId>>>,
}

impl Pairs {
    fn visit(&mut self, control: &[Control]) {
        let mut last = None;
        for step in control {
            match step {
                // A name for a vector changes nothing for a fence.
                Control::Rotate(_) => continue,
                Control::Fence(fence) => {
                    self.before.entry(*fence).or_default().insert(last);
                    if let Some(sweep) = last {
                        self.after.entry(sweep).or_default().insert(Some(*fence));
                    }
                    last = None;
                    continue;
                }
                _ => {}
            }
            if let Some(sweep) = last.take() {
                self.after.entry(sweep).or_default().insert(None);
            }
            match step {
                Control::Sweep(sweep) => last = Some(*sweep),
                Control::Loop { body, .. } => self.visit(body),
                Control::Every { body, otherwise, .. } => {
                    self.visit(body);
                    self.visit(otherwise);
                }
                Control::Fence(_) | Control::Rotate(_) => {}
            }
        }
        if let Some(sweep) = last {
            self.after.entry(sweep).or_default().insert(None);
        }
    }
}

/// Blocks of a sweep whose last one may finish the sums: each waits until its stores have arrived, which for a few
/// takes less time than a launch.
const FEW_BLOCKS: u64 = 1536;

/// Leaves the fence after a sweep of many blocks to a kernel of its own, unless it was said that its last block finishes
/// sums.
pub(super) fn part_from_many(cx: &mut Context, blocks: u64) {
    if blocks > FEW_BLOCKS && cx.options.variant.fence != Some(Finish::Last) {
        cx.closing = None;
    }
}

/// Ends a sweep's kernel with what its last block does: the scalars of the fence that the sweep began with are stored, the
/// fence that follows is carried out.
///
/// Every block announces itself after it has stored its partial sums; the last one to do so sees all of them. They are
/// combined in the order of the blocks, whichever is last. The counter ends as it began.
pub(super) fn close(eval: &mut Eval, lane: Expr, lanes: u32, blocks: u64) -> Result<(), MapError> {
    let cx = eval.cx;
    let b = &mut eval.b;
    let Some(closing) = cx.closing else {
        lead::close(cx, b, eval.lead.as_ref(), lane, blocks);
        return Ok(());
    };
    let fence = &cx.program.fences[closing.0];
    b.comment(format!("the last block: {}", fence.name));
    let lane = b.bind("lane_in_block", lane);
    let first = fold::compare(Cmp::Eq, lane.clone(), fold::int(0));
    // What the other lanes have read, the last block may change.
    b.push(Stmt::Barrier(Scope::Block));
    if blocks == 1 {
        lead::commit(cx, b, eval.lead.as_ref(), first);
        return body(cx, b, fence, None, lane, lanes);
    }
    let arrived = b.local("arrived", Space::Shared, Element::I32, 1);
    b.open_if();
    let before = announce(cx, b);
    b.push(Stmt::Store { buffer: arrived, index: fold::int(0), value: before });
    b.close_if(first.clone());
    b.push(Stmt::Barrier(Scope::Block));
    b.open_if();
    b.open_if();
    forget(cx, b, blocks);
    b.close_if(first.clone());
    lead::commit(cx, b, eval.lead.as_ref(), first);
    body(cx, b, fence, None, lane, lanes)?;
    let last = fold::compare(Cmp::Eq, load_at(arrived, fold::int(0)), fold::int(blocks as i64 - 1));
    b.close_if(last);
    Ok(())
}

/// Counts the block in; the number of those that came before. What its lane did before, those that come later see.
pub(super) fn announce(cx: &Context, b: &mut Builder) -> Expr {
    b.push(Stmt::Fence);
    let before = count(cx, b, 1);
    b.push(Stmt::Fence);
    before
}

/// All blocks have been counted: the counter is as it was.
pub(super) fn forget(cx: &Context, b: &mut Builder, blocks: u64) {
    count(cx, b, -(blocks as i64));
}

fn count(cx: &Context, b: &mut Builder, value: i64) -> Expr {
    let counter = b.global(Arg::Module(cx.arrivals), "arrivals", Element::I32, 1, Access::ReadWrite);
    let old = b.result("before", Type::Int);
    b.push(Stmt::AtomicAdd { old, buffer: counter, index: fold::int(0), value: fold::int(value) });
    fold::var(old)
}

/// Finishes the sums with all lanes of a block and runs the statements in lane 0, for all blocks or, with a lead, for its
/// own block.
pub(super) fn body(
    cx: &Context,
    b: &mut Builder,
    fence: &Fence,
    lead: Option<&Lead>,
    lane: Expr,
    lanes: u32,
) -> Result<(), MapError> {
    let sums = sums_of(fence);
    let mut writer = Writer { cx, b, lead, sums: BTreeMap::new(), known: BTreeMap::new() };
    if lanes > 1 && lead.is_none() && !sums.is_empty() {
        writer.ask(fence, lane.clone());
    }
    let parts = writer.strided(&sums, lane.clone(), lanes)?;
    if lanes > 1 {
        let running: Vec<(SumKind, VarId)> = parts.iter().map(|p| (cx.program.sums[p.0.0], p.1)).collect();
        let totals = block_totals(writer.b, &running, lane.clone(), lanes);
        writer.b.open_if();
        for (part, total) in parts.iter().zip(totals) {
            let total = total.value(writer.b);
            writer.sums.insert(part.0, total);
        }
        writer.checked(&fence.statements)?;
        writer.b.close_if(fold::compare(Cmp::Eq, lane, fold::int(0)));
    } else {
        for part in parts {
            writer.sums.insert(part.0, fold::var(part.1));
        }
        writer.checked(&fence.statements)?;
    }
    Ok(())
}

/// Writes the statements of a fence.
struct Writer<'a, 'c, 'b> {
    cx: &'c Context<'a>,
    b: &'b mut Builder,
    /// Where a block that runs them for itself keeps what they assign.
    lead: Option<&'b Lead>,
    /// Finished sums.
    sums: BTreeMap<SumId, Expr>,
    /// Scalars read or assigned so far. What runs later stands in the same block or within it.
    known: BTreeMap<ScalarId, Expr>,
}

impl Writer<'_, '_, '_> {
    /// Loads what the statements read while partial sums are on their way: one wait on memory instead of one after another.
    fn ask(&mut self, fence: &Fence, lane: Expr) {
        let mut loaded = Vec::new();
        self.b.comment("scalars, with partial sums on their way");
        for scalar in read_first(fence) {
            let var = self.b.declare(&self.cx.program.scalars[scalar.0], fold::real(0.0, Type::F64));
            loaded.push((scalar, var));
            self.known.insert(scalar, fold::var(var));
        }
        self.b.open_if();
        for (scalar, var) in loaded {
            let value = scalars::load(self.b, self.cx, scalar);
            self.b.push(Stmt::Assign(var, value));
        }
        self.b.close_if(fold::compare(Cmp::Eq, lane, fold::int(0)));
    }

    /// Every lane combines the partial sums of its blocks, in order; those of equally many blocks side by side.
    fn strided(&mut self, sums: &BTreeSet<SumId>, lane: Expr, lanes: u32) -> Result<Vec<(SumId, VarId)>, MapError> {
        let mut groups: BTreeMap<u64, Vec<(SumId, BufferId, VarId)>> = BTreeMap::new();
        for &sum in sums {
            let Some((number, blocks)) = self.cx.partials[sum.0] else {
                return Err(MapError::Internal(format!("sum {} is read by a fence and made by no sweep", sum.0)));
            };
            let arg = Arg::Module(number);
            let buffer = self.b.global(arg, &format!("partial_{}", sum.0), Element::F64, blocks, Access::Read);
            let total = self.b.declare(&format!("sum_{}", sum.0), fold::real(0.0, Type::F64));
            groups.entry(blocks).or_default().push((sum, buffer, total));
        }
        let (first, kind) =
            if lanes > 1 { (lane, LoopKind::Unroll(UNROLL)) } else { (fold::int(0), LoopKind::Sequential) };
        for (&blocks, group) in &groups {
            let block = self.b.open_loop("block");
            for &(sum, buffer, total) in group {
                let kind = self.cx.program.sums[sum.0];
                let next = combined(self.b, kind, fold::var(total), load_at(buffer, fold::var(block)));
                self.b.push(Stmt::Assign(total, next));
            }
            let blocks = fold::int(blocks as i64);
            self.b.close_loop(block, first.clone(), blocks, i64::from(lanes), kind.clone());
        }
        let mut parts: Vec<(SumId, VarId)> = groups.into_values().flatten().map(|(sum, _, var)| (sum, var)).collect();
        parts.sort_unstable();
        Ok(parts)
    }

    /// Runs the statements if all sums are finite.
    fn checked(&mut self, statements: &[ScalarStmt]) -> Result<(), MapError> {
        let mut bad = Expr::Bool(false);
        for sum in self.sums.values() {
            bad = fold::or(bad, infinite(sum.clone()));
        }
        self.raising(bad, fold::int(i64::from(status::NOT_FINITE)), |w| w.statements(statements))
    }

    /// Raises a status where the condition holds, and goes on where it does not.
    fn raising(
        &mut self,
        cond: Expr,
        word: Expr,
        rest: impl FnOnce(&mut Self) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        if cond == Expr::Bool(false) {
            return rest(self);
        }
        let iteration = self.scalar(ScalarId::ITERATION);
        self.b.open_if();
        let buffer = self.lead.map_or_else(|| scalars::status(self.b, Access::Write), |lead| lead.state);
        let at = Expr::Cast(Type::Int, Box::new(iteration));
        self.b.push(Stmt::Store { buffer, index: fold::int(0), value: word });
        self.b.push(Stmt::Store { buffer, index: fold::int(1), value: at });
        let then = self.b.close();
        self.b.open_if();
        rest(self)?;
        let otherwise = self.b.close();
        self.b.push(Stmt::If { cond, then, otherwise });
        Ok(())
    }

    /// Statements in order; one that may raise takes the rest into its branch.
    fn statements(&mut self, statements: &[ScalarStmt]) -> Result<(), MapError> {
        let Some((first, rest)) = statements.split_first() else {
            return Ok(());
        };
        match first {
            ScalarStmt::Assign { scalar, value, text } => {
                self.b.comment(text.clone());
                let value = self.value(value)?;
                self.assign(*scalar, value);
                self.statements(rest)
            }
            ScalarStmt::Measure { measure, bound } => {
                let (measure, bound) = (self.value(measure)?, self.value(bound)?);
                self.assign(ScalarId::MEASURE, measure);
                self.assign(ScalarId::BOUND, bound);
                self.statements(rest)
            }
            ScalarStmt::Check { measure, bound } => self.check(measure, bound, rest),
            ScalarStmt::Require { number, condition } => {
                let info = self.cx.program.requires.get(*number);
                if let Some(info) = info {
                    self.b.comment(info.text.clone());
                }
                let holds = self.condition(condition)?;
                let word = fold::int(i64::from(status::REQUIRE) + *number as i64);
                self.raising(fold::not(holds), word, |w| w.statements(rest))
            }
            ScalarStmt::Raise { status, condition } => {
                let cond = self.condition(condition)?;
                self.raising(cond, fold::int(i64::from(*status)), |w| w.statements(rest))
            }
        }
    }

    /// The convergence test.
    fn check(&mut self, measure: &ScalarExpr, bound: &ScalarExpr, rest: &[ScalarStmt]) -> Result<(), MapError> {
        self.b.comment("check: converged when measure <= bound");
        let (measure, bound) = (self.value(measure)?, self.value(bound)?);
        let measure = self.assign(ScalarId::MEASURE, measure);
        let bound = self.assign(ScalarId::BOUND, bound);
        self.record(measure.clone());
        let not_finite = infinite(measure.clone());
        let met = fold::compare(Cmp::Le, measure, bound);
        let (failed, converged) = (i64::from(status::NOT_FINITE), i64::from(status::CONVERGED));
        let word = fold::select(not_finite.clone(), fold::int(failed), fold::int(converged));
        self.raising(fold::or(not_finite, met), word, |w| w.statements(rest))
    }

    /// Appends a measure to the history, where it fits.
    fn record(&mut self, measure: Expr) {
        let len = self.cx.options.history_len;
        if len == 0 {
            return;
        }
        let iteration = self.scalar(ScalarId::ITERATION);
        let at = fold::var(self.b.bind_here("entry", Expr::Cast(Type::Int, Box::new(iteration))));
        if let Some(lead) = self.lead {
            lead.record(self.b, at, measure);
            return;
        }
        append(self.cx, self.b, at, measure);
    }

    /// Assigns a scalar; its value by name.
    fn assign(&mut self, scalar: ScalarId, value: Expr) -> Expr {
        let value = self.named(scalar, value);
        let (buffer, index) = match self.lead {
            Some(lead) => (lead.values, lead.place(scalar)),
            None => (scalars::buffer(self.b, self.cx, Access::Write), fold::int(scalar.0 as i64)),
        };
        self.b.push(Stmt::Store { buffer, index, value: value.clone() });
        value
    }

    /// A scalar, loaded where it is read first.
    fn scalar(&mut self, scalar: ScalarId) -> Expr {
        if let Some(known) = self.known.get(&scalar) {
            return known.clone();
        }
        let load = match self.lead {
            Some(lead) => load_at(lead.values, lead.place(scalar)),
            None => scalars::load(self.b, self.cx, scalar),
        };
        self.named(scalar, load)
    }

    /// Keeps the value of a scalar under its name.
    fn named(&mut self, scalar: ScalarId, value: Expr) -> Expr {
        let value = match value {
            Expr::Var(_) | Expr::Real(..) => value,
            other => fold::var(self.b.bind_here(&self.cx.program.scalars[scalar.0], other)),
        };
        self.known.insert(scalar, value.clone());
        value
    }

    /// A scalar expression.
    fn value(&mut self, e: &ScalarExpr) -> Result<Expr, MapError> {
        Ok(match e {
            ScalarExpr::Number(x) => fold::real(*x, Type::F64),
            ScalarExpr::Scalar(s) => self.scalar(*s),
            ScalarExpr::Sum(s) => {
                self.sums.get(s).cloned().ok_or_else(|| MapError::Internal("a sum is not finished here".into()))?
            }
            ScalarExpr::Param(p) => scalars::param(self.b, self.cx, self.cx.operator().params.len() + *p),
            ScalarExpr::Neg(a) => fold::neg(self.value(a)?),
            ScalarExpr::Binary(op, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                arithmetic(*op, a, b)
            }
            ScalarExpr::Call(f, args) => {
                let args = args.iter().map(|a| self.value(a)).collect::<Result<Vec<_>, _>>()?;
                scalars::call(*f, args)
            }
            ScalarExpr::Truth(c) => {
                let holds = self.condition(c)?;
                fold::select(holds, fold::real(1.0, Type::F64), fold::real(0.0, Type::F64))
            }
            ScalarExpr::Select(c, a, b) => {
                let holds = self.condition(c)?;
                let (a, b) = (self.value(a)?, self.value(b)?);
                fold::select(holds, a, b)
            }
        })
    }

    fn condition(&mut self, c: &ScalarCondition) -> Result<Expr, MapError> {
        Ok(match c {
            ScalarCondition::Compare(op, a, b) => {
                let (a, b) = (self.value(a)?, self.value(b)?);
                fold::compare(scalars::comparison(*op), a, b)
            }
            ScalarCondition::And(a, b) => fold::and(self.condition(a)?, self.condition(b)?),
            ScalarCondition::Or(a, b) => fold::or(self.condition(a)?, self.condition(b)?),
            ScalarCondition::Not(a) => fold::not(self.condition(a)?),
        })
    }
}

/// Appends a measure to the history, where it fits.
pub(super) fn append(cx: &Context, b: &mut Builder, at: Expr, measure: Expr) {
    let len = cx.options.history_len;
    let buffer = b.global(Arg::History, "history", Element::F64, len, Access::Write);
    b.open_if();
    b.push(Stmt::Store { buffer, index: at.clone(), value: measure });
    let fits =
        fold::and(fold::compare(Cmp::Ge, at.clone(), fold::int(0)), fold::compare(Cmp::Lt, at, fold::int(len as i64)));
    b.close_if(fits);
}

/// Sums that a fence finishes.
pub(super) fn sums_of(fence: &Fence) -> BTreeSet<SumId> {
    let mut sums = BTreeSet::new();
    let mut visit = |read| {
        if let Read::Sum(sum) = read {
            sums.insert(sum);
        }
        Ok(())
    };
    let visited = fence.statements.iter().try_for_each(|s| statement_reads(s, &mut visit));
    debug_assert!(visited.is_ok(), "the visitor refuses nothing");
    sums
}

/// Scalars that a fence reads before it assigns them; the iteration, which is noted beside a status, among them.
fn read_first(fence: &Fence) -> BTreeSet<ScalarId> {
    let mut read = BTreeSet::from([ScalarId::ITERATION]);
    let mut assigned: BTreeSet<ScalarId> = BTreeSet::new();
    for statement in &fence.statements {
        let visited = statement_reads(statement, &mut |what| {
            if let Read::Scalar(scalar) = what
                && !assigned.contains(&scalar)
            {
                read.insert(scalar);
            }
            Ok(())
        });
        debug_assert!(visited.is_ok(), "the visitor refuses nothing");
        assigned.extend(statement.assigned());
    }
    read
}

/// Whether a real is infinite or NaN.
fn infinite(e: Expr) -> Expr {
    let finite = Expr::Call(Math::IsFinite, vec![e]);
    fold::compare(Cmp::Eq, finite, fold::real(0.0, Type::F64))
}
