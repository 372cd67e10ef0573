//! Probes: points where the fields are recorded.

use super::Bound;
use crate::mesh::Mesh;
use crate::solve::Error;

/// A point of an element.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Its name.
    pub name: String,
    /// The element.
    pub element: usize,
    /// Weights of the element's nodes.
    pub weights: Vec<f64>,
}

/// How far outside of all elements a point may lie, in barycentric coordinates: on the boundary, rounded.
const TOLERANCE: f64 = 1e-9;

/// The element that holds a point, and the point's barycentric coordinates; the one with the smallest number where
/// several touch it.
pub fn find(mesh: &Mesh, point: [f64; 3]) -> Option<(usize, [f64; 4])> {
    let mut best: Option<(usize, [f64; 4])> = None;
    let inside = |weights: &[f64; 4]| weights.iter().copied().fold(f64::INFINITY, f64::min);
    for element in 0..mesh.elements.len() {
        let corners = mesh.corners(element);
        let gradients = kernelwright_codegen::galerkin::direct::barycentric(&corners);
        let from: [f64; 3] = std::array::from_fn(|axis| point[axis] - corners[0][axis]);
        let part = gradients.map(|g| g[0] * from[0] + g[1] * from[1] + g[2] * from[2]);
        let weights = [1.0 - part[0] - part[1] - part[2], part[0], part[1], part[2]];
        if inside(&weights) >= 0.0 {
            return Some((element, weights));
        }
        if best.as_ref().is_none_or(|(_, known)| inside(&weights) > inside(known)) {
            best = Some((element, weights));
        }
    }
    best.filter(|(_, weights)| inside(weights) >= -TOLERANCE)
}

impl Probe {
    /// The probes of a problem.
    ///
    /// # Errors
    /// A point outside the mesh.
    pub fn all(bound: &Bound) -> Result<Vec<Probe>, Error> {
        let one = |(name, point): &(String, [f64; 3])| {
            let (element, at) = find(&bound.mesh, *point).ok_or_else(|| {
                Error::Input(format!(
                    "probe `{name}` at {point:?} lies outside of the mesh, which spans {:?}",
                    bound.mesh.bounds()
                ))
            })?;
            let weights = bound.element.interpolation(&[at]).row(0).to_vec();
            Ok(Probe { name: name.clone(), element, weights })
        };
        bound.run.probes.iter().map(one).collect()
    }

    /// Values of all components.
    pub fn values(&self, bound: &Bound, state: &[f64]) -> Vec<f64> {
        let one = |component: usize| {
            let first = bound.first(component, self.element);
            self.weights.iter().zip(&state[first..first + bound.nodes()]).map(|(w, v)| w * v).sum()
        };
        (0..bound.system.components.len()).map(one).collect()
    }
}
