//! Numbering for locality: elements along a Hilbert curve, vertices by first use.
//!
//! Neighbours in space get near numbers, so that the traces an element reads of its neighbours are in cache. Index on
//! the curve: J. Skilling, Programming the Hilbert curve, AIP Conf. Proc. 707 (2004).

use super::{Behind, Mesh, bounds};

/// Bits of each coordinate on the curve.
const BITS: u32 = 20;

/// The same mesh with elements and vertices in another order.
pub(super) fn renumber(mesh: Mesh) -> Mesh {
    let order = element_order(&mesh);
    let mut place = vec![0u32; order.len()];
    order.iter().enumerate().for_each(|(new, old)| place[*old] = new as u32);
    let mut vertex_place = vec![u32::MAX; mesh.vertices.len()];
    let mut vertices = Vec::with_capacity(mesh.vertices.len());
    let mut elements = Vec::with_capacity(order.len());
    for &old in &order {
        elements.push(mesh.elements[old].map(|vertex| {
            let known = &mut vertex_place[vertex as usize];
            if *known == u32::MAX {
                *known = vertices.len() as u32;
                vertices.push(mesh.vertices[vertex as usize]);
            }
            *known
        }));
    }
    let moved = |behind: Behind| match behind {
        Behind::Element { element, face, corners } => {
            Behind::Element { element: place[element as usize], face, corners }
        }
        boundary => boundary,
    };
    Mesh {
        vertices,
        elements,
        regions: order.iter().map(|old| mesh.regions[*old]).collect(),
        faces: order.iter().map(|old| mesh.faces[*old].map(moved)).collect(),
        tags: order.iter().map(|old| mesh.tags[*old]).collect(),
        region_names: mesh.region_names,
        boundary_names: mesh.boundary_names,
        notes: mesh.notes,
    }
}

/// Elements sorted along the curve through their centres; those at one place by their number.
fn element_order(mesh: &Mesh) -> Vec<usize> {
    let centres: Vec<[f64; 3]> = (0..mesh.elements.len()).map(|element| mesh.centre(element)).collect();
    let [low, high] = bounds(&centres);
    let widest = (0..3).map(|axis| high[axis] - low[axis]).fold(0.0, f64::max);
    let scale = if widest > 0.0 { f64::from((1u32 << BITS) - 1) / widest } else { 0.0 };
    let mut keyed: Vec<(u64, usize)> = centres
        .iter()
        .enumerate()
        .map(|(number, centre)| (hilbert(std::array::from_fn(|a| ((centre[a] - low[a]) * scale) as u32)), number))
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, number)| number).collect()
}

/// Position on the Hilbert curve through a cube of 2^BITS points a side.
fn hilbert(mut x: [u32; 3]) -> u64 {
    let mut bit = 1u32 << (BITS - 1);
    while bit > 1 {
        let below = bit - 1;
        for axis in 0..3 {
            if x[axis] & bit != 0 {
                x[0] ^= below;
            } else {
                let exchange = (x[0] ^ x[axis]) & below;
                x[0] ^= exchange;
                x[axis] ^= exchange;
            }
        }
        bit >>= 1;
    }
    x[1] ^= x[0];
    x[2] ^= x[1];
    let mut flip = 0;
    let mut bit = 1u32 << (BITS - 1);
    while bit > 1 {
        if x[2] & bit != 0 {
            flip ^= bit - 1;
        }
        bit >>= 1;
    }
    let gray = x.map(|coordinate| coordinate ^ flip);
    (0..BITS)
        .rev()
        .fold(0, |index, bit| (0..3).fold(index, |index, axis| index << 1 | u64::from(gray[axis] >> bit & 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_moves_one_step_at_a_time() {
        // All points of the corner cube of side 8, sorted along the curve.
        let mut points: Vec<(u64, [u32; 3])> = Vec::new();
        for x in 0..8 {
            for y in 0..8 {
                for z in 0..8 {
                    points.push((hilbert([x, y, z]), [x, y, z]));
                }
            }
        }
        points.sort_unstable();
        for pair in points.windows(2) {
            let steps: u32 = (0..3).map(|axis| pair[0].1[axis].abs_diff(pair[1].1[axis])).sum();
            assert_eq!((pair[1].0 - pair[0].0, steps), (1, 1), "{pair:?}");
        }
    }
}
