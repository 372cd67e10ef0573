//! Matrices of the kinds that the literature measures sparse products on, made here: no files are needed, and the same
//! name and scale give the same matrix everywhere.
//!
//! Stencils (`poisson7`, `fem27`), hp finite elements on hexahedra (`hpfem-p4`), far off-diagonals (`hmep-like`), short
//! irregular rows (`samg-like`), row lengths by a power law (`powerlaw`) and long rows (`dlr1-like`); the last four
//! stand in for the matrices of Kreutzer et al., "Sparse matrix-vector multiplication on GPGPU clusters" (2012).
//! Patterns are what counts; values are random numbers that f32 holds exactly.

mod irregular;
mod mersenne;

use std::ops::RangeInclusive;

use rayon::prelude::*;

use super::Csr;
use crate::inputs::random;
use irregular::Irregular;

/// A kind with its sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// Name in tables.
    pub name: &'static str,
    pattern: Pattern,
}

#[derive(Debug, Clone, PartialEq)]
enum Pattern {
    /// Points of a cube, each coupled to its neighbours: those along the axes, or all 26.
    Grid {
        side: usize,
        star: bool,
    },
    /// Nodes of a cube of hexahedra of an order, each coupled to all nodes of its elements.
    Hexahedra {
        elements: usize,
        order: usize,
    },
    /// The diagonal and diagonals at multiples of a distance; some of the far ones are interrupted.
    Bands {
        rows: usize,
        each_side: usize,
        distance: usize,
    },
    Irregular(Irregular),
}

/// The seven kinds at a scale of the number of rows; 1 for the sizes of the measurements that are published.
pub fn all(scale: f64) -> Vec<Kind> {
    let rows = |full: usize| ((full as f64 * scale).round() as usize).max(1);
    let side = |full: usize| ((full as f64 * scale.cbrt()).round() as usize).max(1);
    let irregular = |full, shortest, longest, exponent, window: Option<f64>| {
        // A window wider than the matrix would put most columns on its edges.
        let window = window.map(|window| window.min(rows(full) as f64));
        Pattern::Irregular(Irregular { rows: rows(full), shortest, longest, exponent, window })
    };
    let bands = Pattern::Bands { rows: rows(6_200_000), each_side: 7, distance: rows(15_000) };
    let kinds = [
        ("poisson7", Pattern::Grid { side: side(200), star: true }),
        ("fem27", Pattern::Grid { side: side(128), star: false }),
        ("hpfem-p4", Pattern::Hexahedra { elements: side(20), order: 4 }),
        ("hmep-like", bands),
        ("samg-like", irregular(3_400_000, 4.0, 20, 2.5, Some(4_000.0))),
        ("powerlaw", irregular(1_000_000, 4.0, 4_000, 1.1, None)),
        ("dlr1-like", irregular(280_000, 110.0, 290, 8.0, Some(20_000.0))),
    ];
    kinds.into_iter().map(|(name, pattern)| Kind { name, pattern }).collect()
}

impl Kind {
    /// The matrix.
    pub fn build(&self) -> Csr {
        match &self.pattern {
            Pattern::Grid { side, star } => grid(*side, *star),
            Pattern::Hexahedra { elements, order } => hexahedra(*elements, *order),
            Pattern::Bands { rows, each_side, distance } => bands(*rows, *each_side, *distance),
            Pattern::Irregular(irregular) => irregular.build(),
        }
    }
}

fn grid(side: usize, star: bool) -> Csr {
    let near = |at: usize| at.saturating_sub(1)..=(at + 1).min(side - 1);
    square(side * side * side, |row, columns| {
        let at = [row % side, row / side % side, row / (side * side)];
        for [x, y, z] in cube(near(at[0]), near(at[1]), near(at[2])) {
            let away = usize::from(x != at[0]) + usize::from(y != at[1]) + usize::from(z != at[2]);
            if !star || away <= 1 {
                columns.push((z * side + y) * side + x);
            }
        }
    })
}

fn hexahedra(elements: usize, order: usize) -> Csr {
    let side = elements * order + 1;
    // Along an axis: a node inside an element sees that one, a node between two sees both.
    let seen = |at: usize| match at % order {
        0 => at.saturating_sub(order)..=(at + order).min(side - 1),
        inside => at - inside..=at - inside + order,
    };
    square(side * side * side, |row, columns| {
        let (x, y, z) = (row % side, row / side % side, row / (side * side));
        columns.extend(cube(seen(x), seen(y), seen(z)).map(|[x, y, z]| (z * side + y) * side + x));
    })
}

/// All points of a box, x fastest.
fn cube(
    x: RangeInclusive<usize>,
    y: RangeInclusive<usize>,
    z: RangeInclusive<usize>,
) -> impl Iterator<Item = [usize; 3]> {
    z.flat_map(move |z| {
        let x = x.clone();
        y.clone().flat_map(move |y| x.clone().map(move |x| [x, y, z]))
    })
}

fn bands(rows: usize, each_side: usize, distance: usize) -> Csr {
    /// Diagonals from the main one on that are never interrupted.
    const WHOLE: usize = 4;
    square(rows, |row, columns| {
        columns.push(row);
        for band in 1..=each_side {
            if band > WHOLE && (row / distance + band).is_multiple_of(3) {
                continue;
            }
            let offset = band * distance;
            columns.extend(row.checked_sub(offset));
            columns.extend(Some(row + offset).filter(|column| *column < rows));
        }
    })
}

/// Rows that a thread takes at a time.
const CHUNK: usize = 1 << 12;
/// Seed of the values.
const SEED: u64 = 3;

/// A square matrix whose rows `pattern` lists, as columns in any order; columns that come twice count once. It is asked
/// for every row twice, by several threads.
fn square(rows: usize, pattern: impl Fn(usize, &mut Vec<usize>) + Sync) -> Csr {
    let row_of = |row: usize, columns: &mut Vec<usize>| {
        columns.clear();
        pattern(row, columns);
        if !columns.is_sorted_by(|a, b| a < b) {
            columns.sort_unstable();
            columns.dedup();
        }
    };
    let mut start = vec![0; rows + 1];
    start[1..].par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, lengths)| {
        let mut columns = Vec::new();
        for (n, length) in lengths.iter_mut().enumerate() {
            row_of(chunk * CHUNK + n, &mut columns);
            *length = columns.len();
        }
    });
    (0..rows).for_each(|row| start[row + 1] += start[row]);
    let mut column = vec![0; start[rows]];
    let mut parts = Vec::with_capacity(rows / CHUNK + 1);
    let mut rest = column.as_mut_slice();
    for first in (0..rows).step_by(CHUNK) {
        let end = (first + CHUNK).min(rows);
        let (part, behind) = rest.split_at_mut(start[end] - start[first]);
        parts.push((first..end, part));
        rest = behind;
    }
    parts.into_par_iter().for_each(|(rows, part)| {
        let mut columns = Vec::new();
        let mut at = 0;
        for row in rows {
            row_of(row, &mut columns);
            part[at..at + columns.len()].copy_from_slice(&columns);
            at += columns.len();
        }
    });
    let mut value = vec![0.0; column.len()];
    value.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, values)| {
        for (n, value) in values.iter_mut().enumerate() {
            *value = random::uniform(SEED, (chunk * CHUNK + n) as u64);
        }
    });
    Csr::of_parts(rows, start, column, value)
}
