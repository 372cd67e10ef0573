//! Asking for memory ahead of time, in sweeps along lines on the host.
//!
//! A block of lines touches a short row of every vector at a point of the line, and the next row lies planes away: too
//! short a piece for the machine to foresee the next by itself. So each step along the line asks for the rows a few steps
//! on, of all vectors that the loop reads or writes. A core has few requests under way at a time, and one that asks for a
//! whole row at once waits: the row is worked off in pieces, each of which asks for its part.

use super::MapError;
use super::fold;
use super::line::Mapper;
use crate::kernel::{Expr, LoopKind, Op, Stmt, VarId};

/// Bytes of a vector from which on it does not stay in a near cache.
const LARGE: u64 = 1 << 20;
/// Steps ahead, if the variant does not say.
const STEPS: u64 = 2;
/// Bytes of a cache line.
const LINE: u64 = 64;
/// Cache lines of a piece of a row.
const PIECE: u64 = 4;

impl Mapper<'_, '_> {
    /// A step `k` along the line: what is done there, and asking for the rows of a later step.
    pub(super) fn step_asking(
        &mut self,
        k: VarId,
        step: i64,
        f: impl FnOnce(&mut Self) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let Some(steps) = self.steps_ahead() else {
            return f(self);
        };
        let by = steps as i64 * step;
        let piece = (PIECE * LINE / self.eval.cx.options.precision.bytes()) as i64;
        let (count, most) = self.line_count();
        if most <= piece {
            f(self)?;
            self.ask(k, by);
            return Ok(());
        }
        let from = self.eval.open_loop("piece");
        let end = fold::add(fold::var(from), fold::int(piece));
        let whole = matches!(count, Expr::Int(n) if n % piece == 0);
        let end = if whole { end } else { self.eval.b.bind("piece_end", fold::min(end, count.clone())) };
        self.piece = Some((fold::var(from), end));
        f(self)?;
        self.ask(k, by);
        self.piece = None;
        self.eval.close_loop(from, fold::int(0), count, piece, LoopKind::Sequential);
        Ok(())
    }

    /// Steps at which rows are asked for ahead of their use; none where that is not worth it.
    fn steps_ahead(&self) -> Option<u64> {
        let cx = self.eval.cx;
        let large = cx.points * cx.grid.components as u64 * cx.options.precision.bytes() >= LARGE;
        let steps = cx.options.variant.ahead.map_or(if large { STEPS } else { 0 }, u64::from);
        (steps > 0 && steps < cx.size(self.axis) && self.in_rows()).then_some(steps)
    }

    /// Asks for the rows `by` steps on of all vectors that the innermost block has touched.
    fn ask(&mut self, k: VarId, by: i64) {
        let cx = self.eval.cx;
        let buffers = self.eval.b.touched_vectors();
        if buffers.is_empty() {
            return;
        }
        let n = cx.size(self.axis) as i64;
        let ahead = fold::add(fold::var(k), fold::int(by));
        let last = fold::sub(fold::var(self.eval.frame.sizes[self.axis]), fold::int(1));
        let ahead = if by > 0 { fold::min(ahead, last) } else { fold::binary(Op::Max, ahead, fold::int(0)) };
        let ahead = self.eval.b.bind_var(&format!("{}_ahead", cx.letters()[self.axis]), ahead);
        self.eval.frame.know(ahead, (0, n - 1));
        self.eval.frame.own[self.axis] = ahead;
        let (line, from, to) = self.open_lines();
        let here = self.eval.frame.here();
        let (base, _) = self.eval.address(&here);
        for buffer in buffers {
            for c in 0..cx.grid.components as i64 {
                let index = fold::add(base.clone(), fold::int(c * cx.points as i64));
                self.eval.b.push(Stmt::Prefetch { buffer, index });
            }
        }
        let step = (LINE / cx.options.precision.bytes()) as i64;
        self.eval.close_loop(line, from, to, step, LoopKind::Sequential);
        self.eval.frame.own[self.axis] = k;
    }
}
