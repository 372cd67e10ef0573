//! What an operator adds to the right-hand side: boundary values, and terms of rows and fluxes that read no unknown.

use crate::math::{BinaryOp, Expr, Operator, Rule, Table, TableExpr};
use crate::math_eval::reads_unknown;

/// Whether the operator has boundary values, or terms without unknown, that are not zero for certain.
pub(crate) fn has_affine_part(operator: &Operator) -> bool {
    let fluxes = operator.fluxes.iter().map(|flux| &flux.value);
    if operator.rows.iter().map(|row| &row.value).chain(fluxes).any(has_source) {
        return true;
    }
    operator.boundary.iter().flatten().any(|rule| match rule {
        Rule::Dirichlet(table) => operator.tables[*table].value != TableExpr::Number(0.0),
        Rule::NoFlux | Rule::Periodic => false,
    })
}

/// Whether an affine expression has a term without unknown. (Fluxes in it are looked at by themselves.)
fn has_source(e: &Expr) -> bool {
    match e {
        _ if !reads_unknown(e) => *e != Expr::Number(0.0),
        Expr::Neg(a) => has_source(a),
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) | Expr::Select(_, a, b) => has_source(a) || has_source(b),
        Expr::Binary(_, a, b) => has_source(if reads_unknown(a) { a } else { b }),
        _ => false,
    }
}

/// The operator without its affine part: boundary values and terms without unknown are zero.
pub(crate) fn homogeneous(operator: &Operator) -> Operator {
    let mut out = operator.clone();
    for value in out.rows.iter_mut().map(|row| &mut row.value).chain(out.fluxes.iter_mut().map(|flux| &mut flux.value))
    {
        if has_source(value) {
            *value = without_source(value);
        }
    }
    let given = out.boundary.iter().flatten().any(|rule| matches!(rule, Rule::Dirichlet(_)));
    if !given {
        return out;
    }
    let mut name = "zero".to_string();
    while out.tables.iter().any(|table| table.name == name) {
        name.push('_');
    }
    let value = TableExpr::Number(0.0);
    out.tables.push(Table { name, axes: Vec::new(), below: [0; 3], above: [0; 3], value, text: "0".into() });
    let zero = out.tables.len() - 1;
    for rule in out.boundary.iter_mut().flatten() {
        if let Rule::Dirichlet(table) = rule {
            *table = zero;
        }
    }
    out
}

/// The terms of an affine expression that read an unknown. Sums lose the other ones; a factor stays where it is.
fn without_source(e: &Expr) -> Expr {
    let zero = Expr::Number(0.0);
    match e {
        _ if !reads_unknown(e) => zero,
        Expr::Neg(a) => Expr::Neg(Box::new(without_source(a))),
        Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => match (without_source(a), without_source(b)) {
            (a, b) if b == zero => a,
            (a, b) if a == zero && *op == BinaryOp::Add => b,
            (a, b) if a == zero => Expr::Neg(Box::new(b)),
            (a, b) => Expr::Binary(*op, Box::new(a), Box::new(b)),
        },
        Expr::Binary(op, a, b) if reads_unknown(a) => Expr::Binary(*op, Box::new(without_source(a)), b.clone()),
        Expr::Binary(op, a, b) => Expr::Binary(*op, a.clone(), Box::new(without_source(b))),
        Expr::Select(c, a, b) => Expr::Select(c.clone(), Box::new(without_source(a)), Box::new(without_source(b))),
        _ => e.clone(),
    }
}
