//! Numbers in fixed columns, line after line.

use super::super::scan::{refuse_real, show};
use super::super::{MatrixError, at};
use super::format::Format;

/// The lines that have not been read.
pub(super) struct Lines<'b> {
    rest: &'b [u8],
    /// Number of the next line.
    number: usize,
}

impl<'b> Lines<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Lines<'b> {
        Lines { rest: bytes, number: 1 }
    }

    /// The next line, without its end, and its number.
    pub(super) fn next(&mut self, what: &str) -> Result<(&'b [u8], usize), MatrixError> {
        if self.rest.is_empty() {
            let last = (self.number - 1).max(1);
            return Err(at(last, format!("the file ends before {what}")));
        }
        let length = self.rest.iter().position(|byte| *byte == b'\n').unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(length);
        self.rest = rest.get(1..).unwrap_or_default();
        self.number += 1;
        Ok((line.strip_suffix(b"\r").unwrap_or(line), self.number - 1))
    }

    /// Refuses lines that nothing asks for.
    pub(super) fn finish(mut self) -> Result<(), MatrixError> {
        while !self.rest.is_empty() {
            let (line, number) = self.next("its end")?;
            if !line.trim_ascii().is_empty() {
                return Err(at(number, "the file goes on behind what its header declares"));
            }
        }
        Ok(())
    }

    /// Whole numbers that begin on a new line; with each the number of its line.
    pub(super) fn integers(
        &mut self,
        format: &Format,
        count: usize,
        what: &str,
    ) -> Result<Vec<(usize, usize)>, MatrixError> {
        self.fields(format, count, what, |field, line| {
            let text = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
            let number = text.ok_or_else(|| match field {
                [] => at(line, format!("one of the {what} is blank")),
                _ => at(line, format!("`{}` is not a whole number; it stands among the {what}", show(field))),
            })?;
            Ok((number, line))
        })
    }

    /// Finite numbers that begin on a new line.
    pub(super) fn reals(&mut self, format: &Format, count: usize, what: &str) -> Result<Vec<f64>, MatrixError> {
        let mut place = 0;
        self.fields(format, count, what, |word, line| {
            let field = &format.fields[place % format.fields.len()];
            place += 1;
            let value = field.real(word).filter(|value| value.is_finite());
            value.ok_or_else(|| at(line, format!("{}; it stands among the {what}", refuse_real(word))))
        })
    }

    fn fields<T>(
        &mut self,
        format: &Format,
        count: usize,
        what: &str,
        mut take: impl FnMut(&'b [u8], usize) -> Result<T, MatrixError>,
    ) -> Result<Vec<T>, MatrixError> {
        let mut out = Vec::new();
        while out.len() < count {
            let ended = format!("the end of the {what}: there are {} of {count}", out.len());
            let (line, number) = self.next(&ended)?;
            for field in format.fields.iter().take(count - out.len()) {
                out.push(take(field.text(line), number)?);
            }
        }
        Ok(out)
    }
}
