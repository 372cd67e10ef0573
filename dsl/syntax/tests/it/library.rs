//! The library's solvers solve: each runs on small dense systems through a tree-walking interpreter.

use kernelwright_syntax::library;
use kernelwright_syntax::program::{
    BinaryOp, CompareOp, Function, Kind, Scalar, ScalarCondition, Solver, Statement, StatementKind, VarId, Vector,
};

/// A dense system with a diagonal preconditioner.
struct System {
    matrix: Vec<Vec<f64>>,
    diagonal: Vec<f64>,
    rhs: Vec<f64>,
}

/// How a run ends.
#[derive(Debug, PartialEq)]
enum End {
    Converged,
    Failed(String),
    Limit,
}

struct Run<'a> {
    system: &'a System,
    params: Vec<f64>,
    vectors: Vec<Vec<f64>>,
    scalars: Vec<f64>,
    iteration: u32,
    limit: u32,
    converge: Option<(&'a Scalar, &'a Scalar)>,
}

const TOLERANCE: f64 = 1e-9;

impl<'a> Run<'a> {
    fn statements(&mut self, body: &'a [Statement]) -> Result<(), End> {
        body.iter().try_for_each(|statement| self.statement(&statement.kind))
    }

    fn statement(&mut self, statement: &'a StatementKind) -> Result<(), End> {
        match statement {
            StatementKind::AssignVector(id, value) | StatementKind::Residual(id, value) => {
                let value = self.vector(value);
                self.vectors[id.0] = value;
            }
            StatementKind::AssignScalar(id, value) => {
                let value = self.scalar(value);
                self.scalars[id.0] = value;
            }
            StatementKind::Converge { measure, bound } => {
                self.converge = Some((measure, bound));
                return self.check();
            }
            StatementKind::Check => return self.check(),
            StatementKind::Require(condition, outcome) => {
                if !self.holds(condition) {
                    return Err(End::Failed(format!("{outcome:?}")));
                }
            }
            StatementKind::If(condition, then, other) => {
                return if self.holds(condition) { self.statements(then) } else { self.statements(other) };
            }
            StatementKind::Every(count, body) => {
                if self.iteration.is_multiple_of(*count) {
                    return self.statements(body);
                }
            }
            StatementKind::Repeat(Some(count), body) => {
                return (0..*count).try_for_each(|_| self.statements(body));
            }
            StatementKind::Repeat(None, body) => loop {
                self.iteration += 1;
                if self.iteration > self.limit {
                    return Err(End::Limit);
                }
                self.statements(body)?;
            },
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), End> {
        let (measure, bound) = self.converge.unwrap();
        if self.scalar(measure) <= self.scalar(bound) { Err(End::Converged) } else { Ok(()) }
    }

    fn vector(&self, vector: &Vector) -> Vec<f64> {
        let zip =
            |a: Vec<f64>, b: Vec<f64>, f: fn(f64, f64) -> f64| a.into_iter().zip(b).map(|(a, b)| f(a, b)).collect();
        let n = self.system.rhs.len();
        match vector {
            Vector::Var(id) => self.vectors[id.0].clone(),
            Vector::Zero => vec![0.0; n],
            Vector::Random(seed) => random(*seed, n),
            Vector::Apply(_, v) => product(&self.system.matrix, &self.vector(v)),
            Vector::ApplyTranspose(_, v) => {
                let v = self.vector(v);
                (0..n).map(|j| (0..n).map(|i| self.system.matrix[i][j] * v[i]).sum()).collect()
            }
            Vector::Solve(_, v) => zip(self.vector(v), self.system.diagonal.clone(), |v, d| v / d),
            Vector::Scale(s, v) => {
                let s = self.scalar(s);
                self.vector(v).into_iter().map(|v| s * v).collect()
            }
            Vector::Neg(v) => self.vector(v).into_iter().map(|v| -v).collect(),
            Vector::Add(a, b) => zip(self.vector(a), self.vector(b), |a, b| a + b),
            Vector::Sub(a, b) => zip(self.vector(a), self.vector(b), |a, b| a - b),
        }
    }

    fn scalar(&self, scalar: &Scalar) -> f64 {
        match scalar {
            Scalar::Number(value) => *value,
            Scalar::Var(id) => self.scalars[id.0],
            Scalar::Param(index) => self.params[*index],
            Scalar::Tolerance => TOLERANCE,
            Scalar::Iteration => f64::from(self.iteration),
            Scalar::Dot(a, b) => dot(&self.vector(a), &self.vector(b)),
            Scalar::Norm(v) => norm(&self.vector(v)),
            Scalar::NormMax(v) => self.vector(v).into_iter().fold(0.0, |most, v| most.max(v.abs())),
            Scalar::Neg(a) => -self.scalar(a),
            Scalar::Binary(operator, a, b) => {
                let (a, b) = (self.scalar(a), self.scalar(b));
                match operator {
                    BinaryOp::Add => a + b,
                    BinaryOp::Sub => a - b,
                    BinaryOp::Mul => a * b,
                    BinaryOp::Div => a / b,
                }
            }
            Scalar::Call(function, arguments) => {
                let a = self.scalar(&arguments[0]);
                match function {
                    Function::Sqrt => a.sqrt(),
                    Function::Abs => a.abs(),
                    Function::Max => a.max(self.scalar(&arguments[1])),
                    Function::Pow => a.powf(self.scalar(&arguments[1])),
                    other => panic!("no solver of the library calls {other:?}"),
                }
            }
        }
    }

    fn holds(&self, condition: &ScalarCondition) -> bool {
        match condition {
            ScalarCondition::Compare(operator, a, b) => {
                let (a, b) = (self.scalar(a), self.scalar(b));
                match operator {
                    CompareOp::Lt => a < b,
                    CompareOp::Le => a <= b,
                    CompareOp::Gt => a > b,
                    CompareOp::Ge => a >= b,
                    CompareOp::Eq => a == b,
                    CompareOp::Ne => a != b,
                }
            }
            ScalarCondition::And(a, b) => self.holds(a) && self.holds(b),
            ScalarCondition::Or(a, b) => self.holds(a) || self.holds(b),
            ScalarCondition::Not(a) => !self.holds(a),
        }
    }
}

fn product(matrix: &[Vec<f64>], v: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, v)).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

/// Uniform in [-1/2, 1/2).
fn random(seed: u64, n: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..n).map(|_| next()).collect()
}

/// `-u'' + shift u` with a varying coefficient, and an unsymmetric part.
fn system(n: usize, shift: f64, wind: f64) -> System {
    let mut matrix = vec![vec![0.0; n]; n];
    for i in 0..n {
        matrix[i][i] = 2.0 + shift + (i % 3) as f64;
        if i > 0 {
            matrix[i][i - 1] = -1.0 - wind;
        }
        if i + 1 < n {
            matrix[i][i + 1] = -1.0 + wind;
        }
    }
    let diagonal = matrix.iter().enumerate().map(|(i, row)| row[i].abs().max(0.5)).collect();
    System { matrix, diagonal, rhs: random(7, n) }
}

/// Runs a solver; gives how it ends, the iterations, the true residual and how far the recursive one is from it.
fn run(name: &str, params: &[f64], system: &System) -> (End, u32, f64, f64) {
    let solver = library::solver(name).unwrap_or_else(|| panic!("{name} does not check"));
    let n = system.rhs.len();
    let defaults = solver.params.iter().map(|param| param.default.unwrap()).collect();
    let mut run = Run {
        system,
        params: if params.is_empty() { defaults } else { params.to_vec() },
        vectors: solver.variables.iter().map(|_| vec![f64::NAN; n]).collect(),
        scalars: vec![f64::NAN; solver.variables.len()],
        iteration: 0,
        limit: 2000,
        converge: None,
    };
    run.vectors[Solver::SOLUTION.0] = random(3, n);
    run.vectors[Solver::RHS.0] = system.rhs.clone();
    let end = run.statements(&solver.body).unwrap_err();
    let r = solver.variables.iter().position(|variable| variable.name == "r").map(VarId).unwrap();
    assert_eq!(solver.variables[r.0].kind, Kind::Vector);
    let image = product(&system.matrix, &run.vectors[0]);
    let residual: Vec<f64> = system.rhs.iter().zip(image).map(|(f, a)| f - a).collect();
    let drift: Vec<f64> = residual.iter().zip(&run.vectors[r.0]).map(|(a, b)| a - b).collect();
    (end, run.iteration, norm(&residual) / norm(&system.rhs), norm(&drift) / norm(&system.rhs))
}

fn converges(name: &str, params: &[f64], system: &System, limit: u32) {
    let (end, iterations, residual, drift) = run(name, params, system);
    assert_eq!(end, End::Converged, "{name} after {iterations} iterations at {residual:e}");
    assert!(residual <= 2e-9 && drift <= 1e-9, "{name}: residual {residual:e}, drift {drift:e}");
    assert!(iterations <= limit, "{name} took {iterations} iterations");
}

#[test]
fn every_solver_solves_a_definite_system() {
    let system = system(40, 0.1, 0.0);
    let limits = [
        ("richardson", 400),
        ("steepest_descent", 400),
        ("cg", 41),
        ("pcg", 41),
        ("pcg_flexible", 41),
        ("conjugate_residual", 41),
        ("minres", 41),
        ("chebyshev", 300),
        ("bicgstab", 41),
    ];
    assert!(library::names().eq(limits.iter().map(|(name, _)| *name)));
    for (name, limit) in limits {
        converges(name, &[], &system, limit);
    }
}

#[test]
fn minres_solves_an_indefinite_system() {
    converges("minres", &[], &system(40, -1.7, 0.0), 60);
}

#[test]
fn bicgstab_solves_an_unsymmetric_system() {
    converges("bicgstab", &[], &system(40, 0.1, 0.4), 60);
}

#[test]
fn chebyshev_takes_bounds() {
    converges("chebyshev", &[0.05, 2.0], &system(40, 0.1, 0.0), 100);
}

#[test]
fn indefinite_operators_are_noticed() {
    for name in ["steepest_descent", "cg", "pcg", "pcg_flexible"] {
        let (end, ..) = run(name, &[], &system(40, -1.7, 0.0));
        assert_eq!(end, End::Failed("IndefiniteOperator".to_string()), "{name}");
    }
}
