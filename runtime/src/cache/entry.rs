//! An entry of the kernel cache as a file.
//!
//! First line: `kernelwright kernel 1 <hash>`, the hash of all that follows in hexadecimal. Second line: the
//! description, JSON. Then the unit's bytes. `head -2` shows what an entry is; the hash covers description and unit, so
//! a change or loss anywhere is noticed.

use serde::{Deserialize, Serialize};
use std::io::Write;

const MAGIC: &str = "kernelwright kernel 1 ";

/// What an entry holds, for people and for `kernelwright cache list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Description {
    /// Back end.
    pub backend: String,
    /// Names of the kernels in the unit.
    pub kernels: Vec<String>,
    /// Compiler and its version.
    pub compiler: String,
    /// Architecture compiled for.
    pub architecture: String,
    /// Options.
    pub options: Vec<String>,
    /// Bytes of the generated source.
    pub source_bytes: u64,
    /// Bytes of the unit.
    pub bytes: u64,
    /// Seconds since 1970 when it was built.
    pub created: u64,
}

/// What is wrong with an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// Cut off, or not an entry at all.
    #[error("not a complete entry")]
    Incomplete,
    /// Content and checksum differ.
    #[error("its checksum does not match")]
    Checksum,
    /// A sound entry under another one's name.
    #[error("it belongs to another key")]
    Misplaced,
    /// The operating system could not read it.
    #[error("{0}")]
    Unreadable(String),
}

/// The description as it is stored, with the name of the file it belongs to.
#[derive(Serialize, Deserialize)]
struct Stored {
    file: String,
    #[serde(flatten)]
    about: Description,
}

/// Writes an entry.
pub(super) fn write(to: &mut impl Write, file: &str, about: &Description, unit: &[u8]) -> std::io::Result<()> {
    let stored = Stored { file: file.to_owned(), about: about.clone() };
    let mut line = serde_json::to_vec(&stored).map_err(std::io::Error::other)?;
    line.push(b'\n');
    let hash = blake3::Hasher::new().update(&line).update(unit).finalize();
    writeln!(to, "{MAGIC}{}", hash.to_hex())?;
    to.write_all(&line)?;
    to.write_all(unit)
}

/// Reads an entry that was found under the name `file`: its description and its unit.
pub(super) fn read<'a>(content: &'a [u8], file: &str) -> Result<(Description, &'a [u8]), Damage> {
    let (first, rest) = line(content).ok_or(Damage::Incomplete)?;
    let hash = first.strip_prefix(MAGIC.as_bytes()).ok_or(Damage::Incomplete)?;
    if blake3::hash(rest).to_hex().as_bytes() != hash {
        return Err(Damage::Checksum);
    }
    let (second, unit) = line(rest).ok_or(Damage::Incomplete)?;
    let stored: Stored = serde_json::from_slice(second).map_err(|_| Damage::Incomplete)?;
    if stored.file != file {
        return Err(Damage::Misplaced);
    }
    Ok((stored.about, unit))
}

/// Splits off the first line.
fn line(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = content.iter().position(|&byte| byte == b'\n')?;
    Some((&content[..end], &content[end + 1..]))
}
