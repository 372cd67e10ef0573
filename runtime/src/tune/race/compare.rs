//! Named candidates and the default in turns, until time is up: what a search chose in another process, with other
//! addresses and another clock, is not told apart from a rival by times of its own.

use std::collections::BTreeMap;
use std::time::Instant;

use super::{Asked, Race};
use crate::backend::Backend;
use crate::solve::Error;
use crate::tune::budget::ends;
use crate::tune::session::{Session, Stage};
use crate::tune::tunable::Tunable;
use crate::tune::turns::LATE;

/// Turns at most, and where times mean nothing.
const TURNS: [usize; 2] = [4001, 3];

/// A candidate with its samples, seconds of a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Parts of the variant, with their values.
    pub variant: Vec<(String, String)>,
    /// A sample of every turn; none if it failed.
    pub samples: Vec<f64>,
    /// Why it failed.
    pub reason: String,
}

/// Proves the default and the candidates by number, all different kernels, and samples them in turns, the order reversed
/// from turn to turn: first what is said of the default, then of the others in their order.
///
/// # Errors
/// A device that no longer answers, or a default (and candidates in its place) that cannot be a reference.
pub fn compare<T: Tunable>(
    session: &mut Session<'_>,
    tunable: T,
    wanted: &[usize],
    asked: &Asked<'_>,
) -> Result<Vec<Sampled>, Error> {
    let mut race = Race::new(session, tunable, asked, usize::MAX);
    let result = race.meet_named(wanted).and_then(|()| race.turns());
    let mut samples: BTreeMap<usize, Vec<f64>> =
        race.live.iter().map(|live| (race.numbers[live.trial], live.lap.samples().to_vec())).collect();
    let sampled = std::iter::once(&0).chain(wanted).map(|number| Sampled {
        variant: race.tunable.parts(*number),
        samples: samples.remove(number).unwrap_or_default(),
        reason: race.reason(*number),
    });
    let sampled = sampled.collect();
    race.close();
    result.map(|()| sampled)
}

impl<T: Tunable> Race<'_, '_, T> {
    /// Loads and proves candidates; they stay loaded.
    fn meet_named(&mut self, wanted: &[usize]) -> Result<(), Error> {
        self.reference()?;
        for number in wanted {
            self.enter(*number);
        }
        while let Some(loaded) = self.finished() {
            for loaded in loaded {
                self.meet(loaded)?;
            }
        }
        self.session.workshop.drop_all();
        Ok(())
    }

    /// Samples everyone in turns: once, and again as long as there is time.
    fn turns(&mut self) -> Result<(), Error> {
        let [many, few] = TURNS;
        let most = if self.session.backend().small_problems_only().is_some() { few } else { many };
        self.live.iter_mut().for_each(|live| live.lap.clear());
        for turn in 0..most {
            if turn > 0 && !(self.session.fits(self.turn) && ends(self.turn, self.until)) {
                break;
            }
            let begin = Instant::now();
            self.sample_each()?;
            // Nobody comes after the same one every time.
            self.live.reverse();
            self.turn = begin.elapsed();
            let name = self.tunable.name();
            self.session.show(&Stage { looked_at: turn + 1, space: most, ..Stage::named(name) });
        }
        Ok(())
    }

    /// Why a candidate is not sampled; empty where it is.
    fn reason(&self, number: usize) -> String {
        let trial = self.numbers.iter().position(|known| *known == number);
        trial.map_or_else(|| LATE.to_string(), |trial| self.trials[trial].reason.clone())
    }
}
