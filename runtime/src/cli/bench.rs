//! `bench`: the same solve again and again, for every wanted size, precision and schedule.
//!
//! Two times are taken of every case: that of a whole solve with a verified solution, and that of one iteration, from
//! two runs of fixed lengths whose difference is iterations alone. The floor they are compared with is so many words a
//! point at the speed of a copy measured just before. `bench spmv` and `bench read` stand beside.

use std::ops::ControlFlow;

use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_syntax::program::Precision;
use serde_json::{Value, json};

use super::args::BenchArgs;
use super::failure::{Failure, NOT_CONVERGED};
use super::out::Out;
use super::progress::seconds;
use super::report::word_bytes;
use super::table::columns;
use super::{Source, bench_compile, bench_dg, bench_read, bench_spmv, compile_with, report, source};
use crate::load::from_text;
use crate::pipeline::Planned;
use crate::registry;
use crate::solve::{Builder, Inputs, Limits, Report, Solver};

/// The model problem by name, with its words of the floor.
const MODEL: (&str, &str, f64) = ("pcg", include_str!("../../../examples/programs/pressure_correction.kw"), 9.0);
/// Iterations of the longer and the shorter run that time one iteration.
const LENGTHS: (u32, u32) = (100, 20);

/// What is run.
#[derive(Clone, Default)]
struct Case {
    sizes: Vec<usize>,
    precision: Option<Precision>,
    schedule: Option<String>,
}

/// How it went.
struct Measured {
    /// Seconds of the counted solves, ascending.
    solves: Vec<f64>,
    /// The median one.
    median: Report,
    /// Seconds of an iteration.
    iteration: Option<f64>,
    /// Seconds of an iteration at the floor.
    floor: Option<f64>,
    /// Whether all solves gave the same residuals.
    same: bool,
}

pub(super) fn run(args: &BenchArgs, out: &mut Out) -> Result<u8, Failure> {
    if args.compile {
        return bench_compile::run(args, out);
    }
    let file = args.run.compile.program.file.as_deref().unwrap_or_default();
    match file {
        "spmv" => return bench_spmv::run(args, out),
        "read" => return bench_read::run(args, out),
        _ if args.scale.is_some() || !args.kind.is_empty() => {
            return Err(Failure::Usage("--scale and --kind are for `bench spmv` and `bench read`".to_string()));
        }
        _ if bench_dg::meant(file) => return bench_dg::run(args, out),
        _ => {}
    }
    let model = file == MODEL.0 && registry::programs().iter().all(|program| program.name != file);
    let loaded = match model {
        true => Source { loaded: from_text("pcg.kw", MODEL.1.to_string())?, system: None },
        false => source(&args.run.compile.program, args.run.place())?,
    };
    if loaded.system.is_some() && !args.sizes.is_empty() {
        return Err(Failure::Usage("a matrix has its size; --sizes is for grids".to_string()));
    }
    let cases = cases(args, &loaded)?;
    let floor = match args.floor {
        Some(words) => words,
        None if model => MODEL.2,
        None => least_words(&builder(&loaded, args, &cases[0])?.plan()?),
    };
    let mut rows = vec![TITLE.map(String::from).to_vec()];
    let (mut objects, mut converged) = (Vec::new(), true);
    for case in &cases {
        let mut solver = builder(&loaded, args, case)?.compile()?;
        solver.notices().iter().for_each(|notice| eprintln!("note: {notice}"));
        if let Some(system) = &loaded.system {
            let (rhs, _) = system.right_hand_side();
            let limits = solver.limits();
            solver.set_limits(Limits { tolerance: system.tolerance(args.run.tolerance, &rhs, None), ..limits });
            // It stays on the device for the runs that follow.
            solver.solve_watched(&Inputs::new().rhs(&rhs), &mut |_| ControlFlow::Continue(()))?;
        }
        let measured = measure(&mut solver, args.runs, floor)?;
        if cases.len() == 1 {
            report::text(out, &solver, &measured.median)?;
        }
        if !measured.same {
            eprintln!(
                "the runs differ in their residuals: sums are not in a fixed order; this is a bug of kernelwright"
            );
        }
        converged &= measured.median.outcome.is_converged();
        rows.push(row(&solver, &measured));
        objects.push(object(&solver, &measured));
    }
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    out.line(format!("floor: {floor} words a point at the speed of a copy; medians of {} runs", args.runs))?;
    if let Some(system) = &loaded.system {
        system.text(out)?;
    }
    let matrix = loaded.system.as_ref().map(|system| system.object());
    out.object(&json!({ "floor_words": floor, "matrix": matrix, "cases": objects }))?;
    Ok(if converged { 0 } else { NOT_CONVERGED })
}

/// All combinations of what is listed; what is not listed is as the problem has it.
fn cases(args: &BenchArgs, loaded: &Source) -> Result<Vec<Case>, Failure> {
    let mut cases = vec![Case::default()];
    if !args.sizes.is_empty() {
        let sized = args.sizes.iter().map(|sizes| Case { sizes: sizes.0.clone(), ..Case::default() });
        cases = sized.collect();
    }
    if !args.precisions.is_empty() {
        let with = |case: &Case| {
            let case = case.clone();
            args.precisions.iter().map(move |precision| Case { precision: Some(*precision), ..case.clone() })
        };
        cases = cases.iter().flat_map(with).collect();
    }
    if args.schedules.is_empty() {
        return Ok(cases);
    }
    let mut out = Vec::new();
    for case in cases {
        let names = if args.schedules.iter().any(|name| name == "all") {
            builder(loaded, args, &case)?.plan()?.plans.into_iter().map(|plan| plan.schedule.name).collect()
        } else {
            args.schedules.clone()
        };
        out.extend(names.into_iter().map(|name| Case { schedule: Some(name), ..case.clone() }));
    }
    Ok(out)
}

fn builder<'l>(loaded: &'l Source, args: &BenchArgs, case: &Case) -> Result<Builder<'l>, Failure> {
    let mut builder = compile_with(loaded, &args.run);
    let (_, problem) = builder.chosen()?;
    let axes = &loaded.loaded.program.operators[problem.operator].axes;
    if !case.sizes.is_empty() && case.sizes.len() != axes.len() {
        let (given, wanted) = (case.sizes.len(), axes.len());
        return Err(Failure::Usage(format!("--sizes: {given} sizes given, the grid has {wanted} axes")));
    }
    for (axis, size) in axes.iter().zip(&case.sizes) {
        builder = builder.set(&axis.size, *size as f64);
    }
    if let Some(precision) = case.precision {
        builder = builder.precision(precision);
    }
    if let Some(schedule) = &case.schedule {
        builder = builder.schedule(schedule);
    }
    Ok(builder)
}

/// Fewest words of a schedule that does the program's own arithmetic and delays nothing.
fn least_words(planned: &Planned) -> f64 {
    let plain = |plan: &&kernelwright_codegen::plan::Plan| {
        let delayed = plan.schedule.main.as_ref().is_some_and(|main| main.delay > 1);
        plan.schedule.arithmetic == Arithmetic::Same && !delayed
    };
    planned.plans.iter().filter(plain).map(|plan| plan.cost.words).fold(f64::INFINITY, f64::min)
}

fn measure(solver: &mut Solver, runs: u32, floor: f64) -> Result<Measured, Failure> {
    solver.measure_copy_bandwidth()?;
    // The first one also brings inputs to the device.
    let first = once(solver)?;
    let mut reports = Vec::new();
    for _ in 0..runs {
        reports.push(once(solver)?);
    }
    let same = reports.iter().all(|run| run.history == first.history);
    reports.sort_by_key(|run| run.timings.solve);
    let solves: Vec<f64> = reports.iter().map(|run| run.timings.solve.as_secs_f64()).collect();
    let median = reports.swap_remove(reports.len() / 2);
    let each = f64::from(median.iterations);
    let iteration = match iteration(solver, runs)? {
        None if each > 0.0 => Some(median.timings.solve.as_secs_f64() / each),
        timed => timed,
    };
    let bytes = floor * solver.len() as f64 * word_bytes(solver.problem().precision);
    let floor = solver.copy_bandwidth().map(|copy| bytes / copy);
    Ok(Measured { solves, median, iteration, floor, same })
}

fn once(solver: &mut Solver) -> Result<Report, Failure> {
    Ok(solver.solve_watched(&Inputs::new(), &mut |_| ControlFlow::Continue(()))?)
}

/// Seconds of one iteration: what a long run takes beyond a short one, over the iterations it is longer. None where the
/// loop ends by itself before.
fn iteration(solver: &mut Solver, runs: u32) -> Result<Option<f64>, Failure> {
    let declared = solver.limits();
    let long = LENGTHS.0.min(declared.iterations);
    let short = long * LENGTHS.1 / LENGTHS.0;
    let mut medians = [0.0; 2];
    let mut whole = long > short;
    for (median, iterations) in medians.iter_mut().zip([long, short]) {
        solver.set_limits(Limits { tolerance: 0.0, iterations });
        let mut times = Vec::new();
        for _ in 0..runs {
            let run = once(solver)?;
            whole &= run.iterations == iterations;
            times.push(run.timings.solve.as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        *median = times[times.len() / 2];
    }
    solver.set_limits(declared);
    let each = (medians[0] - medians[1]) / f64::from((long - short).max(1));
    Ok(Some(each).filter(|each| whole && *each > 0.0))
}

const TITLE: [&str; 10] =
    ["sizes", "precision", "schedule", "words", "iteration", "floor", "ratio", "iterations", "solved in", "outcome"];

fn row(solver: &Solver, measured: &Measured) -> Vec<String> {
    let problem = solver.problem();
    let sizes: Vec<String> = problem.sizes.iter().map(usize::to_string).collect();
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
    let words = measured.median.traffic.map(|traffic| ((100.0 * traffic.words).round() / 100.0).to_string());
    vec![
        sizes.join("x"),
        problem.precision.word().to_string(),
        solver.schedule().to_string(),
        or_dash(words),
        or_dash(measured.iteration.map(seconds)),
        or_dash(measured.floor.map(seconds)),
        or_dash(measured.ratio().map(|ratio| format!("{ratio:.2}"))),
        measured.median.iterations.to_string(),
        seconds(measured.solves[measured.solves.len() / 2]),
        measured.median.outcome.name().to_string(),
    ]
}

impl Measured {
    /// Time of an iteration over that of the floor.
    fn ratio(&self) -> Option<f64> {
        Some(self.iteration? / self.floor?)
    }
}

fn object(solver: &Solver, measured: &Measured) -> Value {
    json!({
        "schedule": solver.schedule(),
        "seconds_per_iteration": measured.iteration,
        "floor_seconds_per_iteration": measured.floor,
        "ratio_to_floor": measured.ratio(),
        "copy_bytes_per_second": solver.copy_bandwidth(),
        "best_seconds": measured.solves[0],
        "median_seconds": measured.solves[measured.solves.len() / 2],
        "seconds": measured.solves,
        "repeatable": measured.same,
        "median": report::object(solver, &measured.median),
    })
}
