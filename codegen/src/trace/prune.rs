//! Removal of what nothing needs.
//!
//! Roots are the acts, the solution (at every act and at the end) and the true residual. A phi needs its initial and
//! next values, a merge its arms' values and conditions.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{Graph, NodeId, NodeKind, Region, Step, When};

/// Drops dead nodes from all regions (they stay in the list of nodes, unused).
pub(crate) fn prune(graph: &mut Graph) {
    let mut edges: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    let mut roots: Vec<NodeId> = vec![graph.solution];
    roots.extend(graph.true_residual);
    for region in [&graph.start, &graph.body, &graph.residual] {
        collect(graph, region, &[], &mut edges, &mut roots);
    }
    let mut live = BTreeSet::new();
    while let Some(node) = roots.pop() {
        if live.insert(node) {
            roots.extend(graph.kind(node).args());
            roots.extend(edges.get(&node).into_iter().flatten());
        }
    }
    for region in [&mut graph.start, &mut graph.body, &mut graph.residual] {
        retain(region, &live);
    }
}

/// Roots, and what nodes need beside their operands; `when` are the conditions of the branches around.
fn collect(
    graph: &Graph,
    region: &Region,
    when: &[NodeId],
    edges: &mut BTreeMap<NodeId, Vec<NodeId>>,
    roots: &mut Vec<NodeId>,
) {
    for step in &region.steps {
        match step {
            Step::Node(n) => match (graph.kind(*n), graph.kind(*n).solution()) {
                (_, Some(solution)) => {
                    roots.extend([*n, solution]);
                    roots.extend(when);
                }
                (NodeKind::Measure { .. }, None) => roots.push(*n),
                _ => {}
            },
            Step::Loop(l) => {
                for p in &l.phis {
                    edges.entry(p.node).or_default().extend([p.initial, p.next]);
                    edges.entry(p.result).or_default().extend([p.node, p.initial, p.next]);
                }
                collect(graph, &l.body, when, edges, roots);
            }
            Step::Branch(b) => {
                for m in &b.merges {
                    let needs = edges.entry(m.node).or_default();
                    needs.extend(m.incoming.iter().chain(&m.values));
                    needs.extend(when);
                    needs.extend(b.arms.iter().filter_map(|a| scalar(a.when)));
                }
                for arm in &b.arms {
                    let mut inside = when.to_vec();
                    inside.extend(scalar(arm.when));
                    collect(graph, &arm.body, &inside, edges, roots);
                }
            }
        }
    }
}

fn scalar(when: When) -> Option<NodeId> {
    match when {
        When::Scalar(n) => Some(n),
        When::Every(_) => None,
    }
}

fn retain(region: &mut Region, live: &BTreeSet<NodeId>) {
    for step in &mut region.steps {
        match step {
            Step::Node(_) => {}
            Step::Loop(l) => {
                l.phis.retain(|p| live.contains(&p.node));
                retain(&mut l.body, live);
            }
            Step::Branch(b) => {
                b.merges.retain(|m| live.contains(&m.node));
                b.arms.iter_mut().for_each(|a| retain(&mut a.body, live));
            }
        }
    }
    region.steps.retain(|step| match step {
        Step::Node(n) => live.contains(n),
        Step::Loop(l) => !l.body.steps.is_empty() || !l.phis.is_empty(),
        Step::Branch(b) => !b.merges.is_empty() || b.arms.iter().any(|a| !a.body.steps.is_empty()),
    });
}
