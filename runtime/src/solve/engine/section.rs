//! Steps outside of a solve: run once, timed, and the end of an engine.

use kernelwright_codegen::loops::Control;

use super::super::Error;
use super::super::cursor::{Cursor, Step};
use super::{Device, Engine, Which};
use crate::backend::Backend;

/// Runs before the clock counts.
const WARM_UP: usize = 3;
/// Runs between two marks of the clock, and the seconds of one from which on one is enough.
const RUNS: usize = 10;
const LONG: f64 = 0.02;

impl Engine {
    /// Runs steps from beginning to end, once, and waits for them.
    pub fn run_section(&mut self, control: &[Control]) -> Result<(), Error> {
        self.device.run(control).map(drop)
    }

    /// Seconds that sweeps and fences take on the device: the median of `repeats` times, each of several runs unless
    /// one takes long.
    pub fn time_section(&mut self, control: &[Control], repeats: usize) -> Result<f64, Error> {
        self.device.time(control, repeats.max(1))
    }

    /// Gives back kernels and buffers, and the back end for another use.
    pub fn into_backend(self) -> Box<dyn Backend> {
        self.device.into_backend()
    }
}

impl Device {
    /// Runs steps from beginning to end, whatever was raised before; returns the status they leave.
    pub(super) fn run(&mut self, control: &[Control]) -> Result<i32, Error> {
        self.clear_status()?;
        let mut cursor = Cursor::over(&[control]);
        while let Some(step) = cursor.next() {
            self.perform(step)?;
        }
        Ok(self.status()?.0)
    }

    /// See [`Engine::time_section`]; renaming of vectors is left out.
    fn time(&mut self, control: &[Control], repeats: usize) -> Result<f64, Error> {
        let mut launches = Vec::new();
        let mut cursor = Cursor::over(&[control]);
        while let Some(step) = cursor.next() {
            let (which, count) = match step {
                Step::Sweep(sweep) => (Which::Sweep(sweep.0), self.module.sweeps[sweep.0].len()),
                Step::Fence(fence) => (Which::Fence(fence.0), self.module.fences[fence.0].len()),
                Step::Rotate(_) | Step::Round => continue,
            };
            launches.extend((0..count).map(|number| self.resolved(which, number)));
        }
        self.flush()?;
        let once = self.backend.record(&launches)?;
        let timed = (0..WARM_UP).map(|_| self.backend.time(&once)).last().unwrap_or(Ok(0.0));
        self.backend.forget(once);
        let runs = if timed? > LONG { 1 } else { RUNS };
        let many: Vec<_> = (0..runs).flat_map(|_| launches.iter().cloned()).collect();
        let many = self.backend.record(&many)?;
        let times: Result<Vec<f64>, _> = (0..repeats).map(|_| self.backend.time(&many)).collect();
        self.backend.forget(many);
        let mut times = times?;
        times.sort_by(f64::total_cmp);
        Ok(times[repeats / 2] / runs as f64)
    }

    pub(super) fn into_backend(mut self) -> Box<dyn Backend> {
        self.queue.forget(self.backend.as_mut());
        let own = [self.scalars, self.params, self.status, self.history];
        let vectors = self.vectors.iter().flatten();
        for buffer in vectors.chain(&self.data).chain(&self.buffers).chain(&own) {
            self.backend.free(*buffer);
        }
        self.backend.release(&self.kernels);
        self.backend
    }
}
