//! A loop program run in the algebraic world.
//!
//! Buffers start without a value and reading one that has none is an error. A sweep reads all its buffers before it
//! writes any, which is what the structural rules of [`loops_verify`](crate::loops_verify) make true of every order
//! of points. A run may be ended at a chosen event, as a test that raises the status word would end it.

use std::collections::BTreeMap;

use super::field::Element;
use super::textbook::{Event, Test};
use super::world::{LEN, Vector, World, absolute, binary, call, compare, dot, largest};
use crate::loops::{
    Control, Fence, PointExpr, Program, Role, ScalarCondition, ScalarExpr, ScalarId, ScalarStmt, SumId, SumKind, Sweep,
    ValueKind, VectorId, Version, status,
};
use kernelwright_syntax::program::{CompareOp, Function};

/// Why a program stopped otherwise than it should.
pub type Fault = String;

/// State of a run.
#[derive(Clone)]
pub struct Machine<'p> {
    program: &'p Program,
    world: &'p World,
    buffers: BTreeMap<(VectorId, u32), Vector>,
    rotation: Vec<u32>,
    /// Rotation when the current round of the main loop began.
    round_rotation: Option<Vec<u32>>,
    scalars: BTreeMap<ScalarId, Element>,
    sums: BTreeMap<SumId, Element>,
    /// Tests in order, with the solution's current buffer (which need not be the solution).
    pub events: Vec<Event>,
    /// Conditions under which a given status is raised, in order: the status and the values compared.
    pub raised: Vec<(i32, Vec<Element>)>,
    /// Number of tests after which the run ends.
    pub stop_at: Option<usize>,
    /// Whether it has ended.
    pub stopped: bool,
    /// Rounds of the main loop to run.
    rounds: u64,
    innermost: u64,
    depth: usize,
}

impl<'p> Machine<'p> {
    /// A machine with inputs in place.
    pub fn new(program: &'p Program, world: &'p World, rounds: u64) -> Machine<'p> {
        let mut machine = Machine {
            program,
            world,
            buffers: BTreeMap::new(),
            rotation: vec![0; program.vectors.len()],
            round_rotation: None,
            scalars: BTreeMap::new(),
            sums: BTreeMap::new(),
            events: Vec::new(),
            raised: Vec::new(),
            stop_at: None,
            stopped: false,
            rounds,
            innermost: 0,
            depth: 0,
        };
        machine.scalars.insert(ScalarId::TOLERANCE, world.tolerance);
        for (id, v) in program.vectors.iter().enumerate() {
            let value = match v.role {
                Role::Rhs => world.rhs,
                Role::Solution => world.guess,
                Role::Random(seed) => world.random(seed),
                Role::Work => continue,
            };
            machine.buffers.insert((VectorId(id), 0), value);
        }
        machine
    }

    fn slot(&self, v: Version) -> (VectorId, u32) {
        let versions = self.program.vectors[v.vector.0].versions.max(1);
        (v.vector, (self.rotation[v.vector.0] + v.ahead) % versions)
    }

    /// The current buffer of the vector with a role.
    pub fn solution(&self) -> Option<Vector> {
        let id = self.program.vectors.iter().position(|v| v.role == Role::Solution)?;
        self.vector(VectorId(id))
    }

    /// The current buffer of a vector.
    pub fn vector(&self, vector: VectorId) -> Option<Vector> {
        self.buffers.get(&self.slot(Version { vector, ahead: 0 })).copied()
    }

    /// A scalar's value.
    pub fn scalar(&self, id: ScalarId) -> Option<Element> {
        self.scalars.get(&id).copied()
    }

    /// Runs a section.
    pub fn section(&mut self, controls: &[Control]) -> Result<(), Fault> {
        controls.iter().try_for_each(|c| self.control(c))
    }

    /// Clears the status word: buffers count as they did when the round that raised it began.
    pub fn resume(&mut self) {
        if self.stopped
            && let Some(rotation) = self.round_rotation.take()
        {
            self.rotation = rotation;
        }
        self.stopped = false;
        self.stop_at = None;
        self.round_rotation = None;
    }

    fn control(&mut self, control: &Control) -> Result<(), Fault> {
        if self.stopped {
            return Ok(());
        }
        match control {
            Control::Sweep(id) => self.sweep(&self.program.sweeps[id.0])?,
            Control::Fence(id) => self.fence(&self.program.fences[id.0])?,
            Control::Rotate(v) => {
                let versions = self.program.vectors[v.0].versions.max(1);
                self.rotation[v.0] = (self.rotation[v.0] + 1) % versions;
            }
            Control::Loop { times, body } => self.repeat(*times, body)?,
            Control::Every { n, body, otherwise } => {
                let due = self.innermost.is_multiple_of(u64::from((*n).max(1)));
                self.section(if due { body } else { otherwise })?;
            }
        }
        Ok(())
    }

    fn repeat(&mut self, times: Option<u32>, body: &[Control]) -> Result<(), Fault> {
        // The main loop is the unbounded one; where there is none, the outermost of the body.
        let main = times.is_none() || (self.depth == 0 && self.round_rotation.is_none() && self.in_body(body));
        let rounds = times.map_or(self.rounds, u64::from);
        let rounds = if main { rounds.min(self.rounds) } else { rounds };
        let outer = self.innermost;
        self.depth += 1;
        for round in 1..=rounds {
            self.innermost = round;
            if main {
                self.round_rotation = Some(self.rotation.clone());
            }
            self.section(body)?;
            if self.stopped {
                break;
            }
            if main {
                self.event(Test::Round)?;
            }
        }
        self.depth -= 1;
        self.innermost = outer;
        Ok(())
    }

    fn in_body(&self, body: &[Control]) -> bool {
        self.program.body.iter().any(|c| matches!(c, Control::Loop { body: b, .. } if std::ptr::eq(b.as_slice(), body)))
    }

    fn event(&mut self, test: Test) -> Result<(), Fault> {
        let iteration = self.scalar(ScalarId::ITERATION).ok_or("the iteration is not set")?;
        let iteration =
            (0..64).find(|i| Element::from_f64(*i as f64) == iteration).ok_or("the iteration is no count")?;
        let solution = self.solution().ok_or("the solution has no value")?;
        self.events.push(Event { test, iteration, solution });
        if self.stop_at == Some(self.events.len()) {
            self.stopped = true;
        }
        Ok(())
    }

    fn runs(&self, predicate: Option<ScalarId>) -> Result<bool, Fault> {
        match predicate {
            None => Ok(true),
            Some(s) => Ok(self.scalar(s).ok_or("a predicate has no value")? != Element::ZERO),
        }
    }

    fn sweep(&mut self, sweep: &Sweep) -> Result<(), Fault> {
        if !self.runs(sweep.predicate)? {
            return Ok(());
        }
        let mut values: Vec<Vector> = Vec::new();
        for value in &sweep.values {
            let v = match &value.kind {
                ValueKind::Load(v) => {
                    let name = &self.program.vectors[v.vector.0].name;
                    *self.buffers.get(&self.slot(*v)).ok_or_else(|| format!("{}: {name} has no value", sweep.name))?
                }
                ValueKind::Map(e) => {
                    let mut out = [Element::ZERO; LEN];
                    for (i, x) in out.iter_mut().enumerate() {
                        *x = self.point(e, &values, i)?;
                    }
                    out
                }
                ValueKind::Apply(v) => self.world.apply(&values[v.0]),
                ValueKind::AffinePart => self.world.affine,
                ValueKind::Magnitude(v) => self.world.magnitude(&values[v.0]),
                ValueKind::Solve(axis, v) => self.world.line(*axis, &values[v.0]),
                ValueKind::Along(axis, v) => self.world.along(*axis, &values[v.0]),
                ValueKind::Diagonal(v) => self.world.diagonal(&values[v.0]),
                ValueKind::Companion { number, step, operand } => {
                    let step = step.map(|step| self.read(step)).transpose()?;
                    self.world.companion(*number, step, &values[operand.0])
                }
                // All points of the world take part.
                ValueKind::Inside(v) => values[v.0],
            };
            values.push(v);
        }
        for sum in &sweep.sums {
            let left = values[sum.left.0];
            let value = match (self.program.sums[sum.sum.0], sum.right) {
                (SumKind::Max, _) => largest(&left),
                (SumKind::Add, Some(right)) => dot(&left, &values[right.0]),
                (SumKind::Add, None) => left.iter().fold(Element::ZERO, |s, x| s + *x),
            };
            self.sums.insert(sum.sum, value);
        }
        for store in &sweep.stores {
            let slot = self.slot(store.to);
            self.buffers.insert(slot, values[store.value.0]);
        }
        Ok(())
    }

    fn point(&self, e: &PointExpr, values: &[Vector], i: usize) -> Result<Element, Fault> {
        Ok(match e {
            PointExpr::Value(v) => values[v.0][i],
            PointExpr::Scalar(s) => self.read(*s)?,
            PointExpr::Number(x) => Element::from_f64(*x),
            PointExpr::Neg(a) => -self.point(a, values, i)?,
            PointExpr::Abs(a) => absolute(self.point(a, values, i)?),
            PointExpr::Binary(op, a, b) => binary(*op, self.point(a, values, i)?, self.point(b, values, i)?),
        })
    }

    fn read(&self, s: ScalarId) -> Result<Element, Fault> {
        self.scalar(s).ok_or_else(|| format!("{} is read before it is assigned", self.program.scalars[s.0]))
    }

    fn fence(&mut self, fence: &Fence) -> Result<(), Fault> {
        if !self.runs(fence.predicate)? {
            return Ok(());
        }
        for s in &fence.statements {
            match s {
                ScalarStmt::Assign { scalar, value, .. } => {
                    let value = self.expr(value)?;
                    self.scalars.insert(*scalar, value);
                }
                ScalarStmt::Require { number, condition } => {
                    let mut values = Vec::new();
                    let condition = self.condition(condition, &mut values)?;
                    let outcome = self.program.requires[*number].outcome;
                    self.event(Test::Require { outcome, condition, values })?;
                }
                ScalarStmt::Check { measure, bound } => {
                    let (measure, bound) = (self.expr(measure)?, self.expr(bound)?);
                    self.event(Test::Check { measure, bound })?;
                }
                ScalarStmt::Measure { measure, bound } => {
                    let (measure, bound) = (self.expr(measure)?, self.expr(bound)?);
                    self.scalars.insert(ScalarId::MEASURE, measure);
                    self.scalars.insert(ScalarId::BOUND, bound);
                }
                ScalarStmt::Raise { condition, status: word } => {
                    let mut values = Vec::new();
                    self.condition(condition, &mut values)?;
                    if *word == status::PARTED {
                        self.guard(condition)?;
                    } else {
                        self.raised.push((*word, values));
                    }
                }
            }
            if self.stopped {
                // A raised status ends the fence.
                break;
            }
        }
        // A sum is finished once; a fence that reads it again without a new sweep would read a stale one.
        for s in &fence.statements {
            self.forget(s);
        }
        Ok(())
    }

    /// A guard compares what is equal in exact arithmetic: `not |0| <= …`.
    fn guard(&mut self, condition: &ScalarCondition) -> Result<(), Fault> {
        let ScalarCondition::Not(holds) = condition else { return Err("a guard that may fail".into()) };
        match &**holds {
            ScalarCondition::Compare(CompareOp::Le, ScalarExpr::Call(Function::Abs, miss), allowed)
                if self.expr(&miss[0])? == Element::ZERO && matches!(allowed, ScalarExpr::Binary(..)) =>
            {
                self.event(Test::Guard)
            }
            _ => Err("a guard compares what is not equal".into()),
        }
    }

    fn forget(&mut self, s: &ScalarStmt) {
        let mut used = Vec::new();
        sums_of(s, &mut used);
        for sum in used {
            self.sums.remove(&sum);
        }
    }

    fn expr(&self, e: &ScalarExpr) -> Result<Element, Fault> {
        Ok(match e {
            ScalarExpr::Number(x) => Element::from_f64(*x),
            ScalarExpr::Scalar(s) => self.read(*s)?,
            ScalarExpr::Sum(s) => *self.sums.get(s).ok_or("a sum is read before its sweep")?,
            ScalarExpr::Param(p) => self.world.param(*p),
            ScalarExpr::Neg(a) => -self.expr(a)?,
            ScalarExpr::Binary(op, a, b) => binary(*op, self.expr(a)?, self.expr(b)?),
            ScalarExpr::Call(f, args) => {
                let args: Result<Vec<Element>, Fault> = args.iter().map(|a| self.expr(a)).collect();
                call(*f, &args?)
            }
            ScalarExpr::Select(c, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                if self.condition(c, &mut Vec::new())? { a } else { b }
            }
            ScalarExpr::Truth(c) => {
                if self.condition(c, &mut Vec::new())? {
                    Element::ONE
                } else {
                    Element::ZERO
                }
            }
        })
    }

    fn condition(&self, c: &ScalarCondition, values: &mut Vec<Element>) -> Result<bool, Fault> {
        Ok(match c {
            ScalarCondition::Compare(op, a, b) => {
                let value = compare(*op, self.expr(a)?, self.expr(b)?);
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

/// Sums a statement reads.
pub(crate) fn sums_of(s: &ScalarStmt, out: &mut Vec<SumId>) {
    match s {
        ScalarStmt::Assign { value, .. } => sums_of_expr(value, out),
        ScalarStmt::Require { condition, .. } | ScalarStmt::Raise { condition, .. } => {
            sums_of_condition(condition, out);
        }
        ScalarStmt::Check { measure, bound } | ScalarStmt::Measure { measure, bound } => {
            sums_of_expr(measure, out);
            sums_of_expr(bound, out);
        }
    }
}

fn sums_of_expr(e: &ScalarExpr, out: &mut Vec<SumId>) {
    match e {
        ScalarExpr::Sum(s) => out.push(*s),
        ScalarExpr::Number(_) | ScalarExpr::Scalar(_) | ScalarExpr::Param(_) => {}
        ScalarExpr::Neg(a) => sums_of_expr(a, out),
        ScalarExpr::Binary(_, a, b) => {
            sums_of_expr(a, out);
            sums_of_expr(b, out);
        }
        ScalarExpr::Call(_, args) => args.iter().for_each(|a| sums_of_expr(a, out)),
        ScalarExpr::Truth(c) => sums_of_condition(c, out),
        ScalarExpr::Select(c, a, b) => {
            sums_of_condition(c, out);
            sums_of_expr(a, out);
            sums_of_expr(b, out);
        }
    }
}

fn sums_of_condition(c: &ScalarCondition, out: &mut Vec<SumId>) {
    match c {
        ScalarCondition::Compare(_, a, b) => {
            sums_of_expr(a, out);
            sums_of_expr(b, out);
        }
        ScalarCondition::And(a, b) | ScalarCondition::Or(a, b) => {
            sums_of_condition(a, out);
            sums_of_condition(b, out);
        }
        ScalarCondition::Not(a) => sums_of_condition(a, out),
    }
}

impl Machine<'_> {
    /// The same state with another number of rounds to run.
    pub fn limited(mut self, rounds: u64) -> Self {
        self.rounds = rounds;
        self
    }
}
