//! `spmv`: one product, measured.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use kernelwright_codegen::format::{Basis, Stored};
use kernelwright_syntax::program::Precision;
use serde_json::{Value, json};

use super::args::SpmvArgs;
use super::arrays::failed;
use super::failure::Failure;
use super::matrix::{Chosen, Place, backend_of, format, read, storage};
use super::out::Out;
use super::progress::seconds;
use crate::backend::{Backend, Target};
use crate::inputs::npy::{self, Float};
use crate::inputs::random;
use crate::load::load;
use crate::matrix::Csr;
use crate::sparse::cost::{Cost, PCIE, Travel, bytes_of};
use crate::sparse::product::{Product, convert};

/// Seed of an operand that is not given.
const SEED: u64 = 1;
/// A matrix of fewer bytes may stay in the caches of the device: its speed is not that of the memory.
const CACHED: u64 = 64 << 20;

/// A product and what it took.
struct Measured {
    device: String,
    chosen: Chosen,
    cost: Cost,
    conversion: f64,
    time: f64,
    /// Bytes a second of a copy, where that means anything.
    copy: Option<f64>,
    travel: Option<Travel>,
    sum: f64,
}

pub(super) fn run(args: &SpmvArgs, out: &mut Out) -> Result<u8, Failure> {
    let matrix = read(&args.file)?;
    let measured = measure(args, &matrix.csr)?;
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    text(args, &name, &matrix.csr, &measured, out)?;
    out.object(&object(args, &name, &matrix.csr, &measured))?;
    Ok(0)
}

fn measure(args: &SpmvArgs, matrix: &Csr) -> Result<Measured, Failure> {
    let x = operand(args, matrix)?;
    let declarations = args.format.formats.as_deref().map(load).transpose()?;
    let tuned = !args.untuned && args.variant.is_empty();
    let (products, place) = (f64::from(args.repeat), Place::Backend(args.backend, tuned));
    let (formats, basis) = (declarations.as_ref(), Basis::Given);
    let mut chosen = format(matrix, &args.format, formats, args.precision, place, products, basis)?;
    let begin = Instant::now();
    let stored = convert(matrix, &chosen.format)?;
    let conversion = begin.elapsed().as_secs_f64();
    let mut backend = backend_of(args.backend)?;
    let variant = variant(args, &mut chosen, &stored, backend.as_mut())?;
    let (device, target) = (backend.describe(), backend.target());
    let mut product = Product::compile(&stored, args.precision, &variant, backend)?;
    let y = product.multiply(&x)?;
    if let Some(path) = &args.out {
        write(path, &y, args.precision)?;
    }
    let time = product.time(args.repeat as usize)?;
    let copy = product.copy_bandwidth()?;
    // Vectors of a host are where the product is.
    let travel = copy.filter(|_| target == Target::Cuda).map(|copy| {
        let pcie = args.pcie.filter(|speed| *speed > 0.0).map_or(PCIE, |speed| speed * 1e9);
        Travel::of(stored.layout.size, bytes_of(args.precision), time, pcie, copy)
    });
    let cost = Cost::of(&stored.layout, args.precision);
    Ok(Measured { device, chosen, cost, conversion, time, copy, travel, sum: y.iter().sum() })
}

/// The variant of the product: what is asked for, or what an earlier tune chose, if that still holds.
fn variant(
    args: &SpmvArgs,
    chosen: &mut Chosen,
    stored: &Stored,
    backend: &mut dyn Backend,
) -> Result<Vec<(String, String)>, Failure> {
    let Some(known) = &chosen.known else { return Ok(args.variant.clone()) };
    if let Err(why) = known.holds(stored, args.precision, backend) {
        eprintln!("note: of what was tuned only the format is used: {why}");
        chosen.only_format();
        return Ok(Vec::new());
    }
    known.set_threads(backend)?;
    Ok(known.variant.clone())
}

fn text(args: &SpmvArgs, name: &str, matrix: &Csr, measured: &Measured, out: &mut Out) -> Result<(), Failure> {
    let Measured { device, chosen, cost, conversion, time, copy, travel, .. } = measured;
    let (precision, entries) = (args.precision.word(), matrix.entries());
    out.line(format!("{name}: {} x {}, {entries} entries, {precision}, {device}", matrix.rows(), matrix.columns()))?;
    out.line(format!("  format      {}", storage(&chosen.format.name, cost)))?;
    chosen.lines().iter().try_for_each(|line| out.line(line))?;
    out.line(format!("  conversion  {} ({:.0} products)", seconds(*conversion), conversion / time))?;
    let speed = cost.product_bytes as f64 / time;
    let part = match copy {
        Some(_) if cost.product_bytes < CACHED => " (small enough for caches)".to_string(),
        Some(copy) => format!(", {:.0} % of a copy", 100.0 * speed / copy),
        None => " (interpreted: no measure of anything)".to_string(),
    };
    out.line(format!("  product     {}, {:.1} GB/s{part}", seconds(*time), speed / 1e9))?;
    let Some(travel) = travel else { return Ok(()) };
    let (transfer, penalty, below) = (seconds(travel.transfer_seconds), 100.0 * travel.penalty, travel.half_below);
    out.line(format!(
        "  over PCIe   {transfer} for both vectors, {penalty:.0} % of the time then; below {below:.0} entries a row more than half"
    ))
}

fn object(args: &SpmvArgs, name: &str, matrix: &Csr, measured: &Measured) -> Value {
    let speed = measured.cost.product_bytes as f64 / measured.time;
    json!({
        "file": name,
        "rows": matrix.rows(),
        "columns": matrix.columns(),
        "entries": matrix.entries(),
        "precision": args.precision.word(),
        "backend": measured.device,
        "format": measured.chosen.format.name,
        "cost": measured.cost,
        "data_reduction": measured.cost.data_reduction(),
        "choice": measured.chosen.object(),
        "conversion_seconds": measured.conversion,
        "product_seconds": measured.time,
        "bytes_per_second": speed,
        "fraction_of_copy": measured.copy.map(|copy| speed / copy),
        "over_pcie": measured.travel,
        "sum": measured.sum,
    })
}

fn operand(args: &SpmvArgs, matrix: &Csr) -> Result<Vec<f64>, Failure> {
    let Some(path) = &args.x else { return Ok(random::fill(SEED, 0, matrix.columns())) };
    let array = npy::read_file(path).map_err(Failure::Input)?;
    if array.values.len() != matrix.columns() {
        let (name, shape, columns) = (path.display(), &array.shape, matrix.columns());
        return Err(Failure::Input(format!("{name}: an array of shape {shape:?} for a matrix of {columns} columns")));
    }
    Ok(array.values)
}

fn write(path: &Path, values: &[f64], precision: Precision) -> Result<(), Failure> {
    let float = match precision {
        Precision::F32 | Precision::Mixed => Float::F32,
        Precision::F64 => Float::F64,
    };
    let save = || npy::write(BufWriter::new(File::create(path)?), &[values.len()], values, float);
    save().map_err(|error| failed(path, &error))
}
