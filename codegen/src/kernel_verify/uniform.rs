//! Uniformity: which values, and so which control flow, are the same for all lanes of a block or of the launch.
//!
//! A least fixed point over [`Level`]: variables start as the same everywhere and are raised by what they are given,
//! and by the control flow around an assignment. Loads from global memory are as uniform as their index (there are no
//! conflicts between lanes, see [`kernel_verify`](super)), those from shared memory are the block's, those from
//! private memory as uniform as all that is stored there. Where lanes add atomically, each may see another value.

use crate::kernel::{Expr, Kernel, Space, Stmt, VarId};
use crate::kernel_walk::each_stmt;

/// For whom a value is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// All lanes of the launch.
    Launch,
    /// All lanes of a block.
    Block,
    /// Each lane has its own.
    Lane,
}

/// Levels of variables and buffers.
pub(super) struct Uniformity<'a> {
    kernel: &'a Kernel,
    vars: Vec<Level>,
    buffers: Vec<Level>,
    changed: bool,
}

impl<'a> Uniformity<'a> {
    pub fn of(kernel: &'a Kernel) -> Uniformity<'a> {
        let of_space = |space| if space == Space::Shared { Level::Block } else { Level::Launch };
        let mut buffers: Vec<Level> = kernel.buffers.iter().map(|buffer| of_space(buffer.space)).collect();
        each_stmt(&kernel.body, &mut |stmt| {
            if let Stmt::AtomicAdd { buffer, .. } = stmt {
                buffers[buffer.0] = Level::Lane;
            }
        });
        let vars = vec![Level::Launch; kernel.vars.len()];
        let mut uniformity = Uniformity { kernel, vars, buffers, changed: true };
        while std::mem::take(&mut uniformity.changed) {
            uniformity.block(&kernel.body, Level::Launch);
        }
        uniformity
    }

    /// Level of an expression.
    pub fn expr(&self, expr: &Expr) -> Level {
        let own = match expr {
            Expr::Var(var) => self.vars[var.0],
            Expr::Load(buffer, _) => self.buffers[buffer.0],
            Expr::Lane(axis) if self.kernel.lanes.get(usize::from(*axis)) != Some(&1) => Level::Lane,
            Expr::Block(axis) if self.kernel.grid.get(usize::from(*axis)) != Some(&1) => Level::Block,
            _ => Level::Launch,
        };
        expr.operands().into_iter().map(|operand| self.expr(operand)).fold(own, Level::max)
    }

    /// Level of the decision a branch or loop takes.
    pub fn decision(&self, stmt: &Stmt) -> Level {
        stmt.exprs().into_iter().map(|e| self.expr(e)).max().unwrap_or(Level::Launch)
    }

    fn block(&mut self, stmts: &[Stmt], control: Level) {
        for stmt in stmts {
            self.stmt(stmt, control);
            let inner = control.max(self.decision(stmt));
            for block in stmt.blocks() {
                self.block(block, inner);
            }
        }
    }

    fn stmt(&mut self, stmt: &Stmt, control: Level) {
        match stmt {
            Stmt::Let(var, value) | Stmt::Declare(var, value) => self.raise(*var, self.expr(value)),
            Stmt::Assign(var, value) => self.raise(*var, control.max(self.expr(value))),
            Stmt::For { var, .. } => self.raise(*var, self.decision(stmt)),
            Stmt::LoadWide { vars, buffer, index } => {
                let level = self.expr(index).max(self.buffers[buffer.0]);
                vars.iter().for_each(|&var| self.raise(var, level));
            }
            Stmt::Shuffle { var, .. } | Stmt::AtomicAdd { old: var, .. } => self.raise(*var, Level::Lane),
            Stmt::Store { buffer, .. } | Stmt::StoreWide { buffer, .. }
                if self.kernel.buffers[buffer.0].space == Space::Private =>
            {
                let level = control.max(self.decision(stmt));
                self.changed |= self.buffers[buffer.0] < level;
                self.buffers[buffer.0] = self.buffers[buffer.0].max(level);
            }
            _ => {}
        }
    }

    fn raise(&mut self, var: VarId, level: Level) {
        self.changed |= self.vars[var.0] < level;
        self.vars[var.0] = self.vars[var.0].max(level);
    }
}
