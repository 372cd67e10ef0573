//! The built-in mesh: a box of cubes, each cut into tetrahedra.

use super::raw::{Link, Raw, Simplex};
use super::{Mesh, MeshError, bad};

/// How a cube is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Six tetrahedra around the diagonal (Kuhn): one for each order of the axes, from the low corner to the high one.
    Kuhn,
    /// Twelve: the centre with two triangles of each side.
    Centred,
}

/// A box of `cells` cubes along each axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Cuboid {
    /// Cubes along x, y, z.
    pub cells: [usize; 3],
    /// Corner with the smallest coordinates.
    pub low: [f64; 3],
    /// Corner with the largest coordinates.
    pub high: [f64; 3],
    /// Whether the sides along each axis are joined.
    pub periodic: [bool; 3],
    /// How cubes are cut.
    pub family: Family,
}

/// Names of the six sides, along x, y, z; low, high.
pub const SIDES: [&str; 6] = ["x_low", "x_high", "y_low", "y_high", "z_low", "z_high"];

/// Corners of each side of a cube in the order of its two other axes, by bits x, y, z.
const SQUARES: [[usize; 4]; 6] = [[0, 2, 4, 6], [1, 3, 5, 7], [0, 1, 4, 5], [2, 3, 6, 7], [0, 1, 2, 3], [4, 5, 6, 7]];

/// Most tetrahedra.
const LARGEST: u64 = 1 << 30;

impl Cuboid {
    /// The unit cube with n cubes along each axis and closed sides.
    pub fn unit(n: usize) -> Cuboid {
        Cuboid { cells: [n; 3], low: [0.0; 3], high: [1.0; 3], periodic: [false; 3], family: Family::Kuhn }
    }

    /// The same with all sides joined.
    pub fn periodic(self) -> Cuboid {
        Cuboid { periodic: [true; 3], ..self }
    }

    /// The same with cubes cut in another way.
    pub fn family(self, family: Family) -> Cuboid {
        Cuboid { family, ..self }
    }

    /// The mesh.
    ///
    /// # Errors
    /// No cubes, too many, or a box without inside.
    pub fn mesh(&self) -> Result<Mesh, MeshError> {
        self.check()?;
        Mesh::from_raw(self.raw())
    }

    fn check(&self) -> Result<(), MeshError> {
        let [nx, ny, nz] = self.cells.map(|n| n as u64);
        let cubes = nx.checked_mul(ny).and_then(|n| n.checked_mul(nz)).filter(|n| *n <= LARGEST / 12);
        match cubes {
            None => Err(bad("the box has more than 2^30 tetrahedra")),
            Some(0) => Err(bad("a box has at least one cube along each axis")),
            Some(_) if !(0..3).all(|axis| self.low[axis] < self.high[axis]) => {
                Err(bad("the low corner of a box is below the high one along each axis"))
            }
            Some(_) => Ok(()),
        }
    }

    /// The box as a file would hold it.
    pub fn raw(&self) -> Raw {
        let mut raw = Raw { nodes: self.nodes(), ..Raw::default() };
        raw.names.push((3, 1, "box".to_string()));
        raw.names.extend(SIDES.iter().zip(1..).map(|(name, tag)| (2, tag, name.to_string())));
        for k in 0..self.cells[2] {
            for j in 0..self.cells[1] {
                for i in 0..self.cells[0] {
                    self.cut([i, j, k], &mut raw);
                }
            }
        }
        raw.links = (0..3).filter(|axis| self.periodic[*axis]).map(|axis| self.link(axis)).collect();
        raw
    }

    fn nodes(&self) -> Vec<(u64, [f64; 3])> {
        let mut nodes = Vec::new();
        for k in 0..=self.cells[2] {
            for j in 0..=self.cells[1] {
                for i in 0..=self.cells[0] {
                    let at = [i as f64, j as f64, k as f64];
                    nodes.push((self.corner([i, j, k]), self.point(at)));
                }
            }
        }
        if self.family == Family::Centred {
            for k in 0..self.cells[2] {
                for j in 0..self.cells[1] {
                    for i in 0..self.cells[0] {
                        let at = [i as f64 + 0.5, j as f64 + 0.5, k as f64 + 0.5];
                        nodes.push((self.middle([i, j, k]), self.point(at)));
                    }
                }
            }
        }
        nodes
    }

    fn point(&self, at: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|axis| {
            let part = at[axis] / self.cells[axis] as f64;
            self.low[axis] * (1.0 - part) + self.high[axis] * part
        })
    }

    /// Tag of a corner of cubes.
    fn corner(&self, at: [usize; 3]) -> u64 {
        let [nx, ny, _] = self.cells;
        (1 + at[0] + (nx + 1) * (at[1] + (ny + 1) * at[2])) as u64
    }

    /// Tag of a cube's centre.
    fn middle(&self, at: [usize; 3]) -> u64 {
        let [nx, ny, _] = self.cells;
        self.corner(self.cells) + (1 + at[0] + nx * (at[1] + ny * at[2])) as u64
    }

    /// Cuts one cube, and gives its sides on the outside their tags.
    fn cut(&self, at: [usize; 3], raw: &mut Raw) {
        let corner = |bits: usize| self.corner(std::array::from_fn(|axis| at[axis] + (bits >> axis & 1)));
        let mut add = |nodes: [u64; 4]| {
            let tag = raw.tetrahedra.len() as u64 + 1;
            raw.tetrahedra.push(Simplex { tag, group: 1, nodes });
        };
        match self.family {
            Family::Kuhn => {
                for [a, b] in [[1, 2], [1, 4], [2, 1], [2, 4], [4, 1], [4, 2]] {
                    add([corner(0), corner(a), corner(a | b), corner(7)]);
                }
            }
            Family::Centred => {
                for triangle in SQUARES.iter().flat_map(triangles) {
                    let [a, b, c] = triangle.map(corner);
                    add([self.middle(at), a, b, c]);
                }
            }
        }
        for (side, square) in SQUARES.iter().enumerate() {
            let axis = side / 2;
            let outside = if side % 2 == 0 { at[axis] == 0 } else { at[axis] + 1 == self.cells[axis] };
            if outside && !self.periodic[axis] {
                for triangle in triangles(square) {
                    let tag = raw.triangles.len() as u64 + 1;
                    raw.triangles.push(Simplex { tag, group: side as i64 + 1, nodes: triangle.map(corner) });
                }
            }
        }
    }

    fn link(&self, axis: usize) -> Link {
        let (one, two) = ((axis + 1) % 3, (axis + 2) % 3);
        let mut pairs = Vec::new();
        for j in 0..=self.cells[one] {
            for k in 0..=self.cells[two] {
                let mut at = [0; 3];
                (at[one], at[two]) = (j, k);
                let low = self.corner(at);
                at[axis] = self.cells[axis];
                pairs.push((low, self.corner(at)));
            }
        }
        Link { name: format!("{} - {}", SIDES[2 * axis], SIDES[2 * axis + 1]), pairs }
    }
}

/// A side of a cube, cut from its low corner to its high one, as Kuhn's tetrahedra cut it too.
fn triangles(square: &[usize; 4]) -> [[usize; 3]; 2] {
    [[square[0], square[1], square[3]], [square[0], square[2], square[3]]]
}
