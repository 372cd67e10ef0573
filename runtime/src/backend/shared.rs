//! One back end for several engines, which then compute on each other's buffers in the order of their launches.

use std::cell::RefCell;
use std::rc::Rc;

use kernelwright_codegen::kernel::{Element, Kernel};

use super::{
    Backend, BackendError, BufferHandle, CompileTimes, Counters, Integers, KernelHandle, KernelInfo, Recorded, Target,
    VectorMut, VectorRef,
};

/// A back end that is held in several places. Handles are those of the one below.
#[derive(Clone)]
pub struct Shared(Rc<RefCell<Box<dyn Backend>>>);

impl Shared {
    /// Takes a back end to share it.
    pub fn new(backend: Box<dyn Backend>) -> Shared {
        Shared(Rc::new(RefCell::new(backend)))
    }
}

impl Backend for Shared {
    fn describe(&self) -> String {
        self.0.borrow().describe()
    }
    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
        self.0.borrow_mut().compile(kernels)
    }
    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError> {
        self.0.borrow_mut().allocate(element, len)
    }
    fn free(&mut self, buffer: BufferHandle) {
        self.0.borrow_mut().free(buffer);
    }
    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError> {
        self.0.borrow_mut().write(buffer, values)
    }
    fn write_integers(&mut self, buffer: BufferHandle, values: Integers) -> Result<(), BackendError> {
        self.0.borrow_mut().write_integers(buffer, values)
    }
    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError> {
        self.0.borrow_mut().read(buffer, values)
    }
    fn write_from(&mut self, buffer: BufferHandle, from: VectorRef) -> Result<(), BackendError> {
        self.0.borrow_mut().write_from(buffer, from)
    }
    fn read_into(&mut self, buffer: BufferHandle, into: VectorMut) -> Result<(), BackendError> {
        self.0.borrow_mut().read_into(buffer, into)
    }
    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
        self.0.borrow_mut().launch(kernel, args)
    }
    fn synchronize(&mut self) -> Result<(), BackendError> {
        self.0.borrow_mut().synchronize()
    }
    fn release(&mut self, kernels: &[KernelHandle]) {
        self.0.borrow_mut().release(kernels);
    }
    fn target(&self) -> Target {
        self.0.borrow().target()
    }
    fn small_problems_only(&self) -> Option<u64> {
        self.0.borrow().small_problems_only()
    }
    fn record(&mut self, launches: &[(KernelHandle, Vec<BufferHandle>)]) -> Result<Recorded, BackendError> {
        self.0.borrow_mut().record(launches)
    }
    fn replay(&mut self, recorded: &Recorded) -> Result<(), BackendError> {
        self.0.borrow_mut().replay(recorded)
    }
    fn forget(&mut self, recorded: Recorded) {
        self.0.borrow_mut().forget(recorded);
    }
    fn time(&mut self, recorded: &Recorded) -> Result<f64, BackendError> {
        self.0.borrow_mut().time(recorded)
    }
    fn kernel_info(&self, kernel: KernelHandle) -> Option<KernelInfo> {
        self.0.borrow().kernel_info(kernel)
    }
    fn compile_times(&self) -> CompileTimes {
        self.0.borrow().compile_times()
    }
    fn counters(&self) -> Counters {
        self.0.borrow().counters()
    }
    fn notices(&mut self) -> Vec<String> {
        self.0.borrow_mut().notices()
    }
}
