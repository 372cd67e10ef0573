//! Vector and scalar expressions of a solver.

use kernelwright_syntax::program::{BinaryOp, Fact, Function, Scalar, ScalarCondition, VarId, Vector};

use super::{TraceError, Tracer};
use crate::format::Derived;
use crate::graph::{CondTree, MapTree, NodeId, NodeKind, ReduceKind, ScalarTree};
use crate::math::Standing;

/// A vector expression being built: zero stays apart so that products with it vanish.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    /// The zero vector.
    Zero,
    /// Pointwise arithmetic on nodes; a lone value is the node itself.
    Tree(MapTree),
}

impl Term {
    fn node(id: NodeId) -> Term {
        Term::Tree(MapTree::Value(id))
    }
}

impl<'a> Tracer<'a> {
    pub(super) fn value(&self, var: VarId) -> Result<NodeId, TraceError> {
        match self.instance().env[var.0] {
            Some(node) => Ok(node),
            None => self.error(format!("`{}` has no value here on every way through the loop", self.var_name(var))),
        }
    }

    pub(super) fn vector(&mut self, vector: &Vector) -> Result<Term, TraceError> {
        Ok(match vector {
            Vector::Var(var) => {
                let node = self.value(*var)?;
                match &self.nodes[node.0].kind {
                    NodeKind::Map(MapTree::Number(x)) if *x == 0.0 => Term::Zero,
                    _ => Term::node(node),
                }
            }
            Vector::Zero => Term::Zero,
            Vector::Random(seed) => Term::node(self.random(*seed)),
            Vector::Apply(operator, v) => {
                let v = self.vector(v)?;
                self.apply(*operator, v)?
            }
            Vector::ApplyTranspose(operator, v) => {
                let v = self.vector(v)?;
                self.apply_transpose(*operator, v)?
            }
            Vector::Solve(operator, v) => {
                let v = self.vector(v)?;
                self.inverse(*operator, v)?
            }
            Vector::Scale(s, v) => {
                let factor = self.coefficient(s)?;
                match self.vector(v)? {
                    Term::Zero => Term::Zero,
                    Term::Tree(t) => Term::Tree(MapTree::Binary(BinaryOp::Mul, Box::new(factor), Box::new(t))),
                }
            }
            Vector::Neg(v) => negate(self.vector(v)?),
            Vector::Add(v, w) => match (self.vector(v)?, self.vector(w)?) {
                (Term::Zero, t) | (t, Term::Zero) => t,
                (Term::Tree(a), Term::Tree(b)) => Term::Tree(MapTree::Binary(BinaryOp::Add, Box::new(a), Box::new(b))),
            },
            Vector::Sub(v, w) => match (self.vector(v)?, self.vector(w)?) {
                (t, Term::Zero) => t,
                (Term::Zero, t) => negate(t),
                (Term::Tree(a), Term::Tree(b)) => Term::Tree(MapTree::Binary(BinaryOp::Sub, Box::new(a), Box::new(b))),
            },
        })
    }

    fn apply(&mut self, operator: usize, v: Term) -> Result<Term, TraceError> {
        if operator != 0 {
            return self.error("the preconditioner is used as `inv(M)*v` only");
        }
        if v == Term::Zero {
            return Ok(Term::Zero);
        }
        let v = self.vector_node(v, "operand");
        let name = format!("A_{}", self.nodes[v.0].name);
        Ok(Term::node(self.node(NodeKind::Apply(v), &name)))
    }

    /// `transpose(A)` is `A` where symmetry is proved, and a companion of a matrix otherwise.
    fn apply_transpose(&mut self, operator: usize, v: Term) -> Result<Term, TraceError> {
        let facts = &self.input.operator.facts;
        let symmetric = facts.iter().any(|f| f.fact == Fact::Symmetric && f.standing == Standing::Proved);
        if symmetric || v == Term::Zero {
            return self.apply(operator, v);
        }
        if self.input.operator.space.rows().is_none() {
            return self.no_transpose();
        }
        let number = self.companion("transpose", |of| *of == Derived::Transpose)?.0;
        let operand = self.vector_node(v, "operand");
        let name = format!("At_{}", self.nodes[operand.0].name);
        Ok(Term::node(self.node(NodeKind::Companion { number, step: None, operand }, &name)))
    }

    /// The operator of a grid has no transpose unless it is its own.
    fn no_transpose<T>(&self) -> Result<T, TraceError> {
        let facts = &self.input.operator.facts;
        let known = facts.iter().find(|f| f.fact == Fact::Symmetric);
        match known {
            Some(f) => self.error(format!(
                "`transpose` of `{}` is not available: the operator is not proved symmetric ({})",
                self.input.operator.name, f.why
            )),
            None => self.error(format!(
                "`transpose` of `{}` is not available: nothing is known of the operator's symmetry",
                self.input.operator.name
            )),
        }
    }

    fn random(&mut self, seed: u64) -> NodeId {
        let key = format!("random({seed})");
        if let Some(known) = self.scopes[0].known.get(&key) {
            return *known;
        }
        let id = self.place(NodeKind::Random(seed), &format!("random_{seed}"), 0, true);
        self.scopes[0].known.insert(key, id);
        id
    }

    /// The term as a node; arithmetic becomes a map with the given name.
    pub(super) fn vector_node(&mut self, term: Term, name: &str) -> NodeId {
        match term {
            Term::Zero => self.node(NodeKind::Map(MapTree::Number(0.0)), name),
            Term::Tree(MapTree::Value(node)) => node,
            Term::Tree(tree) => self.node(NodeKind::Map(tree), name),
        }
    }

    /// A scalar factor as it stands in a map: literals and signs stay, the rest is one scalar.
    fn coefficient(&mut self, s: &Scalar) -> Result<MapTree, TraceError> {
        let tree = self.scalar(s)?;
        Ok(self.coefficient_of(tree))
    }

    fn coefficient_of(&mut self, tree: ScalarTree) -> MapTree {
        match tree {
            ScalarTree::Number(x) => MapTree::Number(x),
            ScalarTree::Neg(a) => MapTree::Neg(Box::new(self.coefficient_of(*a))),
            other => MapTree::Scalar(self.scalar_node(other, "factor")),
        }
    }

    pub(super) fn scalar_node(&mut self, tree: ScalarTree, name: &str) -> NodeId {
        match tree {
            ScalarTree::Node(node) => node,
            other => self.node(NodeKind::Scalar(other), name),
        }
    }

    pub(super) fn scalar(&mut self, s: &Scalar) -> Result<ScalarTree, TraceError> {
        Ok(match s {
            Scalar::Number(x) => ScalarTree::Number(*x),
            Scalar::Var(var) => ScalarTree::Node(self.value(*var)?),
            Scalar::Param(p) => match self.instance().params {
                Some(values) => ScalarTree::Number(values[*p]),
                None => ScalarTree::Param(*p),
            },
            Scalar::Tolerance => ScalarTree::Tolerance,
            Scalar::Iteration => ScalarTree::Node(self.value(self.instance().counter())?),
            Scalar::Dot(v, w) => {
                let (v, w) = (self.vector(v)?, self.vector(w)?);
                self.dot(v, w)
            }
            Scalar::Norm(v) => {
                let v = self.vector(v)?;
                let squared = self.dot(v.clone(), v);
                ScalarTree::Call(Function::Sqrt, vec![squared])
            }
            Scalar::NormMax(v) => match self.vector(v)? {
                Term::Zero => ScalarTree::Number(0.0),
                term => {
                    let v = self.vector_node(term, "operand");
                    let name = format!("max_{}", self.nodes[v.0].name);
                    ScalarTree::Node(self.node(NodeKind::Reduce(ReduceKind::Max, v, v), &name))
                }
            },
            Scalar::Neg(a) => ScalarTree::Neg(Box::new(self.scalar(a)?)),
            Scalar::Binary(op, a, b) => ScalarTree::Binary(*op, Box::new(self.scalar(a)?), Box::new(self.scalar(b)?)),
            Scalar::Call(f, args) => {
                let args: Result<Vec<_>, _> = args.iter().map(|a| self.scalar(a)).collect();
                ScalarTree::Call(*f, args?)
            }
        })
    }

    fn dot(&mut self, v: Term, w: Term) -> ScalarTree {
        if v == Term::Zero || w == Term::Zero {
            return ScalarTree::Number(0.0);
        }
        let v = self.vector_node(v, "operand");
        let w = self.vector_node(w, "operand");
        let names = [v, w].map(|n| self.nodes[n.0].name.clone());
        let role = if v == w { format!("{}_squared", names[0]) } else { format!("{}_dot_{}", names[0], names[1]) };
        // A product does not depend on the order of its factors: one node for both orders.
        ScalarTree::Node(self.node(NodeKind::Reduce(ReduceKind::Dot, v.min(w), v.max(w)), &role))
    }

    pub(super) fn condition(&mut self, c: &ScalarCondition) -> Result<CondTree, TraceError> {
        Ok(match c {
            ScalarCondition::Compare(op, a, b) => CondTree::Compare(*op, self.scalar(a)?, self.scalar(b)?),
            ScalarCondition::And(a, b) => CondTree::And(Box::new(self.condition(a)?), Box::new(self.condition(b)?)),
            ScalarCondition::Or(a, b) => CondTree::Or(Box::new(self.condition(a)?), Box::new(self.condition(b)?)),
            ScalarCondition::Not(a) => CondTree::Not(Box::new(self.condition(a)?)),
        })
    }
}

fn negate(term: Term) -> Term {
    match term {
        Term::Zero => Term::Zero,
        Term::Tree(t) => Term::Tree(MapTree::Neg(Box::new(t))),
    }
}

pub(super) fn vector_reads_iteration(v: &Vector) -> bool {
    match v {
        Vector::Var(_) | Vector::Zero | Vector::Random(_) => false,
        Vector::Apply(_, v) | Vector::ApplyTranspose(_, v) | Vector::Solve(_, v) | Vector::Neg(v) => {
            vector_reads_iteration(v)
        }
        Vector::Scale(s, v) => scalar_reads_iteration(s) || vector_reads_iteration(v),
        Vector::Add(v, w) | Vector::Sub(v, w) => vector_reads_iteration(v) || vector_reads_iteration(w),
    }
}

pub(super) fn scalar_reads_iteration(s: &Scalar) -> bool {
    match s {
        Scalar::Iteration => true,
        Scalar::Number(_) | Scalar::Var(_) | Scalar::Param(_) | Scalar::Tolerance => false,
        Scalar::Dot(v, w) => vector_reads_iteration(v) || vector_reads_iteration(w),
        Scalar::Norm(v) | Scalar::NormMax(v) => vector_reads_iteration(v),
        Scalar::Neg(a) => scalar_reads_iteration(a),
        Scalar::Binary(_, a, b) => scalar_reads_iteration(a) || scalar_reads_iteration(b),
        Scalar::Call(_, args) => args.iter().any(scalar_reads_iteration),
    }
}

pub(super) fn condition_reads_iteration(c: &ScalarCondition) -> bool {
    match c {
        ScalarCondition::Compare(_, a, b) => scalar_reads_iteration(a) || scalar_reads_iteration(b),
        ScalarCondition::And(a, b) | ScalarCondition::Or(a, b) => {
            condition_reads_iteration(a) || condition_reads_iteration(b)
        }
        ScalarCondition::Not(a) => condition_reads_iteration(a),
    }
}
