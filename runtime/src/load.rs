//! Finds a program: a `.kw` file, standard input (`-`), or a program registered by the macro.

use std::io::Read;
use std::path::{Path, PathBuf};

use kernelwright_syntax::diagnostic::Diagnostics;
use kernelwright_syntax::program::Program;

use crate::registry;

/// A checked program and where it came from.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The program.
    pub program: Program,
    /// Its text.
    pub text: String,
    /// Paths in the program are relative to this folder.
    pub folder: PathBuf,
}

/// Why a program could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no such file or program.
    #[error("{0}")]
    NotFound(String),
    /// The program has errors, each with its place.
    #[error("{0}")]
    Program(Diagnostics),
}

/// Loads the program that `what` names.
pub fn load(what: &str) -> Result<Loaded, LoadError> {
    if what == "-" {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| LoadError::NotFound(format!("standard input: {error}")))?;
        return compile("standard input", text, PathBuf::new());
    }
    let path = Path::new(what);
    if let Some(registered) = registry::programs().into_iter().find(|program| program.name == what) {
        return compile(registered.file, registered.source.to_string(), PathBuf::new());
    }
    let bytes = std::fs::read(path).map_err(|error| LoadError::NotFound(missing(what, &error)))?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| LoadError::NotFound(format!("{what}: the file is not UTF-8 text")))?;
    compile(what, text, path.parent().map(Path::to_path_buf).unwrap_or_default())
}

/// Compiles a text; paths in it are relative to the current folder.
///
/// # Errors
/// The program's errors, all of them.
pub fn from_text(name: &str, text: String) -> Result<Loaded, LoadError> {
    compile(name, text, PathBuf::new())
}

fn compile(name: &str, text: String, folder: PathBuf) -> Result<Loaded, LoadError> {
    let program = kernelwright_syntax::compile(name, &text).map_err(LoadError::Program)?;
    Ok(Loaded { program, text, folder })
}

fn missing(what: &str, error: &std::io::Error) -> String {
    let names: Vec<&str> = registry::programs().iter().map(|program| program.name).collect();
    if names.is_empty() {
        return format!("{what}: {error}");
    }
    format!("{what}: {error}; programs of this binary: {}", names.join(", "))
}
