//! One back end under several engines, so that their runs can alternate.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use kernelwright_codegen::kernel::{Element, Kernel};

use super::build::{Build, Identity, Stop};
use super::{
    Backend, BackendError, BufferHandle, CompileTimes, Counters, Integers, KernelHandle, KernelInfo, Recorded, Target,
    VectorMut, VectorRef,
};

/// A handle of a back end; clones are handles of the same one.
#[derive(Clone)]
pub struct Shared {
    inner: Rc<RefCell<Box<dyn Backend>>>,
}

impl Shared {
    /// The first handle.
    pub fn new(backend: Box<dyn Backend>) -> Shared {
        Shared { inner: Rc::new(RefCell::new(backend)) }
    }

    /// The back end again, once all other handles are gone; otherwise the handle.
    ///
    /// # Errors
    /// Another handle is alive.
    pub fn into_inner(self) -> Result<Box<dyn Backend>, Shared> {
        Rc::try_unwrap(self.inner).map(RefCell::into_inner).map_err(|inner| Shared { inner })
    }
}

/// No method of a back end calls one of another handle, so that a borrow never meets another one.
impl Backend for Shared {
    fn describe(&self) -> String {
        self.inner.borrow().describe()
    }
    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
        self.inner.borrow_mut().compile(kernels)
    }
    fn limit(&mut self, stop: &Stop) {
        self.inner.borrow_mut().limit(stop);
    }
    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError> {
        self.inner.borrow_mut().allocate(element, len)
    }
    fn free(&mut self, buffer: BufferHandle) {
        self.inner.borrow_mut().free(buffer);
    }
    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError> {
        self.inner.borrow_mut().write(buffer, values)
    }
    fn write_integers(&mut self, buffer: BufferHandle, values: Integers) -> Result<(), BackendError> {
        self.inner.borrow_mut().write_integers(buffer, values)
    }
    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError> {
        self.inner.borrow_mut().read(buffer, values)
    }
    fn write_from(&mut self, buffer: BufferHandle, from: VectorRef) -> Result<(), BackendError> {
        self.inner.borrow_mut().write_from(buffer, from)
    }
    fn read_into(&mut self, buffer: BufferHandle, into: VectorMut) -> Result<(), BackendError> {
        self.inner.borrow_mut().read_into(buffer, into)
    }
    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
        self.inner.borrow_mut().launch(kernel, args)
    }
    fn synchronize(&mut self) -> Result<(), BackendError> {
        self.inner.borrow_mut().synchronize()
    }
    fn release(&mut self, kernels: &[KernelHandle]) {
        self.inner.borrow_mut().release(kernels);
    }
    fn target(&self) -> Target {
        self.inner.borrow().target()
    }
    fn small_problems_only(&self) -> Option<u64> {
        self.inner.borrow().small_problems_only()
    }
    fn record(&mut self, launches: &[(KernelHandle, Vec<BufferHandle>)]) -> Result<Recorded, BackendError> {
        self.inner.borrow_mut().record(launches)
    }
    fn replay(&mut self, recorded: &Recorded) -> Result<(), BackendError> {
        self.inner.borrow_mut().replay(recorded)
    }
    fn forget(&mut self, recorded: Recorded) {
        self.inner.borrow_mut().forget(recorded);
    }
    fn time(&mut self, recorded: &Recorded) -> Result<f64, BackendError> {
        self.inner.borrow_mut().time(recorded)
    }
    fn kernel_info(&self, kernel: KernelHandle) -> Option<KernelInfo> {
        self.inner.borrow().kernel_info(kernel)
    }
    fn compile_times(&self) -> CompileTimes {
        self.inner.borrow().compile_times()
    }
    fn counters(&self) -> Counters {
        self.inner.borrow().counters()
    }
    fn notices(&mut self) -> Vec<String> {
        self.inner.borrow_mut().notices()
    }
    fn builder(&self) -> Option<Arc<dyn Build>> {
        self.inner.borrow().builder()
    }
    fn load_built(&mut self, kernels: &[Kernel], unit: &[u8]) -> Result<Vec<KernelHandle>, BackendError> {
        self.inner.borrow_mut().load_built(kernels, unit)
    }
    fn identity(&self) -> Identity {
        self.inner.borrow().identity()
    }
    fn threads(&self) -> Option<usize> {
        self.inner.borrow().threads()
    }
    fn set_threads(&mut self, threads: usize) -> Result<(), BackendError> {
        self.inner.borrow_mut().set_threads(threads)
    }
}
