//! Solvers, formats, systems and time steps every program may name, written in the language itself.
//!
//! An item of the same name in a program takes precedence. In one from here all spans are empty, because its
//! text is not in the user's file.

use crate::ast::Item;
use crate::check::{library_format, library_solver, library_step, library_system};
use crate::parse::parse_text;
use crate::program::system::{System, TimeStep};
use crate::program::{Format, Program, Solver, Statement, StatementKind};
use crate::source::Span;

/// Names and texts, simplest first.
const TEXTS: [(&str, &str); 9] = [
    ("richardson", include_str!("library/richardson.kw")),
    ("steepest_descent", include_str!("library/steepest_descent.kw")),
    ("cg", include_str!("library/cg.kw")),
    ("pcg", include_str!("library/pcg.kw")),
    ("pcg_flexible", include_str!("library/pcg_flexible.kw")),
    ("conjugate_residual", include_str!("library/conjugate_residual.kw")),
    ("minres", include_str!("library/minres.kw")),
    ("chebyshev", include_str!("library/chebyshev.kw")),
    ("bicgstab", include_str!("library/bicgstab.kw")),
];

/// Names and texts of formats, simplest first.
const FORMATS: [(&str, &str); 10] = [
    ("coo", include_str!("library/coo.kw")),
    ("csr", include_str!("library/csr.kw")),
    ("csr_delta", include_str!("library/csr_delta.kw")),
    ("ellpack", include_str!("library/ellpack.kw")),
    ("ellpack_r", include_str!("library/ellpack_r.kw")),
    ("pjds", include_str!("library/pjds.kw")),
    ("sell_c_sigma", include_str!("library/sell_c_sigma.kw")),
    ("sell_delta", include_str!("library/sell_delta.kw")),
    ("sell_pattern", include_str!("library/sell_pattern.kw")),
    ("sliced_dia", include_str!("library/sliced_dia.kw")),
];

/// Names of all solvers of the library.
pub fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name)
}

/// The text of a solver.
pub fn text(name: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A solver of the library, checked.
pub fn solver(name: &str) -> Option<Solver> {
    let ast = parse_text(&format!("{name}.kw"), text(name)?).ok()?;
    let item: &Item = ast.items.first()?;
    let mut solver = library_solver(item).ok()?;
    forget_places(&mut solver);
    Some(solver)
}

/// Names and texts of systems, simplest first.
const SYSTEMS: [(&str, &str); 3] = [
    ("advection", include_str!("library/advection.kw")),
    ("acoustics", include_str!("library/acoustics.kw")),
    ("maxwell", include_str!("library/maxwell.kw")),
];

/// Names and texts of time steps.
const STEPS: [(&str, &str); 3] = [
    ("lserk4", include_str!("library/lserk4.kw")),
    ("ssprk3", include_str!("library/ssprk3.kw")),
    ("rk4", include_str!("library/rk4.kw")),
];

/// Names of all systems of the library.
pub fn system_names() -> impl Iterator<Item = &'static str> {
    SYSTEMS.iter().map(|(name, _)| *name)
}

/// The text of a system.
pub fn system_text(name: &str) -> Option<&'static str> {
    SYSTEMS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A system of the library, checked.
pub fn system(name: &str) -> Option<System> {
    let ast = parse_text(&format!("{name}.kw"), system_text(name)?).ok()?;
    let system = library_system(ast.items.first()?).ok()?;
    Some(System { span: Span::default(), ..system })
}

/// Names of all time steps of the library.
pub fn step_names() -> impl Iterator<Item = &'static str> {
    STEPS.iter().map(|(name, _)| *name)
}

/// The text of a time step.
pub fn step_text(name: &str) -> Option<&'static str> {
    STEPS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A time step of the library, checked.
pub fn step(name: &str) -> Option<TimeStep> {
    let ast = parse_text(&format!("{name}.kw"), step_text(name)?).ok()?;
    let step = library_step(ast.items.first()?).ok()?;
    Some(TimeStep { span: Span::default(), ..step })
}

/// Names of all formats of the library.
pub fn format_names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|(name, _)| *name)
}

/// The text of a format.
pub fn format_text(name: &str) -> Option<&'static str> {
    FORMATS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A format of the library, checked.
pub fn format(name: &str) -> Option<Format> {
    let ast = parse_text(&format!("{name}.kw"), format_text(name)?).ok()?;
    let format = library_format(ast.items.first()?).ok()?;
    Some(Format { span: Span::default(), ..format })
}

impl Program {
    /// The format of that name: of this program or, if it declares none, of the library.
    pub fn format(&self, name: &str) -> Option<Format> {
        self.formats.iter().find(|format| format.name == name).cloned().or_else(|| self::format(name))
    }

    /// Every format that [`Program::format`] finds: those of the program, then those of the library.
    pub fn format_names(&self) -> Vec<String> {
        let own = self.formats.iter().map(|format| format.name.clone());
        let library = format_names().filter(|name| self.formats.iter().all(|format| format.name != *name));
        own.chain(library.map(str::to_string)).collect()
    }
}

fn forget_places(solver: &mut Solver) {
    solver.span = Span::default();
    solver.operators.iter_mut().for_each(|operator| operator.span = Span::default());
    solver.params.iter_mut().for_each(|param| param.span = Span::default());
    solver.variables.iter_mut().for_each(|variable| variable.span = Span::default());
    solver.body.iter_mut().for_each(forget_place);
}

fn forget_place(statement: &mut Statement) {
    statement.span = Span::default();
    match &mut statement.kind {
        StatementKind::If(_, then, other) => then.iter_mut().chain(other).for_each(forget_place),
        StatementKind::Every(_, body) | StatementKind::Repeat(_, body) => body.iter_mut().for_each(forget_place),
        _ => {}
    }
}
