//! Small loop programs by hand, and a machine that runs a mapped module in the interpreter.

use kernelwright_codegen::format::Kind;
use kernelwright_codegen::interp::{BufferHandle, Memory, Native, Options as RunOptions, Stats, launch};
use kernelwright_codegen::kernel::Element;
use kernelwright_codegen::kernel_verify::verify;
use kernelwright_codegen::loops::*;
use kernelwright_codegen::lower::lower;
use kernelwright_codegen::map::{Options, Target, Variant, map};
use kernelwright_codegen::math::{Data, Grid, Operator};
use kernelwright_codegen::module::{Arg, Launch, Module};
use kernelwright_tests::random::{self, Random};

/// An operator with everything it needs.
pub struct Case {
    pub text: String,
    pub op: Operator,
    pub params: Vec<f64>,
    pub data: Vec<Vec<f64>>,
}

impl Case {
    /// The random operator of a seed.
    pub fn random(seed: u64) -> Case {
        Case::parse(&random::operator(seed), seed)
    }

    /// The operator of the first problem of a text, with random data.
    pub fn parse(text: &str, seed: u64) -> Case {
        let program = kernelwright_syntax::compile("case.kw", text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let problem = &program.problems[0];
        let sizes: Vec<u64> = problem.sizes.iter().map(|&n| n as u64).collect();
        let op = lower(&program.operators[problem.operator], &sizes).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut random = Random::new(seed);
        let params = op.params.iter().enumerate().map(|(n, _)| 1.25 / (1.0 + n as f64)).collect();
        let data = op.data.iter().map(|d| {
            let extents = d.axes.iter().map(|&a| sizes[a] + u64::from(d.half == Some(a)));
            random.vector(extents.product::<u64>() as usize)
        });
        let data = data.collect();
        Case { text: text.to_string(), op, params, data }
    }

    pub fn grid(&self) -> &Grid {
        self.op.space.grid()
    }

    pub fn len(&self) -> usize {
        let points: u64 = self.grid().axes.iter().map(|a| a.size).product();
        points as usize * self.grid().components
    }
}

/// Diffusion on part of a rectangle, two unknowns, one axis closed.
pub fn masked() -> Case {
    let text = "operator lake {
    grid cells [i: nx, j: ny];
    mask if i + 2*j < 11 { 1 } else { 0 };
    flux X[i+1/2] = (2 + sin(i)) * (u[i+1] - u);
    flux Y[j+1/2] = 3 * (v[j+1] - v);
    apply (u, v) => (2*u - div(X) + 0.5*v, 3*v - div(Y) - u[i+1, j-1]);
    boundary i: no_flux;
    boundary j: periodic;
}
problem main {
    operator lake(nx = 7, ny = 6);
    rhs (random(seed = 1), random(seed = 1));
    solver richardson;
    iterations 3;
}
";
    Case::parse(text, 3)
}

/// A program under construction: vectors `v0`, `v1`, … with one version each.
pub struct Build {
    pub program: Program,
}

pub fn load(vector: usize) -> ValueKind {
    ValueKind::Load(version(vector))
}

pub fn version(vector: usize) -> Version {
    Version { vector: VectorId(vector), ahead: 0 }
}

pub fn value(name: &str, kind: ValueKind) -> Value {
    let text = (!matches!(kind, ValueKind::Load(_))).then(|| format!("{name} = …"));
    Value { name: name.into(), kind, text }
}

/// A value in an expression.
pub fn v(id: usize) -> Box<PointExpr> {
    Box::new(PointExpr::Value(ValueId(id)))
}

pub fn s(id: usize) -> Box<PointExpr> {
    Box::new(PointExpr::Scalar(ScalarId(id)))
}

pub fn store(value: usize, to: usize) -> Store {
    Store { value: ValueId(value), to: version(to) }
}

pub fn sum(sum: usize, left: usize, right: Option<usize>) -> Sum {
    Sum { sum: SumId(sum), left: ValueId(left), right: right.map(ValueId) }
}

impl Build {
    pub fn new(op: &Operator, vectors: &[&str]) -> Build {
        let vector = |name: &&str| Vector { name: (*name).into(), role: Role::Work, versions: 1 };
        let scalars = ["tolerance", "iteration", "measure_value", "bound_value", "attainable", "alpha", "beta"];
        Build {
            program: Program {
                name: "test".into(),
                operator: op.clone(),
                vectors: vectors.iter().map(vector).collect(),
                scalars: scalars.map(String::from).to_vec(),
                solver_params: vec![],
                sums: vec![],
                sweeps: vec![],
                fences: vec![],
                requires: vec![],
                prepare: vec![],
                start: vec![],
                body: vec![],
                residual: vec![],
                finish: vec![],
            },
        }
    }

    pub fn sweep(&mut self, name: &str, granule: Granule, values: Vec<Value>, stores: Vec<Store>, sums: Vec<Sum>) {
        let text = vec![format!("{name} of the test")];
        self.program.sweeps.push(Sweep { name: name.into(), text, granule, values, stores, sums, predicate: None });
    }
}

/// A mapped module in the interpreter's memory.
pub struct Machine<'a> {
    case: &'a Case,
    pub module: Module,
    memory: Memory<Native>,
    vectors: Vec<BufferHandle>,
    scalars: BufferHandle,
    params: BufferHandle,
    status: BufferHandle,
    history: BufferHandle,
    data: Vec<BufferHandle>,
    buffers: Vec<BufferHandle>,
}

pub const HISTORY: usize = 4;

impl<'a> Machine<'a> {
    /// Maps, verifies, allocates and evaluates the tables.
    pub fn new(
        case: &'a Case,
        program: &Program,
        target: Target,
        precision: Element,
        variant: Option<Variant>,
    ) -> Machine<'a> {
        let variant = variant.unwrap_or_default();
        let options = Options { target, precision, history_len: HISTORY as u64, variant };
        let module = map(program, &options).unwrap_or_else(|e| panic!("{e}\n{}", case.text));
        for kernel in &module.kernels {
            if let Err(errors) = verify(kernel) {
                panic!("{errors:?}\n{}\n{}", case.text, kernelwright_codegen::print::c(std::slice::from_ref(kernel)));
            }
        }
        let mut memory = Memory::new(Native);
        let mut filled = |element: Element, values: &[f64]| {
            let buffer = memory.allocate(element, values.len());
            memory.write(buffer, values).unwrap();
            buffer
        };
        let scalars = filled(Element::F64, &vec![0.0; program.scalars.len()]);
        let params = filled(Element::F64, &case.params);
        let status = filled(Element::I32, &[0.0, 0.0]);
        let history = filled(Element::F64, &[-1.0; HISTORY]);
        let data = case.op.data.iter().zip(&case.data);
        let data = data.map(|(d, values)| filled(element(d, precision), values)).collect();
        let vectors = program.vectors.iter().map(|_| memory.allocate(precision, module.vector_len as usize)).collect();
        let buffers = module.buffers.iter().map(|b| {
            let buffer = memory.allocate(b.element, b.len as usize);
            if b.element == Element::I32 {
                memory.write(buffer, &vec![0.0; b.len as usize]).unwrap();
            }
            buffer
        });
        let buffers = buffers.collect();
        let mut machine = Machine { case, module, memory, vectors, scalars, params, status, history, data, buffers };
        for launch in machine.module.setup.clone() {
            machine.launch(&launch);
        }
        machine
    }

    fn launch(&mut self, l: &Launch) -> Stats {
        let args: Vec<BufferHandle> = l
            .args
            .iter()
            .map(|arg| match arg {
                Arg::Vector(v) => self.vectors[v.vector.0],
                Arg::Scalars => self.scalars,
                Arg::Params => self.params,
                Arg::Status => self.status,
                Arg::History => self.history,
                Arg::Data(d) => self.data[*d],
                Arg::Module(m) => self.buffers[*m],
            })
            .collect();
        let kernel = &self.module.kernels[l.kernel];
        launch(kernel, &args, &mut self.memory, &RunOptions::default()).unwrap_or_else(|e| {
            let text = kernelwright_codegen::print::c(std::slice::from_ref(kernel));
            panic!("{e}\n{}\n{text}", self.case.text);
        })
    }

    /// Runs a sweep; its loads from all buffers.
    pub fn sweep(&mut self, number: usize) -> u64 {
        let launches = self.module.sweeps[number].clone();
        let stats = launches.iter().map(|launch| self.launch(launch));
        stats.flat_map(|s| s.buffers).map(|b| b.loads).sum()
    }

    pub fn fence(&mut self, number: usize) {
        for launch in self.module.fences[number].clone() {
            self.launch(&launch);
        }
    }

    pub fn write(&mut self, vector: usize, values: &[f64]) {
        self.memory.write(self.vectors[vector], values).unwrap();
    }

    pub fn read(&self, vector: usize) -> Vec<f64> {
        self.memory.reals(self.vectors[vector]).unwrap().to_vec()
    }

    pub fn table(&self, table: usize) -> Vec<f64> {
        self.memory.reals(self.buffers[table]).unwrap().to_vec()
    }

    pub fn set_scalars(&mut self, values: &[f64]) {
        self.memory.write(self.scalars, values).unwrap();
    }

    pub fn scalar(&self, s: usize) -> f64 {
        self.memory.reals(self.scalars).unwrap()[s]
    }

    pub fn status(&self) -> [i64; 2] {
        let words = self.memory.ints(self.status).unwrap();
        [words[0], words[1]]
    }

    pub fn history(&self) -> Vec<f64> {
        self.memory.reals(self.history).unwrap().to_vec()
    }

    /// The C or CUDA text, for messages.
    pub fn text(&self, target: Target) -> String {
        match target {
            Target::Cuda => kernelwright_codegen::print::cuda(&self.module.kernels),
            Target::Host => kernelwright_codegen::print::c(&self.module.kernels),
        }
    }
}

/// Elements of a data array.
fn element(data: &Data, precision: Element) -> Element {
    match data.stored.as_ref().map(|array| array.kind) {
        Some(Kind::U16) => Element::U16,
        Some(Kind::U32) => Element::U32,
        Some(Kind::U64) => Element::I64,
        None if data.profile => Element::F64,
        Some(Kind::Real) | None => precision,
    }
}

/// All targets and precisions.
pub const ENGINES: [(Target, Element); 4] = [
    (Target::Cuda, Element::F64),
    (Target::Host, Element::F64),
    (Target::Cuda, Element::F32),
    (Target::Host, Element::F32),
];

/// Unit roundoff.
pub fn epsilon(precision: Element) -> f64 {
    if precision == Element::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

/// Compares with a bound per element.
pub fn close(what: &str, got: &[f64], want: &[f64], bound: impl Fn(usize) -> f64, context: impl Fn() -> String) {
    assert_eq!(got.len(), want.len());
    for (n, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= bound(n), "{what} at {n}: {g} instead of {w}, bound {}\n{}", bound(n), context());
    }
}
