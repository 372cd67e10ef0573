//! The partition method for lines of half bandwidth 1, in excess form.
//!
//! A lane eliminates the points of its segment one after another; each row then couples to the next point and to the
//! last point of the segment before, `left`. The last points, one a segment, are the *separators*: the row of one
//! couples to the first point of the next segment, whose own row, written by its separators, is carried along during
//! the elimination. What remains is a tridiagonal system with a row a lane, solved by cyclic reduction in parallel.
//!
//! Every row is known by its entries beside the diagonal and its sum (the excess), in the segment (u, a beside x_t):
//!     S = s - l S',   a = -l a',   f = f - l f',   D = S - u - a     (primes: the row before, divided by its D)
//! in the row of the first point (c at the separator), as row t comes in:
//!     S0 -= c S_t,   f0 -= c f_t,   c = -c u_t
//! and between separators, at distance h, with rows divided by their diagonals:
//!     S = s - a s_{-h} - c s_{+h},   a = -a a_{-h},   c = -c c_{+h},   D = S - a - c.
//! For an M-matrix these are sums and products of numbers of one sign, as in [`super::elimination`].
//!
//! In f32 a pivot is inverted by the device's reciprocal, which is within one unit in the last place, 2u with u = 2^-24,
//! where a division is within u. The inverse scales all entries of the row, and every later quantity is a sum of products
//! of one sign of them. So the inverse's error enters each as a relative one, once a step, as every rounding does, and what
//! a step adds to the bound on the relative errors of S, u, a and D grows by u. Nothing is lost where the zero-order term
//! is small, for S is never formed from D.

use super::MapError;
use super::eval::load_at;
use super::fold;
use super::landing::{Line, Target};
use super::line::Array;
use super::partition::{Row, Split, Visit};
use crate::kernel::{Element, Expr, Math, Op, Scope, Space, Stmt, VarId};

/// All that belongs to the solution of one component's systems.
pub(super) struct System {
    pub(super) component: usize,
    /// Entries at the next point and at the separator before, of the rows divided by their diagonals.
    upper: Array,
    left: Array,
    /// Right sides.
    pub(super) rhs: Array,
    /// The row eliminated last; at the end that of the separator, not divided.
    row: Cells,
    /// The row of the segment's first point; its `left` is not needed.
    head: Cells,
    /// Solution at the point after, and at the separator before.
    after: VarId,
    before: VarId,
}

/// A row in variables.
struct Cells {
    left: VarId,
    upper: VarId,
    excess: VarId,
    rhs: VarId,
}

/// A row in expressions.
struct Entries {
    left: Expr,
    upper: Expr,
    excess: Expr,
    rhs: Expr,
}

impl System {
    /// Arrays and variables; lanes without a line keep the identity.
    pub(super) fn new(split: &mut Split, component: usize, name: &str) -> System {
        let real = split.eval.cx.real;
        let (upper, left) = (split.array("upper", 3), split.array("left", 2));
        let rhs = split.array(&format!("{name}_line"), 4);
        let mut cell = |name: &str, value: f64| split.eval.b.declare(name, fold::real(value, real));
        let mut cells = |role: &str| Cells {
            left: cell(&format!("{role}_left"), 0.0),
            upper: cell(&format!("{role}_upper"), 0.0),
            excess: cell(&format!("{role}_excess"), 1.0),
            rhs: cell(&format!("{role}_rhs"), 0.0),
        };
        let (row, head) = (cells("row"), cells("head"));
        let (after, before) = (cell(&format!("{name}_after"), 0.0), cell(&format!("{name}_before"), 0.0));
        System { component, upper, left, rhs, row, head, after, before }
    }
}

impl Split<'_, '_> {
    /// Eliminates the points of the segment.
    pub(super) fn eliminate(&mut self, system: &System) -> Result<(), MapError> {
        let last = fold::int(self.shape.levels as i64 - 1);
        self.rows(Visit::Ends, false, |m, row| {
            let own = m.own_row(system, row)?;
            let head = row.place == fold::int(0);
            let reduced = if head { own } else { m.reduced(system, own) };
            if row.place == last {
                m.assign(&system.row, &reduced);
                return Ok(());
            }
            let divided = m.divided(reduced);
            m.eval.put(system.upper, row.place.clone(), divided.upper.clone());
            m.eval.put(system.left, row.place.clone(), divided.left.clone());
            m.eval.put(system.rhs, row.place.clone(), divided.rhs.clone());
            if head {
                m.assign(&system.head, &divided);
            } else {
                m.advance_head(&system.head, &divided);
            }
            m.assign(&system.row, &divided);
            Ok(())
        })
    }

    /// The row of the own point: the coupling to the point before counts as `left`.
    fn own_row(&mut self, system: &System, row: &Row) -> Result<Entries, MapError> {
        let here = self.eval.frame.here();
        let n = self.eval.cx.size(self.axis) as i64;
        let mut landed = self.eval.landed(system.component, &here, Some(Line { axis: self.axis, border: 0 }))?;
        self.eval.mask_row(&mut landed, &here)?;
        let real = self.eval.cx.real;
        let zero = || fold::real(0.0, real);
        let mut entry = |near: i64, around: i64| {
            let ends = [landed.entries.remove(&Target::Band(near)), landed.entries.remove(&Target::Band(around))];
            let [near, around] = ends;
            super::builder::plus(near, around).unwrap_or_else(zero)
        };
        let (left, upper) = (entry(-1, n - 1), entry(1, 1 - n));
        if !landed.entries.is_empty() {
            return Err(MapError::Internal("a line couples further than its half bandwidth".into()));
        }
        let excess = landed.excess.unwrap_or_else(zero);
        let rhs = self.eval.get(system.rhs, row.place.clone());
        let within = |e: Expr, beyond: f64| match &row.live {
            Some(live) => fold::select(live.clone(), e, fold::real(beyond, real)),
            None => e,
        };
        let (left, upper) = (within(left, 0.0), within(upper, 0.0));
        let (excess, rhs) = (within(excess, 1.0), within(rhs, 0.0));
        Ok(self.named("", Entries { left, upper, excess, rhs }))
    }

    /// A row after the elimination of the point before it.
    fn reduced(&mut self, system: &System, own: Entries) -> Entries {
        let factor = own.left;
        let minus = |e: Expr, cell: VarId| fold::sub(e, fold::mul(factor.clone(), fold::var(cell)));
        let entries = Entries {
            left: fold::neg(fold::mul(factor.clone(), fold::var(system.row.left))),
            upper: own.upper,
            excess: minus(own.excess, system.row.excess),
            rhs: minus(own.rhs, system.row.rhs),
        };
        self.named("_reduced", entries)
    }

    /// A row divided by its diagonal.
    fn divided(&mut self, row: Entries) -> Entries {
        let diagonal = fold::sub(fold::sub(row.excess.clone(), row.upper.clone()), row.left.clone());
        let options = &self.eval.cx.options;
        let quick = options.variant.reciprocal && options.precision == Element::F32;
        let inverse = match quick {
            true => Expr::Call(Math::Reciprocal, vec![diagonal]),
            false => fold::div(fold::real(1.0, self.eval.cx.real), diagonal),
        };
        let inverse = self.bound("inverse", inverse);
        let times = |e: Expr| fold::mul(e, inverse.clone());
        let divided =
            Entries { left: times(row.left), upper: times(row.upper), excess: times(row.excess), rhs: times(row.rhs) };
        self.named("_new", divided)
    }

    /// Writes the first point's row by the point after the one just eliminated.
    fn advance_head(&mut self, head: &Cells, row: &Entries) {
        let factor = self.current("head_factor", head.upper);
        let minus = |cell: VarId, e: &Expr| fold::sub(fold::var(cell), fold::mul(factor.clone(), e.clone()));
        let (excess, rhs) = (minus(head.excess, &row.excess), minus(head.rhs, &row.rhs));
        let upper = fold::neg(fold::mul(factor.clone(), row.upper.clone()));
        for (cell, value) in [(head.excess, excess), (head.rhs, rhs), (head.upper, upper)] {
            self.eval.b.push(Stmt::Assign(cell, value));
        }
    }

    /// Solves for the separators of all lines.
    pub(super) fn join(&mut self, system: &System, name: &str) {
        self.eval.b.comment(format!("{name}, the last points of the segments"));
        let head = [system.head.upper, system.head.excess, system.head.rhs];
        let head = self.exchanged(head.map(fold::var).to_vec());
        let next = self.neighbour(1);
        let [corner, excess, rhs] = [0, 1, 2].map(|n| self.other(&head, n, &next, "next"));
        let upper = self.current("row_upper", system.row.upper);
        let minus = |cell: VarId, e: Expr| fold::sub(fold::var(cell), fold::mul(upper.clone(), e));
        let mut row = Entries {
            left: fold::var(system.row.left),
            excess: minus(system.row.excess, excess),
            rhs: minus(system.row.rhs, rhs),
            upper: fold::neg(fold::mul(upper.clone(), corner)),
        };
        let segments = self.shape.segments as i64;
        let mut distance = 1;
        loop {
            row = self.named("_joined", row);
            row = self.divided(row);
            if distance >= segments {
                break;
            }
            row = self.halved(row, distance, distance * 2 >= segments);
            distance *= 2;
        }
        let solution = self.exchanged(vec![row.rhs.clone()]);
        let previous = self.neighbour(-1);
        let before = self.other(&solution, 0, &previous, "previous");
        self.eval.b.push(Stmt::Assign(system.before, before));
        self.eval.b.push(Stmt::Assign(system.after, row.rhs));
    }

    /// A step of cyclic reduction: the row couples to those twice as far away; after the last step to none.
    fn halved(&mut self, row: Entries, distance: i64, last: bool) -> Entries {
        let Entries { left, upper, excess, rhs } = row;
        let set = self.exchanged(vec![excess.clone(), rhs.clone(), left.clone(), upper.clone()]);
        let (low, high) = (self.neighbour(-distance), self.neighbour(distance));
        let minus = |m: &mut Self, e: Expr, n: usize| {
            let (l, h) = (m.other(&set, n, &low, "low"), m.other(&set, n, &high, "high"));
            fold::sub(fold::sub(e, fold::mul(left.clone(), l)), fold::mul(upper.clone(), h))
        };
        let (excess, rhs) = (minus(self, excess, 0), minus(self, rhs, 1));
        let zero = || fold::real(0.0, self.eval.cx.real);
        if last {
            return Entries { left: zero(), upper: zero(), excess, rhs };
        }
        let (l, u) = (self.other(&set, 2, &low, "low"), self.other(&set, 3, &high, "high"));
        Entries { left: fold::neg(fold::mul(left, l)), upper: fold::neg(fold::mul(upper, u)), excess, rhs }
    }

    /// Makes numbers of all lanes of the block available to each other.
    fn exchanged(&mut self, values: Vec<Expr>) -> Vec<crate::kernel::BufferId> {
        let extent = self.shape.columns * self.shape.segments;
        let element = self.element();
        while self.shared.len() < 2 {
            let set = (0..4).map(|n| self.eval.b.local(&format!("shared_{n}"), Space::Shared, element, extent));
            let set = set.collect();
            self.shared.push(set);
        }
        let set = self.shared[self.turn].clone();
        self.turn = 1 - self.turn;
        let own = self.place(Expr::Lane(1));
        for (&buffer, value) in set.iter().zip(values) {
            self.eval.b.push(Stmt::Store { buffer, index: own.clone(), value });
        }
        self.eval.b.push(Stmt::Barrier(Scope::Block));
        set
    }

    /// Place of a segment of the own line in shared memory.
    fn place(&mut self, segment: Expr) -> Expr {
        let columns = fold::int(self.shape.columns as i64);
        self.bound("place", fold::add(Expr::Lane(0), fold::mul(columns, segment)))
    }

    /// Place of the segment so many further; beyond an end the entry it is multiplied by is zero, and any will do.
    fn neighbour(&mut self, distance: i64) -> Expr {
        let segments = self.shape.segments as i64;
        let moved = |d: i64| fold::add(Expr::Lane(1), fold::int(d));
        let segment = if self.shape.cyclic {
            fold::rem(moved(distance.rem_euclid(segments)), fold::int(segments))
        } else if distance < 0 {
            fold::binary(Op::Max, moved(distance), fold::int(0))
        } else {
            fold::min(moved(distance), fold::int(segments - 1))
        };
        self.place(segment)
    }

    /// What another lane has made available.
    fn other(&mut self, set: &[crate::kernel::BufferId], number: usize, place: &Expr, name: &str) -> Expr {
        fold::var(self.eval.b.bind_here(name, load_at(set[number], place.clone())))
    }

    /// The solution at a point on the way back.
    pub(super) fn substituted(&mut self, system: &System, row: &Row) -> Expr {
        let last = row.place == fold::int(self.shape.levels as i64 - 1);
        let value = if last {
            fold::var(system.after)
        } else {
            let at = |array: Array| self.eval.get(array, row.place.clone());
            let next = fold::mul(at(system.upper), fold::var(system.after));
            let previous = fold::mul(at(system.left), fold::var(system.before));
            fold::sub(fold::sub(at(system.rhs), next), previous)
        };
        let value = fold::var(self.eval.b.bind_here("solved", value));
        if !last {
            self.eval.b.push(Stmt::Assign(system.after, value.clone()));
        }
        value
    }

    /// Value of a variable that is about to change.
    fn current(&mut self, name: &str, cell: VarId) -> Expr {
        fold::var(self.eval.b.bind_here(name, fold::var(cell)))
    }

    fn bound(&mut self, name: &str, e: Expr) -> Expr {
        self.eval.b.bind(name, e)
    }

    fn named(&mut self, suffix: &str, row: Entries) -> Entries {
        Entries {
            left: self.bound(&format!("left{suffix}"), row.left),
            upper: self.bound(&format!("upper{suffix}"), row.upper),
            excess: self.bound(&format!("excess{suffix}"), row.excess),
            rhs: self.bound(&format!("rhs{suffix}"), row.rhs),
        }
    }

    fn assign(&mut self, cells: &Cells, row: &Entries) {
        let values = [(cells.left, &row.left), (cells.upper, &row.upper), (cells.excess, &row.excess)];
        for (cell, value) in values.into_iter().chain([(cells.rhs, &row.rhs)]) {
            self.eval.b.push(Stmt::Assign(cell, value.clone()));
        }
    }
}
