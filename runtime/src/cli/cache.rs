//! `cache`: look after the compiled kernels that are kept.

use serde_json::json;

use super::args::{CacheAction, CacheArgs};
use super::failure::{Failure, WRONG_INPUT};
use super::out::Out;
use super::table::{bytes, columns};
use crate::cache::{Cache, Entry};

pub(super) fn run(args: &CacheArgs, out: &mut Out) -> Result<u8, Failure> {
    let cache = Cache::of_user();
    cache.take_notices().iter().for_each(|notice| eprintln!("note: {notice}"));
    let place = cache.directory().map(|directory| directory.display().to_string()).unwrap_or_default();
    let refused = |error: std::io::Error| Failure::Input(format!("{place}: {error}"));
    match args.action {
        CacheAction::List => {
            let entries = cache.list().map_err(refused)?;
            let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
            out.line(format!("{place}: {} entries, {}", entries.len(), bytes(total)))?;
            let rows: Vec<_> = entries.iter().map(row).collect();
            columns(&rows).iter().try_for_each(|line| out.line(line))?;
            out.object(&json!({ "directory": place, "entries": entries }))?;
            Ok(0)
        }
        CacheAction::Verify => {
            let damaged = cache.verify().map_err(refused)?;
            match damaged.len() {
                0 => out.line(format!("{place}: every entry is sound"))?,
                n => out.line(format!("{place}: {n} damaged, removed; they are built again when they are needed"))?,
            }
            let rows: Vec<_> = damaged.iter().map(row).collect();
            columns(&rows).iter().try_for_each(|line| out.line(line))?;
            out.object(&json!({ "directory": place, "damaged": damaged }))?;
            Ok(if damaged.is_empty() { 0 } else { WRONG_INPUT })
        }
        CacheAction::Clear => {
            let removed = cache.clear().map_err(refused)?;
            out.line(format!("{place}: {removed} entries removed"))?;
            out.object(&json!({ "directory": place, "removed": removed }))?;
            Ok(0)
        }
    }
}

fn row(entry: &Entry) -> Vec<String> {
    let about = match &entry.state {
        Ok(about) => vec![about.backend.clone(), about.architecture.clone(), about.kernels.join(" ")],
        Err(damage) => vec!["damaged".to_string(), String::new(), damage.to_string()],
    };
    [vec![format!("  {}", entry.file.get(..12).unwrap_or(&entry.file)), bytes(entry.bytes)], about].concat()
}
