//! Questions about kernels that several stages ask: types of expressions, what is used where, kinds of reductions.
//!
//! Nothing here panics on a kernel that is not well formed; the answers are meaningful for verified ones.

use crate::kernel::{
    BufferId, Element, Expr, Kernel, LoopKind, MULTIPROCESSOR_LANES, Math, Op, Scope, Shuffle, Space, Stmt, Type, VarId,
};

impl Kernel {
    /// Asks for so many blocks on a multiprocessor, or as many as it holds lanes for; none and 0 ask for nothing.
    pub fn hold(&mut self, blocks: Option<u32>) {
        let most = (u64::from(MULTIPROCESSOR_LANES) / self.lane_count().max(1)) as u32;
        self.resident_blocks = blocks.map(|blocks| blocks.min(most)).filter(|&blocks| blocks > 0);
    }

    /// Lanes of a block.
    pub fn lane_count(&self) -> u64 {
        self.lanes.iter().map(|&n| u64::from(n)).product()
    }

    /// Blocks of the grid.
    pub fn block_count(&self) -> u64 {
        self.grid.iter().product()
    }

    /// Whether blocks wait for each other, so that all must be resident at once (cooperative launch).
    pub fn waits_for_grid(&self) -> bool {
        let mut waits = false;
        each_stmt(&self.body, &mut |stmt| waits |= *stmt == Stmt::Barrier(Scope::Grid));
        waits
    }

    /// The global buffers, that is the arguments, in order.
    pub fn arguments(&self) -> impl Iterator<Item = BufferId> + '_ {
        (0..self.buffers.len()).map(BufferId).filter(|id| self.buffers[id.0].space == Space::Global)
    }

    /// Bytes of a buffer (of one lane, if private).
    pub fn buffer_bytes(&self, id: BufferId) -> u64 {
        self.buffers.get(id.0).map_or(0, |buffer| buffer.extent.saturating_mul(buffer.element.bytes()))
    }

    /// Name of a variable.
    pub(crate) fn var_name(&self, id: VarId) -> String {
        self.vars.get(id.0).map_or_else(|| format!("variable#{}", id.0), |var| var.name.clone())
    }

    /// Name of a buffer.
    pub(crate) fn buffer_name(&self, id: BufferId) -> String {
        self.buffers.get(id.0).map_or_else(|| format!("buffer#{}", id.0), |buffer| buffer.name.clone())
    }

    /// Type of an expression, from its parts.
    pub fn type_of(&self, expr: &Expr) -> Type {
        match expr {
            Expr::Real(_, ty) | Expr::Cast(ty, _) => *ty,
            Expr::Int(_) | Expr::Lane(_) | Expr::Block(_) => Type::Int,
            Expr::Bool(_) | Expr::Not(_) | Expr::Compare(..) | Expr::Binary(Op::And | Op::Or, ..) => Type::Bool,
            Expr::Var(id) => self.vars.get(id.0).map_or(Type::Int, |var| var.ty),
            Expr::Load(id, _) => self.buffers.get(id.0).map_or(Type::Int, |buffer| buffer.element.value_type()),
            Expr::Neg(a) | Expr::Binary(_, a, _) | Expr::Select(_, a, _) => self.type_of(a),
            Expr::Call(_, args) => args.first().map_or(Type::F64, |arg| self.type_of(arg)),
        }
    }
}

impl Element {
    /// Size of an element.
    pub fn bytes(self) -> u64 {
        match self {
            Element::I16 | Element::U16 => 2,
            Element::F32 | Element::I32 | Element::U32 => 4,
            Element::F64 | Element::I64 => 8,
        }
    }

    /// Type of a loaded element.
    pub fn value_type(self) -> Type {
        match self {
            Element::F32 => Type::F32,
            Element::F64 => Type::F64,
            Element::I16 | Element::U16 | Element::I32 | Element::U32 | Element::I64 => Type::Int,
        }
    }
}

impl Math {
    /// Number of arguments.
    pub fn arity(self) -> usize {
        match self {
            Math::Pow => 2,
            Math::Fma => 3,
            _ => 1,
        }
    }
}

impl Stmt {
    /// Blocks inside the statement.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        match self {
            Stmt::For { body, .. } => vec![body],
            Stmt::If { then, otherwise, .. } => vec![then, otherwise],
            _ => Vec::new(),
        }
    }

    /// Expressions of the statement itself, in order of evaluation.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Stmt::Comment(_) | Stmt::Barrier(_) | Stmt::Fence => Vec::new(),
            Stmt::Let(_, e) | Stmt::Declare(_, e) | Stmt::Assign(_, e) | Stmt::ExitIf(e) => vec![e],
            Stmt::Store { index, value, .. } | Stmt::AtomicAdd { index, value, .. } => vec![index, value],
            Stmt::LoadWide { index, .. } | Stmt::Prefetch { index, .. } => vec![index],
            Stmt::StoreWide { index, values, .. } => std::iter::once(index).chain(values).collect(),
            Stmt::For { from, to, .. } => vec![from, to],
            Stmt::If { cond, .. } => vec![cond],
            Stmt::Shuffle { value, mode: Shuffle::Index(source), .. } => vec![value, source],
            Stmt::Shuffle { value, .. } => vec![value],
        }
    }

    /// Variables the statement declares.
    pub fn declares(&self) -> Vec<VarId> {
        match self {
            Stmt::Let(var, _) | Stmt::Declare(var, _) | Stmt::For { var, .. } => vec![*var],
            Stmt::Shuffle { var, .. } | Stmt::AtomicAdd { old: var, .. } => vec![*var],
            Stmt::LoadWide { vars, .. } => vars.clone(),
            _ => Vec::new(),
        }
    }

    /// Buffer the statement itself stores to.
    pub fn stores_to(&self) -> Option<BufferId> {
        match self {
            Stmt::Store { buffer, .. } | Stmt::StoreWide { buffer, .. } | Stmt::AtomicAdd { buffer, .. } => {
                Some(*buffer)
            }
            _ => None,
        }
    }

    /// Whether lanes meet in it: a barrier or a shuffle, here or inside.
    pub fn synchronises(&self) -> bool {
        match self {
            Stmt::Barrier(_) | Stmt::Shuffle { .. } => true,
            _ => self.blocks().into_iter().flatten().any(Stmt::synchronises),
        }
    }
}

impl Expr {
    /// Operands, in order.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Expr::Real(..) | Expr::Int(_) | Expr::Bool(_) | Expr::Var(_) | Expr::Lane(_) | Expr::Block(_) => Vec::new(),
            Expr::Load(_, a) | Expr::Neg(a) | Expr::Not(a) | Expr::Cast(_, a) => vec![a],
            Expr::Binary(_, a, b) | Expr::Compare(_, a, b) => vec![a, b],
            Expr::Select(c, a, b) => vec![c, a, b],
            Expr::Call(_, args) => args.iter().collect(),
        }
    }

    /// Whether any part of the expression, itself included, is such.
    pub fn any(&self, such: &mut impl FnMut(&Expr) -> bool) -> bool {
        such(self) || self.operands().into_iter().any(|operand| operand.any(such))
    }

    /// Whether it reads a variable.
    pub fn reads(&self, var: VarId) -> bool {
        self.any(&mut |e| *e == Expr::Var(var))
    }

    /// The value, if it is an integer known without running.
    pub fn constant(&self) -> Option<i64> {
        match self {
            Expr::Int(value) => Some(*value),
            Expr::Neg(a) => a.constant()?.checked_neg(),
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.constant()?, b.constant()?);
                match op {
                    Op::Add => a.checked_add(b),
                    Op::Sub => a.checked_sub(b),
                    Op::Mul => a.checked_mul(b),
                    Op::Div => a.checked_div(b),
                    Op::Rem => a.checked_rem(b),
                    Op::Min => Some(a.min(b)),
                    Op::Max => Some(a.max(b)),
                    Op::And | Op::Or => None,
                }
            }
            _ => None,
        }
    }
}

/// An expression whose operands are what `f` makes of them, in order.
pub fn map_operands(e: &Expr, f: &mut impl FnMut(&Expr) -> Expr) -> Expr {
    let mut of = |e: &Expr| Box::new(f(e));
    match e {
        Expr::Load(b, a) => Expr::Load(*b, of(a)),
        Expr::Neg(a) => Expr::Neg(of(a)),
        Expr::Not(a) => Expr::Not(of(a)),
        Expr::Cast(ty, a) => Expr::Cast(*ty, of(a)),
        Expr::Binary(op, a, b) => Expr::Binary(*op, of(a), of(b)),
        Expr::Compare(op, a, b) => Expr::Compare(*op, of(a), of(b)),
        Expr::Select(c, a, b) => Expr::Select(of(c), of(a), of(b)),
        Expr::Call(function, args) => Expr::Call(*function, args.iter().map(f).collect()),
        Expr::Real(..) | Expr::Int(_) | Expr::Bool(_) | Expr::Var(_) | Expr::Lane(_) | Expr::Block(_) => e.clone(),
    }
}

/// Calls `f` for every statement, outer ones first.
pub fn each_stmt(stmts: &[Stmt], f: &mut impl FnMut(&Stmt)) {
    for stmt in stmts {
        f(stmt);
        for block in stmt.blocks() {
            each_stmt(block, f);
        }
    }
}

/// Calls `f` for every expression of every statement, outer ones first.
pub fn each_expr(stmts: &[Stmt], f: &mut impl FnMut(&Expr)) {
    each_stmt(stmts, &mut |stmt| {
        for expr in stmt.exprs() {
            expr.any(&mut |e| {
                f(e);
                false
            });
        }
    });
}

/// What a kernel uses, by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Variables some expression reads.
    pub read: Vec<bool>,
    /// Buffers that are loaded from.
    pub loaded: Vec<bool>,
    /// Buffers that are stored to.
    pub stored: Vec<bool>,
    /// Buffers with a wide access.
    pub wide: Vec<bool>,
    /// Axes whose lane position is read.
    pub lane: [bool; 3],
    /// Axes whose block position is read.
    pub block: [bool; 3],
}

impl Usage {
    /// Collects the uses of a kernel's body.
    pub fn of(kernel: &Kernel) -> Usage {
        let buffers = vec![false; kernel.buffers.len()];
        let mut usage = Usage {
            read: vec![false; kernel.vars.len()],
            loaded: buffers.clone(),
            stored: buffers.clone(),
            wide: buffers,
            lane: [false; 3],
            block: [false; 3],
        };
        each_stmt(&kernel.body, &mut |stmt| usage.stmt(stmt));
        each_expr(&kernel.body, &mut |expr| usage.expr(expr));
        usage
    }

    /// Whether a buffer is accessed at all.
    pub fn accessed(&self, id: BufferId) -> bool {
        self.loaded.get(id.0) == Some(&true) || self.stored.get(id.0) == Some(&true)
    }

    fn stmt(&mut self, stmt: &Stmt) {
        if let Some(buffer) = stmt.stores_to() {
            mark(&mut self.stored, buffer.0);
        }
        match stmt {
            Stmt::LoadWide { buffer, .. } => {
                mark(&mut self.loaded, buffer.0);
                mark(&mut self.wide, buffer.0);
            }
            Stmt::StoreWide { buffer, .. } => mark(&mut self.wide, buffer.0),
            Stmt::AtomicAdd { buffer, .. } | Stmt::Prefetch { buffer, .. } => mark(&mut self.loaded, buffer.0),
            _ => {}
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Var(var) => mark(&mut self.read, var.0),
            Expr::Load(buffer, _) => mark(&mut self.loaded, buffer.0),
            Expr::Lane(axis) => mark(&mut self.lane, usize::from(*axis)),
            Expr::Block(axis) => mark(&mut self.block, usize::from(*axis)),
            _ => {}
        }
    }
}

fn mark(flags: &mut [bool], at: usize) {
    if let Some(flag) = flags.get_mut(at) {
        *flag = true;
    }
}

/// How the iterations of a loop combine into a variable: [`Op::Add`], [`Op::Min`] or [`Op::Max`].
///
/// Every assignment must have the form `v = v + e`, `v = e + v`, `v = v - e`, `v = fma(a, b, v)`, `v = min(v, e)` or
/// `v = max(v, e)` with an `e` that does not read `v`, all of one kind, and nothing else may read `v`.
pub fn reduction(body: &[Stmt], var: VarId) -> Option<Op> {
    let mut kinds = Vec::new();
    let mut well_formed = true;
    each_stmt(body, &mut |stmt| match stmt {
        Stmt::Assign(target, value) if *target == var => match contribution(value, var) {
            Some(kind) => kinds.push(kind),
            None => well_formed = false,
        },
        _ => well_formed &= !stmt.exprs().into_iter().any(|e| e.reads(var)),
    });
    let first = *kinds.first()?;
    (well_formed && kinds.iter().all(|&kind| kind == first)).then_some(first)
}

fn contribution(value: &Expr, var: VarId) -> Option<Op> {
    let is_var = |e: &Expr| *e == Expr::Var(var);
    match value {
        Expr::Binary(op @ (Op::Add | Op::Min | Op::Max), a, b)
            if (is_var(a) && !b.reads(var)) || (is_var(b) && !a.reads(var)) =>
        {
            Some(*op)
        }
        Expr::Binary(Op::Sub, a, b) if is_var(a) && !b.reads(var) => Some(Op::Add),
        Expr::Call(Math::Fma, args) => match args.as_slice() {
            [a, b, c] if is_var(c) && !a.reads(var) && !b.reads(var) => Some(Op::Add),
            _ => None,
        },
        _ => None,
    }
}

/// Variables summed into by a vector loop.
pub fn simd_sums(kind: &LoopKind) -> &[VarId] {
    match kind {
        LoopKind::Simd(vars) => vars,
        LoopKind::Sequential | LoopKind::Unroll(_) => &[],
    }
}
