//! Rows of random lengths with random columns.
//!
//! Numbers come from one stream, row after row; so they are drawn by one thread, and only sorting is parallel.

use super::mersenne::Mersenne;
use super::{Csr, square};

/// Lengths follow a power law between two bounds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Irregular {
    pub(super) rows: usize,
    /// Length of most rows, and the least.
    pub(super) shortest: f64,
    /// No row is longer.
    pub(super) longest: usize,
    /// A length exceeds l times the shortest with probability l to the power of minus this.
    pub(super) exponent: f64,
    /// Width around the diagonal in which columns lie; anywhere without.
    pub(super) window: Option<f64>,
}

/// Seed of the stream.
const SEED: u32 = 2;

impl Irregular {
    pub(super) fn build(&self) -> Csr {
        let (start, column) = self.draw();
        square(self.rows, |row, columns| {
            let drawn = &column[start[row]..start[row + 1]];
            columns.extend(drawn.iter().map(|column| *column as usize));
        })
    }

    /// Columns of all rows as they were drawn, and where rows begin. Sizes here are far below 2^32.
    fn draw(&self) -> (Vec<usize>, Vec<u32>) {
        let mut random = Mersenne::new(SEED);
        let last = self.rows - 1;
        let (mut start, mut column) = (Vec::with_capacity(self.rows + 1), Vec::new());
        start.push(0);
        for row in 0..self.rows {
            // A zero would be an infinite length.
            let length = self.shortest * (random.unit() + 1e-9).powf(-1.0 / self.exponent);
            column.push(row as u32);
            for _ in 1..(length as usize).min(self.longest) {
                let drawn = random.unit();
                let place = match self.window {
                    // Rounded towards zero, as an offset.
                    Some(window) => row as i64 + ((drawn - 0.5) * window) as i64,
                    None => (drawn * self.rows as f64) as i64,
                };
                column.push(place.clamp(0, last as i64) as u32);
            }
            start.push(column.len());
        }
        (start, column)
    }
}
