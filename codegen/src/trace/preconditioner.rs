//! `inv(M)*v`: identity, diagonal, lines, products with companions, or an inner solver followed in place.

use kernelwright_syntax::program::{BinaryOp, Preconditioner, Solver};

use super::expr::Term;
use super::{Instance, Scope, ScopeKind, TraceError, Tracer};
use crate::format::Derived;
use crate::graph::{Loop, MapTree, NodeId, NodeKind, Phi, ScalarTree, Step, Type};

/// Deepest nesting of inner solvers.
const MAX_NESTING: usize = 8;
/// Most products of a sweep over colours that are written one after another: a loop around them is not placed, and
/// copies what it carries.
const WRITTEN_OUT: u32 = 2;

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
                Ok(Term::Tree(MapTree::Value(self.node(NodeKind::Diagonal(v), "scaled"))))
            }
            Preconditioner::Line(_) if self.input.operator.space.rows().is_some() => {
                self.unfit("the rows of a matrix have no lines", "choose `jacobi` or another preconditioner")
            }
            Preconditioner::Line(axis) => {
                let v = self.vector_node(v, "operand");
                Ok(Term::Tree(MapTree::Value(self.node(NodeKind::Solve(*axis, v), "solved"))))
            }
            Preconditioner::BlockJacobi(size) => {
                let number = self.companion("block_jacobi", |of| *of == Derived::BlockInverse(*size))?.0;
                let operand = self.vector_node(v, "operand");
                let kind = NodeKind::Companion { number, step: None, operand };
                Ok(Term::Tree(MapTree::Value(self.node(kind, "solved"))))
            }
            Preconditioner::Ssor(relaxation) => self.ssor(*relaxation, v),
            Preconditioner::Inner { solver, params, iterations, preconditioner } => {
                self.inner(&self.input.solvers[*solver], params, *iterations, preconditioner, v)
            }
        }
    }

    /// The number of a companion, and what it is.
    pub(super) fn companion(
        &self,
        name: &str,
        wanted: impl Fn(&Derived) -> bool,
    ) -> Result<(usize, Derived), TraceError> {
        let Some(rows) = self.input.operator.space.rows() else {
            return self
                .unfit(format!("`{name}` is for matrices"), "choose `jacobi`, `line` or another preconditioner");
        };
        let mut found = rows.companions.iter().enumerate().map(|(number, companion)| (number, companion.of));
        match found.find(|(_, of)| wanted(of)) {
            Some(found) => Ok(found),
            None => self.error(format!("the matrix was stored without what `{name}` multiplies with")),
        }
    }

    /// Symmetric over-relaxation; see [`format::companion`](crate::format::companion).
    fn ssor(&mut self, relaxation: f64, v: Term) -> Result<Term, TraceError> {
        let v = self.vector_node(v, "operand");
        let scaled = self.node(NodeKind::Diagonal(v), "scaled");
        let factor = MapTree::Number(relaxation * (2.0 - relaxation));
        let tree = MapTree::Binary(BinaryOp::Mul, Box::new(factor), Box::new(MapTree::Value(scaled)));
        let mut swept = self.node(NodeKind::Map(tree), "swept");
        for back in [false, true] {
            let wanted = |of: &Derived| matches!(*of, Derived::Sweep { relaxation: w, backward, .. } if w == relaxation && backward == back);
            let (number, of) = self.companion("ssor", wanted)?;
            if of.products() > 0 {
                swept = self.colours(number, of.products(), swept);
            }
        }
        Ok(Term::Tree(MapTree::Value(swept)))
    }

    /// t <- t - E t at the rows of one colour after another.
    fn colours(&mut self, number: usize, steps: u32, initial: NodeId) -> NodeId {
        if steps <= WRITTEN_OUT {
            return (1..=steps).fold(initial, |t, step| {
                let step = self.node(NodeKind::Scalar(ScalarTree::Number(f64::from(step))), "colour");
                self.less(number, step, t)
            });
        }
        let one = || ScalarTree::Number(1.0);
        let first = self.node(NodeKind::Scalar(one()), "colour");
        self.scopes.push(Scope::new(ScopeKind::Loop));
        let depth = self.scopes.len() - 1;
        let t = self.place(NodeKind::Phi(Type::Vector), "swept", depth, true);
        let step = self.place(NodeKind::Phi(Type::Scalar), "colour", depth, true);
        let next = self.less(number, step, t);
        let later = ScalarTree::Binary(BinaryOp::Add, Box::new(ScalarTree::Node(step)), Box::new(one()));
        let later = self.node(NodeKind::Scalar(later), "colour");
        let body = self.pop_scope();
        let result = self.place(NodeKind::Result(Type::Vector), "swept", depth - 1, true);
        let passed = self.place(NodeKind::Result(Type::Scalar), "colour", depth - 1, true);
        let phis = vec![
            Phi { node: t, initial, next, result },
            Phi { node: step, initial: first, next: later, result: passed },
        ];
        self.scopes[depth - 1].steps.push(Step::Loop(Loop { times: Some(steps), phis, body }));
        result
    }

    /// t - E t at the rows of a colour.
    fn less(&mut self, number: usize, step: NodeId, t: NodeId) -> NodeId {
        let product = self.node(NodeKind::Companion { number, step: Some(step), operand: t }, "less");
        let [from, less] = [t, product].map(|node| Box::new(MapTree::Value(node)));
        self.node(NodeKind::Map(MapTree::Binary(BinaryOp::Sub, from, less)), "swept")
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
            return self.unfit("inner solvers are nested too deeply", "use fewer");
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
        Ok(Term::Tree(MapTree::Value(result)))
    }
}
