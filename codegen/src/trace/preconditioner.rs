//! `inv(M)*v`: identity, diagonal, lines, or an inner solver followed in place.

use kernelwright_syntax::program::{Preconditioner, Solver};

use super::expr::Term;
use super::{Instance, TraceError, Tracer};
use crate::graph::NodeKind;

/// Deepest nesting of inner solvers.
const MAX_NESTING: usize = 8;

impl<'a> Tracer<'a> {
    pub(super) fn inverse(&mut self, operator: usize, v: Term) -> Result<Term, TraceError> {
        if operator == 0 {
            return self.error("`inv` is for the preconditioner; the system itself is what the solver solves");
        }
        if v == Term::Zero {
            return Ok(Term::Zero);
        }
        match self.instance().preconditioner {
            Preconditioner::Identity => Ok(v),
            Preconditioner::Jacobi => {
                let v = self.vector_node(v, "operand");
                Ok(Term::Tree(crate::graph::MapTree::Value(self.node(NodeKind::Diagonal(v), "scaled"))))
            }
            Preconditioner::Line(_) if self.input.operator.space.rows().is_some() => {
                self.error("the rows of a matrix have no lines: choose `jacobi` or another preconditioner")
            }
            Preconditioner::Line(axis) => {
                let v = self.vector_node(v, "operand");
                Ok(Term::Tree(crate::graph::MapTree::Value(self.node(NodeKind::Solve(*axis, v), "solved"))))
            }
            Preconditioner::Inner { solver, params, iterations, preconditioner } => {
                self.inner(&self.input.solvers[*solver], params, *iterations, preconditioner, v)
            }
        }
    }

    /// Follows an inner solver on A z = v from z = 0: its unbounded loop runs a fixed number of times, its
    /// convergence tests are dropped, its requirements are kept.
    fn inner(
        &mut self,
        solver: &'a Solver,
        params: &'a [f64],
        iterations: u32,
        preconditioner: &'a Preconditioner,
        v: Term,
    ) -> Result<Term, TraceError> {
        if self.instances.len() > MAX_NESTING {
            return self.error("inner solvers are nested too deeply");
        }
        let prefix = format!("{}inner_", self.instance().prefix);
        let rhs = self.vector_node(v, &format!("{prefix}f"));
        let zero = self.vector_node(Term::Zero, &format!("{prefix}u"));
        let mut env = vec![None; solver.variables.len() + 1];
        env[Solver::SOLUTION.0] = Some(zero);
        env[Solver::RHS.0] = Some(rhs);
        let outer = (self.text.clone(), self.span);
        let rounds = Some(iterations);
        self.instances.push(Instance { solver, preconditioner, params: Some(params), rounds, env, prefix });
        self.start_counter();
        let followed = self.statements(&solver.body);
        let result = self.instance().env[Solver::SOLUTION.0].expect("the solution always has a value");
        self.instances.pop();
        (self.text, self.span) = outer;
        followed?;
        Ok(Term::Tree(crate::graph::MapTree::Value(result)))
    }
}
