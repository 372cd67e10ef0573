//! What kernels need of the [symmetry](crate::galerkin::reference::symmetry) of the reference element.

use super::context::Context;
use super::variant::{Variant, pairs};
use crate::galerkin::reference::symmetry::{Parts, entry, sign};
use crate::kernel::Element;

/// Parts of fields and of fluxes.
#[derive(Debug)]
pub(super) struct Split {
    pub nodes: Parts,
    pub faces: Parts,
    pub ids: Ids,
}

/// Numbers of buffers.
#[derive(Debug, Default)]
pub(super) struct Ids {
    /// `[A, B, C, flux][lane]`: first place of the kind that the lane's rows read.
    pub segments: usize,
    /// `[row][lane]`: place of a row's own part; the width of all parts where a lane has no such row.
    pub row_places: usize,
    /// Places of the values at nodes, at the nodes of faces, and of fluxes at face nodes, before parts are formed.
    pub node_places: usize,
    pub own_places: usize,
    pub flux_places: usize,
    /// `[4 points, 4 kinds][orbit]`: places, of fields and of fluxes.
    pub node_orbits: usize,
    pub flux_orbits: usize,
    /// `[kind][node]`: places of the parts that make the value at a node, and their weights.
    pub back_places: usize,
    pub back_weights: usize,
    /// Places that belong to no part.
    pub node_pads: usize,
    pub flux_pads: usize,
}

impl Split {
    /// The parts that a variant works on, if it does.
    pub fn of(variant: &Variant, order: usize, wide: usize) -> Option<Split> {
        let make =
            || Split { nodes: Parts::of_nodes(order, wide), faces: Parts::of_faces(order, wide), ids: Ids::default() };
        variant.symmetric.then(make)
    }
}

/// Places of a vector that belong to no part.
pub(super) fn pads(parts: &Parts) -> Vec<usize> {
    let used = parts.point_places();
    (0..parts.width).filter(|place| !used.contains(place)).collect()
}

/// Lanes for the rows of a kind: an even number, as [`pairs`](super::variant::pairs) says.
fn lanes_of(count: usize, of_lane: usize) -> usize {
    pairs(count.div_ceil(of_lane))
}

/// Lanes of an element.
pub(super) fn lanes(parts: &Parts, of_lane: usize) -> usize {
    parts.count.iter().map(|&count| lanes_of(count, of_lane)).sum()
}

/// Whether some lane has no row of this number.
pub(super) fn is_partial(parts: &Parts, of_lane: usize, row: usize) -> bool {
    parts.count.iter().any(|&count| (row + 1) * lanes_of(count, of_lane) > count)
}

/// Kind and orbit of every row, as `[row of the lane][lane]`: rows of a lane are of one kind. Lanes that are there to make
/// a kind's number of lanes even, and the last ones of a kind, may have fewer rows.
fn rows(parts: &Parts, of_lane: usize) -> Vec<(usize, Option<usize>)> {
    let mut lists = vec![Vec::new(); of_lane];
    for kind in 0..4 {
        let orbits = parts.orbits_of(kind);
        let lanes = lanes_of(orbits.len(), of_lane);
        for (number, list) in lists.iter_mut().enumerate() {
            list.extend((0..lanes).map(|lane| (kind, orbits.get(number * lanes + lane).copied())));
        }
    }
    lists.concat()
}

/// Adds the tables, and the matrices by blocks.
pub(super) fn tables(cx: &mut Context<'_>, mut split: Split) {
    let (nodes, faces) = (&split.nodes, &split.faces);
    let rows = rows(nodes, cx.shape.rows);
    matrices(cx, nodes, faces, &rows);
    let lanes = &rows[..cx.shape.lanes];
    let of_nodes = |odd: usize| lanes.iter().map(move |(kind, _)| nodes.first[kind ^ odd]);
    // A is odd under s, B under t; C and the lift change nothing.
    let segments = of_nodes(1).chain(of_nodes(2)).chain(of_nodes(0));
    let segments = segments.chain(lanes.iter().map(|(kind, _)| faces.first[*kind])).collect();
    let place = |&(kind, orbit): &(usize, Option<usize>)| orbit.map_or(nodes.width, |orbit| nodes.places[orbit][kind]);
    let row_places = rows.iter().map(place).collect();
    let (node_places, flux_places) = (nodes.point_places(), faces.point_places());
    let own_places = cx.element.face_nodes.iter().flatten().map(|&node| node_places[node]).collect();
    let origins = nodes.origins();
    let back_places =
        (0..4).flat_map(|kind| origins.iter().map(move |&(orbit, _)| nodes.places[orbit][kind])).collect();
    let weight = |kind: usize, (orbit, element): (usize, usize)| {
        if nodes.has[orbit][kind] { 0.25 * sign(kind, element) } else { 0.0 }
    };
    let back_weights: Vec<f64> =
        (0..4).flat_map(|kind| origins.iter().map(move |&origin| weight(kind, origin))).collect();
    let (node_orbits, flux_orbits) = (orbits(nodes, &node_places), orbits(faces, &flux_places));
    let (node_pads, flux_pads) = (pads(nodes), pads(faces));
    let real = cx.options.precision;
    let mut integers = |name: &str, values: Vec<usize>| {
        cx.constant(name, Element::U16, values.into_iter().map(|value| value as f64).collect())
    };
    split.ids = Ids {
        segments: integers("segments", segments),
        row_places: integers("row_places", row_places),
        node_places: integers("node_places", node_places),
        own_places: integers("own_places", own_places),
        flux_places: integers("flux_places", flux_places),
        node_orbits: integers("node_orbits", node_orbits),
        flux_orbits: integers("flux_orbits", flux_orbits),
        back_places: integers("back_places", back_places),
        node_pads: integers("node_pads", node_pads),
        flux_pads: integers("flux_pads", flux_pads),
        back_weights: 0,
    };
    split.ids.back_weights = cx.constant("back_weights", real, back_weights);
    cx.split = Some(split);
}

fn orbits(parts: &Parts, point_places: &[usize]) -> Vec<usize> {
    let points = (0..4).flat_map(|n| parts.orbits.iter().map(move |orbit| point_places[orbit[n]]));
    points.chain((0..4).flat_map(|kind| parts.places.iter().map(move |places| places[kind]))).collect()
}

/// Derivatives A, B, C and the lift, packed as [`packed`](super::tables) packs whole matrices.
fn matrices(cx: &mut Context<'_>, nodes: &Parts, faces: &Parts, rows: &[(usize, Option<usize>)]) {
    let [d1, d2, d3] = &cx.element.derivative;
    let a = |i, j| d1.at(i, j);
    let b = |i, j| d3.at(i, j) - d2.at(i, j);
    let c = |i, j| d2.at(i, j) + d3.at(i, j) - d1.at(i, j);
    let lift = |i, j| cx.element.lift.at(i, j);
    let wide = cx.shape.wide;
    let block = |at: &dyn Fn(usize, usize) -> f64, odd: usize, columns: &Parts| {
        let mut list = vec![0.0; rows.len() * columns.longest];
        let there = rows.iter().enumerate().filter_map(|(row, &(kind, orbit))| Some((row, kind, orbit?)));
        for (row, kind, orbit) in there {
            for (column, other) in columns.orbits_of(kind ^ odd).into_iter().enumerate() {
                let value = entry(at, (&nodes.orbits[orbit], kind), (&columns.orbits[other], kind ^ odd));
                list[(column / wide * rows.len() + row) * wide + column % wide] = value;
            }
        }
        list
    };
    let derivative = [block(&a, 1, nodes), block(&b, 2, nodes), block(&c, 0, nodes)].concat();
    let lift = block(&lift, 0, faces);
    let real = cx.options.precision;
    cx.ids.derivative = cx.constant("derivative_blocks", real, derivative);
    cx.ids.lift = cx.constant("lift_blocks", real, lift);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every part has one row, and two neighbouring lanes always read the same parts.
    #[test]
    fn rows_cover_the_parts_and_lanes_come_in_pairs() {
        for (order, of_lane) in (1..=9).flat_map(|order| [1, 2, 3].map(|of_lane| (order, of_lane))) {
            let parts = Parts::of_nodes(order, 4);
            let list = rows(&parts, of_lane);
            let lanes = lanes(&parts, of_lane);
            assert_eq!(list.len(), lanes * of_lane);
            let mut found: Vec<usize> =
                list.iter().filter_map(|&(kind, orbit)| Some(parts.places[orbit?][kind])).collect();
            found.sort_unstable();
            let mut places = parts.point_places();
            places.sort_unstable();
            assert_eq!(found, places, "{order}, {of_lane}");
            for (row, kinds) in list.chunks(lanes).enumerate() {
                assert!(kinds.chunks(2).all(|pair| pair.len() == 2 && pair[0].0 == pair[1].0), "{order}, {of_lane}");
                assert_eq!(kinds.iter().any(|(_, orbit)| orbit.is_none()), is_partial(&parts, of_lane, row));
            }
        }
    }
}
