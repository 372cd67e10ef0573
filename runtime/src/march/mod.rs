//! Marching systems of conservation laws in time.
//!
//! [`Bound`] is a problem of a system with its mesh, materials and initial values; an [`Engine`] holds the state and
//! advances it; [`spectrum`] finds the largest safe step; [`Marcher`] is the time loop, with energy, probes, outputs and
//! checkpoints. How a run ends is an [`Outcome`], not an error.

mod bound;
pub mod engine;
mod kernels;
pub(crate) mod shapes;
mod spectrum;
mod norms;
mod probes;
mod checkpoint;
mod marcher;
mod watch;

pub use bound::{Bound, Changes, Extent};
pub use checkpoint::Checkpoint;
pub use engine::{DirectEngine, Engine, Made};
pub use kernels::{KernelEngine, module, options};
pub use marcher::{Events, Marcher, Outcome, Progress, Report};
pub use norms::Norms;
pub use probes::{Probe, find};
pub use spectrum::{Reach, Spectrum, linear_part, reach};
pub use watch::Watch;
