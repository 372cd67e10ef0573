//! What the interpreter finds wrong with a launch.

use std::fmt;

/// Why a launch gave no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InterpError {
    /// Arguments or host accesses that do not fit: number, element type, length, aliasing, freed buffers.
    #[error("{0}")]
    Argument(String),
    /// The kernel needs more steps than allowed; interpretation is for small problems.
    #[error(
        "kernel `{kernel}` needs {} {steps} lane steps and the interpreter is limited to {limit}",
        if *.started { "more than" } else { "at least" }
    )]
    TooLarge {
        /// Name of the kernel.
        kernel: String,
        /// Steps found necessary before the start, or taken.
        steps: u64,
        /// The limit of the options.
        limit: u64,
        /// Whether it had been started; if not, memory is as it was.
        started: bool,
    },
    /// The kernel needs more registers, shared and private memory than allowed.
    #[error("kernel `{kernel}` needs {words} words for its blocks and the interpreter is limited to {limit}")]
    TooMuchMemory {
        /// Name of the kernel.
        kernel: String,
        /// Words of all blocks that exist at a time.
        words: u64,
        /// The limit.
        limit: u64,
    },
    /// The kernel is not well formed: a bug of what made it, and of the verifier that let it pass.
    #[error("kernel `{kernel}` is not well formed at {place}: {what}")]
    Malformed {
        /// Name of the kernel.
        kernel: String,
        /// Path of the statement.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// The kernel ran and did what no kernel may do.
    #[error("{0}")]
    Faults(Report),
}

/// The first faults of a launch, in the order of execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Name of the kernel.
    pub kernel: String,
    /// Faults, one per statement, buffer and kind.
    pub faults: Vec<Fault>,
    /// Whether the launch was given up before its end.
    pub stopped: bool,
}

/// Something no kernel may do.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Path of the statement, `body[2].then[0]`.
    pub place: String,
    /// The statement, on one line.
    pub statement: String,
    /// Name of the buffer concerned.
    pub buffer: Option<String>,
    /// Element concerned.
    pub index: Option<i64>,
    /// Block.
    pub block: [u64; 3],
    /// Lane in the block.
    pub lane: [u32; 3],
    /// How often it happened (the rest describes the first time).
    pub count: u64,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// An index outside the buffer.
    OutOfBounds,
    /// A read of an element nobody has written.
    Uninitialised,
    /// A wide access whose first index is not a multiple of its width.
    Misaligned,
    /// A read not ordered with the write of another lane.
    ReadAfterWrite(Party),
    /// A write not ordered with the read of another lane.
    WriteAfterRead(Party),
    /// Two writes of different lanes in no order, equal values or not.
    WriteAfterWrite(Party),
    /// A store to a buffer the kernel only reads.
    ReadOnly,
    /// A read of a buffer the kernel only writes.
    WriteOnly,
    /// A barrier that not all lanes of the block reach together.
    DivergentBarrier {
        /// A lane that is not there.
        missing: u32,
    },
    /// An `ExitIf` whose condition differs between lanes, or one within control flow that does.
    DivergentExit,
    /// A barrier of the grid that a block never reaches.
    GridBarrierMissed {
        /// The block, counted x fastest.
        block: u64,
    },
    /// A shuffle that not all lanes of a group take part in.
    DivergentShuffle {
        /// A lane that is not there.
        missing: u32,
    },
    /// A shuffle from a lane the block does not have, or a position outside the group.
    ShuffleSource,
    /// Integer arithmetic beyond the index width.
    IntegerOverflow,
    /// Integer division by zero, or with a negative operand.
    IntegerDivision,
    /// An integer that the element type cannot hold.
    StoreRange,
    /// A real operation with no value in the field, such as division by zero modulo p.
    Undefined,
    /// A real that is no integer of the index width when truncated.
    Truncation,
    /// Iterations of a loop declared independent that are not (the fault between them).
    DependentIterations,
}

/// The other side of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Party {
    /// Its block, counted x fastest.
    pub block: u64,
    /// Its lane, counted x fastest; none if it is several lanes.
    pub lane: Option<u32>,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.lane {
            Some(lane) => write!(f, "lane {lane} of block {}", self.block),
            None => write!(f, "several lanes of block {}", self.block),
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            FaultKind::OutOfBounds => f.write_str("index out of bounds"),
            FaultKind::Uninitialised => f.write_str("read of an element that was never written"),
            FaultKind::Misaligned => f.write_str("wide access at an unaligned index"),
            FaultKind::ReadAfterWrite(by) => write!(f, "read in no order with the write of {by}"),
            FaultKind::WriteAfterRead(by) => write!(f, "write in no order with the read of {by}"),
            FaultKind::WriteAfterWrite(by) => write!(f, "write in no order with the write of {by}"),
            FaultKind::ReadOnly => f.write_str("store to a read-only buffer"),
            FaultKind::WriteOnly => f.write_str("load from a write-only buffer"),
            FaultKind::DivergentBarrier { missing } => write!(f, "barrier that lane {missing} does not reach"),
            FaultKind::DivergentExit => f.write_str("exit that not all lanes of the block take"),
            FaultKind::GridBarrierMissed { block } => write!(f, "grid barrier that block {block} does not reach"),
            FaultKind::DivergentShuffle { missing } => write!(f, "shuffle without lane {missing} of the group"),
            FaultKind::ShuffleSource => f.write_str("shuffle from a lane that does not exist"),
            FaultKind::IntegerOverflow => f.write_str("integer overflow"),
            FaultKind::IntegerDivision => f.write_str("integer division by zero or with a negative operand"),
            FaultKind::StoreRange => f.write_str("integer too large for the element type"),
            FaultKind::Undefined => f.write_str("operation without a value (division by zero modulo p?)"),
            FaultKind::Truncation => f.write_str("real that is no index when truncated"),
            FaultKind::DependentIterations => f.write_str("conflict between iterations declared independent"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(buffer) = &self.buffer {
            write!(f, ": {buffer}")?;
        }
        if let Some(index) = self.index {
            write!(f, "[{index}]")?;
        }
        let ([bx, by, bz], [x, y, z]) = (self.block, self.lane);
        write!(f, ", block ({bx}, {by}, {bz}), lane ({x}, {y}, {z})")?;
        write!(f, "\n    at {}: {}", self.place, self.statement)?;
        if self.count > 1 {
            write!(f, "    ({} times)", self.count)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "kernel `{}` is wrong:", self.kernel)?;
        for fault in &self.faults {
            write!(f, "\n  {fault}")?;
        }
        if self.stopped {
            f.write_str("\n  (given up here)")?;
        }
        Ok(())
    }
}
