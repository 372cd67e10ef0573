//! Finalists in turns: what decides between whole iterations, products or steps.

use std::time::{Duration, Instant};

use super::session::Session;
use crate::solve::Error;

/// Samples of each finalist.
pub(super) const ROUNDS: usize = 7;

/// Samples rivals in turns, once at least and again as long as there is time; the samples of each that is left. One that
/// fails drops out and goes to `drops`; the last one does not.
///
/// # Errors
/// The failure of the last rival, or of one after which the device no longer answers.
pub(super) fn turns<R>(
    session: &mut Session<'_>,
    rivals: &mut Vec<R>,
    mut sample: impl FnMut(&mut R) -> Result<f64, Error>,
    mut drops: impl FnMut(R, Error),
) -> Result<Vec<Vec<f64>>, Error> {
    let mut samples = vec![Vec::new(); rivals.len()];
    let mut took = Duration::ZERO;
    for round in 0..ROUNDS {
        if round > 0 && !session.fits(took) {
            break;
        }
        let begin = Instant::now();
        let mut at = 0;
        while at < rivals.len() {
            match sample(&mut rivals[at]) {
                Ok(seconds) => {
                    samples[at].push(seconds);
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
