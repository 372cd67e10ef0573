//! Launching a kernel: arguments, limits, and the order of blocks.

use std::collections::BTreeMap;

use super::block::Block;
use super::code::Code;
use super::compile::compile;
use super::error::{InterpError, Report};
use super::estimate::least_steps;
use super::field::Field;
use super::machine::{Machine, Pause};
use super::memory::{BufferHandle, Memory};
use super::stats::{BufferStats, Stats};
use crate::kernel::{Kernel, Space};

/// Words that blocks may take for registers, shared and private memory.
const MAX_WORDS: u64 = 1 << 26;

/// What [`InterpError::TooLarge`] is about.
const STEPS: &str = "lane steps";
const WORDS: &str = "words for blocks";

/// Limits and choices of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Instructions of the interpreter times active lanes (a statement is one to a few).
    pub max_steps: u64,
    /// Distinct faults after which the launch is given up.
    pub max_faults: usize,
    /// Order in which blocks run between barriers of the grid. A correct kernel does not depend on it.
    pub blocks: BlockOrder,
}

impl Default for Options {
    fn default() -> Options {
        Options { max_steps: 1 << 30, max_faults: 16, blocks: BlockOrder::Ascending }
    }
}

/// Order of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockOrder {
    /// By number, x fastest.
    Ascending,
    /// The last one first.
    Descending,
    /// A permutation made from a seed.
    Shuffled(u64),
}

/// A kernel compiled for interpretation; many launches share one.
#[derive(Debug, Clone)]
pub struct Prepared {
    kernel: Kernel,
    code: Code,
}

/// Compiles a kernel and runs it once: one buffer per global buffer of the kernel, in order.
pub fn launch<F: Field>(
    kernel: &Kernel,
    args: &[BufferHandle],
    memory: &mut Memory<F>,
    options: &Options,
) -> Result<Stats, InterpError> {
    Prepared::new(kernel)?.launch(args, memory, options)
}

impl Prepared {
    /// Compiles a kernel.
    pub fn new(kernel: &Kernel) -> Result<Prepared, InterpError> {
        Ok(Prepared { kernel: kernel.clone(), code: compile(kernel)? })
    }

    /// The kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Runs it once. After an error, buffers the kernel writes hold whatever it had written.
    pub fn launch<F: Field>(
        &self,
        args: &[BufferHandle],
        memory: &mut Memory<F>,
        options: &Options,
    ) -> Result<Stats, InterpError> {
        let kernel = &self.kernel;
        let blocks = self.check_size(options)?;
        self.check_arguments(args, memory)?;
        memory.prepare(&self.code, args);
        memory.era = memory.era.saturating_add(1);
        let (present, sources) = Default::default();
        let mut machine = Machine {
            field: &memory.field,
            kernel,
            code: &self.code,
            lanes: kernel.lanes.iter().product::<u32>() as usize,
            buffers: &mut memory.buffers,
            bound: args.iter().map(|arg| arg.0).collect(),
            first_era: memory.era,
            era: memory.era,
            released: BTreeMap::new(),
            stats: Stats { buffers: vec![BufferStats::default(); self.code.buffers.len()], ..Stats::default() },
            max_steps: options.max_steps,
            max_faults: options.max_faults.max(1),
            report: Report { kernel: kernel.name.clone(), faults: Vec::new(), stopped: false },
            present,
            sources,
        };
        let order = order(blocks, options.blocks);
        let end = if self.code.grid_barrier { machine.together(&order) } else { machine.one_by_one(&order) };
        memory.era = machine.era;
        let (stats, report) = (machine.stats, machine.report);
        match end? {
            _ if !report.faults.is_empty() => Err(InterpError::Faults(report)),
            Pause::Exhausted => Err(self.too_large(STEPS, stats.lane_steps, options.max_steps, true)),
            _ => Ok(stats),
        }
    }

    /// Number of blocks, if the launch is small enough to begin.
    fn check_size(&self, options: &Options) -> Result<u32, InterpError> {
        let kernel = &self.kernel;
        let steps = least_steps(kernel);
        let too_many_steps = || self.too_large(STEPS, steps, options.max_steps, false);
        if steps > options.max_steps {
            return Err(too_many_steps());
        }
        let blocks = kernel.grid.iter().fold(1, |product: u64, &n| product.saturating_mul(n));
        // Blocks that wait for each other exist at the same time.
        let copies = if self.code.grid_barrier { blocks } else { 1 };
        let words = self.code.block_words(kernel).saturating_mul(copies);
        if words > MAX_WORDS {
            return Err(self.too_large(WORDS, words, MAX_WORDS, false));
        }
        u32::try_from(blocks).map_err(|_| too_many_steps())
    }

    fn too_large(&self, what: &'static str, amount: u64, limit: u64, started: bool) -> InterpError {
        InterpError::TooLarge { kernel: self.kernel.name.clone(), what, amount, limit, started }
    }

    fn check_arguments<F: Field>(&self, args: &[BufferHandle], memory: &Memory<F>) -> Result<(), InterpError> {
        let wrong = |what: String| Err(InterpError::Argument(format!("kernel `{}`: {what}", self.kernel.name)));
        let global: Vec<_> = self.code.buffers.iter().filter(|buffer| buffer.space == Space::Global).collect();
        if global.len() != args.len() {
            return wrong(format!("{} arguments for {} global buffers", args.len(), global.len()));
        }
        for (n, (buffer, &arg)) in global.iter().zip(args).enumerate() {
            let (element, len) = (memory.element(arg)?, memory.extent(arg)? as u64);
            if element != buffer.element {
                return wrong(format!("`{}` has {:?} elements, not {element:?}", buffer.name, buffer.element));
            }
            if len < buffer.extent {
                return wrong(format!("`{}` needs {} elements, not {len}", buffer.name, buffer.extent));
            }
            let alias =
                |&(other, _): &(usize, &BufferHandle)| !buffer.access.is_read() || !global[other].access.is_read();
            let same = args[..n].iter().enumerate().filter(|(_, other)| **other == arg).find(alias);
            if let Some((other, _)) = same {
                return wrong(format!("`{}` and `{}` are one buffer, and written", global[other].name, buffer.name));
            }
        }
        Ok(())
    }
}

impl<F: Field> Machine<'_, F> {
    fn block(&self) -> Result<Block<F::Real>, InterpError> {
        let block = Block::new(self.field, self.code, self.kernel.lanes);
        block.ok_or_else(|| InterpError::Malformed {
            kernel: self.kernel.name.clone(),
            place: "body".into(),
            what: "a constant that the field of reals does not have".into(),
        })
    }

    fn one_by_one(&mut self, order: &[u32]) -> Result<Pause, InterpError> {
        let mut block = self.block()?;
        for &number in order {
            block.restart(self.code, self.lanes as u32, number, self.kernel.grid);
            let pause = self.run(&mut block);
            if pause != Pause::Done {
                return Ok(pause);
            }
            if self.stats.lane_steps > self.max_steps {
                return Ok(Pause::Exhausted);
            }
        }
        Ok(Pause::Done)
    }

    fn together(&mut self, order: &[u32]) -> Result<Pause, InterpError> {
        let fresh = self.block()?;
        let start = |&number: &u32| {
            let mut block = fresh.clone();
            block.restart(self.code, self.lanes as u32, number, self.kernel.grid);
            block
        };
        let mut blocks: Vec<_> = order.iter().map(start).collect();
        loop {
            let mut ends = Vec::with_capacity(blocks.len());
            for block in &mut blocks {
                let pause = self.run(block);
                if matches!(pause, Pause::Stop | Pause::Exhausted) {
                    return Ok(pause);
                }
                ends.push((pause, block.pc));
            }
            let Some(waiting) = ends.iter().position(|(pause, _)| *pause == Pause::Grid) else {
                return Ok(Pause::Done);
            };
            // All blocks have to wait, at the same barrier.
            if let Some(other) = ends.iter().position(|end| *end != ends[waiting]) {
                self.grid_barrier_missed(&blocks[waiting], blocks[other].number);
                return Ok(Pause::Stop);
            }
            self.era = self.era.saturating_add(1);
        }
    }
}

fn order(blocks: u32, order: BlockOrder) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..blocks).collect();
    match order {
        BlockOrder::Ascending => {}
        BlockOrder::Descending => numbers.reverse(),
        BlockOrder::Shuffled(mut state) => {
            for n in (1..numbers.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                numbers.swap(n, (state >> 33) as usize % (n + 1));
            }
        }
    }
    numbers
}
