//! The textbook loop: a solver's statements carried out one by one, without graph or schedule.

use kernelwright_syntax::program::Vector as VectorExpr;
use kernelwright_syntax::program::{
    Outcome, Preconditioner, Scalar, ScalarCondition, Solver, Statement, StatementKind, VarId,
};

use super::field::Element;
use super::world::{LEN, Vector, World, absolute, binary, call, compare, dot, largest};
use crate::format::Derived;

/// A place where the solve may end.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What was tested.
    pub test: Test,
    /// Round of the main loop, 0 before it.
    pub iteration: u64,
    /// The solution here.
    pub solution: Vector,
}

/// A test with its values.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Test {
    Check {
        measure: Element,
        bound: Element,
    },
    Require {
        outcome: Outcome,
        condition: bool,
        values: Vec<Element>,
    },
    /// A prediction was compared with what it stands for; the text has no such test.
    Guard,
    /// End of a round of the main loop (where an iteration limit ends the solve).
    Round,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Slot {
    Empty,
    Vector(Vector),
    Scalar(Element),
}

/// What runs.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// All solvers.
    pub solvers: &'a [Solver],
    /// The outer one.
    pub solver: usize,
    /// Preconditioner of the outer one.
    pub preconditioner: &'a Preconditioner,
}

/// A run of the textbook loop.
pub struct Run<'a> {
    world: &'a World,
    case: Case<'a>,
    rounds: u64,
    /// Events in order.
    pub events: Vec<Event>,
    iteration: u64,
    test: Option<(&'a Scalar, &'a Scalar)>,
    frames: Vec<Frame<'a>>,
}

struct Frame<'a> {
    solver: &'a Solver,
    preconditioner: &'a Preconditioner,
    params: Option<&'a [f64]>,
    times: Option<u32>,
    values: Vec<Slot>,
    iteration: u64,
    depth: usize,
}

/// Stops a run: an expression has the wrong type or a variable no value. Cannot happen for checked programs.
type Step<T> = Result<T, String>;

/// Runs the loop for a number of rounds from a guess; `rhs` is the right-hand side that loops see.
pub fn run<'a>(case: Case<'a>, world: &'a World, rhs: Vector, guess: Vector, rounds: u64) -> Step<Run<'a>> {
    let solver = &case.solvers[case.solver];
    let mut frame = Frame::new(solver, case.preconditioner);
    frame.values[Solver::SOLUTION.0] = Slot::Vector(guess);
    frame.values[Solver::RHS.0] = Slot::Vector(rhs);
    let mut run = Run { world, case, rounds, events: Vec::new(), iteration: 0, test: None, frames: vec![frame] };
    run.statements(&solver.body)?;
    Ok(run)
}

/// What the section on the true residual must find.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Truth {
    /// Left side of the test.
    pub measure: Element,
    /// Right side.
    pub bound: Element,
    /// Left side for what cancels in the residual, |A| |u| + |f|: with a unit roundoff what rounding allows.
    pub magnitude: Element,
    /// The residual.
    pub residual: Vector,
}

/// The true residual at a solution. `before` is a run stopped before its loop (zero rounds).
pub fn true_residual(before: &mut Run<'_>, solution: Vector) -> Step<Option<Truth>> {
    let solver = before.frames[0].solver;
    let Some(at) = solver.body.iter().position(|s| matches!(s.kind, StatementKind::Residual(..))) else {
        return Ok(None);
    };
    let StatementKind::Residual(var, value) = &solver.body[at].kind else { return Ok(None) };
    if before.test.is_none() {
        return Ok(None);
    }
    before.frames[0].values[Solver::SOLUTION.0] = Slot::Vector(solution);
    let Slot::Vector(rhs) = before.frames[0].values[Solver::RHS.0] else { return Err("f is not a vector".into()) };
    let residual = before.vector(value)?;
    let (measure, bound) = before.tested(at, *var, residual)?;
    let size = before.world.magnitude(&solution);
    let size = std::array::from_fn(|i| size[i] + absolute(rhs[i]));
    let (magnitude, _) = before.tested(at, *var, size)?;
    Ok(Some(Truth { measure, bound, magnitude, residual }))
}

fn changed_in_loops(body: &[Statement], inside: bool) -> Vec<VarId> {
    body.iter()
        .flat_map(|s| match &s.kind {
            StatementKind::AssignVector(v, _) | StatementKind::AssignScalar(v, _) if inside => vec![*v],
            StatementKind::Repeat(_, b) | StatementKind::Every(_, b) => changed_in_loops(b, true),
            StatementKind::If(_, a, b) => {
                let mut out = changed_in_loops(a, inside);
                out.extend(changed_in_loops(b, inside));
                out
            }
            _ => Vec::new(),
        })
        .collect()
}

impl<'a> Frame<'a> {
    fn new(solver: &'a Solver, preconditioner: &'a Preconditioner) -> Frame<'a> {
        let values = vec![Slot::Empty; solver.variables.len()];
        Frame { solver, preconditioner, params: None, times: None, values, iteration: 0, depth: 0 }
    }
}

impl<'a> Run<'a> {
    /// The test with a residual: what stands between the two statements and changes in loops is followed again.
    fn tested(&mut self, at: usize, var: VarId, residual: Vector) -> Step<(Element, Element)> {
        let solver = self.frames[0].solver;
        let changed = changed_in_loops(&solver.body, false);
        self.frames[0].values[var.0] = Slot::Vector(residual);
        for s in &solver.body[at + 1..] {
            match &s.kind {
                StatementKind::Converge { .. } => break,
                StatementKind::AssignVector(var, _) | StatementKind::AssignScalar(var, _) if changed.contains(var) => {
                    self.statement(s)?;
                }
                _ => {}
            }
        }
        let (measure, bound) = self.test.ok_or("no test was declared")?;
        Ok((self.scalar(measure)?, self.scalar(bound)?))
    }

    fn frame(&mut self) -> &mut Frame<'a> {
        self.frames.last_mut().expect("a frame is open while running")
    }

    fn outer(&self) -> bool {
        self.frames.len() == 1
    }

    fn solution(&self) -> Step<Vector> {
        match self.frames[0].values[Solver::SOLUTION.0] {
            Slot::Vector(v) => Ok(v),
            _ => Err("the solution is not a vector".into()),
        }
    }

    fn event(&mut self, test: Test) -> Step<()> {
        let (iteration, solution) = (self.iteration, self.solution()?);
        self.events.push(Event { test, iteration, solution });
        Ok(())
    }

    fn statements(&mut self, statements: &'a [Statement]) -> Step<()> {
        statements.iter().try_for_each(|s| self.statement(s))
    }

    fn statement(&mut self, s: &'a Statement) -> Step<()> {
        match &s.kind {
            StatementKind::AssignVector(var, value) | StatementKind::Residual(var, value) => {
                let value = self.vector(value)?;
                self.frame().values[var.0] = Slot::Vector(value);
            }
            StatementKind::AssignScalar(var, value) => {
                let value = self.scalar(value)?;
                self.frame().values[var.0] = Slot::Scalar(value);
            }
            StatementKind::Converge { measure, bound } if self.outer() => {
                self.test = Some((measure, bound));
                self.check()?;
            }
            StatementKind::Check if self.outer() => self.check()?,
            StatementKind::Converge { .. } | StatementKind::Check => {}
            StatementKind::Require(condition, outcome) => {
                let mut values = Vec::new();
                let condition = self.condition(condition, &mut values)?;
                self.event(Test::Require { outcome: *outcome, condition, values })?;
            }
            StatementKind::If(condition, then, otherwise) => {
                let holds = self.condition(condition, &mut Vec::new())?;
                self.statements(if holds { then } else { otherwise })?;
            }
            StatementKind::Every(_, _) => return Err("`every` stands in a loop".into()),
            StatementKind::Repeat(times, body) => self.repeat(*times, body)?,
        }
        Ok(())
    }

    fn check(&mut self) -> Step<()> {
        let (measure, bound) = self.test.ok_or("no test was declared")?;
        let (measure, bound) = (self.scalar(measure)?, self.scalar(bound)?);
        self.event(Test::Check { measure, bound })
    }

    fn repeat(&mut self, times: Option<u32>, body: &'a [Statement]) -> Step<()> {
        let main = self.outer() && self.frame().depth == 0 && self.is_main(body);
        let unbounded = times.is_none() && self.outer();
        let times = times.or(self.frame().times).map(u64::from);
        let rounds = if unbounded || (main && times > Some(self.rounds)) { self.rounds } else { times.unwrap_or(0) };
        let outermost = self.frame().depth == 0;
        self.frame().depth += 1;
        for round in 1..=rounds {
            if main {
                self.iteration = round;
            }
            if outermost {
                self.frame().iteration += 1;
            }
            self.round(round, body)?;
            if main {
                self.event(Test::Round)?;
            }
        }
        self.frame().depth -= 1;
        Ok(())
    }

    fn is_main(&mut self, body: &'a [Statement]) -> bool {
        let solver = self.frames[0].solver;
        let unbounded = solver.body.iter().any(|s| matches!(s.kind, StatementKind::Repeat(None, _)));
        let first = solver.body.iter().find_map(|s| match &s.kind {
            StatementKind::Repeat(t, b) if !unbounded || t.is_none() => Some(b),
            _ => None,
        });
        first.is_some_and(|b| std::ptr::eq(b.as_slice(), body))
    }

    fn round(&mut self, round: u64, body: &'a [Statement]) -> Step<()> {
        for s in body {
            match &s.kind {
                StatementKind::Every(n, inner) => {
                    if round.is_multiple_of(u64::from((*n).max(1))) {
                        self.round(round, inner)?;
                    }
                }
                StatementKind::If(c, then, otherwise) => {
                    let holds = self.condition(c, &mut Vec::new())?;
                    self.round(round, if holds { then } else { otherwise })?;
                }
                _ => self.statement(s)?,
            }
        }
        Ok(())
    }

    fn vector(&mut self, v: &'a VectorExpr) -> Step<Vector> {
        let world = self.world;
        Ok(match v {
            VectorExpr::Var(var) => match self.frame().values[var.0] {
                Slot::Vector(v) => v,
                _ => return Err("a variable is not a vector".into()),
            },
            VectorExpr::Zero => [Element::ZERO; LEN],
            VectorExpr::Random(seed) => world.random(*seed),
            VectorExpr::Apply(_, v) => world.apply(&self.vector(v)?),
            VectorExpr::ApplyTranspose(_, v) => world.apply_transpose(&self.vector(v)?),
            VectorExpr::Solve(_, v) => {
                let v = self.vector(v)?;
                self.solve(v)?
            }
            VectorExpr::Scale(s, v) => {
                let s = self.scalar(s)?;
                self.vector(v)?.map(|x| s * x)
            }
            VectorExpr::Neg(v) => self.vector(v)?.map(|x| -x),
            VectorExpr::Add(v, w) => {
                let (v, w) = (self.vector(v)?, self.vector(w)?);
                std::array::from_fn(|i| v[i] + w[i])
            }
            VectorExpr::Sub(v, w) => {
                let (v, w) = (self.vector(v)?, self.vector(w)?);
                std::array::from_fn(|i| v[i] - w[i])
            }
        })
    }

    /// The number of a companion.
    fn companion(&self, wanted: impl Fn(&Derived) -> bool) -> Step<usize> {
        self.world.companions.iter().position(wanted).ok_or_else(|| "a companion is missing".to_string())
    }

    /// Scaled by the diagonal, then t <- t - E t at the rows of one colour after another, forward and back.
    fn ssor(&self, relaxation: f64, v: &Vector) -> Step<Vector> {
        let factor = Element::from_f64(relaxation * (2.0 - relaxation));
        let mut t = self.world.diagonal(v).map(|x| factor * x);
        for back in [false, true] {
            let wanted = |of: &Derived| matches!(*of, Derived::Sweep { relaxation: w, backward, .. } if w == relaxation && backward == back);
            let number = self.companion(wanted)?;
            for step in 1..=self.world.companions[number].products() {
                let less = self.world.companion(number, Some(Element::from_f64(f64::from(step))), &t);
                t = std::array::from_fn(|i| t[i] - less[i]);
            }
        }
        Ok(t)
    }

    fn solve(&mut self, v: Vector) -> Step<Vector> {
        match self.frame().preconditioner {
            Preconditioner::Identity => Ok(v),
            Preconditioner::Jacobi => Ok(self.world.diagonal(&v)),
            Preconditioner::Line(axis) => Ok(self.world.line(*axis, &v)),
            Preconditioner::BlockJacobi(size) => {
                let number = self.companion(|of| *of == Derived::BlockInverse(*size))?;
                Ok(self.world.companion(number, None, &v))
            }
            Preconditioner::Ssor(relaxation) => self.ssor(*relaxation, &v),
            Preconditioner::Inner { solver, params, iterations, preconditioner } => {
                let mut frame = Frame::new(&self.case.solvers[*solver], preconditioner);
                frame.params = Some(params);
                frame.times = Some(*iterations);
                frame.values[Solver::SOLUTION.0] = Slot::Vector([Element::ZERO; LEN]);
                frame.values[Solver::RHS.0] = Slot::Vector(v);
                let body = &frame.solver.body;
                self.frames.push(frame);
                self.statements(body)?;
                let done = self.frames.pop().expect("the frame was pushed");
                match done.values[Solver::SOLUTION.0] {
                    Slot::Vector(v) => Ok(v),
                    _ => Err("the inner solution is not a vector".into()),
                }
            }
        }
    }

    fn scalar(&mut self, s: &'a Scalar) -> Step<Element> {
        Ok(match s {
            Scalar::Number(x) => Element::from_f64(*x),
            Scalar::Var(var) => match self.frame().values[var.0] {
                Slot::Scalar(x) => x,
                _ => return Err("a variable is not a scalar".into()),
            },
            Scalar::Param(p) => match self.frame().params {
                Some(values) => Element::from_f64(values[*p]),
                None => self.world.param(*p),
            },
            Scalar::Tolerance => self.world.tolerance,
            Scalar::Iteration => Element::from_f64(self.frame().iteration as f64),
            Scalar::Dot(v, w) => dot(&self.vector(v)?, &self.vector(w)?),
            Scalar::Norm(v) => {
                let v = self.vector(v)?;
                call(kernelwright_syntax::program::Function::Sqrt, &[dot(&v, &v)])
            }
            Scalar::NormMax(v) => largest(&self.vector(v)?),
            Scalar::Neg(a) => -self.scalar(a)?,
            Scalar::Binary(op, a, b) => binary(*op, self.scalar(a)?, self.scalar(b)?),
            Scalar::Call(f, args) => {
                let args: Step<Vec<Element>> = args.iter().map(|a| self.scalar(a)).collect();
                call(*f, &args?)
            }
        })
    }

    fn condition(&mut self, c: &'a ScalarCondition, values: &mut Vec<Element>) -> Step<bool> {
        Ok(match c {
            ScalarCondition::Compare(op, a, b) => {
                let value = compare(*op, self.scalar(a)?, self.scalar(b)?);
                values.push(value);
                value.truth()
            }
            ScalarCondition::And(a, b) => {
                let (a, b) = (self.condition(a, values)?, self.condition(b, values)?);
                a && b
            }
            ScalarCondition::Or(a, b) => {
                let (a, b) = (self.condition(a, values)?, self.condition(b, values)?);
                a || b
            }
            ScalarCondition::Not(a) => !self.condition(a, values)?,
        })
    }
}
