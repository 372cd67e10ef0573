//! Parts in program order: straight lines divided into sweeps and fences, loops and branches around them.
//!
//! Within a straight line every output gets a time. [`Order::Statement`] gives one time to each; [`Order::Fused`]
//! the earliest time at which all it reads is there: operands at the own point may come from the same sweep,
//! operands at neighbours from an earlier one, scalars from the fence of an earlier one. A buffer is not overwritten
//! before its last reader; the solution not before the acts that precede it have been passed.

use std::collections::{BTreeMap, BTreeSet};

use super::build::{Context, Illegal, Parts, Source, SweepBuilder, scalar_statements};
use super::homes::{Homes, leaves};
use crate::graph::{Branch, Graph, Loop, NodeId, NodeKind, Phi, ReduceKind, Region, Step, When};
use crate::loops::{
    BinaryOp, Control, Granule, PointExpr, ScalarExpr, ScalarId, ScalarStmt, Store, SumId, SumKind, Sweep, Value,
    ValueId, ValueKind, VectorId, Version,
};
use crate::plan::schedule::Order;

/// Writes parts of a graph in program order.
pub(super) struct Sequencer<'g> {
    pub graph: &'g Graph,
    pub order: Order,
    pub homes: &'g Homes,
    /// Vector of every home.
    pub vectors: Vec<VectorId>,
    /// Scalar of every scalar node.
    pub slots: BTreeMap<NodeId, ScalarId>,
    pub parts: Parts,
    /// Vector that must not run ahead of the acts: the solution.
    pub solution: Option<VectorId>,
    /// Conditions of arms inside other arms, read where these do not run, too: they must be numbers from the beginning.
    pub nested: BTreeSet<ScalarId>,
}

/// Times of the outputs and scalars of a straight line.
#[derive(Default)]
struct Times {
    time: BTreeMap<NodeId, i64>,
    last: i64,
}

struct Here<'a> {
    homes: &'a Homes,
    vectors: &'a [VectorId],
    slots: &'a BTreeMap<NodeId, ScalarId>,
    /// Outputs of the current sweep.
    current: &'a BTreeSet<NodeId>,
}

impl Context for Here<'_> {
    fn source(&self, node: NodeId, _: i64) -> Result<Source, Illegal> {
        Ok(match self.homes.home.get(&node) {
            Some(home) if !self.current.contains(&node) => {
                Source::Load(Version { vector: self.vectors[*home], ahead: 0 })
            }
            _ => Source::Define,
        })
    }

    fn scalar(&self, node: NodeId, _: i64) -> Result<ScalarId, Illegal> {
        self.slots.get(&node).copied().ok_or_else(|| Illegal(format!("scalar %{} is not known yet", node.0)))
    }
}

/// A variable that takes a value, in a buffer of its vector.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copy {
    /// The variable.
    pub target: NodeId,
    /// The value.
    pub source: NodeId,
    /// Steps the buffer is ahead of the current one.
    pub ahead: u32,
}

impl Copy {
    /// Into the current buffer.
    pub fn of(target: NodeId, source: NodeId) -> Copy {
        Copy { target, source, ahead: 0 }
    }
}

impl Sequencer<'_> {
    /// The scalar of a node, created when first asked for.
    pub fn slot(&mut self, node: NodeId) -> ScalarId {
        if let Some(known) = self.slots.get(&node) {
            return *known;
        }
        let id = self.parts.scalar(&self.graph.node(node).name);
        self.slots.insert(node, id);
        id
    }

    fn vector(&self, node: NodeId) -> Option<VectorId> {
        self.homes.home.get(&node).map(|h| self.vectors[*h])
    }

    /// Writes a region; `when` is the condition of the branches around it.
    pub fn region(&mut self, region: &Region, when: Option<ScalarId>) -> Result<Vec<Control>, Illegal> {
        let mut out = Vec::new();
        let mut line = Vec::new();
        for step in &region.steps {
            match step {
                Step::Node(n) => line.push(*n),
                Step::Loop(l) => {
                    self.line(&mut line, when, &mut out)?;
                    self.enter(&l.phis, when, &mut out)?;
                    out.push(self.plain_loop(l, when)?);
                }
                Step::Branch(b) => {
                    self.line(&mut line, when, &mut out)?;
                    self.branch(b, when, &mut out)?;
                }
            }
        }
        self.line(&mut line, when, &mut out)?;
        Ok(out)
    }

    /// Initial values of a loop's variables, where they are not already at home.
    pub fn enter(&mut self, phis: &[Phi], when: Option<ScalarId>, out: &mut Vec<Control>) -> Result<(), Illegal> {
        let pairs: Vec<Copy> = phis.iter().map(|p| Copy::of(p.node, p.initial)).collect();
        self.copies("enter", &pairs, when, out)
    }

    fn plain_loop(&mut self, l: &Loop, when: Option<ScalarId>) -> Result<Control, Illegal> {
        for p in &l.phis {
            if !self.graph.kind(p.node).is_vector() {
                let slot = self.slot(p.node);
                self.slots.insert(p.result, slot);
            }
        }
        let mut body = self.region(&l.body, when)?;
        let pairs: Vec<Copy> = l.phis.iter().map(|p| Copy::of(p.node, p.next)).collect();
        self.copies("carry", &pairs, when, &mut body)?;
        Ok(Control::Loop { times: l.times, body })
    }

    /// Carries all copies out at once.
    pub fn copies(
        &mut self,
        name: &str,
        copies: &[Copy],
        when: Option<ScalarId>,
        out: &mut Vec<Control>,
    ) -> Result<(), Illegal> {
        let mut builder = SweepBuilder::new(self.graph);
        let current = BTreeSet::new();
        let mut scalars = Vec::new();
        for Copy { target, source, ahead } in copies {
            if !self.graph.kind(*target).is_vector() {
                let slot = self.slot(*target);
                let from = self.slots.get(source).copied();
                let from = from.ok_or_else(|| Illegal(format!("{} is not known yet", self.graph.label(*source))))?;
                if slot != from {
                    scalars.push((slot, from));
                }
            } else if *ahead > 0 || self.homes.home.get(target) != self.homes.home.get(source) {
                let vector = self.vector(*target).ok_or_else(|| Illegal("a variable has no home".into()))?;
                let here = Here { homes: self.homes, vectors: &self.vectors, slots: &self.slots, current: &current };
                builder.store(&here, *source, 0, Version { vector, ahead: *ahead })?;
            }
        }
        if !builder.is_empty() {
            let mut sweep = builder.finish(when);
            sweep.name = format!("{name}_{}", sweep.name);
            let sweep = self.parts.sweep(sweep);
            out.push(sweep);
        }
        if !scalars.is_empty() {
            let statements = self.scalar_copies(&scalars);
            let fence = self.parts.fence(&format!("{name}_scalars"), statements, when);
            out.push(fence);
        }
        Ok(())
    }

    /// Parallel assignment of scalars: what is overwritten before it is read goes through a spare scalar.
    fn scalar_copies(&mut self, pairs: &[(ScalarId, ScalarId)]) -> Vec<ScalarStmt> {
        let copy = |scalar, from| ScalarStmt::Assign { scalar, value: ScalarExpr::Scalar(from), text: String::new() };
        let mut saved = Vec::new();
        let mut moves = Vec::new();
        for (i, (target, source)) in pairs.iter().enumerate() {
            if pairs[..i].iter().any(|(t, _)| t == source) {
                let spare = self.parts.scalar("saved");
                saved.push(copy(spare, *source));
                moves.push(copy(*target, spare));
            } else {
                moves.push(copy(*target, *source));
            }
        }
        saved.extend(moves);
        saved
    }

    fn branch(&mut self, b: &Branch, when: Option<ScalarId>, out: &mut Vec<Control>) -> Result<(), Illegal> {
        let incoming: Vec<Copy> = b.merges.iter().filter_map(|m| Some(Copy::of(m.node, m.incoming?))).collect();
        self.copies("keep", &incoming, when, out)?;
        for (i, arm) in b.arms.iter().enumerate() {
            let inside = match arm.when {
                When::Scalar(n) => Some(self.both(when, n, out)?),
                When::Every(_) => when,
            };
            let mut body = self.region(&arm.body, inside)?;
            let values = b.merges.iter().map(|m| Copy::of(m.node, m.values[i]));
            let values: Vec<Copy> = values.filter(|copy| !is_incoming(b, copy.target, copy.source)).collect();
            self.copies("take", &values, inside, &mut body)?;
            match arm.when {
                When::Every(n) => out.push(Control::Every { n, body, otherwise: Vec::new() }),
                When::Scalar(_) => out.extend(body),
            }
        }
        Ok(())
    }

    /// The condition of an arm inside another arm.
    fn both(&mut self, outer: Option<ScalarId>, inner: NodeId, out: &mut Vec<Control>) -> Result<ScalarId, Illegal> {
        let inner = self.slot(inner);
        let Some(outer) = outer else { return Ok(inner) };
        self.nested.insert(inner);
        let both = self.parts.scalar("condition");
        let value =
            ScalarExpr::Binary(BinaryOp::Mul, Box::new(ScalarExpr::Scalar(outer)), Box::new(ScalarExpr::Scalar(inner)));
        let statement = ScalarStmt::Assign { scalar: both, value, text: String::new() };
        // Not predicated: it must be false, not stale, where the outer arm does not run.
        let fence = self.parts.fence("nested_condition", vec![statement], None);
        out.push(fence);
        Ok(both)
    }

    /// Writes a straight line and empties it.
    fn line(&mut self, line: &mut Vec<NodeId>, when: Option<ScalarId>, out: &mut Vec<Control>) -> Result<(), Illegal> {
        let nodes = std::mem::take(line);
        if nodes.is_empty() {
            return Ok(());
        }
        let times = self.times(&nodes);
        let stored = self.stored(&nodes, &times);
        let mut sums: BTreeMap<NodeId, SumId> = BTreeMap::new();
        for t in -1..=times.last {
            let at: Vec<NodeId> = nodes.iter().copied().filter(|n| times.time.get(n) == Some(&t)).collect();
            let outputs: BTreeSet<NodeId> = at.iter().copied().filter(|n| self.is_output(*n)).collect();
            let mut builder = SweepBuilder::new(self.graph);
            for n in &at {
                self.output(&mut builder, *n, &outputs, stored.contains(n), &mut sums)?;
            }
            if !builder.is_empty() {
                let sweep = self.parts.sweep(builder.finish(when));
                out.push(sweep);
            }
            let mut statements = Vec::new();
            for n in at.iter().filter(|n| !self.graph.kind(**n).is_vector()) {
                self.statements(*n, sums.get(n).copied(), &mut statements)?;
            }
            if !statements.is_empty() {
                let name = format!("finish_{}", self.scalar_names(&at));
                let fence = self.parts.fence(&name, statements, when);
                out.push(fence);
            }
        }
        Ok(())
    }

    fn scalar_names(&self, nodes: &[NodeId]) -> String {
        let names: Vec<&str> = nodes
            .iter()
            .filter(|n| !self.graph.kind(**n).is_vector())
            .map(|n| self.graph.node(*n).name.as_str())
            .collect();
        names.join("_")
    }

    fn statements(&mut self, n: NodeId, sum: Option<SumId>, out: &mut Vec<ScalarStmt>) -> Result<(), Illegal> {
        let act = self.graph.kind(n).raises() || matches!(self.graph.kind(n), NodeKind::Measure { .. });
        let target = if act { None } else { Some(self.slot(n)) };
        let (graph, slots) = (self.graph, &self.slots);
        let mut read = |m: NodeId| {
            let slot = slots.get(&m).copied();
            slot.map(ScalarExpr::Scalar).ok_or_else(|| Illegal(format!("{} is not known yet", graph.label(m))))
        };
        scalar_statements(graph, n, target, sum, &mut read, out)
    }

    fn is_output(&self, n: NodeId) -> bool {
        self.homes.holds(n) || matches!(self.graph.kind(n), NodeKind::Reduce(..))
    }

    fn output(
        &mut self,
        builder: &mut SweepBuilder<'_>,
        n: NodeId,
        current: &BTreeSet<NodeId>,
        stored: bool,
        sums: &mut BTreeMap<NodeId, SumId>,
    ) -> Result<(), Illegal> {
        if let NodeKind::Reduce(kind, ..) = self.graph.kind(n) {
            let kind = if *kind == ReduceKind::Max { SumKind::Max } else { SumKind::Add };
            sums.insert(n, self.parts.sum(kind));
        }
        let here = Here { homes: self.homes, vectors: &self.vectors, slots: &self.slots, current };
        match (self.vector(n), sums.get(&n)) {
            (Some(vector), _) if stored => builder.store(&here, n, 0, Version { vector, ahead: 0 }),
            (None, Some(sum)) => builder.reduce(&here, n, 0, *sum),
            _ => Ok(()),
        }
    }

    /// Kept nodes that somebody outside their sweep reads.
    fn stored(&self, nodes: &[NodeId], times: &Times) -> BTreeSet<NodeId> {
        let held = |n: NodeId| self.homes.holds(n);
        let mut stored: BTreeSet<NodeId> =
            nodes.iter().copied().filter(|n| held(*n) && self.homes.wanted.contains(n)).collect();
        for n in nodes.iter().filter(|n| self.is_output(**n)) {
            for (leaf, near) in leaves(self.graph, &held, *n) {
                if near || times.time.get(&leaf) != times.time.get(n) {
                    stored.insert(leaf);
                }
            }
        }
        if self.order == Order::Statement {
            stored.extend(nodes.iter().copied().filter(|n| held(*n)));
        }
        stored
    }

    fn times(&self, nodes: &[NodeId]) -> Times {
        let mut times = Times { last: -1, ..Times::default() };
        let held = |n: NodeId| self.homes.holds(n);
        let mut readers: BTreeMap<VectorId, i64> = BTreeMap::new();
        let mut acted = -1;
        let mut axes: BTreeMap<i64, usize> = BTreeMap::new();
        for n in nodes {
            if self.graph.kind(*n).is_vector() && !held(*n) {
                continue;
            }
            let output = self.is_output(*n);
            let mut at = if output { 0 } else { -1 };
            for s in self.scalars_of(*n) {
                let known = times.time.get(&s).copied().unwrap_or(-1);
                at = at.max(if output { known + 1 } else { known });
            }
            let reads = if output { leaves(self.graph, &held, *n) } else { BTreeMap::new() };
            for (leaf, near) in &reads {
                let known = times.time.get(leaf).copied().unwrap_or(-1);
                at = at.max(if *near { known + 1 } else { known });
            }
            let home = self.vector(*n);
            if let Some(v) = home {
                at = at.max(readers.get(&v).copied().unwrap_or(-1));
                if Some(v) == self.solution {
                    at = at.max(acted + 1);
                }
            }
            if self.graph.kind(*n).raises() {
                at = at.max(acted).max(self.solution.and_then(|v| self.written(&times, v)).unwrap_or(-1));
                acted = at;
            }
            if output && self.order == Order::Statement {
                at = at.max(times.last + 1);
            }
            if let Some(axis) = self.axis_of(*n) {
                while axes.get(&at).is_some_and(|a| *a != axis) {
                    at += 1;
                }
                axes.insert(at, axis);
            }
            for (leaf, near) in &reads {
                if let Some(v) = self.vector(*leaf) {
                    let until = at + i64::from(*near);
                    readers.entry(v).and_modify(|t| *t = (*t).max(until)).or_insert(until);
                }
            }
            if let Some(v) = home {
                readers.entry(v).and_modify(|t| *t = (*t).max(at + 1)).or_insert(at + 1);
            }
            times.last = times.last.max(at);
            times.time.insert(*n, at);
        }
        times
    }

    fn written(&self, times: &Times, vector: VectorId) -> Option<i64> {
        times.time.iter().filter(|(n, _)| self.vector(**n) == Some(vector)).map(|(_, t)| *t).max()
    }

    /// Scalars a node needs, through what it recomputes.
    fn scalars_of(&self, n: NodeId) -> BTreeSet<NodeId> {
        let mut out = BTreeSet::new();
        let mut stack = vec![n];
        while let Some(n) = stack.pop() {
            for arg in self.graph.kind(n).args() {
                if !self.graph.kind(arg).is_vector() {
                    out.insert(arg);
                } else if !self.homes.holds(arg) {
                    stack.push(arg);
                }
            }
        }
        out
    }

    /// Axis along which an output solves lines, through what it recomputes.
    fn axis_of(&self, n: NodeId) -> Option<usize> {
        let mut stack = vec![n];
        while let Some(n) = stack.pop() {
            if let NodeKind::Solve(axis, _) = self.graph.kind(n) {
                return Some(*axis);
            }
            stack.extend(
                self.graph
                    .kind(n)
                    .args()
                    .into_iter()
                    .filter(|a| self.graph.kind(*a).is_vector() && !self.homes.holds(*a)),
            );
        }
        None
    }
}

fn is_incoming(b: &Branch, merge: NodeId, value: NodeId) -> bool {
    b.merges.iter().any(|m| m.node == merge && m.incoming == Some(value))
}

/// A sweep that stores one pointwise expression of loaded vectors.
pub(super) fn pointwise(name: &str, text: &str, values: Vec<Value>, to: Version, result: PointExpr) -> Sweep {
    let mut values = values;
    values.push(Value { name: name.into(), kind: ValueKind::Map(result), text: Some(text.into()) });
    let value = ValueId(values.len() - 1);
    Sweep {
        name: name.into(),
        text: vec![text.into()],
        granule: Granule::Point,
        values,
        stores: vec![Store { value, to }],
        sums: Vec::new(),
        predicate: None,
    }
}
