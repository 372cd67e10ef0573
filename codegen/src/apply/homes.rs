//! Homes: which nodes are kept in buffers, and which of them share one.
//!
//! Nodes get positions in program order. A kept node lives from its definition to its last use, to the end of any
//! loop around the use that its definition is outside of. Nodes whose lives do not overlap may share a home; sharing
//! is tried where it saves a copy: next and initial values of a loop's variable with the variable, values of arms
//! with the merge, versions of the solution with each other. A use at a neighbour outlasts the point at which it happens,
//! since the sweep that reads cannot also overwrite; a use at the own point does not. Lives: [`lives`](super::lives).

use std::collections::{BTreeMap, BTreeSet};

use super::build::Illegal;
use super::land::{versions, versions_before_loop};
use super::lives::{Arms, Life};
use crate::graph::{Branch, Graph, Loop, NodeId, NodeKind, Region, Step};
use crate::plan::schedule::Placement;

/// Kept nodes and their homes.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// Home of every kept node, by number.
    pub home: BTreeMap<NodeId, usize>,
    /// Name of every home.
    pub names: Vec<String>,
    /// Uses of kept nodes by others than outputs of the same straight-line part: those must be stored.
    pub wanted: BTreeSet<NodeId>,
}

impl Homes {
    /// Whether the node is kept in a buffer.
    pub fn holds(&self, node: NodeId) -> bool {
        self.home.contains_key(&node)
    }
}

/// What an output reads, down to kept nodes: the node and whether it is read at neighbours.
pub(super) fn leaves(graph: &Graph, held: &dyn Fn(NodeId) -> bool, node: NodeId) -> BTreeMap<NodeId, bool> {
    let mut out = BTreeMap::new();
    operands(graph, held, node, false, &mut out);
    out
}

fn operands(graph: &Graph, held: &dyn Fn(NodeId) -> bool, node: NodeId, near: bool, out: &mut BTreeMap<NodeId, bool>) {
    let near = near || graph.kind(node).gathers();
    for arg in graph.kind(node).args() {
        if !graph.kind(arg).is_vector() {
            continue;
        }
        if held(arg) {
            *out.entry(arg).or_default() |= near;
        } else {
            operands(graph, held, arg, near, out);
        }
    }
}

struct Walk<'g> {
    graph: &'g Graph,
    placed: Option<&'g Placement>,
    clock: i64,
    define: BTreeMap<NodeId, i64>,
    /// Straight-line part a node belongs to.
    part: BTreeMap<NodeId, usize>,
    parts: usize,
    /// Raw uses: user's place, node.
    outputs: Vec<NodeId>,
    /// Other uses: node, position.
    uses: Vec<(NodeId, i64)>,
    loops: Vec<(i64, i64)>,
    phis: Vec<crate::graph::Phi>,
    /// Merges with the begin of their branch.
    merges: Vec<(crate::graph::Merge, i64)>,
    /// First and last position of the arms of every branch.
    branches: Vec<Arms>,
    /// Members of the placed loop: first and last position.
    pinned: BTreeMap<NodeId, (i64, i64)>,
}

/// Decides on homes.
pub(super) fn homes(graph: &Graph, placed: Option<&Placement>) -> Result<Homes, Illegal> {
    let walk = Walk::all(graph, placed);
    let kept = walk.kept();
    let (life, wanted) = walk.lives(&kept)?;
    let mut groups = Groups::new(graph, life);
    walk.unite(&mut groups)?;
    Ok(groups.homes(wanted))
}

/// In program order, the versions of the solution that are still needed when a later version comes into being.
pub(super) fn outlived(graph: &Graph, versions: &[NodeId]) -> Result<BTreeSet<NodeId>, Illegal> {
    let walk = Walk::all(graph, None);
    let (life, _) = walk.lives(&walk.kept())?;
    let versions: Vec<NodeId> = versions.iter().copied().filter(|n| life.contains_key(n)).collect();
    let mut out = BTreeSet::new();
    for (at, a) in versions.iter().enumerate() {
        for b in versions[..at].iter().filter(|b| !life[a].apart(&life[*b])) {
            out.insert(if walk.define[a] <= walk.define[b] { *a } else { *b });
        }
    }
    Ok(out)
}

impl<'g> Walk<'g> {
    fn all(graph: &'g Graph, placed: Option<&'g Placement>) -> Self {
        let mut walk = Walk::new(graph, placed);
        for (id, node) in graph.nodes.iter().enumerate() {
            if matches!(node.kind, NodeKind::Guess | NodeKind::Rhs | NodeKind::Random(_)) {
                walk.define.insert(NodeId(id), -1);
            }
        }
        walk.region(&graph.start);
        walk.region(&graph.body);
        walk.clock += 1;
        walk.uses.push((graph.solution, walk.clock));
        let exit = walk.clock;
        for (id, node) in graph.nodes.iter().enumerate() {
            if matches!(node.kind, NodeKind::Solution) {
                walk.define.insert(NodeId(id), exit);
            }
        }
        walk.region(&graph.residual);
        walk
    }

    fn new(graph: &'g Graph, placed: Option<&'g Placement>) -> Self {
        Walk {
            graph,
            placed,
            clock: 0,
            define: BTreeMap::new(),
            part: BTreeMap::new(),
            parts: 0,
            outputs: Vec::new(),
            uses: Vec::new(),
            loops: Vec::new(),
            phis: Vec::new(),
            merges: Vec::new(),
            branches: Vec::new(),
            pinned: BTreeMap::new(),
        }
    }

    fn tick(&mut self) -> i64 {
        self.clock += 1;
        self.clock
    }

    fn region(&mut self, region: &'g Region) {
        self.parts += 1;
        for step in &region.steps {
            match step {
                Step::Node(n) => {
                    let at = self.tick();
                    self.define.insert(*n, at);
                    self.part.insert(*n, self.parts);
                    self.outputs.push(*n);
                    self.uses.extend(self.graph.kind(*n).solution().map(|solution| (solution, at)));
                }
                Step::Loop(l) => {
                    match self.placed.filter(|_| self.graph.main_loop() == Some(l)) {
                        Some(placed) => self.placed_loop(l, placed),
                        None => self.plain_loop(l),
                    }
                    self.parts += 1;
                }
                Step::Branch(b) => self.branch(b),
            }
        }
    }

    fn branch(&mut self, b: &'g Branch) {
        let begin = self.tick();
        for m in &b.merges {
            self.uses.extend(m.incoming.map(|n| (n, begin)));
        }
        let mut arms = Arms::new();
        for arm in &b.arms {
            let first = self.clock;
            self.region(&arm.body);
            arms.push((first, self.tick()));
        }
        let end = self.tick();
        for m in &b.merges {
            // An arm's value need not outlive its arm: where it counts, the other arm did not run. What an arm does not
            // change must still be there when it ends.
            self.uses.extend(m.values.iter().zip(&arms).map(|(value, (_, last))| (*value, *last)));
            self.define.insert(m.node, end);
            self.merges.push((m.clone(), begin));
        }
        self.branches.push(arms);
        self.parts += 1;
    }

    fn plain_loop(&mut self, l: &'g Loop) {
        let begin = self.tick();
        let inside = self.tick();
        for p in &l.phis {
            self.uses.push((p.initial, begin));
            self.define.insert(p.node, inside);
        }
        self.region(&l.body);
        let last = self.tick();
        let end = self.tick();
        self.close_loop(l, begin, last, end);
    }

    fn placed_loop(&mut self, l: &'g Loop, placed: &'g Placement) {
        let begin = self.tick();
        let inside = self.tick();
        let members: BTreeSet<NodeId> = l.body.steps.iter().filter_map(node_of).collect();
        let phis: BTreeSet<NodeId> = l.phis.iter().map(|p| p.node).collect();
        for n in &members {
            for arg in self.graph.kind(*n).args() {
                if !members.contains(&arg) && !phis.contains(&arg) {
                    self.uses.push((arg, inside));
                }
            }
        }
        let last = self.tick();
        let end = self.tick();
        for n in placed.times.keys().filter(|n| self.graph.kind(**n).is_vector()) {
            self.pinned.insert(*n, (inside, last));
            self.define.insert(*n, inside);
        }
        for p in &l.phis {
            self.uses.push((p.initial, begin));
            self.define.insert(p.node, inside);
        }
        self.close_loop(l, begin, last, end);
    }

    fn close_loop(&mut self, l: &Loop, begin: i64, last: i64, end: i64) {
        for p in &l.phis {
            self.uses.push((p.next, last));
            self.define.insert(p.result, end);
        }
        self.loops.push((begin, end));
        self.phis.extend(&l.phis);
    }

    /// Nodes that must be kept: program variables, operands of the operator, whatever crosses parts.
    fn kept(&self) -> BTreeSet<NodeId> {
        let graph = self.graph;
        let mut kept: BTreeSet<NodeId> = BTreeSet::new();
        let mut users: BTreeMap<NodeId, usize> = BTreeMap::new();
        for n in self.define.keys() {
            let node = graph.node(*n);
            let inner = !self.outputs.contains(n);
            if node.kind.is_vector() && (node.named || inner) {
                kept.insert(*n);
            }
        }
        for n in &self.outputs {
            for arg in graph.kind(*n).args().into_iter().filter(|a| graph.kind(*a).is_vector()) {
                *users.entry(arg).or_default() += 1;
                let near = graph.kind(*n).gathers();
                let heavy = !matches!(graph.kind(arg), NodeKind::Map(_)) && users[&arg] > 1;
                if near || heavy || self.part.get(&arg) != self.part.get(n) {
                    kept.insert(arg);
                }
            }
        }
        kept.extend(graph.true_residual);
        kept.extend(self.uses.iter().map(|u| u.0).filter(|n| graph.kind(*n).is_vector()));
        kept
    }

    /// Lives of kept nodes, and those that others than outputs of their own straight-line part use.
    fn lives(&self, kept: &BTreeSet<NodeId>) -> Result<(BTreeMap<NodeId, Life>, BTreeSet<NodeId>), Illegal> {
        let graph = self.graph;
        let held = |n: NodeId| kept.contains(&n);
        let mut life: BTreeMap<NodeId, Life> = BTreeMap::new();
        for n in kept {
            let Some(at) = self.define.get(n) else {
                return Err(Illegal(format!("{} is used but never computed", graph.label(*n))));
            };
            life.insert(*n, Life::born(2 * at));
        }
        let mut wanted: BTreeSet<NodeId> = graph.true_residual.into_iter().collect();
        for (n, at) in &self.uses {
            wanted.insert(*n);
            self.extend(&mut life, *n, 2 * at);
        }
        for output in self.outputs.iter().filter(|o| held(**o) || !graph.kind(**o).is_vector()) {
            for (leaf, near) in leaves(graph, &held, *output) {
                if self.part.get(&leaf) != self.part.get(output) {
                    wanted.insert(leaf);
                }
                self.extend(&mut life, leaf, 2 * self.define[output] + i64::from(near));
            }
        }
        for (n, (first, last)) in &self.pinned {
            life.insert(*n, Life::pinned(2 * first, 2 * last));
        }
        Ok((life, wanted))
    }

    fn extend(&self, life: &mut BTreeMap<NodeId, Life>, node: NodeId, at: i64) {
        if let Some(life) = life.get_mut(&node) {
            life.extend(at, &self.loops, &self.branches);
        }
    }

    fn unite(&self, groups: &mut Groups<'_>) -> Result<(), Illegal> {
        let graph = self.graph;
        let versions = if self.placed.is_none() { versions(graph) } else { versions_before_loop(graph) };
        groups.unite_if_apart(&versions);
        for (m, begin) in self.merges.iter().filter(|m| graph.kind(m.0.node).is_vector()) {
            let mut all = vec![m.node];
            all.extend(m.incoming);
            all.extend(m.values.iter().filter(|v| Some(**v) != m.incoming));
            groups.unite_all(&all, 2 * begin);
        }
        for p in self.phis.iter().filter(|p| graph.kind(p.node).is_vector()) {
            if self.pinned.contains_key(&p.next) || self.follows(p) {
                groups.force(p.next, p.node);
            }
            groups.force(p.node, p.result);
            groups.unite(p.node, p.next);
        }
        // A variable that follows another begins in a buffer of its own of the same vector.
        for p in self.phis.iter().filter(|p| graph.kind(p.node).is_vector() && !self.follows(p)) {
            groups.unite(p.node, p.initial);
        }
        let guess = self.find(|k| matches!(k, NodeKind::Guess));
        if let (Some(guess), Some(solution)) = (guess, self.find(|k| matches!(k, NodeKind::Solution))) {
            groups.force(guess, solution);
        }
        if let Some(r) = graph.true_residual {
            let name = &graph.node(r).name;
            let alike = |n: NodeId| graph.node(n).name == *name && groups.known(n);
            let variable = self.phis.iter().map(|p| p.node).find(|n| alike(*n));
            // A loop that recovers its residual has none; what it began with is no longer needed.
            let known = variable.or_else(|| self.define.keys().copied().find(|n| *n != r && alike(*n)));
            if let Some(known) = known {
                groups.unite(r, known);
            }
        }
        Ok(())
    }

    /// Whether a variable of the placed loop takes the value of another one.
    fn follows(&self, phi: &crate::graph::Phi) -> bool {
        let placed = self.placed.and(self.graph.main_loop());
        placed.is_some_and(|l| l.phis.contains(phi) && l.phis.iter().any(|p| p.node == phi.next))
    }

    fn find(&self, is: impl Fn(&NodeKind) -> bool) -> Option<NodeId> {
        self.define.keys().copied().find(|n| is(self.graph.kind(*n)))
    }
}

/// The node of a plain step.
pub(super) fn node_of(step: &Step) -> Option<NodeId> {
    if let Step::Node(n) = step { Some(*n) } else { None }
}

/// Sets of nodes that share a home.
struct Groups<'g> {
    graph: &'g Graph,
    life: BTreeMap<NodeId, Life>,
    group: BTreeMap<NodeId, usize>,
    members: Vec<Vec<NodeId>>,
}

impl<'g> Groups<'g> {
    fn new(graph: &'g Graph, life: BTreeMap<NodeId, Life>) -> Self {
        let members: Vec<Vec<NodeId>> = life.keys().map(|n| vec![*n]).collect();
        let group = life.keys().enumerate().map(|(i, n)| (*n, i)).collect();
        Groups { graph, life, group, members }
    }

    fn known(&self, node: NodeId) -> bool {
        self.group.contains_key(&node)
    }

    fn force(&mut self, a: NodeId, b: NodeId) {
        let (Some(a), Some(b)) = (self.group.get(&a).copied(), self.group.get(&b).copied()) else { return };
        if a == b {
            return;
        }
        let moved = std::mem::take(&mut self.members[b]);
        for n in &moved {
            self.group.insert(*n, a);
        }
        self.members[a].extend(moved);
    }

    /// Given vectors keep their buffers to themselves.
    fn exclusive(&self, node: NodeId) -> bool {
        matches!(self.graph.kind(node), NodeKind::Rhs | NodeKind::Random(_))
    }

    fn compatible(&self, a: NodeId, b: NodeId) -> bool {
        let (Some(a), Some(b)) = (self.group.get(&a), self.group.get(&b)) else { return false };
        if a == b {
            return true;
        }
        self.members[*a].iter().all(|m| {
            self.members[*b]
                .iter()
                .all(|n| self.life[m].apart(&self.life[n]) && !self.exclusive(*m) && !self.exclusive(*n))
        })
    }

    fn unite(&mut self, a: NodeId, b: NodeId) {
        if self.compatible(a, b) {
            self.force(a, b);
        }
    }

    /// All that are kept or none, and whether they now share a home.
    fn unite_if_apart(&mut self, nodes: &[NodeId]) -> bool {
        let nodes: Vec<NodeId> = nodes.iter().copied().filter(|n| self.known(*n)).collect();
        let fits = nodes.iter().enumerate().all(|(i, a)| nodes[..i].iter().all(|b| self.compatible(*a, *b)));
        if fits {
            nodes.windows(2).for_each(|w| self.force(w[0], w[1]));
        }
        fits
    }

    /// All or nothing.
    fn unite_all(&mut self, nodes: &[NodeId], begin: i64) {
        if self.unite_if_apart(nodes) {
            return;
        }
        if let Some(merge) = nodes.first() {
            // The merge receives copies from the branch's begin on, in a home of its own.
            self.life.entry(*merge).and_modify(|l| l.begin(begin));
        }
    }

    fn homes(self, wanted: BTreeSet<NodeId>) -> Homes {
        let mut homes = Homes { wanted, ..Homes::default() };
        for members in self.members.iter().filter(|m| !m.is_empty()) {
            let number = homes.names.len();
            let best = members.iter().min_by_key(|n| {
                let given = matches!(self.graph.kind(**n), NodeKind::Guess | NodeKind::Rhs | NodeKind::Random(_));
                let phi = matches!(self.graph.kind(**n), NodeKind::Phi(_));
                (!given, !phi, !self.graph.node(**n).named, **n)
            });
            homes.names.push(best.map_or(String::new(), |n| self.graph.node(*n).name.clone()));
            homes.home.extend(members.iter().map(|n| (*n, number)));
        }
        homes
    }
}
