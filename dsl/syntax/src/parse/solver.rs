//! The head and the statements of a solver.

use crate::ast::{Documented, Step, Takes};
use crate::parse::block;
use crate::parse::cursor::{Cursor, Parse};
use crate::parse::expression::expression;
use crate::parse::operator::params;
use crate::token::Token;

/// `(A: spd, M: spd + m_matrix)`
pub fn takes(cursor: &mut Cursor<'_>) -> Parse<Vec<Takes>> {
    let close = cursor.open('(')?;
    cursor.list(close, |cursor| {
        let name = cursor.name("the name of an operator")?;
        cursor.symbol(":")?;
        let mut requires = vec![cursor.name("a requirement such as `spd` or `any`")?];
        while cursor.take_symbol("+") {
            requires.push(cursor.name("a requirement such as `spd`")?);
        }
        Ok(Takes { name, requires })
    })
}

/// One statement.
pub fn step(cursor: &mut Cursor<'_>) -> Parse<Step> {
    let what = "a statement of a solver";
    let Token::Word(first) = cursor.peek() else { return cursor.expected(what) };
    if matches!(cursor.look(1), Token::Symbol(symbol) if symbol == "=") {
        return assignment(cursor);
    }
    match first.as_str() {
        "if" | "every" | "repeat" => cursor.deeper(nested),
        "param" | "residual" | "converge" | "check" | "require" => plain(cursor),
        _ => {
            let keywords = ["param", "residual", "converge", "check", "require", "if", "every", "repeat"];
            cursor.expected_word("a statement of a solver (`v = …`, `check`, `repeat`, …)", &keywords)
        }
    }
}

fn assignment(cursor: &mut Cursor<'_>) -> Parse<Step> {
    let name = cursor.name("the name of a variable")?;
    cursor.symbol("=")?;
    let value = expression(cursor)?;
    cursor.semicolon()?;
    Ok(Step::Assign(name, value))
}

fn plain(cursor: &mut Cursor<'_>) -> Parse<Step> {
    let step = if cursor.take_word("param") {
        Step::Param(params(cursor)?)
    } else if cursor.take_word("residual") {
        let name = cursor.name("the name of the residual")?;
        cursor.symbol("=")?;
        Step::Residual(name, expression(cursor)?)
    } else if cursor.take_word("converge") {
        cursor.word("when")?;
        Step::Converge(expression(cursor)?)
    } else if cursor.take_word("require") {
        let condition = expression(cursor)?;
        cursor.word("else")?;
        Step::Require(condition, cursor.name("an outcome such as `breakdown`")?)
    } else {
        cursor.word("check")?;
        Step::Check
    };
    cursor.semicolon()?;
    Ok(step)
}

fn nested(cursor: &mut Cursor<'_>) -> Parse<Step> {
    if cursor.at_word("if") {
        return choice(cursor);
    }
    if cursor.take_word("every") {
        let count = expression(cursor)?;
        return Ok(Step::Every(count, block(cursor, step)?));
    }
    cursor.word("repeat")?;
    if cursor.at_open('{') {
        return Ok(Step::Repeat(None, block(cursor, step)?));
    }
    let count = expression(cursor)?;
    cursor.word("times")?;
    Ok(Step::Repeat(Some(count), block(cursor, step)?))
}

fn choice(cursor: &mut Cursor<'_>) -> Parse<Step> {
    cursor.word("if")?;
    let condition = expression(cursor)?;
    let then = block(cursor, step)?;
    if !cursor.take_word("else") {
        return Ok(Step::If(condition, then, Vec::new()));
    }
    if !cursor.at_word("if") {
        return Ok(Step::If(condition, then, block(cursor, step)?));
    }
    let start = cursor.span();
    let kind = cursor.deeper(choice)?;
    let other = Documented { doc: String::new(), span: start.to(cursor.last_span()), kind };
    Ok(Step::If(condition, then, vec![other]))
}
