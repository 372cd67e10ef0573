//! VTK unstructured grids (.vtu) of high-order Lagrange tetrahedra, and series of them in time (.pvd).
//!
//! Every element has points of its own, because fields are discontinuous: a lattice of the element's order, in the order
//! that VTK gives to Lagrange tetrahedra (cell type 71): corners, edges, faces, then the inner ones as a tetrahedron of
//! order n - 4; on a face likewise as triangles. ParaView draws them curved within if asked to ("Nonlinear Subdivision
//! Level"). The file is XML with one appended block of raw binary, as in [`vti`](super::vti).

use std::io::{self, Write};
use std::path::Path;

use super::vti::escape;

/// VTK's number of Lagrange tetrahedra.
const LAGRANGE_TETRAHEDRON: u8 = 71;

/// Edges from their first to their second corner.
const EDGES: [[usize; 2]; 6] = [[0, 1], [1, 2], [2, 0], [0, 3], [1, 3], [2, 3]];

/// Corners of faces in the order in which their inner points are numbered.
const FACES: [[usize; 3]; 4] = [[0, 1, 3], [2, 3, 1], [0, 3, 2], [0, 2, 1]];

/// Values of one field at all points.
pub struct Field {
    /// Name, shown by ParaView.
    pub name: String,
    /// Values per point: 1, or 3 for a vector.
    pub components: usize,
    /// `components` values for every point.
    pub values: Vec<f64>,
}

/// A grid of elements of one order.
pub struct Grid<'g> {
    /// Coordinates of all points, element after element, each in the order of [`lattice`].
    pub points: &'g [[f64; 3]],
    /// Order of the elements.
    pub order: usize,
    /// A name and one value for every element.
    pub cells: &'g [(String, Vec<f64>)],
}

/// Points of a tetrahedron in VTK's order, as multi-indices: four numbers with sum `order`, one for each corner.
pub fn lattice(order: usize) -> Vec<[usize; 4]> {
    let corner = |i: usize| std::array::from_fn(|c| usize::from(c == i));
    inner(order, &[0, 1, 2, 3].map(corner), [0; 4])
}

/// Points of a simplex with corners along unit vectors, shifted. A point of order zero is one point.
fn inner(order: usize, corners: &[[usize; 4]; 4], shift: [usize; 4]) -> Vec<[usize; 4]> {
    let mut points = Vec::new();
    if order == 0 {
        return vec![shift];
    }
    let at = |weights: &[(usize, usize)]| {
        let mut point = shift;
        weights.iter().for_each(|(corner, weight)| (0..4).for_each(|c| point[c] += weight * corners[*corner][c]));
        point
    };
    points.extend((0..4).map(|corner| at(&[(corner, order)])));
    for [from, to] in EDGES {
        points.extend((1..order).map(|step| at(&[(from, order - step), (to, step)])));
    }
    for face in FACES {
        points.extend(
            triangle(order)
                .iter()
                .map(|weights| at(&[(face[0], weights[0]), (face[1], weights[1]), (face[2], weights[2])])),
        );
    }
    if order >= 4 {
        let one = at(&[(0, 1), (1, 1), (2, 1), (3, 1)]);
        points.extend(inner(order - 4, corners, one));
    }
    points
}

/// Inner points of a triangle of an order, in VTK's order.
fn triangle(order: usize) -> Vec<[usize; 3]> {
    let mut points = Vec::new();
    let (mut left, mut shift) = (order.checked_sub(3), 1);
    while let Some(order) = left {
        let at = |weights: [usize; 3]| weights.map(|weight| weight + shift);
        if order == 0 {
            points.push(at([0; 3]));
            break;
        }
        points.extend([at([order, 0, 0]), at([0, order, 0]), at([0, 0, order])]);
        for [from, to] in [[0, 1], [1, 2], [2, 0]] {
            for step in 1..order {
                let mut weights = [0; 3];
                (weights[from], weights[to]) = (order - step, step);
                points.push(at(weights));
            }
        }
        shift += 1;
        left = order.checked_sub(3);
    }
    points
}

/// Writes a grid with its fields.
///
/// # Errors
/// The operating system's.
pub fn write(mut target: impl Write, grid: &Grid, fields: &[Field]) -> io::Result<()> {
    let points = grid.points.len();
    let nodes = (grid.order + 1) * (grid.order + 2) * (grid.order + 3) / 6;
    let cells = points / nodes;
    let mut arrays = Appended::default();
    writeln!(target, "<?xml version=\"1.0\"?>")?;
    writeln!(
        target,
        "<VTKFile type=\"UnstructuredGrid\" version=\"1.0\" byte_order=\"LittleEndian\" header_type=\"UInt64\">"
    )?;
    writeln!(target, "<UnstructuredGrid><Piece NumberOfPoints=\"{points}\" NumberOfCells=\"{cells}\">")?;
    writeln!(target, "<PointData>")?;
    for field in fields {
        arrays.add(&mut target, "Float64", &field.name, field.components, bytes(&field.values))?;
    }
    writeln!(target, "</PointData>\n<CellData>")?;
    for (name, values) in grid.cells {
        arrays.add(&mut target, "Float64", name, 1, bytes(values))?;
    }
    writeln!(target, "</CellData>\n<Points>")?;
    arrays.add(&mut target, "Float64", "points", 3, bytes(grid.points.as_flattened()))?;
    writeln!(target, "</Points>\n<Cells>")?;
    let connectivity = (0..points as i64).flat_map(i64::to_le_bytes).collect();
    arrays.add(&mut target, "Int64", "connectivity", 1, connectivity)?;
    let offsets = (1..=cells).flat_map(|cell| ((cell * nodes) as i64).to_le_bytes()).collect();
    arrays.add(&mut target, "Int64", "offsets", 1, offsets)?;
    arrays.add(&mut target, "UInt8", "types", 1, vec![LAGRANGE_TETRAHEDRON; cells])?;
    writeln!(target, "</Cells></Piece></UnstructuredGrid>\n<AppendedData encoding=\"raw\">")?;
    write!(target, "_")?;
    target.write_all(&arrays.data)?;
    writeln!(target, "\n</AppendedData></VTKFile>")?;
    target.flush()
}

/// The block behind the XML.
#[derive(Default)]
struct Appended {
    data: Vec<u8>,
}

impl Appended {
    /// Names an array in the XML and appends its length and bytes.
    fn add(
        &mut self,
        target: &mut impl Write,
        kind: &str,
        name: &str,
        components: usize,
        bytes: Vec<u8>,
    ) -> io::Result<()> {
        let offset = self.data.len();
        writeln!(
            target,
            "<DataArray type=\"{kind}\" Name=\"{}\" NumberOfComponents=\"{components}\" format=\"appended\" \
             offset=\"{offset}\"/>",
            escape(name)
        )?;
        self.data.extend((bytes.len() as u64).to_le_bytes());
        self.data.extend(bytes);
        Ok(())
    }
}

fn bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Writes the list of a series: times and files, which are named relative to it.
///
/// # Errors
/// The operating system's.
pub fn series(path: &Path, files: &[(f64, String)]) -> io::Result<()> {
    let mut text =
        String::from("<?xml version=\"1.0\"?>\n<VTKFile type=\"Collection\" version=\"1.0\">\n<Collection>\n");
    for (time, file) in files {
        text.push_str(&format!("<DataSet timestep=\"{time}\" part=\"0\" file=\"{}\"/>\n", escape(file)));
    }
    text.push_str("</Collection>\n</VTKFile>\n");
    std::fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_of_the_lattice_once() {
        for order in 1..=9 {
            let points = lattice(order);
            assert_eq!(points.len(), (order + 1) * (order + 2) * (order + 3) / 6);
            assert!(points.iter().all(|point| point.iter().sum::<usize>() == order));
            let mut sorted = points.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), points.len(), "order {order}");
        }
    }

    #[test]
    fn points_stand_in_vtks_order() {
        // Order 4: corners, 3 points an edge, 3 a face, the centre.
        let points = lattice(4);
        assert_eq!(points[..4], [[4, 0, 0, 0], [0, 4, 0, 0], [0, 0, 4, 0], [0, 0, 0, 4]]);
        assert_eq!(points[4..7], [[3, 1, 0, 0], [2, 2, 0, 0], [1, 3, 0, 0]], "edge 0 - 1");
        assert_eq!(points[10..13], [[1, 0, 3, 0], [2, 0, 2, 0], [3, 0, 1, 0]], "edge 2 - 0");
        assert_eq!(points[22..25], [[2, 1, 0, 1], [1, 2, 0, 1], [1, 1, 0, 2]], "face 0 1 3");
        assert_eq!(points[25..28], [[0, 1, 2, 1], [0, 1, 1, 2], [0, 2, 1, 1]], "face 2 3 1");
        assert_eq!(points[34], [1, 1, 1, 1]);
    }
}
