//! Statements of an operator.

use crate::ast::{Clause, Expr, ExprKind, Name, Side};
use crate::diagnostic::Diagnostic;
use crate::parse::cursor::{Cursor, Parse};
use crate::parse::expression::{expression, position};
use crate::token::Token;

/// Keywords a statement begins with.
const KEYWORDS: [&str; 10] =
    ["grid", "param", "data", "let", "flux", "mask", "apply", "boundary", "nullspace", "claim"];

/// One statement.
pub fn clause(cursor: &mut Cursor<'_>) -> Parse<Clause> {
    let what = "a statement of an operator (`let`, `flux`, `apply`, …)";
    let Token::Word(keyword) = cursor.peek() else { return cursor.expected(what) };
    if !KEYWORDS.contains(&keyword.as_str()) {
        return cursor.expected_word(what, &KEYWORDS);
    }
    cursor.advance();
    let clause = match keyword.as_str() {
        "grid" => grid(cursor)?,
        "param" => Clause::Param(params(cursor)?),
        "data" => data(cursor)?,
        "let" => definition(cursor)?,
        "flux" => flux(cursor)?,
        "mask" => Clause::Mask(expression(cursor)?),
        "apply" => apply(cursor)?,
        "boundary" => boundary(cursor)?,
        "nullspace" => Clause::Nullspace(cursor.name("`constant` or `none`")?),
        _ => Clause::Claim(names(cursor, "a property such as `symmetric`")?),
    };
    cursor.semicolon()?;
    Ok(clause)
}

/// `cells [i: nx, j: ny]`
fn grid(cursor: &mut Cursor<'_>) -> Parse<Clause> {
    let centring = cursor.name("`cells` or `nodes`")?;
    let close = cursor.open('[')?;
    let axes = cursor.list(close, |cursor| {
        let letter = cursor.name("a letter such as `i`")?;
        cursor.symbol(":")?;
        Ok((letter, cursor.name("the name of a size such as `nx`")?))
    })?;
    Ok(Clause::Grid(centring, axes))
}

/// `omega, lambda = 0.1`
pub fn params(cursor: &mut Cursor<'_>) -> Parse<Vec<(Name, Option<Expr>)>> {
    let mut params = Vec::new();
    loop {
        let name = cursor.name("the name of a parameter")?;
        let default = if cursor.take_symbol("=") { Some(expression(cursor)?) } else { None };
        params.push((name, default));
        if !cursor.take_symbol(",") {
            return Ok(params);
        }
    }
}

/// `kappa[i, j] outside mirror`
fn data(cursor: &mut Cursor<'_>) -> Parse<Clause> {
    let name = cursor.name("the name of an array")?;
    let close = cursor.open('[')?;
    let positions = cursor.list(close, position)?;
    let outside = match cursor.take_word("outside") {
        true => Some(cursor.name("`mirror`, `clamp`, `periodic` or `zero`")?),
        false => None,
    };
    Ok(Clause::Data(name, positions, outside))
}

/// `x = …` or `rf[k+1/2] = …`
fn definition(cursor: &mut Cursor<'_>) -> Parse<Clause> {
    let name = cursor.name("the name of a value")?;
    let positions = match cursor.peek() {
        Token::Open('[', close) => {
            cursor.advance();
            Some(cursor.list(*close, position)?)
        }
        _ => None,
    };
    cursor.symbol("=")?;
    Ok(Clause::Let(name, positions, expression(cursor)?))
}

/// `X[i+1/2] = …`
fn flux(cursor: &mut Cursor<'_>) -> Parse<Clause> {
    let name = cursor.name("the name of a flux")?;
    let close = cursor.open('[')?;
    let positions = cursor.list(close, position)?;
    cursor.symbol("=")?;
    Ok(Clause::Flux(name, positions, expression(cursor)?))
}

/// `u => …` or `(u, v) => (…, …)`
fn apply(cursor: &mut Cursor<'_>) -> Parse<Clause> {
    let unknowns = match cursor.peek() {
        Token::Open('(', close) => {
            cursor.advance();
            cursor.list(*close, |cursor| cursor.name("the name of an unknown"))?
        }
        _ => vec![cursor.name("the name of the unknown")?],
    };
    if unknowns.is_empty() {
        let error = Diagnostic::new("syntax", cursor.last_span(), "`apply` names at least one unknown");
        return cursor.fail(error);
    }
    cursor.symbol("=>")?;
    let value = expression(cursor)?;
    let rows = match value.kind {
        ExprKind::Tuple(parts) => parts,
        _ => vec![value],
    };
    Ok(Clause::Apply(unknowns, rows))
}

/// `i, low(j): dirichlet(0)`
fn boundary(cursor: &mut Cursor<'_>) -> Parse<Clause> {
    let mut sides = Vec::new();
    loop {
        sides.push(side(cursor)?);
        if !cursor.take_symbol(",") {
            break;
        }
    }
    cursor.symbol(":")?;
    let rule = cursor.name("`no_flux`, `dirichlet(…)` or `periodic`")?;
    let value = match cursor.at_open('(') {
        true => {
            let close = cursor.open('(')?;
            let value = expression(cursor)?;
            cursor.close(close, "`)` or an operator")?;
            Some(value)
        }
        false => None,
    };
    Ok(Clause::Boundary(sides, rule, value))
}

fn side(cursor: &mut Cursor<'_>) -> Parse<Side> {
    let name = cursor.name("a letter, `low(…)` or `high(…)`")?;
    if !cursor.at_open('(') {
        return Ok(Side { end: None, letter: name });
    }
    let close = cursor.open('(')?;
    let letter = cursor.name("a letter of the grid")?;
    cursor.close(close, "`)`")?;
    Ok(Side { end: Some(name), letter })
}

/// `a, b, c`
fn names(cursor: &mut Cursor<'_>, what: &str) -> Parse<Vec<Name>> {
    let mut names = vec![cursor.name(what)?];
    while cursor.take_symbol(",") {
        names.push(cursor.name(what)?);
    }
    Ok(names)
}
