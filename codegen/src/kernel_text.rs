//! The text of a kernel, for people: what `kernelwright ir --stage kernel` shows and verifier messages quote.
//!
//! Complete (every field shows), deterministic, and defined for kernels that are not well formed, too.

use std::fmt::{self, Display, Formatter, Write};

use crate::kernel::{Access, BufferId, Element, Expr, IndexWidth, Kernel, LoopKind, Math, Op, Scope, Shuffle, Space};
use crate::kernel::{Stmt, Type, VarId};
use crate::print::expr::{self, Dialect, Piece, Position, axis_letter, full};

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for line in self.doc.iter().flat_map(|line| line.lines()) {
            writeln!(f, "// {line}")?;
        }
        let [gx, gy, gz] = self.grid;
        let [lx, ly, lz] = self.lanes;
        write!(f, "kernel {} grid [{gx}, {gy}, {gz}] lanes [{lx}, {ly}, {lz}] index {}", self.name, width(self.index))?;
        if let Some(resident) = self.resident_blocks {
            write!(f, " resident {resident}")?;
        }
        if let Some(width) = self.simd_width {
            write!(f, " side by side {width}")?;
        }
        writeln!(f, " {{")?;
        for buffer in &self.buffers {
            let (space, access) = (space(buffer.space), access(buffer.access));
            writeln!(f, "    {space} {access} {}: {}[{}]", buffer.name, element(buffer.element), buffer.extent)?;
        }
        if !self.buffers.is_empty() && !self.body.is_empty() {
            writeln!(f)?;
        }
        block(f, self, &self.body, 1)?;
        writeln!(f, "}}")
    }
}

fn block(f: &mut Formatter<'_>, kernel: &Kernel, stmts: &[Stmt], depth: usize) -> fmt::Result {
    let indent = "    ".repeat(depth);
    for stmt in stmts {
        write!(f, "{indent}{}", headline(kernel, stmt))?;
        match stmt {
            Stmt::For { body, .. } => braces(f, kernel, body, depth)?,
            Stmt::If { then, otherwise, .. } => {
                braces(f, kernel, then, depth)?;
                if !otherwise.is_empty() {
                    write!(f, " else")?;
                    braces(f, kernel, otherwise, depth)?;
                }
            }
            _ => {}
        }
        writeln!(f)?;
    }
    Ok(())
}

fn braces(f: &mut Formatter<'_>, kernel: &Kernel, stmts: &[Stmt], depth: usize) -> fmt::Result {
    writeln!(f, " {{")?;
    block(f, kernel, stmts, depth + 1)?;
    write!(f, "{}}}", "    ".repeat(depth))
}

/// A statement on one line, without the blocks inside it.
pub(crate) fn headline(kernel: &Kernel, stmt: &Stmt) -> String {
    let show = |e: &Expr| full(&Text(kernel), e);
    let name = |id: &VarId| kernel.var_name(*id);
    let at = |buffer: &BufferId, index: &Expr| format!("{}[{}]", kernel.buffer_name(*buffer), show(index));
    let wide =
        |buffer: &BufferId, index: &Expr, n: usize| format!("{}[{} .. +{n}]", kernel.buffer_name(*buffer), show(index));
    match stmt {
        Stmt::Comment(text) => format!("// {}", text.lines().collect::<Vec<_>>().join(" ")),
        Stmt::Let(var, value) => format!("let {} = {}", typed(kernel, *var), show(value)),
        Stmt::Declare(var, value) => format!("var {} = {}", typed(kernel, *var), show(value)),
        Stmt::Assign(var, value) => format!("{} = {}", name(var), show(value)),
        Stmt::Store { buffer, index, value } => format!("{} = {}", at(buffer, index), show(value)),
        Stmt::LoadWide { vars, buffer, index } => {
            let names: Vec<String> = vars.iter().map(|&var| typed(kernel, var)).collect();
            format!("let {} = {}", names.join(", "), wide(buffer, index, vars.len()))
        }
        Stmt::StoreWide { buffer, index, values } => {
            let texts: Vec<String> = values.iter().map(show).collect();
            format!("{} = {}", wide(buffer, index, values.len()), texts.join(", "))
        }
        Stmt::For { var, from, to, step, kind, .. } => {
            let kind = loop_kind(kernel, kind);
            format!("for {} = {} until {} step {step}{kind}", name(var), show(from), show(to))
        }
        Stmt::If { cond, .. } => format!("if {}", show(cond)),
        Stmt::ExitIf(cond) => format!("exit if {}", show(cond)),
        Stmt::Barrier(Scope::Block) => "barrier block".to_owned(),
        Stmt::Barrier(Scope::Grid) => "barrier grid".to_owned(),
        Stmt::Shuffle { var, value, mode, width } => {
            let source = match mode {
                Shuffle::Down(n) => format!("down {n}"),
                Shuffle::Up(n) => format!("up {n}"),
                Shuffle::Xor(n) => format!("xor {n}"),
                Shuffle::Index(source) => format!("from {}", show(source)),
            };
            format!("let {} = shuffle {} {source} of {width}", typed(kernel, *var), show(value))
        }
        Stmt::AtomicAdd { old, buffer, index, value } => {
            format!("let {} = atomic add {}, {}", typed(kernel, *old), at(buffer, index), show(value))
        }
        Stmt::Prefetch { buffer, index } => format!("prefetch {}", at(buffer, index)),
        Stmt::Fence => "fence".to_owned(),
    }
}

fn typed(kernel: &Kernel, var: VarId) -> String {
    let ty = kernel.vars.get(var.0).map_or("?", |var| type_name(var.ty));
    format!("{}: {ty}", kernel.var_name(var))
}

fn loop_kind(kernel: &Kernel, kind: &LoopKind) -> String {
    match kind {
        LoopKind::Sequential => String::new(),
        LoopKind::Unroll(0) => " unroll".to_owned(),
        LoopKind::Unroll(n) => format!(" unroll {n}"),
        LoopKind::Simd(sums) => {
            let mut text = " simd".to_owned();
            for (n, sum) in sums.iter().enumerate() {
                let before = if n == 0 { " sums " } else { ", " };
                // Writing to a string does not fail.
                let _ = write!(text, "{before}{}", kernel.var_name(*sum));
            }
            text
        }
    }
}

fn width(index: IndexWidth) -> &'static str {
    match index {
        IndexWidth::I32 => "i32",
        IndexWidth::I64 => "i64",
    }
}

pub(crate) fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Int => "int",
        Type::Bool => "bool",
    }
}

pub(crate) fn element(element: Element) -> &'static str {
    match element {
        Element::F32 => "f32",
        Element::F64 => "f64",
        Element::I16 => "i16",
        Element::U16 => "u16",
        Element::I32 => "i32",
        Element::U32 => "u32",
        Element::I64 => "i64",
    }
}

fn space(space: Space) -> &'static str {
    match space {
        Space::Global => "global",
        Space::Shared => "shared",
        Space::Private => "private",
    }
}

fn access(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::ReadOnce => "read_once",
        Access::Write => "write",
        Access::ReadWrite => "read_write",
    }
}

/// Names as the IR has them.
struct Text<'a>(&'a Kernel);

impl Dialect for Text<'_> {
    fn kernel(&self) -> &Kernel {
        self.0
    }

    fn special(&self, value: f64, ty: Type) -> Piece {
        let rounded = if ty == Type::F32 { f64::from(value as f32) } else { value };
        Piece::atom(format!("{}({rounded})", type_name(ty)).to_lowercase())
    }

    fn position(&self, which: Position, axis: u8) -> Piece {
        let name = if which == Position::Lane { "lane" } else { "block" };
        Piece::atom(format!("{name}.{}", axis_letter(axis)))
    }

    fn integer_extremum(&self, op: Op) -> &'static str {
        if op == Op::Min { "min" } else { "max" }
    }

    fn real_extremum(&self, op: Op, _: Type) -> String {
        self.integer_extremum(op).to_owned()
    }

    fn int(&self, value: i64, _: bool) -> Piece {
        let strength = if value < 0 { expr::Strength::Unary } else { expr::Strength::Postfix };
        Piece::new(value.to_string(), strength)
    }

    fn cast(&self, ty: Type, operand: Piece) -> Piece {
        Piece::atom(format!("{}({})", type_name(ty), operand.text))
    }

    fn function(&self, function: Math, _: Type) -> String {
        format!("{function:?}").to_lowercase()
    }

    fn is_finite(&self, argument: String, _: Type) -> Piece {
        Piece::atom(format!("isfinite({argument})"))
    }

    fn widens(&self) -> bool {
        false
    }
}
