//! Which couplings of a row stay at the point, or on its line, and with what factor.
//!
//! A row is a sum of terms c * (u[plus] - u[minus]) (see [`math::Term`]). Each end lands somewhere by the boundary rule:
//! at the point, on its line, or elsewhere, where it is dropped. A difference with both ends on the line adds exactly
//! nothing to the sum of the line's row; that sum, the *excess*, is built here without ever forming a diagonal.

use std::collections::BTreeMap;

use super::MapError;
use super::eval::Eval;
use super::factors::{Gathered, Product};
use super::fold;
use super::images::{Piece, Place, images};
use super::position::{Coord, Position, side};
use crate::couplings::terms;
use crate::kernel::Expr;
use crate::loops::ValueId;
use crate::math::{Shift, Term};

/// Where an end of a term lands in the row's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// So many points further (the point itself: 0).
    Band(i64),
    /// At a border unknown of a closed line, by number.
    Border(i64),
}

/// What is left of a row: entries beside the diagonal, and the sum of all.
#[derive(Debug, Clone, Default)]
pub(super) struct LineRow {
    /// Entries beside the diagonal, where they are not zero for sure.
    pub(super) entries: BTreeMap<Target, Expr>,
    /// Sum of the row, diagonal included.
    pub(super) excess: Option<Expr>,
}

/// A row while its terms are added up.
#[derive(Default)]
struct Parts {
    entries: BTreeMap<Target, Gathered>,
    excess: Gathered,
}

/// A line: its axis, and how many of its last points are border unknowns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) axis: usize,
    pub(super) border: i64,
}

/// A range of positions along an axis on which an end lands in one way.
#[derive(Debug, Clone)]
struct Segment {
    range: (i64, i64),
    /// None: not at the point (or not on the line).
    target: Option<Target>,
    sign: i64,
}

/// An integer that depends on the position.
#[derive(Debug, Clone, PartialEq)]
enum Factor {
    Same(i64),
    /// Along an axis, by ranges in ascending order.
    By(usize, Vec<((i64, i64), Factor)>),
}

impl Factor {
    /// Whether it changes along an axis.
    fn is_by(&self, axis: usize) -> bool {
        match self {
            Factor::Same(_) => false,
            Factor::By(a, parts) => *a == axis || parts.iter().any(|p| p.1.is_by(axis)),
        }
    }
}

/// An end followed along the axes: its target and sign so far.
type Trace = Option<(Option<Target>, i64)>;

/// What is made of the ends that stay.
type Leaf<'l> = &'l dyn Fn(&[(Option<Target>, i64)]) -> i64;

impl Eval<'_, '_> {
    /// A value divided by the diagonal.
    pub(super) fn over_diagonal(&mut self, x: ValueId, c: usize, at: &Position) -> Result<Expr, MapError> {
        if self.cx.operator().space.rows().is_some() {
            return self.over_stored_diagonal(x, at);
        }
        let row = self.landed(c, at, None)?;
        let zero = fold::real(0.0, self.cx.real);
        let diagonal = row.excess.unwrap_or_else(|| zero.clone());
        let diagonal = self.b.bind("diagonal", diagonal);
        let value = self.value(x, c, at)?;
        let quotient = fold::div(value, diagonal);
        Ok(match self.active(at)? {
            Some(active) => fold::select(active, quotient, zero),
            None => quotient,
        })
    }

    /// The couplings of a row of component `c` that stay on the line, or at the point without one.
    pub(super) fn landed(&mut self, c: usize, at: &Position, line: Option<Line>) -> Result<LineRow, MapError> {
        let mut parts = Parts::default();
        let before = self.ambient.take();
        for term in &terms(self.cx.operator(), c) {
            self.land_term(&mut parts, term, c, at, line)?;
        }
        self.ambient = before;
        let mut row = LineRow { excess: parts.excess.total(self, "across"), ..LineRow::default() };
        for (target, entry) in parts.entries {
            row.entries.extend(entry.total(self, "across").map(|e| (target, e)));
        }
        Ok(row)
    }

    /// Makes the row of a point that takes no part the identity.
    pub(super) fn mask_row(&mut self, row: &mut LineRow, here: &Position) -> Result<(), MapError> {
        let Some(active) = self.active(here)? else {
            return Ok(());
        };
        let real = self.cx.real;
        for entry in row.entries.values_mut() {
            *entry = fold::select(active.clone(), entry.clone(), fold::real(0.0, real));
        }
        let excess = row.excess.take().unwrap_or(fold::real(0.0, real));
        row.excess = Some(fold::select(active, excess, fold::real(1.0, real)));
        Ok(())
    }

    /// Adds a term's contributions.
    fn land_term(
        &mut self,
        row: &mut Parts,
        term: &Term,
        c: usize,
        at: &Position,
        line: Option<Line>,
    ) -> Result<(), MapError> {
        let place = match term.flux {
            Some((f, shift)) => self.face(f, shift, at),
            None => Some(at.clone()),
        };
        let Some(place) = place else {
            return Ok(());
        };
        let start = term.flux.map_or([0; 3], |f| f.1);
        // Ranges that hold where the term does not vanish.
        let region: Vec<Coord> = at
            .coords
            .iter()
            .zip(&place.coords)
            .map(
                |(own, there)| {
                    if own.var == there.var { Coord { range: there.range, ..own.clone() } } else { own.clone() }
                },
            )
            .collect();
        let ends = [Some((term.plus, 1)), term.minus.map(|m| (m, -1))];
        let mut segments: Vec<(Vec<Vec<Segment>>, i64)> = Vec::new();
        for ((component, shift), sign) in ends.into_iter().flatten() {
            if component == c
                && let Some(found) = self.segments(&region, add(start, shift), line)
            {
                segments.push((found, sign));
            }
        }
        if segments.is_empty() {
            return Ok(());
        }
        let coefficient = self.term_coefficient(term, &place, at, line)?;
        let excess = factor(&region, &segments, &|targets| targets.iter().map(|t| t.1).sum());
        if let Some(e) = self.scaled_by(&excess, &coefficient, &region, line) {
            row.excess.add(e);
        }
        let mut targets: Vec<Target> = segments
            .iter()
            .flat_map(|(axes, _)| axes.iter().flatten())
            .filter_map(|s| s.target)
            .filter(|t| *t != Target::Band(0))
            .collect();
        targets.sort_unstable();
        targets.dedup();
        for target in targets {
            let entry =
                factor(&region, &segments, &|found| found.iter().filter(|t| t.0 == Some(target)).map(|t| t.1).sum());
            if let Some(e) = self.scaled_by(&entry, &coefficient, &region, line) {
                row.entries.entry(target).or_default().add(e);
            }
        }
        Ok(())
    }

    /// The coefficient of a term at its place, zero where the term vanishes, times its outer factor.
    fn term_coefficient(
        &mut self,
        term: &Term,
        place: &Position,
        at: &Position,
        line: Option<Line>,
    ) -> Result<Product, MapError> {
        let mut list = vec![(&term.coefficient, place)];
        list.extend(term.outer.iter().map(|outer| (outer, at)));
        let guard = term.flux.and(place.guard);
        let name = match term.flux {
            Some((f, shift)) => format!("coupling_{}", self.face_name(f, shift)),
            None => "coupling".to_string(),
        };
        let zero = || fold::real(0.0, self.cx.real);
        if let Some(line) = line
            && let Some(mut product) = self.product(&list, line.axis, guard.is_some())?
        {
            let ends = term.flux.is_some_and(|(f, _)| self.cx.operator().fluxes[f].axis == line.axis);
            match (guard, &mut product.along) {
                // At the ends of the line the guard changes along it.
                (Some(g), Some(along)) if ends => *along = fold::select(fold::var(g), along.clone(), zero()),
                (Some(g), _) => product.rest = fold::select(fold::var(g), product.rest, zero()),
                (None, _) => {}
            }
            let along = product.along.map(|e| self.b.bind(&format!("{name}_along"), e));
            return Ok(Product { along, rest: self.b.bind(&name, product.rest) });
        }
        let mut value = self.coefficient(&term.coefficient, place)?;
        if let Some(outer) = &term.outer {
            let outer = self.coefficient(outer, at)?;
            value = fold::mul(outer, value);
        }
        if let Some(g) = guard {
            value = fold::select(fold::var(g), value, fold::real(0.0, self.cx.real));
        }
        Ok(Product { along: None, rest: self.b.bind(&name, value) })
    }

    /// A coefficient times a factor by position.
    fn scaled_by(
        &mut self,
        factor: &Factor,
        coefficient: &Product,
        region: &[Coord],
        line: Option<Line>,
    ) -> Option<Product> {
        let Product { along, rest } = coefficient.clone();
        let ends = line.is_some_and(|l| factor.is_by(l.axis));
        match along {
            Some(along) if ends => self.times(factor, &along, region).map(|e| Product { along: Some(e), rest }),
            along => self.times(factor, &rest, region).map(|rest| Product { along, rest }),
        }
    }

    /// Landing of an end along every axis; none if it never stays.
    fn segments(&self, region: &[Coord], shift: Shift, line: Option<Line>) -> Option<Vec<Vec<Segment>>> {
        let mut out = Vec::new();
        for (axis, coord) in region.iter().enumerate() {
            let pieces = images(side(self.cx, axis), coord.off + i64::from(shift[axis]), coord.range);
            let along = line.filter(|l| l.axis == axis);
            let n = self.cx.size(axis) as i64;
            let segments: Vec<Segment> = pieces
                .iter()
                .flat_map(|p| match along {
                    Some(line) => on_line(p, n - line.border),
                    None => at_point(p, coord.off),
                })
                .collect();
            if segments.iter().all(|s| s.target.is_none() || s.sign == 0) {
                return None;
            }
            out.push(segments);
        }
        Some(out)
    }

    /// A factor times a coefficient; none where it is zero for sure.
    fn times(&mut self, factor: &Factor, coefficient: &Expr, region: &[Coord]) -> Option<Expr> {
        match factor {
            Factor::Same(0) => None,
            Factor::Same(x) => Some(fold::mul(fold::real(*x as f64, self.cx.real), coefficient.clone())),
            Factor::By(axis, parts) => {
                let coord = region[*axis].clone();
                let zero = || fold::real(0.0, self.cx.real);
                let mut chosen: Option<Expr> = None;
                for (range, part) in parts {
                    let value = self.times(part, coefficient, region).unwrap_or_else(zero);
                    chosen = Some(match chosen {
                        None => value,
                        Some(before) => {
                            let cond = self.frame.within(self.cx, &mut self.b, *axis, &coord, (range.0, coord.range.1));
                            fold::select(cond, value, before)
                        }
                    });
                }
                chosen
            }
        }
    }
}

/// Segments of a piece along an axis on which only the point itself, x + off, counts.
fn at_point(piece: &Piece, off: i64) -> Vec<Segment> {
    let whole = |target| vec![Segment { range: piece.range, target, sign: piece.sign }];
    match piece.place {
        Some(Place::Shifted(d)) if d == off => whole(Some(Target::Band(0))),
        Some(Place::Mirrored(s))
            if (s - off) % 2 == 0 && (piece.range.0..=piece.range.1).contains(&((s - off) / 2)) =>
        {
            let x = (s - off) / 2;
            let part = |range: (i64, i64), target| Segment { range, target, sign: piece.sign };
            [
                part((piece.range.0, x - 1), None),
                part((x, x), Some(Target::Band(0))),
                part((x + 1, piece.range.1), None),
            ]
            .into_iter()
            .filter(|s| s.range.0 <= s.range.1)
            .collect()
        }
        _ => whole(None),
    }
}

/// Segments of a piece along the line; unknowns from `inner` on are border unknowns.
fn on_line(piece: &Piece, inner: i64) -> Vec<Segment> {
    let sign = piece.sign;
    let one = |x: i64, lands: i64| {
        let target = if lands >= inner { Target::Border(lands - inner) } else { Target::Band(lands - x) };
        Segment { range: (x, x), target: Some(target), sign }
    };
    match piece.place {
        None => vec![Segment { range: piece.range, target: None, sign: 0 }],
        Some(Place::Mirrored(s)) => (piece.range.0..=piece.range.1).map(|x| one(x, s - x)).collect(),
        Some(Place::Shifted(d)) => {
            let last = piece.range.1.min(inner - 1 - d);
            let mut out = Vec::new();
            if piece.range.0 <= last {
                out.push(Segment { range: (piece.range.0, last), target: Some(Target::Band(d)), sign });
            }
            out.extend((piece.range.0.max(last + 1)..=piece.range.1).map(|x| one(x, x + d)));
            out
        }
    }
}

/// What `leaf` makes of the ends that stay, as a factor by position. It gets (target, signed factor) of each.
fn factor(region: &[Coord], ends: &[(Vec<Vec<Segment>>, i64)], leaf: Leaf) -> Factor {
    let traces: Vec<Trace> = ends.iter().map(|(_, sign)| Some((None, *sign))).collect();
    follow(region, ends, 0, &traces, leaf)
}

fn follow(region: &[Coord], ends: &[(Vec<Vec<Segment>>, i64)], axis: usize, traces: &[Trace], leaf: Leaf) -> Factor {
    if axis == region.len() {
        let staying: Vec<(Option<Target>, i64)> = traces.iter().flatten().copied().collect();
        return Factor::Same(leaf(&staying));
    }
    let (first, last) = region[axis].range;
    let mut parts: Vec<((i64, i64), Factor)> = Vec::new();
    let mut from = first;
    while from <= last {
        let mut to = last;
        let mut next: Vec<Trace> = Vec::new();
        for ((segments, _), trace) in ends.iter().zip(traces) {
            let here = segments[axis].iter().find(|s| s.range.0 <= from && from <= s.range.1);
            next.push(match (here, trace) {
                (Some(s), Some((target, sign))) => {
                    to = to.min(s.range.1);
                    let joined = if s.target == Some(Target::Band(0)) { *target } else { s.target.or(*target) };
                    s.target.map(|_| (joined, sign * s.sign))
                }
                _ => None,
            });
        }
        let value = follow(region, ends, axis + 1, &next, leaf);
        match parts.last_mut() {
            Some((range, before)) if *before == value => range.1 = to,
            _ => parts.push(((from, to), value)),
        }
        from = to + 1;
    }
    if parts.len() == 1 { parts.swap_remove(0).1 } else { Factor::By(axis, parts) }
}

/// Shifts added.
fn add(a: Shift, b: Shift) -> Shift {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}
