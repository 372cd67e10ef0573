//! Coefficients in canonical form: sums of products of atoms with exponents, so that equal ones compare equal.
//!
//! An atom is a table, array or parameter at a shift, or any other expression taken whole. Comparison is of real
//! arithmetic: rounding of the numbers in front (a few ulps) counts as equal.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::math::{BinaryOp, Expr, Operator, Shift};

/// Most monomials of a coefficient; beyond it nothing is proved.
const LARGEST: usize = 500;

/// Something opaque, ordered by its text.
#[derive(Debug, Clone)]
pub(super) struct Atom {
    key: String,
    /// The expression at the shift it is read at.
    pub expr: Expr,
}

impl PartialEq for Atom {
    fn eq(&self, o: &Atom) -> bool {
        self.key == o.key
    }
}

impl Eq for Atom {}

impl PartialOrd for Atom {
    fn partial_cmp(&self, o: &Atom) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl Ord for Atom {
    fn cmp(&self, o: &Atom) -> Ordering {
        self.key.cmp(&o.key)
    }
}

/// A product of atoms with exponents, ascending.
pub(super) type Monomial = Vec<(Atom, i32)>;

/// A sum of monomials.
#[derive(Debug, Clone, Default)]
pub(super) struct Poly {
    /// Number in front, and the sum of absolute values it was added up from.
    terms: BTreeMap<Monomial, (f64, f64)>,
}

impl Poly {
    fn of(monomial: Monomial, number: f64) -> Poly {
        Poly { terms: [(monomial, (number, number.abs()))].into() }
    }

    /// A coefficient read at a shift; none if it is too large.
    pub fn from(op: &Operator, e: &Expr, at: Shift) -> Option<Poly> {
        Some(match e {
            Expr::Number(v) => Poly::of(Vec::new(), *v),
            Expr::Neg(a) => Poly::from(op, a, at)?.scaled(-1.0),
            Expr::Binary(BinaryOp::Add, a, b) => Poly::from(op, a, at)?.plus(&Poly::from(op, b, at)?),
            Expr::Binary(BinaryOp::Sub, a, b) => Poly::from(op, a, at)?.plus(&Poly::from(op, b, at)?.scaled(-1.0)),
            Expr::Binary(BinaryOp::Mul, a, b) => Poly::from(op, a, at)?.times(&Poly::from(op, b, at)?)?,
            Expr::Binary(BinaryOp::Div, a, b) => Poly::from(op, a, at)?.times(&Poly::inverse(op, b, at)?)?,
            atom => Poly::of(vec![(atom_at(op, atom, at), 1)], 1.0),
        })
    }

    fn inverse(op: &Operator, e: &Expr, at: Shift) -> Option<Poly> {
        let divisor = Poly::from(op, e, at)?;
        if let Some((monomial, (number, _))) = divisor.terms.iter().next().filter(|_| divisor.terms.len() == 1) {
            return Some(Poly::of(monomial.iter().map(|(a, x)| (a.clone(), -x)).collect(), 1.0 / number));
        }
        // A sum stays whole; its canonical text makes a + b and b + a the same divisor.
        let key = divisor.terms.iter().map(|(m, (v, _))| format!("{v:?}*{:?}", keys(m))).collect::<Vec<_>>().join("+");
        Some(Poly::of(vec![(Atom { key, expr: moved(op, e, at) }, -1)], 1.0))
    }

    fn scaled(mut self, by: f64) -> Poly {
        self.terms.values_mut().for_each(|(v, size)| (*v, *size) = (*v * by, *size * by.abs()));
        self
    }

    /// Sum of two.
    pub fn plus(mut self, o: &Poly) -> Poly {
        for (monomial, (v, size)) in &o.terms {
            let entry = self.terms.entry(monomial.clone()).or_insert((0.0, 0.0));
            *entry = (entry.0 + v, entry.1 + size);
        }
        self
    }

    /// Product of two; none if it is too large.
    pub fn times(&self, o: &Poly) -> Option<Poly> {
        if self.terms.len() * o.terms.len() > LARGEST {
            return None;
        }
        let mut out = Poly::default();
        for (m, (v, s)) in &self.terms {
            for (n, (w, t)) in &o.terms {
                let entry = out.terms.entry(multiplied(m, n)).or_insert((0.0, 0.0));
                *entry = (entry.0 + v * w, entry.1 + s * t);
            }
        }
        Some(out)
    }

    /// What does not cancel: monomials with their numbers. Nothing that is not finite cancels.
    pub fn left(&self) -> impl Iterator<Item = (&Monomial, f64)> {
        let counts = |(v, size): &(f64, f64)| !size.is_finite() || v.abs() > 16.0 * f64::EPSILON * size;
        self.terms.iter().filter(move |(_, n)| counts(n)).map(|(m, (v, _))| (m, *v))
    }

    /// Whether everything cancels.
    pub fn is_zero(&self) -> bool {
        self.left().next().is_none()
    }

    /// Whether two are the same function.
    pub fn same(&self, o: &Poly) -> bool {
        self.clone().plus(&o.clone().scaled(-1.0)).is_zero()
    }

    /// The value, if it is a number.
    pub fn number(&self) -> Option<f64> {
        let mut sum = 0.0;
        for (monomial, v) in self.left() {
            if !monomial.is_empty() {
                return None;
            }
            sum += v;
        }
        Some(sum)
    }

    /// Whether any atom depends on an axis through a table's letter (arrays wrap on periodic axes, tables do not).
    pub fn varies_along(&self, op: &Operator, axis: usize) -> bool {
        let atoms = self.left().flat_map(|(m, _)| m.iter());
        let mut varies = false;
        for (atom, _) in atoms {
            each_table(&atom.expr, &mut |id| varies |= op.tables[id].axes.contains(&axis));
        }
        varies
    }
}

fn keys(m: &Monomial) -> Vec<(&str, i32)> {
    m.iter().map(|(a, x)| (a.key.as_str(), *x)).collect()
}

fn multiplied(a: &Monomial, b: &Monomial) -> Monomial {
    let mut powers: BTreeMap<Atom, i32> = BTreeMap::new();
    for (atom, x) in a.iter().chain(b) {
        *powers.entry(atom.clone()).or_insert(0) += x;
    }
    powers.into_iter().filter(|(_, x)| *x != 0).collect()
}

fn atom_at(op: &Operator, e: &Expr, at: Shift) -> Atom {
    let expr = moved(op, e, at);
    Atom { key: format!("{expr:?}"), expr }
}

/// The expression with every reading moved; shifts along axes a table or array does not have are dropped.
fn moved(op: &Operator, e: &Expr, at: Shift) -> Expr {
    let sub = |e: &Expr| Box::new(moved(op, e, at));
    let along = |s: &Shift, axes: &[usize]| [0, 1, 2].map(|a| if axes.contains(&a) { s[a] + at[a] } else { 0 });
    match e {
        Expr::Table(id, s) => Expr::Table(*id, along(s, &op.tables[*id].axes)),
        Expr::Data(id, s) => Expr::Data(*id, along(s, &op.data[*id].axes)),
        Expr::Neg(a) => Expr::Neg(sub(a)),
        Expr::Binary(o, a, b) => Expr::Binary(*o, sub(a), sub(b)),
        Expr::Call(f, args) => Expr::Call(*f, args.iter().map(|a| moved(op, a, at)).collect()),
        Expr::Select(c, a, b) => Expr::Select(sub(c), sub(a), sub(b)),
        Expr::Compare(o, a, b) => Expr::Compare(*o, sub(a), sub(b)),
        other => other.clone(),
    }
}

fn each_table(e: &Expr, f: &mut impl FnMut(usize)) {
    match e {
        Expr::Table(id, _) => f(*id),
        Expr::Neg(a) => each_table(a, f),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
            each_table(a, f);
            each_table(b, f);
        }
        Expr::Call(_, args) => args.iter().for_each(|a| each_table(a, f)),
        Expr::Select(c, a, b) => {
            each_table(c, f);
            each_table(a, f);
            each_table(b, f);
        }
        _ => {}
    }
}
