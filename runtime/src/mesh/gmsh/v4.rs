//! Sections of version 4.1: elements belong to entities, entities to physical groups.

use std::collections::HashMap;

use super::super::MeshError;
use super::super::raw::{Link, Raw};
use super::kinds::simplex;
use super::reader::Reader;

/// First physical group of each entity, by dimension and tag.
#[derive(Debug, Default)]
pub(super) struct Groups {
    first: HashMap<(i64, i64), i64>,
}

/// `$Entities` or `$PartitionedEntities`.
pub(super) fn entities(reader: &mut Reader<'_>, groups: &mut Groups, parts: bool) -> Result<(), MeshError> {
    if parts {
        reader.size()?;
        for _ in 0..reader.size()? {
            reader.int()?;
            reader.int()?;
        }
    }
    let counts = [reader.size()?, reader.size()?, reader.size()?, reader.size()?];
    for (dimension, count) in counts.into_iter().enumerate() {
        for _ in 0..count {
            entity(reader, groups, dimension as i64, parts)?;
        }
    }
    Ok(())
}

fn entity(reader: &mut Reader<'_>, groups: &mut Groups, dimension: i64, parts: bool) -> Result<(), MeshError> {
    let tag = reader.int()?;
    if parts {
        reader.int()?;
        reader.int()?;
        for _ in 0..reader.size()? {
            reader.int()?;
        }
    }
    // A point, or a box around the entity.
    for _ in 0..if dimension == 0 { 3 } else { 6 } {
        reader.real()?;
    }
    for place in 0..reader.size()? {
        let group = reader.int()?;
        if place == 0 {
            groups.first.insert((dimension, tag), group);
        }
    }
    if dimension > 0 {
        for _ in 0..reader.size()? {
            reader.int()?;
        }
    }
    Ok(())
}

/// `$Nodes`: blocks of tags, then coordinates (with parameters on the entity, if so announced).
pub(super) fn nodes(reader: &mut Reader<'_>, raw: &mut Raw) -> Result<(), MeshError> {
    let (blocks, total) = (reader.size()?, reader.size()?);
    reader.size()?;
    reader.size()?;
    for _ in 0..blocks {
        let (dimension, _, parametric) = (reader.int()?, reader.int()?, reader.int()?);
        let first = raw.nodes.len();
        for _ in 0..reader.size()? {
            raw.nodes.push((reader.size()?, [0.0; 3]));
        }
        for number in first..raw.nodes.len() {
            raw.nodes[number].1 = reader.point()?;
            for _ in 0..if parametric != 0 { dimension } else { 0 } {
                reader.real()?;
            }
        }
    }
    if raw.nodes.len() as u64 != total {
        return Err(reader.wrong(format!("{} nodes where {total} are announced", raw.nodes.len())));
    }
    Ok(())
}

/// `$Elements`: blocks of one kind on one entity.
pub(super) fn elements(reader: &mut Reader<'_>, raw: &mut Raw, groups: &Groups) -> Result<(), MeshError> {
    let (blocks, total) = (reader.size()?, reader.size()?);
    reader.size()?;
    reader.size()?;
    let mut read = 0;
    for _ in 0..blocks {
        let (dimension, entity, number) = (reader.int()?, reader.int()?, reader.int()?);
        let group = groups.first.get(&(dimension, entity)).copied().unwrap_or(0);
        let count = reader.size()?;
        for _ in 0..count {
            let tag = reader.size()?;
            simplex(reader, raw, (tag, group, number), Reader::size)?;
        }
        read += count;
    }
    if read != total {
        return Err(reader.wrong(format!("{read} elements where {total} are announced")));
    }
    Ok(())
}

/// `$Periodic`: links of two entities with an affine map and pairs of nodes.
pub(super) fn periodic(reader: &mut Reader<'_>, raw: &mut Raw) -> Result<(), MeshError> {
    for _ in 0..reader.size()? {
        let (dimension, slave, master) = (reader.int()?, reader.int()?, reader.int()?);
        for _ in 0..reader.size()? {
            reader.real()?;
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
}
