//! Boxes of Kuhn tetrahedra with displaced vertices, shuffled and turned, built without the code under test.

use kernelwright_codegen::galerkin::evaluate::Samples;
use kernelwright_codegen::galerkin::mesh::{FACE_VERTICES, Face, Mesh, six_volumes};

/// Boundary faces get the tags 0 … `tags` - 1 in turn; with `tags` = 0 the box is periodic.
pub fn box_mesh(cells: [usize; 3], displacement: f64, tags: u32) -> Mesh {
    box_of(cells, displacement, tags, 1)
}

/// Order and orientation of the elements and vertices depend on the seed.
pub fn box_of(cells: [usize; 3], displacement: f64, tags: u32, seed: u64) -> Mesh {
    let mut samples = Samples::new(seed);
    let point = |i: [usize; 3]| i[0] + (cells[0] + 1) * (i[1] + (cells[1] + 1) * i[2]);
    let mut vertices = vec![[0.0; 3]; (cells[0] + 1) * (cells[1] + 1) * (cells[2] + 1)];
    for k in 0..=cells[2] {
        for j in 0..=cells[1] {
            for i in 0..=cells[0] {
                let at = [i, j, k];
                let inner = (0..3).all(|a| at[a] > 0 && at[a] < cells[a]);
                let d = if inner { displacement } else { 0.0 };
                vertices[point(at)] =
                    [0, 1, 2].map(|a: usize| at[a] as f64 * (1.0 + 0.2 * a as f64) + samples.between(-d, d));
            }
        }
    }
    let mut elements = Vec::new();
    for k in 0..cells[2] {
        for j in 0..cells[1] {
            for i in 0..cells[0] {
                for path in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                    let mut at = [i, j, k];
                    let mut corners = vec![point(at) as u32];
                    for axis in path {
                        at[axis] += 1;
                        corners.push(point(at) as u32);
                    }
                    let mut element = [corners[0], corners[1], corners[2], corners[3]];
                    shuffle(&mut element, &mut samples);
                    let volume = six_volumes(&element.map(|v| vertices[v as usize]));
                    if volume < 0.0 {
                        element.swap(2, 3);
                    }
                    elements.push(element);
                }
            }
        }
    }
    shuffle(&mut elements, &mut samples);
    let size = [0, 1, 2].map(|a: usize| cells[a] as f64 * (1.0 + 0.2 * a as f64));
    let faces = connect(&vertices, &elements, size, tags);
    let regions = (0..elements.len() as u32).map(|e| e % 3).collect();
    Mesh { vertices, elements, faces, regions }
}

fn shuffle<T>(items: &mut [T], samples: &mut Samples) {
    for n in (1..items.len()).rev() {
        items.swap(n, samples.between(0.0, n as f64 + 1.0) as usize);
    }
}

/// Matches faces by the positions of their vertices, modulo the box if it is periodic.
fn connect(vertices: &[[f64; 3]], elements: &[[u32; 4]], size: [f64; 3], tags: u32) -> Vec<[Face; 4]> {
    let place = |v: u32| {
        vertices[v as usize]
            .iter()
            .enumerate()
            .map(|(a, &x)| {
                let wrapped = if tags == 0 && (x - size[a]).abs() < 1e-9 { 0.0 } else { x };
                (wrapped * 1e6).round() as i64
            })
            .collect::<Vec<i64>>()
    };
    let centre = |corners: &[u32; 3]| {
        [0, 1, 2].map(|a: usize| corners.iter().map(|&v| vertices[v as usize][a]).sum::<f64>() / 3.0)
    };
    let corners = |e: usize, f: usize| FACE_VERTICES[f].map(|v| elements[e][v]);
    // Vertices of a face relative to its centre tell periodic images apart, even where a box is one element wide.
    let key = |e: usize, f: usize| {
        let own = corners(e, f);
        let middle = centre(&own);
        let wrapped = [0, 1, 2].map(|a: usize| {
            let at_end = tags == 0 && (middle[a] - size[a]).abs() < 1e-9;
            ((if at_end { 0.0 } else { middle[a] }) * 1e6).round() as i64
        });
        let mut places: Vec<Vec<i64>> = own.iter().map(|&v| place(v)).collect();
        places.sort();
        (wrapped, places)
    };
    let relative = |v: u32, middle: [f64; 3]| {
        [0, 1, 2].map(|a: usize| ((vertices[v as usize][a] - middle[a]) * 1e6).round() as i64)
    };
    let all: Vec<(usize, usize)> = (0..elements.len()).flat_map(|e| (0..4).map(move |f| (e, f))).collect();
    let mut boundary = 0;
    let mut faces = vec![[Face::Boundary(0); 4]; elements.len()];
    let keys: Vec<_> = all.iter().map(|&(e, f)| key(e, f)).collect();
    for (n, &(e, f)) in all.iter().enumerate() {
        let other = (0..all.len()).find(|&m| m != n && keys[m] == keys[n]);
        faces[e][f] = match other {
            Some(m) => {
                let (element, face) = all[m];
                let (own, theirs) = (corners(e, f), corners(element, face));
                let (here, there) = (centre(&own), centre(&theirs));
                let matching = own.map(|v| {
                    let same = |&w: &usize| relative(theirs[w], there) == relative(v, here);
                    (0..3).find(same).expect("faces that match have the same vertices") as u8
                });
                Face::Shared { element: element as u32, face: face as u8, corners: matching }
            }
            None => {
                boundary += 1;
                Face::Boundary(boundary % tags.max(1))
            }
        };
    }
    faces
}
