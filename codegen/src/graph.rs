//! Graph: one solver applied to one operator with its preconditioner, in single-assignment form.
//!
//! The trace ([`trace`](crate::trace::trace)) follows the statements of a solver and records what they compute. A
//! [`Node`] is a vector, a scalar, or an act that may end the solve (`require`, `check`). Copies are aliases and
//! leave no node; a common subexpression is one node; a value that does not change in a loop stands before it.
//!
//! # Regions
//! A [`Region`] is a list of steps in program order. Beside nodes there are
//! - loops: a variable that a loop changes is a *phi* inside it, with an initial value, a next value, and a *result*
//!   node that stands for the variable after the loop;
//! - branches: `if` and `every`; a variable that an arm changes is a *merge* node after the branch.
//!
//! `start` holds what precedes the main loop, `body` the loop and what follows, `residual` recomputes the declared
//! residual and the scalars of the test from [`NodeKind::Solution`].
//!
//! # Operators
//! `A*v` is [`NodeKind::Apply`]. `inv(M)*v` is an alias of `v` (identity), [`NodeKind::Diagonal`],
//! [`NodeKind::Solve`], [`NodeKind::Companion`] (block Jacobi; in loops over colours, SSOR), or the statements of an inner
//! solver with `f := v` and `u := 0`. They stay whole: what they read at which neighbours is the operator's business.
//!
//! # Invariants
//! - a node is defined once, and dominates its uses (steps of its own or an enclosing region, earlier);
//! - vectors and scalars are not mixed: see [`NodeKind::is_vector`];
//! - every phi, merge and result belongs to exactly one loop or branch;
//! - dead nodes are gone: each is needed by a check, a require, the solution or the residual.

use std::fmt::Write as _;

use kernelwright_syntax::program::{BinaryOp, CompareOp, Function, Precision};

use crate::loops::RequireInfo;
use crate::math::Operator;

/// A traced solver.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    /// Name of the solver.
    pub name: String,
    /// The operator.
    pub operator: Operator,
    /// Names of the solver's parameters.
    pub solver_params: Vec<String>,
    /// Precision of vectors; decides the attainable accuracy.
    pub precision: Precision,
    /// All nodes, by [`NodeId`].
    pub nodes: Vec<Node>,
    /// Statements before the main loop.
    pub start: Region,
    /// The main loop and what follows.
    pub body: Region,
    /// Recomputation of the residual and of the test.
    pub residual: Region,
    /// The node of `residual` that replaces the recursive residual, and the variable it is.
    pub true_residual: Option<NodeId>,
    /// The solution when nothing ended the solve: after `body`.
    pub solution: NodeId,
    /// What a failing `require` means.
    pub requires: Vec<RequireInfo>,
}

/// Index into [`Graph::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// A value or an act.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The variable it was first assigned to, or its role.
    pub name: String,
    /// Whether the name is a variable of the program.
    pub named: bool,
    /// What it is.
    pub kind: NodeKind,
    /// The statement it comes from.
    pub text: Option<String>,
}

/// Kinds of [`Node`].
#[derive(Debug, Clone, PartialEq)]
pub enum NodeKind {
    /// The solution's guess.
    Guess,
    /// The right-hand side (less the operator's affine part, projected if the operator is singular).
    Rhs,
    /// `random(seed)`.
    Random(u64),
    /// The solution as an exit left it; read by the residual region only.
    Solution,
    /// A variable inside a loop that changes it.
    Phi(Type),
    /// A variable after a loop that changed it.
    Result(Type),
    /// A variable after a branch that changed it.
    Merge(Type),
    /// The operator on a vector.
    Apply(NodeId),
    /// The operator's magnitude reading on a vector.
    Magnitude(NodeId),
    /// A vector divided by the operator's diagonal.
    Diagonal(NodeId),
    /// Solution of the operator's part along an axis.
    Solve(usize, NodeId),
    /// The operator's part along an axis (couplings along it only) on a vector, which undoes [`NodeKind::Solve`].
    Along(usize, NodeId),
    /// A companion of a matrix on a vector; see [`format::companion`](crate::format::companion).
    Companion {
        /// Index into [`Rows::companions`](crate::math::Rows).
        number: usize,
        /// The scalar that says which rows have their turn; the others give zero. None if all do.
        step: Option<NodeId>,
        /// The vector.
        operand: NodeId,
    },
    /// Pointwise arithmetic.
    Map(MapTree),
    /// A sum of products, or the largest absolute value of the first operand.
    Reduce(ReduceKind, NodeId, NodeId),
    /// Scalar arithmetic.
    Scalar(ScalarTree),
    /// Ends the solve unless a condition holds.
    Require {
        /// Index into [`Graph::requires`].
        number: usize,
        /// What must hold.
        condition: CondTree,
        /// The solution at this point of the program.
        solution: NodeId,
    },
    /// Ends the run of a different recurrence unless a condition holds that is always true in exact arithmetic; see
    /// [`predict`](crate::plan::predict).
    Guard {
        /// What must hold.
        condition: CondTree,
        /// The solution at this point of the program.
        solution: NodeId,
    },
    /// Ends the solve when measure <= bound.
    Check {
        /// Left side.
        measure: ScalarTree,
        /// Right side.
        bound: ScalarTree,
        /// The solution at this point of the program.
        solution: NodeId,
    },
    /// Records the test on the true residual, and what rounding allows.
    Measure {
        /// Left side.
        measure: ScalarTree,
        /// Right side.
        bound: ScalarTree,
        /// The measure that rounding allows.
        attainable: ScalarTree,
    },
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Vector,
    Scalar,
}

/// Kinds of reductions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReduceKind {
    /// Sum of products.
    Dot,
    /// Largest absolute value of the first operand (the second is the same).
    Max,
}

/// Pointwise arithmetic.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum MapTree {
    Value(NodeId),
    Scalar(NodeId),
    Number(f64),
    Neg(Box<MapTree>),
    Abs(Box<MapTree>),
    Binary(BinaryOp, Box<MapTree>, Box<MapTree>),
}

/// Scalar arithmetic.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum ScalarTree {
    Number(f64),
    Node(NodeId),
    Param(usize),
    Tolerance,
    Neg(Box<ScalarTree>),
    Binary(BinaryOp, Box<ScalarTree>, Box<ScalarTree>),
    Call(Function, Vec<ScalarTree>),
    Truth(Box<CondTree>),
    Select(Box<CondTree>, Box<ScalarTree>, Box<ScalarTree>),
}

/// Conditions on scalars.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum CondTree {
    Compare(CompareOp, ScalarTree, ScalarTree),
    And(Box<CondTree>, Box<CondTree>),
    Or(Box<CondTree>, Box<CondTree>),
    Not(Box<CondTree>),
}

/// Steps in program order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Region {
    /// The steps.
    pub steps: Vec<Step>,
}

/// A step of a region.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Computes a node.
    Node(NodeId),
    /// Repeats a region.
    Loop(Loop),
    /// Runs arms where their conditions hold.
    Branch(Branch),
}

/// A loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// Number of rounds, if fixed.
    pub times: Option<u32>,
    /// Variables it changes.
    pub phis: Vec<Phi>,
    /// One round.
    pub body: Region,
}

/// A variable that a loop changes.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct Phi {
    pub node: NodeId,
    pub initial: NodeId,
    pub next: NodeId,
    pub result: NodeId,
}

/// `if` (one or two arms) or `every` (one arm).
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Branch {
    pub arms: Vec<Arm>,
    pub merges: Vec<Merge>,
}

/// An arm of a branch; at most one arm runs.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub struct Arm {
    pub when: When,
    pub body: Region,
}

/// When an arm runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// Where the scalar is nonzero.
    Scalar(NodeId),
    /// On rounds n, 2n, … of the innermost loop.
    Every(u32),
}

/// A variable that a branch changes.
#[derive(Debug, Clone, PartialEq)]
pub struct Merge {
    /// The variable after the branch.
    pub node: NodeId,
    /// Its value before the branch, if it had one.
    pub incoming: Option<NodeId>,
    /// Its value after each arm (the incoming one where the arm does not change it).
    pub values: Vec<NodeId>,
}

impl NodeKind {
    /// Whether the node is a vector; otherwise it is a scalar or an act.
    pub fn is_vector(&self) -> bool {
        match self {
            NodeKind::Guess | NodeKind::Rhs | NodeKind::Random(_) | NodeKind::Solution => true,
            NodeKind::Phi(t) | NodeKind::Result(t) | NodeKind::Merge(t) => *t == Type::Vector,
            NodeKind::Apply(_) | NodeKind::Magnitude(_) | NodeKind::Diagonal(_) => true,
            NodeKind::Solve(..) | NodeKind::Along(..) | NodeKind::Companion { .. } | NodeKind::Map(_) => true,
            NodeKind::Reduce(..) | NodeKind::Scalar(_) => false,
            NodeKind::Require { .. } | NodeKind::Guard { .. } => false,
            NodeKind::Check { .. } | NodeKind::Measure { .. } => false,
        }
    }

    /// Whether the node reads its vectors at neighbours.
    pub fn gathers(&self) -> bool {
        matches!(self, NodeKind::Apply(_) | NodeKind::Magnitude(_) | NodeKind::Along(..) | NodeKind::Companion { .. })
    }

    /// Whether the node may raise the status word.
    pub fn raises(&self) -> bool {
        self.solution().is_some()
    }

    /// The solution that an act would end the solve with.
    pub fn solution(&self) -> Option<NodeId> {
        match self {
            NodeKind::Require { solution, .. } | NodeKind::Guard { solution, .. } => Some(*solution),
            NodeKind::Check { solution, .. } => Some(*solution),
            _ => None,
        }
    }

    /// Nodes it reads, in order of appearance (the solution of an act is not read by it).
    pub fn args(&self) -> Vec<NodeId> {
        let mut out = Vec::new();
        match self {
            NodeKind::Apply(v) | NodeKind::Magnitude(v) | NodeKind::Diagonal(v) => out.push(*v),
            NodeKind::Solve(_, v) | NodeKind::Along(_, v) => out.push(*v),
            NodeKind::Companion { step, operand, .. } => {
                out.push(*operand);
                out.extend(*step);
            }
            NodeKind::Map(tree) => tree.visit(&mut |n| out.push(n)),
            NodeKind::Reduce(_, v, w) => out.extend([*v, *w]),
            NodeKind::Scalar(tree) => tree.visit(&mut |n| out.push(n)),
            NodeKind::Require { condition, .. } | NodeKind::Guard { condition, .. } => {
                condition.visit(&mut |n| out.push(n));
            }
            NodeKind::Check { measure, bound, .. } => {
                measure.visit(&mut |n| out.push(n));
                bound.visit(&mut |n| out.push(n));
            }
            NodeKind::Measure { measure, bound, attainable } => {
                for tree in [measure, bound, attainable] {
                    tree.visit(&mut |n| out.push(n));
                }
            }
            NodeKind::Guess | NodeKind::Rhs | NodeKind::Random(_) | NodeKind::Solution => {}
            NodeKind::Phi(_) | NodeKind::Result(_) | NodeKind::Merge(_) => {}
        }
        out
    }
}

impl MapTree {
    /// Calls `f` on every node read.
    pub fn visit(&self, f: &mut dyn FnMut(NodeId)) {
        match self {
            MapTree::Value(n) | MapTree::Scalar(n) => f(*n),
            MapTree::Number(_) => {}
            MapTree::Neg(a) | MapTree::Abs(a) => a.visit(f),
            MapTree::Binary(_, a, b) => {
                a.visit(f);
                b.visit(f);
            }
        }
    }
}

impl ScalarTree {
    /// Calls `f` on every node read.
    pub fn visit(&self, f: &mut dyn FnMut(NodeId)) {
        match self {
            ScalarTree::Node(n) => f(*n),
            ScalarTree::Number(_) | ScalarTree::Param(_) | ScalarTree::Tolerance => {}
            ScalarTree::Neg(a) => a.visit(f),
            ScalarTree::Binary(_, a, b) => {
                a.visit(f);
                b.visit(f);
            }
            ScalarTree::Call(_, args) => args.iter().for_each(|a| a.visit(f)),
            ScalarTree::Truth(c) => c.visit(f),
            ScalarTree::Select(c, a, b) => {
                c.visit(f);
                a.visit(f);
                b.visit(f);
            }
        }
    }
}

impl CondTree {
    /// Calls `f` on every node read.
    pub fn visit(&self, f: &mut dyn FnMut(NodeId)) {
        match self {
            CondTree::Compare(_, a, b) => {
                a.visit(f);
                b.visit(f);
            }
            CondTree::And(a, b) | CondTree::Or(a, b) => {
                a.visit(f);
                b.visit(f);
            }
            CondTree::Not(a) => a.visit(f),
        }
    }
}

impl Graph {
    /// The node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The kind of the node.
    pub fn kind(&self, id: NodeId) -> &NodeKind {
        &self.nodes[id.0].kind
    }

    /// The main loop, if the solver has one.
    pub fn main_loop(&self) -> Option<&Loop> {
        self.body.steps.iter().find_map(|s| if let Step::Loop(l) = s { Some(l) } else { None })
    }

    /// Readable text of the whole graph.
    pub fn text(&self) -> String {
        let mut out = format!("graph {}\n", self.name);
        for (title, region) in [("start", &self.start), ("body", &self.body), ("residual", &self.residual)] {
            let _ = writeln!(out, "{title}:");
            self.region_text(region, 1, &mut out);
        }
        out
    }

    fn region_text(&self, region: &Region, depth: usize, out: &mut String) {
        let pad = "  ".repeat(depth);
        for step in &region.steps {
            match step {
                Step::Node(n) => {
                    let _ = writeln!(out, "{pad}{}", self.node_text(*n));
                }
                Step::Loop(l) => {
                    let times = l.times.map_or(String::new(), |n| format!(" {n} times"));
                    let _ = writeln!(out, "{pad}repeat{times}");
                    for p in &l.phis {
                        let [node, initial, next, result] =
                            [p.node, p.initial, p.next, p.result].map(|n| self.label(n));
                        let _ = writeln!(out, "{pad}  {node} = phi({initial}, {next}) -> {result}");
                    }
                    self.region_text(&l.body, depth + 1, out);
                }
                Step::Branch(b) => self.branch_text(b, depth, out),
            }
        }
    }

    fn branch_text(&self, branch: &Branch, depth: usize, out: &mut String) {
        let pad = "  ".repeat(depth);
        for arm in &branch.arms {
            let _ = match arm.when {
                When::Scalar(n) => writeln!(out, "{pad}if {}", self.label(n)),
                When::Every(n) => writeln!(out, "{pad}every {n}"),
            };
            self.region_text(&arm.body, depth + 1, out);
        }
        for m in &branch.merges {
            let values: Vec<String> = m.incoming.iter().chain(&m.values).map(|v| self.label(*v)).collect();
            let _ = writeln!(out, "{pad}{} = merge({})", self.label(m.node), values.join(", "));
        }
    }

    /// Name and number, `p%7`.
    pub fn label(&self, id: NodeId) -> String {
        format!("{}%{}", self.node(id).name, id.0)
    }

    fn node_text(&self, id: NodeId) -> String {
        let body = match self.kind(id) {
            NodeKind::Apply(v) => format!("A * {}", self.label(*v)),
            NodeKind::Magnitude(v) => format!("|A| * |{}|", self.label(*v)),
            NodeKind::Diagonal(v) => format!("inv(diag A) * {}", self.label(*v)),
            NodeKind::Solve(axis, v) => format!("inv(line {axis} of A) * {}", self.label(*v)),
            NodeKind::Along(axis, v) => format!("line {axis} of A * {}", self.label(*v)),
            NodeKind::Companion { number, step, operand } => {
                let rows = step.map_or(String::new(), |step| format!(" at step {}", self.label(step)));
                format!("companion {number} of A{rows} * {}", self.label(*operand))
            }
            NodeKind::Map(tree) => self.map_text(tree),
            NodeKind::Reduce(ReduceKind::Dot, v, w) => format!("dot({}, {})", self.label(*v), self.label(*w)),
            NodeKind::Reduce(ReduceKind::Max, v, _) => format!("max |{}|", self.label(*v)),
            NodeKind::Scalar(tree) => self.scalar_text(tree),
            NodeKind::Require { condition, .. } => return format!("require {}", self.cond_text(condition)),
            NodeKind::Guard { condition, .. } => return format!("guard {}", self.cond_text(condition)),
            NodeKind::Check { measure, bound, .. } => {
                return format!("check {} <= {}", self.scalar_text(measure), self.scalar_text(bound));
            }
            NodeKind::Measure { measure, bound, attainable } => {
                let [m, b, a] = [measure, bound, attainable].map(|t| self.scalar_text(t));
                return format!("measure {m} <= {b}, attainable {a}");
            }
            other => format!("{other:?}"),
        };
        format!("{} = {body}", self.label(id))
    }

    fn map_text(&self, tree: &MapTree) -> String {
        match tree {
            MapTree::Value(n) | MapTree::Scalar(n) => self.label(*n),
            MapTree::Number(x) => format!("{x}"),
            MapTree::Neg(a) => format!("-{}", self.map_text(a)),
            MapTree::Abs(a) => format!("|{}|", self.map_text(a)),
            MapTree::Binary(op, a, b) => format!("({} {} {})", self.map_text(a), op_text(*op), self.map_text(b)),
        }
    }

    fn scalar_text(&self, tree: &ScalarTree) -> String {
        match tree {
            ScalarTree::Number(x) => format!("{x}"),
            ScalarTree::Node(n) => self.label(*n),
            ScalarTree::Param(p) => self.solver_params[*p].clone(),
            ScalarTree::Tolerance => "tolerance".into(),
            ScalarTree::Neg(a) => format!("-{}", self.scalar_text(a)),
            ScalarTree::Binary(op, a, b) => {
                format!("({} {} {})", self.scalar_text(a), op_text(*op), self.scalar_text(b))
            }
            ScalarTree::Call(f, args) => {
                let args: Vec<String> = args.iter().map(|a| self.scalar_text(a)).collect();
                format!("{}({})", format!("{f:?}").to_lowercase(), args.join(", "))
            }
            ScalarTree::Truth(c) => format!("[{}]", self.cond_text(c)),
            ScalarTree::Select(c, a, b) => {
                format!("({} if {} else {})", self.scalar_text(a), self.cond_text(c), self.scalar_text(b))
            }
        }
    }

    fn cond_text(&self, cond: &CondTree) -> String {
        match cond {
            CondTree::Compare(op, a, b) => {
                format!("{} {} {}", self.scalar_text(a), compare_text(*op), self.scalar_text(b))
            }
            CondTree::And(a, b) => format!("({} and {})", self.cond_text(a), self.cond_text(b)),
            CondTree::Or(a, b) => format!("({} or {})", self.cond_text(a), self.cond_text(b)),
            CondTree::Not(a) => format!("not ({})", self.cond_text(a)),
        }
    }
}

/// The sign of an operation.
pub fn op_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "+",
        BinaryOp::Sub => "-",
        BinaryOp::Mul => "*",
        BinaryOp::Div => "/",
    }
}

/// The sign of a comparison.
pub fn compare_text(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
    }
}
