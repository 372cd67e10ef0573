//! The files of tests/meshes: each gives exactly the text beside it, what is read or the reason why it is refused.
//! `BLESS=1` rewrites the texts.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use kernelwright::mesh::{self, Behind, Mesh};

fn folder() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of the workspace").to_path_buf();
    root.join("tests/meshes")
}

fn show(mesh: &Mesh) -> String {
    let mut out = String::new();
    let (elements, vertices) = (mesh.elements.len(), mesh.vertices.len());
    writeln!(out, "{elements} elements, {vertices} vertices, regions {:?}", mesh.region_names).unwrap();
    mesh.notes.iter().for_each(|note| writeln!(out, "note: {note}").unwrap());
    for element in 0..elements {
        let behind: Vec<String> = mesh.faces[element]
            .iter()
            .map(|behind| match behind {
                Behind::Element { element, face, .. } => format!("{}/{face}", mesh.tags[*element as usize]),
                Behind::Boundary(boundary) => mesh.boundary_names[*boundary as usize].clone(),
            })
            .collect();
        writeln!(out, "element {}: {}", mesh.tags[element], behind.join(", ")).unwrap();
    }
    out
}

#[test]
fn every_mesh_gives_the_text_beside_it() {
    let bless = std::env::var_os("BLESS").is_some();
    let entries = fs::read_dir(folder()).expect("the folder of meshes");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "msh"));
    paths.sort();
    assert!(paths.len() >= 30, "{} files", paths.len());
    let mut wrong = Vec::new();
    for path in paths {
        let result = match mesh::read(&path) {
            Ok(mesh) => show(&mesh),
            Err(error) => format!("error: {error}\n"),
        };
        let beside = path.with_extension("msh.expected");
        if bless {
            fs::write(&beside, &result).expect("the folder can be written");
        }
        if fs::read_to_string(&beside).unwrap_or_default() != result {
            wrong.push(format!("{}\n--- is\n{result}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "different text (BLESS=1 rewrites it):\n{}", wrong.join("\n"));
}
