//! Building kernels by hand, and numbers for them.

use std::ops::{Add, Div, Mul, Rem, Sub};

use kernelwright_codegen::interp::{
    BlockOrder, BufferHandle, Fault, Field, InterpError, Memory, Modular, Native, Options, Residue, Stats, launch,
};
use kernelwright_codegen::kernel::*;
use kernelwright_codegen::kernel_verify::verify;

/// An expression, with operators.
#[derive(Debug, Clone)]
pub struct E(pub Expr);

impl From<i64> for E {
    fn from(value: i64) -> E {
        E(Expr::Int(value))
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident) => {
        impl<T: Into<E>> $trait<T> for E {
            type Output = E;

            fn $method(self, other: T) -> E {
                binary(Op::$trait, self, other.into())
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);
operator!(Rem, rem);

pub fn binary(op: Op, a: E, b: E) -> E {
    E(Expr::Binary(op, Box::new(a.0), Box::new(b.0)))
}

pub fn compare(cmp: Cmp, a: E, b: impl Into<E>) -> E {
    E(Expr::Compare(cmp, Box::new(a.0), Box::new(b.into().0)))
}

pub fn lt(a: E, b: impl Into<E>) -> E {
    compare(Cmp::Lt, a, b)
}

pub fn eq(a: E, b: impl Into<E>) -> E {
    compare(Cmp::Eq, a, b)
}

pub fn select(c: E, a: impl Into<E>, b: impl Into<E>) -> E {
    E(Expr::Select(Box::new(c.0), Box::new(a.into().0), Box::new(b.into().0)))
}

pub fn cast(ty: Type, a: E) -> E {
    E(Expr::Cast(ty, Box::new(a.0)))
}

pub fn int(value: i64) -> E {
    E(Expr::Int(value))
}

pub fn real(value: f64, ty: Type) -> E {
    E(Expr::Real(value, ty))
}

pub fn lane() -> E {
    E(Expr::Lane(0))
}

pub fn block() -> E {
    E(Expr::Block(0))
}

pub fn load(buffer: BufferId, index: impl Into<E>) -> E {
    E(Expr::Load(buffer, Box::new(index.into().0)))
}

pub fn var(id: VarId) -> E {
    E(Expr::Var(id))
}

/// Type of the values of an element type.
pub fn value_type(element: Element) -> Type {
    match element {
        Element::F32 => Type::F32,
        Element::F64 => Type::F64,
        _ => Type::Int,
    }
}

/// A kernel under construction.
pub struct Builder {
    pub kernel: Kernel,
    bodies: Vec<Vec<Stmt>>,
}

impl Builder {
    pub fn new(name: &str, blocks: u64, lanes: u32) -> Builder {
        let kernel = Kernel {
            name: name.into(),
            doc: Vec::new(),
            buffers: Vec::new(),
            grid: [blocks, 1, 1],
            lanes: [lanes, 1, 1],
            resident_blocks: None,
            simd_width: None,
            index: IndexWidth::I32,
            vars: Vec::new(),
            body: Vec::new(),
        };
        Builder { kernel, bodies: vec![Vec::new()] }
    }

    fn buffer(&mut self, name: &str, space: Space, element: Element, extent: usize, access: Access) -> BufferId {
        self.kernel.buffers.push(Buffer { name: name.into(), space, element, extent: extent as u64, access });
        BufferId(self.kernel.buffers.len() - 1)
    }

    pub fn input(&mut self, name: &str, element: Element, extent: usize) -> BufferId {
        self.buffer(name, Space::Global, element, extent, Access::Read)
    }

    pub fn output(&mut self, name: &str, element: Element, extent: usize) -> BufferId {
        self.buffer(name, Space::Global, element, extent, Access::Write)
    }

    pub fn global(&mut self, name: &str, element: Element, extent: usize) -> BufferId {
        self.buffer(name, Space::Global, element, extent, Access::ReadWrite)
    }

    pub fn shared(&mut self, name: &str, element: Element, extent: usize) -> BufferId {
        self.buffer(name, Space::Shared, element, extent, Access::ReadWrite)
    }

    pub fn private(&mut self, name: &str, element: Element, extent: usize) -> BufferId {
        self.buffer(name, Space::Private, element, extent, Access::ReadWrite)
    }

    /// A variable; the name is made unique.
    pub fn variable(&mut self, name: &str, ty: Type) -> VarId {
        let taken = self.kernel.vars.iter().any(|var| var.name == name);
        let name = if taken { format!("{name}_{}", self.kernel.vars.len()) } else { name.into() };
        self.kernel.vars.push(Variable { name, ty });
        VarId(self.kernel.vars.len() - 1)
    }

    /// Statements of the body under construction.
    pub fn body(&mut self) -> &mut Vec<Stmt> {
        self.bodies.last_mut().unwrap()
    }

    pub fn push(&mut self, stmt: Stmt) {
        self.body().push(stmt);
    }

    pub fn comment(&mut self, text: &str) {
        self.push(Stmt::Comment(text.into()));
    }

    pub fn set(&mut self, name: &str, ty: Type, value: impl Into<E>) -> E {
        let id = self.variable(name, ty);
        self.push(Stmt::Let(id, value.into().0));
        var(id)
    }

    pub fn declare(&mut self, name: &str, ty: Type, value: impl Into<E>) -> VarId {
        let id = self.variable(name, ty);
        self.push(Stmt::Declare(id, value.into().0));
        id
    }

    pub fn assign(&mut self, id: VarId, value: impl Into<E>) {
        self.push(Stmt::Assign(id, value.into().0));
    }

    pub fn store(&mut self, buffer: BufferId, index: impl Into<E>, value: impl Into<E>) {
        self.push(Stmt::Store { buffer, index: index.into().0, value: value.into().0 });
    }

    pub fn barrier(&mut self) {
        self.push(Stmt::Barrier(Scope::Block));
    }

    pub fn grid_barrier(&mut self) {
        self.push(Stmt::Barrier(Scope::Grid));
    }

    pub fn shuffle(&mut self, ty: Type, value: E, mode: Shuffle, width: u32) -> E {
        let id = self.variable("shuffled", ty);
        self.push(Stmt::Shuffle { var: id, value: value.0, mode, width });
        var(id)
    }

    pub fn atomic_add(&mut self, buffer: BufferId, index: impl Into<E>, value: impl Into<E>) -> E {
        let old = self.variable("old", Type::Int);
        self.push(Stmt::AtomicAdd { old, buffer, index: index.into().0, value: value.into().0 });
        var(old)
    }

    fn nested(&mut self, body: impl FnOnce(&mut Builder)) -> Vec<Stmt> {
        self.bodies.push(Vec::new());
        body(self);
        self.bodies.pop().unwrap()
    }

    pub fn repeat(&mut self, from: impl Into<E>, to: impl Into<E>, body: impl FnOnce(&mut Builder, E)) {
        self.repeat_by(from, to, 1, LoopKind::Sequential, body);
    }

    pub fn repeat_by(
        &mut self,
        from: impl Into<E>,
        to: impl Into<E>,
        step: i64,
        kind: LoopKind,
        body: impl FnOnce(&mut Builder, E),
    ) {
        let id = self.variable("n", Type::Int);
        let body = self.nested(|builder| body(builder, var(id)));
        self.push(Stmt::For { var: id, from: from.into().0, to: to.into().0, step, kind, body });
    }

    pub fn when(&mut self, cond: E, then: impl FnOnce(&mut Builder)) {
        self.when_else(cond, then, |_| {});
    }

    pub fn when_else(&mut self, cond: E, then: impl FnOnce(&mut Builder), otherwise: impl FnOnce(&mut Builder)) {
        let then = self.nested(then);
        let otherwise = self.nested(otherwise);
        self.push(Stmt::If { cond: cond.0, then, otherwise });
    }

    pub fn finish(mut self) -> Kernel {
        self.kernel.body = self.bodies.pop().unwrap();
        assert!(self.bodies.is_empty());
        self.kernel
    }
}

/// Deterministic random numbers (SplitMix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let a = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        b ^ (b >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    /// Uniform in [-1, 1).
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Plain arithmetic for oracles, one type per run of the interpreter.
pub trait Number: Copy + PartialEq + std::fmt::Debug {
    type Field: Field<Real = Self::Stored>;
    type Stored: Copy + PartialEq + std::fmt::Debug;
    const ELEMENT: Element;

    fn field() -> Self::Field;
    fn random(rng: &mut Rng) -> Self;
    fn integer(value: i64) -> Self;
    fn stored(self) -> Self::Stored;
    fn loaded(value: Self::Stored) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    /// Equal but for rounding: exactly so where there is none.
    fn close(self, other: Self) -> bool;

    fn randoms(rng: &mut Rng, n: usize) -> Vec<Self> {
        (0..n).map(|_| Self::random(rng)).collect()
    }
}

macro_rules! native {
    ($ty:ty, $element:ident, $tolerance:expr) => {
        impl Number for $ty {
            type Field = Native;
            type Stored = f64;
            const ELEMENT: Element = Element::$element;

            fn field() -> Native {
                Native
            }

            fn random(rng: &mut Rng) -> $ty {
                rng.unit() as $ty
            }

            fn integer(value: i64) -> $ty {
                value as $ty
            }

            fn stored(self) -> f64 {
                f64::from(self)
            }

            fn loaded(value: f64) -> $ty {
                assert_eq!(f64::from(value as $ty).to_bits(), value.to_bits(), "not rounded to its type");
                value as $ty
            }

            fn plus(self, other: $ty) -> $ty {
                self + other
            }

            fn minus(self, other: $ty) -> $ty {
                self - other
            }

            fn times(self, other: $ty) -> $ty {
                self * other
            }

            fn over(self, other: $ty) -> $ty {
                self / other
            }

            fn close(self, other: $ty) -> bool {
                (self - other).abs() <= $tolerance * (1.0 + self.abs() + other.abs())
            }
        }
    };
}

native!(f32, F32, 1e-5);
native!(f64, F64, 1e-13);

impl Number for Residue {
    type Field = Modular;
    type Stored = Residue;
    const ELEMENT: Element = Element::F32;

    fn field() -> Modular {
        Modular::default()
    }

    fn random(rng: &mut Rng) -> Residue {
        Residue::new(rng.word())
    }

    fn integer(value: i64) -> Residue {
        Residue::signed(value)
    }

    fn stored(self) -> Residue {
        self
    }

    fn loaded(value: Residue) -> Residue {
        value
    }

    fn plus(self, other: Residue) -> Residue {
        self + other
    }

    fn minus(self, other: Residue) -> Residue {
        self - other
    }

    fn times(self, other: Residue) -> Residue {
        self * other
    }

    fn over(self, other: Residue) -> Residue {
        self * other.inverse().expect("random residues are not zero")
    }

    fn close(self, other: Residue) -> bool {
        self == other
    }
}

/// Memory for one kind of numbers.
pub struct Bench<N: Number>(pub Memory<N::Field>);

impl<N: Number> Bench<N> {
    pub fn new() -> Bench<N> {
        Bench(Memory::new(N::field()))
    }

    pub fn reals(&mut self, values: &[N]) -> BufferHandle {
        let buffer = self.0.allocate(N::ELEMENT, values.len());
        let stored: Vec<_> = values.iter().map(|value| value.stored()).collect();
        self.0.write_reals(buffer, &stored).unwrap();
        buffer
    }

    pub fn ints(&mut self, element: Element, values: &[i64]) -> BufferHandle {
        let buffer = self.0.allocate(element, values.len());
        self.0.write_ints(buffer, values).unwrap();
        buffer
    }

    /// Uninitialised.
    pub fn empty(&mut self, element: Element, len: usize) -> BufferHandle {
        self.0.allocate(element, len)
    }

    /// Runs in every order of blocks (in place, so the kernel must be repeatable); the counts of the last run.
    pub fn launch(&mut self, kernel: &Kernel, args: &[BufferHandle]) -> Stats {
        verify(kernel).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let orders = [BlockOrder::Descending, BlockOrder::Shuffled(7), BlockOrder::Ascending];
        let run = |blocks| {
            let options = Options { blocks, ..Options::default() };
            launch(kernel, args, &mut self.0, &options).unwrap_or_else(|error| panic!("{error}"))
        };
        orders.map(run)[2].clone()
    }

    pub fn read(&self, buffer: BufferHandle) -> Vec<N> {
        assert!(self.0.initialised(buffer).unwrap().iter().all(|&set| set), "not all elements were written");
        self.0.reals(buffer).unwrap().iter().map(|&value| N::loaded(value)).collect()
    }
}

/// The faults of a kernel run natively once with zeroed buffers.
pub fn faults(kernel: &Kernel) -> Vec<Fault> {
    let mut memory = Memory::new(Native);
    let global = kernel.buffers.iter().filter(|buffer| buffer.space == Space::Global);
    let args: Vec<_> = global.map(|buffer| memory.allocate(buffer.element, buffer.extent as usize)).collect();
    args.iter().for_each(|&arg| memory.clear(arg).unwrap());
    match launch(kernel, &args, &mut memory, &Options::default()) {
        Ok(_) => Vec::new(),
        Err(InterpError::Faults(report)) => report.faults,
        Err(other) => panic!("{other}"),
    }
}
