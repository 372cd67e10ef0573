//! `bench --compile`: how long it takes from a checked program to kernels that can be launched, with an empty cache and
//! with a full one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::args::BenchArgs;
use super::failure::Failure;
use super::matrix::Place;
use super::out::Out;
use super::progress::seconds;
use super::table::columns;
use super::{compile_with, report, source};
use crate::backend::{Arithmetic, Counters, Target, cuda};
use crate::cache::Cache;
use crate::solve::{Builder, Stages};

/// One way from a program to kernels.
struct Sample {
    total: Duration,
    stages: Stages,
    counters: Counters,
}

pub(super) fn run(args: &BenchArgs, out: &mut Out) -> Result<u8, Failure> {
    let place = args.architecture.map_or(args.run.place(), |_| Place::Nowhere(Target::Cuda));
    let source = source(&args.run.compile.program, place)?;
    let builder = compile_with(&source, &args.run);
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for _ in 0..args.runs {
        let folder = tempfile::tempdir()
            .map_err(|error| Failure::Input(format!("a scratch folder for an empty cache: {error}")))?;
        for samples in [&mut cold, &mut warm] {
            let cache = Arc::new(Cache::at(folder.path()));
            samples.push(match args.architecture {
                Some(architecture) => offline(&builder.clone().cache(cache.clone()), architecture, &cache)?,
                None => online(&builder, &cache)?,
            });
        }
    }
    let [cold, warm] = [cold, warm].map(|mut samples| {
        samples.sort_by_key(|sample| sample.total);
        samples.swap_remove(samples.len() / 2)
    });
    let names = ["", "total", "plan", "map", "verify", "print", "build", "load", "allocate"];
    let mut rows = vec![names.map(String::from).to_vec()];
    for (name, sample) in [("  empty cache", &cold), ("  full cache", &warm)] {
        let s = &sample.stages;
        let b = &s.backend;
        let times = [sample.total, s.plan, s.map, b.verify, b.print, b.build, b.load, s.allocate];
        let cells = times.map(|time| seconds(time.as_secs_f64()));
        rows.push([name.to_string()].into_iter().chain(cells).collect());
    }
    let count = cold.counters.compiles;
    out.line(format!("from the program to kernels, {count} units, median of {}", args.runs))?;
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    out.object(&json!({ "runs": args.runs, "cold": object(&cold), "warm": object(&warm) }))?;
    Ok(0)
}

/// Everything, on the back end that is chosen.
fn online(builder: &Builder, cache: &Arc<Cache>) -> Result<Sample, Failure> {
    let backend = builder.clone().cache(cache.clone()).open()?;
    let begin = Instant::now();
    let solver = builder.compile_on(backend)?;
    Ok(Sample { total: begin.elapsed(), stages: *solver.stages(), counters: solver.engine().counters() })
}

/// Up to the machine code of an architecture, without a card: nothing is loaded or allocated.
fn offline(builder: &Builder, architecture: u32, cache: &Arc<Cache>) -> Result<Sample, Failure> {
    let begin = Instant::now();
    let (_, problem) = builder.chosen()?;
    let planned = builder.plan_to_run()?;
    let plan = begin.elapsed();
    let module = builder.module(&planned.plan().program, Target::Cuda, &problem)?;
    let map = begin.elapsed() - plan;
    let (counters, backend) = cuda::build_only(&module.kernels, architecture, Arithmetic::default(), cache)?;
    let stages = Stages { plan, map, backend, allocate: Duration::ZERO };
    Ok(Sample { total: begin.elapsed(), stages, counters })
}

fn object(sample: &Sample) -> Value {
    json!({
        "seconds": sample.total.as_secs_f64(),
        "stages": report::stages(&sample.stages),
        "units_compiled": sample.counters.compiles,
        "units_from_cache": sample.counters.cache_hits,
    })
}
