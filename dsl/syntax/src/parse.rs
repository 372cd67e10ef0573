//! Grammar: tokens to [`Ast`], by recursive descent.
//!
//! Every function either consumes what it names or reports an error and fails; statements and items are where parsing
//! resumes, so that one run reports every broken statement. docs/LANGUAGE.md has the grammar.

mod cursor;
mod expression;
mod format;
mod operator;
mod problem;
mod solver;
mod system;

use crate::ast::{Ast, Documented, Item, ItemKind};
use crate::diagnostic::Diagnostics;
use crate::source::{Source, TokenTable};
use crate::token::{self, Lexeme, Token};
use cursor::{Cursor, Parse};
use proc_macro2::TokenStream;

/// Parses the text of a file; `name` is for messages.
pub fn parse_text(name: &str, text: &str) -> Result<Ast, Diagnostics> {
    let source = Source { name: name.to_string(), text: Some(text.to_string()) };
    match token::of_text(text).and_then(token::flatten) {
        Ok((lexemes, _)) => parse(source, &lexemes),
        Err(error) => Err(Diagnostics::new(source, vec![*error])),
    }
}

/// Parses the tokens of a macro call; the table gives the compiler's places back.
pub fn parse_tokens(name: &str, tokens: TokenStream) -> (TokenTable, Result<Ast, Diagnostics>) {
    let source = Source { name: name.to_string(), text: None };
    match token::flatten(tokens) {
        Ok((lexemes, table)) => (table, parse(source, &lexemes)),
        Err(error) => (TokenTable::default(), Err(Diagnostics::new(source, vec![*error]))),
    }
}

fn parse(source: Source, lexemes: &[Lexeme]) -> Result<Ast, Diagnostics> {
    let mut cursor = Cursor::new(lexemes);
    let mut items = Vec::new();
    while !cursor.at_end() {
        let start = cursor.position();
        match item(&mut cursor) {
            Ok(item) => items.push(item),
            Err(_) => cursor.resume_at_item(start),
        }
    }
    match cursor.into_errors() {
        errors if errors.is_empty() => Ok(Ast { source, items }),
        errors => Err(Diagnostics::new(source, errors)),
    }
}

/// Keywords an item begins with.
const ITEMS: [&str; 6] = ["operator", "solver", "problem", "format", "system", "step"];

/// What may stand at the top level.
const ITEM: &str = "`operator`, `solver`, `problem`, `format`, `system` or `step`";

/// An item with its name and body.
fn item(cursor: &mut Cursor<'_>) -> Parse<Item> {
    let doc = cursor.doc();
    let keyword = match cursor.peek() {
        Token::Word(word) => word.as_str(),
        _ => return cursor.expected(ITEM),
    };
    if !ITEMS.contains(&keyword) {
        return cursor.expected_word(ITEM, &ITEMS);
    }
    cursor.advance();
    let name = cursor.name(&format!("the name of the {keyword}"))?;
    let kind = match keyword {
        "operator" => ItemKind::Operator(block(cursor, operator::clause)?),
        "solver" => ItemKind::Solver(solver::takes(cursor)?, block(cursor, solver::step)?),
        "format" => ItemKind::Format(block(cursor, format::layout)?),
        "system" => ItemKind::System(block(cursor, system::part)?),
        "step" => ItemKind::TimeStep(block(cursor, system::stage)?),
        _ => ItemKind::Problem(block(cursor, problem::setting)?),
    };
    Ok(Item { doc, name, kind })
}

/// `{ statement* }`; a broken statement is skipped.
fn block<T>(cursor: &mut Cursor<'_>, statement: fn(&mut Cursor<'_>) -> Parse<T>) -> Parse<Vec<Documented<T>>> {
    let close = cursor.open('{')?;
    let mut statements = Vec::new();
    while cursor.position() < close {
        let start = cursor.position();
        match documented(cursor, statement) {
            Ok(statement) => statements.push(statement),
            Err(_) => cursor.resume_at_statement(start, close),
        }
    }
    cursor.advance();
    Ok(statements)
}

fn documented<T>(cursor: &mut Cursor<'_>, statement: fn(&mut Cursor<'_>) -> Parse<T>) -> Parse<Documented<T>> {
    let doc = cursor.doc();
    let start = cursor.span();
    let kind = statement(cursor)?;
    Ok(Documented { doc, span: start.to(cursor.last_span()), kind })
}
