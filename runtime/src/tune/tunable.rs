//! What can be searched: something that lists its candidates, maps them, proves them and brings them to the clock.

use kernelwright_codegen::kernel::Kernel;

use super::strategy::Points;
use crate::backend::{Backend, BackendError, BufferHandle, KernelHandle};

/// A proof at small sizes, for any thread; the error says what is wrong.
pub type Proof = Box<dyn FnOnce() -> Result<(), String> + Send>;

/// Launches with their arguments.
pub type Launches = Vec<(KernelHandle, Vec<BufferHandle>)>;

/// A kernel, or a few that are launched together, in all its variants. Candidate 0 is the default, which the others are
/// held against.
pub trait Tunable {
    /// What mapping gives beside the kernels.
    type Mapped;
    /// A candidate on the device.
    type Candidate;

    /// Its name in reports.
    fn name(&self) -> &str;

    /// The candidates, as strategies see them.
    fn points(&self) -> &Points;

    /// The parts of a candidate that are chosen here, with their values.
    fn parts(&self, number: usize) -> Vec<(String, String)>;

    /// Bytes that a launch reads and writes at least.
    fn bytes(&self) -> u64;

    /// The kernels of a candidate, in the order in which [`Tunable::load`] takes them.
    ///
    /// # Errors
    /// A variant that cannot be mapped.
    fn map(&self, number: usize) -> Result<(Vec<Kernel>, Self::Mapped), String>;

    /// The proof of a candidate at small sizes.
    fn proof(&self, number: usize) -> Proof;

    /// A candidate from its loaded kernels, with buffers of its own.
    ///
    /// # Errors
    /// A device that is too small; the kernels are given back then.
    fn load(
        &self,
        backend: &mut dyn Backend,
        mapped: Self::Mapped,
        kernels: Vec<KernelHandle>,
    ) -> Result<Self::Candidate, BackendError>;

    /// The kernels of a candidate.
    fn kernels<'c>(&self, candidate: &'c Self::Candidate) -> &'c [KernelHandle];

    /// Takes what a candidate leaves as the reference.
    ///
    /// # Errors
    /// A device that fails; a reference that leaves no numbers.
    fn establish(&mut self, backend: &mut dyn Backend, candidate: &Self::Candidate) -> Result<(), BackendError>;

    /// Runs a candidate on outputs that are no numbers and holds what it leaves against the reference.
    ///
    /// # Errors
    /// Inside: why the candidate is wrong. Outside: a device that fails.
    fn prove(&self, backend: &mut dyn Backend, candidate: &Self::Candidate)
    -> Result<Result<(), String>, BackendError>;

    /// Copies of the data that launches go through in turn.
    fn sets(&self) -> usize;

    /// Brings the inputs of all copies to their first values.
    ///
    /// # Errors
    /// A device that fails.
    fn reset(&self, backend: &mut dyn Backend, candidate: &Self::Candidate) -> Result<(), BackendError>;

    /// Launches of a candidate on one of the copies.
    fn launches(&self, candidate: &Self::Candidate, set: usize) -> Launches;

    /// Whether launches may end what follows them, until it is [cleared](Tunable::clear).
    fn raises(&self) -> bool {
        false
    }

    /// Lets launches run again.
    ///
    /// # Errors
    /// A device that fails.
    fn clear(&self, _: &mut dyn Backend) -> Result<(), BackendError> {
        Ok(())
    }

    /// Gives a candidate's kernels and buffers back.
    fn discard(&self, backend: &mut dyn Backend, candidate: Self::Candidate);

    /// Gives everything else back.
    fn close(self, backend: &mut dyn Backend);
}
