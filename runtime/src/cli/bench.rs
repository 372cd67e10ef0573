//! `bench`: the same solve again and again; `bench spmv` and `bench read` stand beside.

use std::ops::ControlFlow;

use serde_json::json;

use super::args::BenchArgs;
use super::failure::{Failure, NOT_CONVERGED};
use super::out::Out;
use super::progress::seconds;
use super::matrix::Place;
use super::{bench_read, bench_spmv, compile, report, source};
use crate::solve::{Inputs, Report, Solver};

pub(super) fn run(args: &BenchArgs, out: &mut Out) -> Result<u8, Failure> {
    match args.run.compile.program.file.as_deref() {
        Some("spmv") => return bench_spmv::run(args, out),
        Some("read") => return bench_read::run(args, out),
        _ => {}
    }
    if args.scale.is_some() || !args.kind.is_empty() {
        return Err(Failure::Usage("--scale and --kind are for the matrices of `bench spmv` and `bench read`".to_string()));
    }
    let source = source(&args.run.compile.program, Place::Backend(args.run.backend))?;
    let mut solver = compile(&source, &args.run)?;
    solver.measure_copy_bandwidth()?;
    let rhs = source.system.as_ref().map(|system| system.right_hand_side().0);
    if let (Some(system), Some(rhs)) = (&source.system, &rhs) {
        solver.set_tolerance(system.tolerance(args.run.tolerance, rhs, None));
    }
    let rhs = rhs.as_deref();
    let first = once(&mut solver, rhs)?;
    let mut runs = Vec::new();
    for _ in 0..args.runs {
        runs.push(once(&mut solver, rhs)?);
    }
    runs.sort_by_key(|run| run.timings.solve);
    let (best, median) = (&runs[0], &runs[runs.len() / 2]);
    let same = runs.iter().all(|run| run.history == first.history);
    report::text(out, &solver, median)?;
    let [low, middle] = [best, median].map(|run| run.timings.solve.as_secs_f64());
    out.line(format!("  {} runs  best {}, median {}", runs.len(), seconds(low), seconds(middle)))?;
    if !same {
        out.line("  the runs differ in their residuals: sums are not in a fixed order; this is a bug of kernelwright")?;
    }
    if let Some(system) = &source.system {
        system.text(out)?;
    }
    out.object(&json!({
        "matrix": source.system.as_ref().map(|system| system.object()),
        "median": report::object(&solver, median),
        "best_seconds": low,
        "median_seconds": middle,
        "seconds": runs.iter().map(|run| run.timings.solve.as_secs_f64()).collect::<Vec<_>>(),
        "repeatable": same,
    }))?;
    Ok(if median.outcome.is_converged() { 0 } else { NOT_CONVERGED })
}

fn once(solver: &mut Solver, rhs: Option<&[f64]>) -> Result<Report, Failure> {
    let mut inputs = Inputs::new();
    if let Some(rhs) = rhs {
        inputs = inputs.rhs(rhs);
    }
    Ok(solver.solve_watched(&inputs, &mut |_| ControlFlow::Continue(()))?)
}
