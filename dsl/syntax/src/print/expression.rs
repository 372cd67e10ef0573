//! Expressions with the fewest brackets.

use crate::ast::{Argument, Expr, ExprKind, Unary};
use crate::print::positions;

/// Level of a sign; infix operators are below it.
const SIGN: u8 = 6;

/// The expression on one line.
pub fn expression(expr: &Expr) -> String {
    let mut out = String::new();
    push(&mut out, expr, 0);
    out
}

/// Appends `expr`, in brackets if it binds less tightly than `level`.
fn push(out: &mut String, expr: &Expr, level: u8) {
    let brackets = binds(expr) < level;
    if brackets {
        out.push('(');
    }
    bare(out, expr);
    if brackets {
        out.push(')');
    }
}

fn binds(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Binary(operator, ..) => operator.level(),
        ExprKind::Unary(..) => SIGN,
        ExprKind::If(..) => 0,
        _ => u8::MAX,
    }
}

fn bare(out: &mut String, expr: &Expr) {
    match &expr.kind {
        ExprKind::Number(text, _) | ExprKind::Name(text) => out.push_str(text),
        ExprKind::Text(text) => out.push_str(&format!("{text:?}")),
        ExprKind::At(name, at) => out.push_str(&format!("{}{}", name.text, positions(at))),
        ExprKind::Call(name, arguments) => {
            out.push_str(&name.text);
            out.push('(');
            for (position, argument) in arguments.iter().enumerate() {
                separate(out, position);
                push_argument(out, argument);
            }
            out.push(')');
        }
        ExprKind::Tuple(parts) => listed(out, parts, '(', ')'),
        ExprKind::List(parts) => listed(out, parts, '[', ']'),
        ExprKind::Unary(operator, inner) => {
            out.push(if *operator == Unary::Neg { '-' } else { '!' });
            push(out, inner, SIGN);
        }
        ExprKind::Binary(operator, left, right) => {
            push(out, left, operator.level() + u8::from(operator.level() == 3));
            match operator.level() {
                5 => out.push_str(operator.symbol()),
                _ => out.push_str(&format!(" {} ", operator.symbol())),
            }
            push(out, right, operator.level() + 1);
        }
        ExprKind::If(condition, then, other) => {
            out.push_str("if ");
            push(out, condition, 0);
            out.push_str(" { ");
            push(out, then, 0);
            out.push_str(" } else ");
            push_else(out, other);
        }
    }
}

fn push_else(out: &mut String, other: &Expr) {
    if matches!(other.kind, ExprKind::If(..)) {
        return push(out, other, 0);
    }
    out.push_str("{ ");
    push(out, other, 0);
    out.push_str(" }");
}

fn push_argument(out: &mut String, argument: &Argument) {
    if let Some(name) = &argument.name {
        out.push_str(&format!("{} = ", name.text));
    }
    push(out, &argument.value, 0);
}

fn listed(out: &mut String, parts: &[Expr], open: char, close: char) {
    out.push(open);
    for (position, part) in parts.iter().enumerate() {
        separate(out, position);
        push(out, part, 0);
    }
    out.push(close);
}

fn separate(out: &mut String, position: usize) {
    if position > 0 {
        out.push_str(", ");
    }
}
