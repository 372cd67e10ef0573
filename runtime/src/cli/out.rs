//! Standard output: text, or exactly one JSON object.

use std::io::{self, BufWriter, Stdout, Write};

use serde_json::Value;

use super::failure::Failure;

/// Where results go.
pub(super) struct Out {
    json: bool,
    target: BufWriter<Stdout>,
}

impl Out {
    pub(super) fn new(json: bool) -> Self {
        Out { json, target: BufWriter::new(io::stdout()) }
    }

    /// Whether the result is to be one JSON object.
    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Text and a line break; nothing with `--json`.
    pub(super) fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        Ok(writeln!(self.target, "{}", text.as_ref())?)
    }

    /// The object; nothing without `--json`.
    pub(super) fn object(&mut self, value: &Value) -> Result<(), Failure> {
        if !self.json {
            return Ok(());
        }
        Ok(writeln!(self.target, "{value:#}")?)
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.target.flush()?)
    }
}
