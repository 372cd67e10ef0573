//! What exits of a placed loop owe the solution, and how `finish` pays.
//!
//! Where an act may end the loop while the solution is behind, a *flag* is raised before the act; the flag says which
//! sweeps of `finish` are due. Under a delayed update ([`delay`](crate::plan::delay)) they also depend on the number
//! of pending updates, which a set of scalars counts: the k-th is 1 when k are pending, the others are 0. What is
//! paid is forgotten at once, so that an exit soon after going on does not pay again.

use std::collections::BTreeMap;

use super::build::{Illegal, SweepBuilder};
use super::rounds::{Writer, assign};
use crate::graph::NodeId;
use crate::loops::{BinaryOp, Control, ScalarExpr, ScalarId, ScalarStmt, Sweep, VectorId, Version};
use crate::plan::delay::Debt;
use crate::plan::model::{At, Instance};

/// A sweep that adds to the solution.
struct Payment {
    /// The iteration it leads to: payments are made in this order.
    iteration: i64,
    sweep: Sweep,
    /// Cases in which it is due: flag (none: no act ended the loop) and number of pending updates, if that matters.
    due: Vec<(Option<ScalarId>, Option<usize>)>,
}

/// Ways in which the solution may be behind.
#[derive(Default)]
pub(super) struct Debts {
    /// One flag for every different debt.
    pub flags: Vec<ScalarId>,
    /// Which of them an act owes; under a delayed update, after the whole sweep or elsewhere.
    pub owed: BTreeMap<(NodeId, bool), usize>,
    payments: Vec<Payment>,
    /// The k-th is 1 when k updates are pending.
    pending: Vec<ScalarId>,
}

impl Debts {
    /// Says, before an act, what the solution would lack if the act ended the solve.
    pub fn mark(&self, owed: Option<usize>, state: &mut [bool], out: &mut Vec<ScalarStmt>) {
        for (i, flag) in self.flags.iter().enumerate() {
            let due = owed == Some(i);
            if state[i] != due {
                state[i] = due;
                out.push(assign(*flag, f64::from(u8::from(due))));
            }
        }
    }

    /// Counts an update that was made or left out.
    pub fn count(&self, made: bool, out: &mut Vec<ScalarStmt>) {
        let value = |k: usize| if made { ScalarExpr::Number(0.0) } else { ScalarExpr::Scalar(self.pending[k - 1]) };
        self.set_pending(value, ScalarExpr::Number(f64::from(u8::from(made))), out);
    }

    /// Counts on where an update is made in a sweep of its own: after the last number that may be pending follows none.
    pub fn count_on(&self, out: &mut Vec<ScalarStmt>) {
        let others = self.pending.iter().skip(1);
        let none = others.fold(ScalarExpr::Number(1.0), |rest, k| minus(rest, *k));
        self.set_pending(|k| ScalarExpr::Scalar(self.pending[k - 1]), none, out);
    }

    /// Assigns the numbers of pending updates, each from those below it, and last that of none.
    fn set_pending(&self, value: impl Fn(usize) -> ScalarExpr, none: ScalarExpr, out: &mut Vec<ScalarStmt>) {
        let values = (1..self.pending.len()).rev().map(|k| (k, value(k))).chain([(0, none)]);
        let known = values.filter_map(|(k, value)| Some((*self.pending.get(k)?, value)));
        out.extend(known.map(|(scalar, value)| ScalarStmt::Assign { scalar, value, text: String::new() }));
    }

    fn pay(&mut self, iteration: i64, sweep: &Sweep, due: (Option<ScalarId>, Option<usize>)) {
        match self.payments.iter_mut().find(|p| p.iteration == iteration && p.sweep == *sweep) {
            Some(known) if known.due.contains(&due) => {}
            Some(known) => known.due.push(due),
            None => self.payments.push(Payment { iteration, sweep: sweep.clone(), due: vec![due] }),
        }
    }

    /// 1 where a payment is due.
    fn condition(&self, p: &Payment) -> ScalarExpr {
        let terms = p.due.iter().map(|(flag, pending)| {
            let ended = match flag {
                Some(flag) => ScalarExpr::Scalar(*flag),
                None => self.flags.iter().fold(ScalarExpr::Number(1.0), |rest, flag| minus(rest, *flag)),
            };
            match pending {
                Some(k) => {
                    let pending = ScalarExpr::Scalar(self.pending[*k]);
                    ScalarExpr::Binary(BinaryOp::Mul, Box::new(ended), Box::new(pending))
                }
                None => ended,
            }
        });
        let sum = terms.reduce(|a, b| ScalarExpr::Binary(BinaryOp::Add, Box::new(a), Box::new(b)));
        sum.unwrap_or(ScalarExpr::Number(0.0))
    }
}

fn minus(a: ScalarExpr, b: ScalarId) -> ScalarExpr {
    ScalarExpr::Binary(BinaryOp::Sub, Box::new(a), Box::new(ScalarExpr::Scalar(b)))
}

/// Payments of one debt: pending updates, iteration, sweep.
type Bill = Vec<(Option<usize>, i64, Sweep)>;

impl Writer<'_, '_> {
    /// Finds all debts.
    pub fn plan_debts(&mut self, solution: VectorId) -> Result<(), Illegal> {
        match self.model.delayed(self.placement) {
            Some(node) => self.delayed_debts(node, solution),
            None => self.single_debts(solution),
        }
    }

    /// The solution is behind by what one sweep adds.
    fn single_debts(&mut self, solution: VectorId) -> Result<(), Illegal> {
        let mut bills = Vec::new();
        for act in &self.analysis.behind {
            let Some(node) = self.model.solution_at(*act) else { continue };
            let t = self.analysis.scalar_times[act];
            let p = self.placement;
            let at = p.first + (t - p.first).rem_euclid(p.sweeps);
            let e = (at - t).div_euclid(p.sweeps);
            let value = self.model.trace_back(node, e);
            let c = At { at: at + 1, runup: false, solution: None };
            let sweep = self.payment(c, value, Some((*act, e)), solution)?;
            self.owe((*act, false), vec![(None, 0, sweep)], &mut bills);
        }
        Ok(())
    }

    fn delayed_debts(&mut self, node: NodeId, solution: VectorId) -> Result<(), Illegal> {
        for k in 0..self.placement.delay {
            let name = format!("pending_{k}");
            self.debts.pending.push(self.sequencer.parts.scalar(&name));
        }
        let debts = self.model.debts(self.placement, node, self.analysis).map_err(Illegal)?;
        let mut bills = Vec::new();
        for debt in &debts {
            let bill = self.bill(debt, node, solution)?;
            match debt.act {
                Some((act, _)) => self.owe((act, debt.whole), bill, &mut bills),
                None => bill.iter().for_each(|(k, iteration, sweep)| self.debts.pay(*iteration, sweep, (None, *k))),
            }
        }
        Ok(())
    }

    fn bill(&self, debt: &Debt, node: NodeId, solution: VectorId) -> Result<Bill, Illegal> {
        let mut bill = Vec::new();
        for (pending, held) in &debt.held {
            for iteration in debt.missing(*held) {
                let sweep = self.payment(debt.context(iteration), (node, iteration), debt.act, solution)?;
                bill.push((Some(*pending), iteration, sweep));
            }
        }
        Ok(bill)
    }

    fn payment(&self, c: At, value: Instance, act: Option<Instance>, solution: VectorId) -> Result<Sweep, Illegal> {
        let mut builder = SweepBuilder::new(self.sequencer.graph);
        builder.store(&self.here(c, act), value.0, value.1, Version { vector: solution, ahead: 0 })?;
        let mut sweep = builder.finish(None);
        sweep.name = format!("complete_{}", sweep.name);
        Ok(sweep)
    }

    /// Notes what an act owes; equal debts share a flag.
    fn owe(&mut self, act: (NodeId, bool), bill: Bill, bills: &mut Vec<Bill>) {
        let number = bills.iter().position(|known| *known == bill).unwrap_or_else(|| {
            let flag = self.sequencer.parts.scalar("solution_behind");
            self.debts.flags.push(flag);
            bill.iter().for_each(|(k, iteration, sweep)| self.debts.pay(*iteration, sweep, (Some(flag), *k)));
            bills.push(bill);
            bills.len() - 1
        });
        self.debts.owed.insert(act, number);
    }

    /// Before the first round nothing is pending.
    pub fn enter_delay(&mut self, start: &mut Vec<Control>) {
        let mut statements = Vec::new();
        self.debts.count(true, &mut statements);
        if !statements.is_empty() {
            let fence = self.sequencer.parts.fence("enter_delay", statements, None);
            start.push(fence);
        }
    }

    /// Section `finish`, and what says that nothing is owed.
    pub fn finish(&mut self) -> (Vec<Control>, Vec<ScalarStmt>) {
        let mut payments = std::mem::take(&mut self.debts.payments);
        payments.sort_by_key(|p| p.iteration);
        let reset: Vec<ScalarStmt> =
            self.debts.flags.iter().chain(&self.debts.pending).map(|scalar| assign(*scalar, 0.0)).collect();
        let mut finish = Vec::new();
        let mut due = Vec::new();
        for payment in payments {
            let scalar = match payment.due.as_slice() {
                [(Some(flag), None)] => *flag,
                _ => {
                    let scalar = self.sequencer.parts.scalar("due");
                    let value = self.debts.condition(&payment);
                    due.push(ScalarStmt::Assign { scalar, value, text: String::new() });
                    scalar
                }
            };
            let sweep = Sweep { predicate: Some(scalar), ..payment.sweep };
            finish.push(self.sequencer.parts.sweep(sweep));
        }
        if !due.is_empty() {
            finish.insert(0, self.sequencer.parts.fence("debts", due, None));
        }
        if !finish.is_empty() {
            finish.push(self.sequencer.parts.fence("debts_paid", reset.clone(), None));
        }
        (finish, reset)
    }
}
