//! Sections of version 2.2.

use super::super::MeshError;
use super::super::raw::{Link, Raw};
use super::kinds::simplex;
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
    simplex(reader, raw, (tag, group, number), Reader::tag)
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
