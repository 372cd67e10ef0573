//! Strategies: which candidate of a space is looked at next.

use crate::inputs::random;

/// A space of candidates as strategies see it: the value each has in every part, and what a model expects.
#[derive(Debug, Clone, Default)]
pub struct Points {
    /// Number of the value in each part, by candidate. Candidate 0 is the default.
    pub values: Vec<Vec<usize>>,
    /// Time that the model expects, relative to the default.
    pub predicted: Vec<f64>,
}

/// What is known of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum State {
    /// Nothing.
    #[default]
    Open,
    /// It is being looked at.
    Pending,
    /// Its time.
    Timed(f64),
    /// It failed, or is the same kernel as another one.
    Out,
}

/// Chooses candidates one by one. Several may be pending at a time.
pub trait Strategy {
    /// The next candidate to look at, among those that are open; none ends the search.
    fn next(&mut self, points: &Points, states: &[State]) -> Option<usize>;
}

/// A strategy by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// Everything, in the order of the model.
    Exhaustive,
    /// In random order, a tenth of the space.
    Random,
    /// Led by a model and by what has been measured.
    #[default]
    Guided,
}

impl Choice {
    /// The strategy.
    pub fn strategy(self) -> Box<dyn Strategy> {
        match self {
            Choice::Exhaustive => Box::new(Exhaustive),
            Choice::Random => Box::new(Random { seed: 1 }),
            Choice::Guided => Box::new(Guided::default()),
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Exhaustive => "exhaustive",
            Choice::Random => "random",
            Choice::Guided => "guided",
        }
    }
}

impl std::str::FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let known = [Choice::Exhaustive, Choice::Random, Choice::Guided];
        let found = known.into_iter().find(|choice| choice.name() == text);
        found.ok_or_else(|| format!("`{text}` is no strategy; there are exhaustive, random and guided"))
    }
}

/// Candidates that a strategy may look at if it does not look at all: a tenth, but a few in any case.
fn share(space: usize) -> usize {
    space.div_ceil(10).max(FEW).min(space)
}

/// Candidates that are looked at in any case.
const FEW: usize = 12;

fn open(states: &[State]) -> impl Iterator<Item = usize> + '_ {
    (0..states.len()).filter(|number| states[*number] == State::Open)
}

fn looked_at(states: &[State]) -> usize {
    states.iter().filter(|state| matches!(state, State::Timed(_) | State::Pending)).count()
}

/// Least by a key, the first of equals.
fn least(candidates: impl Iterator<Item = usize>, key: impl Fn(usize) -> f64) -> Option<usize> {
    candidates.min_by(|a, b| key(*a).total_cmp(&key(*b)))
}

/// Everything, what the model likes first.
struct Exhaustive;

impl Strategy for Exhaustive {
    fn next(&mut self, points: &Points, states: &[State]) -> Option<usize> {
        least(open(states), |number| points.predicted[number])
    }
}

/// A tenth of the space at random, the same on every run.
struct Random {
    seed: u64,
}

impl Strategy for Random {
    fn next(&mut self, _: &Points, states: &[State]) -> Option<usize> {
        if states.first() == Some(&State::Open) {
            return Some(0);
        }
        if looked_at(states) >= share(states.len()) {
            return None;
        }
        least(open(states), |number| random::uniform(self.seed, number as u64))
    }
}

/// Led by a model of independent effects: what each value of each part did, on average, to the times measured so far,
/// on top of what was predicted. First every value is tried once, alone, in the order of the prediction; then the
/// candidate with the best product of effects is next. It ends after a tenth of the space, or earlier when nothing
/// has become better for a while.
#[derive(Default)]
struct Guided {
    /// Candidates looked at when the best one was found, and its time.
    best: Option<(f64, usize)>,
}

/// Candidates without improvement after which a guided search ends.
const PATIENCE: usize = 16;
/// What counts as improvement.
const BETTER: f64 = 0.995;

impl Strategy for Guided {
    fn next(&mut self, points: &Points, states: &[State]) -> Option<usize> {
        if states.first() == Some(&State::Open) {
            return Some(0);
        }
        let done = looked_at(states);
        for state in states {
            if let State::Timed(seconds) = state
                && self.best.is_none_or(|(best, _)| *seconds < BETTER * best)
            {
                self.best = Some((*seconds, done));
            }
        }
        if done >= share(states.len()) {
            return None;
        }
        let effects = Effects::of(points, states);
        let alone = |number: &usize| effects.untried(points, *number) == 1;
        if let Some(first) = least(open(states).filter(alone), |n| effects.expected(points, n)) {
            return Some(first);
        }
        if self.best.is_some_and(|(_, at)| done >= at + PATIENCE) {
            return None;
        }
        least(open(states), |number| effects.expected(points, number))
    }
}

/// Mean of measured over predicted time, by part and value, relative to the default's.
struct Effects {
    /// None where the value has not been looked at.
    factors: Vec<Vec<Option<f64>>>,
}

impl Effects {
    fn of(points: &Points, states: &[State]) -> Effects {
        let parts = points.values.first().map_or(0, Vec::len);
        let counts = (0..parts).map(|part| 1 + points.values.iter().map(|v| v[part]).max().unwrap_or(0));
        let mut sums: Vec<Vec<(f64, usize, bool)>> = counts.map(|count| vec![(0.0, 0, false); count]).collect();
        let base = match states.first() {
            Some(State::Timed(seconds)) => *seconds,
            _ => states.iter().find_map(|s| if let State::Timed(t) = s { Some(*t) } else { None }).unwrap_or(1.0),
        };
        for (number, state) in states.iter().enumerate() {
            for (part, value) in points.values[number].iter().enumerate() {
                let sum = &mut sums[part][*value];
                match state {
                    State::Timed(seconds) => {
                        sum.0 += (seconds / base / points.predicted[number]).max(1e-6).ln();
                        sum.1 += 1;
                    }
                    State::Pending | State::Out => sum.2 = true,
                    State::Open => {}
                }
            }
        }
        let mean = |(sum, count, seen): (f64, usize, bool)| match count {
            0 if seen => Some(1.0),
            0 => None,
            _ => Some((sum / count as f64).exp()),
        };
        Effects { factors: sums.into_iter().map(|part| part.into_iter().map(mean).collect()).collect() }
    }

    /// Values of a candidate that have not been looked at.
    fn untried(&self, points: &Points, number: usize) -> usize {
        let values = points.values[number].iter().enumerate();
        values.filter(|(part, value)| self.factors[*part][**value].is_none()).count()
    }

    fn expected(&self, points: &Points, number: usize) -> f64 {
        let values = points.values[number].iter().enumerate();
        let factors = values.map(|(part, value)| self.factors[part][*value].unwrap_or(1.0));
        points.predicted[number] * factors.product::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A space of three parts whose effects multiply, with a little interaction.
    fn space() -> (Points, Vec<f64>) {
        let (mut values, mut times) = (Vec::new(), Vec::new());
        for a in 0..8 {
            for b in 0..6 {
                for c in 0..5 {
                    values.push(vec![a, b, c]);
                    let effect = [1.0, 0.9, 1.2, 0.8, 1.1, 1.3, 0.95, 1.05][a] * (1.0 + 0.1 * (b as f64 - 4.0).abs());
                    let interaction = if a == 3 && c == 2 { 0.95 } else { 1.0 };
                    times.push(effect * [1.1, 1.0, 0.9, 1.2, 1.0][c] * interaction);
                }
            }
        }
        let predicted = vec![1.0; values.len()];
        (Points { values, predicted }, times)
    }

    fn search(choice: Choice) -> (f64, usize) {
        let (points, times) = space();
        let mut strategy = choice.strategy();
        let mut states = vec![State::Open; times.len()];
        while let Some(next) = strategy.next(&points, &states) {
            assert_eq!(states[next], State::Open, "{} repeats itself", choice.name());
            states[next] = State::Timed(times[next]);
        }
        let measured: Vec<f64> =
            states.iter().filter_map(|s| if let State::Timed(t) = s { Some(*t) } else { None }).collect();
        (measured.iter().copied().fold(f64::INFINITY, f64::min), measured.len())
    }

    #[test]
    fn guided_finds_the_best_within_a_tenth() {
        let (best, all) = search(Choice::Exhaustive);
        assert_eq!(all, 240);
        let (guided, looked) = search(Choice::Guided);
        assert!(looked <= 24, "{looked} candidates");
        assert!(guided <= 1.03 * best, "{guided} against {best}");
        let (random, looked) = search(Choice::Random);
        assert!(looked <= 24 && random >= best);
    }

    #[test]
    fn failures_and_pending_ones_are_not_chosen_again() {
        let (points, _) = space();
        let mut states = vec![State::Open; points.values.len()];
        for choice in [Choice::Guided, Choice::Random, Choice::Exhaustive] {
            let mut strategy = choice.strategy();
            for state in [State::Pending, State::Out] {
                let next = strategy.next(&points, &states).expect("something is open");
                assert_eq!(states[next], State::Open);
                states[next] = state;
            }
        }
    }
}
