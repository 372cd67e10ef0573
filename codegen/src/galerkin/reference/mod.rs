//! The reference element: nodes, matrices and face maps of a tetrahedron of any order, computed in f64.
//!
//! Everything is in barycentric coordinates of the *unit* tetrahedron (volume 1/6): a point is (l0, l1, l2, l3) with sum
//! one, and l1, l2, l3 are the independent coordinates. For an affine element of volume V the physical gradient is
//! `sum over a of grad(l_a) * d/dl_a`, its mass matrix is 6 V times the one here, and the surface integral over face f
//! relative to the mass is `|grad(l_f)|` times the one here, because a face of area A opposite to vertex f has
//! `A / (3 V) = |grad(l_f)|`; its outer unit normal is `-grad(l_f) / |grad(l_f)|`.
//!
//! Modules: [`nodes`] places the nodes, [`basis`] is the orthonormal one that all matrices come from, [`dense`] solves,
//! [`symmetry`] takes matrices apart.

pub mod basis;
pub mod dense;
pub mod nodes;
pub mod symmetry;

use std::sync::OnceLock;

use self::dense::Matrix;
use super::mesh::FACE_VERTICES;

/// The highest order for which an element is made.
pub const MAX_ORDER: usize = 10;

/// A reference tetrahedron.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// Polynomial degree N.
    pub order: usize,
    /// Multi-index of every node: four numbers with sum N.
    pub lattice: Vec<[usize; 4]>,
    /// Barycentric coordinates of the nodes.
    pub nodes: Vec<[f64; 4]>,
    /// From nodal values to coefficients of the orthonormal basis: the inverse of the Vandermonde matrix.
    pub modal: Matrix,
    /// Mass matrix of the nodal basis on the unit tetrahedron.
    pub mass: Matrix,
    /// Derivatives by l1, l2, l3: `derivative[a]` maps nodal values to nodal values of the derivative.
    pub derivative: [Matrix; 3],
    /// Lift, nodes by face nodes (face after face): inverse mass times face mass.
    pub lift: Matrix,
    /// Mass matrix of a face on the unit triangle (area 1/2).
    pub face_mass: Matrix,
    /// Volume node of every face node, per face; face nodes stand in the order of [`Element::face_lattice`].
    pub face_nodes: [Vec<usize>; 4],
    /// Multi-index of every face node with respect to the vertices of the face ([`FACE_VERTICES`]).
    pub face_lattice: Vec<[usize; 3]>,
}

/// Why an element was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElementError {
    /// An order outside of what is supported.
    #[error("order {0}: orders 1 to {MAX_ORDER} are possible")]
    Order(usize),
}

/// Number of nodes of a tetrahedron.
pub fn node_count(order: usize) -> usize {
    (order + 1) * (order + 2) * (order + 3) / 6
}

/// Number of nodes of a face.
pub fn face_node_count(order: usize) -> usize {
    (order + 1) * (order + 2) / 2
}

impl Element {
    /// The element of an order, which is made once a process.
    ///
    /// # Errors
    /// An order of 0, or above [`MAX_ORDER`].
    pub fn new(order: usize) -> Result<Element, ElementError> {
        static MADE: [OnceLock<Element>; MAX_ORDER] = [const { OnceLock::new() }; MAX_ORDER];
        let made = order.checked_sub(1).and_then(|n| MADE.get(n)).ok_or(ElementError::Order(order))?;
        Ok(made.get_or_init(|| Element::of_order(order)).clone())
    }

    fn of_order(order: usize) -> Element {
        let lattice = nodes::tetrahedron(order);
        let nodes: Vec<[f64; 4]> = lattice.iter().map(|index| nodes::place(order, index)).collect();
        let face_lattice = nodes::triangle(order);
        let face_places: Vec<[f64; 3]> = face_lattice.iter().map(|index| nodes::place(order, index)).collect();
        let values: Vec<Vec<basis::Dual>> = nodes.iter().map(|at| basis::tetrahedron(order, *at)).collect();
        let vandermonde = Matrix::from_fn(nodes.len(), nodes.len(), |n, m| values[n][m].value);
        let inverse = vandermonde.inverse();
        let derivative = [0, 1, 2].map(|axis: usize| {
            Matrix::from_fn(nodes.len(), nodes.len(), |n, m| values[n][m].slope[axis]).times(&inverse)
        });
        let flat = Matrix::from_rows(face_places.iter().map(|at| basis::triangle(order, *at)).collect());
        let face_mass = flat.times(&flat.transposed()).inverse();
        let face_nodes = FACE_VERTICES.map(|corners| {
            let find = |index: &[usize; 3]| {
                let mut whole = [0; 4];
                (0..3).for_each(|i| whole[corners[i]] = index[i]);
                lattice.iter().position(|node| *node == whole).expect("a face's lattice is part of the element's")
            };
            face_lattice.iter().map(find).collect::<Vec<usize>>()
        });
        let per_face = face_lattice.len();
        let mut surface = Matrix::zeros(nodes.len(), 4 * per_face);
        for (face, nodes) in face_nodes.iter().enumerate() {
            for (i, &node) in nodes.iter().enumerate() {
                (0..per_face).for_each(|j| *surface.at_mut(node, face * per_face + j) = face_mass.at(i, j));
            }
        }
        let lift = vandermonde.times(&vandermonde.transposed()).times(&surface);
        let mass = inverse.transposed().times(&inverse);
        Element { order, lattice, nodes, modal: inverse, mass, derivative, lift, face_mass, face_nodes, face_lattice }
    }

    /// Nodes of the element, N_p.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Nodes of a face, N_fp.
    pub fn face_node_count(&self) -> usize {
        self.face_lattice.len()
    }

    /// Volume nodes of the neighbour that meet the face nodes of an element, in the order of the latter: the neighbour
    /// shares its face `face`, whose vertex `corners[i]` meets vertex i.
    pub fn met_nodes(&self, face: usize, corners: [u8; 3]) -> Vec<usize> {
        let met = |index: &[usize; 3]| {
            let mut other = [0; 3];
            (0..3).for_each(|i| other[corners[i] as usize % 3] = index[i]);
            let place = self.face_lattice.iter().position(|at| *at == other).expect("the lattice is symmetric");
            self.face_nodes[face % 4][place]
        };
        self.face_lattice.iter().map(met).collect()
    }

    /// Rows of weights that interpolate nodal values at points, given by barycentric coordinates.
    pub fn interpolation(&self, points: &[[f64; 4]]) -> Matrix {
        let values = |at: &[f64; 4]| basis::tetrahedron(self.order, *at).into_iter().map(|dual| dual.value).collect();
        Matrix::from_rows(points.iter().map(values).collect()).times(&self.modal)
    }
}
