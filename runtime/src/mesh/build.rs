//! From what was read to a mesh: nodes resolved, elements oriented, duplicates dropped, faces joined, all renumbered.

use std::collections::HashMap;

use super::connect::{Connection, connect};
use super::raw::{Raw, Simplex};
use super::{Mesh, MeshError, bad, locality, longest_edge, six_volumes};

/// Six volumes over the cube of the longest edge, below which an element has no inside worth computing in: the mapping
/// from the reference element loses all digits of an f32.
const FLATTEST: f64 = 1e-9;

/// Most elements and vertices: numbers of 32 bits.
const LARGEST: usize = 1 << 31;

impl Mesh {
    /// Makes a mesh of what was read.
    ///
    /// # Errors
    /// Elements that name nodes that are not there or twice, have no volume, or do not fit together.
    pub fn from_raw(raw: Raw) -> Result<Mesh, MeshError> {
        let mut notes = Vec::new();
        let known = numbers(&raw)?;
        let vertices: Vec<[f64; 3]> = raw.nodes.iter().map(|(_, point)| *point).collect();
        let mut kept = resolved(&raw, &known)?;
        notes.extend(drop_duplicates(&mut kept));
        notes.extend(orient(&mut kept, &vertices)?);
        let (regions, region_names) = regions(&raw, &kept);
        let elements: Vec<[u32; 4]> = kept.iter().map(|element| element.corners).collect();
        let tags: Vec<u64> = kept.iter().map(|element| element.tag).collect();
        let connection = connect(&raw, &known, &vertices, &elements, &tags)?;
        let Connection { faces, boundary_names, notes: more } = connection;
        notes.extend(more);
        let mesh = Mesh { vertices, elements, regions, region_names, faces, boundary_names, tags, notes };
        Ok(locality::renumber(mesh))
    }
}

/// An element with resolved nodes.
struct Resolved {
    tag: u64,
    group: i64,
    corners: [u32; 4],
}

/// Positions of nodes by their tags.
fn numbers(raw: &Raw) -> Result<HashMap<u64, u32>, MeshError> {
    if raw.nodes.len() >= LARGEST || raw.tetrahedra.len() >= LARGEST {
        return Err(bad("more than 2^31 nodes or elements"));
    }
    let mut known = HashMap::with_capacity(raw.nodes.len());
    for (number, (tag, point)) in raw.nodes.iter().enumerate() {
        if !point.iter().all(|x| x.is_finite()) {
            return Err(bad(format!("node {tag} has a coordinate that is not finite")));
        }
        if known.insert(*tag, number as u32).is_some() {
            return Err(bad(format!("there are two nodes {tag}")));
        }
    }
    if raw.tetrahedra.is_empty() {
        return Err(bad("there are no tetrahedra"));
    }
    Ok(known)
}

fn resolved(raw: &Raw, known: &HashMap<u64, u32>) -> Result<Vec<Resolved>, MeshError> {
    let resolve = |element: &Simplex<4>| {
        let wrong = |reason: String| MeshError::Element { tag: element.tag, reason };
        let mut corners = [0; 4];
        for (place, node) in element.nodes.iter().enumerate() {
            let number = known.get(node).ok_or_else(|| wrong(format!("there is no node {node}")))?;
            if corners[..place].contains(number) {
                return Err(wrong(format!("degenerate: it has node {node} twice")));
            }
            corners[place] = *number;
        }
        Ok(Resolved { tag: element.tag, group: element.group, corners })
    };
    raw.tetrahedra.iter().map(resolve).collect()
}

/// gmsh 2.2 writes an element once for each of its physical groups; the first one counts.
fn drop_duplicates(elements: &mut Vec<Resolved>) -> Option<String> {
    let mut order: Vec<(usize, [u32; 4])> =
        elements.iter().map(|element| sorted(element.corners)).enumerate().collect();
    order.sort_by_key(|(number, key)| (*key, *number));
    let mut drop = vec![false; elements.len()];
    order.windows(2).filter(|pair| pair[0].1 == pair[1].1).for_each(|pair| drop[pair[1].0] = true);
    let count = drop.iter().filter(|drop| **drop).count();
    let mut number = 0;
    elements.retain(|_| {
        number += 1;
        !drop[number - 1]
    });
    (count > 0).then(|| format!("elements that stand in the file more than once, left out: {count}"))
}

fn sorted<const N: usize>(mut corners: [u32; N]) -> [u32; N] {
    corners.sort_unstable();
    corners
}

/// Exchanges two corners of inverted elements; refuses flat ones.
fn orient(elements: &mut [Resolved], vertices: &[[f64; 3]]) -> Result<Option<String>, MeshError> {
    let mut inverted = 0;
    for element in elements.iter_mut() {
        let corners = element.corners.map(|corner| vertices[corner as usize]);
        let (volume, edge) = (six_volumes(&corners), longest_edge(&corners));
        // Also refuses what is not a number.
        if volume.abs() <= FLATTEST * edge.powi(3) || !volume.is_finite() {
            let relative = volume / edge.powi(3);
            let reason = format!("degenerate: its volume is {:.1e} of its longest edge cubed", relative.abs() / 6.0);
            return Err(MeshError::Element { tag: element.tag, reason });
        }
        if volume < 0.0 {
            element.corners.swap(2, 3);
            inverted += 1;
        }
    }
    Ok((inverted > 0).then(|| format!("inverted elements, two corners of each exchanged: {inverted}")))
}

/// Region of each element; regions in the order of their groups' tags.
fn regions(raw: &Raw, elements: &[Resolved]) -> (Vec<u32>, Vec<String>) {
    let mut groups: Vec<i64> = elements.iter().map(|element| element.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let number = |element: &Resolved| groups.binary_search(&element.group).expect("all groups are listed") as u32;
    let regions = elements.iter().map(number).collect();
    let name = |group: &i64| raw.group_name(3, *group).unwrap_or_else(|| super::UNTAGGED.to_string());
    (regions, groups.iter().map(name).collect())
}
