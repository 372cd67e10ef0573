//! Statements of systems and of time steps.

use crate::ast::{Documented, Entry, Part, Quantity, Stage};
use crate::parse::block;
use crate::parse::cursor::{Cursor, Parse};
use crate::parse::expression::expression;
use crate::token::Token;

/// Keywords a statement of a system begins with.
const KEYWORDS: [&str; 11] =
    ["mesh", "order", "field", "material", "param", "let", "ddt", "source", "flux", "boundary", "step"];

/// One statement of a system.
pub fn part(cursor: &mut Cursor<'_>) -> Parse<Part> {
    let what = "a statement of a system (`field`, `ddt`, `flux`, …)";
    let Token::Word(keyword) = cursor.peek() else { return cursor.expected(what) };
    if !KEYWORDS.contains(&keyword.as_str()) {
        return cursor.expected_word(what, &KEYWORDS);
    }
    cursor.advance();
    let part = match keyword.as_str() {
        "mesh" => Part::Mesh(cursor.name("`tetrahedra`")?),
        "order" => {
            let name = cursor.name("a name for the order, such as `N`")?;
            let default = if cursor.take_symbol("=") { Some(expression(cursor)?) } else { None };
            Part::Order(name, default)
        }
        "field" => Part::Field(quantities(cursor, "the name of a field")?),
        "material" => Part::Material(quantities(cursor, "the name of a material")?),
        "param" => Part::Param(quantities(cursor, "the name of a parameter")?),
        "let" => {
            let name = cursor.name("the name of a value")?;
            cursor.symbol("=")?;
            Part::Let(name, expression(cursor)?)
        }
        "ddt" | "source" => {
            let name = cursor.name("the name of a field")?;
            cursor.symbol("=")?;
            let value = expression(cursor)?;
            if keyword == "ddt" { Part::Ddt(name, value) } else { Part::Source(name, value) }
        }
        "flux" => return Ok(Part::Flux(cursor.name("a name for the flux")?, block(cursor, entry)?)),
        "boundary" => return Ok(Part::Boundary(cursor.name("a name for the condition")?, block(cursor, entry)?)),
        _ => Part::Step(cursor.name("the name of a time step")?),
    };
    cursor.semicolon()?;
    Ok(part)
}

/// `E[3], p = 1`
fn quantities(cursor: &mut Cursor<'_>, what: &str) -> Parse<Vec<Quantity>> {
    let mut quantities = Vec::new();
    loop {
        let name = cursor.name(what)?;
        let size = match cursor.at_open('[') {
            true => {
                let close = cursor.open('[')?;
                let size = expression(cursor)?;
                cursor.close(close, "`]`")?;
                Some(size)
            }
            false => None,
        };
        let default = if cursor.take_symbol("=") { Some(expression(cursor)?) } else { None };
        quantities.push(Quantity { name, size, default });
        if !cursor.take_symbol(",") {
            return Ok(quantities);
        }
    }
}

/// `let v = …;`, `E = …;` or `exterior(E) = …;`
fn entry(cursor: &mut Cursor<'_>) -> Parse<Entry> {
    let entry = if cursor.at_word("let") && matches!(cursor.look(1), Token::Word(_)) {
        cursor.advance();
        let name = cursor.name("the name of a value")?;
        cursor.symbol("=")?;
        Entry::Let(name, expression(cursor)?)
    } else if cursor.at_word("exterior") && matches!(cursor.look(1), Token::Open('(', _)) {
        cursor.advance();
        let close = cursor.open('(')?;
        let name = cursor.name("the name of a field or material")?;
        cursor.close(close, "`)`")?;
        cursor.symbol("=")?;
        Entry::Exterior(name, expression(cursor)?)
    } else {
        let name = cursor.name("a statement: `let …`, `field = …` or `exterior(field) = …`")?;
        cursor.symbol("=")?;
        Entry::Assign(name, expression(cursor)?)
    };
    cursor.semicolon()?;
    Ok(entry)
}

/// `stage 1/2 { k = dt*rate; … }`
pub fn stage(cursor: &mut Cursor<'_>) -> Parse<Stage> {
    if !cursor.at_word("stage") {
        return cursor.expected_word("`stage`", &["stage"]);
    }
    cursor.advance();
    let time = expression(cursor)?;
    let updates: Vec<Documented<Entry>> = block(cursor, entry)?;
    Ok(Stage { time, updates })
}
