//! Reference evaluation of expressions of a system, in f64; and sampling, by which flux properties are tested.

use super::system::{Condition, Expr, Side};
use crate::real;

/// Everything an expression may read. Missing entries read as NaN.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// Parameters.
    pub params: Vec<f64>,
    /// Materials, interior and exterior.
    pub materials: [Vec<f64>; 2],
    /// Components, interior and exterior.
    pub components: [Vec<f64>; 2],
    /// Outer unit normal.
    pub normal: [f64; 3],
    /// Position.
    pub position: [f64; 3],
    /// Time.
    pub time: f64,
}

fn side(side: Side) -> usize {
    match side {
        Side::Interior => 0,
        Side::Exterior => 1,
    }
}

/// Value of an expression at a point.
pub fn evaluate(e: &Expr, at: &Point) -> f64 {
    let read = |values: &[f64], n: usize| values.get(n).copied().unwrap_or(f64::NAN);
    match e {
        Expr::Number(x) => *x,
        Expr::Param(n) => read(&at.params, *n),
        Expr::Material(s, n) => read(&at.materials[side(*s)], *n),
        Expr::Component(s, n) => read(&at.components[side(*s)], *n),
        Expr::Normal(axis) => read(&at.normal, *axis),
        Expr::Position(axis) => read(&at.position, *axis),
        Expr::Time => at.time,
        Expr::Neg(a) => -evaluate(a, at),
        Expr::Binary(op, a, b) => real::binary(*op, evaluate(a, at), evaluate(b, at)),
        Expr::Call(function, args) => {
            let args: Vec<f64> = args.iter().map(|a| evaluate(a, at)).collect();
            real::call(*function, &args)
        }
        Expr::Select(c, a, b) => evaluate(if holds(c, at) { a } else { b }, at),
    }
}

/// Whether a condition holds at a point.
pub fn holds(c: &Condition, at: &Point) -> bool {
    match c {
        Condition::Compare(op, a, b) => real::compare(*op, evaluate(a, at), evaluate(b, at)),
        Condition::And(a, b) => holds(a, at) && holds(b, at),
        Condition::Or(a, b) => holds(a, at) || holds(b, at),
        Condition::Not(a) => !holds(a, at),
    }
}

/// Points drawn for each that is wanted, at most.
const TRIES: usize = 32;

/// A deterministic sequence of numbers (SplitMix64).
pub struct Samples(u64);

impl Samples {
    /// A sequence by its seed.
    pub fn new(seed: u64) -> Samples {
        Samples(seed)
    }

    /// A number between `low` and `high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (high - low) * ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Several numbers.
    pub fn many(&mut self, count: usize, low: f64, high: f64) -> Vec<f64> {
        (0..count).map(|_| self.between(low, high)).collect()
    }

    /// A unit vector.
    pub fn direction(&mut self) -> [f64; 3] {
        loop {
            let v = [0; 3].map(|_: i32| self.between(-1.0, 1.0));
            let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
            if (0.1..=1.0).contains(&length) {
                return v.map(|x| x / length);
            }
        }
    }

    /// A face: positive parameters and materials (they are often divided by or taken roots of), any states.
    pub fn face(&mut self, system: &super::system::System) -> Point {
        let (params, materials, components) = (system.params.len(), system.materials.len(), system.components.len());
        Point {
            params: self.many(params, 0.5, 2.0),
            materials: [0; 2].map(|_: i32| self.many(materials, 0.5, 2.0)),
            components: [0; 2].map(|_: i32| self.many(components, -1.0, 1.0)),
            normal: self.direction(),
            position: [0; 3].map(|_: i32| self.between(-1.0, 1.0)),
            time: self.between(0.0, 1.0),
        }
    }
    /// Faces of [`Samples::face`] for which something is defined, at most `count`. Where roots and the like leave the
    /// real numbers at most points, parameters and materials of another magnitude are drawn too; none are left if it is
    /// defined nowhere.
    pub fn faces(
        &mut self,
        system: &super::system::System,
        count: usize,
        defined: impl Fn(&Point) -> bool,
    ) -> Vec<Point> {
        let mut found = Vec::new();
        for attempt in 0..TRIES * count {
            let mut face = self.face(system);
            if attempt >= count {
                let scale = 10f64.powf(self.between(-3.0, 3.0));
                face.params.iter_mut().chain(face.materials.iter_mut().flatten()).for_each(|value| *value *= scale);
            }
            if defined(&face) {
                found.push(face);
                if found.len() == count {
                    break;
                }
            }
        }
        found
    }
}
