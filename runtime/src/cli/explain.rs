//! `explain`: what a problem is compiled to, and why it may be.

use kernelwright_codegen::loops::{Control, Program, Role};
use kernelwright_codegen::math::{self, KnownFact};
use kernelwright_codegen::plan::Plan;
use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_syntax::program::Problem;
use serde_json::{Value, json};
use std::sync::Arc;

use super::args::{ExplainArgs, TargetArg};
use super::failure::Failure;
use super::matrix::Place;
use super::out::Out;
use super::progress::seconds;
use super::report::word_bytes;
use super::table::columns;
use super::verify::{fact_name, facts_json, standing};
use super::{choose_scheduled, explain_system, march, paper, source};
use crate::backend::open::{Choice, open};
use crate::backend::{Arithmetic as Rounding, BackendError, Target};
use crate::bandwidth::{Pattern, measure, sensible_bytes};
use crate::cache::Cache;
use crate::pipeline::{self, Planned};

pub(super) fn run(args: &ExplainArgs, out: &mut Out) -> Result<u8, Failure> {
    let source = source(&args.compile.program, Place::Nowhere(args.target.map_or(Target::Cuda, Into::into)))?;
    if let Some(run) = march::chosen(&source.loaded, args.compile.program.problem.as_deref())? {
        return explain_system::run(&source.loaded, run, args, out);
    }
    let (loaded, builder) = (&source.loaded, choose_scheduled(&source, &args.compile));
    let (_, problem) = builder.chosen()?;
    let planned = builder.plan()?;
    let sizes: Vec<String> = problem.sizes.iter().map(usize::to_string).collect();
    let solver = &loaded.program.solvers[problem.solver].name;
    let operator = &planned.operator.name;
    let precision = problem.precision.word();
    out.line(format!("{}: {solver} on {operator}, {} in {precision}", problem.name, sizes.join(" x ")))?;
    let speed = speed(args, &problem, &planned)?;
    schedules(&planned, speed.as_ref(), out)?;
    if args.paper && source.system.is_some() {
        return Err(Failure::Usage("--paper counts operators on grids".to_string()));
    }
    if args.paper {
        paper::print(&loaded.program.operators[problem.operator], &planned, out)?;
    }
    steps(&planned.plan().program, out)?;
    storage(&planned, out)?;
    let known = pipeline::facts(loaded, &problem, &planned.operator)?;
    facts(&known, out)?;
    let mut object = object(&planned, &problem.name, &known, speed.as_ref());
    if args.paper {
        object["paper"] = paper::object(&loaded.program.operators[problem.operator], &planned);
    }
    out.object(&object)?;
    Ok(0)
}

/// What predicted times rest on.
struct Speed {
    /// Copy bandwidth.
    bytes_per_second: f64,
    /// Where it comes from.
    source: String,
    /// Bytes of one word at every point.
    field_bytes: f64,
}

impl Speed {
    /// Seconds of an iteration that moves so many words a point at the speed of a copy.
    fn iteration(&self, words: f64) -> f64 {
        words * self.field_bytes / self.bytes_per_second
    }
}

fn speed(args: &ExplainArgs, problem: &Problem, planned: &Planned) -> Result<Option<Speed>, Failure> {
    let grid = planned.operator.space.grid();
    let points = problem.sizes.iter().map(|size| *size as f64).product::<f64>() * grid.components as f64;
    let field_bytes = points * word_bytes(problem.precision);
    let speed = copy_speed(args)?;
    Ok(speed.map(|(bytes_per_second, source)| Speed { bytes_per_second, source, field_bytes }))
}

/// The bandwidth that is given, or that of a device that is there; and where it comes from.
pub(super) fn copy_speed(args: &ExplainArgs) -> Result<Option<(f64, String)>, Failure> {
    if let Some(given) = args.bandwidth {
        return Ok(Some((given * 1e9, "as given".into())));
    }
    let choice = match args.target {
        None => Choice::Auto,
        Some(TargetArg::Cuda) => Choice::Cuda(0),
        Some(TargetArg::Host) => Choice::Host,
    };
    let mut backend = match open(choice, Rounding::default(), &Arc::new(Cache::of_user())) {
        Ok(opened) => opened.backend,
        Err(BackendError::Unavailable(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if backend.small_problems_only().is_some() {
        return Ok(None);
    }
    let bytes = sensible_bytes(backend.target());
    let measured = measure(backend.as_mut(), Pattern::Copy, bytes)?;
    Ok(Some((measured.bytes_per_second, format!("a copy on {}", backend.describe()))))
}

/// What a round of the loop costs under each schedule.
fn schedules(planned: &Planned, speed: Option<&Speed>, out: &mut Out) -> Result<(), Failure> {
    out.line("\nSchedules: per point and iteration")?;
    let title =
        ["  ", "", "words", "loads", "stores", "time", "operations", "divisions", "sweeps", "fences", "vectors", ""];
    let mut rows = vec![title.map(String::from).to_vec()];
    for (number, plan) in planned.plans.iter().enumerate() {
        let (cost, mark) = (&plan.cost, if number == planned.chosen { "* " } else { "  " });
        let arithmetic = match plan.schedule.arithmetic {
            Arithmetic::Same => "",
            Arithmetic::DifferentRecurrence => "different recurrence",
        };
        let rounded = |count: f64| ((100.0 * count).round() / 100.0).to_string();
        let mut row = vec![mark.to_string(), plan.schedule.name.clone()];
        row.extend([cost.words, cost.loads, cost.stores].map(rounded));
        row.push(speed.map_or("-".to_string(), |speed| seconds(speed.iteration(cost.words))));
        row.extend([cost.flops, cost.divisions, cost.sweeps, cost.fences, f64::from(cost.buffers)].map(rounded));
        row.push(arithmetic.to_string());
        rows.push(row);
    }
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    match speed {
        Some(Speed { bytes_per_second, source, .. }) => out.line(format!(
            "Time: an iteration's words at {} GB/s ({source}); vectors: beside the solution and the right-hand side",
            (bytes_per_second / 1e8).round() / 10.0
        ))?,
        None => out.line("Time: no device to measure; --bandwidth GB/s predicts it")?,
    }
    out.line("\nThe one that is used (*)")?;
    let text = planned.plan().schedule.text(&planned.graph);
    text.lines().skip(1).try_for_each(|line| out.line(line))
}

/// Sweeps and fences of a section, in order, with their depth.
fn walk(control: &[Control], depth: usize, visit: &mut impl FnMut(&Control, usize)) {
    for step in control {
        visit(step, depth);
        match step {
            Control::Loop { body, .. } => walk(body, depth + 1, visit),
            Control::Every { body, otherwise, .. } => {
                walk(body, depth + 1, visit);
                walk(otherwise, depth, visit);
            }
            Control::Sweep(_) | Control::Fence(_) | Control::Rotate(_) => {}
        }
    }
}

fn steps(program: &Program, out: &mut Out) -> Result<(), Failure> {
    let sections = [
        ("Once for a right-hand side", &program.prepare),
        ("Before the loop", &program.start),
        ("The loop", &program.body),
        ("To verify", &program.residual),
        ("At the end", &program.finish),
    ];
    for (title, section) in sections {
        if section.is_empty() {
            continue;
        }
        out.line(format!("\n{title}"))?;
        let mut rows = Vec::new();
        walk(section, 1, &mut |step, depth| rows.extend(row(program, step, depth)));
        columns(&rows).iter().try_for_each(|line| out.line(line))?;
    }
    Ok(())
}

fn row(program: &Program, step: &Control, depth: usize) -> Option<Vec<String>> {
    let space = "  ".repeat(depth);
    Some(match step {
        Control::Sweep(id) => {
            let sweep = &program.sweeps[id.0];
            vec![format!("{space}sweep {}", sweep.name), sweep.text.join(" ")]
        }
        Control::Fence(id) => vec![format!("{space}fence {}", program.fences[id.0].name), String::new()],
        Control::Rotate(_) => return None,
        Control::Loop { times: None, .. } => vec![format!("{space}repeat"), String::new()],
        Control::Loop { times: Some(n), .. } => vec![format!("{space}repeat {n} times"), String::new()],
        Control::Every { n, otherwise, .. } if otherwise.is_empty() => {
            vec![format!("{space}every {n} rounds"), String::new()]
        }
        Control::Every { n, .. } => {
            vec![format!("{space}every {n} rounds, instead of what follows at this depth"), String::new()]
        }
    })
}

/// Vectors with their number of buffers, without the right-hand side as given.
fn owned(program: &Program) -> Vec<(&str, u32)> {
    let own = program.vectors.iter().filter(|vector| vector.role != Role::Rhs);
    own.map(|vector| (vector.name.as_str(), vector.versions)).collect()
}

fn storage(planned: &Planned, out: &mut Out) -> Result<(), Failure> {
    out.line("\nStorage")?;
    let names: Vec<String> = owned(&planned.plan().program)
        .iter()
        .map(|(name, n)| if *n == 1 { name.to_string() } else { format!("{name} ({n} buffers)") })
        .collect();
    out.line(format!("  vectors  {}", names.join(", ")))?;
    for array in planned.operator.data.iter().filter_map(|data| data.stored.as_ref()) {
        out.line(format!("  matrix   {}: {} elements, {:?}", array.role.name(), array.len, array.kind))?;
    }
    for table in &planned.operator.tables {
        out.line(format!("  table    {} over {}: {}", table.name, axes(&planned.operator, &table.axes), table.text))?;
    }
    Ok(())
}

fn axes(operator: &math::Operator, axes: &[usize]) -> String {
    let grid = operator.space.grid();
    let letters: Vec<&str> = axes.iter().map(|axis| grid.axes[*axis].letter.as_str()).collect();
    if letters.is_empty() { "nothing".to_string() } else { letters.join(", ") }
}

fn facts(known: &[KnownFact], out: &mut Out) -> Result<(), Failure> {
    if known.is_empty() {
        return Ok(());
    }
    out.line("\nFacts")?;
    let rows: Vec<_> = known
        .iter()
        .map(|fact| vec![format!("  {}", fact_name(fact.fact)), standing(fact.standing).to_string(), fact.why.clone()])
        .collect();
    columns(&rows).iter().try_for_each(|line| out.line(line))
}

fn schedule_object(plan: &Plan, speed: Option<&Speed>) -> Value {
    json!({
        "name": plan.schedule.name,
        "same_arithmetic": plan.schedule.arithmetic == Arithmetic::Same,
        "words": plan.cost.words,
        "loads": plan.cost.loads,
        "stores": plan.cost.stores,
        "predicted_seconds": speed.map(|speed| speed.iteration(plan.cost.words)),
        "coefficient_words": plan.cost.coefficient_words,
        "operations": plan.cost.flops,
        "divisions": plan.cost.divisions,
        "sweeps": plan.cost.sweeps,
        "fences": plan.cost.fences,
        "vectors": plan.cost.buffers,
    })
}

fn object(planned: &Planned, problem: &str, known: &[KnownFact], speed: Option<&Speed>) -> Value {
    let vectors: Vec<Value> =
        owned(&planned.plan().program).iter().map(|(name, n)| json!({ "name": name, "buffers": n })).collect();
    json!({
        "problem": problem,
        "schedule": planned.plan().schedule.name,
        "bytes_per_second": speed.map(|speed| speed.bytes_per_second),
        "schedules": planned.plans.iter().map(|plan| schedule_object(plan, speed)).collect::<Vec<_>>(),
        "vectors": vectors,
        "tables": planned.operator.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(),
        "facts": facts_json(known),
    })
}
