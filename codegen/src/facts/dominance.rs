//! Positive definiteness and the M-matrix property from signs.
//!
//! If every coupling to another point is <= 0 and every row's sum is >= 0, each row is weakly diagonally dominant with a
//! non-negative diagonal, whatever the boundaries do: a mirror of sign -1 changes the sign of a coupling, not its
//! size, or moves it onto the diagonal as a gain; a value prescribed outside drops a coupling and keeps its share of
//! the diagonal; a flux that vanishes takes its share away on both sides. A symmetric matrix of that kind is positive
//! semidefinite, and positive definite if
//! - every row's sum is positive, or
//! - all points are connected by nonzero couplings and some row is strictly dominant: behind a prescribed value.

use crate::couplings::{Entry, entries, terms};
use crate::math::{Centring, Operator, Rule, Shift};

use super::canonical::Poly;
use super::range::{Box3, Range, Ranges};
use super::symmetry::{coefficient, place};

/// Sign of the sum of a row's coefficients, over all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowSum {
    NonNegative,
    Zero,
    Positive,
}

/// Why A is positive definite (given that it is symmetric), or what stands in the way.
pub(super) fn definite(ranges: &Ranges) -> Result<String, String> {
    let op = ranges.op;
    couplings_nonpositive(ranges)?;
    let sums = row_sums(ranges)?;
    let diagonal = "couplings are <= 0 and row sums >= 0";
    if sums.iter().all(|s| *s == RowSum::Positive) {
        return Ok("couplings are <= 0 and row sums > 0".to_string());
    }
    connected(ranges, false)?;
    if let Some(letter) = held(ranges) {
        return Ok(format!("{diagonal}; all points are connected, and held at a boundary of {letter}"));
    }
    if op.nullspace && super::constants_vanish(op) {
        return Ok(format!("{diagonal}; all points are connected, so that only constants are in the null space"));
    }
    Err("row sums may vanish and no boundary value is prescribed".to_string())
}

/// Why A is an M-matrix, or what stands in the way.
pub(super) fn m_matrix(ranges: &Ranges) -> Result<String, String> {
    couplings_nonpositive(ranges)?;
    folded_nonpositive(ranges.op)?;
    let sums = row_sums(ranges)?;
    if sums.iter().all(|s| *s == RowSum::Positive) {
        return Ok("couplings are <= 0 and row sums > 0".to_string());
    }
    connected(ranges, true)?;
    match held(ranges) {
        Some(letter) => Ok(format!("couplings are <= 0, row sums >= 0; connected, and held at a boundary of {letter}")),
        None => Err("row sums may vanish and no boundary value is prescribed".to_string()),
    }
}

/// Range of an entry over all rows that have it; none if no row has.
fn entry_range(ranges: &Ranges, e: &Entry) -> Option<Range> {
    let inside = ranges.inside();
    let at: Box3 = match e.flux {
        Some((id, shift)) => ranges.faces(id, shift)?,
        None => inside,
    };
    let inner = ranges.expr(&e.coefficient, at);
    Some(e.outer.as_ref().map_or(inner, |o| ranges.expr(o, inside).times(inner)))
}

fn off_diagonal(op: &Operator) -> impl Iterator<Item = (usize, Entry)> + '_ {
    let row = |r: usize| entries(&terms(op, r)).into_iter().map(move |e| (r, e));
    (0..op.rows.len()).flat_map(row).filter(|(r, e)| e.shift != [0; 3] || e.component != *r)
}

fn couplings_nonpositive(ranges: &Ranges) -> Result<(), String> {
    for (_, e) in off_diagonal(ranges.op) {
        if entry_range(ranges, &e).is_some_and(|r| !r.neg().nonnegative()) {
            let to = place(ranges.op, e.component, e.shift);
            return Err(format!("the sign of the coupling to {to} is not known to be negative"));
        }
    }
    Ok(())
}

/// Mirrors of sign -1 make couplings positive unless they fold onto the diagonal.
fn folded_nonpositive(op: &Operator) -> Result<(), String> {
    let grid = op.space.grid();
    for (row, e) in off_diagonal(op) {
        for (a, rules) in op.boundary.iter().enumerate() {
            let mirrored = grid.centring == Centring::Cells && rules.iter().any(|r| matches!(r, Rule::Dirichlet(_)));
            let alone = e.component == row && e.shift[a].abs() == 1 && (0..3).all(|b| b == a || e.shift[b] == 0);
            if mirrored && e.shift[a] != 0 && !alone {
                return Err(format!("a coupling across the boundary of {} changes its sign", grid.axes[a].letter));
            }
        }
    }
    Ok(())
}

fn row_sums(ranges: &Ranges) -> Result<Vec<RowSum>, String> {
    (0..ranges.op.rows.len()).map(|r| row_sum(ranges, r)).collect()
}

fn row_sum(ranges: &Ranges, row: usize) -> Result<RowSum, String> {
    let op = ranges.op;
    let mut sum = Poly::default();
    for e in entries(&terms(op, row)).iter().filter(|e| !e.difference) {
        if let Some((id, _)) = e.flux {
            return Err(format!("{} is not made of differences", op.fluxes[id].name));
        }
        let c = coefficient(op, e, [0; 3]).ok_or("a coefficient is too large to add up")?;
        sum = sum.plus(&c);
    }
    if sum.is_zero() {
        return Ok(RowSum::Zero);
    }
    let inside = ranges.inside();
    let mut range = Range::number(0.0);
    for (monomial, number) in sum.left() {
        let factor =
            |r: Range, (atom, x): &(super::canonical::Atom, i32)| r.times(ranges.expr(&atom.expr, inside).power(*x));
        range = range.plus(monomial.iter().fold(Range::number(number), factor));
    }
    match range {
        r if r.positive() => Ok(RowSum::Positive),
        r if r.nonnegative() => Ok(RowSum::NonNegative),
        _ => Err(format!("the sum of the row of {} is not known to be >= 0", op.unknowns[row])),
    }
}

/// Whether neighbours along every axis are coupled by nonzero coefficients (in both directions, if asked).
fn connected(ranges: &Ranges, both: bool) -> Result<(), String> {
    let op = ranges.op;
    let grid = op.space.grid();
    if op.rows.len() > 1 {
        return Err("with several unknowns only positive row sums are conclusive".to_string());
    }
    for (a, axis) in grid.axes.iter().enumerate().filter(|(_, axis)| axis.size > 1) {
        let linked = |by: i32| nonzero_step(ranges, a, by);
        let enough = if both { linked(1) && linked(-1) } else { linked(1) || linked(-1) };
        if !enough {
            return Err(format!("neighbours along {} are not known to be coupled everywhere", axis.letter));
        }
    }
    Ok(())
}

fn nonzero_step(ranges: &Ranges, axis: usize, by: i32) -> bool {
    let mut shift: Shift = [0; 3];
    shift[axis] = by;
    let to = off_diagonal(ranges.op).filter(|(_, e)| e.shift == shift);
    // Couplings do not cancel: none is positive.
    to.filter_map(|(_, e)| entry_range(ranges, &e)).any(|r| r.neg().positive())
}

/// An axis with a prescribed boundary value that is coupled to.
fn held<'a>(ranges: &Ranges<'a>) -> Option<&'a str> {
    let grid = ranges.op.space.grid();
    let side = |a: usize, side: usize, by: i32| {
        matches!(ranges.op.boundary[a][side], Rule::Dirichlet(_)) && nonzero_step(ranges, a, by)
    };
    (0..grid.axes.len()).find(|&a| side(a, 0, -1) || side(a, 1, 1)).map(|a| grid.axes[a].letter.as_str())
}
