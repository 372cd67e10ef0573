//! `tune`: search for the best schedule and variants, and look after what was found.

mod compare;

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kernelwright_syntax::program::Precision;
use serde_json::{Value, json};

use super::args::TuneArgs;
use super::arrays;
use super::bench_spmv::{kinds, wanted};
use super::deadline::Deadline;
use super::failure::Failure;
use super::matrix::read;
use super::out::Out;
use super::progress::{interrupt_flag, seconds};
use super::table::columns;
use super::{bench_dg, march};
use crate::backend::open::open;
use crate::backend::{Arithmetic, KernelInfo};
use crate::cache::Cache;
use crate::load::{Loaded, from_text, load};
use crate::march::{Bound, Changes};
use crate::matrix::Csr;
use crate::solve::{Builder, Solver};
use crate::sparse::choice;
use crate::tune::matrix::{self, Asked};
use crate::tune::record::{Kind, Record, Verdict};
use crate::tune::report::{Finalist, KernelReport, Report};
use crate::tune::store::Store;
use crate::tune::strategy::Choice;
use crate::tune::{self, BUDGET, Ended, Options, Progress, Watch, key, plot};

pub(super) fn run(args: &TuneArgs, out: &mut Out) -> Result<u8, Failure> {
    if let Some(path) = &args.import {
        return import(path, out);
    }
    if args.show || args.export.is_some() {
        return kept(args, out);
    }
    let options = Options { since: Some(Instant::now()), ..options(args) };
    if !args.compare.is_empty() {
        let comparison = watched(&options, out, |watch| compare::compared(args, &options, watch))?;
        return compare::print(&comparison, out);
    }
    let report = watched(&options, out, |watch| found(args, &options, watch))?;
    report.notices.iter().for_each(|notice| eprintln!("note: {notice}"));
    text(&report, out)?;
    out.object(&object(&report))?;
    if let Some(path) = &args.plot {
        std::fs::write(path, plot::svg(&report)).map_err(|error| arrays::failed(path, &error))?;
    }
    Ok(0)
}

/// Work with a line on the terminal, which Ctrl-C ends, and the budget in any case.
fn watched<T>(options: &Options, out: &Out, work: impl FnOnce(Watch) -> Result<T, Failure>) -> Result<T, Failure> {
    let deadline = Deadline::new(Instant::now(), options.budget, out.is_json());
    let stop = interrupt_flag();
    let mut line = Line::new();
    let result = work(&mut |progress| {
        line.update(progress);
        deadline.note(progress.what);
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    line.finish();
    drop(deadline);
    result
}

/// Tunes what the arguments name.
fn found(args: &TuneArgs, options: &Options, watch: Watch) -> Result<Report, Failure> {
    if !args.kernel.is_empty() && (args.matrix.is_some() || args.kind.is_some()) {
        return Err(Failure::Usage("--kernel is for problems of an operator; a product has one kernel".to_string()));
    }
    match (&args.file, &args.matrix, &args.kind) {
        (Some(file), None, None) => program(&named_program(file)?, args, options, watch),
        (None, Some(path), None) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            product(&name, &read(path)?.csr, args, options, watch)
        }
        (None, None, Some(kind)) => {
            let kinds = kinds(std::slice::from_ref(kind), args.scale.unwrap_or(1.0))?;
            product(kind, &kinds[0].build(), args, options, watch)
        }
        (None, None, None) => {
            let message = "tune needs a FILE or a --matrix (or --show, --export or --import)";
            Err(Failure::Usage(message.to_string()))
        }
        _ => Err(Failure::Usage("a FILE, a --matrix or a --kind, one of them".to_string())),
    }
}

fn program(loaded: &Loaded, args: &TuneArgs, options: &Options, watch: Watch) -> Result<Report, Failure> {
    if let Some(run) = march::chosen(loaded, args.problem.as_deref())? {
        if !args.kernel.is_empty() {
            let message = "--kernel is for problems of an operator; kernels of a system are searched together";
            return Err(Failure::Usage(message.to_string()));
        }
        let bound = bound(loaded, run, args)?;
        bound.notes.iter().for_each(|note| eprintln!("note: {note}"));
        let opened = open(args.backend, Arithmetic::Contracted, &std::sync::Arc::new(Cache::of_user()))?;
        let (mut report, _) = tune::system::tune(&bound, opened.backend, Store::of_user(), options, watch)?;
        report.notices.splice(0..0, opened.notices);
        return Ok(report);
    }
    if args.mesh.is_some() {
        let message = "--mesh is for problems of systems; this one is of an operator";
        return Err(Failure::Usage(message.to_string()));
    }
    Ok(built(loaded, args).tune_now(options, watch)?)
}

/// The problem that the arguments name, with back end and schedule.
fn built<'l>(loaded: &'l Loaded, args: &TuneArgs) -> Builder<'l> {
    let builder = choose(loaded, args).backend(args.backend);
    match &args.schedule {
        Some(schedule) => builder.schedule(schedule),
        None => builder,
    }
}

/// A problem of a system, with what the arguments set.
fn bound(loaded: &Loaded, run: usize, args: &TuneArgs) -> Result<Bound, Failure> {
    let (mesh, set, precision) = (args.mesh.clone(), args.set.clone(), args.precision);
    Ok(Bound::new(loaded, run, &Changes { mesh, set, precision, ..Changes::default() })?)
}

/// A program by name; `dg` is the model problem of `bench`.
fn named_program(file: &str) -> Result<Loaded, Failure> {
    Ok(if bench_dg::meant(file) { from_text("dg.kw", bench_dg::MODEL.to_string())? } else { load(file)? })
}

/// Tunes the product of a matrix.
fn product(name: &str, matrix: &Csr, args: &TuneArgs, options: &Options, watch: Watch) -> Result<Report, Failure> {
    let declarations = args.format.formats.as_deref().map(load).transpose()?;
    let all = choice::formats(declarations.as_ref().map(|loaded| &loaded.program));
    let formats = wanted(&all, &args.format.format)?;
    let precision = args.precision.unwrap_or(Precision::F64);
    if precision == Precision::Mixed {
        return Err(Failure::Usage("a product is in f32 or f64".to_string()));
    }
    let asked = Asked { name: name.to_string(), matrix, formats, precision };
    let opened = open(args.backend, Arithmetic::default(), &std::sync::Arc::new(Cache::of_user()))?;
    let (mut report, _) = matrix::tune(&asked, opened.backend, Store::of_user(), options, watch)?;
    report.notices.splice(0..0, opened.notices);
    Ok(report)
}

/// The problem that the arguments name, with what they set.
fn choose<'l>(loaded: &'l Loaded, args: &TuneArgs) -> Builder<'l> {
    let mut builder = Solver::builder(loaded);
    if let Some(problem) = &args.problem {
        builder = builder.problem(problem);
    }
    for (name, value) in &args.set {
        builder = builder.set(name, *value);
    }
    match args.precision {
        Some(precision) => builder.precision(precision),
        None => builder,
    }
}

fn options(args: &TuneArgs) -> Options {
    // A count alone is no limit of time.
    let unlimited = args.budget.is_none() && (args.count.is_some() || args.exhaustive);
    let strategy = if args.exhaustive { Choice::Exhaustive } else { args.strategy };
    let budget = if unlimited { None } else { Some(args.budget.unwrap_or(BUDGET)) };
    Options { budget, since: None, count: args.count, strategy, fresh: args.fresh, kernels: args.kernel.clone() }
}

/// One line on the terminal while a tune runs; elsewhere a line for each kernel.
struct Line {
    terminal: bool,
    shown: bool,
    last: Option<Instant>,
    what: String,
}

impl Line {
    fn new() -> Line {
        Line { terminal: std::io::stderr().is_terminal(), shown: false, last: None, what: String::new() }
    }

    fn update(&mut self, progress: &Progress) {
        let fresh = self.what != progress.what;
        let soon = self.last.is_some_and(|last| last.elapsed() < Duration::from_millis(100));
        // Elsewhere only what has been looked at is worth a line.
        if if self.terminal { !fresh && soon } else { !fresh || progress.looked_at == 0 } {
            return;
        }
        self.what = progress.what.to_string();
        self.last = Some(Instant::now());
        let text = describe(progress);
        if self.terminal {
            // A terminal that cannot be written to shows nothing; the tune goes on.
            let _ = write!(std::io::stderr(), "\r\x1b[2K{text}");
            let _ = std::io::stderr().flush();
            self.shown = true;
        } else {
            eprintln!("{text}");
        }
    }

    fn finish(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
            let _ = std::io::stderr().flush();
        }
    }
}

fn describe(progress: &Progress) -> String {
    let mut text = format!("{}: {} of {}", progress.what, progress.looked_at, progress.space);
    if let Some(best) = progress.best {
        text.push_str(&format!("   best {}", seconds(best)));
        if let Some(default) = progress.default {
            text.push_str(&format!(", {:.2} x the default", default / best));
        }
    }
    if let Some(left) = progress.left {
        text.push_str(&format!("   {:.0} s left", left.as_secs_f64()));
    }
    text
}

/// The closing tables.
fn text(report: &Report, out: &mut Out) -> Result<(), Failure> {
    let sizes: Vec<String> = report.sizes.iter().map(usize::to_string).collect();
    out.line(format!("{}: {} in {} on {}", report.problem, sizes.join(" x "), report.precision, report.device))?;
    let ended = match report.ended {
        Ended::Complete => "the search came to its end",
        Ended::Budget => "the time was used up",
        Ended::Count => "the number of candidates was used up",
        Ended::Interrupted => "interrupted",
    };
    let compiled = format!("{} candidates compiled, {} failed", report.candidates, report.failed);
    let known = format!("{} known from before", report.remembered);
    out.line(format!("{compiled}, {known}; {:.1} s, {ended} ({})", report.wall_seconds, report.strategy))?;
    if !report.schedules.is_empty() {
        out.line(format!("\n{} under the default variant", report.nouns.choices))?;
    }
    let rows: Vec<Vec<String>> = report
        .schedules
        .iter()
        .map(|trial| {
            let time =
                trial.seconds.map_or(trial.reason.clone(), |time| format!("{} {}", seconds(time), report.nouns.one));
            vec![format!("  {}", trial.schedule), format!("{:.2} words", trial.words), time]
        })
        .collect();
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    if !report.kernels.is_empty() {
        kernels(report, out)?;
    }
    out.line(format!("\n{}", report.nouns.whole))?;
    let title = ["  ", "", "time", "gain", "of copy"].map(String::from).to_vec();
    let mut rows = vec![title];
    rows.push(finalist(report, "default", &report.default));
    rows.push(finalist(report, "best", &report.best));
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    if let Some(copy) = report.copy_bandwidth {
        out.line(format!("  copy     {:.0} GB/s in the same run", copy / 1e9))?;
    }
    let settings: Vec<String> = report.best.variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
    out.line(format!("\n  {} {}", report.nouns.choice, report.best.schedule))?;
    for setting in settings {
        out.line(format!("  {setting}"))?;
    }
    if let Some(threads) = report.best.threads {
        out.line(format!("  {threads} threads"))?;
    }
    match &report.store {
        Some(place) => out.line(format!("  kept in {place}; solve and bench use it")),
        None => out.line("  not kept, or not all of it: there is no place where it can be written"),
    }
}

fn finalist(report: &Report, name: &str, finalist: &Finalist) -> Vec<String> {
    let fraction = report.fraction_of_copy(finalist).map_or(String::new(), |share| format!("{:.0} %", 100.0 * share));
    vec![
        format!("  {name}"),
        finalist.schedule.clone(),
        seconds(finalist.seconds),
        format!("{:.2}", report.default.seconds / finalist.seconds),
        fraction,
    ]
}

fn kernels(report: &Report, out: &mut Out) -> Result<(), Failure> {
    out.line("\nKernels")?;
    let title =
        ["  ", "looked at", "default", "best", "gain", "of copy", "registers", "shared", "occupancy", "variant"];
    let mut rows = vec![title.map(String::from).to_vec()];
    rows.extend(report.kernels.iter().map(|kernel| row(report, kernel)));
    columns(&rows).iter().try_for_each(|line| out.line(line))
}

fn row(report: &Report, kernel: &KernelReport) -> Vec<String> {
    let searched = &kernel.searched;
    let (default, best) = searched.seconds();
    let winner = &searched.trials[searched.best];
    let copy = report.copy_bandwidth.map(|copy| searched.bytes as f64 / best / copy);
    let share = |share: Option<f64>| share.map_or(String::new(), |share| format!("{:.0} %", 100.0 * share));
    let of = |f: fn(&KernelInfo) -> String| winner.info.as_ref().map_or(String::new(), f);
    let variant: Vec<String> = winner.variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
    vec![
        format!("  {}", searched.kernel),
        format!("{} of {}", searched.trials.len(), searched.space),
        seconds(default),
        seconds(best),
        format!("{:.2}", default / best),
        share(copy),
        of(|info| info.registers.to_string()),
        of(|info| info.shared_bytes.to_string()),
        of(|info| format!("{:.0} %", 100.0 * info.occupancy)),
        if searched.best == 0 { "default".to_string() } else { variant.join(" ") },
    ]
}

fn object(report: &Report) -> Value {
    let mut object = json!(report);
    object["gain"] = json!(report.gain());
    object["fraction_of_copy"] = json!(report.fraction_of_copy(&report.best));
    object
}

/// `--show` and `--export`: what the store holds, of one program where one is named.
fn kept(args: &TuneArgs, out: &mut Out) -> Result<u8, Failure> {
    let mut store = Store::of_user();
    let records = match &args.file {
        None => store.read_all(),
        Some(file) => {
            let loaded = named_program(file)?;
            let opened = open(args.backend, Arithmetic::default(), &std::sync::Arc::new(Cache::of_user()))?;
            let backend = opened.backend.as_ref();
            match march::chosen(&loaded, args.problem.as_deref())? {
                Some(run) => store.read(&tune::system::family(&bound(&loaded, run, args)?, backend)),
                None => store.read(&key::family(&loaded.program, &choose(&loaded, args).chosen()?.1, backend)?),
            }
        }
    };
    store.take_notices().iter().for_each(|notice| eprintln!("note: {notice}"));
    if let Some(path) = &args.export {
        Store::export(&records, path).map_err(|error| arrays::failed(path, &error))?;
        out.line(format!("{}: {} records", path.display(), records.len()))?;
    }
    if args.show {
        show(&records, &store, out)?;
    }
    let place = store.directory().map(|place| place.display().to_string());
    out.object(&json!({ "store": place, "records": records }))?;
    Ok(0)
}

fn show(records: &[Record], store: &Store, out: &mut Out) -> Result<(), Failure> {
    let choices: Vec<&Record> = records.iter().filter(|record| record.kind == Kind::Choice).collect();
    let failed = records.iter().filter(|record| record.verdict == Verdict::Failed).count();
    let place = store.directory().map(|place| place.display().to_string()).unwrap_or_default();
    let winners = records.iter().filter(|record| record.kind == Kind::Winner).count();
    let measured = records.len() - choices.len() - winners;
    out.line(format!("{place}: {measured} measurements ({failed} failed), {} choices", choices.len()))?;
    let rows: Vec<Vec<String>> = choices.into_iter().map(choice).collect();
    columns(&rows).iter().try_for_each(|line| out.line(line))
}

fn choice(record: &Record) -> Vec<String> {
    let sizes: Vec<String> = record.about.sizes.iter().map(usize::to_string).collect();
    let variant: Vec<String> = record.variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let gain = match (record.seconds, record.default_seconds) {
        (Some(now), Some(before)) => format!("{:.2} x", before / now),
        _ => String::new(),
    };
    let device = record.about.device.chars().take(40).collect();
    let mut row = vec![format!("  {}", record.about.operator), record.about.solver.clone(), sizes.join(" x ")];
    row.extend([record.about.precision.clone(), device, record.seconds.map_or(String::new(), seconds), gain]);
    row.extend([record.schedule.clone(), variant.join(" ")]);
    row
}

/// `--import`: records of a file join the store.
fn import(path: &Path, out: &mut Out) -> Result<u8, Failure> {
    let mut store = Store::of_user();
    let taken = store.import(path).map_err(|error| arrays::failed(path, &error))?;
    let notices = store.take_notices();
    notices.iter().for_each(|notice| eprintln!("note: {notice}"));
    out.line(format!("{taken} records taken over"))?;
    out.object(&json!({ "taken": taken, "notices": notices }))?;
    Ok(0)
}
