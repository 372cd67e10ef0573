//! Which triangle a file of a symmetric matrix stores.

use super::{Entry, MatrixError, Symmetry, at};

/// Lines of the first entries on each side of the diagonal.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Triangle {
    lower: Option<usize>,
    upper: Option<usize>,
}

impl Triangle {
    /// Takes note of an entry.
    #[inline]
    pub(super) fn note(&mut self, row: usize, column: usize, line: usize) {
        if row > column {
            self.lower.get_or_insert(line);
        } else if row < column {
            self.upper.get_or_insert(line);
        }
    }

    /// The same, followed by what another part of the file has; its lines begin behind `offset` lines.
    pub(super) fn then(self, part: Triangle, offset: usize) -> Triangle {
        Triangle {
            lower: self.lower.or(part.lower.map(|line| line + offset)),
            upper: self.upper.or(part.upper.map(|line| line + offset)),
        }
    }

    /// Whether the upper triangle is stored.
    ///
    /// # Errors
    /// Both are: adding the mirrored entries would double some of them.
    pub(super) fn is_upper(&self, symmetry: Symmetry) -> Result<bool, MatrixError> {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => {
                let (line, first, here, there) = match lower < upper {
                    true => (upper, lower, "above", "below"),
                    false => (lower, upper, "below", "above"),
                };
                let name = symmetry.name();
                Err(at(
                    line,
                    format!(
                        "an entry {here} the diagonal; a {name} file stores one triangle, and line {first} is {there}"
                    ),
                ))
            }
            (_, upper) => Ok(upper.is_some()),
        }
    }
}

/// Exchanges rows and columns of the stored entries, for an upper triangle.
pub(super) fn mirror(parts: &mut [Vec<Entry>]) {
    parts.iter_mut().flatten().for_each(|entry| std::mem::swap(&mut entry.row, &mut entry.column));
}
