//! Finalists in turns: what decides between whole iterations, products or steps.

use std::time::{Duration, Instant};

use super::budget::Act;
use super::session::Session;
use crate::solve::Error;

/// Why one drops out that would not end in time.
pub(super) const LATE: &str = "there was no time left to time it";
/// Samples of each finalist.
pub(super) const ROUNDS: usize = 7;

/// Samples rivals in turns, once and again as long as there is time; the samples of each that is left. One that fails, or for
/// whose first sample there is no time, drops out and goes to `drops`; the last one does not, and the first one always
/// has a sample.
///
/// # Errors
/// The failure of the last rival, or of one after which the device no longer answers.
pub(super) fn turns<R, S>(
    session: &mut Session<'_>,
    rivals: &mut Vec<R>,
    mut sample: impl FnMut(&mut R) -> Result<S, Error>,
    mut drops: impl FnMut(R, Error),
) -> Result<Vec<Vec<S>>, Error> {
    let mut samples: Vec<Vec<S>> = rivals.iter().map(|_| Vec::new()).collect();
    let mut took = Duration::ZERO;
    for round in 0..ROUNDS {
        if round > 0 && !session.fits(took) {
            break;
        }
        let begin = Instant::now();
        let mut at = 0;
        while at < rivals.len() {
            let one = Instant::now();
            let time = round > 0 || at == 0 || session.fits(session.budget.takes(Act::Sample));
            let taken = if time { sample(&mut rivals[at]) } else { Err(Error::Internal(LATE.to_string())) };
            match taken {
                Ok(sample) => {
                    session.budget.learn(Act::Sample, one.elapsed());
                    samples[at].push(sample);
                    at += 1;
                }
                Err(error) if rivals.len() == 1 || !session.answers() => return Err(error),
                Err(error) => {
                    samples.remove(at);
                    drops(rivals.remove(at), error);
                }
            }
        }
        took = begin.elapsed();
    }
    Ok(samples)
}
