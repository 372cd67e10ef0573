//! Good programs: they check, and printing loses nothing.

use crate::files;
use kernelwright_syntax::ast::Ast;
use kernelwright_syntax::parse::parse_text;
use kernelwright_syntax::{check, print};

#[test]
fn every_good_program_checks() {
    for (name, text) in files::good() {
        let ast = parse_text(&name, &text).unwrap_or_else(|errors| panic!("{errors}"));
        check(&ast).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

#[test]
fn printing_and_parsing_again_changes_nothing() {
    for (name, text) in files::good() {
        let ast = parse_text(&name, &text).unwrap();
        let printed = print::program(&ast);
        let again = parse_text(&name, &printed).unwrap_or_else(|errors| panic!("{printed}\n{errors}"));
        assert_eq!(print::program(&again), printed, "{name}");
        assert_eq!(without_places(&ast), without_places(&again), "{name}");
    }
}

/// The tree as text with all spans removed.
pub fn without_places(ast: &Ast) -> String {
    let text = format!("{:?}", ast.items);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("Span {") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = &rest[rest.find('}').unwrap() + 1..];
    }
    out + rest
}
