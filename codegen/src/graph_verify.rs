//! The verifier of graphs: what the planner may rely on. Run after the trace.

use std::collections::BTreeSet;

use crate::graph::{
    Branch, CondTree, Graph, Loop, MapTree, Merge, NodeId, NodeKind, Phi, Region, ScalarTree, Step, Type, When,
};

/// Checks the invariants of [`graph`](crate::graph).
///
/// # Errors
/// Every violation: a bug of the trace.
pub fn verify(graph: &Graph) -> Result<(), Vec<String>> {
    let mut v =
        Verifier { graph, known: BTreeSet::new(), defined: BTreeSet::new(), read: BTreeSet::new(), errors: vec![] };
    v.region(&graph.start);
    let begun = v.known.clone();
    v.region(&graph.body);
    v.reads("the solution", graph.solution, Some(Type::Vector));
    // The residual is computed from the solution and what precedes the loop.
    v.known = begun;
    v.region(&graph.residual);
    if let Some(residual) = graph.true_residual {
        v.reads("the true residual", residual, Some(Type::Vector));
    }
    v.idle();
    if v.errors.is_empty() { Ok(()) } else { Err(v.errors) }
}

struct Verifier<'g> {
    graph: &'g Graph,
    /// Nodes that dominate the current place.
    known: BTreeSet<NodeId>,
    /// Nodes defined anywhere so far.
    defined: BTreeSet<NodeId>,
    /// Nodes that something reads.
    read: BTreeSet<NodeId>,
    errors: Vec<String>,
}

impl Verifier<'_> {
    fn error(&mut self, what: String) {
        self.errors.push(what);
    }

    fn label(&self, node: NodeId) -> String {
        if node.0 < self.graph.nodes.len() { self.graph.label(node) } else { format!("node {}", node.0) }
    }

    fn kind(&self, node: NodeId) -> Option<&NodeKind> {
        self.graph.nodes.get(node.0).map(|node| &node.kind)
    }

    fn define(&mut self, node: NodeId) {
        if node.0 >= self.graph.nodes.len() {
            return self.error(format!("there is no node {}", node.0));
        }
        if !self.defined.insert(node) {
            self.error(format!("{} is defined twice", self.label(node)));
        }
        self.known.insert(node);
    }

    /// A use of a node, of a type where one is required.
    fn reads(&mut self, by: &str, node: NodeId, wanted: Option<Type>) {
        self.read.insert(node);
        let Some(kind) = self.kind(node) else {
            return self.error(format!("{by} reads node {}, which does not exist", node.0));
        };
        let given = matches!(kind, NodeKind::Guess | NodeKind::Rhs | NodeKind::Random(_) | NodeKind::Solution);
        let is = if kind.is_vector() { Type::Vector } else { Type::Scalar };
        if kind.raises() || matches!(kind, NodeKind::Measure { .. }) {
            return self.error(format!("{by} reads {}, which has no value", self.label(node)));
        }
        if wanted.is_some_and(|wanted| wanted != is) {
            self.error(format!("{by} reads {}, which is a {is:?}", self.label(node)));
        }
        if !given && !self.known.contains(&node) {
            self.error(format!("{by} reads {} where it is not defined", self.label(node)));
        }
    }

    fn region(&mut self, region: &Region) {
        for step in &region.steps {
            match step {
                Step::Node(node) => self.node(*node),
                Step::Loop(l) => self.repeat(l),
                Step::Branch(branch) => self.branch(branch),
            }
        }
    }

    /// What an inner region defines is not known behind it.
    fn inner(&mut self, region: &Region, at_end: impl FnOnce(&mut Self)) {
        let before = self.known.clone();
        self.region(region);
        at_end(self);
        self.known = before;
    }

    fn node(&mut self, id: NodeId) {
        let by = self.label(id);
        let Some(kind) = self.kind(id).cloned() else { return self.define(id) };
        let mut wanted = Vec::new();
        match &kind {
            NodeKind::Guess | NodeKind::Rhs | NodeKind::Random(_) | NodeKind::Solution => {}
            NodeKind::Phi(_) | NodeKind::Result(_) | NodeKind::Merge(_) => {
                self.error(format!("{by} stands alone, outside of its loop or branch"));
            }
            NodeKind::Apply(v) | NodeKind::Magnitude(v) | NodeKind::Diagonal(v) => wanted.push((*v, Type::Vector)),
            NodeKind::Solve(axis, v) | NodeKind::Along(axis, v) => {
                if *axis >= self.graph.operator.space.grid().axes.len() {
                    self.error(format!("{by} is along axis {axis}"));
                }
                wanted.push((*v, Type::Vector));
            }
            NodeKind::Companion { number, step, operand } => {
                let rows = self.graph.operator.space.rows();
                if rows.is_none_or(|rows| *number >= rows.companions.len()) {
                    self.error(format!("{by} is of companion {number}, which does not exist"));
                }
                wanted.push((*operand, Type::Vector));
                wanted.extend(step.map(|step| (step, Type::Scalar)));
            }
            NodeKind::Map(tree) => in_map(tree, &mut wanted),
            NodeKind::Reduce(_, v, w) => wanted.extend([(*v, Type::Vector), (*w, Type::Vector)]),
            NodeKind::Scalar(tree) => self.scalars(&by, &[tree], &mut wanted),
            NodeKind::Require { number, condition, solution } => {
                if *number >= self.graph.requires.len() {
                    self.error(format!("{by} is require {number}, which nothing is known of"));
                }
                self.condition(&by, condition, &mut wanted);
                wanted.push((*solution, Type::Vector));
            }
            NodeKind::Guard { condition, solution } => {
                self.condition(&by, condition, &mut wanted);
                wanted.push((*solution, Type::Vector));
            }
            NodeKind::Check { measure, bound, solution } => {
                self.scalars(&by, &[measure, bound], &mut wanted);
                wanted.push((*solution, Type::Vector));
            }
            NodeKind::Measure { measure, bound, attainable } => {
                self.scalars(&by, &[measure, bound, attainable], &mut wanted);
            }
        }
        for (node, ty) in wanted {
            self.reads(&by, node, Some(ty));
        }
        self.define(id);
    }

    fn scalars(&mut self, by: &str, trees: &[&ScalarTree], wanted: &mut Vec<(NodeId, Type)>) {
        for tree in trees {
            tree.visit(&mut |node| wanted.push((node, Type::Scalar)));
            let params = self.graph.solver_params.len();
            if largest_param(tree).is_some_and(|param| param >= params) {
                self.error(format!("{by} reads a parameter that the solver does not have"));
            }
        }
    }

    fn condition(&mut self, by: &str, condition: &CondTree, wanted: &mut Vec<(NodeId, Type)>) {
        match condition {
            CondTree::Compare(_, a, b) => self.scalars(by, &[a, b], wanted),
            CondTree::And(a, b) | CondTree::Or(a, b) => {
                self.condition(by, a, wanted);
                self.condition(by, b, wanted);
            }
            CondTree::Not(a) => self.condition(by, a, wanted),
        }
    }

    fn repeat(&mut self, l: &Loop) {
        for phi in &l.phis {
            let ty = self.phi_type(phi);
            self.reads("a loop", phi.initial, ty);
        }
        let before = self.known.clone();
        l.phis.iter().for_each(|phi| self.define(phi.node));
        self.inner(&l.body, |v| {
            for phi in &l.phis {
                let ty = v.phi_type(phi);
                v.reads("the end of a round", phi.next, ty);
            }
        });
        self.known = before;
        l.phis.iter().for_each(|phi| self.define(phi.result));
    }

    /// The type of a loop's variable, after a look at its nodes.
    fn phi_type(&mut self, phi: &Phi) -> Option<Type> {
        match (self.kind(phi.node), self.kind(phi.result)) {
            (Some(NodeKind::Phi(a)), Some(NodeKind::Result(b))) if a == b => Some(*a),
            _ => {
                self.error(format!(
                    "{} and {} are no variable of a loop",
                    self.label(phi.node),
                    self.label(phi.result)
                ));
                None
            }
        }
    }

    fn branch(&mut self, branch: &Branch) {
        for (number, arm) in branch.arms.iter().enumerate() {
            match arm.when {
                When::Scalar(node) => self.reads("a branch", node, Some(Type::Scalar)),
                When::Every(0) => self.error("a branch runs on every 0th round".to_owned()),
                When::Every(_) => {}
            }
            self.inner(&arm.body, |v| {
                for merge in &branch.merges {
                    let ty = v.merge_type(merge);
                    match merge.values.get(number) {
                        Some(value) => v.reads("the end of an arm", *value, ty),
                        None => v.error(format!("{} has no value from arm {number}", v.label(merge.node))),
                    }
                }
            });
        }
        for merge in &branch.merges {
            let ty = self.merge_type(merge);
            if let Some(incoming) = merge.incoming {
                self.reads("a branch", incoming, ty);
            }
            self.define(merge.node);
        }
    }

    fn merge_type(&mut self, merge: &Merge) -> Option<Type> {
        match self.kind(merge.node) {
            Some(NodeKind::Merge(ty)) => Some(*ty),
            _ => {
                self.error(format!("{} is no variable of a branch", self.label(merge.node)));
                None
            }
        }
    }

    /// Every value is read by something. (Acts have none; a variable's result may be left over.)
    fn idle(&mut self) {
        let is_value = |node: &&NodeId| match self.kind(**node) {
            // A loop may assign a variable that only what follows it reads.
            Some(NodeKind::Phi(_) | NodeKind::Result(_) | NodeKind::Merge(_)) | None => false,
            Some(kind) if kind.raises() || matches!(kind, NodeKind::Measure { .. }) => false,
            Some(_) => !self.read.contains(node),
        };
        let idle: Vec<NodeId> = self.defined.iter().filter(is_value).copied().collect();
        for node in idle {
            self.error(format!("nothing reads {}", self.label(node)));
        }
    }
}

fn in_map(tree: &MapTree, wanted: &mut Vec<(NodeId, Type)>) {
    match tree {
        MapTree::Value(node) => wanted.push((*node, Type::Vector)),
        MapTree::Scalar(node) => wanted.push((*node, Type::Scalar)),
        MapTree::Number(_) => {}
        MapTree::Neg(a) | MapTree::Abs(a) => in_map(a, wanted),
        MapTree::Binary(_, a, b) => {
            in_map(a, wanted);
            in_map(b, wanted);
        }
    }
}

fn largest_param(tree: &ScalarTree) -> Option<usize> {
    match tree {
        ScalarTree::Param(param) => Some(*param),
        ScalarTree::Number(_) | ScalarTree::Node(_) | ScalarTree::Tolerance => None,
        ScalarTree::Neg(a) => largest_param(a),
        ScalarTree::Binary(_, a, b) => largest_param(a).max(largest_param(b)),
        ScalarTree::Call(_, args) => args.iter().filter_map(largest_param).max(),
        ScalarTree::Truth(c) => condition_param(c),
        ScalarTree::Select(c, a, b) => condition_param(c).max(largest_param(a)).max(largest_param(b)),
    }
}

fn condition_param(condition: &CondTree) -> Option<usize> {
    match condition {
        CondTree::Compare(_, a, b) => largest_param(a).max(largest_param(b)),
        CondTree::And(a, b) | CondTree::Or(a, b) => condition_param(a).max(condition_param(b)),
        CondTree::Not(a) => condition_param(a),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cases::Case;
    use kernelwright_syntax::program::Preconditioner;

    #[test]
    fn traced_solvers_are_well_formed() {
        let names = ["richardson", "steepest_descent", "cg", "pcg", "pcg_flexible", "conjugate_residual", "minres"];
        for name in names.into_iter().chain(["chebyshev", "bicgstab"]) {
            for preconditioner in [Preconditioner::Identity, Preconditioner::Jacobi, Preconditioner::Line(1)] {
                let graph = Case::library(name, preconditioner).graph();
                assert_eq!(verify(&graph), Ok(()), "{name}\n{}", graph.text());
            }
        }
        let inner = Case::library("pcg_flexible", Preconditioner::Identity).inner("cg", 3, Preconditioner::Identity);
        assert_eq!(verify(&inner.graph()), Ok(()));
    }

    #[test]
    fn what_is_broken_is_named() {
        let good = Case::library("pcg", Preconditioner::Jacobi).graph();
        type Breakage = (&'static str, fn(&mut Graph));
        let broken: [Breakage; 6] = [
            ("is defined twice", |g| {
                let first = g.start.steps[0].clone();
                g.start.steps.push(first);
            }),
            ("where it is not defined", |g| g.start.steps.reverse()),
            ("which is a Scalar", |g| {
                let scalar = (0..g.nodes.len()).map(NodeId).find(|n| matches!(g.kind(*n), NodeKind::Reduce(..)));
                g.solution = scalar.expect("pcg has dot products");
            }),
            ("does not exist", |g| g.true_residual = Some(NodeId(1000))),
            ("nothing is known of", |g| g.requires.clear()),
            ("no variable of a loop", |g| {
                let Some(Step::Loop(l)) = g.body.steps.iter_mut().find(|s| matches!(s, Step::Loop(_))) else { return };
                l.phis[0].node = l.phis[0].initial;
            }),
        ];
        for (expected, damage) in broken {
            let mut graph = good.clone();
            damage(&mut graph);
            let errors = verify(&graph).expect_err(expected);
            assert!(errors.iter().any(|error| error.contains(expected)), "{expected}: {errors:?}");
        }
    }
}
