//! Elements as bytes: sizes, and conversion between `f64` and the element types of buffers.
//!
//! Host and device memory is handled as bytes in the machine's order, so that one path serves every element type and
//! needs no casts of pointers.

use super::Integers;
use kernelwright_codegen::kernel::Element;
use rayon::prelude::*;

/// Bytes of an element.
pub fn size_of(element: Element) -> usize {
    element.bytes() as usize
}

/// Name of an element type in messages.
pub const fn name_of(element: Element) -> &'static str {
    match element {
        Element::F32 => "f32",
        Element::F64 => "f64",
        Element::I16 => "i16",
        Element::U16 => "u16",
        Element::I32 => "i32",
        Element::U32 => "u32",
        Element::I64 => "i64",
    }
}

/// Bytes of `len` elements; `None` when they exceed the address space.
pub fn bytes_of(element: Element, len: u64) -> Option<usize> {
    usize::try_from(len).ok()?.checked_mul(size_of(element)).filter(|&bytes| bytes <= isize::MAX as usize)
}

/// Writes values as elements; `bytes` has room for exactly these. Reals round to nearest. An integer element takes
/// whole numbers of its range only: the error names the first value that is not one, since storing anything else
/// would corrupt an index silently.
pub fn encode(element: Element, values: &[f64], bytes: &mut [u8]) -> Result<(), String> {
    debug_assert_eq!(bytes.len(), values.len() * size_of(element));
    match element {
        Element::F64 => put(values, bytes, f64::to_ne_bytes),
        Element::F32 => put(values, bytes, |v| (v as f32).to_ne_bytes()),
        _ => {
            let (low, high) = range(element);
            if let Some(at) = values.iter().position(|&v| !(v >= low && v <= high && v.trunc() == v)) {
                return Err(format!("value {} at index {at} is not an {}", values[at], name_of(element)));
            }
            match element {
                Element::I16 => put(values, bytes, |v| (v as i16).to_ne_bytes()),
                Element::U16 => put(values, bytes, |v| (v as u16).to_ne_bytes()),
                Element::I32 => put(values, bytes, |v| (v as i32).to_ne_bytes()),
                Element::U32 => put(values, bytes, |v| (v as u32).to_ne_bytes()),
                _ => put(values, bytes, |v| (v as i64).to_ne_bytes()),
            }
        }
    }
    Ok(())
}

/// Reads elements as values; integers beyond 2^53 round to the nearest `f64`.
pub fn decode(element: Element, bytes: &[u8], values: &mut [f64]) {
    debug_assert_eq!(bytes.len(), values.len() * size_of(element));
    match element {
        Element::F32 => get(bytes, values, |b| f64::from(f32::from_ne_bytes(b))),
        Element::F64 => get(bytes, values, f64::from_ne_bytes),
        Element::I16 => get(bytes, values, |b| f64::from(i16::from_ne_bytes(b))),
        Element::U16 => get(bytes, values, |b| f64::from(u16::from_ne_bytes(b))),
        Element::I32 => get(bytes, values, |b| f64::from(i32::from_ne_bytes(b))),
        Element::U32 => get(bytes, values, |b| f64::from(u32::from_ne_bytes(b))),
        Element::I64 => get(bytes, values, |b| i64::from_ne_bytes(b) as f64),
    }
}

/// Smallest and largest whole number of an integer element type that an `f64` converts to exactly.
impl Integers<'_> {
    /// Number of elements.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        match self {
            Integers::U16(values) => values.len(),
            Integers::U32(values) => values.len(),
            Integers::U64(values) => values.len(),
        }
    }

    /// The same as reals; beyond 2^53 they are rounded.
    pub(super) fn reals(&self) -> Vec<f64> {
        match self {
            Integers::U16(values) => values.iter().map(|&v| f64::from(v)).collect(),
            Integers::U32(values) => values.iter().map(|&v| f64::from(v)).collect(),
            Integers::U64(values) => values.iter().map(|&v| v as f64).collect(),
        }
    }

    /// Whether a buffer has elements of this width.
    pub(super) fn fits(&self, element: Element) -> Result<(), String> {
        let own = match self {
            Integers::U16(_) => Element::U16,
            Integers::U32(_) => Element::U32,
            Integers::U64(_) => Element::I64,
        };
        match own == element {
            true => Ok(()),
            false => Err(format!("elements of {} for a buffer of {}", name_of(own), name_of(element))),
        }
    }

    /// Writes the elements from a number on, as many as there is room for.
    pub(super) fn encode(&self, from: usize, bytes: &mut [u8]) {
        match self {
            Integers::U16(values) => put(&values[from..], bytes, u16::to_ne_bytes),
            Integers::U32(values) => put(&values[from..], bytes, u32::to_ne_bytes),
            Integers::U64(values) => put(&values[from..], bytes, u64::to_ne_bytes),
        }
    }
}

fn range(element: Element) -> (f64, f64) {
    match element {
        Element::I16 => (f64::from(i16::MIN), f64::from(i16::MAX)),
        Element::U16 => (0.0, f64::from(u16::MAX)),
        Element::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        Element::U32 => (0.0, f64::from(u32::MAX)),
        // 2^63 itself is an f64 but no i64.
        _ => (i64::MIN as f64, (i64::MAX as f64).next_down()),
    }
}

/// Elements that a core converts at a time.
const PIECE: usize = 1 << 15;

fn put<T: Copy + Sync, const N: usize>(values: &[T], bytes: &mut [u8], one: impl Fn(T) -> [u8; N] + Sync) {
    let some = |bytes: &mut [u8], values: &[T]| {
        for (to, &value) in bytes.chunks_exact_mut(N).zip(values) {
            to.copy_from_slice(&one(value));
        }
    };
    if bytes.len() <= PIECE * N {
        return some(bytes, values);
    }
    bytes.par_chunks_mut(PIECE * N).zip(values.par_chunks(PIECE)).for_each(|(bytes, values)| some(bytes, values));
}

fn get<const N: usize>(bytes: &[u8], values: &mut [f64], one: impl Fn([u8; N]) -> f64) {
    for (from, value) in bytes.chunks_exact(N).zip(values) {
        let mut element = [0; N];
        element.copy_from_slice(from);
        *value = one(element);
    }
}
