//! Branches that decide on scalars only become selections.
//!
//! `if tau > 0 { omega = dot(t, s)/tau; }` keeps a loop from being a straight line, though all it decides is a
//! number. Such an arm is carried out always, and a scalar after the branch selects among its values; what the arm not
//! taken computes, infinite or not, is dropped by the selection. Arms that act, change vectors or contain loops stay
//! branches, and so does `every`, which counts rounds.

use crate::graph::{Branch, CondTree, Graph, NodeId, NodeKind, Region, ScalarTree, Step, When};

/// Converts all such branches of the main part.
pub(super) fn convert(graph: &mut Graph) {
    let mut start = std::mem::take(&mut graph.start);
    convert_region(graph, &mut start);
    graph.start = start;
    let mut body = std::mem::take(&mut graph.body);
    convert_region(graph, &mut body);
    graph.body = body;
}

fn convert_region(graph: &mut Graph, region: &mut Region) {
    let mut steps = Vec::new();
    for mut step in std::mem::take(&mut region.steps) {
        match &mut step {
            Step::Node(_) => {}
            Step::Loop(l) => convert_region(graph, &mut l.body),
            Step::Branch(b) => {
                b.arms.iter_mut().for_each(|a| convert_region(graph, &mut a.body));
                if let Some(condition) = condition(graph, b) {
                    steps.extend(select(graph, b, &condition));
                    continue;
                }
            }
        }
        steps.push(step);
    }
    region.steps = steps;
}

/// The condition of a branch that can be converted: of its first arm.
fn condition(graph: &Graph, b: &Branch) -> Option<CondTree> {
    let scalars =
        b.merges.iter().all(|m| !graph.kind(m.node).is_vector() && (m.incoming.is_some() || b.arms.len() == 2));
    let steps = b.arms.iter().flat_map(|a| &a.body.steps);
    let pure = steps.into_iter().all(|s| matches!(s, Step::Node(n) if is_pure(graph.kind(*n))));
    let When::Scalar(first) = b.arms.first()?.when else { return None };
    match graph.kind(first) {
        NodeKind::Scalar(ScalarTree::Truth(c)) if scalars && pure && b.arms.len() <= 2 => Some((**c).clone()),
        _ => None,
    }
}

/// Scalars, and reductions of what is at hand: vectors computed for an arm only are worth a branch.
fn is_pure(kind: &NodeKind) -> bool {
    matches!(kind, NodeKind::Scalar(_) | NodeKind::Reduce(..))
}

/// The steps in place of a branch; merges become scalars.
fn select(graph: &mut Graph, b: &Branch, condition: &CondTree) -> Vec<Step> {
    let mut steps: Vec<Step> = b.arms.iter().flat_map(|a| a.body.steps.iter().cloned()).collect();
    for m in &b.merges {
        let other = m.values.get(1).copied().or(m.incoming);
        let (Some(then), Some(otherwise)) = (m.values.first().copied(), other) else { continue };
        let leaf = |n: NodeId| Box::new(ScalarTree::Node(n));
        let tree = ScalarTree::Select(Box::new(condition.clone()), leaf(then), leaf(otherwise));
        graph.nodes[m.node.0].kind = NodeKind::Scalar(tree);
        steps.push(Step::Node(m.node));
    }
    steps
}
