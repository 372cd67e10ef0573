//! `explain` for problems of systems: kernels of each fusion with their traffic and arithmetic, and what is stored.

use kernelwright_codegen::galerkin::module::{Model, Module};
use kernelwright_codegen::kernel::{Element, Kernel};
use serde_json::{Value, json};

use super::args::{ExplainArgs, TargetArg};
use super::explain::copy_speed;
use super::failure::Failure;
use super::out::Out;
use super::progress::seconds;
use super::systems::{bind, refuse_schedule};
use super::table::{bytes, columns};
use crate::backend::signature::Signature;
use crate::load::Loaded;
use crate::march::{Bound, Extent, module};

/// How a stage may be cut into kernels.
const FUSIONS: [&str; 3] = ["one", "two", "three"];

/// A problem compiled with one of them.
struct Cut {
    name: &'static str,
    module: Module,
}

/// Explains a problem.
pub(super) fn run(loaded: &Loaded, run: usize, args: &ExplainArgs, out: &mut Out) -> Result<u8, Failure> {
    refuse_schedule(&args.compile)?;
    if args.paper {
        return Err(Failure::Usage("--paper counts operators on grids".to_string()));
    }
    let (program, variant) = (&args.compile.program, &args.compile.variant);
    let mut bound = bind(loaded, run, program, variant, Extent::OwnOrBox)?;
    let target = args.target.unwrap_or(TargetArg::Cuda);
    let asked = variant.iter().rev().find(|(key, _)| key == "fusion").map(|(_, value)| value.clone());
    let mut cuts = Vec::new();
    for name in FUSIONS {
        bound.variant = variant.clone();
        bound.variant.push(("fusion".to_string(), name.to_string()));
        cuts.push(Cut { name, module: module(&bound, target.into())? });
    }
    // Without a word of the user everything is one kernel.
    let chosen = cuts.iter().position(|cut| asked.as_deref() == Some(cut.name)).unwrap_or(0);
    let speed = copy_speed(args)?;
    head(&bound, out)?;
    stages(&bound, &cuts, chosen, speed.as_ref(), out)?;
    let kernels = &cuts[chosen].module;
    launches(kernels, out)?;
    storage(kernels, out)?;
    out.object(&object(&bound, &cuts, chosen, speed.as_ref()))?;
    Ok(0)
}

fn head(bound: &Bound, out: &mut Out) -> Result<(), Failure> {
    out.line(format!(
        "{}: {} ({}, {}), order {} in {}, {} elements of {} values, {} values",
        bound.run.name,
        bound.system.name,
        bound.source.fluxes[bound.run.flux].name,
        bound.system.step.name,
        bound.element.order,
        bound.run.precision.word(),
        bound.elements(),
        values(bound),
        bound.len()
    ))
}

/// Values of an element.
fn values(bound: &Bound) -> usize {
    bound.nodes() * bound.system.components.len()
}

/// Kernels of a step in the order in which they are first launched, each with its number of launches.
fn launched(module: &Module) -> Vec<(&Kernel, usize)> {
    let mut list: Vec<(usize, usize)> = Vec::new();
    for launch in &module.step[0] {
        match list.iter_mut().find(|(kernel, _)| *kernel == launch.kernel) {
            Some((_, count)) => *count += 1,
            None => list.push((launch.kernel, 1)),
        }
    }
    list.into_iter().map(|(kernel, count)| (&module.kernels[kernel], count)).collect()
}

/// Seconds of a stage that moves its bytes as fast as a copy does.
fn predicted(model: &Model, speed: &(f64, String)) -> f64 {
    model.bytes * model.values as f64 / speed.0
}

fn stages(
    bound: &Bound,
    cuts: &[Cut],
    chosen: usize,
    speed: Option<&(f64, String)>,
    out: &mut Out,
) -> Result<(), Failure> {
    out.line("\nFusions: per element and stage")?;
    let title = ["  ", "", "bytes", "of traces", "FLOPs", "FLOPs/byte", "time", "stored", "kernels of a step"];
    let mut rows = vec![title.map(String::from).to_vec()];
    let per_element = values(bound) as f64;
    for (number, Cut { name, module }) in cuts.iter().enumerate() {
        let model = &module.model;
        let names: Vec<&str> = launched(module).iter().map(|(kernel, _)| kernel.name.as_str()).collect();
        rows.push(vec![
            if number == chosen { "* " } else { "  " }.to_string(),
            name.to_string(),
            format!("{:.0}", model.bytes * per_element),
            format!("{:.0}", model.trace_bytes * per_element),
            format!("{:.0}", model.flops * per_element),
            format!("{:.2}", model.flops / model.bytes),
            speed.map_or("-".to_string(), |speed| seconds(predicted(model, speed))),
            bytes(stored(module)),
            names.join(", "),
        ]);
    }
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    match speed {
        Some((rate, source)) => out
            .line(format!("Time: the bytes at {} GB/s ({source}); traces from the cache", (rate / 1e8).round() / 10.0)),
        None => out.line("Time: no device to measure; --bandwidth GB/s predicts it"),
    }
}

fn launches(module: &Module, out: &mut Out) -> Result<(), Failure> {
    out.line("\nKernels of a step (*)")?;
    let title = ["  kernel", "launches", "blocks", "lanes", "shared"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for (kernel, count) in launched(module) {
        rows.push(vec![
            format!("  {}", kernel.name),
            count.to_string(),
            kernel.grid.iter().product::<u64>().to_string(),
            kernel.lanes.iter().product::<u32>().to_string(),
            bytes(Signature::of(kernel).shared_bytes),
        ]);
    }
    columns(&rows).iter().try_for_each(|line| out.line(line))
}

fn stored(module: &Module) -> u64 {
    module.buffers.iter().map(|buffer| buffer.len * buffer.element.bytes()).sum()
}

fn storage(module: &Module, out: &mut Out) -> Result<(), Failure> {
    out.line("\nStorage (*)")?;
    let mut rows = Vec::new();
    for buffer in &module.buffers {
        rows.push(vec![
            format!("  {}", buffer.name),
            format!("{} {}", buffer.len, element(buffer.element)),
            bytes(buffer.len * buffer.element.bytes()),
        ]);
    }
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    let layout = module.layout;
    let side = if layout.interleaved { "elements" } else { "nodes of an element" };
    out.line(format!(
        "  {} elements are stored, {} together, {side} adjacent; {} in all",
        layout.padded,
        layout.pack,
        bytes(stored(module))
    ))
}

fn element(element: Element) -> String {
    format!("{element:?}").to_lowercase()
}

fn object(bound: &Bound, cuts: &[Cut], chosen: usize, speed: Option<&(f64, String)>) -> Value {
    let per_element = values(bound) as f64;
    let fusion = |Cut { name, module }: &Cut| {
        let model = &module.model;
        let kernels: Vec<Value> = launched(module)
            .iter()
            .map(|(kernel, count)| {
                json!({
                    "name": kernel.name,
                    "launches": count,
                    "blocks": kernel.grid.iter().product::<u64>(),
                    "lanes": kernel.lanes.iter().product::<u32>(),
                    "shared_bytes": Signature::of(kernel).shared_bytes,
                })
            })
            .collect();
        json!({
            "name": name,
            "bytes_per_element": model.bytes * per_element,
            "trace_bytes_per_element": model.trace_bytes * per_element,
            "flops_per_element": model.flops * per_element,
            "predicted_seconds": speed.map(|speed| predicted(model, speed)),
            "stored_bytes": stored(module),
            "kernels": kernels,
        })
    };
    let buffers = cuts[chosen].module.buffers.iter();
    json!({
        "problem": bound.run.name,
        "system": bound.system.name,
        "order": bound.element.order,
        "elements": bound.elements(),
        "values_per_element": values(bound),
        "fusion": cuts[chosen].name,
        "bytes_per_second": speed.map(|speed| speed.0),
        "fusions": cuts.iter().map(fusion).collect::<Vec<_>>(),
        "buffers": buffers
            .map(|buffer| json!({ "name": buffer.name, "elements": buffer.len, "type": element(buffer.element) }))
            .collect::<Vec<_>>(),
    })
}
