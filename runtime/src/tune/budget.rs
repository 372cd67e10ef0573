//! The time of a tune: what is begun has to end in it.
//!
//! Nothing that takes long is begun before it is known to fit, by how long its like took so far: a compilation with the
//! proof before it, a candidate on the device, the beginning of a search, a finalist, a sample of one. Compilations end by
//! themselves when their time is up ([`Stop::at`](crate::backend::build::Stop::at)). What cannot be foreseen happens once
//! and comes first: reading the problem, and the default, which has to be there in any case.

use std::time::{Duration, Instant};

/// Share of a budget that is left to the final, where whole iterations meet.
const FINAL: f64 = 0.2;
/// Finalists for which there is time in any case, sampling included, and the share of a budget that this may take.
const FINALISTS: (u32, f64) = (4, 0.5);
/// Share of a budget, and its least and most time, in which tables are written and everything is given back.
const CLOSING: (f64, Duration, Duration) = (0.02, Duration::from_millis(100), Duration::from_secs(1));
/// How much of the longest time seen so far still counts when something of the kind took less.
const FADING: f64 = 0.9;

/// What may be begun, and how long the last ones of its kind took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// A candidate in the workshop.
    Compile,
    /// A candidate on the device: loaded, proven, timed.
    Measure,
    /// The beginning of a search: vectors, and its first candidate.
    Open,
    /// A matrix brought to a format.
    Convert,
    /// A sample of a finalist.
    Sample,
}

const ACTS: usize = 5;

/// Times of a tune.
#[derive(Debug, Clone)]
pub struct Budget {
    begin: Instant,
    total: Option<Duration>,
    /// When searching ends, and when everything does.
    search_until: Option<Instant>,
    until: Option<Instant>,
    took: [Duration; ACTS],
    /// Shortest time in which a finalist was loaded.
    load: Option<Duration>,
}

impl Budget {
    /// One that began at some time.
    pub fn new(begin: Instant, total: Option<Duration>) -> Budget {
        let until = total.map(|total| begin + total - closing(total));
        let search_until = total.map(|total| begin + total.mul_f64(1.0 - FINAL));
        Budget { begin, total, search_until, until, took: [Duration::ZERO; ACTS], load: None }
    }

    /// Learns how long something took: the longest of the last times counts.
    pub fn learn(&mut self, act: Act, took: Duration) {
        let known = &mut self.took[act as usize];
        *known = took.max(known.mul_f64(FADING));
    }

    /// How long something takes, as far as is known.
    pub fn takes(&self, act: Act) -> Duration {
        self.took[act as usize]
    }

    /// Learns how long a finalist takes to be loaded and run first: inputs of large problems take seconds to reach a device.
    /// Searching ends early enough for several.
    pub fn loaded(&mut self, took: Duration) {
        let load = self.load.map_or(took, |load| load.min(took));
        self.load = Some(load);
        if let (Some(until), Some(total)) = (self.until, self.total) {
            self.search_until = Some(until - kept(total, load));
        }
    }

    /// Whether something that takes so long ends before a share of everything is used up.
    pub fn fits_share(&self, takes: Duration, share: f64) -> bool {
        ends(takes, self.at(share))
    }

    /// How long a finalist takes to be loaded, as far as is known.
    pub fn load(&self) -> Duration {
        self.load.unwrap_or_default()
    }

    /// When searching ends.
    pub fn search_until(&self) -> Option<Instant> {
        self.search_until
    }

    /// When everything ends.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// When the last finalist has to be ready: it is loaded, and there is a sample of it and of one more.
    pub fn ready_until(&self) -> Option<Instant> {
        let needs = self.load() + 2 * self.takes(Act::Sample);
        self.until.map(|until| until.checked_sub(needs).unwrap_or(self.begin))
    }

    /// The time at which a share of everything is used up.
    pub fn at(&self, share: f64) -> Option<Instant> {
        self.total.map(|total| self.begin + total.mul_f64(share))
    }

    /// Whether something that takes so long ends before searching does.
    pub fn searches(&self, takes: Duration) -> bool {
        ends(takes, self.search_until)
    }

    /// Whether something that takes so long ends before everything does.
    pub fn fits(&self, takes: Duration) -> bool {
        ends(takes, self.until)
    }

    /// Time left for searching, where there is a limit.
    pub fn left(&self) -> Option<Duration> {
        self.search_until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }
}

/// Whether something that takes so long ends by some time.
pub fn ends(takes: Duration, until: Option<Instant>) -> bool {
    until.is_none_or(|until| Instant::now() + takes <= until)
}

/// How much of a budget is left to what comes after the final.
fn closing(total: Duration) -> Duration {
    let (share, least, most) = CLOSING;
    total.mul_f64(share).clamp(least, most).min(total / 2)
}

/// How much of a budget is left to a final whose finalists take so long to load.
fn kept(budget: Duration, load: Duration) -> Duration {
    let (finalists, most) = FINALISTS;
    (load * finalists).min(budget.mul_f64(most)).max(budget.mul_f64(FINAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_problems_keep_more_time_for_the_final() {
        let [ms, s] = [Duration::from_millis, Duration::from_secs];
        assert_eq!(kept(s(60), ms(10)), s(12));
        assert_eq!(kept(s(22), ms(1500)), s(6));
        assert_eq!(kept(s(10), s(10)), s(5));
    }

    #[test]
    fn what_took_long_is_not_begun_again_too_late() {
        let s = Duration::from_secs;
        let mut budget = Budget::new(Instant::now(), Some(s(60)));
        assert!(budget.searches(s(40)) && !budget.searches(s(49)) && budget.fits(s(58)) && !budget.fits(s(60)));
        [s(7), s(1)].into_iter().for_each(|took| budget.learn(Act::Measure, took));
        assert!(budget.takes(Act::Measure) > s(6) && budget.takes(Act::Open) == Duration::ZERO);
        budget.loaded(s(5));
        assert!(budget.searches(s(35)) && !budget.searches(s(40)), "four finalists take twenty seconds");
        budget.learn(Act::Sample, s(2));
        let ready = budget.ready_until().expect("a limit") - Instant::now();
        assert!(ready < s(50) && ready > s(49), "{ready:?}");
        assert!(Budget::new(Instant::now(), None).searches(s(1000)));
        let none = Budget::new(Instant::now(), Some(Duration::ZERO));
        assert!(!none.searches(Duration::ZERO) && !none.fits(Duration::from_nanos(1)));
    }
}
