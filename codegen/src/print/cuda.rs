//! CUDA C++ without includes: lanes are threads.

use super::body::{self, ShuffleParts, Target, Wide, fresh, load_each, offset, settle, store_each};
use super::expr::{Dialect, Piece, Position, Strength, axis_letter, converted, element, element_name, full};
use super::header;
use super::writer::{Printed, Writer};
use crate::kernel::{Access, Buffer, BufferId, Element, Expr, IndexWidth, Kernel, LoopKind, Op, Scope, Shuffle, Space};
use crate::kernel::{Math, Stmt, Type, VarId};
use crate::kernel_verify::STATIC_SHARED_BYTES;
use crate::kernel_walk::{Usage, each_expr};

/// Alignment of shared arrays.
const ALIGNMENT: u64 = 16;

pub(super) fn print(kernels: &[&Kernel]) -> Printed {
    let mut out = Writer::new();
    if kernels.iter().any(|kernel| inverts(kernel)) {
        reciprocal(&mut out);
    }
    for (n, kernel) in kernels.iter().enumerate() {
        if n > 0 {
            out.blank();
        }
        let cuda = Cuda { kernel, usage: Usage::of(kernel) };
        cuda.function(&mut out);
    }
    out.finish()
}

/// Whether a kernel needs the reciprocal of a `float`; wider ones are divided for.
fn inverts(kernel: &Kernel) -> bool {
    let mut found = false;
    each_expr(&kernel.body, &mut |e| {
        if let Expr::Call(Math::Reciprocal, args) = e {
            found |= args.first().is_some_and(|a| kernel.type_of(a) == Type::F32);
        }
    });
    found
}

/// The device's reciprocal: an instruction, where a division takes eight and a branch. Kept to subnormal numbers it would
/// take six, those that scale the operand; so there is no pivot below 2^-126, and the inverse of one above 2^126 is zero.
fn reciprocal(out: &mut Writer) {
    out.comment("1 / x within one unit in the last place, for x between 2^-126 and 2^126.");
    out.open("static __device__ __forceinline__ float reciprocal_float(float x) {");
    out.code("float y;");
    out.code("asm(\"rcp.approx.ftz.f32 %0, %1;\" : \"=f\"(y) : \"f\"(x));");
    out.code("return y;");
    out.close("}");
    out.blank();
}

/// Shared memory to be given at launch: zero while the arrays fit where they are declared.
pub fn dynamic_shared_bytes(kernel: &Kernel) -> u64 {
    let usage = Usage::of(kernel);
    let total = shared_layout(kernel, &usage).last().map_or(0, |&(_, _, end)| end);
    if total <= STATIC_SHARED_BYTES { 0 } else { total }
}

/// The shared buffers in use with the bytes where they begin and end.
fn shared_layout(kernel: &Kernel, usage: &Usage) -> Vec<(BufferId, u64, u64)> {
    let mut end = 0u64;
    let mut layout = Vec::new();
    for (n, buffer) in kernel.buffers.iter().enumerate() {
        let id = BufferId(n);
        if buffer.space == Space::Shared && usage.accessed(id) {
            let start = end.next_multiple_of(ALIGNMENT);
            end = start.saturating_add(kernel.buffer_bytes(id));
            layout.push((id, start, end));
        }
    }
    layout
}

struct Cuda<'a> {
    kernel: &'a Kernel,
    usage: Usage,
}

impl Cuda<'_> {
    fn function(&self, out: &mut Writer) {
        let kernel = self.kernel;
        out.function(&kernel.name);
        if kernel.waits_for_grid() {
            self.grid_barrier(out);
        }
        header(out, kernel);
        let lanes = kernel.lane_count();
        let bounds = kernel.resident_blocks.map_or(lanes.to_string(), |resident| format!("{lanes}, {resident}"));
        out.code(&format!("extern \"C\" __global__ void __launch_bounds__({bounds})"));
        let parameters: Vec<String> = kernel.arguments().map(|id| parameter(&kernel.buffers[id.0])).collect();
        match parameters.split_last() {
            None => out.open(&format!("{}() {{", kernel.name)),
            Some((last, others)) => {
                out.open(&format!("{}(", kernel.name));
                for parameter in others {
                    out.code(&format!("{parameter},"));
                }
                out.code(&format!("{last})"));
                out.turn("{");
            }
        }
        self.arrays(out);
        out.paragraph();
        body::stmts(self, out, &kernel.body);
        out.close("}");
    }

    fn arrays(&self, out: &mut Writer) {
        let dynamic = dynamic_shared_bytes(self.kernel) > 0;
        if dynamic {
            out.code("extern __shared__ __align__(16) unsigned char shared_memory[];");
        }
        for (id, start, _) in shared_layout(self.kernel, &self.usage) {
            let buffer = &self.kernel.buffers[id.0];
            let (ty, name, extent) = (element_name(buffer.element), &buffer.name, buffer.extent);
            if dynamic {
                out.code(&format!(
                    "{ty}* const {name} = reinterpret_cast<{ty}*>(shared_memory + {start});  // {extent}"
                ));
            } else {
                let align = if self.usage.wide[id.0] { "__align__(16) " } else { "" };
                out.code(&format!("__shared__ {align}{ty} {name}[{extent}];"));
            }
        }
        for (n, buffer) in self.kernel.buffers.iter().enumerate() {
            if buffer.space == Space::Private && self.usage.accessed(BufferId(n)) {
                out.code(&format!("{} {}[{}];", element_name(buffer.element), buffer.name, buffer.extent));
            }
        }
    }

    /// The last block to arrive opens the next phase; the others watch for it. The counters end as they began, so
    /// that the next launch finds them ready.
    fn grid_barrier(&self, out: &mut Writer) {
        let (name, blocks) = (wait_name(self.kernel), self.kernel.block_count());
        out.comment("Waits for all blocks of the grid; they are resident together (cooperative launch).");
        out.open(&format!("static __device__ void {name}() {{"));
        out.code("static volatile unsigned int phase;");
        out.code("static unsigned int arrived;");
        out.code("__syncthreads();");
        out.open("if (threadIdx.x == 0 && threadIdx.y == 0 && threadIdx.z == 0) {");
        out.code("const unsigned int current = phase;");
        out.code("__threadfence();");
        out.open(&format!("if (atomicAdd(&arrived, 1u) == {}u) {{", blocks.saturating_sub(1)));
        out.code("arrived = 0;");
        out.code("__threadfence();");
        out.code("phase = current + 1;");
        out.turn("} else {");
        out.open("while (phase == current) {");
        out.close("}");
        out.close("}");
        out.code("__threadfence();");
        out.close("}");
        out.code("__syncthreads();");
        out.close("}");
        out.blank();
    }

    /// A vector type for elements of the buffer and how many of its values make up `n` elements, if the access can be
    /// made as one or two vectors.
    fn vector(&self, buffer: BufferId, n: usize) -> Option<(String, usize)> {
        let buffer = self.kernel.buffers.get(buffer.0).filter(|buffer| buffer.space != Space::Private)?;
        let (stem, most) = match buffer.element {
            Element::F32 => ("float", 4),
            Element::F64 => ("double", 2),
            Element::I16 => ("short", 4),
            Element::U16 => ("ushort", 4),
            Element::I32 => ("int", 4),
            Element::U32 => ("uint", 4),
            Element::I64 => ("longlong", 2),
        };
        let width = n.min(most);
        Some((format!("{stem}{width}"), width))
    }
}

fn parameter(buffer: &Buffer) -> String {
    let constant = if buffer.access.is_read() { "const " } else { "" };
    format!("{constant}{}* __restrict__ {}", element_name(buffer.element), buffer.name)
}

fn wait_name(kernel: &Kernel) -> String {
    fresh(kernel, &format!("wait_for_grid_of_{}", kernel.name), &[])
}

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

impl Dialect for Cuda<'_> {
    fn reciprocal(&self, argument: Piece, ty: Type) -> Piece {
        if ty == Type::F32 {
            return Piece::atom(format!("reciprocal_float({})", argument.text));
        }
        Piece::new(format!("1.0 / {}", argument.at_least(Strength::Unary)), Strength::Product)
    }

    fn kernel(&self) -> &Kernel {
        self.kernel
    }

    fn special(&self, value: f64, ty: Type) -> Piece {
        let rounded = if ty == Type::F32 { f64::from(value as f32) } else { value };
        let (make, infinity, nan) = match ty {
            Type::F32 => ("__int_as_float", "0x7f800000", "0x7fc00000"),
            _ => ("__longlong_as_double", "0x7ff0000000000000LL", "0x7ff8000000000000LL"),
        };
        let text = format!("{make}({})", if rounded.is_nan() { nan } else { infinity });
        if rounded < 0.0 { Piece::new(format!("-{text}"), Strength::Unary) } else { Piece::atom(text) }
    }

    fn position(&self, which: Position, axis: u8) -> Piece {
        self.cast(Type::Int, self.bare_position(which, axis))
    }

    fn bare_position(&self, which: Position, axis: u8) -> Piece {
        let name = if which == Position::Lane { "threadIdx" } else { "blockIdx" };
        Piece::atom(format!("{name}.{}", axis_letter(axis)))
    }

    fn load_once(&self, element: String) -> String {
        format!("__ldcs(&{element})")
    }

    fn integer_extremum(&self, op: Op) -> &'static str {
        if op == Op::Min { "min" } else { "max" }
    }
}

impl Target for Cuda<'_> {
    fn usage(&self) -> &Usage {
        &self.usage
    }

    fn loop_directive(&self, out: &mut Writer, stmt: &Stmt) {
        match body::loop_kind(stmt) {
            LoopKind::Unroll(0) => out.code("#pragma unroll"),
            LoopKind::Unroll(n) => out.code(&format!("#pragma unroll {n}")),
            LoopKind::Sequential | LoopKind::Simd(_) => {}
        }
    }

    fn load_wide(&self, out: &mut Writer, from: Wide<'_>, vars: &[VarId]) {
        let Some((vector, width)) = self.vector(from.buffer, vars.len()) else {
            return load_each(self, out, from, vars);
        };
        let stem = format!("{}_{width}", self.buffer(from.buffer));
        for (n, part) in vars.chunks(width).enumerate() {
            if !part.iter().any(|&var| self.is_read(var)) {
                continue;
            }
            // One vector per load: named after the first of its variables, which is unique.
            let name = fresh(self.kernel, &format!("{stem}_{}", self.kernel.var_name(part[0])), &[]);
            let place = element(self, from.buffer, &offset(from.index, n * width));
            let at = format!("reinterpret_cast<const {vector}*>(&{place})");
            let once = self.kernel.buffers.get(from.buffer.0).is_some_and(|buffer| buffer.access == Access::ReadOnce);
            let load = if once { format!("__ldcs({at})") } else { format!("*{at}") };
            out.code(&format!("const {vector} {name} = {load};"));
            for (&var, component) in part.iter().zip(COMPONENTS).filter(|&(&var, _)| self.is_read(var)) {
                out.code(&format!("{} = {name}.{component};", self.declare(var, false)));
            }
        }
    }

    fn store_wide(&self, out: &mut Writer, to: Wide<'_>, values: &[Expr]) {
        let Some((vector, width)) = self.vector(to.buffer, values.len()) else {
            return store_each(self, out, to, values);
        };
        let settled = if width < values.len() { settle(self, out, to.buffer, values) } else { None };
        let texts: Vec<String> = match &settled {
            Some(names) => names.clone(),
            None => values.iter().map(|value| converted(self, value)).collect(),
        };
        for (n, part) in texts.chunks(width).enumerate() {
            let place = element(self, to.buffer, &offset(to.index, n * width));
            out.code(&format!("*reinterpret_cast<{vector}*>(&{place}) = make_{vector}({});", part.join(", ")));
        }
        if settled.is_some() {
            out.close("}");
        }
    }

    fn barrier(&self, out: &mut Writer, scope: Scope) {
        match scope {
            Scope::Block => out.code("__syncthreads();"),
            Scope::Grid => out.code(&format!("{}();", wait_name(self.kernel))),
        }
    }

    fn shuffle(&self, out: &mut Writer, shuffle: &ShuffleParts<'_>) {
        let (name, source) = match shuffle.mode {
            Shuffle::Down(n) => ("__shfl_down_sync", n.to_string()),
            Shuffle::Up(n) => ("__shfl_up_sync", n.to_string()),
            Shuffle::Xor(n) => ("__shfl_xor_sync", n.to_string()),
            Shuffle::Index(source) => ("__shfl_sync", converted(self, source)),
        };
        // All lanes of the warp take part; a block smaller than a warp names those it has.
        let lanes = self.kernel.lane_count();
        let mask = if lanes < 32 { (1u32 << lanes) - 1 } else { u32::MAX };
        let value = full(self, shuffle.value);
        let call = format!("{name}({mask:#010x}u, {value}, {source}, {})", shuffle.width);
        body::define(self, out, shuffle.var, false, &call);
    }

    fn atomic_add(&self, element: &str, value: &str) -> String {
        match self.kernel.index {
            IndexWidth::I32 => format!("atomicAdd(&{element}, {value})"),
            IndexWidth::I64 => format!("atomicAdd(&{element}, (int)({value}))"),
        }
    }

    fn prefetch(&self, _: BufferId, element: &str) -> String {
        format!("asm volatile(\"prefetch.global.L2 [%0];\" ::\"l\"(&{element}));")
    }

    fn fence(&self, out: &mut Writer) {
        out.code("__threadfence();");
    }
}
