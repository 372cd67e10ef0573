//! A sweep or a fence as something to search: its variants, its proof at small sizes, and its [`Bench`].

use std::collections::BTreeMap;
use std::sync::Arc;

use kernelwright_codegen::format::Contents;
use kernelwright_codegen::kernel::{Element, Kernel, MULTIPROCESSOR_LANES, MULTIPROCESSORS};
use kernelwright_codegen::loops::{Control, Program, ScalarId, SweepId};
use kernelwright_codegen::map::{self, Finish, Own, Part, Variant, Work};
use kernelwright_codegen::math;
use kernelwright_codegen::module::Module;
use kernelwright_syntax::program::Precision;

use super::bench::{Bench, Candidate, Inputs, Step};
use super::session::Session;
use super::space::{Shapes, Space};
use super::strategy::Points;
use super::tunable::{Launches, Proof, Tunable};
use super::{exact, key};
use crate::backend::interp::{InterpBackend, InterpOptions};
use crate::backend::{Backend, BackendError, KernelHandle};
use crate::pipeline::element_of;
use crate::solve::Error;

/// What a step is searched with.
pub struct Entry<'p> {
    /// The program at the sizes asked for.
    pub program: &'p Program,
    /// Its numbers.
    pub inputs: &'p Inputs,
    /// The same at small sizes, with the arrays of a stored matrix.
    pub small: Vec<(Program, Vec<Contents>)>,
    /// The step.
    pub step: Step,
    /// How it is mapped.
    pub mapping: Mapping,
}

/// How a step's candidates are mapped.
#[derive(Clone)]
pub struct Mapping {
    /// What for.
    pub target: map::Target,
    /// Precision of vectors.
    pub precision: Precision,
    /// Measures that the history holds.
    pub history_len: u64,
}

impl Mapping {
    /// A program with one variant for a step and defaults for all else.
    ///
    /// # Errors
    /// A variant that cannot be mapped.
    pub fn module(&self, program: &Program, step: Step, variant: Option<&Variant>) -> Result<Module, String> {
        let own: Own = variant.map(|variant| (step.name(program).to_string(), variant.clone())).into_iter().collect();
        let options = map::Options {
            target: self.target,
            precision: element_of(self.precision),
            history_len: self.history_len,
            // A trial is a sweep or a fence by itself: no sweep ends with the fence after it.
            variant: Variant { fence: Some(Finish::Own), ..Variant::for_space(self.target, &program.operator.space) },
        };
        let module = match step {
            // What others look like does not matter to a sweep; a fence adds up what sweeps leave.
            Step::Sweep(number) => map::map_sweep(program, &options, &own, SweepId(number)),
            Step::Fence(_) => map::map_each(program, &options, &own),
        };
        module.map_err(|error| error.to_string())
    }

    /// What can be chosen for a step; empty where nothing can.
    pub fn parts(&self, program: &Program, step: Step) -> Vec<Part> {
        Variant::parts(self.target, &program.operator.space, element_of(self.precision), work_of(program, step))
    }

    /// The candidates of a step.
    pub fn space(&self, program: &Program, step: Step) -> Space<Variant> {
        let (space, element, work) = (&program.operator.space, element_of(self.precision), work_of(program, step));
        let mut parts = self.parts(program, step);
        let default = Variant::for_space(self.target, space);
        let own = self.settled(program, step, &default, &mut parts);
        let products = match step {
            Step::Sweep(number) => program.sweeps[number].values.iter().filter(|value| value.kind.gathers()).count(),
            Step::Fence(_) => 0,
        };
        let shapes = StepShapes { target: self.target, space, work, element, products, own };
        Space::new(&shapes, default, parts)
    }

    /// What `auto` stands for in the default, where that is one of a part's values: found by comparing kernels. The word is
    /// taken out of the values then, since every candidate with it would be the same kernel as one with a value.
    fn settled(&self, program: &Program, step: Step, default: &Variant, parts: &mut [Part]) -> Settled {
        let code = |variant: &Variant| {
            let module = self.module(program, step, Some(variant)).ok()?;
            Some(key::code(self.target, &step.kernels(&module)))
        };
        let with = |part: &Part, value: &String| {
            let mut variant = default.clone();
            variant.set(part.key, value).ok().map(|()| variant)
        };
        let (mut found, plain) = (Settled::new(), code(default));
        // More lines than a cache holds are as many as it holds.
        for part in parts.iter_mut().filter(|part| part.key == "simd") {
            let own = default.get(part.key).unwrap_or_default();
            let same = |value: &String| with(part, value).is_some_and(|variant| code(&variant) == plain);
            let values = part.values.iter().filter(|value| **value == own || !same(value));
            part.values = values.cloned().collect();
        }
        for part in parts.iter_mut().filter(|part| default.get(part.key).as_deref() == Some(AUTO)) {
            let same = |value: &&String| with(part, value).is_some_and(|variant| code(&variant) == plain);
            let values = part.values.iter().filter(|value| *value != AUTO);
            if let Some(value) = values.clone().find(same).cloned() {
                part.values.retain(|value| value != AUTO);
                found.insert(part.key, value);
            }
        }
        found
    }
}

fn work_of(program: &Program, step: Step) -> Work {
    match step {
        Step::Sweep(number) => Work::of(program, &program.sweeps[number]),
        Step::Fence(_) => Work::Fence,
    }
}

/// A program at small sizes with what its default leaves there.
struct Small {
    program: Program,
    data: Vec<Contents>,
    /// What every candidate must leave.
    expected: BTreeMap<String, Vec<i64>>,
}

impl Small {
    fn new(mapping: &Mapping, (program, data): (Program, Vec<Contents>), step: Step) -> Result<Small, String> {
        let expected = exact::left(&program, &mapping.module(&program, step, None)?, step, &data)?;
        Ok(Small { program, data, expected })
    }

    fn proves(&self, mapping: &Mapping, step: Step, variant: &Variant) -> Result<(), String> {
        let module = mapping.module(&self.program, step, Some(variant))?;
        let left = exact::left(&self.program, &module, step, &self.data)?;
        exact::equal(&left, &self.expected)
    }
}

/// A step with its candidates.
pub struct StepSearch<'p> {
    program: &'p Program,
    step: Step,
    mapping: Mapping,
    space: Space<Variant>,
    small: Arc<Vec<Small>>,
    bench: Bench<'p>,
    bytes: u64,
}

impl<'p> StepSearch<'p> {
    /// Prepares the search: what the default leaves at small sizes, on the device as in the interpreter.
    ///
    /// # Errors
    /// A device that fails, or a default that does not agree with the interpreter.
    pub fn new(session: &mut Session<'_>, entry: Entry<'p>) -> Result<StepSearch<'p>, Error> {
        let Entry { program, inputs, small, step, mapping } = entry;
        let module = mapping.module(program, step, None).map_err(Error::Internal)?;
        let wrong = |why| Error::Internal(format!("the default of {} fails its proof: {why}", step.name(program)));
        let small = small.into_iter().map(|small| Small::new(&mapping, small, step));
        let small = small.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        if let Some(small) = small.first() {
            agree(session, small, inputs, step, &mapping)?;
        }
        let bench = Bench::new(&mut session.backend(), program, &module, step, inputs)?;
        let (space, bytes) = (mapping.space(program, step), bench.bytes(&module));
        Ok(StepSearch { program, step, mapping, space, small: Arc::new(small), bench, bytes })
    }
}

impl Tunable for StepSearch<'_> {
    type Mapped = Module;
    type Candidate = Candidate;

    fn name(&self) -> &str {
        self.step.name(self.program)
    }

    fn points(&self) -> &Points {
        &self.space.points
    }

    fn parts(&self, number: usize) -> Vec<(String, String)> {
        self.space.parts(number)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn map(&self, number: usize) -> Result<(Vec<Kernel>, Module), String> {
        let module = self.mapping.module(self.program, self.step, Some(&self.space.variants[number]))?;
        Ok((self.step.kernels(&module), module))
    }

    fn proof(&self, number: usize) -> Proof {
        let (small, mapping, step) = (self.small.clone(), self.mapping.clone(), self.step);
        let variant = self.space.variants[number].clone();
        Box::new(move || small.iter().try_for_each(|small| small.proves(&mapping, step, &variant)))
    }

    fn load(
        &self,
        backend: &mut dyn Backend,
        mapped: Module,
        kernels: Vec<KernelHandle>,
    ) -> Result<Candidate, BackendError> {
        self.bench.candidate(backend, mapped, kernels)
    }

    fn kernels<'c>(&self, candidate: &'c Candidate) -> &'c [KernelHandle] {
        candidate.kernels()
    }

    fn establish(&mut self, backend: &mut dyn Backend, candidate: &Candidate) -> Result<(), BackendError> {
        self.bench.establish(backend, candidate)
    }

    fn prove(&self, backend: &mut dyn Backend, candidate: &Candidate) -> Result<Result<(), String>, BackendError> {
        self.bench.prove(backend, candidate)
    }

    fn sets(&self) -> usize {
        self.bench.sets()
    }

    fn reset(&self, backend: &mut dyn Backend, candidate: &Candidate) -> Result<(), BackendError> {
        self.bench.reset(backend, candidate)
    }

    fn launches(&self, candidate: &Candidate, set: usize) -> Launches {
        self.bench.launches(candidate, set)
    }

    fn raises(&self) -> bool {
        self.bench.raises()
    }

    fn clear(&self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        self.bench.clear(backend)
    }

    fn discard(&self, backend: &mut dyn Backend, candidate: Candidate) {
        self.bench.discard(backend, candidate);
    }

    fn close(self, backend: &mut dyn Backend) {
        self.bench.close(backend);
    }
}

/// Holds the default kernels of a step, run by the device at small sizes, against the interpreter; once for each code.
fn agree(
    session: &mut Session<'_>,
    small: &Small,
    inputs: &Inputs,
    step: Step,
    mapping: &Mapping,
) -> Result<(), Error> {
    let backend = &mut session.backend();
    if backend.small_problems_only().is_some() {
        return Ok(());
    }
    let program = &small.program;
    let module = mapping.module(program, step, None).map_err(Error::Internal)?;
    if !session.first_time(key::code(session.target, &step.kernels(&module))) {
        return Ok(());
    }
    let mut inputs = inputs.resized(&program.operator);
    if !small.data.is_empty() {
        inputs.data.clone_from(&small.data);
    }
    let mut interpreter = InterpBackend::new(InterpOptions { target: session.target, ..InterpOptions::default() });
    let expected = established(&mut interpreter, step, program, &module, &inputs)?;
    let found = established(backend, step, program, &module, &inputs)?;
    let agrees = found.agrees(backend, &expected, &mut interpreter, module.vector_len as usize);
    found.close(backend);
    agrees?.map_err(|why| {
        let name = step.name(program);
        Error::Internal(format!("the default of {name} and the interpreter disagree: {why}"))
    })
}

/// A bench with the default's results as reference; its kernels are given back.
fn established<'p>(
    backend: &mut dyn Backend,
    step: Step,
    program: &'p Program,
    module: &Module,
    inputs: &Inputs,
) -> Result<Bench<'p>, Error> {
    let mut bench = Bench::new(backend, program, module, step, inputs)?;
    let handles = backend.compile(&step.kernels(module))?;
    let candidate = bench.candidate(backend, module.clone(), handles)?;
    let result = bench.establish(backend, &candidate);
    bench.discard(backend, candidate);
    match result {
        Ok(()) => Ok(bench),
        Err(error) => {
            bench.close(backend);
            Err(error.into())
        }
    }
}

/// What stands for a part's `auto` in the default.
type Settled = BTreeMap<&'static str, String>;

/// The word of a part that is left to the mapping.
const AUTO: &str = "auto";

/// What the variants of a step depend on.
struct StepShapes<'p> {
    target: map::Target,
    space: &'p math::Space,
    work: Work,
    element: Element,
    /// Products of a matrix in the step.
    products: usize,
    /// What the default's parts stand for.
    own: Settled,
}

impl Shapes for StepShapes<'_> {
    type Variant = Variant;

    fn value(&self, variant: &Variant, key: &str) -> String {
        let value = variant.get(key).unwrap_or_default();
        self.own.get(key).filter(|_| value == AUTO).cloned().unwrap_or(value)
    }

    fn with(&self, mut variant: Variant, key: &str, value: &str) -> Option<Variant> {
        variant.set(key, value).ok().map(|()| variant)
    }

    fn sensible(&self, variant: &Variant, default: &Variant, parts: &[Part]) -> bool {
        let kept = |part: &Part| {
            variant.matters(part.key, self.target, self.work)
                || self.value(variant, part.key) == self.value(default, part.key)
        };
        let fits = variant.holds_strips(self.products, self.element);
        variant.check().is_ok() && fits && parts.iter().all(kept)
    }

    /// Words with the ends of walks read twice, over the share of the device that has work. It need only put sensible
    /// candidates first; measuring corrects it.
    fn expected(&self, variant: &Variant) -> f64 {
        let grid = self.space.grid();
        let size = |axis: usize| grid.axes.get(axis).map_or(1, |axis| axis.size) as f64;
        let points: f64 = (0..grid.axes.len()).map(size).product();
        match (self.target, self.work) {
            (map::Target::Cuda, Work::Point | Work::Plain) => point(points, grid, variant),
            (map::Target::Cuda, Work::Line(axis)) => {
                let split = variant.segments.map_or(16.0, f64::from).max(1.0);
                let lanes = points / size(axis) * split;
                (LANES / lanes).max(1.0) * if split > 1.0 { 1.0 } else { 2.0 }
            }
            (map::Target::Cuda, Work::Rows) => 1.0,
            (map::Target::Cuda, Work::Fence) => {
                1.0 + 0.1 * (f64::from(variant.fence_lanes.unwrap_or(256)) / 256.0).log2().abs()
            }
            (map::Target::Host, Work::Point | Work::Plain) => {
                let [rows, planes] = variant.tile_of(grid);
                let blocks = (size(1) / rows as f64).ceil() * (size(2) / planes as f64).ceil();
                (pieces() / blocks).max(1.0) + 0.1 / (rows * planes) as f64
            }
            (map::Target::Host, Work::Line(_)) => 1.0 + 0.05 * (variant.simd as f64 / 128.0).log2().abs(),
            (map::Target::Host, Work::Fence | Work::Rows) => 1.0,
        }
    }
}

/// Lanes that keep a device busy.
const LANES: f64 = (MULTIPROCESSORS * MULTIPROCESSOR_LANES as u64 / 2) as f64;
/// Blocks that keep a core of a host busy to the end.
const PIECES: f64 = 4.0;

/// Blocks that keep a host's cores busy.
fn pieces() -> f64 {
    PIECES * std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64
}

/// A sweep over points on a device.
fn point(points: f64, grid: &math::Grid, variant: &Variant) -> f64 {
    let ([x, y], walk) = (variant.lanes(grid).map(f64::from), variant.walk(grid) as f64);
    let again = if variant.carry { 1.0 } else { 1.15 };
    let ends = (1.0 + 0.5 / walk) * again * (1.0 + 0.05 * (32.0 / x - 1.0).max(0.0));
    let idle = (LANES / (points / walk)).max(1.0);
    let odd = (x * y / 256.0).log2().abs();
    ends * idle * (1.0 + 0.03 * odd)
}

/// Sweeps and fences of a program's main loop, with how often each runs in a round.
pub fn steps(program: &Program, delay: u32) -> Vec<(Step, f64)> {
    let unbounded = program.body.iter().find(|control| matches!(control, Control::Loop { times: None, .. }));
    let main = unbounded.or_else(|| program.body.iter().find(|control| matches!(control, Control::Loop { .. })));
    let mut found = Vec::new();
    let light = if delay > 1 { 1.0 - 1.0 / f64::from(delay) } else { 1.0 };
    if let Some(Control::Loop { body, .. }) = main {
        walk(program, body, 1.0, light, &mut found);
    }
    found
}

fn walk(program: &Program, controls: &[Control], weight: f64, light: f64, found: &mut Vec<(Step, f64)>) {
    let mut add = |step: Step, predicate: Option<ScalarId>| {
        let weight = if predicate.is_some() { weight * light } else { weight };
        match found.iter_mut().find(|known| known.0 == step) {
            Some(known) => known.1 += weight,
            None => found.push((step, weight)),
        }
    };
    for control in controls {
        match control {
            Control::Sweep(id) => add(Step::Sweep(id.0), program.sweeps[id.0].predicate),
            Control::Fence(id) => add(Step::Fence(id.0), program.fences[id.0].predicate),
            Control::Rotate(_) | Control::Loop { .. } | Control::Every { .. } => {}
        }
    }
    for control in controls {
        match control {
            Control::Loop { times, body } => walk(program, body, weight * f64::from(times.unwrap_or(1)), light, found),
            Control::Every { n, body, otherwise } => {
                let share = weight / f64::from((*n).max(1));
                walk(program, body, share, light, found);
                walk(program, otherwise, weight - share, light, found);
            }
            Control::Sweep(_) | Control::Fence(_) | Control::Rotate(_) => {}
        }
    }
}
