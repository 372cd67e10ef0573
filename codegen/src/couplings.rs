//! Rows as sums of couplings: for preconditioners, facts and counting.
//!
//! [`terms`] distributes products over sums of unknowns and opens fluxes, but keeps differences: `c * (u[a] - u[b])`
//! is one [`Term`]. [`entries`] takes terms apart into single matrix entries.
//!
//! # Which couplings a line or a diagonal has
//! By definition the entries of the matrix between points of one line (or of one point), same component. Seen from
//! a term, that is every entry whose shift vanishes on the other axes, and every entry that the boundary may fold back
//! into the line: a mirrored neighbour of a boundary point may be the point itself, and a cyclic axis of one point has
//! only itself as neighbour. [`line_entries`] gives both kinds; whether an entry of the second kind falls into the
//! line is decided point by point, by resolving its position.

use crate::math::{BinaryOp, Expr, Operator, Rule, Shift, Term};
use crate::math_eval::reads_unknown;

/// The terms of one row, in the order they are written.
pub fn terms(op: &Operator, row: usize) -> Vec<Term> {
    let mut walk = Walk { op, out: Vec::new() };
    walk.expr(&op.rows[row].value, &Place { flux: None, outer: None, factor: Expr::Number(1.0) });
    walk.out
}

/// One matrix entry of a term: `outer * coefficient * u[component][point + shift]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Flux the entry belongs to and its shift from the row; see [`Term`].
    pub flux: Option<(usize, Shift)>,
    /// Factor at the row's position.
    pub outer: Option<Expr>,
    /// Factor at the flux's position, or at the row's without a flux; signs included.
    pub coefficient: Expr,
    /// Component coupled to.
    pub component: usize,
    /// Shift from the row, that of the flux included (as if no axis wrapped).
    pub shift: Shift,
    /// Part of a difference: it has a partner of opposite sign.
    pub difference: bool,
}

/// Terms taken apart: plus, then minus.
pub fn entries(terms: &[Term]) -> Vec<Entry> {
    let mut out = Vec::new();
    for term in terms {
        let at = term.flux.map_or([0; 3], |(_, s)| s);
        let mut push = |(component, shift): (usize, Shift), coefficient: Expr| {
            out.push(Entry {
                flux: term.flux,
                outer: term.outer.clone(),
                coefficient,
                component,
                shift: add(at, shift),
                difference: term.minus.is_some(),
            });
        };
        push(term.plus, term.coefficient.clone());
        if let Some(minus) = term.minus {
            push(minus, negated(term.coefficient.clone()));
        }
    }
    out
}

/// All (component, shift) a row couples to, its own point included if it does, ascending.
pub fn offsets(op: &Operator, row: usize) -> Vec<(usize, Shift)> {
    let mut out: Vec<(usize, Shift)> = entries(&terms(op, row)).into_iter().map(|e| (e.component, e.shift)).collect();
    out.sort_unstable();
    out.dedup();
    out
}

/// How far the operator reads along each axis, over all rows and components.
pub fn reach(op: &Operator) -> [u32; 3] {
    let all = (0..op.rows.len()).flat_map(|r| offsets(op, r));
    all.fold([0; 3], |most, (_, s)| [0, 1, 2].map(|a| most[a].max(s[a].unsigned_abs())))
}

/// Half bandwidth of the lines along an axis: the largest distance of two coupled points of a line, same component.
///
/// Folding at a boundary never makes a coupling longer. On a periodic axis the band is cyclic.
pub fn bandwidth(op: &Operator, axis: usize) -> u32 {
    let rows = (0..op.rows.len()).flat_map(|r| line_entries(op, r, axis));
    rows.map(|e| e.shift[axis].unsigned_abs()).max().unwrap_or(0)
}

/// Entries of a row that are, or at a boundary may become, couplings within a line along `axis`, same component.
pub fn line_entries(op: &Operator, row: usize, axis: usize) -> Vec<Entry> {
    within(op, row, |a| a == axis)
}

/// Entries of a row that are, or at a boundary may become, its diagonal.
pub fn diagonal_entries(op: &Operator, row: usize) -> Vec<Entry> {
    within(op, row, |_| false)
}

fn within(op: &Operator, row: usize, free: impl Fn(usize) -> bool) -> Vec<Entry> {
    let stays = |e: &Entry| (0..3).all(|a| free(a) || e.shift[a] == 0 || folds_back(op, a, e.shift[a]));
    let own = entries(&terms(op, row)).into_iter().filter(|e| e.component == row);
    own.filter(stays).collect()
}

/// Whether some point's neighbour at a distance along an axis is the point itself.
fn folds_back(op: &Operator, axis: usize, distance: i32) -> bool {
    let grid = op.space.grid();
    let n = grid.axes[axis].size as i64;
    let d = i64::from(distance);
    let rules = &op.boundary[axis];
    // Only points within |d| of a boundary read outside.
    let points = (0..d.abs().min(n)).chain((n - d.abs()).max(0)..n);
    points
        .map(|x| (x, crate::resolve::unknown(rules, grid.centring, x + d, n as u64)))
        .any(|(x, reading)| reading.index == Some(x as u64))
}

/// Whether lines along an axis close.
pub fn is_cyclic(op: &Operator, axis: usize) -> bool {
    op.boundary[axis][0] == Rule::Periodic
}

/// Where a subexpression stands: in which flux, times what.
#[derive(Clone)]
struct Place {
    flux: Option<(usize, Shift)>,
    outer: Option<Expr>,
    factor: Expr,
}

impl Place {
    fn times(&self, c: &Expr) -> Place {
        Place { factor: product(self.factor.clone(), c.clone()), ..self.clone() }
    }

    fn negated(&self) -> Place {
        Place { factor: negated(self.factor.clone()), ..self.clone() }
    }
}

/// A summand: sign, coefficient, and what it multiplies.
struct Summand<'e> {
    negative: bool,
    coefficient: Expr,
    base: &'e Expr,
}

struct Walk<'a> {
    op: &'a Operator,
    out: Vec<Term>,
}

impl Walk<'_> {
    fn expr(&mut self, e: &Expr, place: &Place) {
        let mut summands = Vec::new();
        flatten(e, false, Expr::Number(1.0), &mut summands);
        let mut done = vec![false; summands.len()];
        for n in 0..summands.len() {
            if done[n] {
                continue;
            }
            let s = &summands[n];
            let partner = (n + 1..summands.len()).find(|&m| !done[m] && is_partner(s, &summands[m]));
            match (partner, s.base) {
                (Some(m), Expr::Unknown(..)) => {
                    done[m] = true;
                    let (plus, minus) = if s.negative { (m, n) } else { (n, m) };
                    let place = place.times(&summands[plus].coefficient);
                    self.push(&place, summands[plus].base, Some(summands[minus].base));
                }
                _ => self.summand(s, place),
            }
        }
    }

    fn summand(&mut self, s: &Summand, place: &Place) {
        let mut place = place.times(&s.coefficient);
        if s.negative {
            place = place.negated();
        }
        match s.base {
            Expr::Unknown(..) => self.push(&place, s.base, None),
            Expr::Flux(id, shift) => {
                let outer = Some(place.factor).filter(|f| *f != Expr::Number(1.0));
                let inner = Place { flux: Some((*id, *shift)), outer, factor: Expr::Number(1.0) };
                self.expr(&self.op.fluxes[*id].value, &inner);
            }
            Expr::Select(c, a, b) => {
                let zero = || Box::new(Expr::Number(0.0));
                let factor = || Box::new(place.factor.clone());
                let chosen = Expr::Select(c.clone(), factor(), zero());
                let other = Expr::Select(c.clone(), zero(), factor());
                self.expr(a, &Place { factor: chosen, ..place.clone() });
                self.expr(b, &Place { factor: other, ..place.clone() });
            }
            // A sum under a factor: distributed.
            sum => self.expr(sum, &place),
        }
    }

    fn push(&mut self, place: &Place, plus: &Expr, minus: Option<&Expr>) {
        let unknown = |e: &Expr| match e {
            Expr::Unknown(c, s) => (*c, *s),
            _ => unreachable!("terms end in unknowns"),
        };
        self.out.push(Term {
            flux: place.flux,
            outer: place.outer.clone(),
            coefficient: place.factor.clone(),
            plus: unknown(plus),
            minus: minus.map(unknown),
        });
    }
}

/// Summands of a sum; products of one unknown factor keep their coefficient apart.
fn flatten<'e>(e: &'e Expr, negative: bool, coefficient: Expr, out: &mut Vec<Summand<'e>>) {
    match e {
        // A term without unknown belongs to the affine part: it couples nothing.
        _ if !reads_unknown(e) => {}
        Expr::Neg(a) => flatten(a, !negative, coefficient, out),
        Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) if coefficient == Expr::Number(1.0) => {
            flatten(a, negative, Expr::Number(1.0), out);
            flatten(b, negative != (*op == BinaryOp::Sub), Expr::Number(1.0), out);
        }
        Expr::Binary(BinaryOp::Mul, a, b) if reads_unknown(b) => {
            flatten(b, negative, product(coefficient, (**a).clone()), out);
        }
        Expr::Binary(BinaryOp::Mul, a, b) => flatten(a, negative, product(coefficient, (**b).clone()), out),
        Expr::Binary(BinaryOp::Div, a, b) => flatten(a, negative, quotient(coefficient, (**b).clone()), out),
        base => out.push(Summand { negative, coefficient, base }),
    }
}

fn is_partner(a: &Summand, b: &Summand) -> bool {
    let unknowns = matches!((a.base, b.base), (Expr::Unknown(..), Expr::Unknown(..)));
    unknowns && a.negative != b.negative && a.coefficient == b.coefficient
}

fn product(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Number(x), Expr::Number(y)) => Expr::Number(x * y),
        (Expr::Number(1.0), c) | (c, Expr::Number(1.0)) => c,
        (Expr::Number(-1.0), c) | (c, Expr::Number(-1.0)) => negated(c),
        (Expr::Neg(a), b) => negated(product(*a, b)),
        (a, Expr::Neg(b)) => negated(product(a, *b)),
        (a, b) => Expr::Binary(BinaryOp::Mul, Box::new(a), Box::new(b)),
    }
}

fn quotient(a: Expr, b: Expr) -> Expr {
    match (a, b) {
        (Expr::Number(x), Expr::Number(y)) => Expr::Number(x / y),
        (a, b) => Expr::Binary(BinaryOp::Div, Box::new(a), Box::new(b)),
    }
}

fn negated(e: Expr) -> Expr {
    match e {
        Expr::Number(v) => Expr::Number(-v),
        Expr::Neg(a) => *a,
        other => Expr::Neg(Box::new(other)),
    }
}

fn add(a: Shift, b: Shift) -> Shift {
    [0, 1, 2].map(|x| a[x] + b[x])
}
