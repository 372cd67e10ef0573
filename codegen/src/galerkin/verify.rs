//! The verifier of System IR: shapes, scopes, linearity, consistency of the flux, hyperbolicity.
//!
//! Linearity and consistency are tested at random points in f64: a violated identity of such expressions fails at
//! almost every point, so a handful of points decide.

use super::evaluate::{Point, Samples, evaluate};
use super::hyperbolic;
use super::step::StepError;
use super::system::{Boundary, Condition, Expr, Side, System};
use super::text;

/// Points at which an identity is tested.
const POINTS: usize = 24;

/// What is wrong with a system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SystemError {
    /// The wrong number of something, an id out of range, a name twice: a bug of the stage before.
    #[error("system `{system}`: {why}")]
    Shape {
        /// Its name.
        system: String,
        /// What is wrong.
        why: String,
    },
    /// Something is read where it has no value.
    #[error("system `{system}`: {place} reads {what}, which has no value there")]
    Scope {
        /// Its name.
        system: String,
        /// Where.
        place: String,
        /// What.
        what: String,
    },
    /// Not linear or affine in the components.
    #[error("system `{system}`: {place} is not {kind} in the components")]
    Linear {
        /// Its name.
        system: String,
        /// Where.
        place: String,
        /// `linear` or `affine`.
        kind: &'static str,
    },
    /// It has no value to judge.
    #[error("system `{system}`: {place} is not a finite number for any sample of materials and parameters")]
    Undefined {
        /// Its name.
        system: String,
        /// Where.
        place: String,
    },
    /// The numerical flux of equal states is not the physical flux.
    #[error(
        "system `{system}`: the numerical flux of `{component}` is not consistent: with equal states and materials on \
         both sides it gives {found:?} where the equation has {expected:?} (for a sample face)"
    )]
    Inconsistent {
        /// Its name.
        system: String,
        /// Component.
        component: String,
        /// Value of n.F*, as text.
        found: String,
        /// Value of n.F, as text.
        expected: String,
    },
    /// Waves of some direction do not travel at real speeds.
    #[error("system `{system}` is not hyperbolic: waves along ({direction}) grow without bound or have complex speeds")]
    NotHyperbolic {
        /// Its name.
        system: String,
        /// A direction, as text.
        direction: String,
    },
    /// The time step.
    #[error(transparent)]
    Step(#[from] StepError),
}

/// What an expression may read.
#[derive(Clone, Copy)]
struct Scope {
    exterior: bool,
    components: bool,
    normal: bool,
    position: bool,
}

const COEFFICIENT: Scope = Scope { exterior: false, components: false, normal: false, position: false };
const SOURCE: Scope = Scope { position: true, ..COEFFICIENT };
const FLUX: Scope = Scope { exterior: true, components: true, normal: true, position: false };
const EXTERIOR: Scope = Scope { exterior: false, components: true, normal: true, position: true };
const EXTERIOR_MATERIAL: Scope = COEFFICIENT;

/// Checks a system; all faults are reported.
pub fn verify(system: &System) -> Result<(), Vec<SystemError>> {
    let mut check = Check { system, errors: Vec::new() };
    check.shapes();
    if check.errors.is_empty() {
        check.scopes();
    }
    if check.errors.is_empty() {
        check.linearity();
        check.consistency();
        check.hyperbolicity();
    }
    if let Err(error) = system.step.verify() {
        check.errors.push(error.into());
    }
    if check.errors.is_empty() { Ok(()) } else { Err(check.errors) }
}

struct Check<'a> {
    system: &'a System,
    errors: Vec<SystemError>,
}

impl Check<'_> {
    fn shape(&mut self, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.errors.push(SystemError::Shape { system: self.system.name.clone(), why: why() });
        }
    }

    fn shapes(&mut self) {
        let system = self.system;
        let components = system.components.len();
        self.shape(components > 0, || "there are no components".into());
        for (what, len) in [("rates", system.rates.len()), ("fluxes", system.flux.len())] {
            self.shape(len == components, || format!("{len} {what} for {components} components"));
        }
        let names: Vec<&String> = system.components.iter().chain(&system.materials).chain(&system.params).collect();
        for (n, name) in names.iter().enumerate() {
            self.shape(!names[..n].contains(name), || format!("two things are called `{name}`"));
        }
        for boundary in &system.boundaries {
            let lengths = (boundary.components.len(), boundary.materials.len());
            self.shape(lengths == (components, system.materials.len()), || {
                format!("boundary `{}` does not give all exterior values", boundary.tag)
            });
        }
        for term in system.rates.iter().flat_map(|rate| &rate.terms) {
            let fits = term.component < components && term.axis.is_none_or(|axis| axis < 3);
            self.shape(fits, || "a term of a rate is out of range".into());
        }
    }

    fn scopes(&mut self) {
        let system = self.system;
        for (component, rate) in system.rates.iter().enumerate() {
            let name = &system.components[component];
            for term in &rate.terms {
                self.scope(&format!("a coefficient of ddt {name}"), &term.coefficient, COEFFICIENT);
            }
            if let Some(source) = &rate.source {
                self.scope(&format!("the source of {name}"), source, SOURCE);
            }
            self.scope(&flux_of(name), &system.flux[component], FLUX);
        }
        for boundary in &system.boundaries {
            for value in &boundary.components {
                self.scope(&exterior_of(boundary), value, EXTERIOR);
            }
            for value in &boundary.materials {
                self.scope(&format!("an exterior material at `{}`", boundary.tag), value, EXTERIOR_MATERIAL);
            }
        }
    }

    fn scope(&mut self, place: &str, e: &Expr, scope: Scope) {
        let system = self.system;
        let mut bad: Vec<String> = Vec::new();
        let within = |n: usize, names: &[String]| n < names.len();
        e.visit(&mut |e| {
            let fits = match e {
                Expr::Param(n) => within(*n, &system.params),
                Expr::Material(side, n) => within(*n, &system.materials) && (*side == Side::Interior || scope.exterior),
                Expr::Component(side, n) => {
                    within(*n, &system.components) && scope.components && (*side == Side::Interior || scope.exterior)
                }
                Expr::Normal(axis) => *axis < 3 && scope.normal,
                Expr::Position(axis) => *axis < 3 && scope.position,
                Expr::Time => scope.position,
                Expr::Select(c, ..) => !reads_components(c),
                _ => true,
            };
            if !fits {
                bad.push(text::expr(system, e));
            }
        });
        for what in bad {
            self.errors.push(SystemError::Scope { system: system.name.clone(), place: place.to_owned(), what });
        }
    }

    fn hyperbolicity(&mut self) {
        match hyperbolic::judge(self.system) {
            hyperbolic::Verdict::Symmetric | hyperbolic::Verdict::Bounded(_) => {}
            hyperbolic::Verdict::Grows(direction) => {
                let direction = direction.map(|n| format!("{n:.3}")).join(", ");
                self.errors.push(SystemError::NotHyperbolic { system: self.system.name.clone(), direction });
            }
            hyperbolic::Verdict::Undefined => self.undefined("a coefficient"),
        }
    }

    fn linearity(&mut self) {
        let system = self.system;
        for (name, flux) in system.components.iter().zip(&system.flux) {
            self.linear(&flux_of(name), flux, true);
        }
        for boundary in &system.boundaries {
            for value in &boundary.components {
                self.linear(&exterior_of(boundary), value, false);
            }
        }
    }

    /// f(a u + b v) - f(0) = a (f(u) - f(0)) + b (f(v) - f(0)); and f(0) = 0 if homogeneous.
    fn linear(&mut self, place: &str, e: &Expr, homogeneous: bool) {
        let mut samples = Samples::new(7);
        let value = |face: &Point, [u, v]: [f64; 2]| {
            let mix = |s: usize| combine(&face.components[s], u, &turned(&face.components[s]), v);
            evaluate(e, &Point { components: [mix(0), mix(1)], ..face.clone() })
        };
        let states = |face: &Point| [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.7, -0.4]].map(|uv| value(face, uv));
        // Defined for some states and not for others is not linear either.
        let faces = samples.faces(self.system, POINTS, |face| states(face).iter().any(|value| value.is_finite()));
        if faces.is_empty() {
            self.undefined(place);
        }
        let nonlinear = |face: &Point| {
            let [zero, u, v, both] = states(face);
            let (of_u, of_v, of_both) = (u - zero, v - zero, both - zero);
            let size = 1.0 + of_u.abs() + of_v.abs() + zero.abs();
            let defect = (of_both - 0.7 * of_u + 0.4 * of_v).abs() + if homogeneous { zero.abs() } else { 0.0 };
            defect.is_nan() || defect > 1e-10 * size
        };
        if faces.iter().any(nonlinear) {
            let kind = if homogeneous { "linear" } else { "affine" };
            let system = self.system.name.clone();
            self.errors.push(SystemError::Linear { system, place: place.to_owned(), kind });
        }
    }

    fn undefined(&mut self, place: &str) {
        let system = self.system.name.clone();
        self.errors.push(SystemError::Undefined { system, place: place.to_owned() });
    }

    fn consistency(&mut self) {
        let system = self.system;
        for (component, name) in system.components.iter().enumerate() {
            let samples = flux_samples(system, component);
            if samples.is_empty() {
                self.undefined(&flux_of(name));
            }
            if let Some((found, expected)) = samples.iter().find(|sample| defect(sample) > 1e-10) {
                self.errors.push(SystemError::Inconsistent {
                    system: system.name.clone(),
                    component: name.clone(),
                    found: format!("{found:.6}"),
                    expected: format!("{expected:.6}"),
                });
            }
        }
    }
}

/// How far the numerical flux of equal states is from the physical flux: the largest difference at random faces,
/// relative to 1 + the physical flux, for every component.
pub fn consistency(system: &System) -> Vec<f64> {
    let largest = |component| flux_samples(system, component).iter().map(defect).fold(0.0, f64::max);
    (0..system.components.len()).map(largest).collect()
}

/// Numerical and physical flux of a component at faces with equal sides.
fn flux_samples(system: &System, component: usize) -> Vec<(f64, f64)> {
    let physical = system.physical_flux(component);
    let both = |face: &Point| {
        let same = equal_sides(face);
        (evaluate(&system.flux[component], &same), evaluate(&physical, &same))
    };
    let defined = |face: &Point| both(face).0.is_finite() && both(face).1.is_finite();
    Samples::new(11).faces(system, POINTS, defined).iter().map(both).collect()
}

fn defect((found, expected): &(f64, f64)) -> f64 {
    (found - expected).abs() / (1.0 + expected.abs())
}

/// Another state than the one given.
fn turned(state: &[f64]) -> Vec<f64> {
    let other = |(n, value): (usize, &f64)| if n % 2 == 0 { 0.3 - value } else { 1.7 * value + 0.1 };
    state.iter().enumerate().map(other).collect()
}

/// The same state and materials on both sides.
fn equal_sides(face: &Point) -> Point {
    let twice = |values: &[Vec<f64>; 2]| [values[0].clone(), values[0].clone()];
    Point { components: twice(&face.components), materials: twice(&face.materials), ..face.clone() }
}

fn combine(u: &[f64], a: f64, v: &[f64], b: f64) -> Vec<f64> {
    u.iter().zip(v).map(|(u, v)| a * u + b * v).collect()
}

fn reads_components(c: &Condition) -> bool {
    c.operands().into_iter().any(|e| e.any(|e| matches!(e, Expr::Component(..))))
}

fn flux_of(component: &str) -> String {
    format!("the numerical flux of {component}")
}

fn exterior_of(boundary: &Boundary) -> String {
    format!("an exterior value at `{}`", boundary.tag)
}
