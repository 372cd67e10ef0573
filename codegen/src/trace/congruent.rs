//! Variables of the main loop that always have the same value become one.
//!
//! Without a preconditioner `z = inv(M)*r` is `r`, and a loop that carries both along (`r = r - alpha*q; z = z - alpha*q;`)
//! would load, update and store one vector twice. Two variables are the same if they begin with the same value and their
//! next values are computed by the same formula, each of itself.

use std::collections::BTreeMap;

use crate::graph::{Graph, NodeId, Step};

/// Merges the variables of a straight-line main loop that are the same.
pub(super) fn merge(graph: &mut Graph) {
    while let Some((kept, gone)) = same(graph) {
        let phis = graph.main_loop().map(|l| l.phis.clone()).unwrap_or_default();
        let (kept, gone) = (phis[kept], phis[gone]);
        let renamed: BTreeMap<NodeId, NodeId> =
            [(gone.node, kept.node), (gone.next, kept.next), (gone.result, kept.result)].into();
        for node in &mut graph.nodes {
            node.kind.rename(&renamed, true);
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
            formula.rename(&[(b.node, a.node)].into(), true);
            let alike = a.next == b.next || (inside(a.next) && inside(b.next) && formula == *graph.kind(a.next));
            if straight && a.initial == b.initial && alike {
                return Some((first, second));
            }
        }
    }
    None
}
