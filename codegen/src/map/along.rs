//! The operator's part along an axis on a value: what a solve along that axis undoes.
//!
//! In the form of the elimination, with the row's sum in place of its diagonal:
//!     S z_k + sum over d of e_d (z_{k+d} - z_k),
//! so that a value that hardly changes along the line is not lost between large entries.

use super::MapError;
use super::builder::plus;
use super::eval::Eval;
use super::fold;
use super::landing::{Line, Target};
use super::position::Position;
use crate::kernel::Expr;
use crate::loops::ValueId;

impl Eval<'_, '_> {
    /// Component `c` of the couplings along an axis, times a value.
    pub(super) fn coupled_along(&mut self, axis: usize, x: ValueId, c: usize, at: &Position) -> Result<Expr, MapError> {
        let own = self.value(x, c, at)?;
        // A closed line goes around without points set aside.
        let mut row = self.landed(c, at, Some(Line { axis, border: 0 }))?;
        self.mask_row(&mut row, at)?;
        let mut sum = row.excess.map(|excess| fold::mul(excess, own.clone()));
        for (target, entry) in row.entries {
            let Target::Band(steps) = target else {
                return Err(MapError::Internal("a line without a border has border entries".into()));
            };
            let there = self.further(axis, steps, at);
            let difference = fold::sub(self.value(x, c, &there)?, own.clone());
            sum = plus(sum, Some(fold::mul(entry, difference)));
        }
        Ok(sum.unwrap_or(fold::real(0.0, self.cx.real)))
    }

    /// The position so many steps further along an axis, guarded where it may be beyond the end.
    fn further(&mut self, axis: usize, steps: i64, at: &Position) -> Position {
        let mut there = at.clone();
        let last = self.cx.size(axis) as i64 - 1;
        let coord = &mut there.coords[axis];
        coord.off += steps;
        let before = coord.clone();
        let inside = (before.range.0.max(-before.off), before.range.1.min(last - before.off));
        if inside != before.range {
            coord.range = inside;
            let cond = self.frame.within(self.cx, &mut self.b, axis, &before, inside);
            there.guard = Some(self.guard_with(at.guard, cond));
        }
        there
    }
}
