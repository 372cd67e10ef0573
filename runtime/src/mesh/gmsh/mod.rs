//! gmsh's MSH files: versions 2.2 and 4.1, text and binary.
//!
//! Format: C. Geuzaine, J.-F. Remacle, Gmsh reference manual, "MSH file format". One code reads text and binary: the
//! [`reader`] gives integers, sizes and reals of either. Points and lines are skipped; what is neither a straight
//! tetrahedron nor a straight triangle is refused, because the mesh would have holes without it.

mod kinds;
mod reader;
mod v2;
mod v4;

use super::raw::Raw;
use super::{MeshError, bad};
use reader::Reader;

/// Version of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V2,
    V4,
}

/// Reads a file's bytes.
///
/// # Errors
/// What is no MSH file of a known version, breaks off, or holds elements other than straight simplices.
pub fn read(bytes: &[u8]) -> Result<Raw, MeshError> {
    let mut reader = Reader::new(bytes);
    let mut raw = Raw::default();
    let mut groups = v4::Groups::default();
    let mut seen = [false; 2];
    let version = header(&mut reader)?;
    while let Some(section) = reader.section()? {
        match (section.as_str(), version) {
            ("PhysicalNames", _) => names(&mut reader, &mut raw)?,
            ("Entities", Version::V4) => v4::entities(&mut reader, &mut groups, false)?,
            ("PartitionedEntities", Version::V4) => v4::entities(&mut reader, &mut groups, true)?,
            ("Nodes", Version::V2) => v2::nodes(&mut reader, &mut raw)?,
            ("Nodes", Version::V4) => v4::nodes(&mut reader, &mut raw)?,
            ("Elements", Version::V2) => v2::elements(&mut reader, &mut raw)?,
            ("Elements", Version::V4) => v4::elements(&mut reader, &mut raw, &groups)?,
            ("Periodic", Version::V2) => v2::periodic(&mut reader, &mut raw)?,
            ("Periodic", Version::V4) => v4::periodic(&mut reader, &mut raw)?,
            _ => reader.skip(&section)?,
        }
        seen[0] |= section == "Nodes";
        seen[1] |= section == "Elements";
        reader.end(&section)?;
    }
    match seen {
        [false, _] => Err(bad("the file has no $Nodes")),
        [_, false] => Err(bad("the file has no $Elements")),
        _ => Ok(raw),
    }
}

/// `$MeshFormat`: version, text or binary, and for binary the byte order.
fn header(reader: &mut Reader<'_>) -> Result<Version, MeshError> {
    match reader.section()?.as_deref() {
        Some("MeshFormat") => {}
        _ => return Err(bad("this is no gmsh file: it does not begin with $MeshFormat")),
    }
    let version = reader.word()?.to_string();
    let binary = reader.int()?;
    let size = reader.int()?;
    let known = match version.as_str() {
        "2" | "2.0" | "2.1" | "2.2" => Version::V2,
        "4.1" => Version::V4,
        _ => {
            let help = "write it as 2.2 or 4.1 (gmsh -format msh41)";
            return Err(reader.wrong(format!("version {version} of gmsh's format is not known; {help}")));
        }
    };
    if size != 8 {
        return Err(reader.wrong(format!("reals of {size} bytes; there are only those of 8")));
    }
    match binary {
        0 => {}
        1 => reader.begin_binary()?,
        other => return Err(reader.wrong(format!("file type {other} is neither 0 (text) nor 1 (binary)"))),
    }
    reader.end("MeshFormat")?;
    Ok(known)
}

/// `$PhysicalNames`, text in any file.
fn names(reader: &mut Reader<'_>, raw: &mut Raw) -> Result<(), MeshError> {
    reader.as_text(|reader| {
        let count = reader.size()?;
        for _ in 0..count {
            let dimension = reader.int()?;
            let tag = reader.int()?;
            let name = reader.quoted()?;
            let dimension = u32::try_from(dimension).map_err(|_| reader.wrong("a dimension below zero"))?;
            raw.names.push((dimension, tag, name));
        }
        Ok(())
    })
}
