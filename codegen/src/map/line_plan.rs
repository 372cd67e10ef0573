//! What a sweep with solves does in which of its loops.

use std::collections::BTreeMap;

use super::MapError;
use super::elimination::Solver;
use super::point::operands;
use crate::loops::{Sweep, ValueId, ValueKind};

/// What a sweep does in which loop: loop 2s goes forwards for solve s, loop 2s + 1 backwards.
pub(super) struct Plan {
    /// Solves in order: value, right side.
    pub(super) solves: Vec<(ValueId, ValueId)>,
    /// Loop of each store and sum.
    pub(super) stores: Vec<usize>,
    pub(super) sums: Vec<usize>,
    /// Values put into arrays, with their loops.
    pub(super) keeps: BTreeMap<usize, usize>,
}

impl Plan {
    /// Orders the work of a sweep that solves along an axis. With `near`, a later loop finds what an earlier one stored
    /// in an array, not in the vector: on the host a line's points lie far apart, and what was stored has left the
    /// caches.
    pub(super) fn new(sweep: &Sweep, axis: usize, near: bool) -> Result<Plan, MapError> {
        let mut stages = Vec::new();
        let mut solves = Vec::new();
        for (number, value) in sweep.values.iter().enumerate() {
            let stage = |v: &ValueId, stages: &[usize]| stages[v.0];
            let mut of = 0;
            match &value.kind {
                ValueKind::Load(_) | ValueKind::AffinePart => {}
                ValueKind::Map(e) => operands(e, &mut |v| of = of.max(stages[v.0])),
                ValueKind::Diagonal(v) | ValueKind::Inside(v) => of = stage(v, &stages),
                ValueKind::Apply(v) | ValueKind::Magnitude(v) | ValueKind::Along(_, v) => {
                    if stage(v, &stages) > 0 {
                        return Err(MapError::Unsupported("the operator on a solution of the same sweep".into()));
                    }
                }
                ValueKind::Companion { .. } => {
                    return Err(MapError::Internal("a matrix has no lines".into()));
                }
                ValueKind::Solve(a, v) => {
                    if *a != axis {
                        return Err(MapError::Internal("a sweep solves along its own axis only".into()));
                    }
                    solves.push((ValueId(number), *v));
                    of = solves.len();
                    if stage(v, &stages) >= of {
                        return Err(MapError::Internal("a right side comes after its solution".into()));
                    }
                }
            }
            stages.push(of);
        }
        let place = |v: ValueId| match stages[v.0] {
            0 => 0,
            stage => 2 * stage - 1,
        };
        let stores = sweep.stores.iter().map(|s| place(s.value)).collect();
        let sums = sweep.sums.iter().map(|s| place(s.left).max(s.right.map_or(0, place))).collect();
        let mut plan = Plan { solves, stores, sums, keeps: BTreeMap::new() };
        let mut evaluated = BTreeMap::new();
        for at in 0..2 * plan.solves.len() {
            for root in plan.roots(sweep, at) {
                plan.need(sweep, root, at, near, &mut evaluated);
            }
        }
        Ok(plan)
    }

    /// Values a loop evaluates for their own sake.
    pub(super) fn roots(&self, sweep: &Sweep, at: usize) -> Vec<ValueId> {
        let mut roots = Vec::new();
        if at.is_multiple_of(2) {
            roots.push(self.solves[at / 2].1);
        }
        roots.extend(sweep.stores.iter().zip(&self.stores).filter(|s| *s.1 == at).map(|s| s.0.value));
        for (sum, _) in sweep.sums.iter().zip(&self.sums).filter(|s| *s.1 == at) {
            roots.push(sum.left);
            roots.extend(sum.right);
        }
        roots
    }

    /// Decides how a loop gets at a value that an earlier one may have had.
    fn need(&mut self, sweep: &Sweep, v: ValueId, at: usize, near: bool, evaluated: &mut BTreeMap<usize, usize>) {
        if self.keeps.contains_key(&v.0) {
            return;
        }
        let stored = sweep.stores.iter().zip(&self.stores).find(|(s, l)| s.value == v && **l < at);
        if let Some((_, &earlier)) = stored {
            if near && !matches!(sweep.values[v.0].kind, ValueKind::Solve(..)) {
                self.keeps.insert(v.0, earlier);
            }
            return;
        }
        match &sweep.values[v.0].kind {
            ValueKind::Solve(..) => {}
            ValueKind::Load(version) => {
                let overwritten = sweep.stores.iter().zip(&self.stores).find(|(s, l)| s.to == *version && **l < at);
                if let Some((_, &earlier)) = overwritten {
                    self.keeps.insert(v.0, earlier);
                }
            }
            ValueKind::Map(e) => {
                if gathers(sweep, v) && self.again(v, at, evaluated) {
                    return;
                }
                let mut read = Vec::new();
                operands(e, &mut |v| read.push(v));
                read.into_iter().for_each(|v| self.need(sweep, v, at, near, evaluated));
            }
            ValueKind::Diagonal(x) | ValueKind::Inside(x) => self.need(sweep, *x, at, near, evaluated),
            ValueKind::AffinePart => {}
            ValueKind::Apply(_) | ValueKind::Magnitude(_) | ValueKind::Along(..) | ValueKind::Companion { .. } => {
                self.again(v, at, evaluated);
            }
        }
    }

    /// Whether a loop wants what an earlier one evaluated, which is then kept.
    fn again(&mut self, v: ValueId, at: usize, evaluated: &mut BTreeMap<usize, usize>) -> bool {
        let earlier = *evaluated.entry(v.0).or_insert(at);
        if earlier < at {
            self.keeps.insert(v.0, earlier);
        }
        earlier < at
    }

    /// Elements per point of the line that arrays hold, at most.
    pub(super) fn arrays(&self, components: usize, solvers: &[Solver]) -> u64 {
        let of_solves: u64 = solvers.iter().map(Solver::arrays).sum();
        of_solves * self.solves.len() as u64 + (self.keeps.len() * components) as u64
    }
}

/// Whether a value is made of what is read at neighbours: too much to be evaluated twice.
fn gathers(sweep: &Sweep, v: ValueId) -> bool {
    let kind = &sweep.values[v.0].kind;
    match kind {
        ValueKind::Map(e) => {
            let mut found = false;
            operands(e, &mut |v| found |= gathers(sweep, v));
            found
        }
        ValueKind::Diagonal(x) | ValueKind::Inside(x) => gathers(sweep, *x),
        kind => kind.gathers(),
    }
}
