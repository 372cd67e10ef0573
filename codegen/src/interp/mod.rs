//! The reference interpreter of Kernel IR: defines what a kernel means, and finds what no kernel may do.
//!
//! - It is generic over the [`Field`] of reals: [`Native`] rounds as a device does; in [`Modular`] arithmetic is exact,
//!   and two schedules of one computation agree exactly.
//! - A block executes every statement on all its active lanes before the next; blocks run one after another, from
//!   barrier to barrier of the grid. No result may depend on that: every word is shadowed, and two accesses of
//!   different lanes to one element, at least one of them a write, that nothing orders are a [`Fault`], even if they
//!   write the same value.
//! - Order comes from barriers, and between blocks also from atomic operations: after an `AtomicAdd` a lane sees what
//!   the lanes whose `AtomicAdd` on that element came before had done (or seen, or their blocks before a
//!   barrier) up to their last `Fence` before it.
//! - In kernels of one lane, iterations of a [`Simd`](crate::kernel::LoopKind::Simd) loop are checked like lanes.
//! - Out-of-range indices, reads of what was never written, integer overflow, unaligned wide accesses and divergent
//!   barriers, exits and shuffles are faults too. A launch with faults has no result ([`InterpError::Faults`]).
//!
//! It is meant for small problems and refuses large ones ([`Options::max_steps`]). It assumes verified kernels; one
//! that is not well typed is an error, never a panic.

mod access;
mod block;
mod code;
mod compile;
mod error;
mod estimate;
mod expressions;
mod field;
mod lanes;
mod launch;
mod machine;
mod memory;
mod modular;
mod order;
mod shadow;
mod stats;

pub use error::{Fault, FaultKind, InterpError, Party, Report};
pub use field::{Field, Native, Precision};
pub use launch::{BlockOrder, Options, Prepared, launch};
pub use memory::{BufferHandle, Memory};
pub use modular::{CompareMode, Modular, Residue};
pub use stats::{BufferStats, Stats};
