//! Lines of entries and of values.

use super::super::pieces::Piece;
use super::super::scan::{Scanner, refuse_index, refuse_real, show};
use super::super::triangle::Triangle;
use super::super::{Entry, Symmetry};
use super::header::{Field, Header, Sizes};

/// What is known from the lines above.
pub(super) struct Context {
    pub(super) header: Header,
    pub(super) sizes: Sizes,
}

/// Entries of the layout `coordinate`.
pub(super) struct Coordinates {
    pub(super) entries: Vec<Entry>,
    pub(super) zeros: usize,
    pub(super) triangle: Triangle,
}

impl Piece for Coordinates {
    type Header = Context;

    fn new(_: &Context) -> Self {
        Coordinates { entries: Vec::new(), zeros: 0, triangle: Triangle::default() }
    }

    #[inline]
    fn line(&mut self, scanner: &mut Scanner, line: usize, context: &Context) -> Result<(), String> {
        let row = index(scanner, context.sizes.rows, "row")?;
        let column = index(scanner, context.sizes.columns, "column")?;
        let value = match context.header.field {
            Field::Pattern => 1.0,
            field => value(scanner, field)?,
        };
        scanner.skip_blanks();
        if !scanner.at_line_end() {
            return Err(format!("the entry goes on with `{}`", show(scanner.word())));
        }
        if context.header.symmetry != Symmetry::General {
            self.triangle.note(row, column, line);
            if context.header.symmetry == Symmetry::Skew && row == column && value != 0.0 {
                return Err("a value on the diagonal of a skew-symmetric matrix is zero".to_string());
            }
        }
        self.zeros += usize::from(value == 0.0);
        self.entries.push(Entry { row, column, value });
        Ok(())
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn finish(&mut self) {
        self.entries.shrink_to_fit();
    }
}

/// Values of the layout `array`, any number on a line.
pub(super) struct Values {
    pub(super) values: Vec<f64>,
}

impl Piece for Values {
    type Header = Context;

    fn new(_: &Context) -> Self {
        Values { values: Vec::new() }
    }

    fn line(&mut self, scanner: &mut Scanner, _: usize, context: &Context) -> Result<(), String> {
        while !scanner.at_line_end() {
            self.values.push(value(scanner, context.header.field)?);
            scanner.skip_blanks();
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    fn finish(&mut self) {
        self.values.shrink_to_fit();
    }
}

/// The next index, counted from 0.
#[inline]
fn index(scanner: &mut Scanner, size: usize, what: &str) -> Result<usize, String> {
    scanner.skip_blanks();
    match scanner.index() {
        Some(index) if index > 0 && index <= size => Ok(index - 1),
        Some(0) => Err(format!("{what} 0: indices count from 1")),
        Some(index) => Err(format!("{what} {index} of a matrix with {size} {what}s")),
        None => Err(refuse_index(scanner.word())),
    }
}

#[inline]
fn value(scanner: &mut Scanner, field: Field) -> Result<f64, String> {
    scanner.skip_blanks();
    let value = scanner.real().ok_or_else(|| refuse_real(scanner.word()))?;
    if field == Field::Integer && value.fract() != 0.0 {
        return Err(format!("`{value}` in a file of integers"));
    }
    Ok(value)
}
