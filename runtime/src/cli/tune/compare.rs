//! `tune --compare`: what searches chose for the kernels of a program, in turns.

use std::path::Path;

use serde_json::json;

use super::super::args::TuneArgs;
use super::super::arrays;
use super::super::failure::Failure;
use super::super::out::Out;
use super::super::progress::seconds;
use super::super::table::columns;
use super::{built, march, named_program};
use crate::tune::comparison::{Compared, Comparison, Ratio, Rival};
use crate::tune::store::Store;
use crate::tune::{Options, Recorded, Watch};

/// Compares what the stores hold.
pub(super) fn compared(args: &TuneArgs, options: &Options, watch: Watch) -> Result<Comparison, Failure> {
    let stores = args.compare.iter().map(|place| recorded(place)).collect::<Result<Vec<_>, _>>()?;
    let loaded = named_program(args.file.as_deref().unwrap_or_default())?;
    if march::chosen(&loaded, args.problem.as_deref())?.is_some() {
        let message = "--compare is for problems of an operator; kernels of a system are not compared yet";
        return Err(Failure::Usage(message.to_string()));
    }
    Ok(built(&loaded, args).compare_now(&stores, options, watch)?)
}

/// The records of a store.
fn recorded(place: &Path) -> Result<Recorded, Failure> {
    let (records, notices) = Store::recorded(place).map_err(|error| arrays::failed(place, &error))?;
    notices.iter().for_each(|notice| eprintln!("note: {notice}"));
    Ok(Recorded { store: place.display().to_string(), records })
}

/// A table for each kernel.
pub(super) fn print(comparison: &Comparison, out: &mut Out) -> Result<u8, Failure> {
    comparison.notices.iter().for_each(|notice| eprintln!("note: {notice}"));
    let Comparison { problem, sizes, precision, device, .. } = comparison;
    let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
    out.line(format!("{problem}: {} in {precision} on {device}", sizes.join(" x ")))?;
    comparison.kernels.iter().try_for_each(|kernel| table(kernel, &comparison.stores, out))?;
    out.object(&json!(comparison))?;
    Ok(0)
}

fn table(kernel: &Compared, stores: &[String], out: &mut Out) -> Result<(), Failure> {
    out.line(format!("\n{} of {}, {} turns", kernel.kernel, kernel.schedule, kernel.turns))?;
    let title = ["  ", "time", "of the best", "quartiles", "variant"].map(String::from).to_vec();
    let rows = kernel.rivals.iter().enumerate().map(|(number, rival)| row(kernel, number, rival));
    let rows: Vec<Vec<String>> = std::iter::once(title).chain(rows).collect();
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    pairs(kernel, stores).iter().try_for_each(|line| out.line(line))
}

fn row(kernel: &Compared, number: usize, rival: &Rival) -> Vec<String> {
    let default = (number == 0).then_some("default");
    let names: Vec<&str> = default.into_iter().chain(rival.stores.iter().map(String::as_str)).collect();
    let variant: Vec<String> = rival.variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let [ratio, quartiles] = rival.over[kernel.best].map_or([String::new(), String::new()], |ratio| texts(&ratio));
    let time = rival.seconds.map_or_else(|| rival.reason.clone(), seconds);
    vec![format!("  {}", names.join(", ")), time, ratio, quartiles, variant.join(" ")]
}

fn texts(Ratio { median, quartiles: [lower, upper] }: &Ratio) -> [String; 2] {
    [format!("{median:.3}"), format!("{lower:.3} to {upper:.3}")]
}

/// Every store over each that was named after it.
fn pairs(kernel: &Compared, stores: &[String]) -> Vec<String> {
    let held = stores.iter().filter_map(|store| Some((store, kernel.held_by(store)?)));
    let held: Vec<(&String, usize)> = held.collect();
    let mut lines = Vec::new();
    for (at, (first, a)) in held.iter().enumerate() {
        for (second, b) in &held[at + 1..] {
            let said = match kernel.rivals[*a].over[*b] {
                _ if a == b => "the same kernel".to_string(),
                Some(ratio) => texts(&ratio).join(", quartiles "),
                None => continue,
            };
            lines.push(format!("  {first} over {second}: {said}"));
        }
    }
    lines
}
