//! Small kernels of the tuner's own: fill, copy, perturb and compare vectors where they live, since moving them to
//! the host takes longer than most candidates run.

use kernelwright_codegen::kernel::{
    Access, Buffer, BufferId, Cmp, Element, Expr, IndexWidth, Kernel, LoopKind, Math, Op, Space, Stmt, Type, VarId,
    Variable,
};

use crate::backend::{Backend, BackendError, BufferHandle, KernelHandle, Target};

/// Lanes of a block on a device.
const LANES: u64 = 256;
/// Blocks on a device at most: what a comparison leaves behind stays small.
const BLOCKS: u64 = 512;
/// Elements of a block on the host.
const PIECE: u64 = 1 << 14;
/// Random numbers at most, a prime: longer vectors repeat them, out of step with every axis.
const PERIOD: u64 = 1_048_573;

/// What a comparison found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// Largest absolute difference of two numbers.
    pub largest: f64,
    /// Largest absolute value of the first vector.
    pub scale: f64,
    /// Elements that are a number in one vector and none in the other.
    pub missing: u64,
}

/// The kernels for vectors of one length and type, loaded.
pub struct Kit {
    period: u64,
    fill: KernelHandle,
    copy: KernelHandle,
    spread: KernelHandle,
    perturb: KernelHandle,
    compare: KernelHandle,
    /// One element: what is filled in, or how much is perturbed.
    value: BufferHandle,
    /// Where a copy begins.
    shift: BufferHandle,
    /// Three numbers a lane.
    found: BufferHandle,
    lanes: u64,
}

impl Kit {
    /// Compiles and allocates.
    pub fn new(backend: &mut dyn Backend, element: Element, len: u64) -> Result<Kit, BackendError> {
        let maker = Maker::new(backend.target(), element, len);
        let all = [maker.fill(), maker.copy(), maker.spread(), maker.perturb(), maker.compare()];
        let kernels = backend.compile(&all)?;
        let lanes = maker.blocks * maker.lanes;
        let whole = if maker.index == IndexWidth::I64 { Element::I64 } else { Element::I32 };
        let (value, shift) = (backend.allocate(element, 1)?, backend.allocate(whole, 1)?);
        let found = backend.allocate(Element::F64, 3 * lanes)?;
        let period = maker.period;
        let [fill, copy, spread, perturb, compare] = std::array::from_fn(|n| kernels[n]);
        Ok(Kit { period, fill, copy, spread, perturb, compare, value, shift, found, lanes })
    }

    /// Gives everything back.
    pub fn close(self, backend: &mut dyn Backend) {
        [self.value, self.shift, self.found].into_iter().for_each(|buffer| backend.free(buffer));
        backend.release(&[self.fill, self.copy, self.spread, self.perturb, self.compare]);
    }

    /// Sets every element.
    pub fn fill(&self, backend: &mut dyn Backend, target: BufferHandle, value: f64) -> Result<(), BackendError> {
        backend.write(self.value, &[value])?;
        backend.launch(self.fill, &[target, self.value])
    }

    /// Numbers that [`Kit::spread`] and [`Kit::perturb`] read.
    pub fn period(element_count: u64) -> u64 {
        element_count.min(PERIOD)
    }

    /// Copies a vector.
    pub fn copy(
        &self,
        backend: &mut dyn Backend,
        target: BufferHandle,
        source: BufferHandle,
    ) -> Result<(), BackendError> {
        backend.launch(self.copy, &[target, source])
    }

    /// `target[i] = source[(i + shift) mod period]`.
    pub fn spread(
        &self,
        backend: &mut dyn Backend,
        target: BufferHandle,
        source: BufferHandle,
        shift: u64,
    ) -> Result<(), BackendError> {
        backend.write(self.shift, &[(shift % self.period) as f64])?;
        backend.launch(self.spread, &[target, source, self.shift])
    }

    /// `target[i] *= 1 + amount * noise[(i + shift) mod period]`.
    pub fn perturb(
        &self,
        backend: &mut dyn Backend,
        target: BufferHandle,
        noise: BufferHandle,
        shift: u64,
        amount: f64,
    ) -> Result<(), BackendError> {
        backend.write(self.shift, &[(shift % self.period) as f64])?;
        backend.write(self.value, &[amount])?;
        backend.launch(self.perturb, &[target, noise, self.shift, self.value])
    }

    /// Compares two vectors; waits.
    pub fn compare(
        &self,
        backend: &mut dyn Backend,
        a: BufferHandle,
        b: BufferHandle,
    ) -> Result<Difference, BackendError> {
        backend.launch(self.compare, &[a, b, self.found])?;
        let mut found = vec![0.0; 3 * self.lanes as usize];
        backend.read(self.found, &mut found)?;
        let mut all = Difference { largest: 0.0, scale: 0.0, missing: 0 };
        for lane in found.chunks_exact(3) {
            all.largest = all.largest.max(lane[0]);
            all.scale = all.scale.max(lane[1]);
            all.missing += lane[2] as u64;
        }
        Ok(all)
    }
}

/// Writes the kernels.
struct Maker {
    target: Target,
    element: Element,
    real: Type,
    len: u64,
    period: u64,
    index: IndexWidth,
    blocks: u64,
    lanes: u64,
}

impl Maker {
    fn new(target: Target, element: Element, len: u64) -> Maker {
        let (blocks, lanes) = match target {
            Target::Cuda => (len.div_ceil(LANES).clamp(1, BLOCKS), LANES),
            Target::Host => (len.div_ceil(PIECE).max(1), 1),
        };
        // A shifted index is below twice the length, a strided one at most a stride beyond it.
        let wide = 2 * len + blocks * lanes >= 1 << 31;
        Maker {
            target,
            element,
            real: if element == Element::F32 { Type::F32 } else { Type::F64 },
            len,
            period: Kit::period(len).max(1),
            index: if wide { IndexWidth::I64 } else { IndexWidth::I32 },
            blocks,
            lanes,
        }
    }

    fn fill(&self) -> Kernel {
        let buffers = vec![self.vector("a", Access::Write), self.single("value", self.element)];
        let made = Draft::new("tune_fill", "a = value", buffers);
        let store = Stmt::Store { buffer: BufferId(0), index: made.at(), value: load(1, Expr::Int(0)) };
        self.finish(made, Vec::new(), vec![store], Vec::new())
    }

    fn copy(&self) -> Kernel {
        let buffers = vec![self.vector("a", Access::Write), self.vector("b", Access::Read)];
        let made = Draft::new("tune_copy", "a = b", buffers);
        let store = Stmt::Store { buffer: BufferId(0), index: made.at(), value: load(1, made.at()) };
        self.finish(made, Vec::new(), vec![store], Vec::new())
    }

    fn spread(&self) -> Kernel {
        let buffers = vec![self.vector("a", Access::Write), self.numbers("b"), self.shift()];
        let made = Draft::new("tune_spread", "a[i] = b[(i + shift) mod period]", buffers);
        let from = self.shifted(&made, 2);
        let store = Stmt::Store { buffer: BufferId(0), index: made.at(), value: load(1, from) };
        self.finish(made, Vec::new(), vec![store], Vec::new())
    }

    fn perturb(&self) -> Kernel {
        let buffers = vec![
            self.vector("a", Access::ReadWrite),
            self.numbers("noise"),
            self.shift(),
            self.single("amount", self.element),
        ];
        let made = Draft::new("tune_perturb", "a[i] = a[i] + a[i] * amount * noise[(i + shift) mod period]", buffers);
        let from = self.shifted(&made, 2);
        let factor = binary(Op::Mul, load(3, Expr::Int(0)), load(1, from));
        let change = binary(Op::Mul, load(0, made.at()), factor);
        let value = binary(Op::Add, load(0, made.at()), change);
        let store = Stmt::Store { buffer: BufferId(0), index: made.at(), value };
        self.finish(made, Vec::new(), vec![store], Vec::new())
    }

    fn compare(&self) -> Kernel {
        let lanes = self.blocks * self.lanes;
        let found = Buffer { extent: 3 * lanes, ..self.buffer("found", Element::F64, Access::Write) };
        let buffers = vec![self.vector("a", Access::Read), self.vector("b", Access::Read), found];
        let mut made = Draft::new("tune_compare", "largest difference and value, numbers against no numbers", buffers);
        let totals = ["largest", "scale", "missing"].map(|name| made.variable(name, Type::F64));
        let [a, b, difference, size] = ["x", "y", "difference", "size"].map(|name| made.variable(name, Type::F64));
        let before = totals.map(|total| Stmt::Declare(total, Expr::Real(0.0, Type::F64))).to_vec();
        let wide = |value: Expr| if self.real == Type::F64 { value } else { Expr::Cast(Type::F64, Box::new(value)) };
        let larger = |total: VarId, value: VarId| {
            let more = Expr::Compare(Cmp::Gt, Box::new(Expr::Var(value)), Box::new(Expr::Var(total)));
            Stmt::Assign(total, select(more, Expr::Var(value), Expr::Var(total)))
        };
        let number = |v: VarId| Expr::Compare(Cmp::Eq, Box::new(Expr::Var(v)), Box::new(Expr::Var(v)));
        let one_sided = binary(
            Op::Or,
            binary(Op::And, number(a), Expr::Not(Box::new(number(b)))),
            binary(Op::And, number(b), Expr::Not(Box::new(number(a)))),
        );
        let count = select(one_sided, Expr::Real(1.0, Type::F64), Expr::Real(0.0, Type::F64));
        let abs = |value: Expr| Expr::Call(Math::Abs, vec![value]);
        let inner = vec![
            Stmt::Let(a, wide(load(0, made.at()))),
            Stmt::Let(b, wide(load(1, made.at()))),
            Stmt::Let(difference, abs(binary(Op::Sub, Expr::Var(a), Expr::Var(b)))),
            Stmt::Let(size, abs(Expr::Var(a))),
            larger(totals[0], difference),
            larger(totals[1], size),
            Stmt::Assign(totals[2], binary(Op::Add, Expr::Var(totals[2]), count)),
        ];
        let base = binary(Op::Mul, Expr::Int(3), self.lane());
        let after = totals.iter().enumerate().map(|(n, total)| Stmt::Store {
            buffer: BufferId(2),
            index: binary(Op::Add, base.clone(), Expr::Int(n as i64)),
            value: Expr::Var(*total),
        });
        let after = after.collect();
        self.finish(made, before, inner, after)
    }

    /// Number of the lane in the launch.
    fn lane(&self) -> Expr {
        match self.target {
            Target::Host => Expr::Block(0),
            Target::Cuda => {
                binary(Op::Add, binary(Op::Mul, Expr::Block(0), Expr::Int(self.lanes as i64)), Expr::Lane(0))
            }
        }
    }

    /// A loop over the elements of a lane, with what comes before and after.
    fn finish(&self, made: Draft, before: Vec<Stmt>, inner: Vec<Stmt>, after: Vec<Stmt>) -> Kernel {
        let n = Expr::Int(self.len as i64);
        let (from, to, step) = match self.target {
            Target::Cuda => (self.lane(), n, (self.blocks * self.lanes) as i64),
            Target::Host => {
                let from = binary(Op::Mul, Expr::Block(0), Expr::Int(PIECE as i64));
                let end = binary(Op::Add, from.clone(), Expr::Int(PIECE as i64));
                (from, binary(Op::Min, end, n), 1)
            }
        };
        let each = Stmt::For { var: made.i, from, to, step, kind: LoopKind::Sequential, body: inner };
        let body = before.into_iter().chain([each]).chain(after).collect();
        Kernel {
            name: made.name,
            doc: vec![made.doc],
            buffers: made.buffers,
            grid: [self.blocks, 1, 1],
            lanes: [self.lanes as u32, 1, 1],
            resident_blocks: None,
            simd_width: None,
            index: self.index,
            vars: made.vars,
            body,
        }
    }

    /// `(i + shift) mod period`.
    fn shifted(&self, made: &Draft, shift: usize) -> Expr {
        let sum = binary(Op::Add, made.at(), load(shift, Expr::Int(0)));
        binary(Op::Rem, sum, Expr::Int(self.period as i64))
    }

    fn numbers(&self, name: &str) -> Buffer {
        Buffer { extent: self.period, ..self.vector(name, Access::Read) }
    }

    fn buffer(&self, name: &str, element: Element, access: Access) -> Buffer {
        Buffer { name: name.to_owned(), space: Space::Global, element, extent: self.len, access }
    }

    fn vector(&self, name: &str, access: Access) -> Buffer {
        self.buffer(name, self.element, access)
    }

    fn single(&self, name: &str, element: Element) -> Buffer {
        Buffer { extent: 1, ..self.buffer(name, element, Access::Read) }
    }

    fn shift(&self) -> Buffer {
        self.single("shift", if self.index == IndexWidth::I64 { Element::I64 } else { Element::I32 })
    }
}

/// A kernel without its loop.
struct Draft {
    name: String,
    doc: String,
    buffers: Vec<Buffer>,
    vars: Vec<Variable>,
    /// The loop's variable.
    i: VarId,
}

impl Draft {
    fn new(name: &str, doc: &str, buffers: Vec<Buffer>) -> Draft {
        let vars = vec![Variable { name: "i".to_owned(), ty: Type::Int }];
        Draft { name: name.to_owned(), doc: doc.to_owned(), buffers, vars, i: VarId(0) }
    }

    fn at(&self) -> Expr {
        Expr::Var(self.i)
    }

    fn variable(&mut self, name: &str, ty: Type) -> VarId {
        self.vars.push(Variable { name: name.to_owned(), ty });
        VarId(self.vars.len() - 1)
    }
}

fn binary(op: Op, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn load(buffer: usize, index: Expr) -> Expr {
    Expr::Load(BufferId(buffer), Box::new(index))
}

fn select(condition: Expr, a: Expr, b: Expr) -> Expr {
    Expr::Select(Box::new(condition), Box::new(a), Box::new(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cuda::compile_only;
    use crate::backend::interp::{InterpBackend, InterpOptions};
    use crate::backend::{Arithmetic, BackendError};

    #[test]
    fn a_card_can_be_compiled_for() {
        // The second length needs 64-bit indices.
        for (element, len) in [(Element::F32, 1 << 20), (Element::F64, 3 << 30)] {
            let maker = Maker::new(Target::Cuda, element, len);
            let all = [maker.fill(), maker.copy(), maker.spread(), maker.perturb(), maker.compare()];
            kernelwright_codegen::kernel_verify::verify_all(&all).expect("well-formed kernels");
            match compile_only(&kernelwright_codegen::print::cuda(&all), 90, Arithmetic::Contracted) {
                // Without NVRTC there is nothing to compile with.
                Ok(_) | Err(BackendError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn vectors_are_filled_shifted_perturbed_and_compared() {
        for (target, element) in [(Target::Host, Element::F64), (Target::Cuda, Element::F32)] {
            let mut backend = InterpBackend::new(InterpOptions { target, ..InterpOptions::default() });
            let n = 1000;
            let kit = Kit::new(&mut backend, element, n).expect("kernels");
            let [a, b] = [0, 1].map(|_| backend.allocate(element, n).expect("a buffer"));
            let ramp: Vec<f64> = (0..n).map(|i| i as f64).collect();
            backend.write(a, &ramp).expect("numbers");
            kit.spread(&mut backend, b, a, 999).expect("a launch");
            let mut read = vec![0.0; n as usize];
            backend.read(b, &mut read).expect("numbers");
            assert_eq!((read[0], read[1], read[999]), (999.0, 0.0, 998.0));
            let found = kit.compare(&mut backend, a, b).expect("a launch");
            assert_eq!(found, Difference { largest: 999.0, scale: 999.0, missing: 0 });
            kit.fill(&mut backend, b, f64::NAN).expect("a launch");
            assert_eq!(kit.compare(&mut backend, a, b).expect("a launch").missing, n);
            kit.copy(&mut backend, b, a).expect("a launch");
            kit.perturb(&mut backend, b, a, 0, 1e-3).expect("a launch");
            let found = kit.compare(&mut backend, a, b).expect("a launch");
            assert!((found.largest - 1e-3 * 999.0 * 999.0).abs() < 0.1, "{found:?}");
            [a, b].into_iter().for_each(|buffer| backend.free(buffer));
            kit.close(&mut backend);
            assert_eq!((backend.counters().buffers, backend.counters().modules), (0, 0));
        }
    }
}
