//! What the compiler refuses although the checker of the language has nothing against it: operators that cannot be
//! lowered, loops that cannot be traced on them, problems of systems that cannot be bound.
//!
//! It depends on the problem (a preconditioner for matrices on a grid, `transpose` of an operator that is not symmetric), so
//! that no single declaration is wrong. Nothing is planned, mapped or compiled to find out.

use kernelwright_codegen::lower::LowerError;
use kernelwright_codegen::trace::TraceError;
use kernelwright_syntax::diagnostic::{Diagnostic, Diagnostics};
use kernelwright_syntax::program::system::{MeshSource, Run};
use kernelwright_syntax::program::{Operator, Precision, Problem, Program};
use kernelwright_syntax::source::{Source, Span};

use crate::load::Loaded;
use crate::march::{Bound, Changes, Extent};
use crate::pipeline;
use crate::solve::Error;

/// Cubes of a box that is made in no time.
const QUICK: usize = 512;

/// Everything that the compiler refuses of all problems of a program, each with its place; empty if it refuses nothing.
/// Files that problems name are not read.
pub fn program(loaded: &Loaded) -> Diagnostics {
    let mut list = Vec::new();
    for problem in &loaded.program.problems {
        if let Err(error) = traced(&loaded.program, problem) {
            list.extend(of_error(error, &problem.name, problem.span));
        }
    }
    for (number, run) in loaded.program.runs.iter().enumerate() {
        let changes = Changes { extent: extent(run), ..Changes::default() };
        if let Err(error) = Bound::new(loaded, number, &changes) {
            list.extend(of_error(error, &run.name, run.span));
        }
    }
    Diagnostics::new(Source { name: loaded.program.file.clone(), text: Some(loaded.text.clone()) }, list)
}

/// The problem's own box if that is quickly made, so that what depends on places is judged where it counts.
fn extent(run: &Run) -> Extent {
    match &run.mesh {
        Some(MeshSource::Box { cells, .. }) if cells.iter().product::<usize>() <= QUICK => Extent::Own,
        _ => Extent::Small,
    }
}

/// All stages in front of the planner.
fn traced(program: &Program, problem: &Problem) -> Result<(), Error> {
    let operator = pipeline::operator_of_loop(program, problem)?;
    pipeline::graph(program, problem, &operator)?;
    if problem.precision == Precision::Mixed {
        pipeline::residual(program, problem, &pipeline::operator(program, problem)?)?;
    }
    Ok(())
}

/// An error of a problem as diagnostics; what has no place of its own gets the problem's.
fn of_error(error: Error, name: &str, span: Span) -> Vec<Diagnostic> {
    match error {
        Error::Program(diagnostics) => diagnostics.iter().cloned().collect(),
        other => {
            let text = other.to_string();
            let what = text.strip_prefix(&format!("{name}: ")).unwrap_or(&text);
            // These texts end with what would help, if something does.
            let (what, help) =
                what.rsplit_once("; ").map_or((what, None), |(what, help)| (what, Some(help.to_string())));
            vec![Diagnostic::new("refused", span, what).label("this problem").help_if(help)]
        }
    }
}

/// One of them as what a stage answers.
pub(super) fn refused(program: &Program, diagnostic: Diagnostic) -> Error {
    Error::Program(Diagnostics::new(Source { name: program.file.clone(), text: None }, vec![diagnostic]))
}

/// An operator that cannot be lowered is a matter of the program, not of kernelwright.
pub(super) fn of_lowering(error: &LowerError, operator: &Operator, problem: &Problem) -> Diagnostic {
    let span = error.span().unwrap_or(operator.span);
    let text = error.to_string();
    let (what, help) = match error {
        LowerError::TooLarge { help, .. } => (text.strip_suffix(help).unwrap_or(&text), Some(help.to_string())),
        _ => (text.as_str(), None),
    };
    let diagnostic = Diagnostic::new("operator-refused", span, what.trim_end_matches("; ")).help_if(help);
    diagnostic.note(problem.span, "this problem needs it")
}

/// Statements of solvers of the library have no place in the user's file: the problem that uses them has.
pub(super) fn of_trace(error: &TraceError, problem: &Problem) -> Diagnostic {
    let statement = Some(error.span).filter(|span| span.line > 0);
    let diagnostic = |span| Diagnostic::new("loop-refused", span, error.message.clone()).help_if(error.help.clone());
    if error.preconditioner {
        return diagnostic(problem.preconditioner_span).label(format!("of problem `{}`", problem.name));
    }
    match statement {
        Some(span) => diagnostic(span).note(problem.span, "this problem runs it"),
        None => diagnostic(problem.span).label("the solver of this problem needs it"),
    }
}
