//! A choice by measurement: the best few of a ranking are converted, compiled and timed.

use std::time::Instant;

use kernelwright_syntax::program::Precision;
use serde::Serialize;

use super::choice::{Candidate, Ranking};
use super::product::{Product, convert};
use crate::backend::Backend;
use crate::inputs::random;
use crate::matrix::Csr;
use crate::solve::Error;

/// Formats of a ranking that are tried.
pub const TRIED: usize = 4;
/// Times that are taken of a product; odd.
const REPEATS: usize = 5;
/// Seed of the operand.
const SEED: u64 = 7;

/// A format that was tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trial {
    /// Its name.
    pub format: String,
    /// Seconds of the conversion, on the host.
    pub conversion_seconds: f64,
    /// Seconds of compiling and of bringing the matrix to the device.
    pub compile_seconds: f64,
    /// Seconds of a product.
    pub product_seconds: f64,
}

impl Trial {
    /// Seconds of so many products, with the conversion before them.
    pub fn total(&self, products: f64) -> f64 {
        self.conversion_seconds + products * self.product_seconds
    }
}

/// Trials of the best candidates, and the number of the one that takes least for so many products, conversion charged.
///
/// # Errors
/// A back end that is not there; if all candidates fail, the first failure.
pub fn best(
    matrix: &Csr,
    ranking: &Ranking,
    precision: Precision,
    products: f64,
    open: &mut dyn FnMut() -> Result<Box<dyn Backend>, Error>,
) -> Result<(usize, Vec<Trial>), Error> {
    let (mut trials, mut failure) = (Vec::new(), None);
    let x = random::fill(SEED, 0, matrix.columns());
    for candidate in ranking.candidates.iter().take(TRIED) {
        match trial(matrix, candidate, precision, &x, open()?) {
            Ok(trial) => trials.push(trial),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    let order = |a: &usize, b: &usize| trials[*a].total(products).total_cmp(&trials[*b].total(products));
    match ((0..trials.len()).min_by(order), failure) {
        (Some(best), _) => Ok((best, trials)),
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::Input("no format can store the matrix".to_string())),
    }
}

fn trial(
    matrix: &Csr,
    candidate: &Candidate,
    precision: Precision,
    x: &[f64],
    backend: Box<dyn Backend>,
) -> Result<Trial, Error> {
    let begin = Instant::now();
    let stored = convert(matrix, &candidate.format)?;
    let conversion_seconds = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let mut product = Product::compile(&stored, precision, &[], backend)?;
    product.set_operand(x)?;
    let compile_seconds = begin.elapsed().as_secs_f64();
    let product_seconds = product.time(REPEATS)?;
    Ok(Trial { format: candidate.format.name.clone(), conversion_seconds, compile_seconds, product_seconds })
}
