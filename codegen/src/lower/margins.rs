//! How far outside the grid each table is read.
//!
//! Readings are followed through fluxes (whose position is shifted, and wrapped along a periodic axis) and through
//! unknowns read outside (whose prescribed values are read where the other axes stand). A table read by a flux is
//! stored on no-flux faces too: its value there is never used, but a kernel may load it before it selects zero.

use crate::math::{Expr, Operator, Rule, Shift};

/// Positions along each axis, both ends included.
type Box3 = [(i64, i64); 3];

/// Margins (below, above) that each table needs.
pub(crate) fn required(op: &Operator) -> Vec<([u32; 3], [u32; 3])> {
    let grid = op.space.grid();
    let mut inside = [(0, 0); 3];
    for (range, axis) in inside.iter_mut().zip(&grid.axes) {
        *range = (0, axis.size as i64 - 1);
    }
    let mut walk = Walk { op, inside, margins: vec![([0; 3], [0; 3]); op.tables.len()] };
    op.rows.iter().for_each(|r| walk.expr(&r.value, inside));
    op.mask.iter().for_each(|m| walk.expr(m, inside));
    walk.margins
}

/// Sets the margins of all tables.
pub(super) fn widen(op: &mut Operator) {
    let margins = required(op);
    for (table, (below, above)) in op.tables.iter_mut().zip(margins) {
        (table.below, table.above) = (below, above);
    }
}

struct Walk<'a> {
    op: &'a Operator,
    inside: Box3,
    margins: Vec<([u32; 3], [u32; 3])>,
}

impl Walk<'_> {
    fn expr(&mut self, e: &Expr, at: Box3) {
        match e {
            Expr::Table(id, s) => self.table(*id, shifted(at, s)),
            Expr::Unknown(_, s) => self.unknown(shifted(at, s)),
            Expr::Flux(id, s) => self.flux(*id, shifted(at, s)),
            Expr::Neg(a) => self.expr(a, at),
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
                self.expr(a, at);
                self.expr(b, at);
            }
            Expr::Call(_, args) => args.iter().for_each(|a| self.expr(a, at)),
            Expr::Select(c, a, b) => {
                self.expr(c, at);
                self.expr(a, at);
                self.expr(b, at);
            }
            Expr::Slots(a) => self.expr(a, at),
            Expr::Number(_) | Expr::Param(_) | Expr::Data(..) | Expr::Entry | Expr::Gather(_) => {}
        }
    }

    fn table(&mut self, id: usize, at: Box3) {
        let (below, above) = &mut self.margins[id];
        for &a in &self.op.tables[id].axes {
            below[a] = below[a].max(outside(-at[a].0));
            above[a] = above[a].max(outside(at[a].1 - self.inside[a].1));
        }
    }

    fn flux(&mut self, id: usize, mut at: Box3) {
        let flux = &self.op.fluxes[id];
        if self.op.boundary[flux.axis][0] == Rule::Periodic {
            at[flux.axis] = self.inside[flux.axis];
        }
        self.expr(&flux.value, at);
    }

    /// Axis by axis: prescribed values are read with the axes before inside and those after where they are.
    fn unknown(&mut self, mut at: Box3) {
        for a in 0..self.op.boundary.len() {
            if at[a].0 < self.inside[a].0 || at[a].1 > self.inside[a].1 {
                for rule in &self.op.boundary[a] {
                    if let Rule::Dirichlet(table) = rule {
                        self.table(*table, at);
                    }
                }
                at[a] = self.inside[a];
            }
        }
    }
}

fn shifted(at: Box3, s: &Shift) -> Box3 {
    [0, 1, 2].map(|a| (at[a].0 + i64::from(s[a]), at[a].1 + i64::from(s[a])))
}

/// A distance outside, zero inside.
fn outside(distance: i64) -> u32 {
    u32::try_from(distance.max(0)).unwrap_or(u32::MAX)
}
