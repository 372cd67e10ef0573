//! A mapped loop in the interpreter of integers modulo a prime, where nothing is rounded.

use kernelwright_codegen::format::{Kind, Stored};
use kernelwright_codegen::interp::{
    BufferHandle, CompareMode, Memory, Modular, Options as RunOptions, Prepared, Residue,
};
use kernelwright_codegen::kernel::{Cmp, Element};
use kernelwright_codegen::kernel_verify;
use kernelwright_codegen::loops::{Control, Fence, Program, Role, ScalarExpr, ScalarId, ScalarStmt, VectorId, status};
use kernelwright_codegen::map::{Options, Target, Variant, map};
use kernelwright_codegen::module::{Arg, Launch, Module};
use kernelwright_tests::random::Random;

/// The check of this iteration is met.
const LAST: i64 = 4;
const HISTORY: u64 = 8;

/// Only with a bound that is not zero a test `measure <= bound` is met; `value > 0` always holds, unless it is zero.
fn decide(cmp: Cmp, a: Residue, b: Residue) -> bool {
    let met = b != Residue::ZERO;
    match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
        Cmp::Lt => a != b && met,
        Cmp::Le => a == b || met,
        Cmp::Gt => a != b && !met,
        Cmp::Ge => a == b || !met,
    }
}

/// A mapped loop with its buffers.
pub struct Machine<'p> {
    program: &'p Program,
    module: Module,
    kernels: Vec<Prepared>,
    memory: Memory<Modular>,
    vectors: Vec<Vec<BufferHandle>>,
    rotation: Vec<usize>,
    scalars: BufferHandle,
    params: BufferHandle,
    status: BufferHandle,
    history: BufferHandle,
    data: Vec<BufferHandle>,
    buffers: Vec<BufferHandle>,
    /// By the fences passed, whether they have run or a sweep runs them later.
    iteration: Residue,
}

/// What is compared: the solution, measure and bound of the residual computed from it.
#[derive(Debug, PartialEq)]
pub struct Result {
    pub solution: Vec<Residue>,
    pub measure: Residue,
    pub bound: Residue,
}

/// A buffer of reals with numbers that depend on the seed alone.
fn filled(memory: &mut Memory<Modular>, len: usize, seed: u64) -> BufferHandle {
    let mut random = Random::new(seed);
    let values: Vec<Residue> = (0..len).map(|_| Residue::new(random.bits())).collect();
    let buffer = memory.allocate(Element::F64, len);
    memory.write_reals(buffer, &values).unwrap();
    buffer
}

/// The same in another order: element r is the one numbered `order[r]`.
fn ordered(memory: &mut Memory<Modular>, len: usize, seed: u64, order: Option<&[u64]>) -> BufferHandle {
    let Some(order) = order else { return filled(memory, len, seed) };
    let given = filled(memory, len, seed);
    let values = memory.reals(given).unwrap().to_vec();
    let moved: Vec<Residue> = order.iter().map(|&row| values[row as usize]).collect();
    memory.write_reals(given, &moved).unwrap();
    given
}

fn element(kind: Kind) -> Element {
    match kind {
        Kind::Real => Element::F64,
        Kind::U16 => Element::U16,
        Kind::U32 => Element::U32,
        Kind::U64 => Element::I64,
    }
}

impl<'p> Machine<'p> {
    pub fn new(program: &'p Program, target: Target) -> Machine<'p> {
        Machine::with_matrix(program, target, None, |_| {})
    }

    /// A machine on the rows of a stored matrix, whose values must be small integers; in its order of rows.
    pub fn with_matrix(
        program: &'p Program,
        target: Target,
        matrix: Option<&Stored>,
        change: impl Fn(&mut Variant),
    ) -> Machine<'p> {
        let grid = program.operator.space.grid();
        let mut variant = Variant::default();
        change(&mut variant);
        let options = Options { target, precision: Element::F64, history_len: HISTORY, variant };
        let module = map(program, &options).unwrap_or_else(|e| panic!("{}: {e}", program.name));
        for kernel in &module.kernels {
            kernel_verify::verify(kernel).unwrap_or_else(|e| panic!("{}: {e:?}", program.name));
        }
        let mut memory = Memory::new(Modular { compare: CompareMode::By(decide) });
        let len = module.vector_len as usize;
        let order = matrix.and_then(|stored| stored.order.as_deref());
        let vectors = program.vectors.iter().map(|vector| {
            let versions = 0..vector.versions.max(1);
            let one = |_| match vector.role {
                Role::Rhs => ordered(&mut memory, len, 1, order),
                Role::Solution => ordered(&mut memory, len, 2, order),
                Role::Random(seed) => ordered(&mut memory, len, 100 + seed, order),
                Role::Work => memory.allocate(Element::F64, len),
            };
            versions.map(one).collect()
        });
        let vectors: Vec<Vec<BufferHandle>> = vectors.collect();
        let extent = |axis: &usize, half: Option<usize>| grid.axes[*axis].size + u64::from(half == Some(*axis));
        let operator = &program.operator;
        let data = operator.data.iter().enumerate().map(|(number, data)| {
            if let (Some(array), Some(stored)) = (&data.stored, matrix) {
                let buffer = memory.allocate(element(array.kind), array.len as usize);
                memory.write(buffer, &stored.contents[number].reals()).unwrap();
                return buffer;
            }
            let len: u64 = data.axes.iter().map(|axis| extent(axis, data.half)).product();
            filled(&mut memory, len as usize, 200 + number as u64)
        });
        let data = data.collect();
        let params = filled(&mut memory, operator.params.len() + program.solver_params.len(), 300);
        let scalars = memory.allocate(Element::F64, program.scalars.len());
        memory.write(scalars, &vec![0.0; program.scalars.len()]).unwrap();
        let status = memory.allocate(Element::I32, 2);
        let history = memory.allocate(Element::F64, HISTORY as usize);
        let buffers = module.buffers.iter().map(|b| {
            let buffer = memory.allocate(b.element, b.len as usize);
            if b.element == Element::I32 {
                memory.write(buffer, &vec![0.0; b.len as usize]).unwrap();
            }
            buffer
        });
        let buffers = buffers.collect();
        let kernels = module.kernels.iter().map(|kernel| Prepared::new(kernel).unwrap()).collect();
        let rotation = vec![0; vectors.len()];
        let iteration = Residue::ZERO;
        Machine {
            program,
            module,
            kernels,
            memory,
            vectors,
            rotation,
            scalars,
            params,
            status,
            history,
            data,
            buffers,
            iteration,
        }
    }

    pub fn run(mut self) -> Result {
        self.clear_status();
        for launch in self.module.setup.clone() {
            self.launch(&launch);
        }
        let program = self.program;
        let stopped = [&program.prepare, &program.start, &program.body].into_iter().any(|part| self.walk(part, 1));
        assert!(stopped, "{}: the check of iteration {LAST} was not met", program.name);
        self.clear_status();
        let is_loop = |control: &Control| matches!(control, Control::Loop { times: None, .. });
        let behind = program.body.iter().position(is_loop).map_or(program.body.len(), |at| at + 1);
        self.walk(&program.body[behind..], 1);
        self.clear_status();
        self.walk(&program.finish, 1);
        self.clear_status();
        self.walk(&program.residual, 1);
        let solution = program.vectors.iter().position(|vector| vector.role == Role::Solution).unwrap();
        let scalars = self.memory.reals(self.scalars).unwrap();
        Result {
            solution: self.memory.reals(self.vectors[solution][self.rotation[solution]]).unwrap().to_vec(),
            measure: scalars[ScalarId::MEASURE.0],
            bound: scalars[ScalarId::BOUND.0],
        }
    }

    fn clear_status(&mut self) {
        self.memory.write(self.status, &[0.0, 0.0]).unwrap();
    }

    /// Whether the status word was raised. `round` is that of the innermost loop.
    fn walk(&mut self, control: &[Control], round: u32) -> bool {
        control.iter().enumerate().any(|(at, step)| match step {
            Control::Sweep(sweep) => {
                // The sweep may do what the fence after it is for.
                let next = control[at + 1..].iter().find(|step| !matches!(step, Control::Rotate(_)));
                if let Some(Control::Fence(fence)) = next
                    && self.module.fences[fence.0].is_empty()
                {
                    self.prepare_check(fence.0);
                }
                for launch in self.module.sweeps[sweep.0].clone() {
                    self.launch(&launch);
                }
                // Or what the fence before it is for.
                self.stopped()
            }
            Control::Fence(fence) => {
                // The sweep after may do it, if the one before is not there to.
                let before = control[..at].iter().rfind(|step| !matches!(step, Control::Rotate(_)));
                if !matches!(before, Some(Control::Sweep(_))) {
                    self.prepare_check(fence.0);
                }
                self.fence(fence.0)
            }
            Control::Rotate(VectorId(vector)) => {
                self.rotation[*vector] = (self.rotation[*vector] + 1) % self.vectors[*vector].len();
                false
            }
            Control::Loop { times, body } => {
                let times = times.unwrap_or(LAST as u32 + 4);
                (1..=times).any(|round| self.walk(body, round))
            }
            Control::Every { n, body, otherwise } => {
                let due = round.is_multiple_of(*n);
                self.walk(if due { body } else { otherwise }, round)
            }
        })
    }

    /// Lets the check of the last iteration be met.
    fn prepare_check(&mut self, number: usize) {
        if checks_at(&self.program.fences[number], self.iteration).0 == Some(Residue::signed(LAST)) {
            self.memory.write(self.scalars, &[1.0]).unwrap();
        }
    }

    fn fence(&mut self, number: usize) -> bool {
        if !self.module.fences[number].is_empty() {
            self.prepare_check(number);
        }
        for launch in self.module.fences[number].clone() {
            self.launch(&launch);
        }
        self.iteration = checks_at(&self.program.fences[number], self.iteration).1;
        self.stopped()
    }

    /// Whether the status word is raised.
    fn stopped(&self) -> bool {
        let &[word, at] = self.memory.ints(self.status).unwrap() else { panic!("the status has two words") };
        if word == 0 {
            return false;
        }
        assert_eq!((word, at), (i64::from(status::CONVERGED), LAST), "{}", self.program.name);
        true
    }

    fn launch(&mut self, launch: &Launch) {
        let arg = |arg: &Arg| match *arg {
            Arg::Vector(version) => {
                let versions = &self.vectors[version.vector.0];
                versions[(self.rotation[version.vector.0] + version.ahead as usize) % versions.len()]
            }
            Arg::Scalars => self.scalars,
            Arg::Params => self.params,
            Arg::Status => self.status,
            Arg::History => self.history,
            Arg::Data(number) => self.data[number],
            Arg::Module(number) => self.buffers[number],
        };
        let args: Vec<BufferHandle> = launch.args.iter().map(arg).collect();
        let kernel = &self.kernels[launch.kernel];
        if let Err(error) = kernel.launch(&args, &mut self.memory, &RunOptions::default()) {
            panic!("{}: {}: {error}", self.program.name, kernel.kernel().name);
        }
    }
}

/// The iteration that the check of a fence belongs to, if it has one, and the iteration after it.
fn checks_at(fence: &Fence, mut iteration: Residue) -> (Option<Residue>, Residue) {
    let mut at = None;
    for statement in &fence.statements {
        match statement {
            ScalarStmt::Assign { scalar: ScalarId::ITERATION, value: ScalarExpr::Number(_), .. } => {
                iteration = Residue::ZERO;
            }
            ScalarStmt::Assign { scalar: ScalarId::ITERATION, .. } => iteration = iteration + Residue::ONE,
            ScalarStmt::Check { .. } => at = at.or(Some(iteration)),
            _ => {}
        }
    }
    (at, iteration)
}
