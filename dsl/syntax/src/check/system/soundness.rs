//! Whether a system makes sense as mathematics: numerical fluxes are consistent, and the system is hyperbolic.
//!
//! Both are decided at sample points. A violated identity between rational expressions fails almost everywhere, so that a
//! few points decide it. A system q' = sum A_a dq/dx_a is hyperbolic where n.A is diagonalizable with real eigenvalues
//! for every direction n, which is to say that exp(i s n.A) is bounded for all s (Gustafsson, Kreiss and Oliger, Time
//! Dependent Problems and Difference Methods, section 4.3): it grows exponentially with a complex eigenvalue, and like a
//! power of s without enough eigenvectors.

use crate::ast::{Documented, Part};
use crate::diagnostic::Diagnostic;
use crate::program::system::{Known, NumericalFlux, Quantity, System};

/// Points at which identities are tested.
const POINTS: usize = 12;

/// Doublings of s.
const DOUBLINGS: u32 = 16;

/// Growth that no diagonalizable matrix of this kind shows: a bound for the condition of its eigenvectors.
const LARGEST: f64 = 1e3;

/// A deterministic sequence of numbers (SplitMix64).
struct Samples(u64);

impl Samples {
    fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        low + (high - low) * ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn direction(&mut self) -> [f64; 3] {
        loop {
            let v = [(); 3].map(|()| self.between(-1.0, 1.0));
            let length = v.iter().map(|x| x * x).sum::<f64>().sqrt();
            if (0.1..=1.0).contains(&length) {
                return v.map(|x| x / length);
            }
        }
    }

    /// Near the default where there is one, positive otherwise: they are divided by and taken roots of.
    fn near(&mut self, quantities: &[Quantity]) -> Vec<f64> {
        let mut values = Vec::new();
        for quantity in quantities {
            for component in 0..quantity.size {
                let factor = self.between(0.6, 1.6);
                values.push(quantity.default.as_ref().map_or(factor, |default| default[component] * factor));
            }
        }
        values
    }
}

/// Reports fluxes that are not consistent and a system that is not hyperbolic.
pub(super) fn check(system: &System, parts: &[Documented<Part>], errors: &mut Vec<Diagnostic>) {
    for flux in &system.fluxes {
        consistency(system, flux, errors);
    }
    let mut samples = Samples(7);
    for _ in 0..POINTS {
        let (params, materials) = (samples.near(&system.params), samples.near(&system.materials));
        let normal = samples.direction();
        let Some(growth) = growth(system, &params, &materials, normal) else { continue };
        let span = parts.iter().find(|part| matches!(part.kind, Part::Ddt(..))).map_or(system.span, |part| part.span);
        let n = normal.map(|x| format!("{x:.2}")).join(", ");
        let error = Diagnostic::new("not-hyperbolic", span, format!("system `{}` is not hyperbolic", system.name))
            .label(format!("waves along ({n}) grow: {growth}"))
            .help("look for a sign; every pair of equations couples back with the opposite one");
        errors.push(error);
        return;
    }
}

/// `n.F` of a component with everything interior.
fn physical(system: &System, component: usize, known: &Known<'_>) -> f64 {
    let terms = system.rates[component].terms.iter();
    terms
        .filter_map(|term| Some((term, term.axis?)))
        .map(|(term, axis)| term.coefficient.evaluate(known) * known.normal[axis] * known.components[0][term.component])
        .sum()
}

fn consistency(system: &System, flux: &NumericalFlux, errors: &mut Vec<Diagnostic>) {
    let mut samples = Samples(3);
    let names = system.components();
    let mut wrong = vec![false; system.fields.len()];
    for _ in 0..POINTS {
        let (params, materials) = (samples.near(&system.params), samples.near(&system.materials));
        let state: Vec<f64> = names.iter().map(|_| samples.between(-1.0, 1.0)).collect();
        let known = Known {
            params: &params,
            materials: [&materials; 2],
            components: [&state; 2],
            normal: samples.direction(),
            ..Known::default()
        };
        for (number, field) in system.fields.iter().enumerate() {
            for component in field.first..field.first + field.size {
                let (found, expected) = (flux.values[component].evaluate(&known), physical(system, component, &known));
                let scale = 1.0 + found.abs() + expected.abs();
                // A flux that is not a number (a root of a negative material) is not judged here.
                wrong[number] |= (found - expected).abs() > 1e-9 * scale;
            }
        }
    }
    for (field, _) in system.fields.iter().zip(wrong).filter(|(_, wrong)| *wrong) {
        let message = format!("the flux of `{}` in `{}` is not consistent", field.name, flux.name);
        let error = Diagnostic::new("inconsistent-flux", flux.span, message)
            .label("with the same state on both sides it is not the flux of the equation")
            .note(field.span, "of this field")
            .help("with equal sides it must be the equation with `n` in place of the derivatives: `n*p` for grad(p), `dot(n, v)` for div(v), `cross(n, E)` for curl(E)");
        errors.push(error);
    }
}

/// How waves along a direction grow if they do: a system that is not hyperbolic with these numbers.
pub fn growth(system: &System, params: &[f64], materials: &[f64], normal: [f64; 3]) -> Option<&'static str> {
    let known = Known { params, materials: [materials; 2], normal, ..Known::default() };
    let size = system.rates.len();
    let mut matrix = vec![0.0; size * size];
    for (row, rate) in system.rates.iter().enumerate() {
        for term in &rate.terms {
            if let Some(axis) = term.axis {
                matrix[row * size + term.component] += term.coefficient.evaluate(&known) * normal[axis];
            }
        }
    }
    balance(&mut matrix, size);
    let norm = matrix.iter().map(|x| x * x).sum::<f64>().sqrt();
    if norm == 0.0 || !norm.is_finite() {
        return None;
    }
    matrix.iter_mut().for_each(|x| *x /= norm);
    let mut wave = exponential(&matrix, size);
    for doubling in 0..DOUBLINGS {
        if wave.norm() > LARGEST {
            // A power of s reaches the bound late, an exponential early.
            return Some(if doubling < DOUBLINGS / 2 + 1 { "a complex wave speed" } else { "too few waves" });
        }
        wave = wave.squared();
    }
    (wave.norm() > LARGEST).then_some("too few waves")
}

/// Rounds of scaling; each brings every row and column to one norm with the others as they are.
const ROUNDS: usize = 30;

/// Scales the units of the unknowns (a diagonal similarity) such that rows and columns have one norm, which is what
/// fields that drive each other have in units of the energy: pascals beside metres a second would look like eigenvectors
/// that are nearly parallel. (Osborne, On pre-conditioning of matrices, J. ACM 7, 1960.)
///
/// An unknown that drives none, or is driven by none, has no unit of its own: its row or column is brought down to the
/// norm of the rest, where a missing eigenvector still shows.
fn balance(matrix: &mut [f64], size: usize) {
    for _ in 0..ROUNDS {
        let mut largest = 1.0f64;
        for i in 0..size {
            let others = || (0..size).filter(move |j| *j != i);
            let row = others().map(|j| matrix[i * size + j].powi(2)).sum::<f64>().sqrt();
            let column = others().map(|j| matrix[j * size + i].powi(2)).sum::<f64>().sqrt();
            let all = matrix.iter().map(|x| x * x).sum::<f64>();
            let rest = (all - row * row - column * column).max(0.0).sqrt();
            let factor = match (row > 0.0, column > 0.0) {
                (true, true) => (row / column).sqrt(),
                (true, false) if row > rest && rest > 0.0 => row / rest,
                (false, true) if column > rest && rest > 0.0 => rest / column,
                _ => continue,
            };
            if !(factor.is_finite() && factor > 0.0) {
                return;
            }
            for j in others() {
                matrix[i * size + j] /= factor;
                matrix[j * size + i] *= factor;
            }
            largest = largest.max(factor.max(1.0 / factor));
        }
        if largest < 1.01 {
            return;
        }
    }
}

/// A complex square matrix.
struct Complex {
    size: usize,
    real: Vec<f64>,
    imaginary: Vec<f64>,
}

/// exp(i A) for a matrix of norm at most 1, by its series.
fn exponential(matrix: &[f64], size: usize) -> Complex {
    let mut power: Vec<f64> = (0..size * size).map(|at| if at % (size + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let mut result = Complex { size, real: power.clone(), imaginary: vec![0.0; size * size] };
    for order in 1..=20 {
        power = product(&power, matrix, size);
        power.iter_mut().for_each(|x| *x /= f64::from(order));
        // i^order: i, -1, -i, 1.
        let sign = if order % 4 < 2 { 1.0 } else { -1.0 };
        let part = if order % 2 == 1 { &mut result.imaginary } else { &mut result.real };
        part.iter_mut().zip(&power).for_each(|(sum, term)| *sum += sign * term);
    }
    result
}

fn product(a: &[f64], b: &[f64], size: usize) -> Vec<f64> {
    let mut c = vec![0.0; size * size];
    for i in 0..size {
        for k in 0..size {
            for j in 0..size {
                c[i * size + j] += a[i * size + k] * b[k * size + j];
            }
        }
    }
    c
}

impl Complex {
    fn squared(&self) -> Complex {
        let (re, im, n) = (&self.real, &self.imaginary, self.size);
        let (rr, ii) = (product(re, re, n), product(im, im, n));
        let (ri, ir) = (product(re, im, n), product(im, re, n));
        let sum = |a: Vec<f64>, b: Vec<f64>, sign: f64| a.iter().zip(b).map(|(a, b)| a + sign * b).collect();
        Complex { size: n, real: sum(rr, ii, -1.0), imaginary: sum(ri, ir, 1.0) }
    }

    /// Frobenius norm; infinite if anything is not finite.
    fn norm(&self) -> f64 {
        let sum: f64 = self.real.iter().chain(&self.imaginary).map(|x| x * x).sum();
        if sum.is_finite() { sum.sqrt() } else { f64::INFINITY }
    }
}
