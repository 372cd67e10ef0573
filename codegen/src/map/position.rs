//! Positions: index expressions with what is known about them, and the resolution of readings that leave the grid.

use std::collections::BTreeMap;

use super::builder::Builder;
use super::context::Context;
use super::fold;
use super::images::{Piece, Place, Side};
use super::names;
use crate::kernel::{Cmp, Expr, VarId};

/// An index along an axis: `var + off`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Coord {
    /// An integer variable.
    pub(super) var: VarId,
    /// Constant displacement.
    pub(super) off: i64,
    /// Values of the variable where the position's guard holds.
    pub(super) range: (i64, i64),
}

/// A point of the grid, or outside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    /// One per axis.
    pub(super) coords: Vec<Coord>,
    /// A condition without which the position means nothing and must not be read.
    pub(super) guard: Option<VarId>,
}

/// Name of a number of steps along an axis: `east`, `j2`, `jm2`.
fn step(axis: usize, letter: &str, steps: i64) -> String {
    match steps {
        1 | -1 => names::step_name(axis, steps).to_string(),
        s if s < 0 => format!("{letter}m{}", -s),
        s => format!("{letter}{s}"),
    }
}

/// Index variables of a kernel and what is known of them.
pub(super) struct Frame {
    /// The sweep's own point.
    pub(super) own: Vec<VarId>,
    /// All values that an index variable can have.
    ranges: BTreeMap<VarId, (i64, i64)>,
    /// Variables that are another one displaced, modulo the size of a periodic axis.
    wrapped: BTreeMap<VarId, (VarId, i64)>,
    /// How far from the point that is read variables were taken that a boundary brought back inside; for names.
    landed: BTreeMap<VarId, i64>,
    /// Variables that hold the sizes.
    pub(super) sizes: Vec<VarId>,
}

impl Frame {
    /// Sizes are declared at once, so that index arithmetic reads by name.
    pub(super) fn new(cx: &Context, b: &mut Builder) -> Frame {
        let sizes = cx.grid.axes.iter().map(|a| b.bind_here(&a.size_name, fold::int(a.size as i64))).collect();
        Frame { own: Vec::new(), ranges: BTreeMap::new(), wrapped: BTreeMap::new(), landed: BTreeMap::new(), sizes }
    }

    /// Says which values a variable can have.
    pub(super) fn know(&mut self, var: VarId, range: (i64, i64)) {
        self.ranges.insert(var, range);
    }

    /// All values a variable can have.
    pub(super) fn range(&self, var: VarId) -> (i64, i64) {
        self.ranges.get(&var).copied().unwrap_or((i64::MIN / 4, i64::MAX / 4))
    }

    /// The sweep's own point.
    pub(super) fn here(&self) -> Position {
        let coords = self.own.iter().map(|&var| Coord { var, off: 0, range: self.range(var) }).collect();
        Position { coords, guard: None }
    }

    /// Whether a position is the own point.
    pub(super) fn is_here(&self, at: &Position) -> bool {
        at.guard.is_none() && at.coords.iter().zip(&self.own).all(|(c, &own)| c.var == own && c.off == 0)
    }

    /// Whether a coordinate lies in `lo..=hi` whether or not the guard holds.
    pub(super) fn surely(&self, coord: &Coord, lo: i64, hi: i64) -> bool {
        let range = self.range(coord.var);
        range.0 + coord.off >= lo && range.1 + coord.off <= hi
    }

    /// Records that `var` is `origin`, modulo the size.
    pub(super) fn wrap(&mut self, var: VarId, origin: (VarId, i64)) {
        self.wrapped.insert(var, origin);
    }

    /// Records that `var` is where a boundary brings what is `off` away.
    pub(super) fn land(&mut self, var: VarId, off: i64) {
        self.landed.insert(var, off);
    }

    /// A coordinate on a periodic axis in terms of the variable it was wrapped from.
    pub(super) fn unwrapped(&self, coord: &Coord) -> Coord {
        match self.wrapped.get(&coord.var) {
            Some(&(var, off)) => Coord { var, off: off + coord.off, range: self.range(var) },
            None => coord.clone(),
        }
    }

    /// Drops a guard that nothing needs: the position is inside the grid in any case.
    pub(super) fn simplest(&self, cx: &Context, mut at: Position) -> Position {
        let inside = |(axis, c): (usize, &Coord)| self.surely(c, 0, cx.size(axis) as i64 - 1);
        if at.guard.is_some() && at.coords.iter().enumerate().all(inside) {
            at.guard = None;
        }
        if at.guard.is_none() {
            for c in &mut at.coords {
                c.range = self.range(c.var);
            }
        }
        at
    }

    /// Displacements from the own point as far as they are constant, for names.
    pub(super) fn suffix(&self, cx: &Context, at: &Position) -> String {
        let moved = |c: &Coord| self.wrapped.get(&c.var).map(|w| w.1).or(self.landed.get(&c.var).copied());
        let off = |c: &Coord| moved(c).unwrap_or(0) + c.off;
        let offsets: Vec<i64> = at.coords.iter().map(off).collect();
        names::displacement(&cx.letters(), &offsets)
    }

    /// Condition that the coordinate's variable is in `want`, known to be in the coordinate's range.
    pub(super) fn within(&self, cx: &Context, b: &mut Builder, axis: usize, coord: &Coord, want: (i64, i64)) -> Expr {
        let n = cx.size(axis) as i64;
        let x = fold::var(coord.var);
        let letter = cx.letters()[axis];
        let mut cond = Expr::Bool(true);
        if want.0 > coord.range.0 {
            let missing = n - want.0;
            let (low, name) = match want.0 {
                1 => (fold::compare(Cmp::Gt, x.clone(), fold::int(0)), format!("has_{}", names::step_name(axis, -1))),
                // Near the high end: what is missing there.
                lo if missing < lo => {
                    let bound = fold::sub(fold::var(self.sizes[axis]), fold::int(missing));
                    (fold::compare(Cmp::Ge, x.clone(), bound), format!("lacks_{}", step(axis, letter, missing)))
                }
                lo => (fold::compare(Cmp::Ge, x.clone(), fold::int(lo)), format!("has_{}", step(axis, letter, -lo))),
            };
            cond = b.bind(&name, low);
        }
        if want.1 < coord.range.1 {
            let missing = n - 1 - want.1;
            let (name, bound) = if want.1 + 1 < missing {
                // Near the low end, likewise.
                (format!("lacks_{}", step(axis, letter, -want.1 - 1)), fold::int(want.1 + 1))
            } else {
                let bound = fold::sub(fold::var(self.sizes[axis]), fold::int(missing));
                (format!("has_{}", step(axis, letter, missing)), bound)
            };
            let high = b.bind(&name, fold::compare(Cmp::Lt, x, bound));
            cond = fold::and(cond, high);
        }
        cond
    }

    /// The landing index of pieces as one expression (0 where there is none).
    pub(super) fn index_of(&self, cx: &Context, b: &mut Builder, axis: usize, coord: &Coord, pieces: &[Piece]) -> Expr {
        let x = fold::var(coord.var);
        let place = |p: &Piece| match p.place {
            // A single x is a constant.
            Some(Place::Shifted(d)) if p.range.0 == p.range.1 => self.constant(cx, axis, p.range.0 + d),
            Some(Place::Shifted(d)) => fold::add(x.clone(), fold::int(d)),
            Some(Place::Mirrored(s)) => fold::sub(self.constant(cx, axis, s), x.clone()),
            None => fold::int(0),
        };
        let mut index = place(&pieces[0]);
        for pair in pieces.windows(2) {
            let next = &pair[1];
            let wide = |p: &Piece| p.range.1 > p.range.0;
            index = if wide(next) {
                let cond = self.within(cx, b, axis, coord, (next.range.0, coord.range.1));
                fold::select(cond, place(next), index)
            } else {
                let cond = self.within(cx, b, axis, coord, (coord.range.0, next.range.0 - 1));
                fold::select(cond, index, place(next))
            };
        }
        index
    }

    /// An integer, written relative to the size where it is near it.
    fn constant(&self, cx: &Context, axis: usize, value: i64) -> Expr {
        let n = cx.size(axis) as i64;
        if value > 8 && (value - n).abs() <= 8 {
            fold::add(fold::var(self.sizes[axis]), fold::int(value - n))
        } else if value > 8 && (value - 2 * n).abs() <= 8 {
            fold::add(fold::mul(fold::int(2), fold::var(self.sizes[axis])), fold::int(value - 2 * n))
        } else {
            fold::int(value)
        }
    }
}

/// An axis for [`super::images`].
pub(super) fn side<'a>(cx: &Context<'a>, axis: usize) -> Side<'a> {
    Side { rules: &cx.operator().boundary[axis], centring: cx.grid.centring, n: cx.size(axis) }
}
