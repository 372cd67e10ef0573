//! What is this file?

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::{Matrix, MatrixError, bad, harwell_boeing, matrix_market, npz};

/// Reads a matrix from a file of any known format, found by its contents; the error names the file.
///
/// # Errors
/// The file, where it has lines the line, and the reason.
pub fn read(path: &Path) -> Result<Matrix, String> {
    let read = || from(File::open(path)?);
    read().map_err(|error: MatrixError| format!("{}: {error}", path.display()))
}

/// Reads a matrix of any known format.
///
/// # Errors
/// The line, where there are lines, and the reason.
pub fn from(source: impl Read) -> Result<Matrix, MatrixError> {
    let mut source = BufReader::new(source);
    if source.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        let source = BufReader::new(MultiGzDecoder::new(source));
        return plain(source).map_err(|error| match error {
            MatrixError::Io(error) if is_damage(error.kind()) => {
                bad(format!("the gzip data is damaged or cut off ({error})"))
            }
            other => other,
        });
    }
    plain(source)
}

/// Whether the decompressor speaks, not the operating system.
fn is_damage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof)
}

fn plain(mut source: impl BufRead) -> Result<Matrix, MatrixError> {
    // A buffer may come short at first: the beginning is read on its own.
    let mut start = Vec::new();
    source.by_ref().take(LOOK).read_to_end(&mut start)?;
    let kind = Kind::of(&start)?;
    let mut source = start.as_slice().chain(source);
    if kind == Kind::MatrixMarket {
        return matrix_market::read(source);
    }
    let mut bytes = Vec::new();
    source.read_to_end(&mut bytes)?;
    match kind {
        Kind::Npz => npz::read(&bytes),
        _ => harwell_boeing::read(&bytes),
    }
}

/// Bytes in which a format shows.
const LOOK: u64 = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    MatrixMarket,
    Npz,
    HarwellBoeing,
}

impl Kind {
    fn of(start: &[u8]) -> Result<Kind, MatrixError> {
        if matrix_market::is_banner(start) {
            return Ok(Kind::MatrixMarket);
        }
        if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            return Ok(Kind::Npz);
        }
        if harwell_boeing::is_one(start) {
            return Ok(Kind::HarwellBoeing);
        }
        if start.is_empty() {
            return Err(bad("the file is empty"));
        }
        if start.starts_with(b"%") {
            return Err(bad("line 1: a MatrixMarket file begins with `%%MatrixMarket`"));
        }
        Err(bad("not a matrix file: MatrixMarket, Harwell-Boeing, Rutherford-Boeing and SciPy's .npz are known"))
    }
}
