//! The solution's buffer holds the solution wherever the solve may end, in program order.
//!
//! Versions of `u` follow each other in one buffer. That goes wrong where an older version is still needed under another
//! name (`u_old = u;`), or at neighbours: it is then copied as soon as it is there, and others read the copy.

use std::collections::{BTreeMap, BTreeSet};

use super::build::Illegal;
use super::homes::outlived;
use crate::graph::{Graph, MapTree, Node, NodeId, NodeKind, Phi, Region, Step};

/// Values of the variable `u`: at every act, at the end, and what becomes of these in loops and branches.
pub(super) fn versions(graph: &Graph) -> Vec<NodeId> {
    closed(graph, &[&graph.start, &graph.body], vec![graph.solution])
}

/// The same, as far as it goes up to a placed main loop, whose variable is the last of them: what it is made of in the loop
/// is in versions of its buffer.
pub(super) fn versions_before_loop(graph: &Graph) -> Vec<NodeId> {
    let variable = graph.main_loop().and_then(|l| l.phis.iter().find(|p| p.result == graph.solution));
    let mut out = closed(graph, &[&graph.start], vec![variable.map_or(graph.solution, |p| p.initial)]);
    out.extend(variable.map(|p| p.node));
    out
}

fn closed(graph: &Graph, regions: &[&Region], mut stack: Vec<NodeId>) -> Vec<NodeId> {
    let mut out: BTreeSet<NodeId> = BTreeSet::new();
    stack.extend(graph.nodes.iter().position(|n| n.kind == NodeKind::Guess).map(NodeId));
    let mut links: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for region in regions {
        collect(graph, region, &mut stack, &mut links);
    }
    while let Some(n) = stack.pop() {
        if out.insert(n) {
            stack.extend(links.get(&n).into_iter().flatten());
        }
    }
    out.into_iter().collect()
}

/// Solutions of the acts of a region, and what variables of loops and branches are made of.
fn collect(graph: &Graph, region: &Region, acts: &mut Vec<NodeId>, links: &mut BTreeMap<NodeId, Vec<NodeId>>) {
    for step in &region.steps {
        match step {
            Step::Node(n) => acts.extend(graph.kind(*n).solution()),
            Step::Loop(l) => {
                for p in &l.phis {
                    links.insert(p.node, vec![p.initial, p.next, p.result]);
                    links.insert(p.result, vec![p.node, p.initial, p.next]);
                }
                collect(graph, &l.body, acts, links);
            }
            Step::Branch(b) => {
                for m in &b.merges {
                    links.insert(m.node, m.incoming.iter().chain(&m.values).copied().collect());
                }
                b.arms.iter().for_each(|arm| collect(graph, &arm.body, acts, links));
            }
        }
    }
}

/// Copies versions that outlast their turn.
///
/// # Errors
/// Where lives cannot be found: a bug of the trace.
pub(super) fn land(graph: Graph) -> Result<Graph, Illegal> {
    let versions = versions(&graph);
    copied(graph, &versions)
}

/// The same for what precedes a placed loop; in the loop, buffers have versions.
///
/// # Errors
/// As for [`land`].
pub(super) fn land_before_loop(graph: &Graph) -> Result<Graph, Illegal> {
    copied(graph.clone(), &versions_before_loop(graph))
}

fn copied(graph: Graph, versions: &[NodeId]) -> Result<Graph, Illegal> {
    let outlived = outlived(&graph, versions)?;
    if outlived.is_empty() {
        return Ok(graph);
    }
    let versions: BTreeSet<NodeId> = versions.iter().copied().collect();
    let mut out = graph;
    let copies: BTreeMap<NodeId, NodeId> =
        outlived.into_iter().enumerate().map(|(i, version)| (version, NodeId(out.nodes.len() + i))).collect();
    out.nodes.iter_mut().for_each(|node| node.kind.rename(&copies, false));
    for version in copies.keys() {
        let name = out.node(*version).name.clone();
        let text = Some(format!("{name}_kept = {name}"));
        let kind = NodeKind::Map(MapTree::Value(*version));
        out.nodes.push(Node { name: format!("{name}_kept"), named: true, kind, text });
    }
    for region in [&mut out.start, &mut out.body] {
        variables(region, &versions, &copies);
        insert(region, &copies);
    }
    let guess = out.nodes.iter().position(|n| n.kind == NodeKind::Guess).map(NodeId);
    if let Some(copy) = guess.and_then(|g| copies.get(&g)) {
        out.start.steps.insert(0, Step::Node(*copy));
    }
    Ok(out)
}

/// Other variables take the copies.
fn variables(region: &mut Region, versions: &BTreeSet<NodeId>, copies: &BTreeMap<NodeId, NodeId>) {
    let take = |n: &mut NodeId| *n = copies.get(n).copied().unwrap_or(*n);
    for step in &mut region.steps {
        match step {
            Step::Node(_) => {}
            Step::Loop(l) => {
                for Phi { initial, next, .. } in l.phis.iter_mut().filter(|p| !versions.contains(&p.node)) {
                    take(initial);
                    take(next);
                }
                variables(&mut l.body, versions, copies);
            }
            Step::Branch(b) => {
                for m in b.merges.iter_mut().filter(|m| !versions.contains(&m.node)) {
                    m.incoming.iter_mut().for_each(take);
                    m.values.iter_mut().for_each(take);
                }
                b.arms.iter_mut().for_each(|arm| variables(&mut arm.body, versions, copies));
            }
        }
    }
}

/// Puts every copy right behind what it copies.
fn insert(region: &mut Region, copies: &BTreeMap<NodeId, NodeId>) {
    let mut steps = Vec::new();
    for mut step in std::mem::take(&mut region.steps) {
        let born: Vec<NodeId> = match &mut step {
            Step::Node(n) => vec![*n],
            Step::Loop(l) => {
                insert(&mut l.body, copies);
                let inside = l.phis.iter().filter_map(|p| copies.get(&p.node));
                let inside: Vec<Step> = inside.map(|copy| Step::Node(*copy)).collect();
                l.body.steps.splice(0..0, inside);
                l.phis.iter().map(|p| p.result).collect()
            }
            Step::Branch(b) => {
                b.arms.iter_mut().for_each(|arm| insert(&mut arm.body, copies));
                b.merges.iter().map(|m| m.node).collect()
            }
        };
        steps.push(step);
        steps.extend(born.iter().filter_map(|n| copies.get(n)).map(|copy| Step::Node(*copy)));
    }
    region.steps = steps;
}
