//! Which element lies behind which face.
//!
//! Faces with the same three nodes are joined; then those on periodic surfaces, by their pairs of nodes; then faces
//! at one place whose nodes the file holds twice. The rest is boundary, with the tag of the triangle that lies there. A
//! face that is left, has no tag and touches a node that is not its own is a mesh that does not fit together.

use std::collections::HashMap;

use super::raw::{Link, Raw};
use super::{Behind, FACES, MeshError, UNTAGGED, area, centre, cross, dot, length, longest_edge, subtract};

/// How far nodes that should be at one place may be apart, over the longest edge of the face.
const TOLERANCE: f64 = 1e-6;

/// A direction without special angles to axes and diagonals: places that differ rarely project to the same number.
const SKEW: [f64; 3] = [0.612, 0.354, 0.709];

/// The result.
pub(super) struct Connection {
    pub(super) faces: Vec<[Behind; 4]>,
    pub(super) boundary_names: Vec<String>,
    pub(super) notes: Vec<String>,
}

/// A face of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    element: u32,
    face: u8,
}

struct Faces<'m> {
    raw: &'m Raw,
    known: &'m HashMap<u64, u32>,
    vertices: &'m [[f64; 3]],
    elements: &'m [[u32; 4]],
    tags: &'m [u64],
    behind: Vec<[Option<Behind>; 4]>,
    notes: Vec<String>,
}

/// Joins all faces.
pub(super) fn connect(
    raw: &Raw,
    known: &HashMap<u64, u32>,
    vertices: &[[f64; 3]],
    elements: &[[u32; 4]],
    tags: &[u64],
) -> Result<Connection, MeshError> {
    let behind = vec![[None; 4]; elements.len()];
    let mut faces = Faces { raw, known, vertices, elements, tags, behind, notes: Vec::new() };
    faces.join_shared()?;
    for link in &raw.links {
        faces.join_periodic(link)?;
    }
    let mut boundary_names = faces.tag_boundaries();
    faces.join_coincident();
    faces.refuse_hanging()?;
    let untagged = faces.open().len();
    if untagged > 0 {
        faces.notes.push(format!("faces of the boundary without a tag, called `{UNTAGGED}`: {untagged}"));
        boundary_names.push(UNTAGGED.to_string());
    }
    let rest = Behind::Boundary((boundary_names.len().max(1) - 1) as u32);
    let joined = faces.behind.iter().map(|four| four.map(|behind| behind.unwrap_or(rest))).collect();
    Ok(Connection { faces: joined, boundary_names, notes: faces.notes })
}

impl Faces<'_> {
    /// Vertices of a face, in the order of [`FACES`].
    fn nodes(&self, place: Place) -> [u32; 3] {
        FACES[usize::from(place.face)].map(|corner| self.elements[place.element as usize][corner])
    }

    fn corners(&self, place: Place) -> [[f64; 3]; 3] {
        self.nodes(place).map(|vertex| self.vertices[vertex as usize])
    }

    fn key(&self, place: Place) -> [u32; 3] {
        let mut key = self.nodes(place);
        key.sort_unstable();
        key
    }

    /// Faces behind which nothing is known yet.
    fn open(&self) -> Vec<Place> {
        let all = (0..self.elements.len() as u32).flat_map(|element| (0..4).map(move |face| Place { element, face }));
        all.filter(|place| self.behind[place.element as usize][usize::from(place.face)].is_none()).collect()
    }

    /// Joins two faces; `partner` gives for each vertex of the first face the vertex of the second that lies there.
    fn join(&mut self, first: Place, second: Place, partner: [u32; 3]) {
        let other = self.nodes(second);
        let position = |list: [u32; 3], vertex: u32| {
            list.iter().position(|v| *v == vertex).expect("partners are the other face's vertices") as u8
        };
        let forth = partner.map(|vertex| position(other, vertex));
        let back = other.map(|vertex| position(partner, vertex));
        let behind =
            |other: Place, corners| Some(Behind::Element { element: other.element, face: other.face, corners });
        self.behind[first.element as usize][usize::from(first.face)] = behind(second, forth);
        self.behind[second.element as usize][usize::from(second.face)] = behind(first, back);
    }

    fn join_shared(&mut self) -> Result<(), MeshError> {
        let mut keyed: Vec<([u32; 3], Place)> = self.open().into_iter().map(|place| (self.key(place), place)).collect();
        keyed.sort_unstable();
        for group in keyed.chunk_by(|a, b| a.0 == b.0) {
            match group {
                [] | [_] => {}
                [(_, first), (_, second)] => {
                    let nodes = self.nodes(*first);
                    self.refuse_overlap(*first, *second)?;
                    self.join(*first, *second, nodes);
                }
                [(_, first), ..] => {
                    let tags: Vec<String> =
                        group.iter().map(|(_, place)| self.tags[place.element as usize].to_string()).collect();
                    let reason = format!("non-conforming: elements {} share one face", tags.join(", "));
                    return Err(self.wrong(*first, reason));
                }
            }
        }
        Ok(())
    }

    /// Two elements on the same side of a face lie in each other.
    fn refuse_overlap(&self, first: Place, second: Place) -> Result<(), MeshError> {
        let [a, b, c] = self.corners(first);
        let normal = cross(subtract(b, a), subtract(c, a));
        let side = |place: Place| {
            let own = self.nodes(place);
            let apex = self.elements[place.element as usize].iter().find(|vertex| !own.contains(vertex));
            apex.map_or(0.0, |apex| dot(normal, subtract(self.vertices[*apex as usize], a)))
        };
        if side(first) * side(second) > 0.0 {
            let other = self.tags[second.element as usize];
            return Err(self.wrong(first, format!("non-conforming: element {other} overlaps it at their common face")));
        }
        Ok(())
    }

    fn join_periodic(&mut self, link: &Link) -> Result<(), MeshError> {
        let mut partner: HashMap<u32, u32> = HashMap::new();
        for (from, to) in &link.pairs {
            let find = |tag| self.known.get(tag).copied().ok_or_else(|| missing(link, *tag));
            partner.insert(find(from)?, find(to)?);
        }
        let open = self.open();
        let waiting: HashMap<[u32; 3], Place> = open.iter().map(|place| (self.key(*place), *place)).collect();
        for place in open {
            let mapped = self.nodes(place).map(|vertex| partner.get(&vertex).copied());
            let [Some(a), Some(b), Some(c)] = mapped else { continue };
            let mut key = [a, b, c];
            key.sort_unstable();
            let found = waiting.get(&key).filter(|other| **other != place);
            let Some(other) = found.copied() else {
                let reason = format!("its face on the periodic surface {} has no partner", link.name);
                return Err(self.wrong(place, reason));
            };
            self.refuse_turned(place, [a, b, c], link)?;
            self.join(place, other, [a, b, c]);
        }
        Ok(())
    }

    /// Partners are translations of each other, up to the tolerance: components of vectors are not turned.
    fn refuse_turned(&self, place: Place, partner: [u32; 3], link: &Link) -> Result<(), MeshError> {
        let (own, other) = (self.corners(place), partner.map(|vertex| self.vertices[vertex as usize]));
        let shifts: [[f64; 3]; 3] = std::array::from_fn(|corner| subtract(other[corner], own[corner]));
        let near = TOLERANCE * longest_edge(&own);
        if shifts.iter().all(|shift| length(subtract(*shift, shifts[0])) <= near) {
            return Ok(());
        }
        let edge = |corners: &[[f64; 3]; 3], n: usize| length(subtract(corners[(n + 1) % 3], corners[n]));
        let how = if (0..3).all(|n| (edge(&own, n) - edge(&other, n)).abs() <= near) {
            "is turned or mirrored against its partner: only surfaces that are moved along a vector are joined, because \
             components of vector fields are not turned"
        } else {
            "and the partner differ by more than a translation"
        };
        Err(self.wrong(place, format!("its face on the periodic surface {} {how}", link.name)))
    }

    /// Gives open faces the tags of the triangles on them; gives the names of boundaries.
    fn tag_boundaries(&mut self) -> Vec<String> {
        let open: HashMap<[u32; 3], Place> = self.open().into_iter().map(|place| (self.key(place), place)).collect();
        let inner: Vec<[u32; 3]> = self.inner_keys();
        let mut groups: Vec<i64> = self.raw.triangles.iter().map(|triangle| triangle.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let (mut inside, mut nowhere) = (0, 0);
        let mut used = vec![false; groups.len()];
        let mut tagged: Vec<(Place, usize)> = Vec::new();
        for triangle in &self.raw.triangles {
            let nodes = triangle.nodes.map(|tag| self.known.get(&tag).copied());
            let mut key = nodes.map(|node| node.unwrap_or(u32::MAX));
            key.sort_unstable();
            match open.get(&key) {
                Some(place) if triangle.group != 0 => {
                    let group = groups.binary_search(&triangle.group).expect("all groups are listed");
                    used[group] = true;
                    tagged.push((*place, group));
                }
                Some(_) => {}
                None if inner.binary_search(&key).is_ok() => inside += 1,
                None => nowhere += 1,
            }
        }
        let number: Vec<u32> =
            (0..groups.len()).map(|group| used[..group].iter().filter(|u| **u).count() as u32).collect();
        for (place, group) in tagged {
            // Of several groups the first counts.
            let slot = &mut self.behind[place.element as usize][usize::from(place.face)];
            slot.get_or_insert(Behind::Boundary(number[group]));
        }
        if inside > 0 {
            self.notes.push(format!("triangles between elements, whose tags are not used: {inside}"));
        }
        if nowhere > 0 {
            self.notes.push(format!("triangles that are no face of a tetrahedron, left out: {nowhere}"));
        }
        let named = groups.iter().zip(&used).filter(|(_, used)| **used);
        named.filter_map(|(group, _)| self.raw.group_name(2, *group)).collect()
    }

    fn inner_keys(&self) -> Vec<[u32; 3]> {
        let all = (0..self.elements.len() as u32).flat_map(|element| (0..4).map(move |face| Place { element, face }));
        let joined = all.filter(|place| self.behind[place.element as usize][usize::from(place.face)].is_some());
        let mut keys: Vec<[u32; 3]> = joined.map(|place| self.key(place)).collect();
        keys.sort_unstable();
        keys
    }

    /// Joins open faces at one place whose nodes stand in the file twice.
    fn join_coincident(&mut self) {
        let mut keyed: Vec<(f64, Place)> =
            self.open().into_iter().map(|place| (dot(SKEW, centre(&self.corners(place))), place)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut joined = 0;
        let mut taken = vec![false; keyed.len()];
        for i in 0..keyed.len() {
            let (key, place) = keyed[i];
            let near = TOLERANCE * longest_edge(&self.corners(place));
            let mut j = i + 1;
            while !taken[i] && j < keyed.len() && keyed[j].0 - key <= near {
                if let Some(partner) = self.coincident(place, keyed[j].1, near).filter(|_| !taken[j]) {
                    self.join(place, keyed[j].1, partner);
                    (taken[i], taken[j]) = (true, true);
                    joined += 1;
                }
                j += 1;
            }
        }
        if joined > 0 {
            self.notes.push(format!("pairs of faces at one place with nodes of their own, joined: {joined}"));
        }
    }

    /// For each vertex of the first face the vertex of the second at its place, if all have one.
    fn coincident(&self, first: Place, second: Place, near: f64) -> Option<[u32; 3]> {
        if first.element == second.element {
            return None;
        }
        let others = self.nodes(second);
        let mut partner = [0; 3];
        for (slot, corner) in partner.iter_mut().zip(self.corners(first)) {
            *slot = *others.iter().find(|v| length(subtract(self.vertices[**v as usize], corner)) <= near)?;
        }
        let mut key = partner;
        key.sort_unstable();
        (key == self.key(second)).then_some(partner)
    }

    /// A node on an open face that is not one of its corners: elements of different size meet there.
    fn refuse_hanging(&self) -> Result<(), MeshError> {
        let open = self.open();
        let mut nodes: Vec<u32> = open.iter().flat_map(|place| self.nodes(*place)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut keyed: Vec<(f64, u32)> =
            nodes.into_iter().map(|node| (dot(SKEW, self.vertices[node as usize]), node)).collect();
        keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
        for place in open {
            let corners = self.corners(place);
            let near = TOLERANCE * longest_edge(&corners);
            let keys = corners.map(|corner| dot(SKEW, corner));
            let low = keys.iter().copied().fold(f64::INFINITY, f64::min) - near;
            let high = keys.iter().copied().fold(f64::NEG_INFINITY, f64::max) + near;
            let from = keyed.partition_point(|(key, _)| *key < low);
            for (_, node) in keyed[from..].iter().take_while(|(key, _)| *key <= high) {
                if !self.nodes(place).contains(node) && lies_on(self.vertices[*node as usize], corners, near) {
                    let reason =
                        format!("non-conforming: node {} lies on one of its faces", self.raw.nodes[*node as usize].0);
                    return Err(self.wrong(place, reason));
                }
            }
        }
        Ok(())
    }

    fn wrong(&self, place: Place, reason: String) -> MeshError {
        MeshError::Element { tag: self.tags[place.element as usize], reason }
    }
}

fn missing(link: &Link, tag: u64) -> MeshError {
    super::bad(format!("the periodic surface {} names node {tag}, which is not there", link.name))
}

/// Whether a point lies on a triangle but not at one of its corners.
fn lies_on(point: [f64; 3], corners: [[f64; 3]; 3], near: f64) -> bool {
    if corners.iter().any(|corner| length(subtract(point, *corner)) <= near) {
        return false;
    }
    let normal = cross(subtract(corners[1], corners[0]), subtract(corners[2], corners[0]));
    let distance = dot(normal, subtract(point, corners[0])) / length(normal);
    let whole = area(corners);
    let parts: f64 = (0..3).map(|i| area([point, corners[i], corners[(i + 1) % 3]])).sum();
    distance.abs() <= near && parts - whole <= near * longest_edge(&corners)
}
