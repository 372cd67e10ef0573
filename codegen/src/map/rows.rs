//! Rows of the operator at a position, in one of three readings.

use super::MapError;
use super::builder::plus;
use super::eval::{Eval, Key, arithmetic};
use super::factors;
use super::fold;
use super::images::{Place, images};
use super::names;
use super::position::{Position, side};
use crate::kernel::{Cmp, Expr, VarId};
use crate::loops::ValueId;
use crate::math::{self, BinaryOp, Operator, Rule, Shift};

/// How unknowns are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reading {
    /// The operator on a value.
    Linear(usize),
    /// Prescribed values only.
    Affine,
    /// Every term by its absolute value.
    Magnitude(usize),
}

impl Eval<'_, '_> {
    /// Row of component `c` at a position; zero outside the mask.
    pub(super) fn row(&mut self, c: usize, at: &Position, reading: Reading) -> Result<Expr, MapError> {
        let op = self.cx.operator();
        if reading == Reading::Affine && self.frame.is_here(at) {
            self.quote(&format!("prescribed values in {}", op.rows[c].text));
        }
        let zero = fold::real(0.0, self.cx.real);
        let row = self.affine(&op.rows[c].value, at, reading)?.unwrap_or_else(|| zero.clone());
        if row == zero {
            return Ok(row);
        }
        match self.active(at)? {
            Some(active) => Ok(fold::select(active, row, zero)),
            None => Ok(row),
        }
    }

    /// A value where a point takes part, zero elsewhere.
    pub(super) fn inside(&mut self, x: ValueId, c: usize, at: &Position) -> Result<Expr, MapError> {
        let value = self.value(x, c, at)?;
        Ok(match self.active(at)? {
            Some(active) => fold::select(active, value, fold::real(0.0, self.cx.real)),
            None => value,
        })
    }

    /// Condition that a point takes part, where the operator has a mask.
    pub(super) fn active(&mut self, at: &Position) -> Result<Option<Expr>, MapError> {
        let Some(mask) = &self.cx.operator().mask else {
            return Ok(None);
        };
        let mask = self.coefficient(mask, at)?;
        let zero = fold::real(0.0, self.cx.real);
        Ok(Some(self.b.bind("active", fold::compare(Cmp::Ne, mask, zero))))
    }

    /// An expression that may contain unknowns; none where it is zero for sure.
    fn affine(&mut self, e: &math::Expr, at: &Position, reading: Reading) -> Result<Option<Expr>, MapError> {
        use math::Expr as E;
        if !has_unknown(self.cx.operator(), e) {
            // A source in the row is an affine part, and no term of the operator.
            return if reading == Reading::Affine { self.coefficient(e, at).map(nonzero) } else { Ok(None) };
        }
        let absolute = matches!(reading, Reading::Magnitude(_));
        match e {
            E::Unknown(c, shift) => self.unknown(*c, &shifted(at, *shift), reading),
            E::Flux(f, shift) => self.flux(*f, *shift, at, reading),
            E::Neg(a) => {
                let a = self.affine(a, at, reading)?;
                Ok(if absolute { a } else { a.map(fold::neg) })
            }
            E::Binary(BinaryOp::Add, a, b) => {
                let (a, b) = (self.affine(a, at, reading)?, self.affine(b, at, reading)?);
                Ok(plus(a, b))
            }
            E::Binary(BinaryOp::Sub, a, b) => {
                let (a, b) = (self.affine(a, at, reading)?, self.affine(b, at, reading)?);
                Ok(plus(a, if absolute { b } else { b.map(fold::neg) }))
            }
            E::Binary(op, a, b) => self.scaled(*op, (a, b), at, reading, None),
            E::Select(cond, a, b) => self.chosen(cond, a, b, at, reading),
            _ => Err(MapError::Internal("a row is not affine in the unknowns".into())),
        }
    }

    /// A product or quotient of an affine expression and a coefficient, which is zero where a guard on the faces of an
    /// axis fails.
    fn scaled(
        &mut self,
        op: BinaryOp,
        (a, b): (&math::Expr, &math::Expr),
        at: &Position,
        reading: Reading,
        guard: Option<(VarId, usize)>,
    ) -> Result<Option<Expr>, MapError> {
        let absolute = matches!(reading, Reading::Magnitude(_));
        let left = has_unknown(self.cx.operator(), a);
        if left && has_unknown(self.cx.operator(), b) || !left && op == BinaryOp::Div {
            return Err(MapError::Internal("a row is not affine in the unknowns".into()));
        }
        let (linear, factor) = if left { (a, b) } else { (b, a) };
        let Some(linear) = self.affine(linear, at, reading)? else {
            return Ok(None);
        };
        let factor = match guard {
            Some((guard, axis)) => self.masked(factor, at, guard, axis)?,
            None => self.coefficient(factor, at)?,
        };
        let factor = if absolute { fold::abs(factor) } else { factor };
        Ok(Some(match (left, op) {
            (true, op) => arithmetic(op, linear, factor),
            (false, op) => arithmetic(op, factor, linear),
        }))
    }

    /// A choice between affine expressions.
    fn chosen(
        &mut self,
        cond: &math::Expr,
        a: &math::Expr,
        b: &math::Expr,
        at: &Position,
        reading: Reading,
    ) -> Result<Option<Expr>, MapError> {
        let cond = self.coefficient(cond, at)?;
        let cond = self.truth(cond);
        let yes = self.under(cond.clone(), |eval| eval.affine(a, at, reading))?;
        let no = self.under(fold::not(cond.clone()), |eval| eval.affine(b, at, reading))?;
        if yes.is_none() && no.is_none() {
            return Ok(None);
        }
        let zero = || fold::real(0.0, self.cx.real);
        Ok(Some(fold::select(cond, yes.unwrap_or_else(zero), no.unwrap_or_else(zero))))
    }

    /// Evaluates a branch: what it loads may only be loaded where the branch is taken.
    pub(super) fn under<T>(
        &mut self,
        cond: Expr,
        f: impl FnOnce(&mut Self) -> Result<T, MapError>,
    ) -> Result<T, MapError> {
        let before = self.ambient;
        let cond = match before {
            Some(outer) => fold::and(fold::var(outer), cond),
            None => cond,
        };
        self.ambient = Some(self.b.bind_var("chosen", cond));
        let value = f(self);
        self.ambient = before;
        value
    }

    /// An unknown at a position that may be outside.
    fn unknown(&mut self, c: usize, at: &Position, reading: Reading) -> Result<Option<Expr>, MapError> {
        match reading {
            Reading::Linear(v) => self.read(ValueId(v), c, at, false),
            Reading::Magnitude(v) => self.read(ValueId(v), c, at, true),
            Reading::Affine => self.prescribed(at, 0),
        }
    }

    /// The prescribed values met when a reading is resolved from `axis` on.
    fn prescribed(&mut self, at: &Position, axis: usize) -> Result<Option<Expr>, MapError> {
        if axis == at.coords.len() {
            return Ok(None);
        }
        let coord = self.frame.unwrapped(&at.coords[axis]);
        let pieces = images(side(self.cx, axis), coord.off, coord.range);
        let mut chosen: Option<Option<Expr>> = None;
        for piece in &pieces {
            let mut on_piece = at.clone();
            on_piece.coords[axis] = coord.clone();
            on_piece.coords[axis].range = piece.range;
            if pieces.len() > 1 {
                let cond = self.frame.within(self.cx, &mut self.b, axis, &coord, piece.range);
                on_piece.guard = Some(self.guard_with(at.guard, cond));
            }
            let value = self.prescribed_on(&on_piece, axis, piece)?;
            chosen = Some(match chosen {
                None => value,
                Some(before) if before == value => before,
                Some(before) => {
                    let cond = self.frame.within(self.cx, &mut self.b, axis, &coord, (piece.range.0, coord.range.1));
                    let zero = || fold::real(0.0, self.cx.real);
                    Some(fold::select(cond, value.unwrap_or_else(zero), before.unwrap_or_else(zero)))
                }
            });
        }
        Ok(chosen.flatten())
    }

    /// The same on one piece of the axis.
    fn prescribed_on(
        &mut self,
        at: &Position,
        axis: usize,
        piece: &super::images::Piece,
    ) -> Result<Option<Expr>, MapError> {
        let mut total = None;
        for &(which, factor) in &piece.given {
            if let Rule::Dirichlet(table) = self.cx.operator().boundary[axis][which] {
                let g = self.table(table, at)?;
                total = plus(total, Some(fold::mul(fold::real(factor, self.cx.real), g)));
            }
        }
        let Some(place) = piece.place else {
            return Ok(total);
        };
        let mut target = at.clone();
        match place {
            Place::Shifted(d) => target.coords[axis].off = d,
            Place::Mirrored(_) => {
                // An index that is inside whether or not this piece applies.
                let mut coord = at.coords[axis].clone();
                coord.range = self.frame.range(coord.var);
                let pieces = images(side(self.cx, axis), coord.off, coord.range);
                target.coords[axis] = self.landing(axis, &coord, &pieces);
            }
        }
        let rest = self.prescribed(&target, axis + 1)?;
        Ok(plus(total, if piece.sign < 0 { rest.map(fold::neg) } else { rest }))
    }

    /// The conjunction of a guard and a condition.
    pub(super) fn guard_with(&mut self, guard: Option<VarId>, cond: Expr) -> VarId {
        let cond = match guard {
            Some(g) => fold::and(fold::var(g), cond),
            None => cond,
        };
        self.b.bind_var("inside", cond)
    }

    /// A flux at a shift from a position; none where it is zero for sure.
    fn flux(&mut self, f: usize, shift: Shift, at: &Position, reading: Reading) -> Result<Option<Expr>, MapError> {
        let Some(face) = self.face(f, shift, at) else {
            return Ok(None);
        };
        let key = Key::Flux(f, reading, face.clone());
        if let Some(known) = self.recall(&key) {
            return Ok(known);
        }
        let flux = &self.cx.operator().fluxes[f];
        if self.frame.is_here(at) {
            self.quote(&flux.text);
        }
        let body = self.through(f, &face, reading)?;
        let value = body.map(|body| {
            let name = self.face_name(f, shift);
            self.b.bind(&name, body)
        });
        self.remember(key, value.clone());
        Ok(value)
    }

    /// What flows through a face, nothing where its guard fails.
    fn through(&mut self, f: usize, face: &Position, reading: Reading) -> Result<Option<Expr>, MapError> {
        let flux = &self.cx.operator().fluxes[f];
        let Some(guard) = face.guard else {
            return self.affine(&flux.value, face, reading);
        };
        let op = self.cx.operator();
        if let math::Expr::Binary(BinaryOp::Mul, a, b) = &flux.value
            && let Some(linear) = [a, b].into_iter().find(|e| has_unknown(op, e))
            && factors::finite_outside(op, linear, flux.axis)
        {
            return self.scaled(BinaryOp::Mul, (a, b), face, reading, Some((guard, flux.axis)));
        }
        let body = self.affine(&flux.value, face, reading)?;
        Ok(body.map(|body| fold::select(fold::var(guard), body, fold::real(0.0, self.cx.real))))
    }

    /// Name of a flux at a shift: `X_east` is the one on the high side of the point.
    pub(super) fn face_name(&self, f: usize, shift: Shift) -> String {
        let flux = &self.cx.operator().fluxes[f];
        let mut offsets: Vec<i64> = shift.iter().map(|&s| i64::from(s)).take(self.cx.dims()).collect();
        if offsets[flux.axis] >= 0 {
            offsets[flux.axis] += 1;
        }
        format!("{}{}", flux.name, names::displacement(&self.cx.letters(), &offsets))
    }

    /// Position at which a flux is evaluated, guarded against the faces where it is zero; none if it is zero
    /// everywhere.
    pub(super) fn face(&mut self, f: usize, shift: Shift, at: &Position) -> Option<Position> {
        let axis = self.cx.operator().fluxes[f].axis;
        let mut face = shifted(at, shift);
        let rules = &self.cx.operator().boundary[axis];
        let n = self.cx.size(axis) as i64;
        if rules[0] == Rule::Periodic {
            self.wrap(&mut face, axis);
            return Some(face);
        }
        for (rule, zero_at) in [(&rules[0], -1), (&rules[1], n - 1)] {
            if *rule == Rule::NoFlux && !self.exclude(&mut face, axis, zero_at) {
                return None;
            }
        }
        Some(face)
    }

    /// Takes the coordinate modulo the size of a periodic axis.
    fn wrap(&mut self, face: &mut Position, axis: usize) {
        let mut coord = self.frame.unwrapped(&face.coords[axis]);
        let pieces = images(side(self.cx, axis), coord.off, coord.range);
        if let [piece] = &pieces[..]
            && let Some(Place::Shifted(d)) = piece.place
        {
            coord.off = d;
            face.coords[axis] = coord;
            return;
        }
        coord.range = self.frame.range(coord.var);
        let pieces = images(side(self.cx, axis), coord.off, coord.range);
        let landed = self.landing(axis, &coord, &pieces);
        self.frame.wrap(landed.var, (coord.var, coord.off));
        face.coords[axis] = landed;
    }

    /// Excludes one position along an axis; false if nothing is left.
    fn exclude(&mut self, face: &mut Position, axis: usize, position: i64) -> bool {
        let coord = face.coords[axis].clone();
        let x = position - coord.off;
        let (lo, hi) = coord.range;
        if x < lo || x > hi {
            return true;
        }
        if lo == hi {
            return false;
        }
        let cond = if x == lo {
            face.coords[axis].range.0 += 1;
            self.frame.within(self.cx, &mut self.b, axis, &coord, (lo + 1, hi))
        } else if x == hi {
            face.coords[axis].range.1 -= 1;
            self.frame.within(self.cx, &mut self.b, axis, &coord, (lo, hi - 1))
        } else {
            fold::compare(Cmp::Ne, fold::var(coord.var), fold::int(x))
        };
        face.guard = Some(self.guard_with(face.guard, cond));
        true
    }
}

/// A position displaced.
pub(super) fn shifted(at: &Position, shift: Shift) -> Position {
    let mut at = at.clone();
    for (coord, s) in at.coords.iter_mut().zip(shift) {
        coord.off += i64::from(s);
    }
    at
}

/// Whether an expression contains an unknown, directly or in a flux.
pub(super) fn has_unknown(op: &Operator, e: &math::Expr) -> bool {
    use math::Expr as E;
    match e {
        E::Unknown(..) | E::Gather(_) => true,
        E::Flux(f, _) => has_unknown(op, &op.fluxes[*f].value),
        E::Number(_) | E::Param(_) | E::Table(..) | E::Data(..) | E::Entry => false,
        E::Neg(a) | E::Slots(a) => has_unknown(op, a),
        E::Binary(_, a, b) | E::Compare(_, a, b) => has_unknown(op, a) || has_unknown(op, b),
        E::Call(_, args) => args.iter().any(|a| has_unknown(op, a)),
        E::Select(c, a, b) => [c, a, b].iter().any(|e| has_unknown(op, e)),
    }
}

/// None for a constant zero.
fn nonzero(e: Expr) -> Option<Expr> {
    (!matches!(e, Expr::Real(0.0, _))).then_some(e)
}
