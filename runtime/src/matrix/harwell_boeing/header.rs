//! The first four or five lines.

use super::super::scan::show;
use super::super::{MatrixError, Symmetry, at};
use super::format::Format;
use super::lines::Lines;

/// What the lines say.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) title: String,
    /// The three letters.
    pub(super) kind: String,
    /// The file has values.
    pub(super) has_values: bool,
    pub(super) symmetry: Symmetry,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) entries: usize,
    pub(super) pointers: Format,
    pub(super) indices: Format,
    pub(super) values: Option<Format>,
    pub(super) sides: Option<Sides>,
}

/// Right-hand sides of a Harwell-Boeing file.
#[derive(Debug)]
pub(super) struct Sides {
    pub(super) sparse: bool,
    pub(super) guesses: bool,
    pub(super) solutions: bool,
    pub(super) count: usize,
    pub(super) format: Format,
}

/// Whether the third line has a type of matrix.
pub(in super::super) fn is_one(start: &[u8]) -> bool {
    let kind = start.split(|byte| *byte == b'\n').nth(2).and_then(|line| line.get(..3));
    let one_of = |byte: u8, letters: &[u8]| letters.contains(&byte.to_ascii_uppercase());
    kind.is_some_and(|k| one_of(k[0], b"RCPIQ") && one_of(k[1], b"SUHZR") && one_of(k[2], b"AE"))
}

pub(super) fn read(lines: &mut Lines) -> Result<Header, MatrixError> {
    let title = String::from_utf8_lossy(lines.next("the title")?.0).trim_end().to_string();
    let (cards, _) = lines.next("the numbers of lines")?;
    let cards = numbers(cards, 0).map_err(|reason| at(2, reason))?;
    if cards.len() < 4 {
        return Err(at(2, "the line has four or five numbers of lines"));
    }
    let (line, _) = lines.next("the type of the matrix")?;
    let kind = String::from_utf8_lossy(line.get(..3).unwrap_or(line)).to_ascii_uppercase();
    let (symmetry, has_values) = type_of(&kind).map_err(|reason| at(3, reason))?;
    let sizes = numbers(line, 3).map_err(|reason| at(3, reason))?;
    let [rows, columns, entries] = *sizes.get(..3).and_then(|s| s.first_chunk()).unwrap_or(&[0; 3]);
    if sizes.len() < 3 {
        return Err(at(3, "the line has the numbers of rows, columns and entries"));
    }
    if symmetry != Symmetry::General && rows != columns {
        let name = symmetry.name();
        return Err(at(3, format!("a {name} matrix is square, this one is {rows} x {columns}")));
    }
    let has_sides = cards.get(4).is_some_and(|count| *count > 0);
    let mut formats = formats(lines, 2 + usize::from(has_values) + usize::from(has_sides))?;
    let side_format = formats.pop_if(|_| has_sides);
    let sides = match side_format {
        Some(format) => Some(sides(lines, format)?),
        None => None,
    };
    let mut formats = formats.into_iter();
    let integers = |format: Option<Format>| {
        let format = format.filter(Format::is_integer);
        format.ok_or_else(|| at(4, "the formats of pointers and indices are those of integers"))
    };
    let (pointers, indices) = (integers(formats.next())?, integers(formats.next())?);
    let values = formats.next().filter(|_| has_values);
    Ok(Header { title, kind, has_values, symmetry, rows, columns, entries, pointers, indices, values, sides })
}

/// The fourth line, with at least as many formats as are needed.
fn formats(lines: &mut Lines, needed: usize) -> Result<Vec<Format>, MatrixError> {
    let (line, number) = lines.next("the formats")?;
    let formats = groups(line).into_iter().map(|text| Format::parse(&text)).collect::<Result<Vec<_>, _>>();
    let formats = formats.map_err(|reason| at(number, reason))?;
    match formats.len() < needed {
        true => Err(at(number, format!("{} formats where {needed} are needed", formats.len()))),
        false => Ok(formats),
    }
}

fn type_of(kind: &str) -> Result<(Symmetry, bool), String> {
    let letters: Vec<char> = kind.chars().collect();
    let unknown = || format!("the type `{}` is not known (such as RUA, RSA, PUA, PSA, RRA)", show(kind.as_bytes()));
    let [values, symmetry, form] = letters[..] else { return Err(unknown()) };
    let has_values = match values {
        'R' | 'I' => true,
        'P' => false,
        'C' => return Err("complex values are not supported; all arithmetic here is real".to_string()),
        'Q' => return Err("the values are in another file; only the pattern is here".to_string()),
        _ => return Err(unknown()),
    };
    let symmetry = match symmetry {
        'U' | 'R' => Symmetry::General,
        // A hermitian matrix of real numbers is a symmetric one.
        'S' | 'H' => Symmetry::Symmetric,
        'Z' if has_values => Symmetry::Skew,
        'Z' => return Err("a pattern has no signs, it cannot be skew-symmetric".to_string()),
        _ => return Err(unknown()),
    };
    match form {
        'A' => Ok((symmetry, has_values)),
        'E' => Err("the matrix is elemental, not assembled; assemble it before".to_string()),
        _ => Err(unknown()),
    }
}

fn sides(lines: &mut Lines, format: Format) -> Result<Sides, MatrixError> {
    let (line, number) = lines.next("the type of the right-hand sides")?;
    let kind: Vec<u8> = (0..3).map(|n| line.get(n).copied().unwrap_or(b' ').to_ascii_uppercase()).collect();
    let sparse = match kind[0] {
        b'F' => false,
        b'M' => true,
        other => {
            let shown = show(&[other]);
            return Err(at(number, format!("the type `{shown}` of right-hand sides is not known (F and M are)")));
        }
    };
    let counts = numbers(line, 3).map_err(|reason| at(number, reason))?;
    let count = *counts.first().ok_or_else(|| at(number, "the number of right-hand sides is missing"))?;
    Ok(Sides { sparse, guesses: kind[1] == b'G', solutions: kind[2] == b'X', count, format })
}

/// Numbers behind a column.
fn numbers(line: &[u8], from: usize) -> Result<Vec<usize>, String> {
    let rest = line.get(from..).unwrap_or_default();
    let words = rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let number = |word: &[u8]| {
        let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| format!("`{}` is not a number of lines or a size", show(word)))
    };
    words.map(number).collect()
}

/// Texts in outer parentheses; what is not closed is the last one.
fn groups(line: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    let (mut depth, mut text) = (0usize, String::new());
    for byte in line {
        depth += usize::from(*byte == b'(');
        if depth > 0 {
            text.push(char::from(*byte));
        }
        if *byte == b')' && depth > 0 {
            depth -= 1;
            if depth == 0 {
                out.push(std::mem::take(&mut text));
            }
        }
    }
    if depth > 0 {
        out.push(text);
    }
    out
}
