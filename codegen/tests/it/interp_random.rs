//! Random kernels, straight-line ones and with branches and loops that lanes take apart: the interpreter against an
//! evaluator that knows one lane and no machine.

use kernelwright_codegen::interp::{Memory, Native, Options, launch};
use kernelwright_codegen::kernel::*;

use crate::interp_support::*;

const LANES: u32 = 8;
const BLOCKS: u64 = 3;
const HELD: usize = 4;
const WORDS: usize = LANES as usize * BLOCKS as usize;

/// A value of a lane.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    F32(f32),
    F64(f64),
    Int(i64),
    Bool(bool),
}

/// Expressions over what is declared so far.
struct Generator {
    rng: Rng,
    b: Builder,
    vars: Vec<(VarId, Type)>,
    f32s: BufferId,
    f64s: BufferId,
    ints: BufferId,
    held: BufferId,
}

impl Generator {
    fn ty(&mut self) -> Type {
        [Type::F32, Type::F64, Type::Int, Type::Bool][self.rng.below(4)]
    }

    fn leaf(&mut self, ty: Type) -> Expr {
        let known: Vec<VarId> = self.vars.iter().filter(|(_, t)| *t == ty).map(|(var, _)| *var).collect();
        if !known.is_empty() && self.rng.below(3) > 0 {
            return Expr::Var(known[self.rng.below(known.len())]);
        }
        match ty {
            Type::F32 | Type::F64 => Expr::Real(self.rng.unit() * 3.0, ty),
            Type::Int => match self.rng.below(3) {
                0 => Expr::Int(self.rng.below(100) as i64),
                1 => Expr::Lane(0),
                _ => Expr::Block(0),
            },
            Type::Bool => Expr::Bool(self.rng.below(2) == 0),
        }
    }

    fn expr(&mut self, ty: Type, depth: u32) -> Expr {
        if depth == 0 || self.rng.below(6) == 0 {
            return self.leaf(ty);
        }
        let next = depth - 1;
        match self.rng.below(6) {
            0 => {
                let cond = self.boxed(Type::Bool, next);
                Expr::Select(cond, self.boxed(ty, next), self.boxed(ty, next))
            }
            1 if ty == Type::Bool => Expr::Not(self.boxed(ty, next)),
            1 if ty != Type::Int => Expr::Neg(self.boxed(ty, next)),
            2 => self.load(ty, next),
            3 if ty == Type::F32 || ty == Type::F64 => self.call(ty, next),
            4 if ty != Type::Bool => self.cast(ty, next),
            _ if ty == Type::Bool => self.truth(next),
            _ => self.arithmetic(ty, next),
        }
    }

    fn boxed(&mut self, ty: Type, depth: u32) -> Box<Expr> {
        Box::new(self.expr(ty, depth))
    }

    fn either(&mut self, types: [Type; 2], depth: u32) -> Box<Expr> {
        let ty = types[self.rng.below(2)];
        self.boxed(ty, depth)
    }

    /// Brought into 0 … WORDS - 1.
    fn index(&mut self, depth: u32) -> Expr {
        let index = self.expr(Type::Int, depth);
        self.small(index)
    }

    fn small(&mut self, index: Expr) -> Expr {
        Expr::Binary(Op::Rem, Box::new(index), Box::new(Expr::Int(WORDS as i64)))
    }

    fn load(&mut self, ty: Type, depth: u32) -> Expr {
        let index = Box::new(self.index(depth));
        match ty {
            Type::F64 if self.rng.below(2) == 0 => {
                let index = Expr::Binary(Op::Rem, index, Box::new(Expr::Int(HELD as i64)));
                Expr::Load(self.held, Box::new(index))
            }
            Type::F32 => Expr::Load(self.f32s, index),
            Type::F64 => Expr::Load(self.f64s, index),
            Type::Int => Expr::Load(self.ints, index),
            Type::Bool => self.truth(depth),
        }
    }

    fn call(&mut self, ty: Type, depth: u32) -> Expr {
        let functions = [Math::Sqrt, Math::Abs, Math::Floor, Math::Tanh, Math::Fma, Math::IsFinite];
        let function = functions[self.rng.below(functions.len())];
        let count = if function == Math::Fma { 3 } else { 1 };
        Expr::Call(function, (0..count).map(|_| self.expr(ty, depth)).collect())
    }

    fn cast(&mut self, ty: Type, depth: u32) -> Expr {
        match ty {
            Type::F32 => Expr::Cast(ty, self.either([Type::F64, Type::Int], depth)),
            Type::F64 => Expr::Cast(ty, self.either([Type::F32, Type::Int], depth)),
            // Truncating tanh(x) * 50 never overflows, but may be NaN: 50 then. Shifted to be positive.
            _ => {
                let bounded = Expr::Call(Math::Tanh, vec![self.expr(Type::F64, depth)]);
                let scaled = Expr::Binary(Op::Mul, Box::new(bounded), Box::new(Expr::Real(50.0, Type::F64)));
                let number = Expr::Binary(Op::Min, Box::new(scaled), Box::new(Expr::Real(50.0, Type::F64)));
                let int = Expr::Cast(Type::Int, Box::new(number));
                Expr::Binary(Op::Add, Box::new(int), Box::new(Expr::Int(50)))
            }
        }
    }

    fn truth(&mut self, depth: u32) -> Expr {
        let ty = self.ty();
        if ty == Type::Bool {
            let op = [Op::And, Op::Or][self.rng.below(2)];
            return Expr::Binary(op, self.boxed(ty, depth), self.boxed(ty, depth));
        }
        let cmp = [Cmp::Lt, Cmp::Le, Cmp::Gt, Cmp::Ge, Cmp::Eq, Cmp::Ne][self.rng.below(6)];
        Expr::Compare(cmp, self.boxed(ty, depth), self.boxed(ty, depth))
    }

    /// Integers stay in 0 … 10^6: their operands are reduced first.
    fn arithmetic(&mut self, ty: Type, depth: u32) -> Expr {
        let (a, b) = (self.expr(ty, depth), self.expr(ty, depth));
        if ty != Type::Int {
            let op = [Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max][self.rng.below(6)];
            return Expr::Binary(op, Box::new(a), Box::new(b));
        }
        let (a, b) = (Box::new(self.small(a)), Box::new(self.small(b)));
        match self.rng.below(6) {
            0 => Expr::Binary(Op::Div, a, Box::new(Expr::Binary(Op::Add, b, Box::new(Expr::Int(1))))),
            1 => Expr::Binary(Op::Rem, a, Box::new(Expr::Binary(Op::Add, b, Box::new(Expr::Int(1))))),
            2 => Expr::Binary(Op::Sub, Box::new(Expr::Binary(Op::Add, a, Box::new(Expr::Int(100)))), b),
            n => Expr::Binary([Op::Add, Op::Mul, Op::Max][n - 3], a, b),
        }
    }

    /// A branch or a loop, whose declarations end with it.
    fn nest(&mut self, depth: u32) {
        let known = self.vars.len();
        let count = 1 + self.rng.below(3);
        if self.rng.below(2) == 0 {
            let cond = self.expr(Type::Bool, 3);
            let [then, otherwise] = [(); 2].map(|()| {
                let body = self.body(count, depth);
                self.vars.truncate(known);
                body
            });
            return self.b.push(Stmt::If { cond, then, otherwise });
        }
        let (mut from, mut to) = (self.index(2), self.index(2));
        let step = [1, 2, -1, -3][self.rng.below(4)];
        if step < 0 {
            (from, to) = (to, from);
        }
        // Bounds and loop variables are never assigned: they are hidden from the generator.
        let to = self.b.set("bound", Type::Int, E(to)).0;
        let var = self.b.variable("n", Type::Int);
        let body = self.body(count, depth);
        self.vars.truncate(known);
        self.b.push(Stmt::For { var, from, to, step, kind: LoopKind::Sequential, body });
    }

    fn body(&mut self, count: usize, depth: u32) -> Vec<Stmt> {
        let before = std::mem::take(self.b.body());
        for _ in 0..count {
            if depth > 0 && self.rng.below(2) == 0 { self.nest(depth - 1) } else { self.statement() }
        }
        std::mem::replace(self.b.body(), before)
    }

    fn statement(&mut self) {
        if self.rng.below(4) == 0 {
            let index = Expr::Binary(Op::Rem, Box::new(self.expr(Type::Int, 2)), Box::new(Expr::Int(HELD as i64)));
            let value = self.expr(Type::F64, 3);
            return self.b.store(self.held, E(index), E(value));
        }
        if !self.vars.is_empty() && self.rng.below(3) == 0 {
            let (var, ty) = self.vars[self.rng.below(self.vars.len())];
            let value = self.expr(ty, 4);
            return self.b.assign(var, E(value));
        }
        let ty = self.ty();
        let value = self.expr(ty, 4);
        let var = self.b.declare("v", ty, E(value));
        self.vars.push((var, ty));
    }
}

fn place() -> E {
    block() * i64::from(LANES) + lane()
}

/// A kernel that stores all variables of its outermost body, in order.
fn generate(seed: u64, depth: u32) -> (Kernel, Vec<VarId>) {
    let mut b = Builder::new("random", BLOCKS, LANES);
    let f32s = b.input("f32s", Element::F32, WORDS);
    let f64s = b.input("f64s", Element::F64, WORDS);
    let ints = b.input("ints", Element::I32, WORDS);
    let held = b.private("held", Element::F64, HELD);
    for n in 0..HELD as i64 {
        b.store(held, n, cast(Type::F64, lane() + n));
    }
    let mut generator = Generator { rng: Rng(seed), b, vars: Vec::new(), f32s, f64s, ints, held };
    let body = generator.body(12, depth);
    let Generator { mut b, vars, .. } = generator;
    body.into_iter().for_each(|stmt| b.push(stmt));
    let mut stored = Vec::new();
    for (var_id, ty) in vars {
        let element = match ty {
            Type::F32 => Element::F32,
            Type::F64 => Element::F64,
            Type::Int | Type::Bool => Element::I32,
        };
        let out = b.output(&format!("out{}", stored.len()), element, WORDS);
        let value = if ty == Type::Bool { select(var(var_id), 1, 0) } else { var(var_id) };
        b.store(out, place(), value);
        stored.push(var_id);
    }
    (b.finish(), stored)
}

/// The private buffer, after the three inputs.
const HELD_BUFFER: BufferId = BufferId(3);

/// One lane of one block.
struct Lane<'k> {
    data: &'k (Vec<f32>, Vec<f64>, Vec<i64>),
    position: [i64; 2],
    vars: Vec<Option<Value>>,
    held: [f64; HELD],
}

impl Lane<'_> {
    fn run(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Let(var, value) | Stmt::Declare(var, value) | Stmt::Assign(var, value) => {
                    self.vars[var.0] = Some(self.eval(value))
                }
                Stmt::Store { buffer: HELD_BUFFER, index, value } => {
                    let Value::F64(value) = self.eval(value) else { unreachable!() };
                    self.held[self.int(index) as usize] = value;
                }
                Stmt::If { cond, then, otherwise } => {
                    let body = if self.truth(cond) { then } else { otherwise };
                    self.run(body);
                }
                Stmt::For { var, from, to, step, body, .. } => {
                    let (mut n, to) = (self.int(from), self.int(to));
                    while if *step > 0 { n < to } else { n > to } {
                        self.vars[var.0] = Some(Value::Int(n));
                        self.run(body);
                        n += step;
                    }
                }
                _ => {}
            }
        }
    }

    fn eval(&self, e: &Expr) -> Value {
        match e {
            Expr::Real(value, Type::F32) => Value::F32(*value as f32),
            Expr::Real(value, _) => Value::F64(*value),
            Expr::Int(value) => Value::Int(*value),
            Expr::Bool(value) => Value::Bool(*value),
            Expr::Var(var) => self.vars[var.0].unwrap(),
            Expr::Lane(_) => Value::Int(self.position[0]),
            Expr::Block(_) => Value::Int(self.position[1]),
            Expr::Load(buffer, index) => {
                let index = self.int(index) as usize;
                if *buffer == HELD_BUFFER {
                    return Value::F64(self.held[index]);
                }
                [Value::F32(self.data.0[index]), Value::F64(self.data.1[index]), Value::Int(self.data.2[index])]
                    [buffer.0]
            }
            Expr::Neg(a) => match self.eval(a) {
                Value::F32(a) => Value::F32(-a),
                Value::F64(a) => Value::F64(-a),
                Value::Int(a) => Value::Int(-a),
                Value::Bool(_) => unreachable!(),
            },
            Expr::Not(a) => Value::Bool(!self.truth(a)),
            Expr::Binary(Op::And, a, b) => Value::Bool(self.truth(a) && self.truth(b)),
            Expr::Binary(Op::Or, a, b) => Value::Bool(self.truth(a) || self.truth(b)),
            Expr::Binary(op, a, b) => self.binary(*op, self.eval(a), self.eval(b)),
            Expr::Compare(cmp, a, b) => {
                let order = match (self.eval(a), self.eval(b)) {
                    (Value::F32(a), Value::F32(b)) => a.partial_cmp(&b),
                    (Value::F64(a), Value::F64(b)) => a.partial_cmp(&b),
                    (Value::Int(a), Value::Int(b)) => a.partial_cmp(&b),
                    _ => unreachable!(),
                };
                Value::Bool(match cmp {
                    Cmp::Lt => order.is_some_and(|o| o.is_lt()),
                    Cmp::Le => order.is_some_and(|o| o.is_le()),
                    Cmp::Gt => order.is_some_and(|o| o.is_gt()),
                    Cmp::Ge => order.is_some_and(|o| o.is_ge()),
                    Cmp::Eq => order.is_some_and(|o| o.is_eq()),
                    Cmp::Ne => !order.is_some_and(|o| o.is_eq()),
                })
            }
            Expr::Select(c, a, b) => self.eval(if self.truth(c) { a } else { b }),
            Expr::Call(function, args) => self.call(*function, args),
            Expr::Cast(ty, a) => match (ty, self.eval(a)) {
                (Type::F32, Value::F64(a)) => Value::F32(a as f32),
                (Type::F32, Value::Int(a)) => Value::F32(a as f32),
                (Type::F64, Value::F32(a)) => Value::F64(a.into()),
                (Type::F64, Value::Int(a)) => Value::F64(a as f64),
                (Type::Int, Value::F64(a)) => Value::Int(a as i64),
                _ => unreachable!(),
            },
        }
    }

    fn int(&self, e: &Expr) -> i64 {
        let Value::Int(value) = self.eval(e) else { unreachable!() };
        value
    }

    fn truth(&self, e: &Expr) -> bool {
        let Value::Bool(value) = self.eval(e) else { unreachable!() };
        value
    }

    fn binary(&self, op: Op, a: Value, b: Value) -> Value {
        macro_rules! real {
            ($kind:ident, $a:ident, $b:ident) => {
                Value::$kind(match op {
                    Op::Add => $a + $b,
                    Op::Sub => $a - $b,
                    Op::Mul => $a * $b,
                    Op::Div => $a / $b,
                    Op::Min => $a.min($b),
                    Op::Max => $a.max($b),
                    _ => unreachable!(),
                })
            };
        }
        match (a, b) {
            (Value::F32(a), Value::F32(b)) => real!(F32, a, b),
            (Value::F64(a), Value::F64(b)) => real!(F64, a, b),
            (Value::Int(a), Value::Int(b)) if op == Op::Rem => Value::Int(a % b),
            (Value::Int(a), Value::Int(b)) => real!(Int, a, b),
            _ => unreachable!(),
        }
    }

    fn call(&self, function: Math, args: &[Expr]) -> Value {
        macro_rules! real {
            ($kind:ident) => {{
                let number = |n: usize| match self.eval(&args[n]) {
                    Value::$kind(value) => value,
                    _ => unreachable!(),
                };
                Value::$kind(match function {
                    Math::Sqrt => number(0).sqrt(),
                    Math::Abs => number(0).abs(),
                    Math::Floor => number(0).floor(),
                    Math::Tanh => number(0).tanh(),
                    Math::Fma => number(0).mul_add(number(1), number(2)),
                    Math::IsFinite => u8::from(number(0).is_finite()).into(),
                    _ => unreachable!(),
                })
            }};
        }
        match self.eval(&args[0]) {
            Value::F32(_) => real!(F32),
            _ => real!(F64),
        }
    }
}

/// Bits of a value as the interpreter holds them; NaNs are alike.
fn bits(value: Value) -> u64 {
    let real = |value: f64| if value.is_nan() { u64::MAX } else { value.to_bits() };
    match value {
        Value::F32(value) => real(value.into()),
        Value::F64(value) => real(value),
        Value::Int(value) => value as u64,
        Value::Bool(value) => value.into(),
    }
}

fn check(seed: u64, depth: u32) {
    let (kernel, stored) = generate(seed, depth);
    let mut rng = Rng(seed ^ 0xabcd);
    let f32s: Vec<f32> = (0..WORDS).map(|_| rng.unit() as f32).collect();
    let f64s: Vec<f64> = (0..WORDS).map(|_| rng.unit()).collect();
    let ints: Vec<i64> = (0..WORDS).map(|_| rng.below(1000) as i64).collect();
    let mut memory = Memory::new(Native);
    let global = kernel.buffers.iter().filter(|buffer| buffer.space == Space::Global);
    let args: Vec<_> = global.map(|b| memory.allocate(b.element, b.extent as usize)).collect();
    memory.write_reals(args[0], &f32s.iter().map(|&value| value.into()).collect::<Vec<_>>()).unwrap();
    memory.write_reals(args[1], &f64s).unwrap();
    memory.write_ints(args[2], &ints).unwrap();
    launch(&kernel, &args, &mut memory, &Options::default()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let data = (f32s, f64s, ints);
    for word in 0..WORDS {
        let position = [(word % LANES as usize) as i64, (word / LANES as usize) as i64];
        let mut lane = Lane { data: &data, position, vars: vec![None; kernel.vars.len()], held: [0.0; HELD] };
        lane.run(&kernel.body);
        for (n, var) in stored.iter().enumerate() {
            let handle = args[3 + n];
            let found = match memory.reals(handle) {
                Ok(reals) => bits(Value::F64(reals[word])),
                Err(_) => memory.ints(handle).unwrap()[word] as u64,
            };
            let expected = bits(lane.vars[var.0].unwrap());
            assert_eq!(found, expected, "seed {seed}: variable {n} of lane {position:?}");
        }
    }
}

#[test]
fn random_straight_line_kernels() {
    (0..300).for_each(|seed| check(seed, 0));
}

#[test]
fn random_branches_and_loops() {
    (0..300).for_each(|seed| check(seed, 3));
}
