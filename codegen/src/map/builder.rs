//! Writes a kernel statement by statement, placing every value where it belongs.
//!
//! [`Builder::bind`] names a value. Two things happen there and nowhere else:
//! - an expression that was bound before, and is still in scope, is not computed twice;
//! - a value goes to the outermost open block in which all it reads is known, so what does not depend on an inner loop
//!   is computed before it. Loads stay inside the innermost conditional block (which may be what keeps them in
//!   bounds), and loads from buffers that the kernel stores to stay where they are.

mod spread;

use std::collections::{BTreeMap, BTreeSet};

use super::fold;
use super::names::{self, Namer};
use crate::kernel::{
    Access, Buffer, BufferId, Element, Expr, IndexWidth, Kernel, LoopKind, Math, Space, Stmt, Type, VarId, Variable,
};
use crate::kernel_walk::{each_expr, each_stmt};
use crate::module::Arg;

pub(crate) use spread::Lines;

/// A kernel under construction.
pub(crate) struct Builder {
    /// Names in use.
    names: Namer,
    /// Identifier of the kernel.
    name: String,
    /// Header lines.
    pub(crate) doc: Vec<String>,
    buffers: Vec<Buffer>,
    /// Arguments of the global buffers, with their buffers.
    args: Vec<(Arg, BufferId)>,
    /// Global buffers that the kernel stores to: their loads are not moved.
    stored: Vec<Arg>,
    vars: Vec<Declared>,
    blocks: Vec<Block>,
}

/// A variable and where it is declared.
struct Declared {
    variable: Variable,
    /// Depth of the block that declares it.
    level: usize,
    /// Assigned after its declaration.
    mutable: bool,
}

/// An open block of statements.
#[derive(Default)]
struct Block {
    stmts: Vec<Stmt>,
    /// Bound expressions, by their text.
    known: BTreeMap<String, VarId>,
    /// Loads may not leave it.
    conditional: bool,
}

impl Builder {
    /// An empty kernel that stores to the given arguments.
    pub(crate) fn new(name: &str, stored: Vec<Arg>) -> Builder {
        let mut names = Namer::default();
        let name = names::of_kernel(name);
        names.take(&name);
        Builder {
            names,
            name,
            doc: Vec::new(),
            buffers: Vec::new(),
            args: Vec::new(),
            stored,
            vars: Vec::new(),
            blocks: vec![Block::default()],
        }
    }

    /// Says that the kernel stores to an argument.
    pub(crate) fn also_stores(&mut self, arg: Arg) {
        self.stored.push(arg);
    }

    /// The buffer of an argument, made at first use.
    pub(crate) fn global(&mut self, arg: Arg, name: &str, element: Element, extent: u64, access: Access) -> BufferId {
        if let Some((_, id)) = self.args.iter().find(|(a, _)| *a == arg) {
            let buffer = &mut self.buffers[id.0];
            if buffer.access != access {
                buffer.access = Access::ReadWrite;
            }
            return *id;
        }
        let id = self.buffer(name, Space::Global, element, extent, access);
        self.args.push((arg, id));
        id
    }

    /// A shared or private buffer.
    pub(crate) fn local(&mut self, name: &str, space: Space, element: Element, extent: u64) -> BufferId {
        self.buffer(name, space, element, extent, Access::ReadWrite)
    }

    fn buffer(&mut self, name: &str, space: Space, element: Element, extent: u64, access: Access) -> BufferId {
        let name = self.names.fresh(name);
        self.buffers.push(Buffer { name, space, element, extent, access });
        BufferId(self.buffers.len() - 1)
    }

    /// A variable declared by the innermost block.
    fn declare_at(&mut self, name: &str, ty: Type, level: usize, mutable: bool) -> VarId {
        let name = self.names.fresh(name);
        self.vars.push(Declared { variable: Variable { name, ty }, level, mutable });
        VarId(self.vars.len() - 1)
    }

    /// Number of the innermost open block.
    pub(crate) fn depth(&self) -> usize {
        self.blocks.len() - 1
    }

    /// Buffers of vectors that the innermost block reads or writes so far, in order.
    pub(crate) fn touched_vectors(&self) -> Vec<BufferId> {
        let mut touched = BTreeSet::new();
        let block = &self.blocks[self.depth()].stmts;
        each_expr(block, &mut |e| {
            if let Expr::Load(buffer, _) = e {
                touched.insert(*buffer);
            }
        });
        each_stmt(block, &mut |s| touched.extend(s.stores_to()));
        let vector = |id: &BufferId| self.args.iter().any(|(arg, b)| b == id && matches!(arg, Arg::Vector(_)));
        touched.into_iter().filter(vector).collect()
    }

    /// Adds a statement to the innermost block.
    pub(crate) fn push(&mut self, stmt: Stmt) {
        let depth = self.depth();
        self.blocks[depth].stmts.push(stmt);
    }

    /// Adds a comment line.
    pub(crate) fn comment(&mut self, text: impl Into<String>) {
        self.push(Stmt::Comment(text.into()));
    }

    /// Names a value; see the module's page.
    pub(crate) fn bind(&mut self, name: &str, value: Expr) -> Expr {
        if matches!(value, Expr::Var(_) | Expr::Int(_) | Expr::Real(..) | Expr::Bool(_)) {
            return value;
        }
        let (level, shareable) = self.placement(&value);
        let key = format!("{value:?}");
        if shareable && let Some(known) = self.blocks[level..].iter().find_map(|b| b.known.get(&key)) {
            return Expr::Var(*known);
        }
        let ty = self.type_of(&value);
        let id = self.declare_at(name, ty, level, false);
        self.blocks[level].stmts.push(Stmt::Let(id, value));
        if shareable {
            self.blocks[level].known.insert(key, id);
        }
        Expr::Var(id)
    }

    /// As [`Builder::bind`], as a variable.
    pub(crate) fn bind_var(&mut self, name: &str, value: Expr) -> VarId {
        match self.bind(name, value.clone()) {
            Expr::Var(id) => id,
            constant => self.bind_here(name, constant),
        }
    }

    /// Names a value in the innermost block, whatever it is.
    pub(crate) fn bind_here(&mut self, name: &str, value: Expr) -> VarId {
        let ty = self.type_of(&value);
        let id = self.declare_at(name, ty, self.depth(), false);
        self.push(Stmt::Let(id, value));
        id
    }

    /// A variable that is assigned later.
    pub(crate) fn declare(&mut self, name: &str, value: Expr) -> VarId {
        let ty = self.type_of(&value);
        let id = self.declare_at(name, ty, self.depth(), true);
        self.push(Stmt::Declare(id, value));
        id
    }

    /// A variable that a statement (`Shuffle`, `AtomicAdd`) declares.
    pub(crate) fn result(&mut self, name: &str, ty: Type) -> VarId {
        let depth = self.depth();
        self.declare_at(name, ty, depth, false)
    }

    /// Opens a loop; its variable is returned.
    pub(crate) fn open_loop(&mut self, name: &str) -> VarId {
        self.blocks.push(Block::default());
        let depth = self.depth();
        self.declare_at(name, Type::Int, depth, false)
    }

    /// Closes the loop opened last.
    ///
    /// A simd loop keeps the sums that it adds to; one that assigns anything else runs in order.
    pub(crate) fn close_loop(&mut self, var: VarId, from: Expr, to: Expr, step: i64, kind: LoopKind) {
        let body = self.close();
        let kind = match kind {
            LoopKind::Simd(sums) => {
                let mut assigned = BTreeSet::new();
                super::tidy::each_stmt(&body, &mut |s| {
                    if let Stmt::Assign(v, _) = s {
                        assigned.insert(*v);
                    }
                });
                let all_sums = assigned.iter().all(|v| sums.contains(v));
                if all_sums { LoopKind::Simd(assigned.into_iter().collect()) } else { LoopKind::Sequential }
            }
            other => other,
        };
        self.push(Stmt::For { var, from, to, step, kind, body });
    }

    /// Opens a conditional block.
    pub(crate) fn open_if(&mut self) {
        self.blocks.push(Block { conditional: true, ..Block::default() });
    }

    /// Closes the conditional block opened last.
    pub(crate) fn close_if(&mut self, cond: Expr) {
        let then = self.close();
        if cond == Expr::Bool(true) {
            for stmt in then {
                self.push(stmt);
            }
        } else {
            self.push(Stmt::If { cond, then, otherwise: Vec::new() });
        }
    }

    /// Closes the innermost block and hands its statements over.
    pub(crate) fn close(&mut self) -> Vec<Stmt> {
        self.blocks.pop().expect("blocks are closed as often as opened").stmts
    }

    /// Whether loads from a buffer may stand anywhere: the kernel does not store to it.
    fn moves(&self, buffer: BufferId) -> bool {
        let stored = || self.args.iter().any(|(arg, id)| *id == buffer && self.stored.contains(arg));
        self.buffers[buffer.0].space == Space::Global && !stored()
    }

    /// Depth at which a value may stand, and whether a second one may use it.
    fn placement(&self, value: &Expr) -> (usize, bool) {
        let conditional = self.blocks.iter().rposition(|b| b.conditional).unwrap_or(0);
        let mut level = 0;
        let mut shareable = true;
        visit(value, &mut |e| match e {
            Expr::Var(v) => {
                level = level.max(self.vars[v.0].level);
                shareable &= !self.vars[v.0].mutable;
            }
            Expr::Load(b, index) => {
                if !self.moves(*b) {
                    shareable = false;
                } else if !matches!(**index, Expr::Int(_)) {
                    level = level.max(conditional);
                }
            }
            _ => {}
        });
        if shareable { (level, true) } else { (self.depth(), false) }
    }

    /// Name of an expression: its own if it is a variable.
    pub(crate) fn name_of(&self, value: &Expr) -> &str {
        match value {
            Expr::Var(v) => &self.vars[v.0].variable.name,
            _ => "factor",
        }
    }

    /// Type of an expression.
    pub(crate) fn type_of(&self, value: &Expr) -> Type {
        match value {
            Expr::Real(_, ty) | Expr::Cast(ty, _) => *ty,
            Expr::Int(_) | Expr::Lane(_) | Expr::Block(_) => Type::Int,
            Expr::Bool(_) | Expr::Not(_) | Expr::Compare(..) => Type::Bool,
            Expr::Var(v) => self.vars[v.0].variable.ty,
            Expr::Load(b, _) => match self.buffers[b.0].element {
                Element::F32 => Type::F32,
                Element::F64 => Type::F64,
                _ => Type::Int,
            },
            Expr::Neg(a) => self.type_of(a),
            Expr::Binary(_, a, _) | Expr::Select(_, a, _) => self.type_of(a),
            Expr::Call(Math::IsFinite, args) | Expr::Call(_, args) => {
                args.first().map_or(Type::F64, |a| self.type_of(a))
            }
        }
    }

    /// Removes what nothing reads and returns the kernel with its arguments.
    pub(crate) fn finish(mut self, grid: [u64; 3], lanes: [u32; 3], index: IndexWidth) -> (Kernel, Vec<Arg>) {
        let body = self.close();
        let vars = self.vars.into_iter().map(|d| d.variable).collect();
        let mut kernel = Kernel {
            name: self.name,
            doc: self.doc,
            buffers: self.buffers,
            grid,
            lanes,
            resident_blocks: None,
            simd_width: None,
            index,
            vars,
            body,
        };
        let kept = super::tidy::tidy(&mut kernel);
        let args = self.args.into_iter().filter(|(_, id)| kept.contains(id)).map(|(arg, _)| arg).collect();
        (kernel, args)
    }
}

/// Visits an expression and its operands.
pub(crate) fn visit(e: &Expr, f: &mut impl FnMut(&Expr)) {
    f(e);
    match e {
        Expr::Load(_, a) | Expr::Neg(a) | Expr::Not(a) | Expr::Cast(_, a) => visit(a, f),
        Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => {
            visit(a, f);
            visit(b, f);
        }
        Expr::Select(c, a, b) => {
            visit(c, f);
            visit(a, f);
            visit(b, f);
        }
        Expr::Call(_, args) => args.iter().for_each(|a| visit(a, f)),
        Expr::Real(..) | Expr::Int(_) | Expr::Bool(_) | Expr::Var(_) | Expr::Lane(_) | Expr::Block(_) => {}
    }
}

/// `a + b` of reals where either may be absent (zero).
pub(crate) fn plus(a: Option<Expr>, b: Option<Expr>) -> Option<Expr> {
    match (a, b) {
        (Some(a), Some(b)) => Some(fold::add(a, b)),
        (a, None) => a,
        (None, b) => b,
    }
}
