//! `list`: programs of this binary, solvers of the library.

use serde_json::json;

use super::failure::Failure;
use super::out::Out;
use super::table::columns;
use crate::registry;
use kernelwright_syntax::library;

pub(super) fn run(out: &mut Out) -> Result<u8, Failure> {
    let programs = registry::programs();
    if programs.is_empty() {
        out.line("No programs are declared in this binary; give the commands a .kw file.")?;
    } else {
        out.line("Programs of this binary:")?;
        let rows: Vec<_> = programs.iter().map(|p| vec![format!("  {}", p.name), p.file.to_string()]).collect();
        columns(&rows).iter().try_for_each(|line| out.line(line))?;
    }
    out.line("\nSolvers of the library:")?;
    let solvers: Vec<_> = library::names().filter_map(|name| Some((name, library::solver(name)?))).collect();
    let rows: Vec<_> = solvers
        .iter()
        .map(|(name, solver)| vec![format!("  {name}"), solver.doc.lines().next().unwrap_or("").trim().to_string()])
        .collect();
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    out.line("\nSystems of the library:")?;
    let systems: Vec<_> = library::system_names().filter_map(|name| Some((name, library::system(name)?))).collect();
    let rows: Vec<_> = systems.iter().map(|(name, s)| vec![format!("  {name}"), s.doc.trim().to_string()]).collect();
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    out.line("\nTime steps of the library:")?;
    let steps: Vec<_> = library::step_names().filter_map(|name| Some((name, library::step(name)?))).collect();
    let rows: Vec<_> = steps.iter().map(|(name, s)| vec![format!("  {name}"), s.doc.trim().to_string()]).collect();
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    let systems: Vec<_> = systems.iter().map(|(name, s)| json!({ "name": name, "doc": s.doc.trim() })).collect();
    let steps: Vec<_> = steps.iter().map(|(name, s)| json!({ "name": name, "doc": s.doc.trim() })).collect();
    let programs: Vec<_> = programs.iter().map(|p| json!({ "name": p.name, "file": p.file })).collect();
    let solvers: Vec<_> = solvers.iter().map(|(name, s)| json!({ "name": name, "doc": s.doc.trim() })).collect();
    out.object(&json!({ "programs": programs, "solvers": solvers, "systems": systems, "steps": steps }))?;
    Ok(0)
}
