//! Pretty printer: [`Ast`] to text that parses to the same tree.
//!
//! One statement a line, four blanks a level; sums are spaced, products are tight; brackets only where precedence needs
//! them. The same functions give the one-line `text` of checked statements.

mod expression;
mod system;

use crate::ast::{Ast, Clause, Documented, Expr, Item, ItemKind, Layout, Name, Position, Setting, Side, Step, Takes};
pub use expression::expression;
pub use system::{entry, part};

/// The whole program.
pub fn program(ast: &Ast) -> String {
    let items: Vec<String> = ast.items.iter().map(item).collect();
    items.join("\n")
}

fn item(item: &Item) -> String {
    let mut out = String::new();
    doc(&mut out, &item.doc, 0);
    let name = &item.name.text;
    match &item.kind {
        ItemKind::Operator(clauses) => {
            out.push_str(&format!("operator {name} {{\n"));
            for clause_ in clauses {
                doc(&mut out, &clause_.doc, 1);
                out.push_str(&format!("    {}\n", clause(&clause_.kind)));
            }
        }
        ItemKind::Solver(takes_, steps_) => {
            let heads: Vec<String> = takes_.iter().map(takes).collect();
            out.push_str(&format!("solver {name}({}) {{\n", heads.join(", ")));
            steps(&mut out, steps_, 1);
        }
        ItemKind::System(parts) => {
            out.push_str(&format!("system {name} {{\n"));
            system::parts(&mut out, parts);
        }
        ItemKind::TimeStep(stages) => {
            out.push_str(&format!("step {name} {{\n"));
            system::stages(&mut out, stages);
        }
        ItemKind::Problem(settings) => {
            out.push_str(&format!("problem {name} {{\n"));
            for setting_ in settings {
                doc(&mut out, &setting_.doc, 1);
                out.push_str(&format!("    {}\n", setting(&setting_.kind)));
            }
        }
        ItemKind::Format(layouts) => {
            out.push_str(&format!("format {name} {{\n"));
            for layout_ in layouts {
                doc(&mut out, &layout_.doc, 1);
                out.push_str(&format!("    {}\n", layout(&layout_.kind)));
            }
        }
    }
    out.push_str("}\n");
    out
}

fn doc(out: &mut String, text: &str, level: usize) {
    if text.is_empty() {
        return;
    }
    for line in text.split('\n') {
        let blank = if line.is_empty() { "" } else { " " };
        out.push_str(&format!("{}///{blank}{line}\n", "    ".repeat(level)));
    }
}

/// A statement of a format, with its `;`.
fn layout(layout: &Layout) -> String {
    match layout {
        Layout::Rows(steps) => {
            let steps: Vec<String> = steps.iter().map(expression).collect();
            format!("rows {};", steps.join("."))
        }
        Layout::Store(nest) => format!("store {};", names(nest, ", ")),
        Layout::Lengths(word) => format!("lengths {};", word.text),
        Layout::Index(coding) => format!("index {};", expression(coding)),
    }
}

/// A statement of an operator, with its `;`.
pub fn clause(clause: &Clause) -> String {
    match clause {
        Clause::Grid(centring, axes) => {
            let axes: Vec<String> =
                axes.iter().map(|(letter, size)| format!("{}: {}", letter.text, size.text)).collect();
            format!("grid {} [{}];", centring.text, axes.join(", "))
        }
        Clause::Param(params) => format!("param {};", defaults(params)),
        Clause::Data(name, axes, None) => format!("data {}{};", name.text, positions(axes)),
        Clause::Data(name, axes, Some(mode)) => {
            format!("data {}{} outside {};", name.text, positions(axes), mode.text)
        }
        Clause::Let(name, None, value) => format!("let {} = {};", name.text, expression(value)),
        Clause::Let(name, Some(axes), value) => {
            format!("let {}{} = {};", name.text, positions(axes), expression(value))
        }
        Clause::Flux(name, axes, value) => {
            format!("flux {}{} = {};", name.text, positions(axes), expression(value))
        }
        Clause::Mask(value) => format!("mask {};", expression(value)),
        Clause::Apply(unknowns, rows) => format!("{};", apply(unknowns, rows)),
        Clause::Boundary(sides, rule, value) => {
            let sides: Vec<String> = sides.iter().map(side).collect();
            let value = value.as_ref().map(|value| format!("({})", expression(value))).unwrap_or_default();
            format!("boundary {}: {}{value};", sides.join(", "), rule.text)
        }
        Clause::Nullspace(name) => format!("nullspace {};", name.text),
        Clause::Claim(facts) => format!("claim {};", names(facts, ", ")),
    }
}

/// `apply u => …` without the `;`.
pub fn apply(unknowns: &[Name], rows: &[Expr]) -> String {
    let left = match unknowns {
        [one] => one.text.clone(),
        _ => format!("({})", names(unknowns, ", ")),
    };
    let rows: Vec<String> = rows.iter().map(expression).collect();
    match rows.as_slice() {
        [one] => format!("apply {left} => {one}"),
        _ => format!("apply {left} => ({})", rows.join(", ")),
    }
}

fn side(side: &Side) -> String {
    match &side.end {
        Some(end) => format!("{}({})", end.text, side.letter.text),
        None => side.letter.text.clone(),
    }
}

fn takes(takes: &Takes) -> String {
    format!("{}: {}", takes.name.text, names(&takes.requires, " + "))
}

fn names(names: &[Name], separator: &str) -> String {
    let names: Vec<&str> = names.iter().map(|name| name.text.as_str()).collect();
    names.join(separator)
}

fn defaults(params: &[(Name, Option<Expr>)]) -> String {
    let params: Vec<String> = params
        .iter()
        .map(|(name, default)| match default {
            Some(value) => format!("{} = {}", name.text, expression(value)),
            None => name.text.clone(),
        })
        .collect();
    params.join(", ")
}

/// `[i+1, k-1/2]`
pub(crate) fn positions(positions: &[Position]) -> String {
    let positions: Vec<String> =
        positions.iter().map(|at| format!("{}{}", at.letter.text, offset(at.halves))).collect();
    format!("[{}]", positions.join(", "))
}

/// `+1`, `-1/2` or nothing.
pub(crate) fn offset(halves: i32) -> String {
    let sign = if halves < 0 { '-' } else { '+' };
    match (halves, halves % 2) {
        (0, _) => String::new(),
        (_, 0) => format!("{sign}{}", halves.unsigned_abs() / 2),
        _ => format!("{sign}{}/2", halves.unsigned_abs()),
    }
}

fn steps(out: &mut String, list: &[Documented<Step>], level: usize) {
    for step in list {
        doc(out, &step.doc, level);
        out.push_str(&"    ".repeat(level));
        out.push_str(&head(&step.kind));
        bodies(out, &step.kind, level);
        out.push('\n');
    }
}

/// A statement of a solver on one line, without bodies.
pub fn head(step: &Step) -> String {
    match step {
        Step::Param(params) => format!("param {};", defaults(params)),
        Step::Residual(name, value) => format!("residual {} = {};", name.text, expression(value)),
        Step::Converge(condition) => format!("converge when {};", expression(condition)),
        Step::Assign(name, value) => format!("{} = {};", name.text, expression(value)),
        Step::Check => "check;".to_string(),
        Step::Require(condition, outcome) => {
            format!("require {} else {};", expression(condition), outcome.text)
        }
        Step::If(condition, ..) => format!("if {}", expression(condition)),
        Step::Every(count, _) => format!("every {}", expression(count)),
        Step::Repeat(None, _) => "repeat".to_string(),
        Step::Repeat(Some(count), _) => format!("repeat {} times", expression(count)),
    }
}

fn bodies(out: &mut String, step: &Step, level: usize) {
    match step {
        Step::Every(_, body) | Step::Repeat(_, body) => braced(out, body, level),
        Step::If(_, then, other) => {
            braced(out, then, level);
            if !other.is_empty() {
                out.push_str(" else");
                braced(out, other, level);
            }
        }
        _ => {}
    }
}

fn braced(out: &mut String, body: &[Documented<Step>], level: usize) {
    out.push_str(" {\n");
    steps(out, body, level + 1);
    out.push_str(&format!("{}}}", "    ".repeat(level)));
}

fn setting(setting: &Setting) -> String {
    let (key, value) = (&setting.key.text, expression(&setting.value));
    let tags: Vec<String> = setting.tags.iter().map(expression).collect();
    let tags = tags.join(", ");
    match &setting.name {
        Some(name) if tags.is_empty() => format!("{key} {} = {value};", name.text),
        Some(name) => format!("{key} {}({tags}) = {value};", name.text),
        None if tags.is_empty() => format!("{key} {value};"),
        None => format!("{key} {tags}: {value};"),
    }
}
