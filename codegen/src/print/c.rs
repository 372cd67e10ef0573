//! C11 for the host: one call runs one block. Kernels of several lanes run in loops over them ([`lanes`]).

use super::body::{self, ShuffleParts, Target, Wide, load_each, store_each, trips};
use super::choice::{self, Choices};
use super::expr::{self, Dialect, Piece, Position, Strength, axis_letter, element_name, type_name};
use super::header;
use super::lanes;
use super::writer::{Printed, Writer};
use crate::kernel::{BufferId, Expr, IndexWidth, Kernel, LoopKind, Op, Scope, Space, Stmt, Type, VarId};
use crate::kernel_walk::{Usage, each_expr, reduction, simd_sums};

/// Bytes of local arrays a call keeps on the stack, which may be that of a small worker thread. Beyond it the larger
/// ones become thread-local objects, made once per thread.
const STACK_BYTES: u64 = 256 * 1024;

/// Arrays up to this size stay on the stack in any case.
const SMALL_ARRAY_BYTES: u64 = 4 * 1024;

pub(super) fn print(kernels: &[&Kernel]) -> Printed {
    let mut out = Writer::new();
    preamble(&mut out, kernels);
    for kernel in kernels {
        out.blank();
        let choices = Choices::of(kernel);
        C { kernel, usage: Usage::of(kernel), per_lane: lanes::arrays(kernel), choices }.function(&mut out);
    }
    out.finish()
}

fn preamble(out: &mut Writer, kernels: &[&Kernel]) {
    out.verbatim("#include <math.h>");
    out.verbatim("#include <stdbool.h>");
    let choices = choice::needed(kernels);
    if !choices.is_empty() {
        out.verbatim("#include <string.h>");
    }
    out.blank();
    out.comment("Optimisers guess at these two and guess wrong where guarded loops are unrolled.");
    out.verbatim("#if defined(__clang__)");
    out.verbatim("#pragma clang diagnostic ignored \"-Wunknown-pragmas\"");
    out.verbatim("#elif defined(__GNUC__)");
    out.verbatim("#pragma GCC diagnostic ignored \"-Wmaybe-uninitialized\"");
    out.verbatim("#pragma GCC diagnostic ignored \"-Warray-bounds\"");
    out.verbatim("#endif");
    for index in [IndexWidth::I32, IndexWidth::I64] {
        for op in [Op::Min, Op::Max] {
            if kernels.iter().any(|kernel| kernel.index == index && uses_integer(kernel, op)) {
                extremum(out, op, index);
            }
        }
    }
    choices.into_iter().for_each(|ty| choice::function(out, ty));
}

fn extremum(out: &mut Writer, op: Op, index: IndexWidth) {
    let (name, ty) = (extremum_name(op, index), type_name(Type::Int, index));
    let compare = if op == Op::Min { "<" } else { ">" };
    out.blank();
    out.open(&format!("static inline {ty} {name}({ty} a, {ty} b) {{"));
    out.code(&format!("return a {compare} b ? a : b;"));
    out.close("}");
}

fn extremum_name(op: Op, index: IndexWidth) -> &'static str {
    match (op == Op::Min, index) {
        (true, IndexWidth::I32) => "min_int",
        (false, IndexWidth::I32) => "max_int",
        (true, IndexWidth::I64) => "min_long",
        (false, IndexWidth::I64) => "max_long",
    }
}

fn uses_integer(kernel: &Kernel, op: Op) -> bool {
    let mut uses = false;
    each_expr(&kernel.body, &mut |e| {
        if let Expr::Binary(found, a, _) = e {
            uses |= *found == op && kernel.type_of(a) == Type::Int;
        }
    });
    uses
}

struct C<'a> {
    kernel: &'a Kernel,
    usage: Usage,
    /// Variables with one entry per lane.
    per_lane: Vec<bool>,
    choices: Choices,
}

/// A local array.
struct Local {
    ty: &'static str,
    name: String,
    dimensions: String,
    bytes: u64,
    loaded: bool,
}

impl C<'_> {
    fn function(&self, out: &mut Writer) {
        let kernel = self.kernel;
        out.function(&kernel.name);
        header(out, kernel);
        if kernel.waits_for_grid() {
            out.verbatim(&format!(
                "#error \"{} waits for the whole grid, which calls for single blocks cannot\"",
                kernel.name
            ));
            return;
        }
        let name = &kernel.name;
        out.open(&format!(
            "void {name}(long long block_x, long long block_y, long long block_z, void *const *buffers) {{"
        ));
        self.arguments(out);
        self.arrays(out);
        out.paragraph();
        if kernel.lane_count() == 1 {
            body::stmts(self, out, &kernel.body);
        } else {
            out.comment("Outside of loops over lanes, lane 0 speaks for all.");
            out.code("const int lane = 0;");
            out.code("(void)lane;");
            lanes::sequence(self, out, &kernel.body);
        }
        out.close("}");
    }

    fn arguments(&self, out: &mut Writer) {
        let mut used = false;
        for (n, id) in self.kernel.arguments().enumerate() {
            let buffer = &self.kernel.buffers[id.0];
            if self.usage.accessed(id) {
                let constant = if buffer.access.is_read() { "const " } else { "" };
                let (ty, name) = (element_name(buffer.element), &buffer.name);
                out.code(&format!("{constant}{ty} *restrict {name} = buffers[{n}];"));
                used = true;
            }
        }
        if !used {
            out.code("(void)buffers;");
        }
        for axis in 0..3u8 {
            if !self.usage.block[usize::from(axis)] {
                out.code(&format!("(void)block_{};", axis_letter(axis)));
            }
        }
    }

    fn arrays(&self, out: &mut Writer) {
        let locals = self.locals();
        let total = locals.iter().fold(0u64, |sum, local| sum.saturating_add(local.bytes));
        for Local { ty, name, dimensions, bytes, loaded } in locals {
            let off_stack = total > STACK_BYTES && bytes > SMALL_ARRAY_BYTES;
            let storage = if off_stack { "static _Thread_local " } else { "" };
            out.code(&format!("{storage}{ty} {name}{dimensions};"));
            if !loaded {
                out.code(&format!("(void){name};"));
            }
        }
    }

    /// Shared and private buffers in use, then variables with one entry per lane.
    fn locals(&self) -> Vec<Local> {
        let kernel = self.kernel;
        let lanes = kernel.lane_count();
        let mut locals = Vec::new();
        for (n, buffer) in kernel.buffers.iter().enumerate() {
            let id = BufferId(n);
            if buffer.space == Space::Global || !self.usage.accessed(id) {
                continue;
            }
            let copies = if buffer.space == Space::Private { lanes } else { 1 };
            let outer = if copies > 1 { format!("[{copies}]") } else { String::new() };
            locals.push(Local {
                ty: element_name(buffer.element),
                name: buffer.name.clone(),
                dimensions: format!("{outer}[{}]", buffer.extent),
                bytes: kernel.buffer_bytes(id).saturating_mul(copies),
                loaded: self.usage.loaded[n],
            });
        }
        for (n, var) in kernel.vars.iter().enumerate().filter(|&(n, _)| self.per_lane[n]) {
            let ty = type_name(var.ty, kernel.index);
            let (name, dimensions) = (var.name.clone(), format!("[{lanes}]"));
            locals.push(Local { ty, name, dimensions, bytes: 8 * lanes, loaded: self.usage.read[n] });
        }
        locals
    }

    /// `#pragma omp simd reduction(+ : rho, sigma) reduction(max : largest)`
    fn simd(&self, out: &mut Writer, stmt: &Stmt, sums: &[VarId]) {
        let Stmt::For { body, .. } = stmt else { return };
        let mut line = "#pragma omp simd".to_owned();
        for (op, symbol) in [(Op::Add, "+"), (Op::Min, "min"), (Op::Max, "max")] {
            let of_kind = |var: &&VarId| reduction(body, **var) == Some(op);
            let names: Vec<String> = sums.iter().filter(of_kind).map(|&var| self.var(var).text).collect();
            if !names.is_empty() {
                line.push_str(&format!(" reduction({symbol} : {})", names.join(", ")));
            }
        }
        if let Some(width) = self.kernel.simd_width {
            line.push_str(&format!(" simdlen({width})"));
        }
        out.code(&line);
    }
}

impl Dialect for C<'_> {
    fn kernel(&self) -> &Kernel {
        self.kernel
    }

    /// The macros are of type `float`, which widens without changing the value.
    fn special(&self, value: f64, ty: Type) -> Piece {
        let rounded = if ty == Type::F32 { f64::from(value as f32) } else { value };
        match (rounded.is_nan(), rounded < 0.0) {
            (true, _) => Piece::atom("NAN"),
            (false, true) => Piece::new("-INFINITY", Strength::Unary),
            (false, false) => Piece::atom("INFINITY"),
        }
    }

    fn var(&self, id: VarId) -> Piece {
        let name = self.kernel.var_name(id);
        let per_lane = self.per_lane.get(id.0) == Some(&true);
        Piece::atom(if per_lane { format!("{name}[lane]") } else { name })
    }

    fn buffer(&self, id: BufferId) -> String {
        let name = self.kernel.buffer_name(id);
        let per_lane = self.kernel.buffers.get(id.0).is_some_and(|buffer| buffer.space == Space::Private);
        if per_lane && self.kernel.lane_count() > 1 { format!("{name}[lane]") } else { name }
    }

    fn position(&self, which: Position, axis: u8) -> Piece {
        let bare = self.bare_position(which, axis);
        if which == Position::Block && self.kernel.index == IndexWidth::I32 {
            return self.cast(Type::Int, bare);
        }
        bare
    }

    fn bare_position(&self, which: Position, axis: u8) -> Piece {
        match which {
            Position::Lane if self.kernel.lanes.get(usize::from(axis)) == Some(&1) => Piece::atom("0"),
            Position::Lane => Piece::atom(format!("lane_{}", axis_letter(axis))),
            Position::Block => Piece::atom(format!("block_{}", axis_letter(axis))),
        }
    }

    fn integer_extremum(&self, op: Op) -> &'static str {
        extremum_name(op, self.kernel.index)
    }

    fn choice(&self, cond: &Expr, a: &Expr, b: &Expr) -> Option<Piece> {
        let function = self.choices.function(self.kernel, cond, a, b)?;
        let [cond, a, b] = [cond, a, b].map(|e| expr::full(self, e));
        Some(Piece::atom(format!("{function}({cond}, {a}, {b})")))
    }
}

impl Target for C<'_> {
    fn usage(&self) -> &Usage {
        &self.usage
    }

    fn loop_directive(&self, out: &mut Writer, stmt: &Stmt) {
        let kind = body::loop_kind(stmt);
        match kind {
            LoopKind::Simd(_) if self.kernel.lane_count() == 1 => {
                self.choices.enter();
                self.simd(out, stmt, simd_sums(kind));
            }
            // GCC has no word for "completely": the number of iterations says it, where it is known.
            LoopKind::Unroll(0) => {
                out.code(&format!("#pragma GCC unroll {}", trips(stmt).unwrap_or(8).clamp(1, 65534)))
            }
            LoopKind::Unroll(n) => out.code(&format!("#pragma GCC unroll {}", n.min(&65534))),
            LoopKind::Sequential | LoopKind::Simd(_) => {}
        }
    }

    fn loop_end(&self, stmt: &Stmt) {
        self.choices.leave(body::loop_kind(stmt));
    }

    fn load_wide(&self, out: &mut Writer, from: Wide<'_>, vars: &[VarId]) {
        load_each(self, out, from, vars);
    }

    fn store_wide(&self, out: &mut Writer, to: Wide<'_>, values: &[Expr]) {
        store_each(self, out, to, values);
    }

    fn declare(&self, var: VarId, mutable: bool) -> String {
        let name = self.var(var).text;
        if self.per_lane.get(var.0) == Some(&true) {
            return name;
        }
        let constant = if mutable { "" } else { "const " };
        format!("{constant}{} {name}", self.var_type(var))
    }

    /// Lanes have met: the loop over them has ended.
    fn barrier(&self, _: &mut Writer, _: Scope) {}

    fn shuffle(&self, out: &mut Writer, shuffle: &ShuffleParts<'_>) {
        lanes::shuffle(self, out, shuffle);
    }

    fn atomic_add(&self, element: &str, value: &str) -> String {
        format!("__atomic_fetch_add(&{element}, {value}, __ATOMIC_ACQ_REL)")
    }

    fn prefetch(&self, buffer: BufferId, element: &str) -> String {
        let written = self.usage.stored.get(buffer.0) == Some(&true);
        format!("__builtin_prefetch(&{element}{});", if written { ", 1" } else { "" })
    }

    fn fence(&self, out: &mut Writer) {
        out.code("__atomic_thread_fence(__ATOMIC_SEQ_CST);");
    }
}
