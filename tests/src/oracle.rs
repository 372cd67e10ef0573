//! The meaning of an operator, point by point, from its checked program.

use std::collections::BTreeMap;

use kernelwright_syntax::program::{
    BinaryOp, Centring, CompareOp, Condition, Expr, ExprKind, Function, Operator, Outside, Rule, Shift,
};

use crate::dense::Matrix;

/// Everything an operator needs to be a matrix.
#[derive(Debug, Clone)]
pub struct Instance<'a> {
    /// The declaration.
    pub operator: &'a Operator,
    /// One size per axis.
    pub sizes: Vec<usize>,
    /// One value per parameter.
    pub params: Vec<f64>,
    /// One array per data declaration, first axis fastest.
    pub data: Vec<Vec<f64>>,
}

/// `constant + sum of terms`, with the sum of absolute values of everything that went into it: what rounding errors
/// are relative to.
#[derive(Debug, Clone, Default)]
struct Affine {
    constant: f64,
    terms: BTreeMap<usize, f64>,
    /// Magnitude of the constant part and of each coefficient, before any cancellation.
    constant_size: f64,
    sizes: BTreeMap<usize, f64>,
}

impl Affine {
    fn number(v: f64) -> Affine {
        Affine { constant: v, constant_size: v.abs(), ..Affine::default() }
    }

    fn unknown(index: usize) -> Affine {
        Affine { terms: [(index, 1.0)].into(), sizes: [(index, 1.0)].into(), ..Affine::default() }
    }

    fn scaled(mut self, s: f64, s_size: f64) -> Affine {
        self.constant *= s;
        self.constant_size *= s_size;
        self.terms.values_mut().for_each(|v| *v *= s);
        self.sizes.values_mut().for_each(|v| *v *= s_size);
        self
    }

    fn plus(mut self, other: &Affine, sign: f64) -> Affine {
        self.constant += sign * other.constant;
        self.constant_size += other.constant_size;
        other.terms.iter().for_each(|(k, v)| *self.terms.entry(*k).or_default() += sign * v);
        other.sizes.iter().for_each(|(k, v)| *self.sizes.entry(*k).or_default() += v);
        self
    }
}

/// An assembled operator: `A u + g`.
#[derive(Debug, Clone)]
pub struct Assembled {
    /// The linear part.
    pub matrix: Matrix,
    /// The affine part, one value per row.
    pub affine: Vec<f64>,
    /// Sum of absolute values behind each entry of the matrix: |A| with nothing cancelled.
    pub magnitude: Matrix,
    /// Likewise for the affine part.
    pub affine_magnitude: Vec<f64>,
}

impl Instance<'_> {
    /// Number of points.
    pub fn points(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Number of unknowns.
    pub fn unknowns(&self) -> usize {
        self.points() * self.operator.unknowns.len()
    }

    /// Whether an unknown's point takes part: whether it lies inside the mask, where there is one.
    pub fn takes_part(&self, unknown: usize) -> bool {
        let at = self.position(unknown % self.points());
        self.operator.mask.as_ref().is_none_or(|mask| self.eval(mask, at).constant != 0.0)
    }

    /// Shape of a data array, first axis fastest.
    pub fn data_shape(&self, data: usize) -> Vec<usize> {
        let d = &self.operator.data[data];
        d.axes.iter().map(|&a| self.sizes[a] + usize::from(d.half == Some(a))).collect()
    }

    /// The operator as a matrix.
    pub fn assemble(&self) -> Assembled {
        let n = self.unknowns();
        let mut out = Assembled {
            matrix: Matrix::zero(n),
            affine: vec![0.0; n],
            magnitude: Matrix::zero(n),
            affine_magnitude: vec![0.0; n],
        };
        for component in 0..self.operator.unknowns.len() {
            for point in 0..self.points() {
                let row = component * self.points() + point;
                let value = self.row(component, self.position(point));
                out.affine[row] = value.constant;
                out.affine_magnitude[row] = value.constant_size;
                value.terms.iter().for_each(|(&c, &v)| out.matrix.a[row * n + c] = v);
                value.sizes.iter().for_each(|(&c, &v)| out.magnitude.a[row * n + c] = v);
            }
        }
        out
    }

    /// An upper bound for the number of roundings on the way to one row, for error bounds of the form n * eps * size.
    pub fn operations(&self) -> usize {
        self.operator.apply.iter().map(|a| self.count(&a.value)).sum::<usize>() + 8
    }

    fn count(&self, e: &Expr) -> usize {
        1 + match &e.kind {
            ExprKind::Let(id, _) => self.count(&self.operator.lets[*id].value),
            ExprKind::Flux(id, _) => self.count(&self.operator.fluxes[*id].value),
            ExprKind::Neg(a) => self.count(a),
            ExprKind::Binary(_, a, b) => self.count(a) + self.count(b),
            ExprKind::Call(_, args) => 4 + args.iter().map(|a| self.count(a)).sum::<usize>(),
            ExprKind::If(_, a, b) => self.count(a).max(self.count(b)),
            _ => 0,
        }
    }

    fn position(&self, mut point: usize) -> [i64; 3] {
        let mut at = [0; 3];
        for (x, &n) in at.iter_mut().zip(&self.sizes) {
            *x = (point % n) as i64;
            point /= n;
        }
        at
    }

    fn row(&self, component: usize, at: [i64; 3]) -> Affine {
        match &self.operator.mask {
            Some(mask) if self.eval(mask, at).constant == 0.0 => Affine::default(),
            _ => self.eval(&self.operator.apply[component].value, at),
        }
    }

    fn eval(&self, e: &Expr, at: [i64; 3]) -> Affine {
        match &e.kind {
            ExprKind::Number(v) => Affine::number(*v),
            ExprKind::Size(a) => Affine::number(self.sizes[*a] as f64),
            ExprKind::Index(a) => Affine::number(at[*a] as f64),
            ExprKind::Param(p) => Affine::number(self.params[*p]),
            ExprKind::Let(id, s) => self.eval(&self.operator.lets[*id].value, moved(at, s)),
            ExprKind::Data(id, s) => Affine::number(self.data_at(*id, moved(at, s))),
            ExprKind::Unknown(c, s) => self.unknown(*c, moved(at, s)),
            ExprKind::Flux(id, s) => self.flux(*id, moved(at, s)),
            ExprKind::Neg(a) => self.eval(a, at).scaled(-1.0, 1.0),
            ExprKind::Binary(op, a, b) => binary(*op, self.eval(a, at), self.eval(b, at)),
            ExprKind::Call(f, args) => {
                let values: Vec<f64> = args.iter().map(|a| self.eval(a, at).constant).collect();
                Affine::number(call(*f, &values))
            }
            ExprKind::If(c, a, b) => self.eval(if self.holds(c, at) { a } else { b }, at),
        }
    }

    fn holds(&self, c: &Condition, at: [i64; 3]) -> bool {
        match c {
            Condition::Compare(op, a, b) => {
                let (a, b) = (self.eval(a, at).constant, self.eval(b, at).constant);
                match op {
                    CompareOp::Lt => a < b,
                    CompareOp::Le => a <= b,
                    CompareOp::Gt => a > b,
                    CompareOp::Ge => a >= b,
                    CompareOp::Eq => a == b,
                    CompareOp::Ne => a != b,
                }
            }
            Condition::And(a, b) => self.holds(a, at) && self.holds(b, at),
            Condition::Or(a, b) => self.holds(a, at) || self.holds(b, at),
            Condition::Not(a) => !self.holds(a, at),
        }
    }

    fn flux(&self, id: usize, mut at: [i64; 3]) -> Affine {
        let flux = &self.operator.fluxes[id];
        let n = self.sizes[flux.axis] as i64;
        let [low, high] = &self.operator.boundary[flux.axis];
        let x = &mut at[flux.axis];
        if *low == Rule::Periodic {
            *x = x.rem_euclid(n);
        }
        if (*x < 0 && *low == Rule::NoFlux) || (*x >= n - 1 && *high == Rule::NoFlux) {
            return Affine::default();
        }
        self.eval(&flux.value, at)
    }

    /// The unknown anywhere: axis by axis, one reflection after another.
    fn unknown(&self, component: usize, mut at: [i64; 3]) -> Affine {
        let mut sign = 1.0;
        let mut g = 0.0;
        let mut g_size = 0.0;
        for axis in 0..self.sizes.len() {
            let n = self.sizes[axis] as i64;
            while at[axis] < 0 || at[axis] >= n {
                let low = at[axis] < 0;
                match &self.operator.boundary[axis][usize::from(!low)] {
                    Rule::Periodic => at[axis] = at[axis].rem_euclid(n),
                    Rule::NoFlux => at[axis] = if low { -1 - at[axis] } else { 2 * n - 1 - at[axis] },
                    Rule::Dirichlet(value) => {
                        let value = self.eval(value, at).constant;
                        if self.operator.centring == Centring::Nodes {
                            return Affine {
                                constant: g + sign * value,
                                constant_size: g_size + value.abs(),
                                ..Affine::default()
                            };
                        }
                        g += sign * 2.0 * value;
                        g_size += 2.0 * value.abs();
                        sign = -sign;
                        at[axis] = if low { -1 - at[axis] } else { 2 * n - 1 - at[axis] };
                    }
                }
            }
        }
        let index = self.sizes.iter().zip(at).rev().fold(0, |acc, (&n, x)| acc * n + x as usize);
        let mut value = Affine::unknown(component * self.points() + index).scaled(sign, 1.0);
        value.constant = g;
        value.constant_size = g_size;
        value
    }

    fn data_at(&self, id: usize, at: [i64; 3]) -> f64 {
        let d = &self.operator.data[id];
        let shape = self.data_shape(id);
        let mut index = 0;
        for (slot, &axis) in d.axes.iter().enumerate().rev() {
            let n = shape[slot] as i64;
            let mut x = at[axis] + i64::from(d.half == Some(axis));
            let periodic = self.operator.boundary[axis][0] == Rule::Periodic;
            if periodic && d.half == Some(axis) {
                // Face -1/2 is face n-1/2: of its two elements the last one counts.
                x = (x - 1).rem_euclid(n - 1) + 1;
            }
            while x < 0 || x >= n {
                x = match d.outside {
                    _ if periodic => x.rem_euclid(n),
                    Outside::Mirror if d.half == Some(axis) && x < 0 => -x,
                    Outside::Mirror if d.half == Some(axis) => 2 * (n - 1) - x,
                    Outside::Mirror if x < 0 => -1 - x,
                    Outside::Mirror => 2 * n - 1 - x,
                    Outside::Clamp => x.clamp(0, n - 1),
                    // The first face is the last one, which counts.
                    Outside::Periodic if d.half == Some(axis) => (x - 1).rem_euclid(n - 1) + 1,
                    Outside::Periodic => x.rem_euclid(n),
                    Outside::Zero => return 0.0,
                    Outside::Error => panic!("the checker let a reading of {} outside its extent pass", d.name),
                };
            }
            index = index * shape[slot] + x as usize;
        }
        self.data[id][index]
    }
}

fn moved(at: [i64; 3], shift: &Shift) -> [i64; 3] {
    [0, 1, 2].map(|a| at[a] + i64::from(shift[a]))
}

fn binary(op: BinaryOp, a: Affine, b: Affine) -> Affine {
    match op {
        BinaryOp::Add => a.plus(&b, 1.0),
        BinaryOp::Sub => a.plus(&b, -1.0),
        BinaryOp::Mul if b.terms.is_empty() => a.scaled(b.constant, b.constant_size),
        BinaryOp::Mul => b.scaled(a.constant, a.constant_size),
        BinaryOp::Div => {
            // What cancelled in a divisor grows in the quotient: |b| before cancellation over |b| after, once more.
            let growth = (b.constant_size / b.constant.abs()).max(1.0);
            a.scaled(1.0 / b.constant, growth / b.constant.abs())
        }
    }
}

fn call(f: Function, x: &[f64]) -> f64 {
    match f {
        Function::Sqrt => x[0].sqrt(),
        Function::Exp => x[0].exp(),
        Function::Log => x[0].ln(),
        Function::Sin => x[0].sin(),
        Function::Cos => x[0].cos(),
        Function::Tan => x[0].tan(),
        Function::Tanh => x[0].tanh(),
        Function::Abs => x[0].abs(),
        Function::Floor => x[0].floor(),
        Function::Pow => x[0].powf(x[1]),
        Function::Min => x[0].min(x[1]),
        Function::Max => x[0].max(x[1]),
    }
}
