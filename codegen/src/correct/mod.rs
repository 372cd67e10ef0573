//! What mixed precision needs beside a loop: iterative refinement of a solution kept in a better precision.
//!
//! A solution u in f64 is corrected until its residual, computed in f64, meets the test: r = f - A*u; the loop solves
//! A*d = r in f32; u = u + d. The loop is the program's own, on an operator without its affine part ([`homogeneous`]),
//! which the residual has in it already. The residual comes from a program without the loop ([`residual`]), and
//! kernels of [`transfer`] move vectors between the two.

pub mod transfer;

use crate::apply::{Illegal, apply_with_residual};
use std::collections::BTreeSet;

use crate::graph::{Graph, MapTree, NodeId, NodeKind, Region, Step};
use crate::loops::{Program, VectorId};
use crate::math::Operator;
use crate::plan::schedule::{Arithmetic, Order, Schedule};

/// The operator of corrections: the same without boundary values and terms that read no unknown.
pub fn homogeneous(operator: &Operator) -> Operator {
    crate::sources::homogeneous(operator)
}

/// The program that prepares the right-hand side and computes the residual of a solution, with the vector that holds the
/// residual. The solver must declare one.
///
/// Its `start` evaluates what the test needs once, from the guess; its `residual` is run for every new solution.
pub fn residual(graph: &Graph) -> Result<(Program, VectorId), Illegal> {
    let alone = without_loop(graph).ok_or_else(|| Illegal("the solver declares no residual".into()))?;
    let schedule = Schedule {
        name: "residual".into(),
        order: Order::Fused,
        main: None,
        recovered: None,
        predicted: None,
        arithmetic: Arithmetic::Same,
    };
    let (program, residual) = apply_with_residual(&alone, &schedule)?;
    crate::loops_verify::verify(&program).map_err(|e| Illegal(e.to_string()))?;
    let residual = residual.ok_or_else(|| Illegal("the true residual is not kept".into()))?;
    Ok((program, residual))
}

/// The graph with an empty body and without acts.
fn without_loop(graph: &Graph) -> Option<Graph> {
    graph.true_residual?;
    let guess = graph.nodes.iter().position(|node| node.kind == NodeKind::Guess).map(NodeId)?;
    let mut alone = graph.clone();
    alone.body = Region::default();
    alone.solution = guess;
    alone.requires.clear();
    let mut start = std::mem::take(&mut alone.start);
    drop_acts(&alone, &mut start);
    alone.start = start;
    crate::trace::prune(&mut alone);
    // A random vector has a buffer as long as its node is one, even if nothing reads it any more.
    let mut read = BTreeSet::new();
    for region in [&alone.start, &alone.residual] {
        operands(&alone, region, &mut read);
    }
    for (id, node) in alone.nodes.iter_mut().enumerate() {
        if matches!(node.kind, NodeKind::Random(_)) && !read.contains(&NodeId(id)) {
            node.kind = NodeKind::Map(MapTree::Number(0.0));
        }
    }
    Some(alone)
}

/// What the steps of a region read.
fn operands(graph: &Graph, region: &Region, out: &mut BTreeSet<NodeId>) {
    for step in &region.steps {
        match step {
            Step::Node(n) => out.extend(graph.kind(*n).args()),
            Step::Loop(l) => {
                out.extend(l.phis.iter().map(|p| p.initial));
                operands(graph, &l.body, out);
            }
            Step::Branch(b) => {
                out.extend(b.merges.iter().flat_map(|m| m.values.iter().chain(&m.incoming)));
                b.arms.iter().for_each(|arm| operands(graph, &arm.body, out));
            }
        }
    }
}

fn drop_acts(graph: &Graph, region: &mut Region) {
    region.steps.retain(|step| !matches!(step, Step::Node(n) if graph.kind(*n).raises()));
    for step in &mut region.steps {
        match step {
            Step::Node(_) => {}
            Step::Loop(l) => drop_acts(graph, &mut l.body),
            Step::Branch(b) => b.arms.iter_mut().for_each(|arm| drop_acts(graph, &mut arm.body)),
        }
    }
}

#[cfg(test)]
mod tests;
