//! The guided strategy.
//!
//! First the default, then every value of every part once with all else as in the default, in the order of the prediction.
//! From then on four kinds of choices take turns: what the [`Effects`] of values and of pairs make the fastest (twice), a
//! neighbour of one of the best few that differs from it in one part, and what might be the fastest where little was
//! seen. It ends with its share of the space, or when nothing has become better for as long as a part of that share.

use super::effects::Effects;
use super::{Points, State, Strategy, looked_at, open, share};

/// Candidates whose neighbours are looked at.
const BEST: usize = 3;
/// Candidates without improvement after which the search ends: at least, and as a part of its share. With 24 for the least,
/// the search of a line sweep ended 4 % above the best after 41 of 405 candidates; 64 of them find it.
const PATIENCE: (usize, f64) = (64, 0.5);
/// What counts as improvement.
const BETTER: f64 = 0.995;

/// See the module.
#[derive(Default)]
pub(super) struct Guided {
    /// The best time, and how many were known when it was found.
    best: Option<(f64, usize)>,
    turn: usize,
    /// The model of so many times, with what it expects of every candidate.
    model: Option<(usize, Effects, Vec<f64>)>,
}

impl Strategy for Guided {
    fn next(&mut self, points: &Points, states: &[State]) -> Option<usize> {
        if states.first() == Some(&State::Open) {
            return Some(0);
        }
        let share = share(states.len());
        if looked_at(states) >= share {
            return None;
        }
        let known = self.learn(points, states);
        let (_, effects, expected) = self.model.as_ref()?;
        let expected = |number: usize| expected[number];
        let alone = |number: &usize| effects.untried(points, *number) == 1;
        if self.turn == 0
            && let Some(first) = least(open(states).filter(alone), expected)
        {
            return self.pick(points, first);
        }
        let patience = PATIENCE.0.max((PATIENCE.1 * share as f64) as usize);
        if self.best.is_some_and(|(_, at)| known >= at + patience) {
            return None;
        }
        let turn = self.turn % 4;
        let next = match turn {
            0 => least(neighbours(points, states), expected).or_else(|| least(open(states), expected)),
            2 => least(open(states), |number| effects.hoped(points, number)),
            _ => least(open(states), expected),
        };
        self.turn += 1;
        self.pick(points, next?)
    }
}

impl Guided {
    /// Takes note of the best time and fits the model anew, where more times are known than before; their number.
    fn learn(&mut self, points: &Points, states: &[State]) -> usize {
        let times = || states.iter().filter_map(|state| if let State::Timed(t) = state { Some(*t) } else { None });
        let known = times().count();
        if self.model.as_ref().is_none_or(|(before, ..)| *before != known) {
            let best = times().fold(f64::INFINITY, f64::min);
            if self.best.is_none_or(|(before, _)| best < BETTER * before) {
                self.best = Some((best, known));
            }
            let effects = Effects::of(points, states);
            let expected = (0..states.len()).map(|number| effects.expected(points, number)).collect();
            self.model = Some((known, effects, expected));
        }
        known
    }

    fn pick(&mut self, points: &Points, number: usize) -> Option<usize> {
        if let Some((_, effects, _)) = &mut self.model {
            effects.see(points, number);
        }
        Some(number)
    }
}

/// Open candidates that differ from one of the best few in one part.
fn neighbours<'a>(points: &'a Points, states: &'a [State]) -> impl Iterator<Item = usize> + 'a {
    let timed = |number: usize| if let State::Timed(seconds) = states[number] { Some((seconds, number)) } else { None };
    let mut best: Vec<(f64, usize)> = (0..states.len()).filter_map(timed).collect();
    best.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    best.truncate(BEST);
    let apart = |a: usize, b: usize| points.values[a].iter().zip(&points.values[b]).filter(|(a, b)| a != b).count();
    open(states).filter(move |number| best.iter().any(|(_, best)| apart(*best, *number) == 1))
}

/// Least by a key, the first of equals.
pub(super) fn least(candidates: impl Iterator<Item = usize>, key: impl Fn(usize) -> f64) -> Option<usize> {
    let keyed = candidates.map(|number| (key(number), number));
    keyed.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, number)| number)
}
