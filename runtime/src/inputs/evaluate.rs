//! Values of the expressions of a program, point by point in plain f64.
//!
//! This serves what a problem gives as an expression: right-hand side, guess, data arrays, parameters. Named values
//! that depend on one axis are kept in a table; others keep their last value, which repeats along the axes they do
//! not depend on.

use std::cell::{Cell, RefCell};

use kernelwright_syntax::program::{BinaryOp, CompareOp, Condition, Expr, ExprKind, Function, Operator, Shift};

/// A position: one letter per axis; absent axes are zero.
pub type Position = [i64; 3];

/// Positions outside the grid, on each side, whose values are kept in tables.
const MARGIN: i64 = 4;

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
            ExprKind::Binary(op, a, b) => binary(*op, self.value(a, at)?, self.value(b, at)?),
            ExprKind::Call(function, args) => {
                let args: Result<Vec<f64>, NotPlain> = args.iter().map(|arg| self.value(arg, at)).collect();
                call(*function, &args?)
            }
            ExprKind::If(condition, a, b) => {
                let chosen = if self.holds(condition, at)? { a } else { b };
                self.value(chosen, at)?
            }
        })
    }

    /// Values at all positions of a box from `from` on, axis 0 fastest.
    pub fn fill(&self, expr: &Expr, from: Position, extents: [usize; 3]) -> Result<Vec<f64>, NotPlain> {
        let mut values = Vec::with_capacity(extents.iter().product());
        for k in 0..extents[2] as i64 {
            for j in 0..extents[1] as i64 {
                for i in 0..extents[0] as i64 {
                    values.push(self.value(expr, [from[0] + i, from[1] + j, from[2] + k])?);
                }
            }
        }
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
            Condition::Compare(op, a, b) => compare(*op, self.value(a, at)?, self.value(b, at)?),
            Condition::And(a, b) => self.holds(a, at)? && self.holds(b, at)?,
            Condition::Or(a, b) => self.holds(a, at)? || self.holds(b, at)?,
            Condition::Not(a) => !self.holds(a, at)?,
        })
    }
}

fn shifted(at: Position, shift: &Shift) -> Position {
    std::array::from_fn(|axis| at[axis] + i64::from(shift[axis]))
}

fn binary(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
    }
}

fn compare(op: CompareOp, a: f64, b: f64) -> bool {
    match op {
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
    }
}

/// A built-in function; the checker has counted the arguments.
fn call(function: Function, args: &[f64]) -> f64 {
    let a = args.first().copied().unwrap_or(f64::NAN);
    let b = args.get(1).copied().unwrap_or(f64::NAN);
    match function {
        Function::Sqrt => a.sqrt(),
        Function::Exp => a.exp(),
        Function::Log => a.ln(),
        Function::Sin => a.sin(),
        Function::Cos => a.cos(),
        Function::Tan => a.tan(),
        Function::Tanh => a.tanh(),
        Function::Abs => a.abs(),
        Function::Floor => a.floor(),
        Function::Pow => a.powf(b),
        Function::Min => a.min(b),
        Function::Max => a.max(b),
    }
}
