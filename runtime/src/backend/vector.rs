//! Memory of the caller that vectors are taken from or given to: slices, or memory of a device.
//!
//! ```
//! use kernelwright::backend::VectorRef;
//! let given = [1.0f64, 2.0];
//! let vector = VectorRef::from(&given);
//! assert_eq!(vector.len(), 2);
//! ```

use super::BackendError;
use super::convert::name_of;
use kernelwright_codegen::kernel::Element;

pub use super::cuda::DeviceVector;

/// A vector that is read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VectorRef<'a> {
    /// Values that are converted to the working precision.
    F64(&'a [f64]),
    /// Likewise.
    F32(&'a [f32]),
    /// Values in a device's memory, of the working precision.
    Device(&'a DeviceVector),
}

/// A vector that is written.
#[derive(Debug, PartialEq)]
pub enum VectorMut<'a> {
    /// Values that are converted from the working precision.
    F64(&'a mut [f64]),
    /// Likewise.
    F32(&'a mut [f32]),
    /// A device's memory for values of the working precision.
    Device(&'a mut DeviceVector),
}

impl VectorRef<'_> {
    /// Number of values.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            VectorRef::F64(values) => values.len(),
            VectorRef::F32(values) => values.len(),
            VectorRef::Device(vector) => vector.len(),
        }
    }

    /// The values of the host's memory in another order: element r of the result is element `order[r]` here.
    ///
    /// # Errors
    /// A vector in a device's memory.
    pub fn gather(self, order: &[u64]) -> Result<Vec<f64>, BackendError> {
        let values = self.on_host()?;
        Ok(order.iter().map(|from| values[*from as usize]).collect())
    }

    /// The values where they are in the host's memory.
    pub(crate) fn on_host(self) -> Result<Vec<f64>, BackendError> {
        match self {
            VectorRef::F64(values) => Ok(values.to_vec()),
            VectorRef::F32(values) => Ok(values.iter().map(|value| f64::from(*value)).collect()),
            VectorRef::Device(_) => Err(elsewhere()),
        }
    }
}

impl VectorMut<'_> {
    /// Number of values.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            VectorMut::F64(values) => values.len(),
            VectorMut::F32(values) => values.len(),
            VectorMut::Device(vector) => vector.len(),
        }
    }
}

impl VectorMut<'_> {
    /// The reverse of [`VectorRef::gather`]: element `order[r]` here becomes element r of `values`.
    ///
    /// # Errors
    /// A vector in a device's memory.
    pub fn scatter(self, order: &[u64], values: &[f64]) -> Result<(), BackendError> {
        self.fill(|outside| {
            order.iter().zip(values).for_each(|(to, value)| outside[*to as usize] = *value);
            Ok(())
        })
    }

    /// Has `read` fill the vector where it is in the host's memory.
    pub(crate) fn fill(self, read: impl FnOnce(&mut [f64]) -> Result<(), BackendError>) -> Result<(), BackendError> {
        match self {
            VectorMut::F64(values) => read(values),
            VectorMut::F32(values) => {
                let mut wide = vec![0.0; values.len()];
                read(&mut wide)?;
                values.iter_mut().zip(wide).for_each(|(value, wide)| *value = wide as f32);
                Ok(())
            }
            VectorMut::Device(_) => Err(elsewhere()),
        }
    }
}

/// A vector of a device offered to a back end that works in the host's memory.
fn elsewhere() -> BackendError {
    BackendError::Argument("the vector is in a CUDA device's memory; this back end works in the host's".to_owned())
}

/// Bytes are copied as they are, so that element types must agree.
pub(super) fn same_element(vector: Element, buffer: Element) -> Result<(), BackendError> {
    if vector == buffer {
        return Ok(());
    }
    let (have, want) = (name_of(vector), name_of(buffer));
    Err(BackendError::Argument(format!("a device vector of {have}; {want} is the precision in use")))
}

impl<'a> From<&'a [f64]> for VectorRef<'a> {
    fn from(values: &'a [f64]) -> Self {
        VectorRef::F64(values)
    }
}

impl<'a> From<&'a Vec<f64>> for VectorRef<'a> {
    fn from(values: &'a Vec<f64>) -> Self {
        VectorRef::F64(values)
    }
}

impl<'a, const N: usize> From<&'a [f64; N]> for VectorRef<'a> {
    fn from(values: &'a [f64; N]) -> Self {
        VectorRef::F64(values)
    }
}

impl<'a> From<&'a [f32]> for VectorRef<'a> {
    fn from(values: &'a [f32]) -> Self {
        VectorRef::F32(values)
    }
}

impl<'a> From<&'a Vec<f32>> for VectorRef<'a> {
    fn from(values: &'a Vec<f32>) -> Self {
        VectorRef::F32(values)
    }
}

impl<'a> From<&'a DeviceVector> for VectorRef<'a> {
    fn from(vector: &'a DeviceVector) -> Self {
        VectorRef::Device(vector)
    }
}

impl<'a> From<&'a mut [f64]> for VectorMut<'a> {
    fn from(values: &'a mut [f64]) -> Self {
        VectorMut::F64(values)
    }
}

impl<'a> From<&'a mut Vec<f64>> for VectorMut<'a> {
    fn from(values: &'a mut Vec<f64>) -> Self {
        VectorMut::F64(values)
    }
}

impl<'a> From<&'a mut [f32]> for VectorMut<'a> {
    fn from(values: &'a mut [f32]) -> Self {
        VectorMut::F32(values)
    }
}

impl<'a> From<&'a mut Vec<f32>> for VectorMut<'a> {
    fn from(values: &'a mut Vec<f32>) -> Self {
        VectorMut::F32(values)
    }
}

impl<'a> From<&'a mut DeviceVector> for VectorMut<'a> {
    fn from(vector: &'a mut DeviceVector) -> Self {
        VectorMut::Device(vector)
    }
}
