//! Every schedule of a loop, mapped for every target, computes exactly the same.
//!
//! In the integers modulo a prime nothing is rounded: after some iterations all schedules, those with another
//! recurrence too, must agree in every bit with the one that has a sweep per statement. The loop is left by its own
//! check, so that what an exit has to fix up (delayed updates, versions) is part of what is compared.

use kernelwright_codegen::interp::{
    BufferHandle, CompareMode, Memory, Modular, Options as RunOptions, Prepared, Residue,
};
use kernelwright_codegen::kernel::{Cmp, Element};
use kernelwright_codegen::kernel_verify;
use kernelwright_codegen::loops::{Control, Fence, Program, Role, ScalarId, ScalarStmt, VectorId, status};
use kernelwright_codegen::lower::lower;
use kernelwright_codegen::map::{Finish, Options, Target, Variant, map};
use kernelwright_codegen::module::{Arg, Launch, Module};
use kernelwright_codegen::plan::{Plan, plan, search::Limits};
use kernelwright_codegen::trace::{Input, trace};
use kernelwright_tests::loops;
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
struct Machine<'p> {
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
}

/// What is compared: the solution, measure and bound of the residual computed from it.
#[derive(Debug, PartialEq)]
struct Result {
    solution: Vec<Residue>,
    measure: Residue,
    bound: Residue,
}

/// A buffer of reals with numbers that depend on the seed alone.
fn filled(memory: &mut Memory<Modular>, len: usize, seed: u64) -> BufferHandle {
    let mut random = Random::new(seed);
    let values: Vec<Residue> = (0..len).map(|_| Residue::new(random.bits())).collect();
    let buffer = memory.allocate(Element::F64, len);
    memory.write_reals(buffer, &values).unwrap();
    buffer
}

impl<'p> Machine<'p> {
    /// The kernels by default, or with other shapes.
    fn new(program: &'p Program, target: Target, other: bool) -> Machine<'p> {
        let grid = program.operator.space.grid();
        let mut variant = Variant::for_grid(target, grid);
        if other {
            let (fence, segments, shared) = (Some(Finish::Own), Some(2), Some(2));
            let tiles = Variant { staged: Some(true), block: [8, 4], chunk: 2, ..variant };
            variant = Variant { fence, segments, shared, ..tiles };
        }
        let options = Options { target, precision: Element::F64, history_len: HISTORY, variant };
        let module = map(program, &options).unwrap_or_else(|e| panic!("{}: {e}", program.name));
        for kernel in &module.kernels {
            kernel_verify::verify(kernel).unwrap_or_else(|e| panic!("{}: {e:?}", program.name));
        }
        let mut memory = Memory::new(Modular { compare: CompareMode::By(decide) });
        let len = module.vector_len as usize;
        let vectors = program.vectors.iter().map(|vector| {
            let versions = 0..vector.versions.max(1);
            let one = |_| match vector.role {
                Role::Rhs => filled(&mut memory, len, 1),
                Role::Solution => filled(&mut memory, len, 2),
                Role::Random(seed) => filled(&mut memory, len, 100 + seed),
                Role::Work => memory.allocate(Element::F64, len),
            };
            versions.map(one).collect()
        });
        let vectors: Vec<Vec<BufferHandle>> = vectors.collect();
        let extent = |axis: &usize, half: Option<usize>| grid.axes[*axis].size + u64::from(half == Some(*axis));
        let operator = &program.operator;
        let data = operator.data.iter().enumerate().map(|(number, data)| {
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
        Machine { program, module, kernels, memory, vectors, rotation, scalars, params, status, history, data, buffers }
    }

    fn run(mut self) -> Result {
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
                false
            }
            Control::Fence(fence) => self.fence(fence.0),
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
        let iteration = self.memory.reals(self.scalars).unwrap()[ScalarId::ITERATION.0];
        if checks_at(&self.program.fences[number], iteration) == Some(Residue::signed(LAST)) {
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

/// The iteration that the check of a fence belongs to, if it has one.
fn checks_at(fence: &Fence, mut iteration: Residue) -> Option<Residue> {
    for statement in &fence.statements {
        match statement {
            ScalarStmt::Assign { scalar: ScalarId::ITERATION, .. } => iteration = iteration + Residue::ONE,
            ScalarStmt::Check { .. } => return Some(iteration),
            _ => {}
        }
    }
    None
}

fn plans(text: &str) -> Vec<Plan> {
    let program = kernelwright_syntax::compile("case.kw", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let problem = &program.problems[0];
    let sizes: Vec<u64> = problem.sizes.iter().map(|&n| n as u64).collect();
    let operator = lower(&program.operators[problem.operator], &sizes).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let input = Input {
        operator: &operator,
        solvers: &program.solvers,
        solver: problem.solver,
        preconditioner: &problem.preconditioner,
        precision: problem.precision,
    };
    let graph = trace(input).unwrap_or_else(|e| panic!("{e}\n{text}"));
    plan(&graph, Limits::default()).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Number of schedules compared.
#[track_caller]
fn agree(text: &str) -> usize {
    let plans = plans(text);
    assert_eq!(plans[0].schedule.name, "statement");
    let expected = Machine::new(&plans[0].program, Target::Host, false).run();
    for (number, plan) in plans.iter().enumerate() {
        for target in [Target::Host, Target::Cuda] {
            let found = Machine::new(&plan.program, target, number % 2 == 1).run();
            let wrong = found.solution.iter().zip(&expected.solution).filter(|(a, b)| a != b).count();
            let name = &plan.schedule.name;
            assert_eq!(wrong, 0, "{name} for {target:?}: {wrong} of {} values\n{text}", expected.solution.len());
            assert_eq!(found, expected, "{name} for {target:?}: the residual\n{text}");
        }
    }
    plans.len()
}

const COLUMN: (&str, &str) = (
    "operator op { grid cells [i: ni, j: nj, k: nk]; param a; data c[i, j, k] outside mirror;
     flux X[i+1/2] = (c + c[i+1])*(u[i+1] - u); flux Z[k+1/2] = (2 + k)*(u[k+1] - u);
     apply u => (3 + i)*u - a*(div(X) + div(Z)) - (u[j+1] - 2*u + u[j-1]);
     boundary i: no_flux; boundary j: periodic; boundary low(k): dirichlet(2 + a*j); boundary high(k): no_flux; }",
    "operator op(ni = 5, nj = 3, nk = 4, a = 0.5); data c = 1; rhs 0;",
);

const NODES: (&str, &str) = (
    "operator op { grid nodes [i: ni, j: nj];
     apply u => 5*u - u[i+1] - 2*u[i-1, j+1] - u[j-2] - 3*u[i-3];
     boundary i: periodic; boundary j: dirichlet(1 + i); }",
    "operator op(ni = 2, nj = 7); rhs 0;",
);

const COUPLED: (&str, &str) = (
    "operator op { grid cells [i: ni, j: nj]; flux X[i+1/2] = u[i+1] - u; flux V[j+1/2] = (1 + j)*(v[j+1] - v);
     apply (u, v) => (2*u - div(X) + 0.5*v[j-1], 3*v - div(V) - u[i+1]); boundary i, j: no_flux; }",
    "operator op(ni = 6, nj = 1); rhs (0, 0);",
);

fn text(operator: (&str, &str), solver: &str, preconditioner: &str) -> String {
    let (operator, head) = operator;
    format!("{operator}\nproblem main {{ {head} solver {solver}; preconditioner {preconditioner}; }}\n")
}

const PRECONDITIONERS: [&str; 4] = ["identity", "jacobi", "line(i)", "inner(richardson(omega = 0.25), iterations = 2)"];

#[test]
fn all_schedules_of_the_library_agree() {
    let mut compared = 0;
    for solver in kernelwright_syntax::library::names() {
        let count = if solver == "cg" { 1 } else { PRECONDITIONERS.len() };
        for preconditioner in &PRECONDITIONERS[..count] {
            compared += agree(&text(COLUMN, solver, preconditioner));
        }
    }
    assert!(compared > 100, "only {compared} schedules were compared");
}

#[test]
fn all_schedules_agree_on_short_axes_and_coupled_unknowns() {
    for operator in [NODES, COUPLED] {
        for (solver, preconditioner) in
            [("pcg", "line(j)"), ("pcg", "jacobi"), ("cg", "identity"), ("minres", "line(i)")]
        {
            agree(&text(operator, solver, preconditioner));
        }
    }
}

#[test]
fn all_schedules_of_random_loops_agree() {
    let mut compared = 0;
    for seed in 0..24 {
        let operator = [COLUMN, NODES, COUPLED][seed as usize % 3];
        let preconditioner = PRECONDITIONERS[seed as usize % 4];
        compared += agree(&(text(operator, "random", preconditioner) + &loops::solver(seed)));
    }
    assert!(compared > 60, "only {compared} schedules were compared");
}
