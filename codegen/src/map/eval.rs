//! Evaluation of a sweep's values at positions.

use std::collections::{BTreeMap, BTreeSet};

use super::MapError;
use super::builder::Builder;
use super::context::Context;
use super::fold;
use super::position::{Frame, Position};
use super::rows::Reading;
use crate::kernel::{Access, BufferId, Expr, IndexWidth, LoopKind, Stmt, Type, VarId};
use crate::loops::{BinaryOp, PointExpr, ScalarId, Sweep, ValueId, ValueKind, Version};
use crate::module::Arg;

/// How a load that must not happen everywhere is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guarding {
    /// `guard ? buffer[index] : 0`, a predicated load.
    Predicate,
    /// `buffer[guard ? index : somewhere inside]`, which vectorises.
    Clamp,
}

/// A value of the sweep's own point that is read back instead of being evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// From the vector it was stored to.
    Stored(Version),
    /// From an array along the line (of an axis); see [`super::line::Arrays`].
    Array(super::line::ArrayId, usize),
}

/// What was evaluated before, in the open blocks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Value(usize, usize, Position),
    Flux(usize, Reading, Position),
}

/// Evaluates the values of one sweep into one kernel.
pub(super) struct Eval<'a, 'c> {
    pub(super) cx: &'c Context<'a>,
    pub(super) sweep: &'a Sweep,
    pub(super) b: Builder,
    pub(super) frame: Frame,
    pub(super) guarding: Guarding,
    /// Condition of the branch that is being evaluated, if any.
    pub(super) ambient: Option<VarId>,
    /// Values read back at the own point.
    pub(super) kept: BTreeMap<ValueId, Kept>,
    /// Arrays along the own line, for [`Kept::Array`].
    pub(super) arrays: super::line::Arrays,
    /// Components of values that are known at the own point (the solution, in its loop).
    pub(super) known: BTreeMap<(ValueId, usize), Expr>,
    /// What the lane carries along its walk.
    pub(super) march: super::march::March,
    /// What the block keeps in shared memory around its points.
    pub(super) tile: super::tile::Tile,
    /// The companion whose arrays are read; none where it is the operator's own matrix.
    pub(super) companion: Option<usize>,
    /// What every block has found of the fence before the sweep, where it began with that.
    pub(super) lead: Option<super::lead::Lead>,
    /// Scalars in the working precision, where the kernel changes them at its end.
    scalars: BTreeMap<ScalarId, Expr>,
    memo: Vec<BTreeMap<Key, Option<Expr>>>,
    /// Statements quoted in the open blocks.
    quoted: Vec<BTreeSet<String>>,
}

impl<'a, 'c> Eval<'a, 'c> {
    /// A kernel for a sweep, with its header.
    pub(super) fn new(cx: &'c Context<'a>, sweep: &'a Sweep, guarding: Guarding) -> Eval<'a, 'c> {
        let mut stored: Vec<Arg> = sweep.stores.iter().map(|s| Arg::Vector(s.to)).collect();
        if cx.closing.is_some() || cx.leading.is_some() {
            stored.extend(super::fence::written());
        }
        let mut eval = Eval::part(cx, sweep, guarding, &sweep.name, stored);
        eval.b.doc.extend(sweep.text.iter().cloned());
        eval.exits();
        eval
    }

    /// A kernel for a part of a sweep, under a name and with stores of its own, yet without its exits.
    fn part(cx: &'c Context<'a>, sweep: &'a Sweep, guarding: Guarding, name: &str, stored: Vec<Arg>) -> Eval<'a, 'c> {
        let mut b = Builder::new(name, stored);
        let frame = Frame::new(cx, &mut b);
        Eval {
            cx,
            sweep,
            b,
            frame,
            guarding,
            ambient: None,
            kept: BTreeMap::new(),
            arrays: super::line::Arrays::default(),
            known: BTreeMap::new(),
            march: super::march::March::default(),
            tile: super::tile::Tile::default(),
            companion: None,
            lead: None,
            scalars: BTreeMap::new(),
            memo: vec![BTreeMap::new()],
            quoted: vec![BTreeSet::new()],
        }
    }

    /// A kernel that does a part of a sweep ahead of it.
    pub(super) fn ahead(cx: &'c Context<'a>, sweep: &'a Sweep, name: &str, stored: Vec<Arg>) -> Eval<'a, 'c> {
        let mut eval = Eval::part(cx, sweep, Guarding::Predicate, name, stored);
        eval.exits();
        eval
    }

    /// Reads the scalars of the sweep before its last block changes any; those of the fence that it began with as that left
    /// them.
    pub(super) fn load_scalars(&mut self) {
        let mut used = BTreeSet::new();
        for value in &self.sweep.values {
            if let ValueKind::Map(e) = &value.kind {
                scalars_of(e, &mut used);
            }
        }
        for s in used {
            let led = self.lead.as_ref().and_then(|lead| lead.value(s));
            let load = led.unwrap_or_else(|| super::scalars::load(&mut self.b, self.cx, s));
            let value = fold::cast(self.cx.real, Type::F64, load);
            let var = self.b.bind_here(&self.cx.program.scalars[s.0], value);
            self.scalars.insert(s, fold::var(var));
        }
    }

    /// Ends the kernel at once when the solve is over or the sweep's predicate does not hold.
    fn exits(&mut self) {
        super::scalars::exits(&mut self.b, self.cx, self.sweep.predicate);
    }

    /// Opens a loop.
    pub(super) fn open_loop(&mut self, name: &str) -> VarId {
        self.memo.push(BTreeMap::new());
        self.quoted.push(BTreeSet::new());
        self.b.open_loop(name)
    }

    /// Closes the loop opened last.
    pub(super) fn close_loop(&mut self, var: VarId, from: Expr, to: Expr, step: i64, kind: LoopKind) {
        self.memo.pop();
        self.quoted.pop();
        self.b.close_loop(var, from, to, step, kind);
    }

    /// Opens a conditional block.
    pub(super) fn open_if(&mut self) {
        self.memo.push(BTreeMap::new());
        self.quoted.push(BTreeSet::new());
        self.b.open_if();
    }

    /// Closes the conditional block opened last.
    pub(super) fn close_if(&mut self, cond: Expr) {
        self.memo.pop();
        self.quoted.pop();
        self.b.close_if(cond);
    }

    /// Closes the conditional block opened last and hands its statements over.
    pub(super) fn close_block(&mut self) -> Vec<Stmt> {
        self.memo.pop();
        self.quoted.pop();
        self.b.close()
    }

    /// What a key was evaluated to.
    pub(super) fn recall(&self, key: &Key) -> Option<Option<Expr>> {
        self.memo.iter().rev().find_map(|m| m.get(key).cloned())
    }

    /// Remembers an evaluation for the innermost block.
    pub(super) fn remember(&mut self, key: Key, value: Option<Expr>) {
        self.memo.last_mut().expect("the kernel's own block is open").insert(key, value);
    }

    /// Quotes a statement above its code, once.
    pub(super) fn quote(&mut self, text: &str) {
        if self.quoted.iter().any(|q| q.contains(text)) {
            return;
        }
        self.quoted.last_mut().expect("the kernel's own block is open").insert(text.to_string());
        self.b.comment(text);
    }

    /// Component `c` of a value at a position inside the grid (where its guard holds).
    pub(super) fn value(&mut self, v: ValueId, c: usize, at: &Position) -> Result<Expr, MapError> {
        let here = self.frame.is_here(at);
        if here && let Some(known) = self.known.get(&(v, c)) {
            return Ok(known.clone());
        }
        let distance = self.on_column(at);
        if let Some(distance) = distance
            && let Some(carried) = self.march.ask((v, c), distance)
        {
            return Ok(carried);
        }
        let key = Key::Value(v.0, c, at.clone());
        if let Some(Some(known)) = self.recall(&key) {
            return Ok(known);
        }
        if let Some(staged) = self.staged((v, c), at) {
            self.remember(key, Some(staged.clone()));
            return Ok(staged);
        }
        let before = self.march.leave(distance.is_some_and(|d| d != 0));
        let name = self.value_name(v, c, at);
        let value = match self.kept.get(&v) {
            Some(&Kept::Stored(version)) if here => self.load_vector(version, c, at, &name)?,
            Some(&Kept::Array(array, axis)) if here => self.load_kept(array, c, axis),
            _ => self.define(v, c, at, here, &name)?,
        };
        self.march.back(before);
        let value = self.b.bind(&name, value);
        self.remember(key, Some(value.clone()));
        Ok(value)
    }

    /// Evaluates a value's definition.
    fn define(&mut self, v: ValueId, c: usize, at: &Position, here: bool, name: &str) -> Result<Expr, MapError> {
        let sweep = self.sweep;
        let kind = &sweep.values[v.0].kind;
        if here && let Some(text) = &sweep.values[v.0].text {
            self.quote(text);
        }
        match kind {
            ValueKind::Load(version) => self.load_vector(*version, c, at, name),
            ValueKind::Map(e) => self.point(e, c, at),
            ValueKind::Apply(x) => self.row(c, at, Reading::Linear(x.0)),
            ValueKind::AffinePart => self.row(c, at, Reading::Affine),
            ValueKind::Magnitude(x) => self.row(c, at, Reading::Magnitude(x.0)),
            ValueKind::Along(axis, x) => self.coupled_along(*axis, *x, c, at),
            ValueKind::Diagonal(x) => self.over_diagonal(*x, c, at),
            ValueKind::Inside(x) => self.inside(*x, c, at),
            ValueKind::Companion { .. } => Err(MapError::Internal(format!(
                "`{}` is a product of a companion and is read elsewhere",
                self.sweep.values[v.0].name
            ))),
            ValueKind::Solve(..) => Err(MapError::Internal(format!(
                "`{}` solves along a line and is read elsewhere",
                self.sweep.values[v.0].name
            ))),
        }
    }

    /// Name of a value at a position: `p_here`, `p_east`, `z_k2`.
    pub(super) fn value_name(&self, v: ValueId, c: usize, at: &Position) -> String {
        let value = &self.sweep.values[v.0];
        let component = if self.cx.grid.components > 1 {
            format!("_{}", self.cx.operator().unknowns.get(c).cloned().unwrap_or_else(|| c.to_string()))
        } else {
            String::new()
        };
        let suffix = self.frame.suffix(self.cx, at);
        let gathered = self.cx.operator().space.rows().is_some() && !self.frame.is_here(at);
        let here = match value.kind {
            _ if gathered => "_at_column",
            ValueKind::Load(_) => "_here",
            _ => "_new",
        };
        let suffix = if suffix.is_empty() { here } else { &suffix };
        format!("{}{component}{suffix}", value.name)
    }

    /// Pointwise arithmetic.
    fn point(&mut self, e: &PointExpr, c: usize, at: &Position) -> Result<Expr, MapError> {
        Ok(match e {
            PointExpr::Value(v) => self.value(*v, c, at)?,
            PointExpr::Scalar(s) => self.scalar(*s),
            PointExpr::Number(x) => fold::real(*x, self.cx.real),
            PointExpr::Neg(a) => fold::neg(self.point(a, c, at)?),
            PointExpr::Abs(a) => fold::abs(self.point(a, c, at)?),
            PointExpr::Binary(op, a, b) => {
                let (a, b) = (self.point(a, c, at)?, self.point(b, c, at)?);
                arithmetic(*op, a, b)
            }
        })
    }

    /// A scalar of the loop in the working precision.
    pub(super) fn scalar(&mut self, s: ScalarId) -> Expr {
        if let Some(known) = self.scalars.get(&s) {
            return known.clone();
        }
        let load = super::scalars::load(&mut self.b, self.cx, s);
        let value = fold::cast(self.cx.real, Type::F64, load);
        self.b.bind(&self.cx.program.scalars[s.0], value)
    }

    /// The buffer of a version.
    pub(super) fn vector_buffer(&mut self, version: Version, access: Access) -> BufferId {
        let mut name = self.cx.program.vectors[version.vector.0].name.clone();
        match version.ahead {
            0 => {}
            1 => name.push_str("_next"),
            n => name.push_str(&format!("_next{n}")),
        }
        let len = self.cx.points * self.cx.grid.components as u64;
        self.b.global(Arg::Vector(version), &name, self.cx.options.precision, len, access)
    }

    /// A load from a vector.
    pub(super) fn load_vector(
        &mut self,
        version: Version,
        c: usize,
        at: &Position,
        name: &str,
    ) -> Result<Expr, MapError> {
        let guard = at.guard;
        let (base, step) = self.address(at);
        let offset = self.component_offset(c);
        let buffer = self.vector_buffer(version, Access::Read);
        let load = match (guard, self.guarding) {
            (Some(g), Guarding::Clamp) if self.cx.dims() > 1 => {
                // The choice is between steps, which inner loops over the own point have in common.
                let step = self.b.bind(&format!("step_{name}"), fold::select(fold::var(g), step, fold::int(0)));
                load_at(buffer, fold::add(fold::add(base, step), offset))
            }
            (Some(g), Guarding::Clamp) => {
                let index = fold::select(fold::var(g), fold::add(base, step), fold::int(0));
                let index = self.b.bind(&format!("at_{name}"), index);
                load_at(buffer, fold::add(index, offset))
            }
            (Some(g), Guarding::Predicate) => {
                let load = load_at(buffer, fold::add(fold::add(base, step), offset));
                fold::select(fold::var(g), load, fold::real(0.0, self.cx.real))
            }
            (None, _) => load_at(buffer, fold::add(fold::add(base, step), offset)),
        };
        Ok(load)
    }

    /// Distance of a component's values from the first one's.
    fn component_offset(&mut self, c: usize) -> Expr {
        fold::int(c as i64 * self.cx.points as i64)
    }

    /// Element of a vector (component 0) at a position: that of the own point, and the way from there.
    pub(super) fn address(&mut self, at: &Position) -> (Expr, Expr) {
        let axes: Vec<usize> = (0..self.cx.dims()).collect();
        let extents: Vec<Expr> = self.frame.sizes.iter().map(|&n| fold::var(n)).collect();
        self.element(at, &axes, &extents, "at")
    }

    /// Stores component `c` of a value at the own point.
    pub(super) fn store(&mut self, to: Version, c: usize, value: Expr) {
        let here = self.frame.here();
        let (base, _) = self.address(&here);
        let index = fold::add(base, self.component_offset(c));
        let buffer = self.vector_buffer(to, Access::Write);
        self.b.push(Stmt::Store { buffer, index, value });
    }

    /// Element of an array over some axes: the own point's, and the way from there to the position. Over one axis it is
    /// the position itself.
    pub(super) fn element(&mut self, at: &Position, axes: &[usize], extents: &[Expr], name: &str) -> (Expr, Expr) {
        if let [axis] = *axes {
            let coord = &at.coords[axis];
            return (fold::var(coord.var), fold::int(coord.off));
        }
        let mut base = fold::int(0);
        for (&axis, extent) in axes.iter().zip(extents).rev() {
            let own = fold::var(self.frame.own[axis]);
            base = if base == fold::int(0) { own } else { fold::add(own, fold::mul(extent.clone(), base)) };
        }
        let base = self.b.bind(name, base);
        let mut step = fold::int(0);
        let mut stride = fold::int(1);
        for (&axis, extent) in axes.iter().zip(extents) {
            let coord = &at.coords[axis];
            let own = self.frame.own[axis];
            if coord.var != own {
                let way = fold::mul(stride.clone(), fold::sub(fold::var(coord.var), fold::var(own)));
                let way = self.b.bind(&format!("step_{}", self.cx.letters()[axis]), way);
                step = fold::add(step, way);
            }
            step = displaced(step, coord.off, stride.clone());
            let next = fold::mul(stride, extent.clone());
            stride = if axis + 1 < self.cx.dims() { self.b.bind("plane", next) } else { next };
        }
        (base, step)
    }
}

/// Scalars of a pointwise expression.
fn scalars_of(e: &PointExpr, used: &mut BTreeSet<ScalarId>) {
    match e {
        PointExpr::Scalar(s) => {
            used.insert(*s);
        }
        PointExpr::Value(_) | PointExpr::Number(_) => {}
        PointExpr::Neg(a) | PointExpr::Abs(a) => scalars_of(a, used),
        PointExpr::Binary(_, a, b) => {
            scalars_of(a, used);
            scalars_of(b, used);
        }
    }
}

/// `step + off * stride`.
fn displaced(step: Expr, off: i64, stride: Expr) -> Expr {
    let way = fold::mul(fold::int(off.abs()), stride);
    if off < 0 { fold::sub(step, way) } else { fold::add(step, way) }
}

/// `buffer[index]`.
pub(super) fn load_at(buffer: BufferId, index: Expr) -> Expr {
    Expr::Load(buffer, Box::new(index))
}

/// `a op b`.
pub(super) fn arithmetic(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    match op {
        BinaryOp::Add => fold::add(a, b),
        BinaryOp::Sub => fold::sub(a, b),
        BinaryOp::Mul => fold::mul(a, b),
        BinaryOp::Div => fold::div(a, b),
    }
}

/// Largest integer of a width.
pub(super) fn largest(index: IndexWidth) -> i64 {
    match index {
        IndexWidth::I32 => i64::from(i32::MAX),
        IndexWidth::I64 => i64::MAX,
    }
}
