//! Launches on their way to the back end: rounds of a loop go there as recorded lists.
//!
//! Most rounds of a loop launch the same kernels on the same buffers, up to the versions of vectors, which turn over
//! with a small period. A few rounds at a time are compared with those before; a list that comes a second time is
//! recorded, and from then on it is one call of the back end instead of one per kernel. Nothing is assumed about the
//! period, about steps that are only taken in some rounds, or about loops in loops: a list is what it launches.

use crate::backend::{Backend, BackendError, BufferHandle, KernelHandle, Recorded};

/// Launches of a list, at least; the last round of a list is completed.
const LIST: usize = 32;
/// Lists that are remembered.
const LISTS: usize = 16;

/// A kernel with its arguments.
type Launch = (KernelHandle, Vec<BufferHandle>);

/// Launches put off until a list is complete or the device is looked at.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Vec<Launch>,
    /// Whether `waiting` consists of whole rounds, but for the last one.
    rounds: bool,
    lists: Vec<List>,
}

#[derive(Debug)]
enum List {
    /// Came once.
    Seen(Vec<Launch>),
    Recorded(Recorded),
}

impl List {
    fn launches(&self) -> &[Launch] {
        match self {
            List::Seen(launches) => launches,
            List::Recorded(recorded) => recorded.launches(),
        }
    }
}

impl Queue {
    /// Adds a launch.
    pub(super) fn push(&mut self, kernel: KernelHandle, args: Vec<BufferHandle>) {
        self.waiting.push((kernel, args));
    }

    /// A round begins: what waits is a list if it is long enough.
    pub(super) fn round(&mut self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        if !self.rounds {
            self.flush(backend)?;
        } else if self.waiting.len() >= LIST {
            self.enqueue_list(backend)?;
        }
        self.rounds = true;
        Ok(())
    }

    /// Enqueues what waits, launch by launch.
    pub(super) fn flush(&mut self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        self.rounds = false;
        self.waiting.drain(..).try_for_each(|(kernel, args)| backend.launch(kernel, &args))
    }

    /// Gives back what is recorded on the device; nothing may wait.
    pub(super) fn forget(&mut self, backend: &mut dyn Backend) {
        for list in self.lists.drain(..) {
            if let List::Recorded(recorded) = list {
                backend.forget(recorded);
            }
        }
    }

    fn enqueue_list(&mut self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        match self.lists.iter_mut().find(|list| list.launches() == self.waiting) {
            Some(List::Recorded(recorded)) => backend.replay(recorded)?,
            Some(list) => {
                let recorded = backend.record(&self.waiting)?;
                backend.replay(&recorded)?;
                *list = List::Recorded(recorded);
            }
            None => {
                if self.lists.len() < LISTS {
                    self.lists.push(List::Seen(self.waiting.clone()));
                }
                return self.flush(backend);
            }
        }
        self.waiting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelwright_codegen::kernel::{Element, Kernel};

    /// Notes the first argument of every launch, and what is recorded.
    #[derive(Default)]
    struct Notes {
        launched: Vec<usize>,
        recorded: usize,
        replayed: usize,
    }

    impl Backend for Notes {
        fn describe(&self) -> String {
            String::new()
        }
        fn compile(&mut self, _: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
            Ok(Vec::new())
        }
        fn allocate(&mut self, _: Element, _: u64) -> Result<BufferHandle, BackendError> {
            Ok(BufferHandle(0))
        }
        fn free(&mut self, _: BufferHandle) {}
        fn write(&mut self, _: BufferHandle, _: &[f64]) -> Result<(), BackendError> {
            Ok(())
        }
        fn read(&mut self, _: BufferHandle, _: &mut [f64]) -> Result<(), BackendError> {
            Ok(())
        }
        fn launch(&mut self, _: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
            self.launched.push(args[0].0);
            Ok(())
        }
        fn synchronize(&mut self) -> Result<(), BackendError> {
            Ok(())
        }
        fn record(&mut self, launches: &[Launch]) -> Result<Recorded, BackendError> {
            self.recorded += 1;
            Ok(Recorded::list(launches))
        }
        fn replay(&mut self, recorded: &Recorded) -> Result<(), BackendError> {
            self.replayed += 1;
            recorded.launches().iter().try_for_each(|(kernel, args)| self.launch(*kernel, args))
        }
    }

    #[test]
    fn versions_that_turn_over_are_recorded_once_each_and_order_is_kept() {
        let (mut queue, mut notes) = (Queue::default(), Notes::default());
        let mut expected = vec![100];
        queue.push(KernelHandle(0), vec![BufferHandle(100)]);
        for round in 0..3000 {
            queue.round(&mut notes).expect("notes do not fail");
            // Three launches a round, versions of period five.
            for launch in 0..3 {
                let buffer = 10 * launch + round % 5;
                queue.push(KernelHandle(launch), vec![BufferHandle(buffer)]);
                expected.push(buffer);
            }
        }
        queue.flush(&mut notes).expect("notes do not fail");
        assert_eq!(notes.launched, expected);
        assert_eq!(notes.recorded, 5, "lists of eleven rounds come in five kinds");
        assert_eq!(notes.replayed, 3000 / 11 - 5);
    }
}
