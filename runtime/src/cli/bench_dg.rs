//! `bench dg`: Maxwell's equations on a box of tetrahedra, order by order.
//!
//! Steps are timed on the device after a few that are not counted. The roof is that of one fused kernel for a stage: it
//! reads and writes the state and one register and reads the geometry once (J. Hesthaven's nodal scheme with six fields
//! and a low-storage step), at the speed of a copy measured just before, or the device's arithmetic where that is known.

use kernelwright_syntax::program::Precision;
use serde_json::{Value, json};

use super::args::BenchArgs;
use super::failure::Failure;
use super::march::known;
use super::out::Out;
use super::report::word_bytes;
use super::table::columns;
use crate::backend::Arithmetic;
use crate::backend::open::open;
use crate::bandwidth::{self, Pattern};
use crate::cache::Cache;
use crate::load::from_text;
use crate::march::{Bound, Changes, Engine, KernelEngine};
use crate::registry;

/// The word that stands for the model problem.
pub(super) const NAME: &str = "dg";

/// The model problem; sizes and order are set.
pub(super) const MODEL: &str = "
problem dg {
    system maxwell(N = 3);
    mesh box(n = 30);
    initial E = [0, 0, sin(pi*x)*sin(pi*y)];
    initial H = 0;
    boundary all: pec;
    until 1;
}
";

/// Cubes along each axis up to this order, and above it: 162,000 and 48,000 tetrahedra.
const CUBES: (u32, usize, usize) = (5, 30, 20);

/// Steps that are not counted.
const WARM_UP: u32 = 3;

/// Length of a step: nothing may grow, whatever the order.
const DT: f64 = 1e-7;

/// Whether the argument of `bench` means this.
pub(super) fn meant(file: &str) -> bool {
    file == NAME && registry::programs().iter().all(|program| program.name != file)
}

/// One line of the table.
struct Measured {
    order: u32,
    elements: usize,
    values: usize,
    precision: Precision,
    /// Values per second and stage.
    speed: f64,
    /// Bytes and operations per second, by the model of the kernels.
    bytes: f64,
    flops: f64,
    /// Values per second and stage of one fused kernel at the roof.
    roof: Option<f64>,
    energy: f64,
}

pub(super) fn run(args: &BenchArgs, out: &mut Out) -> Result<u8, Failure> {
    let set = &args.run.compile.program.set;
    let number = |name: &str| set.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value);
    if let Some((name, _)) = set.iter().find(|(name, _)| name != "N" && name != "n") {
        return Err(Failure::Usage(format!(
            "bench dg has `N` (order) and `n` (cubes along an axis) to set, not `{name}`"
        )));
    }
    if let Some((name, value)) = set.iter().find(|(_, value)| !(value.fract() == 0.0 && (1.0..1e6).contains(value))) {
        return Err(Failure::Usage(format!("bench dg: `{name}` must be a whole number from 1 on, not {value}")));
    }
    let orders: Vec<u32> = match number("N") {
        Some(order) => vec![order as u32],
        None => (1..=9).collect(),
    };
    let precisions = match (args.precisions.as_slice(), args.run.compile.program.precision) {
        ([], None) => vec![Precision::F32, Precision::F64],
        ([], Some(one)) => vec![one],
        (list, _) => list.to_vec(),
    };
    let mut measured = Vec::new();
    let mut device = String::new();
    for precision in precisions {
        let copy = copy_bandwidth(args)?;
        for &order in &orders {
            let cubes = number("n").map_or(if order <= CUBES.0 { CUBES.1 } else { CUBES.2 }, |n| n as usize);
            let case = measure(args, order, cubes, precision, copy, &mut device)?;
            eprintln!("{}", row(&case).join("  "));
            measured.push(case);
        }
    }
    out.line(format!("Maxwell, upwind, scheme of five stages, on {device}"))?;
    let mut rows = vec![TITLE.map(String::from).to_vec()];
    rows.extend(measured.iter().map(row));
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    out.object(&json!({ "device": device, "cases": measured.iter().map(object).collect::<Vec<_>>() }))?;
    Ok(0)
}

/// Bytes a second of a copy on the device, where there is memory to speak of.
fn copy_bandwidth(args: &BenchArgs) -> Result<Option<f64>, Failure> {
    let mut opened = open(args.run.backend, Arithmetic::Contracted, &Cache::of_user().into())?;
    let bytes = bandwidth::sensible_bytes(opened.backend.target());
    Ok(bandwidth::measure(opened.backend.as_mut(), Pattern::Copy, bytes).ok().map(|copy| copy.bytes_per_second))
}

fn measure(
    args: &BenchArgs,
    order: u32,
    cubes: usize,
    precision: Precision,
    copy: Option<f64>,
    device: &mut String,
) -> Result<Measured, Failure> {
    let loaded = from_text("dg.kw", MODEL.to_string())?;
    let variant = args.run.compile.variant.clone();
    let set = vec![("N".to_string(), f64::from(order)), ("n".to_string(), cubes as f64)];
    let mut bound =
        Bound::new(&loaded, 0, &Changes { set, precision: Some(precision), variant, ..Changes::default() })?;
    if let Some(tuned) = known(&mut bound, &args.run)? {
        eprintln!("note: order {order}: {}", tuned.text);
    }
    let opened = open(args.run.backend, Arithmetic::Contracted, &Cache::of_user().into())?;
    let mut engine = KernelEngine::new(&bound, &bound.system, opened.backend)?;
    *device = engine.describe();
    engine.load(&bound.initial)?;
    engine.advance(0.0, DT, u64::from(WARM_UP))?;
    let mut times: Vec<f64> = (0..args.runs).map(|_| engine.time_step()).collect::<Result<_, _>>()?;
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let stages = bound.system.step.stages.len() as f64;
    let speed = bound.len() as f64 * stages / median;
    let model = engine.module().model;
    let energy = engine.energy()?.unwrap_or(f64::NAN);
    let roof = copy.map(|copy| roof(order, precision, copy, peak(device, precision)));
    Ok(Measured {
        order,
        elements: bound.elements(),
        values: bound.len(),
        precision,
        speed,
        bytes: speed * model.bytes,
        flops: speed * model.flops,
        roof,
        energy,
    })
}

/// Operations a second of devices that are known, from their data sheets (without tensor cores).
fn peak(device: &str, precision: Precision) -> f64 {
    let hopper = device.contains("H200") || device.contains("H100");
    match precision {
        _ if !hopper => f64::INFINITY,
        Precision::F32 => 67e12,
        _ => 33.5e12,
    }
}

/// Values per second and stage of one fused kernel for Maxwell's equations: the least traffic and arithmetic of a stage,
/// the traces of neighbours from the cache.
fn roof(order: u32, precision: Precision, bytes_per_second: f64, flops_per_second: f64) -> f64 {
    let n = f64::from(order);
    let nodes = (n + 1.0) * (n + 2.0) * (n + 3.0) / 6.0;
    let face = (n + 1.0) * (n + 2.0) / 2.0;
    let b = word_bytes(precision);
    let bytes = 4.0 * b + (9.0 * b + 4.0 * (4.0 * b + 8.0)) / (6.0 * nodes);
    let flops = 6.0 * nodes + 8.0 * face + 16.0 + 61.0 * 4.0 * face / (6.0 * nodes);
    (bytes_per_second / bytes).min(flops_per_second / flops)
}

const TITLE: [&str; 9] =
    ["order", "precision", "elements", "values", "GDOF/s", "GB/s", "GFLOP/s", "roof GDOF/s", "of roof"];

fn row(case: &Measured) -> Vec<String> {
    let giga = |x: f64| format!("{:.3}", x / 1e9);
    vec![
        case.order.to_string(),
        case.precision.word().to_string(),
        case.elements.to_string(),
        case.values.to_string(),
        giga(case.speed),
        format!("{:.1}", case.bytes / 1e9),
        format!("{:.1}", case.flops / 1e9),
        case.roof.map_or("-".to_string(), giga),
        case.roof.map_or("-".to_string(), |roof| format!("{:.0} %", 100.0 * case.speed / roof)),
    ]
}

fn object(case: &Measured) -> Value {
    json!({
        "order": case.order,
        "precision": case.precision.word(),
        "elements": case.elements,
        "values": case.values,
        "dof_per_second_and_stage": case.speed,
        "bytes_per_second": case.bytes,
        "flops_per_second": case.flops,
        "roof_dof_per_second": case.roof,
        "ratio_to_roof": case.roof.map(|roof| case.speed / roof),
        "energy": case.energy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The roofs that are published with the problem, at 4.3 TB/s and 67 TFLOP/s; up to order 3 they are lower bounds.
    #[test]
    fn the_roof_is_the_published_one() {
        let found = |order| roof(order, Precision::F32, 4.3e12, 67e12) / 1e9;
        for (order, expected) in [(1, 128.0), (2, 155.0), (3, 171.0)] {
            assert!(found(order) >= expected, "order {order}: {}", found(order));
        }
        for (order, expected) in [(4, 183.0), (5, 125.0), (6, 88.0), (7, 65.0), (9, 38.0)] {
            assert!((found(order) / expected - 1.0).abs() < 0.02, "order {order}: {}", found(order));
        }
    }
}
