//! A diagnostic with the quoted lines of its source.

use crate::diagnostic::Diagnostic;
use crate::source::{Source, Span};

/// Longest part of a line that is quoted, in characters.
const WIDTH: usize = 140;

/// One region of the source with its mark and label.
struct Quote<'a> {
    span: Span,
    mark: char,
    label: &'a str,
}

/// `error: …`, the place, the quoted lines, `help: …`; ends with a line break.
pub fn diagnostic(source: &Source, diagnostic: &Diagnostic) -> String {
    let mut out = format!("error: {}\n", visible(&diagnostic.message));
    let quotes = quotes(diagnostic);
    let last = quotes.iter().map(|quote| quote.span.line).max().unwrap_or(0);
    let gutter = last.to_string().len();
    if diagnostic.span.line > 0 {
        out.push_str(&format!("{:gutter$}--> {}:{}\n", "", source.name, diagnostic.span));
    } else {
        out.push_str(&format!("{:gutter$}--> {}\n", "", source.name));
    }
    let mut shown = None;
    for quote in &quotes {
        shown = push_quote(&mut out, source, quote, gutter, shown).or(shown);
    }
    if let Some(help) = &diagnostic.help {
        if shown.is_some() {
            out.push_str(&format!("{:gutter$} |\n", ""));
        }
        out.push_str(&format!("{:gutter$} = help: {}\n", "", visible(help)));
    }
    out
}

/// The error's own place first, then the others in the order they were given.
fn quotes(diagnostic: &Diagnostic) -> Vec<Quote<'_>> {
    let own = Quote { span: diagnostic.span, mark: '^', label: &diagnostic.label };
    let others = diagnostic.notes.iter().map(|(span, label)| Quote { span: *span, mark: '-', label });
    std::iter::once(own).chain(others).collect()
}

/// Writes the line, unless it is the one `shown` just before, and the marks under it; gives its number if it is known.
fn push_quote(out: &mut String, source: &Source, quote: &Quote<'_>, gutter: usize, shown: Option<u32>) -> Option<u32> {
    let number = quote.span.line;
    let Some(line) = source.line(number) else {
        if !quote.label.is_empty() {
            out.push_str(&format!("{:gutter$} = note: {}\n", "", visible(quote.label)));
        }
        return None;
    };
    let line: Vec<char> = line.chars().collect();
    let (start, end) = columns(quote.span, line.len());
    let first = if start > WIDTH / 2 && line.len() > WIDTH { start - WIDTH / 2 } else { 0 };
    if shown != Some(number) || line.len() > WIDTH {
        let text: String = line.iter().skip(first).take(WIDTH).map(|&c| show(c)).collect();
        match shown {
            Some(_) => out.push_str("...\n"),
            None => out.push_str(&format!("{:gutter$} |\n", "")),
        }
        out.push_str(&format!("{number:>gutter$} | {}\n", text.trim_end()));
    }
    let before = line.iter().skip(first).take(start - first);
    let pad: String = before.map(|&c| if c == '\t' { '\t' } else { ' ' }).collect();
    let marks: String = std::iter::repeat_n(quote.mark, (end - start).clamp(1, WIDTH / 2)).collect();
    let label = if quote.label.is_empty() { String::new() } else { format!(" {}", visible(quote.label)) };
    out.push_str(&format!("{:gutter$} | {pad}{marks}{label}\n", ""));
    Some(number)
}

/// First and last column of a region on its first line, 0-based, within a line of `length` characters.
fn columns(span: Span, length: usize) -> (usize, usize) {
    let start = (span.column.max(1) as usize - 1).min(length);
    let end = if span.end_line == span.line { span.end_column.max(1) as usize - 1 } else { length };
    (start, end.clamp(start, length))
}

/// Text on one line without control characters.
fn visible(text: &str) -> String {
    text.chars().map(show).collect()
}

fn show(c: char) -> char {
    if c.is_control() && c != '\t' { '\u{fffd}' } else { c }
}
