//! Elimination along a line, in excess form.
//!
//! A row couples x_k to x_{k±t}, t up to the half bandwidth, and is known by its entries beside the diagonal and its sum
//! S (the excess); the diagonal is S minus the entries and is never formed from the row itself. Subtracting a multiple
//! of an earlier row from a row does the same to the sums, so the pivot is always *S minus the entries that remain*:
//! for an M-matrix a sum of numbers of one sign, in which a small zero-order term survives (Grassmann, Taksar and
//! Heyman eliminate Markov chains this way). With one neighbour on each side this is the Thomas algorithm with
//!     S_k = s_k - l_k S_{k-1}/D_{k-1},   D_k = S_k - u_k,   e_k = u_k/D_k,   y_k = (f_k - l_k y_{k-1})/D_k.
//!
//! A closed line is opened by setting its last w points aside as *border* unknowns: every row may couple to them, their
//! own rows are eliminated along with the others, and a small dense system for them remains. Lines too short for
//! that are solved as if all their points were neighbours.

use std::collections::BTreeMap;

use super::MapError;
use super::context::Context;
use super::fold;
use super::landing::{Line, LineRow, Target};
use super::line::{Array, ArrayId, Cell, Mapper};
use crate::couplings::{bandwidth, is_cyclic};
use crate::kernel::{Cmp, Expr};
use crate::loops::ValueId;

/// Shape of the systems of a component.
#[derive(Debug, Clone, Copy)]
pub(super) struct Solver {
    component: usize,
    /// Half bandwidth.
    band: usize,
    /// Border unknowns.
    border: usize,
}

impl Solver {
    /// Decides how lines along an axis are solved: all components in one way, so that their points go together.
    pub(super) fn new(cx: &Context, component: usize, axis: usize) -> Result<Solver, MapError> {
        let n = cx.size(axis) as usize;
        let op = cx.operator();
        let (band, border) = match bandwidth(op, axis) as usize {
            0 => (0, 0),
            w if !is_cyclic(op, axis) => (w.min(n - 1), 0),
            w if n >= 3 * w => (w, w),
            _ => (n - 1, 0),
        };
        if band > 64 {
            return Err(MapError::Unsupported(format!("lines with half bandwidth {band}")));
        }
        Ok(Solver { component, band, border })
    }

    /// Half bandwidth 1.
    pub(super) fn is_tridiagonal(&self) -> bool {
        self.band == 1
    }

    /// The line is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.border > 0
    }

    /// Elements per point that its arrays hold.
    pub(super) fn arrays(&self) -> u64 {
        (self.band + self.border + 1) as u64
    }
}

/// An eliminated row: divided by its pivot.
struct Row {
    /// Entries to the right, 1 … w.
    upper: Vec<Cell>,
    /// Entries at border unknowns.
    border: Vec<Cell>,
    /// Sum.
    excess: Cell,
    /// Right side.
    rhs: Cell,
}

/// The row of a border unknown while it is eliminated.
struct BorderRow {
    /// Entries at the next w unknowns.
    window: Vec<Cell>,
    /// Entries at the last w unknowns before the border.
    tail: Vec<Cell>,
    /// Entries at border unknowns.
    border: Vec<Cell>,
    excess: Cell,
    rhs: Cell,
}

/// Everything that belongs to the solution of one component's systems.
struct System {
    solver: Solver,
    /// Eliminated rows k-1, k-2, …
    before: Vec<Row>,
    borders: Vec<BorderRow>,
    /// Entries of all rows, for the way back.
    upper: Vec<Array>,
    border: Vec<Array>,
    /// Right sides, then solutions.
    rhs: Array,
    /// Solutions k+1, k+2, … on the way back, and at the border.
    after: Vec<Cell>,
    at_border: Vec<Cell>,
}

impl Mapper<'_, '_> {
    /// One solve: forwards, the border, backwards, with all that is done on the way.
    pub(super) fn solve(&mut self, number: usize, kept: &BTreeMap<ValueId, ArrayId>) -> Result<(), MapError> {
        let (solution, right) = self.plan.solves[number];
        let n = self.eval.cx.size(self.axis) as i64;
        let solvers = self.solvers.clone();
        let systems: Vec<System> = solvers.into_iter().map(|s| self.system(s, solution)).collect();
        for system in &systems {
            self.clear(&system.carried())?;
        }
        let most = systems.iter().map(|s| s.solver.border as i64).max().unwrap_or(0);
        let name = self.eval.sweep.values[solution.0].name.clone();
        let letter = self.eval.cx.letters()[self.axis];
        self.enter(2 * number, kept);
        let (apart, reach) = (self.reach(2 * number, false), self.reach(2 * number, true));
        self.eval.b.comment(format!("{name}, forwards along {letter}"));
        for at in n - most..n {
            self.row(at, apart, &|m| m.forward(&systems, number, right, kept, Some(at)))?;
        }
        self.rows(0, n - most, 1, reach, &|m| m.forward(&systems, number, right, kept, None))?;
        if most > 0 {
            self.eval.b.comment("the points that close the line");
            self.across(|m| {
                systems.iter().for_each(|s| m.close(s));
                Ok(())
            })?;
        }
        for system in &systems {
            self.clear(&system.after)?;
        }
        self.enter(2 * number + 1, kept);
        let reach = self.reach(2 * number + 1, true);
        self.eval.b.comment(format!("{name}, backwards"));
        for at in (n - most..n).rev() {
            self.row(at, reach, &|m| m.backward(&systems, number, solution, kept, Some(at)))?;
        }
        self.rows(n - most - 1, -1, -1, reach, &|m| m.backward(&systems, number, solution, kept, None))?;
        self.eval.known.clear();
        let arrays = systems.iter().map(|s| s.rhs).collect();
        let id = self.eval.keep(arrays);
        self.eval.kept.insert(solution, super::eval::Kept::Array(id, self.axis));
        Ok(())
    }

    /// Cells and arrays of a component.
    fn system(&mut self, solver: Solver, solution: ValueId) -> System {
        let z = self.eval.sweep.values[solution.0].name.clone();
        let n = self.eval.cx.size(self.axis);
        let before = (0..solver.band).map(|_| self.eliminated(&solver)).collect();
        let borders = (0..solver.border).map(|_| self.border_row(&solver)).collect();
        System {
            before,
            borders,
            upper: (0..solver.band).map(|_| self.eval.array("upper", n)).collect(),
            border: (0..solver.border).map(|_| self.eval.array("border", n)).collect(),
            rhs: self.eval.array(&format!("{z}_line"), n),
            after: (0..solver.band).map(|_| self.cell(&format!("{z}_after"))).collect(),
            at_border: (0..solver.border).map(|_| self.cell(&format!("{z}_border"))).collect(),
            solver,
        }
    }

    fn eliminated(&mut self, solver: &Solver) -> Row {
        Row {
            upper: self.cells("upper_before", solver.band),
            border: self.cells("border_before", solver.border),
            excess: self.cell("excess_before"),
            rhs: self.cell("rhs_before"),
        }
    }

    fn border_row(&mut self, solver: &Solver) -> BorderRow {
        BorderRow {
            window: self.cells("window", solver.band),
            tail: self.cells("tail", solver.band),
            border: self.cells("closing", solver.border),
            excess: self.cell("closing_excess"),
            rhs: self.cell("closing_rhs"),
        }
    }

    fn cells(&mut self, name: &str, count: usize) -> Vec<Cell> {
        (0..count).map(|_| self.cell(name)).collect()
    }

    /// A point on the way forwards; `last` is its position if it is one of those set aside for some component.
    fn forward(
        &mut self,
        systems: &[System],
        number: usize,
        right: ValueId,
        kept: &BTreeMap<ValueId, ArrayId>,
        last: Option<i64>,
    ) -> Result<(), MapError> {
        let here = self.eval.frame.here();
        let n = self.eval.cx.size(self.axis) as i64;
        let mut rhs = Vec::new();
        for system in systems {
            rhs.push(self.eval.value(right, system.solver.component, &here)?);
        }
        self.tasks(2 * number, kept)?;
        for (system, rhs) in systems.iter().zip(rhs) {
            let border = system.solver.border as i64;
            let line = Line { axis: self.axis, border };
            let mut row = self.eval.landed(system.solver.component, &here, Some(line))?;
            self.eval.mask_row(&mut row, &here)?;
            match last.filter(|&at| at >= n - border) {
                Some(at) => self.begin_border(system, at, row, rhs),
                None => self.eliminate(system, row, rhs),
            }
        }
        Ok(())
    }

    /// Names an entry.
    fn named(&mut self, name: &str, e: Expr) -> Expr {
        self.eval.b.bind(name, e)
    }

    /// Eliminates a row by those before it, divides it by its pivot and keeps it.
    fn eliminate(&mut self, system: &System, row: LineRow, rhs: Expr) {
        let real = self.eval.cx.real;
        let zero = || fold::real(0.0, real);
        let w = system.solver.band as i64;
        let entry = |t: Target| row.entries.get(&t).cloned();
        let mut band: BTreeMap<i64, Expr> = (-w..=w).filter_map(|d| entry(Target::Band(d)).map(|e| (d, e))).collect();
        let mut border: Vec<Option<Expr>> =
            (0..system.solver.border as i64).map(|q| entry(Target::Border(q))).collect();
        let mut excess = row.excess.unwrap_or_else(zero);
        let mut rhs = rhs;
        for j in (1..=w).rev() {
            let Some(lower) = band.remove(&-j) else {
                continue;
            };
            let lower = self.named("lower", lower);
            let earlier = &system.before[j as usize - 1];
            let minus = |m: &Self, from: Option<Expr>, cell: Cell| {
                let product = fold::mul(lower.clone(), m.value(cell));
                Some(match from {
                    Some(from) => fold::sub(from, product),
                    None => fold::neg(product),
                })
            };
            for t in 1..=w {
                // The diagonal is never formed: the excess stands for it.
                if t == j {
                    continue;
                }
                let from = band.remove(&(t - j));
                if let Some(e) = minus(self, from, earlier.upper[t as usize - 1]) {
                    let e = self.named("entry", e);
                    band.insert(t - j, e);
                }
            }
            for (q, slot) in border.iter_mut().enumerate() {
                *slot = minus(self, slot.take(), earlier.border[q]);
            }
            excess = minus(self, Some(excess), earlier.excess).unwrap_or_else(zero);
            rhs = minus(self, Some(rhs), earlier.rhs).unwrap_or_else(zero);
        }
        let excess = self.named("excess", excess);
        let upper: Vec<Option<Expr>> = (1..=w).map(|t| band.remove(&t).map(|e| self.named("beside", e))).collect();
        let border: Vec<Option<Expr>> = border.into_iter().map(|e| e.map(|e| self.named("closing_entry", e))).collect();
        let pivot = upper.iter().chain(&border).flatten().fold(excess.clone(), |d, e| fold::sub(d, e.clone()));
        let inverse = self.named("inverse", fold::div(fold::real(1.0, real), pivot));
        let scaled = |m: &mut Self, name: &str, e: Option<Expr>| match e {
            Some(e) => m.named(name, fold::mul(e, inverse.clone())),
            None => zero(),
        };
        let upper: Vec<Expr> = upper.into_iter().map(|e| scaled(self, "upper_new", e)).collect();
        let border: Vec<Expr> = border.into_iter().map(|e| scaled(self, "border_new", e)).collect();
        let rhs = scaled(self, "rhs_new", Some(rhs));
        let excess = if w > 0 || !border.is_empty() { scaled(self, "excess_new", Some(excess)) } else { zero() };
        self.keep_row(system, &upper, &border, &excess, &rhs);
    }

    /// Stores an eliminated row, lets the border rows use it, and makes it the nearest of those before.
    fn keep_row(&mut self, system: &System, upper: &[Expr], border: &[Expr], excess: &Expr, rhs: &Expr) {
        let k = fold::var(self.eval.frame.own[self.axis]);
        for (array, value) in system.upper.iter().zip(upper).chain(system.border.iter().zip(border)) {
            self.eval.put(*array, k.clone(), value.clone());
        }
        self.eval.put(system.rhs, k.clone(), rhs.clone());
        for row in &system.borders {
            self.advance_border(system, row, upper, border, excess, rhs);
        }
        for j in (1..system.before.len()).rev() {
            let (to, from) = (&system.before[j], &system.before[j - 1]);
            for (to, from) in to.all().into_iter().zip(from.all()) {
                let value = self.value(from);
                self.set(to, value);
            }
        }
        if let Some(nearest) = system.before.first() {
            let values = upper.iter().chain(border).chain([excess, rhs]);
            for (cell, value) in nearest.all().into_iter().zip(values) {
                self.set(cell, value.clone());
            }
        }
    }

    /// Starts the row of a border unknown.
    fn begin_border(&mut self, system: &System, at: i64, row: LineRow, rhs: Expr) {
        let n = self.eval.cx.size(self.axis) as i64;
        let (w, b) = (system.solver.band as i64, system.solver.border as i64);
        let own = &system.borders[(at - (n - b)) as usize];
        for (target, value) in row.entries {
            let cell = match target {
                Target::Border(q) => own.border[q as usize],
                Target::Band(d) if at + d < w => own.window[(at + d) as usize],
                Target::Band(d) => own.tail[(at + d - (n - b - w)) as usize],
            };
            self.set(cell, value);
        }
        if let Some(excess) = row.excess {
            self.set(own.excess, excess);
        }
        self.set(own.rhs, rhs);
    }

    /// Eliminates a border row by the row just made.
    fn advance_border(
        &mut self,
        system: &System,
        row: &BorderRow,
        upper: &[Expr],
        border: &[Expr],
        excess: &Expr,
        rhs: &Expr,
    ) {
        let n = self.eval.cx.size(self.axis) as i64;
        let (w, b) = (system.solver.band, system.solver.border as i64);
        let factor = self.value(row.window[0]);
        let factor = fold::var(self.eval.b.bind_here("factor", factor));
        let k = fold::var(self.eval.frame.own[self.axis]);
        for (t, upper) in upper.iter().enumerate().take(w) {
            let from = if t + 1 < w {
                self.value(row.window[t + 1])
            } else {
                // An entry of the row itself comes in sight.
                let mut entering = fold::real(0.0, self.eval.cx.real);
                for (place, cell) in row.tail.iter().enumerate() {
                    let column = n - b - w as i64 + place as i64;
                    let cond = fold::compare(Cmp::Eq, k.clone(), fold::int(column - w as i64));
                    entering = fold::select(cond, self.value(*cell), entering);
                }
                entering
            };
            self.set(row.window[t], fold::sub(from, fold::mul(factor.clone(), upper.clone())));
        }
        let rest = row.border.iter().chain([&row.excess, &row.rhs]).zip(border.iter().chain([excess, rhs]));
        for (cell, value) in rest {
            let from = self.value(*cell);
            self.set(*cell, fold::sub(from, fold::mul(factor.clone(), value.clone())));
        }
    }

    /// Solves for the border unknowns: dense, in excess form.
    fn close(&mut self, system: &System) {
        let count = system.borders.len();
        let real = self.eval.cx.real;
        let row_cells: Vec<Vec<Cell>> =
            system.borders.iter().map(|r| r.border.iter().copied().chain([r.excess, r.rhs]).collect()).collect();
        let mut rows: Vec<Vec<Expr>> =
            row_cells.iter().map(|cells| cells.iter().map(|c| self.value(*c)).collect()).collect();
        for p in 0..count {
            let beside = rows[p][p + 1..count].iter().cloned();
            let pivot = beside.fold(rows[p][count].clone(), fold::sub);
            let inverse = self.named("inverse", fold::div(fold::real(1.0, real), pivot));
            for slot in (p + 1..count).chain([count, count + 1]) {
                rows[p][slot] = self.named("closed", fold::mul(rows[p][slot].clone(), inverse.clone()));
            }
            for r in p + 1..count {
                let factor = self.named("factor", rows[r][p].clone());
                for slot in (p + 1..count + 2).filter(|&s| s != r) {
                    let next = fold::sub(rows[r][slot].clone(), fold::mul(factor.clone(), rows[p][slot].clone()));
                    rows[r][slot] = self.named("closing_next", next);
                }
            }
        }
        let mut solved: Vec<Expr> = vec![fold::real(0.0, real); count];
        for p in (0..count).rev() {
            let known = (p + 1..count).map(|q| fold::mul(rows[p][q].clone(), solved[q].clone()));
            let value = known.fold(rows[p][count + 1].clone(), fold::sub);
            solved[p] = self.named("border_value", value);
        }
        for (cell, value) in system.at_border.iter().zip(solved) {
            self.set(*cell, value);
        }
    }

    /// A point on the way back.
    fn backward(
        &mut self,
        systems: &[System],
        number: usize,
        solution: ValueId,
        kept: &BTreeMap<ValueId, ArrayId>,
        last: Option<i64>,
    ) -> Result<(), MapError> {
        let n = self.eval.cx.size(self.axis) as i64;
        let again = number + 1 < self.plan.solves.len();
        let name = format!("{}_new", self.eval.sweep.values[solution.0].name);
        let k = fold::var(self.eval.frame.own[self.axis]);
        for system in systems {
            let border = system.solver.border as i64;
            let closed = last.filter(|&at| at >= n - border).map(|at| (at - (n - border)) as usize);
            let value = match closed {
                Some(q) => self.value(system.at_border[q]),
                None => self.substituted(system, &k),
            };
            let value = fold::var(self.eval.b.bind_here(&name, value));
            if again {
                self.eval.put(system.rhs, k.clone(), value.clone());
            }
            if closed.is_none() {
                for t in (1..system.after.len()).rev() {
                    let from = self.value(system.after[t - 1]);
                    self.set(system.after[t], from);
                }
                if let Some(&nearest) = system.after.first() {
                    self.set(nearest, value.clone());
                }
            }
            self.eval.known.insert((solution, system.solver.component), value);
        }
        self.tasks(2 * number + 1, kept)
    }

    /// Right side minus what the solutions after it contribute.
    fn substituted(&mut self, system: &System, k: &Expr) -> Expr {
        let mut value = self.eval.get(system.rhs, k.clone());
        let after = system.upper.iter().zip(&system.after).chain(system.border.iter().zip(&system.at_border));
        for (array, cell) in after {
            let entry = self.eval.get(*array, k.clone());
            value = fold::sub(value, fold::mul(entry, self.value(*cell)));
        }
        value
    }
}

impl Row {
    fn all(&self) -> Vec<Cell> {
        self.upper.iter().chain(&self.border).copied().chain([self.excess, self.rhs]).collect()
    }
}

impl System {
    /// Cells that must be zero at the start.
    fn carried(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = self.before.iter().flat_map(Row::all).collect();
        for row in &self.borders {
            cells.extend(row.window.iter().chain(&row.tail).chain(&row.border).copied());
            cells.extend([row.excess, row.rhs]);
        }
        cells
    }
}
