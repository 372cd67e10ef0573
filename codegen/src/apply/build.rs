//! Building blocks: a program under construction, sweeps grown from the values they must deliver, scalar statements.

use std::collections::{BTreeMap, BTreeSet};

use crate::graph::{CondTree, Graph, MapTree, NodeId, NodeKind, ReduceKind, ScalarTree};
use crate::loops::{
    Control, Fence, FenceId, Granule, PointExpr, Role, ScalarCondition, ScalarExpr, ScalarId, ScalarStmt, Store, Sum,
    SumId, SumKind, Sweep, SweepId, Value, ValueId, ValueKind, Vector, VectorId, Version, status,
};

/// Why a schedule cannot be carried out. Planned schedules never fail; a schedule from elsewhere may.
#[derive(Debug, Clone, PartialEq)]
pub struct Illegal(pub String);

impl std::fmt::Display for Illegal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Illegal {}

/// Tables of a program that grow while sections are written.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub vectors: Vec<Vector>,
    pub scalars: Vec<String>,
    pub sums: Vec<SumKind>,
    pub sweeps: Vec<Sweep>,
    pub fences: Vec<Fence>,
    names: BTreeSet<String>,
}

impl Parts {
    /// A name nobody has yet.
    fn unique(&mut self, name: &str) -> String {
        let mut candidate = name.to_string();
        let mut n = 2;
        while !self.names.insert(candidate.clone()) {
            candidate = format!("{name}_{n}");
            n += 1;
        }
        candidate
    }

    pub fn vector(&mut self, name: &str, role: Role, versions: u32) -> VectorId {
        let name = self.unique(name);
        self.vectors.push(Vector { name, role, versions });
        VectorId(self.vectors.len() - 1)
    }

    pub fn scalar(&mut self, name: &str) -> ScalarId {
        let name = self.unique(name);
        self.scalars.push(name);
        ScalarId(self.scalars.len() - 1)
    }

    pub fn sum(&mut self, kind: SumKind) -> SumId {
        self.sums.push(kind);
        SumId(self.sums.len() - 1)
    }

    pub fn sweep(&mut self, mut sweep: Sweep) -> Control {
        sweep.name = self.unique(&sweep.name);
        self.sweeps.push(sweep);
        Control::Sweep(SweepId(self.sweeps.len() - 1))
    }

    pub fn fence(&mut self, name: &str, statements: Vec<ScalarStmt>, predicate: Option<ScalarId>) -> Control {
        let name = self.unique(name);
        self.fences.push(Fence { name, statements, predicate });
        Control::Fence(FenceId(self.fences.len() - 1))
    }
}

/// How a sweep gets a vector node of iteration `e`.
pub(super) enum Source {
    /// From a buffer.
    Load(Version),
    /// It is another node of another iteration.
    Alias(NodeId, i64),
    /// By its definition, operands of the same iteration.
    Define,
    /// The product of the operator with a node that is pointwise arithmetic, term by term: the arithmetic, its
    /// iteration, and known products by operand.
    Linear { map: NodeId, iteration: i64, known: BTreeMap<NodeId, (NodeId, i64)> },
}

/// What is known about vectors and scalars at one sweep.
pub(super) trait Context {
    fn source(&self, node: NodeId, e: i64) -> Result<Source, Illegal>;
    fn scalar(&self, node: NodeId, e: i64) -> Result<ScalarId, Illegal>;
}

/// A sweep under construction.
pub(super) struct SweepBuilder<'g> {
    graph: &'g Graph,
    values: Vec<Value>,
    memo: BTreeMap<(NodeId, i64), ValueId>,
    loads: BTreeMap<Version, ValueId>,
    products: BTreeMap<ValueId, ValueId>,
    granule: Granule,
    stores: Vec<Store>,
    sums: Vec<Sum>,
    text: Vec<String>,
    outputs: Vec<String>,
}

impl<'g> SweepBuilder<'g> {
    pub fn new(graph: &'g Graph) -> Self {
        SweepBuilder {
            graph,
            values: Vec::new(),
            memo: BTreeMap::new(),
            loads: BTreeMap::new(),
            products: BTreeMap::new(),
            granule: Granule::Point,
            stores: Vec::new(),
            sums: Vec::new(),
            text: Vec::new(),
            outputs: Vec::new(),
        }
    }

    fn push(&mut self, name: &str, kind: ValueKind, text: Option<String>) -> ValueId {
        self.values.push(Value { name: name.to_string(), kind, text });
        ValueId(self.values.len() - 1)
    }

    /// The value of a node, computed once.
    pub fn value(&mut self, context: &dyn Context, node: NodeId, e: i64) -> Result<ValueId, Illegal> {
        if let Some(known) = self.memo.get(&(node, e)) {
            return Ok(*known);
        }
        let id = match context.source(node, e)? {
            Source::Load(version) => match self.loads.get(&version) {
                Some(known) => *known,
                None => {
                    let name = self.graph.node(node).name.clone();
                    let id = self.push(&name, ValueKind::Load(version), None);
                    self.loads.insert(version, id);
                    id
                }
            },
            Source::Alias(other, e) => self.value(context, other, e)?,
            Source::Define => self.define(context, node, e)?,
            Source::Linear { map, iteration, known } => self.linear(context, node, map, iteration, &known)?,
        };
        self.memo.insert((node, e), id);
        Ok(id)
    }

    fn define(&mut self, context: &dyn Context, node: NodeId, e: i64) -> Result<ValueId, Illegal> {
        let graph = self.graph;
        let kind = match graph.kind(node) {
            NodeKind::Apply(v) => {
                let v = self.value(context, *v, e)?;
                return Ok(self.product(v, &graph.node(node).name, graph.node(node).text.clone()));
            }
            NodeKind::Magnitude(v) => ValueKind::Magnitude(self.value(context, *v, e)?),
            NodeKind::Diagonal(v) => ValueKind::Diagonal(self.value(context, *v, e)?),
            NodeKind::Along(axis, v) => ValueKind::Along(*axis, self.value(context, *v, e)?),
            NodeKind::Solve(axis, v) => {
                let v = self.value(context, *v, e)?;
                match self.granule {
                    Granule::Line(other) if other != *axis => {
                        return Err(Illegal("a sweep would solve along two axes".into()));
                    }
                    _ => self.granule = Granule::Line(*axis),
                }
                ValueKind::Solve(*axis, v)
            }
            NodeKind::Companion { number, step, operand } => {
                let operand = self.value(context, *operand, e)?;
                let step = step.map(|step| context.scalar(step, e)).transpose()?;
                ValueKind::Companion { number: *number, step, operand }
            }
            NodeKind::Map(tree) => {
                let mut leaf = |b: &mut Self, n: NodeId| Ok(PointExpr::Value(b.value(context, n, e)?));
                ValueKind::Map(self.map(context, tree, e, &mut leaf)?)
            }
            other => return Err(Illegal(format!("{} ({other:?}) is not held anywhere", graph.label(node)))),
        };
        let text = graph.node(node).text.clone().filter(|_| graph.node(node).named);
        Ok(self.push(&graph.node(node).name, kind, text))
    }

    /// `A*v`, once for every v.
    fn product(&mut self, v: ValueId, name: &str, text: Option<String>) -> ValueId {
        if let Some(known) = self.products.get(&v) {
            return *known;
        }
        let id = self.push(name, ValueKind::Apply(v), text);
        self.products.insert(v, id);
        id
    }

    fn linear(
        &mut self,
        context: &dyn Context,
        node: NodeId,
        map: NodeId,
        e: i64,
        known: &BTreeMap<NodeId, (NodeId, i64)>,
    ) -> Result<ValueId, Illegal> {
        let NodeKind::Map(tree) = self.graph.kind(map) else {
            return Err(Illegal(format!("{} is not pointwise arithmetic", self.graph.label(map))));
        };
        let mut leaf = |b: &mut Self, n: NodeId| {
            let id = match known.get(&n) {
                Some((product, e)) => b.value(context, *product, *e)?,
                None => {
                    let v = b.value(context, n, e)?;
                    let name = format!("A_{}", b.graph.node(n).name);
                    b.product(v, &name, None)
                }
            };
            Ok(PointExpr::Value(id))
        };
        let kind = ValueKind::Map(self.map(context, tree, e, &mut leaf)?);
        let (name, text) = (self.graph.node(node).name.clone(), self.graph.node(node).text.clone());
        Ok(self.push(&name, kind, text.map(|t| format!("{t} by linearity"))))
    }

    fn map(
        &mut self,
        context: &dyn Context,
        tree: &MapTree,
        e: i64,
        leaf: &mut dyn FnMut(&mut Self, NodeId) -> Result<PointExpr, Illegal>,
    ) -> Result<PointExpr, Illegal> {
        Ok(match tree {
            MapTree::Value(n) => leaf(self, *n)?,
            MapTree::Scalar(n) => PointExpr::Scalar(context.scalar(*n, e)?),
            MapTree::Number(x) => PointExpr::Number(*x),
            MapTree::Neg(a) => PointExpr::Neg(Box::new(self.map(context, a, e, leaf)?)),
            MapTree::Abs(a) => PointExpr::Abs(Box::new(self.map(context, a, e, leaf)?)),
            MapTree::Binary(op, a, b) => {
                let a = self.map(context, a, e, leaf)?;
                let b = self.map(context, b, e, leaf)?;
                PointExpr::Binary(*op, Box::new(a), Box::new(b))
            }
        })
    }

    /// Delivers a node into a buffer.
    pub fn store(&mut self, context: &dyn Context, node: NodeId, e: i64, to: Version) -> Result<(), Illegal> {
        let value = self.value(context, node, e)?;
        self.note(node);
        self.stores.push(Store { value, to });
        Ok(())
    }

    /// Delivers a reduction.
    pub fn reduce(&mut self, context: &dyn Context, node: NodeId, e: i64, sum: SumId) -> Result<(), Illegal> {
        let NodeKind::Reduce(kind, v, w) = self.graph.kind(node) else {
            return Err(Illegal(format!("{} is not a reduction", self.graph.label(node))));
        };
        let left = self.value(context, *v, e)?;
        let right = match kind {
            ReduceKind::Dot => Some(self.value(context, *w, e)?),
            ReduceKind::Max => None,
        };
        self.note(node);
        self.sums.push(Sum { sum, left, right });
        Ok(())
    }

    fn note(&mut self, node: NodeId) {
        let node = self.graph.node(node);
        self.outputs.push(node.name.clone());
        if let Some(text) = node.text.clone().filter(|t| !self.text.contains(t)) {
            self.text.push(text);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.stores.is_empty() && self.sums.is_empty()
    }

    pub fn finish(self, predicate: Option<ScalarId>) -> Sweep {
        Sweep {
            name: self.outputs.join("_"),
            text: self.text,
            granule: self.granule,
            values: self.values,
            stores: self.stores,
            sums: self.sums,
            predicate,
        }
    }
}

/// A scalar expression with its operands looked up.
pub(super) fn scalar_expr(
    tree: &ScalarTree,
    read: &mut dyn FnMut(NodeId) -> Result<ScalarExpr, Illegal>,
) -> Result<ScalarExpr, Illegal> {
    Ok(match tree {
        ScalarTree::Number(x) => ScalarExpr::Number(*x),
        ScalarTree::Node(n) => read(*n)?,
        ScalarTree::Param(p) => ScalarExpr::Param(*p),
        ScalarTree::Tolerance => ScalarExpr::Scalar(ScalarId::TOLERANCE),
        ScalarTree::Neg(a) => ScalarExpr::Neg(Box::new(scalar_expr(a, read)?)),
        ScalarTree::Binary(op, a, b) => {
            let a = scalar_expr(a, read)?;
            ScalarExpr::Binary(*op, Box::new(a), Box::new(scalar_expr(b, read)?))
        }
        ScalarTree::Call(f, args) => {
            let args: Result<Vec<_>, _> = args.iter().map(|a| scalar_expr(a, read)).collect();
            ScalarExpr::Call(*f, args?)
        }
        ScalarTree::Truth(c) => ScalarExpr::Truth(Box::new(scalar_condition(c, read)?)),
        ScalarTree::Select(c, a, b) => {
            let c = scalar_condition(c, read)?;
            let a = scalar_expr(a, read)?;
            ScalarExpr::Select(Box::new(c), Box::new(a), Box::new(scalar_expr(b, read)?))
        }
    })
}

fn scalar_condition(
    c: &CondTree,
    read: &mut dyn FnMut(NodeId) -> Result<ScalarExpr, Illegal>,
) -> Result<ScalarCondition, Illegal> {
    Ok(match c {
        CondTree::Compare(op, a, b) => {
            let a = scalar_expr(a, read)?;
            ScalarCondition::Compare(*op, a, scalar_expr(b, read)?)
        }
        CondTree::And(a, b) => {
            let a = scalar_condition(a, read)?;
            ScalarCondition::And(Box::new(a), Box::new(scalar_condition(b, read)?))
        }
        CondTree::Or(a, b) => {
            let a = scalar_condition(a, read)?;
            ScalarCondition::Or(Box::new(a), Box::new(scalar_condition(b, read)?))
        }
        CondTree::Not(a) => ScalarCondition::Not(Box::new(scalar_condition(a, read)?)),
    })
}

/// The statements of a scalar node or an act. `sum` is the finished sum of a reduction, `target` its scalar.
pub(super) fn scalar_statements(
    graph: &Graph,
    node: NodeId,
    target: Option<ScalarId>,
    sum: Option<SumId>,
    read: &mut dyn FnMut(NodeId) -> Result<ScalarExpr, Illegal>,
    out: &mut Vec<ScalarStmt>,
) -> Result<(), Illegal> {
    let text = graph.node(node).text.clone().unwrap_or_default();
    let assign = |scalar: Option<ScalarId>, value| match scalar {
        Some(scalar) => Ok(ScalarStmt::Assign { scalar, value, text }),
        None => Err(Illegal(format!("{} has no scalar", graph.label(node)))),
    };
    match graph.kind(node) {
        NodeKind::Reduce(..) => {
            let sum = sum.ok_or_else(|| Illegal(format!("{} has no sum", graph.label(node))))?;
            out.push(assign(target, ScalarExpr::Sum(sum))?);
        }
        NodeKind::Scalar(tree) => out.push(assign(target, scalar_expr(tree, read)?)?),
        NodeKind::Require { number, condition, .. } => {
            out.push(ScalarStmt::Require { number: *number, condition: scalar_condition(condition, read)? });
        }
        NodeKind::Guard { condition, .. } => {
            let fails = ScalarCondition::Not(Box::new(scalar_condition(condition, read)?));
            out.push(ScalarStmt::Raise { status: status::PARTED, condition: fails });
        }
        NodeKind::Check { measure, bound, .. } => {
            let measure = scalar_expr(measure, read)?;
            out.push(ScalarStmt::Check { measure, bound: scalar_expr(bound, read)? });
        }
        NodeKind::Measure { measure, bound, attainable } => {
            let measure = scalar_expr(measure, read)?;
            out.push(ScalarStmt::Measure { measure, bound: scalar_expr(bound, read)? });
            let (scalar, value) = (ScalarId::ATTAINABLE, scalar_expr(attainable, read)?);
            out.push(ScalarStmt::Assign { scalar, value, text: "what rounding allows".into() });
        }
        other => return Err(Illegal(format!("{} ({other:?}) is not a scalar", graph.label(node)))),
    }
    Ok(())
}
