//! Discontinuous Galerkin in plain dense algebra: shares the reference element's nodes and matrices with the compiler, and
//! the values of expressions, but no code that makes kernels. Face nodes meet by position.

use kernelwright_codegen::galerkin::evaluate::{Point, evaluate};
use kernelwright_codegen::galerkin::mesh::{Face, Mesh};
use kernelwright_codegen::galerkin::reference::Element;
use kernelwright_codegen::galerkin::reference::dense::Matrix;
use kernelwright_codegen::galerkin::system::System;

pub struct Oracle<'a> {
    pub system: &'a System,
    pub mesh: &'a Mesh,
    pub element: &'a Element,
    pub params: Vec<f64>,
    /// Per material, per element.
    pub materials: Vec<Vec<f64>>,
    inverse_mass: Matrix,
    geometry: Vec<Geometry>,
}

struct Geometry {
    positions: Vec<[f64; 3]>,
    /// Columns of the inverse of the edge matrix: gradients of l1, l2, l3.
    gradients: Matrix,
    six_volumes: f64,
    /// Per face: unit normal and twice the area.
    faces: Vec<([f64; 3], f64)>,
}

fn minus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

impl Geometry {
    fn of(corners: [[f64; 3]; 4], element: &Element) -> Geometry {
        let edges = [1, 2, 3].map(|v: usize| minus(corners[v], corners[0]));
        let matrix = Matrix::from_fn(3, 3, |row, column| edges[row][column]);
        let position =
            |at: &[f64; 4]| [0, 1, 2].map(|axis: usize| (0..4).map(|v| at[v] * corners[v][axis]).sum::<f64>());
        let faces = (0..4).map(|f| {
            let [a, b, c] = [(f + 1) % 4, (f + 2) % 4, (f + 3) % 4].map(|v| corners[v]);
            let area = cross(minus(b, a), minus(c, a));
            let length = dot(area, area).sqrt();
            // Outward: away from the vertex opposite to the face.
            let sign = if dot(area, minus(a, corners[f])) > 0.0 { 1.0 } else { -1.0 };
            (area.map(|x| sign * x / length), length)
        });
        Geometry {
            positions: element.nodes.iter().map(position).collect(),
            gradients: matrix.inverse(),
            six_volumes: dot(edges[0], cross(edges[1], edges[2])).abs(),
            faces: faces.collect(),
        }
    }
}

impl<'a> Oracle<'a> {
    pub fn new(
        system: &'a System,
        mesh: &'a Mesh,
        element: &'a Element,
        params: &[f64],
        materials: &[Vec<f64>],
    ) -> Oracle<'a> {
        let geometry = (0..mesh.elements.len()).map(|e| Geometry::of(mesh.corners(e), element)).collect();
        Oracle {
            system,
            mesh,
            element,
            params: params.to_vec(),
            materials: materials.to_vec(),
            inverse_mass: element.mass.inverse(),
            geometry,
        }
    }

    fn nodes(&self) -> usize {
        self.element.node_count()
    }

    fn components(&self) -> usize {
        self.system.components.len()
    }

    pub fn index(&self, element: usize, component: usize, node: usize) -> usize {
        (element * self.components() + component) * self.nodes() + node
    }

    /// Values of a function of component and position.
    pub fn project(&self, f: impl Fn(usize, [f64; 3]) -> f64) -> Vec<f64> {
        let mut values = Vec::new();
        for geometry in &self.geometry {
            for c in 0..self.components() {
                values.extend(geometry.positions.iter().map(|at| f(c, *at)));
            }
        }
        values
    }

    fn point(&self, element: usize, node: usize, time: f64) -> Point {
        let materials: Vec<f64> = self.materials.iter().map(|m| m[element]).collect();
        Point {
            params: self.params.clone(),
            materials: [materials.clone(), materials],
            position: self.geometry[element].positions[node],
            time,
            ..Point::default()
        }
    }

    fn at(&self, state: &[f64], element: usize, node: usize) -> Vec<f64> {
        (0..self.components()).map(|c| state[self.index(element, c, node)]).collect()
    }

    /// The rate of a state.
    pub fn rate(&self, state: &[f64], time: f64) -> Vec<f64> {
        let mut rate = vec![0.0; state.len()];
        for element in 0..self.mesh.elements.len() {
            self.volume(state, time, element, &mut rate);
            self.surface(state, time, element, &mut rate);
        }
        rate
    }

    fn volume(&self, state: &[f64], time: f64, element: usize, rate: &mut [f64]) {
        let geometry = &self.geometry[element];
        let field = |c: usize| &state[self.index(element, c, 0)..self.index(element, c, 0) + self.nodes()];
        for (c, rule) in self.system.rates.iter().enumerate() {
            for term in &rule.terms {
                let value = match term.axis {
                    None => field(term.component).to_vec(),
                    Some(axis) => {
                        let mut sum = vec![0.0; self.nodes()];
                        for a in 0..3 {
                            let part = self.element.derivative[a].apply(field(term.component));
                            let factor = geometry.gradients.at(axis, a);
                            sum.iter_mut().zip(part).for_each(|(s, p)| *s += factor * p);
                        }
                        sum
                    }
                };
                for (node, value) in value.into_iter().enumerate() {
                    let coefficient = evaluate(&term.coefficient, &self.point(element, node, time));
                    rate[self.index(element, c, node)] += coefficient * value;
                }
            }
            if let Some(source) = &rule.source {
                for node in 0..self.nodes() {
                    rate[self.index(element, c, node)] += evaluate(source, &self.point(element, node, time));
                }
            }
        }
    }

    fn surface(&self, state: &[f64], time: f64, element: usize, rate: &mut [f64]) {
        let geometry = &self.geometry[element];
        for c in 0..self.components() {
            let mut load = vec![0.0; self.nodes()];
            for face in 0..4 {
                let nodes = &self.element.face_nodes[face];
                let corrections: Vec<f64> = nodes
                    .iter()
                    .map(|&node| {
                        let at = self.face_point(state, time, element, face, node);
                        evaluate(&self.system.flux[c], &at) - evaluate(&self.system.physical_flux(c), &at)
                    })
                    .collect();
                let weighted = self.element.face_mass.apply(&corrections);
                // The face's Jacobian is twice its area, the element's six times its volume.
                let scale = geometry.faces[face].1 / geometry.six_volumes;
                nodes.iter().zip(weighted).for_each(|(&node, w)| load[node] += scale * w);
            }
            let lifted = self.inverse_mass.apply(&load);
            lifted.iter().enumerate().for_each(|(node, value)| rate[self.index(element, c, node)] += value);
        }
    }

    fn face_point(&self, state: &[f64], time: f64, element: usize, face: usize, node: usize) -> Point {
        let mut at = self.point(element, node, time);
        at.normal = self.geometry[element].faces[face].0;
        at.components[0] = self.at(state, element, node);
        match self.mesh.faces[element][face] {
            Face::Shared { element: other, face: other_face, .. } => {
                let (other, other_face) = (other as usize, other_face as usize);
                let met = self.meets((element, face, node), (other, other_face));
                at.components[1] = self.at(state, other, met);
                at.materials[1] = self.materials.iter().map(|m| m[other]).collect();
            }
            Face::Boundary(tag) => {
                let boundary = &self.system.boundaries[tag as usize];
                let exterior = boundary.components.iter().map(|e| evaluate(e, &at)).collect();
                let materials = boundary.materials.iter().map(|e| evaluate(e, &at)).collect();
                at.components[1] = exterior;
                at.materials[1] = materials;
            }
        }
        at
    }

    /// The node of the other face at the same place, relative to the centres of the faces (which differ if periodic).
    fn meets(&self, (element, face, node): (usize, usize, usize), (other, other_face): (usize, usize)) -> usize {
        let centre = |element: usize, face: usize| {
            let nodes = &self.element.face_nodes[face];
            let places = nodes.iter().map(|&n| self.geometry[element].positions[n]);
            places.fold([0.0; 3], |sum, p| [0, 1, 2].map(|a: usize| sum[a] + p[a] / nodes.len() as f64))
        };
        let wanted = minus(self.geometry[element].positions[node], centre(element, face));
        let there = centre(other, other_face);
        let distance = |n: usize| {
            let d = minus(minus(self.geometry[other].positions[n], there), wanted);
            dot(d, d)
        };
        let nearest =
            self.element.face_nodes[other_face].iter().copied().min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        let nearest = nearest.expect("faces have nodes");
        assert!(distance(nearest) < 1e-18, "face nodes do not meet: {}", distance(nearest));
        nearest
    }

    /// One step of the system's scheme.
    pub fn step(&self, registers: &mut [Vec<f64>], time: f64, dt: f64) {
        for stage in &self.system.step.stages {
            let rate = self.rate(&registers[0], time + stage.time * dt);
            for update in &stage.updates {
                let new = (0..rate.len()).map(|n| {
                    let sum: f64 = update.terms.iter().map(|&(r, factor)| factor * registers[r][n]).sum();
                    sum + update.rate * dt * rate[n]
                });
                registers[update.register] = new.collect();
            }
        }
    }

    /// Energy with given weights per component and element.
    pub fn energy(&self, state: &[f64], weight: impl Fn(usize, usize) -> f64) -> f64 {
        let mut sum = 0.0;
        for element in 0..self.mesh.elements.len() {
            for c in 0..self.components() {
                let first = self.index(element, c, 0);
                let field = &state[first..first + self.nodes()];
                let weighted = self.element.mass.apply(field);
                let square: f64 = field.iter().zip(weighted).map(|(a, b)| a * b).sum();
                sum += weight(element, c) * self.geometry[element].six_volumes * square;
            }
        }
        sum
    }
}
