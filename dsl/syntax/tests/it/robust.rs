//! Damaged programs: whatever the input, an answer and no panic.

use crate::files;
use crate::programs::without_places;
use kernelwright_syntax::parse::parse_text;
use kernelwright_syntax::{compile, compile_tokens, print};
use proc_macro2::{Delimiter, Group, Literal, TokenStream, TokenTree};

/// A small generator with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

/// Words, marks and numbers a damage may bring in.
const PIECES: [&str; 80] = [
    "operator",
    "solver",
    "problem",
    "grid",
    "let",
    "flux",
    "data",
    "apply",
    "boundary",
    "if",
    "else",
    "repeat",
    "every",
    "times",
    "check",
    "require",
    "converge",
    "when",
    "residual",
    "param",
    "mask",
    "i",
    "k",
    "u",
    "f",
    "A",
    "M",
    "inv",
    "dot",
    "zero",
    "div",
    "random",
    "file",
    "0",
    "1/2",
    "1e308*10",
    "1e400",
    "-",
    "*",
    "/",
    "<=",
    "=",
    ";",
    ",",
    "=>",
    "[",
    "(",
    "}",
    ".",
    "format",
    "rows",
    "store",
    "lengths",
    "index",
    "chunk",
    "slot",
    "pad",
    "delta",
    "system",
    "mesh",
    "tetrahedra",
    "field",
    "E[3]",
    "material",
    "ddt",
    "curl",
    "grad",
    "flux",
    "exterior",
    "jump",
    "n",
    "boundary",
    "step",
    "stage",
    "dt*rate",
    "initial",
    "until",
    "box",
    "n = 2",
    "source",
];

/// Splits a text into words, numbers, marks and blanks.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let length = if word(first) { rest.find(|c| !word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        pieces.push(&rest[..length]);
        rest = &rest[length..];
    }
    pieces
}

fn damage(text: &str, random: &mut Random) -> String {
    let mut pieces = pieces(text);
    for _ in 0..=random.below(3) {
        let (at, other) = (random.below(pieces.len()), random.below(pieces.len()));
        match random.below(6) {
            0 => drop(pieces.remove(at)),
            1 => pieces.insert(at, PIECES[random.below(PIECES.len())]),
            2 => pieces[at] = PIECES[random.below(PIECES.len())],
            3 => pieces.swap(at, other),
            4 => pieces.insert(at, pieces[other]),
            _ => pieces.truncate(at + 1),
        }
    }
    pieces.concat()
}

/// Compiles, and renders what is wrong.
fn survives(text: &str) {
    if let Err(errors) = compile("damaged.kw", text) {
        let rendered = errors.to_string();
        assert!(rendered.starts_with("error: ") && rendered.contains("--> damaged.kw"), "{text}\n{rendered}");
    }
    if let Ok(ast) = parse_text("damaged.kw", text) {
        let printed = print::program(&ast);
        let again = parse_text("printed.kw", &printed).unwrap_or_else(|errors| panic!("{text}\n{printed}\n{errors}"));
        assert_eq!(print::program(&again), printed, "{text}");
        if text.len().is_multiple_of(4) {
            assert_eq!(without_places(&ast), without_places(&again), "{text}\n{printed}");
        }
    }
}

#[test]
fn damaged_programs_never_panic() {
    let mut random = Random(1);
    for (_, text) in files::good() {
        for _ in 0..60 {
            survives(&damage(&text, &mut random));
        }
    }
}

#[test]
fn truncated_programs_never_panic() {
    for (_, text) in files::good() {
        for (at, _) in text.char_indices().step_by(37) {
            survives(&text[..at]);
        }
    }
}

#[test]
fn noise_never_panics() {
    let mut random = Random(2);
    let marks: Vec<char> = "(){}[];:,.=<>!&|+-*/#'\"\\ \t\r\n\0azAZ09_eé§\u{2028}\u{feff}\u{1f300}".chars().collect();
    for _ in 0..3000 {
        let text: String = (0..random.below(60)).map(|_| marks[random.below(marks.len())]).collect();
        survives(&text);
    }
}

#[test]
fn deep_and_long_inputs_are_refused() {
    let wrap = |inner: &str| format!("operator o {{ grid cells [i: nx]; boundary i: periodic; apply u => {inner}; }}");
    for depth in [10, 100, 198, 250, 10_000] {
        survives(&wrap(&format!("{}u{}", "(".repeat(depth), ")".repeat(depth))));
        survives(&wrap(&format!("{}u", "-".repeat(depth))));
        survives(&wrap(&vec!["u"; depth].join(" + ")));
        survives(&wrap(&format!("{}u{}", "abs(".repeat(depth), ")".repeat(depth))));
        survives(&wrap(&format!("{}u{}", "if 1 > 0 { ".repeat(depth), " } else { u }".repeat(depth))));
        survives(&wrap(&format!("{}{{ u }}", "if 1 > 0 { u } else ".repeat(depth))));
        survives(&wrap(&format!("{}u{}", "sqr(".repeat(depth), ")".repeat(depth))));
        survives(&format!("solver s(A: any) {{ {} check; {} }}", "repeat {".repeat(depth), "}".repeat(depth)));
        survives(&format!("solver s(A: any) {{ {} }}", "if 1 > 0 { } else ".repeat(depth)));
    }
    survives(&"(".repeat(100_000));
    survives(&wrap(&format!("{}*u", "9".repeat(100_000))));
}

#[test]
fn many_errors_take_linear_time() {
    let unknown: String = (0..2000).map(|i| format!("let a{i} = b{i};\n")).collect();
    survives(&format!("operator o {{ grid cells [i: nx]; boundary i: periodic; apply u => u; {unknown} }}"));
    let unknown: String = (0..2000).map(|i| format!("x{i} = 1; y{i} = z{i};\n")).collect();
    survives(&format!("solver s(A: any) {{ residual r = f - A*u; {unknown} }}"));
}

#[test]
fn accepted_expressions_at_the_limit_are_checked_and_printed() {
    let deep = format!("{}u{}", "-(".repeat(90), ")".repeat(90));
    let text = format!("operator o {{ grid cells [i: nx]; boundary i: periodic; apply u => {deep}; }}");
    let program = compile("deep.kw", &text).unwrap();
    assert!(format!("{program:?}").len() > 1000);
}

#[test]
fn tokens_give_the_same_program_as_text() {
    for (name, text) in files::good() {
        let tokens: TokenStream = text.parse().unwrap();
        let (table, program) = compile_tokens(&name, tokens);
        assert!(!table.is_empty());
        assert_eq!(program.unwrap(), compile(&name, &text).unwrap());
    }
}

#[test]
fn brackets_without_a_shape_are_transparent() {
    let body: TokenStream = "grid cells [i: nx]; boundary i: periodic;".parse().unwrap();
    let apply: TokenStream = "apply u =>".parse().unwrap();
    let value = TokenTree::Group(Group::new(Delimiter::None, "2*u".parse().unwrap()));
    let end: TokenStream = "- u;".parse().unwrap();
    let inner = body.into_iter().chain(apply).chain([value]).chain(end).collect();
    let head: TokenStream = "operator o".parse().unwrap();
    let all = head.into_iter().chain([TokenTree::Group(Group::new(Delimiter::Brace, inner))]).collect();
    let (_, program) = compile_tokens("macro", all);
    assert_eq!(program.unwrap().operators[0].apply[0].text, "apply u => 2*u - u;");
}

#[test]
fn errors_in_tokens_name_their_token() {
    let tokens: TokenStream = "operator o { grid cells [i: nx]; boundary i: periodic; apply u => v; }".parse().unwrap();
    let (table, program) = compile_tokens("macro", tokens);
    let errors = program.unwrap_err();
    let error = errors.iter().next().unwrap();
    assert_eq!(error.plain(), "nothing is called `v`\nunknown name");
    assert_eq!(table.place(error.span).start().column, 66);
    let literal = TokenTree::Literal(Literal::string("no program"));
    let (_, program) = compile_tokens("macro", [literal].into_iter().collect());
    assert!(program.is_err());
}
