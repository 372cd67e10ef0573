//! What a back end must know of a kernel to launch it, and the check of every launch against it.

use super::convert::{name_of, size_of};
use super::{BackendError, BufferHandle};
use kernelwright_codegen::kernel::{Access, Element, Kernel, Space};
use kernelwright_codegen::print::dynamic_shared_bytes;

/// A kernel as its launches see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// Name of the generated function.
    pub name: String,
    /// Global buffers, in order.
    pub arguments: Vec<Argument>,
    /// Blocks along x, y, z.
    pub grid: [u64; 3],
    /// Lanes of a block along x, y, z.
    pub lanes: [u32; 3],
    /// Whether all blocks must be resident together, for a grid barrier.
    pub cooperative: bool,
    /// Bytes of the shared buffers of a block.
    pub shared_bytes: u64,
    /// Bytes of shared memory to be passed at launch, where more is used than may be declared.
    pub dynamic_shared_bytes: u64,
}

/// A global buffer of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the kernel.
    pub name: String,
    /// Element type.
    pub element: Element,
    /// Elements the kernel may touch.
    pub extent: u64,
    /// What the kernel does with it.
    pub access: Access,
}

/// A buffer offered as an argument: which one, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offered {
    /// Distinguishes buffers.
    pub id: usize,
    /// Element type.
    pub element: Element,
    /// Number of elements.
    pub len: u64,
}

impl Signature {
    /// Signature of a kernel.
    pub fn of(kernel: &Kernel) -> Signature {
        let global = kernel.buffers.iter().filter(|buffer| buffer.space == Space::Global);
        let shared = kernel.buffers.iter().filter(|buffer| buffer.space == Space::Shared);
        Signature {
            name: kernel.name.clone(),
            arguments: global
                .map(|buffer| Argument {
                    name: buffer.name.clone(),
                    element: buffer.element,
                    extent: buffer.extent,
                    access: buffer.access,
                })
                .collect(),
            grid: kernel.grid,
            lanes: kernel.lanes,
            cooperative: kernel.waits_for_grid(),
            dynamic_shared_bytes: dynamic_shared_bytes(kernel),
            shared_bytes: shared
                .map(|buffer| buffer.extent.saturating_mul(size_of(buffer.element) as u64))
                .fold(0, u64::saturating_add),
        }
    }

    /// Number of blocks; an error when it exceeds 63 bits.
    pub fn blocks(&self) -> Result<u64, BackendError> {
        let [x, y, z] = self.grid;
        x.checked_mul(y)
            .and_then(|xy| xy.checked_mul(z))
            .filter(|&blocks| blocks <= i64::MAX as u64)
            .ok_or_else(|| BackendError::TooLarge(format!("kernel {}: a grid of {x} x {y} x {z} blocks", self.name)))
    }

    /// The buffers of a launch, after the check of all of them: `facts` tells element type and length.
    pub fn take<'b, B>(
        &self,
        args: &[BufferHandle],
        find: impl Fn(BufferHandle) -> Result<&'b B, BackendError>,
        facts: impl Fn(&B) -> (Element, u64),
    ) -> Result<Vec<&'b B>, BackendError> {
        let buffers = args.iter().map(|&handle| find(handle)).collect::<Result<Vec<_>, BackendError>>()?;
        let offer = |(handle, buffer): (&BufferHandle, &&B)| {
            let (element, len) = facts(buffer);
            Offered { id: handle.0, element, len }
        };
        self.check(&args.iter().zip(&buffers).map(offer).collect::<Vec<Offered>>())?;
        Ok(buffers)
    }

    /// Checks number, types and sizes of arguments. A buffer that is written must not be passed twice: generated
    /// code promises the compiler that pointers do not alias.
    pub fn check(&self, offered: &[Offered]) -> Result<(), BackendError> {
        let wrong = |what: String| Err(BackendError::Argument(format!("kernel {}: {what}", self.name)));
        if offered.len() != self.arguments.len() {
            return wrong(format!("takes {} buffers, given {}", self.arguments.len(), offered.len()));
        }
        for (number, (argument, buffer)) in self.arguments.iter().zip(offered).enumerate() {
            if buffer.element != argument.element {
                let (want, have) = (name_of(argument.element), name_of(buffer.element));
                return wrong(format!("argument {number} ({}) is {want}, given {have}", argument.name));
            }
            if buffer.len < argument.extent {
                let (name, extent) = (&argument.name, argument.extent);
                return wrong(format!("argument {number} ({name}) needs {extent} elements, given {}", buffer.len));
            }
            let twin = offered[..number].iter().position(|earlier| earlier.id == buffer.id);
            if let Some(earlier) = twin
                && (!argument.access.is_read() || !self.arguments[earlier].access.is_read())
            {
                let first = &self.arguments[earlier].name;
                return wrong(format!("one buffer is passed as {first} and as {}, and is written", argument.name));
            }
        }
        Ok(())
    }
}
