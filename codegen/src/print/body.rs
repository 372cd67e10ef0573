//! Statements, as far as C and CUDA C++ write them alike.

use super::expr::{Dialect, converted, element, full, piece, type_name};
use super::writer::Writer;
use crate::kernel::{BufferId, Expr, Kernel, LoopKind, Op, Scope, Shuffle, Stmt, Type, VarId};
use crate::kernel_walk::Usage;

/// A shuffle, whole.
pub(crate) struct ShuffleParts<'a> {
    pub var: VarId,
    pub value: &'a Expr,
    pub mode: &'a Shuffle,
    pub width: u32,
}

/// A wide access: consecutive elements from `index` on.
#[derive(Clone, Copy)]
pub(crate) struct Wide<'a> {
    pub buffer: BufferId,
    pub index: &'a Expr,
}

/// What the languages write differently among statements.
pub(crate) trait Target: Dialect {
    fn usage(&self) -> &Usage;

    /// Directive lines before a loop.
    fn loop_directive(&self, out: &mut Writer, stmt: &Stmt);

    /// A loop has been written.
    fn loop_end(&self, _stmt: &Stmt) {}

    fn load_wide(&self, out: &mut Writer, from: Wide<'_>, vars: &[VarId]);

    fn store_wide(&self, out: &mut Writer, to: Wide<'_>, values: &[Expr]);

    fn barrier(&self, out: &mut Writer, scope: Scope);

    fn shuffle(&self, out: &mut Writer, shuffle: &ShuffleParts<'_>);

    /// An addition as one step; an expression for the value before.
    fn atomic_add(&self, element: &str, value: &str) -> String;

    fn fence(&self, out: &mut Writer);

    /// A statement that asks for an element ahead of its use.
    fn prefetch(&self, buffer: BufferId, element: &str) -> String;

    /// Begins a statement that gives a variable its first value: `const float x = …`.
    fn declare(&self, var: VarId, mutable: bool) -> String {
        let (ty, name) = (self.var_type(var), self.var(var).text);
        let constant = if mutable { "" } else { "const " };
        format!("{constant}{ty} {name}")
    }

    fn var_type(&self, var: VarId) -> &'static str {
        let kernel = self.kernel();
        type_name(kernel.vars.get(var.0).map_or(Type::Int, |var| var.ty), kernel.index)
    }

    /// Whether any expression reads the variable.
    fn is_read(&self, var: VarId) -> bool {
        self.usage().read.get(var.0) == Some(&true)
    }
}

/// Statements in order.
pub(crate) fn stmts(target: &dyn Target, out: &mut Writer, stmts_: &[Stmt]) {
    for s in stmts_ {
        stmt(target, out, s);
    }
}

fn stmt(target: &dyn Target, out: &mut Writer, stmt: &Stmt) {
    let d: &dyn Dialect = target;
    match stmt {
        Stmt::Comment(text) => out.statement(text),
        Stmt::Let(var, value) => define(target, out, *var, false, &converted(d, value)),
        Stmt::Declare(var, value) => define(target, out, *var, true, &converted(d, value)),
        Stmt::Assign(var, value) => out.code(&assignment(target, *var, value)),
        Stmt::Store { buffer, index, value } => {
            let (place, value) = (element(d, *buffer, index), converted(d, value));
            out.code(&format!("{place} = {value};"));
        }
        Stmt::LoadWide { vars, buffer, index } => target.load_wide(out, Wide { buffer: *buffer, index }, vars),
        Stmt::StoreWide { buffer, index, values } => target.store_wide(out, Wide { buffer: *buffer, index }, values),
        Stmt::For { body, .. } => {
            target.loop_directive(out, stmt);
            out.open(&loop_head(target, stmt));
            stmts(target, out, body);
            out.close("}");
            target.loop_end(stmt);
        }
        Stmt::If { cond, then, otherwise } => branch(target, out, cond, then, otherwise),
        Stmt::ExitIf(cond) => out.code(&format!("if ({}) return;", full(d, cond))),
        Stmt::Barrier(scope) => target.barrier(out, *scope),
        Stmt::Shuffle { var, value, mode, width } => {
            target.shuffle(out, &ShuffleParts { var: *var, value, mode, width: *width });
        }
        Stmt::AtomicAdd { old, buffer, index, value } => {
            let step = target.atomic_add(&element(d, *buffer, index), &converted(d, value));
            if target.is_read(*old) {
                define(target, out, *old, false, &step);
            } else {
                out.code(&format!("{step};"));
            }
        }
        Stmt::Prefetch { buffer, index } => {
            let place = element(d, *buffer, index);
            out.code(&target.prefetch(*buffer, &place));
        }
        Stmt::Fence => target.fence(out),
    }
}

/// Gives a variable its first value; one that nobody reads is said to be meant so.
pub(crate) fn define(target: &dyn Target, out: &mut Writer, var: VarId, mutable: bool, value: &str) {
    out.code(&format!("{} = {value};", target.declare(var, mutable)));
    if !target.is_read(var) {
        out.code(&format!("(void){};", target.var(var).text));
    }
}

/// `s = s + x` is written `s += x`.
fn assignment(target: &dyn Target, var: VarId, value: &Expr) -> String {
    let name = target.var(var).text;
    let d: &dyn Dialect = target;
    if let Expr::Binary(op @ (Op::Add | Op::Sub | Op::Mul | Op::Div), a, b) = value
        && **a == Expr::Var(var)
    {
        let symbol = match op {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            _ => "/",
        };
        return format!("{name} {symbol}= {};", full(d, b));
    }
    format!("{name} = {};", converted(d, value))
}

fn branch(target: &dyn Target, out: &mut Writer, cond: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
    out.open(&format!("if ({}) {{", full(target, cond)));
    stmts(target, out, then);
    let mut rest = otherwise;
    while let [Stmt::If { cond, then, otherwise }] = rest {
        out.turn(&format!("}} else if ({}) {{", full(target, cond)));
        stmts(target, out, then);
        rest = otherwise;
    }
    if !rest.is_empty() {
        out.turn("} else {");
        stmts(target, out, rest);
    }
    out.close("}");
}

/// `for (int k = 0; k < 128; ++k) {`
pub(crate) fn loop_head(target: &dyn Target, stmt: &Stmt) -> String {
    let Stmt::For { var, from, to, step, .. } = stmt else { return String::new() };
    let d: &dyn Dialect = target;
    let (ty, name) = (target.var_type(*var), target.kernel().var_name(*var));
    let from = converted(d, from);
    let to = piece(d, to).at_least(super::expr::Strength::Sum);
    let compare = if *step > 0 { "<" } else { ">" };
    let advance = match step {
        1 => format!("++{name}"),
        -1 => format!("--{name}"),
        step if *step > 0 => format!("{name} += {step}"),
        step => format!("{name} -= {}", step.unsigned_abs()),
    };
    format!("for ({ty} {name} = {from}; {name} {compare} {to}; {advance}) {{")
}

/// A wide load, element by element.
pub(crate) fn load_each(target: &dyn Target, out: &mut Writer, from: Wide<'_>, vars: &[VarId]) {
    for (n, &var) in vars.iter().enumerate() {
        if target.is_read(var) {
            let value = element(target, from.buffer, &offset(from.index, n));
            out.code(&format!("{} = {value};", target.declare(var, false)));
        }
    }
}

/// A wide store, element by element; all values are computed before the first is stored.
pub(crate) fn store_each(target: &dyn Target, out: &mut Writer, to: Wide<'_>, values: &[Expr]) {
    let d: &dyn Dialect = target;
    let Some(texts) = settle(target, out, to.buffer, values) else {
        for (n, value) in values.iter().enumerate() {
            out.code(&format!("{} = {};", element(d, to.buffer, &offset(to.index, n)), converted(d, value)));
        }
        return;
    };
    for (n, text) in texts.iter().enumerate() {
        out.code(&format!("{} = {text};", element(d, to.buffer, &offset(to.index, n))));
    }
    out.close("}");
}

/// Opens a block with the values in variables, if they are loaded from the very buffer that is stored to.
pub(crate) fn settle(target: &dyn Target, out: &mut Writer, buffer: BufferId, values: &[Expr]) -> Option<Vec<String>> {
    let loads = |e: &Expr| e.any(&mut |part| matches!(part, Expr::Load(from, _) if *from == buffer));
    if !values.iter().any(loads) {
        return None;
    }
    let kernel = target.kernel();
    let mut taken = Vec::new();
    out.open("{");
    for (n, value) in values.iter().enumerate() {
        let name = fresh(kernel, &format!("new_{}_{n}", kernel.buffer_name(buffer)), &taken);
        let ty = type_name(kernel.type_of(value), kernel.index);
        out.code(&format!("const {ty} {name} = {};", converted(target, value)));
        taken.push(name);
    }
    Some(taken)
}

/// A name nobody has.
pub(crate) fn fresh(kernel: &Kernel, wanted: &str, taken: &[String]) -> String {
    let is_free = |name: &str| {
        name != kernel.name
            && !kernel.vars.iter().any(|var| var.name == name)
            && !kernel.buffers.iter().any(|buffer| buffer.name == name)
            && !taken.iter().any(|other| other == name)
            && !super::reserved::is_reserved(name)
    };
    let mut name = wanted.to_owned();
    let mut n = 2;
    while !is_free(&name) {
        name = format!("{wanted}_{n}");
        n += 1;
    }
    name
}

/// `index + n`, folded where it can be.
pub(crate) fn offset(index: &Expr, n: usize) -> Expr {
    // At most three: wide accesses have up to four elements.
    let n = n as i64;
    match index {
        _ if n == 0 => index.clone(),
        Expr::Int(value) => Expr::Int(value + n),
        _ => Expr::Binary(Op::Add, Box::new(index.clone()), Box::new(Expr::Int(n))),
    }
}

/// Trip count of a loop, if constant.
pub(crate) fn trips(stmt: &Stmt) -> Option<i64> {
    let Stmt::For { from, to, step, .. } = stmt else { return None };
    let span = to.constant()?.checked_sub(from.constant()?)?;
    let steps = span.checked_add(step - step.signum())?.checked_div(*step)?;
    Some(steps.max(0))
}

/// Kind of a loop.
pub(crate) fn loop_kind(stmt: &Stmt) -> &LoopKind {
    match stmt {
        Stmt::For { kind, .. } => kind,
        _ => &LoopKind::Sequential,
    }
}
