//! Arguments about matrices.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kernelwright_syntax::program::Precision;

use super::{positive, precision};
use crate::backend::open::Choice;
use crate::sparse::system::Against;

/// A system with a matrix from a file, in place of a problem of a program.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Systems with a matrix from a file")]
pub(in super::super) struct MatrixArgs {
    /// The matrix, in a file of any format that info reads; in place of FILE.
    #[arg(long, value_name = "FILE")]
    pub(in super::super) matrix: Option<PathBuf>,
    /// A solver with its parameters, such as pcg or chebyshev(lower=0.1). By default pcg for a symmetric matrix with a
    /// positive diagonal, minres for another symmetric one, bicgstab otherwise.
    #[arg(long, value_name = "SOLVER", requires = "matrix")]
    pub(in super::super) solver: Option<String>,
    /// identity, jacobi, block_jacobi(B), ssor(W), or inner(SOLVER, iterations=N); by default jacobi where the solver takes a
    /// preconditioner and the diagonal allows it.
    #[arg(long, value_name = "NAME", requires = "matrix")]
    pub(in super::super) preconditioner: Option<String>,
    /// Compute the residual anew, b - A x, every N iterations, and keep the directions.
    #[arg(long, value_name = "N", requires = "matrix", value_parser = clap::value_parser!(u32).range(1..))]
    pub(in super::super) restart_every: Option<u32>,
    /// What the tolerance is relative to: |b|, |b - A x0|, or nothing.
    #[arg(long, value_enum, requires = "matrix")]
    pub(in super::super) relative_to: Option<RelativeTo>,
    #[command(flatten)]
    pub(in super::super) format: FormatArgs,
}

/// The format a matrix is stored in.
#[derive(Debug, Clone, Args)]
pub(in super::super) struct FormatArgs {
    /// Format of a matrix: auto (the best by prediction), measure (the best few are timed), or a name.
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub(in super::super) format: String,
    /// A program whose formats (and, to solve, solvers) are known beside those of the library.
    #[arg(long, value_name = "FILE.kw")]
    pub(in super::super) formats: Option<String>,
}

/// What a tolerance is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum RelativeTo {
    /// The norm of the right-hand side.
    B,
    /// The norm of the first residual.
    R0,
    /// Nothing: the tolerance is the bound.
    Nothing,
}

impl From<RelativeTo> for Against {
    fn from(choice: RelativeTo) -> Against {
        match choice {
            RelativeTo::B => Against::RightHandSide,
            RelativeTo::R0 => Against::FirstResidual,
            RelativeTo::Nothing => Against::Nothing,
        }
    }
}

/// `f32` or `f64`: a product has no use for a mixture.
fn of_product(text: &str) -> Result<Precision, String> {
    precision(text).ok().filter(|precision| *precision != Precision::Mixed).ok_or("f32 or f64".to_string())
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kernelwright spmv A.mtx --x x.npy --out y.npy
  kernelwright spmv A.mtx.gz --format measure --repeat 100 --json
  kernelwright spmv A.mtx --formats mine.kw --format mine

Without --x the operand is random. The result is in the order of the matrix, whatever the format.")]
pub(in super::super) struct SpmvArgs {
    /// A matrix.
    #[arg(value_name = "FILE")]
    pub(in super::super) file: PathBuf,
    /// The operand, one element a column.
    #[arg(long, value_name = "FILE.npy")]
    pub(in super::super) x: Option<PathBuf>,
    /// Write the product.
    #[arg(long, value_name = "FILE.npy", value_parser = super::written::npy)]
    pub(in super::super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(in super::super) format: FormatArgs,
    /// Precision of values and vectors.
    #[arg(long, value_name = "f32|f64", default_value = "f64", value_parser = of_product)]
    pub(in super::super) precision: Precision,
    /// Where to compute: auto, cuda, cuda:N, host or interp.
    #[arg(long, value_name = "BACKEND", default_value = "auto", value_parser = str::parse::<Choice>)]
    pub(in super::super) backend: Choice,
    /// Part of the variant of the kernel, instead of the default; may be repeated (row_lanes=8).
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::part)]
    pub(in super::super) variant: Vec<(String, String)>,
    /// Leave out what earlier tunes chose.
    #[arg(long)]
    pub(in super::super) untuned: bool,
    /// Times that are taken of the product; the median is reported.
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    pub(in super::super) repeat: u32,
    /// GB/s over PCIe, for the estimate of what it costs when vectors travel.
    #[arg(long, value_name = "GB/s", value_parser = positive)]
    pub(in super::super) pcie: Option<f64>,
}
