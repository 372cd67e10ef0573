//! The other half of legality: a placement carried out as what it says, with iterations in place of numbers.
//!
//! [`check`](super::check) runs the finished program in exact arithmetic. This part never sees the program, its numbers or
//! the planner's equations: from the graph and the placement's plain data it moves tokens. A buffer holds the iteration of
//! the value that was stored there last; a sweep that wants another one than it finds is wrong. Over a few rounds,
//! - every vector read, at the own point or around it, is there with the iteration that is wanted, or can be computed from
//!   what is;
//! - nothing is overwritten by the sweep that reads it around a point, and a value is stored once;
//! - scalars are read after the fence that finishes their sums;
//! - when an act may end the loop the solution is there, or can be completed from what is.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, MapTree, NodeId, NodeKind};
use crate::plan::schedule::Placement;

/// Rounds that are simulated: all buffers turn over, and delayed updates come around.
const ROUNDS: i64 = 9;
/// Values of one sweep, at most: a recomputation without end is an error.
const MOST: usize = 4096;

/// A value: a node of an iteration.
type Value = (NodeId, i64);

/// Checks a placement of the main loop of a graph.
pub fn simulate(graph: &Graph, placement: &Placement) -> Result<(), String> {
    if placement.sweeps < 1 {
        return Err("a round has no sweep".into());
    }
    let mut simulation = Simulation::new(graph, placement)?;
    let begin = placement.times.values().copied().min().unwrap_or(0).min(placement.first);
    let end = placement.first + ROUNDS * placement.sweeps;
    for time in begin..end {
        simulation.sweep(time).map_err(|e| format!("sweep at {time}: {e}"))?;
        simulation.exits(time).map_err(|e| format!("after the sweep at {time}: {e}"))?;
        let done = (time + 1 - placement.first).div_euclid(placement.sweeps);
        if done > 0 && (time + 1 - placement.first).rem_euclid(placement.sweeps) == 0 {
            simulation.limit(done)?;
        }
    }
    Ok(())
}

struct Simulation<'a> {
    graph: &'a Graph,
    p: &'a Placement,
    body: Vec<NodeId>,
    next: BTreeMap<NodeId, NodeId>,
    /// Iteration held by each buffer of a stored vector.
    buffers: BTreeMap<NodeId, Vec<Option<i64>>>,
    /// Values stored so far.
    stored: BTreeSet<Value>,
    /// The solution, where it is updated in some rounds only: then it is left out, see `delayed`.
    late: Option<NodeId>,
}

/// What a sweep wants.
#[derive(Default)]
struct Wanted {
    seen: BTreeSet<(Value, bool)>,
    /// Loaded values, and whether around the point.
    loads: BTreeMap<Value, bool>,
    axis: Option<usize>,
}

impl<'a> Simulation<'a> {
    fn new(graph: &'a Graph, p: &'a Placement) -> Result<Self, String> {
        let l = graph.main_loop().ok_or("there is no loop")?;
        if p.sweeps < 1 {
            return Err("a round without sweeps".into());
        }
        let body =
            l.body.steps.iter().filter_map(|s| if let crate::graph::Step::Node(n) = s { Some(*n) } else { None });
        let next: BTreeMap<NodeId, NodeId> = l.phis.iter().map(|phi| (phi.node, phi.next)).collect();
        let mut simulation = Simulation {
            graph,
            p,
            body: body.collect(),
            next,
            buffers: BTreeMap::new(),
            stored: BTreeSet::new(),
            late: None,
        };
        for n in p.times.keys().filter(|n| graph.kind(**n).is_vector()) {
            let versions = p.versions.get(n).copied().unwrap_or(1).max(1) as usize;
            simulation.buffers.insert(*n, vec![None; versions]);
        }
        for phi in &l.phis {
            if !graph.kind(phi.node).is_vector() {
                continue;
            }
            let (node, e) = simulation.source((phi.node, 0));
            let buffer = simulation.buffers.get_mut(&node).ok_or("a variable of the loop is not stored")?;
            let count = buffer.len() as i64;
            if -e <= count {
                buffer[e.rem_euclid(count) as usize] = Some(e);
            }
            if p.delay > 1 && phi.result == graph.solution {
                simulation.late = Some(node);
            }
        }
        Ok(simulation)
    }

    /// The computed value behind a variable.
    fn source(&self, value: Value) -> Value {
        let (mut node, mut e) = value;
        for _ in 0..=self.next.len() {
            match self.next.get(&node) {
                Some(next) => (node, e) = (*next, e - 1),
                None => break,
            }
        }
        (node, e)
    }

    fn computed(&self, node: NodeId) -> bool {
        self.body.contains(&node)
    }

    fn held(&self, (node, e): Value) -> bool {
        let buffer = self.buffers.get(&node);
        buffer.is_some_and(|b| b[e.rem_euclid(b.len() as i64) as usize] == Some(e))
    }

    fn outputs(&self, time: i64) -> Vec<Value> {
        let of = |n: &NodeId| {
            let t = self.p.times.get(n)?;
            let e = (time - t).div_euclid(self.p.sweeps);
            ((time - t).rem_euclid(self.p.sweeps) == 0 && e >= 0).then_some((*n, e))
        };
        self.body.iter().filter_map(of).filter(|(n, _)| Some(*n) != self.late).collect()
    }

    fn sweep(&mut self, time: i64) -> Result<(), String> {
        let outputs = self.outputs(time);
        let mut wanted = Wanted::default();
        for output in &outputs {
            self.define(*output, time, false, &mut wanted)?;
        }
        for (node, e) in outputs.iter().filter(|(n, _)| self.graph.kind(*n).is_vector()) {
            let buffer = &self.buffers[node];
            let slot = e.rem_euclid(buffer.len() as i64) as usize;
            let around = |(value, around): (&Value, &bool)| {
                *around && value.0 == *node && value.1.rem_euclid(buffer.len() as i64) as usize == slot
            };
            if wanted.loads.iter().any(around) {
                return Err(format!("{} is overwritten while it is read around a point", self.graph.label(*node)));
            }
            if !self.stored.insert((*node, *e)) {
                return Err(format!("{} of iteration {e} is stored twice", self.graph.label(*node)));
            }
        }
        for (node, e) in outputs {
            if let Some(buffer) = self.buffers.get_mut(&node) {
                let slot = e.rem_euclid(buffer.len() as i64) as usize;
                buffer[slot] = Some(e);
            }
        }
        Ok(())
    }

    /// A value that the sweep at a time reads.
    fn read(&self, value: Value, time: i64, around: bool, wanted: &mut Wanted) -> Result<(), String> {
        let (node, e) = self.source(value);
        if !self.computed(node) {
            return Ok(());
        }
        if !wanted.seen.insert(((node, e), around)) {
            return Ok(());
        }
        if wanted.seen.len() > MOST {
            return Err("a value is recomputed without end".into());
        }
        if Some(node) == self.late {
            return Err("a delayed solution is read".into());
        }
        let due = self.p.times.get(&node).map(|t| t + self.p.sweeps * e);
        if (due.is_some_and(|due| due < time) || e < 0) && self.graph.kind(node).is_vector() {
            if !self.held((node, e)) {
                return Err(format!("{} of iteration {e} is not there", self.graph.label(node)));
            }
            *wanted.loads.entry((node, e)).or_default() |= around;
            return Ok(());
        }
        self.define((node, e), time, around, wanted)
    }

    /// What the definition of a value reads.
    fn define(&self, (node, e): Value, time: i64, around: bool, wanted: &mut Wanted) -> Result<(), String> {
        let kind = self.graph.kind(node);
        let label = || self.graph.label(node);
        let inside = match kind {
            kind if kind.gathers() && around => return Err(format!("{} around a point", label())),
            NodeKind::Apply(operand) => {
                if let Some(done) = self.by_linearity((node, *operand, e), time, wanted) {
                    return done;
                }
                true
            }
            NodeKind::Magnitude(_) | NodeKind::Along(..) | NodeKind::Companion { .. } => true,
            NodeKind::Solve(..) if around => return Err(format!("{} around a point", label())),
            NodeKind::Solve(axis, _) => {
                if *wanted.axis.get_or_insert(*axis) != *axis {
                    return Err("lines along two axes".into());
                }
                false
            }
            _ => around,
        };
        for arg in kind.args() {
            if self.graph.kind(arg).is_vector() {
                self.read((arg, e), time, inside, wanted)?;
            } else {
                self.scalar((arg, e), time)?;
            }
        }
        Ok(())
    }

    /// A product that follows the recurrence of its operand: products of all vectors in it.
    fn by_linearity(
        &self,
        (node, operand, e): (NodeId, NodeId, i64),
        time: i64,
        wanted: &mut Wanted,
    ) -> Option<Result<(), String>> {
        if !self.p.linear.contains(&node) {
            return None;
        }
        let (map, e) = self.source((operand, e));
        let NodeKind::Map(tree) = self.graph.kind(map) else { return Some(Err("no linear operand".into())) };
        // The first one has nothing to follow.
        if e < 0 {
            return None;
        }
        Some(self.products(tree, e, time, wanted))
    }

    fn products(&self, tree: &MapTree, e: i64, time: i64, wanted: &mut Wanted) -> Result<(), String> {
        let mut leaves = Vec::new();
        tree.visit(&mut |n| leaves.push(n));
        for leaf in leaves {
            if !self.graph.kind(leaf).is_vector() {
                self.scalar((leaf, e), time)?;
                continue;
            }
            match self.body.iter().find(|n| *self.graph.kind(**n) == NodeKind::Apply(leaf)) {
                Some(product) => self.read((*product, e), time, false, wanted)?,
                None => self.read((leaf, e), time, true, wanted)?,
            }
        }
        Ok(())
    }

    /// A scalar must have been finished in a fence before the sweep.
    fn scalar(&self, value: Value, time: i64) -> Result<(), String> {
        let (node, e) = self.source(value);
        if !self.computed(node) || e < 0 {
            return Ok(());
        }
        match self.finished((node, e), &mut BTreeSet::new()) {
            Some(at) if at >= time => Err(format!("{} of iteration {e} is not known yet", self.graph.label(node))),
            _ => Ok(()),
        }
    }

    /// Time of the last sweep whose sums a scalar or act takes; none where it takes no sum.
    fn finished(&self, value: Value, seen: &mut BTreeSet<Value>) -> Option<i64> {
        let (node, e) = self.source(value);
        if !self.computed(node) || e < 0 || !seen.insert((node, e)) {
            return None;
        }
        if let NodeKind::Reduce(..) = self.graph.kind(node) {
            return Some(self.p.times.get(&node).map_or(i64::MAX, |t| t + self.p.sweeps * e));
        }
        let args = self.graph.kind(node).args();
        args.into_iter()
            .filter(|arg| !self.graph.kind(*arg).is_vector())
            .filter_map(|arg| self.finished((arg, e), seen))
            .max()
    }

    /// A number of iterations may end the loop after their rounds.
    fn limit(&self, rounds: i64) -> Result<(), String> {
        let l = self.graph.main_loop().ok_or("there is no loop")?;
        let Some(phi) = l.phis.iter().find(|phi| phi.result == self.graph.solution) else { return Ok(()) };
        if self.late.is_some() || self.held((phi.next, rounds - 1)) {
            return Ok(());
        }
        Err(format!("the solution after {rounds} rounds is not there"))
    }

    /// Acts are passed in order, each in the fence in which it and those before it are known.
    fn exits(&self, time: i64) -> Result<(), String> {
        let Some(l) = self.graph.main_loop().filter(|_| self.late.is_none()) else { return Ok(()) };
        // Iteration 1 stands for all that have one before them.
        let acts = self.body.iter().filter_map(|act| {
            let solution = self.graph.kind(*act).solution()?;
            let own = self.finished((*act, 1), &mut BTreeSet::new())?;
            Some((act, solution, own - self.p.sweeps))
        });
        let acts: Vec<(&NodeId, NodeId, i64)> = acts.collect();
        // Those of the round before have been passed, too.
        let mut passed = acts.iter().map(|(.., own)| own - self.p.sweeps).max().unwrap_or(i64::MIN);
        for (act, solution, own) in acts {
            passed = passed.max(own);
            let e = (time - passed).div_euclid(self.p.sweeps);
            if (time - passed).rem_euclid(self.p.sweeps) != 0 || e < 0 {
                continue;
            }
            let (node, of) = self.source((solution, e));
            let carried = l.phis.iter().any(|phi| phi.result == self.graph.solution && phi.next == node);
            if !self.computed(node) || (carried && self.held((node, of))) {
                continue;
            }
            if !self.p.behind.contains(act) {
                return Err(format!("the solution of iteration {of} is not there and nobody completes it"));
            }
            let mut wanted = Wanted::default();
            self.define((node, of), time + 1, false, &mut wanted)?;
            if wanted.loads.values().any(|around| *around) {
                return Err("the solution would be completed from around a point".into());
            }
        }
        Ok(())
    }
}
