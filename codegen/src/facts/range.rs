//! Ranges of coefficients: interval arithmetic with the one distinction signs need, whether zero itself is taken.
//!
//! Without values, parameters and arrays may be anything. With values, a table's range is found by evaluating it
//! where it is read (up to a limit), an array's by looking at it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::math::{BinaryOp, Expr, Function, Operator, Rule, Shift, TableCondition, TableExpr};
use crate::math_eval::Tables;
use crate::real;

/// Most table elements evaluated to find a range; beyond it the definition is bounded by intervals.
const MOST_ELEMENTS: i64 = 1 << 22;

/// A range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub low: f64,
    pub high: f64,
    /// Zero is not among the values even where `low` or `high` is zero.
    pub nonzero: bool,
}

/// Positions along each axis, both ends included.
pub(super) type Box3 = [(i64, i64); 3];

impl Range {
    const ANY: Range = Range { low: f64::NEG_INFINITY, high: f64::INFINITY, nonzero: false };

    pub fn number(v: f64) -> Range {
        if v.is_nan() { Range::ANY } else { Range { low: v, high: v, nonzero: v != 0.0 } }
    }

    fn new(low: f64, high: f64, nonzero: bool) -> Range {
        if low.is_nan() || high.is_nan() {
            return Range::ANY;
        }
        Range { low, high, nonzero: nonzero || low > 0.0 || high < 0.0 }
    }

    /// All values are > 0.
    pub fn positive(self) -> bool {
        self.low >= 0.0 && self.nonzero
    }

    /// All values are >= 0.
    pub fn nonnegative(self) -> bool {
        self.low >= 0.0
    }

    pub fn neg(self) -> Range {
        Range { low: -self.high, high: -self.low, nonzero: self.nonzero }
    }

    pub fn plus(self, o: Range) -> Range {
        // Of two values of one sign, one that is not zero is enough.
        let up = self.low >= 0.0 && o.low >= 0.0;
        let down = self.high <= 0.0 && o.high <= 0.0;
        Range::new(self.low + o.low, self.high + o.high, (up || down) && (self.nonzero || o.nonzero))
    }

    pub fn times(self, o: Range) -> Range {
        // Zero times an infinite end is zero: the end itself is never taken.
        let product = |a: f64, b: f64| if a == 0.0 || b == 0.0 { 0.0 } else { a * b };
        let ends = [
            product(self.low, o.low),
            product(self.low, o.high),
            product(self.high, o.low),
            product(self.high, o.high),
        ];
        let low = ends.into_iter().fold(f64::INFINITY, f64::min);
        let high = ends.into_iter().fold(f64::NEG_INFINITY, f64::max);
        Range::new(low, high, self.nonzero && o.nonzero)
    }

    fn square(self) -> Range {
        let (a, b) = (self.low * self.low, self.high * self.high);
        let low = if self.low > 0.0 || self.high < 0.0 { a.min(b) } else { 0.0 };
        Range::new(low, a.max(b), self.nonzero)
    }

    pub fn inverse(self) -> Range {
        if self.positive() {
            let high = if self.low == 0.0 { f64::INFINITY } else { 1.0 / self.low };
            return Range::new(1.0 / self.high, high, true);
        }
        if self.neg().positive() {
            return self.neg().inverse().neg();
        }
        Range::ANY
    }

    fn hull(self, o: Range) -> Range {
        Range { low: self.low.min(o.low), high: self.high.max(o.high), nonzero: self.nonzero && o.nonzero }
    }

    /// The range raised to an exponent.
    pub fn power(self, exponent: i32) -> Range {
        let mut out = Range::number(1.0);
        let magnitude = exponent.unsigned_abs();
        for _ in 0..magnitude / 2 {
            out = out.times(self.square());
        }
        if magnitude % 2 == 1 {
            out = out.times(self);
        }
        if exponent < 0 { out.inverse() } else { out }
    }

    fn call(f: Function, args: &[Range]) -> Range {
        let x = args[0];
        let monotone = |g: fn(f64) -> f64| Range::new(g(x.low), g(x.high), false);
        match f {
            Function::Sqrt if x.nonnegative() => Range { nonzero: x.nonzero, ..monotone(f64::sqrt) },
            Function::Exp => Range { nonzero: true, ..monotone(f64::exp) },
            Function::Log if x.positive() => monotone(f64::ln),
            Function::Tanh => Range { nonzero: x.nonzero, ..monotone(f64::tanh) },
            Function::Floor => monotone(f64::floor),
            Function::Sin | Function::Cos => Range::new(-1.0, 1.0, false),
            Function::Abs if x.nonnegative() => x,
            Function::Abs if x.high <= 0.0 => x.neg(),
            Function::Abs => Range::new(0.0, x.high.max(-x.low), x.nonzero),
            Function::Min => Range::new(x.low.min(args[1].low), x.high.min(args[1].high), x.nonzero && args[1].nonzero),
            Function::Max => Range::new(x.low.max(args[1].low), x.high.max(args[1].high), x.nonzero && args[1].nonzero),
            Function::Pow => Range::pow(x, args[1]),
            _ => Range::ANY,
        }
    }

    fn pow(x: Range, y: Range) -> Range {
        if y.low == y.high && y.low == y.low.round() && y.low.abs() <= 64.0 {
            return x.power(y.low as i32);
        }
        if !x.positive() {
            return Range::ANY;
        }
        let ends = [x.low.powf(y.low), x.low.powf(y.high), x.high.powf(y.low), x.high.powf(y.high)];
        let low = ends.into_iter().fold(f64::INFINITY, f64::min);
        let high = ends.into_iter().fold(f64::NEG_INFINITY, f64::max);
        Range { nonzero: true, ..Range::new(low.max(0.0), high, true) }
    }
}

/// Finds ranges, with values if they are known.
pub(super) struct Ranges<'a> {
    pub op: &'a Operator,
    values: Option<Tables<'a>>,
    /// Tables are read by many couplings: their ranges are found once.
    found: RefCell<BTreeMap<(usize, Box3), Range>>,
}

impl<'a> Ranges<'a> {
    /// Ranges with or without values.
    pub fn new(op: &'a Operator, values: Option<Tables<'a>>) -> Self {
        Ranges { op, values, found: RefCell::default() }
    }

    /// All positions of rows.
    pub fn inside(&self) -> Box3 {
        let grid = self.op.space.grid();
        [0, 1, 2].map(|a| (0, grid.axes.get(a).map_or(0, |a| a.size as i64 - 1)))
    }

    /// Positions at which a row reads a flux and its body counts; none if there are none.
    pub fn faces(&self, flux: usize, shift: Shift) -> Option<Box3> {
        let axis = self.op.fluxes[flux].axis;
        let inside = self.inside();
        let mut at = moved(inside, shift);
        let rules = &self.op.boundary[axis];
        if rules[0] == Rule::Periodic {
            at[axis] = inside[axis];
        }
        if rules[0] == Rule::NoFlux && at[axis].0 == -1 {
            at[axis].0 = 0;
        }
        if rules[1] == Rule::NoFlux && at[axis].1 == inside[axis].1 {
            at[axis].1 -= 1;
        }
        (at[axis].0 <= at[axis].1).then_some(at)
    }

    /// Range of a coefficient over positions.
    pub fn expr(&self, e: &Expr, at: Box3) -> Range {
        match e {
            Expr::Number(v) => Range::number(*v),
            Expr::Param(p) => self.param(*p),
            Expr::Table(id, s) => self.table(*id, moved(at, *s)),
            Expr::Data(id, _) => self.array(*id),
            Expr::Neg(a) => self.expr(a, at).neg(),
            Expr::Binary(BinaryOp::Mul, a, b) if a == b => self.expr(a, at).square(),
            Expr::Binary(op, a, b) => binary(*op, self.expr(a, at), self.expr(b, at)),
            Expr::Call(f, args) => Range::call(*f, &args.iter().map(|a| self.expr(a, at)).collect::<Vec<_>>()),
            Expr::Select(_, a, b) => self.expr(a, at).hull(self.expr(b, at)),
            Expr::Compare(..) => Range::new(0.0, 1.0, false),
            Expr::Unknown(..) | Expr::Flux(..) | Expr::Slots(_) | Expr::Entry | Expr::Gather(_) => Range::ANY,
        }
    }

    fn param(&self, p: usize) -> Range {
        self.values.map_or(Range::ANY, |v| Range::number(v.param(p)))
    }

    fn array(&self, id: usize) -> Range {
        let Some(values) = self.values else { return Range::ANY };
        let all = values.array(id).iter().map(|v| Range::number(*v)).reduce(Range::hull).unwrap_or(Range::ANY);
        if self.op.data[id].outside == crate::math::Outside::Zero { all.hull(Range::number(0.0)) } else { all }
    }

    /// Range of a table over positions.
    pub fn table(&self, id: usize, at: Box3) -> Range {
        let table = &self.op.tables[id];
        let mut box3 = [(0, 0); 3];
        table.axes.iter().for_each(|&a| box3[a] = at[a]);
        if let Some(range) = self.found.borrow().get(&(id, box3)) {
            return *range;
        }
        let range = self.table_range(id, box3);
        self.found.borrow_mut().insert((id, box3), range);
        range
    }

    fn table_range(&self, id: usize, box3: Box3) -> Range {
        let elements = box3.iter().map(|(low, high)| high - low + 1).try_fold(1i64, |n, d| n.checked_mul(d));
        match (self.values, elements) {
            (Some(values), Some(n)) if n <= MOST_ELEMENTS => {
                let mut range: Option<Range> = None;
                each_position(box3, |at| {
                    let v = Range::number(values.table(id, at));
                    range = Some(range.map_or(v, |r| r.hull(v)));
                });
                range.unwrap_or(Range::ANY)
            }
            _ => self.value(&self.op.tables[id].value, box3),
        }
    }

    fn value(&self, e: &TableExpr, at: Box3) -> Range {
        match e {
            TableExpr::Number(v) => Range::number(*v),
            TableExpr::Param(p) => self.param(*p),
            TableExpr::Size(a) => Range::number((self.inside()[*a].1 + 1) as f64),
            TableExpr::Index(a) => Range::new(at[*a].0 as f64, at[*a].1 as f64, false),
            TableExpr::Let(id, s) => self.value(&self.op.lets[*id].value, moved(at, *s)),
            TableExpr::Data(id, _) => self.array(*id),
            TableExpr::Neg(a) => self.value(a, at).neg(),
            TableExpr::Binary(BinaryOp::Mul, a, b) if a == b => self.value(a, at).square(),
            TableExpr::Binary(op, a, b) => binary(*op, self.value(a, at), self.value(b, at)),
            TableExpr::Call(f, args) => Range::call(*f, &args.iter().map(|a| self.value(a, at)).collect::<Vec<_>>()),
            TableExpr::Select(c, a, b) => match self.holds(c, at) {
                Some(true) => self.value(a, at),
                Some(false) => self.value(b, at),
                None => self.value(a, at).hull(self.value(b, at)),
            },
        }
    }

    /// The truth of a condition, where ranges of single values decide it.
    fn holds(&self, c: &TableCondition, at: Box3) -> Option<bool> {
        match c {
            TableCondition::Compare(op, a, b) => {
                let (a, b) = (self.value(a, at), self.value(b, at));
                (a.low == a.high && b.low == b.high).then(|| real::compare(*op, a.low, b.low))
            }
            TableCondition::And(a, b) => Some(self.holds(a, at)? && self.holds(b, at)?),
            TableCondition::Or(a, b) => Some(self.holds(a, at)? || self.holds(b, at)?),
            TableCondition::Not(a) => self.holds(a, at).map(|h| !h),
        }
    }
}

fn binary(op: BinaryOp, a: Range, b: Range) -> Range {
    match op {
        BinaryOp::Add => a.plus(b),
        BinaryOp::Sub => a.plus(b.neg()),
        BinaryOp::Mul => a.times(b),
        BinaryOp::Div => a.times(b.inverse()),
    }
}

fn moved(at: Box3, s: Shift) -> Box3 {
    [0, 1, 2].map(|a| (at[a].0 + i64::from(s[a]), at[a].1 + i64::from(s[a])))
}

fn each_position(at: Box3, mut f: impl FnMut([i64; 3])) {
    for k in at[2].0..=at[2].1 {
        for j in at[1].0..=at[1].1 {
            (at[0].0..=at[0].1).for_each(|i| f([i, j, k]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn signs() {
        let any = Range::ANY;
        assert!(any.square().nonnegative() && !any.square().positive());
        assert!(any.square().plus(Range::number(1.0)).positive());
        assert!(!any.plus(Range::number(1.0)).nonnegative());
        let unit = Range::new(0.0, 2.0, false);
        assert!(unit.times(any.square()).nonnegative());
        assert!(Range::number(-2.0).inverse().neg().positive());
        assert_eq!(Range::number(0.0).inverse(), any);
        assert!(any.power(-2) == any && Range::number(-3.0).power(-2).positive());
    }
}
