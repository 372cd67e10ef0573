//! `solve`: compile a problem, solve it, tell how it went.

use std::fs::File;
use std::io::BufWriter;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use kernelwright_codegen::math::Standing;
use kernelwright_codegen::math_eval::Evaluator;
use kernelwright_syntax::program::{NullSpace, Problem};
use serde_json::json;

use super::args::SolveArgs;
use super::arrays::{self, Format};
use super::failure::{Failure, NOT_CONVERGED};
use super::out::Out;
use super::progress::{Line, interrupt_flag};
use super::verify::{fact_name, inputs as values_of, not_finite, not_in_null_space};
use super::{compile, march, report, source};
use crate::load::Loaded;
use crate::outputs::{history, plot};
use crate::pipeline;
use crate::solve::{Inputs, Limits, Outcome, Report, Solver};

/// Unknowns of a problem whose coefficients are looked at one by one, after a solve that failed.
const LOOKED_AT: usize = 1 << 20;

pub(super) fn run(args: &SolveArgs, out: &mut Out) -> Result<u8, Failure> {
    // What is wrong with the command line should not show after an hour of solving.
    let files = [&args.out, &args.history, &args.plot, &args.probes, &args.checkpoint];
    files.into_iter().flatten().try_for_each(|path| writable(path))?;
    let source = source(&args.run.compile.program, args.run.place())?;
    if let Some(run) = march::chosen(&source.loaded, args.run.compile.program.problem.as_deref())? {
        return march::run(&source.loaded, run, args, out);
    }
    march::refuse_for_operators(args)?;
    args.out.as_deref().map(Format::of).transpose()?;
    let mut solver = compile(&source, &args.run)?;
    warn_of_refuted(&source.loaded, &solver)?;
    solver.measure_copy_bandwidth()?;
    let (operator, sizes) = (solver.operator().clone(), solver.problem().sizes.clone());
    let vector = |path: &Option<PathBuf>, letters: &[String]| -> Result<Option<Vec<f64>>, Failure> {
        let order = arrays::order(&operator, letters)?;
        path.as_ref().map(|path| arrays::read(path, &operator, &sizes, &order)).transpose()
    };
    let (mut rhs, mut guess) = (vector(&args.rhs, &args.rhs_order)?, vector(&args.guess, &args.guess_order)?);
    let mut known = None;
    if let Some(system) = &source.system {
        guess = guess.or_else(|| system.guess());
        if rhs.is_none() {
            let (own, solution) = system.right_hand_side();
            (rhs, known) = (Some(own), solution);
        }
        let side = rhs.as_deref().unwrap_or_default();
        let tolerance = system.tolerance(args.run.tolerance, side, guess.as_deref());
        solver.set_limits(Limits { tolerance, ..solver.limits() });
    }
    let mut inputs = Inputs::new();
    if let Some(rhs) = &rhs {
        inputs = inputs.rhs(rhs);
    }
    if let Some(guess) = &guess {
        inputs = inputs.guess(guess);
    }
    let mut result = watched(&mut solver, &inputs)?;
    if source.system.is_none() {
        let cause = cause(&source.loaded, solver.problem(), &result)?;
        result.detail = cause.or(result.detail);
    }
    let precision = solver.problem().precision;
    report::text(out, &solver, &result)?;
    let mut object = report::object(&solver, &result);
    let mut values = vec![0.0; solver.len()];
    if args.out.is_some() || known.is_some() {
        solver.read_solution(&mut values)?;
    }
    if let Some(system) = &source.system {
        system.text(out)?;
        object["matrix"] = system.object();
    }
    if let Some(known) = known {
        let error = values.iter().zip(&known).map(|(u, v)| (u - v).abs()).fold(0.0, f64::max);
        out.line(format!("  error       {error:.3e} at most, of the known solution"))?;
        object["largest_error"] = json!(error);
    }
    out.object(&object)?;
    if let Some(path) = &args.out {
        arrays::write(path, &operator, &sizes, &values, precision)?;
    }
    write_history(args, &solver, &result)?;
    Ok(if result.outcome.is_converged() { 0 } else { NOT_CONVERGED })
}

/// A solver that needs what the operator is not may fail or, worse, look as if it did not.
fn warn_of_refuted(loaded: &Loaded, solver: &Solver) -> Result<(), Failure> {
    let operator = &solver.engine().program().operator;
    let argument = loaded.program.solvers[solver.problem().solver].operators.first();
    let required = |fact| argument.is_some_and(|argument| argument.requires.contains(&fact));
    // What is known of a matrix is known whether it is asked for or not.
    let asked = |fact| operator.space.rows().is_none() || required(fact);
    for fact in pipeline::facts(loaded, solver.problem(), operator)? {
        if fact.standing == Standing::Refuted && asked(fact.fact) {
            let (name, what) = (&operator.name, fact_name(fact.fact));
            eprintln!("note: {name} is not {what}, which is claimed of it or required by the solver: {}", fact.why);
        }
    }
    Ok(())
}

/// What of the operator explains that a solve failed, where the problem is small enough to look: a row that is not finite,
/// or a null space that it does not have.
fn cause(loaded: &Loaded, problem: &Problem, result: &Report) -> Result<Option<String>, Failure> {
    let operator = &loaded.program.operators[problem.operator];
    let finite = result.outcome != Outcome::NotFinite;
    let nothing = if finite { operator.nullspace != Some(NullSpace::Constant) } else { result.detail.is_some() };
    let unknowns = problem.sizes.iter().product::<usize>() * operator.unknowns.len();
    if result.outcome.is_converged() || nothing || unknowns > LOOKED_AT {
        return Ok(None);
    }
    let lowered = pipeline::operator(&loaded.program, problem)?;
    let (params, data) = values_of(loaded, problem)?;
    let Ok(evaluator) = Evaluator::new(&lowered, &params, &data) else { return Ok(None) };
    Ok(if finite { not_in_null_space(&evaluator) } else { not_finite(&evaluator) })
}

/// The folder of a file to be written is there.
fn writable(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => Err(Failure::Input(format!("{}: there is no folder {}", path.display(), folder.display()))),
        None => Ok(()),
    }
}

/// Solves with a progress line, until it ends or Ctrl-C.
fn watched(solver: &mut Solver, inputs: &Inputs) -> Result<Report, Failure> {
    let stop = interrupt_flag();
    let mut line = Line::new();
    let result = solver.solve_watched(inputs, &mut |progress| {
        line.update(progress);
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    line.finish();
    Ok(result?)
}

fn write_history(args: &SolveArgs, solver: &Solver, result: &Report) -> Result<(), Failure> {
    if let Some(path) = &args.history {
        let write = || history::write(BufWriter::new(File::create(path)?), &result.history);
        write().map_err(|error| arrays::failed(path, &error))?;
    }
    if let Some(path) = &args.plot {
        draw(path, solver, result)?;
    }
    Ok(())
}

fn draw(path: &Path, solver: &Solver, result: &Report) -> Result<(), Failure> {
    let title = format!("{}: {}", solver.problem().name, solver.engine().program().name);
    let convergence =
        plot::Convergence { title: &title, history: &result.history, bound: result.bound, truth: result.truth };
    std::fs::write(path, plot::svg(&convergence)).map_err(|error| arrays::failed(path, &error))
}
