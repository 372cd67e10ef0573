//! Reference evaluation of Math IR in f64, on small grids: what kernels are tested against.
//!
//! Everything here follows the wording of [`math`](crate::math) and [`resolve`](crate::resolve) literally, one point
//! after another; speed is not a goal beyond grids of a few ten thousand points.

mod assemble;
mod tables;

pub use assemble::Matrix;
pub use tables::Tables;

use crate::math::{BinaryOp, Expr, Operator};
use crate::real;
use crate::resolve;

/// A position: one integer per axis, zero on absent axes.
pub type Position = [i64; 3];

/// Parameters or arrays that do not fit the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum EvalError {
    #[error("{expected} parameters expected, {given} given")]
    Params { expected: usize, given: usize },
    #[error("{expected} data arrays expected, {given} given")]
    Arrays { expected: usize, given: usize },
    #[error("data {name}: {expected} values expected, {given} given")]
    Array { name: String, expected: u64, given: usize },
}

/// An operator with its parameters and arrays.
pub struct Evaluator<'a> {
    op: &'a Operator,
    /// Sizes per axis, one on absent axes.
    sizes: [i64; 3],
    inputs: Tables<'a>,
    /// One array per table: positions -below … n-1+above, the first of its axes fastest.
    tables: Vec<Vec<f64>>,
    /// Whether each point takes part.
    active: Vec<bool>,
}

/// What a row is evaluated for; see [`math`](crate::math), "three readings of a row".
#[derive(Clone, Copy)]
enum Reading<'u> {
    Linear(&'u [f64]),
    AffinePart,
    Magnitude(&'u [f64]),
}

impl<'a> Evaluator<'a> {
    /// Evaluates all tables.
    ///
    /// # Errors
    /// When the number of parameters, or the number or length of arrays, does not fit.
    pub fn new(op: &'a Operator, params: &'a [f64], data: &'a [Vec<f64>]) -> Result<Self, EvalError> {
        let inputs = Tables::new(op, params, data)?;
        let sizes = inputs.sizes();
        let tables = (0..op.tables.len()).map(|t| inputs.fill(t)).collect();
        let mut evaluator = Evaluator { op, sizes, inputs, tables, active: Vec::new() };
        evaluator.active = (0..evaluator.points()).map(|p| evaluator.takes_part(p)).collect();
        Ok(evaluator)
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.sizes.iter().product::<i64>() as usize
    }

    /// Number of unknowns: points times components.
    pub fn unknowns(&self) -> usize {
        self.points() * self.op.rows.len()
    }

    /// Whether each point takes part (all true without a mask).
    pub fn active(&self) -> &[bool] {
        &self.active
    }

    /// A stored table: positions -below … n-1+above of its axes, the first axis fastest.
    pub fn table(&self, id: usize) -> &[f64] {
        &self.tables[id]
    }

    /// Position of a point.
    pub fn position(&self, point: usize) -> Position {
        let p = point as i64;
        let [n0, n1, _] = self.sizes;
        [p % n0, p / n0 % n1, p / (n0 * n1)]
    }

    /// Point at a position inside.
    pub fn point(&self, at: Position) -> usize {
        (at[0] + self.sizes[0] * (at[1] + self.sizes[1] * at[2])) as usize
    }

    /// A u: the operator without prescribed values. `u` holds one component after another.
    pub fn linear(&self, u: &[f64]) -> Vec<f64> {
        self.all_rows(Reading::Linear(u))
    }

    /// What prescribed values and terms without unknown contribute; solvers subtract it from the right-hand side.
    pub fn affine_part(&self) -> Vec<f64> {
        self.all_rows(Reading::AffinePart)
    }

    /// Every term of A u by its absolute value.
    pub fn magnitude(&self, u: &[f64]) -> Vec<f64> {
        self.all_rows(Reading::Magnitude(u))
    }

    fn all_rows(&self, reading: Reading) -> Vec<f64> {
        let mut out = Vec::with_capacity(self.unknowns());
        for row in &self.op.rows {
            for point in 0..self.points() {
                let value =
                    if self.active[point] { self.value(&row.value, self.position(point), reading) } else { 0.0 };
                out.push(value);
            }
        }
        out
    }

    /// A sum over the slots of a row: each term with the slot's value and gathered unknown in place.
    fn slots(&self, term: &Expr, at: Position, reading: Reading) -> f64 {
        let Some(rows) = self.op.space.rows() else { return f64::NAN };
        let get = |role, at: u64| {
            let array = rows.layout.array(role).map(|(number, _)| self.inputs.array(number));
            array.and_then(|array| array.get(at as usize)).copied().unwrap_or(f64::NAN)
        };
        let cells = crate::format::decode::row(&rows.layout, &get, at[0] as u64);
        cells.iter().map(|&(column, value)| self.term(term, value, column as i64, reading)).sum()
    }

    fn term(&self, e: &Expr, entry: f64, column: i64, reading: Reading) -> f64 {
        let magnitude = matches!(reading, Reading::Magnitude(_));
        match e {
            Expr::Entry if magnitude => entry.abs(),
            Expr::Entry => entry,
            Expr::Gather(c) => self.unknown(*c, [column, 0, 0], reading),
            Expr::Neg(a) if magnitude => self.term(a, entry, column, reading),
            Expr::Neg(a) => -self.term(a, entry, column, reading),
            Expr::Binary(op, a, b) => {
                let op = if magnitude && *op == BinaryOp::Sub { BinaryOp::Add } else { *op };
                real::binary(op, self.term(a, entry, column, reading), self.term(b, entry, column, reading))
            }
            constant if magnitude => self.coefficient(constant, [0; 3]).abs(),
            constant => self.coefficient(constant, [0; 3]),
        }
    }

    fn takes_part(&self, point: usize) -> bool {
        self.op.mask.as_ref().is_none_or(|m| self.coefficient(m, self.position(point)) != 0.0)
    }

    fn value(&self, e: &Expr, at: Position, reading: Reading) -> f64 {
        let magnitude = matches!(reading, Reading::Magnitude(_));
        let factor = |v: f64| if magnitude { v.abs() } else { v };
        match e {
            // A term without unknown belongs to the affine part alone.
            _ if !reads_unknown(e) => match reading {
                Reading::AffinePart => self.coefficient(e, at),
                Reading::Linear(_) | Reading::Magnitude(_) => 0.0,
            },
            Expr::Unknown(c, s) => self.unknown(*c, moved(at, *s), reading),
            Expr::Flux(id, s) => match self.face(*id, moved(at, *s)) {
                Some(at) => self.value(&self.op.fluxes[*id].value, at, reading),
                None => 0.0,
            },
            Expr::Slots(term) => self.slots(term, at, reading),
            Expr::Neg(a) if magnitude => self.value(a, at, reading),
            Expr::Neg(a) => -self.value(a, at, reading),
            Expr::Binary(BinaryOp::Sub, a, b) if magnitude => self.value(a, at, reading) + self.value(b, at, reading),
            Expr::Binary(BinaryOp::Div, a, b) => self.value(a, at, reading) / factor(self.coefficient(b, at)),
            Expr::Binary(BinaryOp::Mul, a, b) if reads_unknown(b) => {
                factor(self.coefficient(a, at)) * self.value(b, at, reading)
            }
            Expr::Binary(BinaryOp::Mul, a, b) => self.value(a, at, reading) * factor(self.coefficient(b, at)),
            Expr::Binary(op, a, b) => real::binary(*op, self.value(a, at, reading), self.value(b, at, reading)),
            Expr::Select(c, a, b) => self.value(if self.coefficient(c, at) != 0.0 { a } else { b }, at, reading),
            // A verified row is affine.
            Expr::Number(_)
            | Expr::Param(_)
            | Expr::Table(..)
            | Expr::Data(..)
            | Expr::Call(..)
            | Expr::Compare(..)
            | Expr::Entry
            | Expr::Gather(_) => f64::NAN,
        }
    }

    /// A coefficient at a position (inside, or where a flux or boundary brings it).
    pub fn coefficient(&self, e: &Expr, at: Position) -> f64 {
        match e {
            Expr::Number(v) => *v,
            Expr::Param(p) => self.inputs.param(*p),
            Expr::Table(id, s) => self.stored(*id, moved(at, *s)),
            Expr::Data(id, s) => self.inputs.data(*id, moved(at, *s)),
            Expr::Neg(a) => -self.coefficient(a, at),
            Expr::Binary(op, a, b) => real::binary(*op, self.coefficient(a, at), self.coefficient(b, at)),
            Expr::Call(f, args) => real::call(*f, &args.iter().map(|a| self.coefficient(a, at)).collect::<Vec<_>>()),
            Expr::Select(c, a, b) => self.coefficient(if self.coefficient(c, at) != 0.0 { a } else { b }, at),
            Expr::Compare(op, a, b) => {
                f64::from(u8::from(real::compare(*op, self.coefficient(a, at), self.coefficient(b, at))))
            }
            // A verified coefficient reads no unknown.
            Expr::Unknown(..) | Expr::Flux(..) | Expr::Slots(_) | Expr::Entry | Expr::Gather(_) => f64::NAN,
        }
    }

    /// A table at a position; outside its margins there is nothing to read.
    fn stored(&self, id: usize, at: Position) -> f64 {
        let table = &self.op.tables[id];
        let (mut index, mut stride) = (0, 1);
        for &a in &table.axes {
            let (below, above) = (i64::from(table.below[a]), i64::from(table.above[a]));
            let extent = self.sizes[a] + below + above;
            let x = at[a] + below;
            if x < 0 || x >= extent {
                return f64::NAN;
            }
            index += x * stride;
            stride *= extent;
        }
        self.tables[id][index as usize]
    }

    /// Where a flux is evaluated; none where it is zero.
    fn face(&self, id: usize, mut at: Position) -> Option<Position> {
        let axis = self.op.fluxes[id].axis;
        at[axis] = resolve::flux(&self.op.boundary[axis], at[axis], self.sizes[axis] as u64)?;
        Some(at)
    }

    fn unknown(&self, component: usize, at: Position, reading: Reading) -> f64 {
        let mut given = 0.0;
        let (sign, point) = self.resolve(at, &mut |_, factor, value| given += factor * value);
        let stored = |u: &[f64]| match point {
            Some(p) if self.active[p] => sign * u[component * self.points() + p],
            _ => 0.0,
        };
        match reading {
            Reading::Linear(u) => stored(u),
            Reading::Magnitude(u) => stored(u).abs(),
            Reading::AffinePart => given,
        }
    }

    /// Axis by axis: sign and point of a reading; prescribed values are reported as (table, factor, value).
    fn resolve(&self, mut at: Position, given: &mut dyn FnMut(usize, f64, f64)) -> (f64, Option<usize>) {
        let grid = self.op.space.grid();
        let mut sign = 1.0;
        for a in 0..grid.axes.len() {
            let rules = &self.op.boundary[a];
            let reading = resolve::unknown(rules, grid.centring, at[a], self.sizes[a] as u64);
            for &(side, factor) in &reading.given {
                if let crate::math::Rule::Dirichlet(table) = rules[side] {
                    given(table, sign * factor, self.stored(table, at));
                }
            }
            sign *= reading.sign;
            match reading.index {
                Some(m) => at[a] = m as i64,
                None => return (0.0, None),
            }
        }
        (sign, Some(self.point(at)))
    }
}

/// A position at a shift.
pub(crate) fn moved(at: Position, s: crate::math::Shift) -> Position {
    [0, 1, 2].map(|a| at[a] + i64::from(s[a]))
}

/// Whether an expression reads an unknown or a flux.
pub(crate) fn reads_unknown(e: &Expr) -> bool {
    match e {
        Expr::Unknown(..) | Expr::Flux(..) | Expr::Gather(_) => true,
        Expr::Number(_) | Expr::Param(_) | Expr::Table(..) | Expr::Data(..) | Expr::Entry => false,
        Expr::Neg(a) | Expr::Slots(a) => reads_unknown(a),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => reads_unknown(a) || reads_unknown(b),
        Expr::Call(_, args) => args.iter().any(reads_unknown),
        Expr::Select(c, a, b) => reads_unknown(c) || reads_unknown(a) || reads_unknown(b),
    }
}
