//! Kernels built by hand, for host and device, and buffers to run them on.

use kernelwright::backend::{Backend, BufferHandle, Target};
use kernelwright_codegen::kernel::{
    Access, Buffer, BufferId, Cmp, Element, Expr, IndexWidth, Kernel, LoopKind, Op, Scope, Space, Stmt, Type, VarId,
    Variable,
};

/// Elements of a block on the host.
pub const PIECE: u64 = 1000;
/// Lanes of a block on a device.
pub const LANES: u64 = 128;

/// Blocks of a kernel over n elements.
pub fn blocks(target: Target, n: u64) -> u64 {
    n.div_ceil(if target == Target::Host { PIECE } else { LANES })
}

pub fn binary(op: Op, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn load(buffer: usize, index: Expr) -> Expr {
    Expr::Load(BufferId(buffer), Box::new(index))
}

fn less(a: Expr, b: Expr) -> Expr {
    Expr::Compare(Cmp::Lt, Box::new(a), Box::new(b))
}

fn real(element: Element) -> Type {
    if element == Element::F32 { Type::F32 } else { Type::F64 }
}

/// A kernel being built.
struct Builder(Kernel);

impl Builder {
    fn new(name: &str, target: Target, n: u64) -> Builder {
        let lanes = if target == Target::Host { 1 } else { LANES as u32 };
        Builder(Kernel {
            name: name.to_owned(),
            doc: Vec::new(),
            buffers: Vec::new(),
            grid: [blocks(target, n), 1, 1],
            lanes: [lanes, 1, 1],
            resident_blocks: None,
            simd_width: None,
            index: IndexWidth::I32,
            vars: Vec::new(),
            body: Vec::new(),
        })
    }

    fn buffer(&mut self, name: &str, space: Space, element: Element, extent: u64, access: Access) {
        self.0.buffers.push(Buffer { name: name.to_owned(), space, element, extent, access });
    }

    fn var(&mut self, name: &str, ty: Type) -> VarId {
        self.0.vars.push(Variable { name: name.to_owned(), ty });
        VarId(self.0.vars.len() - 1)
    }

    /// Statements for every element of the block: a vector loop on the host, a guarded lane on a device.
    fn each(&mut self, target: Target, n: u64, sums: Vec<VarId>, body: impl FnOnce(VarId) -> Vec<Stmt>) -> Vec<Stmt> {
        let i = self.var("i", Type::Int);
        match target {
            Target::Host => {
                let first = self.var("first", Type::Int);
                let piece = Expr::Int(PIECE as i64);
                let end = binary(Op::Min, binary(Op::Add, Expr::Var(first), piece.clone()), Expr::Int(n as i64));
                let from = Expr::Var(first);
                vec![
                    Stmt::Let(first, binary(Op::Mul, Expr::Block(0), piece)),
                    Stmt::For { var: i, from, to: end, step: 1, kind: LoopKind::Simd(sums), body: body(i) },
                ]
            }
            Target::Cuda => {
                let base = binary(Op::Mul, Expr::Block(0), Expr::Int(LANES as i64));
                let cond = less(Expr::Var(i), Expr::Int(n as i64));
                vec![
                    Stmt::Let(i, binary(Op::Add, base, Expr::Lane(0))),
                    Stmt::If { cond, then: body(i), otherwise: Vec::new() },
                ]
            }
        }
    }
}

/// `y = alpha*x + y`; buffers: x, y, alpha (one f64).
pub fn axpy(target: Target, element: Element, n: u64) -> Kernel {
    let mut kernel = Builder::new("axpy", target, n);
    kernel.buffer("x", Space::Global, element, n, Access::Read);
    kernel.buffer("y", Space::Global, element, n, Access::ReadWrite);
    kernel.buffer("alpha", Space::Global, Element::F64, 1, Access::Read);
    let a = kernel.var("a", real(element));
    let each = kernel.each(target, n, Vec::new(), |i| {
        let scaled = binary(Op::Mul, Expr::Var(a), load(0, Expr::Var(i)));
        vec![
            Stmt::Comment("y = alpha*x + y".to_owned()),
            Stmt::Store {
                buffer: BufferId(1),
                index: Expr::Var(i),
                value: binary(Op::Add, scaled, load(1, Expr::Var(i))),
            },
        ]
    });
    let alpha = load(2, Expr::Int(0));
    let alpha = if element == Element::F32 { Expr::Cast(Type::F32, Box::new(alpha)) } else { alpha };
    kernel.0.body = vec![Stmt::Let(a, alpha)];
    kernel.0.body.extend(each);
    kernel.0
}

/// One partial sum of x*y per block, in f64; buffers: x, y, partials.
pub fn dot(target: Target, element: Element, n: u64) -> Kernel {
    let mut kernel = Builder::new("dot", target, n);
    kernel.buffer("x", Space::Global, element, n, Access::Read);
    kernel.buffer("y", Space::Global, element, n, Access::Read);
    kernel.buffer("partials", Space::Global, Element::F64, blocks(target, n), Access::Write);
    let sum = kernel.var("sum", Type::F64);
    let wide = |buffer, i| match element {
        Element::F32 => Expr::Cast(Type::F64, Box::new(load(buffer, Expr::Var(i)))),
        _ => load(buffer, Expr::Var(i)),
    };
    let each = kernel.each(target, n, vec![sum], |i| {
        let product = binary(Op::Mul, wide(0, i), wide(1, i));
        vec![Stmt::Assign(sum, binary(Op::Add, Expr::Var(sum), product))]
    });
    kernel.0.body = vec![Stmt::Declare(sum, Expr::Real(0.0, Type::F64))];
    kernel.0.body.extend(each);
    if target == Target::Cuda {
        tree(&mut kernel, sum);
    } else {
        let store = Stmt::Store { buffer: BufferId(2), index: Expr::Block(0), value: Expr::Var(sum) };
        kernel.0.body.push(store);
    }
    kernel.0
}

/// Adds the lanes' sums in shared memory, by halves.
fn tree(kernel: &mut Builder, sum: VarId) {
    kernel.buffer("shared_sums", Space::Shared, Element::F64, LANES, Access::ReadWrite);
    let shared = BufferId(3);
    let put = |value| Stmt::Store { buffer: shared, index: Expr::Lane(0), value };
    kernel.0.body.push(put(Expr::Var(sum)));
    let mut half = LANES as i64 / 2;
    while half > 0 {
        let other = load(3, binary(Op::Add, Expr::Lane(0), Expr::Int(half)));
        let add = put(binary(Op::Add, load(3, Expr::Lane(0)), other));
        let cond = less(Expr::Lane(0), Expr::Int(half));
        kernel.0.body.push(Stmt::Barrier(Scope::Block));
        kernel.0.body.push(Stmt::If { cond, then: vec![add], otherwise: Vec::new() });
        half /= 2;
    }
    let store = Stmt::Store { buffer: BufferId(2), index: Expr::Block(0), value: load(3, Expr::Int(0)) };
    let cond = less(Expr::Lane(0), Expr::Int(1));
    kernel.0.body.push(Stmt::If { cond, then: vec![store], otherwise: Vec::new() });
}

/// Every block writes its number, all wait, and every block reads what the next one wrote; buffers: mail, seen.
pub fn neighbours(n: u64) -> Kernel {
    let mut kernel = Builder::new("neighbours", Target::Cuda, n * LANES);
    kernel.buffer("mail", Space::Global, Element::I32, n, Access::ReadWrite);
    kernel.buffer("seen", Space::Global, Element::I32, n, Access::Write);
    let first = || less(Expr::Lane(0), Expr::Int(1));
    let next = binary(Op::Rem, binary(Op::Add, Expr::Block(0), Expr::Int(1)), Expr::Int(n as i64));
    let write = Stmt::Store { buffer: BufferId(0), index: Expr::Block(0), value: Expr::Block(0) };
    let read = Stmt::Store { buffer: BufferId(1), index: Expr::Block(0), value: load(0, next) };
    kernel.0.body = vec![
        Stmt::If { cond: first(), then: vec![write], otherwise: Vec::new() },
        Stmt::Barrier(Scope::Grid),
        Stmt::If { cond: first(), then: vec![read], otherwise: Vec::new() },
    ];
    kernel.0
}

/// Mirrors a block through a shared array of so many doubles; buffers: x, y of LANES elements.
pub fn much_shared(doubles: u64) -> Kernel {
    let mut kernel = Builder::new("much_shared", Target::Cuda, LANES);
    kernel.buffer("x", Space::Global, Element::F64, LANES, Access::Read);
    kernel.buffer("y", Space::Global, Element::F64, LANES, Access::Write);
    kernel.buffer("tile", Space::Shared, Element::F64, doubles, Access::ReadWrite);
    let last = Expr::Int(doubles as i64 - 1);
    let mirrored = binary(Op::Sub, last.clone(), binary(Op::Sub, Expr::Int(LANES as i64 - 1), Expr::Lane(0)));
    kernel.0.body = vec![
        Stmt::Store { buffer: BufferId(2), index: binary(Op::Sub, last, Expr::Lane(0)), value: load(0, Expr::Lane(0)) },
        Stmt::Barrier(Scope::Block),
        Stmt::Store { buffer: BufferId(1), index: Expr::Lane(0), value: load(2, mirrored) },
    ];
    kernel.0
}

/// A buffer with values.
pub fn filled(backend: &mut dyn Backend, element: Element, values: &[f64]) -> BufferHandle {
    let buffer = backend.allocate(element, values.len() as u64).unwrap();
    backend.write(buffer, values).unwrap();
    buffer
}

/// All values of a buffer.
pub fn values(backend: &mut dyn Backend, buffer: BufferHandle, len: usize) -> Vec<f64> {
    let mut values = vec![f64::NAN; len];
    backend.read(buffer, &mut values).unwrap();
    values
}

/// Values that f32 holds exactly, without a pattern that hides a permutation.
pub fn sample(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from((state >> 40) as u32) / f64::from(1 << 24) - 0.5
    };
    (0..n).map(|_| next()).collect()
}
