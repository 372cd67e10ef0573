//! A = Aᵀ from the couplings.
//!
//! Away from boundaries, row x couples to x + o with a coefficient c_o(x), a sum over all terms; symmetric means
//! c_o(x) = c_{-o}(x + o), for every offset and pair of components, as functions of x. That is decided on canonical
//! forms. A flux that appears as s*(X(0) - X(-1)) with X = c*(u[+1] - u) passes because both neighbours read the same
//! face.
//!
//! At boundaries the identity carries over when
//! - nothing is folded onto another point: node values prescribed outside are dropped; a neighbour one step outside a
//!   mirror is the point itself, so couplings that cross it reach one step along that axis and nowhere else;
//! - around a periodic axis, both points of a coupling read the same coefficients: a flux along the axis is evaluated
//!   at the wrapped face; everything else must not depend on the letter of that axis through a table.

use std::collections::BTreeMap;

use crate::couplings::{Entry, entries, terms};
use crate::math::{Centring, Operator, Rule, Shift};

use super::canonical::Poly;

/// What can be said about symmetry without values.
pub(super) enum Symmetry {
    /// Proved, and how.
    Proved(String),
    /// Refuted: constant coefficients differ.
    Refuted(String),
    /// Not decided, and why.
    Open(String),
}

type Key = (usize, usize, Shift);

/// Decides symmetry from the operator alone.
pub(super) fn symmetric(op: &Operator) -> Symmetry {
    let mut couplings: BTreeMap<Key, Poly> = BTreeMap::new();
    let mut all: Vec<(usize, Entry)> = Vec::new();
    for row in 0..op.rows.len() {
        for entry in entries(&terms(op, row)) {
            let Some(c) = coefficient(op, &entry, [0; 3]) else {
                return Symmetry::Open("the coefficients are too large to compare".to_string());
            };
            let key = (row, entry.component, entry.shift);
            let sum = couplings.remove(&key).unwrap_or_default().plus(&c);
            couplings.insert(key, sum);
            all.push((row, entry));
        }
    }
    if let Some(open) = interior(op, &couplings) {
        return open;
    }
    for (row, entry) in &all {
        if let Some(why) = boundary_trouble(op, *row, entry) {
            return Symmetry::Open(why);
        }
    }
    Symmetry::Proved(argument(op, &all))
}

/// The coefficient of an entry as a function of the position `by` before the row's.
pub(super) fn coefficient(op: &Operator, e: &Entry, by: Shift) -> Option<Poly> {
    let at = e.flux.map_or([0; 3], |(_, s)| s);
    let inner = Poly::from(op, &e.coefficient, [0, 1, 2].map(|a| at[a] + by[a]))?;
    match &e.outer {
        Some(outer) => Poly::from(op, outer, by)?.times(&inner),
        None => Some(inner),
    }
}

fn interior(op: &Operator, couplings: &BTreeMap<Key, Poly>) -> Option<Symmetry> {
    for ((row, component, shift), c) in couplings {
        let back = shift.map(|s| -s);
        // c_{-o} is a function of its own row's position, which lies at +o.
        let Some(partner) = coupling(op, (*component, *row, back), *shift) else {
            return Some(Symmetry::Open("the coefficients are too large to compare".to_string()));
        };
        if c.same(&partner) {
            continue;
        }
        let (here, there) = (place(op, *row, [0; 3]), place(op, *component, *shift));
        if let (Some(a), Some(b)) = (c.number(), partner.number())
            && has_interior(op, *shift)
        {
            if !a.is_finite() || !b.is_finite() {
                return Some(Symmetry::Refuted(format!(
                    "row {here} couples to {there} with a number that is not finite"
                )));
            }
            return Some(Symmetry::Refuted(format!(
                "row {here} couples to {there} with {a}, but row {there} couples to {here} with {b}"
            )));
        }
        return Some(Symmetry::Open(format!(
            "the coefficients that couple {here} to {there} and back are not the same expression"
        )));
    }
    None
}

/// A coupling as a function of the position `by` before its row's.
fn coupling(op: &Operator, (row, component, shift): Key, by: Shift) -> Option<Poly> {
    let mut sum = Poly::default();
    for e in entries(&terms(op, row)).iter().filter(|e| e.component == component && e.shift == shift) {
        sum = sum.plus(&coefficient(op, e, by)?);
    }
    Some(sum)
}

/// Whether some pair of points at that distance is so far inside that nothing folds onto it.
fn has_interior(op: &Operator, shift: Shift) -> bool {
    let grid = op.space.grid();
    let reach = crate::couplings::reach(op);
    op.mask.is_none()
        && grid
            .axes
            .iter()
            .enumerate()
            .all(|(a, axis)| axis.size > 2 * u64::from(reach[a]) + u64::from(shift[a].unsigned_abs()))
}

fn boundary_trouble(op: &Operator, row: usize, e: &Entry) -> Option<String> {
    let grid = op.space.grid();
    if e.shift == [0; 3] && e.component == row {
        return None;
    }
    for (a, axis) in grid.axes.iter().enumerate() {
        let along = e.flux.is_some_and(|(id, _)| op.fluxes[id].axis == a);
        if e.shift[a] == 0 && !along {
            continue;
        }
        let alone = (0..3).all(|b| b == a || e.shift[b] == 0) && e.shift[a].abs() == 1;
        let two_point = along && alone && face_is_own(e, a);
        let trouble = match (&op.boundary[a], grid.centring) {
            ([Rule::Periodic, _], _) => wraps_differently(op, e, a, two_point),
            (rules, Centring::Nodes) if rules.iter().all(|r| matches!(r, Rule::Dirichlet(_))) => false,
            _ => e.component != row || !alone || (along && !two_point),
        };
        if trouble {
            let to = place(op, e.component, e.shift);
            return Some(format!(
                "the coupling to {to} meets the boundary of {} in a way only a test decides",
                axis.letter
            ));
        }
    }
    None
}

/// The flux is read on one of the row's two faces along the axis, and there only.
fn face_is_own(e: &Entry, axis: usize) -> bool {
    e.flux.is_some_and(|(_, s)| (0..3).all(|b| if b == axis { s[b] == 0 || s[b] == -1 } else { s[b] == 0 }))
}

/// Whether going round a periodic axis may change what the coefficient reads. A face is the same face for both its
/// neighbours; what the row multiplies its flux by is not.
fn wraps_differently(op: &Operator, e: &Entry, axis: usize, two_point: bool) -> bool {
    let varies = |e: &Entry| coefficient(op, e, [0; 3]).is_none_or(|c| c.varies_along(op, axis));
    match &e.outer {
        _ if !two_point => varies(e),
        Some(outer) => varies(&Entry { coefficient: outer.clone(), flux: None, outer: None, ..e.clone() }),
        None => false,
    }
}

/// `u[i+1]`, or `v` at the row's point.
pub(super) fn place(op: &Operator, component: usize, shift: Shift) -> String {
    crate::math_text::Names::of(op).at(&op.unknowns[component], shift)
}

fn argument(op: &Operator, all: &[(usize, Entry)]) -> String {
    let mut parts = Vec::new();
    let off = |e: &&(usize, Entry)| e.1.shift != [0; 3] || e.1.component != e.0;
    let mut fluxes: Vec<usize> = all.iter().filter(off).filter_map(|(_, e)| e.flux.map(|f| f.0)).collect();
    fluxes.sort_unstable();
    fluxes.dedup();
    if !fluxes.is_empty() {
        let names: Vec<&str> = fluxes.iter().map(|&f| op.fluxes[f].name.as_str()).collect();
        parts.push(format!("both neighbours of a face read the same {}", names.join(", ")));
    }
    if all.iter().filter(off).any(|(_, e)| e.flux.is_none()) {
        parts.push("every coupling has the same coefficient seen from either end".to_string());
    }
    if parts.is_empty() {
        parts.push("there are no couplings between points".to_string());
    }
    parts.push("and boundaries keep it".to_string());
    parts.join("; ")
}
