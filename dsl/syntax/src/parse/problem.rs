//! Statements of a problem.

use crate::ast::{Expr, ExprKind, Name, Setting};
use crate::parse::cursor::{Cursor, Parse};
use crate::parse::expression::expression;
use crate::token::Token;

/// Keywords a statement begins with.
const KEYWORDS: [&str; 21] = [
    "operator",
    "data",
    "rhs",
    "guess",
    "solver",
    "preconditioner",
    "tolerance",
    "iterations",
    "precision",
    "system",
    "mesh",
    "flux",
    "step",
    "order",
    "material",
    "initial",
    "exact",
    "boundary",
    "until",
    "every",
    "probe",
];

/// `key value;`, `data name = value;`, `material name(region) = value;` or `boundary tags: condition;`
pub fn setting(cursor: &mut Cursor<'_>) -> Parse<Setting> {
    let what = "a statement of a problem (`operator`, `rhs`, `solver`, …)";
    let Token::Word(keyword) = cursor.peek() else { return cursor.expected(what) };
    if !KEYWORDS.contains(&keyword.as_str()) {
        return cursor.expected_word(what, &KEYWORDS);
    }
    let key = cursor.name(what)?;
    let (mut name, mut tags) = (None, Vec::new());
    match keyword.as_str() {
        "data" => name = Some(named(cursor, "the name of an array of the operator")?),
        "initial" | "exact" => name = Some(named(cursor, "the name of a field of the system")?),
        "probe" => name = Some(named(cursor, "a name for the probe")?),
        "material" => {
            let material = cursor.name("the name of a material of the system")?;
            if cursor.at_open('(') {
                let close = cursor.open('(')?;
                tags = cursor.list(close, tag)?;
            }
            cursor.symbol("=")?;
            name = Some(material);
        }
        "boundary" => {
            tags = tag_list(cursor)?;
            cursor.symbol(":")?;
        }
        _ => {}
    }
    let value = expression(cursor)?;
    cursor.semicolon()?;
    Ok(Setting { key, name, tags, value })
}

/// `name =`
fn named(cursor: &mut Cursor<'_>, what: &str) -> Parse<Name> {
    let name = cursor.name(what)?;
    cursor.symbol("=")?;
    Ok(name)
}

fn tag_list(cursor: &mut Cursor<'_>) -> Parse<Vec<Expr>> {
    let mut tags = vec![tag(cursor)?];
    while cursor.take_symbol(",") {
        tags.push(tag(cursor)?);
    }
    Ok(tags)
}

/// The tag of a region or boundary of a mesh: a name, a string, a number; `all` for the rest.
fn tag(cursor: &mut Cursor<'_>) -> Parse<Expr> {
    let span = cursor.span();
    let kind = match cursor.peek() {
        Token::Word(_) => return Ok(Expr { kind: ExprKind::Name(cursor.name("a tag of the mesh")?.text), span }),
        Token::Text(text) => ExprKind::Text(text.clone()),
        Token::Number(text, value) if value.fract() == 0.0 && *value < 1e15 => ExprKind::Number(text.clone(), *value),
        _ => return cursor.expected("a tag of the mesh: a name, a string or a number"),
    };
    cursor.advance();
    Ok(Expr { kind, span })
}
