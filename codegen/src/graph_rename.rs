//! Other nodes in place of those that a node reads.

use std::collections::BTreeMap;

use crate::graph::{CondTree, MapTree, NodeId, NodeKind, ScalarTree};

impl MapTree {
    /// Replaces what the arithmetic reads.
    pub(crate) fn rename(&mut self, to: &BTreeMap<NodeId, NodeId>) {
        in_map(self, &|n| *n = to.get(n).copied().unwrap_or(*n));
    }
}

impl NodeKind {
    /// Replaces what the node reads; with `solution` also the solution that an act would end with.
    pub(crate) fn rename(&mut self, to: &BTreeMap<NodeId, NodeId>, solution: bool) {
        let one = |n: &mut NodeId| *n = to.get(n).copied().unwrap_or(*n);
        match self {
            NodeKind::Guess | NodeKind::Rhs | NodeKind::Random(_) | NodeKind::Solution => {}
            NodeKind::Phi(_) | NodeKind::Result(_) | NodeKind::Merge(_) => {}
            NodeKind::Apply(v) | NodeKind::Magnitude(v) | NodeKind::Diagonal(v) => one(v),
            NodeKind::Solve(_, v) | NodeKind::Along(_, v) => one(v),
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
            NodeKind::Require { condition, .. } | NodeKind::Guard { condition, .. } => in_condition(condition, &one),
            NodeKind::Check { measure, bound, .. } => {
                in_scalar(measure, &one);
                in_scalar(bound, &one);
            }
            NodeKind::Measure { measure, bound, attainable } => {
                [measure, bound, attainable].into_iter().for_each(|tree| in_scalar(tree, &one));
            }
        }
        if let (
            true,
            NodeKind::Require { solution, .. } | NodeKind::Guard { solution, .. } | NodeKind::Check { solution, .. },
        ) = (solution, self)
        {
            one(solution);
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
