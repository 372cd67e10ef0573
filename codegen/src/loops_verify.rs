//! The rules of Loop IR, checked; see the first page of [`loops`](crate::loops).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::loops::{
    Control, Fence, Granule, PointExpr, Program, Role, ScalarCondition, ScalarExpr, ScalarId, ScalarStmt, Store, SumId,
    Sweep, ValueId, ValueKind, VectorId, Version,
};

/// A broken rule, with the sweep or fence. Only a bug of kernelwright breaks one.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopError {
    /// Sweep, fence or section.
    pub place: String,
    /// The rule.
    pub message: String,
}

impl fmt::Display for LoopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for LoopError {}

/// Checks all rules.
pub fn verify(program: &Program) -> Result<(), LoopError> {
    for sweep in &program.sweeps {
        verify_sweep(program, sweep).map_err(|message| LoopError { place: sweep.name.clone(), message })?;
    }
    for fence in &program.fences {
        verify_fence(program, fence).map_err(|message| LoopError { place: fence.name.clone(), message })?;
    }
    verify_sums(program)?;
    verify_vectors(program)?;
    let mut order = Order { program, swept: BTreeSet::new(), assigned: BTreeSet::new() };
    order.assigned.insert(ScalarId::TOLERANCE);
    let sections = [
        ("prepare", &program.prepare),
        ("start", &program.start),
        ("body", &program.body),
        ("finish", &program.finish),
        ("residual", &program.residual),
    ];
    for (name, controls) in sections {
        order.controls(controls, 0).map_err(|message| LoopError { place: name.into(), message })?;
    }
    Ok(())
}

fn rule(holds: bool, message: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(message()) }
}

fn verify_vectors(program: &Program) -> Result<(), LoopError> {
    let wrong = |v: &crate::loops::Vector| {
        let fixed = matches!(v.role, Role::Rhs | Role::Random(_));
        v.versions == 0 || (fixed && v.versions != 1)
    };
    match program.vectors.iter().find(|v| wrong(v)) {
        Some(v) => Err(LoopError { place: v.name.clone(), message: "has a wrong number of versions".into() }),
        None => Ok(()),
    }
}

fn verify_sweep(program: &Program, sweep: &Sweep) -> Result<(), String> {
    for (i, value) in sweep.values.iter().enumerate() {
        for operand in operands(&value.kind) {
            rule(operand.0 < i, || format!("value %{i} reads %{}, which comes later", operand.0))?;
        }
        match &value.kind {
            ValueKind::Load(v) => version(program, *v)?,
            ValueKind::Map(_) => value_scalars(&value.kind, &mut |s| known_scalar(program, s))?,
            ValueKind::Companion { number, .. } => {
                value_scalars(&value.kind, &mut |s| known_scalar(program, s))?;
                let rows = program.operator.space.rows();
                rule(rows.is_some_and(|rows| *number < rows.companions.len()), || {
                    format!("value %{i} is of companion {number}, which does not exist")
                })?;
            }
            ValueKind::Solve(axis, _) => rule(sweep.granule == Granule::Line(*axis), || {
                format!("value %{i} solves along axis {axis}, the sweep visits {:?}", sweep.granule)
            })?,
            ValueKind::Along(axis, _) => rule(*axis < program.operator.space.grid().axes.len(), || {
                format!("value %{i} is along axis {axis}, which does not exist")
            })?,
            _ => {}
        }
    }
    let count = sweep.values.len();
    for store in &sweep.stores {
        rule(store.value.0 < count, || "a store of no value".into())?;
        version(program, store.to)?;
        let v = &program.vectors[store.to.vector.0];
        let given = match v.role {
            Role::Rhs => true,
            Role::Random(_) => !masks(sweep, store),
            Role::Solution | Role::Work => false,
        };
        rule(!given, || format!("stores to {}, which is given", v.name))?;
    }
    let targets: BTreeSet<(VectorId, u32)> = sweep.stores.iter().map(|s| slot(program, s.to)).collect();
    rule(targets.len() == sweep.stores.len(), || "stores twice to one buffer".into())?;
    for sum in &sweep.sums {
        rule(sum.left.0 < count && sum.right.is_none_or(|r| r.0 < count), || "a sum of no value".into())?;
        rule(sum.sum.0 < program.sums.len(), || "an unknown sum".into())?;
    }
    sweep.predicate.map_or(Ok(()), |s| known_scalar(program, s))?;
    verify_neighbours(program, sweep, &targets)
}

/// Whether a store puts zeros outside the mask into the version it loads and does nothing else, which may be repeated.
fn masks(sweep: &Sweep, store: &Store) -> bool {
    match sweep.values[store.value.0].kind {
        ValueKind::Inside(given) => sweep.values[given.0].kind == ValueKind::Load(store.to),
        _ => false,
    }
}

/// Nothing read at neighbours is stored by the sweep, solved in it, or itself made of neighbours' neighbours.
fn verify_neighbours(program: &Program, sweep: &Sweep, targets: &BTreeSet<(VectorId, u32)>) -> Result<(), String> {
    let mut near = vec![false; sweep.values.len()];
    for (i, value) in sweep.values.iter().enumerate().rev() {
        let around = value.kind.gathers();
        if near[i] {
            match &value.kind {
                ValueKind::Load(v) => {
                    let clash = targets.contains(&slot(program, *v));
                    let name = &program.vectors[v.vector.0].name;
                    rule(!clash, || format!("{name} is read at neighbours and stored by the same sweep"))?;
                }
                ValueKind::Solve(..) => return Err(format!("%{i} is solved for and read at neighbours")),
                _ => rule(!around, || format!("%{i} applies the operator and is read at neighbours"))?,
            }
        }
        for operand in operands(&value.kind) {
            near[operand.0] |= near[i] || around;
        }
    }
    Ok(())
}

/// Buffers are compared modulo the number of versions.
fn slot(program: &Program, v: Version) -> (VectorId, u32) {
    (v.vector, v.ahead % program.vectors[v.vector.0].versions.max(1))
}

fn version(program: &Program, v: Version) -> Result<(), String> {
    let vector = program.vectors.get(v.vector.0).ok_or("an unknown vector")?;
    rule(v.ahead < vector.versions, || format!("{} has no version {}", vector.name, v.ahead))
}

/// Values a value reads.
pub(crate) fn operands(kind: &ValueKind) -> Vec<ValueId> {
    let mut out = Vec::new();
    match kind {
        ValueKind::Load(_) | ValueKind::AffinePart => {}
        ValueKind::Map(e) => point_values(e, &mut out),
        ValueKind::Apply(v) | ValueKind::Magnitude(v) => out.push(*v),
        ValueKind::Solve(_, v) | ValueKind::Along(_, v) => out.push(*v),
        ValueKind::Diagonal(v) | ValueKind::Inside(v) => out.push(*v),
        ValueKind::Companion { operand, .. } => out.push(*operand),
    }
    out
}

fn point_values(e: &PointExpr, out: &mut Vec<ValueId>) {
    match e {
        PointExpr::Value(v) => out.push(*v),
        PointExpr::Scalar(_) | PointExpr::Number(_) => {}
        PointExpr::Neg(a) | PointExpr::Abs(a) => point_values(a, out),
        PointExpr::Binary(_, a, b) => {
            point_values(a, out);
            point_values(b, out);
        }
    }
}

/// Scalars a value reads.
pub(crate) fn value_scalars(kind: &ValueKind, f: &mut dyn FnMut(ScalarId) -> Result<(), String>) -> Result<(), String> {
    match kind {
        ValueKind::Map(e) => point_scalars(e, f),
        ValueKind::Companion { step, .. } => step.map_or(Ok(()), f),
        _ => Ok(()),
    }
}

fn point_scalars(e: &PointExpr, f: &mut dyn FnMut(ScalarId) -> Result<(), String>) -> Result<(), String> {
    match e {
        PointExpr::Scalar(s) => f(*s),
        PointExpr::Value(_) | PointExpr::Number(_) => Ok(()),
        PointExpr::Neg(a) | PointExpr::Abs(a) => point_scalars(a, f),
        PointExpr::Binary(_, a, b) => point_scalars(a, f).and_then(|()| point_scalars(b, f)),
    }
}

fn known_scalar(program: &Program, s: ScalarId) -> Result<(), String> {
    rule(s.0 < program.scalars.len(), || "an unknown scalar".into())
}

fn verify_fence(program: &Program, fence: &Fence) -> Result<(), String> {
    for s in &fence.statements {
        if let ScalarStmt::Require { number, .. } = s {
            rule(*number < program.requires.len(), || "an unknown require".into())?;
        }
        if let ScalarStmt::Assign { scalar, .. } = s {
            known_scalar(program, *scalar)?;
            let given = *scalar == ScalarId::TOLERANCE;
            rule(!given, || "assigns the tolerance".into())?;
        }
        statement_reads(s, &mut |read| match read {
            Read::Scalar(s) => known_scalar(program, s),
            Read::Sum(s) => rule(s.0 < program.sums.len(), || "an unknown sum".into()),
            Read::Param(p) => rule(p < program.solver_params.len(), || "an unknown parameter".into()),
        })?;
    }
    fence.predicate.map_or(Ok(()), |s| known_scalar(program, s))
}

/// What a scalar statement reads.
pub(crate) enum Read {
    Scalar(ScalarId),
    Sum(SumId),
    Param(usize),
}

pub(crate) type Visit<'a> = &'a mut dyn FnMut(Read) -> Result<(), String>;

/// Visits what a statement reads, in order, up to the first error.
pub(crate) fn statement_reads(s: &ScalarStmt, f: Visit<'_>) -> Result<(), String> {
    match s {
        ScalarStmt::Assign { value, .. } => expr_reads(value, f),
        ScalarStmt::Require { condition, .. } | ScalarStmt::Raise { condition, .. } => condition_reads(condition, f),
        ScalarStmt::Check { measure, bound } | ScalarStmt::Measure { measure, bound } => {
            expr_reads(measure, f).and_then(|()| expr_reads(bound, f))
        }
    }
}

fn expr_reads(e: &ScalarExpr, f: Visit<'_>) -> Result<(), String> {
    match e {
        ScalarExpr::Number(_) => Ok(()),
        ScalarExpr::Scalar(s) => f(Read::Scalar(*s)),
        ScalarExpr::Sum(s) => f(Read::Sum(*s)),
        ScalarExpr::Param(p) => f(Read::Param(*p)),
        ScalarExpr::Neg(a) => expr_reads(a, f),
        ScalarExpr::Binary(_, a, b) => expr_reads(a, f).and_then(|()| expr_reads(b, f)),
        ScalarExpr::Call(_, args) => args.iter().try_for_each(|a| expr_reads(a, f)),
        ScalarExpr::Truth(c) => condition_reads(c, f),
        ScalarExpr::Select(c, a, b) => {
            condition_reads(c, f).and_then(|()| expr_reads(a, f)).and_then(|()| expr_reads(b, f))
        }
    }
}

fn condition_reads(c: &ScalarCondition, f: Visit<'_>) -> Result<(), String> {
    match c {
        ScalarCondition::Compare(_, a, b) => expr_reads(a, f).and_then(|()| expr_reads(b, f)),
        ScalarCondition::And(a, b) | ScalarCondition::Or(a, b) => {
            condition_reads(a, f).and_then(|()| condition_reads(b, f))
        }
        ScalarCondition::Not(a) => condition_reads(a, f),
    }
}

/// Each sum belongs to one sweep and one fence.
fn verify_sums(program: &Program) -> Result<(), LoopError> {
    let mut swept: BTreeMap<SumId, &str> = BTreeMap::new();
    for sweep in &program.sweeps {
        for sum in &sweep.sums {
            if swept.insert(sum.sum, &sweep.name).is_some() {
                return Err(LoopError { place: sweep.name.clone(), message: "a sum belongs to two sweeps".into() });
            }
        }
    }
    let mut finished: BTreeMap<SumId, usize> = BTreeMap::new();
    for (i, fence) in program.fences.iter().enumerate() {
        let fail = |message: &str| LoopError { place: fence.name.clone(), message: message.into() };
        for s in &fence.statements {
            statement_reads(s, &mut |read| match read {
                Read::Sum(sum) if !swept.contains_key(&sum) => Err("a sum has no sweep".into()),
                Read::Sum(sum) if *finished.entry(sum).or_insert(i) != i => Err("a sum is finished twice".into()),
                _ => Ok(()),
            })
            .map_err(|m| fail(&m))?;
        }
    }
    Ok(())
}

/// Sums and scalars in the order of the sections. Inside a loop, a value of the round before counts too.
struct Order<'p> {
    program: &'p Program,
    swept: BTreeSet<SumId>,
    assigned: BTreeSet<ScalarId>,
}

impl Order<'_> {
    fn controls(&mut self, controls: &[Control], depth: usize) -> Result<(), String> {
        rule(depth < 16, || "loops are nested too deeply".into())?;
        for control in controls {
            match control {
                Control::Sweep(id) => self.sweep(self.program.sweeps.get(id.0).ok_or("an unknown sweep")?)?,
                Control::Fence(id) => self.fence(self.program.fences.get(id.0).ok_or("an unknown fence")?)?,
                Control::Rotate(v) => {
                    let vector = self.program.vectors.get(v.0).ok_or("an unknown vector")?;
                    rule(vector.versions > 1, || format!("{} has nothing to rotate", vector.name))?;
                }
                Control::Loop { body, .. } => self.controls(body, depth + 1)?,
                Control::Every { body, otherwise, .. } => {
                    self.controls(body, depth + 1)?;
                    self.controls(otherwise, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn sweep(&mut self, sweep: &Sweep) -> Result<(), String> {
        let assigned = &self.assigned;
        let program = self.program;
        let mut need = |s: ScalarId| {
            rule(assigned.contains(&s), || format!("{} reads {} too early", sweep.name, program.scalars[s.0]))
        };
        for value in &sweep.values {
            value_scalars(&value.kind, &mut need)?;
        }
        sweep.predicate.map_or(Ok(()), need)?;
        self.swept.extend(sweep.sums.iter().map(|s| s.sum));
        Ok(())
    }

    fn fence(&mut self, fence: &Fence) -> Result<(), String> {
        let program = self.program;
        for s in &fence.statements {
            let (swept, assigned) = (&self.swept, &self.assigned);
            statement_reads(s, &mut |read| match read {
                Read::Sum(sum) => rule(swept.contains(&sum), || format!("{} finishes a sum too early", fence.name)),
                Read::Scalar(s) => rule(assigned.contains(&s), || {
                    format!("{} reads {} before it is assigned", fence.name, program.scalars[s.0])
                }),
                Read::Param(_) => Ok(()),
            })?;
            self.assigned.extend(s.assigned());
        }
        Ok(())
    }
}
