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
mod system;
mod vector;

use crate::ast::{Ast, Documented, Item, ItemKind, Setting};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::program::system::{System, TimeStep};
use crate::program::{Format, Operator, Program, Solver};

use crate::source::Span;
use std::collections::HashMap;

/// Operators, solvers and formats; none where the declaration has errors of its own.
#[derive(Default)]
struct Declared {
    operators: Vec<Option<Operator>>,
    solvers: Vec<Option<Solver>>,
    formats: Vec<Option<Format>>,
    systems: Vec<Option<System>>,
    steps: Vec<Option<TimeStep>>,
    /// Systems and time steps with errors of their own.
    broken_systems: Vec<String>,
    broken_steps: Vec<String>,
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
    let mut runs = Vec::new();
    for item in &ast.items {
        if let ItemKind::Problem(settings) = &item.kind {
            if settings.iter().any(|setting| setting.kind.key.text == "system") {
                runs.extend(system::run(item, settings, &mut declared, &mut errors));
                continue;
            }
            foreign(settings, &mut errors);
            problems.extend(problem::problem(item, settings, &mut declared, &mut errors));
        }
    }
    let operators: Option<Vec<Operator>> = declared.operators.into_iter().collect();
    let solvers: Option<Vec<Solver>> = declared.solvers.into_iter().collect();
    let formats: Option<Vec<Format>> = declared.formats.into_iter().collect();
    let systems: Option<Vec<System>> = declared.systems.into_iter().collect();
    let steps: Option<Vec<TimeStep>> = declared.steps.into_iter().collect();
    match (operators, solvers, formats, systems, steps) {
        (Some(operators), Some(solvers), Some(formats), Some(systems), Some(steps)) if errors.is_empty() => {
            let file = ast.source.name.clone();
            Ok(Program { file, operators, solvers, problems, formats, systems, steps, runs })
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

/// Checks one system on its own.
pub(crate) fn library_system(item: &Item) -> Result<System, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let ItemKind::System(parts) = &item.kind else {
        return Err(vec![Diagnostic::new("library", item.name.span, "this is not a system")]);
    };
    match system::system(item, parts, &mut errors) {
        Some(system) if errors.is_empty() => Ok(system),
        _ => Err(errors),
    }
}

/// Checks one time step on its own.
pub(crate) fn library_step(item: &Item) -> Result<TimeStep, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let ItemKind::TimeStep(stages) = &item.kind else {
        return Err(vec![Diagnostic::new("library", item.name.span, "this is not a time step")]);
    };
    match system::time_step(item, stages, &mut errors) {
        Some(step) if errors.is_empty() => Ok(step),
        _ => Err(errors),
    }
}

/// How waves of a system along a direction grow, if they do: a system that is not hyperbolic with these numbers.
pub fn growth(system: &System, params: &[f64], materials: &[f64], normal: [f64; 3]) -> Option<&'static str> {
    system::growth(system, params, materials, normal)
}

/// Settings that only problems of systems have.
fn foreign(settings: &[Documented<Setting>], errors: &mut Vec<Diagnostic>) {
    const KEYS: [&str; 11] =
        ["mesh", "flux", "step", "order", "material", "initial", "exact", "boundary", "until", "every", "probe"];
    for setting in settings.iter().filter(|setting| KEYS.contains(&setting.kind.key.text.as_str())) {
        let key = &setting.kind.key.text;
        let error = Diagnostic::new("not-allowed", setting.span, format!("a problem of an operator has no `{key}`"));
        errors.push(error.help("with `system name;` it is a problem of a system"));
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
        ItemKind::System(parts) => match system::system(item, parts, errors).filter(|_| errors.len() == before) {
            Some(system) => declared.systems.push(Some(system)),
            None => declared.broken_systems.push(item.name.text.clone()),
        },
        ItemKind::TimeStep(stages) => {
            match system::time_step(item, stages, errors).filter(|_| errors.len() == before) {
                Some(step) => declared.steps.push(Some(step)),
                None => declared.broken_steps.push(item.name.text.clone()),
            }
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
            ItemKind::System(_) => (4, "system"),
            ItemKind::TimeStep(_) => (5, "time step"),
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
