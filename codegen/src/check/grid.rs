//! For tests: a loop program in floating point on a small grid, point after point with immediate stores, buffers full
//! of NaN at first. Shares nothing with the checker's world, so it can judge the checker.

use std::collections::BTreeMap;

use crate::loops::{
    BinaryOp, Control, Granule, PointExpr, Program, Role, ScalarCondition, ScalarExpr, ScalarId, ScalarStmt, SumId,
    SumKind, Sweep, ValueId, ValueKind, VectorId, Version, status,
};
use kernelwright_syntax::program::Function;

const N: usize = 3;
const POINTS: usize = N * N * N;
const DIAGONAL: f64 = 6.75;

/// What can be seen from outside.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Values of tests in order.
    pub tests: Vec<Vec<f64>>,
    /// What conditions of given statuses compare.
    pub raised: Vec<Vec<f64>>,
    /// The solution and its residual delivered when each test ends the run.
    pub exits: Vec<Vec<f64>>,
    /// The same when a number of rounds ends it.
    pub limits: Vec<Vec<f64>>,
}

/// A run.
#[derive(Clone)]
pub struct Grid<'p> {
    program: &'p Program,
    buffers: BTreeMap<(usize, u32), Vec<f64>>,
    rotation: Vec<u32>,
    round: Option<Vec<u32>>,
    scalars: Vec<f64>,
    sums: BTreeMap<SumId, f64>,
    tests: Vec<Vec<f64>>,
    /// What conditions of given statuses compare.
    raised: Vec<Vec<f64>>,
    stop_at: usize,
    stopped: bool,
    rounds: u32,
    number: u32,
}

/// Runs a program to every exit of two rounds, or of as many as what it does every n rounds takes.
pub fn observe(program: &Program) -> Seen {
    let rounds = rounds(&program.body);
    let mut whole = Grid::new(program, rounds, usize::MAX);
    whole.run();
    let exits = (1..=whole.tests.len()).map(|test| delivered(program, rounds, test)).collect();
    let limits = (1..=rounds).map(|rounds| delivered(program, rounds, usize::MAX)).collect();
    Seen { tests: whole.tests, raised: whole.raised, exits, limits }
}

/// The solution, and the measures of its residual.
fn delivered(program: &Program, rounds: u32, stop_at: usize) -> Vec<f64> {
    let mut grid = Grid::new(program, rounds, stop_at);
    grid.run();
    grid.leave();
    grid.section(&program.finish);
    let mut seen = grid.solution();
    grid.section(&program.residual);
    seen.extend([ScalarId::MEASURE, ScalarId::BOUND, ScalarId::ATTAINABLE].map(|s| grid.scalars[s.0]));
    seen
}

fn rounds(controls: &[Control]) -> u32 {
    let of = |c: &Control| match c {
        Control::Every { n, .. } => n + 1,
        Control::Loop { body, .. } => rounds(body),
        _ => 2,
    };
    controls.iter().map(of).max().unwrap_or(2).min(5)
}

impl<'p> Grid<'p> {
    fn new(program: &'p Program, rounds: u32, stop_at: usize) -> Self {
        let mut grid = Grid {
            program,
            buffers: BTreeMap::new(),
            rotation: vec![0; program.vectors.len()],
            round: None,
            scalars: vec![f64::NAN; program.scalars.len()],
            sums: BTreeMap::new(),
            tests: Vec::new(),
            raised: Vec::new(),
            stop_at,
            stopped: false,
            rounds,
            number: 0,
        };
        grid.scalars[ScalarId::TOLERANCE.0] = 1e-3;
        for (id, v) in program.vectors.iter().enumerate() {
            for version in 0..v.versions {
                let seed = match v.role {
                    Role::Rhs => 1.0,
                    Role::Solution if version == 0 => 2.0,
                    Role::Random(s) => 3.0 + s as f64,
                    _ => f64::NAN,
                };
                let value = (0..POINTS).map(|i| (seed * 1.7 + i as f64 * 0.7).sin()).collect();
                grid.buffers.insert((id, version), value);
            }
        }
        grid
    }

    fn run(&mut self) {
        for section in [&self.program.prepare, &self.program.start, &self.program.body] {
            self.section(section);
        }
    }

    fn leave(&mut self) {
        if let Some(round) = self.round.take().filter(|_| self.stopped) {
            self.rotation = round;
        }
        self.stopped = false;
        self.stop_at = usize::MAX;
    }

    fn solution(&self) -> Vec<f64> {
        let id = self.program.vectors.iter().position(|v| v.role == Role::Solution).expect("a solution");
        self.buffers[&self.slot(Version { vector: VectorId(id), ahead: 0 })].clone()
    }

    fn slot(&self, v: Version) -> (usize, u32) {
        (v.vector.0, (self.rotation[v.vector.0] + v.ahead) % self.program.vectors[v.vector.0].versions)
    }

    fn section(&mut self, controls: &[Control]) {
        for control in controls {
            if self.stopped {
                return;
            }
            match control {
                Control::Sweep(id) => self.sweep(&self.program.sweeps[id.0]),
                Control::Fence(id) => {
                    let fence = &self.program.fences[id.0];
                    if fence.predicate.is_none_or(|s| self.scalars[s.0] != 0.0) {
                        fence.statements.iter().for_each(|s| self.statement(s));
                    }
                }
                Control::Rotate(v) => self.rotation[v.0] += 1,
                Control::Loop { times, body } => {
                    for round in 1..=times.unwrap_or(self.rounds) {
                        if self.stopped {
                            break;
                        }
                        if times.is_none() {
                            self.round = Some(self.rotation.clone());
                        }
                        self.number = round;
                        self.section(body);
                    }
                }
                Control::Every { n, body, .. } if self.number.is_multiple_of(*n) => self.section(body),
                Control::Every { otherwise, .. } => self.section(otherwise),
            }
        }
    }

    fn sweep(&mut self, sweep: &Sweep) {
        if sweep.predicate.is_some_and(|s| self.scalars[s.0] == 0.0) {
            return;
        }
        let mut totals = vec![0.0f64; sweep.sums.len()];
        let granules: Vec<Vec<usize>> = match sweep.granule {
            Granule::Point => (0..POINTS).map(|p| vec![p]).collect(),
            Granule::Line(axis) => (0..POINTS).filter(|p| at(*p)[axis] == 0).map(|p| line(p, axis)).collect(),
        };
        for granule in granules {
            let value = |grid: &Self, v: ValueId, p: usize| grid.value(sweep, v, p);
            let stores: Vec<Vec<f64>> =
                sweep.stores.iter().map(|s| granule.iter().map(|p| value(self, s.value, *p)).collect()).collect();
            for (total, sum) in totals.iter_mut().zip(&sweep.sums) {
                for p in &granule {
                    let left = value(self, sum.left, *p);
                    match self.program.sums[sum.sum.0] {
                        SumKind::Add => *total += left * sum.right.map_or(1.0, |r| value(self, r, *p)),
                        SumKind::Max => *total = total.max(left.abs()),
                    }
                }
            }
            for (store, values) in sweep.stores.iter().zip(stores) {
                let slot = self.slot(store.to);
                let buffer = self.buffers.get_mut(&slot).expect("a buffer");
                granule.iter().zip(values).for_each(|(p, x)| buffer[*p] = x);
            }
        }
        self.sums.extend(sweep.sums.iter().map(|s| s.sum).zip(totals));
    }

    fn value(&self, sweep: &Sweep, v: ValueId, p: usize) -> f64 {
        match &sweep.values[v.0].kind {
            ValueKind::Load(version) => self.buffers[&self.slot(*version)][p],
            ValueKind::Map(e) => self.point(sweep, e, p),
            ValueKind::Apply(v) => {
                let own = DIAGONAL * self.value(sweep, *v, p);
                neighbours(p).iter().fold(own, |s, q| s - self.value(sweep, *v, *q))
            }
            ValueKind::AffinePart => 0.1,
            ValueKind::Magnitude(v) => {
                let own = DIAGONAL * self.value(sweep, *v, p).abs();
                neighbours(p).iter().fold(own, |s, q| s + self.value(sweep, *v, *q).abs())
            }
            ValueKind::Along(axis, v) => {
                let line = line(p, *axis);
                let own = DIAGONAL * self.value(sweep, *v, p);
                let near = neighbours(p).into_iter().filter(|q| line.contains(q));
                near.fold(own, |s, q| s - self.value(sweep, *v, q))
            }
            ValueKind::Diagonal(v) => self.value(sweep, *v, p) / DIAGONAL,
            ValueKind::Companion { number, step, operand } => {
                // Any matrix of the number and the step will do.
                let step = step.map_or(1.0, |step| self.scalars[step.0]);
                let near = neighbours(p).iter().fold(0.0, |s, q| s + self.value(sweep, *operand, *q));
                0.1 * step * near + 0.05 * (1.0 + *number as f64) * self.value(sweep, *operand, p)
            }
            ValueKind::Inside(v) => self.value(sweep, *v, p),
            ValueKind::Solve(axis, v) => {
                let points = line(p, *axis);
                let mut d: Vec<f64> = points.iter().map(|q| self.value(sweep, *v, *q)).collect();
                let mut pivots = [DIAGONAL; N];
                for i in 1..N {
                    pivots[i] = DIAGONAL - 1.0 / pivots[i - 1];
                    d[i] += d[i - 1] / pivots[i - 1];
                }
                d[N - 1] /= pivots[N - 1];
                for i in (0..N - 1).rev() {
                    d[i] = (d[i] + d[i + 1]) / pivots[i];
                }
                d[at(p)[*axis]]
            }
        }
    }

    fn point(&self, sweep: &Sweep, e: &PointExpr, p: usize) -> f64 {
        match e {
            PointExpr::Value(v) => self.value(sweep, *v, p),
            PointExpr::Scalar(s) => self.scalars[s.0],
            PointExpr::Number(x) => *x,
            PointExpr::Neg(a) => -self.point(sweep, a, p),
            PointExpr::Abs(a) => self.point(sweep, a, p).abs(),
            PointExpr::Binary(op, a, b) => arithmetic(*op, self.point(sweep, a, p), self.point(sweep, b, p)),
        }
    }

    fn statement(&mut self, s: &ScalarStmt) {
        if self.stopped {
            return;
        }
        match s {
            ScalarStmt::Assign { scalar, value, .. } => self.scalars[scalar.0] = self.expr(value),
            ScalarStmt::Require { number, condition } => {
                let mut values = vec![*number as f64];
                self.condition(condition, &mut values);
                self.test(values);
            }
            ScalarStmt::Check { measure, bound } => {
                let values = vec![self.expr(measure), self.expr(bound), self.scalars[ScalarId::ITERATION.0]];
                self.test(values);
            }
            ScalarStmt::Measure { measure, bound } => {
                let values = [self.expr(measure), self.expr(bound)];
                [self.scalars[ScalarId::MEASURE.0], self.scalars[ScalarId::BOUND.0]] = values;
            }
            ScalarStmt::Raise { condition, status: word } => {
                let mut values = vec![f64::from(*word)];
                self.condition(condition, &mut values);
                // Guards only watch over rounding.
                if *word != status::PARTED {
                    self.raised.push(values);
                }
            }
        }
    }

    fn test(&mut self, values: Vec<f64>) {
        self.tests.push(values);
        self.stopped = self.tests.len() == self.stop_at;
    }

    fn expr(&self, e: &ScalarExpr) -> f64 {
        match e {
            ScalarExpr::Number(x) => *x,
            ScalarExpr::Scalar(s) => self.scalars[s.0],
            ScalarExpr::Sum(s) => self.sums.get(s).copied().unwrap_or(f64::NAN),
            ScalarExpr::Param(p) => 0.3 + *p as f64,
            ScalarExpr::Neg(a) => -self.expr(a),
            ScalarExpr::Binary(op, a, b) => arithmetic(*op, self.expr(a), self.expr(b)),
            ScalarExpr::Call(f, args) => {
                let args: Vec<f64> = args.iter().map(|a| self.expr(a)).collect();
                match f {
                    Function::Sqrt => args[0].sqrt(),
                    Function::Abs => args[0].abs(),
                    Function::Max => args[0].max(args[1]),
                    _ => args.iter().sum::<f64>().tanh(),
                }
            }
            ScalarExpr::Truth(c) => f64::from(u8::from(self.condition(c, &mut Vec::new()))),
            ScalarExpr::Select(c, a, b) => self.expr(if self.condition(c, &mut Vec::new()) { a } else { b }),
        }
    }

    fn condition(&self, c: &ScalarCondition, values: &mut Vec<f64>) -> bool {
        match c {
            ScalarCondition::Compare(op, a, b) => {
                let (a, b) = (self.expr(a), self.expr(b));
                values.extend([a, b]);
                crate::real::compare(*op, a, b)
            }
            ScalarCondition::And(a, b) => self.condition(a, values) & self.condition(b, values),
            ScalarCondition::Or(a, b) => self.condition(a, values) | self.condition(b, values),
            ScalarCondition::Not(a) => !self.condition(a, values),
        }
    }
}

fn at(p: usize) -> [usize; 3] {
    [p % N, p / N % N, p / (N * N)]
}

fn index(a: [usize; 3]) -> usize {
    a[0] + N * (a[1] + N * a[2])
}

fn line(p: usize, axis: usize) -> Vec<usize> {
    (0..N)
        .map(|i| {
            let mut a = at(p);
            a[axis] = i;
            index(a)
        })
        .collect()
}

fn neighbours(p: usize) -> Vec<usize> {
    let mut out = Vec::new();
    for axis in 0..3 {
        let mut a = at(p);
        let here = a[axis];
        for other in [here.checked_sub(1), Some(here + 1).filter(|n| *n < N)].into_iter().flatten() {
            a[axis] = other;
            out.push(index(a));
        }
    }
    out
}

fn arithmetic(op: BinaryOp, a: f64, b: f64) -> f64 {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => a / b,
    }
}
