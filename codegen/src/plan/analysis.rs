//! What follows from a placement: versions of buffers, old scalars to keep, what exits owe, words and operations. An
//! illegal placement has no analysis.

use std::collections::{BTreeMap, BTreeSet};

use super::few::Times;
use super::model::{At, Instance, Model, Reads};
use super::schedule::Placement;
use crate::graph::{NodeId, NodeKind};

/// A placement with everything that follows from it.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// Time of every scalar and act.
    pub scalar_times: Times,
    /// Buffers of every stored node.
    pub versions: BTreeMap<NodeId, i64>,
    /// Old values of scalars that are kept.
    pub depths: BTreeMap<NodeId, i64>,
    /// Acts after which the solution must be brought up to date.
    pub behind: BTreeSet<NodeId>,
    /// Words of vectors loaded and stored per point and round.
    pub words: f64,
    /// Operations per point and round.
    pub work: f64,
}

impl Model<'_> {
    /// Everything that follows from a placement, or why it is not legal.
    pub fn analyse(&self, p: &Placement) -> Result<Analysis, String> {
        let scalar_times = self.scalar_times(p);
        let versions = self.carried().into_iter().chain(p.times.keys().copied());
        let versions = versions.filter(|n| self.graph.kind(*n).is_vector()).map(|n| (n, 1)).collect();
        let mut a = Analysis {
            scalar_times,
            versions,
            depths: BTreeMap::new(),
            behind: BTreeSet::new(),
            words: 0.0,
            work: 0.0,
        };
        if !self.carried().iter().all(|n| p.times.contains_key(n)) {
            return Err("a variable of the loop is not stored".into());
        }
        let begin = p.times.values().copied().min().unwrap_or(0);
        for at in begin..p.first {
            self.analyse_sweep(p, at, true, &mut a)?;
        }
        for at in p.first..p.first + p.sweeps {
            self.analyse_sweep(p, at, false, &mut a)?;
        }
        self.analyse_statements(p, &mut a)?;
        self.analyse_linear(p)?;
        match self.delayed(p) {
            Some(solution) => self.analyse_debts(p, solution, begin, &mut a)?,
            None => self.analyse_exits(p, begin, &mut a)?,
        }
        Ok(a)
    }

    fn analyse_sweep(&self, p: &Placement, at: i64, runup: bool, a: &mut Analysis) -> Result<(), String> {
        let c = At { at, runup, solution: None };
        let mut outputs = self.outputs(p, at, runup);
        let Some(solution) = self.delayed(p).and_then(|x| outputs.iter().position(|o| o.0 == x)) else {
            return self.analyse_outputs(p, &outputs, c, 1.0, a);
        };
        let share = 1.0 / f64::from(p.delay);
        if p.apart {
            let update = outputs.remove(solution);
            self.analyse_outputs(p, &[update], c, share, a)?;
            return self.analyse_outputs(p, &outputs, c, 1.0, a);
        }
        self.analyse_outputs(p, &outputs, c, share, a)?;
        outputs.remove(solution);
        self.analyse_outputs(p, &outputs, c, 1.0 - share, a)
    }

    /// What a sweep with these outputs takes, which runs in a share of the rounds.
    fn analyse_outputs(
        &self,
        p: &Placement,
        outputs: &[Instance],
        c: At,
        share: f64,
        a: &mut Analysis,
    ) -> Result<(), String> {
        let reads = self.sweep_reads(p, outputs, c.at, c.runup)?;
        if !c.runup {
            let stores = outputs.iter().filter(|o| self.graph.kind(o.0).is_vector()).count();
            a.words += share * (reads.loads.len() + stores) as f64;
            a.work += share * self.work(&reads);
        }
        self.keep(p, &reads, c.at, c.runup, a)
    }

    /// Operations of what a sweep computes.
    fn work(&self, reads: &Reads) -> f64 {
        let computed = reads.seen.keys().filter(|(v, _)| !reads.loads.contains_key(v) && self.contains(v.0));
        computed.map(|((n, _), near)| self.operator.node(self.graph.kind(*n), *near)).sum()
    }

    /// Makes room for what is read: versions of buffers, old scalars.
    pub(super) fn keep(
        &self,
        p: &Placement,
        reads: &Reads,
        at: i64,
        runup: bool,
        a: &mut Analysis,
    ) -> Result<(), String> {
        for ((node, e), near) in reads.loads.iter() {
            if self.is_delayed(p, *node) {
                if *near {
                    return Err("a solution that is read at neighbours cannot be delayed".into());
                }
            } else if let Some(t) = p.times.get(node) {
                let needed = ceil_div(at + i64::from(*near) - t, p.sweeps) - e;
                a.versions.entry(*node).and_modify(|v| *v = (*v).max(needed));
            }
        }
        for s in reads.scalars.keys() {
            if runup && s.1 < -self.before(s.0).max(1) {
                return Err("a scalar of an iteration before the first is read".into());
            }
            let depth = self.depth_at_sweep(&a.scalar_times, p, *s, at);
            let depth = depth.ok_or_else(|| format!("{} is not known in time", self.graph.label(s.0)))?;
            a.depths.entry(s.0).and_modify(|d| *d = (*d).max(depth)).or_insert(depth);
        }
        Ok(())
    }

    fn analyse_statements(&self, p: &Placement, a: &mut Analysis) -> Result<(), String> {
        for n in self.body.iter().filter(|n| !self.graph.kind(**n).is_vector() && !p.times.contains_key(*n)) {
            let at = a.scalar_times[n];
            for s in self.scalar_args((*n, 0)) {
                let depth = self.depth_at_statement(&a.scalar_times, p, s, (*n, 0), at);
                let depth = depth.ok_or_else(|| format!("{} is not known in time", self.graph.label(s.0)))?;
                a.depths.entry(s.0).and_modify(|d| *d = (*d).max(depth)).or_insert(depth);
            }
            if matches!(self.graph.kind(*n), NodeKind::Check { .. }) && at < p.first {
                return Err("a test would run ahead of its iteration".into());
            }
        }
        Ok(())
    }

    /// A product that follows a recurrence must have been started by its definition.
    fn analyse_linear(&self, p: &Placement) -> Result<(), String> {
        for n in &p.linear {
            let NodeKind::Apply(operand) = self.graph.kind(*n) else { return Err("not a product".into()) };
            let back = self.linear_map(*operand).ok_or("not a linear operand")?.1;
            let Some(t) = p.times.get(n) else { return Err("a recurrence is not stored".into()) };
            if back < 0 && *t >= p.first {
                return Err("a recurrence has no beginning".into());
            }
        }
        Ok(())
    }

    fn analyse_exits(&self, p: &Placement, begin: i64, a: &mut Analysis) -> Result<(), String> {
        let mut exits = Vec::new();
        for act in self.body.iter().filter(|n| self.graph.kind(**n).raises()) {
            let Some(solution) = self.solution_at(*act) else { continue };
            let t = a.scalar_times[act];
            for at in begin.min(t)..p.first + p.sweeps {
                let e = (at - t).div_euclid(p.sweeps);
                let runup = at < p.first;
                if (at - t).rem_euclid(p.sweeps) != 0 || (runup && e < 0) {
                    continue;
                }
                let value = self.trace_back(solution, e);
                let reads = self.exit_reads(p, value, at, runup)?;
                self.keep_exit(p, &reads, (*act, e), at, a)?;
                exits.push((*act, at, value, reads));
            }
        }
        // At an iteration limit the solution of the round is current.
        if let Some((x, _)) = self.final_solution() {
            let t = p.times.get(&x).ok_or("the solution is not stored")?;
            let needed = ceil_div(p.first + p.sweeps - t, p.sweeps);
            a.versions.entry(x).and_modify(|v| *v = (*v).max(needed));
        }
        for (act, at, value, reads) in exits {
            let carried = self.final_solution().is_some_and(|(solution, _)| solution == value.0);
            if carried && reads.scalars.is_empty() && reads.loads.keys().eq([&value]) && is_current(a, value) {
                continue;
            }
            a.behind.insert(act);
            if at < p.first {
                return Err("the solution is behind where it cannot be brought up to date".into());
            }
        }
        Ok(())
    }

    /// What bringing the solution up to date after a fence reads.
    pub fn exit_reads(&self, p: &Placement, value: Instance, at: i64, runup: bool) -> Result<Reads, String> {
        let mut reads = Reads::default();
        self.read(p, value, At { at: at + 1, runup, solution: None }, false, &mut reads)?;
        if reads.loads.values().any(|near| *near) {
            return Err("the solution would be brought up to date from neighbours".into());
        }
        Ok(reads)
    }

    pub(super) fn keep_exit(
        &self,
        p: &Placement,
        reads: &Reads,
        act: Instance,
        at: i64,
        a: &mut Analysis,
    ) -> Result<(), String> {
        for (node, e) in reads.loads.keys().filter(|v| !self.is_delayed(p, v.0)) {
            if let Some(t) = p.times.get(node) {
                let needed = ceil_div(at + 1 - t, p.sweeps) - e;
                a.versions.entry(*node).and_modify(|v| *v = (*v).max(needed));
            }
        }
        for s in reads.scalars.keys() {
            let depth = self.depth_at_statement(&a.scalar_times, p, *s, act, at);
            let depth = depth.ok_or_else(|| format!("{} is not known at an exit", self.graph.label(s.0)))?;
            a.depths.entry(s.0).and_modify(|d| *d = (*d).max(depth)).or_insert(depth);
        }
        Ok(())
    }
}

/// Whether a stored value is in the current buffer of its vector, seen from the round of iteration 0.
fn is_current(a: &Analysis, value: Instance) -> bool {
    a.versions.get(&value.0).is_none_or(|v| (value.1 + 1).rem_euclid(*v) == 0)
}

pub(super) fn ceil_div(a: i64, b: i64) -> i64 {
    -(-a).div_euclid(b)
}
