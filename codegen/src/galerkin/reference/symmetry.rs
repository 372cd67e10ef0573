//! The symmetry of the reference tetrahedron, by which its matrices fall into blocks.
//!
//! Nodes are symmetric under all permutations of the vertices. Two of these commute and square to one: s exchanges
//! vertices 0 and 1, t exchanges 2 and 3. A field is the sum of four parts, even or odd under s and under t, and a matrix
//! that commutes with s and t maps each part to itself; one that changes sign under s maps parts to those of the other
//! kind under s. So the derivatives along these directions are blocks of a quarter of the rows and a quarter of the
//! columns, one for each kind of rows:
//!
//! - A = d/dl1 (from vertex 0 to 1), odd under s;
//! - B = d/dl3 - d/dl2 (from 2 to 3), odd under t;
//! - C = d/dl2 + d/dl3 - d/dl1 (from the edge 0-1 to the edge 2-3), even under both;
//!
//! and so is the lift, with faces permuted likewise. That is the even-odd decomposition of collocation derivatives
//! (Solomonoff, A fast algorithm for spectral differentiation, J. Comput. Phys. 98, 1992) for a tetrahedron: a quarter of
//! the multiplications, for some additions.
//!
//! Numbers of an element of the group, and of a kind of parts, are two bits: the first for s, the second for t.

use super::nodes::{tetrahedron, triangle};
use crate::galerkin::mesh::FACE_VERTICES;

/// Vectors of 16 bytes that the banks of a GPU's shared memory hold side by side.
pub const BANKS: usize = 8;

/// Vertices exchanged by s and by t.
const SWAPS: [[usize; 4]; 2] = [[1, 0, 2, 3], [0, 1, 3, 2]];

/// How the parts of a field on some points are stored: the four kinds one after another, the longest one last, so that as
/// many columns may be read from the start of any of them. Each begins at a vector of even number, and no two at the same
/// one modulo [`BANKS`]: lanes of one warp that read the same column of different kinds, and those of a neighbouring
/// element, whose parts begin an odd number of vectors on, then use different banks of the shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Points of every orbit: a point, its images under s, t and both (the same ones again where it lies on a plane of
    /// symmetry).
    pub orbits: Vec<[usize; 4]>,
    /// Place of each kind's value of every orbit; the kinds that an orbit does not have are always zero, and stand at the
    /// place of kind 0.
    pub places: Vec<[usize; 4]>,
    /// Whether an orbit has a kind.
    pub has: Vec<[bool; 4]>,
    /// First place of each kind.
    pub first: [usize; 4],
    /// Values of each kind.
    pub count: [usize; 4],
    /// Places read from the start of a kind.
    pub longest: usize,
    /// Places in all.
    pub width: usize,
}

/// +1 or -1: how a kind changes under an element of the group.
pub fn sign(kind: usize, element: usize) -> f64 {
    if (kind & element).count_ones() % 2 == 1 { -1.0 } else { 1.0 }
}

impl Parts {
    /// Parts of fields on points that s and t permute, in vectors of `wide` values.
    fn new(points: usize, images: [&dyn Fn(usize) -> usize; 2], wide: usize) -> Parts {
        let image = |point: usize, element: usize| {
            let point = if element & 1 == 1 { images[0](point) } else { point };
            if element & 2 == 2 { images[1](point) } else { point }
        };
        let mut seen = vec![false; points];
        let (mut orbits, mut has) = (Vec::new(), Vec::new());
        for point in 0..points {
            if seen[point] {
                continue;
            }
            let orbit = [0, 1, 2, 3].map(|element| image(point, element));
            orbit.iter().for_each(|&p| seen[p] = true);
            // A kind that changes sign under something that leaves the point where it is vanishes there.
            let fixed = (1..4).filter(|&element| orbit[element] == point).collect::<Vec<_>>();
            has.push([0, 1, 2, 3].map(|kind| fixed.iter().all(|&element| sign(kind, element) > 0.0)));
            orbits.push(orbit);
        }
        let count = [0, 1, 2, 3].map(|kind: usize| has.iter().filter(|has| has[kind]).count());
        let vectors = count.map(|count: usize| count.div_ceil(wide));
        let (first, width) = starts(vectors);
        let (first, end) = (first.map(|vector| vector * wide), width * wide);
        let longest = vectors.iter().max().copied().unwrap_or(0) * wide;
        let mut next = first;
        let mut places = Vec::new();
        for has in &has {
            let mut own = [usize::MAX; 4];
            for kind in 0..4 {
                if has[kind] {
                    own[kind] = next[kind];
                    next[kind] += 1;
                }
            }
            places.push(own.map(|place| if place == usize::MAX { own[0] } else { place }));
        }
        Parts { orbits, places, has, first, count, longest, width: end }
    }

    /// Parts of fields on the nodes of an element.
    pub fn of_nodes(order: usize, wide: usize) -> Parts {
        let lattice = tetrahedron(order);
        let find = |swap: usize, node: usize| {
            let index = SWAPS[swap].map(|vertex| lattice[node][vertex]);
            lattice.iter().position(|other| *other == index).expect("the lattice is symmetric")
        };
        Parts::new(lattice.len(), [&|node| find(0, node), &|node| find(1, node)], wide)
    }

    /// Parts of fields on the face nodes of an element, face after face.
    pub fn of_faces(order: usize, wide: usize) -> Parts {
        let flat = triangle(order);
        let find = |swap: usize, place: usize| {
            let (face, index) = (place / flat.len(), flat[place % flat.len()]);
            let mut whole = [0; 4];
            (0..3).for_each(|i| whole[SWAPS[swap][FACE_VERTICES[face][i]]] = index[i]);
            let other = SWAPS[swap][face];
            let index = FACE_VERTICES[other].map(|vertex| whole[vertex]);
            other * flat.len() + flat.iter().position(|at| *at == index).expect("the lattice is symmetric")
        };
        Parts::new(4 * flat.len(), [&|place| find(0, place), &|place| find(1, place)], wide)
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.count.iter().sum()
    }

    /// Where each point is stored before the parts are formed: an orbit has as many points as kinds and keeps its places.
    pub fn point_places(&self) -> Vec<usize> {
        let mut list = vec![0; self.points()];
        for ((orbit, places), has) in self.orbits.iter().zip(&self.places).zip(&self.has) {
            let mut own: Vec<usize> = orbit.to_vec();
            own.sort_unstable();
            own.dedup();
            let kinds = (0..4).filter(|&kind| has[kind]);
            own.into_iter().zip(kinds).for_each(|(point, kind)| list[point] = places[kind]);
        }
        list
    }

    /// Orbit of each point, and the element of the group that leads to it.
    pub fn origins(&self) -> Vec<(usize, usize)> {
        let mut list = vec![(0, 0); self.points()];
        for (number, orbit) in self.orbits.iter().enumerate() {
            (0..4).rev().for_each(|element| list[orbit[element]] = (number, element));
        }
        list
    }

    /// Orbits that have a kind, in the order of its places.
    pub fn orbits_of(&self, kind: usize) -> Vec<usize> {
        (0..self.orbits.len()).filter(|&orbit| self.has[orbit][kind]).collect()
    }
}

/// First vectors of kinds with so many vectors, and the end of the last: the shortest of all orders with the longest last.
fn starts(vectors: [usize; 4]) -> ([usize; 4], usize) {
    let mut sorted = [0, 1, 2, 3];
    sorted.sort_by_key(|&kind| (vectors[kind], kind));
    let [a, b, c, last] = sorted;
    let orders = [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]];
    let place = |[a, b, c]: [usize; 3]| {
        let (mut first, mut end, mut taken) = ([0; 4], 0, Vec::new());
        for kind in [a, b, c, last] {
            first[kind] = (end..).find(|at| at % 2 == 0 && !taken.contains(&(at % BANKS))).unwrap_or(end);
            taken.push(first[kind] % BANKS);
            end = first[kind] + vectors[kind];
        }
        (first, end)
    };
    orders.map(place).into_iter().min_by_key(|(_, end)| *end).unwrap_or(([0; 4], 0))
}

/// An entry of a matrix between parts: of the kind `kind` of an orbit of rows, on the kind `other` of an orbit of columns.
/// The parts are sums over the group with signs; the field is a quarter of the sum of its parts.
pub fn entry(
    at: &dyn Fn(usize, usize) -> f64,
    (rows, kind): (&[usize; 4], usize),
    (columns, other): (&[usize; 4], usize),
) -> f64 {
    let mut sum = 0.0;
    for (element, &row) in rows.iter().enumerate() {
        for (second, &column) in columns.iter().enumerate() {
            // Every column once, however often its orbit visits it.
            if columns[..second].contains(&column) {
                continue;
            }
            sum += 0.25 * sign(kind, element) * sign(other, second) * at(row, column);
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::Element;
    use super::*;

    /// The parts of a product are the products of the blocks, for every order; and fields come back from their parts.
    #[test]
    fn matrices_fall_into_blocks() {
        for order in 1..=6 {
            let element = Element::new(order).expect("an order");
            let (nodes, faces) = (Parts::of_nodes(order, 4), Parts::of_faces(order, 4));
            assert_eq!((nodes.points(), faces.points()), (element.node_count(), 4 * element.face_node_count()));
            let [d1, d2, d3] = &element.derivative;
            let a = |i, j| d1.at(i, j);
            let b = |i, j| d3.at(i, j) - d2.at(i, j);
            let c = |i, j| d2.at(i, j) + d3.at(i, j) - d1.at(i, j);
            let lift = |i, j| element.lift.at(i, j);
            type At<'a> = &'a dyn Fn(usize, usize) -> f64;
            let cases: [(At<'_>, usize, &Parts); 4] =
                [(&a, 1, &nodes), (&b, 2, &nodes), (&c, 0, &nodes), (&lift, 0, &faces)];
            for (number, (at, odd, columns)) in cases.into_iter().enumerate() {
                let field: Vec<f64> = (0..columns.points()).map(|n| (1.3 * n as f64).sin()).collect();
                let part = |orbit: &[usize; 4], kind: usize, of: &[f64]| -> f64 {
                    (0..4).map(|element| sign(kind, element) * of[orbit[element]]).sum()
                };
                let product: Vec<f64> =
                    (0..nodes.points()).map(|i| (0..field.len()).map(|j| at(i, j) * field[j]).sum()).collect();
                let size = product.iter().fold(1.0f64, |a, b| a.max(b.abs()));
                for kind in 0..4 {
                    for orbit in nodes.orbits_of(kind) {
                        let rows = &nodes.orbits[orbit];
                        let of = |&other: &usize| {
                            let block = entry(at, (rows, kind), (&columns.orbits[other], kind ^ odd));
                            block * part(&columns.orbits[other], kind ^ odd, &field)
                        };
                        let found: f64 = columns.orbits_of(kind ^ odd).iter().map(of).sum();
                        let expected = part(rows, kind, &product);
                        assert!((found - expected).abs() < 1e-11 * size, "{order} {number} {kind}: {found} {expected}");
                    }
                }
                for (point, (orbit, element)) in columns.origins().into_iter().enumerate() {
                    let sum: f64 =
                        (0..4).map(|kind| sign(kind, element) * part(&columns.orbits[orbit], kind, &field)).sum();
                    assert!((0.25 * sum - field[point]).abs() < 1e-14);
                }
            }
        }
    }

    #[test]
    fn places_are_distinct_and_readable() {
        for order in 1..=9 {
            for wide in [2, 4] {
                for parts in [Parts::of_nodes(order, wide), Parts::of_faces(order, wide)] {
                    let mut places = parts.point_places();
                    places.sort_unstable();
                    assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
                    assert!(parts.first.iter().all(|first| first % wide == 0 && first + parts.longest <= parts.width));
                    let mut banks = parts.first.map(|first| first / wide % BANKS);
                    banks.sort_unstable();
                    assert_eq!(banks, [0, 2, 4, 6], "{order}, {wide}");
                    for (kind, count) in parts.count.iter().enumerate() {
                        let own: Vec<usize> =
                            parts.orbits_of(kind).iter().map(|&orbit| parts.places[orbit][kind]).collect();
                        assert!(own.iter().copied().eq(parts.first[kind]..parts.first[kind] + count));
                    }
                }
            }
        }
        let five = Parts::of_nodes(5, 4);
        assert_eq!((five.count, five.longest, five.width), ([20, 14, 14, 8], 20, 60));
    }
}
