//! The members of a zip archive, as far as .npz files need them: stored or deflated, 64-bit sizes, checksums.

use std::io::{self, Read, Write};

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::{MatrixError, bad};

/// An archive in memory.
pub(super) struct Archive<'b> {
    bytes: &'b [u8],
    members: Vec<Member>,
}

struct Member {
    name: String,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    /// Where the local header is.
    header: u64,
}

const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const LOCAL: u32 = 0x0403_4b50;
/// Stands for a size in the 64-bit extension.
const LARGE: u64 = 0xffff_ffff;
/// The tag of the 64-bit extension.
const EXTENSION_64: u64 = 1;

impl<'b> Archive<'b> {
    /// Reads the directory at the end.
    pub(super) fn open(bytes: &'b [u8]) -> Result<Archive<'b>, MatrixError> {
        let damaged = || bad("not a zip archive, or cut off: it has no directory at its end");
        let (mut at, count) = directory(bytes).ok_or_else(damaged)?;
        let mut members = Vec::new();
        for _ in 0..count {
            let (member, next) =
                central(bytes, at).ok_or_else(|| bad("the directory of the zip archive is damaged"))?;
            members.push(member);
            at = next;
        }
        Ok(Archive { bytes, members })
    }

    /// Names of the members.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|member| member.name.as_str())
    }

    /// The contents of the first member with a name.
    pub(super) fn member(&self, name: &str) -> Result<Option<Vec<u8>>, MatrixError> {
        let Some(member) = self.members.iter().find(|member| member.name == name) else { return Ok(None) };
        let packed = self.packed(member).ok_or_else(|| bad(format!("{name}: the zip archive is cut off")))?;
        let mut contents = Vec::new();
        // The size is not trusted for an allocation; one byte more would show that it is wrong.
        let limit = member.size.saturating_add(1);
        match member.method {
            0 => contents.extend(packed),
            8 => {
                let unpacked = DeflateDecoder::new(packed).take(limit).read_to_end(&mut contents);
                unpacked.map_err(|error| bad(format!("{name}: {error}")))?;
            }
            other => return Err(bad(format!("{name}: compression method {other} is not supported"))),
        }
        let mut crc = Crc::new();
        crc.update(&contents);
        if contents.len() as u64 != member.size || crc.sum() != member.crc {
            return Err(bad(format!("{name}: the contents do not have their checksum; the file is damaged")));
        }
        Ok(Some(contents))
    }

    fn packed(&self, member: &Member) -> Option<&'b [u8]> {
        let header = self.bytes.get(usize::try_from(member.header).ok()?..)?;
        let encrypted = number(header, 6, 2)? & 1 == 1;
        if number(header, 0, 4)? != u64::from(LOCAL) || encrypted {
            return None;
        }
        let skip = 30 + number(header, 26, 2)? + number(header, 28, 2)?;
        header.get(skip as usize..)?.get(..usize::try_from(member.packed).ok()?)
    }
}

/// A little-endian number of 2, 4 or 8 bytes.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Where the directory begins, and its number of members.
fn directory(bytes: &[u8]) -> Option<(usize, u64)> {
    // The record at the end may be followed by a comment of up to 64 KiB.
    let lowest = bytes.len().saturating_sub(22 + 0xffff);
    let end = (lowest..=bytes.len().checked_sub(22)?).rev().find(|at| number(bytes, *at, 4) == Some(u64::from(END)))?;
    let (count, start) = (number(bytes, end + 10, 2)?, number(bytes, end + 16, 4)?);
    if count != 0xffff && start != LARGE {
        return Some((start as usize, count));
    }
    let locator = end.checked_sub(20)?;
    if number(bytes, locator, 4)? != u64::from(LOCATOR_64) {
        return Some((start as usize, count));
    }
    let end = usize::try_from(number(bytes, locator + 8, 8)?).ok()?;
    if number(bytes, end, 4)? != u64::from(END_64) {
        return None;
    }
    Some((usize::try_from(number(bytes, end.checked_add(48)?, 8)?).ok()?, number(bytes, end.checked_add(32)?, 8)?))
}

/// The member described at a place of the directory, and where the next one is described.
fn central(bytes: &[u8], at: usize) -> Option<(Member, usize)> {
    let record = bytes.get(at..)?;
    if number(record, 0, 4)? != u64::from(CENTRAL) {
        return None;
    }
    let lengths = [number(record, 28, 2)?, number(record, 30, 2)?, number(record, 32, 2)?].map(|n| n as usize);
    let name = record.get(46..46 + lengths[0])?;
    let extra = record.get(46 + lengths[0]..46 + lengths[0] + lengths[1])?;
    // In the order in which the extension has them.
    let mut large = [number(record, 24, 4)?, number(record, 20, 4)?, number(record, 42, 4)?];
    if large.contains(&LARGE) {
        let mut field = extension(extra)?;
        for value in large.iter_mut().filter(|value| **value == LARGE) {
            *value = number(field, 0, 8)?;
            field = field.get(8..)?;
        }
    }
    let [size, packed, header] = large;
    let name = String::from_utf8_lossy(name).into_owned();
    let (method, crc) = (number(record, 10, 2)? as u16, number(record, 16, 4)? as u32);
    Some((Member { name, method, crc, packed, size, header }, at + 46 + lengths.iter().sum::<usize>()))
}

/// The 64-bit extension among the extra fields.
fn extension(mut extra: &[u8]) -> Option<&[u8]> {
    loop {
        let (tag, length) = (number(extra, 0, 2)?, number(extra, 2, 2)? as usize);
        let field = extra.get(4..4 + length)?;
        if tag == EXTENSION_64 {
            return Some(field);
        }
        extra = &extra[4 + length..];
    }
}

/// Writes an archive of stored members with the same bytes at any time: its clock stands at the format's origin.
pub(super) fn write(mut target: impl Write, members: &[(&str, Vec<u8>)]) -> io::Result<()> {
    let mut directory = Vec::new();
    let mut offset = 0u64;
    for (name, contents) in members {
        let mut crc = Crc::new();
        crc.update(contents);
        let size = small(contents.len() as u64)?;
        let mut common = Vec::new();
        // Version 2.0, no flags, stored, 1980-01-01.
        [20u16, 0, 0, 0, 0x21].iter().for_each(|field| common.extend(field.to_le_bytes()));
        [crc.sum(), size, size].iter().for_each(|field| common.extend(field.to_le_bytes()));
        [name.len() as u16, 0].iter().for_each(|field| common.extend(field.to_le_bytes()));
        directory.extend(CENTRAL.to_le_bytes());
        directory.extend(20u16.to_le_bytes());
        directory.extend(&common);
        directory.extend([0; 10]);
        directory.extend(small(offset)?.to_le_bytes());
        directory.extend(name.as_bytes());
        target.write_all(&LOCAL.to_le_bytes())?;
        target.write_all(&common)?;
        target.write_all(name.as_bytes())?;
        target.write_all(contents)?;
        offset += 4 + common.len() as u64 + name.len() as u64 + contents.len() as u64;
    }
    target.write_all(&directory)?;
    let mut end = END.to_le_bytes().to_vec();
    let count = members.len() as u16;
    [0, 0, count, count].iter().for_each(|field| end.extend(field.to_le_bytes()));
    [directory.len() as u32, small(offset)?].iter().for_each(|field| end.extend(field.to_le_bytes()));
    end.extend([0; 2]);
    target.write_all(&end)?;
    target.flush()
}

/// Sizes beyond 32 bits need the extension, which is not written.
fn small(size: u64) -> io::Result<u32> {
    let large = || io::Error::other("a member of the .npz file would exceed 4 GiB; write .mtx or .mtx.gz instead");
    u32::try_from(size).ok().filter(|size| u64::from(*size) != LARGE).ok_or_else(large)
}
