//! Vectors from and to files.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use kernelwright_syntax::program::{Centring, Operator, Precision};

use super::failure::Failure;
use crate::inputs::npy::{self, Array, Float};
use crate::inputs::sources::Shape;
use crate::outputs::vti::{self, At, Field};

/// Format of a solution file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Npy,
    Vti,
}

impl Format {
    /// By the end of the name.
    pub(super) fn of(path: &Path) -> Result<Format, Failure> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("npy") => Ok(Format::Npy),
            Some("vti") => Ok(Format::Vti),
            _ => Err(Failure::Usage(format!("{}: a solution is written as .npy or .vti", path.display()))),
        }
    }
}

/// Axis numbers of the letters of an order; the written order where there are none.
pub(super) fn order(operator: &Operator, letters: &[String]) -> Result<Vec<usize>, Failure> {
    if letters.is_empty() {
        return Ok((0..operator.axes.len()).rev().collect());
    }
    let axis = |letter: &String| operator.axes.iter().position(|axis| axis.letter == letter.trim());
    let axes: Option<Vec<usize>> = letters.iter().map(axis).collect();
    axes.ok_or_else(|| {
        let there: Vec<&str> = operator.axes.iter().map(|axis| axis.letter.as_str()).collect();
        Failure::Usage(format!("the order {} does not fit: the axes are {}", letters.join(","), there.join(", ")))
    })
}

/// A vector of all components from one file.
pub(super) fn read(path: &Path, operator: &Operator, sizes: &[usize], order: &[usize]) -> Result<Vec<f64>, Failure> {
    let array = npy::read_file(path).map_err(Failure::Input)?;
    let shape = Shape::of_vector(operator, sizes);
    let named = |reason: String| Failure::Input(format!("{}: {reason}", path.display()));
    let components = operator.unknowns.len();
    if components == 1 {
        return shape.arrange(&array, order).map_err(named);
    }
    let Some((first, rest)) = array.shape.split_first().filter(|(first, _)| **first == components) else {
        let text =
            format!("the array has shape {:?}, but its first axis must have {components} components", array.shape);
        return Err(named(text));
    };
    let points = rest.iter().product::<usize>();
    let mut values = Vec::with_capacity(array.values.len());
    for component in 0..*first {
        let part = array.values[component * points..(component + 1) * points].to_vec();
        values.extend(shape.arrange(&Array { shape: rest.to_vec(), values: part }, order).map_err(named)?);
    }
    Ok(values)
}

/// Writes a solution; the axes of a .npy are those of the grid, last first, behind the components.
pub(super) fn write(
    path: &Path,
    operator: &Operator,
    sizes: &[usize],
    values: &[f64],
    precision: Precision,
) -> Result<(), Failure> {
    let format = Format::of(path)?;
    let float = match precision {
        Precision::F32 => Float::F32,
        Precision::F64 | Precision::Mixed => Float::F64,
    };
    let run = || -> io::Result<()> {
        let target = BufWriter::new(File::create(path)?);
        match format {
            Format::Npy => npy::write(target, &written_shape(operator, sizes), values, float),
            Format::Vti => {
                let points = sizes.iter().product::<usize>().max(1);
                let fields: Vec<Field> = operator
                    .unknowns
                    .iter()
                    .zip(values.chunks(points))
                    .map(|(name, values)| Field { name, values })
                    .collect();
                let at = match operator.centring {
                    Centring::Cells => At::Cells,
                    Centring::Nodes => At::Points,
                };
                let extents = std::array::from_fn(|axis| sizes.get(axis).copied().unwrap_or(1));
                vti::write(target, at, extents, &fields, float)
            }
        }
    };
    run().map_err(|error| failed(path, &error))
}

/// Why a file could not be written.
pub(super) fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Input(format!("{}: {error}", path.display()))
}

fn written_shape(operator: &Operator, sizes: &[usize]) -> Vec<usize> {
    let components = Some(operator.unknowns.len()).filter(|count| *count > 1);
    components.into_iter().chain(sizes.iter().rev().copied()).collect()
}
