//! A compiled loop on a back end: its kernels, its buffers and which version of each vector is current.
//!
//! Where a matrix is stored in another order of rows, vectors on the device are in that order and those outside are not:
//! they are brought into it on their way, each time.

mod section;

use std::sync::Arc;
use std::time::Instant;

use kernelwright_codegen::format::{Contents, Kind};
use kernelwright_codegen::kernel::Element;
use kernelwright_codegen::loops::{self, Role, ScalarId, VectorId, Version};
use kernelwright_codegen::math;
use kernelwright_codegen::module::{Arg, Launch, Module};

use super::Error;
use super::cursor::Step;
use super::outcome::Stages;
use super::queue::Queue;
use super::raise::Raises;
use crate::backend::{Backend, BufferHandle, Counters, Integers, KernelHandle, VectorMut, VectorRef};
use crate::bandwidth::{Pattern, measure, sensible_bytes};
use crate::inputs::random;
use crate::pipeline;

/// A scheduled and mapped loop, loaded on a back end, with all its buffers.
///
/// This is the level below [`Solver`](super::Solver): it knows arrays and numbers, no names. Inputs stay on the
/// device until they are set again.
pub struct Engine {
    pub(super) program: loops::Program,
    pub(super) raises: Raises,
    pub(super) device: Device,
    pub(super) limit: u32,
    /// Whether parameters or data changed since the tables were evaluated.
    pub(super) stale: bool,
    /// Stages of compiling that happened here.
    pub(super) stages: Stages,
}

/// The back end with everything on it; separate from the program so that cursors may borrow the latter.
pub(super) struct Device {
    backend: Box<dyn Backend>,
    module: Module,
    kernels: Vec<KernelHandle>,
    vectors: Vec<Vec<BufferHandle>>,
    current: Vec<u32>,
    scalars: BufferHandle,
    params: BufferHandle,
    status: BufferHandle,
    history: BufferHandle,
    data: Vec<BufferHandle>,
    buffers: Vec<BufferHandle>,
    queue: Queue,
    /// Element r of a vector on the device is element `order[r]` outside.
    order: Option<Arc<[u64]>>,
}

/// Which version of every vector is current; what a replay brings back.
pub(super) type Rotation = Vec<u32>;

impl Engine {
    /// Compiles the kernels and allocates every buffer. `limit` is the largest number of iterations of a solve.
    pub fn new(
        program: loops::Program,
        module: Module,
        mut backend: Box<dyn Backend>,
        limit: u32,
    ) -> Result<Self, Error> {
        check_shape(&program, &module)?;
        let before = backend.compile_times();
        let kernels = backend.compile(&module.kernels)?;
        let stages = Stages { backend: backend.compile_times().since(before), ..Stages::default() };
        let begin = Instant::now();
        let mut device = Device {
            vectors: Vec::with_capacity(program.vectors.len()),
            current: vec![0; program.vectors.len()],
            scalars: backend.allocate(Element::F64, program.scalars.len().max(ScalarId::RESERVED) as u64)?,
            params: backend.allocate(Element::F64, param_count(&program).max(1) as u64)?,
            status: backend.allocate(Element::I32, 2)?,
            history: backend.allocate(Element::F64, pipeline::history_len(limit))?,
            data: Vec::new(),
            buffers: Vec::new(),
            queue: Queue::default(),
            order: None,
            backend,
            module,
            kernels,
        };
        if let Err(error) = device.allocate(&program) {
            // The back end may be shared: what was allocated would stay.
            device.into_backend();
            return Err(error);
        }
        let raises = Raises::of(&program);
        let stages = Stages { allocate: begin.elapsed(), ..stages };
        Ok(Engine { program, raises, device, limit, stale: true, stages })
    }

    /// Threads that run kernels, where their number can be chosen.
    pub fn threads(&self) -> Option<usize> {
        self.device.backend.threads()
    }

    /// Chooses the number of threads, where there is such a choice.
    ///
    /// # Errors
    /// A system that has no threads left.
    pub fn set_threads(&mut self, threads: usize) -> Result<(), Error> {
        Ok(self.device.backend.set_threads(threads)?)
    }

    /// The loop program this runs.
    pub fn program(&self) -> &loops::Program {
        &self.program
    }

    /// The kernels this runs.
    pub fn module(&self) -> &Module {
        &self.device.module
    }

    /// The back end's own description.
    pub fn describe(&self) -> String {
        self.device.backend.describe()
    }

    /// What a copy reaches on this back end, in bytes per second; none where that means nothing.
    ///
    /// # Errors
    /// A device that fails.
    pub fn copy_bandwidth(&mut self) -> Result<Option<f64>, Error> {
        let backend = self.device.backend.as_mut();
        if backend.small_problems_only().is_some() {
            return Ok(None);
        }
        let bytes = sensible_bytes(backend.target());
        Ok(Some(measure(backend, Pattern::Copy, bytes)?.bytes_per_second))
    }

    /// What the back end has compiled, allocated and launched so far.
    pub fn counters(&self) -> Counters {
        self.device.backend.counters()
    }

    /// What the back end has to say since it was asked last.
    pub fn notices(&mut self) -> Vec<String> {
        self.device.backend.notices()
    }

    /// Elements of a vector: points times components.
    pub fn vector_len(&self) -> usize {
        self.device.module.vector_len as usize
    }

    /// Sets the parameters of the operator, then those of the solver.
    pub fn set_params(&mut self, values: &[f64]) -> Result<(), Error> {
        expect_len("parameters", values.len(), param_count(&self.program))?;
        self.stale = true;
        self.device.write(self.device.params, values)
    }

    /// Sets a data array of the operator, by number.
    pub fn set_data<'v>(&mut self, number: usize, values: impl Into<VectorRef<'v>>) -> Result<(), Error> {
        let values = values.into();
        let name = &self.program.operator.data[number].name;
        expect_len(&format!("data `{name}`"), values.len(), data_len(&self.program.operator, number) as usize)?;
        self.stale = true;
        self.device.write_from(self.device.data[number], values)
    }

    /// Sets an array of a stored matrix, by number.
    pub fn set_contents(&mut self, number: usize, contents: &Contents) -> Result<(), Error> {
        let values = match Integers::of(contents) {
            Ok(integers) => integers,
            Err(values) => return self.set_data(number, values),
        };
        let name = &self.program.operator.data[number].name;
        expect_len(&format!("array `{name}`"), values.len(), data_len(&self.program.operator, number) as usize)?;
        let device = &mut self.device;
        device.flush()?;
        Ok(device.backend.write_integers(device.data[number], values)?)
    }

    /// Vectors on the device are in an order of their own from now on: element r there is element `order[r]` outside.
    pub fn set_order(&mut self, order: Option<&[u64]>) -> Result<(), Error> {
        if let Some(order) = order {
            expect_len("the order of rows", order.len(), self.vector_len())?;
        }
        self.device.order = order.map(Arc::from);
        Ok(())
    }

    /// Sets the right-hand side.
    pub fn set_rhs<'v>(&mut self, values: impl Into<VectorRef<'v>>) -> Result<(), Error> {
        self.write_role("the right-hand side", Role::Rhs, values.into())
    }

    /// Sets the initial guess. Without it a solve starts from the solution of the one before.
    pub fn set_guess<'v>(&mut self, values: impl Into<VectorRef<'v>>) -> Result<(), Error> {
        self.write_role("the guess", Role::Solution, values.into())
    }

    /// Reads the solution.
    pub fn read_solution<'v>(&mut self, values: impl Into<VectorMut<'v>>) -> Result<(), Error> {
        let values = values.into();
        expect_len("the solution", values.len(), self.vector_len())?;
        match vector_of(&self.program, Role::Solution) {
            Some(vector) => self.device.read_vector(vector, values),
            None => Err(Error::Internal("the loop has no solution vector".to_string())),
        }
    }

    /// Evaluates the tables again if a parameter or an array changed, and waits.
    pub fn setup(&mut self) -> Result<(), Error> {
        if self.stale {
            self.device.run_setup()?;
            self.stale = false;
        }
        self.device.flush()?;
        Ok(self.device.backend.synchronize()?)
    }

    /// Sets everything as it is before a solve.
    pub(super) fn begin(&mut self, tolerance: f64) -> Result<(), Error> {
        let mut scalars = vec![0.0; self.program.scalars.len().max(ScalarId::RESERVED)];
        scalars[ScalarId::TOLERANCE.0] = tolerance;
        self.device.set_scalars(&scalars)?;
        self.device.clear_status()?;
        self.device.fill_random(&self.program)
    }

    /// Runs a section from beginning to end, whatever was raised before; returns the status it leaves.
    pub(super) fn run(&mut self, section: Section) -> Result<i32, Error> {
        let control = match section {
            Section::Prepare => &self.program.prepare,
            Section::Start => &self.program.start,
            Section::Residual => &self.program.residual,
            Section::Finish => &self.program.finish,
        };
        self.device.run(control)
    }

    fn write_role(&mut self, what: &str, role: Role, values: VectorRef) -> Result<(), Error> {
        expect_len(what, values.len(), self.vector_len())?;
        match vector_of(&self.program, role) {
            Some(vector) => self.device.write_vector(vector, values),
            // A loop that never reads the array has no buffer for it.
            None => Ok(()),
        }
    }
}

/// A section of a program that can be run by itself.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub(super) enum Section {
    Prepare,
    Start,
    Residual,
    Finish,
}

impl Device {
    /// The current buffer of a vector.
    pub(super) fn current(&self, vector: VectorId) -> BufferHandle {
        self.vectors[vector.0][self.current[vector.0] as usize]
    }

    /// The current buffer of the vector with a role.
    pub(super) fn of_role(&self, program: &loops::Program, role: Role) -> Option<BufferHandle> {
        vector_of(program, role).map(|vector| self.current(vector))
    }

    fn allocate(&mut self, program: &loops::Program) -> Result<(), Error> {
        let (real, len) = (self.module.real, self.module.vector_len);
        for vector in &program.vectors {
            self.vectors.push(Vec::new());
            for _ in 0..vector.versions.max(1) {
                let buffer = self.backend.allocate(real, len.max(1))?;
                self.vectors.last_mut().expect("invariant: just pushed").push(buffer);
            }
        }
        for (number, data) in program.operator.data.iter().enumerate() {
            self.data
                .push(self.backend.allocate(data_element(data, real), data_len(&program.operator, number).max(1))?);
        }
        for buffer in &self.module.buffers {
            self.buffers.push(self.backend.allocate(buffer.element, buffer.len.max(1))?);
        }
        Ok(())
    }

    /// Writes the random vectors; a loop may use their buffers for other values later on.
    pub(super) fn fill_random(&mut self, program: &loops::Program) -> Result<(), Error> {
        for (vector, versions) in program.vectors.iter().zip(&self.vectors) {
            if let Role::Random(seed) = vector.role {
                let values = random::fill(seed, 0, self.module.vector_len as usize);
                let values = match &self.order {
                    None => values,
                    Some(order) => VectorRef::from(&values).gather(order)?,
                };
                for buffer in versions {
                    self.backend.write(*buffer, &values)?;
                }
            }
        }
        Ok(())
    }

    /// Whether vectors are f32.
    pub(super) fn is_single(&self) -> bool {
        self.module.real == Element::F32
    }

    fn run_setup(&mut self) -> Result<(), Error> {
        for number in 0..self.module.setup.len() {
            self.launch(Which::Setup, number)?;
        }
        Ok(())
    }

    /// Enqueues the launches of a sweep with the current versions.
    pub(super) fn sweep(&mut self, sweep: loops::SweepId) -> Result<(), Error> {
        for number in 0..self.module.sweeps[sweep.0].len() {
            self.launch(Which::Sweep(sweep.0), number)?;
        }
        Ok(())
    }

    /// Enqueues the launches of a fence with the current versions.
    pub(super) fn fence(&mut self, fence: loops::FenceId) -> Result<(), Error> {
        for number in 0..self.module.fences[fence.0].len() {
            self.launch(Which::Fence(fence.0), number)?;
        }
        Ok(())
    }

    fn launch(&mut self, which: Which, number: usize) -> Result<(), Error> {
        let (kernel, args) = self.resolved(which, number);
        self.queue.push(kernel, args);
        Ok(())
    }

    /// A launch with the buffers that are current.
    fn resolved(&self, which: Which, number: usize) -> (KernelHandle, Vec<BufferHandle>) {
        let launch: &Launch = match which {
            Which::Setup => &self.module.setup[number],
            Which::Sweep(sweep) => &self.module.sweeps[sweep][number],
            Which::Fence(fence) => &self.module.fences[fence][number],
        };
        let mut args = Vec::with_capacity(launch.args.len());
        for arg in &launch.args {
            args.push(match *arg {
                Arg::Vector(Version { vector, ahead }) => {
                    let versions = &self.vectors[vector.0];
                    versions[(self.current[vector.0] as usize + ahead as usize) % versions.len()]
                }
                Arg::Scalars => self.scalars,
                Arg::Params => self.params,
                Arg::Status => self.status,
                Arg::History => self.history,
                Arg::Data(number) => self.data[number],
                Arg::Module(number) => self.buffers[number],
            });
        }
        (self.kernels[launch.kernel], args)
    }

    /// A round of a loop begins.
    pub(super) fn round(&mut self) -> Result<(), Error> {
        Ok(self.queue.round(self.backend.as_mut())?)
    }

    /// Enqueues what was put off; to be called before anything that depends on it.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        Ok(self.queue.flush(self.backend.as_mut())?)
    }

    /// Reads a buffer after everything enqueued before.
    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), Error> {
        self.flush()?;
        Ok(self.backend.read(buffer, values)?)
    }

    /// Writes a buffer after everything enqueued before.
    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), Error> {
        self.flush()?;
        Ok(self.backend.write(buffer, values)?)
    }

    /// Carries out a step.
    pub(super) fn perform(&mut self, step: Step) -> Result<(), Error> {
        match step {
            Step::Sweep(sweep) => self.sweep(sweep),
            Step::Fence(fence) => self.fence(fence),
            Step::Rotate(vector) => {
                self.rotate(vector);
                Ok(())
            }
            Step::Round => self.round(),
        }
    }

    /// Version 1 of the vector becomes its version 0.
    pub(super) fn rotate(&mut self, vector: VectorId) {
        let versions = self.vectors[vector.0].len() as u32;
        self.current[vector.0] = (self.current[vector.0] + 1) % versions;
    }

    pub(super) fn rotation(&self) -> Rotation {
        self.current.clone()
    }

    pub(super) fn set_rotation(&mut self, rotation: Rotation) {
        self.current = rotation;
    }

    /// The status word and the iteration at which it was raised; waits for the device.
    pub(super) fn status(&mut self) -> Result<(i32, i64), Error> {
        let mut words = [0.0; 2];
        self.read(self.status, &mut words)?;
        Ok((words[0] as i32, words[1] as i64))
    }

    pub(super) fn clear_status(&mut self) -> Result<(), Error> {
        self.write(self.status, &[0.0, 0.0])
    }

    /// The reserved scalars; waits for the device.
    pub(super) fn scalars(&mut self) -> Result<[f64; ScalarId::RESERVED], Error> {
        let mut values = [0.0; ScalarId::RESERVED];
        self.read(self.scalars, &mut values)?;
        Ok(values)
    }

    /// Writes the first scalars.
    pub(super) fn set_scalars(&mut self, values: &[f64]) -> Result<(), Error> {
        self.write(self.scalars, values)
    }

    /// Measures of the checks at iterations 0 to `last`, as far as they are kept.
    pub(super) fn history(&mut self, last: u32) -> Result<Vec<f64>, Error> {
        let kept = pipeline::history_len(last).min(u64::from(last) + 1);
        let mut values = vec![0.0; kept as usize];
        self.read(self.history, &mut values)?;
        Ok(values)
    }

    /// As [`Device::write`], from memory of the caller.
    fn write_from(&mut self, buffer: BufferHandle, values: VectorRef) -> Result<(), Error> {
        self.flush()?;
        Ok(self.backend.write_from(buffer, values)?)
    }

    fn write_vector(&mut self, vector: VectorId, values: VectorRef) -> Result<(), Error> {
        let buffer = self.vectors[vector.0][self.current[vector.0] as usize];
        match &self.order {
            None => self.write_from(buffer, values),
            Some(order) => {
                let values = values.gather(order)?;
                self.write(buffer, &values)
            }
        }
    }

    fn read_vector(&mut self, vector: VectorId, values: VectorMut) -> Result<(), Error> {
        self.flush()?;
        let buffer = self.vectors[vector.0][self.current[vector.0] as usize];
        let Some(order) = self.order.clone() else { return Ok(self.backend.read_into(buffer, values)?) };
        let mut inside = vec![0.0; values.len()];
        self.backend.read(buffer, &mut inside)?;
        Ok(values.scatter(&order, &inside)?)
    }
}

/// The element type of a data array beside vectors of a real type.
pub(crate) fn data_element(data: &math::Data, real: Element) -> Element {
    match data.stored.as_ref().map(|array| array.kind) {
        Some(Kind::Real) => real,
        Some(Kind::U16) => Element::U16,
        Some(Kind::U32) => Element::U32,
        Some(Kind::U64) => Element::I64,
        None if data.profile => Element::F64,
        None => real,
    }
}

/// A list of launches of the module.
#[derive(Clone, Copy)]
enum Which {
    Setup,
    Sweep(usize),
    Fence(usize),
}

fn vector_of(program: &loops::Program, role: Role) -> Option<VectorId> {
    program.vectors.iter().position(|vector| vector.role == role).map(VectorId)
}

fn param_count(program: &loops::Program) -> usize {
    program.operator.params.len() + program.solver_params.len()
}

/// Elements of a data array: the sizes of its axes, plus one along the axis whose faces it lives on.
fn data_len(operator: &math::Operator, number: usize) -> u64 {
    let data = &operator.data[number];
    if let Some(array) = &data.stored {
        return array.len;
    }
    let grid = operator.space.grid();
    let extent = |axis: &usize| grid.axes[*axis].size + u64::from(data.half == Some(*axis));
    data.axes.iter().map(extent).product()
}

fn expect_len(what: &str, given: usize, expected: usize) -> Result<(), Error> {
    if given == expected {
        return Ok(());
    }
    Err(Error::Input(format!("{what}: {given} values given, {expected} expected")))
}

/// The module must belong to the program: the driver indexes without checking afterwards.
fn check_shape(program: &loops::Program, module: &Module) -> Result<(), Error> {
    let pairs =
        [("sweeps", program.sweeps.len(), module.sweeps.len()), ("fences", program.fences.len(), module.fences.len())];
    for (what, planned, mapped) in pairs {
        if planned != mapped {
            return Err(Error::Internal(format!("{planned} {what} planned, {mapped} mapped")));
        }
    }
    Ok(())
}
