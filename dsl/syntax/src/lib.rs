//! The kernelwright language: grammar, checks, diagnostics and pretty printer.
//!
//! Text or macro tokens become an [`ast::Ast`] ([`parse`]), which becomes a [`program::Program`] ([`check`]); both report
//! all their errors at once ([`diagnostic`]). [`compile`] does the two for a text, [`compile_tokens`] for a macro call.
//! The language is described in docs/LANGUAGE.md.

pub mod ast;
mod check;
pub mod constant;
pub mod diagnostic;
pub mod library;
pub mod parse;
pub mod print;
pub mod program;
pub mod source;
mod token;

pub use check::{check, growth};

use diagnostic::Diagnostics;
use program::Program;
use source::TokenTable;

/// Parses and checks the text of a file; `name` is for messages.
pub fn compile(name: &str, text: &str) -> Result<Program, Diagnostics> {
    parse::parse_text(name, text).and_then(|ast| check(&ast))
}

/// Parses and checks the tokens of a macro call; the table gives the compiler's places back.
pub fn compile_tokens(name: &str, tokens: proc_macro2::TokenStream) -> (TokenTable, Result<Program, Diagnostics>) {
    let (table, ast) = parse::parse_tokens(name, tokens);
    (table, ast.and_then(|ast| check(&ast)))
}
