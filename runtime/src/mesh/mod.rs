//! Meshes of straight tetrahedra: from gmsh files ([`gmsh`]) or built in ([`cuboid`]).
//!
//! Whatever the source, [`raw`] is what was read and [`build`] makes a [`Mesh`] of it: elements turned to positive
//! orientation, every face joined to its neighbour ([`connect`], across periodic sides too) or given a boundary tag,
//! and everything numbered along a space-filling curve ([`locality`]). What cannot be a mesh is refused with the
//! element and the reason.

mod raw;
mod build;
mod connect;
mod locality;

pub mod cuboid;
pub mod gmsh;

use std::io;
use std::path::Path;

use kernelwright_codegen::galerkin::mesh::{FACE_VERTICES, six_volumes};

pub use cuboid::{Cuboid, Family};
pub use raw::{Link, Raw, Simplex};

/// Corners of the four faces of a tetrahedron: face f lies opposite corner f; its corners run counter-clockwise seen from
/// outside.
pub const FACES: [[usize; 3]; 4] = FACE_VERTICES;

/// Name of the boundary that the file gives no tag.
pub const UNTAGGED: &str = "untagged";

/// A mesh of tetrahedra, ready for computing.
#[derive(Debug, Clone, PartialEq)]
pub struct Mesh {
    /// Coordinates of the corners.
    pub vertices: Vec<[f64; 3]>,
    /// Corners of each element; `det [v1-v0, v2-v0, v3-v0]` is positive.
    pub elements: Vec<[u32; 4]>,
    /// Region of each element, an index into `region_names`.
    pub regions: Vec<u32>,
    /// Names of regions; those without a name in the file are called by their number.
    pub region_names: Vec<String>,
    /// What lies behind each of the four faces of each element ([`FACES`]).
    pub faces: Vec<[Behind; 4]>,
    /// Names of boundaries, in the order of [`Behind::Boundary`].
    pub boundary_names: Vec<String>,
    /// Tags of the elements in the file (for a built-in mesh: 1, 2, …), for messages.
    pub tags: Vec<u64>,
    /// What a user should know about how the mesh was read.
    pub notes: Vec<String>,
}

/// What lies behind a face.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Another element (or, on a periodic side, perhaps the same one).
    Element {
        /// Its number.
        element: u32,
        /// Which of its faces.
        face: u8,
        /// For each corner of this face, in the order of [`FACES`], the corner of the other face (0, 1, 2 in the same
        /// order) that lies there.
        corners: [u8; 3],
    },
    /// The outside, behind the boundary with this number.
    Boundary(u32),
}

impl Mesh {
    /// Coordinates of an element's corners.
    pub fn corners(&self, element: usize) -> [[f64; 3]; 4] {
        self.elements[element].map(|vertex| self.vertices[vertex as usize])
    }

    /// Volume of an element.
    pub fn volume(&self, element: usize) -> f64 {
        six_volumes(&self.corners(element)) / 6.0
    }

    /// Centre of gravity of an element.
    pub fn centre(&self, element: usize) -> [f64; 3] {
        centre(&self.corners(element))
    }

    /// Radius of the largest ball in an element: three volumes over the surface.
    pub fn inscribed_radius(&self, element: usize) -> f64 {
        let corners = self.corners(element);
        let surface: f64 = FACES.iter().map(|face| area(face.map(|corner| corners[corner]))).sum();
        six_volumes(&corners) / (2.0 * surface)
    }

    /// Smallest and largest coordinate along each axis.
    pub fn bounds(&self) -> [[f64; 3]; 2] {
        bounds(&self.vertices)
    }

    /// Number of faces on each boundary.
    pub fn boundary_faces(&self) -> Vec<usize> {
        let mut counts = vec![0; self.boundary_names.len()];
        for behind in self.faces.iter().flatten() {
            if let Behind::Boundary(boundary) = behind {
                counts[*boundary as usize] += 1;
            }
        }
        counts
    }
}

/// Why there is no mesh.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The operating system's reason.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A place of the file (`line 12`, or `byte 345` of a binary one) is not what it should be.
    #[error("{place}: {reason}")]
    At {
        /// Where.
        place: String,
        /// What is wrong.
        reason: String,
    },
    /// An element is not what it should be.
    #[error("element {tag}: {reason}")]
    Element {
        /// Its tag in the file.
        tag: u64,
        /// What is wrong.
        reason: String,
    },
    /// The file or what was asked for is not a mesh.
    #[error("{0}")]
    Format(String),
}

/// Reads a gmsh file (2.2 or 4.1, text or binary) and makes a mesh of it.
///
/// # Errors
/// A file that cannot be read, is not what it should be, or holds what is no mesh of straight tetrahedra.
pub fn read(path: &Path) -> Result<Mesh, MeshError> {
    let bytes = std::fs::read(path)?;
    Mesh::from_raw(gmsh::read(&bytes)?)
}

fn bad(reason: impl Into<String>) -> MeshError {
    MeshError::Format(reason.into())
}

fn subtract(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn length(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

fn area(corners: [[f64; 3]; 3]) -> f64 {
    0.5 * length(cross(subtract(corners[1], corners[0]), subtract(corners[2], corners[0])))
}

fn centre<const N: usize>(corners: &[[f64; 3]; N]) -> [f64; 3] {
    std::array::from_fn(|axis| corners.iter().map(|corner| corner[axis]).sum::<f64>() / N as f64)
}

fn longest_edge<const N: usize>(corners: &[[f64; 3]; N]) -> f64 {
    let mut longest: f64 = 0.0;
    for i in 0..N {
        for j in 0..i {
            longest = longest.max(length(subtract(corners[i], corners[j])));
        }
    }
    longest
}

fn bounds(points: &[[f64; 3]]) -> [[f64; 3]; 2] {
    let mut bounds = [[f64::INFINITY; 3], [f64::NEG_INFINITY; 3]];
    for point in points {
        for axis in 0..3 {
            bounds[0][axis] = bounds[0][axis].min(point[axis]);
            bounds[1][axis] = bounds[1][axis].max(point[axis]);
        }
    }
    bounds
}
