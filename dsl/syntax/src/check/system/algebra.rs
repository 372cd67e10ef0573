//! Formulas put together: zeros and ones fold away, derivatives and linear terms are taken apart.

use crate::program::BinaryOp;
use crate::program::system::{Formula, Term, Test};

/// The number zero.
pub fn zero() -> Formula {
    Formula::Number(0.0)
}

/// Whether it is the literal zero.
pub fn is_zero(formula: &Formula) -> bool {
    matches!(formula, Formula::Number(value) if *value == 0.0)
}

fn is_one(formula: &Formula) -> bool {
    matches!(formula, Formula::Number(value) if *value == 1.0)
}

/// `-a`
pub fn negative(a: Formula) -> Formula {
    match a {
        Formula::Number(value) => Formula::Number(if value == 0.0 { 0.0 } else { -value }),
        Formula::Neg(inner) => *inner,
        a => Formula::Neg(Box::new(a)),
    }
}

/// `a + b`
pub fn plus(a: Formula, b: Formula) -> Formula {
    match (a, b) {
        (a, b) if is_zero(&b) => a,
        (a, b) if is_zero(&a) => b,
        (a, Formula::Neg(b)) => Formula::Binary(BinaryOp::Sub, Box::new(a), b),
        (a, b) => Formula::Binary(BinaryOp::Add, Box::new(a), Box::new(b)),
    }
}

/// `a - b`
pub fn minus(a: Formula, b: Formula) -> Formula {
    match (a, b) {
        (a, b) if is_zero(&b) => a,
        (a, b) if is_zero(&a) => negative(b),
        (a, Formula::Neg(b)) => Formula::Binary(BinaryOp::Add, Box::new(a), b),
        (a, b) => Formula::Binary(BinaryOp::Sub, Box::new(a), Box::new(b)),
    }
}

/// `a * b`
pub fn times(a: Formula, b: Formula) -> Formula {
    match (a, b) {
        (a, b) if is_zero(&a) || is_zero(&b) => zero(),
        (a, b) if is_one(&a) => b,
        (a, b) if is_one(&b) => a,
        (Formula::Neg(a), Formula::Neg(b)) => times(*a, *b),
        (Formula::Neg(a), b) => negative(times(*a, b)),
        (a, Formula::Neg(b)) => negative(times(a, *b)),
        (a, b) => Formula::Binary(BinaryOp::Mul, Box::new(a), Box::new(b)),
    }
}

/// `a / b`
pub fn over(a: Formula, b: Formula) -> Formula {
    match (a, b) {
        (a, b) if is_one(&b) => a,
        (a, b) if is_zero(&a) && !is_zero(&b) => a,
        (Formula::Neg(a), b) => negative(over(*a, b)),
        (a, b) => Formula::Binary(BinaryOp::Div, Box::new(a), Box::new(b)),
    }
}

/// `if test { a } else { b }`
pub fn select(test: Test, a: Formula, b: Formula) -> Formula {
    if a == b { a } else { Formula::Select(Box::new(test), Box::new(a), Box::new(b)) }
}

/// `a . b`
pub fn dot(a: &[Formula], b: &[Formula]) -> Formula {
    a.iter().zip(b).fold(zero(), |sum, (a, b)| plus(sum, times(a.clone(), b.clone())))
}

/// `a x b`
pub fn cross(a: &[Formula], b: &[Formula]) -> Vec<Formula> {
    let part = |i: usize| {
        let (j, k) = ((i + 1) % 3, (i + 2) % 3);
        minus(times(a[j].clone(), b[k].clone()), times(a[k].clone(), b[j].clone()))
    };
    (0..3).map(part).collect()
}

/// Whether it reads a field, or a derivative of one.
pub fn reads_field(formula: &Formula) -> bool {
    formula.any(&|f| matches!(f, Formula::Component(..) | Formula::Derivative(..)))
}

/// Why a derivative cannot be taken.
pub enum NoDerivative {
    /// It holds a derivative already.
    Second,
    /// It reads coordinates: materials vary from element to element, not within.
    Varies,
}

/// The derivative along an axis of what is linear in the fields.
pub fn derivative(formula: &Formula, axis: usize) -> Result<Formula, NoDerivative> {
    if !reads_field(formula) {
        let varies = formula.any(&|f| matches!(f, Formula::Position(_)));
        return if varies { Err(NoDerivative::Varies) } else { Ok(zero()) };
    }
    Ok(match formula {
        Formula::Component(_, component) => Formula::Derivative(axis, *component),
        Formula::Neg(inner) => negative(derivative(inner, axis)?),
        Formula::Binary(BinaryOp::Add, a, b) => plus(derivative(a, axis)?, derivative(b, axis)?),
        Formula::Binary(BinaryOp::Sub, a, b) => minus(derivative(a, axis)?, derivative(b, axis)?),
        Formula::Binary(BinaryOp::Mul, a, b) if reads_field(b) => times(constant(a)?, derivative(b, axis)?),
        Formula::Binary(BinaryOp::Mul, a, b) => times(constant(b)?, derivative(a, axis)?),
        Formula::Binary(BinaryOp::Div, a, b) => over(derivative(a, axis)?, constant(b)?),
        Formula::Select(test, a, b) if !test.any(&varies) => {
            select((**test).clone(), derivative(a, axis)?, derivative(b, axis)?)
        }
        Formula::Select(..) => return Err(NoDerivative::Varies),
        _ => return Err(NoDerivative::Second),
    })
}

fn varies(formula: &Formula) -> bool {
    matches!(formula, Formula::Position(_))
}

fn constant(formula: &Formula) -> Result<Formula, NoDerivative> {
    if formula.any(&varies) { Err(NoDerivative::Varies) } else { Ok(formula.clone()) }
}

/// Takes an affine formula apart: terms with their coefficients, and what is left.
pub fn terms(formula: &Formula, coefficient: &Formula, into: &mut Vec<Term>, rest: &mut Formula) {
    let atom = match formula {
        Formula::Component(_, component) => Some((*component, None)),
        Formula::Derivative(axis, component) => Some((*component, Some(*axis))),
        _ => None,
    };
    if let Some((component, axis)) = atom {
        match into.iter_mut().find(|term| term.component == component && term.axis == axis) {
            Some(term) => term.coefficient = plus(term.coefficient.clone(), coefficient.clone()),
            None => into.push(Term { coefficient: coefficient.clone(), component, axis }),
        }
        return;
    }
    if !reads_field(formula) {
        *rest = plus(rest.clone(), times(coefficient.clone(), formula.clone()));
        return;
    }
    match formula {
        Formula::Neg(inner) => terms(inner, &negative(coefficient.clone()), into, rest),
        Formula::Binary(BinaryOp::Add, a, b) => {
            terms(a, coefficient, into, rest);
            terms(b, coefficient, into, rest);
        }
        Formula::Binary(BinaryOp::Sub, a, b) => {
            terms(a, coefficient, into, rest);
            terms(b, &negative(coefficient.clone()), into, rest);
        }
        Formula::Binary(BinaryOp::Mul, a, b) if reads_field(b) => {
            terms(b, &times(coefficient.clone(), (**a).clone()), into, rest);
        }
        Formula::Binary(BinaryOp::Mul, a, b) => terms(a, &times(coefficient.clone(), (**b).clone()), into, rest),
        Formula::Binary(BinaryOp::Div, a, b) => terms(a, &over(coefficient.clone(), (**b).clone()), into, rest),
        Formula::Select(test, a, b) => {
            let test = || (**test).clone();
            terms(a, &select(test(), coefficient.clone(), zero()), into, rest);
            terms(b, &select(test(), zero(), coefficient.clone()), into, rest);
        }
        // A call of something that reads a field is not linear and was refused.
        _ => {}
    }
}
