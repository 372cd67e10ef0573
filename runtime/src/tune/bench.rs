//! A test bench for one sweep or fence: its buffers with random contents, for proofs and for measurements.
//!
//! [`super::proof`] holds candidates against a reference here; [`super::clock`] measures them.

use std::collections::{BTreeMap, BTreeSet};

use kernelwright_codegen::format::Contents;
use kernelwright_codegen::kernel::{Access, Element, Kernel, Space};
use kernelwright_codegen::loops::{self, ScalarId, Version};
use kernelwright_codegen::math;
use kernelwright_codegen::module::{Arg, Launch, Module};

use super::kit::Kit;
use super::proof::Reference;
use crate::backend::{Backend, BackendError, BufferHandle, Integers, KernelHandle};
use crate::inputs::random;
use crate::solve::data_element;

/// Bytes beyond which no cache keeps a kernel's vectors from one launch to the next.
const CACHE: u64 = 256 << 20;
/// Copies of the vectors at most.
const MOST_SETS: u64 = 16;

/// What is tuned at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A sweep, by number.
    Sweep(usize),
    /// A fence, by number.
    Fence(usize),
}

impl Step {
    /// Its launches in a module.
    pub fn launches(self, module: &Module) -> &[Launch] {
        match self {
            Step::Sweep(number) => &module.sweeps[number],
            Step::Fence(number) => &module.fences[number],
        }
    }

    /// Its kernels in a module, in order of launch.
    pub fn kernels(self, module: &Module) -> Vec<Kernel> {
        self.launches(module).iter().map(|launch| module.kernels[launch.kernel].clone()).collect()
    }

    /// Its name in a program.
    pub fn name(self, program: &loops::Program) -> &str {
        match self {
            Step::Sweep(number) => &program.sweeps[number].name,
            Step::Fence(number) => &program.fences[number].name,
        }
    }
}

/// Numbers that kernels are given.
#[derive(Debug, Clone, Default)]
pub struct Inputs {
    /// Parameters of the operator, then of the solver.
    pub params: Vec<f64>,
    /// Data arrays of the operator, or the arrays of a stored matrix.
    pub data: Vec<Contents>,
}

impl Inputs {
    /// The same parameters with random data for an operator of other sizes.
    pub fn resized(&self, operator: &math::Operator) -> Inputs {
        let grid = operator.space.grid();
        let len = |data: &math::Data| -> u64 {
            data.axes.iter().map(|axis| grid.axes[*axis].size + u64::from(data.half == Some(*axis))).product()
        };
        let drawn = |n: usize, len: u64| random::fill(40 + n as u64, 0, len as usize).iter().map(|x| 1.0 + x).collect();
        let numbers = |(n, data)| Contents::Real(drawn(n, len(data)));
        Inputs { params: self.params.clone(), data: operator.data.iter().enumerate().map(numbers).collect() }
    }
}

/// A launch list of a candidate on its own buffers.
pub struct Candidate {
    pub(super) module: Module,
    pub(super) kernels: Vec<KernelHandle>,
    /// Buffers of the module beyond the tables, by number.
    pub(super) own: BTreeMap<usize, BufferHandle>,
}

impl Candidate {
    /// The kernels, in order of launch.
    pub fn kernels(&self) -> &[KernelHandle] {
        &self.kernels
    }
}

/// Buffers and reference of a step.
pub struct Bench<'p> {
    pub(super) program: &'p loops::Program,
    pub(super) step: Step,
    pub(super) roundoff: f64,
    pub(super) kit: Kit,
    /// Random numbers that vectors repeat.
    pub(super) source: BufferHandle,
    /// Copies of the step's vectors; the first is the one proofs use.
    pub(super) sets: Vec<BTreeMap<Version, BufferHandle>>,
    pub(super) read: BTreeSet<Version>,
    pub(super) written: BTreeSet<Version>,
    pub(super) scalars: BufferHandle,
    params: BufferHandle,
    pub(super) status: BufferHandle,
    pub(super) history: BufferHandle,
    pub(super) history_len: usize,
    data: Vec<BufferHandle>,
    pub(super) tables: Vec<BufferHandle>,
    setup: Vec<(KernelHandle, Vec<BufferHandle>)>,
    setup_kernels: Vec<KernelHandle>,
    pub(super) reference: Reference,
    buffers: Vec<BufferHandle>,
}

impl<'p> Bench<'p> {
    /// Allocates and fills everything a step needs; `module` is the reference's.
    ///
    /// # Errors
    /// A device that fails or is too small.
    pub fn new(
        backend: &mut dyn Backend,
        program: &'p loops::Program,
        module: &Module,
        step: Step,
        inputs: &Inputs,
    ) -> Result<Bench<'p>, BackendError> {
        let (read, written) = uses(program, module, step);
        let mut room = Room { backend, buffers: Vec::new() };
        let made = Bench::fill(&mut room, program, module, step, inputs, (read, written));
        let Room { buffers, .. } = room;
        match made {
            Ok(mut bench) => {
                bench.buffers = buffers;
                bench.tables(backend)?;
                Ok(bench)
            }
            Err(error) => {
                buffers.into_iter().for_each(|buffer| backend.free(buffer));
                Err(error)
            }
        }
    }

    fn fill(
        room: &mut Room<'_>,
        program: &'p loops::Program,
        module: &Module,
        step: Step,
        inputs: &Inputs,
        (read, written): (BTreeSet<Version>, BTreeSet<Version>),
    ) -> Result<Bench<'p>, BackendError> {
        let (real, len) = (module.real, module.vector_len);
        let period = Kit::period(len);
        let source = room.filled(real, period, &random::fill(1, 0, period as usize))?;
        let all: BTreeSet<Version> = read.union(&written).copied().collect();
        let mut sets = Vec::new();
        for _ in 0..copies(program, module, all.len() as u64) {
            let one = all.iter().map(|version| Ok((*version, room.empty(real, len)?)));
            sets.push(one.collect::<Result<BTreeMap<_, _>, BackendError>>()?);
        }
        let history_len = module_extent(module, step, Arg::History).unwrap_or(1);
        let mut data = Vec::new();
        for (about, contents) in program.operator.data.iter().zip(&inputs.data) {
            data.push(room.contents(data_element(about, real), contents)?);
        }
        let count = program.operator.tables.len();
        let tables = module.buffers[..count].iter().map(|buffer| room.empty(buffer.element, buffer.len));
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        let params = room.filled(Element::F64, inputs.params.len() as u64, &inputs.params)?;
        let (scalars, status) = (room.empty(Element::F64, scalar_count(program))?, room.empty(Element::I32, 2)?);
        let history = room.empty(Element::F64, history_len)?;
        let kit = Kit::new(room.backend, real, len)?;
        let bench = Bench {
            program,
            step,
            roundoff: if real == Element::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON },
            kit,
            source,
            sets,
            read,
            written,
            scalars,
            params,
            status,
            history,
            history_len: history_len as usize,
            data,
            setup: Vec::new(),
            setup_kernels: Vec::new(),
            tables,
            reference: Reference::default(),
            buffers: Vec::new(),
        };
        bench.with_setup(room.backend, module)
    }

    fn with_setup(mut self, backend: &mut dyn Backend, module: &Module) -> Result<Bench<'p>, BackendError> {
        if module.setup.is_empty() {
            return Ok(self);
        }
        let kernels: Vec<Kernel> = module.setup.iter().map(|launch| module.kernels[launch.kernel].clone()).collect();
        self.setup_kernels = backend.compile(&kernels)?;
        let none = BTreeMap::new();
        let launches = module.setup.iter().zip(&self.setup_kernels);
        self.setup = launches.map(|(launch, kernel)| (*kernel, self.args(launch, &self.sets[0], &none))).collect();
        Ok(self)
    }

    /// Evaluates the tables.
    pub(super) fn tables(&self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        self.setup.iter().try_for_each(|(kernel, args)| backend.launch(*kernel, args))
    }

    /// Gives everything back.
    pub fn close(mut self, backend: &mut dyn Backend) {
        self.buffers.drain(..).for_each(|buffer| backend.free(buffer));
        self.reference.vectors.values().for_each(|(buffer, _)| backend.free(*buffer));
        backend.release(&self.setup_kernels);
        self.kit.close(backend);
    }

    /// Bytes that a launch reads and writes at least: each vector and each array of a matrix once.
    pub fn bytes(&self, module: &Module) -> u64 {
        let real = module.real.bytes();
        let matrix = self.program.operator.data.iter().filter_map(|data| data.stored.as_ref());
        let matrix: u64 = matrix.map(|array| array.len * array.kind.bytes(real)).sum();
        (self.read.len() + self.written.len()) as u64 * module.vector_len * real + matrix
    }

    /// A candidate from its module and loaded kernels (in order of launch), with buffers of its own.
    ///
    /// # Errors
    /// A device that is too small; the kernels are given back then.
    pub fn candidate(
        &self,
        backend: &mut dyn Backend,
        module: Module,
        kernels: Vec<KernelHandle>,
    ) -> Result<Candidate, BackendError> {
        let mut made = Candidate { module, kernels, own: BTreeMap::new() };
        let args = self.step.launches(&made.module).iter().flat_map(|launch| launch.args.clone());
        let numbers: BTreeSet<usize> = args.filter_map(|arg| own(arg, self.tables.len())).collect();
        for number in numbers {
            let buffer = &made.module.buffers[number];
            match backend.allocate(buffer.element, buffer.len.max(1)) {
                Ok(handle) => made.own.insert(number, handle),
                Err(error) => {
                    self.discard(backend, made);
                    return Err(error);
                }
            };
        }
        Ok(made)
    }

    /// Gives a candidate's kernels and buffers back.
    pub fn discard(&self, backend: &mut dyn Backend, candidate: Candidate) {
        candidate.own.values().for_each(|buffer| backend.free(*buffer));
        backend.release(&candidate.kernels);
    }

    /// Launches of a candidate on a copy of the vectors; a fence starts with a status word that is clear.
    pub fn launches(&self, candidate: &Candidate, set: usize) -> Vec<(KernelHandle, Vec<BufferHandle>)> {
        let set = &self.sets[set % self.sets.len()];
        let launches = self.step.launches(&candidate.module).iter().zip(&candidate.kernels);
        launches.map(|(launch, kernel)| (*kernel, self.args(launch, set, &candidate.own))).collect()
    }

    /// Copies of the vectors.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Whether launches may raise the status word, after which they do nothing.
    pub fn raises(&self) -> bool {
        matches!(self.step, Step::Fence(_))
    }

    /// Clears the status word.
    pub fn clear(&self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        backend.write(self.status, &[0.0, 0.0])
    }

    fn args(
        &self,
        launch: &Launch,
        set: &BTreeMap<Version, BufferHandle>,
        own: &BTreeMap<usize, BufferHandle>,
    ) -> Vec<BufferHandle> {
        let of = |arg: &Arg| match *arg {
            Arg::Vector(version) => set[&canonical(self.program, version)],
            Arg::Scalars => self.scalars,
            Arg::Params => self.params,
            Arg::Status => self.status,
            Arg::History => self.history,
            Arg::Data(number) => self.data[number],
            Arg::Module(number) => self.tables.get(number).copied().unwrap_or_else(|| own[&number]),
        };
        launch.args.iter().map(of).collect()
    }

    /// Inputs as at first, outputs NaN, on every copy of the vectors.
    pub fn reset(&self, backend: &mut dyn Backend, candidate: &Candidate) -> Result<(), BackendError> {
        for set in 0..self.sets.len() {
            self.reset_vectors(backend, set)?;
        }
        self.reset_small(backend, 0.0, 0)?;
        self.reset_own(backend, candidate, 0.0, 0)
    }

    pub(super) fn reset_vectors(&self, backend: &mut dyn Backend, set: usize) -> Result<(), BackendError> {
        for (number, (version, buffer)) in self.sets[set].iter().enumerate() {
            if self.read.contains(version) {
                self.kit.spread(backend, *buffer, self.source, 7919 * number as u64)?;
            } else {
                self.kit.fill(backend, *buffer, f64::NAN)?;
            }
        }
        Ok(())
    }

    /// Scalars near one, which neither blow anything up nor let it vanish over many launches.
    pub(super) fn reset_small(&self, backend: &mut dyn Backend, amount: f64, draw: u64) -> Result<(), BackendError> {
        let mut scalars: Vec<f64> = random::fill(2, 0, scalar_count(self.program) as usize)
            .iter()
            .zip(random::fill(50 + draw, 0, scalar_count(self.program) as usize))
            .map(|(x, noise)| (1.0 + 0.2 * x) * (1.0 + amount * noise))
            .collect();
        scalars[ScalarId::ITERATION.0] = 1.0;
        backend.write(self.scalars, &scalars)?;
        backend.write(self.history, &vec![0.0; self.history_len])?;
        self.clear(backend)
    }

    /// A candidate's own buffers: NaN, or, where the step only reads them, positive numbers.
    pub(super) fn reset_own(
        &self,
        backend: &mut dyn Backend,
        candidate: &Candidate,
        amount: f64,
        draw: u64,
    ) -> Result<(), BackendError> {
        let read_only = matches!(self.step, Step::Fence(_));
        for (number, buffer) in &candidate.own {
            let len = candidate.module.buffers[*number].len.max(1) as usize;
            let element = candidate.module.buffers[*number].element;
            let values = if !matches!(element, Element::F32 | Element::F64) {
                vec![0.0; len]
            } else if read_only {
                let noise = random::fill(60 + draw, *number as u64, len);
                let plain = random::fill(3, 1000 * *number as u64, len);
                plain.iter().zip(noise).map(|(x, e)| (1.0 + x) * (1.0 + amount * e)).collect()
            } else {
                vec![f64::NAN; len]
            };
            backend.write(*buffer, &values)?;
        }
        Ok(())
    }

    pub(super) fn run(&self, backend: &mut dyn Backend, candidate: &Candidate) -> Result<(), BackendError> {
        self.launches(candidate, 0).iter().try_for_each(|(kernel, args)| backend.launch(*kernel, args))
    }

    pub(super) fn read_f64(
        &self,
        backend: &mut dyn Backend,
        buffer: BufferHandle,
        len: usize,
    ) -> Result<Vec<f64>, BackendError> {
        let mut values = vec![0.0; len];
        backend.read(buffer, &mut values)?;
        Ok(values)
    }
}

/// Allocates and remembers what it allocated.
struct Room<'b> {
    backend: &'b mut dyn Backend,
    buffers: Vec<BufferHandle>,
}

impl Room<'_> {
    fn empty(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError> {
        let buffer = self.backend.allocate(element, len.max(1))?;
        self.buffers.push(buffer);
        Ok(buffer)
    }

    fn filled(&mut self, element: Element, len: u64, values: &[f64]) -> Result<BufferHandle, BackendError> {
        let buffer = self.empty(element, len)?;
        self.backend.write(buffer, values)?;
        Ok(buffer)
    }

    fn contents(&mut self, element: Element, contents: &Contents) -> Result<BufferHandle, BackendError> {
        let integers = match Integers::of(contents) {
            Ok(integers) => integers,
            Err(values) => return self.filled(element, values.len() as u64, values),
        };
        let buffer = self.empty(element, contents.len() as u64)?;
        self.backend.write_integers(buffer, integers)?;
        Ok(buffer)
    }
}

/// Versions of vectors that a step reads and that it writes.
fn uses(program: &loops::Program, module: &Module, step: Step) -> (BTreeSet<Version>, BTreeSet<Version>) {
    let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
    for launch in step.launches(module) {
        let global = module.kernels[launch.kernel].buffers.iter().filter(|buffer| buffer.space == Space::Global);
        for (arg, buffer) in launch.args.iter().zip(global) {
            if let Arg::Vector(version) = arg {
                let version = canonical(program, *version);
                if buffer.access != Access::Write {
                    read.insert(version);
                }
                if !buffer.access.is_read() {
                    written.insert(version);
                }
            }
        }
    }
    (read, written)
}

/// Versions are numbered modulo their number.
fn canonical(program: &loops::Program, version: Version) -> Version {
    let versions = program.vectors[version.vector.0].versions.max(1);
    Version { ahead: version.ahead % versions, ..version }
}

/// The module buffer of an argument that belongs to the candidate alone.
fn own(arg: Arg, tables: usize) -> Option<usize> {
    match arg {
        Arg::Module(number) if number >= tables => Some(number),
        _ => None,
    }
}

pub(super) fn scalar_count(program: &loops::Program) -> u64 {
    program.scalars.len().max(ScalarId::RESERVED) as u64
}

/// Elements of an argument's buffer, as the kernels of a step know it.
fn module_extent(module: &Module, step: Step, wanted: Arg) -> Option<u64> {
    step.launches(module).iter().find_map(|launch| {
        let global = module.kernels[launch.kernel].buffers.iter().filter(|buffer| buffer.space == Space::Global);
        launch.args.iter().zip(global).find(|(arg, _)| **arg == wanted).map(|(_, buffer)| buffer.extent)
    })
}

/// Copies of a step's vectors to launch on in turn. Between two launches of a step the rest of the loop passes through
/// the caches: as many bytes should do so here, unless they are too many for any cache anyway.
fn copies(program: &loops::Program, module: &Module, vectors: u64) -> u64 {
    let size = module.real.bytes();
    let one = (vectors * module.vector_len * size).max(1);
    let all = program.vectors.iter().map(|vector| u64::from(vector.versions.max(1))).sum::<u64>();
    let round = all * module.vector_len * size;
    round.min(CACHE).div_ceil(one).clamp(1, MOST_SETS)
}
