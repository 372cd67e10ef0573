//! Fortran's format descriptors, as far as number files need them: `(16I5)`, `(1P,4D20.12)`, `(3E26.18)`, `(2(1X,I9))`.

use std::ops::Range;

use super::super::scan;

/// How numbers stand on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) fields: Vec<Field>,
}

/// One number on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// Bytes of the line.
    pub(super) place: Range<usize>,
    /// Digits behind the point, where the field has none.
    decimals: i32,
    /// The number was multiplied by this power of ten, where it has no exponent.
    scale: i32,
    real: bool,
}

/// A longer line is not believed to be one.
const LONGEST: usize = 1 << 16;

impl Format {
    /// Reads a descriptor with its parentheses.
    pub(super) fn parse(text: &str) -> Result<Format, String> {
        let refuse = |reason: &str| format!("the format `{}`: {reason}", scan::show(text.trim().as_bytes()));
        let compact: Vec<u8> =
            text.bytes().filter(|b| !b.is_ascii_whitespace()).map(|b| b.to_ascii_uppercase()).collect();
        let mut parser = Parser { text: &compact, at: 0, column: 0, scale: 0, fields: Vec::new() };
        parser.expect(b'(').map_err(|r| refuse(&r))?;
        parser.list(0).map_err(|r| refuse(&r))?;
        if parser.at < compact.len() {
            return Err(refuse("it goes on behind its last parenthesis"));
        }
        if parser.fields.is_empty() {
            return Err(refuse("it has no number"));
        }
        Ok(Format { fields: parser.fields })
    }

    /// Whether all numbers are integers.
    pub(super) fn is_integer(&self) -> bool {
        self.fields.iter().all(|field| !field.real)
    }
}

impl Field {
    /// The text of the field on a line, without blanks around it.
    pub(super) fn text<'l>(&self, line: &'l [u8]) -> &'l [u8] {
        let end = self.place.end.min(line.len());
        line.get(self.place.start..end).unwrap_or_default().trim_ascii()
    }

    /// The number as Fortran reads it.
    pub(super) fn real(&self, word: &[u8]) -> Option<f64> {
        // Old writers leave a blank for the plus of an exponent.
        let mut fixed = word.to_vec();
        for place in 1..fixed.len() {
            if fixed[place] == b' ' && matches!(fixed[place - 1], b'E' | b'D' | b'e' | b'd') {
                fixed[place] = b'+';
            }
        }
        let has_exponent = fixed.iter().skip(1).any(|byte| matches!(byte, b'E' | b'D' | b'e' | b'd' | b'+' | b'-'));
        let mut shift = if has_exponent { 0 } else { -self.scale };
        if !fixed.contains(&b'.') {
            shift -= self.decimals;
        }
        if shift != 0 && !has_exponent && fixed.last().is_some_and(u8::is_ascii_digit) {
            // Written out, the shift is rounded once, with the number.
            fixed.extend(format!("e{shift}").bytes());
        } else if shift != 0 {
            return Some(scan::real(&fixed)? * 10f64.powi(shift));
        }
        scan::real(&fixed)
    }
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    column: usize,
    scale: i32,
    fields: Vec<Field>,
}

impl Parser<'_> {
    /// Items up to the closing parenthesis.
    fn list(&mut self, depth: usize) -> Result<(), String> {
        if depth > 4 {
            return Err("the parentheses are nested too deeply".to_string());
        }
        loop {
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b')') => {
                    self.at += 1;
                    return Ok(());
                }
                None => return Err("a parenthesis is missing".to_string()),
                Some(_) => self.item(depth)?,
            }
        }
    }

    fn item(&mut self, depth: usize) -> Result<(), String> {
        let negative = self.peek() == Some(b'-');
        self.at += usize::from(negative || self.peek() == Some(b'+'));
        let number = self.number()?;
        let letter = self.peek().ok_or("a parenthesis is missing")?;
        self.at += 1;
        if letter == b'P' {
            let scale = number.ok_or("a P without a number")? as i32;
            self.scale = if negative { -scale } else { scale };
            return Ok(());
        }
        let count = number.unwrap_or(1);
        if negative || count == 0 || count > LONGEST {
            return Err("a repetition is out of range".to_string());
        }
        match letter {
            b'X' => self.advance(count).map(|_| ()),
            b'(' => self.group(count, depth),
            b'I' | b'E' | b'D' | b'F' | b'G' => self.numbers(letter, count),
            other => Err(format!("`{}` is not understood", scan::show(&[other]))),
        }
    }

    fn group(&mut self, count: usize, depth: usize) -> Result<(), String> {
        let start = self.at;
        for _ in 0..count {
            self.at = start;
            let before = self.column;
            self.list(depth + 1)?;
            if self.column == before {
                return Err("a group is empty".to_string());
            }
        }
        Ok(())
    }

    /// `I8`, `E20.12`, `E20.12E3`, `ES20.12`, `EN20.12`: what is read is the same with any of Fortran's exponents.
    fn numbers(&mut self, letter: u8, count: usize) -> Result<(), String> {
        self.at += usize::from(letter == b'E' && matches!(self.peek(), Some(b'S' | b'N')));
        let width = self.number()?.filter(|width| *width > 0).ok_or("a number has no width")?;
        let mut decimals = 0;
        if self.peek() == Some(b'.') {
            self.at += 1;
            decimals = self.number()?.filter(|d| *d < 400).ok_or("the digits behind a point are missing")? as i32;
            if letter != b'I' && self.peek() == Some(b'E') {
                self.at += 1;
                self.number()?.ok_or("the digits of an exponent are missing")?;
            }
        }
        let real = letter != b'I';
        for _ in 0..count {
            let place = self.advance(width)?;
            self.fields.push(Field { place, decimals: if real { decimals } else { 0 }, scale: self.scale, real });
        }
        Ok(())
    }

    fn advance(&mut self, width: usize) -> Result<Range<usize>, String> {
        let start = self.column;
        self.column = start.saturating_add(width);
        if self.column > LONGEST { Err("the line is too long".to_string()) } else { Ok(start..self.column) }
    }

    fn number(&mut self) -> Result<Option<usize>, String> {
        let rest = &self.text[self.at..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(None);
        }
        if digits > 6 {
            return Err("a number is out of range".to_string());
        }
        self.at += digits;
        Ok(Some(rest[..digits].iter().fold(0, |number, digit| 10 * number + usize::from(digit - b'0'))))
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        match self.peek() == Some(wanted) {
            true => {
                self.at += 1;
                Ok(())
            }
            false => Err("a format stands in parentheses".to_string()),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    fn places(text: &str) -> Vec<(usize, usize)> {
        let format = Format::parse(text).expect("a good format");
        format.fields.iter().map(|field| (field.place.start, field.place.end)).collect()
    }

    fn number(format: &str, text: &str) -> Option<f64> {
        Format::parse(format).expect("a good format").fields[0].real(text.as_bytes())
    }

    #[test]
    fn fields_stand_where_fortran_puts_them() {
        assert_eq!(places("(3I5)"), [(0, 5), (5, 10), (10, 15)]);
        assert_eq!(places("(1P,2D20.12)"), [(0, 20), (20, 40)]);
        assert_eq!(places("(1p2e10.3E3)"), [(0, 10), (10, 20)]);
        assert_eq!(places("(2ES10.3,EN10.3E3)"), [(0, 10), (10, 20), (20, 30)]);
        assert_eq!(places("( 2(1X, I9), I2 )"), [(1, 10), (11, 20), (20, 22)]);
    }

    #[test]
    fn numbers_mean_what_fortran_means() {
        assert_eq!(number("(F8.3)", "1234"), Some(1.234));
        assert_eq!(number("(F8.3)", "12.5"), Some(12.5));
        assert_eq!(number("(E12.4)", "1.5D+03"), Some(1500.0));
        assert_eq!(number("(E12.4)", "1.5D 03"), Some(1500.0));
        assert_eq!(number("(E12.4)", "1.5-103"), Some(1.5e-103));
        assert_eq!(number("(1PE12.4)", "1.5E1"), Some(15.0));
        assert_eq!(number("(2PF8.2)", "150.00"), Some(1.5));
        assert_eq!(number("(F8.3)", "1 2"), None);
    }

    #[test]
    fn bad_formats_are_refused() {
        for (text, reason) in [
            ("", "stands in parentheses"),
            ("(3I5", "a parenthesis is missing"),
            ("()", "no number"),
            ("(3I)", "no width"),
            ("(A8)", "`A` is not understood"),
            ("(60000(60000X))", "too long"),
            ("(9999999I5)", "out of range"),
            ("(3I5)I5", "goes on"),
            ("(((((((I5)))))))", "nested too deeply"),
            ("(5())", "empty"),
        ] {
            let error = Format::parse(text).expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
