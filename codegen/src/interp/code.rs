//! Linear code: what a kernel is compiled to before it is interpreted.
//!
//! An instruction acts on all active lanes before the next one starts. Operands are registers; there is one file
//! each for reals, integers and truth values. Constants, positions and variables have registers of their own, so
//! only operations cost instructions. Control flow narrows and widens the set of active lanes.

use super::field::Precision;
use crate::kernel::{Access, Cmp, Element, Kernel, Math, Op, Scope, Space};

/// A register of one of the files; the instruction says which.
pub(super) type Reg = u32;

/// A position in the code.
pub(super) type Pc = u32;

/// A register file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum File {
    Real,
    Int,
    Bool,
}

/// Source of a shuffle.
#[derive(Debug, Clone, Copy)]
pub(super) enum From {
    Down(u32),
    Up(u32),
    Xor(u32),
    Index(Reg),
}

/// Instructions. `to` is the result, `a`, `b` operands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Inst {
    Move {
        file: File,
        to: Reg,
        a: Reg,
    },
    /// Both sides are evaluated already.
    Pick {
        file: File,
        to: Reg,
        cond: Reg,
        a: Reg,
        b: Reg,
    },
    RealNeg {
        to: Reg,
        a: Reg,
    },
    Real {
        op: Op,
        precision: Precision,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Call {
        function: Math,
        precision: Precision,
        to: Reg,
        args: [Reg; 3],
    },
    Convert {
        precision: Precision,
        to: Reg,
        a: Reg,
    },
    FromInt {
        precision: Precision,
        to: Reg,
        a: Reg,
    },
    Truncate {
        to: Reg,
        a: Reg,
    },
    IntNeg {
        to: Reg,
        a: Reg,
    },
    Int {
        op: Op,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    Not {
        to: Reg,
        a: Reg,
    },
    Compare {
        file: File,
        cmp: Cmp,
        to: Reg,
        a: Reg,
        b: Reg,
    },
    /// Checks that the index is a multiple.
    Aligned {
        buffer: u32,
        index: Reg,
        of: u32,
    },
    Load {
        file: File,
        to: Reg,
        buffer: u32,
        index: Reg,
        offset: u32,
    },
    Store {
        file: File,
        buffer: u32,
        index: Reg,
        offset: u32,
        value: Reg,
    },
    AtomicAdd {
        to: Reg,
        buffer: u32,
        index: Reg,
        value: Reg,
    },
    Fence,
    Shuffle {
        file: File,
        to: Reg,
        a: Reg,
        from: From,
        width: u32,
    },
    Barrier(Scope),
    ExitIf(Reg),
    /// Goes on with the lanes where `cond` holds; without any, at `otherwise`, which is an `Else`.
    If {
        cond: Reg,
        otherwise: Pc,
    },
    /// Goes on with the other lanes; without any, at `end`, which is an `EndIf`.
    Else {
        end: Pc,
    },
    EndIf,
    Enter {
        simd: bool,
    },
    /// Keeps the lanes with another iteration; without any leaves the loop for `end`.
    Test {
        var: Reg,
        bound: Reg,
        down: bool,
        simd: bool,
        end: Pc,
    },
    /// Adds the step and goes back to the test.
    Next {
        var: Reg,
        step: i64,
        test: Pc,
    },
    /// Ends the kernel.
    Return,
}

/// Where a statement stands and what it says.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub place: String,
    pub text: String,
}

/// A buffer as the interpreter needs it.
#[derive(Debug, Clone)]
pub(super) struct BufferInfo {
    pub name: String,
    pub space: Space,
    pub element: Element,
    pub extent: u64,
    pub access: Access,
    /// Position among the buffers of its space.
    pub number: usize,
}

/// Numbers of registers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub reals: u32,
    pub ints: u32,
    pub bools: u32,
}

/// A compiled kernel.
#[derive(Debug, Clone)]
pub(super) struct Code {
    pub insts: Vec<Inst>,
    /// Site of each instruction.
    pub sites: Vec<u32>,
    pub statements: Vec<Site>,
    pub buffers: Vec<BufferInfo>,
    pub counts: Counts,
    pub real_constants: Vec<(Reg, f64, Precision)>,
    pub int_constants: Vec<(Reg, i64)>,
    pub bool_constants: Vec<(Reg, bool)>,
    /// Registers of the position of the lane and of the block, per axis, if used.
    pub lane: [Option<Reg>; 3],
    pub block: [Option<Reg>; 3],
    /// Whether there are barriers of the grid, loops declared independent.
    pub grid_barrier: bool,
    pub simd: bool,
}

impl Code {
    /// Words a block needs for its registers and its shared and private memory.
    pub fn block_words(&self, kernel: &Kernel) -> u64 {
        let lanes: u64 = kernel.lanes.iter().map(|&n| u64::from(n)).product();
        let Counts { reals, ints, bools } = self.counts;
        let registers = (u64::from(reals) + u64::from(ints) + u64::from(bools)) * lanes;
        let memory = self.buffers.iter().map(|buffer| match buffer.space {
            Space::Global => 0,
            Space::Shared => buffer.extent,
            Space::Private => buffer.extent.saturating_mul(lanes),
        });
        memory.fold(registers, u64::saturating_add)
    }
}
