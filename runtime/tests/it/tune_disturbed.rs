//! A search on a host that other work shares: its samples differ by a factor, its candidates by a few per cent.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use kernelwright::backend::build::{Build, Identity};
use kernelwright::backend::host::{HostBackend, HostOptions};
use kernelwright::backend::{Backend, BackendError, BufferHandle, Counters, KernelHandle, Recorded};
use kernelwright::cache::Cache;
use kernelwright::solve::Solver;
use kernelwright::tune::Options;
use kernelwright::tune::record::Verdict;
use kernelwright::tune::strategy::Choice;
use kernelwright_codegen::kernel::{Element, Kernel};

use crate::cli::folder;
use crate::tune_search::{PLATE, loaded};

/// A host whose kernels take known times: for seven of nine samples twice as long, when other work has one of its cores.
struct Shared {
    inner: HostBackend,
    widths: BTreeMap<usize, u32>,
    samples: usize,
}

impl Shared {
    fn new() -> Shared {
        let cache = Arc::new(Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels")));
        let options = HostOptions { threads: Some(1), cache: Some(cache), ..HostOptions::default() };
        let inner = HostBackend::new(options).expect("tests need a C compiler");
        Shared { inner, widths: BTreeMap::new(), samples: 0 }
    }

    fn note(&mut self, kernels: &[Kernel], handles: Vec<KernelHandle>) -> Vec<KernelHandle> {
        let widths = kernels.iter().map(|kernel| kernel.simd_width.unwrap_or_default());
        self.widths.extend(handles.iter().map(|handle| handle.0).zip(widths));
        handles
    }

    /// Seconds of a launch: `width=8` is a tenth faster than others, `width=4` twice as slow.
    fn seconds(&self, kernel: KernelHandle) -> f64 {
        match self.widths.get(&kernel.0) {
            Some(8) => 0.9e-3,
            Some(4) => 2e-3,
            _ => 1e-3,
        }
    }
}

impl Backend for Shared {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn identity(&self) -> Identity {
        self.inner.identity()
    }

    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
        let handles = self.inner.compile(kernels)?;
        Ok(self.note(kernels, handles))
    }

    fn builder(&self) -> Option<Arc<dyn Build>> {
        self.inner.builder()
    }

    fn load_built(&mut self, kernels: &[Kernel], unit: &[u8]) -> Result<Vec<KernelHandle>, BackendError> {
        let handles = self.inner.load_built(kernels, unit)?;
        Ok(self.note(kernels, handles))
    }

    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError> {
        self.inner.allocate(element, len)
    }

    fn free(&mut self, buffer: BufferHandle) {
        self.inner.free(buffer);
    }

    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError> {
        self.inner.write(buffer, values)
    }

    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError> {
        self.inner.read(buffer, values)
    }

    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
        self.inner.launch(kernel, args)
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        self.inner.synchronize()
    }

    fn release(&mut self, kernels: &[KernelHandle]) {
        self.inner.release(kernels);
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn time(&mut self, recorded: &Recorded) -> Result<f64, BackendError> {
        self.samples += 1;
        let alone = self.samples % 9 > 6;
        let seconds: f64 = recorded.launches().iter().map(|(kernel, _)| self.seconds(*kernel)).sum();
        Ok(seconds * if alone { 1.0 } else { 2.0 })
    }
}

#[test]
fn a_search_finds_the_fastest_kernel_whoever_had_the_machine_to_itself() {
    let program = loaded(PLATE);
    let builder = Solver::builder(&program).schedule("statement").tuned_in(folder("tune_disturbed"));
    let options = Options { budget: None, strategy: Choice::Exhaustive, count: Some(40), ..Options::default() };
    let (report, _) = builder.tune_on(Box::new(Shared::new()), &options, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut wide = 0;
    for kernel in &report.kernels {
        let width = |variant: &[(String, String)]| {
            variant.iter().find(|(key, _)| key == "width").map_or("auto", |(_, value)| value.as_str()).to_string()
        };
        for trial in &kernel.searched.trials {
            let slow = width(&trial.variant) == "4";
            assert_eq!(trial.verdict == Verdict::Slow, slow, "{}: {trial:?}", kernel.searched.kernel);
        }
        let best = &kernel.searched.trials[kernel.searched.best];
        if kernel.searched.trials.iter().any(|trial| width(&trial.variant) == "8") {
            wide += 1;
            assert_eq!(width(&best.variant), "8", "{}: {best:?}", kernel.searched.kernel);
        }
    }
    assert!(wide > 0, "{:?}", report.kernels);
}
