//! Small dense matrices, as much as the reference element needs.

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
                target.iter_mut().zip(other.row(k)).for_each(|(sum, entry)| *sum += factor * entry);
            }
        }
        product
    }

    /// `self * vector`.
    pub fn apply(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.rows).map(|i| self.row(i).iter().zip(vector).map(|(a, b)| a * b).sum()).collect()
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
                row[column..].iter_mut().zip(&source[column..]).for_each(|(entry, s)| *entry -= factor * s);
            }
        }
        Matrix::from_rows(rows.into_iter().map(|row| row[size..].to_vec()).collect())
    }
}
