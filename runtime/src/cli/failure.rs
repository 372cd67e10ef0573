//! Why a command ends early, and the exit status that says so.

use std::io;
use std::process::ExitCode;

use kernelwright_syntax::diagnostic::Diagnostics;
use serde_json::{Value, json};

use super::out::Out;
use crate::backend::BackendError;
use crate::load::LoadError;
use crate::solve;

/// The program or an input file is wrong.
pub(super) const WRONG_INPUT: u8 = 1;
/// The command line is wrong.
pub(super) const USAGE: u8 = 2;
/// A solve did not converge.
pub(super) const NOT_CONVERGED: u8 = 3;
/// A back end is missing or failed.
pub(super) const UNAVAILABLE: u8 = 4;

/// Why a command ends early.
#[derive(Debug)]
pub(super) enum Failure {
    /// The program has errors, each with its place.
    Program(Diagnostics),
    /// A file is missing or wrong.
    Input(String),
    /// The command line asks for something that does not exist.
    Usage(String),
    /// A back end is missing or failed.
    Backend(String),
    /// Nobody reads standard output any more.
    ClosedPipe,
    /// Standard output failed otherwise.
    Output(io::Error),
    /// A stage of kernelwright broke its contract.
    Internal(String),
}

impl Failure {
    fn status(&self) -> u8 {
        match self {
            Failure::Program(_) | Failure::Input(_) | Failure::Output(_) | Failure::Internal(_) => WRONG_INPUT,
            Failure::Usage(_) => USAGE,
            Failure::Backend(_) => UNAVAILABLE,
            Failure::ClosedPipe => 0,
        }
    }

    /// Says it on standard error (and as the one object of `--json`); returns the exit status.
    pub(super) fn report(self, out: &mut Out) -> ExitCode {
        if matches!(self, Failure::ClosedPipe) {
            return ExitCode::from(self.status());
        }
        match &self {
            Failure::Program(diagnostics) => eprint!("{diagnostics}"),
            other => eprintln!("error: {}", other.text()),
        }
        self.say(out);
        ExitCode::from(self.status())
    }

    fn say(&self, out: &mut Out) {
        if out.is_json() {
            // The status already says that something is wrong; a closed pipe adds nothing.
            let _ = out.object(&self.object());
            let _ = out.flush();
        }
    }

    fn text(&self) -> String {
        match self {
            Failure::Program(diagnostics) => diagnostics.to_string(),
            Failure::Input(text) | Failure::Usage(text) | Failure::Backend(text) | Failure::Internal(text) => {
                text.clone()
            }
            Failure::ClosedPipe => String::new(),
            Failure::Output(error) => format!("standard output: {error}"),
        }
    }

    fn object(&self) -> Value {
        let kind = match self {
            Failure::Program(_) => "program",
            Failure::Input(_) => "input",
            Failure::Usage(_) => "usage",
            Failure::Backend(_) => "backend",
            Failure::ClosedPipe | Failure::Output(_) => "output",
            Failure::Internal(_) => "internal",
        };
        let mut object = json!({ "error": { "kind": kind, "message": self.text().trim_end() } });
        if let Failure::Program(diagnostics) = self {
            object["error"]["diagnostics"] = diagnostics_json(diagnostics);
        }
        object
    }
}

/// Arguments that make no sense, which were said on standard error: the object of `--json`, and the exit status.
pub(super) fn misused(error: &clap::Error, json: bool) -> ExitCode {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let failure = Failure::Usage(first.trim_start_matches("error: ").trim().to_string());
    failure.say(&mut Out::new(json));
    ExitCode::from(failure.status())
}

/// Diagnostics as a list of objects.
pub(super) fn diagnostics_json(diagnostics: &Diagnostics) -> Value {
    let one = |d: &kernelwright_syntax::diagnostic::Diagnostic| {
        json!({
            "code": d.code,
            "message": d.message,
            "line": d.span.line,
            "column": d.span.column,
            "label": d.label,
            "help": d.help,
        })
    };
    Value::Array(diagnostics.iter().map(one).collect())
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::NotFound(text) => Failure::Input(text),
            LoadError::Program(diagnostics) => Failure::Program(diagnostics),
        }
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Self {
        Failure::Backend(error.to_string())
    }
}

impl From<solve::Error> for Failure {
    fn from(error: solve::Error) -> Self {
        match error {
            solve::Error::Program(diagnostics) => Failure::Program(diagnostics),
            solve::Error::Input(text) => Failure::Input(text),
            solve::Error::Usage(text) => Failure::Usage(text),
            solve::Error::Backend(error) => error.into(),
            solve::Error::Internal(_) => Failure::Internal(error.to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
            _ => Failure::Output(error),
        }
    }
}
