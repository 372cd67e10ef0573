//! What the end of a run means, given the residual computed from the solution.

use kernelwright_codegen::loops::{Program, RequireInfo, status};

use super::driver::{Stop, Truth};
use super::outcome::Outcome;

/// A true measure within this factor of what rounding allows counts as attained when starting over gained nothing: the
/// estimate bounds the rounding errors from a sum of magnitudes and is good to a small factor only.
pub(super) const NEAR_ATTAINABLE: f64 = 4.0;
/// Beyond this factor rounding explains nothing: what the loop calls its residual is not that of its solution.
const FAR: f64 = 1e6;
/// Starting over is worth another try when the true measure fell by this factor.
pub(super) const GAIN: f64 = 0.5;

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Start over from the current solution.
    StartOver,
    /// The solve has ended.
    End(Outcome, Option<String>),
}

/// Judges claims of convergence, with a memory of those that failed.
#[derive(Debug)]
pub(super) struct Verdict {
    best: f64,
    without_gain: u32,
    pub(super) restarts: u32,
    /// Whether vectors are f32.
    single: bool,
}

impl Verdict {
    /// `single`: vectors are f32.
    pub(super) fn new(single: bool) -> Self {
        Verdict { best: f64::INFINITY, without_gain: 0, restarts: 0, single }
    }

    pub(super) fn judge(&mut self, stop: Stop, truth: Option<Truth>, program: &Program) -> Next {
        let met = truth.is_some_and(|truth| truth.measure <= truth.bound);
        let near = truth.is_some_and(|truth| truth.measure <= NEAR_ATTAINABLE * truth.attainable);
        match stop {
            Stop::Raised(status::CONVERGED) => match truth {
                Some(truth) => self.judge_claim(truth),
                None => Next::End(Outcome::Converged, Some(NOT_VERIFIED.to_string())),
            },
            // The recurrence has parted from what it stands for: what counts is the residual.
            Stop::Raised(status::PARTED) => match truth {
                Some(truth) => self.judge_claim(truth),
                None => Next::End(Outcome::Breakdown, Some(PARTED.to_string())),
            },
            Stop::Raised(status::INCOMPATIBLE) => Next::End(Outcome::Incompatible, Some(INCOMPATIBLE.to_string())),
            Stop::Raised(status::NOT_FINITE) => Next::End(Outcome::NotFinite, None),
            Stop::Raised(word) => match require(program, word) {
                // Nothing is left to divide by when the residual is gone.
                Some(info) if met && Outcome::from(info.outcome) == Outcome::Breakdown => {
                    Next::End(Outcome::Converged, None)
                }
                Some(_) if near => end(attainable(self.single)),
                Some(info) => Next::End(info.outcome.into(), Some(failed(info))),
                None => Next::End(Outcome::Breakdown, Some(format!("status {word}"))),
            },
            Stop::Limit | Stop::End if met => Next::End(Outcome::Converged, None),
            Stop::Limit | Stop::End if near => end(attainable(self.single)),
            Stop::Limit | Stop::End => Next::End(Outcome::IterationLimit, None),
            Stop::Interrupted => Next::End(Outcome::Interrupted, None),
        }
    }

    fn judge_claim(&mut self, truth: Truth) -> Next {
        if !truth.measure.is_finite() {
            return Next::End(Outcome::NotFinite, None);
        }
        if truth.measure <= truth.bound {
            return Next::End(Outcome::Converged, None);
        }
        if truth.measure <= truth.attainable {
            return end(attainable(self.single));
        }
        if truth.measure < GAIN * self.best {
            self.without_gain = 0;
        } else {
            self.without_gain += 1;
        }
        self.best = self.best.min(truth.measure);
        let hopeless = self.without_gain > 1 || truth.measure <= NEAR_ATTAINABLE * truth.attainable;
        if self.without_gain > 0 && hopeless {
            if truth.attainable > 0.0 && truth.measure > FAR * truth.attainable {
                return Next::End(Outcome::Breakdown, Some(MISTAKEN.to_string()));
            }
            return end(attainable(self.single));
        }
        self.restarts += 1;
        Next::StartOver
    }
}

/// Measures of half a run, where it is long enough to say that it has stalled.
const LONG: usize = 20;
const PARTED: &str = "a predicted scalar parted from the one it stands for";
const MISTAKEN: &str = "the loop finds its test met, but the residual computed from its solution stays far above what \
                        rounding explains: what it adds to u and what it takes from the residual differ";
const NOT_VERIFIED: &str = "the solver declares no residual, so the claim was not verified";
pub(super) const INCOMPATIBLE: &str = "the operator is singular and the right-hand side is not in its range; \
                            subtract its mean, or give the operator a zero-order term or a Dirichlet side";

/// Rounding is in the way.
pub(super) fn attainable(single: bool) -> (Outcome, Option<String>) {
    let help = if single {
        "f64 vectors, mixed precision or a larger tolerance"
    } else {
        "a larger tolerance or a better scaled operator"
    };
    let text = format!("rounding keeps the residual computed from the solution above the bound; {help} would help");
    (Outcome::AttainableAccuracy, Some(text))
}

fn end(how: (Outcome, Option<String>)) -> Next {
    Next::End(how.0, how.1)
}

/// At an iteration limit: since when the measure has not fallen any more, where that is most of the run.
pub(super) fn stalled(history: &[f64], help: Option<&str>) -> Option<String> {
    let best = |part: &[f64]| part.iter().copied().fold(f64::INFINITY, f64::min);
    let half = history.len() / 2;
    if half < LONG || best(&history[half..]) < GAIN * best(&history[..half]) {
        return None;
    }
    let least = best(&history[..half]);
    let since = history.iter().position(|measure| *measure <= least / GAIN)?;
    let help = help.map(|help| format!("; {help} would help")).unwrap_or_default();
    Some(format!("the residual of the loop has hardly fallen since iteration {since}{help}"))
}

fn require(program: &Program, word: i32) -> Option<&RequireInfo> {
    let number = usize::try_from(word.checked_sub(status::REQUIRE)?).ok()?;
    program.requires.get(number)
}

fn failed(info: &RequireInfo) -> String {
    // Solvers of the library have no line in the user's file.
    let place = if info.line == 0 { String::new() } else { format!("line {}: ", info.line) };
    format!("{place}`{}` does not hold", info.text.trim_end_matches(';'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_no_longer_gains_is_said_to_have_stalled() {
        let falling: Vec<f64> = (0..200).map(|i| 0.9f64.powi(i)).collect();
        assert_eq!(stalled(&falling, None), None);
        let mut stalling = falling[..30].to_vec();
        stalling.extend(std::iter::repeat_n(0.9f64.powi(30), 100));
        let text = stalled(&stalling, Some("f64 vectors")).expect("it has stalled");
        assert_eq!(text, "the residual of the loop has hardly fallen since iteration 24; f64 vectors would help");
        assert_eq!(stalled(&stalling[20..40], None), None, "too short to tell");
    }
}
