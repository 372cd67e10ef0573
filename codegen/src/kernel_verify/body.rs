//! Checks of statements: scopes, memory, where lanes may meet, vector loops.

use super::Report;
use super::residue::{self, Residue, fits};
use super::uniform::{Level, Uniformity};
use crate::kernel::{Access, BufferId, Element, Expr, Kernel, LoopKind, Scope, Shuffle, Space, Stmt, Type, VarId};
use crate::kernel_text::{headline, type_name};
use crate::kernel_walk::{each_stmt, reduction};

pub(super) fn check(report: &mut Report<'_>) {
    let kernel = report.kernel;
    let uniformity = Uniformity::of(kernel);
    let mut checker = Checker {
        report,
        uniformity,
        path: Vec::new(),
        at: String::new(),
        scopes: Vec::new(),
        declared: vec![None; kernel.vars.len()],
        residues: vec![Residue::UNKNOWN; kernel.vars.len()],
        control: Level::Launch,
        in_simd: false,
        waits_for_grid: kernel.waits_for_grid(),
    };
    checker.block("body", &kernel.body);
}

/// How a variable came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Declared {
    Immutable,
    Mutable,
}

/// The walk over the statements.
pub(super) struct Checker<'r, 'k> {
    report: &'r mut Report<'k>,
    uniformity: Uniformity<'k>,
    /// Steps from the body to the statement.
    path: Vec<String>,
    /// The statement, for messages.
    at: String,
    /// Variables of the blocks around, innermost last.
    scopes: Vec<Vec<VarId>>,
    declared: Vec<Option<Declared>>,
    residues: Vec<Residue>,
    /// For whom the control flow around is the same.
    control: Level,
    in_simd: bool,
    waits_for_grid: bool,
}

impl<'k> Checker<'_, 'k> {
    pub(super) fn kernel(&self) -> &'k Kernel {
        self.report.kernel
    }

    pub(super) fn error(&mut self, why: impl Into<String>) {
        self.report.error(self.at.clone(), why);
    }

    /// Reports unless it holds.
    pub(super) fn require(&mut self, holds: bool, why: impl FnOnce() -> String) -> Option<()> {
        if !holds {
            self.error(why());
        }
        holds.then_some(())
    }

    pub(super) fn in_scope(&self, var: VarId) -> bool {
        self.scopes.iter().any(|scope| scope.contains(&var))
    }

    fn block(&mut self, name: &str, stmts: &'k [Stmt]) {
        self.scopes.push(Vec::new());
        for (n, stmt) in stmts.iter().enumerate() {
            self.path.push(format!("{name}[{n}]"));
            self.at = format!("{} `{}`", self.path.join("."), headline(self.kernel(), stmt));
            self.stmt(stmt);
            self.path.pop();
        }
        self.scopes.pop();
    }

    fn stmt(&mut self, stmt: &'k Stmt) {
        match stmt {
            Stmt::Comment(_) => {}
            Stmt::Let(var, value) => self.define(*var, value, Declared::Immutable),
            Stmt::Declare(var, value) => self.define(*var, value, Declared::Mutable),
            Stmt::Assign(var, value) => self.assign(*var, value),
            Stmt::Store { buffer, index, value } => {
                self.index(*buffer, index, 1);
                self.storable(*buffer);
                self.value_of(*buffer, value);
            }
            Stmt::LoadWide { vars, buffer, index } => self.load_wide(vars, *buffer, index),
            Stmt::StoreWide { buffer, index, values } => {
                self.wide(*buffer, index, values.len());
                self.storable(*buffer);
                values.iter().for_each(|value| self.value_of(*buffer, value));
            }
            Stmt::For { .. } => self.counted_loop(stmt),
            Stmt::If { cond, then, otherwise } => {
                self.expect(cond, Type::Bool, "a condition");
                self.guarded(stmt, |checker| {
                    checker.block("then", then);
                    checker.block("otherwise", otherwise);
                });
            }
            Stmt::ExitIf(cond) => self.exit(cond),
            Stmt::Barrier(scope) => self.barrier(*scope),
            Stmt::Shuffle { var, value, mode, width } => self.shuffle(*var, value, mode, *width),
            Stmt::AtomicAdd { old, buffer, index, value } => self.atomic_add(*old, *buffer, index, value),
            Stmt::Prefetch { buffer, index } => self.prefetch(*buffer, index),
            Stmt::Fence => self.not_in_simd("a fence"),
        }
    }

    fn prefetch(&mut self, buffer: BufferId, index: &Expr) {
        self.index(buffer, index, 1);
        let global = self.kernel().buffers.get(buffer.0).is_some_and(|b| b.space == Space::Global);
        self.require(global, || "a prefetch from memory that is not global".into());
    }

    fn declare(&mut self, var: VarId, how: Declared) {
        let name = self.kernel().var_name(var);
        self.require(self.declared[var.0].is_none(), || format!("`{name}` is declared twice"));
        self.declared[var.0] = Some(how);
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(var);
        }
    }

    fn define(&mut self, var: VarId, value: &Expr, how: Declared) {
        let ty = self.kernel().vars[var.0].ty;
        self.expect(value, ty, "the value of the variable");
        self.declare(var, how);
        if how == Declared::Immutable && ty == Type::Int {
            self.residues[var.0] = residue::of(self.kernel(), &self.residues, value);
        }
    }

    fn assign(&mut self, var: VarId, value: &Expr) {
        let name = self.kernel().var_name(var);
        self.expect(value, self.kernel().vars[var.0].ty, "the value of the variable");
        if self.require(self.in_scope(var), || format!("`{name}` is not declared here")).is_some() {
            let mutable = self.declared[var.0] == Some(Declared::Mutable);
            self.require(mutable, || format!("`{name}` cannot be assigned: it was not declared as mutable"));
        }
    }

    fn value_of(&mut self, buffer: BufferId, value: &Expr) {
        let wanted = self.kernel().buffers[buffer.0].element.value_type();
        self.expect(value, wanted, "the stored value");
    }

    fn storable(&mut self, buffer: BufferId) {
        let of = &self.kernel().buffers[buffer.0];
        let allowed = of.space == Space::Private || !of.access.is_read();
        self.require(allowed, || format!("`{}` is read-only", of.name));
    }

    fn wide(&mut self, buffer: BufferId, index: &Expr, elements: usize) {
        self.index(buffer, index, elements);
        self.require(matches!(elements, 2 | 4), || format!("a wide access has 2 or 4 elements, not {elements}"));
        if matches!(elements, 2 | 4) {
            let known = residue::of(self.kernel(), &self.residues, index);
            self.require(!known.excludes_multiples_of(elements), || {
                format!("the index of a wide access must be a multiple of {elements}")
            });
        }
    }

    fn load_wide(&mut self, vars: &[VarId], buffer: BufferId, index: &Expr) {
        self.wide(buffer, index, vars.len());
        self.loadable(buffer);
        let element = self.kernel().buffers[buffer.0].element.value_type();
        for &var in vars {
            let of = &self.kernel().vars[var.0];
            self.require(of.ty == element, || {
                format!("`{}` is of type {}, the elements are {}", of.name, type_name(of.ty), type_name(element))
            });
            self.declare(var, Declared::Immutable);
        }
    }

    /// Checks what is inside a branch or loop, where control flow is as uniform as its decision.
    fn guarded(&mut self, stmt: &Stmt, inside: impl FnOnce(&mut Self)) {
        let around = self.control;
        self.control = around.max(self.uniformity.decision(stmt));
        inside(self);
        self.control = around;
    }

    fn counted_loop(&mut self, stmt: &'k Stmt) {
        let Stmt::For { var, from, to, step, kind, body } = stmt else { return };
        self.expect(from, Type::Int, "the first value");
        self.expect(to, Type::Int, "the bound");
        let ty = self.kernel().vars[var.0].ty;
        self.require(ty == Type::Int, || "a loop counts integers".to_owned());
        self.require(*step != 0, || "a loop needs a step".to_owned());
        self.require(fits(*step, self.kernel().index), || "the step is too large for the kernel's integers".to_owned());
        self.residues[var.0] = residue::of_loop(residue::of(self.kernel(), &self.residues, from), *step);
        self.bound(to, body);
        let around = self.in_simd;
        if let LoopKind::Simd(sums) = kind {
            self.require(!around, || "a vector loop cannot stand in another".to_owned());
            self.vector_loop(sums, body);
            self.in_simd = true;
        }
        self.scopes.push(Vec::new());
        self.declare(*var, Declared::Immutable);
        self.guarded(stmt, |checker| checker.block("for", body));
        self.scopes.pop();
        self.in_simd = around;
    }

    /// The bound reads nothing that the body changes: it may be evaluated once or before every iteration.
    fn bound(&mut self, to: &Expr, body: &[Stmt]) {
        let kernel = self.kernel();
        let mut changed = None;
        each_stmt(body, &mut |stmt| {
            let reads = |part: &Expr| match (part, stmt) {
                (Expr::Var(var), Stmt::Assign(assigned, _)) => var == assigned,
                (Expr::Load(buffer, _), _) => stmt.stores_to() == Some(*buffer),
                _ => false,
            };
            if to.any(&mut { reads }) {
                changed = Some(headline(kernel, stmt));
            }
        });
        if let Some(stmt) = changed {
            self.error(format!("the body changes what the bound reads: `{stmt}`"));
        }
    }

    /// Iterations may only meet in sums.
    fn vector_loop(&mut self, sums: &[VarId], body: &[Stmt]) {
        for &sum in sums {
            let name = self.kernel().var_name(sum);
            let known = self.in_scope(sum) && self.declared[sum.0] == Some(Declared::Mutable);
            self.require(known, || format!("`{name}` is summed into but not declared before the loop"));
            self.require(reduction(body, sum).is_some(), || {
                format!("`{name}` is not only summed into (v = v + e, v - e, fma(a, b, v), min(v, e) or max(v, e))")
            });
        }
        let mut carried = Vec::new();
        each_stmt(body, &mut |stmt| match stmt {
            Stmt::Assign(var, _) if self.in_scope(*var) && !sums.contains(var) && !carried.contains(var) => {
                carried.push(*var);
            }
            _ => {}
        });
        for var in carried {
            let name = self.kernel().var_name(var);
            self.error(format!("iterations of a vector loop are not independent: they assign `{name}`"));
        }
    }

    fn exit(&mut self, cond: &Expr) {
        self.expect(cond, Type::Bool, "a condition");
        self.require(self.path.len() == 1, || "an exit must stand at the top level".to_owned());
        let level = self.uniformity.expr(cond);
        self.require(level < Level::Lane, || {
            "the condition of an exit must be the same for all lanes of the block".to_owned()
        });
        // Blocks that left would be waited for.
        let waited_for = self.waits_for_grid && level == Level::Block;
        self.require(!waited_for, || "before a barrier of the grid, all blocks must exit or none".to_owned());
    }

    fn barrier(&mut self, scope: Scope) {
        self.several_lanes("a barrier");
        self.not_in_simd("a barrier");
        let (limit, who) = match scope {
            Scope::Block => (Level::Block, "the lane"),
            Scope::Grid => (Level::Launch, "the block or lane"),
        };
        self.require(self.control <= limit, || format!("a barrier stands where control flow depends on {who}"));
    }

    fn several_lanes(&mut self, what: &str) {
        let lanes = self.kernel().lane_count();
        self.require(lanes > 1, || format!("{what} in a kernel of one lane"));
    }

    fn not_in_simd(&mut self, what: &str) {
        self.require(!self.in_simd, || format!("{what} in a vector loop"));
    }

    fn shuffle(&mut self, var: VarId, value: &Expr, mode: &Shuffle, width: u32) {
        let ty = self.kernel().vars[var.0].ty;
        self.expect(value, ty, "the shuffled value");
        self.require(ty != Type::Bool, || "truth values cannot be shuffled".to_owned());
        self.several_lanes("a shuffle");
        self.not_in_simd("a shuffle");
        self.require(self.control < Level::Lane, || {
            "a shuffle stands where control flow depends on the lane".to_owned()
        });
        let sized = width.is_power_of_two() && width <= 32;
        if self.require(sized, || format!("a group has 1, 2, 4, 8, 16 or 32 lanes, not {width}")).is_some() {
            let lanes = self.kernel().lane_count();
            let whole = lanes.is_multiple_of(u64::from(width)) && (lanes < 32 || lanes.is_multiple_of(32));
            self.require(whole, || format!("{lanes} lanes are no whole number of groups and warps"));
        }
        match mode {
            Shuffle::Down(n) | Shuffle::Up(n) | Shuffle::Xor(n) => {
                self.require(*n < width, || format!("a distance of {n} leaves a group of {width} lanes"));
            }
            Shuffle::Index(source) => {
                self.expect(source, Type::Int, "the source lane");
                let inside = source.constant().is_none_or(|n| (0..i64::from(width)).contains(&n));
                self.require(inside, || format!("the source lane is outside of a group of {width} lanes"));
            }
        }
        self.declare(var, Declared::Immutable);
    }

    fn atomic_add(&mut self, old: VarId, buffer: BufferId, index: &Expr, value: &Expr) {
        self.not_in_simd("an atomic addition");
        self.index(buffer, index, 1);
        self.expect(value, Type::Int, "the added value");
        let of = &self.kernel().buffers[buffer.0];
        self.require(of.element == Element::I32, || format!("`{}` must have i32 elements", of.name));
        self.require(of.space != Space::Private, || format!("`{}` is private: nobody else adds", of.name));
        let both = of.access == Access::ReadWrite;
        self.require(both, || format!("`{}` must be read and written, by its declaration", of.name));
        let ty = self.kernel().vars[old.0].ty;
        self.require(ty == Type::Int, || "the value before an addition is an integer".to_owned());
        self.declare(old, Declared::Immutable);
    }
}
