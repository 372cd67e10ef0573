//! Trace: a checked solver, an operator and a preconditioner become a [`Graph`].
//!
//! Statements are followed once; what they compute is recorded, not executed. Scopes mirror the nesting of loops and
//! branches. A node goes to the outermost loop level at which its operands exist, which moves invariant work such
//! as `norm(f)` before the loop; nothing is moved out of a branch, where it might not be wanted.

mod carry;
mod congruent;
mod convert;
mod expr;
mod preconditioner;
mod prune;
mod residual;

pub(crate) use prune::prune;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use kernelwright_syntax::program::{
    BinaryOp, Precision, Preconditioner, Scalar, ScalarCondition, Solver, Statement, StatementKind, VarId, Vector,
};
use kernelwright_syntax::source::Span;

use crate::graph::{
    Arm, Branch, Graph, Loop, MapTree, Merge, Node, NodeId, NodeKind, Phi, Region, ScalarTree, Step, Type, When,
};
use crate::loops::RequireInfo;
use crate::math::Operator;

/// What is traced.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The system.
    pub operator: &'a Operator,
    /// All solvers of the program (inner ones are looked up here).
    pub solvers: &'a [Solver],
    /// Index of the outer solver.
    pub solver: usize,
    /// How `inv(M)` is made.
    pub preconditioner: &'a Preconditioner,
    /// Precision of vectors.
    pub precision: Precision,
}

/// Why a solver cannot be traced: a limit of what loops may do, with the place.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceError {
    /// What is wrong.
    pub message: String,
    /// What would help.
    pub help: Option<String>,
    /// The statement; of a solver of the library it has no place.
    pub span: Span,
    /// Whether the problem's choice of a preconditioner is at fault, not the statement that uses it.
    pub preconditioner: bool,
}

impl TraceError {
    /// The same with a way out.
    fn help(self, help: &str) -> TraceError {
        TraceError { help: Some(help.to_string()), ..self }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.iter().try_for_each(|help| write!(f, ": {help}"))
    }
}

impl std::error::Error for TraceError {}

/// Traces a solver applied to an operator.
pub fn trace(input: Input<'_>) -> Result<Graph, TraceError> {
    let solver = &input.solvers[input.solver];
    let mut tracer = Tracer::new(input, solver);
    let main = main_loop(&solver.body);
    let split = main.unwrap_or(solver.body.len());
    tracer.statements(&solver.body[..split])?;
    let env_before_loop = tracer.instance().env.clone();
    tracer.scopes.push(Scope::new(ScopeKind::Body));
    tracer.statements(&solver.body[split..])?;
    tracer.after_main(&solver.body, main)?;
    let body = tracer.pop_scope();
    let solution = tracer.instance().env[Solver::SOLUTION.0].expect("the solution always has a value");
    tracer.scopes.push(Scope::new(ScopeKind::Residual));
    tracer.instance_mut().env = env_before_loop;
    let true_residual = tracer.true_residual(&solver.body[..split], &solver.body[split..])?;
    let residual = tracer.pop_scope();
    let start = tracer.pop_scope();
    let mut graph = Graph {
        name: solver.name.clone(),
        operator: input.operator.clone(),
        solver_params: solver.params.iter().map(|p| p.name.clone()).collect(),
        precision: input.precision,
        nodes: tracer.nodes,
        start,
        body,
        residual,
        true_residual,
        solution,
        requires: tracer.requires,
    };
    convert::convert(&mut graph);
    prune(&mut graph);
    congruent::merge(&mut graph);
    carry::carry(&mut graph);
    Ok(graph)
}

/// Position of the main loop: the unbounded one, else the first.
fn main_loop(body: &[Statement]) -> Option<usize> {
    let unbounded = body.iter().position(|s| matches!(s.kind, StatementKind::Repeat(None, _)));
    unbounded.or_else(|| body.iter().position(|s| matches!(s.kind, StatementKind::Repeat(..))))
}

/// A solver being followed: the outer one, or an inner one inlined as a preconditioner.
struct Instance<'a> {
    solver: &'a Solver,
    preconditioner: &'a Preconditioner,
    /// Values of the parameters of an inner solver.
    params: Option<&'a [f64]>,
    /// Rounds of the unbounded loop of an inner solver.
    rounds: Option<u32>,
    /// Value of each variable; the last entry is the iteration counter.
    env: Vec<Option<NodeId>>,
    /// What names of its variables begin with.
    prefix: String,
}

impl Instance<'_> {
    fn counter(&self) -> VarId {
        VarId(self.solver.variables.len())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScopeKind {
    Start,
    /// The main loop and what follows; invariant work moves out of it as out of a loop.
    Body,
    Loop,
    Arm,
    Residual,
}

struct Scope {
    kind: ScopeKind,
    steps: Vec<Step>,
    known: BTreeMap<String, NodeId>,
}

impl Scope {
    fn new(kind: ScopeKind) -> Self {
        Scope { kind, steps: Vec::new(), known: BTreeMap::new() }
    }
}

struct Tracer<'a> {
    input: Input<'a>,
    instances: Vec<Instance<'a>>,
    nodes: Vec<Node>,
    /// Scope at which each node stands (index into `scopes` while it is open).
    depth: Vec<usize>,
    scopes: Vec<Scope>,
    requires: Vec<RequireInfo>,
    test: Option<(Scalar, Scalar)>,
    residual: Option<(VarId, Vector, Option<String>)>,
    /// Statement being followed, for quoting.
    text: Option<String>,
    span: Span,
}

impl<'a> Tracer<'a> {
    fn new(input: Input<'a>, solver: &'a Solver) -> Self {
        let mut tracer = Tracer {
            input,
            instances: vec![Instance {
                solver,
                preconditioner: input.preconditioner,
                params: None,
                rounds: None,
                env: vec![None; solver.variables.len() + 1],
                prefix: String::new(),
            }],
            nodes: Vec::new(),
            depth: Vec::new(),
            scopes: vec![Scope::new(ScopeKind::Start)],
            requires: Vec::new(),
            test: None,
            residual: None,
            text: None,
            span: solver.span,
        };
        let names = [Solver::SOLUTION, Solver::RHS].map(|v| solver.variables[v.0].name.clone());
        let guess = tracer.place(NodeKind::Guess, &names[0], 0, true);
        let rhs = tracer.place(NodeKind::Rhs, &names[1], 0, true);
        let env = &mut tracer.instance_mut().env;
        env[Solver::SOLUTION.0] = Some(guess);
        env[Solver::RHS.0] = Some(rhs);
        tracer.start_counter();
        tracer
    }

    fn instance(&self) -> &Instance<'a> {
        self.instances.last().expect("an instance is open while tracing")
    }

    fn instance_mut(&mut self) -> &mut Instance<'a> {
        self.instances.last_mut().expect("an instance is open while tracing")
    }

    fn error<T>(&self, message: impl Into<String>) -> Result<T, TraceError> {
        Err(TraceError { message: message.into(), help: None, span: self.span, preconditioner: false })
    }

    /// The operator cannot have the preconditioner that the problem asks for.
    fn unfit<T>(&self, message: impl Into<String>, help: &str) -> Result<T, TraceError> {
        let error = self.error(message).map_err(|error: TraceError| error.help(help));
        error.map_err(|error| TraceError { preconditioner: true, ..error })
    }

    /// The iteration counter exists only where the solver reads it.
    fn start_counter(&mut self) {
        if self.instance().solver.body.iter().any(reads_iteration) {
            let zero = self.node(NodeKind::Scalar(ScalarTree::Number(0.0)), "iteration");
            let counter = self.instance().counter();
            self.instance_mut().env[counter.0] = Some(zero);
        }
    }

    /// Adds a node to the list only.
    fn place(&mut self, kind: NodeKind, name: &str, depth: usize, named: bool) -> NodeId {
        let text = self.text.clone();
        self.nodes.push(Node { name: name.to_string(), named, kind, text });
        self.depth.push(depth);
        NodeId(self.nodes.len() - 1)
    }

    /// A node that computes something: found again if it exists, placed as far out as it may stand.
    fn node(&mut self, kind: NodeKind, role: &str) -> NodeId {
        let key = format!("{kind:?}");
        if let Some(known) = self.scopes.iter().rev().find_map(|s| s.known.get(&key)) {
            return *known;
        }
        let inputs = kind.args().iter().map(|a| self.depth[a.0]).max().unwrap_or(0);
        let mut depth = self.scopes.len() - 1;
        while depth > inputs && matches!(self.scopes[depth].kind, ScopeKind::Loop | ScopeKind::Body) {
            depth -= 1;
        }
        let id = self.place(kind, role, depth, false);
        self.scopes[depth].steps.push(Step::Node(id));
        self.scopes[depth].known.insert(key, id);
        id
    }

    /// A node that acts: stands where the program has it.
    fn act(&mut self, kind: NodeKind, name: &str) {
        let depth = self.scopes.len() - 1;
        let id = self.place(kind, name, depth, false);
        self.scopes[depth].steps.push(Step::Node(id));
    }

    fn pop_scope(&mut self) -> Region {
        Region { steps: self.scopes.pop().expect("scopes are balanced").steps }
    }

    fn solution(&self) -> NodeId {
        self.instances[0].env[Solver::SOLUTION.0].expect("the solution always has a value")
    }

    fn statements(&mut self, statements: &'a [Statement]) -> Result<(), TraceError> {
        statements.iter().try_for_each(|s| self.statement(s))
    }

    fn statement(&mut self, statement: &'a Statement) -> Result<(), TraceError> {
        self.span = statement.span;
        self.text = Some(statement.text.clone());
        match &statement.kind {
            StatementKind::AssignVector(var, value) => self.assign_vector(*var, value)?,
            StatementKind::Residual(var, value) => {
                if self.instances.len() == 1 {
                    self.residual = Some((*var, value.clone(), self.text.clone()));
                }
                self.assign_vector(*var, value)?;
            }
            StatementKind::AssignScalar(var, value) => {
                let tree = self.scalar(value)?;
                let node = self.scalar_node(tree, &self.var_name(*var));
                self.bind(*var, node);
            }
            StatementKind::Converge { measure, bound } => {
                if self.instances.len() == 1 {
                    self.test = Some((measure.clone(), bound.clone()));
                    self.check()?;
                }
            }
            StatementKind::Check => {
                if self.instances.len() == 1 {
                    self.check()?;
                }
            }
            StatementKind::Require(condition, outcome) => {
                let condition = self.condition(condition)?;
                let number = self.requires.len();
                let (text, line) = (statement.text.clone(), statement.span.line);
                self.requires.push(RequireInfo { outcome: *outcome, text, line });
                let solution = self.solution();
                self.act(NodeKind::Require { number, condition, solution }, "require");
            }
            StatementKind::If(condition, then, otherwise) => self.branch_if(condition, then, otherwise)?,
            StatementKind::Every(n, body) => self.branch(&[(When::Every((*n).max(1)), body.as_slice())])?,
            StatementKind::Repeat(times, body) => self.repeat(*times, body)?,
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), TraceError> {
        let Some((measure, bound)) = self.test.clone() else {
            return self.error("`check` needs a `converge when …` before it");
        };
        let measure = self.scalar(&measure)?;
        let bound = self.scalar(&bound)?;
        let solution = self.solution();
        self.act(NodeKind::Check { measure, bound, solution }, "check");
        Ok(())
    }

    fn var_name(&self, var: VarId) -> String {
        let instance = self.instance();
        format!("{}{}", instance.prefix, instance.solver.variables[var.0].name)
    }

    fn assign_vector(&mut self, var: VarId, value: &'a Vector) -> Result<(), TraceError> {
        let begun = self.nodes.len();
        let term = self.vector(value)?;
        let name = self.var_name(var);
        let mut node = self.vector_node(term, &name);
        if self.instances.len() == 1 && var == Solver::SOLUTION && node != self.solution() {
            node = self.version(node, begun, &name);
        }
        self.bind(var, node);
        Ok(())
    }

    /// The solution's next version: a node that comes into being here, not another variable or what was known before.
    fn version(&mut self, node: NodeId, begun: usize, name: &str) -> NodeId {
        let depth = self.scopes.len() - 1;
        if node.0 >= begun && self.depth[node.0] == depth && !self.nodes[node.0].named {
            return node;
        }
        let copy = self.place(NodeKind::Map(MapTree::Value(node)), name, depth, true);
        self.scopes[depth].steps.push(Step::Node(copy));
        copy
    }

    /// Gives a variable its value; a value without a name of the program takes the variable's.
    fn bind(&mut self, var: VarId, value: NodeId) {
        let name = self.var_name(var);
        let node = &mut self.nodes[value.0];
        if !node.named {
            node.named = true;
            node.name = name;
            node.text = self.text.clone();
        }
        self.instance_mut().env[var.0] = Some(value);
    }

    fn type_of(&self, node: NodeId) -> Type {
        if self.nodes[node.0].kind.is_vector() { Type::Vector } else { Type::Scalar }
    }

    fn repeat(&mut self, times: Option<u32>, body: &'a [Statement]) -> Result<(), TraceError> {
        let times = times.or(self.instance().rounds);
        let nested = self.scopes.iter().any(|s| matches!(s.kind, ScopeKind::Loop | ScopeKind::Arm));
        if times.is_none() && nested {
            return self.error("an unbounded `repeat` stands inside another loop or branch; give it a number of times");
        }
        let counter = self.instance().counter();
        let counts = self.instance().env[counter.0].is_some() && !self.in_own_loop();
        let mut changed = assigned(body);
        if counts {
            changed.insert(counter);
        }
        self.scopes.push(Scope::new(ScopeKind::Loop));
        let depth = self.scopes.len() - 1;
        let mut phis = Vec::new();
        for var in &changed {
            let Some(initial) = self.instance().env[var.0] else { continue };
            let name = if *var == counter { "iteration".to_string() } else { self.var_name(*var) };
            let node = self.place(NodeKind::Phi(self.type_of(initial)), &name, depth, true);
            self.instance_mut().env[var.0] = Some(node);
            phis.push((*var, name, node, initial));
        }
        if counts {
            self.advance_counter(counter);
        }
        self.statements(body)?;
        let mut loop_ = Loop { times, phis: Vec::new(), body: self.pop_scope() };
        let before: BTreeSet<VarId> = phis.iter().map(|p| p.0).collect();
        for (var, name, node, initial) in phis {
            let next = self.instance().env[var.0].expect("a variable keeps a value once it has one");
            let result = self.place(NodeKind::Result(self.type_of(initial)), &name, depth - 1, true);
            self.instance_mut().env[var.0] = Some(result);
            loop_.phis.push(Phi { node, initial, next, result });
        }
        for var in changed.difference(&before) {
            self.instance_mut().env[var.0] = None;
        }
        self.scopes[depth - 1].steps.push(Step::Loop(loop_));
        Ok(())
    }

    /// Whether the innermost open loop belongs to the current instance (its rounds are then not the iterations).
    fn in_own_loop(&self) -> bool {
        let counter = self.instance().counter();
        let value = self.instance().env[counter.0];
        value.is_some_and(|v| !matches!(self.nodes[v.0].kind, NodeKind::Scalar(ScalarTree::Number(_))))
    }

    fn advance_counter(&mut self, counter: VarId) {
        let old = self.instance().env[counter.0].expect("the counter was started");
        let tree =
            ScalarTree::Binary(BinaryOp::Add, Box::new(ScalarTree::Node(old)), Box::new(ScalarTree::Number(1.0)));
        let next = self.node(NodeKind::Scalar(tree), "iteration");
        self.instance_mut().env[counter.0] = Some(next);
    }

    fn branch_if(
        &mut self,
        condition: &'a ScalarCondition,
        then: &'a [Statement],
        otherwise: &'a [Statement],
    ) -> Result<(), TraceError> {
        let holds = self.condition(condition)?;
        let when = self.node(NodeKind::Scalar(ScalarTree::Truth(Box::new(holds.clone()))), "condition");
        let mut arms = vec![(When::Scalar(when), then)];
        if !otherwise.is_empty() {
            let fails = crate::graph::CondTree::Not(Box::new(holds));
            let when = self.node(NodeKind::Scalar(ScalarTree::Truth(Box::new(fails))), "otherwise");
            arms.push((When::Scalar(when), otherwise));
        }
        self.branch(&arms)
    }

    fn branch(&mut self, arms: &[(When, &'a [Statement])]) -> Result<(), TraceError> {
        let before = self.instance().env.clone();
        let mut changed = BTreeSet::new();
        let mut bodies = Vec::new();
        let mut after = Vec::new();
        for (when, statements) in arms {
            changed.extend(assigned(statements));
            self.instance_mut().env = before.clone();
            self.scopes.push(Scope::new(ScopeKind::Arm));
            self.statements(statements)?;
            bodies.push(Arm { when: *when, body: self.pop_scope() });
            after.push(self.instance().env.clone());
        }
        self.instance_mut().env = before.clone();
        let depth = self.scopes.len() - 1;
        let mut merges = Vec::new();
        for var in changed {
            let incoming = before[var.0];
            let values: Option<Vec<NodeId>> = after.iter().map(|env| env[var.0]).collect();
            // Known afterwards only if it has a value on every way through.
            let Some(values) = values.filter(|_| incoming.is_some() || arms.len() == 2) else { continue };
            let name = self.var_name(var);
            let node = self.place(NodeKind::Merge(self.type_of(values[0])), &name, depth, true);
            merges.push(Merge { node, incoming, values });
            self.instance_mut().env[var.0] = Some(node);
        }
        self.scopes[depth].steps.push(Step::Branch(Branch { arms: bodies, merges }));
        Ok(())
    }

    /// What follows an unbounded loop would never run.
    fn after_main(&mut self, body: &'a [Statement], main: Option<usize>) -> Result<(), TraceError> {
        let Some(main) = main else { return Ok(()) };
        if matches!(body[main].kind, StatementKind::Repeat(None, _)) && main + 1 < body.len() {
            self.span = body[main + 1].span;
            return self.error("statements after an unbounded `repeat` are never reached: it ends the solve");
        }
        Ok(())
    }
}

/// Unit roundoff of a precision.
pub fn unit_roundoff(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => f64::from(f32::EPSILON) / 2.0,
        // The solution and its residual.
        Precision::F64 | Precision::Mixed => f64::EPSILON / 2.0,
    }
}

/// Variables that statements assign, nested ones included.
fn assigned(statements: &[Statement]) -> BTreeSet<VarId> {
    let mut out = BTreeSet::new();
    for s in statements {
        match &s.kind {
            StatementKind::AssignVector(v, _) | StatementKind::AssignScalar(v, _) | StatementKind::Residual(v, _) => {
                out.insert(*v);
            }
            StatementKind::If(_, a, b) => {
                out.extend(assigned(a));
                out.extend(assigned(b));
            }
            StatementKind::Every(_, a) | StatementKind::Repeat(_, a) => out.extend(assigned(a)),
            StatementKind::Converge { .. } | StatementKind::Check | StatementKind::Require(..) => {}
        }
    }
    out
}

fn reads_iteration(statement: &Statement) -> bool {
    match &statement.kind {
        StatementKind::AssignVector(_, v) | StatementKind::Residual(_, v) => expr::vector_reads_iteration(v),
        StatementKind::AssignScalar(_, s) => expr::scalar_reads_iteration(s),
        StatementKind::Converge { measure, bound } => {
            expr::scalar_reads_iteration(measure) || expr::scalar_reads_iteration(bound)
        }
        StatementKind::Check => false,
        StatementKind::Require(c, _) => expr::condition_reads_iteration(c),
        StatementKind::If(c, a, b) => {
            expr::condition_reads_iteration(c) || a.iter().any(reads_iteration) || b.iter().any(reads_iteration)
        }
        StatementKind::Every(_, a) | StatementKind::Repeat(_, a) => a.iter().any(reads_iteration),
    }
}
