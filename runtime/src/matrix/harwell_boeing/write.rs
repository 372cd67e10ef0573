//! Writer of both formats.
//!
//! Values are written with 17 significant digits, always with a point: each reads back as the same f64, by any reader.

use std::io::{self, Write};

use super::super::{Csr, Symmetry, Vectors};

/// Which of the two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// The older one; vectors may come with the matrix.
    HarwellBoeing,
    /// The newer one, for a matrix alone.
    RutherfordBoeing,
}

/// Characters of a line that the formats allow.
const LINE: usize = 80;
/// Width of a value: sign, digit, point, 16 digits, exponent with its sign and three digits, and a blank.
const VALUE: usize = 25;
const VALUES: usize = LINE / VALUE;

/// The three letters for a matrix.
pub fn type_of(matrix: &Csr, symmetry: Symmetry) -> &'static str {
    match symmetry {
        Symmetry::Symmetric => "RSA",
        Symmetry::Skew => "RZA",
        Symmetry::General if matrix.is_square() => "RUA",
        Symmetry::General => "RRA",
    }
}

/// Writes a matrix column by column, with a symmetry its lower triangle only; the matrix must have it. Vectors are
/// written with the Harwell-Boeing format; those beside right-hand sides only if there is one for each.
///
/// # Errors
/// The operating system's.
pub fn write(
    mut target: impl Write,
    matrix: &Csr,
    symmetry: Symmetry,
    title: &str,
    vectors: &Vectors,
    flavour: Flavour,
) -> io::Result<()> {
    let columns = matrix.transposed();
    let stored = |column: usize, row: usize| match symmetry {
        Symmetry::General => true,
        Symmetry::Symmetric => row >= column,
        Symmetry::Skew => row > column,
    };
    let lower = |column: usize| columns.row(column).filter(move |(row, _)| stored(column, *row));
    let mut pointers = vec![1];
    for column in 0..columns.rows() {
        pointers.push(pointers[column] + lower(column).count());
    }
    let count = pointers[columns.rows()] - 1;
    let parts = Parts::of(&pointers, count, matrix.rows(), vectors, flavour);
    parts.header(&mut target, title, type_of(matrix, symmetry), [matrix.rows(), matrix.columns(), count], flavour)?;
    integers(&mut target, pointers.into_iter(), parts.pointer)?;
    integers(&mut target, (0..columns.rows()).flat_map(|c| lower(c).map(|(row, _)| row + 1)), parts.index)?;
    reals(&mut target, (0..columns.rows()).flat_map(|c| lower(c).map(|(_, value)| value)))?;
    for group in &parts.groups {
        reals(&mut target, group.iter().flatten().copied())?;
    }
    target.flush()
}

/// What the header says of the parts.
struct Parts<'v> {
    /// Width of a column pointer.
    pointer: usize,
    /// Width of a row index.
    index: usize,
    /// Numbers of lines: pointers, indices, values.
    lines: [usize; 3],
    /// Right-hand sides, guesses and solutions, each none or all.
    groups: [&'v [Vec<f64>]; 3],
}

impl<'v> Parts<'v> {
    fn of(pointers: &[usize], count: usize, rows: usize, vectors: &'v Vectors, flavour: Flavour) -> Parts<'v> {
        let width = |largest: usize| largest.to_string().len() + 1;
        let (pointer, index) = (width(count + 1), width(rows));
        let sides = vectors.right_hand_sides.as_slice();
        let beside = |group: &'v [Vec<f64>]| if group.len() == sides.len() { group } else { &[] };
        let groups = match flavour {
            Flavour::HarwellBoeing => [sides, beside(&vectors.guesses), beside(&vectors.solutions)],
            Flavour::RutherfordBoeing => [&[][..]; 3],
        };
        let lines = [pointers.len().div_ceil(LINE / pointer), count.div_ceil(LINE / index), count.div_ceil(VALUES)];
        Parts { pointer, index, lines, groups }
    }

    fn header(
        &self,
        target: &mut impl Write,
        title: &str,
        kind: &str,
        sizes: [usize; 3],
        flavour: Flavour,
    ) -> io::Result<()> {
        // A title is one line of plain characters; what is beyond its 80 columns is lost.
        let plain = |c: char| if c.is_ascii_graphic() { c } else { ' ' };
        let title: String = title.lines().next().unwrap_or_default().chars().map(plain).take(LINE).collect();
        writeln!(target, "{title:<LINE$}")?;
        let values = |group: &&[Vec<f64>]| group.iter().map(Vec::len).sum::<usize>();
        let sides: usize = self.groups.iter().map(|group| values(group).div_ceil(VALUES)).sum();
        let [pointers, indices, numbers] = self.lines;
        let all = pointers + indices + numbers + sides;
        let [rows, columns, count] = sizes;
        match flavour {
            Flavour::HarwellBoeing => {
                writeln!(target, "{all:14}{pointers:14}{indices:14}{numbers:14}{sides:14}")?;
                writeln!(target, "{kind:<14}{rows:14}{columns:14}{count:14}{:14}", 0)?;
            }
            Flavour::RutherfordBoeing => {
                writeln!(target, "{all:14} {pointers:13} {indices:13} {numbers:13}")?;
                let kind = kind.to_ascii_lowercase();
                writeln!(target, "{kind:<14} {rows:13} {columns:13} {count:13} {:13}", 0)?;
            }
        }
        let format = |width: usize| format!("({}I{width})", LINE / width);
        let (pointer, index, real) = (format(self.pointer), format(self.index), format!("({VALUES}E{VALUE}.16)"));
        write!(target, "{pointer:<16}{index:<16}{real:<20}")?;
        if sides == 0 {
            return writeln!(target);
        }
        writeln!(target, "{real:<20}")?;
        let letter = |group: usize, letter: char| if self.groups[group].is_empty() { ' ' } else { letter };
        let kind = ['F', letter(1, 'G'), letter(2, 'X')].iter().collect::<String>();
        writeln!(target, "{kind:<14}{:14}{:14}", self.groups[0].len(), 0)
    }
}

fn integers(target: &mut impl Write, numbers: impl Iterator<Item = usize>, width: usize) -> io::Result<()> {
    lines(target, numbers, LINE / width, |target, number| write!(target, "{number:width$}"))
}

fn reals(target: &mut impl Write, values: impl Iterator<Item = f64>) -> io::Result<()> {
    lines(target, values, VALUES, |target, value| {
        // Fortran's way: a sign and at least two digits.
        let text = format!("{value:.16E}");
        let (mantissa, exponent) = text.split_once('E').unwrap_or((&text, "0"));
        let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
        let text = format!("{mantissa}E{sign}{digits:0>2}");
        write!(target, "{text:>VALUE$}")
    })
}

fn lines<T, W: Write>(
    target: &mut W,
    items: impl Iterator<Item = T>,
    each: usize,
    item: impl Fn(&mut W, T) -> io::Result<()>,
) -> io::Result<()> {
    let mut on_line = 0;
    for one in items {
        if on_line == each {
            writeln!(target)?;
            on_line = 0;
        }
        item(target, one)?;
        on_line += 1;
    }
    if on_line > 0 {
        writeln!(target)?;
    }
    Ok(())
}
