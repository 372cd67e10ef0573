//! What the values of parts, and pairs of them, do to the time: a model of what was measured so far.
//!
//! The logarithm of measured over predicted time is taken as a mean, plus an effect of each value, plus an effect of each
//! pair of values. Effects are those of ridge regression (Hoerl and Kennard, Technometrics 12, 1970): what was seen once is
//! believed in part, what was never seen has no effect. They are found one part after the other, each from what the
//! others leave unexplained (backfitting; Hastie and Tibshirani, Generalized Additive Models, 1990).

use super::{Points, State};

/// Observations of no effect that a value, and a pair of values, begin with.
const DOUBT: [f64; 2] = [0.3, 1.5];
/// Passes over values alone, then over values and pairs.
const PASSES: [usize; 2] = [4, 8];
/// Part of the spread of all times that a candidate may be better than expected where nothing of it was seen.
const HOPE: f64 = 0.5;

/// The model.
pub(super) struct Effects {
    mean: f64,
    /// Spread of the logarithms of all times.
    spread: f64,
    /// Tables of effects: of each part, then of each pair of parts.
    tables: Vec<Table>,
}

/// Effects of the values of one part, or of a pair of parts.
struct Table {
    /// The parts; twice the same for one part alone.
    parts: [usize; 2],
    /// Values of the second.
    width: usize,
    doubt: f64,
    effects: Vec<f64>,
    /// How often each was seen.
    seen: Vec<f64>,
}

impl Table {
    fn new(parts: [usize; 2], counts: &[usize]) -> Table {
        let alone = parts[0] == parts[1];
        let width = if alone { 1 } else { counts[parts[1]] };
        let len = counts[parts[0]] * width;
        Table { parts, width, doubt: DOUBT[usize::from(!alone)], effects: vec![0.0; len], seen: vec![0.0; len] }
    }

    fn place(&self, values: &[usize]) -> usize {
        match self.width {
            1 => values[self.parts[0]],
            width => values[self.parts[0]] * width + values[self.parts[1]],
        }
    }

    /// Takes effects from what is left unexplained; `places` has one of each observation.
    fn refit(&mut self, places: &[usize], left: &mut [f64]) {
        let mut sums = vec![0.0; self.effects.len()];
        for (place, left) in places.iter().zip(left.iter_mut()) {
            *left += self.effects[*place];
            sums[*place] += *left;
        }
        let effects = sums.iter().zip(&self.seen).map(|(sum, seen)| sum / (seen + self.doubt));
        self.effects = effects.collect();
        places.iter().zip(left).for_each(|(place, left)| *left -= self.effects[*place]);
    }
}

impl Effects {
    /// From what is known of each candidate.
    pub(super) fn of(points: &Points, states: &[State]) -> Effects {
        let parts = points.values.first().map_or(0, Vec::len);
        let counts: Vec<usize> =
            (0..parts).map(|part| 1 + points.values.iter().map(|values| values[part]).max().unwrap_or(0)).collect();
        let alone = (0..parts).map(|part| [part, part]);
        let pairs = (0..parts).flat_map(|a| (a + 1..parts).map(move |b| [a, b]));
        let mut tables: Vec<Table> = alone.chain(pairs).map(|parts| Table::new(parts, &counts)).collect();
        let mut timed = Vec::new();
        let mut logs = Vec::new();
        for (number, state) in states.iter().enumerate() {
            if let State::Timed(seconds) = state {
                timed.push(number);
                logs.push((seconds / points.predicted[number]).max(f64::MIN_POSITIVE).ln());
            }
        }
        let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        let mut left: Vec<f64> = logs.iter().map(|log| log - mean).collect();
        let spread = (left.iter().map(|x| x * x).sum::<f64>() / left.len().max(1) as f64).sqrt();
        let places: Vec<Vec<usize>> = tables
            .iter()
            .map(|table| timed.iter().map(|number| table.place(&points.values[*number])).collect())
            .collect();
        for (table, places) in tables.iter_mut().zip(&places) {
            places.iter().for_each(|place| table.seen[*place] += 1.0);
        }
        for pass in 0..PASSES[0] + PASSES[1] {
            let fitted = if pass < PASSES[0] { parts } else { tables.len() };
            for (table, places) in tables[..fitted].iter_mut().zip(&places) {
                table.refit(places, &mut left);
            }
        }
        let mut effects = Effects { mean, spread, tables };
        let looked_at = |number: &usize| matches!(states[*number], State::Pending | State::Out);
        (0..states.len()).filter(looked_at).for_each(|number| effects.see(points, number));
        effects
    }

    /// What is being looked at, or failed, leaves less to hope for.
    pub(super) fn see(&mut self, points: &Points, number: usize) {
        for table in &mut self.tables {
            let place = table.place(&points.values[number]);
            table.seen[place] += 1.0;
        }
    }

    /// Values of a candidate that have not been looked at.
    pub(super) fn untried(&self, points: &Points, number: usize) -> usize {
        let values = &points.values[number];
        let alone = self.tables.iter().filter(|table| table.parts[0] == table.parts[1]);
        alone.filter(|table| table.seen[table.place(values)] == 0.0).count()
    }

    /// Logarithm of the time that a candidate should take.
    pub(super) fn expected(&self, points: &Points, number: usize) -> f64 {
        let values = &points.values[number];
        let effects: f64 = self.tables.iter().map(|table| table.effects[table.place(values)]).sum();
        self.mean + points.predicted[number].max(f64::MIN_POSITIVE).ln() + effects
    }

    /// The same, less what may be hoped for where little was seen of its values and pairs.
    pub(super) fn hoped(&self, points: &Points, number: usize) -> f64 {
        let values = &points.values[number];
        let unseen = |table: &Table| 1.0 / (1.0 + table.seen[table.place(values)]);
        let unseen = self.tables.iter().map(unseen).sum::<f64>() / self.tables.len().max(1) as f64;
        self.expected(points, number) - HOPE * self.spread * unseen.sqrt()
    }
}
