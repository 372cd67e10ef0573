//! The parser's place in the token list, its errors, and where it resumes after one.

use crate::ast::Name;
use crate::diagnostic::{Diagnostic, closest};
use crate::parse::ITEMS;
use crate::source::Span;
use crate::token::{Lexeme, Token};

/// Levels of brackets, `if`s and signs within each other.
const DEEPEST: u32 = 200;

/// The error is already recorded.
#[derive(Debug)]
pub struct Failed;

/// What a parsing function returns.
pub type Parse<T> = Result<T, Failed>;

/// A place in the token list.
pub struct Cursor<'a> {
    lexemes: &'a [Lexeme],
    at: usize,
    depth: u32,
    errors: Vec<Diagnostic>,
}

impl<'a> Cursor<'a> {
    /// At the first token; the list ends with [`Token::End`].
    pub fn new(lexemes: &'a [Lexeme]) -> Cursor<'a> {
        Cursor { lexemes, at: 0, depth: 0, errors: Vec::new() }
    }

    /// All errors so far.
    pub fn into_errors(self) -> Vec<Diagnostic> {
        self.errors
    }

    /// The token at the place.
    pub fn peek(&self) -> &'a Token {
        self.look(0)
    }

    /// The token `ahead` of the place.
    pub fn look(&self, ahead: usize) -> &'a Token {
        self.lexemes.get(self.at + ahead).map_or(&Token::End, |lexeme| &lexeme.token)
    }

    /// Where the token at the place stands.
    pub fn span(&self) -> Span {
        self.lexemes.get(self.at).or(self.lexemes.last()).map_or(Span::default(), |lexeme| lexeme.span)
    }

    /// Where the token before the place stands.
    pub fn last_span(&self) -> Span {
        let before = self.at.checked_sub(1).and_then(|at| self.lexemes.get(at));
        before.map_or(Span::default(), |lexeme| lexeme.span)
    }

    /// Position in the list.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Whether nothing is left.
    pub fn at_end(&self) -> bool {
        matches!(self.peek(), Token::End)
    }

    /// One token on.
    pub fn advance(&mut self) {
        self.at += 1;
    }

    /// Records an error and fails.
    pub fn fail<T>(&mut self, error: Diagnostic) -> Parse<T> {
        self.errors.push(error);
        Err(Failed)
    }

    /// Fails because something else stands here.
    pub fn expected<T>(&mut self, what: &str) -> Parse<T> {
        let found = self.peek().describe();
        let error = Diagnostic::new("syntax", self.span(), format!("expected {what}, found {found}"));
        self.fail(error.label(format!("expected {what}")))
    }

    /// Fails because an unknown word stands here; `words` are those that could.
    pub fn expected_word<T>(&mut self, what: &str, words: &[&str]) -> Parse<T> {
        let Token::Word(word) = self.peek() else { return self.expected(what) };
        let error = Diagnostic::new("syntax", self.span(), format!("expected {what}, found `{word}`"));
        let nearest = closest(word, words.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        self.fail(error.label(format!("expected {what}")).help_if(nearest))
    }

    /// Whether the word stands here.
    pub fn at_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found == word)
    }

    /// Whether the symbol stands here.
    pub fn at_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if found == symbol)
    }

    /// Whether the opening bracket stands here.
    pub fn at_open(&self, bracket: char) -> bool {
        matches!(self.peek(), Token::Open(found, _) if *found == bracket)
    }

    /// Takes the word if it stands here.
    pub fn take_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        self.at += usize::from(found);
        found
    }

    /// Takes the symbol if it stands here.
    pub fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.at_symbol(symbol);
        self.at += usize::from(found);
        found
    }

    /// Takes the word or fails.
    pub fn word(&mut self, word: &str) -> Parse<()> {
        if self.take_word(word) { Ok(()) } else { self.expected(&format!("`{word}`")) }
    }

    /// Takes the symbol or fails.
    pub fn symbol(&mut self, symbol: &str) -> Parse<()> {
        if self.take_symbol(symbol) { Ok(()) } else { self.expected(&format!("`{symbol}`")) }
    }

    /// Takes a name or fails; `what` says which.
    pub fn name(&mut self, what: &str) -> Parse<Name> {
        let Token::Word(text) = self.peek() else { return self.expected(what) };
        let span = self.span();
        if text.starts_with("r#") || text == "_" || matches!(text.as_str(), "if" | "else") {
            let error = Diagnostic::new("syntax", span, format!("`{text}` cannot be a name"));
            return self.fail(error.label(format!("expected {what}")));
        }
        self.advance();
        Ok(Name { text: text.clone(), span })
    }

    /// Takes an opening bracket or fails; gives the position of its partner.
    pub fn open(&mut self, bracket: char) -> Parse<usize> {
        match self.peek() {
            Token::Open(found, close) if *found == bracket => {
                self.advance();
                Ok(*close)
            }
            _ => self.expected(&format!("`{bracket}`")),
        }
    }

    /// Takes the closing bracket at `close` or fails.
    pub fn close(&mut self, close: usize, what: &str) -> Parse<()> {
        if self.at == close {
            self.advance();
            return Ok(());
        }
        self.expected(what)
    }

    /// `item, item, …` up to the closing bracket at `close`, which is taken; a comma may end the list.
    pub fn list<T>(&mut self, close: usize, item: fn(&mut Cursor<'a>) -> Parse<T>) -> Parse<Vec<T>> {
        let mut items = Vec::new();
        while self.at < close {
            items.push(item(self)?);
            if self.at < close && !self.take_symbol(",") {
                return self.expected("`,` or the closing bracket");
            }
        }
        self.advance();
        Ok(items)
    }

    /// Takes `;`. If the next token starts a new line, the missing `;` is reported and parsing goes on there.
    pub fn semicolon(&mut self) -> Parse<()> {
        if self.take_symbol(";") {
            return Ok(());
        }
        let last = self.last_span();
        if self.span().line > last.end_line || matches!(self.peek(), Token::Close(_)) {
            let error = Diagnostic::new("syntax", last.end(), "expected `;`");
            self.errors.push(error.label("`;` is missing here"));
            return Ok(());
        }
        self.expected("`;`")
    }

    /// All documentation here, as lines.
    pub fn doc(&mut self) -> String {
        let mut lines: Vec<&str> = Vec::new();
        while let Token::Doc(text) = self.peek() {
            lines.push(text);
            self.advance();
        }
        lines.join("\n")
    }

    /// Runs `inner` one level deeper, or fails at the limit.
    pub fn deeper<T>(&mut self, inner: impl FnOnce(&mut Cursor<'a>) -> Parse<T>) -> Parse<T> {
        if self.depth >= DEEPEST {
            let message = format!("nested more than {DEEPEST} deep");
            let error = Diagnostic::new("too-deep", self.span(), message);
            return self.fail(error.help("name a part of it with `let`"));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// After an error in the statement that began at `start`: behind its `;` or, for statements that have one, its last
    /// block.
    pub fn resume_at_statement(&mut self, start: usize, close: usize) {
        let mut at = start;
        let blocks = ["if", "every", "repeat", "stage"].iter().any(|word| self.is_word(start, word))
            || ["flux", "boundary"].iter().any(|word| self.is_word(start, word) && self.is_open(start + 2, '{'));
        while at < close {
            let (next, ends) = match &self.lexemes[at].token {
                Token::Open('{', partner) => (partner + 1, blocks && !self.is_word(partner + 1, "else")),
                Token::Open(_, partner) => (partner + 1, false),
                Token::Symbol(symbol) => (at + 1, symbol == ";"),
                _ => (at + 1, false),
            };
            at = next;
            if ends && at > self.at {
                break;
            }
        }
        self.at = at.min(close);
    }

    /// After an error in the item that began at `start`: behind its block, or at the next item's keyword.
    pub fn resume_at_item(&mut self, start: usize) {
        let mut at = start;
        while at < self.lexemes.len() - 1 {
            // `step` and `system` also begin statements; as items they have a block.
            let item = ITEMS.iter().any(|word| self.is_word(at, word));
            let inner = ["step", "system"].iter().any(|word| self.is_word(at, word)) && !self.is_open(at + 2, '{');
            if at > start && at >= self.at && item && !inner {
                break;
            }
            let (next, ends) = match &self.lexemes[at].token {
                Token::Open('{', partner) => (partner + 1, true),
                Token::Open(_, partner) => (partner + 1, false),
                _ => (at + 1, false),
            };
            at = next;
            if ends && at > self.at {
                break;
            }
        }
        self.at = at;
    }

    fn is_open(&self, at: usize, bracket: char) -> bool {
        matches!(self.lexemes.get(at), Some(Lexeme { token: Token::Open(found, _), .. }) if *found == bracket)
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        matches!(self.lexemes.get(at), Some(Lexeme { token: Token::Word(found), .. }) if found == word)
    }
}
