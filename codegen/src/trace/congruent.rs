//! Variables of the main loop that always have the same value become one.
//!
//! Without a preconditioner `z = inv(M)*r` is `r`, and a loop that carries both along (`r = r - alpha*q; z = z - alpha*q;`)
//! would load, update and store one vector twice. Two variables are the same if they begin with the same value and their
//! next values are computed by the same formula, each of itself.

use std::collections::BTreeMap;

use crate::graph::{CondTree, Graph, MapTree, NodeId, NodeKind, ScalarTree, Step};

/// Merges the variables of a straight-line main loop that are the same.
pub(super) fn merge(graph: &mut Graph) {
    while let Some((kept, gone)) = same(graph) {
        let phis = graph.main_loop().map(|l| l.phis.clone()).unwrap_or_default();
        let (kept, gone) = (phis[kept], phis[gone]);
        let renamed: BTreeMap<NodeId, NodeId> =
            [(gone.node, kept.node), (gone.next, kept.next), (gone.result, kept.result)].into();
        for node in &mut graph.nodes {
            rename(&mut node.kind, &renamed);
        }
        if graph.solution == gone.result {
            graph.solution = kept.result;
        }
        for step in &mut graph.body.steps {
            if let Step::Loop(l) = step {
                l.phis.retain(|phi| phi.node != gone.node);
                for phi in &mut l.phis {
                    phi.next = renamed.get(&phi.next).copied().unwrap_or(phi.next);
                }
                l.body.steps.retain(|step| gone.next == kept.next || *step != Step::Node(gone.next));
            }
        }
    }
}

/// Numbers of two such variables of the only, straight-line loop of the body.
fn same(graph: &Graph) -> Option<(usize, usize)> {
    let [Step::Loop(l)] = graph.body.steps.as_slice() else { return None };
    let straight = l.body.steps.iter().all(|step| matches!(step, Step::Node(_)));
    let inside = |n: NodeId| l.body.steps.contains(&Step::Node(n));
    for (second, b) in l.phis.iter().enumerate() {
        for (first, a) in l.phis.iter().enumerate().take(second) {
            let mut formula = graph.kind(b.next).clone();
            rename(&mut formula, &[(b.node, a.node)].into());
            let alike = a.next == b.next || (inside(a.next) && inside(b.next) && formula == *graph.kind(a.next));
            if straight && a.initial == b.initial && alike {
                return Some((first, second));
            }
        }
    }
    None
}

fn rename(kind: &mut NodeKind, to: &BTreeMap<NodeId, NodeId>) {
    let one = |n: &mut NodeId| *n = to.get(n).copied().unwrap_or(*n);
    match kind {
        NodeKind::Guess | NodeKind::Rhs | NodeKind::Random(_) | NodeKind::Solution => {}
        NodeKind::Phi(_) | NodeKind::Result(_) | NodeKind::Merge(_) => {}
        NodeKind::Apply(v) | NodeKind::Magnitude(v) | NodeKind::Diagonal(v) | NodeKind::Solve(_, v) => one(v),
        NodeKind::Companion { step, operand, .. } => {
            one(operand);
            step.iter_mut().for_each(one);
        }
        NodeKind::Map(tree) => in_map(tree, &one),
        NodeKind::Reduce(_, v, w) => {
            one(v);
            one(w);
        }
        NodeKind::Scalar(tree) => in_scalar(tree, &one),
        NodeKind::Require { condition, solution, .. } | NodeKind::Guard { condition, solution } => {
            in_condition(condition, &one);
            one(solution);
        }
        NodeKind::Check { measure, bound, solution } => {
            in_scalar(measure, &one);
            in_scalar(bound, &one);
            one(solution);
        }
        NodeKind::Measure { measure, bound, attainable } => {
            [measure, bound, attainable].into_iter().for_each(|tree| in_scalar(tree, &one));
        }
    }
}

fn in_map(tree: &mut MapTree, one: &dyn Fn(&mut NodeId)) {
    match tree {
        MapTree::Value(n) | MapTree::Scalar(n) => one(n),
        MapTree::Number(_) => {}
        MapTree::Neg(a) | MapTree::Abs(a) => in_map(a, one),
        MapTree::Binary(_, a, b) => {
            in_map(a, one);
            in_map(b, one);
        }
    }
}

fn in_scalar(tree: &mut ScalarTree, one: &dyn Fn(&mut NodeId)) {
    match tree {
        ScalarTree::Node(n) => one(n),
        ScalarTree::Number(_) | ScalarTree::Param(_) | ScalarTree::Tolerance => {}
        ScalarTree::Neg(a) => in_scalar(a, one),
        ScalarTree::Binary(_, a, b) => {
            in_scalar(a, one);
            in_scalar(b, one);
        }
        ScalarTree::Call(_, args) => args.iter_mut().for_each(|a| in_scalar(a, one)),
        ScalarTree::Truth(c) => in_condition(c, one),
        ScalarTree::Select(c, a, b) => {
            in_condition(c, one);
            in_scalar(a, one);
            in_scalar(b, one);
        }
    }
}

fn in_condition(condition: &mut CondTree, one: &dyn Fn(&mut NodeId)) {
    match condition {
        CondTree::Compare(_, a, b) => {
            in_scalar(a, one);
            in_scalar(b, one);
        }
        CondTree::And(a, b) | CondTree::Or(a, b) => {
            in_condition(a, one);
            in_condition(b, one);
        }
        CondTree::Not(a) => in_condition(a, one),
    }
}
