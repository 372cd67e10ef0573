//! Expressions of numbers alone: defaults, sizes, tolerances, counts.

use crate::ast;
use crate::check::expression::{Place, Scope};
use crate::check::names::Names;
use crate::check::operator::blank;
use crate::constant::{Values, evaluate};
use crate::diagnostic::Diagnostic;

/// The value of an expression of literals, `pi` and functions; none if it is anything else or not finite.
pub fn number(expr: &ast::Expr, errors: &mut Vec<Diagnostic>) -> Option<f64> {
    let (operator, names) = (blank("", "", expr.span), Names::default());
    let place = Place { what: "a number", half: None, unknowns: false, fluxes: false, data: false };
    let mut found = Vec::new();
    let typed = Scope { operator: &operator, names: &names, lets: &[], place, errors: &mut found }.value(expr);
    for error in found {
        let help = (error.code == "unknown-name" && error.help.is_none())
            .then(|| "only numbers, `pi` and functions of them may stand here".to_string());
        errors.push(error.help_if(help));
    }
    let value = evaluate(&typed?.expr, &Values::default())?;
    if value.is_finite() {
        return Some(value);
    }
    errors.push(Diagnostic::new("bad-number", expr.span, "the value is not finite").label(format!("this is {value}")));
    None
}

/// A whole number in a range; `what` names it in messages.
pub fn whole(
    expr: &ast::Expr,
    what: &str,
    range: std::ops::RangeInclusive<u64>,
    errors: &mut Vec<Diagnostic>,
) -> Option<u64> {
    let value = number(expr, errors)?;
    let label = if value.fract() != 0.0 {
        format!("{value} is not a whole number")
    } else if value < *range.start() as f64 {
        format!("less than {}", range.start())
    } else if value > *range.end() as f64 {
        format!("more than {}", range.end())
    } else {
        return Some(value as u64);
    };
    let message = format!("{what} must be a whole number from {} to {}", range.start(), range.end());
    errors.push(Diagnostic::new("bad-number", expr.span, message).label(label));
    None
}
