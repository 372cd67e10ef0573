//! Solvers: heads, variables, statements, and what is defined along every path.

use crate::ast::{Documented, Expr, Item, Name, Step, Takes};
use crate::check::names::{SUGGESTIONS, duplicate, reserved};
use crate::check::number::{number, whole};
use crate::check::operator::{facts, unknown_word};
use crate::check::vector::{Value, fixed, reads};
use crate::diagnostic::{Diagnostic, closest};
use crate::print;
use crate::program::{
    CompareOp, Fact, Kind, OperatorArg, Outcome, Param, ScalarCondition, Solver, Statement, StatementKind, VarId,
    Variable, Vector,
};
use crate::source::Span;
use std::collections::HashMap;

/// Words a variable cannot be called.
const WORDS: [&str; 9] = ["tolerance", "iteration", "zero", "dot", "norm", "norm_max", "random", "transpose", "inv"];
/// Outcomes of `require`.
const OUTCOMES: [(&str, Outcome); 4] = [
    ("indefinite_operator", Outcome::IndefiniteOperator),
    ("indefinite_preconditioner", Outcome::IndefinitePreconditioner),
    ("breakdown", Outcome::Breakdown),
    ("diverged", Outcome::Diverged),
];

/// What a name of a solver means.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Meaning {
    Pi,
    Zero,
    Tolerance,
    Iteration,
    Param(usize),
    Operator(usize),
    Variable(VarId, Kind),
}

/// Where a statement stands.
#[derive(Debug, Clone, Copy, Default)]
struct Context {
    /// Within any block.
    nested: bool,
    /// Within a `repeat`.
    looped: bool,
}

/// A solver being checked.
pub struct Build<'e> {
    solver: Solver,
    variables: HashMap<String, VarId>,
    /// Names assigned anywhere, and where first.
    assigned: HashMap<String, Span>,
    /// Names whose assignment had an error: uses are not reported again.
    broken: Vec<String>,
    /// Whether each variable has a value on every path to here.
    defined: Vec<bool>,
    residual: Option<Span>,
    converge: Option<Span>,
    /// Where errors go.
    pub errors: &'e mut Vec<Diagnostic>,
}

/// Checks a solver; what it returns is only good if nothing was reported.
pub fn solver(
    item: &Item,
    takes: &[Takes],
    steps: &[Documented<Step>],
    errors: &mut Vec<Diagnostic>,
) -> Option<Solver> {
    let mut build = Build {
        solver: blank(item),
        variables: HashMap::from([("u".to_string(), Solver::SOLUTION), ("f".to_string(), Solver::RHS)]),
        assigned: HashMap::new(),
        broken: Vec::new(),
        defined: vec![true, true],
        residual: None,
        converge: None,
        errors,
    };
    build.head(item, takes);
    build.announce(steps);
    let body = build.block(steps, Context::default());
    build.solver.body = body;
    if build.residual.is_none() {
        let error =
            Diagnostic::new("missing", item.name.span, format!("solver `{}` declares no `residual`", item.name.text));
        build.errors.push(error.help(format!(
            "add `residual r = f - {}*u;`",
            takes.first().map_or("A", |takes| takes.name.text.as_str())
        )));
    }
    Some(build.solver)
}

fn blank(item: &Item) -> Solver {
    let variable = |name: &str| Variable { name: name.to_string(), kind: Kind::Vector, span: item.name.span };
    Solver {
        name: item.name.text.clone(),
        doc: item.doc.clone(),
        span: item.name.span,
        operators: Vec::new(),
        params: Vec::new(),
        variables: vec![variable("u"), variable("f")],
        body: Vec::new(),
    }
}

impl Build<'_> {
    fn head(&mut self, item: &Item, takes: &[Takes]) {
        if takes.is_empty() || takes.len() > 2 {
            let message =
                format!("a solver takes an operator and perhaps a preconditioner, not {} operators", takes.len());
            let error = Diagnostic::new("bad-head", item.name.span, message);
            self.errors.push(error.help(format!("write `solver {}(A: any, M: any)`", item.name.text)));
        }
        for takes in takes {
            self.free(&takes.name);
            let mut requires: Vec<Fact> = Vec::new();
            for word in &takes.requires {
                match facts(word) {
                    Some(facts) => requires.extend(facts),
                    None if word.text == "any" && takes.requires.len() == 1 => {}
                    None => {
                        let words = ["spd", "symmetric", "positive_definite", "m_matrix", "any"];
                        self.errors.push(unknown_word(word, "a requirement", &words));
                    }
                }
            }
            requires.sort();
            requires.dedup();
            let name = takes.name.text.clone();
            self.solver.operators.push(OperatorArg { name, requires, span: takes.name.span });
        }
    }

    /// Reports a name that cannot be declared.
    fn free(&mut self, name: &Name) {
        self.errors.extend(reserved(name));
        if WORDS.contains(&name.text.as_str()) || name.text == "u" || name.text == "f" {
            let error =
                Diagnostic::new("reserved-name", name.span, format!("`{}` has a meaning in every solver", name.text));
            self.errors.push(error.label("choose another name"));
        }
        let operators = self.solver.operators.iter().map(|operator| (&operator.name, operator.span));
        let params = self.solver.params.iter().map(|param| (&param.name, param.span));
        let first = operators.chain(params).find(|(known, _)| **known == name.text).map(|(_, span)| span);
        self.errors.extend(first.map(|first| duplicate(name, first)));
    }

    /// Finds all names that are assigned anywhere.
    fn announce(&mut self, steps: &[Documented<Step>]) {
        for step in steps {
            match &step.kind {
                Step::Assign(name, _) | Step::Residual(name, _) => {
                    self.assigned.entry(name.text.clone()).or_insert(name.span);
                }
                Step::If(_, then, other) => {
                    self.announce(then);
                    self.announce(other);
                }
                Step::Every(_, body) | Step::Repeat(_, body) => self.announce(body),
                _ => {}
            }
        }
    }

    /// What a name means here; none after an error, which is recorded.
    pub fn meaning(&mut self, name: &str, span: Span) -> Option<Meaning> {
        match name {
            "pi" => return Some(Meaning::Pi),
            "zero" => return Some(Meaning::Zero),
            "tolerance" => return Some(Meaning::Tolerance),
            "iteration" => return Some(Meaning::Iteration),
            _ => {}
        }
        if let Some(operator) = self.solver.operators.iter().position(|operator| operator.name == name) {
            return Some(Meaning::Operator(operator));
        }
        if let Some(param) = self.solver.params.iter().position(|param| param.name == name) {
            return Some(Meaning::Param(param));
        }
        match self.variables.get(name) {
            Some(&id) if self.defined[id.0] => Some(Meaning::Variable(id, self.solver.variables[id.0].kind)),
            _ if self.broken.iter().any(|broken| broken == name) => None,
            _ => {
                let error = self.undefined(name, span);
                self.errors.push(error);
                None
            }
        }
    }

    fn undefined(&self, name: &str, span: Span) -> Diagnostic {
        if let Some(first) = self.assigned.get(name) {
            let known = self.variables.contains_key(name);
            let when = if known { "may have no value here" } else { "is used before its definition" };
            let error = Diagnostic::new("used-before-definition", span, format!("`{name}` {when}"))
                .note(*first, "assigned here");
            return match known {
                true => {
                    error.label("not assigned on every path").help("assign it before the block, or in every branch")
                }
                false => error,
            };
        }
        let variables = self.solver.variables.iter().map(|variable| variable.name.as_str());
        let params = self.solver.params.iter().map(|param| param.name.as_str());
        let operators = self.solver.operators.iter().map(|operator| operator.name.as_str());
        let few = self.errors.len() < SUGGESTIONS;
        let near = closest(name, variables.chain(params).chain(operators).chain(WORDS).filter(|_| few));
        Diagnostic::new("unknown-name", span, format!("nothing is called `{name}`"))
            .label("unknown name")
            .help_if(near.map(|near| format!("did you mean `{near}`?")))
    }

    fn block(&mut self, steps: &[Documented<Step>], context: Context) -> Vec<Statement> {
        let mut statements = Vec::new();
        let mut endless: Option<Span> = None;
        for step in steps {
            if let Some(span) = endless.take() {
                let error = Diagnostic::new("unreachable", step.span, "this statement is never reached");
                self.errors.push(error.note(head_of(span, "repeat"), "this loop ends only with the solver"));
            }
            if matches!(step.kind, Step::Repeat(None, _)) {
                endless = Some(step.span);
            }
            if let Some(kind) = self.step(step, context) {
                statements.push(Statement { kind, text: print::head(&step.kind), span: step.span });
            }
        }
        statements
    }

    fn step(&mut self, step: &Documented<Step>, context: Context) -> Option<StatementKind> {
        match &step.kind {
            Step::Param(params) => self.params(params, step, context),
            Step::Residual(name, value) => self.residual(name, value, step.span, context),
            Step::Converge(condition) => self.converge(condition, step.span, context),
            Step::Assign(name, value) => self.assign(name, value),
            Step::Check => self.check(step.span),
            Step::Require(condition, outcome) => {
                let condition = self.condition(condition);
                let Some((_, outcome)) = OUTCOMES.iter().find(|(name, _)| *name == outcome.text) else {
                    self.errors.push(unknown_word(outcome, "an outcome", &OUTCOMES.map(|(name, _)| name)));
                    return None;
                };
                Some(StatementKind::Require(condition?, *outcome))
            }
            Step::If(condition, then, other) => self.choice(condition, then, other, context),
            Step::Every(count, body) => self.every(count, body, step.span, context),
            Step::Repeat(count, body) => self.repeat(count.as_ref(), body, step.span, context),
        }
    }

    fn params(
        &mut self,
        params: &[(Name, Option<Expr>)],
        step: &Documented<Step>,
        context: Context,
    ) -> Option<StatementKind> {
        if context.nested {
            self.errors.push(Diagnostic::new("misplaced", step.span, "`param` stands at the top of a solver"));
        }
        for (name, default) in params {
            self.free(name);
            let default = default.as_ref().and_then(|value| number(value, self.errors));
            let (name, doc, span) = (name.text.clone(), step.doc.clone(), name.span);
            self.solver.params.push(Param { name, doc, default, span });
        }
        None
    }

    fn assign(&mut self, name: &Name, value: &Expr) -> Option<StatementKind> {
        let value = self.value(value);
        if !self.assignable(name) {
            return None;
        }
        let Some(value) = value else {
            self.broken.push(name.text.clone());
            return None;
        };
        let known = self.variables.get(&name.text).map(|id| self.solver.variables[id.0].kind);
        match (value, known) {
            (Value::Vector(vector), None | Some(Kind::Vector)) => {
                Some(StatementKind::AssignVector(self.variable(name, Kind::Vector), vector))
            }
            (Value::Scalar(crate::program::Scalar::Number(0.0)), Some(Kind::Vector)) => {
                Some(StatementKind::AssignVector(self.variable(name, Kind::Vector), Vector::Zero))
            }
            (Value::Scalar(scalar), None | Some(Kind::Scalar)) => {
                Some(StatementKind::AssignScalar(self.variable(name, Kind::Scalar), scalar))
            }
            (Value::Operator(_), _) => {
                self.broken.push(name.text.clone());
                self.mistake(name.span, "an operator cannot be assigned", Some("apply it to a vector: `v = A*p`"))
            }
            (_, Some(kind)) => self.kind_change(name, kind),
        }
    }

    fn assignable(&mut self, name: &Name) -> bool {
        let (text, before) = (name.text.as_str(), self.errors.len());
        let operator =
            self.solver.operators.iter().find(|operator| operator.name == text).map(|operator| operator.span);
        let param = self.solver.params.iter().find(|param| param.name == text).map(|param| param.span);
        let error = Diagnostic::new("assignment", name.span, format!("`{text}` cannot be assigned"));
        match text {
            "f" => self.errors.push(error.label("the right-hand side is never written")),
            "tolerance" | "iteration" => self.errors.push(error.label("set by the problem and the loop")),
            _ if WORDS.contains(&text) => self.errors.push(error.label("has a meaning in every solver")),
            _ => match operator.or(param) {
                Some(span) => self.errors.push(error.note(span, "declared as an argument")),
                None => self.errors.extend(reserved(name)),
            },
        }
        self.errors.len() == before
    }

    fn kind_change(&mut self, name: &Name, kind: Kind) -> Option<StatementKind> {
        let (was, help) = match kind {
            Kind::Vector => ("a vector", "use another name for the scalar"),
            Kind::Scalar => ("a scalar", "use another name for the vector; the zero vector is `zero`"),
        };
        let first = self.variables.get(&name.text).map(|id| self.solver.variables[id.0].span);
        let error = Diagnostic::new("type", name.span, format!("`{}` is {was} and cannot change its kind", name.text));
        let error = if name.text == "u" { error } else { error.note(first.unwrap_or_default(), "first assigned here") };
        self.errors.push(error.help(help));
        None
    }

    /// The variable, declared if it is new, with a value from here on.
    fn variable(&mut self, name: &Name, kind: Kind) -> VarId {
        let next = VarId(self.solver.variables.len());
        let id = *self.variables.entry(name.text.clone()).or_insert(next);
        if id == next {
            self.solver.variables.push(Variable { name: name.text.clone(), kind, span: name.span });
            self.defined.push(true);
        }
        self.defined[id.0] = true;
        id
    }

    fn residual(&mut self, name: &Name, value: &Expr, span: Span, context: Context) -> Option<StatementKind> {
        self.once("residual", self.residual, span, context);
        self.residual.get_or_insert(span);
        let vector = self.vector(value, "the residual");
        if !self.assignable(name) {
            return None;
        }
        let Some(vector) = vector else {
            self.broken.push(name.text.clone());
            return None;
        };
        if name.text == "u" {
            return self.mistake(name.span, "the residual cannot be `u`", None);
        }
        if self.variables.get(&name.text).is_some_and(|id| self.solver.variables[id.0].kind == Kind::Scalar) {
            return self.kind_change(name, Kind::Scalar);
        }
        let foreign = (2..self.solver.variables.len()).any(|id| reads(&vector, VarId(id))) || !fixed(&vector);
        if !reads(&vector, Solver::RHS) || !reads(&vector, Solver::SOLUTION) || foreign {
            let error = Diagnostic::new("bad-residual", value.span, "a residual is a function of `f` and `u` alone");
            self.errors.push(error.help("it is computed again to verify the solution: `residual r = f - A*u;`"));
        }
        Some(StatementKind::Residual(self.variable(name, Kind::Vector), vector))
    }

    /// `residual` and `converge` stand once, outside blocks.
    fn once(&mut self, keyword: &str, first: Option<Span>, span: Span, context: Context) {
        if let Some(first) = first {
            let error = Diagnostic::new("duplicate", span, format!("a second `{keyword}`"));
            self.errors.push(error.note(first, "first one"));
        } else if context.nested {
            let error =
                Diagnostic::new("misplaced", span, format!("`{keyword}` stands before the loop, not in a block"));
            self.errors.push(error);
        }
    }

    fn converge(&mut self, condition: &Expr, span: Span, context: Context) -> Option<StatementKind> {
        self.once("converge", self.converge, span, context);
        self.converge.get_or_insert(span);
        match self.condition(condition)? {
            ScalarCondition::Compare(CompareOp::Le, measure, bound) => Some(StatementKind::Converge { measure, bound }),
            _ => {
                let error = Diagnostic::new("bad-converge", condition.span, "convergence is one comparison with `<=`");
                self.errors.push(error.help("write `converge when norm(r) <= tolerance*norm(f);`"));
                None
            }
        }
    }

    fn check(&mut self, span: Span) -> Option<StatementKind> {
        if self.converge.is_none() {
            let error = Diagnostic::new("missing", span, "`check` without a `converge when …` above it");
            self.errors.push(error.label("nothing to check").help("add `converge when norm(r) <= tolerance*norm(f);`"));
        }
        Some(StatementKind::Check)
    }

    fn choice(
        &mut self,
        condition: &Expr,
        then: &[Documented<Step>],
        other: &[Documented<Step>],
        context: Context,
    ) -> Option<StatementKind> {
        let condition = self.condition(condition);
        let inner = Context { nested: true, ..context };
        let before = self.defined.clone();
        let then = self.block(then, inner);
        let after_then = std::mem::replace(&mut self.defined, before);
        self.defined.resize(after_then.len(), false);
        let other = self.block(other, inner);
        for (index, defined) in self.defined.iter_mut().enumerate() {
            *defined &= after_then.get(index).copied().unwrap_or(false);
        }
        Some(StatementKind::If(condition?, then, other))
    }

    fn every(
        &mut self,
        count: &Expr,
        body: &[Documented<Step>],
        span: Span,
        context: Context,
    ) -> Option<StatementKind> {
        if !context.looped {
            let error = Diagnostic::new("misplaced", head_of(span, "every"), "`every` counts the iterations of a loop");
            self.errors.push(error.label("not in a `repeat`"));
        }
        let count = whole(count, "the period of `every`", 1..=u64::from(u32::MAX), self.errors);
        let before = self.defined.clone();
        let body = self.block(body, Context { nested: true, ..context });
        let known = self.defined.len();
        self.defined = before;
        self.defined.resize(known, false);
        Some(StatementKind::Every(u32::try_from(count?).ok()?, body))
    }

    fn repeat(
        &mut self,
        count: Option<&Expr>,
        body: &[Documented<Step>],
        span: Span,
        context: Context,
    ) -> Option<StatementKind> {
        let times = count.map(|count| whole(count, "the number of repetitions", 1..=u64::from(u32::MAX), self.errors));
        if count.is_none() && context.nested {
            let message = "a `repeat` without a number stands inside another statement";
            let error = Diagnostic::new("nested-repeat", head_of(span, "repeat"), message);
            self.errors.push(error.label("it ends only with the solver").help("write `repeat 10 times { … }`"));
        }
        if count.is_none() && !body.iter().any(|step| exits(&step.kind)) {
            let error = Diagnostic::new("no-exit", head_of(span, "repeat"), "this loop never ends");
            self.errors
                .push(error.label("no `check` or `require` in it").help("add `check;` after the residual is updated"));
        }
        let body = self.block(body, Context { nested: true, looped: true });
        match times {
            None => Some(StatementKind::Repeat(None, body)),
            Some(times) => Some(StatementKind::Repeat(Some(u32::try_from(times?).ok()?), body)),
        }
    }
}

/// The first word of a statement with a body.
fn head_of(span: Span, keyword: &str) -> Span {
    Span { end_line: span.line, end_column: span.column + keyword.len() as u32, ..span }
}

/// Whether the statement can leave the solver.
fn exits(step: &Step) -> bool {
    match step {
        Step::Check | Step::Require(..) => true,
        Step::If(_, then, other) => then.iter().chain(other).any(|step| exits(&step.kind)),
        Step::Every(_, body) | Step::Repeat(_, body) => body.iter().any(|step| exits(&step.kind)),
        _ => false,
    }
}
