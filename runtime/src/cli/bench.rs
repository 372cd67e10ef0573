//! `bench`: the same solve again and again.

use std::ops::ControlFlow;

use serde_json::json;

use super::args::BenchArgs;
use super::failure::{Failure, NOT_CONVERGED};
use super::out::Out;
use super::progress::seconds;
use super::{bench_compile, compile, report};
use crate::load::load;
use crate::solve::{Inputs, Report, Solver};

pub(super) fn run(args: &BenchArgs, out: &mut Out) -> Result<u8, Failure> {
    if args.compile {
        return bench_compile::run(args, out);
    }
    let loaded = load(&args.run.compile.program.file)?;
    let mut solver = compile(&loaded, &args.run)?;
    solver.measure_copy_bandwidth()?;
    let first = once(&mut solver)?;
    let mut runs = Vec::new();
    for _ in 0..args.runs {
        runs.push(once(&mut solver)?);
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
    out.object(&json!({
        "median": report::object(&solver, median),
        "best_seconds": low,
        "median_seconds": middle,
        "seconds": runs.iter().map(|run| run.timings.solve.as_secs_f64()).collect::<Vec<_>>(),
        "repeatable": same,
    }))?;
    Ok(if median.outcome.is_converged() { 0 } else { NOT_CONVERGED })
}

fn once(solver: &mut Solver) -> Result<Report, Failure> {
    Ok(solver.solve_watched(&Inputs::new(), &mut |_| ControlFlow::Continue(()))?)
}
