//! The header of a .npy file.

use std::io::{self, Read};

use super::{NpyError, bad};

/// Headers of real files have about a hundred bytes; this bounds what a hostile length can allocate.
const LONGEST: usize = 1 << 20;

/// What the elements are and how they lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub(super) width: usize,
    pub(super) big_endian: bool,
    pub(super) fortran: bool,
    pub(super) shape: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Signed,
    Unsigned,
    Bool,
}

impl Header {
    pub(super) fn read(source: &mut impl Read) -> Result<Header, NpyError> {
        let mut start = [0u8; 8];
        source.read_exact(&mut start).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => bad("not a .npy file: too short"),
            _ => error.into(),
        })?;
        if &start[..6] != b"\x93NUMPY" {
            return Err(bad("not a .npy file: it does not begin with the magic string"));
        }
        let length = match start[6] {
            1 => {
                let mut bytes = [0u8; 2];
                source.read_exact(&mut bytes).map_err(|_| bad("the header is cut off"))?;
                usize::from(u16::from_le_bytes(bytes))
            }
            2 | 3 => {
                let mut bytes = [0u8; 4];
                source.read_exact(&mut bytes).map_err(|_| bad("the header is cut off"))?;
                u32::from_le_bytes(bytes) as usize
            }
            version => return Err(bad(format!("format version {version} is not known (1, 2 and 3 are)"))),
        };
        if length > LONGEST {
            return Err(bad(format!("a header of {length} bytes is not believable")));
        }
        let mut text = vec![0u8; length];
        source.read_exact(&mut text).map_err(|_| bad("the header is cut off"))?;
        let text = String::from_utf8(text).map_err(|_| bad("the header is not text"))?;
        Parser { rest: &text }.header()
    }

    /// Number of elements.
    pub(super) fn count(&self) -> Result<usize, NpyError> {
        let product = self.shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
        product.ok_or_else(|| bad("the shape is too large"))
    }
}

/// Bytes from the magic string to the header's end; elements begin at a multiple of 64.
pub(super) fn encode(descr: &str, shape: &[usize]) -> Vec<u8> {
    let mut extents = shape.iter().map(|extent| format!("{extent}, ")).collect::<String>();
    if shape.len() > 1 {
        extents.truncate(extents.len() - 2);
    } else if shape.len() == 1 {
        extents.truncate(extents.len() - 1);
    }
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    let padding = (64 - (10 + text.len() + 1) % 64) % 64;
    text.extend(std::iter::repeat_n(' ', padding));
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes
}

/// Reads the dictionary literal.
struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn header(mut self) -> Result<Header, NpyError> {
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.accept('}') {
            let key = self.string()?;
            self.expect(':')?;
            match key {
                "descr" => descr = Some(self.descr()?),
                "fortran_order" => fortran = Some(self.boolean()?),
                "shape" => shape = Some(self.shape()?),
                other => return Err(bad(format!("the header has an unknown key `{other}`"))),
            }
            if !self.accept(',') {
                self.expect('}')?;
                break;
            }
        }
        self.skip_space();
        if !self.rest.is_empty() {
            return Err(bad("the header goes on behind its dictionary"));
        }
        let missing = |key: &str| bad(format!("the header has no `{key}`"));
        let (kind, width, big_endian) = descr.ok_or_else(|| missing("descr"))?;
        Ok(Header {
            kind,
            width,
            big_endian,
            fortran: fortran.ok_or_else(|| missing("fortran_order"))?,
            shape: shape.ok_or_else(|| missing("shape"))?,
        })
    }

    fn descr(&mut self) -> Result<(Kind, usize, bool), NpyError> {
        self.skip_space();
        if self.rest.starts_with('[') {
            return Err(bad("records are not supported; save the field as an array of its own"));
        }
        let text = self.string()?;
        let unsupported =
            || bad(format!("elements of type `{text}` are not supported (f2 f4 f8, i1 … i8, u1 … u8, b1 are)"));
        let mut chars = text.chars();
        let mut first = chars.next();
        let order = first.filter(|c| "<>|=".contains(*c));
        if order.is_some() {
            first = chars.next();
        }
        let (kind, widths): (_, &[usize]) = match first {
            Some('f') => (Kind::Float, &[2, 4, 8]),
            Some('i') => (Kind::Signed, &[1, 2, 4, 8]),
            Some('u') => (Kind::Unsigned, &[1, 2, 4, 8]),
            Some('b') => (Kind::Bool, &[1]),
            _ => return Err(unsupported()),
        };
        let width = chars.as_str().parse().map_err(|_| unsupported())?;
        if !widths.contains(&width) {
            return Err(unsupported());
        }
        let big_endian = order == Some('>') || (order != Some('<') && cfg!(target_endian = "big"));
        Ok((kind, width, big_endian))
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.skip_space();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(bad("`fortran_order` is neither True nor False"))
    }

    fn shape(&mut self) -> Result<Vec<usize>, NpyError> {
        let mut shape = Vec::new();
        self.expect('(')?;
        while !self.accept(')') {
            if shape.len() == 32 {
                return Err(bad("the shape has more than 32 axes"));
            }
            shape.push(self.extent()?);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn extent(&mut self) -> Result<usize, NpyError> {
        self.skip_space();
        let digits = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(digits);
        // Python 2 wrote long integers with an L.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        number.parse().map_err(|_| bad("the shape is not a tuple of non-negative integers"))
    }

    fn string(&mut self) -> Result<&'t str, NpyError> {
        self.skip_space();
        let quote = self.rest.chars().next().filter(|c| *c == '\'' || *c == '"');
        let quote = quote.ok_or_else(|| bad("the header is not a dictionary of strings"))?;
        let text = &self.rest[1..];
        let end = text.find(quote).ok_or_else(|| bad("a string of the header does not end"))?;
        self.rest = &text[end + 1..];
        Ok(&text[..end])
    }

    fn expect(&mut self, wanted: char) -> Result<(), NpyError> {
        if self.accept(wanted) { Ok(()) } else { Err(bad(format!("the header lacks a `{wanted}`"))) }
    }

    fn accept(&mut self, wanted: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }
}
