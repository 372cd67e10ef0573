//! The end of a budget while something is under way that nothing can end: the reading of a large matrix, its conversion, the
//! compilation of a default. The process ends then, with what was measured in the store; tunes in a library cannot do that.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::failure::{Failure, WRONG_INPUT};
use super::out::Out;

/// What a tune takes beyond its budget at most: it aims at less than its budget, and is not ended on its last steps.
const GRACE: Duration = Duration::from_millis(250);

/// Ends the process when the budget is over, unless it is dropped before.
pub(super) struct Deadline {
    /// What is under way.
    what: Arc<Mutex<String>>,
    /// Closed by the drop.
    _alive: Sender<()>,
}

impl Deadline {
    /// Of a budget that began at some time; none is no limit.
    pub(super) fn new(begin: Instant, budget: Option<Duration>, json: bool) -> Deadline {
        let what = Arc::new(Mutex::new("what comes before the first measurement".to_string()));
        let (sender, receiver) = channel::<()>();
        if let Some(budget) = budget {
            let what = what.clone();
            std::thread::spawn(move || {
                let left = (begin + budget + GRACE).saturating_duration_since(Instant::now());
                if receiver.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                    let what = what.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    Failure::Input(text(budget, &what)).report(&mut Out::new(json));
                    std::process::exit(i32::from(WRONG_INPUT));
                }
            });
        }
        Deadline { what, _alive: sender }
    }

    /// Notes what is under way.
    pub(super) fn note(&self, what: &str) {
        let mut known = self.what.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != what {
            known.clear();
            known.push_str(what);
        }
    }
}

fn text(budget: Duration, what: &str) -> String {
    let seconds = budget.as_secs_f64();
    format!(
        "the budget of {seconds} s is used up, and {what} is still under way: nothing was chosen; what was measured is \
         kept, and another tune goes on there (--budget for more time)"
    )
}
