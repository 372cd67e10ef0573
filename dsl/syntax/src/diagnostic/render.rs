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
    let mut shown = false;
    for quote in &quotes {
        shown |= push_quote(&mut out, source, quote, gutter, shown);
    }
    if let Some(help) = &diagnostic.help {
        if shown {
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

/// Writes the line and the marks under it; false if the line is not known.
fn push_quote(out: &mut String, source: &Source, quote: &Quote<'_>, gutter: usize, separate: bool) -> bool {
    let Some(line) = source.line(quote.span.line) else {
        if !quote.label.is_empty() {
            out.push_str(&format!("{:gutter$} = note: {}\n", "", visible(quote.label)));
        }
        return false;
    };
    let characters: Vec<char> = line.chars().collect();
    let start = (quote.span.column.max(1) as usize - 1).min(characters.len());
    let end = match quote.span.end_line == quote.span.line {
        true => (quote.span.end_column.max(1) as usize - 1).clamp(start, characters.len().max(start)),
        false => characters.len(),
    };
    let first = if start > WIDTH / 2 && characters.len() > WIDTH { start - WIDTH / 2 } else { 0 };
    let window = &characters[first..characters.len().min(first + WIDTH)];
    let text: String = window.iter().map(|&c| show(c)).collect();
    let pad: String = window.iter().take(start - first).map(|&c| if c == '\t' { '\t' } else { ' ' }).collect();
    let marks: String = std::iter::repeat_n(quote.mark, (end - start).clamp(1, WIDTH / 2)).collect();
    let label = if quote.label.is_empty() { String::new() } else { format!(" {}", visible(quote.label)) };
    let rule = if separate { "..." } else { "" };
    match separate {
        true => out.push_str(&format!("{rule}\n")),
        false => out.push_str(&format!("{:gutter$} |\n", "")),
    }
    out.push_str(&format!("{:>gutter$} | {}\n", quote.span.line, text.trim_end()));
    out.push_str(&format!("{:gutter$} | {pad}{marks}{label}\n", ""));
    true
}

/// Text on one line without control characters.
fn visible(text: &str) -> String {
    text.chars().map(show).collect()
}

fn show(c: char) -> char {
    if c.is_control() && c != '\t' { '\u{fffd}' } else { c }
}
