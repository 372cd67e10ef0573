//! Execution: control flow, barriers and shuffles. Arithmetic is in [`lanes`](super::lanes), loads and stores in
//! [`access`](super::access).

use std::collections::BTreeMap;
use std::rc::Rc;

use super::block::{Block, Frame};
use super::code::{BufferInfo, Code, File, From, Inst, Pc, Reg};
use super::error::{Fault, FaultKind, Report};
use super::field::Field;
use super::memory::Global;
use super::order::Knowledge;
use super::stats::Stats;
use crate::kernel::{IndexWidth, Kernel, Scope};

/// Why a block stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pause {
    Done,
    /// At the instruction after a barrier of the grid.
    Grid,
    /// The launch is given up: too many faults, or one after which nothing makes sense.
    Stop,
    /// Out of steps.
    Exhausted,
}

/// A launch in progress.
pub(super) struct Machine<'m, F: Field> {
    pub field: &'m F,
    pub kernel: &'m Kernel,
    pub code: &'m Code,
    /// Lanes of a block.
    pub lanes: usize,
    /// Buffers of the memory, and which ones are the arguments.
    pub buffers: &'m mut [Option<Global<F::Real>>],
    pub bound: Vec<usize>,
    /// Era of the launch's start and of now.
    pub first_era: u32,
    pub era: u32,
    /// What atomic operations on an element (buffer of the memory, index) have released.
    pub released: BTreeMap<(usize, usize), Option<Rc<Knowledge>>>,
    pub stats: Stats,
    pub max_steps: u64,
    pub max_faults: usize,
    pub report: Report,
    /// Working space of shuffles.
    pub present: Vec<bool>,
    pub sources: Vec<u32>,
}

impl<F: Field> Machine<'_, F> {
    /// Runs a block until it ends or waits.
    pub fn run(&mut self, block: &mut Block<F::Real>) -> Pause {
        let code = self.code;
        loop {
            let pc = block.pc as usize;
            block.pc += 1;
            self.stats.lane_steps += block.active.len() as u64;
            let pause = match code.insts[pc] {
                Inst::If { cond, otherwise } => self.branch(block, cond, otherwise),
                Inst::Else { end } => self.otherwise(block, end),
                Inst::EndIf => self.end_branch(block),
                Inst::Enter { simd } => self.enter(block, simd),
                Inst::Test { var, bound, down, simd, end } => {
                    self.test(block, (var, bound, down), simd, end);
                    None
                }
                Inst::Next { var, step, test } => self.next(block, var, step, test),
                Inst::ExitIf(cond) => self.exit_if(block, cond),
                Inst::Barrier(scope) => self.barrier(block, scope),
                Inst::Fence => {
                    block.active.iter().for_each(|&lane| block.clock.fence(lane));
                    None
                }
                Inst::Shuffle { file, to, a, from, width } => {
                    self.shuffle(block, file, to, a, from, width);
                    None
                }
                Inst::Return => return Pause::Done,
                inst @ (Inst::Load { .. } | Inst::Store { .. } | Inst::AtomicAdd { .. } | Inst::Aligned { .. }) => {
                    self.access(block, inst);
                    None
                }
                inst => {
                    self.arithmetic(block, inst);
                    None
                }
            };
            if let Some(pause) = pause {
                return pause;
            }
            if self.report.stopped {
                return Pause::Stop;
            }
        }
    }

    /// Notes a fault of the instruction just executed.
    pub fn fault(&mut self, block: &Block<F::Real>, lane: u32, kind: FaultKind, at: Option<(&BufferInfo, i64)>) {
        let site = &self.code.statements[self.code.sites[block.pc as usize - 1] as usize];
        let buffer = at.map(|(buffer, _)| buffer.name.clone());
        let same = |fault: &&mut Fault| {
            std::mem::discriminant(&fault.kind) == std::mem::discriminant(&kind)
                && fault.place == site.place
                && fault.buffer == buffer
        };
        if let Some(fault) = self.report.faults.iter_mut().find(same) {
            fault.count += 1;
            return;
        }
        let [nx, ny, _] = self.kernel.lanes;
        self.report.faults.push(Fault {
            kind,
            place: site.place.clone(),
            statement: site.text.clone(),
            buffer,
            index: at.map(|(_, index)| index),
            block: block.at,
            lane: [lane % nx, lane / nx % ny, lane / nx / ny],
            count: 1,
        });
        self.report.stopped |= self.report.faults.len() >= self.max_faults;
    }

    /// A fault after which the block cannot go on.
    fn fatal(&mut self, block: &Block<F::Real>, lane: u32, kind: FaultKind) -> Option<Pause> {
        self.fault(block, lane, kind, None);
        self.report.stopped = true;
        Some(Pause::Stop)
    }

    /// Brings an integer into the index width, or reports it.
    pub fn int(&mut self, block: &Block<F::Real>, lane: u32, value: Option<i64>) -> i64 {
        let fitting = match self.kernel.index {
            IndexWidth::I32 => value.filter(|&value| i32::try_from(value).is_ok()),
            IndexWidth::I64 => value,
        };
        fitting.unwrap_or_else(|| {
            self.fault(block, lane, FaultKind::IntegerOverflow, None);
            0
        })
    }

    fn branch(&mut self, block: &mut Block<F::Real>, cond: Reg, otherwise: Pc) -> Option<Pause> {
        let (mut then, mut other) = (block.list(), block.list());
        let conds = &block.bools[cond as usize * self.lanes..][..self.lanes];
        for &lane in &block.active {
            if conds[lane as usize] { then.push(lane) } else { other.push(lane) }
        }
        if then.is_empty() {
            block.pc = otherwise;
        }
        let outer = std::mem::replace(&mut block.active, then);
        block.frames.push(Frame::Branch { outer, other });
        None
    }

    fn otherwise(&mut self, block: &mut Block<F::Real>, end: Pc) -> Option<Pause> {
        if let Some(Frame::Branch { other, .. }) = block.frames.last_mut() {
            std::mem::swap(&mut block.active, other);
        }
        if block.active.is_empty() {
            block.pc = end;
        }
        None
    }

    fn end_branch(&mut self, block: &mut Block<F::Real>) -> Option<Pause> {
        if let Some(Frame::Branch { outer, other }) = block.frames.pop() {
            block.spare.push(other);
            block.spare.push(std::mem::replace(&mut block.active, outer));
        }
        None
    }

    fn enter(&mut self, block: &mut Block<F::Real>, simd: bool) -> Option<Pause> {
        if simd && self.lanes == 1 {
            if block.simd_depth == 0 {
                block.clock.barrier();
                block.iteration = 0;
            }
            block.simd_depth += 1;
        }
        let mut outer = block.list();
        outer.extend_from_slice(&block.active);
        block.frames.push(Frame::Loop { outer });
        None
    }

    fn test(&mut self, block: &mut Block<F::Real>, (var, bound, down): (Reg, Reg, bool), simd: bool, end: Pc) {
        let (var, bound) = (var as usize * self.lanes, bound as usize * self.lanes);
        let Block { ints, active, .. } = block;
        active.retain(|&lane| {
            let (at, bound) = (ints[var + lane as usize], ints[bound + lane as usize]);
            if down { at > bound } else { at < bound }
        });
        let simd = simd && self.lanes == 1;
        if simd && block.simd_depth == 1 {
            block.iteration += 1;
        }
        if block.active.is_empty() {
            if let Some(Frame::Loop { outer }) = block.frames.pop() {
                block.spare.push(std::mem::replace(&mut block.active, outer));
            }
            block.pc = end;
            if simd {
                block.simd_depth -= 1;
                if block.simd_depth == 0 {
                    block.clock.barrier();
                }
            }
        }
    }

    fn next(&mut self, block: &mut Block<F::Real>, var: Reg, step: i64, test: Pc) -> Option<Pause> {
        if self.stats.lane_steps > self.max_steps {
            return Some(Pause::Exhausted);
        }
        for k in 0..block.active.len() {
            let lane = block.active[k];
            let at = var as usize * self.lanes + lane as usize;
            let next = block.ints[at].checked_add(step);
            let next = self.int(block, lane, next);
            block.ints[at] = next;
        }
        block.pc = test;
        None
    }

    /// A lane that is not active, if any.
    fn missing(&self, block: &Block<F::Real>) -> Option<u32> {
        if block.active.len() == self.lanes {
            return None;
        }
        let absent = |&(n, &lane): &(u32, &u32)| n != lane;
        let gap = (0..).zip(&block.active).find(absent).map(|(n, _)| n);
        Some(gap.unwrap_or(block.active.len() as u32))
    }

    fn exit_if(&mut self, block: &mut Block<F::Real>, cond: Reg) -> Option<Pause> {
        let conds = &block.bools[cond as usize * self.lanes..][..self.lanes];
        let leaving = block.active.iter().filter(|&&lane| conds[lane as usize]).count();
        if leaving == 0 {
            return None;
        }
        if leaving == self.lanes {
            return Some(Pause::Done);
        }
        let lane = block.active.iter().copied().find(|&lane| conds[lane as usize]).unwrap_or(0);
        self.fatal(block, lane, FaultKind::DivergentExit)
    }

    fn barrier(&mut self, block: &mut Block<F::Real>, scope: Scope) -> Option<Pause> {
        if let Some(missing) = self.missing(block) {
            let lane = block.active.first().copied().unwrap_or(0);
            return self.fatal(block, lane, FaultKind::DivergentBarrier { missing });
        }
        self.stats.barriers += 1;
        block.clock.barrier();
        (scope == Scope::Grid).then_some(Pause::Grid)
    }

    /// Reports that a block waits at a barrier of the grid that another one does not reach.
    pub fn grid_barrier_missed(&mut self, waiting: &Block<F::Real>, other: u32) {
        self.fatal(waiting, 0, FaultKind::GridBarrierMissed { block: other.into() });
    }

    fn shuffle(&mut self, block: &mut Block<F::Real>, file: File, to: Reg, a: Reg, from: From, width: u32) {
        self.present.clear();
        self.present.resize(self.lanes, false);
        block.active.iter().for_each(|&lane| self.present[lane as usize] = true);
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        for k in 0..block.active.len() {
            let lane = block.active[k];
            sources.push(self.source(block, lane, from, width));
        }
        let (to, a, active) = (to as usize * self.lanes, a as usize * self.lanes, &block.active);
        match file {
            File::Real => exchange(&mut block.reals, to, a, active, &sources),
            File::Int => exchange(&mut block.ints, to, a, active, &sources),
            File::Bool => exchange(&mut block.bools, to, a, active, &sources),
        }
        self.sources = sources;
    }

    /// The lane that `lane` reads.
    fn source(&mut self, block: &Block<F::Real>, lane: u32, from: From, width: u32) -> u32 {
        let position = lane % width;
        let base = lane - position;
        let group = base..(base + width).min(self.lanes as u32);
        if let Some(missing) = group.clone().find(|&other| !self.present[other as usize]) {
            self.fault(block, lane, FaultKind::DivergentShuffle { missing }, None);
            return lane;
        }
        let other = match from {
            From::Down(n) => position.checked_add(n).filter(|&other| other < width),
            From::Up(n) => position.checked_sub(n),
            From::Xor(n) => Some(position ^ n).filter(|&other| other < width),
            From::Index(register) => {
                let at = block.ints[register as usize * self.lanes + lane as usize];
                let other = u32::try_from(at).ok().filter(|&other| other < width);
                if other.is_none() {
                    self.fault(block, lane, FaultKind::ShuffleSource, None);
                }
                other
            }
        };
        match other.map(|other| base + other) {
            None => lane,
            Some(other) if group.contains(&other) => other,
            Some(_) => {
                self.fault(block, lane, FaultKind::ShuffleSource, None);
                lane
            }
        }
    }
}

/// Copies `file[a + sources[k]]` to `file[to + active[k]]` for all k at once.
fn exchange<T: Copy>(file: &mut [T], to: usize, a: usize, active: &[u32], sources: &[u32]) {
    let values: Vec<T> = sources.iter().map(|&source| file[a + source as usize]).collect();
    for (&lane, value) in active.iter().zip(values) {
        file[to + lane as usize] = value;
    }
}
