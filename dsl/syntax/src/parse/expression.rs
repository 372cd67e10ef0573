//! Expressions, by precedence climbing.

use crate::ast::{Argument, Binary, Expr, ExprKind, Name, Position, Unary};
use crate::diagnostic::Diagnostic;
use crate::parse::cursor::{Cursor, Parse};
use crate::source::Span;
use crate::token::Token;

/// Operators within one expression, and levels of its tree: later stages recurse over it.
const TALLEST: u32 = 256;
/// Largest offset, in halves.
const FARTHEST: f64 = 2048.0;

/// An expression and the height of its tree.
type Grown = (Expr, u32);

/// An expression.
pub fn expression(cursor: &mut Cursor<'_>) -> Parse<Expr> {
    binary(cursor, 1).map(|(expr, _)| expr)
}

/// Operators that bind at least as tightly as `level`.
fn binary(cursor: &mut Cursor<'_>, level: u8) -> Parse<Grown> {
    let (mut left, mut height) = unary(cursor)?;
    while let Some(operator) = infix(cursor, level) {
        let span = cursor.span();
        cursor.advance();
        let (right, other) = binary(cursor, operator.level() + 1)?;
        height = taller(cursor, span, height.max(other))?;
        if operator.level() == 3 && infix(cursor, 3).is_some_and(|next| next.level() == 3) {
            let error = Diagnostic::new("syntax", cursor.span(), "comparisons cannot be chained");
            return cursor.fail(error.help("write `a < b && b < c`"));
        }
        let span = left.span.to(right.span);
        left = Expr { kind: ExprKind::Binary(operator, Box::new(left), Box::new(right)), span };
    }
    Ok((left, height))
}

fn infix(cursor: &Cursor<'_>, level: u8) -> Option<Binary> {
    let Token::Symbol(symbol) = cursor.peek() else { return None };
    Binary::of_symbol(symbol).filter(|operator| operator.level() >= level)
}

fn taller(cursor: &mut Cursor<'_>, span: Span, height: u32) -> Parse<u32> {
    if height >= TALLEST {
        let error = Diagnostic::new("too-deep", span, format!("the expression has more than {TALLEST} levels"));
        return cursor.fail(
            error.help("each term of a sum is a level: put parts of a long one in brackets, or name them with `let`"),
        );
    }
    Ok(height + 1)
}

fn unary(cursor: &mut Cursor<'_>) -> Parse<Grown> {
    let operator = match cursor.peek() {
        Token::Symbol(symbol) if symbol == "-" => Unary::Neg,
        Token::Symbol(symbol) if symbol == "!" => Unary::Not,
        _ => return primary(cursor),
    };
    let span = cursor.span();
    cursor.advance();
    let (inner, height) = cursor.deeper(unary)?;
    let height = taller(cursor, span, height)?;
    let span = span.to(inner.span);
    Ok((Expr { kind: ExprKind::Unary(operator, Box::new(inner)), span }, height))
}

fn primary(cursor: &mut Cursor<'_>) -> Parse<Grown> {
    let value = operand(cursor)?;
    if let Token::Open('[', _) = cursor.peek() {
        let error = Diagnostic::new("syntax", cursor.span(), "only a name takes a position or component in brackets");
        return cursor.fail(error.help("name the value with `let` and write `name[…]`"));
    }
    Ok(value)
}

fn operand(cursor: &mut Cursor<'_>) -> Parse<Grown> {
    let span = cursor.span();
    match cursor.peek() {
        Token::Number(text, value) => number(cursor, text, *value).map(|kind| (Expr { kind, span }, 0)),
        Token::Text(text) => {
            cursor.advance();
            Ok((Expr { kind: ExprKind::Text(text.clone()), span }, 0))
        }
        Token::Word(word) if word == "if" => cursor.deeper(choice),
        Token::Word(_) => cursor.deeper(named),
        Token::Open('(', _) => cursor.deeper(parenthesised),
        Token::Open('[', _) => cursor.deeper(bracketed),
        Token::Foreign(_) => foreign(cursor),
        _ => cursor.expected("an expression"),
    }
}

fn number(cursor: &mut Cursor<'_>, text: &str, value: f64) -> Parse<ExprKind> {
    if !value.is_finite() {
        let error = Diagnostic::new("bad-number", cursor.span(), "the number is too large for an f64");
        return cursor.fail(error.label("at most about 1.8e308"));
    }
    cursor.advance();
    Ok(ExprKind::Number(text.to_string(), value))
}

fn foreign<T>(cursor: &mut Cursor<'_>) -> Parse<T> {
    let found = cursor.peek().describe();
    let error = Diagnostic::new("bad-number", cursor.span(), format!("{found} is no number of the language"));
    cursor.fail(error.help("numbers are real and take no suffix: `1`, `0.5`, `1e-5`"))
}

/// `if c { a } else { b }`; `else if` continues it.
fn choice(cursor: &mut Cursor<'_>) -> Parse<Grown> {
    let start = cursor.span();
    cursor.word("if")?;
    let (condition, first) = binary(cursor, 1)?;
    let (then, second) = braced(cursor)?;
    if !cursor.at_word("else") {
        let error = Diagnostic::new("syntax", cursor.span(), "an `if` expression needs an `else`");
        return cursor.fail(error.label("expected `else { … }`"));
    }
    cursor.advance();
    let (other, third) = if cursor.at_word("if") { cursor.deeper(choice)? } else { braced(cursor)? };
    let height = taller(cursor, start, first.max(second).max(third))?;
    let kind = ExprKind::If(Box::new(condition), Box::new(then), Box::new(other));
    Ok((Expr { kind, span: start.to(cursor.last_span()) }, height))
}

fn braced(cursor: &mut Cursor<'_>) -> Parse<Grown> {
    let close = cursor.open('{')?;
    let inner = cursor.deeper(|cursor| binary(cursor, 1))?;
    cursor.close(close, "`}` or an operator")?;
    Ok(inner)
}

/// A name, a name at a position, or a call.
fn named(cursor: &mut Cursor<'_>) -> Parse<Grown> {
    let name = cursor.name("an expression")?;
    let start = name.span;
    match cursor.peek() {
        Token::Open('[', close) => {
            cursor.advance();
            let positions = cursor.list(*close, position)?;
            let span = start.to(cursor.last_span());
            Ok((Expr { kind: ExprKind::At(name, positions), span }, 0))
        }
        Token::Open('(', close) => {
            cursor.advance();
            let arguments = cursor.list(*close, argument)?;
            let height = arguments.iter().map(|(_, height)| *height).max().unwrap_or(0);
            let height = taller(cursor, start, height)?;
            let arguments = arguments.into_iter().map(|(argument, _)| argument).collect();
            let span = start.to(cursor.last_span());
            Ok((Expr { kind: ExprKind::Call(name, arguments), span }, height))
        }
        _ => Ok((Expr { kind: ExprKind::Name(name.text), span: start }, 0)),
    }
}

fn argument(cursor: &mut Cursor<'_>) -> Parse<(Argument, u32)> {
    let name = match (cursor.peek(), cursor.look(1)) {
        (Token::Word(_), Token::Symbol(symbol)) if symbol == "=" => Some(argument_name(cursor)?),
        _ => None,
    };
    let (value, height) = binary(cursor, 1)?;
    Ok((Argument { name, value }, height))
}

fn argument_name(cursor: &mut Cursor<'_>) -> Parse<Name> {
    let name = cursor.name("the name of an argument")?;
    cursor.symbol("=")?;
    Ok(name)
}

/// Brackets for grouping, or a tuple.
fn parenthesised(cursor: &mut Cursor<'_>) -> Parse<Grown> {
    let start = cursor.span();
    let close = cursor.open('(')?;
    let mut parts = cursor.list(close, |cursor| binary(cursor, 1))?;
    let span = start.to(cursor.last_span());
    if parts.len() == 1 {
        let (inner, height) = parts.remove(0);
        return Ok((Expr { kind: inner.kind, span }, height));
    }
    if parts.is_empty() {
        let error = Diagnostic::new("syntax", span, "expected an expression between the brackets");
        return cursor.fail(error);
    }
    let height = parts.iter().map(|(_, height)| *height).max().unwrap_or(0);
    let height = taller(cursor, start, height)?;
    let parts = parts.into_iter().map(|(part, _)| part).collect();
    Ok((Expr { kind: ExprKind::Tuple(parts), span }, height))
}

fn bracketed(cursor: &mut Cursor<'_>) -> Parse<Grown> {
    let start = cursor.span();
    let close = cursor.open('[')?;
    let parts = cursor.list(close, |cursor| binary(cursor, 1))?;
    let height = parts.iter().map(|(_, height)| *height).max().unwrap_or(0);
    let height = taller(cursor, start, height)?;
    let parts = parts.into_iter().map(|(part, _)| part).collect();
    Ok((Expr { kind: ExprKind::List(parts), span: start.to(cursor.last_span()) }, height))
}

/// `i`, `i+1`, `k-1/2`.
pub fn position(cursor: &mut Cursor<'_>) -> Parse<Position> {
    let letter = cursor.name("a letter of the grid")?;
    let sign = match cursor.peek() {
        Token::Symbol(symbol) if symbol == "+" => 1.0,
        Token::Symbol(symbol) if symbol == "-" => -1.0,
        _ => return Ok(Position { span: letter.span, letter, halves: 0 }),
    };
    cursor.advance();
    let Token::Number(_, steps) = cursor.peek() else {
        return cursor.expected("an offset such as `1` or `1/2`");
    };
    cursor.advance();
    let mut halves = 2.0 * steps;
    if cursor.take_symbol("/") {
        match cursor.peek() {
            Token::Number(_, two) if *two == 2.0 => halves = *steps,
            _ => return cursor.expected("`2`: offsets are whole or half steps"),
        }
        cursor.advance();
    }
    let span = letter.span.to(cursor.last_span());
    if halves.fract() != 0.0 || halves > FARTHEST {
        let error = Diagnostic::new("bad-offset", span, "an offset is a whole number of steps or halves");
        return cursor.fail(error.help("write `k+1`, `k-2`, `k+1/2`; at most 1024 steps"));
    }
    Ok(Position { letter, halves: (sign * halves) as i32, span })
}
