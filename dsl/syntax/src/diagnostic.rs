//! Errors for people: a message at a place, further labelled places, and a way out.
//!
//! One type serves both front ends. A text file is quoted line by line (`Display` of [`Diagnostics`]); a macro places
//! [`Diagnostic::plain`] at the token the span names.

mod render;
mod suggest;

use crate::source::{Source, Span};
pub use suggest::closest;

/// Errors shown before the rest is only counted.
const SHOWN: usize = 50;

/// One error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Kind of error, stable across versions: `unknown-name`.
    pub code: &'static str,
    /// What is wrong, one line.
    pub message: String,
    /// Where.
    pub span: Span,
    /// Short text at the place; may be empty.
    pub label: String,
    /// Other places that matter, each with its label.
    pub notes: Vec<(Span, String)>,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error with a message at a place and nothing else.
    pub fn new(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        let message = message.into();
        Diagnostic { code, message, span, label: String::new(), notes: Vec::new(), help: None }
    }

    /// Adds the text at the place.
    pub fn label(mut self, label: impl Into<String>) -> Diagnostic {
        self.label = label.into();
        self
    }

    /// Adds another place.
    pub fn note(mut self, span: Span, label: impl Into<String>) -> Diagnostic {
        self.notes.push((span, label.into()));
        self
    }

    /// Adds a way out.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    /// Adds a way out if there is one.
    pub fn help_if(mut self, help: Option<String>) -> Diagnostic {
        self.help = help.or(self.help);
        self
    }

    /// Message, label and help as one text without quoted source, for a compiler that shows the place itself.
    pub fn plain(&self) -> String {
        let mut text = self.message.clone();
        if !self.label.is_empty() {
            text.push_str(&format!("\n{}", self.label));
        }
        for (span, label) in &self.notes {
            text.push_str(&format!("\nline {}: {label}", span.line));
        }
        if let Some(help) = &self.help {
            text.push_str(&format!("\nhelp: {help}"));
        }
        text
    }
}

/// All errors of one source, in the order of their places.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    source: Source,
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Sorts `list` by place and drops repetitions.
    pub fn new(source: Source, mut list: Vec<Diagnostic>) -> Diagnostics {
        list.sort_by(|a, b| (a.span, a.code, &a.message).cmp(&(b.span, b.code, &b.message)));
        list.dedup();
        Diagnostics { source, list }
    }

    /// The errors.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, diagnostic) in self.list.iter().take(SHOWN).enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            f.write_str(&render::diagnostic(&self.source, diagnostic))?;
        }
        if self.list.len() > SHOWN {
            writeln!(f, "\nerror: and {} more", self.list.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
