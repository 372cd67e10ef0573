//! Every variable of a straight-line main loop gets a next value that a placement can follow.
//!
//! `v_old = v` renames: the next value of `v_old` is the variable `v`, whose own next value is computed a round before,
//! and no node is needed. Two variables with one value, variables that swap theirs, and a solution that is another
//! variable do leave a variable without a value of its own; a copy node is that value, and a schedule may still compute it
//! for nothing.

use std::collections::BTreeSet;

use crate::graph::{Graph, Loop, MapTree, Node, NodeId, NodeKind, ScalarTree, Step};

/// Inserts the copies.
pub(super) fn carry(graph: &mut Graph) {
    let mut steps = std::mem::take(&mut graph.body.steps);
    if let [Step::Loop(l)] = steps.as_mut_slice() {
        let straight = l.body.steps.iter().all(|s| matches!(s, Step::Node(_)));
        let mut free: BTreeSet<NodeId> =
            l.body.steps.iter().filter_map(|s| if let Step::Node(n) = s { Some(*n) } else { None }).collect();
        for number in 0..if straight { l.phis.len() } else { 0 } {
            let phi = l.phis[number];
            let renames = phi.result != graph.solution && follows_another(l, number);
            if free.remove(&phi.next) || renames {
                continue;
            }
            let vector = graph.kind(phi.node).is_vector();
            let kind = if vector {
                NodeKind::Map(MapTree::Value(phi.next))
            } else {
                NodeKind::Scalar(ScalarTree::Node(phi.next))
            };
            let name = graph.node(phi.node).name.clone();
            let text = Some(format!("{name} = {}", graph.node(phi.next).name));
            graph.nodes.push(Node { name, named: true, kind, text });
            l.phis[number].next = NodeId(graph.nodes.len() - 1);
            l.body.steps.push(Step::Node(l.phis[number].next));
        }
    }
    graph.body.steps = steps;
}

/// Whether a variable takes the value of another one that no earlier variable takes, and not in a circle.
fn follows_another(l: &Loop, number: usize) -> bool {
    let phi = l.phis[number];
    let of = |node: NodeId| l.phis.iter().find(|p| p.node == node);
    if l.phis[..number].iter().any(|p| p.next == phi.next) {
        return false;
    }
    let Some(mut at) = of(phi.next) else { return false };
    for _ in 0..l.phis.len() {
        if at.node == phi.node {
            return false;
        }
        match of(at.next) {
            Some(next) => at = next,
            None => return true,
        }
    }
    false
}
