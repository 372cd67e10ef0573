//! The operator as a matrix.

use std::collections::BTreeMap;

use crate::math::{BinaryOp, Expr};

use super::{Evaluator, Position, moved, reads_unknown};

/// A sparse matrix; rows and columns in the order of vectors (one component after another, axis 0 fastest).
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Rows: (column, value), columns ascending, coinciding couplings added.
    pub rows: Vec<Vec<(usize, f64)>>,
}

impl Matrix {
    /// One entry.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        let entries = &self.rows[row];
        entries.binary_search_by_key(&column, |e| e.0).map_or(0.0, |n| entries[n].1)
    }

    /// Row after row.
    pub fn dense(&self) -> Vec<f64> {
        let n = self.rows.len();
        let mut out = vec![0.0; n * n];
        for (r, row) in self.rows.iter().enumerate() {
            row.iter().for_each(|(c, v)| out[r * n + c] = *v);
        }
        out
    }

    /// Product with a vector.
    pub fn times(&self, u: &[f64]) -> Vec<f64> {
        self.rows.iter().map(|row| row.iter().map(|(c, v)| v * u[*c]).sum()).collect()
    }

    /// The diagonal.
    pub fn diagonal(&self) -> Vec<f64> {
        (0..self.rows.len()).map(|r| self.at(r, r)).collect()
    }
}

impl Evaluator<'_> {
    /// The linear part as a matrix. Rows and columns of points that take no part are empty.
    pub fn matrix(&self) -> Matrix {
        let mut rows = Vec::with_capacity(self.unknowns());
        for row in &self.op.rows {
            for point in 0..self.points() {
                let mut entries = BTreeMap::new();
                if self.active[point] {
                    self.collect(&row.value, 1.0, self.position(point), &mut entries);
                }
                rows.push(entries.into_iter().collect());
            }
        }
        Matrix { rows }
    }

    /// The part of the matrix that couples points of one line along an axis, same component: what `Line` solves with.
    pub fn line_part(&self, axis: usize) -> Matrix {
        let points = self.points();
        let same_line = |r: usize, c: usize| {
            let (p, q) = (self.position(r % points), self.position(c % points));
            r / points == c / points && (0..3).all(|a| a == axis || p[a] == q[a])
        };
        let mut matrix = self.matrix();
        for (r, row) in matrix.rows.iter_mut().enumerate() {
            row.retain(|(c, _)| same_line(r, *c));
        }
        matrix
    }

    fn collect(&self, e: &Expr, scale: f64, at: Position, out: &mut BTreeMap<usize, f64>) {
        match e {
            Expr::Unknown(c, s) => {
                let (sign, point) = self.resolve(moved(at, *s), &mut |_, _, _| {});
                if let Some(p) = point.filter(|p| self.active[*p]) {
                    *out.entry(c * self.points() + p).or_insert(0.0) += scale * sign;
                }
            }
            Expr::Flux(id, s) => {
                if let Some(at) = self.face(*id, moved(at, *s)) {
                    self.collect(&self.op.fluxes[*id].value, scale, at, out);
                }
            }
            Expr::Neg(a) => self.collect(a, -scale, at, out),
            Expr::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) => {
                self.collect(a, scale, at, out);
                self.collect(b, if *op == BinaryOp::Add { scale } else { -scale }, at, out);
            }
            Expr::Binary(BinaryOp::Div, a, b) => self.collect(a, scale / self.coefficient(b, at), at, out),
            Expr::Binary(BinaryOp::Mul, a, b) if reads_unknown(b) => {
                self.collect(b, scale * self.coefficient(a, at), at, out);
            }
            Expr::Binary(BinaryOp::Mul, a, b) => self.collect(a, scale * self.coefficient(b, at), at, out),
            Expr::Select(c, a, b) => {
                self.collect(if self.coefficient(c, at) != 0.0 { a } else { b }, scale, at, out);
            }
            // Free of unknowns: no part of the matrix.
            _ => {}
        }
    }

    /// A row or column for people: `u(0, 3, 1)`.
    pub fn name(&self, unknown: usize) -> String {
        let grid = self.op.space.grid();
        let at = self.position(unknown % self.points());
        let at: Vec<String> = at[..grid.axes.len()].iter().map(i64::to_string).collect();
        format!("{}({})", self.op.unknowns[unknown / self.points()], at.join(", "))
    }
}
