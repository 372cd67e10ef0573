//! Small dense matrices, as much as the reference element needs.

/// The sum of products, in four sums side by side: one would make every addition wait for the one before. (Counted loops,
/// here and below: adaptors of iterators take several times as long in builds for tests, where most of the time goes here.)
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let (mut sums, mut n) = ([0.0; 4], 0);
    while n + 4 <= len {
        sums[0] += a[n] * b[n];
        sums[1] += a[n + 1] * b[n + 1];
        sums[2] += a[n + 2] * b[n + 2];
        sums[3] += a[n + 3] * b[n + 3];
        n += 4;
    }
    while n < len {
        sums[0] += a[n] * b[n];
        n += 1;
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Adds a multiple of one vector to another.
fn add_multiple(sum: &mut [f64], factor: f64, of: &[f64]) {
    let len = sum.len().min(of.len());
    let (sum, of, mut n) = (&mut sum[..len], &of[..len], 0);
    while n < len {
        sum[n] += factor * of[n];
        n += 1;
    }
}

/// A matrix, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    columns: usize,
    entries: Vec<f64>,
}

impl Matrix {
    /// All entries zero.
    pub fn zeros(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, entries: vec![0.0; rows * columns] }
    }

    /// Entries by a function of row and column.
    pub fn from_fn(rows: usize, columns: usize, mut f: impl FnMut(usize, usize) -> f64) -> Matrix {
        let mut matrix = Matrix::zeros(rows, columns);
        for i in 0..rows {
            for j in 0..columns {
                *matrix.at_mut(i, j) = f(i, j);
            }
        }
        matrix
    }

    /// A matrix of rows of one length.
    pub fn from_rows(rows: Vec<Vec<f64>>) -> Matrix {
        let columns = rows.first().map_or(0, Vec::len);
        Matrix::from_fn(rows.len(), columns, |i, j| rows[i].get(j).copied().unwrap_or(0.0))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// An entry.
    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.entries[row * self.columns + column]
    }

    /// An entry, to be changed.
    pub fn at_mut(&mut self, row: usize, column: usize) -> &mut f64 {
        &mut self.entries[row * self.columns + column]
    }

    /// A row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.entries[row * self.columns..(row + 1) * self.columns]
    }

    /// Its transpose.
    pub fn transposed(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |i, j| self.at(j, i))
    }

    /// `self * other`.
    pub fn times(&self, other: &Matrix) -> Matrix {
        let mut product = Matrix::zeros(self.rows, other.columns);
        for i in 0..self.rows {
            let target = &mut product.entries[i * other.columns..(i + 1) * other.columns];
            for (k, &factor) in self.row(i).iter().enumerate() {
                add_multiple(target, factor, other.row(k));
            }
        }
        product
    }

    /// `self * vector`.
    pub fn apply(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.rows).map(|i| dot(self.row(i), vector)).collect()
    }

    /// The inverse of a square matrix, by elimination with row pivoting; entries are not finite where it is singular.
    pub fn inverse(&self) -> Matrix {
        let size = self.rows;
        // The matrix beside the identity, which the elimination turns into the identity beside the inverse.
        let mut rows: Vec<Vec<f64>> = (0..size)
            .map(|i| self.row(i).iter().copied().chain((0..size).map(|j| f64::from(u8::from(i == j)))).collect())
            .collect();
        for column in 0..size {
            let larger = |&i: &usize, &j: &usize| rows[i][column].abs().total_cmp(&rows[j][column].abs());
            let pivot = (column..size).max_by(larger).unwrap_or(column);
            rows.swap(column, pivot);
            let scale = 1.0 / rows[column][column];
            rows[column].iter_mut().for_each(|entry| *entry *= scale);
            let source = rows[column].clone();
            for (_, row) in rows.iter_mut().enumerate().filter(|&(i, _)| i != column) {
                let factor = row[column];
                add_multiple(&mut row[column..], -factor, &source[column..]);
            }
        }
        Matrix::from_rows(rows.into_iter().map(|row| row[size..].to_vec()).collect())
    }
}
