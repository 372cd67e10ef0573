//! Products measured side by side: every format, and cuSPARSE where it is there, on one matrix. Every result is compared
//! with a product in f64 before its time counts.

use std::time::Instant;

use kernelwright_codegen::format::{self, Basis};
use kernelwright_syntax::program::{Format, Precision};
use rayon::prelude::*;
use serde::Serialize;

use super::cost::{Cost, bytes_of};
use super::product::{Product, convert};
use super::{choice, vendor};
use crate::backend::cuda::cusparse::{self, Cusparse, Stored};
use crate::backend::{Backend, Target};
use crate::inputs::random;
use crate::matrix::Csr;
use crate::pipeline::element_of;
use crate::solve::Error;

/// Cells for every entry beyond which a format is left out.
const MOST_CELLS: f64 = 4.0;
/// Times that are taken of a product; odd.
const REPEATS: usize = 7;
/// Seed of the operand.
const SEED: u64 = 11;

/// A measured product.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Format of ours, or algorithm of cuSPARSE.
    pub name: String,
    /// Whether it is cuSPARSE's.
    pub vendor: bool,
    /// `f32` or `f64`.
    #[serde(serialize_with = "as_word")]
    pub precision: Precision,
    /// Seconds of one product; none if it was not measured.
    pub seconds: Option<f64>,
    /// Why not, or what is wrong with the result.
    pub failure: Option<String>,
    /// Whether our result is wrong; a wrong one of the library beside it is in the table, and no fault of ours.
    #[serde(skip)]
    pub wrong: bool,
    /// Bytes that the product names, over its time.
    pub bytes_per_second: Option<f64>,
    /// The same with each entry (value and 32-bit column), row start and element of a vector counted once, whatever the
    /// format.
    pub least_bytes_per_second: Option<f64>,
    /// What the format costs; of ours only.
    pub cost: Option<Cost>,
    /// Seconds of the conversion on the host; of ours only.
    pub conversion_seconds: Option<f64>,
    /// Whether the automatic choice takes it.
    pub chosen: bool,
}

fn as_word<S: serde::Serializer>(precision: &Precision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(precision.word())
}

impl Measured {
    fn new(name: String, vendor: bool, precision: Precision) -> Measured {
        Measured {
            name,
            vendor,
            precision,
            seconds: None,
            failure: None,
            wrong: false,
            bytes_per_second: None,
            least_bytes_per_second: None,
            cost: None,
            conversion_seconds: None,
            chosen: false,
        }
    }
}

/// What a result may differ from the product in f64: gamma_n |A| |x| in each row.
pub(crate) struct Reference {
    /// The operand.
    pub(crate) x: Vec<f64>,
    y: Vec<f64>,
    magnitude: Vec<f64>,
}

impl Reference {
    /// A random operand and its product.
    pub(crate) fn of(matrix: &Csr) -> Reference {
        let x = random::fill(SEED, 0, matrix.columns());
        let magnitude = |row| matrix.row(row).map(|(column, value): (usize, f64)| (value * x[column]).abs()).sum();
        let magnitude = (0..matrix.rows()).into_par_iter().map(magnitude).collect();
        Reference { y: matrix.multiply(&x), magnitude, x }
    }

    /// The first row that is wrong.
    pub(crate) fn fault(&self, matrix: &Csr, y: &[f64], precision: Precision) -> Option<String> {
        let roundoff = match precision {
            Precision::F32 | Precision::Mixed => f64::from(f32::EPSILON) / 2.0,
            Precision::F64 => f64::EPSILON / 2.0,
        };
        let wrong = |row: &usize| {
            let allowed = 2.0 * (matrix.row_length(*row) as f64 + 2.0) * roundoff * self.magnitude[*row];
            let error = (y[*row] - self.y[*row]).abs();
            error.is_nan() || error > allowed
        };
        let row = (0..matrix.rows()).into_par_iter().find_first(wrong)?;
        Some(format!("wrong in row {}: {:e} instead of {:e}", row + 1, y[row], self.y[row]))
    }
}

/// A name, and parts of the kernels' variant.
type Shape = (&'static str, &'static [(&'static str, &'static str)]);

/// Ways to form products of rows without padding on a CUDA device; the first is what the compiler chooses.
const SHAPES: [Shape; 4] = [
    ("", &[]),
    ("shared by lanes", &[("balanced", "false"), ("row_strips", "0")]),
    ("cut by entries", &[("balanced", "true")]),
    ("in strips", &[("balanced", "false"), ("row_strips", "8")]),
];

/// One matrix on its way through all formats.
pub struct Bench<'m> {
    matrix: &'m Csr,
    reference: Reference,
    precisions: &'m [Precision],
    /// Parts of the kernels' variant that are not left to the compiler.
    variant: &'m [(String, String)],
    target: Target,
    /// Formats that the automatic choice takes, one per precision.
    chosen: Vec<Option<String>>,
}

impl<'m> Bench<'m> {
    /// Prepares; `all` is what the automatic choice may take.
    pub fn new(
        matrix: &'m Csr,
        all: &[Format],
        precisions: &'m [Precision],
        variant: &'m [(String, String)],
        target: Target,
    ) -> Self {
        let best = |precision: &Precision| {
            let ranking = choice::rank(matrix, all, *precision, target, Basis::Given);
            ranking.candidates.first().map(|candidate| candidate.format.name.clone())
        };
        let chosen = precisions.iter().map(best).collect();
        Bench { matrix, reference: Reference::of(matrix), precisions, variant, target, chosen }
    }

    /// Measures a format in every precision; `open` gives the back end. The conversion is made once.
    pub fn ours_in(
        &self,
        format: &Format,
        open: &mut dyn FnMut() -> Result<Box<dyn Backend>, Error>,
    ) -> Result<Vec<Measured>, Error> {
        let all = |failure: String| {
            let one = |number| Measured { failure: Some(failure.clone()), ..self.ours(format, number) };
            (0..self.precisions.len()).map(one).collect()
        };
        if let Some(why) = self.left_out(format) {
            return Ok(all(why));
        }
        let begin = Instant::now();
        let stored = match convert(self.matrix, format) {
            Ok(stored) => stored,
            Err(error) => return Ok(all(error.to_string())),
        };
        let conversion = begin.elapsed().as_secs_f64();
        let mut out = Vec::new();
        let shapes = if stored.layout.cuts() && self.target == Target::Cuda { &SHAPES[..] } else { &SHAPES[..1] };
        for ((number, precision), (shape, parts)) in
            self.precisions.iter().enumerate().flat_map(|p| shapes.iter().map(move |shape| (p, shape)))
        {
            let mut one = self.ours(format, number);
            if !shape.is_empty() {
                (one.name, one.chosen) = (format!("{} {shape}", format.name), false);
            }
            let cost = Cost::of(&stored.layout, *precision);
            one.conversion_seconds = Some(conversion);
            match self.product(&stored, *precision, parts, open()?) {
                Ok((seconds, fault)) => {
                    one.wrong = fault.is_some();
                    one.failure = fault;
                    self.rate(&mut one, seconds, cost.product_bytes as f64);
                }
                Err(error) => one.failure = Some(error.to_string()),
            }
            one.cost = Some(cost);
            out.push(one);
        }
        Ok(out)
    }

    /// What is known of a format of ours before it is measured.
    fn ours(&self, format: &Format, number: usize) -> Measured {
        let chosen = self.chosen[number].as_ref() == Some(&format.name);
        Measured { chosen, ..Measured::new(format.name.clone(), false, self.precisions[number]) }
    }

    /// Why a format is not measured, if it is not.
    fn left_out(&self, format: &Format) -> Option<String> {
        match format::predict(format, &self.matrix.view(), Basis::Given) {
            Err(error) => Some(error.to_string()),
            Ok(layout) => {
                let cells = layout.cells as f64 / self.matrix.entries().max(1) as f64;
                (cells > MOST_CELLS).then(|| format!("left out: {cells:.1} cells for every entry"))
            }
        }
    }

    fn product(
        &self,
        stored: &format::Stored,
        precision: Precision,
        parts: &[(&str, &str)],
        backend: Box<dyn Backend>,
    ) -> Result<(f64, Option<String>), Error> {
        let mut variant = self.variant.to_vec();
        variant.extend(parts.iter().map(|(key, value)| (key.to_string(), value.to_string())));
        let mut product = Product::compile(stored, precision, &variant, backend)?;
        let y = product.multiply(&self.reference.x)?;
        let fault = self.reference.fault(self.matrix, &y, precision);
        Ok((product.time(REPEATS)?, fault))
    }

    /// Measures cuSPARSE: compressed rows and sliced ELLPACK, its rows as they are and sorted.
    pub fn vendor(&self, library: &mut Cusparse) -> Vec<Measured> {
        let mut out = Vec::new();
        let forms = [
            (vendor::csr(self.matrix), false),
            (vendor::sliced(self.matrix, false), false),
            (vendor::sliced(self.matrix, true), true),
        ];
        for (stored, sorted) in forms {
            let Some(stored) = stored else { continue };
            for precision in self.precisions {
                out.extend(self.vendor_form(library, &stored, *precision, sorted));
            }
        }
        out
    }

    fn vendor_form(
        &self,
        library: &mut Cusparse,
        stored: &Stored,
        precision: Precision,
        sorted: bool,
    ) -> Vec<Measured> {
        let real = element_of(precision);
        let mark = if sorted { " sorted" } else { "" };
        let blank = |name: &str| Measured::new(format!("{name}{mark}"), true, precision);
        let products = match library.measure(stored, &self.reference.x, real) {
            Ok(products) => products,
            Err(error) => return vec![Measured { failure: Some(error.to_string()), ..blank("cusparse") }],
        };
        let finish = |product: cusparse::Product| {
            let mut one = blank(&format!("cusparse {}", product.algorithm));
            let y = if sorted { vendor::unsorted(self.matrix, &product.y) } else { product.y };
            one.failure = self.reference.fault(self.matrix, &y, precision);
            let width = bytes_of(precision) as f64;
            let cells = stored.column.len() as f64 * (width + 4.0) + 4.0 * stored.start.len() as f64;
            self.rate(&mut one, product.seconds, cells + 2.0 * stored.rows as f64 * width);
            one
        };
        products.into_iter().map(finish).collect()
    }

    fn rate(&self, one: &mut Measured, seconds: f64, bytes: f64) {
        let width = bytes_of(one.precision) as f64;
        let (rows, columns) = (self.matrix.rows() as f64, self.matrix.columns() as f64);
        let least = self.matrix.entries() as f64 * (width + 4.0) + (rows + columns) * width + 4.0 * (rows + 1.0);
        one.seconds = Some(seconds);
        one.bytes_per_second = Some(bytes / seconds);
        one.least_bytes_per_second = Some(least / seconds);
    }
}
