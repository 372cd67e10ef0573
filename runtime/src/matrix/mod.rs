//! Sparse matrices from files.
//!
//! [`file`] finds out what a file is and reads it: MatrixMarket ([`matrix_market`]), Harwell-Boeing and
//! Rutherford-Boeing ([`harwell_boeing`]), SciPy's .npz ([`npz`]), each also compressed with gzip. Whatever it is, the
//! result is a [`Matrix`]: all entries in compressed rows ([`Csr`]), both triangles of a symmetric one, and what the
//! reader noticed. [`statistics`] looks at it, [`drawing`] draws it. docs/MATRICES.md lists what happens to files that
//! are unusual or wrong.

mod scan;
mod triangle;
mod compress;

pub mod csr;
pub mod triplets;
pub mod pieces;
pub mod matrix_market;
pub mod harwell_boeing;
pub mod zip;
pub mod npz;
pub mod file;
pub mod statistics;
pub mod drawing;
pub mod kinds;

use std::io;

pub use csr::Csr;
pub use triplets::{Entry, Triplets};

/// Which entries the stored form leaves out because they follow from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Symmetry {
    /// None.
    General,
    /// One triangle: `a[j,i] = a[i,j]`.
    Symmetric,
    /// One triangle: `a[j,i] = -a[i,j]`, the diagonal is zero.
    Skew,
}

impl Symmetry {
    /// The word of MatrixMarket.
    pub fn name(self) -> &'static str {
        match self {
            Symmetry::General => "general",
            Symmetry::Symmetric => "symmetric",
            Symmetry::Skew => "skew-symmetric",
        }
    }
}

/// A matrix as it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// All entries, also those that the file leaves out by symmetry.
    pub csr: Csr,
    /// Symmetry of the file's form.
    pub symmetry: Symmetry,
    /// What the file is: format, layout, field, symmetry.
    pub form: String,
    /// The title that the file gives.
    pub title: Option<String>,
    /// Entries in the file.
    pub stored: usize,
    /// Entries of the file that met an earlier one at their place and were added to it.
    pub duplicates: usize,
    /// Entries of the file whose value is zero; they are kept.
    pub zeros: usize,
    /// The file stores the upper triangle where its format asks for the lower one.
    pub upper: bool,
    /// Vectors that come with the matrix.
    pub vectors: Vectors,
}

/// Vectors of a Harwell-Boeing file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vectors {
    /// Right-hand sides.
    pub right_hand_sides: Vec<Vec<f64>>,
    /// Initial guesses, one for each right-hand side or none.
    pub guesses: Vec<Vec<f64>>,
    /// Exact solutions, one for each right-hand side or none.
    pub solutions: Vec<Vec<f64>>,
}

impl Matrix {
    /// What a user should know about how the file was read.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match self.duplicates {
            0 => {}
            1 => notes.push("1 entry stands at the place of another; they were added".to_string()),
            n => notes.push(format!("{n} entries stand at places of others; they were added")),
        }
        match self.zeros {
            0 => {}
            1 => notes.push("1 entry is zero; it was kept".to_string()),
            n => notes.push(format!("{n} entries are zero; they were kept")),
        }
        if self.upper {
            notes.push("the upper triangle is stored; it was mirrored".to_string());
        }
        notes
    }
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// The operating system's reason, or the decompressor's.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A line of the file is not what it should be; lines count from 1.
    #[error("line {line}: {reason}")]
    At {
        /// The line.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file is not what it should be.
    #[error("{0}")]
    Format(String),
}

fn at(line: usize, reason: impl Into<String>) -> MatrixError {
    MatrixError::At { line, reason: reason.into() }
}

fn bad(reason: impl Into<String>) -> MatrixError {
    MatrixError::Format(reason.into())
}
