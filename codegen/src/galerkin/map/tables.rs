//! Buffers that never change: matrices and maps of the reference element, connectivity and geometry of the mesh.

use super::context::Context;
use super::symmetric::{self, Split};
use super::variant::Geometry;
use super::{MapError, Target};
use crate::galerkin::mesh::{FACE_VERTICES, Face, Mesh, six_volumes};
use crate::galerkin::module::Contents;
use crate::galerkin::reference::dense::Matrix;
use crate::kernel::Element;

/// The ways in which the corners of two faces can meet; the first is the identity.
pub(super) const PERMUTATIONS: [[u8; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// A joint is `tag * JOINTS + face * 6 + permutation`; the tag is 0 for shared faces, else one more than the boundary.
pub(super) const JOINTS: usize = 32;

/// Matrices and maps of the reference element.
pub(super) fn reference(cx: &mut Context<'_>) {
    let real = cx.options.precision;
    let element = cx.element;
    match Split::of(cx.variant(), element.order, cx.shape.wide).filter(|_| cx.options.target == Target::Cuda) {
        Some(split) => symmetric::tables(cx, split),
        None => {
            let derivative: Vec<f64> = element.derivative.iter().flat_map(|matrix| packed(cx, matrix)).collect();
            cx.ids.derivative = cx.constant("derivative", real, derivative);
            let lift = packed(cx, &element.lift);
            cx.ids.lift = cx.constant("lift", real, lift);
        }
    }
    let nodes = element.node_count();
    let mass = (0..nodes * nodes).map(|n| element.mass.at(n / nodes, n % nodes)).collect();
    cx.ids.mass = cx.constant("mass", Element::F64, mass);
    let face_nodes = element.face_nodes.iter().flatten().map(|&n| n as f64).collect();
    cx.ids.face_nodes = cx.constant("face_nodes", Element::U16, face_nodes);
    let met = (0..4).flat_map(|face| PERMUTATIONS.map(|corners| element.met_nodes(face, corners)));
    let met = met.flatten().map(|n| n as f64).collect();
    cx.ids.met_nodes = cx.constant("met_nodes", Element::U16, met);
    if cx.reads_position() {
        let places = element.nodes.iter().flat_map(|at| [at[1], at[2], at[3]]).collect();
        cx.ids.places = cx.constant("places", real, places);
    }
    if cx.variant().geometry == Geometry::Vertices {
        let corners = FACE_VERTICES.iter().flatten().map(|&v| v as f64).collect();
        cx.ids.face_corners = cx.constant("face_corners", Element::U16, corners);
    }
}

/// A matrix as kernels read it. GPU: `[column / wide][row][column % wide]`, so that lanes (rows) load neighbouring vectors,
/// with rows of zeros where lanes have none;
/// host: row by row.
fn packed(cx: &Context<'_>, matrix: &Matrix) -> Vec<f64> {
    let (rows, columns) = (matrix.rows(), matrix.columns());
    if cx.options.target == Target::Host {
        return (0..rows * columns).map(|n| matrix.at(n / columns, n % columns)).collect();
    }
    let (wide, all_rows) = (cx.shape.wide, cx.shape.all_rows);
    let mut list = vec![0.0; all_rows * columns.next_multiple_of(wide)];
    for row in 0..rows {
        for column in 0..columns {
            list[(column / wide * all_rows + row) * wide + column % wide] = matrix.at(row, column);
        }
    }
    list
}

/// Connectivity and geometry.
pub(super) fn mesh(cx: &mut Context<'_>, mesh: &Mesh) -> Result<(), MapError> {
    let (count, padded) = (mesh.elements.len(), cx.shape.padded);
    let per = |cx: &Context<'_>, element: usize, number: usize, of: usize| match cx.options.target {
        Target::Cuda => element * of + number,
        Target::Host => {
            let pack = cx.shape.parallel;
            (element / pack * of + number) * pack + element % pack
        }
    };
    let (mut neighbour, mut joint) = (vec![0.0; 4 * padded], vec![0.0; 4 * padded]);
    let mut gradients = vec![0.0; 9 * padded];
    let mut vertex_ids = vec![0.0; 4 * padded];
    let mut measure = vec![0.0; padded];
    for element in 0..padded {
        // Padding is like the first element, but nobody's neighbour.
        let source = if element < count { element } else { 0 };
        for face in 0..4 {
            let at = per(cx, element, face, 4);
            let (other, code) =
                if element < count { meeting(mesh, element, face)? } else { (element, face * PERMUTATIONS.len()) };
            neighbour[at] = other as f64;
            joint[at] = code as f64;
            vertex_ids[at] = f64::from(mesh.elements[source][face]);
        }
        let corners = mesh.corners(source);
        for (number, value) in gradients_of(&corners).into_iter().enumerate() {
            gradients[per(cx, element, number, 9)] = value;
        }
        measure[element] = if element < count { six_volumes(&corners) } else { 0.0 };
    }
    cx.ids.neighbour = cx.constant("neighbour", Element::I32, neighbour);
    cx.ids.joint = cx.constant("joint", Element::U16, joint);
    cx.ids.measure = cx.constant("measure", Element::F64, measure);
    let real = cx.options.precision;
    if cx.variant().geometry != Geometry::Vertices {
        cx.ids.gradients = cx.constant("gradients", real, gradients);
    }
    if cx.reads_vertices() {
        cx.ids.vertex_ids = cx.constant("vertex_ids", Element::I32, vertex_ids);
        let vertices: Vec<f64> = mesh.vertices.iter().flatten().copied().collect();
        cx.ids.vertices = cx.add("vertices", real, vertices.len(), Contents::Values(vertices));
    }
    Ok(())
}

/// The neighbour and the joint of a face.
fn meeting(mesh: &Mesh, element: usize, face: usize) -> Result<(usize, usize), MapError> {
    match mesh.faces[element][face] {
        Face::Shared { element: other, face: other_face, corners } => {
            let permutation = PERMUTATIONS.iter().position(|p| *p == corners);
            let permutation =
                permutation.ok_or_else(|| MapError::Internal("corners of a face are no permutation".into()))?;
            Ok((other as usize, other_face as usize * PERMUTATIONS.len() + permutation))
        }
        // The element itself, so that what is read in its stead exists and is the interior value.
        Face::Boundary(tag) => {
            let joint = (tag as usize + 1) * JOINTS + face * PERMUTATIONS.len();
            if joint > usize::from(u16::MAX) {
                return Err(MapError::Unsupported(format!("{tag} boundary conditions")));
            }
            Ok((element, joint))
        }
    }
}

/// Gradients of l1, l2, l3, three numbers each.
fn gradients_of(corners: &[[f64; 3]; 4]) -> [f64; 9] {
    let volume = six_volumes(corners);
    let mut list = [0.0; 9];
    for (number, value) in list.iter_mut().enumerate() {
        let (vertex, axis) = (number / 3 + 1, number % 3);
        let [a, b, c] = FACE_VERTICES[vertex].map(|v| corners[v]);
        let (i, j) = ((axis + 1) % 3, (axis + 2) % 3);
        let outward = (b[i] - a[i]) * (c[j] - a[j]) - (b[j] - a[j]) * (c[i] - a[i]);
        *value = -outward / volume;
    }
    list
}
