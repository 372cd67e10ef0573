//! `check`: are these programs right?

use kernelwright_syntax::program::Program;
use kernelwright_syntax::source::Span;
use serde_json::{Value, json};

use super::args::CheckArgs;
use super::failure::{Failure, WRONG_INPUT, diagnostics_json};
use super::out::Out;
use crate::load::{LoadError, load};
use crate::pipeline::diagnose;

/// Checks every file, also after one that is wrong.
pub(super) fn run(args: &CheckArgs, out: &mut Out) -> Result<u8, Failure> {
    let mut status = 0;
    let mut results = Vec::new();
    for file in &args.files {
        match load(file) {
            Ok(loaded) => {
                let found = diagnose::program(&loaded);
                if !found.is_empty() {
                    status = WRONG_INPUT;
                    results.push(refused(file, LoadError::Program(found)));
                    continue;
                }
                let text: Vec<String> =
                    counts(&loaded.program).iter().filter(|(n, _)| *n > 0).map(|(n, what)| plural(*n, what)).collect();
                out.line(format!("{file}: {}", if text.is_empty() { "empty".to_string() } else { text.join(", ") }))?;
                results.push(json!({ "file": file, "ok": true }));
            }
            Err(error) => {
                status = WRONG_INPUT;
                results.push(refused(file, error));
            }
        }
    }
    out.object(&json!({ "ok": status == 0, "files": results }))?;
    Ok(status)
}

/// How many there are of everything; what problems use of the library has no place in the file.
fn counts(program: &Program) -> [(usize, &'static str); 6] {
    let own = |span: &Span| *span != Span::default();
    [
        (program.operators.len(), "operator"),
        (program.solvers.iter().filter(|solver| own(&solver.span)).count(), "solver"),
        (program.formats.len(), "format"),
        (program.systems.iter().filter(|system| own(&system.span)).count(), "system"),
        (program.steps.iter().filter(|step| own(&step.span)).count(), "time step"),
        (program.problems.len() + program.runs.len(), "problem"),
    ]
}

fn refused(file: &str, error: LoadError) -> Value {
    match error {
        LoadError::NotFound(text) => {
            eprintln!("error: {text}");
            json!({ "file": file, "ok": false, "error": text })
        }
        LoadError::Program(diagnostics) => {
            eprint!("{diagnostics}");
            json!({ "file": file, "ok": false, "diagnostics": diagnostics_json(&diagnostics) })
        }
    }
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
