//! Readings of unknowns that may leave the grid: the linear boundary rule, resolved from what is known of the position.
//!
//! Where the landing place is one displacement, the value is evaluated there. A load that lands in one of a few places
//! becomes a choice between loads; anything else is evaluated at an index computed for the purpose, always inside.

use super::MapError;
use super::eval::{Eval, Guarding};
use super::fold;
use super::images::{Piece, Place, images};
use super::names;
use super::position::{Coord, Position, side};
use crate::kernel::{Cmp, Expr};
use crate::loops::{ValueId, ValueKind};

/// A position inside the grid where a reading finds its value.
pub(super) struct Landed {
    pub(super) at: Position,
    /// Where the value counts negative, if anywhere.
    pub(super) flipped: Option<Expr>,
    /// Where there is a value; elsewhere the reading is zero.
    pub(super) present: Expr,
}

impl Eval<'_, '_> {
    /// Component `c` of a value read at a position that may be outside the grid, by the linear boundary rule; none
    /// where it is zero for sure. With `absolute`, absolute values all along.
    pub(super) fn read(
        &mut self,
        v: ValueId,
        c: usize,
        at: &Position,
        absolute: bool,
    ) -> Result<Option<Expr>, MapError> {
        if let Some(staged) = self.read_staged((v, c), at) {
            return Ok(staged.map(|value| if absolute { fold::abs(value) } else { value }));
        }
        let mut target = at.clone();
        let mut pieces = Vec::new();
        for axis in 0..target.coords.len() {
            target.coords[axis] = self.frame.unwrapped(&target.coords[axis]);
            let coord = &target.coords[axis];
            pieces.push(images(side(self.cx, axis), coord.off, coord.range));
        }
        if pieces.iter().any(|p| p.iter().all(|q| q.sign == 0)) {
            return Ok(None);
        }
        let constant = |p: &Piece| matches!(p.place, Some(Place::Shifted(_)) | None);
        let open: Vec<usize> = (0..pieces.len()).filter(|&a| pieces[a].len() > 1 || !constant(&pieces[a][0])).collect();
        let mut sign = 1;
        for (axis, pieces) in pieces.iter().enumerate() {
            if let [Piece { place: Some(Place::Shifted(d)), sign: s, .. }] = pieces[..] {
                target.coords[axis].off = d;
                sign *= s;
            }
        }
        let value = match open[..] {
            [] => {
                let target = self.frame.simplest(self.cx, target);
                self.value(v, c, &target)?
            }
            [axis] if self.may_split(v) && pieces[axis].iter().all(constant) => {
                self.split(v, c, &target, axis, &pieces[axis], absolute)?
            }
            _ => self.computed(v, c, target, &open, absolute)?,
        };
        let value = if absolute { fold::abs(value) } else { value };
        Ok(Some(if sign < 0 && !absolute { fold::neg(value) } else { value }))
    }

    /// Whether a value is cheap enough to be written once per piece of an axis.
    fn may_split(&self, v: ValueId) -> bool {
        self.guarding == Guarding::Predicate && matches!(self.sweep.values[v.0].kind, ValueKind::Load(_))
    }

    /// A load whose landing place depends on one axis, as a choice between loads: `has_west ? p[at - 1] : -p_here`.
    fn split(
        &mut self,
        v: ValueId,
        c: usize,
        at: &Position,
        axis: usize,
        pieces: &[Piece],
        absolute: bool,
    ) -> Result<Expr, MapError> {
        let coord = at.coords[axis].clone();
        let mut chosen: Option<Expr> = None;
        for piece in pieces {
            let value = self.alternative(v, c, at, axis, piece)?;
            let value = if piece.sign < 0 && !absolute { fold::neg(value) } else { value };
            chosen = Some(match chosen {
                None => value,
                Some(before) if piece.range.1 > piece.range.0 => {
                    let cond = self.frame.within(self.cx, &mut self.b, axis, &coord, (piece.range.0, coord.range.1));
                    fold::select(cond, value, before)
                }
                Some(before) => {
                    let range = (coord.range.0, piece.range.0 - 1);
                    let cond = self.frame.within(self.cx, &mut self.b, axis, &coord, range);
                    fold::select(cond, before, value)
                }
            });
        }
        let chosen = chosen.expect("an axis has pieces");
        let value = match at.guard {
            Some(g) => fold::select(fold::var(g), chosen, fold::real(0.0, self.cx.real)),
            None => chosen,
        };
        let name = self.value_name(v, c, at);
        Ok(self.b.bind(&name, value))
    }

    /// One branch of a split reading; it is evaluated only where the piece applies, so its load needs no guard.
    fn alternative(
        &mut self,
        v: ValueId,
        c: usize,
        at: &Position,
        axis: usize,
        piece: &Piece,
    ) -> Result<Expr, MapError> {
        let Some(Place::Shifted(d)) = piece.place else {
            return Ok(fold::real(0.0, self.cx.real));
        };
        let mut target = at.clone();
        target.coords[axis].off = d;
        target.coords[axis].range = piece.range;
        target.guard = None;
        let inside = |(a, c): (usize, &Coord)| self.frame.surely(c, 0, self.cx.size(a) as i64 - 1);
        if target.coords.iter().enumerate().all(inside) {
            let target = self.frame.simplest(self.cx, target);
            return self.value(v, c, &target);
        }
        let ValueKind::Load(version) = self.sweep.values[v.0].kind else {
            return Err(MapError::Internal("only loads are split".into()));
        };
        if let Some(distance) = self.on_column(&target)
            && let Some(carried) = self.march.ask((v, c), distance)
        {
            return Ok(carried);
        }
        self.load_vector(version, c, &target, "")
    }

    /// A value whose landing place is an index computed on the axes in `open`. The index is inside the axis whether or
    /// not the position's guard holds.
    fn computed(
        &mut self,
        v: ValueId,
        c: usize,
        target: Position,
        open: &[usize],
        absolute: bool,
    ) -> Result<Expr, MapError> {
        let Landed { at, flipped, present } = self.land(target, open);
        let mut value = self.value(v, c, &at)?;
        if let Some(flipped) = flipped
            && !absolute
        {
            value = fold::select(flipped, fold::neg(value.clone()), value);
        }
        Ok(fold::select(present, value, fold::real(0.0, self.cx.real)))
    }

    /// Where a reading lands, by indices computed on the axes in `open`.
    pub(super) fn land(&mut self, mut target: Position, open: &[usize]) -> Landed {
        let (mut flipped, mut present) = (None, Expr::Bool(true));
        for &axis in open {
            let mut coord = target.coords[axis].clone();
            coord.range = self.frame.range(coord.var);
            let pieces = images(side(self.cx, axis), coord.off, coord.range);
            if pieces.iter().any(|p| p.sign == 0) {
                let cond = self.holds(axis, &coord, &pieces, |p| p.sign != 0);
                present = fold::and(present, cond);
            }
            if pieces.iter().any(|p| p.sign < 0) {
                let cond = self.holds(axis, &coord, &pieces, |p| p.sign < 0);
                flipped = Some(match flipped {
                    None => cond,
                    Some(other) => fold::compare(Cmp::Ne, other, cond),
                });
            }
            target.coords[axis] = self.landing(axis, &coord, &pieces);
        }
        Landed { at: self.frame.simplest(self.cx, target), flipped, present }
    }

    /// Where readings land whose coordinates across the walk are given; the position's last coordinate is missing.
    pub(super) fn land_across(&mut self, coords: Vec<Coord>) -> Landed {
        let open: Vec<usize> = (0..coords.len()).collect();
        self.land(Position { coords, guard: None }, &open)
    }

    /// Condition that the coordinate is on one of the pieces that `wanted` picks.
    pub(super) fn holds(
        &mut self,
        axis: usize,
        coord: &Coord,
        pieces: &[Piece],
        wanted: impl Fn(&Piece) -> bool,
    ) -> Expr {
        let mut any = Expr::Bool(false);
        let mut at = 0;
        while at < pieces.len() {
            let first = at;
            while at < pieces.len() && wanted(&pieces[at]) {
                at += 1;
            }
            if at > first {
                let want = (pieces[first].range.0, pieces[at - 1].range.1);
                let cond = self.frame.within(self.cx, &mut self.b, axis, coord, want);
                any = fold::or(any, cond);
            }
            at += 1;
        }
        any
    }

    /// The landing place as a variable inside the axis.
    pub(super) fn landing(&mut self, axis: usize, coord: &Coord, pieces: &[Piece]) -> Coord {
        let index = self.frame.index_of(self.cx, &mut self.b, axis, coord, pieces);
        let letter = self.cx.letters()[axis];
        let offsets: Vec<i64> = (0..self.cx.dims()).map(|a| if a == axis { coord.off } else { 0 }).collect();
        let name = format!("{letter}{}", names::displacement(&self.cx.letters(), &offsets));
        let var = self.b.bind_var(&name, index);
        let range = (0, self.cx.size(axis) as i64 - 1);
        self.frame.know(var, range);
        self.frame.land(var, coord.off);
        Coord { var, off: 0, range }
    }
}
