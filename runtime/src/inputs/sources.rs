//! Arrays of a problem: where each comes from, what shape it must have, how a file's axes are named.

use std::path::Path;

use kernelwright_syntax::program::{Operator, Problem, Source};

use super::evaluate::Evaluator;
use super::{npy, random};

/// Shape of an array over some axes of a grid, in memory order (axis 0 fastest).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Axes it has, ascending.
    pub axes: Vec<usize>,
    /// Extents of these axes.
    pub extents: Vec<usize>,
    /// Letters of these axes.
    pub letters: Vec<String>,
    /// First position per axis of the grid: -1 along an axis of faces, else 0.
    pub from: [i64; 3],
}

impl Shape {
    /// Shape of one component of a vector.
    pub fn of_vector(operator: &Operator, sizes: &[usize]) -> Shape {
        Shape::over(operator, sizes, &(0..operator.axes.len()).collect::<Vec<_>>(), None)
    }

    /// Shape of a data array.
    pub fn of_data(operator: &Operator, sizes: &[usize], number: usize) -> Shape {
        let data = &operator.data[number];
        Shape::over(operator, sizes, &data.axes, data.half)
    }

    fn over(operator: &Operator, sizes: &[usize], axes: &[usize], half: Option<usize>) -> Shape {
        let extent = |axis: &usize| sizes[*axis] + usize::from(half == Some(*axis));
        Shape {
            extents: axes.iter().map(extent).collect(),
            letters: axes.iter().map(|axis| operator.axes[*axis].letter.clone()).collect(),
            axes: axes.to_vec(),
            from: std::array::from_fn(|axis| if half == Some(axis) { -1 } else { 0 }),
        }
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.extents.iter().product()
    }

    /// Extents per axis of the grid, 1 where it has none.
    fn all_extents(&self) -> [usize; 3] {
        let mut all = [1; 3];
        for (axis, extent) in self.axes.iter().zip(&self.extents) {
            all[*axis] = *extent;
        }
        all
    }

    /// The order in which kernelwright writes files: slowest axis first.
    pub fn written_order(&self) -> Vec<usize> {
        self.axes.iter().rev().copied().collect()
    }

    /// Elements of an array whose axes are named in `order`, brought to memory order.
    pub fn arrange(&self, array: &npy::Array, order: &[usize]) -> Result<Vec<f64>, String> {
        let position = |axis: &usize| self.axes.iter().position(|own| own == axis);
        let places: Option<Vec<usize>> = order.iter().map(position).collect();
        let places = places.filter(|places| {
            let mut sorted = places.clone();
            sorted.sort_unstable();
            sorted == (0..self.axes.len()).collect::<Vec<_>>()
        });
        let places = places.ok_or_else(|| format!("the order must name each of [{}] once", self.letters.join(", ")))?;
        let expected: Vec<usize> = places.iter().map(|place| self.extents[*place]).collect();
        if array.shape != expected {
            let letters: Vec<&str> = places.iter().map(|place| self.letters[*place].as_str()).collect();
            let (given, names) = (&array.shape, letters.join(", "));
            return Err(format!("the array has shape {given:?}, but [{names}] means {expected:?}"));
        }
        Ok(self.gather(array, &places))
    }

    /// Walks memory order; `places[n]` is the own axis that the file's axis n is.
    fn gather(&self, array: &npy::Array, places: &[usize]) -> Vec<f64> {
        let mut strides = vec![0; self.extents.len()];
        let mut stride = 1;
        for (place, extent) in places.iter().zip(&array.shape).rev() {
            strides[*place] = stride;
            stride *= extent;
        }
        let mut index = vec![0; self.extents.len()];
        let mut offset = 0;
        let mut values = Vec::with_capacity(array.values.len());
        for _ in 0..array.values.len() {
            values.push(array.values[offset]);
            for axis in 0..index.len() {
                index[axis] += 1;
                offset += strides[axis];
                if index[axis] < self.extents[axis] {
                    break;
                }
                offset -= index[axis] * strides[axis];
                index[axis] = 0;
            }
        }
        values
    }
}

/// Where the files of a problem are and what its parameters are now.
pub struct Context<'p> {
    /// The operator the arrays belong to.
    pub operator: &'p Operator,
    /// The problem.
    pub problem: &'p Problem,
    /// Values of the operator's parameters.
    pub params: &'p [f64],
    /// Folder of the program's file; paths are relative to it.
    pub folder: &'p Path,
}

impl Context<'_> {
    /// A vector of all components, one source each.
    pub fn vector(&self, what: &str, sources: &[Source]) -> Result<Vec<f64>, String> {
        let shape = Shape::of_vector(self.operator, &self.problem.sizes);
        let component = |(number, source): (usize, &Source)| {
            let from = (number * shape.len()) as u64;
            self.array(source, &shape, from).map_err(|reason| format!("{what}: {reason}"))
        };
        if let [source] = sources {
            return component((0, source));
        }
        let parts: Result<Vec<Vec<f64>>, String> = sources.iter().enumerate().map(component).collect();
        Ok(parts?.concat())
    }

    /// A data array, by number.
    pub fn data(&self, number: usize) -> Result<Vec<f64>, String> {
        let shape = Shape::of_data(self.operator, &self.problem.sizes, number);
        let name = &self.operator.data[number].name;
        self.array(&self.problem.data[number], &shape, 0).map_err(|reason| format!("data `{name}`: {reason}"))
    }

    /// `from` is the position of the first element in the stream of random numbers.
    fn array(&self, source: &Source, shape: &Shape, from: u64) -> Result<Vec<f64>, String> {
        match source {
            Source::Expr(expr) => {
                let evaluator = Evaluator::new(self.operator, &self.problem.sizes, self.params);
                let filled = evaluator.fill(expr, shape.from, shape.all_extents());
                filled.map_err(|_| "the expression reads an array or an unknown".to_string())
            }
            Source::Random(seed) => Ok(random::fill(*seed, from, shape.len())),
            Source::File { path, order } => {
                let array = npy::read_file(&self.folder.join(path))?;
                shape.arrange(&array, order).map_err(|reason| format!("{path}: {reason}"))
            }
        }
    }
}
