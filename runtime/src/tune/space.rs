//! The candidates of a step: variants by the parts that matter to it, with what a model expects of each.

use kernelwright_codegen::loops::{Control, Program, ScalarId};
use kernelwright_codegen::map::{self, Variant, Work};
use kernelwright_codegen::math::Grid;
use kernelwright_syntax::program::Precision;

use super::bench::Step;
use super::strategy::Points;
use crate::backend::KernelInfo;
use crate::pipeline::element_of;

/// Variants of one step.
pub struct Space {
    /// All candidates; the first is the default.
    pub variants: Vec<Variant>,
    /// What strategies see of them.
    pub points: Points,
    /// Keys of the parts that are chosen.
    pub keys: Vec<&'static str>,
}

impl Space {
    /// The candidates of a step.
    pub fn of(target: map::Target, program: &Program, precision: Precision, step: Step) -> Space {
        let grid = program.operator.space.grid();
        let work = match step {
            Step::Sweep(number) => Work::of(program, &program.sweeps[number]),
            Step::Fence(_) => Work::Fence,
        };
        let default = Variant::for_space(target, &program.operator.space);
        let mut parts = Variant::parts(target, grid, element_of(precision), work);
        for part in &mut parts {
            let own = default.get(part.key).unwrap_or_default();
            if !part.values.contains(&own) {
                part.values.insert(0, own);
            }
        }
        let mut space = Space { variants: Vec::new(), points: Points::default(), keys: Vec::new() };
        space.keys = parts.iter().map(|part| part.key).collect();
        let chosen: Vec<usize> = parts.iter().map(|part| place(part, &default)).collect();
        space.add(default.clone(), chosen.clone());
        let mut values = vec![0; parts.len()];
        loop {
            if let Some(variant) =
                combined(&default, &parts, &values).filter(|v| values != chosen && kept(v, &default, &parts, work))
            {
                space.add(variant, values.clone());
            }
            if !count(&mut values, &parts) {
                break;
            }
        }
        let base = expected(target, grid, work, &default);
        space.points.predicted = space.variants.iter().map(|v| expected(target, grid, work, v) / base).collect();
        space
    }

    fn add(&mut self, variant: Variant, values: Vec<usize>) {
        self.variants.push(variant);
        self.points.values.push(values);
    }

    /// The parts of a candidate that are chosen here.
    pub fn parts(&self, number: usize) -> Vec<(String, String)> {
        let variant = &self.variants[number];
        self.keys.iter().map(|key| (key.to_string(), variant.get(key).unwrap_or_default())).collect()
    }
}

fn place(part: &map::Part, variant: &Variant) -> usize {
    let own = variant.get(part.key);
    part.values.iter().position(|value| Some(value) == own.as_ref()).unwrap_or(0)
}

/// The next combination; false after the last.
fn count(values: &mut [usize], parts: &[map::Part]) -> bool {
    for (value, part) in values.iter_mut().zip(parts) {
        *value += 1;
        if *value < part.values.len() {
            return true;
        }
        *value = 0;
    }
    false
}

fn combined(default: &Variant, parts: &[map::Part], values: &[usize]) -> Option<Variant> {
    let mut variant = default.clone();
    for (part, value) in parts.iter().zip(values) {
        variant.set(part.key, &part.values[*value]).ok()?;
    }
    variant.check().ok().map(|()| variant)
}

/// Parts without effect stay as they are.
fn kept(variant: &Variant, default: &Variant, parts: &[map::Part], work: Work) -> bool {
    parts.iter().all(|part| variant.matters(part.key, work) || variant.get(part.key) == default.get(part.key))
}

/// Lanes that keep a device busy.
const LANES: f64 = 132.0 * 1024.0;
/// Lines or rows that keep a host's cores busy.
const PIECES: f64 = 64.0;

/// Time that a variant takes, up to a factor: words with the ends of walks read twice, over the share of the device
/// that has work. It need only put sensible candidates first; measuring corrects it.
fn expected(target: map::Target, grid: &Grid, work: Work, variant: &Variant) -> f64 {
    let size = |axis: usize| grid.axes.get(axis).map_or(1, |axis| axis.size) as f64;
    let points: f64 = (0..grid.axes.len()).map(size).product();
    let [x, y] = variant.block.map(f64::from);
    match (target, work) {
        (map::Target::Cuda, Work::Point) => {
            let walk = variant.chunk as f64;
            let again = if variant.carry { 1.0 } else { 1.15 };
            let ends = (1.0 + 0.5 / walk) * again * (1.0 + 0.05 * (32.0 / x - 1.0).max(0.0));
            let idle = (LANES / (points / walk)).max(1.0);
            let odd = (x * y / 256.0).log2().abs();
            ends * idle * (1.0 + 0.03 * odd)
        }
        (map::Target::Cuda, Work::Line(axis)) => {
            let split = variant.segments.map_or(16.0, f64::from).max(1.0);
            let lanes = points / size(axis) * split;
            (LANES / lanes).max(1.0) * if split > 1.0 { 1.0 } else { 2.0 }
        }
        (map::Target::Cuda, Work::Rows) => 1.0,
        (map::Target::Cuda, Work::Fence) => 1.0 + 0.1 * (f64::from(variant.fence_lanes) / 256.0).log2().abs(),
        (map::Target::Host, Work::Point) => {
            let blocks = (size(1) / variant.tile[0] as f64).ceil() * (size(2) / variant.tile[1] as f64).ceil();
            (PIECES / blocks).max(1.0) + 0.1 / (variant.tile[0] * variant.tile[1]) as f64
        }
        (map::Target::Host, Work::Line(_)) => 1.0 + 0.05 * (variant.simd as f64 / 128.0).log2().abs(),
        (map::Target::Host, Work::Fence | Work::Rows) => 1.0,
    }
}

/// What a compiled kernel's resources make of an expectation: spilled registers and few resident lanes cost time.
pub fn with_resources(predicted: f64, info: Option<&KernelInfo>) -> f64 {
    let Some(info) = info else { return predicted };
    let spilled = 1.0 + f64::from(info.local_bytes.min(4096)) / 512.0;
    predicted * spilled * (0.25 / info.occupancy.max(0.01)).max(1.0).sqrt()
}

/// Sweeps and fences of a program's main loop, with how often each runs in a round.
pub fn steps(program: &Program, delay: u32) -> Vec<(Step, f64)> {
    let unbounded = program.body.iter().find(|control| matches!(control, Control::Loop { times: None, .. }));
    let main = unbounded.or_else(|| program.body.iter().find(|control| matches!(control, Control::Loop { .. })));
    let mut found = Vec::new();
    let light = if delay > 1 { 1.0 - 1.0 / f64::from(delay) } else { 1.0 };
    if let Some(Control::Loop { body, .. }) = main {
        walk(program, body, 1.0, light, &mut found);
    }
    found
}

fn walk(program: &Program, controls: &[Control], weight: f64, light: f64, found: &mut Vec<(Step, f64)>) {
    let mut add = |step: Step, predicate: Option<ScalarId>| {
        let weight = if predicate.is_some() { weight * light } else { weight };
        match found.iter_mut().find(|known| known.0 == step) {
            Some(known) => known.1 += weight,
            None => found.push((step, weight)),
        }
    };
    for control in controls {
        match control {
            Control::Sweep(id) => add(Step::Sweep(id.0), program.sweeps[id.0].predicate),
            Control::Fence(id) => add(Step::Fence(id.0), program.fences[id.0].predicate),
            Control::Rotate(_) | Control::Loop { .. } | Control::Every { .. } => {}
        }
    }
    for control in controls {
        match control {
            Control::Loop { times, body } => walk(program, body, weight * f64::from(times.unwrap_or(1)), light, found),
            Control::Every { n, body, otherwise } => {
                let share = weight / f64::from((*n).max(1));
                walk(program, body, share, light, found);
                walk(program, otherwise, weight - share, light, found);
            }
            Control::Sweep(_) | Control::Fence(_) | Control::Rotate(_) => {}
        }
    }
}
