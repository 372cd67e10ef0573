//! Energy and errors: integrals over all elements.

use kernelwright_codegen::galerkin::energy::{self, Energy};
use kernelwright_codegen::galerkin::evaluate::{Point, evaluate};
use kernelwright_codegen::galerkin::reference::Element;
use kernelwright_codegen::galerkin::reference::dense::{Matrix, dot};

use super::Bound;

/// Integrals of states of a bound problem.
pub struct Norms {
    /// Weights of the components' squares, per element.
    weights: Vec<Vec<f64>>,
    /// What the energy is.
    pub of: Energy,
    /// From nodes to points where exact solutions are compared, and the mass matrix there.
    fine: Fine,
}

/// A finer element for errors, which are no polynomials.
struct Fine {
    element: Element,
    interpolation: Matrix,
}

impl Norms {
    /// Prepares integrals.
    pub fn new(bound: &Bound) -> Norms {
        let energy = energy::derive(&bound.system);
        let of = |materials: &Vec<f64>| {
            let at = Point {
                params: bound.run.params.clone(),
                materials: [materials.clone(), materials.clone()],
                ..Point::default()
            };
            energy.weights.iter().map(|weight| evaluate(weight, &at)).collect()
        };
        let finer = (bound.element.order + 1).min(kernelwright_codegen::galerkin::reference::MAX_ORDER);
        let element = Element::new(finer).expect("an order that exists");
        let interpolation = bound.element.interpolation(&element.nodes);
        Norms { weights: bound.materials.iter().map(of).collect(), of: energy, fine: Fine { element, interpolation } }
    }

    /// The weighted sum of squares, integrated.
    pub fn energy(&self, bound: &Bound, state: &[f64]) -> f64 {
        let mut total = 0.0;
        for element in 0..bound.elements() {
            let mut own = 0.0;
            for (component, weight) in self.weights[element].iter().enumerate() {
                let first = bound.first(component, element);
                own += weight * square(&bound.element.mass, &state[first..first + bound.nodes()]);
            }
            total += 6.0 * bound.mesh.volume(element) * own;
        }
        total
    }

    /// L2 error of each component against its exact solution, where it has one, and the L2 norm of that.
    pub fn errors(&self, bound: &Bound, state: &[f64], time: f64) -> Vec<Option<(f64, f64)>> {
        let one = |component: usize| {
            let exact = bound.run.exact.get(component)?.as_ref()?;
            let (mut error, mut norm) = (0.0, 0.0);
            for element in 0..bound.elements() {
                let first = bound.first(component, element);
                let found = self.fine.interpolation.apply(&state[first..first + bound.nodes()]);
                let at = |weights: &[f64; 4]| bound.value(exact, element, bound.place(element, *weights), time);
                let expected: Vec<f64> = self.fine.element.nodes.iter().map(at).collect();
                let difference: Vec<f64> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
                let scale = 6.0 * bound.mesh.volume(element);
                error += scale * square(&self.fine.element.mass, &difference);
                norm += scale * square(&self.fine.element.mass, &expected);
            }
            Some((error.max(0.0).sqrt(), norm.max(0.0).sqrt()))
        };
        (0..bound.system.components.len()).map(one).collect()
    }
}

/// `v . M v`
fn square(mass: &Matrix, v: &[f64]) -> f64 {
    dot(v, &mass.apply(v))
}
