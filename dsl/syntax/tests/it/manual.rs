//! docs/LANGUAGE.md: every block of the language parses, and whole programs check.
//!
//! ```` ```kw ```` holds whole items; ```` ```kw operator ```` and ```` ```kw system ```` hold statements of an operator
//! or system.

use crate::files;
use crate::programs::without_places;
use kernelwright_syntax::parse::parse_text;
use kernelwright_syntax::{compile, print};

/// Kind and text of each block, with the line it begins on.
fn blocks(text: &str) -> Vec<(String, String, usize)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String, usize)> = None;
    for (number, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(kind)) => open = Some((kind.to_string(), String::new(), number + 2)),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, body, _)), None) => body.push_str(&format!("{line}\n")),
            (None, None) => {}
        }
    }
    blocks
}

#[test]
fn the_reference_is_in_the_language() {
    let text = std::fs::read_to_string(files::root().join("docs/LANGUAGE.md")).unwrap();
    let mut programs = 0;
    for (kind, body, line) in blocks(&text) {
        let name = format!("LANGUAGE.md, block at line {line}");
        match kind.as_str() {
            "kw" => drop(compile(&name, &body).unwrap_or_else(|errors| panic!("{errors}"))),
            "kw operator" | "kw system" => {
                let item = kind.trim_start_matches("kw ");
                let wrapped = format!("{item} o {{\n{body}}}\n");
                let ast = parse_text(&name, &wrapped).unwrap_or_else(|errors| panic!("{errors}"));
                let again = parse_text(&name, &print::program(&ast)).unwrap();
                assert_eq!(without_places(&ast), without_places(&again));
            }
            "text" => {}
            other => panic!("{name} is of kind `{other}`"),
        }
        programs += usize::from(kind.starts_with("kw"));
    }
    assert!(programs >= 12, "only {programs} blocks of the language");
}

#[test]
fn the_reference_names_every_solver_of_the_library() {
    let text = std::fs::read_to_string(files::root().join("docs/LANGUAGE.md")).unwrap();
    for name in kernelwright_syntax::library::names() {
        assert!(text.contains(&format!("| `{name}(")), "{name} is not in the table");
    }
}

#[test]
fn the_reference_names_every_format_of_the_library() {
    let text = std::fs::read_to_string(files::root().join("docs/LANGUAGE.md")).unwrap();
    let table = text.split("| in the library | |").nth(1).unwrap();
    for name in kernelwright_syntax::library::format_names() {
        assert!(table.contains(&format!("`{name}`")), "{name} is not in the table");
    }
}

#[test]
fn the_reference_names_every_system_and_time_step_of_the_library() {
    let text = std::fs::read_to_string(files::root().join("docs/LANGUAGE.md")).unwrap();
    for name in kernelwright_syntax::library::system_names().chain(kernelwright_syntax::library::step_names()) {
        assert!(text.contains(&format!("| `{name}` |")), "{name} is not in the tables");
    }
}
