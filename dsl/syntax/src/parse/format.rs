//! Statements of a format.

use crate::ast::{Expr, ExprKind, Layout};
use crate::diagnostic::Diagnostic;
use crate::parse::cursor::{Cursor, Parse};
use crate::parse::expression::expression;

/// Keywords a statement begins with.
const KEYWORDS: [&str; 4] = ["rows", "store", "lengths", "index"];

/// `rows step.step;`, `store loop, loop;`, `lengths kept;` or `index coding;`
pub fn layout(cursor: &mut Cursor<'_>) -> Parse<Layout> {
    let layout = if cursor.take_word("rows") {
        let mut steps = vec![step(cursor)?];
        while cursor.take_symbol(".") {
            steps.push(step(cursor)?);
        }
        Layout::Rows(steps)
    } else if cursor.take_word("store") {
        let mut nest = vec![cursor.name("a loop such as `row` or `slot`")?];
        while cursor.take_symbol(",") {
            nest.push(cursor.name("a loop such as `row` or `slot`")?);
        }
        Layout::Store(nest)
    } else if cursor.take_word("lengths") {
        Layout::Lengths(cursor.name("`kept`")?)
    } else if cursor.take_word("index") {
        Layout::Index(expression(cursor)?)
    } else {
        return cursor.expected_word("a statement of a format (`rows`, `store`, `lengths` or `index`)", &KEYWORDS);
    };
    cursor.semicolon()?;
    Ok(layout)
}

/// `name` or `name(…)`.
fn step(cursor: &mut Cursor<'_>) -> Parse<Expr> {
    let step = expression(cursor)?;
    if matches!(step.kind, ExprKind::Name(_) | ExprKind::Call(..)) {
        return Ok(step);
    }
    let error = Diagnostic::new("syntax", step.span, "expected a step of `rows` such as `chunk(32)`");
    cursor.fail(error.help("write `rows sort(length, descending).chunk(32).pad(longest);`"))
}
