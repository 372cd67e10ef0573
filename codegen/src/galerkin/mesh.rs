//! The mesh that kernels are made for: plain arrays, filled by whoever reads or generates meshes.
//!
//! # Conventions
//! - an element is four vertices with positive volume: (v1 - v0) x (v2 - v0) . (v3 - v0) > 0;
//! - face f of an element is the one opposite to its vertex f, with the vertices [`FACE_VERTICES`]`[f]`, counter-clockwise
//!   seen from outside;
//! - a face is shared with the face of another element (or of the element itself, where a periodic box is one element
//!   wide) or lies on a boundary; sharing is mutual and has the same vertices, up to a translation if periodic.

/// Local vertices of a face, counter-clockwise seen from outside of the element.
pub const FACE_VERTICES: [[usize; 3]; 4] = [[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]];

/// A mesh of tetrahedra.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mesh {
    /// Coordinates of the vertices.
    pub vertices: Vec<[f64; 3]>,
    /// Vertices of the elements.
    pub elements: Vec<[u32; 4]>,
    /// What is on the other side of every face.
    pub faces: Vec<[Face; 4]>,
    /// Region of every element, a number that the driver gives meaning to (materials).
    pub regions: Vec<u32>,
}

/// The other side of a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Face {
    /// Face `face` of element `element`. `corners[i]` says which vertex of that face (0, 1 or 2, in the order of
    /// [`FACE_VERTICES`]) meets vertex i of this one: by vertex numbers, or by position where the face is periodic.
    Shared {
        /// The neighbour.
        element: u32,
        /// Its face.
        face: u8,
        /// Vertices of the neighbour's face by vertices of this one.
        corners: [u8; 3],
    },
    /// A boundary condition, by its number in [`System::boundaries`](super::system::System::boundaries).
    Boundary(u32),
}

/// What is wrong with a mesh.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeshError {
    /// An array of the wrong length.
    #[error("{array} has {len} entries where {expected} elements are")]
    Length {
        /// Which one.
        array: &'static str,
        /// Its length.
        len: usize,
        /// Number of elements.
        expected: usize,
    },
    /// No elements, or more than can be numbered.
    #[error("a mesh of {0} elements; 1 to 2^31 - 1 are possible")]
    Size(usize),
    /// Something of an element.
    #[error("element {element}: {why}")]
    Element {
        /// Number of the element, from 0.
        element: usize,
        /// What is wrong.
        why: String,
    },
}

impl Mesh {
    /// Coordinates of an element's vertices.
    pub fn corners(&self, element: usize) -> [[f64; 3]; 4] {
        self.elements[element].map(|vertex| self.vertices[vertex as usize])
    }

    /// Checks lengths, ids, volumes and that sharing is mutual; the first fault is reported.
    pub fn verify(&self, boundaries: usize) -> Result<(), MeshError> {
        let expected = self.elements.len();
        for (array, len) in [("faces", self.faces.len()), ("regions", self.regions.len())] {
            if len != expected {
                return Err(MeshError::Length { array, len, expected });
            }
        }
        if expected == 0 || expected > i32::MAX as usize {
            return Err(MeshError::Size(expected));
        }
        for element in 0..expected {
            self.element(element, boundaries).map_err(|why| MeshError::Element { element, why })?;
        }
        Ok(())
    }

    fn element(&self, element: usize, boundaries: usize) -> Result<(), String> {
        if let Some(vertex) = self.elements[element].iter().find(|&&v| v as usize >= self.vertices.len()) {
            return Err(format!("there is no vertex {vertex}"));
        }
        let volume = six_volumes(&self.corners(element));
        if !(volume > 0.0 && volume.is_finite()) {
            return Err(format!("six times its volume is {volume}; it must be positive"));
        }
        for (number, face) in self.faces[element].iter().enumerate() {
            match *face {
                Face::Boundary(tag) if tag as usize >= boundaries => {
                    return Err(format!("face {number} has boundary {tag}; there are {boundaries}"));
                }
                Face::Boundary(_) => {}
                Face::Shared { element: other, face, corners } => {
                    self.shared(element, number, (other, face, corners)).ok_or_else(|| {
                        format!("face {number} is shared with face {face} of {other}, not so the reverse")
                    })?;
                }
            }
        }
        Ok(())
    }

    fn shared(&self, element: usize, number: usize, (other, face, corners): (u32, u8, [u8; 3])) -> Option<()> {
        let back = self.faces.get(other as usize)?.get(face as usize)?;
        let Face::Shared { element: own, face: own_face, corners: inverse } = *back else { return None };
        let mutual = own as usize == element && own_face as usize == number;
        let inverted = (0..3).all(|i| corners[i] < 3 && inverse.get(corners[i] as usize) == Some(&(i as u8)));
        (mutual && inverted).then_some(())
    }
}

/// Six times the volume of a tetrahedron, negative if inverted.
pub fn six_volumes(corners: &[[f64; 3]; 4]) -> f64 {
    let edge = |i: usize| [0, 1, 2].map(|a: usize| corners[i][a] - corners[0][a]);
    let (a, b, c) = (edge(1), edge(2), edge(3));
    a[0] * (b[1] * c[2] - b[2] * c[1]) + a[1] * (b[2] * c[0] - b[0] * c[2]) + a[2] * (b[0] * c[1] - b[1] * c[0])
}
