//! Recovered right sides: a vector that is solved for along lines need not be kept beside its solution.
//!
//! A loop such as
//! ```text
//! r = r - alpha*q;  z = inv(M)*r;  rho = dot(r, z);
//! ```
//! with M the operator's part along an axis loads and stores both r and z. But r = M*z, and M couples points of a line
//! only, which whoever solves along it has at hand: the loop may carry z alone and begin with `r = M*z - alpha*q`. That is
//! a store less, and no neighbour more from afar.
//!
//! Where r follows a linear recurrence z does so too ([`advance`]): z = z - alpha*(inv(M)*q), and r = M*z is had at any time.
//! Then nothing solves for z, which is therefore known at neighbours, and a prediction ([`predict`](super::predict)) takes no
//! solve beside the one of q: one sweep a round.
//!
//! # Precondition
//! The main loop is a straight line, the solver declares a residual (rounding is another: used only with the true-residual
//! check).
//!
//! # Postcondition
//! In exact arithmetic the graph computes what it did. In floating point a round changes the recovered vector by what a
//! change of z in its last place makes of it, |M| |z| eps, as an update of the solution in its last place does to the true
//! residual: both lose about as much.

use std::collections::{BTreeMap, BTreeSet};

use super::model::is_linear;
use crate::graph::{Graph, Loop, MapTree, Node, NodeId, NodeKind, Phi, Step, Type};

/// Solves of the main loop whose right sides can be recovered.
pub fn candidates(graph: &Graph) -> Vec<NodeId> {
    let body = graph.main_loop().map(|l| l.body.steps.as_slice()).unwrap_or_default();
    let nodes = body.iter().filter_map(|step| if let Step::Node(n) = step { Some(*n) } else { None });
    nodes.filter(|n| recover(graph, *n).is_some()).collect()
}

/// The graph whose loop carries a solution in place of its right side; none where that is not possible or of no use.
pub fn recover(graph: &Graph, solve: NodeId) -> Option<Graph> {
    recovered(graph, solve).map(|(out, _)| out)
}

/// The same, with the variable that carries the solution.
fn recovered(graph: &Graph, solve: NodeId) -> Option<(Graph, Phi)> {
    graph.true_residual?;
    if graph.body.steps.len() != 1 {
        return None;
    }
    let l = graph.main_loop()?;
    let NodeKind::Solve(axis, right) = *graph.nodes.get(solve.0).map(|node| &node.kind)? else { return None };
    let here = l.body.steps.contains(&Step::Node(solve));
    let given = *l.phis.iter().find(|phi| phi.next == right || phi.node == right).filter(|_| here)?;
    if !is_recoverable(graph, l, &given, solve) {
        return None;
    }
    // A solution of what the round before left is found at that round's end.
    let ahead = right == given.node;
    let mut out = graph.clone();
    let known = l.phis.iter().find(|phi| phi.next == solve && !ahead).copied();
    let kept = match known {
        // The loop carries the solution already.
        Some(phi) if *graph.kind(phi.initial) == NodeKind::Solve(axis, given.initial) => phi,
        Some(_) => return None,
        None => carried(&mut out, axis, &given, (solve, ahead)),
    };
    let (name, right) = (graph.node(solve).name.clone(), graph.node(given.node).name.clone());
    let recovered = add(&mut out, &format!("recovered_{right}"), NodeKind::Along(axis, kept.node));
    let text = format!("{right} of the round before, from {name}");
    (out.nodes[recovered.0].named, out.nodes[recovered.0].text) = (true, Some(text));
    let mut renamed = BTreeMap::from([(given.node, recovered)]);
    if ahead {
        renamed.insert(solve, kept.node);
    }
    let Step::Loop(l) = &mut out.body.steps[0] else { return None };
    l.phis.retain(|phi| phi.node != given.node);
    if known.is_none() {
        l.phis.push(kept);
    }
    if ahead {
        l.body.steps.retain(|step| *step != Step::Node(solve));
        l.body.steps.push(Step::Node(kept.next));
        l.phis.iter_mut().filter(|phi| phi.next == solve).for_each(|phi| phi.next = kept.node);
    }
    let steps = l.body.steps.clone();
    l.body.steps.insert(0, Step::Node(recovered));
    for step in steps {
        if let Step::Node(n) = step {
            out.nodes[n.0].kind.rename(&renamed, true);
        }
    }
    Some((out, kept))
}

/// A new variable for a solution: that of the right side's next value, at once or, `ahead`, a round before it is used.
fn carried(graph: &mut Graph, axis: usize, right: &Phi, (solve, ahead): (NodeId, bool)) -> Phi {
    let started = started(graph, axis, right.initial, solve);
    // A variable that begins with the same value has a buffer of its own.
    let shared = graph.main_loop().is_some_and(|l| l.phis.iter().any(|phi| phi.initial == started));
    let initial = if shared { begun(graph, started) } else { started };
    let name = graph.node(solve).name.clone();
    let next = if ahead { add(graph, &name, NodeKind::Solve(axis, right.next)) } else { solve };
    let [node, result] = [NodeKind::Phi, NodeKind::Result].map(|kind| add(graph, &name, kind(Type::Vector)));
    Phi { node, initial, next, result }
}

/// The graph whose loop, moreover, takes the solution by the recurrence of its right side; none where that has none.
pub fn advance(graph: &Graph, solve: NodeId) -> Option<Graph> {
    let (mut out, carried) = recovered(graph, solve)?;
    let NodeKind::Solve(axis, right) = *out.kind(carried.next) else { return None };
    let NodeKind::Map(mut tree) = out.kind(right).clone() else { return None };
    let body = out.main_loop()?.body.steps.clone();
    let at = body.iter().position(|step| *step == Step::Node(right))?;
    let mut leaves = BTreeSet::new();
    tree.visit(&mut |n| {
        leaves.insert(n);
    });
    leaves.retain(|n| out.kind(*n).is_vector());
    if !is_linear(&tree) {
        return None;
    }
    let mut order: Vec<Step> = body[..at].to_vec();
    let mut solved = BTreeMap::new();
    for leaf in leaves {
        let follows = *out.kind(leaf) == NodeKind::Along(axis, carried.node);
        solved.insert(
            leaf,
            if follows {
                carried.node
            } else {
                let name = format!("solved_{}", out.node(leaf).name);
                let node = add(&mut out, &name, NodeKind::Solve(axis, leaf));
                order.push(Step::Node(node));
                node
            },
        );
    }
    tree.rename(&solved);
    out.nodes[carried.next.0].kind = NodeKind::Map(tree);
    out.nodes[right.0].kind = NodeKind::Along(axis, carried.next);
    order.extend([carried.next, right].map(Step::Node));
    order.extend(body[at + 1..].iter().filter(|step| **step != Step::Node(carried.next)).cloned());
    // The right side as it was before need not be wanted any more.
    let read: BTreeSet<NodeId> = order.iter().flat_map(|step| reads(&out, step)).collect();
    order.retain(|step| !matches!(step, Step::Node(n) if out.kind(*n).gathers() && !read.contains(n)));
    let Step::Loop(l) = &mut out.body.steps[0] else { return None };
    l.body.steps = order;
    Some(out)
}

fn reads(graph: &Graph, step: &Step) -> Vec<NodeId> {
    if let Step::Node(n) = step { graph.kind(*n).args() } else { Vec::new() }
}

/// Whether a variable of the loop is read in it, beside the solve itself, and only where its couplings along a line will do:
/// at the own point, by nodes of the loop.
fn is_recoverable(graph: &Graph, l: &Loop, variable: &Phi, solve: NodeId) -> bool {
    let mut read = false;
    for step in &l.body.steps {
        let Step::Node(n) = step else { return false };
        let kind = graph.kind(*n);
        if *n != solve && kind.args().contains(&variable.node) {
            if kind.gathers() || matches!(kind, NodeKind::Solve(..)) {
                return false;
            }
            read = true;
        }
    }
    let followed = l.phis.iter().any(|phi| phi.next == variable.node);
    read && !followed && variable.result != graph.solution
}

/// The solution before the loop: one that is there, or a new one.
fn started(graph: &mut Graph, axis: usize, right: NodeId, solve: NodeId) -> NodeId {
    let kind = NodeKind::Solve(axis, right);
    let known = graph.start.steps.iter().find_map(|step| match step {
        Step::Node(n) if *graph.kind(*n) == kind => Some(*n),
        _ => None,
    });
    known.unwrap_or_else(|| {
        let name = graph.node(solve).name.clone();
        begin(graph, &name, kind)
    })
}

/// A copy of a value before the loop.
fn begun(graph: &mut Graph, value: NodeId) -> NodeId {
    let name = graph.node(value).name.clone();
    begin(graph, &name, NodeKind::Map(MapTree::Value(value)))
}

fn begin(graph: &mut Graph, name: &str, kind: NodeKind) -> NodeId {
    let node = add(graph, name, kind);
    graph.start.steps.push(Step::Node(node));
    node
}

fn add(graph: &mut Graph, name: &str, kind: NodeKind) -> NodeId {
    graph.nodes.push(Node { name: name.into(), named: false, kind, text: None });
    NodeId(graph.nodes.len() - 1)
}
