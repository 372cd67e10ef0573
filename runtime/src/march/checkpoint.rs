//! Checkpoints: everything that a run needs to go on as if it had not been interrupted.
//!
//! A line of JSON, then the state: f64, little endian. Time is step times dt, so that nothing is lost in a sum.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::Bound;
use crate::solve::Error;

/// First word of a file.
const MAGIC: &str = "kernelwright checkpoint 1";

/// A state at a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Steps made.
    pub step: u64,
    /// Length of a step.
    pub dt: f64,
    /// Energy at the start, which growth is measured against.
    pub energy: f64,
    /// The state.
    pub state: Vec<f64>,
    /// What the state belongs to.
    pub fingerprint: String,
}

/// What a state belongs to: system, flux, time step, order, mesh, materials, parameters.
pub fn fingerprint(bound: &Bound) -> String {
    let mut hash = blake3::Hasher::new();
    hash.update(kernelwright_codegen::galerkin::text::print(&bound.system).as_bytes());
    hash.update(format!("{} {:?}", bound.element.order, bound.run.precision).as_bytes());
    let vertices = bound.mesh.vertices.iter().flatten();
    let numbers = vertices.chain(bound.materials.iter().flatten()).chain(&bound.run.params);
    for x in numbers {
        hash.update(&x.to_le_bytes());
    }
    for vertex in bound.mesh.elements.iter().flatten() {
        hash.update(&vertex.to_le_bytes());
    }
    hash.finalize().to_hex()[..32].to_string()
}

impl Checkpoint {
    /// Writes it aside and renames: a run that is interrupted while it writes keeps the previous one.
    ///
    /// # Errors
    /// The operating system's.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        let head = json!({
            "step": self.step,
            "dt": format!("{:016x}", self.dt.to_bits()),
            "energy": format!("{:016x}", self.energy.to_bits()),
            "fingerprint": self.fingerprint,
            "values": self.state.len(),
        });
        let mut target = io::BufWriter::new(&mut file);
        writeln!(target, "{MAGIC} {head}")?;
        self.state.iter().try_for_each(|value| target.write_all(&value.to_le_bytes()))?;
        target.flush()?;
        drop(target);
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// Reads one that belongs to a problem.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or belongs to something else.
    pub fn read(path: &Path, bound: &Bound) -> Result<Checkpoint, Error> {
        let wrong = |why: &str| Error::Input(format!("{}: {why}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| wrong(&error.to_string()))?;
        let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| wrong("this is no checkpoint"))?;
        let head = std::str::from_utf8(&bytes[..end]).ok().and_then(|line| line.strip_prefix(MAGIC));
        let head: Value = head
            .and_then(|text| serde_json::from_str(text).ok())
            .ok_or_else(|| wrong("this is no checkpoint of this version"))?;
        let bits = |key: &str| u64::from_str_radix(head[key].as_str()?, 16).ok().map(f64::from_bits);
        let read = || Some((head["step"].as_u64()?, bits("dt")?, bits("energy")?, head["fingerprint"].as_str()?));
        let (step, dt, energy, found) = read().ok_or_else(|| wrong("the head of the checkpoint is damaged"))?;
        if found != fingerprint(bound) {
            return Err(wrong("the checkpoint belongs to another system, flux, order, precision, mesh or materials"));
        }
        let state: Vec<f64> = bytes[end + 1..]
            .chunks_exact(8)
            .map(|chunk| f64::from_le_bytes(chunk.try_into().expect("chunks of eight")))
            .collect();
        if state.len() != bound.len() || !(bytes.len() - end - 1).is_multiple_of(8) {
            return Err(wrong("the checkpoint breaks off"));
        }
        Ok(Checkpoint { step, dt, energy, state, fingerprint: found.to_string() })
    }
}
