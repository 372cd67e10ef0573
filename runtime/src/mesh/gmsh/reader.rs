//! Numbers and words out of a file that is text, or text with binary sections.

use super::super::{MeshError, bad};

/// A place in a file.
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    /// None for text; otherwise whether the bytes of numbers are in the other order than this machine's.
    swapped: Option<bool>,
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { bytes, at: 0, swapped: None }
    }

    /// An error at the place.
    pub(super) fn wrong(&self, reason: impl Into<String>) -> MeshError {
        let place = match self.swapped {
            Some(_) => format!("byte {}", self.at),
            None => {
                let before = &self.bytes[..self.at.min(self.bytes.len())];
                format!("line {}", 1 + before.iter().filter(|byte| **byte == b'\n').count())
            }
        };
        MeshError::At { place, reason: reason.into() }
    }

    fn skip_blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    /// The next section's name, or none at the end of the file. Lines between sections are comments.
    pub(super) fn section(&mut self) -> Result<Option<String>, MeshError> {
        loop {
            self.skip_blanks();
            if self.at >= self.bytes.len() {
                return Ok(None);
            }
            let line = self.line();
            if let Some(name) = line.strip_prefix(b"$") {
                let name = String::from_utf8_lossy(name).trim().to_string();
                if name.starts_with("End") {
                    return Err(self.wrong(format!("${name} ends a section that has not begun")));
                }
                return Ok(Some(name));
            }
        }
    }

    /// The rest of the line; the place is behind it.
    fn line(&mut self) -> &'b [u8] {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        self.at = (self.at + length + 1).min(self.bytes.len());
        &rest[..length]
    }

    /// Takes `$EndNAME`.
    pub(super) fn end(&mut self, section: &str) -> Result<(), MeshError> {
        self.skip_blanks();
        let want = format!("$End{section}");
        if self.at >= self.bytes.len() {
            return Err(self.wrong(format!("the file breaks off before {want}")));
        }
        let rest = &self.bytes[self.at..];
        if !rest.starts_with(want.as_bytes()) || rest.get(want.len()).is_some_and(|byte| !byte.is_ascii_whitespace()) {
            let found = show(self.peek_word());
            return Err(self.wrong(format!("expected {want}, found `{found}`: more or fewer entries than announced")));
        }
        self.at += want.len();
        Ok(())
    }

    /// Goes to `$EndNAME` without looking.
    pub(super) fn skip(&mut self, section: &str) -> Result<(), MeshError> {
        let want = format!("$End{section}");
        let rest = &self.bytes[self.at..];
        match rest.windows(want.len()).position(|window| window == want.as_bytes()) {
            Some(place) => {
                self.at += place;
                Ok(())
            }
            None => Err(self.wrong(format!("${section} has no {want}"))),
        }
    }

    /// Numbers are binary from here on: behind the line's end stands a 1 that shows the order of bytes.
    pub(super) fn begin_binary(&mut self) -> Result<(), MeshError> {
        self.line();
        self.swapped = Some(false);
        match i32::from_ne_bytes(self.take()?) {
            1 => Ok(()),
            other if other.swap_bytes() == 1 => {
                self.swapped = Some(true);
                Ok(())
            }
            other => Err(self.wrong(format!("the number that shows the order of bytes is {other}, not 1"))),
        }
    }

    pub(super) fn is_binary(&self) -> bool {
        self.swapped.is_some()
    }

    /// Runs `inner` reading text, whatever the file is.
    pub(super) fn as_text<T>(
        &mut self,
        inner: impl FnOnce(&mut Reader<'b>) -> Result<T, MeshError>,
    ) -> Result<T, MeshError> {
        let swapped = self.swapped.take();
        let result = inner(self);
        self.swapped = swapped;
        result
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], MeshError> {
        let bytes = self.bytes.get(self.at..self.at + N).and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
        let mut bytes = bytes.ok_or_else(|| self.wrong("the file breaks off"))?;
        self.at += N;
        if self.swapped == Some(true) {
            bytes.reverse();
        }
        Ok(bytes)
    }

    fn peek_word(&self) -> &'b [u8] {
        let rest = &self.bytes[self.at.min(self.bytes.len())..];
        let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        &rest[..length]
    }

    /// A word of text.
    pub(super) fn word(&mut self) -> Result<&'b str, MeshError> {
        self.skip_blanks();
        let word = self.peek_word();
        if word.is_empty() {
            return Err(self.wrong("the file breaks off"));
        }
        let text = std::str::from_utf8(word).map_err(|_| self.wrong("this is not text; is the file binary?"))?;
        self.at += word.len();
        Ok(text)
    }

    fn parsed<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, MeshError> {
        let start = self.at;
        let word = self.word()?;
        word.parse().map_err(|_| {
            self.at = start;
            self.skip_blanks();
            self.wrong(format!("expected {what}, found `{}`", show(word.as_bytes())))
        })
    }

    /// An integer; 32 bits in a binary file.
    pub(super) fn int(&mut self) -> Result<i64, MeshError> {
        match self.swapped {
            Some(_) => self.take().map(|bytes| i64::from(i32::from_ne_bytes(bytes))),
            None => self.parsed("an integer"),
        }
    }

    /// A count or tag; 64 bits in a binary file.
    pub(super) fn size(&mut self) -> Result<u64, MeshError> {
        match self.swapped {
            Some(_) => self.take().map(u64::from_ne_bytes),
            None => self.parsed("a number of at least 0"),
        }
    }

    /// A count or tag of version 2, 32 bits in a binary file.
    pub(super) fn tag(&mut self) -> Result<u64, MeshError> {
        let value = self.int()?;
        u64::try_from(value).map_err(|_| self.wrong(format!("{value} is below zero")))
    }

    /// A real number.
    pub(super) fn real(&mut self) -> Result<f64, MeshError> {
        match self.swapped {
            Some(_) => self.take().map(f64::from_ne_bytes),
            None => self.parsed("a number"),
        }
    }

    /// Three coordinates.
    pub(super) fn point(&mut self) -> Result<[f64; 3], MeshError> {
        Ok([self.real()?, self.real()?, self.real()?])
    }

    /// A string in quotation marks, to the last one of the line.
    pub(super) fn quoted(&mut self) -> Result<String, MeshError> {
        while self.bytes.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t')) {
            self.at += 1;
        }
        let line = String::from_utf8_lossy(self.line()).trim().to_string();
        let inner = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inner.map(str::to_string).ok_or_else(|| bad(format!("the name of a physical group is not quoted: {line}")))
    }

    /// Takes the text `word` if it stands here; for text sections only.
    pub(super) fn take_word(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let found = self.peek_word() == word.as_bytes();
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// In a binary file, counts of a section of version 2 are a line of text.
    pub(super) fn count_line(&mut self) -> Result<u64, MeshError> {
        let count = self.as_text(|reader| reader.size())?;
        if self.is_binary() {
            self.line();
        }
        Ok(count)
    }
}

fn show(word: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(&word[..word.len().min(40)]).into_owned();
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
