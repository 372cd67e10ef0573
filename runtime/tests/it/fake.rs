//! A back end in memory whose kernels are written out in Rust: the relaxation u += relax * (f - u), with faults on
//! request. It lets the driver's decisions be tested one by one, without a compiler. And one that wraps another, some of
//! whose kernels it lets fail.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kernelwright::backend::build::Build;
use kernelwright::backend::{Backend, BackendError, BufferHandle, Counters, Integers, KernelHandle, Target};
use kernelwright::solve::Engine;
use kernelwright_codegen::kernel::{Element, IndexWidth, Kernel};
use kernelwright_codegen::loops::{
    BinaryOp, Control, Fence, FenceId, Granule, Program, RequireInfo, Role, ScalarCondition, ScalarExpr, ScalarId,
    ScalarStmt, Sweep, SweepId, Vector, VectorId, Version, status,
};
use kernelwright_codegen::math::{Axis, Centring, Grid, Operator, Space};
use kernelwright_codegen::module::{Arg, Launch, Module};
use kernelwright_syntax::program::{CompareOp, Outcome};

/// Number of points.
pub const POINTS: usize = 5;

/// Says of which kernels something is true.
pub type Which = Box<dyn FnMut(&Kernel) -> bool>;

/// Another back end on which some kernels do not compile, and some fail when they are launched.
pub struct Faulty {
    pub inner: Box<dyn Backend>,
    pub refuses: Which,
    pub breaks: Which,
    /// Nothing works any more once a kernel has broken.
    pub fatal: bool,
    pub gone: bool,
    pub broken: BTreeSet<usize>,
    /// What compiles in other threads.
    pub builder: Option<Arc<dyn Build>>,
    /// What every launch takes at least.
    pub pause: Duration,
}

impl Faulty {
    /// One without faults.
    pub fn new(inner: Box<dyn Backend>) -> Faulty {
        let never = || -> Which { Box::new(|_| false) };
        let (refuses, breaks, broken) = (never(), never(), BTreeSet::new());
        Faulty { inner, refuses, breaks, fatal: false, gone: false, broken, builder: None, pause: Duration::ZERO }
    }

    fn answers(&self) -> Result<(), BackendError> {
        if self.gone { Err(BackendError::Device("the device is gone".to_string())) } else { Ok(()) }
    }
}

impl Backend for Faulty {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
        self.answers()?;
        if kernels.iter().any(|kernel| (self.refuses)(kernel)) {
            return Err(BackendError::Compile { language: "fake", log: "a fault".to_string() });
        }
        let handles = self.inner.compile(kernels)?;
        for (kernel, handle) in kernels.iter().zip(&handles) {
            // Handles may be used again.
            self.broken.remove(&handle.0);
            if (self.breaks)(kernel) {
                self.broken.insert(handle.0);
            }
        }
        Ok(handles)
    }

    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError> {
        self.answers()?;
        self.inner.allocate(element, len)
    }

    fn free(&mut self, buffer: BufferHandle) {
        self.inner.free(buffer);
    }

    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError> {
        self.answers()?;
        self.inner.write(buffer, values)
    }

    fn write_integers(&mut self, buffer: BufferHandle, values: Integers) -> Result<(), BackendError> {
        self.answers()?;
        self.inner.write_integers(buffer, values)
    }

    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError> {
        self.answers()?;
        self.inner.read(buffer, values)
    }

    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
        self.answers()?;
        if self.broken.contains(&kernel.0) {
            self.gone = self.fatal;
            return Err(BackendError::Device("an illegal address".to_string()));
        }
        std::thread::sleep(self.pause);
        self.inner.launch(kernel, args)
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        self.answers()?;
        self.inner.synchronize()
    }

    fn release(&mut self, kernels: &[KernelHandle]) {
        self.inner.release(kernels);
    }

    fn target(&self) -> Target {
        self.inner.target()
    }

    fn small_problems_only(&self) -> Option<u64> {
        self.inner.small_problems_only()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn builder(&self) -> Option<Arc<dyn Build>> {
        self.builder.clone()
    }
}

/// What the kernels do wrong, and what tests look at afterwards.
#[derive(Default)]
pub struct Faults {
    /// Stored solutions are rounded to multiples of this.
    pub quantum: f64,
    /// The recursive residual is computed from the solution, not carried on.
    pub honest: bool,
    /// The first `require` fails at this iteration.
    pub require_at: Option<f64>,
    /// The residual becomes NaN at this iteration.
    pub nan_at: Option<f64>,
    /// The preparation finds the right-hand side incompatible.
    pub incompatible: bool,
    /// What the residual section estimates as attainable.
    pub attainable: f64,
    /// Relaxation factor; 0.5 when zero.
    pub relax: f64,
    /// How often `compile` was called, and kernels launched by name.
    pub compiles: usize,
    pub launches: BTreeMap<&'static str, usize>,
}

pub struct Fake {
    buffers: Vec<Vec<f64>>,
    faults: Rc<RefCell<Faults>>,
}

const KERNELS: [&str; 6] = ["prepare", "residual", "step", "first", "check", "measure"];

impl Backend for Fake {
    fn describe(&self) -> String {
        "fake".to_string()
    }

    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
        self.faults.borrow_mut().compiles += 1;
        Ok((0..kernels.len()).map(KernelHandle).collect())
    }

    fn allocate(&mut self, _: Element, len: u64) -> Result<BufferHandle, BackendError> {
        self.buffers.push(vec![0.0; len as usize]);
        Ok(BufferHandle(self.buffers.len() - 1))
    }

    fn free(&mut self, buffer: BufferHandle) {
        self.buffers[buffer.0].clear();
    }

    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError> {
        self.buffers[buffer.0][..values.len()].copy_from_slice(values);
        Ok(())
    }

    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError> {
        values.copy_from_slice(&self.buffers[buffer.0][..values.len()]);
        Ok(())
    }

    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
        let name = KERNELS[kernel.0];
        let faults = self.faults.clone();
        let mut faults = faults.borrow_mut();
        *faults.launches.entry(name).or_default() += 1;
        // The first arguments of every kernel are status, scalars and history.
        let (word, scalars, history) = (args[0].0, args[1].0, args[2].0);
        if self.buffers[word][0] != 0.0 {
            return Ok(());
        }
        let rest: Vec<usize> = args[3..].iter().map(|arg| arg.0).collect();
        match name {
            "prepare" if faults.incompatible => self.buffers[word][0] = f64::from(status::INCOMPATIBLE),
            "prepare" => {}
            "residual" => {
                let r: Vec<f64> = (0..POINTS).map(|p| self.buffers[rest[0]][p] - self.buffers[rest[1]][p]).collect();
                self.buffers[rest[2]] = r;
            }
            "step" => self.step(&faults, rest[0], rest[1], rest[2], rest[3]),
            "first" | "check" => self.check(&faults, name, word, scalars, history, &rest),
            "measure" => {
                self.measure(scalars, rest[0], rest[1]);
                self.buffers[scalars][ScalarId::ATTAINABLE.0] = faults.attainable;
            }
            other => panic!("no kernel {other}"),
        }
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

impl Fake {
    /// Writes the next solution; f, u, next u, r.
    fn step(&mut self, faults: &Faults, f: usize, u: usize, next: usize, r: usize) {
        let relax = if faults.relax == 0.0 { 0.5 } else { faults.relax };
        for p in 0..POINTS {
            let step = relax * self.buffers[r][p];
            let value = self.buffers[u][p] + step;
            let stored = if faults.quantum > 0.0 { (value / faults.quantum).floor() * faults.quantum } else { value };
            self.buffers[next][p] = stored;
            self.buffers[r][p] = if faults.honest { self.buffers[f][p] - stored } else { self.buffers[r][p] - step };
        }
    }

    fn measure(&mut self, scalars: usize, f: usize, r: usize) {
        let norm = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>().sqrt();
        let bound = self.buffers[scalars][ScalarId::TOLERANCE.0] * norm(&self.buffers[f]);
        self.buffers[scalars][ScalarId::MEASURE.0] = norm(&self.buffers[r]);
        self.buffers[scalars][ScalarId::BOUND.0] = bound;
    }

    fn check(&mut self, faults: &Faults, name: &str, word: usize, scalars: usize, history: usize, rest: &[usize]) {
        if name == "check" {
            self.buffers[scalars][ScalarId::ITERATION.0] += 1.0;
        }
        let iteration = self.buffers[scalars][ScalarId::ITERATION.0];
        if faults.nan_at == Some(iteration) {
            self.buffers[rest[1]][0] = f64::NAN;
        }
        self.measure(scalars, rest[0], rest[1]);
        let (measure, bound) = (self.buffers[scalars][ScalarId::MEASURE.0], self.buffers[scalars][ScalarId::BOUND.0]);
        if let Some(place) = self.buffers[history].get_mut(iteration as usize) {
            *place = measure;
        }
        let raised = if !measure.is_finite() {
            status::NOT_FINITE
        } else if measure <= bound {
            status::CONVERGED
        } else if faults.require_at == Some(iteration) && name == "check" {
            status::REQUIRE
        } else {
            return;
        };
        self.buffers[word][..2].copy_from_slice(&[f64::from(raised), iteration]);
    }
}

/// An engine on the fake back end; `outcome` is what the `require` names.
pub fn engine(faults: Faults, outcome: Outcome, limit: u32) -> (Engine, Rc<RefCell<Faults>>) {
    let faults = Rc::new(RefCell::new(faults));
    let backend = Fake { buffers: Vec::new(), faults: faults.clone() };
    let engine = Engine::new(program(outcome), module(), Box::new(backend), limit);
    (engine.expect("the fake back end takes everything"), faults)
}

const F: VectorId = VectorId(0);
const U: VectorId = VectorId(1);
const R: VectorId = VectorId(2);

fn program(outcome: Outcome) -> Program {
    let vector = |name: &str, role, versions| Vector { name: name.to_string(), role, versions };
    let sweep = |name: &str| Sweep {
        name: name.to_string(),
        text: Vec::new(),
        granule: Granule::Point,
        values: Vec::new(),
        stores: Vec::new(),
        sums: Vec::new(),
        predicate: None,
    };
    let number = ScalarExpr::Number;
    let check = ScalarStmt::Check { measure: number(0.0), bound: number(0.0) };
    let next =
        ScalarExpr::Binary(BinaryOp::Add, Box::new(ScalarExpr::Scalar(ScalarId::ITERATION)), Box::new(number(1.0)));
    let advance = ScalarStmt::Assign { scalar: ScalarId::ITERATION, value: next, text: String::new() };
    let condition = ScalarCondition::Compare(CompareOp::Gt, number(1.0), number(0.0));
    let require = ScalarStmt::Require { number: 0, condition };
    let incompatible = ScalarStmt::Raise {
        status: status::INCOMPATIBLE,
        condition: ScalarCondition::Compare(CompareOp::Gt, number(0.0), number(1.0)),
    };
    let fence = |name: &str, statements| Fence { name: name.to_string(), statements, predicate: None };
    let measure = ScalarStmt::Measure { measure: number(0.0), bound: number(0.0) };
    let (sweep_step, fence_step) = (|n| Control::Sweep(SweepId(n)), |n| Control::Fence(FenceId(n)));
    Program {
        name: "relaxation".to_string(),
        operator: operator(),
        vectors: vec![vector("f", Role::Rhs, 1), vector("u", Role::Solution, 3), vector("r", Role::Work, 1)],
        scalars: ["tolerance", "iteration", "measure", "bound", "attainable"].map(String::from).to_vec(),
        solver_params: Vec::new(),
        sums: Vec::new(),
        sweeps: vec![sweep("residual"), sweep("step")],
        fences: vec![
            fence("prepare", vec![incompatible]),
            fence("first", vec![check.clone()]),
            fence("check", vec![advance, check, require]),
            fence("measure", vec![measure]),
        ],
        requires: vec![RequireInfo { outcome, text: "require sigma > 0 else …;".to_string(), line: 7 }],
        prepare: vec![fence_step(0)],
        start: vec![sweep_step(0), fence_step(1)],
        body: vec![Control::Loop { times: None, body: vec![sweep_step(1), Control::Rotate(U), fence_step(2)] }],
        residual: vec![sweep_step(0), fence_step(3)],
        finish: Vec::new(),
    }
}

fn operator() -> Operator {
    let axis = Axis { letter: "i".to_string(), size_name: "n".to_string(), size: POINTS as u64 };
    Operator {
        name: "identity".to_string(),
        space: Space::Axes(Grid { axes: vec![axis], centring: Centring::Cells, components: 1 }),
        params: vec!["omega".to_string()],
        data: Vec::new(),
        lets: Vec::new(),
        tables: Vec::new(),
        fluxes: Vec::new(),
        unknowns: vec!["u".to_string()],
        rows: Vec::new(),
        boundary: Vec::new(),
        mask: None,
        nullspace: false,
        facts: Vec::new(),
    }
}

fn module() -> Module {
    let version = |vector, ahead| Arg::Vector(Version { vector, ahead });
    let launch = |kernel: usize, rest: &[Arg]| {
        let args = [Arg::Status, Arg::Scalars, Arg::History].iter().chain(rest).copied().collect();
        vec![Launch { kernel, args }]
    };
    let kernel = |name: &&str| Kernel {
        name: name.to_string(),
        doc: Vec::new(),
        buffers: Vec::new(),
        grid: [1; 3],
        lanes: [1; 3],
        resident_blocks: None,
        simd_width: None,
        index: IndexWidth::I32,
        vars: Vec::new(),
        body: Vec::new(),
    };
    let (f, u, next, r) = (version(F, 0), version(U, 0), version(U, 1), version(R, 0));
    Module {
        kernels: KERNELS.iter().map(kernel).collect(),
        setup: Vec::new(),
        sweeps: vec![launch(1, &[f, u, r]), launch(2, &[f, u, next, r])],
        fences: vec![launch(0, &[]), launch(3, &[f, r]), launch(4, &[f, r]), launch(5, &[f, r])],
        buffers: Vec::new(),
        vector_len: POINTS as u64,
        real: Element::F64,
    }
}
