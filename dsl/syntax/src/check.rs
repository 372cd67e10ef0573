//! Checks: [`Ast`] to [`Program`], with all errors of one run.
//!
//! Each topic has its file and reports into one list. A definition with an error still declares its name, so that its
//! uses are not reported again; a [`Program`] is only built when nothing was reported.

mod array;
mod boundary;
mod expression;
mod extent;
mod format;
mod names;
mod number;
mod operator;
mod problem;
mod reading;
mod solver;
mod vector;

use crate::ast::{Ast, Item, ItemKind};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::program::{Format, Operator, Program, Solver};
use crate::source::Span;
use std::collections::HashMap;

/// Operators, solvers and formats; none where the declaration has errors of its own.
#[derive(Default)]
struct Declared {
    operators: Vec<Option<Operator>>,
    solvers: Vec<Option<Solver>>,
    formats: Vec<Option<Format>>,
    operator_names: HashMap<String, usize>,
    solver_names: HashMap<String, usize>,
}

/// Checks a parsed program.
pub fn check(ast: &Ast) -> Result<Program, Diagnostics> {
    let mut errors = Vec::new();
    let mut declared = Declared::default();
    duplicates(ast, &mut errors);
    for item in &ast.items {
        declare(item, &mut declared, &mut errors);
    }
    let mut problems = Vec::new();
    for item in &ast.items {
        if let ItemKind::Problem(settings) = &item.kind {
            problems.extend(problem::problem(item, settings, &mut declared, &mut errors));
        }
    }
    let operators: Option<Vec<Operator>> = declared.operators.into_iter().collect();
    let solvers: Option<Vec<Solver>> = declared.solvers.into_iter().collect();
    let formats: Option<Vec<Format>> = declared.formats.into_iter().collect();
    match (operators, solvers, formats) {
        (Some(operators), Some(solvers), Some(formats)) if errors.is_empty() => {
            Ok(Program { file: ast.source.name.clone(), operators, solvers, problems, formats })
        }
        _ => Err(Diagnostics::new(ast.source.clone(), errors)),
    }
}

/// Checks one solver on its own: those of the library have no place in the user's file.
pub(crate) fn library_solver(item: &Item) -> Result<Solver, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let ItemKind::Solver(takes, steps) = &item.kind else {
        return Err(vec![Diagnostic::new("library", item.name.span, "the library holds solvers only")]);
    };
    match solver::solver(item, takes, steps, &mut errors) {
        Some(solver) if errors.is_empty() => Ok(solver),
        _ => Err(errors),
    }
}

/// Checks one format on its own.
pub(crate) fn library_format(item: &Item) -> Result<Format, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let ItemKind::Format(layouts) = &item.kind else {
        return Err(vec![Diagnostic::new("library", item.name.span, "this is not a format")]);
    };
    match format::format(item, layouts, &mut errors) {
        Some(format) if errors.is_empty() => Ok(format),
        _ => Err(errors),
    }
}

fn declare(item: &Item, declared: &mut Declared, errors: &mut Vec<Diagnostic>) {
    let before = errors.len();
    match &item.kind {
        ItemKind::Operator(clauses) => {
            let operator = operator::operator(item, clauses, errors).filter(|_| errors.len() == before);
            declared.operator_names.entry(item.name.text.clone()).or_insert(declared.operators.len());
            declared.operators.push(operator);
        }
        ItemKind::Solver(takes, steps) => {
            let solver = solver::solver(item, takes, steps, errors).filter(|_| errors.len() == before);
            declared.solver_names.entry(item.name.text.clone()).or_insert(declared.solvers.len());
            declared.solvers.push(solver);
        }
        ItemKind::Format(layouts) => {
            let format = format::format(item, layouts, errors).filter(|_| errors.len() == before);
            declared.formats.push(format);
        }
        ItemKind::Problem(_) => {}
    }
}

/// Operators, solvers, problems and formats each have names of their own.
fn duplicates(ast: &Ast, errors: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<(u8, &str), Span> = HashMap::new();
    for item in &ast.items {
        let (kind, what) = match item.kind {
            ItemKind::Operator(_) => (0, "operator"),
            ItemKind::Solver(..) => (1, "solver"),
            ItemKind::Problem(_) => (2, "problem"),
            ItemKind::Format(_) => (3, "format"),
        };
        match seen.get(&(kind, item.name.text.as_str())) {
            Some(first) => errors.push(
                Diagnostic::new(
                    "duplicate-name",
                    item.name.span,
                    format!("there are two {what}s called `{}`", item.name.text),
                )
                .label("second one")
                .note(*first, "first one"),
            ),
            None => {
                seen.insert((kind, &item.name.text), item.name.span);
            }
        }
    }
}
