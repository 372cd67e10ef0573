//! Predicted scalars: a sum known one fence earlier, by the bilinearity of `dot` over linear updates.
//!
//! A loop such as
//! ```text
//! sigma = dot(p, q);  alpha = rho/sigma;  r = r - alpha*q;  z = inv(M)*r;  rho_new = dot(r, z);  beta = rho_new/rho;  p = z + beta*p;
//! ```
//! waits twice: for `sigma`, then for `rho_new`. But `rho_new` is a quadratic in alpha,
//! rho - alpha*(dot(r, v) + dot(z, q)) + alpha^2*dot(q, v) with v = inv(M)*q, whose coefficients are sums over what is
//! there before alpha is; with them in the fence of `sigma`, `beta` is known at once and one fence is left.
//!
//! # Precondition
//! The main loop is a straight line, the solver declares a residual (the result is another recurrence: used only with the
//! true-residual check).
//!
//! # Postcondition
//! In exact arithmetic the graph computes what it did. Scalars that vectors wait for read the predicted value; everything
//! else, the next round included, reads the sum itself, which is still computed: predicting without recomputing diverges. A
//! guard compares the two and ends the run when they part (cancellation); the driver then starts over from the solution.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{CondTree, Graph, MapTree, Node, NodeId, NodeKind, ReduceKind, ScalarTree, Step};
use crate::loops::BinaryOp;
use crate::math::Standing;
use kernelwright_syntax::program::{CompareOp, Fact, Function};

/// Part of the sum by which the prediction may miss it: what it decides is a direction, not a residual.
const TRUSTED: f64 = 0.1;
/// Most sums that a prediction may add.
const MOST_SUMS: usize = 4;
/// Most vectors in a linear update that is expanded.
const MOST_TERMS: usize = 4;

/// Sums of the main loop that can be predicted.
pub fn candidates(graph: &Graph) -> Vec<NodeId> {
    let Some(body) = body_of(graph) else { return Vec::new() };
    let sums = body.iter().copied().filter(|n| matches!(graph.kind(*n), NodeKind::Reduce(ReduceKind::Dot, ..)));
    sums.filter(|n| predict(graph, *n).is_some()).collect()
}

/// The graph with a sum predicted; none where that is not possible or of no use.
pub fn predict(graph: &Graph, sum: NodeId) -> Option<Graph> {
    graph.true_residual?;
    let body = body_of(graph)?;
    let NodeKind::Reduce(ReduceKind::Dot, x, y) = *graph.kind(sum) else { return None };
    let mut p =
        Prediction { graph: graph.clone(), levels: levels(graph, &body), body, sum, added: Vec::new(), sums: 0 };
    let level = p.level(x).max(p.level(y));
    if level == 0 || !p.body.contains(&sum) {
        return None;
    }
    let users = p.users();
    if users.is_empty() {
        return None;
    }
    let (left, right) = (p.expand(x, level)?, p.expand(y, level)?);
    let mut terms: Vec<(ScalarTree, ScalarTree)> = Vec::new();
    for (a, v) in &left {
        for (b, w) in &right {
            let value = p.product(*v, *w, (x, y))?;
            let factor = times(a.clone(), b.clone());
            match terms.iter_mut().find(|(_, known)| *known == value) {
                Some((known, _)) if *known == factor => *known = times(ScalarTree::Number(2.0), factor),
                Some((known, _)) => *known = binary(BinaryOp::Add, known.clone(), factor),
                None => terms.push((factor, value)),
            }
        }
    }
    if p.sums > MOST_SUMS {
        return None;
    }
    let value = terms.into_iter().map(|(factor, value)| times(factor, value));
    let value = value.reduce(|a, b| binary(BinaryOp::Add, a, b))?;
    p.finish(value, &users)
}

/// Nodes of a main loop that is a straight line.
fn body_of(graph: &Graph) -> Option<Vec<NodeId>> {
    let l = graph.main_loop()?;
    let nodes = l.body.steps.iter().map(|s| if let Step::Node(n) = s { Some(*n) } else { None });
    if graph.body.steps.len() == 1 { nodes.collect() } else { None }
}

/// How many sums of its own iteration a value waits for, one after another.
fn levels(graph: &Graph, body: &[NodeId]) -> BTreeMap<NodeId, usize> {
    let mut levels: BTreeMap<NodeId, usize> = BTreeMap::new();
    for n in body {
        let kind = graph.kind(*n);
        let operands = kind.args().iter().filter_map(|arg| levels.get(arg)).copied().max().unwrap_or(0);
        levels.insert(*n, operands + usize::from(matches!(kind, NodeKind::Reduce(..))));
    }
    levels
}

/// A linear combination: factors and vectors.
type Terms = Vec<(ScalarTree, NodeId)>;

struct Prediction {
    graph: Graph,
    levels: BTreeMap<NodeId, usize>,
    body: Vec<NodeId>,
    sum: NodeId,
    /// New nodes in order.
    added: Vec<NodeId>,
    /// New sums.
    sums: usize,
}

impl Prediction {
    fn level(&self, n: NodeId) -> usize {
        self.levels.get(&n).copied().unwrap_or(0)
    }

    /// Scalars that read the sum and that vectors of the same iteration wait for.
    fn users(&self) -> Vec<NodeId> {
        let mut wanted: BTreeSet<NodeId> = BTreeSet::new();
        let mut users = Vec::new();
        for n in self.body.iter().rev() {
            let kind = self.graph.kind(*n);
            let scalar = matches!(kind, NodeKind::Scalar(_));
            let needed = matches!(kind, NodeKind::Map(_)) || (scalar && wanted.contains(n));
            if !needed {
                continue;
            }
            if scalar && kind.args().contains(&self.sum) {
                users.push(*n);
            }
            wanted.extend(kind.args().into_iter().filter(|arg| !self.graph.kind(*arg).is_vector()));
        }
        // A vector that reads the sum itself would need a copy of it: not worth a rule.
        if wanted.contains(&self.sum) && users.is_empty() { Vec::new() } else { users }
    }

    /// A vector as a combination of vectors that wait for fewer sums.
    fn expand(&mut self, v: NodeId, level: usize) -> Option<Terms> {
        if self.level(v) < level {
            return Some(vec![(ScalarTree::Number(1.0), v)]);
        }
        let kind = self.graph.kind(v).clone();
        let operand = match &kind {
            NodeKind::Map(tree) => {
                let mut terms = Terms::new();
                self.combine(tree, &ScalarTree::Number(1.0), level, &mut terms)?;
                return (terms.len() <= MOST_TERMS).then_some(terms);
            }
            NodeKind::Apply(w) | NodeKind::Diagonal(w) | NodeKind::Solve(_, w) | NodeKind::Along(_, w) => *w,
            _ => return None,
        };
        let terms = self.expand(operand, level)?;
        Some(terms.into_iter().map(|(factor, w)| (factor, self.with_operand(&kind, w))).collect())
    }

    fn combine(&mut self, tree: &MapTree, factor: &ScalarTree, level: usize, out: &mut Terms) -> Option<()> {
        match tree {
            MapTree::Value(n) => {
                let terms = self.expand(*n, level)?;
                out.extend(terms.into_iter().map(|(inner, v)| (times(factor.clone(), inner), v)));
            }
            MapTree::Neg(a) => self.combine(a, &negative(factor.clone()), level, out)?,
            MapTree::Binary(BinaryOp::Add, a, b) => {
                self.combine(a, factor, level, out)?;
                self.combine(b, factor, level, out)?;
            }
            MapTree::Binary(BinaryOp::Sub, a, b) => {
                self.combine(a, factor, level, out)?;
                self.combine(b, &negative(factor.clone()), level, out)?;
            }
            MapTree::Binary(BinaryOp::Mul, a, b) => match (number(a), number(b)) {
                (Some(s), None) => self.combine(b, &times(factor.clone(), s), level, out)?,
                (None, Some(s)) => self.combine(a, &times(factor.clone(), s), level, out)?,
                _ => return None,
            },
            MapTree::Binary(BinaryOp::Div, a, b) => {
                let factor = binary(BinaryOp::Div, factor.clone(), number(b)?);
                self.combine(a, &factor, level, out)?;
            }
            MapTree::Scalar(_) | MapTree::Number(_) | MapTree::Abs(_) => return None,
        }
        Some(())
    }

    /// The same operation on another vector: a node that is there, or a new one.
    fn with_operand(&mut self, kind: &NodeKind, v: NodeId) -> NodeId {
        let (kind, role) = match kind {
            NodeKind::Apply(_) => (NodeKind::Apply(v), "A"),
            NodeKind::Diagonal(_) => (NodeKind::Diagonal(v), "scaled"),
            NodeKind::Solve(axis, _) => (NodeKind::Solve(*axis, v), "solved"),
            NodeKind::Along(axis, _) => match *self.graph.kind(v) {
                NodeKind::Solve(other, right) if other == *axis => return right,
                _ => (NodeKind::Along(*axis, v), "along"),
            },
            other => (other.clone(), "value"),
        };
        let name = format!("{role}_{}", self.graph.node(v).name);
        let level = self.level(v);
        self.node(kind, &name, level)
    }

    fn node(&mut self, kind: NodeKind, name: &str, level: usize) -> NodeId {
        let known = self.body.iter().chain(&self.added).copied().find(|n| *self.graph.kind(*n) == kind);
        if let Some(known) = known {
            return known;
        }
        self.graph.nodes.push(Node { name: name.into(), named: false, kind, text: None });
        let id = NodeId(self.graph.nodes.len() - 1);
        self.levels.insert(id, level);
        self.added.push(id);
        id
    }

    /// The sum of products of two vectors: that of the round before, one that is there, or a new one.
    fn product(&mut self, v: NodeId, w: NodeId, operands: (NodeId, NodeId)) -> Option<ScalarTree> {
        let (x, y) = operands;
        let before = |a, b| self.is_before(a, x) && self.is_before(b, y);
        if before(v, w) || before(w, v) {
            let l = self.graph.main_loop()?;
            if let Some(phi) = l.phis.iter().find(|phi| phi.next == self.sum) {
                return Some(ScalarTree::Node(phi.node));
            }
        }
        let (v, w) = self.turned(v, w);
        let (v, w) = (v.min(w), v.max(w));
        let level = self.level(v).max(self.level(w)) + 1;
        let name = format!("{}_dot_{}", self.graph.node(v).name, self.graph.node(w).name);
        let before = self.added.len();
        let node = self.node(NodeKind::Reduce(ReduceKind::Dot, v, w), &name, level);
        self.sums += self.added.len() - before;
        Some(ScalarTree::Node(node))
    }

    /// Whether a vector is what another one was a round before.
    fn is_before(&self, a: NodeId, x: NodeId) -> bool {
        let phis = self.graph.main_loop().map(|l| l.phis.as_slice()).unwrap_or_default();
        if phis.iter().any(|phi| phi.node == a && phi.next == x) {
            return true;
        }
        match (self.graph.kind(a), self.graph.kind(x)) {
            (NodeKind::Apply(a), NodeKind::Apply(x)) | (NodeKind::Diagonal(a), NodeKind::Diagonal(x)) => {
                self.is_before(*a, *x)
            }
            (NodeKind::Solve(i, a), NodeKind::Solve(j, x)) | (NodeKind::Along(i, a), NodeKind::Along(j, x)) => {
                i == j && self.is_before(*a, *x)
            }
            _ => false,
        }
    }

    /// (v, S w) = (S v, w) for a symmetric S: of the two the one in which S acts on the older node, and (S v, inv(S) w) =
    /// (v, w).
    fn turned(&mut self, v: NodeId, w: NodeId) -> (NodeId, NodeId) {
        let facts = &self.graph.operator.facts;
        let symmetric = facts.iter().any(|f| f.fact == Fact::Symmetric && f.standing == Standing::Proved);
        let inner = |n: NodeId| match self.graph.kind(n) {
            NodeKind::Apply(a) | NodeKind::Solve(_, a) if symmetric => Some(*a),
            NodeKind::Diagonal(a) => Some(*a),
            _ => None,
        };
        for (along, solved) in [(v, w), (w, v)] {
            if let (NodeKind::Along(i, a), NodeKind::Solve(j, b)) = (self.graph.kind(along), self.graph.kind(solved))
                && symmetric
                && i == j
            {
                return (*a, *b);
            }
        }
        for (solved, plain) in [(v, w), (w, v)] {
            let Some(inner) = inner(solved) else { continue };
            if plain < inner {
                let kind = self.graph.kind(solved).clone();
                return (self.with_operand(&kind, plain), inner);
            }
        }
        (v, w)
    }

    /// Puts the prediction into the loop.
    fn finish(mut self, value: ScalarTree, users: &[NodeId]) -> Option<Graph> {
        let name = format!("{}_predicted", self.graph.node(self.sum).name);
        let level = self.level(self.sum);
        let mut needs = BTreeSet::new();
        value.visit(&mut |n| {
            needs.insert(n);
        });
        self.graph.nodes.push(Node { name, named: false, kind: NodeKind::Scalar(value), text: None });
        let predicted = NodeId(self.graph.nodes.len() - 1);
        self.levels.insert(predicted, level);
        let mut order = self.with_added();
        let last = order.iter().rposition(|n| needs.contains(n)).map_or(0, |at| at + 1);
        order.insert(last, predicted);
        let at = order.iter().position(|n| *n == self.sum)?.max(last);
        let guard = self.guard(predicted, &order[..=at]);
        order.insert(at + 1, guard);
        for user in users {
            let NodeKind::Scalar(tree) = &mut self.graph.nodes[user.0].kind else { return None };
            replace(tree, self.sum, predicted);
            if order.iter().position(|n| n == user)? < last {
                return None;
            }
        }
        self.forget_unread(&mut order);
        let [Step::Loop(l)] = self.graph.body.steps.as_mut_slice() else { return None };
        l.body.steps = order.into_iter().map(Step::Node).collect();
        Some(self.graph)
    }

    /// Leaves out new vectors that no term took in the end.
    fn forget_unread(&self, order: &mut Vec<NodeId>) {
        loop {
            let read: BTreeSet<NodeId> = order.iter().flat_map(|n| self.graph.kind(*n).args()).collect();
            let before = order.len();
            order.retain(|n| !self.added.contains(n) || read.contains(n));
            if order.len() == before {
                return;
            }
        }
    }

    /// The body with new vectors and sums as early as their operands are there.
    fn with_added(&mut self) -> Vec<NodeId> {
        let mut order = self.body.clone();
        for n in self.added.clone() {
            let args = self.graph.kind(n).args();
            let at = order.iter().rposition(|m| args.contains(m)).map_or(0, |at| at + 1);
            order.insert(at, n);
        }
        order
    }

    /// Ends the run unless prediction and sum agree.
    fn guard(&mut self, predicted: NodeId, before: &[NodeId]) -> NodeId {
        let abs = |e| ScalarTree::Call(Function::Abs, vec![e]);
        let (value, sum) = (ScalarTree::Node(predicted), ScalarTree::Node(self.sum));
        let miss = abs(binary(BinaryOp::Sub, value, sum.clone()));
        let allowed = times(ScalarTree::Number(TRUSTED), abs(sum));
        let condition = CondTree::Compare(CompareOp::Le, miss, allowed);
        let graph = &self.graph;
        let phi = graph.main_loop().and_then(|l| l.phis.iter().find(|phi| phi.result == graph.solution));
        let solution = match phi {
            Some(phi) if before.contains(&phi.next) => phi.next,
            Some(phi) => phi.node,
            None => graph.solution,
        };
        let kind = NodeKind::Guard { condition, solution };
        self.graph.nodes.push(Node { name: "guard".into(), named: false, kind, text: None });
        NodeId(self.graph.nodes.len() - 1)
    }
}

/// A factor of a map as a scalar.
fn number(tree: &MapTree) -> Option<ScalarTree> {
    Some(match tree {
        MapTree::Scalar(n) => ScalarTree::Node(*n),
        MapTree::Number(x) => ScalarTree::Number(*x),
        MapTree::Neg(a) => negative(number(a)?),
        MapTree::Binary(op, a, b) => binary(*op, number(a)?, number(b)?),
        MapTree::Value(_) | MapTree::Abs(_) => return None,
    })
}

fn binary(op: BinaryOp, a: ScalarTree, b: ScalarTree) -> ScalarTree {
    ScalarTree::Binary(op, Box::new(a), Box::new(b))
}

fn times(a: ScalarTree, b: ScalarTree) -> ScalarTree {
    match (a, b) {
        (ScalarTree::Number(x), other) | (other, ScalarTree::Number(x)) if x == 1.0 => other,
        (ScalarTree::Neg(a), ScalarTree::Neg(b)) => times(*a, *b),
        (ScalarTree::Neg(a), b) | (b, ScalarTree::Neg(a)) => negative(times(*a, b)),
        (a, b) => binary(BinaryOp::Mul, a, b),
    }
}

fn negative(a: ScalarTree) -> ScalarTree {
    match a {
        ScalarTree::Neg(a) => *a,
        other => ScalarTree::Neg(Box::new(other)),
    }
}

fn replace(tree: &mut ScalarTree, from: NodeId, to: NodeId) {
    match tree {
        ScalarTree::Node(n) if *n == from => *n = to,
        ScalarTree::Node(_) | ScalarTree::Number(_) | ScalarTree::Param(_) | ScalarTree::Tolerance => {}
        ScalarTree::Neg(a) => replace(a, from, to),
        ScalarTree::Binary(_, a, b) => {
            replace(a, from, to);
            replace(b, from, to);
        }
        ScalarTree::Call(_, args) => args.iter_mut().for_each(|a| replace(a, from, to)),
        ScalarTree::Truth(c) => replace_in(c, from, to),
        ScalarTree::Select(c, a, b) => {
            replace_in(c, from, to);
            replace(a, from, to);
            replace(b, from, to);
        }
    }
}

fn replace_in(condition: &mut CondTree, from: NodeId, to: NodeId) {
    match condition {
        CondTree::Compare(_, a, b) => {
            replace(a, from, to);
            replace(b, from, to);
        }
        CondTree::And(a, b) | CondTree::Or(a, b) => {
            replace_in(a, from, to);
            replace_in(b, from, to);
        }
        CondTree::Not(a) => replace_in(a, from, to),
    }
}
