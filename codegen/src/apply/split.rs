//! A variable updated from its own neighbours, in program order.
//!
//! `u = u + w*(f - A*u)` cannot be stored over u while the same sweep reads u around it. The new value gets a buffer
//! of its own and is copied at once. (A placed loop has versions of buffers instead.)

use super::homes::leaves;
use crate::graph::{Graph, Loop, MapTree, Node, NodeId, NodeKind, Region, Step};

/// Inserts copies after the updates concerned.
pub(super) fn split_neighbour_updates(graph: &Graph) -> Graph {
    let mut out = graph.clone();
    let mut body = std::mem::take(&mut out.body);
    region(&mut out, &mut body);
    out.body = body;
    let mut start = std::mem::take(&mut out.start);
    region(&mut out, &mut start);
    out.start = start;
    out
}

fn region(graph: &mut Graph, r: &mut Region) {
    for step in &mut r.steps {
        match step {
            Step::Node(_) => {}
            Step::Loop(l) => {
                region(graph, &mut l.body);
                one_loop(graph, l);
            }
            Step::Branch(b) => b.arms.iter_mut().for_each(|a| region(graph, &mut a.body)),
        }
    }
}

fn one_loop(graph: &mut Graph, l: &mut Loop) {
    for i in 0..l.phis.len() {
        let phi = l.phis[i];
        if !graph.kind(phi.node).is_vector() || !reads_around(graph, phi.next, phi.node) {
            continue;
        }
        let Some(at) = l.body.steps.iter().position(|s| *s == Step::Node(phi.next)) else { continue };
        let Node { name, text, .. } = graph.node(phi.next).clone();
        let kind = NodeKind::Map(MapTree::Value(phi.next));
        graph.nodes[phi.next.0].name = format!("{name}_new");
        graph.nodes.push(Node { name, named: true, kind, text });
        let copy = NodeId(graph.nodes.len() - 1);
        l.body.steps.insert(at + 1, Step::Node(copy));
        l.phis[i].next = copy;
        for node in &mut graph.nodes {
            if let NodeKind::Require { solution, .. }
            | NodeKind::Guard { solution, .. }
            | NodeKind::Check { solution, .. } = &mut node.kind
                && *solution == phi.next
            {
                *solution = copy;
            }
        }
    }
}

fn reads_around(graph: &Graph, next: NodeId, phi: NodeId) -> bool {
    // What is not a variable of the program is not kept and is read through.
    let held = |n: NodeId| graph.node(n).named || matches!(graph.kind(n), NodeKind::Phi(_));
    leaves(graph, &held, next).get(&phi).copied().unwrap_or(false)
}
