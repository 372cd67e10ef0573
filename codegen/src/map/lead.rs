//! Sums that the next sweep finishes: each of its blocks does at its begin what the fence before would.
//!
//! All blocks add up the same partial sums in the same order and run the scalar statements, each for itself; what these
//! assign stands in shared memory ([`Lead`]). It reaches the scalars of the loop when no block will read them any more: by
//! the last block of the sweep, or of those that find that the status word is raised. No kernel runs between the sweeps,
//! and no block waits for the others' partial sums.

use std::collections::{BTreeMap, BTreeSet};

use super::builder::Builder;
use super::context::Context;
use super::eval::{Eval, load_at};
use super::fence::{self, sums_of};
use super::fold;
use super::{Finish, MapError, Options, Target};
use crate::kernel::{Access, BufferId, Cmp, Element, Expr, Scope, Space, Stmt};
use crate::loops::{Control, Fence, FenceId, Program, ScalarId, ScalarStmt, SweepId, status};
use crate::loops_verify::{Read, statement_reads};

/// What a block keeps of a fence that it has run for itself, in shared memory.
pub(super) struct Lead {
    /// Scalars that the fence reads or assigns, then the measure that it records.
    pub(super) values: BufferId,
    /// The status word that it raises (0 if none), the iteration beside it, where the measure belongs in the history (a
    /// negative number if nowhere).
    pub(super) state: BufferId,
    /// Places of the scalars, and whether they are assigned.
    scalars: BTreeMap<ScalarId, (usize, bool)>,
    /// Whether it records a measure.
    recorded: bool,
}

impl Lead {
    /// Where the value of a scalar stands.
    pub(super) fn place(&self, scalar: ScalarId) -> Expr {
        fold::int(self.scalars.get(&scalar).map_or(0, |known| known.0 as i64))
    }

    /// The value of a scalar that the fence reads or assigns.
    pub(super) fn value(&self, scalar: ScalarId) -> Option<Expr> {
        self.scalars.contains_key(&scalar).then(|| load_at(self.values, self.place(scalar)))
    }

    /// Keeps a measure for the history.
    pub(super) fn record(&self, b: &mut Builder, at: Expr, measure: Expr) {
        b.push(Stmt::Store { buffer: self.values, index: fold::int(self.scalars.len() as i64), value: measure });
        b.push(Stmt::Store { buffer: self.state, index: fold::int(2), value: at });
    }
}

/// Scalars that a fence reads or assigns; the latter are marked.
fn scalars_of(fence: &Fence) -> BTreeMap<ScalarId, bool> {
    let mut scalars = BTreeMap::new();
    for statement in &fence.statements {
        let visited = statement_reads(statement, &mut |read| {
            if let Read::Scalar(scalar) = read {
                scalars.entry(scalar).or_insert(false);
            }
            Ok(())
        });
        debug_assert!(visited.is_ok(), "the visitor refuses nothing");
        scalars.extend(statement.assigned().iter().map(|scalar| (*scalar, true)));
    }
    // Beside the status word and the history stands the iteration.
    scalars.entry(ScalarId::ITERATION).or_insert(false);
    scalars
}

/// Sweeps that may begin with the fence before them: it is always there, directly before, and whatever follows it
/// directly, in any branch, is such a sweep. None where it was said that others finish sums.
pub(super) fn leaders(program: &Program, options: &Options) -> BTreeMap<SweepId, FenceId> {
    let other = matches!(options.variant.fence, Some(Finish::Own | Finish::Last));
    if options.target == Target::Host || other || program.operator.space.rows().is_some() {
        return BTreeMap::new();
    }
    let mut order = Order::default();
    for section in [&program.prepare, &program.start, &program.body, &program.residual, &program.finish] {
        let last = order.visit(section, None);
        order.follow(last, None);
    }
    let mut leaders: BTreeMap<SweepId, FenceId> = BTreeMap::new();
    for (&fence, after) in &order.after {
        let sweeps: Option<Vec<SweepId>> = after.iter().copied().collect();
        let Some(sweeps) = sweeps else {
            continue;
        };
        if fits(program, &program.fences[fence.0], &sweeps)
            && sweeps.iter().all(|sweep| order.before[sweep] == BTreeSet::from([Some(fence)]))
        {
            leaders.extend(sweeps.into_iter().map(|sweep| (sweep, fence)));
        }
    }
    leaders
}

/// Whether a fence is one that several blocks may run, and its sums are made before the sweeps.
fn fits(program: &Program, fence: &Fence, sweeps: &[SweepId]) -> bool {
    let sums = sums_of(fence);
    let made = |number: usize| program.sweeps[number].sums.iter().any(|sum| sums.contains(&sum.sum));
    let checks = fence.statements.iter().filter(|s| matches!(s, ScalarStmt::Check { .. })).count();
    let alike = fence.predicate.is_none() && sweeps.iter().all(|s| program.sweeps[s.0].predicate.is_none());
    let after = sweeps.iter().all(|s| (s.0..program.sweeps.len()).all(|number| !made(number)));
    alike && after && checks <= 1 && !sums.is_empty()
}

/// What stands directly before each sweep, and after each fence; none for anything else than a fence, or a sweep.
#[derive(Default)]
struct Order {
    before: BTreeMap<SweepId, BTreeSet<Option<FenceId>>>,
    after: BTreeMap<FenceId, BTreeSet<Option<SweepId>>>,
}

impl Order {
    /// Walks through a section; the fence that it ends with.
    fn visit(&mut self, section: &[Control], before: Option<FenceId>) -> Option<FenceId> {
        let mut last = before;
        for step in section {
            last = match step {
                Control::Fence(fence) => {
                    self.follow(last, None);
                    Some(*fence)
                }
                Control::Sweep(sweep) => {
                    self.before.entry(*sweep).or_default().insert(last);
                    self.follow(last, Some(*sweep));
                    None
                }
                Control::Every { body, otherwise, .. } => {
                    for branch in [body, otherwise] {
                        let end = self.visit(branch, last);
                        self.follow(end, None);
                    }
                    None
                }
                Control::Loop { body, .. } => {
                    self.follow(last, None);
                    let end = self.visit(body, None);
                    self.follow(end, None);
                    None
                }
                // Other names for vectors are those of the next round.
                Control::Rotate(_) => {
                    self.follow(last, None);
                    None
                }
            };
        }
        last
    }

    fn follow(&mut self, fence: Option<FenceId>, by: Option<SweepId>) {
        if let Some(fence) = fence {
            self.after.entry(fence).or_default().insert(by);
        }
    }
}

/// Begins a sweep: with the fence before it, if every block carries that out; then with the scalars that the end of the
/// kernel changes.
pub(super) fn open(eval: &mut Eval, lane: Expr, lanes: u32, blocks: u64) -> Result<(), MapError> {
    let cx = eval.cx;
    let Some(fence) = cx.leading else {
        if cx.closing.is_some() {
            eval.load_scalars();
        }
        return Ok(());
    };
    let fence = &cx.program.fences[fence.0];
    let b = &mut eval.b;
    let lane = b.bind("lane_in_block", lane);
    b.comment(format!("every block: {}", fence.name));
    let lead = begin(cx, b, fence, lane.clone());
    fence::body(cx, b, fence, Some(&lead), lane.clone(), lanes)?;
    b.push(Stmt::Barrier(Scope::Block));
    let running = fold::int(i64::from(status::RUNNING));
    let raised = fold::compare(Cmp::Ne, load_at(lead.state, fold::int(0)), running);
    b.open_if();
    last(cx, b, &lead, lane, blocks);
    b.close_if(raised.clone());
    b.push(Stmt::ExitIf(raised));
    eval.lead = Some(lead);
    eval.load_scalars();
    Ok(())
}

/// The scalars as they are, nothing raised, nothing recorded.
fn begin(cx: &Context, b: &mut Builder, fence: &Fence, lane: Expr) -> Lead {
    let scalars = scalars_of(fence);
    let scalars: BTreeMap<ScalarId, (usize, bool)> =
        scalars.into_iter().enumerate().map(|(place, (scalar, assigned))| (scalar, (place, assigned))).collect();
    let values = b.local("fenced", Space::Shared, Element::F64, scalars.len() as u64 + 1);
    let state = b.local("raised", Space::Shared, Element::I32, 3);
    let checks = fence.statements.iter().any(|s| matches!(s, ScalarStmt::Check { .. }));
    let lead = Lead { values, state, scalars, recorded: checks && cx.options.history_len > 0 };
    b.open_if();
    for &scalar in lead.scalars.keys() {
        let value = super::scalars::load(b, cx, scalar);
        b.push(Stmt::Store { buffer: values, index: lead.place(scalar), value });
    }
    let none = [i64::from(status::RUNNING), 0, -1];
    for (index, value) in none.into_iter().enumerate() {
        b.push(Stmt::Store { buffer: state, index: fold::int(index as i64), value: fold::int(value) });
    }
    b.close_if(first(lane));
    lead
}

fn first(lane: Expr) -> Expr {
    fold::compare(Cmp::Eq, lane, fold::int(0))
}

/// Ends a sweep that no fence closes: its last block stores what the fence assigned that it began with.
pub(super) fn close(cx: &Context, b: &mut Builder, lead: Option<&Lead>, lane: Expr, blocks: u64) {
    if let (Some(lead), Some(fence)) = (lead, cx.leading) {
        b.comment(format!("the last block: what {} assigned", cx.program.fences[fence.0].name));
        last(cx, b, lead, lane, blocks);
    }
}

/// Where the block is the last one that comes here, its first lane stores what the fence assigned.
fn last(cx: &Context, b: &mut Builder, lead: &Lead, lane: Expr, blocks: u64) {
    if blocks == 1 {
        commit(cx, b, Some(lead), first(lane));
        return;
    }
    b.open_if();
    let before = fence::announce(cx, b);
    b.open_if();
    fence::forget(cx, b, blocks);
    stores(cx, b, lead);
    b.close_if(fold::compare(Cmp::Eq, before, fold::int(blocks as i64 - 1)));
    b.close_if(first(lane));
}

/// Stores what the fence assigned, in the first lane.
pub(super) fn commit(cx: &Context, b: &mut Builder, lead: Option<&Lead>, first: Expr) {
    if let Some(lead) = lead {
        b.open_if();
        stores(cx, b, lead);
        b.close_if(first);
    }
}

fn stores(cx: &Context, b: &mut Builder, lead: &Lead) {
    let scalars = super::scalars::buffer(b, cx, Access::Write);
    for (&scalar, &(place, assigned)) in &lead.scalars {
        if assigned {
            let value = load_at(lead.values, fold::int(place as i64));
            b.push(Stmt::Store { buffer: scalars, index: fold::int(scalar.0 as i64), value });
        }
    }
    let word = load_at(lead.state, fold::int(0));
    let status_word = super::scalars::status(b, Access::Write);
    b.open_if();
    for index in 0..2 {
        let value = load_at(lead.state, fold::int(index));
        b.push(Stmt::Store { buffer: status_word, index: fold::int(index), value });
    }
    b.close_if(fold::compare(Cmp::Ne, word, fold::int(i64::from(status::RUNNING))));
    if lead.recorded {
        let at = fold::var(b.bind_here("entry", load_at(lead.state, fold::int(2))));
        fence::append(cx, b, at, load_at(lead.values, fold::int(lead.scalars.len() as i64)));
    }
}

/// Partial sums of one kind at most that every block adds up, unless it was said who finishes sums.
const FEW_PARTIALS: u64 = 4096;

/// Whether a fence is left to the sweeps after it, now that the sweeps before are mapped. All of them find the same.
pub(super) fn worth(cx: &Context, options: &Options, fence: FenceId) -> bool {
    let sums = sums_of(&cx.program.fences[fence.0]);
    let few = sums.iter().all(|sum| cx.partials[sum.0].is_some_and(|(_, blocks)| blocks <= FEW_PARTIALS));
    few || options.variant.fence == Some(Finish::Next)
}
