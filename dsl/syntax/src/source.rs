//! Places in a source: a text file or the tokens of a macro call.

/// A region of a source. Copy, ordered by place, printable as `line:column`.
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
