//! Banner and sizes of a MatrixMarket file.

use std::fmt;
use std::io::{BufRead, Read};

use super::super::scan::{Scanner, refuse_index, show};
use super::super::{MatrixError, Symmetry, at, bad};
use super::array_values;

/// A longer line of a header is not believed to be one.
const LONGEST_LINE: u64 = 1 << 20;

/// How entries are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Coordinate,
    Array,
}

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    Real,
    Integer,
    Pattern,
}

/// The banner.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) layout: Layout,
    pub(super) field: Field,
    pub(super) symmetry: Symmetry,
}

/// The line of sizes; `entries` counts what the file holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) entries: usize,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let layout = if self.layout == Layout::Coordinate { "coordinate" } else { "array" };
        let field = match self.field {
            Field::Real => "real",
            Field::Integer => "integer",
            Field::Pattern => "pattern",
        };
        write!(f, "MatrixMarket {layout} {field} {}", self.symmetry.name())
    }
}

/// Whether a file begins like one of this format.
pub(in super::super) fn is_banner(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    start.get(..14).is_some_and(|word| word.eq_ignore_ascii_case(b"%%MatrixMarket"))
}

/// Reads up to the line of sizes; returns also the number of the line behind it.
pub(super) fn read(source: &mut impl BufRead) -> Result<(Header, Sizes, usize), MatrixError> {
    let mut line = 1;
    let mut text = Vec::new();
    next_line(source, &mut text, line)?;
    if !is_banner(&text) {
        return Err(at(1, "a MatrixMarket file begins with `%%MatrixMarket`"));
    }
    let header = banner(&text).map_err(|reason| at(1, reason))?;
    loop {
        line += 1;
        if !next_line(source, &mut text, line)? {
            return Err(at(line - 1, "the file ends before the line of sizes"));
        }
        let mut scanner = Scanner::new(&text);
        scanner.skip_blanks();
        if !scanner.at_line_end() && scanner.peek() != Some(b'%') {
            return Ok((header, sizes(&mut scanner, header, line)?, line + 1));
        }
    }
}

/// Reads a line into `text`; false at the end of the file.
fn next_line(source: &mut impl BufRead, text: &mut Vec<u8>, line: usize) -> Result<bool, MatrixError> {
    text.clear();
    source.by_ref().take(LONGEST_LINE).read_until(b'\n', text)?;
    if text.len() as u64 == LONGEST_LINE && text.last() != Some(&b'\n') {
        return Err(at(line, format!("the line is longer than {LONGEST_LINE} bytes")));
    }
    Ok(!text.is_empty())
}

fn banner(text: &[u8]) -> Result<Header, String> {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let mut words = text.split_ascii_whitespace().skip(1);
    let mut word = |what: &str| words.next().ok_or_else(|| format!("the banner ends before the {what}"));
    let unknown = |what: &str, word: &str, known: &str| {
        Err(format!("the {what} `{}` is not known ({known})", show(word.as_bytes())))
    };
    match word("object")? {
        "matrix" => {}
        other => return unknown("object", other, "only `matrix` is read"),
    }
    let layout = match word("layout")? {
        "coordinate" => Layout::Coordinate,
        "array" => Layout::Array,
        other => return unknown("layout", other, "coordinate and array are"),
    };
    let field = match word("field")? {
        "real" | "double" => Field::Real,
        "integer" | "unsigned-integer" => Field::Integer,
        "pattern" => Field::Pattern,
        "complex" => return Err("complex values are not supported; all arithmetic here is real".to_string()),
        other => return unknown("field", other, "real, integer and pattern are"),
    };
    let symmetry = match word("symmetry")? {
        "general" => Symmetry::General,
        // A hermitian matrix of real numbers is a symmetric one.
        "symmetric" | "hermitian" => Symmetry::Symmetric,
        "skew-symmetric" => Symmetry::Skew,
        other => return unknown("symmetry", other, "general, symmetric, skew-symmetric and hermitian are"),
    };
    if let Some(more) = words.next() {
        return Err(format!("the banner goes on with `{}`", show(more.as_bytes())));
    }
    if field == Field::Pattern && layout == Layout::Array {
        return Err("an array has values, it cannot be a pattern".to_string());
    }
    if field == Field::Pattern && symmetry == Symmetry::Skew {
        return Err("a pattern has no signs, it cannot be skew-symmetric".to_string());
    }
    Ok(Header { layout, field, symmetry })
}

fn sizes(scanner: &mut Scanner, header: Header, line: usize) -> Result<Sizes, MatrixError> {
    let mut number = || {
        scanner.skip_blanks();
        scanner.index().ok_or_else(|| at(line, size_reason(scanner.word())))
    };
    let (rows, columns) = (number()?, number()?);
    let entries = match header.layout {
        Layout::Coordinate => number()?,
        Layout::Array => array_values(rows, columns, header.symmetry).map_err(|error| at(line, error.to_string()))?,
    };
    scanner.skip_blanks();
    if !scanner.at_line_end() {
        let count = if header.layout == Layout::Coordinate { "three" } else { "two" };
        return Err(at(line, format!("the line of sizes has more than {count} numbers")));
    }
    if header.symmetry != Symmetry::General && rows != columns {
        let name = header.symmetry.name();
        return Err(at(line, format!("a {name} matrix is square, this one is {rows} x {columns}")));
    }
    if rows == usize::MAX || columns == usize::MAX {
        return Err(bad("the sizes are too large"));
    }
    Ok(Sizes { rows, columns, entries })
}

fn size_reason(word: &[u8]) -> String {
    match word {
        [] => "the line of sizes is too short".to_string(),
        _ if word.iter().all(u8::is_ascii_digit) => refuse_index(word),
        _ => format!("the size `{}` is not a whole number", show(word)),
    }
}
