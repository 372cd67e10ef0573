//! Execution: arithmetic on all active lanes.

use super::block::Block;
use super::code::{File, Inst, Reg};
use super::error::FaultKind;
use super::field::{Field, Precision};
use super::machine::Machine;
use crate::kernel::{Cmp, Math, Op};

impl<F: Field> Machine<'_, F> {
    /// Executes an instruction on registers.
    pub fn arithmetic(&mut self, block: &mut Block<F::Real>, inst: Inst) {
        match inst {
            Inst::Move { file, to, a } => self.moves(block, file, to, |_, _| a),
            Inst::Pick { file, to, cond, a, b } => {
                let n = self.lanes;
                self.moves(block, file, to, |bools, lane| if bools[cond as usize * n + lane] { a } else { b });
            }
            Inst::RealNeg { to, a } => {
                let field = self.field;
                self.each(block, |block, at| block.reals[at(to)] = field.neg(block.reals[at(a)]));
            }
            Inst::Real { op, precision, to, a, b } => self.real(block, op, precision, (to, a, b)),
            Inst::Call { function, precision, to, args } => self.call(block, function, precision, to, args),
            Inst::Convert { precision, to, a } => {
                let field = self.field;
                self.each(block, |block, at| block.reals[at(to)] = field.convert(block.reals[at(a)], precision));
            }
            Inst::FromInt { precision, to, a } => {
                let field = self.field;
                self.each(block, |block, at| block.reals[at(to)] = field.integer(block.ints[at(a)], precision));
            }
            Inst::Truncate { to, a } => self.truncate(block, to, a),
            Inst::IntNeg { to, a } => self.integers(block, to, |block, at| block.ints[at(a)].checked_neg()),
            Inst::Int { op, to, a, b } => self.int_binary(block, op, (to, a, b)),
            Inst::Not { to, a } => self.each(block, |block, at| block.bools[at(to)] = !block.bools[at(a)]),
            Inst::Compare { file, cmp, to, a, b } => self.compare(block, file, cmp, (to, a, b)),
            _ => {}
        }
    }

    /// Applies `f` to every active lane; `at` gives the place of a register.
    fn each(&self, block: &mut Block<F::Real>, mut f: impl FnMut(&mut Block<F::Real>, &dyn Fn(Reg) -> usize)) {
        let n = self.lanes;
        for k in 0..block.active.len() {
            let lane = block.active[k] as usize;
            f(block, &|register| register as usize * n + lane);
        }
    }

    fn moves(&self, block: &mut Block<F::Real>, file: File, to: Reg, from: impl Fn(&[bool], usize) -> Reg) {
        let n = self.lanes;
        for &lane in &block.active {
            let lane = lane as usize;
            let (from, to) = (from(&block.bools, lane) as usize * n + lane, to as usize * n + lane);
            match file {
                File::Real => block.reals[to] = block.reals[from],
                File::Int => block.ints[to] = block.ints[from],
                File::Bool => block.bools[to] = block.bools[from],
            }
        }
    }

    fn real(&mut self, block: &mut Block<F::Real>, op: Op, precision: Precision, (to, a, b): (Reg, Reg, Reg)) {
        let n = self.lanes;
        let (to, a, b) = (to as usize * n, a as usize * n, b as usize * n);
        let count = block.active.len() as u64;
        self.stats.flops += count;
        if op == Op::Div {
            self.stats.divisions += count;
        }
        for k in 0..block.active.len() {
            let lane = block.active[k] as usize;
            let value = self.field.binary(op, block.reals[a + lane], block.reals[b + lane], precision);
            block.reals[to + lane] = self.defined(block, lane, value);
        }
    }

    fn call(&mut self, block: &mut Block<F::Real>, function: Math, precision: Precision, to: Reg, args: [Reg; 3]) {
        let n = self.lanes;
        let count = block.active.len() as u64;
        self.stats.flops += if function == Math::Fma { 2 * count } else { count };
        self.stats.calls += if matches!(function, Math::Fma | Math::Abs | Math::IsFinite) { 0 } else { count };
        for k in 0..block.active.len() {
            let lane = block.active[k] as usize;
            let values = args.map(|register| block.reals[register as usize * n + lane]);
            let value = self.field.call(function, &values[..function.arity()], precision);
            block.reals[to as usize * n + lane] = self.defined(block, lane, value);
        }
    }

    /// The value, or zero and a fault.
    fn defined(&mut self, block: &Block<F::Real>, lane: usize, value: Option<F::Real>) -> F::Real {
        value.unwrap_or_else(|| {
            self.fault(block, lane as u32, FaultKind::Undefined, None);
            self.field.zero()
        })
    }

    fn truncate(&mut self, block: &mut Block<F::Real>, to: Reg, a: Reg) {
        let n = self.lanes;
        for k in 0..block.active.len() {
            let lane = block.active[k];
            let value = self.field.truncate(block.reals[a as usize * n + lane as usize]);
            if value.is_none() {
                self.fault(block, lane, FaultKind::Truncation, None);
            }
            block.ints[to as usize * n + lane as usize] = self.int(block, lane, value.or(Some(0)));
        }
    }

    fn integers(
        &mut self,
        block: &mut Block<F::Real>,
        to: Reg,
        f: impl Fn(&Block<F::Real>, &dyn Fn(Reg) -> usize) -> Option<i64>,
    ) {
        let n = self.lanes;
        for k in 0..block.active.len() {
            let lane = block.active[k];
            let value = f(block, &|register| register as usize * n + lane as usize);
            block.ints[to as usize * n + lane as usize] = self.int(block, lane, value);
        }
    }

    fn int_binary(&mut self, block: &mut Block<F::Real>, op: Op, (to, a, b): (Reg, Reg, Reg)) {
        if matches!(op, Op::Div | Op::Rem) {
            return self.int_division(block, op, (to, a, b));
        }
        self.integers(block, to, |block, at| {
            let (a, b) = (block.ints[at(a)], block.ints[at(b)]);
            match op {
                Op::Add => a.checked_add(b),
                Op::Sub => a.checked_sub(b),
                Op::Mul => a.checked_mul(b),
                Op::Min => Some(a.min(b)),
                Op::Max => Some(a.max(b)),
                Op::Div | Op::Rem | Op::And | Op::Or => None,
            }
        });
    }

    fn int_division(&mut self, block: &mut Block<F::Real>, op: Op, (to, a, b): (Reg, Reg, Reg)) {
        let n = self.lanes;
        for k in 0..block.active.len() {
            let lane = block.active[k] as usize;
            let (a, b) = (block.ints[a as usize * n + lane], block.ints[b as usize * n + lane]);
            let value = match op {
                _ if a < 0 || b <= 0 => {
                    self.fault(block, lane as u32, FaultKind::IntegerDivision, None);
                    0
                }
                Op::Div => a / b,
                _ => a % b,
            };
            block.ints[to as usize * n + lane] = value;
        }
    }

    fn compare(&mut self, block: &mut Block<F::Real>, file: File, cmp: Cmp, (to, a, b): (Reg, Reg, Reg)) {
        let field = self.field;
        self.each(block, |block, at| {
            let (a, b) = (at(a), at(b));
            block.bools[at(to)] = match file {
                File::Real => field.compare(cmp, block.reals[a], block.reals[b]),
                File::Int => holds(cmp, block.ints[a], block.ints[b]),
                File::Bool => holds(cmp, block.bools[a], block.bools[b]),
            };
        });
    }
}

fn holds<T: Ord>(cmp: Cmp, a: T, b: T) -> bool {
    match cmp {
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
        Cmp::Eq => a == b,
        Cmp::Ne => a != b,
    }
}
