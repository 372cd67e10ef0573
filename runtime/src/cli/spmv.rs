//! `spmv`: one product, measured.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Instant;

use kernelwright_syntax::program::Precision;
use serde_json::json;

use super::args::SpmvArgs;
use super::arrays::failed;
use super::failure::Failure;
use super::matrix::{Place, backend_of, format, read, storage};
use super::out::Out;
use super::progress::seconds;
use super::report::precision_name;
use crate::backend::Target;
use crate::inputs::npy::{self, Float};
use crate::inputs::random;
use crate::load::load;
use crate::matrix::Csr;
use crate::sparse::cost::{Cost, PCIE, Travel, bytes_of};
use crate::sparse::product::{Product, convert};

/// Seed of an operand that is not given.
const SEED: u64 = 1;

pub(super) fn run(args: &SpmvArgs, out: &mut Out) -> Result<u8, Failure> {
    let matrix = read(&args.file)?;
    let csr = &matrix.csr;
    let x = operand(args, csr)?;
    let declarations = args.format.formats.as_deref().map(load).transpose()?;
    let products = f64::from(args.repeat);
    let place = Place::Backend(args.backend);
    let chosen = format(csr, &args.format, declarations.as_ref(), args.precision, place, products)?;
    let begin = Instant::now();
    let stored = convert(csr, &chosen.format)?;
    let conversion = begin.elapsed().as_secs_f64();
    let backend = backend_of(args.backend)?;
    let (device, target) = (backend.describe(), backend.target());
    let small = backend.small_problems_only().is_some();
    let mut product = Product::compile(&stored, args.precision, &args.variant, backend)?;
    let y = product.multiply(&x)?;
    if let Some(path) = &args.out {
        write(path, &y, args.precision)?;
    }
    let time = product.time(args.repeat as usize)?;
    let copy = product.copy_bandwidth()?;
    let cost = Cost::of(&stored.layout, args.precision);
    let speed = cost.product_bytes as f64 / time;
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    let precision = precision_name(args.precision);
    out.line(format!("{name}: {} x {}, {} entries, {precision}, {device}", csr.rows(), csr.columns(), csr.entries()))?;
    out.line(format!("  format    {}", storage(&chosen.format.name, &cost)))?;
    chosen.lines().iter().try_for_each(|line| out.line(line))?;
    out.line(format!("  conversion {} ({:.0} products)", seconds(conversion), conversion / time))?;
    let part = copy.map_or(String::new(), |copy| format!(", {:.0} % of a copy", 100.0 * speed / copy));
    let what = if small { " (interpreted: no measure of anything)" } else { "" };
    out.line(format!("  product   {}, {:.1} GB/s{part}{what}", seconds(time), speed / 1e9))?;
    // Vectors of a host are where the product is.
    let travel = copy.filter(|_| target == Target::Cuda).map(|copy| {
        let pcie = args.pcie.map_or(PCIE, |speed| speed * 1e9);
        Travel::of(stored.layout.size, bytes_of(args.precision), time, pcie, copy)
    });
    if let Some(travel) = travel {
        out.line(format!(
            "  over PCIe {} for both vectors, {:.0} % of the time then; more than half below {:.0} entries a row",
            seconds(travel.transfer_seconds),
            100.0 * travel.penalty,
            travel.half_below
        ))?;
    }
    out.object(&json!({
        "file": name,
        "rows": csr.rows(),
        "columns": csr.columns(),
        "entries": csr.entries(),
        "precision": precision,
        "backend": device,
        "format": chosen.format.name,
        "cost": cost,
        "data_reduction": cost.data_reduction(),
        "choice": chosen.object(),
        "conversion_seconds": conversion,
        "product_seconds": time,
        "bytes_per_second": speed,
        "fraction_of_copy": copy.map(|copy| speed / copy),
        "over_pcie": travel,
        "sum": y.iter().sum::<f64>(),
    }))?;
    Ok(0)
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
