//! The state of one block: resumable, so that blocks can wait for each other.

use super::code::{Code, Pc};
use super::field::Field;
use super::memory::{Cells, precision};
use super::order::Clock;
use super::shadow::Shadow;
use crate::kernel::Space;

/// Lanes set aside by control flow.
#[derive(Debug, Clone)]
pub(super) enum Frame {
    /// Lanes that were active before the branch, and those that take the second one.
    Branch { outer: Vec<u32>, other: Vec<u32> },
    /// Lanes that were active before the loop.
    Loop { outer: Vec<u32> },
}

/// A shared buffer, or the copies of a private one (element by element, lanes fastest).
#[derive(Debug, Clone)]
pub(super) struct Local<R> {
    pub cells: Cells<R>,
    pub set: Vec<bool>,
    pub shadow: Shadow,
}

/// A block.
#[derive(Debug, Clone)]
pub(super) struct Block<R> {
    /// Position in the grid, and counted x fastest.
    pub at: [u64; 3],
    pub number: u32,
    pub pc: Pc,
    /// Active lanes, ascending.
    pub active: Vec<u32>,
    pub frames: Vec<Frame>,
    /// Registers, lanes fastest.
    pub reals: Vec<R>,
    pub ints: Vec<i64>,
    pub bools: Vec<bool>,
    pub shared: Vec<Local<R>>,
    pub private: Vec<Local<R>>,
    pub clock: Clock,
    /// Depth of nested loops declared independent, and the iteration of the outermost one.
    pub simd_depth: u32,
    pub iteration: u32,
    /// Lists of lanes to use again.
    pub spare: Vec<Vec<u32>>,
}

impl<R: Copy + PartialEq> Block<R> {
    /// A block before its first instruction. Fails on constants the field does not have.
    pub fn new<F: Field<Real = R>>(field: &F, code: &Code, lanes: [u32; 3]) -> Option<Block<R>> {
        let n = lanes.iter().product::<u32>() as usize;
        let zero = field.zero();
        let local = |space: Space, copies: usize| {
            let buffers = code.buffers.iter().filter(move |buffer| buffer.space == space);
            buffers.map(move |buffer| {
                let len = buffer.extent as usize * copies;
                let cells = match precision(buffer.element) {
                    Some(_) => Cells::Real(vec![zero; len]),
                    None => Cells::Int(vec![0; len]),
                };
                let mut shadow = Shadow::default();
                // Private memory is in order by itself, but for independent iterations.
                if space == Space::Shared || (code.simd && n == 1) {
                    shadow.cover(len);
                }
                Local { cells, set: vec![false; len], shadow }
            })
        };
        let mut block = Block {
            at: [0; 3],
            number: 0,
            pc: 0,
            active: Vec::new(),
            frames: Vec::new(),
            reals: vec![zero; code.counts.reals as usize * n],
            ints: vec![0; code.counts.ints as usize * n],
            bools: vec![false; code.counts.bools as usize * n],
            shared: local(Space::Shared, 1).collect(),
            private: local(Space::Private, n).collect(),
            clock: Clock::new(0),
            simd_depth: 0,
            iteration: 0,
            spare: Vec::new(),
        };
        for &(register, value, precision) in &code.real_constants {
            let value = field.constant(value, precision)?;
            block.reals[register as usize * n..][..n].fill(value);
        }
        for &(register, value) in &code.int_constants {
            block.ints[register as usize * n..][..n].fill(value);
        }
        for &(register, value) in &code.bool_constants {
            block.bools[register as usize * n..][..n].fill(value);
        }
        block.place_lanes(code, lanes);
        Some(block)
    }

    fn place_lanes(&mut self, code: &Code, lanes: [u32; 3]) {
        let n = lanes.iter().product::<u32>() as usize;
        let mut stride = 1;
        for (register, &extent) in code.lane.iter().zip(&lanes) {
            if let Some(register) = *register {
                let positions = &mut self.ints[register as usize * n..][..n];
                for (lane, position) in positions.iter_mut().enumerate() {
                    *position = (lane / stride % extent as usize) as i64;
                }
            }
            stride *= extent as usize;
        }
    }

    /// Becomes another block, before its first instruction.
    pub fn restart(&mut self, code: &Code, lanes: u32, number: u32, grid: [u64; 3]) {
        let n = lanes as usize;
        let number64 = u64::from(number);
        self.number = number;
        self.at = [number64 % grid[0], number64 / grid[0] % grid[1], number64 / grid[0] / grid[1]];
        for (register, &position) in code.block.iter().zip(&self.at) {
            if let Some(register) = *register {
                self.ints[register as usize * n..][..n].fill(position as i64);
            }
        }
        self.pc = 0;
        self.active.clear();
        self.active.extend(0..lanes);
        self.frames.clear();
        self.clock = Clock::new(number);
        self.simd_depth = 0;
        for local in self.shared.iter_mut().chain(&mut self.private) {
            local.set.fill(false);
            local.shadow.reset();
        }
    }

    /// An empty list of lanes.
    pub fn list(&mut self) -> Vec<u32> {
        let mut list = self.spare.pop().unwrap_or_default();
        list.clear();
        list
    }
}
