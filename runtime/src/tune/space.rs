//! A space of candidates: the combinations of values of some parts that make sense.

use kernelwright_codegen::map::Part;

use super::strategy::Points;
use crate::backend::KernelInfo;

/// Candidates with their variants.
pub struct Space<V> {
    /// What is chosen, and the values there are.
    parts: Vec<Part>,
    /// Variants; the first is the default.
    pub variants: Vec<V>,
    /// Number of the value in each part, by candidate.
    values: Vec<Vec<usize>>,
    /// What strategies see of them.
    pub points: Points,
}

/// How variants of some kind are made from parts.
pub trait Shapes {
    /// The variants.
    type Variant: Clone;
    /// The value of a part.
    fn value(&self, variant: &Self::Variant, key: &str) -> String;
    /// The variant with another value of a part; none if there is no such value.
    fn with(&self, variant: Self::Variant, key: &str, value: &str) -> Option<Self::Variant>;
    /// Whether a variant makes sense beside the default: kernels can have it, and parts without effect are the default's.
    fn sensible(&self, variant: &Self::Variant, default: &Self::Variant, parts: &[Part]) -> bool;
    /// Time that a model expects, up to a factor.
    fn expected(&self, variant: &Self::Variant) -> f64;
}

impl<V: Clone> Space<V> {
    /// All combinations that make sense. A default that is not among the values of a part counts as one more.
    pub fn new(shapes: &impl Shapes<Variant = V>, default: V, mut parts: Vec<Part>) -> Space<V> {
        for part in &mut parts {
            let own = shapes.value(&default, part.key);
            if !part.values.contains(&own) {
                part.values.insert(0, own);
            }
        }
        let place = |part: &Part| {
            let own = shapes.value(&default, part.key);
            part.values.iter().position(|value| *value == own).unwrap_or(0)
        };
        let chosen: Vec<usize> = parts.iter().map(place).collect();
        let mut space =
            Space { parts, variants: vec![default.clone()], values: vec![chosen.clone()], points: Points::default() };
        let mut values = vec![0; chosen.len()];
        loop {
            if values != chosen
                && let Some(variant) = space.combined(shapes, &default, &values)
                && shapes.sensible(&variant, &default, &space.parts)
            {
                space.variants.push(variant);
                space.values.push(values.clone());
            }
            if !count(&mut values, &space.parts) {
                break;
            }
        }
        let places: Vec<Vec<Vec<usize>>> = space.parts.iter().map(coordinates).collect();
        let seen =
            |values: &Vec<usize>| places.iter().zip(values).flat_map(|(part, value)| part[*value].clone()).collect();
        space.points.values = space.values.iter().map(seen).collect();
        let base = shapes.expected(&default);
        space.points.predicted = space.variants.iter().map(|variant| shapes.expected(variant) / base).collect();
        space
    }

    fn combined(&self, shapes: &impl Shapes<Variant = V>, default: &V, values: &[usize]) -> Option<V> {
        let mut chosen = self.parts.iter().zip(values);
        chosen.try_fold(default.clone(), |variant, (part, value)| shapes.with(variant, part.key, &part.values[*value]))
    }
}

impl<V> Space<V> {
    /// The parts of a candidate that are chosen here.
    pub fn parts(&self, number: usize) -> Vec<(String, String)> {
        let values = self.parts.iter().zip(&self.values[number]);
        values.map(|(part, value)| (part.key.to_string(), part.values[*value].clone())).collect()
    }
}

/// Parts and their values as text, for keys.
pub fn text(parts: impl IntoIterator<Item = Part>) -> String {
    parts.into_iter().map(|part| format!("{}: {}\n", part.key, part.values.join(" "))).collect()
}

/// What strategies see of each value of a part: its number; of the tile of a host the numbers of its two lengths, which
/// matter one by one. A word counts as a length of its own. Blocks of a card have few values and stay whole, as its searches were held
/// against exhaustive ones.
fn coordinates(part: &Part) -> Vec<Vec<usize>> {
    if part.key != "tile" {
        return (0..part.values.len()).map(|number| vec![number]).collect();
    }
    let mut lengths = [Vec::new(), Vec::new()];
    let mut place = |which: usize, length: &str| {
        let known: &mut Vec<String> = &mut lengths[which];
        known.iter().position(|known| known == length).unwrap_or_else(|| {
            known.push(length.to_string());
            known.len() - 1
        })
    };
    let both = part.values.iter().map(|value| value.split_once('x').unwrap_or((value, value)));
    both.map(|(rows, steps)| vec![place(0, rows), place(1, steps)]).collect()
}

/// The next combination; false after the last.
fn count(values: &mut [usize], parts: &[Part]) -> bool {
    for (value, part) in values.iter_mut().zip(parts) {
        *value += 1;
        if *value < part.values.len() {
            return true;
        }
        *value = 0;
    }
    false
}

/// What a compiled kernel's resources make of an expectation: spilled registers and few resident lanes cost time.
pub fn with_resources(predicted: f64, info: Option<&KernelInfo>) -> f64 {
    let Some(info) = info else { return predicted };
    let spilled = 1.0 + f64::from(info.local_bytes.min(4096)) / 512.0;
    predicted * spilled * (0.25 / info.occupancy.max(0.01)).max(1.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_tiles_are_seen_one_by_one() {
        let part = |key, values: [&str; 4]| Part { key, values: values.map(str::to_string).to_vec() };
        let tiles = coordinates(&part("tile", ["auto", "2x4", "2x8", "16x4"]));
        assert_eq!(tiles, [[0, 0], [1, 1], [1, 2], [2, 1]]);
        assert_eq!(coordinates(&part("width", ["4", "8", "16", "32"])), [[0], [1], [2], [3]]);
    }
}
