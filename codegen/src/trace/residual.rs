//! The residual section: the declared residual and the test, followed again from the solution an exit left.

use std::collections::BTreeSet;

use kernelwright_syntax::program::{BinaryOp, Solver, Statement, StatementKind, VarId};

use super::{TraceError, Tracer, assigned, unit_roundoff};
use crate::graph::{MapTree, NodeId, NodeKind, ScalarTree};

impl<'a> Tracer<'a> {
    /// Follows the residual statement again with the solution as an exit left it, then what the test needs.
    pub(super) fn true_residual(
        &mut self,
        start: &'a [Statement],
        body: &'a [Statement],
    ) -> Result<Option<NodeId>, TraceError> {
        let (Some((var, value, text)), Some((measure, bound))) = (self.residual.clone(), self.test.clone()) else {
            return Ok(None);
        };
        let name = self.instance().solver.variables[Solver::SOLUTION.0].name.clone();
        let solution = self.place(NodeKind::Solution, &name, self.scopes.len() - 1, true);
        self.instance_mut().env[Solver::SOLUTION.0] = Some(solution);
        let changed = assigned(body);
        self.text = text;
        let term = self.vector(&value)?;
        let name = self.var_name(var);
        let node = self.vector_node(term, &name);
        self.bind(var, node);
        let follow = |tracer: &mut Self, r: NodeId| -> Result<(ScalarTree, ScalarTree), TraceError> {
            tracer.instance_mut().env[var.0] = Some(r);
            tracer.follow_test(start, &changed)?;
            Ok((tracer.scalar(&measure)?, tracer.scalar(&bound)?))
        };
        let (measure_tree, bound_tree) = follow(self, node)?;
        let magnitude = self.magnitude(solution);
        let (rounding, _) = follow(self, magnitude)?;
        let attainable = ScalarTree::Binary(
            BinaryOp::Mul,
            Box::new(ScalarTree::Number(unit_roundoff(self.input.precision))),
            Box::new(rounding),
        );
        self.act(NodeKind::Measure { measure: measure_tree, bound: bound_tree, attainable }, "measure");
        Ok(Some(node))
    }

    /// `|A| |u| + |f|`: the size of what cancels in the residual.
    fn magnitude(&mut self, solution: NodeId) -> NodeId {
        let rhs = self.instance().env[Solver::RHS.0].expect("the right-hand side always has a value");
        self.text = Some("size of what cancels in the residual".into());
        let product = self.node(NodeKind::Magnitude(solution), "magnitude");
        let tree = MapTree::Binary(
            BinaryOp::Add,
            Box::new(MapTree::Value(product)),
            Box::new(MapTree::Abs(Box::new(MapTree::Value(rhs)))),
        );
        self.node(NodeKind::Map(tree), "magnitude")
    }

    /// Repeats the assignments between `residual` and `converge` to variables that the loop changes.
    fn follow_test(&mut self, start: &'a [Statement], changed: &BTreeSet<VarId>) -> Result<(), TraceError> {
        let from = start.iter().position(|s| matches!(s.kind, StatementKind::Residual(..))).map_or(0, |p| p + 1);
        for statement in &start[from.min(start.len())..] {
            match &statement.kind {
                StatementKind::Converge { .. } => break,
                StatementKind::AssignVector(var, _) | StatementKind::AssignScalar(var, _)
                    if changed.contains(var) && *var != Solver::SOLUTION =>
                {
                    self.statement(statement)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
