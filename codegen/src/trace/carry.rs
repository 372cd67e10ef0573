//! Every variable of a straight-line main loop gets a next value of its own.
//!
//! `v_old = v` or two variables with one value would leave a variable without a node that computes its next value in
//! the loop, which is what a placement needs. A copy node is that value; a schedule may still compute it for nothing.

use std::collections::BTreeSet;

use crate::graph::{Graph, MapTree, Node, NodeId, NodeKind, ScalarTree, Step};

/// Inserts the copies.
pub(super) fn carry(graph: &mut Graph) {
    let mut steps = std::mem::take(&mut graph.body.steps);
    if let [Step::Loop(l)] = steps.as_mut_slice() {
        let straight = l.body.steps.iter().all(|s| matches!(s, Step::Node(_)));
        let mut free: BTreeSet<NodeId> =
            l.body.steps.iter().filter_map(|s| if let Step::Node(n) = s { Some(*n) } else { None }).collect();
        for phi in l.phis.iter_mut().filter(|_| straight) {
            if free.remove(&phi.next) {
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
            phi.next = NodeId(graph.nodes.len() - 1);
            l.body.steps.push(Step::Node(phi.next));
        }
    }
    graph.body.steps = steps;
}
