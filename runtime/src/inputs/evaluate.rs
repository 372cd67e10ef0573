//! Values of the expressions of a program, point by point in plain f64.
//!
//! This serves what a problem gives as an expression: right-hand side, guess, data arrays, parameters. Named values
//! that depend on one axis are kept in a table; others keep their last value, which repeats along the axes they do
//! not depend on.

use std::cell::{Cell, RefCell};

use rayon::prelude::*;

use kernelwright_codegen::real;
use kernelwright_syntax::program::{Condition, Expr, ExprKind, Operator, Shift};

/// A position: one letter per axis; absent axes are zero.
pub type Position = [i64; 3];

/// Positions outside the grid, on each side, whose values are kept in tables.
const MARGIN: i64 = 4;

/// Values that a core computes at once, about: many more than a table has.
const AT_ONCE: usize = 1 << 14;

/// Evaluates expressions of one operator for given sizes and parameters.
pub struct Evaluator<'p> {
    operator: &'p Operator,
    sizes: &'p [usize],
    params: &'p [f64],
    kept: Vec<Kept>,
}

/// Values of a `let` that were computed before.
enum Kept {
    /// By position along the one axis it depends on.
    Table { axis: usize, values: RefCell<Vec<f64>> },
    /// The last one, and where.
    Last(Cell<Option<(Position, f64)>>),
}

/// An expression that has no value here: it reads an unknown, a flux or a data array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotPlain;

impl<'p> Evaluator<'p> {
    /// For an operator with one size per axis and one value per parameter.
    pub fn new(operator: &'p Operator, sizes: &'p [usize], params: &'p [f64]) -> Self {
        let kept = operator.lets.iter().map(|named| {
            let axes: Vec<usize> = (0..sizes.len()).filter(|axis| named.depends[*axis]).collect();
            match axes[..] {
                [axis] => {
                    let len = sizes[axis] + 1 + 2 * MARGIN as usize;
                    Kept::Table { axis, values: RefCell::new(vec![f64::NAN; len]) }
                }
                _ => Kept::Last(Cell::new(None)),
            }
        });
        Evaluator { kept: kept.collect(), operator, sizes, params }
    }

    /// The value at a position.
    pub fn value(&self, expr: &Expr, at: Position) -> Result<f64, NotPlain> {
        Ok(match &expr.kind {
            ExprKind::Number(number) => *number,
            ExprKind::Size(axis) => self.sizes[*axis] as f64,
            ExprKind::Index(axis) => at[*axis] as f64,
            ExprKind::Param(param) => self.params[*param],
            ExprKind::Let(named, shift) => self.named(*named, shifted(at, shift))?,
            ExprKind::Data(..) | ExprKind::Unknown(..) | ExprKind::Flux(..) => return Err(NotPlain),
            ExprKind::Neg(a) => -self.value(a, at)?,
            ExprKind::Binary(op, a, b) => real::binary(*op, self.value(a, at)?, self.value(b, at)?),
            ExprKind::Call(function, args) => {
                let args: Result<Vec<f64>, NotPlain> = args.iter().map(|arg| self.value(arg, at)).collect();
                real::call(*function, &args?)
            }
            ExprKind::If(condition, a, b) => {
                let chosen = if self.holds(condition, at)? { a } else { b };
                self.value(chosen, at)?
            }
        })
    }

    /// Values at all positions of a box from `from` on, axis 0 fastest; rows are shared out to all cores.
    pub fn fill(&self, expr: &Expr, from: Position, extents: [usize; 3]) -> Result<Vec<f64>, NotPlain> {
        let len: usize = extents.iter().product();
        if let ExprKind::Number(number) = expr.kind {
            return Ok(vec![number; len]);
        }
        let mut values = vec![0.0; len];
        let rows = (AT_ONCE / extents[0].max(1)).max(1);
        let (operator, sizes, params) = (self.operator, self.sizes, self.params);
        values.par_chunks_mut((rows * extents[0]).max(1)).enumerate().try_for_each(|(piece, values)| {
            // What was computed before is kept per piece; it changes no value.
            let own = Evaluator::new(operator, sizes, params);
            for (row, values) in values.chunks_mut(extents[0]).enumerate() {
                let row = piece * rows + row;
                let (j, k) = ((row % extents[1]) as i64, (row / extents[1]) as i64);
                for (value, i) in values.iter_mut().zip(from[0]..) {
                    *value = own.value(expr, [i, from[1] + j, from[2] + k])?;
                }
            }
            Ok(())
        })?;
        Ok(values)
    }

    fn named(&self, number: usize, at: Position) -> Result<f64, NotPlain> {
        let named = &self.operator.lets[number];
        match &self.kept[number] {
            Kept::Table { axis, values } => {
                let slot = usize::try_from(at[*axis] + MARGIN).ok();
                let known = slot.and_then(|slot| values.borrow().get(slot).copied());
                match (slot, known) {
                    (_, Some(value)) if !value.is_nan() => Ok(value),
                    (Some(slot), Some(_)) => {
                        let value = self.value(&named.value, at)?;
                        values.borrow_mut()[slot] = value;
                        Ok(value)
                    }
                    _ => self.value(&named.value, at),
                }
            }
            Kept::Last(last) => {
                let key: Position = std::array::from_fn(|axis| if named.depends[axis] { at[axis] } else { 0 });
                match last.get() {
                    Some((place, value)) if place == key => Ok(value),
                    _ => {
                        let value = self.value(&named.value, at)?;
                        last.set(Some((key, value)));
                        Ok(value)
                    }
                }
            }
        }
    }

    fn holds(&self, condition: &Condition, at: Position) -> Result<bool, NotPlain> {
        Ok(match condition {
            Condition::Compare(op, a, b) => real::compare(*op, self.value(a, at)?, self.value(b, at)?),
            Condition::And(a, b) => self.holds(a, at)? && self.holds(b, at)?,
            Condition::Or(a, b) => self.holds(a, at)? || self.holds(b, at)?,
            Condition::Not(a) => !self.holds(a, at)?,
        })
    }
}

fn shifted(at: Position, shift: &Shift) -> Position {
    std::array::from_fn(|axis| at[axis] + i64::from(shift[axis]))
}
