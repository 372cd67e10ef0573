//! Matrices of every kind that a format meets.

use kernelwright_codegen::format::Matrix;
use kernelwright_tests::random::Random;

/// A matrix in compressed rows.
#[derive(Debug, Clone)]
pub struct Csr {
    pub name: &'static str,
    pub columns: usize,
    pub starts: Vec<usize>,
    pub column: Vec<usize>,
    pub value: Vec<f64>,
}

impl Csr {
    /// From the columns of each row, in any order; values are random and never zero.
    pub fn new(name: &'static str, columns: usize, rows: Vec<Vec<usize>>, seed: u64) -> Csr {
        let mut random = Random::new(seed);
        let mut csr = Csr { name, columns, starts: vec![0], column: Vec::new(), value: Vec::new() };
        for mut row in rows {
            row.sort_unstable();
            row.dedup();
            let values = random.vector(row.len());
            csr.value.extend(values.into_iter().map(|v| if v == 0.0 { 0.25 } else { v }));
            csr.column.extend(row);
            csr.starts.push(csr.column.len());
        }
        csr
    }

    pub fn view(&self) -> Matrix<'_> {
        Matrix { columns: self.columns, starts: &self.starts, column: &self.column, value: &self.value }
    }

    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.starts[row]..self.starts[row + 1];
        self.column[range.clone()].iter().copied().zip(self.value[range].iter().copied())
    }

    /// The product with a vector, and the sum of the absolute values of its terms, in f64.
    pub fn product(&self, x: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let sum = |f: &dyn Fn(f64) -> f64| -> Vec<f64> {
            (0..self.rows()).map(|row| self.row(row).map(|(c, v)| f(v * x[c])).sum()).collect()
        };
        (sum(&|t| t), sum(&|t: f64| t.abs()))
    }
}

/// Columns of a row, drawn without order.
fn drawn(random: &mut Random, count: usize, below: usize) -> Vec<usize> {
    (0..count).map(|_| random.below(below as u64) as usize).collect()
}

/// Square matrices, small.
pub fn square() -> Vec<Csr> {
    let mut random = Random::new(11);
    let mut all = vec![
        Csr::new("one by one", 1, vec![vec![0]], 1),
        Csr::new("no entries", 5, vec![vec![]; 5], 2),
        Csr::new("diagonal", 67, (0..67).map(|i| vec![i]).collect(), 3),
        Csr::new(
            "one full row",
            130,
            (0..130).map(|i| if i == 40 { (0..130).collect() } else { vec![i] }).collect(),
            4,
        ),
    ];
    let band = |i: usize| (i.saturating_sub(2)..(i + 3).min(96)).collect();
    all.push(Csr::new("banded, whole chunks", 96, (0..96).map(band).collect(), 5));
    let uneven = (0..101).map(|_| {
        let count = random.below(9) as usize;
        drawn(&mut random, count, 101)
    });
    all.push(Csr::new("random with empty rows", 101, uneven.collect(), 6));
    let power = (0..300usize).map(|i| {
        let count = 1 + 250 / (1 + (i * 7) % 300);
        drawn(&mut random, count, 300)
    });
    all.push(Csr::new("power law", 300, power.collect(), 7));
    let long = (0..37).map(|_| drawn(&mut random, 36, 37));
    all.push(Csr::new("nearly dense", 37, long.collect(), 8));
    all.push(Csr::new("five points", 17 * 9, (0..17 * 9).map(five_points).collect(), 10));
    all
}

/// A point of a rectangle of 17 x 9 and its neighbours.
fn five_points(at: usize) -> Vec<usize> {
    let (x, y) = (at % 17, at / 17);
    let along = [(x > 0, 1, false), (x < 16, 1, true), (y > 0, 17, false), (y < 8, 17, true)];
    let neighbours = along.into_iter().filter(|side| side.0).map(|(_, by, up)| if up { at + by } else { at - by });
    neighbours.chain([at]).collect()
}

/// Wide enough for columns that 16 bits do not reach.
pub fn wide() -> Csr {
    let mut random = Random::new(5);
    let n = 200_000;
    let row = |i: usize| match i {
        0 => (0..70_000).map(|k| 2 * k).collect(),
        1 => drawn(&mut random, 300, n),
        i if i % 997 == 0 => vec![i, n - 1 - i, (i * 31) % n],
        i if i % 3 == 0 => vec![i, i / 2],
        _ => Vec::new(),
    };
    Csr::new("wide", n, (0..n).map(row).collect(), 9)
}

/// Matrices that are not square.
pub fn oblong() -> Vec<Csr> {
    let mut random = Random::new(21);
    let flat = (0..20).map(|_| drawn(&mut random, 6, 90)).collect();
    let tall = (0..90).map(|i| vec![i % 7]).collect();
    vec![Csr::new("flat", 90, flat, 22), Csr::new("tall", 20, tall, 23)]
}

/// Rows that meet tiles of 2048 entries in every way: ending with one, going over several, beginning in the middle.
pub fn long() -> Vec<Csr> {
    let n = 7000;
    let lengths = |longs: &[(usize, usize)], others: usize| -> Vec<Vec<usize>> {
        let length = |i: usize| longs.iter().find(|l| l.0 == i).map_or(if i % 3 == 1 { others } else { 0 }, |l| l.1);
        (0..n).map(|i| (0..length(i)).map(|k| (i + k) % n).collect()).collect()
    };
    let all = |i: usize| match i {
        0 | 1999 => (0..2000).collect(),
        700 => (0..1500).collect(),
        _ => (0..1 + i % 3).map(|k| (i + 7 * k) % 2000).collect(),
    };
    let many = |i: usize| match i {
        5 | 40 => (0..10_500 + i).collect(),
        _ => {
            if i.is_multiple_of(2) {
                vec![i]
            } else {
                Vec::new()
            }
        }
    };
    vec![
        Csr::new("tiles end with rows", n, lengths(&[(0, 2048), (5, 4096), (9, 2047), (10, 1), (17, 2048)], 0), 31),
        Csr::new("one row over tiles", n, lengths(&[(3000, 6900)], 1), 32),
        Csr::new("long rows among short ones", n, lengths(&[(2, 3000), (4, 5000), (6000, 2100), (6999, 4500)], 2), 33),
        Csr::new("one row is all", n, lengths(&[(77, 6150)], 0), 34),
        Csr::new("rows over many tiles", 11_000, (0..11_000).map(many).collect(), 36),
        Csr::new("no row is empty", 2000, (0..2000).map(all).collect(), 35),
    ]
}
