//! Numbers out of text, fast.

/// Powers of ten that f64 holds exactly.
const EXACT: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// A place in text.
pub(super) struct Scanner<'b> {
    bytes: &'b [u8],
    at: usize,
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

/// The digit's value, or something above 9.
#[inline]
fn digit(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).map_or(255, |byte| byte.wrapping_sub(b'0'))
}

impl<'b> Scanner<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Scanner<'b> {
        Scanner { bytes, at: 0 }
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    pub(super) fn skip_blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(|byte| is_blank(*byte)) {
            self.at += 1;
        }
    }

    /// Whether a line or the text ends here.
    #[inline]
    pub(super) fn at_line_end(&self) -> bool {
        self.bytes.get(self.at).is_none_or(|byte| *byte == b'\n')
    }

    /// Goes behind the next line break.
    pub(super) fn next_line(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |place| place + 1);
    }

    /// Whether a word ends at a place.
    #[inline]
    fn ends(&self, at: usize) -> bool {
        self.bytes.get(at).is_none_or(|byte| *byte == b'\n' || is_blank(*byte))
    }

    /// An unsigned integer that fills a word; nothing moves if there is none.
    #[inline]
    pub(super) fn index(&mut self) -> Option<usize> {
        let mut at = self.at;
        let mut number = 0u64;
        loop {
            let digit = digit(self.bytes, at);
            if digit > 9 {
                break;
            }
            number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
            at += 1;
        }
        // Nineteen digits fit in 64 bits.
        let digits = at - self.at;
        if digits == 0 || digits > 19 || !self.ends(at) {
            return None;
        }
        self.at = at;
        usize::try_from(number).ok()
    }

    /// A finite real number that fills a word, correctly rounded; nothing moves if there is none.
    #[inline]
    pub(super) fn real(&mut self) -> Option<f64> {
        let bytes = self.bytes;
        let mut at = self.at;
        let negative = bytes.get(at) == Some(&b'-');
        at += usize::from(negative || bytes.get(at) == Some(&b'+'));
        let mut mantissa = 0u64;
        let mut run = |mut at: usize| {
            loop {
                let digit = digit(bytes, at);
                if digit > 9 {
                    return at;
                }
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
                at += 1;
            }
        };
        let whole = at;
        at = run(at);
        let mut digits = at - whole;
        let mut exponent = 0i64;
        if bytes.get(at) == Some(&b'.') {
            let fraction = at + 1;
            at = run(fraction);
            digits += at - fraction;
            exponent = -((at - fraction) as i64);
        }
        if let Some(b'e' | b'E' | b'd' | b'D') = bytes.get(at) {
            let (shift, end) = exponent_at(bytes, at + 1);
            exponent += shift;
            at = end;
        }
        let simple = digits > 0 && digits <= 19 && mantissa <= 1 << 53 && exponent.abs() <= 22 && self.ends(at);
        if !simple {
            return self.slow_real();
        }
        self.at = at;
        // Both operands are exact, so the one operation rounds correctly (Clinger 1990).
        let power = EXACT[exponent.unsigned_abs() as usize];
        let magnitude = if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power };
        Some(if negative { -magnitude } else { magnitude })
    }

    /// Everything that the fast way does not take: many digits, large exponents, Fortran's exponents.
    #[cold]
    fn slow_real(&mut self) -> Option<f64> {
        let word = self.word();
        let value = real(word).filter(|value| value.is_finite())?;
        self.at += word.len();
        Some(value)
    }

    /// The word here.
    pub(super) fn word(&self) -> &'b [u8] {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(|byte| *byte == b'\n' || is_blank(*byte)).unwrap_or(rest.len());
        &rest[..length]
    }
}

/// The signed integer behind an exponent's letter, and where it ends; out of every range if there is none.
#[inline]
fn exponent_at(bytes: &[u8], mut at: usize) -> (i64, usize) {
    let negative = bytes.get(at) == Some(&b'-');
    at += usize::from(negative || bytes.get(at) == Some(&b'+'));
    let first = at;
    let mut number = 0i64;
    while digit(bytes, at) <= 9 {
        number = number.saturating_mul(10).saturating_add(i64::from(digit(bytes, at)));
        at += 1;
    }
    let none = at == first;
    // Far beyond what is simple, far below overflow when the fraction is counted.
    let number = if none { 1 << 32 } else { number.min(1 << 32) };
    (if negative { -number } else { number }, at)
}

/// A real number as Rust or Fortran writes it (`1.5e3`, `1.5D+03`, `1.5+103`), also one that is not finite.
pub(super) fn real(word: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(word).ok()?;
    if let Ok(value) = text.parse() {
        return Some(value);
    }
    let lower = text.replace(['d', 'D'], "e");
    if let Ok(value) = lower.parse() {
        return lower.bytes().any(|byte| byte.is_ascii_digit()).then_some(value);
    }
    // Fortran drops the letter of an exponent of three digits.
    let sign = text.rfind(['+', '-']).filter(|place| *place > 0)?;
    let (mantissa, exponent) = text.split_at(sign);
    mantissa
        .ends_with(|c: char| c.is_ascii_digit() || c == '.')
        .then(|| format!("{mantissa}e{exponent}").parse().ok())?
}

/// Why a word is not the number that was asked for.
pub(super) fn refuse_real(word: &[u8]) -> String {
    let shown = show(word);
    match real(word) {
        _ if word.is_empty() => "a value is missing".to_string(),
        Some(value) if value.is_infinite() && word.iter().any(u8::is_ascii_digit) => {
            format!("`{shown}` is too large for a 64-bit number")
        }
        Some(value) if !value.is_finite() => format!("`{shown}` is not finite"),
        _ => format!("`{shown}` is not a number"),
    }
}

/// Why a word is not an index or a count.
pub(super) fn refuse_index(word: &[u8]) -> String {
    let shown = show(word);
    match word {
        [] => "a number is missing".to_string(),
        _ if word.iter().all(u8::is_ascii_digit) => format!("`{shown}` does not fit in 64 bits"),
        _ => format!("`{shown}` is not an index; indices count from 1"),
    }
}

/// A word for a message.
pub(super) fn show(word: &[u8]) -> String {
    const LONGEST: usize = 40;
    let text = String::from_utf8_lossy(&word[..word.len().min(LONGEST)]);
    let text: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if word.len() > LONGEST { format!("{text}…") } else { text }
}
