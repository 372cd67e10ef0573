//! The largest safe time step, from the spectrum of the discretised system and the region of stability of the step.
//!
//! The spectral radius is measured: power iterations with the very engine that computes, on the linear part of the
//! system (sources and what boundaries add left out). Eigenvalues come in conjugate pairs, so the growth is averaged over
//! several iterations.

use kernelwright_codegen::galerkin::step::Step;
use kernelwright_codegen::galerkin::system::{BinaryOp, Expr, Side, System};
use kernelwright_syntax::program::Precision;

use super::{Bound, Engine};
use crate::inputs::random::fill;
use crate::solve::Error;

/// Iterations at most, and those over which growth is averaged.
const ITERATIONS: usize = 96;
const WINDOW: usize = 12;

/// Change of the estimate at which iterations end.
const SETTLED: f64 = 2e-3;

/// Parts of the region of stability that are used: the radius is a measured one, and measured from below.
const REAL_PART: f64 = 0.86;
const HALF_DISC_PART: f64 = 0.95;

/// Growth of an energy in a step that counts as none: a hundredth in ten thousand steps. Schemes of order two amplify waves
/// by z^4/4 along the whole imaginary axis; with none at all they would have no step.
const GROWTH: f64 = 1e-6;

/// How far a time step's region of stability reaches into the left half plane: z = dt * eigenvalue with |R(z)| <= 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reach {
    /// Along the negative real axis.
    pub real: f64,
    /// Along every direction of the left half plane, the imaginary axis included.
    pub half_disc: f64,
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spectrum {
    /// Largest modulus of an eigenvalue, 1 over time.
    pub radius: f64,
    /// How much of the mode that belongs to it decays: 1 on the negative real axis, 0 on the imaginary one.
    pub decay: f64,
    /// Iterations made.
    pub iterations: usize,
}

/// The reach of a time step; zero where it has none.
pub fn reach(step: &Step) -> Reach {
    let polynomial = step.stability_polynomial();
    let stable = |radius: f64, angle: f64| {
        let z = (radius * angle.cos(), radius * angle.sin());
        let value = polynomial.iter().rev().fold((0.0, 0.0), |sum: (f64, f64), coefficient| {
            (sum.0 * z.0 - sum.1 * z.1 + coefficient, sum.0 * z.1 + sum.1 * z.0)
        });
        value.0 * value.0 + value.1 * value.1 <= 1.0 + GROWTH
    };
    let along = |angle: f64| {
        let steps = (1..).map(|n| f64::from(n) * 0.005);
        steps.take_while(|radius| *radius < 100.0 && stable(*radius, angle)).last().unwrap_or(0.0)
    };
    let angles = (0..=90).map(|degree| std::f64::consts::FRAC_PI_2 * (1.0 + f64::from(degree) / 90.0));
    Reach { real: along(std::f64::consts::PI), half_disc: angles.map(along).fold(f64::INFINITY, f64::min) }
}

impl Spectrum {
    /// The largest safe step: wherever in the left half plane an eigenvalue of that modulus lies, the step is stable. Where
    /// the largest eigenvalues are real, as with upwind fluxes for waves, a longer one would do; for transport it would not.
    pub fn step(&self, reach: Reach) -> f64 {
        (REAL_PART * reach.real).min(HALF_DISC_PART * reach.half_disc) / self.radius
    }

    /// Measures with an engine for [`linear_part`].
    ///
    /// # Errors
    /// A failing engine; a system that does not act at all or is not finite.
    pub fn measure(bound: &Bound, engine: &mut dyn Engine) -> Result<Spectrum, Error> {
        let mut x = fill(1, 0, bound.len());
        let mut y = vec![0.0; x.len()];
        normalise(&mut x);
        let (mut growths, mut before) = (Vec::new(), f64::INFINITY);
        let mut spectrum = Spectrum { radius: 0.0, decay: 0.0, iterations: 0 };
        while spectrum.iterations < ITERATIONS {
            engine.load(&x)?;
            engine.rate(0.0, &mut y)?;
            let (growth, along) = (norm(&y), x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>());
            if growth == 0.0 {
                let why = "nothing moves: rates depend on no field with these parameters and materials, so that no length \
                           of step follows from them";
                return Err(Error::Input(format!("{}: {why}", bound.run.name)));
            }
            if !growth.is_finite() {
                let why = "rates are not finite: coefficients, geometry or their products are out of range";
                let help = if bound.run.precision == Precision::F32 { "; try `precision f64;`" } else { "" };
                return Err(Error::Input(format!("{}: {why}{help}", bound.run.name)));
            }
            spectrum.iterations += 1;
            growths.push(growth);
            spectrum.decay = (-along / growth).clamp(0.0, 1.0);
            std::mem::swap(&mut x, &mut y);
            normalise(&mut x);
            let recent = &growths[growths.len().saturating_sub(WINDOW)..];
            spectrum.radius = (recent.iter().map(|growth| growth.ln()).sum::<f64>() / recent.len() as f64).exp();
            if growths.len().is_multiple_of(WINDOW) {
                if (spectrum.radius / before - 1.0).abs() < SETTLED {
                    break;
                }
                before = spectrum.radius;
            }
        }
        Ok(spectrum)
    }
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

fn normalise(x: &mut [f64]) {
    let length = norm(x);
    x.iter_mut().for_each(|x| *x /= length);
}

/// The linear part of a system: the system itself where nothing is added.
pub fn linear_part(system: &System) -> System {
    let mut linear = system.clone();
    linear.rates.iter_mut().for_each(|rate| rate.source = None);
    for value in linear.boundaries.iter_mut().flat_map(|boundary| &mut boundary.components) {
        let rest = without_components(value);
        if !vanishes(&rest) {
            *value = Expr::Binary(BinaryOp::Sub, Box::new(value.clone()), Box::new(rest));
        }
    }
    linear
}

/// Whether an expression without components is zero by its form.
pub(super) fn vanishes(e: &Expr) -> bool {
    match e {
        Expr::Number(value) => *value == 0.0,
        Expr::Neg(inner) => vanishes(inner),
        Expr::Binary(BinaryOp::Mul, a, b) => vanishes(a) || vanishes(b),
        Expr::Binary(BinaryOp::Div, a, _) => vanishes(a),
        Expr::Binary(_, a, b) | Expr::Select(_, a, b) => vanishes(a) && vanishes(b),
        _ => false,
    }
}

/// The expression with all components zero; conditions read none.
pub(super) fn without_components(e: &Expr) -> Expr {
    match e {
        Expr::Component(Side::Interior | Side::Exterior, _) => Expr::Number(0.0),
        Expr::Neg(inner) => Expr::Neg(Box::new(without_components(inner))),
        Expr::Binary(op, a, b) => Expr::Binary(*op, Box::new(without_components(a)), Box::new(without_components(b))),
        Expr::Select(test, a, b) => {
            Expr::Select(test.clone(), Box::new(without_components(a)), Box::new(without_components(b)))
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_regions_of_stability() {
        // Kutta's scheme: 2.785 on the real axis, 2 sqrt(2) on the imaginary one (Hairer and Wanner II, IV.2).
        let step = kernelwright_syntax::library::step("rk4").expect("a step of the library");
        let system = kernelwright_syntax::library::system("advection").expect("a system of the library");
        let lowered = kernelwright_codegen::galerkin::lower::lower(&system, 0, &step);
        let found = reach(&lowered.step);
        assert!((found.real - 2.785).abs() < 0.01 && found.half_disc < 2.829 && found.half_disc > 2.5, "{found:?}");
        let carpenter = reach(&Step::lserk4());
        assert!((carpenter.real - 4.65).abs() < 0.03 && carpenter.half_disc > 3.0, "{carpenter:?}");
        // Two stages of order two: |R(iy)|^2 = 1 + y^4/4. One of order one: 1 + y^2.
        let make = |stages: &str| {
            let text =
                format!("step s {{ {stages} }} problem p {{ system advection; step s; initial u = 0; until 1; }}");
            let program = kernelwright_syntax::compile("s.kw", &text).expect("a step");
            reach(&kernelwright_codegen::galerkin::lower::lower(&system, 0, &program.steps[0]).step)
        };
        let heun = make("stage 0 { v = u; k = dt*rate; u = u + k; } stage 1 { u = v + k/2 + 1/2*dt*rate; }");
        assert!((heun.half_disc - 0.045).abs() < 0.006 && (heun.real - 2.0).abs() < 0.01, "{heun:?}");
        assert_eq!(make("stage 0 { u = u + dt*rate; }").half_disc, 0.0);
    }
}
