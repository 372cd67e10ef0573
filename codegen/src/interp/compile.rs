//! Kernel IR to linear code: statements. Expressions are in [`expressions`](super::expressions).

use std::collections::BTreeMap;

use super::code::{BufferInfo, Code, Counts, File, From, Inst, Pc, Reg, Site};
use super::error::InterpError;
use crate::kernel::{BufferId, Expr, Kernel, LoopKind, Scope, Shuffle, Space, Stmt, Type, VarId};
use crate::kernel_text::headline;
use crate::kernel_walk::{each_expr, each_stmt};

/// Compiles a kernel.
pub(super) fn compile(kernel: &Kernel) -> Result<Code, InterpError> {
    let mut compiler = Compiler::new(kernel)?;
    compiler.body(&kernel.body, "body")?;
    compiler.emit(Inst::Return);
    Ok(compiler.code)
}

/// A value: its register and type.
pub(super) type Value = (Reg, Type);

pub(super) struct Compiler<'k> {
    pub kernel: &'k Kernel,
    pub code: Code,
    /// First free register of each file.
    free: Counts,
    pub reals: BTreeMap<(u64, bool), Reg>,
    pub ints: BTreeMap<i64, Reg>,
    pub bools: BTreeMap<bool, Reg>,
    /// Registers of the variables.
    pub vars: Vec<Reg>,
}

/// Register file of a type.
pub(super) fn file(ty: Type) -> File {
    match ty {
        Type::F32 | Type::F64 => File::Real,
        Type::Int => File::Int,
        Type::Bool => File::Bool,
    }
}

impl<'k> Compiler<'k> {
    fn new(kernel: &'k Kernel) -> Result<Compiler<'k>, InterpError> {
        let code = Code {
            insts: Vec::new(),
            sites: Vec::new(),
            statements: vec![Site { place: "body".into(), text: "end of the kernel".into() }],
            buffers: buffers(kernel),
            counts: Counts::default(),
            real_constants: Vec::new(),
            int_constants: Vec::new(),
            bool_constants: Vec::new(),
            lane: [None; 3],
            block: [None; 3],
            grid_barrier: false,
            simd: false,
        };
        let (reals, ints, bools) = Default::default();
        let mut compiler = Compiler { kernel, code, free: Counts::default(), reals, ints, bools, vars: Vec::new() };
        compiler.vars = kernel.vars.iter().map(|var| compiler.register(file(var.ty))).collect();
        // Constants are found while compiling but live for ever: they get registers first.
        each_expr(&kernel.body, &mut |e| compiler.constant(e));
        let lanes = kernel.lanes.iter().fold(1, |product: u64, &n| product.saturating_mul(n.into()));
        if lanes == 0 || lanes > 1024 {
            return Err(compiler.malformed(format!("{lanes} lanes a block")));
        }
        Ok(compiler)
    }

    /// An error at the statement being compiled.
    pub fn malformed(&self, what: impl Into<String>) -> InterpError {
        let place = self.code.statements.last().map_or_else(|| "body".into(), |site| site.place.clone());
        InterpError::Malformed { kernel: self.kernel.name.clone(), place, what: what.into() }
    }

    /// A free register, given back when the statement ends.
    pub fn register(&mut self, file: File) -> Reg {
        let (free, most) = match file {
            File::Real => (&mut self.free.reals, &mut self.code.counts.reals),
            File::Int => (&mut self.free.ints, &mut self.code.counts.ints),
            File::Bool => (&mut self.free.bools, &mut self.code.counts.bools),
        };
        let register = *free;
        *free += 1;
        *most = (*most).max(*free);
        register
    }

    pub fn emit(&mut self, inst: Inst) -> usize {
        let site = self.code.statements.len() as u32 - 1;
        self.code.insts.push(inst);
        self.code.sites.push(site);
        self.code.insts.len() - 1
    }

    pub fn here(&self) -> Pc {
        self.code.insts.len() as Pc
    }

    fn body(&mut self, body: &[Stmt], path: &str) -> Result<(), InterpError> {
        for (n, stmt) in body.iter().enumerate() {
            if matches!(stmt, Stmt::Comment(_)) {
                continue;
            }
            let place = format!("{path}[{n}]");
            self.code.statements.push(Site { place: place.clone(), text: headline(self.kernel, stmt) });
            let free = self.free;
            self.statement(stmt, &place)?;
            self.free = free;
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt, place: &str) -> Result<(), InterpError> {
        match stmt {
            Stmt::Comment(_) => {}
            Stmt::Let(var, value) | Stmt::Declare(var, value) | Stmt::Assign(var, value) => self.assign(*var, value)?,
            Stmt::Store { buffer, index, value } => self.store(*buffer, index, std::slice::from_ref(value))?,
            Stmt::StoreWide { buffer, index, values } => self.store(*buffer, index, values)?,
            Stmt::LoadWide { vars, buffer, index } => self.load_wide(vars, *buffer, index)?,
            Stmt::For { .. } => self.repeat(stmt, place)?,
            Stmt::If { cond, then, otherwise } => {
                let cond = self.typed(cond, Type::Bool)?;
                let start = self.emit(Inst::If { cond, otherwise: 0 });
                self.body(then, &format!("{place}.then"))?;
                let middle = self.otherwise(start);
                self.body(otherwise, &format!("{place}.else"))?;
                self.end_if(middle);
            }
            Stmt::ExitIf(cond) => {
                let cond = self.typed(cond, Type::Bool)?;
                self.emit(Inst::ExitIf(cond));
            }
            Stmt::Barrier(scope) => {
                self.code.grid_barrier |= *scope == Scope::Grid;
                self.emit(Inst::Barrier(*scope));
            }
            Stmt::Shuffle { var, value, mode, width } => self.shuffle(*var, value, mode, *width)?,
            Stmt::AtomicAdd { old, buffer, index, value } => {
                if self.buffer(*buffer)?.space == Space::Private || self.element_type(*buffer)? != Type::Int {
                    return Err(self.malformed("an atomic operation on private memory or reals"));
                }
                let index = self.typed(index, Type::Int)?;
                let value = self.typed(value, Type::Int)?;
                let to = self.variable(*old, Type::Int)?;
                self.emit(Inst::AtomicAdd { to, buffer: buffer.0 as u32, index, value });
            }
            // Only speed depends on it.
            Stmt::Prefetch { buffer, .. } => {
                self.buffer(*buffer)?;
            }
            Stmt::Fence => {
                self.emit(Inst::Fence);
            }
        }
        Ok(())
    }

    /// Ends the first branch of the `If` at `start`.
    pub fn otherwise(&mut self, start: usize) -> usize {
        let middle = self.emit(Inst::Else { end: 0 });
        if let Inst::If { otherwise, .. } = &mut self.code.insts[start] {
            *otherwise = middle as Pc;
        }
        middle
    }

    /// Ends the second branch, which began at `middle`.
    pub fn end_if(&mut self, middle: usize) {
        let here = self.emit(Inst::EndIf);
        if let Inst::Else { end } = &mut self.code.insts[middle] {
            *end = here as Pc;
        }
    }

    fn assign(&mut self, var: VarId, value: &Expr) -> Result<(), InterpError> {
        let ty = self.type_of(value)?;
        let to = self.variable(var, ty)?;
        self.evaluate_to(value, to)
    }

    /// The register of a variable of a type.
    pub fn variable(&self, var: VarId, ty: Type) -> Result<Reg, InterpError> {
        match self.kernel.vars.get(var.0) {
            Some(variable) if variable.ty == ty => Ok(self.vars[var.0]),
            Some(variable) => Err(self.malformed(format!("`{}` is not of type {ty:?}", variable.name))),
            None => Err(self.malformed(format!("variable {} is not declared", var.0))),
        }
    }

    pub fn buffer(&self, buffer: BufferId) -> Result<&'k crate::kernel::Buffer, InterpError> {
        let buffers = &self.kernel.buffers;
        buffers.get(buffer.0).ok_or_else(|| self.malformed(format!("buffer {} is not declared", buffer.0)))
    }

    /// Type of the values of a buffer.
    pub fn element_type(&self, buffer: BufferId) -> Result<Type, InterpError> {
        Ok(self.buffer(buffer)?.element.value_type())
    }

    /// A wide access has an aligned index.
    fn index(&mut self, buffer: BufferId, index: &Expr, width: usize) -> Result<Reg, InterpError> {
        let index = self.typed(index, Type::Int)?;
        if width > 1 {
            self.emit(Inst::Aligned { buffer: buffer.0 as u32, index, of: width as u32 });
        }
        Ok(index)
    }

    fn store(&mut self, buffer: BufferId, index: &Expr, values: &[Expr]) -> Result<(), InterpError> {
        let ty = self.element_type(buffer)?;
        let index = self.index(buffer, index, values.len())?;
        let values = values.iter().map(|value| self.typed(value, ty)).collect::<Result<Vec<_>, _>>()?;
        for (offset, value) in values.into_iter().enumerate() {
            let (buffer, offset) = (buffer.0 as u32, offset as u32);
            self.emit(Inst::Store { file: file(ty), buffer, index, offset, value });
        }
        Ok(())
    }

    fn load_wide(&mut self, vars: &[VarId], buffer: BufferId, index: &Expr) -> Result<(), InterpError> {
        let ty = self.element_type(buffer)?;
        let index = self.index(buffer, index, vars.len())?;
        for (offset, var) in vars.iter().enumerate() {
            let to = self.variable(*var, ty)?;
            let (buffer, offset) = (buffer.0 as u32, offset as u32);
            self.emit(Inst::Load { file: file(ty), to, buffer, index, offset });
        }
        Ok(())
    }

    fn repeat(&mut self, stmt: &Stmt, place: &str) -> Result<(), InterpError> {
        let Stmt::For { var, from, to, step, kind, body } = stmt else {
            return Err(self.malformed("not a loop"));
        };
        if *step == 0 {
            return Err(self.malformed("a loop of step zero"));
        }
        if changes(body, to) {
            return Err(self.malformed("a loop whose bound reads what its body changes"));
        }
        let simd = matches!(kind, LoopKind::Simd(_));
        self.code.simd |= simd;
        // The bound keeps its register while the body runs: it is evaluated once.
        let bound = self.register(File::Int);
        self.typed_to(to, Type::Int, bound)?;
        let var = self.variable(*var, Type::Int)?;
        self.typed_to(from, Type::Int, var)?;
        self.emit(Inst::Enter { simd });
        let site = self.code.statements.len() - 1;
        let test = self.emit(Inst::Test { var, bound, down: *step < 0, simd, end: 0 });
        self.body(body, &format!("{place}.body"))?;
        self.emit(Inst::Next { var, step: *step, test: test as Pc });
        if let Some(next) = self.code.sites.last_mut() {
            *next = site as u32;
        }
        let here = self.here();
        if let Inst::Test { end, .. } = &mut self.code.insts[test] {
            *end = here;
        }
        Ok(())
    }

    fn shuffle(&mut self, var: VarId, value: &Expr, mode: &Shuffle, width: u32) -> Result<(), InterpError> {
        if !width.is_power_of_two() || width > 32 {
            return Err(self.malformed(format!("a shuffle of width {width}")));
        }
        let (a, ty) = self.evaluate(value)?;
        let from = match mode {
            Shuffle::Down(n) => From::Down(*n),
            Shuffle::Up(n) => From::Up(*n),
            Shuffle::Xor(n) => From::Xor(*n),
            Shuffle::Index(e) => From::Index(self.typed(e, Type::Int)?),
        };
        let to = self.variable(var, ty)?;
        self.emit(Inst::Shuffle { file: file(ty), to, a, from, width });
        Ok(())
    }
}

/// Whether statements assign a variable or store to a buffer that an expression reads.
fn changes(body: &[Stmt], e: &Expr) -> bool {
    let mut changed = false;
    each_stmt(body, &mut |stmt| {
        changed |= e.any(&mut |part| match (part, stmt) {
            (Expr::Var(read), Stmt::Assign(var, _)) => read == var,
            (Expr::Load(read, _), _) => stmt.stores_to() == Some(*read),
            _ => false,
        });
    });
    changed
}

/// Buffers numbered within their spaces.
fn buffers(kernel: &Kernel) -> Vec<BufferInfo> {
    let mut counts = [0; 3];
    let number = |buffer: &crate::kernel::Buffer| {
        let count = &mut counts[buffer.space as usize];
        *count += 1;
        BufferInfo {
            name: buffer.name.clone(),
            space: buffer.space,
            element: buffer.element,
            extent: buffer.extent,
            access: buffer.access,
            number: *count - 1,
        }
    };
    kernel.buffers.iter().map(number).collect()
}
