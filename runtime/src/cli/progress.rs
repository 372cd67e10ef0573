//! One line on the terminal while a solve runs.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::solve::Progress;

/// Time between two updates.
const PAUSE: Duration = Duration::from_millis(100);

/// The line on standard error; silent where that is no terminal.
pub(super) struct Line {
    shown: bool,
    terminal: bool,
    last: Option<Instant>,
    /// The first measure seen, from which the rate of convergence is taken.
    first: Option<Progress>,
}

impl Line {
    pub(super) fn new() -> Self {
        Line { shown: false, terminal: std::io::stderr().is_terminal(), last: None, first: None }
    }

    /// Shows the state, if it is time.
    pub(super) fn update(&mut self, progress: &Progress) {
        let first = *self.first.get_or_insert(*progress);
        self.show(|| describe(&first, progress));
    }

    /// Shows a text, if it is time.
    pub(super) fn show(&mut self, text: impl FnOnce() -> String) {
        if !self.terminal || self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        self.last = Some(Instant::now());
        // A terminal that cannot be written to shows nothing; the solve goes on.
        let _ = write!(std::io::stderr(), "\r\x1b[2K{}", text());
        let _ = std::io::stderr().flush();
        self.shown = true;
    }

    /// Clears the line.
    pub(super) fn finish(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
            let _ = std::io::stderr().flush();
            self.shown = false;
        }
    }
}

fn describe(first: &Progress, now: &Progress) -> String {
    let rate = f64::from(now.iteration) / now.elapsed.as_secs_f64().max(1e-9);
    let mut text = format!(
        "iteration {} of at most {}   residual {:.2e} of {:.2e}   {rate:.0} a second",
        now.iteration, now.limit, now.measure, now.bound
    );
    if let Some(left) = time_left(first, now) {
        text.push_str(&format!("   about {} left", seconds(left)));
    }
    text
}

/// Seconds until the bound is met if the measure goes on falling at its mean rate, or until the limit.
fn time_left(first: &Progress, now: &Progress) -> Option<f64> {
    let steps = f64::from(now.iteration.checked_sub(first.iteration)?);
    let each = now.elapsed.as_secs_f64() / f64::from(now.iteration.max(1));
    let to_limit = f64::from(now.limit.saturating_sub(now.iteration));
    let decades = (first.measure / now.measure).log10();
    let missing = (now.measure / now.bound).log10();
    if !(steps > 0.0 && decades > 0.0 && missing.is_finite()) {
        return None;
    }
    Some((missing.max(0.0) / (decades / steps)).min(to_limit) * each)
}

/// Set by the first Ctrl-C; the second one ends the process.
pub(super) fn interrupt_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let interrupt = signal_hook::consts::SIGINT;
    // In this order: the shutdown looks at the flag before this signal sets it. Without a handler (an exotic
    // platform) Ctrl-C just ends the process.
    let _ = signal_hook::flag::register_conditional_shutdown(interrupt, 130, flag.clone());
    let _ = signal_hook::flag::register(interrupt, flag.clone());
    flag
}

/// A time for people.
pub(super) fn seconds(time: f64) -> String {
    match time {
        t if t < 1e-3 => format!("{:.1} µs", t * 1e6),
        t if t < 1.0 => format!("{:.3} ms", t * 1e3),
        t if t < 120.0 => format!("{t:.2} s"),
        t => format!("{:.0} min", t / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_follows_the_rate_of_convergence() {
        let at = |iteration, measure, seconds| Progress {
            iteration,
            limit: 1000,
            measure,
            bound: 1e-6,
            elapsed: Duration::from_secs(seconds),
        };
        let left = time_left(&at(0, 1.0, 0), &at(10, 1e-3, 10)).expect("it converges");
        assert!((left - 10.0).abs() < 1e-9, "half the decades, half the time: {left}");
        assert_eq!(time_left(&at(5, 1.0, 1), &at(5, 1.0, 1)), None);
        assert_eq!(time_left(&at(5, 1.0, 1), &at(9, 2.0, 1)), None, "no forecast for a growing residual");
    }
}
