//! Coefficients as products of what changes along a line and what does not.
//!
//! A row of a line adds up couplings whose coefficients often share their factor along the line: in
//! `thickness[k]*edge_x[i,j]` and its three sisters the level counts once. Written as
//! `thickness * (edge + edge + edge + edge)` the bracket is known once a line. Signs are kept, so for an M-matrix the
//! bracket is a sum of numbers of one sign.

use super::MapError;
use super::eval::Eval;
use super::fold;
use super::position::Position;
use crate::couplings::terms;
use crate::kernel::{Expr, VarId};
use crate::math::{self, BinaryOp, Operator};

/// A coefficient: the factor that changes along the line, if any, and the rest.
#[derive(Debug, Clone)]
pub(super) struct Product {
    pub(super) along: Option<Expr>,
    pub(super) rest: Expr,
}

/// A sum of products, those with the same factor along the line gathered.
#[derive(Debug, Clone, Default)]
pub(super) struct Gathered(Vec<Product>);

impl Gathered {
    /// Adds a product.
    pub(super) fn add(&mut self, product: Product) {
        match self.0.iter_mut().find(|p| p.along == product.along) {
            Some(same) => same.rest = fold::add(same.rest.clone(), product.rest),
            None => self.0.push(product),
        }
    }

    /// The sum; none if it is empty.
    pub(super) fn total(self, eval: &mut Eval, name: &str) -> Option<Expr> {
        let mut total = None;
        for Product { along, rest } in self.0 {
            let part = match along {
                Some(along) => fold::mul(along, eval.b.bind(name, rest)),
                None => rest,
            };
            total = super::builder::plus(total, Some(part));
        }
        total
    }
}

/// Factors of a product with the place where each is read; the second of a pair says that it divides.
type Factors<'e> = Vec<(&'e math::Expr, bool, &'e Position)>;

impl Eval<'_, '_> {
    /// A product of coefficients, each read at its own place, split along an axis.
    ///
    /// With `guarded`, only where that is safe: a quotient or function of what reads as zero because a guard fails could
    /// be infinite, and times zero not a number.
    pub(super) fn product(
        &mut self,
        of: &[(&math::Expr, &Position)],
        axis: usize,
        guarded: bool,
    ) -> Result<Option<Product>, MapError> {
        let mut list = Factors::new();
        let mut negative = false;
        for &(e, at) in of {
            negative ^= factors(e, false, at, &mut list);
        }
        if guarded && list.iter().any(|f| f.1 || !is_plain(f.0)) {
            return Ok(None);
        }
        let op = self.cx.operator();
        let (along, rest): (Factors, Factors) = list.into_iter().partition(|f| depends(op, f.0, axis));
        let along = self.multiplied(&along, &|_| None)?;
        let rest = self.multiplied(&rest, &|_| None)?.unwrap_or(fold::real(1.0, self.cx.real));
        Ok(Some(Product { along, rest: if negative { fold::neg(rest) } else { rest } }))
    }

    /// A coefficient of a flux along an axis, zero where a guard fails: by zeros in the factors that change along the
    /// axis, or else in the one that changes along fewest. Such a factor is often the same for a whole walk, and is then
    /// chosen once. Factors that do not change along the axis are what they are inside, so no infinity meets the zero.
    pub(super) fn masked(
        &mut self,
        e: &math::Expr,
        at: &Position,
        guard: VarId,
        axis: usize,
    ) -> Result<Expr, MapError> {
        let op = self.cx.operator();
        let mut list = Factors::new();
        let negative = factors(e, false, at, &mut list);
        let changes = |e: &math::Expr| depends(op, e, axis);
        let zero = fold::real(0.0, self.cx.real);
        let breadth = |e: &math::Expr| (0..self.cx.dims()).filter(|&axis| depends(op, e, axis)).count();
        let narrowest = (0..list.len()).filter(|&n| !list[n].1).min_by_key(|&n| breadth(list[n].0));
        let risky = list.iter().any(|f| changes(f.0) && (f.1 || !is_plain(f.0)));
        let Some(narrowest) = narrowest.filter(|_| !risky) else {
            let whole = self.coefficient(e, at)?;
            return Ok(fold::select(fold::var(guard), whole, zero));
        };
        let none = !list.iter().any(|f| changes(f.0));
        let closes = |n: usize| (if none { n == narrowest } else { changes(list[n].0) }).then_some(guard);
        let value = self.multiplied(&list, &closes)?.unwrap_or(zero);
        Ok(if negative { fold::neg(value) } else { value })
    }

    /// The product of factors, in order, those with a guard zero where it fails; none if there are none.
    fn multiplied(&mut self, list: &Factors, guard: &dyn Fn(usize) -> Option<VarId>) -> Result<Option<Expr>, MapError> {
        let mut value: Option<Expr> = None;
        for (n, &(e, divides, at)) in list.iter().enumerate() {
            let mut factor = self.coefficient(e, at)?;
            if let Some(guard) = guard(n) {
                let chosen = fold::select(fold::var(guard), factor.clone(), fold::real(0.0, self.cx.real));
                let name = format!("{}_open", self.b.name_of(&factor));
                factor = self.b.bind(&name, chosen);
            }
            value = Some(match (value, divides) {
                (None, false) => factor,
                (None, true) => fold::div(fold::real(1.0, self.cx.real), factor),
                (Some(v), false) => fold::mul(v, factor),
                (Some(v), true) => fold::div(v, factor),
            });
        }
        Ok(value)
    }
}

/// Collects the factors of a product; whether its sign is turned.
fn factors<'e>(e: &'e math::Expr, divides: bool, at: &'e Position, list: &mut Factors<'e>) -> bool {
    let mut found = Vec::new();
    let negative = flat(e, divides, &mut found);
    list.extend(found.into_iter().map(|(e, divides)| (e, divides, at)));
    negative
}

/// The factors of a product, whether each divides; whether the product's sign is turned.
fn flat<'e>(e: &'e math::Expr, divides: bool, list: &mut Vec<(&'e math::Expr, bool)>) -> bool {
    match e {
        math::Expr::Binary(BinaryOp::Mul, a, b) => flat(a, divides, list) ^ flat(b, divides, list),
        math::Expr::Binary(BinaryOp::Div, a, b) => flat(a, divides, list) ^ flat(b, !divides, list),
        math::Expr::Neg(a) => !flat(a, divides, list),
        e => {
            list.push((e, divides));
            false
        }
    }
}

/// Whether every coupling is a product of what changes along a line and what changes across it, along another axis: no
/// factor does both, and none is read whole for a guard's sake (see [`Eval::product`]).
pub(super) fn couplings_split(op: &Operator, line: usize, across: usize) -> bool {
    let splits = |term: &math::Term| {
        let mut list = Vec::new();
        [Some(&term.coefficient), term.outer.as_ref()].into_iter().flatten().for_each(|e| {
            flat(e, false, &mut list);
        });
        let along = |e: &math::Expr| depends(op, e, line);
        let whole = term.flux.is_some() && list.iter().any(|f| f.1 || !is_plain(f.0));
        let mixed = list.iter().any(|f| along(f.0) && (whole || depends(op, f.0, across)));
        !mixed
    };
    (0..op.rows.len()).all(|c| terms(op, c).iter().all(splits))
}

/// Whether a coefficient changes along an axis.
fn depends(op: &Operator, e: &math::Expr, axis: usize) -> bool {
    use math::Expr as E;
    match e {
        E::Number(_) | E::Param(_) => false,
        E::Table(t, _) => op.tables[*t].axes.contains(&axis),
        E::Data(d, _) => op.data[*d].axes.contains(&axis),
        E::Unknown(..) | E::Flux(..) | E::Slots(_) | E::Entry | E::Gather(_) => true,
        E::Neg(a) => depends(op, a, axis),
        E::Binary(_, a, b) | E::Compare(_, a, b) => depends(op, a, axis) || depends(op, b, axis),
        E::Call(_, args) => args.iter().any(|a| depends(op, a, axis)),
        E::Select(c, a, b) => [c, a, b].iter().any(|e| depends(op, e, axis)),
    }
}

/// Whether what is linear in unknowns is finite on faces of an axis where the flux is not evaluated, as it is on others:
/// sums of unknowns, with factors that do not change along the axis.
pub(super) fn finite_outside(op: &Operator, e: &math::Expr, axis: usize) -> bool {
    use math::Expr as E;
    match e {
        E::Unknown(..) => true,
        E::Neg(a) => finite_outside(op, a, axis),
        E::Binary(BinaryOp::Div, ..) => false,
        E::Binary(_, a, b) => finite_outside(op, a, axis) && finite_outside(op, b, axis),
        e => is_plain(e) && !depends(op, e, axis),
    }
}

/// Sums and products only.
fn is_plain(e: &math::Expr) -> bool {
    use math::Expr as E;
    match e {
        E::Number(_) | E::Param(_) | E::Table(..) | E::Data(..) => true,
        E::Neg(a) => is_plain(a),
        E::Binary(op, a, b) => *op != BinaryOp::Div && is_plain(a) && is_plain(b),
        _ => false,
    }
}
