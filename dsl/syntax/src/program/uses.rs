//! What the statements of a solver contain.

use super::{Scalar, ScalarCondition, Solver, Statement, StatementKind, Vector};

impl Solver {
    /// Whether it multiplies with the transpose of an operator.
    pub fn transposes(&self) -> bool {
        self.body.iter().any(in_statement)
    }
}

fn in_statement(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::AssignVector(_, v) | StatementKind::Residual(_, v) => in_vector(v),
        StatementKind::AssignScalar(_, s) => in_scalar(s),
        StatementKind::Converge { measure, bound } => in_scalar(measure) || in_scalar(bound),
        StatementKind::Check => false,
        StatementKind::Require(c, _) => in_condition(c),
        StatementKind::If(c, then, otherwise) => in_condition(c) || then.iter().chain(otherwise).any(in_statement),
        StatementKind::Every(_, body) | StatementKind::Repeat(_, body) => body.iter().any(in_statement),
    }
}

fn in_vector(vector: &Vector) -> bool {
    match vector {
        Vector::Var(_) | Vector::Zero | Vector::Random(_) => false,
        Vector::ApplyTranspose(..) => true,
        Vector::Apply(_, v) | Vector::Solve(_, v) | Vector::Neg(v) => in_vector(v),
        Vector::Scale(s, v) => in_scalar(s) || in_vector(v),
        Vector::Add(v, w) | Vector::Sub(v, w) => in_vector(v) || in_vector(w),
    }
}

fn in_scalar(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Number(_) | Scalar::Var(_) | Scalar::Param(_) | Scalar::Tolerance | Scalar::Iteration => false,
        Scalar::Dot(v, w) => in_vector(v) || in_vector(w),
        Scalar::Norm(v) | Scalar::NormMax(v) => in_vector(v),
        Scalar::Neg(a) => in_scalar(a),
        Scalar::Binary(_, a, b) => in_scalar(a) || in_scalar(b),
        Scalar::Call(_, args) => args.iter().any(in_scalar),
    }
}

fn in_condition(condition: &ScalarCondition) -> bool {
    match condition {
        ScalarCondition::Compare(_, a, b) => in_scalar(a) || in_scalar(b),
        ScalarCondition::And(a, b) | ScalarCondition::Or(a, b) => in_condition(a) || in_condition(b),
        ScalarCondition::Not(a) => in_condition(a),
    }
}
