//! `bench spmv`: products in every format on matrices of all kinds, side by side with cuSPARSE.

use kernelwright_syntax::program::{Format, Precision};
use serde_json::json;

use super::args::BenchArgs;
use super::failure::Failure;
use super::matrix::{backend_of, named, read};
use super::out::Out;
use super::table::columns;
use crate::backend::cuda::cusparse::Cusparse;
use crate::backend::open::Choice;
use crate::backend::{Backend, Target};
use crate::bandwidth::{Pattern, measure, sensible_bytes};
use crate::load::load;
use crate::matrix::Csr;
use crate::matrix::kinds::{self, Kind};
use crate::sparse::bench::{Bench, Measured};
use crate::sparse::choice;

pub(super) fn run(args: &BenchArgs, out: &mut Out) -> Result<u8, Failure> {
    let given = &args.run.compile.program;
    let declarations = given.matrix.format.formats.as_deref().map(load).transpose()?;
    let all = choice::formats(declarations.as_ref().map(|loaded| &loaded.program));
    let formats = wanted(&all, &given.matrix.format.format)?;
    if given.precision == Some(Precision::Mixed) {
        return Err(Failure::Usage("a product is in f32 or f64".to_string()));
    }
    let precisions = given.precision.map_or(vec![Precision::F32, Precision::F64], |precision| vec![precision]);
    let Surroundings { mut library, device, target, copy, _backend } = Surroundings::new(args.run.backend, out)?;
    let mut objects = Vec::new();
    let mut wrong = false;
    let mut one = |name: &str, matrix: &Csr, out: &mut Out| -> Result<(), Failure> {
        let bench = Bench::new(matrix, &all, &precisions, &args.run.compile.variant, target);
        let mut measured = Vec::new();
        for format in &formats {
            measured.extend(bench.ours_in(format, &mut || backend_of(args.run.backend))?);
        }
        if let Some(library) = &mut library {
            measured.extend(bench.vendor(library));
        }
        // A wrong product of the library beside ours is in the table, and no fault of ours.
        wrong |= measured.iter().any(|m| m.wrong);
        text(out, name, matrix, &measured, &precisions, copy)?;
        objects.push(json!({
            "name": name,
            "rows": matrix.rows(),
            "entries": matrix.entries(),
            "longest_row": (0..matrix.rows()).map(|row| matrix.row_length(row)).max(),
            "products": measured,
        }));
        Ok(())
    };
    if let Some(path) = &given.matrix.matrix {
        one(&path.display().to_string(), &read(path)?.csr, out)?;
    }
    if given.matrix.matrix.is_none() || !args.kind.is_empty() {
        for kind in kinds(&args.kind, args.scale.unwrap_or(1.0))? {
            one(kind.name, &kind.build(), out)?;
        }
    }
    let version = library.as_ref().map(Cusparse::version);
    let object = json!({ "backend": device, "copy": copy, "cusparse": version, "matrices": objects });
    out.object(&object)?;
    if wrong { Err(Failure::Internal("a product is wrong; this is a bug of kernelwright".to_string())) } else { Ok(0) }
}

/// What products are compared with, and where they run.
struct Surroundings {
    /// cuSPARSE, where products run on a CUDA device and it is there.
    library: Option<Cusparse>,
    device: String,
    target: Target,
    /// Bytes a second of a copy.
    copy: Option<f64>,
    /// Held to the end: without it the device would be set up again for every product.
    _backend: Box<dyn Backend>,
}

impl Surroundings {
    fn new(choice: Choice, out: &mut Out) -> Result<Surroundings, Failure> {
        let mut backend = backend_of(choice)?;
        let (device, target) = (backend.describe(), backend.target());
        out.line(device.clone())?;
        let copy = match backend.small_problems_only() {
            Some(_) => None,
            None => Some(measure(backend.as_mut(), Pattern::Copy, sensible_bytes(target))?.bytes_per_second),
        };
        if let Some(copy) = copy {
            out.line(format!("copy {:.0} GB/s", copy / 1e9))?;
        }
        Ok(Surroundings { library: library(choice, target, out)?, device, target, copy, _backend: backend })
    }
}

/// cuSPARSE, or why it is not there.
fn library(choice: Choice, target: Target, out: &mut Out) -> Result<Option<Cusparse>, Failure> {
    let number = match choice {
        Choice::Cuda(number) => Some(number),
        Choice::Auto if target == Target::Cuda => Some(0),
        _ => None,
    };
    let Some(number) = number else {
        out.line("without cuSPARSE: it runs on CUDA devices")?;
        return Ok(None);
    };
    match Cusparse::open(number) {
        Ok(library) => {
            out.line(format!("cuSPARSE {}", library.version()))?;
            Ok(Some(library))
        }
        Err(why) => {
            out.line(format!("without cuSPARSE: {why}"))?;
            Ok(None)
        }
    }
}

/// The formats that are asked for.
pub(super) fn wanted(all: &[Format], name: &str) -> Result<Vec<Format>, Failure> {
    if name == "auto" || name == "measure" {
        return Ok(all.to_vec());
    }
    Ok(vec![named(all, name)?])
}

/// The kinds that are asked for, all without.
pub(super) fn kinds(names: &[String], scale: f64) -> Result<Vec<Kind>, Failure> {
    let all = kinds::all(scale);
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|kind| kind.name != **name)) {
        let known: Vec<&str> = all.iter().map(|kind| kind.name).collect();
        return Err(Failure::Usage(format!("no kind is called `{unknown}`; there are {}", known.join(", "))));
    }
    let asked = |kind: &Kind| names.is_empty() || names.iter().any(|name| name == kind.name);
    Ok(all.into_iter().filter(asked).collect())
}

fn text(
    out: &mut Out,
    name: &str,
    matrix: &Csr,
    measured: &[Measured],
    precisions: &[Precision],
    copy: Option<f64>,
) -> Result<(), Failure> {
    let mean = matrix.entries() as f64 / matrix.rows().max(1) as f64;
    out.line(format!("\n{name}: {} rows, {} entries, {mean:.1} a row", matrix.rows(), matrix.entries()))?;
    let head = ["  ", "", "µs", "GB/s", "of a copy", "least GB/s", "bytes an entry", "padding %", "conversion ms", ""];
    for precision in precisions {
        let mut rows = vec![head.map(String::from).to_vec()];
        rows[0][1] = precision.word().to_string();
        rows.extend(measured.iter().filter(|m| m.precision == *precision).map(|m| row(m, copy)));
        columns(&rows).iter().try_for_each(|line| out.line(line))?;
        if let Some(verdict) = verdict(measured, *precision) {
            out.line(verdict)?;
        }
    }
    out.flush()
}

fn row(measured: &Measured, copy: Option<f64>) -> Vec<String> {
    let number = |value: Option<f64>, digits: usize| value.map_or("-".to_string(), |v| format!("{v:.digits$}"));
    let cost = measured.cost.as_ref();
    let fraction = measured.bytes_per_second.zip(copy).map(|(speed, copy)| speed / copy);
    vec![
        if measured.chosen { "* " } else { "  " }.to_string(),
        measured.name.clone(),
        number(measured.seconds.map(|seconds| 1e6 * seconds), 1),
        number(measured.bytes_per_second.map(|speed| speed / 1e9), 0),
        number(fraction, 2),
        number(measured.least_bytes_per_second.map(|speed| speed / 1e9), 0),
        number(cost.map(|cost| cost.bytes_per_entry), 2),
        number(cost.map(|cost| 100.0 * cost.padding), 1),
        number(measured.conversion_seconds.map(|seconds| 1e3 * seconds), 0),
        measured.failure.clone().unwrap_or_default(),
    ]
}

/// The automatic choice beside the best format and the best of cuSPARSE.
fn verdict(measured: &[Measured], precision: Precision) -> Option<String> {
    let good = |m: &&Measured| m.precision == precision && m.failure.is_none() && m.seconds.is_some();
    let fastest = |vendor: bool| {
        let times = measured.iter().filter(good).filter(|m| m.vendor == vendor);
        times.min_by(|a, b| a.seconds.unwrap_or(f64::MAX).total_cmp(&b.seconds.unwrap_or(f64::MAX)))
    };
    let chosen = measured.iter().filter(good).find(|m| m.chosen)?;
    let ratio = |other: &Measured| other.seconds.zip(chosen.seconds).map_or(0.0, |(other, own)| other / own);
    let mut text = format!("  automatic: {}", chosen.name);
    if let Some(best) = fastest(false) {
        text.push_str(&format!("; the fastest format, {}, takes {:.2} of its time", best.name, ratio(best)));
    }
    if let Some(best) = fastest(true) {
        text.push_str(&format!("; {} takes {:.2}", best.name, ratio(best)));
    }
    Some(text)
}
