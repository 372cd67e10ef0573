//! The assignments of a stage, at one value; and the kernel that makes them alone.

use super::context::Context;
use super::writer::{Made, Writer};
use crate::galerkin::step::Stage;
use crate::kernel::{Expr, LoopKind, Type};
use crate::map::fold::{self, add, int, mul};

/// What the assignments of a stage look like; stages of one pattern share kernels and differ in their coefficients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    updates: Vec<Assignment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Assignment {
    register: usize,
    terms: Vec<(usize, Factor)>,
    rate: Option<Factor>,
}

/// A coefficient: one, or a number of the stage's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Factor {
    One,
    Slot(usize),
}

impl Pattern {
    pub fn of(stage: &Stage) -> Pattern {
        let mut slot = 0;
        let mut factor = |value: f64| {
            slot += 1;
            if value == 1.0 { Factor::One } else { Factor::Slot(slot) }
        };
        let updates = stage.updates.iter().map(|update| {
            let terms: Vec<(f64, usize, Factor)> =
                update.terms.iter().map(|&(register, value)| (value, register, factor(value))).collect();
            let rate = factor(update.rate);
            let terms = terms.into_iter().filter(|&(value, ..)| value != 0.0).map(|(_, register, f)| (register, f));
            Assignment { register: update.register, terms: terms.collect(), rate: (update.rate != 0.0).then_some(rate) }
        });
        Pattern { updates: updates.collect() }
    }

    /// Registers that the stage reads before it writes them; the state (0) always is.
    pub fn reads(&self) -> Vec<usize> {
        let mut written = Vec::new();
        let mut read = Vec::new();
        for update in &self.updates {
            for &(register, _) in &update.terms {
                if !written.contains(&register) && !read.contains(&register) {
                    read.push(register);
                }
            }
            written.push(update.register);
        }
        read
    }

    /// Registers that the stage writes.
    pub fn writes(&self) -> Vec<usize> {
        let mut list: Vec<usize> = self.updates.iter().map(|update| update.register).collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Arithmetic operations a value.
    pub fn flops(&self) -> usize {
        let of = |f: &Factor| if *f == Factor::One { 1 } else { 2 };
        let sum = |update: &Assignment| {
            update.terms.iter().map(|(_, f)| of(f)).chain(update.rate.iter().map(of)).sum::<usize>()
        };
        self.updates.iter().map(sum).sum::<usize>() + 1
    }
}

/// Values of registers at one place; those not there are loaded.
pub(super) type Registers = Vec<Option<Expr>>;

/// Loads registers other than the state that a stage reads.
pub(super) fn load(w: &mut Writer<'_, '_>, pattern: &Pattern, registers: &mut Registers, index: &Expr) {
    for register in pattern.reads() {
        if registers[register].is_none() {
            let id = w.cx.ids.registers[register];
            let value = w.load(id, index.clone());
            let name = w.system().step.registers[register].clone();
            registers[register] = Some(Expr::Var(w.b.bind_here(&name, value)));
        }
    }
}

/// Makes the assignments for one value of rate; gives the registers assigned.
pub(super) fn advance(
    w: &mut Writer<'_, '_>,
    pattern: &Pattern,
    mut registers: Registers,
    rate: Expr,
) -> Vec<(usize, Expr)> {
    let real = w.cx.real;
    let clock = w.load(w.cx.ids.clock, int(1));
    let dt = w.b.bind("dt", fold::cast(real, Type::F64, clock));
    let change = w.b.bind("change", mul(dt, rate));
    for update in &pattern.updates {
        let mut sum: Option<Expr> = None;
        let terms = update.terms.iter().map(|&(register, factor)| (registers[register].clone(), factor));
        let all: Vec<(Option<Expr>, Factor)> = terms.chain(update.rate.map(|f| (Some(change.clone()), f))).collect();
        for (value, factor) in all {
            let value = value.expect("registers that a stage reads were loaded");
            let term = match factor {
                Factor::One => value,
                Factor::Slot(slot) => {
                    let coefficient = w.load(w.cx.ids.stages[0], int(slot as i64));
                    mul(w.b.bind("coefficient", fold::cast(real, Type::F64, coefficient)), value)
                }
            };
            sum = Some(match sum {
                None => term,
                Some(sum) => add(sum, term),
            });
        }
        let name = w.system().step.registers[update.register].clone();
        let value = w.b.bind_here(&format!("new_{name}"), sum.unwrap_or(Expr::Real(0.0, real)));
        registers[update.register] = Some(Expr::Var(value));
    }
    let value = |register: usize| (register, registers[register].clone().expect("it was assigned"));
    pattern.writes().into_iter().map(value).collect()
}

/// Lanes of a block of the update on a GPU, and values of a block on the host.
const LANES: usize = 256;
const HOST_VALUES: usize = 4096;

/// The kernel that updates all registers in place from a stored rate.
pub(super) fn kernel(cx: &Context<'_>, pattern: &Pattern) -> Made {
    let rate = cx.ids.rate.expect("split stages store the rate");
    let stored: Vec<usize> = pattern.writes().into_iter().map(|register| cx.ids.registers[register]).collect();
    let mut w = Writer::new(cx, "update", &stored);
    let values = cx.layout.len();
    let point = |w: &mut Writer<'_, '_>, index: Expr| {
        let mut registers = vec![None; cx.ids.registers.len()];
        load(w, pattern, &mut registers, &index);
        let rate = w.load(rate, index.clone());
        let rate = w.b.bind("rate", rate);
        for (register, value) in advance(w, pattern, registers, rate) {
            w.store(cx.ids.registers[register], index.clone(), value);
        }
    };
    if cx.layout.interleaved {
        let first = w.b.bind("first", mul(Expr::Block(0), int(HOST_VALUES as i64)));
        let end = fold::min(add(first.clone(), int(HOST_VALUES as i64)), int(values as i64));
        let end = w.b.bind("end", end);
        w.repeat("value", (first, end, 1), LoopKind::Simd(vec![]), point);
        return w.finish(values.div_ceil(HOST_VALUES), [1, 1, 1]);
    }
    let index = w.b.bind("value", add(mul(Expr::Block(0), int(LANES as i64)), Expr::Lane(0)));
    let inside = fold::compare(crate::kernel::Cmp::Lt, index.clone(), int(values as i64));
    w.when(inside, |w| point(w, index));
    w.finish(values.div_ceil(LANES), [LANES as u32, 1, 1])
}
