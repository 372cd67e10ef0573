//! Memory bandwidth, measured through a back end with kernels of our own making.
//!
//! What a memory-bound kernel can reach is not what a data sheet says but what a copy reaches on the same device, by
//! the same compiler, launched the same way; reports give fractions of it. Counted are the bytes a kernel names: what
//! it reads and what it writes, once each. (A host that reads a cache line before writing it moves more.)

use crate::backend::host::memory::available;
use crate::backend::{Backend, BackendError, Target};
use kernelwright_codegen::kernel::{
    Access, Buffer, BufferId, Element, Expr, IndexWidth, Kernel, LoopKind, Op, Space, Stmt, Type, VarId, Variable,
};
use serde::Serialize;

/// What the measuring kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// `c = a`: one word read, one written.
    Copy,
    /// `c = a + 3 b`: two words read, one written.
    Triad,
}

/// A measured bandwidth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bandwidth {
    /// What the kernel did.
    pub pattern: Pattern,
    /// Bytes read and written in one launch.
    pub bytes: u64,
    /// Seconds of every launch that was measured, in order.
    pub seconds: Vec<f64>,
    /// Bytes a second, by the median.
    pub bytes_per_second: f64,
}

/// Launches before the clock counts: pages, clocks and caches settle.
const WARM_UP: usize = 3;
/// Launches that are measured; odd, so that the median is one of them.
const REPEATS: usize = 11;
/// Vectors a lane moves on a device, for several loads in flight.
const VECTORS: u64 = 4;
/// Lanes of a block on a device.
const LANES: u64 = 256;
/// Elements of a block on the host: pieces fine enough to balance, coarse enough to stream.
const PIECE: u64 = 1 << 14;

/// Bytes that all arrays together should have: well past the caches, and a small part of the memory.
pub fn sensible_bytes(target: Target) -> u64 {
    match target {
        Target::Cuda => 1 << 30,
        Target::Host => available().map_or(256 << 20, |free| (free / 4).clamp(16 << 20, 256 << 20)),
    }
}

/// Measures on arrays of so many bytes in all; see [`sensible_bytes`].
pub fn measure(backend: &mut dyn Backend, pattern: Pattern, bytes: u64) -> Result<Bandwidth, BackendError> {
    if backend.small_problems_only().is_some() {
        let text = format!("{} has no bandwidth to speak of", backend.describe());
        return Err(BackendError::TooLarge(text));
    }
    let target = backend.target();
    let step = match target {
        Target::Host => PIECE,
        Target::Cuda => 2 * VECTORS * LANES,
    };
    let arrays = pattern.arrays();
    let len = (bytes / 8 / arrays as u64 / step).max(1) * step;
    let kernels = backend.compile(&[kernel(target, pattern, len)])?;
    let mut buffers = Vec::new();
    let mut result = Ok(());
    for _ in 0..arrays {
        match backend.allocate(Element::F64, len) {
            Ok(buffer) => buffers.push(buffer),
            Err(error) => result = Err(error),
        }
    }
    let timed = result.and_then(|()| time(backend, &[(kernels[0], buffers.clone())]));
    for buffer in buffers {
        backend.free(buffer);
    }
    backend.release(&kernels);
    let seconds = timed?;
    let mut sorted = seconds.clone();
    sorted.sort_by(f64::total_cmp);
    let bytes = len * 8 * arrays as u64;
    Ok(Bandwidth { pattern, bytes, bytes_per_second: bytes as f64 / sorted[REPEATS / 2], seconds })
}

fn time(
    backend: &mut dyn Backend,
    launches: &[(crate::backend::KernelHandle, Vec<crate::backend::BufferHandle>)],
) -> Result<Vec<f64>, BackendError> {
    let recorded = backend.record(launches)?;
    let all = (0..WARM_UP + REPEATS).map(|_| backend.time(&recorded)).collect::<Result<Vec<f64>, BackendError>>();
    backend.forget(recorded);
    all.map(|mut seconds| seconds.split_off(WARM_UP))
}

impl Pattern {
    /// Number of arrays; the last one is written.
    pub const fn arrays(self) -> usize {
        match self {
            Pattern::Copy => 2,
            Pattern::Triad => 3,
        }
    }

    /// The value stored, of the values loaded.
    fn value(self, loaded: Vec<Expr>) -> Expr {
        let mut loaded = loaded.into_iter();
        let first = loaded.next().expect("invariant: every pattern reads an array");
        match loaded.next() {
            None => first,
            Some(second) => {
                let scaled = binary(Op::Mul, Expr::Real(3.0, Type::F64), second);
                binary(Op::Add, first, scaled)
            }
        }
    }
}

/// The measuring kernel on arrays of `len` elements, a multiple of what a block does.
pub fn kernel(target: Target, pattern: Pattern, len: u64) -> Kernel {
    let names = ["a", "b", "c"];
    let buffer = |n: usize| {
        let written = n + 1 == pattern.arrays();
        Buffer {
            name: if written { "c" } else { names[n] }.to_owned(),
            space: Space::Global,
            element: Element::F64,
            extent: len,
            access: if written { Access::Write } else { Access::Read },
        }
    };
    let (name, text) = match pattern {
        Pattern::Copy => ("copy_bandwidth", "c = a"),
        Pattern::Triad => ("triad_bandwidth", "c = a + 3*b"),
    };
    let wide = len > i32::MAX as u64;
    let mut kernel = Kernel {
        name: name.to_owned(),
        doc: vec![format!("{text}, to measure memory bandwidth")],
        buffers: (0..pattern.arrays()).map(buffer).collect(),
        grid: [1; 3],
        lanes: [1; 3],
        resident_blocks: None,
        simd_width: None,
        index: if wide { IndexWidth::I64 } else { IndexWidth::I32 },
        vars: Vec::new(),
        body: Vec::new(),
    };
    match target {
        Target::Host => host_body(&mut kernel, pattern, len),
        Target::Cuda => cuda_body(&mut kernel, pattern, len),
    }
    kernel
}

/// A block streams through a piece.
fn host_body(kernel: &mut Kernel, pattern: Pattern, len: u64) {
    kernel.grid[0] = len / PIECE;
    let first = declare(kernel, "first", Type::Int);
    let i = declare(kernel, "i", Type::Int);
    let loads = (0..pattern.arrays() - 1).map(|n| Expr::Load(BufferId(n), Box::new(Expr::Var(i)))).collect();
    let store =
        Stmt::Store { buffer: BufferId(pattern.arrays() - 1), index: Expr::Var(i), value: pattern.value(loads) };
    kernel.body = vec![
        Stmt::Let(first, binary(Op::Mul, Expr::Block(0), Expr::Int(PIECE as i64))),
        Stmt::For {
            var: i,
            from: Expr::Var(first),
            to: binary(Op::Add, Expr::Var(first), Expr::Int(PIECE as i64)),
            step: 1,
            kind: LoopKind::Simd(Vec::new()),
            body: vec![store],
        },
    ];
}

/// A lane moves several vectors of two words, all loads before all stores.
fn cuda_body(kernel: &mut Kernel, pattern: Pattern, len: u64) {
    let words = 2 * LANES;
    kernel.grid[0] = len / (words * VECTORS);
    kernel.lanes[0] = LANES as u32;
    let first = declare(kernel, "first", Type::Int);
    let base = binary(Op::Mul, Expr::Block(0), Expr::Int((words * VECTORS) as i64));
    let lane = binary(Op::Mul, Expr::Lane(0), Expr::Int(2));
    let (mut loads, mut stores) = (Vec::new(), Vec::new());
    for vector in 0..VECTORS {
        let index = binary(Op::Add, Expr::Var(first), Expr::Int((vector * words) as i64));
        let mut pairs = Vec::new();
        for n in 0..pattern.arrays() - 1 {
            let array = ["a", "b"][n];
            let vars: Vec<VarId> =
                (0..2).map(|half| declare(kernel, &format!("{array}_{vector}_{half}"), Type::F64)).collect();
            loads.push(Stmt::LoadWide { vars: vars.clone(), buffer: BufferId(n), index: index.clone() });
            pairs.push(vars);
        }
        let half = |half: usize| pattern.value(pairs.iter().map(|vars| Expr::Var(vars[half])).collect());
        let values = vec![half(0), half(1)];
        stores.push(Stmt::StoreWide { buffer: BufferId(pattern.arrays() - 1), index, values });
    }
    kernel.body = vec![Stmt::Let(first, binary(Op::Add, base, lane))];
    kernel.body.extend(loads);
    kernel.body.extend(stores);
}

fn declare(kernel: &mut Kernel, name: &str, ty: Type) -> VarId {
    kernel.vars.push(Variable { name: name.to_owned(), ty });
    VarId(kernel.vars.len() - 1)
}

fn binary(op: Op, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}
