//! Last pass over a mapped kernel: drops what nothing reads and unfolds integers and conditions that are used once.
//!
//! Precondition: immutable variables only depend on values that do not change after them. Postcondition: no `Let` is
//! unused; buffers nobody mentions are gone.

use std::collections::BTreeSet;

use super::builder::visit;
use crate::kernel::{BufferId, Expr, Kernel, LoopKind, Shuffle, Space, Stmt, Type, VarId, Variable};

/// Tidies a kernel; returns the buffers (old numbers) that remain.
pub(crate) fn tidy(kernel: &mut Kernel) -> BTreeSet<BufferId> {
    loop {
        let uses = count(&kernel.body, kernel.vars.len());
        let silent = unread(kernel);
        let removed = drop_unused(&mut kernel.body, &uses, &silent);
        let unfolded = unfold(&mut kernel.body, &uses, &kernel.vars);
        if !removed && !unfolded {
            break;
        }
    }
    trim_comments(&mut kernel.body);
    renumber_vars(kernel);
    renumber_buffers(kernel)
}

/// Number of reads of every variable.
fn count(body: &[Stmt], vars: usize) -> Vec<usize> {
    let mut uses = vec![0; vars];
    each_expr(body, &mut |e| {
        if let Expr::Var(v) = e {
            uses[v.0] += 1;
        }
    });
    each_stmt(body, &mut |s| {
        if let Stmt::For { kind: LoopKind::Simd(sums), .. } = s {
            sums.iter().for_each(|v| uses[v.0] += 1);
        }
    });
    uses
}

/// Buffers of lanes and blocks that nothing is loaded from.
fn unread(kernel: &Kernel) -> BTreeSet<BufferId> {
    let numbers = 0..kernel.buffers.len();
    let mut unread: BTreeSet<BufferId> =
        numbers.filter(|&n| kernel.buffers[n].space != Space::Global).map(BufferId).collect();
    each_expr(&kernel.body, &mut |e| {
        if let Expr::Load(b, _) = e {
            unread.remove(b);
        }
    });
    each_stmt(&kernel.body, &mut |s| {
        if let Stmt::LoadWide { buffer, .. } | Stmt::AtomicAdd { buffer, .. } = s {
            unread.remove(buffer);
        }
    });
    unread
}

/// Removes assignments of unused variables, stores to buffers of lanes and blocks that nobody reads, empty branches and
/// loops.
fn drop_unused(body: &mut Vec<Stmt>, uses: &[usize], unread: &BTreeSet<BufferId>) -> bool {
    let mut changed = false;
    for stmt in body.iter_mut() {
        match stmt {
            Stmt::For { body, .. } => changed |= drop_unused(body, uses, unread),
            Stmt::If { then, otherwise, .. } => {
                changed |= drop_unused(then, uses, unread);
                changed |= drop_unused(otherwise, uses, unread);
            }
            _ => {}
        }
    }
    let before = body.len();
    body.retain(|stmt| match stmt {
        Stmt::Let(v, _) | Stmt::Declare(v, _) | Stmt::Assign(v, _) => uses[v.0] > 0,
        Stmt::Store { buffer, .. } | Stmt::StoreWide { buffer, .. } => !unread.contains(buffer),
        Stmt::For { body, .. } => !silent(body),
        Stmt::If { then, otherwise, .. } => !(silent(then) && silent(otherwise)),
        _ => true,
    });
    changed || body.len() != before
}

/// Nothing but comments.
fn silent(body: &[Stmt]) -> bool {
    body.iter().all(|s| matches!(s, Stmt::Comment(_)))
}

/// Puts integers and conditions that are read once, in their own block, where they are read.
fn unfold(body: &mut Vec<Stmt>, uses: &[usize], vars: &[Variable]) -> bool {
    let mut changed = false;
    let mut at = 0;
    while at < body.len() {
        if let Stmt::For { body, .. } = &mut body[at] {
            changed |= unfold(body, uses, vars);
        }
        if let Stmt::If { then, otherwise, .. } = &mut body[at] {
            changed |= unfold(then, uses, vars);
            changed |= unfold(otherwise, uses, vars);
        }
        let candidate = match &body[at] {
            Stmt::Let(v, e) if uses[v.0] == 1 && unfoldable(e, vars[v.0].ty, vars) => Some((*v, e.clone())),
            _ => None,
        };
        if let Some((v, value)) = candidate
            && body[at + 1..].iter_mut().any(|s| replace_in_own(s, v, &value))
        {
            body.remove(at);
            changed = true;
        } else {
            at += 1;
        }
    }
    changed
}

/// Cheap to read in place: no loads, no reals (they may be assigned), and no choice that a name explains better.
fn unfoldable(e: &Expr, ty: Type, vars: &[Variable]) -> bool {
    let integral = |ty: Type| matches!(ty, Type::Int | Type::Bool);
    let mut plain = integral(ty);
    visit(e, &mut |e| match e {
        Expr::Load(..) | Expr::Select(..) | Expr::Real(..) => plain = false,
        Expr::Var(v) => plain &= integral(vars[v.0].ty),
        _ => {}
    });
    plain
}

/// Replaces a variable in the expressions of one statement, not in blocks below it; says whether it was there.
fn replace_in_own(stmt: &mut Stmt, v: VarId, value: &Expr) -> bool {
    let mut found = false;
    own_exprs_mut(stmt, &mut |e| {
        edit(e, &mut |e| {
            if *e == Expr::Var(v) {
                *e = value.clone();
                found = true;
            }
        });
    });
    found
}

/// Applies `f` to an expression's operands, then to itself.
fn edit(e: &mut Expr, f: &mut impl FnMut(&mut Expr)) {
    match e {
        Expr::Load(_, a) | Expr::Neg(a) | Expr::Not(a) | Expr::Cast(_, a) => edit(a, f),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
            edit(a, f);
            edit(b, f);
        }
        Expr::Select(c, a, b) => {
            edit(c, f);
            edit(a, f);
            edit(b, f);
        }
        Expr::Call(_, args) => args.iter_mut().for_each(|a| edit(a, f)),
        Expr::Real(..) | Expr::Int(_) | Expr::Bool(_) | Expr::Var(_) | Expr::Lane(_) | Expr::Block(_) => {}
    }
    f(e);
}

/// Expressions of a statement itself.
pub(crate) fn own_exprs_mut(stmt: &mut Stmt, f: &mut impl FnMut(&mut Expr)) {
    match stmt {
        Stmt::Let(_, e) | Stmt::Declare(_, e) | Stmt::Assign(_, e) | Stmt::ExitIf(e) => f(e),
        Stmt::Store { index, value, .. } | Stmt::AtomicAdd { index, value, .. } => {
            f(index);
            f(value);
        }
        Stmt::LoadWide { index, .. } | Stmt::Prefetch { index, .. } => f(index),
        Stmt::StoreWide { index, values, .. } => {
            f(index);
            values.iter_mut().for_each(f);
        }
        Stmt::For { from, to, .. } => {
            f(from);
            f(to);
        }
        Stmt::If { cond, .. } => f(cond),
        Stmt::Shuffle { value, mode, .. } => {
            f(value);
            if let Shuffle::Index(e) = mode {
                f(e);
            }
        }
        Stmt::Comment(_) | Stmt::Barrier(_) | Stmt::Fence => {}
    }
}

/// Visits all statements.
pub(crate) fn each_stmt(body: &[Stmt], f: &mut impl FnMut(&Stmt)) {
    for stmt in body {
        f(stmt);
        match stmt {
            Stmt::For { body, .. } => each_stmt(body, f),
            Stmt::If { then, otherwise, .. } => {
                each_stmt(then, f);
                each_stmt(otherwise, f);
            }
            _ => {}
        }
    }
}

/// Visits all expressions and their operands.
fn each_expr(body: &[Stmt], f: &mut impl FnMut(&Expr)) {
    each_stmt(body, &mut |stmt| match stmt {
        Stmt::Let(_, e) | Stmt::Declare(_, e) | Stmt::Assign(_, e) | Stmt::ExitIf(e) => visit(e, f),
        Stmt::Store { index, value, .. } | Stmt::AtomicAdd { index, value, .. } => {
            visit(index, f);
            visit(value, f);
        }
        Stmt::LoadWide { index, .. } | Stmt::Prefetch { index, .. } => visit(index, f),
        Stmt::StoreWide { index, values, .. } => {
            visit(index, f);
            values.iter().for_each(|v| visit(v, f));
        }
        Stmt::For { from, to, .. } => {
            visit(from, f);
            visit(to, f);
        }
        Stmt::If { cond, .. } => visit(cond, f),
        Stmt::Shuffle { value, mode, .. } => {
            visit(value, f);
            if let Shuffle::Index(e) = mode {
                visit(e, f);
            }
        }
        Stmt::Comment(_) | Stmt::Barrier(_) | Stmt::Fence => {}
    });
}

/// Applies `f` to all statements.
pub(crate) fn each_stmt_mut(body: &mut [Stmt], f: &mut impl FnMut(&mut Stmt)) {
    for stmt in body {
        f(stmt);
        match stmt {
            Stmt::For { body, .. } => each_stmt_mut(body, f),
            Stmt::If { then, otherwise, .. } => {
                each_stmt_mut(then, f);
                each_stmt_mut(otherwise, f);
            }
            _ => {}
        }
    }
}

/// Removes comments at the end of a block, which announce nothing.
fn trim_comments(body: &mut Vec<Stmt>) {
    for stmt in body.iter_mut() {
        match stmt {
            Stmt::For { body, .. } => trim_comments(body),
            Stmt::If { then, otherwise, .. } => {
                trim_comments(then);
                trim_comments(otherwise);
            }
            _ => {}
        }
    }
    while matches!(body.last(), Some(Stmt::Comment(_))) {
        body.pop();
    }
}

/// Closes the gaps that removed variables leave.
fn renumber_vars(kernel: &mut Kernel) {
    let mut declared = vec![false; kernel.vars.len()];
    each_stmt(&kernel.body, &mut |s| match s {
        Stmt::Let(v, _) | Stmt::Declare(v, _) | Stmt::For { var: v, .. } | Stmt::Shuffle { var: v, .. } => {
            declared[v.0] = true;
        }
        Stmt::AtomicAdd { old, .. } => declared[old.0] = true,
        Stmt::LoadWide { vars, .. } => vars.iter().for_each(|v| declared[v.0] = true),
        _ => {}
    });
    let mut next = 0;
    let new: Vec<VarId> = declared
        .iter()
        .map(|&d| {
            next += usize::from(d);
            VarId(next.saturating_sub(1))
        })
        .collect();
    let mut keep = declared.iter();
    kernel.vars.retain(|_| *keep.next().expect("one flag a variable"));
    each_stmt_mut(&mut kernel.body, &mut |s| {
        match s {
            Stmt::Let(v, _) | Stmt::Declare(v, _) | Stmt::Assign(v, _) | Stmt::Shuffle { var: v, .. } => *v = new[v.0],
            Stmt::For { var, kind, .. } => {
                *var = new[var.0];
                if let LoopKind::Simd(sums) = kind {
                    sums.iter_mut().for_each(|v| *v = new[v.0]);
                }
            }
            Stmt::AtomicAdd { old, .. } => *old = new[old.0],
            Stmt::LoadWide { vars, .. } => vars.iter_mut().for_each(|v| *v = new[v.0]),
            _ => {}
        }
        own_exprs_mut(s, &mut |e| {
            edit(e, &mut |e| {
                if let Expr::Var(v) = e {
                    *v = new[v.0];
                }
            });
        });
    });
}

/// Drops buffers that no statement mentions.
fn renumber_buffers(kernel: &mut Kernel) -> BTreeSet<BufferId> {
    let mut kept = BTreeSet::new();
    each_expr(&kernel.body, &mut |e| {
        if let Expr::Load(b, _) = e {
            kept.insert(*b);
        }
    });
    each_stmt(&kernel.body, &mut |s| match s {
        Stmt::Store { buffer, .. }
        | Stmt::StoreWide { buffer, .. }
        | Stmt::LoadWide { buffer, .. }
        | Stmt::Prefetch { buffer, .. }
        | Stmt::AtomicAdd { buffer, .. } => {
            kept.insert(*buffer);
        }
        _ => {}
    });
    let order: Vec<BufferId> = kept.iter().copied().collect();
    let new = |b: BufferId| BufferId(order.binary_search(&b).expect("only mentioned buffers are looked up"));
    each_stmt_mut(&mut kernel.body, &mut |s| {
        match s {
            Stmt::Store { buffer, .. }
            | Stmt::StoreWide { buffer, .. }
            | Stmt::LoadWide { buffer, .. }
            | Stmt::Prefetch { buffer, .. }
            | Stmt::AtomicAdd { buffer, .. } => *buffer = new(*buffer),
            _ => {}
        }
        own_exprs_mut(s, &mut |e| {
            edit(e, &mut |e| {
                if let Expr::Load(b, _) = e {
                    *b = new(*b);
                }
            });
        });
    });
    let mut number = 0;
    kernel.buffers.retain(|_| {
        number += 1;
        kept.contains(&BufferId(number - 1))
    });
    kept
}
