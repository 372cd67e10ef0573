//! Statements of a problem.

use crate::ast::Setting;
use crate::parse::cursor::{Cursor, Parse};
use crate::parse::expression::expression;
use crate::token::Token;

/// Keywords a statement begins with.
const KEYWORDS: [&str; 9] =
    ["operator", "data", "rhs", "guess", "solver", "preconditioner", "tolerance", "iterations", "precision"];

/// `key value;` or `data name = value;`
pub fn setting(cursor: &mut Cursor<'_>) -> Parse<Setting> {
    let what = "a statement of a problem (`operator`, `rhs`, `solver`, …)";
    let Token::Word(keyword) = cursor.peek() else { return cursor.expected(what) };
    if !KEYWORDS.contains(&keyword.as_str()) {
        return cursor.expected_word(what, &KEYWORDS);
    }
    let key = cursor.name(what)?;
    let name = match keyword.as_str() {
        "data" => {
            let name = cursor.name("the name of an array of the operator")?;
            cursor.symbol("=")?;
            Some(name)
        }
        _ => None,
    };
    let value = expression(cursor)?;
    cursor.semicolon()?;
    Ok(Setting { key, name, value })
}
