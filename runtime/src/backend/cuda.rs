//! The CUDA back end: generated CUDA C++, compiled by NVRTC for the card at hand, launched in order on one stream.
//!
//! Driver and NVRTC are opened at run time; without them [`CudaBackend::new`] is `Unavailable`. [`compile_only`]
//! needs NVRTC alone. A recorded list of launches becomes a graph, so that an iteration is one call.

pub mod cusparse;
mod ffi;
mod image;
pub mod log;
pub mod nvrtc;
mod vector;

use super::build::{Build, Identity, Stop};
use super::convert::{bytes_of, decode, encode, size_of};
use super::signature::Signature;
use super::slots::Slots;
use super::units::{self, CompileTimes, Unit};
use super::{
    Arithmetic, Backend, BackendError, BufferHandle, Counters, Integers, KernelHandle, KernelInfo, Recorded, Target,
    VectorMut, VectorRef, blame,
};
use crate::cache::Cache;
use ffi::{Block, Device, Failure, Function, Graph, Pinned, Shape};
use image::Images;
use kernelwright_codegen::kernel::{Element, Kernel};
use kernelwright_codegen::print;
use nvrtc::{Compiled, Form, Nvrtc};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

pub use ffi::Facts;
pub use image::MOST_SPILLED;
pub use vector::DeviceVector;

/// What to do when there is no driver.
pub const DRIVER_HINT: &str = "install the NVIDIA driver for the card, or use the host back end";

/// Choices of a CUDA back end.
#[derive(Debug, Clone, Default)]
pub struct CudaOptions {
    /// Number of the device, from 0.
    pub device: usize,
    /// Rounding of compiled arithmetic.
    pub arithmetic: Arithmetic,
    /// Where compiled units are kept.
    pub cache: Option<Arc<Cache>>,
}

/// A CUDA device.
pub struct CudaBackend {
    // In this order: what a drop gives back needs what follows it.
    graphs: Slots<RecordedGraph>,
    kernels: Slots<CudaKernel>,
    buffers: Slots<CudaBuffer>,
    pinned: Pinned,
    device: Device,
    images: Images,
    /// Ends compilations.
    stop: Stop,
    counters: Counters,
    times: CompileTimes,
}

/// Kernels of one unit share it through their functions; it is unloaded with the last of them.
struct CudaKernel {
    signature: Signature,
    shape: Shape,
    function: Function,
    info: KernelInfo,
}

struct CudaBuffer {
    element: Element,
    len: u64,
    block: Arc<Block>,
}

/// A graph with what it works on, which must live as long.
struct RecordedGraph {
    graph: Graph,
    launches: u64,
    _blocks: Vec<Arc<Block>>,
    _functions: Vec<Function>,
}

/// A driver and its devices for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// CUDA version of the driver.
    pub version: (u32, u32),
    /// Facts of every device, or why it cannot be opened.
    pub devices: Vec<Result<Facts, String>>,
}

/// Looks at driver and devices, or says what is missing.
pub fn survey() -> Result<Survey, BackendError> {
    let driver = ffi::driver().map_err(no_driver)?;
    let open = |number| Device::open(number).map(|device| device.facts).map_err(|failure| failure.text);
    Ok(Survey { version: driver.version, devices: (0..driver.devices).map(open).collect() })
}

/// Compiles CUDA C++ for an architecture (90 for `sm_90`) and reports what every kernel uses. Needs no device.
pub fn compile_only(source: &str, architecture: u32, arithmetic: Arithmetic) -> Result<Compiled, BackendError> {
    let images = images_for(architecture, arithmetic)?;
    images.nvrtc.compile(source, "unit", &images.options(), images.form, &Stop::default())
}

/// Compiles kernels for an architecture as a device would have them, and reports what each uses. Needs no device.
pub fn compile_kernels(
    kernels: &[Kernel],
    architecture: u32,
    arithmetic: Arithmetic,
) -> Result<Compiled, BackendError> {
    let source = print::cuda_with_lines(kernels);
    let (images, all) = (images_for(architecture, arithmetic)?, kernels.iter().collect::<Vec<_>>());
    let compiled = images.compile(&all, &source.text, &Stop::default());
    compiled.map_err(|error| blame::name_kernel(error, &source))
}

/// A compiler for an architecture that NVRTC knows, which keeps nothing.
fn images_for(architecture: u32, arithmetic: Arithmetic) -> Result<Images, BackendError> {
    let nvrtc = Nvrtc::find()?;
    if !nvrtc.architectures.contains(&architecture) {
        let (major, minor) = nvrtc.version;
        let known: Vec<String> = nvrtc.architectures.iter().map(|known| format!("sm_{known}")).collect();
        let text = format!("NVRTC {major}.{minor} does not know sm_{architecture}; it knows {}", known.join(", "));
        return Err(BackendError::Unavailable(text));
    }
    Ok(Images { nvrtc, architecture, form: Form::Cubin, arithmetic, cache: Arc::new(Cache::none()) })
}

/// Compiles kernels for an architecture, or takes them from the cache, without a device; what a device would then load
/// is dropped. Returns what was done and how long it took.
pub fn build_only(
    kernels: &[Kernel],
    architecture: u32,
    arithmetic: Arithmetic,
    cache: &Arc<Cache>,
) -> Result<(Counters, CompileTimes), BackendError> {
    let images = Images { nvrtc: Nvrtc::find()?, architecture, form: Form::Cubin, arithmetic, cache: cache.clone() };
    built(&images, kernels, &Stop::default())
}

impl CudaBackend {
    /// Opens a device; `Unavailable` without driver, device or NVRTC.
    pub fn new(options: CudaOptions) -> Result<CudaBackend, BackendError> {
        let driver = ffi::driver().map_err(no_driver)?;
        if options.device >= driver.devices {
            let text = format!("there is no CUDA device {}; the driver sees {}", options.device, driver.devices);
            return Err(BackendError::Unavailable(text));
        }
        let nvrtc = Nvrtc::find()?;
        let device = Device::open(options.device).map_err(device_error)?;
        let capability = device.facts.capability;
        let (architecture, form) = nvrtc.choose(capability).ok_or_else(|| {
            let (major, minor) = nvrtc.version;
            let name = &device.facts.name;
            BackendError::Unavailable(format!(
                "NVRTC {major}.{minor} no longer compiles for {name} (sm_{capability}); use an older NVRTC"
            ))
        })?;
        Ok(CudaBackend {
            graphs: Slots::new(),
            kernels: Slots::new(),
            buffers: Slots::new(),
            pinned: device.pinned().map_err(device_error)?,
            device,
            images: Images {
                nvrtc,
                architecture,
                form,
                arithmetic: options.arithmetic,
                cache: options.cache.unwrap_or_else(|| Arc::new(Cache::of_user())),
            },
            stop: Stop::default(),
            counters: Counters::default(),
            times: CompileTimes::default(),
        })
    }

    /// Facts of the device.
    pub fn facts(&self) -> &Facts {
        &self.device.facts
    }

    /// Loads the kernels of a unit; in their order.
    fn load(&self, numbers: &[usize], image: Vec<u8>, kernels: &[Kernel]) -> Result<Vec<CudaKernel>, BackendError> {
        let module = self.device.load(image).map_err(|failure| self.load_error(&failure))?;
        let load = |&number: &usize| {
            let signature = Signature::of(&kernels[number]);
            let shape = self.shape(&signature)?;
            let function = self.device.function(&module, &signature.name, signature.dynamic_shared_bytes as u32);
            let function = function.map_err(device_error)?;
            let info = self.info(&signature, &function).map_err(device_error)?;
            self.check_cooperative(&signature, &info)?;
            Ok(CudaKernel { signature, shape, function, info })
        };
        numbers.iter().map(load).collect()
    }

    /// Grid and block within what CUDA can launch.
    fn shape(&self, signature: &Signature) -> Result<Shape, BackendError> {
        const MOST: [u64; 3] = [i32::MAX as u64, 65535, 65535];
        let mut grid = [0; 3];
        for axis in 0..3 {
            let blocks = signature.grid[axis];
            grid[axis] = u32::try_from(blocks).ok().filter(|_| blocks <= MOST[axis]).ok_or_else(|| {
                let name = &signature.name;
                BackendError::TooLarge(format!(
                    "kernel {name}: {blocks} blocks along axis {axis}; CUDA has {}",
                    MOST[axis]
                ))
            })?;
        }
        if signature.shared_bytes > u64::from(self.device.facts.shared_bytes) {
            return Err(BackendError::TooLarge(format!(
                "kernel {}: {} bytes of shared memory a block; {} has {}",
                signature.name, signature.shared_bytes, self.device.facts.name, self.device.facts.shared_bytes
            )));
        }
        Ok(Shape { grid, lanes: signature.lanes, cooperative: signature.cooperative })
    }

    fn info(&self, signature: &Signature, function: &Function) -> Result<KernelInfo, Failure> {
        let lanes = signature.lanes.iter().product();
        let [registers, shared_bytes, local_bytes] = function.resources()?;
        let blocks = function.resident_blocks(lanes)?;
        let capacity = f64::from(self.device.facts.lanes_per_multiprocessor);
        Ok(KernelInfo {
            name: signature.name.clone(),
            registers,
            shared_bytes,
            local_bytes,
            blocks_per_multiprocessor: blocks,
            occupancy: f64::from(blocks) * f64::from(lanes) / capacity,
        })
    }

    /// A grid barrier needs all blocks resident; launching more would fail with less of an explanation.
    fn check_cooperative(&self, signature: &Signature, info: &KernelInfo) -> Result<(), BackendError> {
        if !signature.cooperative {
            return Ok(());
        }
        let facts = &self.device.facts;
        if !facts.cooperative {
            let text = format!("kernel {}: {} has no grid barriers", signature.name, facts.name);
            return Err(BackendError::Unavailable(text));
        }
        let most = u64::from(info.blocks_per_multiprocessor) * u64::from(facts.multiprocessors);
        let blocks = signature.blocks()?;
        if blocks > most {
            let text = format!("kernel {}: a grid barrier over {blocks} blocks; {most} fit at once", signature.name);
            return Err(BackendError::TooLarge(text));
        }
        Ok(())
    }

    fn load_error(&self, failure: &Failure) -> BackendError {
        let (major, minor) = self.images.nvrtc.version;
        let hint = match ffi::driver() {
            Ok(driver) if driver.version < self.images.nvrtc.version => {
                let (have, of) = driver.version;
                format!(
                    "; NVRTC {major}.{minor} is newer than the driver (CUDA {have}.{of}): update one or use an older other"
                )
            }
            _ => String::new(),
        };
        BackendError::Device(format!("the compiled unit cannot be loaded: {}{hint}", failure.text))
    }

    fn buffer(&self, handle: BufferHandle) -> Result<&CudaBuffer, BackendError> {
        self.buffers.get(handle.0).ok_or_else(|| super::no_buffer(handle))
    }

    /// A buffer that a vector of the caller fits, and the bytes they have in common.
    fn range(&self, buffer: BufferHandle, vector: &DeviceVector) -> Result<(&Block, usize), BackendError> {
        let buffer = self.buffer(buffer)?;
        super::vector::same_element(vector.element(), buffer.element)?;
        super::fits(vector.len(), buffer.len)?;
        if buffer.block.contains(vector.address()) {
            return Err(BackendError::Argument(
                "a device vector is copied from or to the buffer it lies in".to_owned(),
            ));
        }
        let bytes = vector.len() * size_of(buffer.element);
        let inside = self.device.holds(vector.address(), bytes as u64).map_err(device_error)?;
        if !inside {
            let (address, len) = (vector.address(), vector.len());
            let text = format!("a device vector of {len} values at {address:#x} reaches beyond its allocation");
            return Err(BackendError::Argument(text));
        }
        Ok((&buffer.block, bytes))
    }

    /// A buffer as a vector of the device, for whoever fills or reads it there. Its memory is given back when both the
    /// buffer is freed and the vector dropped.
    pub fn lend(&self, buffer: BufferHandle) -> Result<DeviceVector, BackendError> {
        let buffer = self.buffer(buffer)?;
        Ok(DeviceVector::lent(buffer.block.clone(), buffer.len as usize, buffer.element))
    }

    /// Checks a launch and hands it over.
    fn with_launch(
        &self,
        kernel: KernelHandle,
        args: &[BufferHandle],
        take: impl FnOnce(&Function, &Shape, &[&Block]) -> Result<(), Failure>,
    ) -> Result<(), BackendError> {
        let kernel = self.kernels.get(kernel.0).ok_or_else(|| super::no_kernel(kernel))?;
        let facts = |buffer: &CudaBuffer| (buffer.element, buffer.len);
        let buffers = kernel.signature.take(args, |handle| self.buffer(handle), facts)?;
        let blocks: Vec<&Block> = buffers.iter().map(|buffer| &*buffer.block).collect();
        take(&kernel.function, &kernel.shape, &blocks)
            .map_err(|failure| BackendError::Device(format!("kernel {}: {}", kernel.signature.name, failure.text)))
    }

    fn graph(&self, recorded: &Recorded) -> Result<&RecordedGraph, BackendError> {
        let graph = recorded.graph.and_then(|number| self.graphs.get(number));
        graph.ok_or_else(|| BackendError::Argument("there is no such recorded list".to_owned()))
    }
}

/// NVRTC in any thread; the card measures meanwhile.
impl Build for Images {
    fn build(&self, kernels: &[Kernel], stop: &Stop) -> Result<Vec<u8>, BackendError> {
        let all: Vec<&Kernel> = kernels.iter().collect();
        let compile = |unit: &Unit| self.compile(&all, &unit.source.text, stop).map(|compiled| compiled.image);
        units::build_one(kernels, print::cuda_with_lines, compile)
    }

    fn warm(&self, kernels: &[Kernel], stop: &Stop) -> Result<(), BackendError> {
        built(self, kernels, stop).map(drop)
    }

    fn beside(&self) -> bool {
        true
    }
}

/// Builds kernels without a device; what was done, and how long it took.
fn built(images: &Images, kernels: &[Kernel], stop: &Stop) -> Result<(Counters, CompileTimes), BackendError> {
    let (mut counters, mut times) = (Counters::default(), CompileTimes::default());
    let one = |unit: &Unit| images.of(unit, kernels, stop);
    units::build(kernels, print::cuda_with_lines, &mut counters, &mut times, one)?;
    Ok((counters, times))
}

impl Backend for CudaBackend {
    fn describe(&self) -> String {
        let facts = &self.device.facts;
        let (major, minor) = self.images.nvrtc.version;
        format!("cuda: {} (sm_{}), NVRTC {major}.{minor}", facts.name, facts.capability)
    }

    fn compile(&mut self, kernels: &[Kernel]) -> Result<Vec<KernelHandle>, BackendError> {
        for kernel in kernels {
            self.shape(&Signature::of(kernel))?;
        }
        let (counters, times, images) = (&mut self.counters, &mut self.times, &self.images);
        let stop = &self.stop;
        let one = |unit: &Unit| images.of(unit, kernels, stop);
        let units = units::build(kernels, print::cuda_with_lines, counters, times, one)?;
        let begin = Instant::now();
        let mut loaded: Vec<Option<CudaKernel>> = kernels.iter().map(|_| None).collect();
        for (numbers, image) in units {
            for (&number, kernel) in numbers.iter().zip(self.load(&numbers, image, kernels)?) {
                loaded[number] = Some(kernel);
            }
        }
        let kernels = loaded.into_iter().flatten().map(|kernel| KernelHandle(self.kernels.put(kernel))).collect();
        self.times.load += begin.elapsed();
        Ok(kernels)
    }

    fn limit(&mut self, stop: &Stop) {
        self.stop = stop.clone();
    }

    fn release(&mut self, kernels: &[KernelHandle]) {
        for handle in kernels {
            self.kernels.take(handle.0);
        }
    }

    fn allocate(&mut self, element: Element, len: u64) -> Result<BufferHandle, BackendError> {
        let name = &self.device.facts.name;
        let bytes = bytes_of(element, len).ok_or_else(|| super::too_large(name, element, len, None))?;
        let block = self.device.zeroed(bytes).map_err(|failure| match failure.out_of_memory {
            true => super::too_large(name, element, len, self.device.free_memory().ok()),
            false => device_error(failure),
        })?;
        Ok(BufferHandle(self.buffers.put(CudaBuffer { element, len, block: Arc::new(block) })))
    }

    fn free(&mut self, buffer: BufferHandle) {
        self.buffers.take(buffer.0);
    }

    fn write(&mut self, buffer: BufferHandle, values: &[f64]) -> Result<(), BackendError> {
        let target = self.buffers.get(buffer.0).ok_or_else(|| super::no_buffer(buffer))?;
        super::fits(values.len(), target.len)?;
        let size = size_of(target.element);
        let mut wrong = None;
        let fill = |offset: usize, piece: &mut [u8]| {
            let values = &values[offset / size..(offset + piece.len()) / size];
            if let Err(why) = encode(target.element, values, piece) {
                wrong.get_or_insert(why);
            }
        };
        self.pinned.write(&target.block, values.len() * size, fill).map_err(device_error)?;
        wrong.map_or(Ok(()), |why| Err(BackendError::Argument(why)))
    }

    fn write_integers(&mut self, buffer: BufferHandle, values: Integers) -> Result<(), BackendError> {
        let target = self.buffers.get(buffer.0).ok_or_else(|| super::no_buffer(buffer))?;
        super::fits(values.len(), target.len)?;
        values.fits(target.element).map_err(BackendError::Argument)?;
        let size = size_of(target.element);
        let fill = |offset: usize, piece: &mut [u8]| values.encode(offset / size, piece);
        self.pinned.write(&target.block, values.len() * size, fill).map_err(device_error)
    }

    fn read(&mut self, buffer: BufferHandle, values: &mut [f64]) -> Result<(), BackendError> {
        let source = self.buffers.get(buffer.0).ok_or_else(|| super::no_buffer(buffer))?;
        super::fits(values.len(), source.len)?;
        let size = size_of(source.element);
        let bytes = values.len() * size;
        let take = |offset: usize, piece: &[u8]| {
            decode(source.element, piece, &mut values[offset / size..(offset + piece.len()) / size]);
        };
        self.pinned.read(&source.block, bytes, take).map_err(device_error)
    }

    fn write_from(&mut self, buffer: BufferHandle, from: VectorRef) -> Result<(), BackendError> {
        let VectorRef::Device(vector) = from else { return self.write(buffer, &from.on_host()?) };
        let (block, bytes) = self.range(buffer, vector)?;
        self.device.copy_in(vector.address(), block, bytes).map_err(device_error)?;
        self.synchronize()
    }

    fn read_into(&mut self, buffer: BufferHandle, into: VectorMut) -> Result<(), BackendError> {
        let VectorMut::Device(vector) = into else { return into.fill(|values| self.read(buffer, values)) };
        let (block, bytes) = self.range(buffer, vector)?;
        self.device.copy_out(block, vector.address(), bytes).map_err(device_error)?;
        self.synchronize()
    }

    fn launch(&mut self, kernel: KernelHandle, args: &[BufferHandle]) -> Result<(), BackendError> {
        self.with_launch(kernel, args, |function, shape, blocks| self.device.launch(function, shape, blocks))?;
        self.counters.launches += 1;
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), BackendError> {
        self.device.synchronize().map_err(device_error)
    }

    fn target(&self) -> Target {
        Target::Cuda
    }

    fn record(&mut self, launches: &[(KernelHandle, Vec<BufferHandle>)]) -> Result<Recorded, BackendError> {
        let mut graph = self.device.graph()?;
        for (kernel, args) in launches {
            self.with_launch(*kernel, args, |function, shape, blocks| graph.add(function, shape, blocks))?;
        }
        graph.finish()?;
        let kernels = launches.iter().filter_map(|(kernel, _)| self.kernels.get(kernel.0));
        let buffers = launches.iter().flat_map(|(_, args)| args).filter_map(|handle| self.buffers.get(handle.0));
        let recorded = RecordedGraph {
            graph,
            launches: launches.len() as u64,
            _blocks: buffers.map(|buffer| buffer.block.clone()).collect(),
            _functions: kernels.map(|kernel| kernel.function.clone()).collect(),
        };
        Ok(Recorded { launches: launches.to_vec(), graph: Some(self.graphs.put(recorded)) })
    }

    fn replay(&mut self, recorded: &Recorded) -> Result<(), BackendError> {
        let recorded = self.graph(recorded)?;
        recorded.graph.launch().map_err(device_error)?;
        self.counters.launches += recorded.launches;
        Ok(())
    }

    fn forget(&mut self, recorded: Recorded) {
        if let Some(number) = recorded.graph {
            self.graphs.take(number);
        }
    }

    fn time(&mut self, recorded: &Recorded) -> Result<f64, BackendError> {
        let start = self.device.mark().map_err(device_error)?;
        self.replay(recorded)?;
        let end = self.device.mark().map_err(device_error)?;
        start.seconds_to(&end).map_err(device_error)
    }

    fn kernel_info(&self, kernel: KernelHandle) -> Option<KernelInfo> {
        self.kernels.get(kernel.0).map(|kernel| kernel.info.clone())
    }

    fn compile_times(&self) -> CompileTimes {
        self.times
    }

    fn counters(&self) -> Counters {
        let live = self.device.live();
        Counters {
            modules: live.modules.load(Relaxed),
            buffers: live.blocks.load(Relaxed),
            bytes: live.bytes.load(Relaxed),
            ..self.counters
        }
    }

    fn builder(&self) -> Option<Arc<dyn Build>> {
        Some(Arc::new(self.images.clone()))
    }

    fn load_built(&mut self, kernels: &[Kernel], unit: &[u8]) -> Result<Vec<KernelHandle>, BackendError> {
        let loaded = self.load(&(0..kernels.len()).collect::<Vec<_>>(), unit.to_vec(), kernels)?;
        Ok(loaded.into_iter().map(|kernel| KernelHandle(self.kernels.put(kernel))).collect())
    }

    fn identity(&self) -> Identity {
        let facts = &self.device.facts;
        let (major, minor) = self.images.nvrtc.version;
        let driver = ffi::driver().map_or_else(|why| why, |driver| format!("{:?}", driver.version));
        Identity {
            device: format!("{} (sm_{})", facts.name, facts.capability),
            driver,
            compiler: format!("NVRTC {major}.{minor}"),
            options: self.images.options(),
        }
    }

    fn notices(&mut self) -> Vec<String> {
        self.images.cache.take_notices()
    }
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> BackendError {
        device_error(failure)
    }
}

fn device_error(failure: Failure) -> BackendError {
    match failure.out_of_memory {
        true => BackendError::TooLarge(format!("the device has no memory left ({})", failure.text)),
        false => BackendError::Device(failure.text),
    }
}

fn no_driver(why: String) -> BackendError {
    BackendError::Unavailable(format!("{why}; {DRIVER_HINT}"))
}
