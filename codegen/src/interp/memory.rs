//! Global memory: buffers that live across launches, owned by the caller.

use super::code::Code;
use super::error::InterpError;
use super::field::{Field, Precision};
use super::shadow::Shadow;
use crate::kernel::{Element, Space};

/// A buffer of a [`Memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferHandle(pub(super) usize);

/// Global buffers over a field of reals.
#[derive(Debug, Clone)]
pub struct Memory<F: Field> {
    pub(super) field: F,
    pub(super) buffers: Vec<Option<Global<F::Real>>>,
    /// Launches and grid barriers so far; see [`order`](super::order).
    pub(super) era: u32,
}

/// Values of a buffer. Integers of all widths are held as i64.
#[derive(Debug, Clone)]
pub(super) enum Cells<R> {
    Real(Vec<R>),
    Int(Vec<i64>),
}

/// A global buffer.
#[derive(Debug, Clone)]
pub(super) struct Global<R> {
    pub element: Element,
    pub cells: Cells<R>,
    /// Whether an element holds a value.
    pub set: Vec<bool>,
    /// Stores are checked, and dropped.
    pub frozen: bool,
    /// Allocated when a launch may write.
    pub shadow: Shadow,
    /// Era of the last launch that loaded, stored an element; allocated by the first launch.
    pub loaded: Vec<u32>,
    pub stored: Vec<u32>,
}

/// Precision of a real element type, none of an integer one.
pub(super) fn precision(element: Element) -> Option<Precision> {
    match element {
        Element::F32 => Some(Precision::F32),
        Element::F64 => Some(Precision::F64),
        Element::I16 | Element::U16 | Element::I32 | Element::U32 | Element::I64 => None,
    }
}

/// Whether an integer fits an integer element type.
pub(super) fn fits(element: Element, value: i64) -> bool {
    match element {
        Element::I16 => i16::try_from(value).is_ok(),
        Element::U16 => u16::try_from(value).is_ok(),
        Element::I32 => i32::try_from(value).is_ok(),
        Element::U32 => u32::try_from(value).is_ok(),
        Element::I64 | Element::F32 | Element::F64 => true,
    }
}

impl<F: Field> Memory<F> {
    /// Empty memory over a field.
    pub fn new(field: F) -> Memory<F> {
        Memory { field, buffers: Vec::new(), era: 0 }
    }

    /// The field.
    pub fn field(&self) -> &F {
        &self.field
    }

    /// A new buffer. Its elements hold no value: reading one before writing it is a fault.
    pub fn allocate(&mut self, element: Element, len: usize) -> BufferHandle {
        let cells = match precision(element) {
            Some(_) => Cells::Real(vec![self.field.zero(); len]),
            None => Cells::Int(vec![0; len]),
        };
        let set = vec![false; len];
        let (shadow, loaded, stored) = Default::default();
        self.buffers.push(Some(Global { element, cells, set, frozen: false, shadow, loaded, stored }));
        BufferHandle(self.buffers.len() - 1)
    }

    /// Gives a buffer back; later uses of the handle are errors.
    pub fn free(&mut self, buffer: BufferHandle) {
        if let Some(slot) = self.buffers.get_mut(buffer.0) {
            *slot = None;
        }
    }

    pub(super) fn global(&self, buffer: BufferHandle) -> Result<&Global<F::Real>, InterpError> {
        let global = self.buffers.get(buffer.0).and_then(Option::as_ref);
        global.ok_or_else(|| InterpError::Argument(format!("buffer {} does not exist (any more)", buffer.0)))
    }

    fn global_mut(&mut self, buffer: BufferHandle) -> Result<&mut Global<F::Real>, InterpError> {
        let global = self.buffers.get_mut(buffer.0).and_then(Option::as_mut);
        global.ok_or_else(|| InterpError::Argument(format!("buffer {} does not exist (any more)", buffer.0)))
    }

    /// Element type of a buffer.
    pub fn element(&self, buffer: BufferHandle) -> Result<Element, InterpError> {
        Ok(self.global(buffer)?.element)
    }

    /// Number of elements of a buffer.
    pub fn extent(&self, buffer: BufferHandle) -> Result<usize, InterpError> {
        Ok(self.global(buffer)?.set.len())
    }

    /// Writes the first elements, converted to the element type. Integers must be given exactly.
    pub fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), InterpError> {
        let element = self.global(buffer)?.element;
        match precision(element) {
            Some(precision) => {
                let real = |&value: &f64| {
                    let real = self.field.constant(value, precision);
                    real.ok_or_else(|| InterpError::Argument(format!("{value} is no number of the field")))
                };
                let reals = values.iter().map(real).collect::<Result<Vec<_>, _>>()?;
                self.write_reals(buffer, &reals)
            }
            None => {
                let int = |&value: &f64| match value as i64 {
                    int if int as f64 == value => Ok(int),
                    _ => Err(InterpError::Argument(format!("{value} is no integer"))),
                };
                let ints = values.iter().map(int).collect::<Result<Vec<_>, _>>()?;
                self.write_ints(buffer, &ints)
            }
        }
    }

    /// Writes the first elements of a buffer of reals, as they are (for F32: representable ones).
    pub fn write_reals(&mut self, buffer: BufferHandle, values: &[F::Real]) -> Result<(), InterpError> {
        let global = self.global_mut(buffer)?;
        let (set, Cells::Real(cells)) = (&mut global.set, &mut global.cells) else {
            return Err(InterpError::Argument("reals written to a buffer of integers".into()));
        };
        check_len(values.len(), cells.len())?;
        cells[..values.len()].copy_from_slice(values);
        set[..values.len()].fill(true);
        Ok(())
    }

    /// Writes the first elements of a buffer of integers.
    pub fn write_ints(&mut self, buffer: BufferHandle, values: &[i64]) -> Result<(), InterpError> {
        let global = self.global_mut(buffer)?;
        let (element, set, Cells::Int(cells)) = (global.element, &mut global.set, &mut global.cells) else {
            return Err(InterpError::Argument("integers written to a buffer of reals".into()));
        };
        check_len(values.len(), cells.len())?;
        if let Some(value) = values.iter().find(|&&value| !fits(element, value)) {
            return Err(InterpError::Argument(format!("{value} does not fit {element:?}")));
        }
        cells[..values.len()].copy_from_slice(values);
        set[..values.len()].fill(true);
        Ok(())
    }

    /// All elements of a buffer of reals (zero where nothing was written yet; see [`Memory::initialised`]).
    pub fn reals(&self, buffer: BufferHandle) -> Result<&[F::Real], InterpError> {
        match &self.global(buffer)?.cells {
            Cells::Real(cells) => Ok(cells),
            Cells::Int(_) => Err(InterpError::Argument("reals read from a buffer of integers".into())),
        }
    }

    /// All elements of a buffer of integers.
    pub fn ints(&self, buffer: BufferHandle) -> Result<&[i64], InterpError> {
        match &self.global(buffer)?.cells {
            Cells::Int(cells) => Ok(cells),
            Cells::Real(_) => Err(InterpError::Argument("integers read from a buffer of reals".into())),
        }
    }

    /// Which elements hold a value.
    pub fn initialised(&self, buffer: BufferHandle) -> Result<&[bool], InterpError> {
        Ok(&self.global(buffer)?.set)
    }

    /// Writes zeros everywhere.
    pub fn clear(&mut self, buffer: BufferHandle) -> Result<(), InterpError> {
        let zero = self.field.zero();
        let global = self.global_mut(buffer)?;
        match &mut global.cells {
            Cells::Real(cells) => cells.fill(zero),
            Cells::Int(cells) => cells.fill(0),
        }
        global.set.fill(true);
        Ok(())
    }

    /// Takes the values away: reading an element before it is written again is a fault.
    pub fn poison(&mut self, buffer: BufferHandle) -> Result<(), InterpError> {
        self.global_mut(buffer)?.set.fill(false);
        Ok(())
    }

    /// Makes room for what a launch keeps about its arguments.
    pub(super) fn prepare(&mut self, code: &Code, args: &[BufferHandle]) {
        let global = code.buffers.iter().filter(|buffer| buffer.space == Space::Global);
        for (info, arg) in global.zip(args) {
            let Some(buffer) = self.buffers.get_mut(arg.0).and_then(Option::as_mut) else {
                continue;
            };
            let len = buffer.set.len();
            buffer.loaded.resize(len, 0);
            buffer.stored.resize(len, 0);
            if !info.access.is_read() {
                buffer.shadow.cover(len);
            }
        }
    }

    /// While frozen, stores by kernels are checked and then dropped. A frozen status word keeps a loop going
    /// whatever its tests say.
    pub fn freeze(&mut self, buffer: BufferHandle, frozen: bool) -> Result<(), InterpError> {
        self.global_mut(buffer)?.frozen = frozen;
        Ok(())
    }
}

fn check_len(given: usize, len: usize) -> Result<(), InterpError> {
    if given <= len {
        return Ok(());
    }
    Err(InterpError::Argument(format!("{given} values written to a buffer of {len}")))
}
