//! The .npy format of NumPy: reader and writer.
//!
//! A file is the magic string, a version, the length of a header and the header, a Python dictionary with the keys
//! `descr`, `fortran_order` and `shape`, followed by the elements. Versions 1, 2 and 3 differ in the width of the
//! length and the encoding of the header. Read are real numbers and integers of every width and byte order; arrays
//! of objects, complex numbers and records are refused by name.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

mod header;

use header::{Header, Kind};

/// An array: elements in C order (the last index fastest), whatever the order in the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// Extents, slowest first.
    pub shape: Vec<usize>,
    /// Elements.
    pub values: Vec<f64>,
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The operating system's reason.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file is not what it should be.
    #[error("{0}")]
    Format(String),
}

fn bad(reason: impl Into<String>) -> NpyError {
    NpyError::Format(reason.into())
}

/// Element type of a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Float {
    F32,
    F64,
}

/// Reads a file; the error names it.
pub fn read_file(path: &Path) -> Result<Array, String> {
    let read = || read(File::open(path)?);
    read().map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads an array.
pub fn read(mut source: impl Read) -> Result<Array, NpyError> {
    let header = Header::read(&mut source)?;
    let count = header.count()?;
    let width = header.width;
    let expected = (count as u64).checked_mul(width as u64).ok_or_else(|| bad("the shape is too large"))?;
    // The header is not trusted for the size of an allocation: `take` reads what is there.
    let mut bytes = Vec::new();
    source.take(expected).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < expected {
        return Err(bad(format!(
            "the shape promises {expected} bytes of elements, the file ends after {}",
            bytes.len()
        )));
    }
    let values: Vec<f64> = bytes.chunks_exact(width).map(|element| decode(element, &header)).collect();
    let values = if header.fortran { to_c_order(&values, &header.shape) } else { values };
    Ok(Array { shape: header.shape, values })
}

/// Writes an array in C order, little endian, format version 1.
pub fn write(mut target: impl Write, shape: &[usize], values: &[f64], float: Float) -> io::Result<()> {
    let descr = match float {
        Float::F32 => "<f4",
        Float::F64 => "<f8",
    };
    target.write_all(&header::encode(descr, shape))?;
    for chunk in values.chunks(1 << 14) {
        let bytes: Vec<u8> = match float {
            Float::F32 => chunk.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
            Float::F64 => chunk.iter().flat_map(|value| value.to_le_bytes()).collect(),
        };
        target.write_all(&bytes)?;
    }
    target.flush()
}

/// A file of any type: header and elements as they are.
pub(crate) fn encode(descr: &str, shape: &[usize], elements: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let mut bytes = header::encode(descr, shape);
    bytes.extend(elements);
    bytes
}

/// One element; `element` has the header's width.
fn decode(element: &[u8], header: &Header) -> f64 {
    let mut bytes = [0u8; 8];
    let width = header.width;
    for (position, byte) in element.iter().enumerate() {
        // Little endian from here on.
        bytes[if header.big_endian { width - 1 - position } else { position }] = *byte;
    }
    let bits = u64::from_le_bytes(bytes);
    match header.kind {
        Kind::Float => match width {
            2 => half_to_f64(bits as u16),
            4 => f64::from(f32::from_bits(bits as u32)),
            _ => f64::from_bits(bits),
        },
        Kind::Unsigned => bits as f64,
        Kind::Signed => {
            let unused = 64 - 8 * width as u32;
            (((bits << unused) as i64) >> unused) as f64
        }
        Kind::Bool => f64::from(u8::from(bits != 0)),
    }
}

/// IEEE binary16.
fn half_to_f64(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// Elements stored with the first index fastest, reordered to the last index fastest.
fn to_c_order(values: &[f64], shape: &[usize]) -> Vec<f64> {
    let mut strides = vec![1usize; shape.len()];
    for axis in 1..shape.len() {
        strides[axis] = strides[axis - 1] * shape[axis - 1];
    }
    let mut index = vec![0usize; shape.len()];
    let mut out = Vec::with_capacity(values.len());
    for _ in 0..values.len() {
        out.push(values[index.iter().zip(&strides).map(|(i, stride)| i * stride).sum::<usize>()]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}
