//! Tokens of a program as one flat list.
//!
//! The nested token stream becomes a list in which every bracket knows its partner: the parser looks ahead at will,
//! resumes after an error at a known place, and a token's position *is* its entry in the [`TokenTable`]. Brackets
//! without a shape, which macros put around what they substitute, disappear. Doc comments are one token each.

use crate::diagnostic::Diagnostic;
use crate::source::{Span, TokenTable};
use proc_macro2::{Delimiter, Group, Literal, Punct, Spacing, TokenStream, TokenTree};

/// Deepest nesting of brackets.
pub const DEEPEST: usize = 200;
/// Longest number, in characters: reading one takes quadratic time.
const LONGEST_NUMBER: usize = 1000;
/// Longest text, in bytes.
pub const LONGEST: usize = 16 << 20;

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    /// An identifier or keyword.
    Word(String),
    /// A number as written and its value.
    Number(String, f64),
    /// A string.
    Text(String),
    /// One line or block of documentation.
    Doc(String),
    /// Punctuation, one or two characters.
    Symbol(String),
    /// An opening bracket and the position of its partner.
    Open(char, usize),
    /// A closing bracket.
    Close(char),
    /// Anything else: a character, a byte string, a number with a suffix.
    Foreign(String),
    /// After the last token.
    End,
}

impl Token {
    /// How a message names it.
    pub fn describe(&self) -> String {
        match self {
            Token::Word(text) | Token::Symbol(text) | Token::Foreign(text) | Token::Number(text, _) => {
                format!("`{}`", text.chars().take(40).collect::<String>())
            }
            Token::Text(_) => "a string".to_string(),
            Token::Doc(_) => "a doc comment".to_string(),
            Token::Open(bracket, _) | Token::Close(bracket) => format!("`{bracket}`"),
            Token::End => "the end of the program".to_string(),
        }
    }
}

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Lexeme {
    /// What it is.
    pub token: Token,
    /// Where.
    pub span: Span,
}

/// Reads a text; the error says where it stops being tokens.
pub fn of_text(text: &str) -> Result<TokenStream, Box<Diagnostic>> {
    if text.len() > LONGEST {
        let message = format!("the program is longer than {} MiB", LONGEST >> 20);
        let span = Span { line: 1, column: 1, end_line: 1, end_column: 1, token: 0 };
        return Err(Box::new(Diagnostic::new("too-long", span, message)));
    }
    text.parse::<TokenStream>().map_err(|error| {
        let start = error.span().start();
        let (line, column) = (start.line.max(1) as u32, start.column as u32 + 1);
        let span = Span { line, column, end_line: line, end_column: column + 1, token: 0 };
        Box::new(lexical(text, span))
    })
}

/// Says what is wrong with the character the lexer stopped at.
fn lexical(text: &str, span: Span) -> Diagnostic {
    let line = text.lines().nth(span.line as usize - 1).unwrap_or("");
    match line.chars().nth(span.column as usize - 1) {
        Some(open @ ('(' | '[' | '{')) => {
            Diagnostic::new("unbalanced", span, format!("`{open}` is never closed")).label("opened here")
        }
        Some(close @ (')' | ']' | '}')) => {
            Diagnostic::new("unbalanced", span, format!("`{close}` matches no open bracket"))
        }
        Some('"') => Diagnostic::new("bad-token", span, "this string has no end").label("starts here"),
        Some('/') => Diagnostic::new("bad-token", span, "this comment has no end").label("starts here"),
        Some(c) => Diagnostic::new("bad-token", span, format!("`{c}` starts no token of the language")),
        None => Diagnostic::new("bad-token", span, "the text breaks off within a token"),
    }
}

/// Flattens a stream; the list always ends with [`Token::End`].
pub fn flatten(stream: TokenStream) -> Result<(Vec<Lexeme>, TokenTable), Box<Diagnostic>> {
    let mut flat = Flat::default();
    let mut stack = vec![Level { rest: trees(stream), open: None, close: None }];
    while let Some(level) = stack.last_mut() {
        let Some(tree) = level.rest.pop() else {
            let (open, close) = (level.open, level.close);
            stack.pop();
            flat.leave(open, close);
            continue;
        };
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = flat.enter(&group);
                stack.push(Level { rest: trees(group.stream()), open, close });
                if stack.len() > DEEPEST {
                    let span = flat.lexemes.last().map_or(Span::default(), |lexeme| lexeme.span);
                    let message = format!("brackets are nested more than {DEEPEST} deep");
                    return Err(Box::new(Diagnostic::new("too-deep", span, message)));
                }
            }
            TokenTree::Punct(mark) => {
                if !flat.doc(&mark, &mut level.rest) {
                    flat.symbol(&mark, &mut level.rest);
                }
            }
            TokenTree::Ident(word) => flat.push(Token::Word(word.to_string()), word.span()),
            TokenTree::Literal(literal) => flat.literal(&literal),
        }
    }
    Ok(flat.finish())
}

/// Trees in reverse, so that the next one is popped.
fn trees(stream: TokenStream) -> Vec<TokenTree> {
    let mut trees: Vec<TokenTree> = stream.into_iter().collect();
    trees.reverse();
    trees
}

/// A bracket being read: what is left of it, its opening token and its closing one.
struct Level {
    rest: Vec<TokenTree>,
    open: Option<usize>,
    close: Option<(char, proc_macro2::Span)>,
}

#[derive(Default)]
struct Flat {
    lexemes: Vec<Lexeme>,
    table: TokenTable,
}

impl Flat {
    fn push(&mut self, token: Token, span: proc_macro2::Span) {
        let place = place(span, self.lexemes.len());
        self.lexemes.push(Lexeme { token, span: place });
        self.table.push(span);
    }

    fn enter(&mut self, group: &Group) -> (Option<usize>, Option<(char, proc_macro2::Span)>) {
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ('(', ')'),
            Delimiter::Bracket => ('[', ']'),
            Delimiter::Brace => ('{', '}'),
            Delimiter::None => return (None, None),
        };
        self.push(Token::Open(open, 0), group.span_open());
        (Some(self.lexemes.len() - 1), Some((close, group.span_close())))
    }

    fn leave(&mut self, open: Option<usize>, close: Option<(char, proc_macro2::Span)>) {
        let (Some(open), Some((bracket, span))) = (open, close) else { return };
        let partner = self.lexemes.len();
        self.push(Token::Close(bracket), span);
        if let Token::Open(_, position) = &mut self.lexemes[open].token {
            *position = partner;
        }
    }

    /// Takes `#[doc = "…"]` or `#![doc = "…"]`; false if the mark starts something else.
    fn doc(&mut self, mark: &Punct, rest: &mut Vec<TokenTree>) -> bool {
        if mark.as_char() != '#' {
            return false;
        }
        let inner = matches!(rest.last(), Some(TokenTree::Punct(next)) if next.as_char() == '!');
        let at = rest.len().checked_sub(1 + usize::from(inner));
        let Some(TokenTree::Group(group)) = at.and_then(|at| rest.get(at)) else { return false };
        let Some(text) = doc_text(group) else { return false };
        rest.truncate(rest.len() - 1 - usize::from(inner));
        if !inner {
            self.push(Token::Doc(text), mark.span());
        }
        true
    }

    /// Takes one mark, or two that belong together.
    fn symbol(&mut self, mark: &Punct, rest: &mut Vec<TokenTree>) {
        let first = mark.as_char();
        let second = match rest.last() {
            Some(TokenTree::Punct(next)) if mark.spacing() == Spacing::Joint => Some((next.as_char(), next.span())),
            _ => None,
        };
        match second {
            Some((second, end))
                if matches!((first, second), ('<' | '>' | '=' | '!', '=') | ('=', '>') | ('&', '&') | ('|', '|')) =>
            {
                rest.pop();
                self.push(Token::Symbol(format!("{first}{second}")), mark.span());
                let end = place(end, 0);
                if let Some(lexeme) = self.lexemes.last_mut() {
                    lexeme.span = lexeme.span.to(end);
                }
            }
            _ => self.push(Token::Symbol(first.to_string()), mark.span()),
        }
    }

    fn literal(&mut self, literal: &Literal) {
        let written = literal.to_string();
        let token = match written.chars().next() {
            Some('0'..='9') => number(literal, written),
            Some('"') => text(literal, written),
            Some('r') if written.ends_with(['"', '#']) => text(literal, written),
            _ => Token::Foreign(written),
        };
        self.push(token, literal.span());
    }

    fn finish(mut self) -> (Vec<Lexeme>, TokenTable) {
        let mut span = self.lexemes.last().map_or(Span::default(), |lexeme| lexeme.span.end());
        span.line = span.line.max(1);
        span.column = span.column.max(1);
        self.lexemes.push(Lexeme { token: Token::End, span });
        (self.lexemes, self.table)
    }
}

/// The string of `[doc = "…"]`, one leading blank and all trailing ones of each line removed.
fn doc_text(group: &Group) -> Option<String> {
    if group.delimiter() != Delimiter::Bracket {
        return None;
    }
    let parts: Vec<TokenTree> = group.stream().into_iter().collect();
    let [TokenTree::Ident(name), TokenTree::Punct(equals), TokenTree::Literal(literal)] = parts.as_slice() else {
        return None;
    };
    if *name != "doc" || equals.as_char() != '=' {
        return None;
    }
    let syn::Lit::Str(text) = syn::Lit::new(literal.clone()) else { return None };
    let lines: Vec<String> = text.value().split('\n').map(doc_line).collect();
    Some(lines.join("\n"))
}

fn doc_line(line: &str) -> String {
    let line: String = line.chars().filter(|c| !c.is_control() || *c == '\t').collect();
    line.strip_prefix(' ').unwrap_or(&line).trim_end().to_string()
}

/// A number of the language has no suffix; hexadecimal and `_` are as in Rust.
fn number(literal: &Literal, written: String) -> Token {
    if written.len() > LONGEST_NUMBER {
        return Token::Foreign(written);
    }
    let (digits, suffix) = match syn::Lit::new(literal.clone()) {
        syn::Lit::Int(number) => (number.base10_digits().to_string(), number.suffix().to_string()),
        syn::Lit::Float(number) => (number.base10_digits().to_string(), number.suffix().to_string()),
        _ => return Token::Foreign(written),
    };
    match digits.parse::<f64>() {
        Ok(value) if suffix.is_empty() => Token::Number(written, value),
        _ => Token::Foreign(written),
    }
}

fn text(literal: &Literal, written: String) -> Token {
    match syn::Lit::new(literal.clone()) {
        syn::Lit::Str(text) if text.suffix().is_empty() => Token::Text(text.value()),
        _ => Token::Foreign(written),
    }
}

/// Lines and columns of a compiler span, with the position of its token.
fn place(span: proc_macro2::Span, token: usize) -> Span {
    let (start, end) = (span.start(), span.end());
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    Span {
        line: number(start.line),
        column: number(start.column.saturating_add(1)),
        end_line: number(end.line),
        end_column: number(end.column.saturating_add(1)),
        token: number(token),
    }
}
