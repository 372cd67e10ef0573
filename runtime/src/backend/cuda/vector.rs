//! Vectors of the caller in device memory.
#![allow(unsafe_code)]

use super::ffi::Block;
use kernelwright_codegen::kernel::Element;
use std::sync::Arc;

/// Values that somebody else keeps in a CUDA device's memory, one component after another, axis 0 fastest.
///
/// They are copied on the device, in the order of the back end's stream; what is given was finished by its owner before
/// the call and has been read when the call returns, and what is taken is complete then. Vectors are equal that are the
/// same memory with the same type.
#[derive(Debug)]
pub struct DeviceVector {
    address: u64,
    len: usize,
    element: Element,
    /// The memory, where it is a back end's.
    _owner: Option<Arc<Block>>,
}

impl PartialEq for DeviceVector {
    fn eq(&self, other: &Self) -> bool {
        (self.address, self.len, self.element) == (other.address, other.len, other.element)
    }
}

impl Eq for DeviceVector {}

impl DeviceVector {
    /// Values at a device address, a `CUdeviceptr` or the pointer of `cudaMalloc`.
    ///
    /// That the range lies within one allocation of the device is checked at every use.
    ///
    /// # Safety
    /// As long as this value lives, `len` values of `element` lie at the address, nobody frees them, and nobody else uses
    /// them during a call that is given this value.
    pub unsafe fn from_raw(address: u64, len: usize, element: Element) -> DeviceVector {
        DeviceVector { address, len, element, _owner: None }
    }

    /// A block of a back end, which lives as long; it holds `len` elements.
    pub(super) fn lent(block: Arc<Block>, len: usize, element: Element) -> DeviceVector {
        DeviceVector { address: block.address(), len, element, _owner: Some(block) }
    }

    /// The device address.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Number of values.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Type of the values.
    pub fn element(&self) -> Element {
        self.element
    }
}
