//! The way from a checked problem to mapped kernels, stage by stage.
//!
//! Every stage of the compiler is one call here; the command shows what stands between two of them.

use kernelwright_codegen::lower::{self, LowerError};
use kernelwright_codegen::math;
use kernelwright_syntax::program::{Problem, Program};

use crate::solve::Error;

/// Lowers the operator of a problem for its sizes.
///
/// # Errors
/// An operator the compiler cannot handle.
pub fn operator(program: &Program, problem: &Problem) -> Result<math::Operator, Error> {
    let sizes: Vec<u64> = problem.sizes.iter().map(|size| *size as u64).collect();
    lower::lower(&program.operators[problem.operator], &sizes).map_err(|error| refused(program, &error))
}

/// An operator that cannot be lowered is a matter of the program, not of kernelwright.
fn refused(program: &Program, error: &LowerError) -> Error {
    Error::Input(format!("{}: {error}", program.file))
}
