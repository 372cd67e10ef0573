//! Asking for memory ahead of time, in sweeps along lines on the host.
//!
//! A block of lines touches a short row of every vector at a point of the line, and the next row lies planes away: too
//! short a piece for the machine to foresee the next by itself. So each step along the line asks for the rows a few steps
//! on, of all vectors that the loop reads or writes.

use super::fold;
use super::line::Mapper;
use crate::kernel::{LoopKind, Op, Stmt, VarId};

/// Bytes of a vector from which on it does not stay in a near cache.
const LARGE: u64 = 1 << 20;
/// Steps ahead, if the variant does not say.
const STEPS: u64 = 2;
/// Bytes of a cache line.
const LINE: u64 = 64;

impl Mapper<'_, '_> {
    /// At the end of a step `k` along the line: asks for the rows of a later one.
    pub(super) fn ask_ahead(&mut self, k: VarId, step: i64) {
        let cx = self.eval.cx;
        let size = cx.options.precision.bytes();
        let large = cx.points * cx.grid.components as u64 * size >= LARGE;
        let steps = cx.options.variant.ahead.map_or(if large { STEPS } else { 0 }, u64::from);
        if steps == 0 || !self.in_rows() {
            return;
        }
        let buffers = self.eval.b.touched_vectors();
        let (n, by) = (cx.size(self.axis) as i64, steps as i64 * step);
        if buffers.is_empty() || n <= steps as i64 {
            return;
        }
        let ahead = fold::add(fold::var(k), fold::int(by));
        let last = fold::sub(fold::var(self.eval.frame.sizes[self.axis]), fold::int(1));
        let ahead = if step > 0 { fold::min(ahead, last) } else { fold::binary(Op::Max, ahead, fold::int(0)) };
        let letter = cx.letters()[self.axis];
        let ahead = self.eval.b.bind_here(&format!("{letter}_ahead"), ahead);
        self.eval.frame.know(ahead, (0, n - 1));
        self.eval.frame.own[self.axis] = ahead;
        let (line, count) = self.open_lines();
        let here = self.eval.frame.here();
        let (base, _) = self.eval.address(&here);
        for buffer in buffers {
            for c in 0..cx.grid.components as i64 {
                let index = fold::add(base.clone(), fold::int(c * cx.points as i64));
                self.eval.b.push(Stmt::Prefetch { buffer, index });
            }
        }
        self.eval.b.close_loop(line, fold::int(0), count, (LINE / size) as i64, LoopKind::Sequential);
        self.eval.frame.own[self.axis] = k;
    }
}
