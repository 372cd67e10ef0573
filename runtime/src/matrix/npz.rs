//! SciPy's sparse matrices (`scipy.sparse.save_npz`): reader of csr, csc, coo and bsr, writer of csr.
//!
//! A file is a zip archive of .npy arrays: `format`, `shape`, `data`, and `indptr` with `indices` (csr, csc, and bsr,
//! whose `data` are blocks) or `row` with `col` (coo). Arrays of Python objects are pickles, which run code when they are read; they are refused.

use std::io::{self, Write};

use super::zip::{self, Archive};
use super::{Csr, Entry, Matrix, MatrixError, Symmetry, Triplets, Vectors, bad};
use crate::inputs::npy;

/// Reads a matrix.
///
/// # Errors
/// The member of the archive and the reason why it is wrong.
pub fn read(bytes: &[u8]) -> Result<Matrix, MatrixError> {
    let archive = Archive::open(bytes)?;
    let Some(format) = archive.member("format.npy")? else {
        let names: Vec<&str> = archive.names().take(8).collect();
        let names = names.join(", ");
        return Err(bad(format!("no sparse matrix of SciPy: there is no format.npy (but {names})")));
    };
    let format = word(&format).ok_or_else(|| bad("format.npy: it has no name of a format"))?;
    let shape = indices(&archive, "shape.npy")?;
    let [rows, columns] = shape[..] else {
        return Err(bad(format!("shape.npy: {} numbers where a matrix has two", shape.len())));
    };
    let entries = match format.as_str() {
        "csr" => compressed(&archive, rows, columns)?,
        "csc" => swapped(compressed(&archive, columns, rows)?),
        "coo" => coordinates(&archive, rows, columns)?,
        "bsr" => blocks(&archive, rows, columns)?,
        other => return Err(bad(format!("the format `{other}` is not read; convert it with .tocsr() before"))),
    };
    let (stored, zeros) = (entries.len(), entries.iter().filter(|entry| entry.value == 0.0).count());
    let symmetry = Symmetry::General;
    let (csr, duplicates) = Triplets { rows, columns, symmetry, parts: vec![entries] }.into_csr()?;
    let (form, vectors) = (format!("SciPy {format}"), Vectors::default());
    Ok(Matrix { csr, symmetry, form, title: None, stored, duplicates, zeros, upper: false, vectors })
}

/// The text of an array of one string, of bytes or of 32-bit characters, in ASCII.
fn word(npy: &[u8]) -> Option<String> {
    let length = match npy.get(6)? {
        1 => 10 + usize::from(u16::from_le_bytes(*npy.get(8..)?.first_chunk()?)),
        _ => 12usize.checked_add(u32::from_le_bytes(*npy.get(8..)?.first_chunk()?) as usize)?,
    };
    let text = npy.get(length..)?.iter().filter(|byte| **byte != 0).take(16);
    let text: Option<String> = text.map(|byte| byte.is_ascii_alphanumeric().then_some(char::from(*byte))).collect();
    text.filter(|text| !text.is_empty())
}

fn array(archive: &Archive, name: &str) -> Result<npy::Array, MatrixError> {
    let bytes = archive.member(name)?.ok_or_else(|| bad(format!("there is no {name} in the archive")))?;
    npy::read(&bytes[..]).map_err(|error| bad(format!("{name}: {}", reason(&error.to_string()))))
}

/// An array with one axis.
fn list(archive: &Archive, name: &str) -> Result<Vec<f64>, MatrixError> {
    let array = array(archive, name)?;
    match array.shape.len() {
        0 | 1 => Ok(array.values),
        axes => Err(bad(format!("{name}: an array with {axes} axes where one is expected"))),
    }
}

fn reason(error: &str) -> &str {
    match error.contains("`|O`") {
        true => "an array of Python objects is a pickle, which could run any code; it is not read",
        false => error,
    }
}

/// Whole numbers from 0 up; the f64 of the reader hold them exactly up to 2^53, beyond which nothing here has indices.
fn indices(archive: &Archive, name: &str) -> Result<Vec<usize>, MatrixError> {
    const LARGEST: f64 = (1u64 << 53) as f64;
    let index = |(place, value): (usize, f64)| match value.fract() == 0.0 && (0.0..LARGEST).contains(&value) {
        true => Ok(value as usize),
        false => Err(bad(format!("{name}: element {place} is {value}, not an index"))),
    };
    list(archive, name)?.into_iter().enumerate().map(index).collect()
}

fn values(archive: &Archive, count: usize) -> Result<Vec<f64>, MatrixError> {
    let values = list(archive, "data.npy")?;
    if values.len() != count {
        return Err(bad(format!("data.npy: {} values for {count} indices", values.len())));
    }
    finite(values)
}

fn finite(values: Vec<f64>) -> Result<Vec<f64>, MatrixError> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(place) => Err(bad(format!("data.npy: element {place} is {}, not finite", values[place]))),
        None => Ok(values),
    }
}

/// Where compressed rows begin among places, and the places.
fn rows_of(archive: &Archive, rows: usize) -> Result<(Vec<usize>, Vec<usize>), MatrixError> {
    let starts = indices(archive, "indptr.npy")?;
    let places = indices(archive, "indices.npy")?;
    if Some(starts.len()) != rows.checked_add(1) {
        return Err(bad(format!("indptr.npy: {} elements, shape.npy asks for one more than {rows}", starts.len())));
    }
    let ascending = starts.windows(2).all(|pair| pair[0] <= pair[1]);
    if starts[0] != 0 || !ascending || starts[rows] != places.len() {
        return Err(bad(format!("indptr.npy: it does not ascend from 0 to the {} indices", places.len())));
    }
    Ok((starts, places))
}

/// Entries of compressed rows; of compressed columns with rows and columns exchanged.
fn compressed(archive: &Archive, rows: usize, columns: usize) -> Result<Vec<Entry>, MatrixError> {
    let (starts, places) = rows_of(archive, rows)?;
    let values = values(archive, places.len())?;
    check(&places, columns, "indices.npy")?;
    let mut entries = Vec::with_capacity(places.len());
    for (row, bounds) in starts.windows(2).enumerate() {
        let range = bounds[0]..bounds[1];
        let pairs = places[range.clone()].iter().zip(&values[range]);
        entries.extend(pairs.map(|(column, value)| Entry { row, column: *column, value: *value }));
    }
    Ok(entries)
}

/// Entries of dense blocks in compressed rows of blocks. Zeros fill up blocks: they are no entries.
fn blocks(archive: &Archive, rows: usize, columns: usize) -> Result<Vec<Entry>, MatrixError> {
    let data = array(archive, "data.npy")?;
    let [count, high, wide] = data.shape[..] else {
        return Err(bad(format!("data.npy: an array with {} axes where blocks have three", data.shape.len())));
    };
    if high == 0 || wide == 0 || !rows.is_multiple_of(high) || !columns.is_multiple_of(wide) {
        return Err(bad(format!("data.npy: blocks of {high} x {wide} do not divide {rows} x {columns}")));
    }
    let (starts, places) = rows_of(archive, rows / high)?;
    if places.len() != count {
        return Err(bad(format!("data.npy: {count} blocks for {} indices", places.len())));
    }
    check(&places, columns / wide, "indices.npy")?;
    let values = finite(data.values)?;
    let mut entries = Vec::new();
    for (band, bounds) in starts.windows(2).enumerate() {
        for block in bounds[0]..bounds[1] {
            for (n, value) in values[block * high * wide..(block + 1) * high * wide].iter().enumerate() {
                if *value != 0.0 {
                    let (row, column) = (band * high + n / wide, places[block] * wide + n % wide);
                    entries.push(Entry { row, column, value: *value });
                }
            }
        }
    }
    Ok(entries)
}

fn swapped(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.iter_mut().for_each(|entry| std::mem::swap(&mut entry.row, &mut entry.column));
    entries
}

fn coordinates(archive: &Archive, rows: usize, columns: usize) -> Result<Vec<Entry>, MatrixError> {
    let (row, column) = (indices(archive, "row.npy")?, indices(archive, "col.npy")?);
    if row.len() != column.len() {
        return Err(bad(format!("row.npy has {} elements, col.npy {}", row.len(), column.len())));
    }
    let values = values(archive, row.len())?;
    check(&row, rows, "row.npy")?;
    check(&column, columns, "col.npy")?;
    let pairs = row.into_iter().zip(column).zip(values);
    Ok(pairs.map(|((row, column), value)| Entry { row, column, value }).collect())
}

fn check(indices: &[usize], size: usize, name: &str) -> Result<(), MatrixError> {
    match indices.iter().position(|index| *index >= size) {
        Some(place) => Err(bad(format!("{name}: element {place} is {}, beyond the size {size}", indices[place]))),
        None => Ok(()),
    }
}

/// Writes a matrix as csr, uncompressed; the same matrix gives the same bytes.
pub fn write(target: impl Write, matrix: &Csr) -> io::Result<()> {
    let widest = matrix.columns().max(matrix.entries());
    let (descr, width) = if i32::try_from(widest).is_ok() { ("<i4", 4) } else { ("<i8", 8) };
    let integers = |numbers: &[usize]| {
        let bytes = numbers.iter().flat_map(|number| (*number as u64).to_le_bytes().into_iter().take(width));
        npy::encode(descr, &[numbers.len()], bytes)
    };
    let shape = [matrix.rows(), matrix.columns()].into_iter().flat_map(|size| (size as u64).to_le_bytes());
    let values = matrix.values().iter().flat_map(|value| value.to_le_bytes());
    let members = [
        ("indices.npy", integers(matrix.column_indices())),
        ("indptr.npy", integers(matrix.row_starts())),
        ("format.npy", npy::encode("|S3", &[], *b"csr")),
        ("shape.npy", npy::encode("<i8", &[2], shape)),
        ("data.npy", npy::encode("<f8", &[matrix.entries()], values)),
    ];
    zip::write(target, &members)
}
