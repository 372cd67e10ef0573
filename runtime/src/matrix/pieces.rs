//! A long text, block by block, the pieces of a block in parallel.
//!
//! The result does not depend on how the text is cut: pieces end at line breaks, what they give is taken in the order of
//! the text, and of several errors the first one in the text is reported.

use std::io::{self, Read};

use rayon::prelude::*;

use super::scan::Scanner;
use super::{MatrixError, at};

/// How a text is cut.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Bytes that are read at a time.
    pub block: usize,
    /// Bytes that one thread takes at a time.
    pub piece: usize,
}

impl Default for Cut {
    /// Blocks large enough to keep many threads busy, pieces small enough to stay in the caches.
    fn default() -> Self {
        Cut { block: 16 << 20, piece: 256 << 10 }
    }
}

/// A longer line is not believed to be one.
const LONGEST_LINE: usize = 1 << 20;

/// What becomes of a piece of the text.
pub(super) trait Piece: Send {
    /// What is known from the header.
    type Header: Sync;

    /// Nothing yet.
    fn new(header: &Self::Header) -> Self;

    /// Takes the items of one line; the scanner stands before its first word and stays on the line.
    fn line(&mut self, scanner: &mut Scanner, line: usize, header: &Self::Header) -> Result<(), String>;

    /// Number of items so far.
    fn len(&self) -> usize;

    /// Gives back storage that was reserved for more.
    fn finish(&mut self);
}

/// How many items there must be, and what they are called.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared {
    pub(super) count: usize,
    pub(super) name: &'static str,
}

struct Parsed<P> {
    piece: P,
    lines: usize,
    error: Option<(usize, String)>,
}

/// Parses pieces of the rest of a file, whose first line has the number `first`; returns each with the number of lines
/// before it.
pub(super) fn read<P: Piece>(
    source: impl Read,
    cut: Cut,
    first: usize,
    declared: Declared,
    header: &P::Header,
) -> Result<Vec<(usize, P)>, MatrixError> {
    let mut blocks = Blocks { source, block: cut.block, carry: Vec::new(), line: first };
    let mut pieces = Vec::new();
    let mut total = 0;
    while let Some(block) = blocks.next()? {
        let texts = split(&block, cut.piece);
        let parsed: Vec<Parsed<P>> = texts.par_iter().map(|text| parse(text, header, usize::MAX)).collect();
        for (text, parsed) in texts.iter().zip(parsed) {
            let room = declared.count - total;
            if parsed.piece.len() > room {
                let line = blocks.line + parse::<P>(text, header, room).lines;
                return Err(at(line, format!("more {} than declared ({})", declared.name, declared.count)));
            }
            if let Some((line, reason)) = parsed.error {
                return Err(at(blocks.line + line, reason));
            }
            total += parsed.piece.len();
            pieces.push((blocks.line, parsed.piece));
            blocks.line += parsed.lines;
        }
    }
    if total < declared.count {
        let name = declared.name;
        let last = blocks.line.saturating_sub(1).max(1);
        return Err(at(last, format!("the file ends after {total} of {} declared {name}", declared.count)));
    }
    Ok(pieces)
}

/// Parses a piece; stops on the line, counted from 0, whose items exceed the limit.
fn parse<P: Piece>(text: &[u8], header: &P::Header, limit: usize) -> Parsed<P> {
    let mut scanner = Scanner::new(text);
    let mut piece = P::new(header);
    let mut lines = 0;
    while !scanner.at_end() {
        scanner.skip_blanks();
        if !scanner.at_line_end() && scanner.peek() != Some(b'%') {
            if let Err(reason) = piece.line(&mut scanner, lines, header) {
                return Parsed { piece, lines, error: Some((lines, reason)) };
            }
            if piece.len() > limit {
                return Parsed { piece, lines, error: None };
            }
        }
        scanner.next_line();
        lines += 1;
    }
    piece.finish();
    Parsed { piece, lines, error: None }
}

/// Cuts a text at line breaks into pieces of about a size.
fn split(mut text: &[u8], size: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::with_capacity(text.len() / size.max(1) + 1);
    while text.len() > size {
        let Some(place) = text[size..].iter().position(|byte| *byte == b'\n') else { break };
        let (piece, rest) = text.split_at(size + place + 1);
        pieces.push(piece);
        text = rest;
    }
    if !text.is_empty() {
        pieces.push(text);
    }
    pieces
}

/// Reads whole lines, many at a time.
struct Blocks<R> {
    source: R,
    block: usize,
    /// The beginning of a line whose end has not been read.
    carry: Vec<u8>,
    /// Number of the line where the next piece begins.
    line: usize,
}

impl<R: Read> Blocks<R> {
    fn next(&mut self) -> Result<Option<Vec<u8>>, MatrixError> {
        let mut block = std::mem::take(&mut self.carry);
        loop {
            let read = fill(&mut self.source, &mut block, self.block)?;
            if read < self.block {
                return Ok(Some(block).filter(|block| !block.is_empty()));
            }
            if let Some(place) = block.iter().rposition(|byte| *byte == b'\n') {
                self.carry = block.split_off(place + 1);
                return Ok(Some(block));
            }
            if block.len() > LONGEST_LINE {
                return Err(at(self.line, format!("the line is longer than {LONGEST_LINE} bytes")));
            }
        }
    }
}

/// Appends up to `count` bytes; fewer only at the end of the source.
fn fill(source: &mut impl Read, into: &mut Vec<u8>, count: usize) -> io::Result<usize> {
    into.reserve(count);
    source.take(count as u64).read_to_end(into)
}
