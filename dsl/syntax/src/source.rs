//! Places in a source: a text file or the tokens of a macro call.

/// A region of a source. Copy, ordered by place, printable as `line:column`.
///
/// Line 0 means "no place": statements of library solvers carry it, because their text is not the user's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct Span {
    /// First line, 1-based.
    pub line: u32,
    /// First column, 1-based, in characters.
    pub column: u32,
    /// Last line.
    pub end_line: u32,
    /// Column after the last character.
    pub end_column: u32,
    /// Position of the first token in the token table of the parse (the macro needs it to place an error).
    pub token: u32,
}

impl Span {
    /// The region from the start of `self` to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        if (last.end_line, last.end_column) < (self.end_line, self.end_column) {
            return self;
        }
        Span { end_line: last.end_line, end_column: last.end_column, ..self }
    }

    /// The empty region just after `self`, where something is missing.
    pub fn end(self) -> Span {
        Span { line: self.end_line, column: self.end_column, ..self }
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// What a program was read from; diagnostics quote it.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Name of the file.
    pub name: String,
    /// Its text; none for the tokens of a macro call.
    pub text: Option<String>,
}

impl Source {
    /// Line `number` (1-based) without its end, if the text is known.
    pub fn line(&self, number: u32) -> Option<&str> {
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        self.text.as_deref()?.lines().nth(index)
    }
}

/// The compiler's places of the tokens of a macro call, by [`Span::token`].
#[derive(Debug, Clone, Default)]
pub struct TokenTable {
    spans: Vec<proc_macro2::Span>,
}

impl TokenTable {
    /// Appends the place of the next token.
    pub(crate) fn push(&mut self, span: proc_macro2::Span) {
        self.spans.push(span);
    }

    /// Where the first token of `span` stands; the whole call if the table does not hold it.
    pub fn place(&self, span: Span) -> proc_macro2::Span {
        let known = usize::try_from(span.token).ok().and_then(|index| self.spans.get(index));
        known.copied().unwrap_or_else(proc_macro2::Span::call_site)
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}
