//! A small algebraic world in which loops run: vectors of a few field elements, the operator and the parts of it that
//! preconditioners solve as random matrices. Linearity holds exactly, symmetry of the operator where it is proved and of its
//! diagonal, and a line's solution undoes its couplings; nothing else does, so what agrees here for random matrices agrees for
//! every operator.

use super::field::{Element, mix};
use crate::format::Derived;
use crate::loops::BinaryOp;
use crate::math::{Fact, Operator, Standing};
use kernelwright_syntax::program::{CompareOp, Function};

/// Length of vectors: more than the rounds that are compared. Krylov methods end after as many steps as vectors are
/// long, in exact arithmetic to the last bit, and on zeros every program agrees.
pub const LEN: usize = 8;

/// A vector.
pub type Vector = [Element; LEN];

type Matrix = [Vector; LEN];

/// Random matrices and inputs.
#[derive(Debug, Clone)]
pub struct World {
    operator: Matrix,
    diagonal: Matrix,
    lines: [Matrix; 3],
    /// Their inverses.
    along: [Matrix; 3],
    /// What the companions of a matrix are.
    pub companions: Vec<Derived>,
    /// The operator's affine part.
    pub affine: Vector,
    /// The right-hand side as given.
    pub rhs: Vector,
    /// The guess.
    pub guess: Vector,
    /// The tolerance.
    pub tolerance: Element,
    seed: u64,
}

impl World {
    /// A world for an operator: its matrix is symmetric where that is proved, its diagonal always.
    pub fn new(operator: &Operator, seed: u64) -> World {
        let symmetric = operator.facts.iter().any(|f| f.fact == Fact::Symmetric && f.standing == Standing::Proved);
        let matrix = |salt: u64, symmetric: bool| {
            let mut m = [[Element::ZERO; LEN]; LEN];
            for (i, row) in m.iter_mut().enumerate() {
                for (j, x) in row.iter_mut().enumerate() {
                    let (a, b) = if symmetric { (i.min(j), i.max(j)) } else { (i, j) };
                    *x = random(seed, &[salt, a as u64, b as u64]);
                }
            }
            m
        };
        let lines = [3, 4, 5].map(|salt| matrix(salt, symmetric));
        World {
            operator: matrix(1, symmetric),
            diagonal: matrix(2, true),
            lines,
            along: lines.map(inverse),
            companions: operator.space.rows().map_or(Vec::new(), |rows| rows.companions.iter().map(|c| c.of).collect()),
            affine: vector(seed, 6),
            rhs: vector(seed, 7),
            guess: vector(seed, 8),
            tolerance: random(seed, &[9]),
            seed,
        }
    }

    /// `A*v`.
    pub fn apply(&self, v: &Vector) -> Vector {
        product(&self.operator, v)
    }

    /// `transpose(A)*v`.
    pub fn apply_transpose(&self, v: &Vector) -> Vector {
        let mut out = [Element::ZERO; LEN];
        for (i, x) in v.iter().enumerate() {
            for (j, y) in out.iter_mut().enumerate() {
                *y = *y + self.operator[i][j] * *x;
            }
        }
        out
    }

    /// The magnitude reading: no linear relation holds.
    pub fn magnitude(&self, v: &Vector) -> Vector {
        std::array::from_fn(|i| Element::opaque(self.seed ^ (100 + i as u64), v))
    }

    /// A vector divided by the diagonal.
    pub fn diagonal(&self, v: &Vector) -> Vector {
        product(&self.diagonal, v)
    }

    /// Solution along an axis.
    pub fn line(&self, axis: usize, v: &Vector) -> Vector {
        product(&self.lines[axis % 3], v)
    }

    /// The operator's part along an axis: what [`World::line`] undoes.
    pub fn along(&self, axis: usize, v: &Vector) -> Vector {
        product(&self.along[axis % 3], v)
    }

    /// A companion of a matrix, at a step: the transpose, or one matrix for each number and step.
    pub fn companion(&self, number: usize, step: Option<Element>, v: &Vector) -> Vector {
        if self.companions.get(number) == Some(&Derived::Transpose) {
            return self.apply_transpose(v);
        }
        let step = Element::opaque(700, step.as_slice()).bits();
        let row = |i: usize| std::array::from_fn(|j| random(self.seed, &[11, number as u64, step, i as u64, j as u64]));
        std::array::from_fn(|i| dot(&row(i), v))
    }

    /// `random(seed)`.
    pub fn random(&self, seed: u64) -> Vector {
        vector(self.seed, mix(seed ^ 77))
    }

    /// A parameter of the solver.
    pub fn param(&self, number: usize) -> Element {
        random(self.seed, &[10, number as u64])
    }
}

fn random(seed: u64, salts: &[u64]) -> Element {
    Element::from_bits(salts.iter().fold(mix(seed), |h, s| mix(h ^ mix(*s))))
}

fn vector(seed: u64, salt: u64) -> Vector {
    std::array::from_fn(|i| random(seed, &[salt, i as u64]))
}

fn product(m: &Matrix, v: &Vector) -> Vector {
    std::array::from_fn(|i| dot(&m[i], v))
}

/// Inverse by Gauss and Jordan; random matrices have one.
fn inverse(mut m: Matrix) -> Matrix {
    let mut out = [[Element::ZERO; LEN]; LEN];
    for (i, row) in out.iter_mut().enumerate() {
        row[i] = Element::ONE;
    }
    for i in 0..LEN {
        let pivot = m[i][i].inverse();
        for row in [&mut m[i], &mut out[i]] {
            row.iter_mut().for_each(|x| *x = *x * pivot);
        }
        let (row, inverse) = (m[i], out[i]);
        for other in (0..LEN).filter(|other| *other != i) {
            let factor = m[other][i];
            for j in 0..LEN {
                m[other][j] = m[other][j] - factor * row[j];
                out[other][j] = out[other][j] - factor * inverse[j];
            }
        }
    }
    out
}

/// Sum of products.
pub fn dot(v: &Vector, w: &Vector) -> Element {
    v.iter().zip(w).fold(Element::ZERO, |s, (a, b)| s + *a * *b)
}

/// Largest absolute value: a function of the vector without relations.
pub fn largest(v: &Vector) -> Element {
    if v.iter().all(|x| *x == Element::ZERO) { Element::ZERO } else { Element::opaque(200, v) }
}

/// Arithmetic.
pub fn binary(op: BinaryOp, a: Element, b: Element) -> Element {
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        // Not zero, as in floating point.
        BinaryOp::Div if b == Element::ZERO => Element::opaque(600, &[a]),
        BinaryOp::Div => a * b.inverse(),
    }
}

/// A function of scalars.
pub fn call(function: Function, args: &[Element]) -> Element {
    Element::opaque(300 + function as u64, args)
}

/// A comparison, as an element whose truth decides.
pub fn compare(op: CompareOp, a: Element, b: Element) -> Element {
    Element::opaque(400 + op as u64, &[a, b])
}

/// Absolute value at every point.
pub fn absolute(x: Element) -> Element {
    Element::opaque(500, &[x])
}
