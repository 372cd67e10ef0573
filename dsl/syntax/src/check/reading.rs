//! Where a name is read: written positions to shifts, with wrong axes and wrong centring as errors.

use crate::ast::Position;
use crate::check::expression::Scope;
use crate::check::names::Symbol;
use crate::diagnostic::{Diagnostic, closest};
use crate::print::offset;
use crate::program::{Centring, Shift};
use crate::source::Span;

/// A value that is read.
pub struct Target<'a> {
    /// Its name.
    pub name: &'a str,
    /// Axes it may be read along.
    pub axes: [bool; 3],
    /// The axis on whose faces it lives.
    pub half: Option<usize>,
    /// Where it is declared.
    pub span: Span,
}

/// The shift from the declared position, or an error, which is recorded.
pub fn shift(
    scope: &mut Scope<'_>,
    symbol: Symbol,
    target: &Target<'_>,
    at: Option<&[Position]>,
    span: Span,
) -> Option<Shift> {
    let halves = halves(scope, target, at.unwrap_or(&[]))?;
    let mut shift = [0; 3];
    for (axis, halves) in halves.into_iter().enumerate() {
        shift[axis] = if target.half == Some(axis) {
            on_faces(scope, symbol, target, axis, halves, span)?
        } else {
            at_points(scope, target, axis, halves.unwrap_or(0), span)?
        };
    }
    Some(shift)
}

/// The written offset along each axis, in halves.
fn halves(scope: &mut Scope<'_>, target: &Target<'_>, at: &[Position]) -> Option<[Option<i32>; 3]> {
    let mut halves = [None; 3];
    for position in at {
        let axis = axis(scope, position)?;
        if halves[axis].is_some() {
            let message = format!("the letter `{}` is given twice", position.letter.text);
            scope.errors.push(Diagnostic::new("wrong-axis", position.span, message));
            return None;
        }
        if !target.axes[axis] && target.half != Some(axis) {
            scope.errors.push(wrong_axis(scope, target, position));
            return None;
        }
        halves[axis] = Some(position.halves);
    }
    Some(halves)
}

/// The axis of a letter.
pub fn axis(scope: &mut Scope<'_>, position: &Position) -> Option<usize> {
    let letters = || scope.operator.axes.iter().map(|axis| axis.letter.as_str());
    let letter = &position.letter;
    let found = letters().position(|known| known == letter.text);
    if found.is_none() {
        let list = letters().map(|letter| format!("`{letter}`")).collect::<Vec<_>>().join(", ");
        let help = match closest(&letter.text, letters()) {
            Some(near) if letters().count() > 3 => format!("did you mean `{near}`?"),
            _ => format!("the letters of the grid are {list}"),
        };
        let message = format!("`{}` is not a letter of the grid", letter.text);
        scope.errors.push(Diagnostic::new("wrong-axis", letter.span, message).help(help));
    }
    found
}

fn wrong_axis(scope: &Scope<'_>, target: &Target<'_>, position: &Position) -> Diagnostic {
    let axes = scope.operator.axes.iter().zip(target.axes);
    let along: Vec<String> =
        axes.filter(|(_, depends)| *depends).map(|(axis, _)| format!("`{}`", axis.letter)).collect();
    let help = match along.is_empty() {
        true => format!("`{}` is the same everywhere: write it without brackets", target.name),
        false => format!("`{}` depends on {} only", target.name, along.join(" and ")),
    };
    let message = format!("`{}` does not depend on `{}`", target.name, position.letter.text);
    Diagnostic::new("wrong-axis", position.span, message)
        .label("wrong axis")
        .note(target.span, "declared here")
        .help(help)
}

fn point(scope: &Scope<'_>) -> &'static str {
    match scope.operator.centring {
        Centring::Cells => "cell",
        Centring::Nodes => "node",
    }
}

/// The shift of a value that lives at points: whole steps only.
fn at_points(scope: &mut Scope<'_>, target: &Target<'_>, axis: usize, halves: i32, span: Span) -> Option<i32> {
    if halves % 2 == 0 {
        return Some(halves / 2);
    }
    let (name, letter, point) = (target.name, &scope.operator.axes.get(axis)?.letter, point(scope));
    let (low, high) = (offset(halves - 1), offset(halves + 1));
    let error =
        Diagnostic::new("wrong-centring", span, format!("`{name}` has a value at every {point}, none on faces"))
            .label(format!("{point} value used on a face"))
            .help(format!(
                "the neighbours of this face are `{name}{}` and `{name}{}`",
                bracket(letter, &low),
                bracket(letter, &high)
            ));
    scope.errors.push(declared(error, target));
    None
}

/// Adds where the value is declared (an unknown is declared by its first use).
fn declared(error: Diagnostic, target: &Target<'_>) -> Diagnostic {
    if target.span == error.span { error } else { error.note(target.span, "declared here") }
}

fn bracket(letter: &str, offset: &str) -> String {
    if offset.is_empty() { String::new() } else { format!("[{letter}{offset}]") }
}

/// The shift of a value that lives on faces: half steps, or bare among values on the same faces.
fn on_faces(
    scope: &mut Scope<'_>,
    symbol: Symbol,
    target: &Target<'_>,
    axis: usize,
    halves: Option<i32>,
    span: Span,
) -> Option<i32> {
    let (name, letter) = (target.name, &scope.operator.axes.get(axis)?.letter);
    let flux = matches!(symbol, Symbol::Flux(_));
    let near = format!("`{name}[{letter}+1/2]` or `{name}[{letter}-1/2]`");
    let near = if flux { format!("`div({name})`, {near}") } else { near };
    let error = match halves {
        None if scope.place.half == Some(axis) => return Some(0),
        Some(halves) if halves % 2 == 0 => {
            Diagnostic::new("wrong-centring", span, format!("`{name}` lives on faces along `{letter}`"))
                .label("a whole offset names no face")
        }
        Some(halves) if flux && halves.abs() > 1 => {
            Diagnostic::new("wrong-centring", span, format!("`{name}` is read beyond the faces of this point"))
                .label("too far")
        }
        Some(halves) => return Some((halves - 1) / 2),
        None => Diagnostic::new(
            "wrong-centring",
            span,
            format!("which face of `{name}`? It lives on faces along `{letter}`"),
        )
        .label(format!("face value used in {}", scope.place.what)),
    };
    scope.errors.push(declared(error, target).help(format!("write {near}")));
    None
}
