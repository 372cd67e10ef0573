//! Sections of version 2.2.

use super::super::MeshError;
use super::super::raw::{Link, Raw, Simplex};
use super::kinds::{Kind, kind, refusal};
use super::reader::Reader;

/// `$Nodes`: a count, then tag and coordinates of each.
pub(super) fn nodes(reader: &mut Reader<'_>, raw: &mut Raw) -> Result<(), MeshError> {
    for _ in 0..reader.count_line()? {
        let tag = reader.tag()?;
        raw.nodes.push((tag, reader.point()?));
    }
    Ok(())
}

/// `$Elements`. Text: tag, kind, number of attributes, attributes, nodes. Binary: kind, count and number of attributes
/// once for a run of elements.
pub(super) fn elements(reader: &mut Reader<'_>, raw: &mut Raw) -> Result<(), MeshError> {
    let count = reader.count_line()?;
    let mut done = 0;
    while done < count {
        if reader.is_binary() {
            let (number, run, attributes) = (reader.int()?, reader.tag()?, reader.tag()?);
            if run == 0 || run > count - done {
                return Err(reader.wrong(format!("a run of {run} elements where {} are left", count - done)));
            }
            for _ in 0..run {
                let tag = reader.tag()?;
                element(reader, raw, tag, number, attributes)?;
            }
            done += run;
        } else {
            let (tag, number, attributes) = (reader.tag()?, reader.int()?, reader.tag()?);
            element(reader, raw, tag, number, attributes)?;
            done += 1;
        }
    }
    Ok(())
}

fn element(reader: &mut Reader<'_>, raw: &mut Raw, tag: u64, number: i64, attributes: u64) -> Result<(), MeshError> {
    let mut group = 0;
    for place in 0..attributes {
        let value = reader.int()?;
        if place == 0 {
            group = value;
        }
    }
    let wrong = |reason: String| MeshError::Element { tag, reason };
    match kind(number) {
        Some(Kind::Tetrahedron) => raw.tetrahedra.push(Simplex { tag, group, nodes: node_tags(reader)? }),
        Some(Kind::Triangle) => raw.triangles.push(Simplex { tag, group, nodes: node_tags(reader)? }),
        Some(Kind::Skip(nodes)) => {
            for _ in 0..nodes {
                reader.tag()?;
            }
        }
        Some(Kind::Refuse(what)) => return Err(wrong(refusal(what))),
        None => return Err(wrong(format!("its kind {number} is not known"))),
    }
    Ok(())
}

fn node_tags<const N: usize>(reader: &mut Reader<'_>) -> Result<[u64; N], MeshError> {
    let mut nodes = [0; N];
    for node in &mut nodes {
        *node = reader.tag()?;
    }
    Ok(nodes)
}

/// `$Periodic`, text in any file: dimension and tags of two entities, perhaps an affine map, pairs of nodes.
pub(super) fn periodic(reader: &mut Reader<'_>, raw: &mut Raw) -> Result<(), MeshError> {
    reader.as_text(|reader| {
        for _ in 0..reader.size()? {
            let (dimension, slave, master) = (reader.int()?, reader.int()?, reader.int()?);
            if reader.take_word("Affine") {
                for _ in 0..16 {
                    reader.real()?;
                }
            }
            let mut pairs = Vec::new();
            for _ in 0..reader.size()? {
                pairs.push((reader.size()?, reader.size()?));
            }
            if dimension == 2 {
                raw.links.push(Link { name: format!("{slave} - {master}"), pairs });
            }
        }
        Ok(())
    })
}
