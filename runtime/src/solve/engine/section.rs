//! Steps outside of a solve: run once, timed, and the end of an engine.

use kernelwright_codegen::loops::Control;

use super::super::Error;
use super::super::cursor::{Cursor, Step};
use super::{Device, Engine, Which};
use crate::backend::Backend;

/// Runs before the clock counts.
const WARM_UP: usize = 3;
/// Runs between two marks of the clock, at least and at most, and the seconds that they take where they are not the most:
/// marks are known to a microsecond, which a launch of ten must not depend on.
const RUNS: [usize; 2] = [10, 256];
const SAMPLE: f64 = 2e-3;
/// Seconds of a run from which on one is enough.
const LONG: f64 = 0.02;

/// Runs between two marks of the clock, where one takes so many seconds.
fn runs(once: f64) -> usize {
    match once {
        once if once > LONG => 1,
        once => ((SAMPLE / once.max(1e-9)).ceil() as usize).clamp(RUNS[0], RUNS[1]),
    }
}

impl Engine {
    /// Runs steps from beginning to end, once, and waits for them.
    pub fn run_section(&mut self, control: &[Control]) -> Result<(), Error> {
        self.device.run(control).map(drop)
    }

    /// Seconds that sweeps and fences take on the device: the median of `repeats` times, each of as many runs at a stretch
    /// as take some milliseconds.
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
        let runs = runs(timed?);
        let many: Vec<_> = (0..runs).flat_map(|_| launches.iter().cloned()).collect();
        let many = self.backend.record(&many)?;
        // A device takes a list in when it runs for the first time.
        let first = if runs > RUNS[0] { self.backend.time(&many).map(drop) } else { Ok(()) };
        let times =
            first.and_then(|()| (0..repeats).map(|_| self.backend.time(&many)).collect::<Result<Vec<f64>, _>>());
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

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn a_sample_takes_milliseconds_however_short_a_run_is() {
        assert_eq!([1e-7, 1e-5, 1e-3, 0.1].map(runs), [256, 200, 10, 1]);
        assert!(runs(1.2e-5) as f64 * 1.2e-5 >= 1e-3);
    }
}
