//! Delayed update of the solution.
//!
//! The solution of most loops is updated from itself and from vectors that are at hand, and read by nobody:
//! `u = u + alpha*p`. Updated in every m-th round only, by all m terms at once, it is loaded and stored m times less
//! often, while m - 1 earlier versions of the vectors in its terms must be kept and loaded then.
//!
//! The sweep that updates the solution exists twice: whole for rounds m, 2m, … and light, without the solution, for
//! the others. Or the solution is updated *apart*: by a sweep of its own in rounds m, 2m, …, before the sweep that computes what
//! has the same time. The vectors in its terms are then loaded once more, but a sweep that reads neighbours or solves along
//! lines has no others to load beside its own. Between updates the solution in memory is behind by a number of iterations that depends on the round;
//! an exit pays the difference in `finish`, one iteration a sweep. A [`Debt`] says what each way to end the loop owes.

use super::analysis::Analysis;
use super::model::{At, Instance, Model, Reads};
use super::schedule::Placement;
use crate::graph::NodeId;

/// What is owed when the loop ends in a certain place.
#[derive(Debug, Clone, PartialEq)]
pub struct Debt {
    /// The act that ends it, as seen from the round; none: an iteration limit after a round.
    pub act: Option<Instance>,
    /// Whether the act stands after the whole sweep rather than the light one (or another).
    pub whole: bool,
    /// Time after which it is paid.
    pub at: i64,
    /// Iteration of the solution that is wanted.
    pub target: i64,
    /// Iterations of the solution that may be in memory, by how many updates of the round before are pending.
    pub held: Vec<(usize, i64)>,
}

impl Debt {
    /// Iterations that are missing when the solution in memory is at `held`.
    pub fn missing(&self, held: i64) -> std::ops::RangeInclusive<i64> {
        held + 1..=self.target
    }
}

impl Model<'_> {
    /// What every way to end the loop owes under a delayed update.
    pub fn debts(&self, p: &Placement, solution: NodeId, a: &Analysis) -> Result<Vec<Debt>, String> {
        let t = *p.times.get(&solution).ok_or("the solution is not stored")?;
        if t < p.first {
            return Err("a solution that is updated ahead of its iteration cannot be delayed".into());
        }
        let period = i64::from(p.delay);
        let pending = |from: i64, to: i64, offset: i64| -> Vec<(usize, i64)> {
            (from..to).map(|k| (k as usize, offset - k)).collect()
        };
        let mut out = Vec::new();
        for act in self.body.iter().filter(|n| self.graph.kind(**n).raises()) {
            let wanted = self.solution_at(*act).ok_or("an act does not see the solution")?;
            let time = a.scalar_times[act];
            let at = p.first + (time - p.first).rem_euclid(p.sweeps);
            let e = (at - time).div_euclid(p.sweeps);
            let (node, target) = self.trace_back(wanted, e);
            if node != solution {
                return Err("an act sees another solution".into());
            }
            let debt = |whole, held| Debt { act: Some((*act, e)), whole, at, target, held };
            if at == t && !p.apart {
                out.push(debt(false, pending(0, period - 1, -1)));
                out.push(debt(true, vec![(p.delay as usize - 1, 0)]));
            } else {
                out.push(debt(false, pending(0, period, if at < t { -1 } else { 0 })));
            }
        }
        let (act, whole, at) = (None, false, p.first - 1);
        out.push(Debt { act, whole, at, target: -1, held: pending(0, period, -1) });
        Ok(out)
    }

    /// What one iteration of the solution is made of after the loop has ended.
    pub fn payment(&self, p: &Placement, debt: &Debt, solution: NodeId, iteration: i64) -> Result<Reads, String> {
        let mut reads = Reads::default();
        self.read(p, (solution, iteration), debt.context(iteration), false, &mut reads)?;
        if reads.loads.values().any(|near| *near) {
            return Err("the solution would be brought up to date from neighbours".into());
        }
        Ok(reads)
    }

    pub(super) fn analyse_debts(
        &self,
        p: &Placement,
        solution: NodeId,
        begin: i64,
        a: &mut Analysis,
    ) -> Result<(), String> {
        for debt in self.debts(p, solution, a)? {
            for (_, held) in &debt.held {
                if debt.target < *held {
                    return Err("the solution is ahead of an act".into());
                }
                for iteration in debt.missing(*held) {
                    let reads = self.payment(p, &debt, solution, iteration)?;
                    match debt.act {
                        Some(act) => self.keep_exit(p, &reads, act, debt.at, a)?,
                        None => self.keep(p, &reads, debt.at + 1, false, a)?,
                    }
                    a.behind.extend(debt.act.map(|act| act.0));
                }
            }
            // In the run-up nothing has been updated yet.
            if let Some((act, _)) = debt.act {
                self.unchanged_in_runup(p, act, begin, a)?;
            }
        }
        Ok(())
    }

    fn unchanged_in_runup(&self, p: &Placement, act: NodeId, begin: i64, a: &Analysis) -> Result<(), String> {
        let time = a.scalar_times[&act];
        let Some(wanted) = self.solution_at(act) else { return Ok(()) };
        for at in begin.min(time)..p.first {
            let e = (at - time).div_euclid(p.sweeps);
            let due = (at - time).rem_euclid(p.sweeps) == 0 && e >= 0;
            if due && self.trace_back(wanted, e).1 != -1 {
                return Err("the solution is behind where it cannot be brought up to date".into());
            }
        }
        Ok(())
    }
}

impl Debt {
    /// How values are had when an iteration of the solution is added.
    pub fn context(&self, iteration: i64) -> At {
        At { at: self.at + 1, runup: false, solution: Some(iteration - 1) }
    }
}
