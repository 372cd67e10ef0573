//! From macro tokens to a checked program: inline items or `file = "…"`.

use std::path::{Path, PathBuf};

use kernelwright_syntax::ast::Ast;
use kernelwright_syntax::diagnostic::Diagnostics;
use kernelwright_syntax::program::Program;
use kernelwright_syntax::source::TokenTable;
use kernelwright_syntax::{check, parse, print};
use proc_macro2::{Delimiter, Ident, Literal, Span, TokenStream, TokenTree};
use quote::quote_spanned;

/// A checked program of a macro call.
pub struct Declared {
    /// The tree, for the text that is registered.
    pub text: String,
    /// Names of its items in source order.
    pub names: Vec<String>,
    /// The program.
    pub program: Program,
    /// A file to watch for changes.
    pub file: Option<PathBuf>,
}

/// Reads the call; errors are tokens that make the compiler report them.
pub fn read(keyword: Option<&str>, tokens: TokenStream) -> Result<Declared, TokenStream> {
    match file_argument(&tokens) {
        Some(literal) => of_file(&literal),
        None => of_tokens(with_keyword(keyword, tokens)),
    }
}

fn of_tokens(tokens: TokenStream) -> Result<Declared, TokenStream> {
    let (table, ast) = parse::parse_tokens("macro", tokens);
    let ast = ast.map_err(|errors| report(&errors, &table))?;
    let program = check(&ast).map_err(|errors| report(&errors, &table))?;
    Ok(declared(&ast, program, None))
}

fn of_file(literal: &Literal) -> Result<Declared, TokenStream> {
    let fail = |message: String| error(literal.span(), &message);
    let quoted = literal.to_string();
    let path = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let path = path.ok_or_else(|| fail("expected a path in quotes".into()))?;
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let full = Path::new(&root).join(path);
    let text = std::fs::read_to_string(&full).map_err(|why| fail(format!("{}: {why}", full.display())))?;
    let ast = parse::parse_text(path, &text).map_err(|errors| fail(errors.to_string()))?;
    let program = check(&ast).map_err(|errors| fail(errors.to_string()))?;
    Ok(declared(&ast, program, Some(full)))
}

fn declared(ast: &Ast, program: Program, file: Option<PathBuf>) -> Declared {
    let names = ast.items.iter().map(|item| item.name.text.clone()).collect();
    Declared { text: print::program(ast), names, program, file }
}

/// `file = "…"`, and nothing else.
fn file_argument(tokens: &TokenStream) -> Option<Literal> {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().take(4).collect();
    match trees.as_slice() {
        [TokenTree::Ident(name), TokenTree::Punct(equals), TokenTree::Literal(path)]
            if name == "file" && equals.as_char() == '=' =>
        {
            Some(path.clone())
        }
        _ => None,
    }
}

/// Puts the keyword that the macro's name stands for behind the item's documentation, unless it is written.
fn with_keyword(keyword: Option<&str>, tokens: TokenStream) -> TokenStream {
    let Some(keyword) = keyword else { return tokens };
    let mut trees: Vec<TokenTree> = tokens.into_iter().collect();
    let is_attribute = |pair: &[TokenTree]| {
        matches!(pair, [TokenTree::Punct(hash), TokenTree::Group(group)]
            if hash.as_char() == '#' && group.delimiter() == Delimiter::Bracket)
    };
    let mut start = 0;
    while trees.get(start..start + 2).is_some_and(is_attribute) {
        start += 2;
    }
    let written = matches!(trees.get(start), Some(TokenTree::Ident(first)) if first == keyword);
    if !written {
        let span = trees.get(start).map_or_else(Span::call_site, TokenTree::span);
        trees.insert(start, Ident::new(keyword, span).into());
    }
    trees.into_iter().collect()
}

fn report(errors: &Diagnostics, table: &TokenTable) -> TokenStream {
    errors.iter().map(|each| error(table.place(each.span), &each.plain())).collect()
}

fn error(span: Span, message: &str) -> TokenStream {
    quote_spanned! { span => ::core::compile_error! { #message } }
}
