//! Meshes: the built-in box, gmsh files in every form, and what must hold of any mesh.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kernelwright::mesh::{self, Behind, Cuboid, FACES, Family, Mesh, MeshError, Raw, gmsh};

use crate::mesh_write::{FORMS, v2, v4};

/// Everything that the rest of the program relies on.
fn check(mesh: &Mesh) {
    for element in 0..mesh.elements.len() {
        assert!(mesh.volume(element) > 0.0, "element {element}");
        for (face, own_corners) in FACES.iter().enumerate() {
            let Behind::Element { element: other, face: their, corners } = mesh.faces[element][face] else { continue };
            let back = mesh.faces[other as usize][usize::from(their)];
            let Behind::Element { element: e, face: f, corners: back } = back else { panic!("{element} {face}") };
            assert_eq!((e as usize, usize::from(f)), (element, face));
            // There and back again, and partners differ by one translation for the whole face.
            let own = own_corners.map(|corner| mesh.corners(element)[corner]);
            let other = FACES[usize::from(their)].map(|corner| mesh.corners(other as usize)[corner]);
            let there = corners.map(|corner| other[usize::from(corner)]);
            let shift: [f64; 3] = std::array::from_fn(|axis| there[0][axis] - own[0][axis]);
            for place in 0..3 {
                assert_eq!(usize::from(back[usize::from(corners[place])]), place);
                for axis in 0..3 {
                    assert!((there[place][axis] - own[place][axis] - shift[axis]).abs() < 1e-9);
                }
            }
        }
    }
}

fn volume(mesh: &Mesh) -> f64 {
    (0..mesh.elements.len()).map(|element| mesh.volume(element)).sum()
}

fn boundaries(mesh: &Mesh) -> BTreeMap<String, usize> {
    mesh.boundary_names.iter().cloned().zip(mesh.boundary_faces()).collect()
}

#[test]
fn a_box_has_its_volume_and_its_sides() {
    for (family, elements, side) in [(Family::Kuhn, 6, 2), (Family::Centred, 12, 2)] {
        let cuboid =
            Cuboid { cells: [3, 2, 4], low: [-1.0, 0.0, 2.0], high: [2.0, 4.0, 3.0], periodic: [false; 3], family };
        let mesh = cuboid.mesh().unwrap();
        check(&mesh);
        assert_eq!(mesh.elements.len(), 24 * elements);
        assert!((volume(&mesh) - 12.0).abs() < 1e-12);
        let expected = [("x_low", 8), ("x_high", 8), ("y_low", 12), ("y_high", 12), ("z_low", 6), ("z_high", 6)];
        assert_eq!(boundaries(&mesh), expected.map(|(name, squares)| (name.to_string(), squares * side)).into());
        assert!(mesh.notes.iter().all(|note| note.contains("inverted")), "{:?}", mesh.notes);
    }
}

#[test]
fn periodic_boxes_have_no_boundary_even_if_one_element_wide() {
    for family in [Family::Kuhn, Family::Centred] {
        for cells in [[1, 1, 1], [1, 2, 3], [2, 2, 2]] {
            let mesh = Cuboid { cells, ..Cuboid::unit(1) }.family(family).periodic().mesh().unwrap();
            check(&mesh);
            assert!(mesh.faces.iter().flatten().all(|behind| matches!(behind, Behind::Element { .. })));
        }
    }
}

#[test]
fn sides_may_be_joined_along_some_axes_only() {
    let mesh = Cuboid { periodic: [true, false, true], ..Cuboid::unit(2) }.mesh().unwrap();
    check(&mesh);
    assert_eq!(boundaries(&mesh), [("y_low".to_string(), 8), ("y_high".to_string(), 8)].into());
}

#[test]
fn the_inscribed_radius_is_that_of_a_regular_tetrahedron() {
    let corners = [[1.0, 1.0, 1.0], [1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]];
    let nodes = corners.iter().zip(1..).map(|(point, tag)| (tag, *point)).collect();
    let tetrahedra = vec![mesh::Simplex { tag: 1, group: 0, nodes: [1, 2, 3, 4] }];
    let mesh = Mesh::from_raw(Raw { nodes, tetrahedra, ..Raw::default() }).unwrap();
    assert!((mesh.inscribed_radius(0) - 1.0 / 3f64.sqrt()).abs() < 1e-14);
}

/// A box with sparse tags, two regions and some inverted elements.
fn awkward(periodic: bool) -> Raw {
    let mut raw = Cuboid { periodic: [periodic, false, false], ..Cuboid::unit(2) }.raw();
    let tag = |old: u64| 17 + 1000 * old;
    raw.nodes.iter_mut().for_each(|node| node.0 = tag(node.0));
    raw.links.iter_mut().flat_map(|link| &mut link.pairs).for_each(|pair| *pair = (tag(pair.0), tag(pair.1)));
    raw.triangles.iter_mut().for_each(|triangle| triangle.nodes = triangle.nodes.map(tag));
    raw.names.push((3, 9, "other half".to_string()));
    for (number, element) in raw.tetrahedra.iter_mut().enumerate() {
        element.nodes = element.nodes.map(tag);
        element.group = if number < 24 { 1 } else { 9 };
        if number % 3 == 0 {
            element.nodes.swap(0, 1);
        }
    }
    raw
}

#[test]
fn every_form_of_a_file_gives_the_same_mesh() {
    for periodic in [false, true] {
        let raw = awkward(periodic);
        let expected = Mesh::from_raw(raw.clone()).unwrap();
        check(&expected);
        assert_eq!(expected.region_names, ["box", "other half"]);
        assert_eq!(expected.boundary_names.len(), if periodic { 4 } else { 6 });
        for form in FORMS {
            for (version, bytes) in [("2.2", v2(&raw, form)), ("4.1", v4(&raw, form))] {
                let read = gmsh::read(&bytes).unwrap_or_else(|error| panic!("{version} {form:?}: {error}"));
                assert!(Mesh::from_raw(read).unwrap() == expected, "{version} {form:?}");
            }
        }
    }
}

#[test]
fn a_file_that_breaks_off_anywhere_is_refused_or_shorter() {
    for form in FORMS {
        for bytes in [v2(&awkward(true), form), v4(&awkward(true), form)] {
            for length in (0..bytes.len()).step_by(37) {
                // Must not panic; it may be whole where only sections at the end are missing.
                let _ = gmsh::read(&bytes[..length]).and_then(Mesh::from_raw);
            }
        }
    }
}

#[test]
fn damaged_bytes_never_panic() {
    for form in FORMS {
        for bytes in [v2(&awkward(true), form), v4(&awkward(true), form)] {
            let mut state = 12_345u64;
            for _ in 0..60 {
                let mut damaged = bytes.clone();
                for _ in 0..3 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let at = (state >> 33) as usize % damaged.len();
                    damaged[at] = (state >> 20) as u8;
                }
                let _ = gmsh::read(&damaged).and_then(Mesh::from_raw);
            }
        }
    }
}

#[test]
fn nodes_that_stand_twice_are_joined_and_steps_in_size_are_refused() {
    // The second half of the box gets nodes of its own.
    let mut raw = Cuboid { cells: [2, 1, 1], ..Cuboid::unit(1) }.raw();
    let copies: Vec<(u64, [f64; 3])> = raw.nodes.iter().map(|(tag, point)| (tag + 500, *point)).collect();
    raw.nodes.extend(copies);
    raw.tetrahedra.iter_mut().skip(6).for_each(|element| element.nodes = element.nodes.map(|tag| tag + 500));
    raw.triangles.retain(|triangle| !triangle.nodes.contains(&3));
    let mesh = Mesh::from_raw(raw).unwrap();
    check(&mesh);
    assert!(mesh.notes.iter().any(|note| note.ends_with("joined: 2")), "{:?}", mesh.notes);

    // One cube beside two by two: their common side does not fit.
    let mut coarse = Cuboid::unit(1).raw();
    let fine = Cuboid { cells: [2, 2, 2], low: [1.0, 0.0, 0.0], high: [2.0, 1.0, 1.0], ..Cuboid::unit(1) }.raw();
    coarse.nodes.extend(fine.nodes.iter().map(|(tag, point)| (tag + 100, *point)));
    coarse.tetrahedra.extend(fine.tetrahedra.iter().map(|t| mesh::Simplex { nodes: t.nodes.map(|n| n + 100), ..*t }));
    coarse.triangles.clear();
    let error = Mesh::from_raw(coarse).unwrap_err();
    assert!(
        matches!(&error, MeshError::Element { reason, .. } if reason.starts_with("non-conforming: node")),
        "{error}"
    );
}

#[test]
fn real_meshes_are_read() {
    let Some(folder) = std::env::var_os("KERNELWRIGHT_DATA").map(PathBuf::from) else {
        eprintln!("skipped: KERNELWRIGHT_DATA is not set");
        return;
    };
    let read = |name: &str| {
        let mesh = mesh::read(&folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        check(&mesh);
        mesh
    };
    let cube = read("cube_750_tets.v22.msh");
    assert_eq!((cube.elements.len(), cube.region_names.as_slice()), (750, ["Domain".to_string()].as_slice()));
    assert!((volume(&cube) - 8.0).abs() < 1e-9);
    assert!(cube.notes.iter().any(|note| note.contains("no face of a tetrahedron")), "{:?}", cube.notes);
    let nested = read("nested_cubes_520_tets.v22.msh");
    assert_eq!((nested.elements.len(), nested.region_names.len()), (520, 2));
    let part = read("part_40144_tets.v41.msh");
    assert_eq!(part.elements.len(), 40_144);
    let names = boundaries(&part);
    assert!(names.contains_key("boundary1") && names.contains_key("boundary2"), "{names:?}");
}
