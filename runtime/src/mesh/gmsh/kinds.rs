//! Kinds of elements by gmsh's numbers.

use super::super::MeshError;
use super::super::raw::{Raw, Simplex};
use super::reader::Reader;

/// What to do with an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Four nodes.
    Tetrahedron,
    /// Three nodes.
    Triangle,
    /// A point or line of so many nodes.
    Skip(usize),
    /// It cannot be used; the text says what it is.
    Refuse(&'static str),
}

/// The kind with gmsh's number.
fn kind(number: i64) -> Option<Kind> {
    Some(match number {
        1 => Kind::Skip(2),
        2 => Kind::Triangle,
        4 => Kind::Tetrahedron,
        15 => Kind::Skip(1),
        8 => Kind::Skip(3),
        26 => Kind::Skip(4),
        27 => Kind::Skip(5),
        28 => Kind::Skip(6),
        3 => Kind::Refuse("a quadrangle"),
        5 => Kind::Refuse("a hexahedron"),
        6 => Kind::Refuse("a prism"),
        7 => Kind::Refuse("a pyramid"),
        9 => Kind::Refuse("a triangle of order 2"),
        20 | 21 => Kind::Refuse("a triangle of order 3"),
        22 | 23 => Kind::Refuse("a triangle of order 4"),
        24 | 25 => Kind::Refuse("a triangle of order 5"),
        11 => Kind::Refuse("a tetrahedron of order 2"),
        29 => Kind::Refuse("a tetrahedron of order 3"),
        30 => Kind::Refuse("a tetrahedron of order 4"),
        31 => Kind::Refuse("a tetrahedron of order 5"),
        10 | 16 => Kind::Refuse("a quadrangle of order 2"),
        12 | 17 => Kind::Refuse("a hexahedron of order 2"),
        13 | 18 => Kind::Refuse("a prism of order 2"),
        14 | 19 => Kind::Refuse("a pyramid of order 2"),
        _ => return None,
    })
}

/// Reads the nodes of an element, each with `node`, and keeps it if it is a tetrahedron or triangle.
pub(super) fn simplex<'r>(
    reader: &mut Reader<'r>,
    raw: &mut Raw,
    (tag, group, number): (u64, i64, i64),
    node: fn(&mut Reader<'r>) -> Result<u64, MeshError>,
) -> Result<(), MeshError> {
    let wrong = |reason: String| MeshError::Element { tag, reason };
    match kind(number) {
        Some(Kind::Tetrahedron) => raw.tetrahedra.push(Simplex { tag, group, nodes: nodes(reader, node)? }),
        Some(Kind::Triangle) => raw.triangles.push(Simplex { tag, group, nodes: nodes(reader, node)? }),
        Some(Kind::Skip(nodes)) => {
            for _ in 0..nodes {
                node(reader)?;
            }
        }
        Some(Kind::Refuse(what)) => return Err(wrong(refusal(what))),
        None => return Err(wrong(format!("its kind {number} is not known"))),
    }
    Ok(())
}

fn nodes<'r, const N: usize>(
    reader: &mut Reader<'r>,
    node: fn(&mut Reader<'r>) -> Result<u64, MeshError>,
) -> Result<[u64; N], MeshError> {
    let mut nodes = [0; N];
    for tag in &mut nodes {
        *tag = node(reader)?;
    }
    Ok(nodes)
}

/// Why an element cannot be used.
fn refusal(what: &str) -> String {
    let help = if what.contains("order") { "; save the mesh with order 1" } else { "" };
    format!("it is {what}; only straight tetrahedra (with triangles on the boundary) are supported{help}")
}
