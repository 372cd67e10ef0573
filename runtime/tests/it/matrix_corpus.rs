//! The files of tests/matrices: each gives exactly the text beside it, its entries or the reason why it is refused.
//! `BLESS=1` rewrites the texts.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use kernelwright::matrix::{Matrix, file};

pub fn folder() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of the workspace").to_path_buf();
    root.join("tests/matrices")
}

/// The files, sorted.
pub fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).expect("the folder of matrices");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.retain(|path| !path.to_string_lossy().ends_with(".expected") && !path.ends_with(".gitattributes"));
    paths.sort();
    assert!(paths.len() > 100, "{} files", paths.len());
    paths
}

fn show(matrix: &Matrix) -> String {
    let mut out = String::new();
    let csr = &matrix.csr;
    writeln!(out, "{}", matrix.form).unwrap();
    writeln!(out, "{} x {}, {} entries, {} stored", csr.rows(), csr.columns(), csr.entries(), matrix.stored).unwrap();
    matrix.notes().iter().for_each(|note| writeln!(out, "note: {note}").unwrap());
    for row in 0..csr.rows() {
        csr.row(row).for_each(|(column, value)| writeln!(out, "{} {} {value:?}", row + 1, column + 1).unwrap());
    }
    let vectors = &matrix.vectors;
    let kinds =
        [("right-hand side", &vectors.right_hand_sides), ("guess", &vectors.guesses), ("solution", &vectors.solutions)];
    for (what, vectors) in kinds {
        vectors.iter().for_each(|vector| writeln!(out, "{what} {vector:?}").unwrap());
    }
    out
}

#[test]
fn every_file_gives_the_text_beside_it() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for path in files() {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let result = match file::read(&path) {
            Ok(matrix) => show(&matrix),
            Err(error) => {
                let reason = error.strip_prefix(&format!("{}: ", path.display()));
                format!("error: {}\n", reason.expect("the error names the file"))
            }
        };
        let beside = path.with_file_name(format!("{name}.expected"));
        if bless {
            fs::write(&beside, &result).expect("the folder can be written");
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if result != expected {
            wrong.push(format!("{name}\n--- expected\n{expected}--- is\n{result}"));
        }
    }
    assert!(wrong.is_empty(), "different text (BLESS=1 rewrites it):\n{}", wrong.join("\n"));
}
