//! The placed loop as equations: what a sweep of a placement reads, how many buffers that takes, where exits stand.
//!
//! A value is a node and an iteration. At sweep time T the value (x, e) of a stored node x with time t is
//! - computed by this sweep if t + S·e = T,
//! - loaded if t + S·e < T, from a buffer that is overwritten at t + S·(e + versions); a read at the own point may
//!   share the overwriting sweep, a read at neighbours may not,
//! - recomputed from its definition otherwise, as is everything that is not stored.
//!
//! Values of iteration -1 are the initial values of the loop's variables; those of iteration -2 are the initial values of
//! variables that take the value of such a variable (`v_old = v`), and so on. A scalar of iteration e is assigned in the
//! fence after its time; older values than the last are kept in scalars of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::cost::OperatorCost;
use super::few::{Few, Times};
use super::schedule::Placement;
use crate::graph::{Graph, MapTree, NodeId, NodeKind, Step};
use crate::loops::BinaryOp;

/// Time of outputs that are not placed yet: early enough to be read anywhere.
pub const UNPLACED: i64 = -1_000_000;

/// A value: a node of an iteration.
pub type Instance = (NodeId, i64);

/// A main loop without branches and inner loops.
#[derive(Debug, Clone)]
pub struct Model<'g> {
    /// The graph.
    pub graph: &'g Graph,
    /// Nodes of a round in program order.
    pub body: Vec<NodeId>,
    /// Scalars and acts of the body, in program order.
    scalars: Vec<NodeId>,
    /// Position in the body, by node.
    index: Vec<Option<usize>>,
    /// Next value of each variable, by node.
    next: Vec<Option<NodeId>>,
    /// The computed node that a node stands for, and how many iterations back, by node.
    source: Vec<Instance>,
    /// How many iterations before the first have values of a node: variables that stand for it, one after another.
    before: BTreeMap<NodeId, i64>,
    /// What each node of the body reads, by node.
    args: Vec<Vec<NodeId>>,
    /// Products of the operator by operand.
    products: BTreeMap<NodeId, NodeId>,
    pub(super) operator: OperatorCost,
}

/// How a sweep gets a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved {
    /// It does not change in the loop.
    Outside,
    /// From a buffer.
    Stored,
    /// It is another value.
    Alias(NodeId, i64),
    /// By its definition.
    Define,
    /// The product of the operator with a map's value, term by term.
    Linear(NodeId, i64),
}

/// What a sweep reads.
#[derive(Debug, Clone, Default)]
pub struct Reads {
    /// Buffers, and whether at neighbours.
    pub loads: Few<Instance, bool>,
    /// Scalars.
    pub scalars: Few<Instance, ()>,
    /// Axis of line solves.
    axis: Option<usize>,
    /// Values looked at, each at the own point and at neighbours.
    pub(super) seen: Few<(Instance, bool), ()>,
}

impl<'g> Model<'g> {
    /// The model of a graph's main loop, if it is a straight line.
    pub fn new(graph: &'g Graph) -> Option<Model<'g>> {
        let l = graph.main_loop()?;
        if graph.body.steps.len() != 1 {
            return None;
        }
        let body: Option<Vec<NodeId>> = l
            .body
            .steps
            .iter()
            .map(|s| match s {
                Step::Node(n) => Some(*n),
                Step::Loop(_) | Step::Branch(_) => None,
            })
            .collect();
        let body = body?;
        let nodes = graph.nodes.len();
        let (mut index, mut args) = (vec![None; nodes], vec![Vec::new(); nodes]);
        for (position, n) in body.iter().enumerate() {
            index[n.0] = Some(position);
            args[n.0] = graph.kind(*n).args();
        }
        let mut next = vec![None; nodes];
        l.phis.iter().for_each(|p| next[p.node.0] = Some(p.next));
        let source: Vec<Instance> = (0..nodes).map(|n| follow(&next, NodeId(n))).collect();
        let distinct: BTreeSet<NodeId> = next.iter().flatten().copied().collect();
        if distinct.len() != next.iter().flatten().count() {
            return None;
        }
        let mut before: BTreeMap<NodeId, i64> = BTreeMap::new();
        for phi in &l.phis {
            let (node, back) = source[phi.node.0];
            index[node.0]?;
            let known = before.entry(node).or_insert(back);
            *known = back.max(*known);
        }
        let products = body
            .iter()
            .filter_map(|n| match graph.kind(*n) {
                NodeKind::Apply(v) => Some((*v, *n)),
                _ => None,
            })
            .collect();
        let operator = OperatorCost::new(&graph.operator);
        let scalars = body.iter().copied().filter(|n| !graph.kind(*n).is_vector()).collect();
        let model = Model { graph, body, scalars, index, next, source, before, args, products, operator };
        let direct = model.final_solution().is_none_or(|(node, _)| model.contains(node));
        direct.then_some(model)
    }

    /// Vectors that carry a variable to the next round: always stored.
    pub fn carried(&self) -> BTreeSet<NodeId> {
        let next = self.next.iter().flatten().copied();
        next.filter(|n| self.contains(*n) && self.graph.kind(*n).is_vector()).collect()
    }

    /// Whether a node is computed in the loop.
    pub fn contains(&self, node: NodeId) -> bool {
        self.index[node.0].is_some()
    }

    /// The computed node that a variable stands for, and how many iterations back.
    pub fn trace_back(&self, node: NodeId, e: i64) -> Instance {
        let (node, back) = self.source[node.0];
        (node, e - back)
    }

    /// How many iterations before the first have values of a node: one for a variable's next value, none otherwise.
    pub fn before(&self, node: NodeId) -> i64 {
        self.before.get(&node).copied().unwrap_or(0)
    }

    /// The iteration of the computed node whose value a variable has at first: -1, or less for one that follows another.
    pub fn initial(&self, variable: NodeId) -> Instance {
        self.trace_back(variable, 0)
    }

    /// Order of statements in a fence: by iteration, then by program.
    pub fn rank(&self, value: Instance) -> (i64, usize) {
        (value.1, self.index[value.0.0].unwrap_or(0))
    }

    /// Fewest sweeps of a round, by what takes a sweep in every way it can be had: a scalar that comes from a reduction,
    /// a product or a solution along lines that is read at neighbours, and whatever a matrix gathers. `linear`: where
    /// products may follow the recurrences of what they multiply.
    pub fn least_sweeps(&self, linear: bool) -> i64 {
        let mut edges = Vec::new();
        let mut stack: Vec<NodeId> = self.body.iter().copied().filter(|n| !self.graph.kind(*n).is_vector()).collect();
        let mut seen: BTreeSet<NodeId> = stack.iter().copied().collect();
        while let Some(n) = stack.pop() {
            let in_sweep = self.graph.kind(n).is_vector() || matches!(self.graph.kind(n), NodeKind::Reduce(..));
            for (source, e) in self.awaited(n, linear) {
                edges.push((source, n, i64::from(in_sweep), e));
                if seen.insert(source) {
                    stack.push(source);
                }
            }
        }
        (1..=edges.len() as i64).find(|sweeps| !self.has_growing_cycle(&edges, *sweeps)).unwrap_or(1)
    }

    fn has_growing_cycle(&self, edges: &[(NodeId, NodeId, i64, i64)], sweeps: i64) -> bool {
        let mut at: BTreeMap<NodeId, i64> = edges.iter().flat_map(|(a, b, ..)| [(*a, 0), (*b, 0)]).collect();
        for _ in 0..=at.len() {
            let mut moved = false;
            for (from, to, latency, e) in edges {
                let needed = at[from] + latency + sweeps * e;
                if needed > at[to] {
                    at.insert(*to, needed);
                    moved = true;
                }
            }
            if !moved {
                return false;
            }
        }
        true
    }

    /// What must be there before a node can be computed: scalars, and what is read at neighbours but cannot be computed
    /// there; through vectors of its own iteration and the one before.
    fn awaited(&self, node: NodeId, linear: bool) -> BTreeSet<Instance> {
        let mut seen = BTreeSet::new();
        let mut out = BTreeSet::new();
        let mut stack = vec![(node, 0, false)];
        while let Some((n, e, near)) = stack.pop() {
            for (arg, e, around) in self.readings((n, e), near, linear) {
                let (source, e) = self.trace_back(arg, e);
                if !self.contains(source) {
                    continue;
                }
                let kind = self.graph.kind(source);
                let fixed = self.gathers() || kind.gathers() || matches!(kind, NodeKind::Solve(..));
                if !kind.is_vector() || (fixed && around) {
                    out.insert((source, e));
                } else if e >= -1 && seen.insert((source, e, around)) {
                    stack.push((source, e, around));
                }
            }
        }
        out
    }

    /// What the definition of a value reads, and whether at neighbours. On a grid a product that follows a recurrence
    /// awaits no less than one whose operand is computed at the neighbours.
    fn readings(&self, (n, e): Instance, near: bool, linear: bool) -> Vec<(NodeId, i64, bool)> {
        if let NodeKind::Apply(operand) = self.graph.kind(n)
            && linear
            && self.gathers()
            && let Some((map, back)) = self.linear_map(*operand)
        {
            let of = |leaf: NodeId| match self.products.get(&leaf) {
                Some(product) => (*product, e + back, false),
                None => (leaf, e + back, true),
            };
            return self.args[map.0].iter().map(|leaf| of(*leaf)).collect();
        }
        let around = near || self.graph.kind(n).gathers();
        self.args[n.0].iter().map(|arg| (*arg, e, around)).collect()
    }

    /// Products whose operand is pointwise arithmetic, so that linearity may be used.
    pub fn linear_candidates(&self) -> Vec<NodeId> {
        let candidates = self.products.iter().filter(|(operand, _)| self.linear_map(**operand).is_some());
        candidates.map(|(_, product)| *product).collect()
    }

    /// What a matrix gathers in a round, except for these products: it must be stored.
    pub fn gathered(&self, except: &[NodeId]) -> BTreeSet<NodeId> {
        let gathering = self.body.iter().filter(|n| self.gathers() && self.graph.kind(**n).gathers());
        let operands = gathering.filter(|n| !except.contains(n)).flat_map(|n| &self.args[n.0]);
        let sources = operands.map(|operand| self.trace_back(*operand, 0).0);
        sources.filter(|n| self.contains(*n) && self.graph.kind(*n).is_vector()).collect()
    }

    /// The map behind an operand, with the change of iteration, if it is linear in its vectors.
    pub(super) fn linear_map(&self, operand: NodeId) -> Option<Instance> {
        let (map, e) = self.trace_back(operand, 0);
        match self.graph.kind(map) {
            NodeKind::Map(tree) if self.contains(map) && is_linear(tree) => Some((map, e)),
            _ => None,
        }
    }

    /// Known products by operand.
    pub fn products(&self) -> &BTreeMap<NodeId, NodeId> {
        &self.products
    }

    /// How a value is had at a time. In the run-up (`runup`) iterations begin at 0; later ones have no begin.
    pub fn resolve(&self, p: &Placement, value: Instance, c: At) -> Result<Resolved, String> {
        let (node, e) = value;
        let At { at, runup, .. } = c;
        if !runup && self.is_delayed(p, node) {
            return match c.solution {
                Some(held) if held == e => Ok(Resolved::Stored),
                Some(held) if held < e => Ok(Resolved::Define),
                _ => Err(format!("{} of iteration {e} is not held", self.graph.label(node))),
            };
        }
        if self.next[node.0].is_some() {
            let (next, e) = self.trace_back(node, e);
            if runup && e < -self.before(next) {
                return Err(format!("{} of iteration {e} does not exist", self.graph.label(next)));
            }
            return Ok(Resolved::Alias(next, e));
        }
        if !self.contains(node) {
            return Ok(Resolved::Outside);
        }
        if runup && e < -self.before(node).max(1) {
            return Err(format!("{} of iteration {e} does not exist", self.graph.label(node)));
        }
        if let Some(t) = p.times.get(&node)
            && (t + p.sweeps * e < at || (runup && e < 0))
        {
            return Ok(Resolved::Stored);
        }
        if runup && e < 0 {
            return Err(format!("{} of iteration {e} is not kept", self.graph.label(node)));
        }
        if p.linear.contains(&node)
            && let NodeKind::Apply(operand) = self.graph.kind(node)
            && let Some((map, back)) = self.linear_map(*operand)
        {
            // The first iteration has nothing before it to follow.
            if !(runup && e + back < 0) {
                return Ok(Resolved::Linear(map, e + back));
            }
        }
        Ok(Resolved::Define)
    }

    /// Collects what computing a value at a time reads. `force` computes a stored value instead of loading it.
    pub(super) fn read(&self, p: &Placement, value: Instance, c: At, near: bool, r: &mut Reads) -> Result<(), String> {
        if r.seen.contains_key(&(value, near)) {
            return Ok(());
        }
        r.seen.or_insert((value, near), ());
        if r.seen.len() > 4096 {
            return Err("a value is recomputed without end".into());
        }
        match self.resolve(p, value, c)? {
            Resolved::Outside | Resolved::Stored => *r.loads.or_insert(value, false) |= near,
            Resolved::Alias(n, e) => self.read(p, (n, e), c, near, r)?,
            Resolved::Define => self.define(p, value, c, near, r)?,
            Resolved::Linear(map, e) => {
                if near {
                    return Err("a product is read at neighbours".into());
                }
                let NodeKind::Map(tree) = self.graph.kind(map) else { return Err("not a map".into()) };
                for leaf in leaves(tree) {
                    if !self.graph.kind(leaf).is_vector() {
                        self.scalar(p, (leaf, e), c, r);
                    } else if let Some(product) = self.products.get(&leaf) {
                        self.read(p, (*product, e), c, false, r)?;
                    } else {
                        self.read(p, (leaf, e), c, true, r)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn define(&self, p: &Placement, value: Instance, c: At, near: bool, r: &mut Reads) -> Result<(), String> {
        let (node, e) = value;
        let around = match self.graph.kind(node) {
            kind if kind.gathers() && near => return Err("a product is read at neighbours".into()),
            kind if kind.gathers() => true,
            NodeKind::Solve(..) if near => return Err("a solution along lines is read at neighbours".into()),
            NodeKind::Solve(axis, _) => {
                if *r.axis.get_or_insert(*axis) != *axis {
                    return Err("a sweep solves along two axes".into());
                }
                false
            }
            // Each gathered row would be computed as often as the matrix reads it.
            NodeKind::Map(_) | NodeKind::Diagonal(_) if near && self.gathers() => {
                return Err("a value is recomputed at the rows that a matrix gathers".into());
            }
            _ => near,
        };
        for &arg in &self.args[node.0] {
            if self.graph.kind(arg).is_vector() {
                self.read(p, (arg, e), c, around, r)?;
            } else {
                self.scalar(p, (arg, e), c, r);
            }
        }
        Ok(())
    }

    /// Whether neighbours are the columns of a matrix.
    pub(super) fn gathers(&self) -> bool {
        self.graph.operator.space.rows().is_some()
    }

    fn scalar(&self, _: &Placement, value: Instance, _: At, r: &mut Reads) {
        let (node, e) = self.trace_back(value.0, value.1);
        if self.contains(node) {
            r.scalars.or_insert((node, e), ());
        }
    }

    /// What the outputs of one sweep read.
    pub fn sweep_reads(&self, p: &Placement, outputs: &[Instance], at: i64, runup: bool) -> Result<Reads, String> {
        let mut reads = Reads::default();
        // Only the sweep that updates a delayed solution may read it.
        let updates = self.delayed(p).filter(|x| outputs.iter().any(|o| o.0 == *x));
        let solution = updates.map(|_| -i64::from(p.delay));
        let c = At { at, runup, solution };
        for output in outputs {
            match self.graph.kind(output.0) {
                NodeKind::Reduce(_, v, w) => {
                    self.read(p, (*v, output.1), c, false, &mut reads)?;
                    self.read(p, (*w, output.1), c, false, &mut reads)?;
                }
                _ => self.read(p, *output, c, false, &mut reads)?,
            }
        }
        Ok(reads)
    }

    /// Outputs of the sweep at a time.
    pub fn outputs(&self, p: &Placement, at: i64, runup: bool) -> Vec<Instance> {
        let here = self.body.iter().filter_map(|n| {
            let t = p.times.get(n)?;
            let e = (at - t).div_euclid(p.sweeps);
            ((at - t).rem_euclid(p.sweeps) == 0 && (!runup || e >= 0)).then_some((*n, e))
        });
        here.collect()
    }

    /// Times of scalars and acts: as soon as their operands are there, acts in program order, those of a round behind
    /// all of the round before.
    pub fn scalar_times(&self, p: &Placement) -> Times {
        let scalars = &self.scalars;
        let mut times = Times::of(self.graph.nodes.len());
        // A variable's next value may come later in the program than its readers: repeat until nothing moves. Going
        // around a variable takes a round off, so it ends.
        for _ in 0..=scalars.len() {
            if !self.raise_times(p, scalars, &mut times) {
                break;
            }
        }
        let idle = p.times.values().copied().filter(|t| *t > UNPLACED).min().unwrap_or(0);
        for n in scalars {
            // What depends on no sum, such as a counter, may stand anywhere: before every sweep, or it would be late for
            // the first. Acts stand where the solution is theirs.
            if times.get(n).is_none() {
                times.set(*n, if self.graph.kind(*n).raises() { idle } else { idle - 1 });
            }
        }
        for _ in 0..=scalars.len() {
            if !self.raise_times(p, scalars, &mut times) {
                break;
            }
        }
        times
    }

    fn raise_times(&self, p: &Placement, scalars: &[NodeId], times: &mut Times) -> bool {
        let mut moved = false;
        let last = scalars.iter().rfind(|n| self.graph.kind(**n).raises());
        let mut acted = last.and_then(|act| times.get(act)).map(|time| time - p.sweeps);
        for n in scalars {
            let act = self.graph.kind(*n).raises();
            let mut at = if act { acted } else { None };
            match p.times.get(n) {
                Some(t) => at = Some(*t),
                None => {
                    for &arg in &self.args[n.0] {
                        let (source, e) = self.trace_back(arg, 0);
                        at = at.max(times.get(&source).map(|t| t + p.sweeps * e));
                    }
                }
            }
            at = at.max(times.get(n));
            if act {
                acted = at;
            }
            if let Some(at) = at.filter(|at| Some(*at) != times.get(n)) {
                moved = true;
                times.set(*n, at);
            }
        }
        moved
    }

    /// How many assignments ago a scalar had the wanted value, at a sweep.
    pub fn depth_at_sweep(&self, times: &Times, p: &Placement, s: Instance, at: i64) -> Option<i64> {
        let last = (at - 1 - times.get(&s.0)?).div_euclid(p.sweeps);
        (last >= s.1).then_some(last - s.1)
    }

    /// The same at a statement of a fence.
    pub fn depth_at_statement(
        &self,
        times: &Times,
        p: &Placement,
        s: Instance,
        reader: Instance,
        at: i64,
    ) -> Option<i64> {
        let t = times.get(&s.0)?;
        let mut last = (at - t).div_euclid(p.sweeps);
        if t + p.sweeps * last == at && self.rank((s.0, last)) >= self.rank(reader) {
            last -= 1;
        }
        (last >= s.1).then_some(last - s.1)
    }

    /// Scalars a scalar node or act reads, of its own iteration.
    pub fn scalar_args(&self, value: Instance) -> Vec<Instance> {
        let args = self.args[value.0.0].iter().copied().filter(|a| !self.graph.kind(*a).is_vector());
        args.map(|a| self.trace_back(a, value.1)).filter(|a| self.contains(a.0)).collect()
    }

    /// The solution at an act, if the loop changes it.
    pub fn solution_at(&self, act: NodeId) -> Option<NodeId> {
        let solution = self.graph.kind(act).solution()?;
        (self.contains(solution) || self.next[solution.0].is_some()).then_some(solution)
    }

    /// The solution, where a placement updates it in some rounds only.
    pub fn delayed(&self, p: &Placement) -> Option<NodeId> {
        if p.delay > 1 { self.final_solution().map(|(node, _)| node) } else { None }
    }

    pub(super) fn is_delayed(&self, p: &Placement, node: NodeId) -> bool {
        self.delayed(p) == Some(node)
    }

    /// The node that carries the solution to the next round.
    pub fn final_solution(&self) -> Option<Instance> {
        let l = self.graph.main_loop()?;
        let phi = l.phis.iter().find(|p| p.result == self.graph.solution)?;
        Some((phi.next, 0))
    }
}

/// The node behind a variable, and how many variables stand between.
fn follow(next: &[Option<NodeId>], node: NodeId) -> Instance {
    let (mut node, mut back) = (node, 0);
    // Renamings in a circle have been made copies.
    while let Some(other) = next[node.0].filter(|_| back <= next.len() as i64) {
        (node, back) = (other, back + 1);
    }
    (node, back)
}

/// A time, and whether it is in the run-up.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// The time.
    pub at: i64,
    /// Whether it is in the run-up.
    pub runup: bool,
    /// Iteration of the solution in memory, where its update is delayed.
    pub solution: Option<i64>,
}

fn leaves(tree: &MapTree) -> Vec<NodeId> {
    let mut out = Vec::new();
    tree.visit(&mut |n| out.push(n));
    out
}

/// Whether a map is a linear combination of its vectors.
pub(super) fn is_linear(tree: &MapTree) -> bool {
    match tree {
        MapTree::Value(_) => true,
        MapTree::Scalar(_) | MapTree::Number(_) | MapTree::Abs(_) => false,
        MapTree::Neg(a) => is_linear(a),
        MapTree::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => is_linear(a) && is_linear(b),
        MapTree::Binary(BinaryOp::Mul, a, b) => {
            (is_linear(a) && is_coefficient(b)) || (is_coefficient(a) && is_linear(b))
        }
        MapTree::Binary(BinaryOp::Div, a, b) => is_linear(a) && is_coefficient(b),
    }
}

fn is_coefficient(tree: &MapTree) -> bool {
    match tree {
        MapTree::Scalar(_) | MapTree::Number(_) => true,
        MapTree::Value(_) | MapTree::Abs(_) => false,
        MapTree::Neg(a) => is_coefficient(a),
        MapTree::Binary(_, a, b) => is_coefficient(a) && is_coefficient(b),
    }
}
