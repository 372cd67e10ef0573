//! Values of tables and data arrays at any position, straight from their definitions.

use crate::math::{Operator, Rule, TableCondition, TableExpr};
use crate::{real, resolve};

use super::{EvalError, Position, moved};

/// Parameters and arrays of an operator.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    op: &'a Operator,
    params: &'a [f64],
    data: &'a [Vec<f64>],
}

impl<'a> Tables<'a> {
    /// Checks that parameters and arrays fit.
    ///
    /// # Errors
    /// When they do not.
    pub fn new(op: &'a Operator, params: &'a [f64], data: &'a [Vec<f64>]) -> Result<Self, EvalError> {
        if params.len() != op.params.len() {
            return Err(EvalError::Params { expected: op.params.len(), given: params.len() });
        }
        if data.len() != op.data.len() {
            return Err(EvalError::Arrays { expected: op.data.len(), given: data.len() });
        }
        let tables = Tables { op, params, data };
        for (d, values) in op.data.iter().zip(data) {
            let of_axes = || d.axes.iter().map(|&a| tables.extent(d.half, a)).product::<i64>() as u64;
            let expected = d.stored.as_ref().map_or_else(of_axes, |array| array.len);
            if values.len() as u64 != expected {
                return Err(EvalError::Array { name: d.name.clone(), expected, given: values.len() });
            }
        }
        Ok(tables)
    }

    /// Sizes per axis, one on absent axes.
    pub fn sizes(&self) -> [i64; 3] {
        let grid = self.op.space.grid();
        [0, 1, 2].map(|a| grid.axes.get(a).map_or(1, |a| a.size as i64))
    }

    /// Extent of an array along an axis.
    fn extent(&self, half: Option<usize>, axis: usize) -> i64 {
        self.sizes()[axis] + i64::from(half == Some(axis))
    }

    /// A parameter.
    pub fn param(&self, p: usize) -> f64 {
        self.params[p]
    }

    /// A whole array.
    pub fn array(&self, id: usize) -> &'a [f64] {
        &self.data[id]
    }

    /// Every stored value of a table.
    pub(super) fn fill(&self, id: usize) -> Vec<f64> {
        let table = &self.op.tables[id];
        let n = self.sizes();
        let mut range = [(0, 0); 3];
        for &a in &table.axes {
            range[a] = (-i64::from(table.below[a]), n[a] - 1 + i64::from(table.above[a]));
        }
        let mut out = Vec::new();
        for k in range[2].0..=range[2].1 {
            for j in range[1].0..=range[1].1 {
                out.extend((range[0].0..=range[0].1).map(|i| self.table(id, [i, j, k])));
            }
        }
        out
    }

    /// A table at a position.
    pub fn table(&self, id: usize, at: Position) -> f64 {
        self.value(&self.op.tables[id].value, at)
    }

    /// A data array at a position; NaN where a checked program never reads.
    pub fn data(&self, id: usize, at: Position) -> f64 {
        let d = &self.op.data[id];
        let n = self.sizes();
        let (mut index, mut stride) = (0, 1);
        for &a in &d.axes {
            let periodic = self.op.boundary[a][0] == Rule::Periodic;
            match resolve::data(d.outside, periodic, d.half == Some(a), at[a], n[a] as u64) {
                resolve::Element::At(x) => index += x as i64 * stride,
                resolve::Element::Zero => return 0.0,
                resolve::Element::Missing => return f64::NAN,
            }
            stride *= self.extent(d.half, a);
        }
        self.data[id][index as usize]
    }

    fn value(&self, e: &TableExpr, at: Position) -> f64 {
        match e {
            TableExpr::Number(v) => *v,
            TableExpr::Param(p) => self.params[*p],
            TableExpr::Size(a) => self.sizes()[*a] as f64,
            TableExpr::Index(a) => at[*a] as f64,
            TableExpr::Let(id, s) => self.value(&self.op.lets[*id].value, moved(at, *s)),
            TableExpr::Data(id, s) => self.data(*id, moved(at, *s)),
            TableExpr::Neg(a) => -self.value(a, at),
            TableExpr::Binary(op, a, b) => real::binary(*op, self.value(a, at), self.value(b, at)),
            TableExpr::Call(f, args) => real::call(*f, &args.iter().map(|a| self.value(a, at)).collect::<Vec<_>>()),
            TableExpr::Select(c, a, b) => self.value(if self.holds(c, at) { a } else { b }, at),
        }
    }

    fn holds(&self, c: &TableCondition, at: Position) -> bool {
        match c {
            TableCondition::Compare(op, a, b) => real::compare(*op, self.value(a, at), self.value(b, at)),
            TableCondition::And(a, b) => self.holds(a, at) && self.holds(b, at),
            TableCondition::Or(a, b) => self.holds(a, at) || self.holds(b, at),
            TableCondition::Not(a) => !self.holds(a, at),
        }
    }
}
