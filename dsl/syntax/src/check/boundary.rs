//! Boundary rules: one for each side of each axis.

use crate::ast::{Clause, Documented, Expr, Name, Side};
use crate::check::expression::Place;
use crate::check::operator::{Build, unknown_word, zero};
use crate::diagnostic::{Diagnostic, closest};
use crate::program::Rule;
use crate::source::Span;

/// Rules found so far, per axis and side.
type Found = Vec<[Option<(Rule, Span)>; 2]>;

/// A side by name.
const SIDES: [&str; 2] = ["low", "high"];

/// Fills `operator.boundary`, or reports which sides have no rule or two.
pub fn boundary(build: &mut Build<'_>, clauses: &[Documented<Clause>]) {
    let mut found: Found = build.operator.axes.iter().map(|_| [None, None]).collect();
    for clause in clauses {
        if let Clause::Boundary(sides, rule, value) = &clause.kind {
            statement(build, &mut found, sides, rule, value.as_ref());
        }
    }
    for (axis, sides) in found.iter().enumerate() {
        missing(build, axis, sides);
    }
    let complete: Option<Vec<[Rule; 2]>> = found.into_iter().map(|[low, high]| Some([low?.0, high?.0])).collect();
    build.operator.boundary = complete.unwrap_or_default();
}

fn statement(build: &mut Build<'_>, found: &mut Found, sides: &[Side], rule: &Name, value: Option<&Expr>) {
    let checked = checked_rule(build, rule, value);
    for side in sides {
        let Some(axis) = axis(build, side) else { continue };
        let ends: &[usize] = match side.end.as_ref().map(|end| end.text.as_str()) {
            None => &[0, 1],
            Some("low") => &[0],
            Some("high") => &[1],
            Some(_) => {
                build.errors.extend(side.end.as_ref().map(|end| unknown_word(end, "a side", &SIDES)));
                continue;
            }
        };
        let span = side.end.as_ref().map_or(side.letter.span, |end| end.span.to(side.letter.span));
        let placed = placed_rule(build, &checked, axis, ends.len() == 2, span, rule.span);
        for &end in ends {
            if let Some((_, first)) = &found[axis][end] {
                let letter = &build.operator.axes[axis].letter;
                let message = format!("a second rule for the {} side of `{letter}`", SIDES[end]);
                build.errors.push(Diagnostic::new("duplicate", span, message).note(*first, "first rule"));
                continue;
            }
            found[axis][end] = Some((placed.clone(), span));
        }
    }
}

fn axis(build: &mut Build<'_>, side: &Side) -> Option<usize> {
    let letters = || build.operator.axes.iter().map(|axis| axis.letter.as_str());
    let found = letters().position(|letter| letter == side.letter.text);
    if found.is_none() {
        let message = format!("`{}` is not a letter of the grid", side.letter.text);
        let near = closest(&side.letter.text, letters()).map(|near| format!("did you mean `{near}`?"));
        build.errors.push(Diagnostic::new("wrong-axis", side.letter.span, message).help_if(near));
    }
    found
}

/// A rule before it meets an axis: for Dirichlet, with the axes its value depends on.
type Checked = Option<(Rule, [bool; 3])>;

fn checked_rule(build: &mut Build<'_>, rule: &Name, value: Option<&Expr>) -> Checked {
    if let ("no_flux" | "periodic", Some(value)) = (rule.text.as_str(), value) {
        let error = Diagnostic::new("arguments", value.span, format!("`{}` takes no value", rule.text));
        build.errors.push(error);
    }
    match (rule.text.as_str(), value) {
        ("no_flux", _) => Some((Rule::NoFlux, [false; 3])),
        ("periodic", _) => Some((Rule::Periodic, [false; 3])),
        ("dirichlet", Some(value)) => {
            let place = Place { what: "a boundary value", half: None, unknowns: false, fluxes: false, data: true };
            let typed = build.value(place, value)?;
            Some((Rule::Dirichlet(typed.expr), typed.depends))
        }
        ("dirichlet", None) => {
            let error = Diagnostic::new("arguments", rule.span, "`dirichlet` needs the value on the boundary");
            build.errors.push(error.help("write `dirichlet(0)`"));
            None
        }
        _ => {
            build.errors.push(unknown_word(rule, "a boundary rule", &["no_flux", "dirichlet", "periodic"]));
            None
        }
    }
}

/// The rule on a side of an axis; after an error, some rule, so that the side does not count as missing.
fn placed_rule(build: &mut Build<'_>, rule: &Checked, axis: usize, both: bool, span: Span, rule_span: Span) -> Rule {
    let letter = &build.operator.axes[axis].letter;
    match rule {
        Some((Rule::Periodic, _)) if !both => {
            let error = Diagnostic::new("bad-boundary", span, "a periodic axis has no sides")
                .note(rule_span, "joins both sides")
                .help(format!("write `boundary {letter}: periodic;`"));
            build.errors.push(error);
            Rule::Periodic
        }
        Some((Rule::Dirichlet(value), depends)) if depends[axis] => {
            let error = Diagnostic::new(
                "wrong-axis",
                value.span,
                format!("the value on a side of `{letter}` depends on `{letter}`"),
            )
            .label(format!("varies along `{letter}`"))
            .note(span, "value on this side");
            build.errors.push(error.help("it may depend on the other axes only"));
            Rule::Dirichlet(zero(value.span))
        }
        Some((rule, _)) => rule.clone(),
        None => Rule::NoFlux,
    }
}

fn missing(build: &mut Build<'_>, axis: usize, sides: &[Option<(Rule, Span)>; 2]) {
    let Some(axis) = build.operator.axes.get(axis) else { return };
    let letter = &axis.letter;
    let (message, statement) = match sides {
        [None, None] => (format!("axis `{letter}` has no boundary rule"), format!("boundary {letter}: no_flux;")),
        [Some(_), Some(_)] => return,
        [low, _] => {
            let side = SIDES[usize::from(low.is_some())];
            let message = format!("the {side} side of axis `{letter}` has no boundary rule");
            (message, format!("boundary {side}({letter}): no_flux;"))
        }
    };
    let error = Diagnostic::new("missing-boundary", axis.span, message).label("every side needs one");
    build.errors.push(error.help(format!("add `{statement}`, or `dirichlet(…)`, or `periodic` for both sides")));
}
