//! The end of a search: the best candidates in turns, half of them leaving after each round, until two are left. Of those
//! that no measurement tells apart the one with fewer resources wins, then the one whose name comes first.

use std::time::{Duration, Instant};

use super::{Live, Race};
use crate::backend::{Backend, BackendError, KernelInfo};
use crate::solve::Error;
use crate::tune::record::{Kind, Verdict};
use crate::tune::trial::{Searched, Trial};
use crate::tune::tunable::Tunable;
use crate::tune::{clock, key};

/// Candidates that stay loaded for the final, the reference among them.
pub(super) const FINALISTS: usize = 5;
/// Samples of each finalist in a round of the final.
const ROUND: usize = 6;
/// The same where other work disturbs them, and the time after which they are as many as elsewhere.
const DISTURBED: (usize, Duration) = (30, Duration::from_secs(1));
/// Rounds at least: two that are close are told apart by many samples.
const ROUNDS: usize = 3;
/// Times closer than this are not told apart. Half of what is allowed between whole iterations: both together keep two tunes
/// within two per cent of each other.
const ALIKE: f64 = 0.005;
/// Times of earlier tunes this much above the best are worth another look.
const AGAIN: f64 = 1.05;

impl<T: Tunable> Race<'_, '_, T> {
    /// Gives back all but the reference and the best of those that are loaded.
    pub(super) fn thin(&mut self, most: usize) {
        self.live.sort_by(|a, b| a.lap.timed().seconds.total_cmp(&b.lap.timed().seconds));
        while self.live.len() > most.max(1) {
            let Some(at) = self.live.iter().rposition(|live| Some(live.trial) != self.reference) else { break };
            self.leave(at);
        }
    }

    /// Gives a loaded candidate back.
    fn leave(&mut self, at: usize) {
        let Live { candidate, lap, .. } = self.live.remove(at);
        let backend = &mut self.session.backend();
        lap.close(backend);
        self.tunable.discard(backend, candidate);
    }

    /// Candidates that the store knows as good as the best ones here are built after all, for the final.
    pub(super) fn recall(&mut self) -> Result<(), Error> {
        let mut known: Vec<(f64, usize)> = (0..self.trials.len())
            .filter(|trial| self.trials[*trial].remembered && self.trials[*trial].verdict == Verdict::Timed)
            .filter_map(|trial| self.trials[trial].seconds.map(|seconds| (seconds, trial)))
            .collect();
        known.sort_by(|a, b| a.0.total_cmp(&b.0));
        known.truncate(FINALISTS - 2);
        let best = self.live.first().map_or(f64::INFINITY, |live| live.lap.timed().seconds);
        for (seconds, trial) in known {
            if seconds > AGAIN * best || self.session.over() {
                continue;
            }
            let number = self.numbers[trial];
            let Ok((kernels, mapped)) = self.tunable.map(number) else { continue };
            let code = key::code(self.session.target, &kernels);
            self.submit(number, (mapped, kernels, code));
            for loaded in self.finished().into_iter().flatten() {
                self.meet(loaded)?;
            }
        }
        Ok(())
    }

    /// The best ones in turns, half of them leaving after every round.
    pub(super) fn final_rounds(&mut self) -> Result<(), Error> {
        self.thin(FINALISTS);
        let mut most = self.live.len();
        let mut round = 0;
        while self.live.len() > 1 {
            round += 1;
            let whole = self.round()?;
            for live in &self.live {
                let timed = live.lap.timed();
                let trial = &mut self.trials[live.trial];
                (trial.seconds, trial.spread, trial.samples) = (Some(timed.seconds), timed.spread, timed.samples);
            }
            if !whole || (most <= 2 && round >= ROUNDS) {
                break;
            }
            most = most.div_ceil(2).max(2);
            self.thin(most);
        }
        Ok(())
    }

    /// A round, as far as there is time: whether all of it.
    fn round(&mut self) -> Result<bool, Error> {
        let samples = match () {
            () if self.session.backend().small_problems_only().is_some() => 1,
            () if self.session.disturbed() => DISTURBED.0,
            () => ROUND,
        };
        let first = Instant::now();
        for sample in 0..samples {
            let begin = Instant::now();
            if !self.session.searches(self.turn) {
                return Ok(false);
            }
            if sample >= ROUND && first.elapsed() > DISTURBED.1 {
                break;
            }
            self.sample_each()?;
            self.turn = begin.elapsed();
        }
        Ok(true)
    }

    /// A sample of everyone that is loaded, in their order.
    pub(super) fn sample_each(&mut self) -> Result<(), Error> {
        let backend = &mut self.session.backend();
        let mut at = 0;
        while at < self.live.len() {
            match self.live[at].lap.sample(backend, &self.tunable) {
                Ok(_) => at += 1,
                Err(error) => self.drops_out(at, &error)?,
            }
        }
        let reference = self.live.iter().find(|live| Some(live.trial) == self.reference);
        if let Some(sample) = reference.and_then(|live| live.lap.samples().last().copied()) {
            self.live.iter_mut().for_each(|live| live.lap.note(sample));
        }
        Ok(())
    }

    /// A finalist that the device could run before and cannot any more.
    fn drops_out(&mut self, at: usize, error: &BackendError) -> Result<(), Error> {
        let trial = self.live[at].trial;
        self.leave(at);
        let number = self.numbers[trial];
        let (reason, answers) = self.session.excuse(&self.name_of(number), error);
        self.trials[trial] = Trial::failed(self.tunable.parts(number), reason);
        if let Ok((kernels, _)) = self.tunable.map(number) {
            let code = key::code(self.session.target, &kernels);
            let trial = self.trials[trial].clone();
            self.keep(Kind::Kernel, &trial, code);
        }
        answers
    }

    /// The winner among those that were timed to the end; of equals the one that takes least.
    fn winner(&self) -> usize {
        let measured: Vec<(usize, f64, &[f64])> =
            self.live.iter().map(|live| (live.trial, live.lap.timed().seconds, live.lap.samples())).collect();
        let Some(best) = measured.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else { return 0 };
        let last = |samples: &[f64]| samples[samples.len().saturating_sub(ROUNDS * ROUND)..].to_vec();
        let alike = measured.iter().filter(|rival| {
            rival.1 <= (1.0 + ALIKE) * best.1 && clock::ratio(&last(rival.2), &last(best.2)) <= 1.0 + ALIKE
        });
        let cost = |trial: usize| {
            let info = self.trials[trial].info.as_ref();
            let of = |f: fn(&KernelInfo) -> u32| info.map_or(0, f);
            let resources = [of(|i| i.local_bytes), of(|i| i.registers), of(|i| i.shared_bytes)];
            (resources, self.trials[trial].variant.clone())
        };
        alike.map(|rival| rival.0).min_by_key(|trial| cost(*trial)).unwrap_or(best.0)
    }

    /// Keeps what was found best beside the measurements: it was chosen in turns, which single times do not tell.
    pub(super) fn keep_winner(&mut self) {
        let best = self.winner();
        let number = self.live.iter().find(|live| live.trial == best).map(|live| self.numbers[live.trial]);
        if let Some((code, _)) = self.codes.iter().find(|(_, known)| Some(**known) == number) {
            let (trial, code) = (self.trials[best].clone(), code.clone());
            self.keep(Kind::Winner, &trial, code);
        }
    }

    /// Chooses, and gives everything back.
    pub(super) fn close(mut self) -> Searched {
        let best = self.winner();
        // What is still being compiled belongs to nobody else.
        self.session.workshop.drop_all();
        while !self.live.is_empty() {
            self.leave(0);
        }
        let (kernel, space) = (self.tunable.name().to_string(), self.states.len());
        let bytes = self.tunable.bytes();
        self.tunable.close(&mut self.session.backend());
        Searched { kernel, space, trials: self.trials, best, bytes }
    }
}
