//! Reference evaluation of a system on a mesh: dense matrices per element and face, in f64.
//!
//! The meaning of a discretised system, written for clarity: the oracle of kernels, and what runs a problem where there
//! is nothing better. Expressions are evaluated once; what is linear becomes a matrix, what depends on place or time is
//! evaluated where it is needed.
//!
//! State: `values[(element * components + component) * nodes + node]`.

use super::evaluate::{Point, evaluate};
use super::mesh::{Face, Mesh};
use super::reference::Element;
use super::reference::dense::{Matrix, dot};
use super::step::Stage;
use super::system::{Expr, System};

/// A system on a mesh.
pub struct Direct<'s> {
    system: &'s System,
    element: Element,
    params: Vec<f64>,
    materials: Vec<Vec<f64>>,
    corners: Vec<[[f64; 3]; 4]>,
    /// Per element: gradients of the barycentric coordinates l1, l2, l3.
    gradients: Vec<[[f64; 3]; 3]>,
    /// Per element: for each direction l1, l2, l3 the matrix between components; then the one without derivative.
    volume: Vec<[Matrix; 4]>,
    /// Per element and face.
    faces: Vec<[Side; 4]>,
}

/// A face: flux difference `n.F* - n.F`, scaled for the lift, of interior and exterior components.
struct Side {
    interior: Matrix,
    exterior: Matrix,
    normal: [f64; 3],
    behind: Behind,
}

enum Behind {
    /// Element and its nodes that meet those of the face.
    Element(usize, Vec<usize>),
    /// Boundary: what is affine in the exterior state is added per node.
    Boundary(usize),
}

impl<'s> Direct<'s> {
    /// Prepares a system. The mesh and system are verified ones; `materials` holds for each element one number per
    /// material.
    pub fn new(
        system: &'s System,
        mesh: &Mesh,
        element: Element,
        params: Vec<f64>,
        materials: Vec<Vec<f64>>,
    ) -> Direct<'s> {
        let corners: Vec<[[f64; 3]; 4]> = (0..mesh.elements.len()).map(|e| mesh.corners(e)).collect();
        let gradients: Vec<[[f64; 3]; 3]> = corners.iter().map(barycentric).collect();
        let mut direct =
            Direct { system, element, params, materials, corners, gradients, volume: Vec::new(), faces: Vec::new() };
        direct.volume = (0..mesh.elements.len()).map(|e| direct.volume(e)).collect();
        direct.faces = (0..mesh.elements.len()).map(|e| [0, 1, 2, 3].map(|face| direct.face(mesh, e, face))).collect();
        direct
    }

    /// Number of values of a state.
    pub fn len(&self) -> usize {
        self.system.components.len() * self.corners.len() * self.element.node_count()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn point(&self, element: usize) -> Point {
        let zeros = vec![0.0; self.system.components.len()];
        let own = self.materials[element].clone();
        Point {
            params: self.params.clone(),
            materials: [own.clone(), own],
            components: [zeros.clone(), zeros],
            ..Point::default()
        }
    }

    fn volume(&self, element: usize) -> [Matrix; 4] {
        let count = self.system.components.len();
        let mut result = [0; 4].map(|_: i32| Matrix::zeros(count, count));
        let at = self.point(element);
        for (row, rate) in self.system.rates.iter().enumerate() {
            for term in &rate.terms {
                let value = evaluate(&term.coefficient, &at);
                match term.axis {
                    None => *result[3].at_mut(row, term.component) += value,
                    Some(axis) => (0..3).for_each(|l| {
                        *result[l].at_mut(row, term.component) += value * self.gradients[element][l][axis];
                    }),
                }
            }
        }
        result
    }

    fn face(&self, mesh: &Mesh, element: usize, face: usize) -> Side {
        let count = self.system.components.len();
        let gradients = &self.gradients[element];
        // The gradient of l0 is minus the sum of the others.
        let inward = match face {
            0 => [0, 1, 2].map(|a: usize| -(gradients[0][a] + gradients[1][a] + gradients[2][a])),
            face => gradients[face - 1],
        };
        let scale = inward.iter().map(|x| x * x).sum::<f64>().sqrt();
        let normal = inward.map(|x| -x / scale);
        let mut at = self.point(element);
        at.normal = normal;
        let behind = match mesh.faces[element][face] {
            Face::Shared { element: other, face, corners } => {
                at.materials[1] = self.materials[other as usize].clone();
                Behind::Element(other as usize, self.element.met_nodes(face as usize, corners))
            }
            Face::Boundary(number) => {
                let boundary = &self.system.boundaries[number as usize];
                at.materials[1] = boundary.materials.iter().map(|material| evaluate(material, &at)).collect();
                Behind::Boundary(number as usize)
            }
        };
        let mut interior = Matrix::zeros(count, count);
        let mut exterior = Matrix::zeros(count, count);
        for column in 0..count {
            at.components[0][column] = 1.0;
            for row in 0..count {
                let physical = evaluate(&self.system.physical_flux(row), &at);
                *interior.at_mut(row, column) = scale * (evaluate(&self.system.flux[row], &at) - physical);
            }
            at.components[0][column] = 0.0;
            at.components[1][column] = 1.0;
            for row in 0..count {
                *exterior.at_mut(row, column) = scale * evaluate(&self.system.flux[row], &at);
            }
            at.components[1][column] = 0.0;
        }
        Side { interior, exterior, normal, behind }
    }

    fn index(&self, component: usize, element: usize, node: usize) -> usize {
        (element * self.system.components.len() + component) * self.element.node_count() + node
    }

    /// Position of a node.
    pub fn position(&self, element: usize, node: usize) -> [f64; 3] {
        let weights = self.element.nodes[node];
        [0, 1, 2].map(|a: usize| (0..4).map(|corner| weights[corner] * self.corners[element][corner][a]).sum())
    }

    /// The right-hand side at a state and time.
    pub fn rate(&self, values: &[f64], time: f64) -> Vec<f64> {
        let mut rate = vec![0.0; self.len()];
        for element in 0..self.corners.len() {
            self.add_volume(values, time, element, &mut rate);
            for face in 0..4 {
                self.add_face(values, time, element, face, &mut rate);
            }
        }
        rate
    }

    fn add_volume(&self, values: &[f64], time: f64, element: usize, rate: &mut [f64]) {
        let nodes = self.element.node_count();
        for component in 0..self.system.components.len() {
            let first = self.index(component, element, 0);
            let own = &values[first..first + nodes];
            let slopes: Vec<Vec<f64>> = self.element.derivative.iter().map(|matrix| matrix.apply(own)).collect();
            for row in 0..self.system.components.len() {
                let target = self.index(row, element, 0);
                let coefficients = [0, 1, 2, 3].map(|l: usize| self.volume[element][l].at(row, component));
                if coefficients == [0.0; 4] {
                    continue;
                }
                for node in 0..nodes {
                    let slope: f64 = (0..3).map(|l| coefficients[l] * slopes[l][node]).sum();
                    rate[target + node] += slope + coefficients[3] * own[node];
                }
            }
        }
        for (row, source) in self.system.rates.iter().enumerate() {
            let Some(source) = &source.source else { continue };
            let mut at = self.point(element);
            at.time = time;
            for node in 0..nodes {
                at.position = self.position(element, node);
                rate[self.index(row, element, node)] += evaluate(source, &at);
            }
        }
    }

    fn add_face(&self, values: &[f64], time: f64, element: usize, face: usize, rate: &mut [f64]) {
        let (count, per_face) = (self.system.components.len(), self.element.face_node_count());
        let side = &self.faces[element][face];
        let mut difference = vec![vec![0.0; per_face]; count];
        for (place, &node) in self.element.face_nodes[face].iter().enumerate() {
            let interior: Vec<f64> = (0..count).map(|c| values[self.index(c, element, node)]).collect();
            let exterior: Vec<f64> = match &side.behind {
                Behind::Element(other, met) => (0..count).map(|c| values[self.index(c, *other, met[place])]).collect(),
                Behind::Boundary(number) => self.outside(*number, element, node, side.normal, &interior, time),
            };
            let (a, b) = (side.interior.apply(&interior), side.exterior.apply(&exterior));
            (0..count).for_each(|row| difference[row][place] = a[row] + b[row]);
        }
        for (row, values) in difference.iter().enumerate() {
            let target = self.index(row, element, 0);
            for node in 0..self.element.node_count() {
                let lift = &self.element.lift.row(node)[face * per_face..(face + 1) * per_face];
                rate[target + node] += dot(lift, values);
            }
        }
    }

    fn outside(
        &self,
        boundary: usize,
        element: usize,
        node: usize,
        normal: [f64; 3],
        interior: &[f64],
        time: f64,
    ) -> Vec<f64> {
        let mut at = self.point(element);
        at.components[0].copy_from_slice(interior);
        (at.normal, at.time, at.position) = (normal, time, self.position(element, node));
        self.system.boundaries[boundary].components.iter().map(|value: &Expr| evaluate(value, &at)).collect()
    }

    /// Advances registers of the system's time step by `dt` from `time`; register 0 is the state.
    pub fn advance(&self, registers: &mut [Vec<f64>], time: f64, dt: f64) {
        for stage in &self.system.step.stages {
            let rate = self.rate(&registers[0], time + stage.time * dt);
            self.stage(stage, registers, &rate, dt);
        }
    }

    fn stage(&self, stage: &Stage, registers: &mut [Vec<f64>], rate: &[f64], dt: f64) {
        for update in &stage.updates {
            let value = |at: usize| {
                let sum: f64 = update.terms.iter().map(|&(register, factor)| factor * registers[register][at]).sum();
                sum + update.rate * dt * rate[at]
            };
            let next: Vec<f64> = (0..rate.len()).map(value).collect();
            registers[update.register] = next;
        }
    }
}

/// Gradients of l1, l2, l3: rows of the inverse of the matrix of edges from corner 0.
pub fn barycentric(corners: &[[f64; 3]; 4]) -> [[f64; 3]; 3] {
    let edge = |i: usize| [0, 1, 2].map(|a: usize| corners[i][a] - corners[0][a]);
    let edges = [edge(1), edge(2), edge(3)];
    let cross =
        |a: [f64; 3], b: [f64; 3]| [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    let volume: f64 = super::mesh::six_volumes(corners);
    [cross(edges[1], edges[2]), cross(edges[2], edges[0]), cross(edges[0], edges[1])].map(|v| v.map(|x| x / volume))
}
