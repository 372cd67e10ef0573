//! The CUDA driver through cudarc; [`nvrtc`](super::nvrtc) and [`cusparse`](super::cusparse) hold the rest of it.
//!
//! What makes the calls sound: nothing is called before [`driver`] has found the library; memory, modules, graphs and
//! events belong to values that keep the context alive and give them back when dropped; work is ordered on one
//! stream, and whatever is freed is freed after that stream has finished; the arguments of a launch were compared with
//! the kernel's signature.
#![allow(unsafe_code)]

use cudarc::driver::sys::{self, CUdevice_attribute as Attribute, CUfunction_attribute as FunctionAttribute};
use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaModule, CudaStream, DriverError, result};
use cudarc::nvrtc::Ptx;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Oldest driver that has all that is called here, as CUDA version.
const OLDEST: i32 = 12000;
/// Bytes of each of the two pinned buffers that transfers go through.
const PINNED: usize = 4 << 20;

/// An error of the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Name and text, as the driver gives them.
    pub text: String,
    /// Whether memory ran out.
    pub out_of_memory: bool,
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Failure {
        let out_of_memory = error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        let said =
            |text: Result<&std::ffi::CStr, DriverError>| text.ok().map(|text| text.to_string_lossy().into_owned());
        let name = said(error.error_name()).unwrap_or_else(|| format!("CUDA error {}", error.0 as u32));
        let text = said(error.error_string()).map_or_else(|| name.clone(), |text| format!("{name}: {text}"));
        Failure { text, out_of_memory }
    }
}

/// The driver's CUDA version and the number of devices it sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Major and minor version.
    pub version: (u32, u32),
    /// Number of devices, at least one.
    pub devices: usize,
}

/// Finds driver and devices, or says what is missing.
pub fn driver() -> Result<Driver, String> {
    // SAFETY: opens and closes libcuda, whose initialisers are the driver's own.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no CUDA driver (libcuda.so.1)".to_owned());
    }
    let mut version = 0;
    // SAFETY: the library is present, and every driver has this function.
    let known = unsafe { sys::cuDriverGetVersion(&raw mut version) }.result();
    if known.is_err() || version < OLDEST {
        let (have, want) = (text_of(version), text_of(OLDEST));
        return Err(format!("the CUDA driver is for CUDA {have}; {want} or newer is needed"));
    }
    let devices = CudaContext::device_count().map_err(|error| Failure::from(error).text)?;
    if devices < 1 {
        return Err("the CUDA driver sees no device (is CUDA_VISIBLE_DEVICES set?)".to_owned());
    }
    Ok(Driver { version: split(version), devices: devices as usize })
}

fn split(version: i32) -> (u32, u32) {
    ((version / 1000) as u32, (version % 1000 / 10) as u32)
}

fn text_of(version: i32) -> String {
    let (major, minor) = split(version);
    format!("{major}.{minor}")
}

/// Facts of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Name of the product.
    pub name: String,
    /// Compute capability, 90 for 9.0.
    pub capability: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Lanes a multiprocessor can hold.
    pub lanes_per_multiprocessor: u32,
    /// Bytes of shared memory a block may ask for.
    pub shared_bytes: u32,
    /// Whether blocks can wait for each other.
    pub cooperative: bool,
}

/// A device with a context and a stream.
#[derive(Debug)]
pub struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    live: Arc<Live>,
    /// Facts.
    pub facts: Facts,
}

/// What is on the device now; shows that memory stays flat.
#[derive(Debug, Default)]
pub struct Live {
    /// Loaded modules.
    pub modules: AtomicU64,
    /// Allocations.
    pub blocks: AtomicU64,
    /// Bytes of them.
    pub bytes: AtomicU64,
}

impl Device {
    /// Opens a device. [`driver`] must have found it.
    pub fn open(ordinal: usize) -> Result<Device, Failure> {
        let context = CudaContext::new(ordinal)?;
        let attribute = |attribute| context.attribute(attribute).map(|value| value as u32);
        let (major, minor) = context.compute_capability()?;
        let facts = Facts {
            name: context.name()?,
            capability: (major * 10 + minor) as u32,
            memory: context.total_mem()? as u64,
            multiprocessors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            lanes_per_multiprocessor: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
            shared_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            cooperative: attribute(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
        };
        // SAFETY: events only track cudarc's slices, and there are none here. With them, making a stream would wait for
        // the whole context, and so for every other back end of this process.
        unsafe { context.disable_event_tracking() };
        // A stream of our own: work on the default one waits for all others.
        let stream = context.new_stream()?;
        Ok(Device { context, stream, live: Arc::default(), facts })
    }

    /// What is on the device now.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// The stream that everything is enqueued on.
    pub(super) fn stream(&self) -> &CudaStream {
        &self.stream
    }

    /// Enqueues setting every byte of a block.
    pub(super) fn fill(&self, block: &Block, byte: u8) -> Result<(), Failure> {
        self.context.bind_to_thread()?;
        let bytes = block.bytes as usize;
        // SAFETY: within the allocation; later work on the stream comes after it.
        Ok(unsafe { result::memset_d8_async(block.address, byte, bytes, self.stream.cu_stream()) }?)
    }

    /// Bytes of device memory that are free.
    pub fn free_memory(&self) -> Result<u64, Failure> {
        Ok(self.context.mem_get_info()?.0 as u64)
    }

    /// Waits for everything enqueued.
    pub fn synchronize(&self) -> Result<(), Failure> {
        Ok(self.stream.synchronize()?)
    }

    /// Allocates memory and enqueues zeroing it.
    pub fn zeroed(&self, bytes: usize) -> Result<Block, Failure> {
        self.context.bind_to_thread()?;
        // SAFETY: the size is not zero and the context is current.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }?;
        let block = Block { address, bytes: bytes as u64, stream: self.stream.clone(), live: self.live.clone() };
        self.live.blocks.fetch_add(1, Relaxed);
        self.live.bytes.fetch_add(bytes as u64, Relaxed);
        // SAFETY: within the allocation; later work on the stream comes after it.
        unsafe { result::memset_d8_async(address, 0, bytes.max(1), self.stream.cu_stream()) }?;
        Ok(block)
    }

    /// Whether a range of addresses lies within one allocation of the device; an error where there is none.
    pub fn holds(&self, address: u64, bytes: u64) -> Result<bool, Failure> {
        self.context.bind_to_thread()?;
        let (mut base, mut size) = (0, 0_usize);
        // SAFETY: the driver looks the address up and reads nothing there.
        unsafe { sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut size, address) }.result()?;
        Ok(address.checked_add(bytes).is_some_and(|end| end <= base + size as u64))
    }

    /// Enqueues copying bytes from an address, of which [`holds`](Self::holds) was asked, to the start of a block.
    pub fn copy_in(&self, from: u64, to: &Block, bytes: usize) -> Result<(), Failure> {
        self.context.bind_to_thread()?;
        // SAFETY: both ranges lie in allocations that live, and do not overlap: the caller's lives by the promise of
        // `DeviceVector::from_raw` or because the vector owns it, and the back end waits before its call returns.
        Ok(unsafe { result::memcpy_dtod_async(to.address, from, bytes, self.stream.cu_stream()) }?)
    }

    /// The other way round.
    pub fn copy_out(&self, from: &Block, to: u64, bytes: usize) -> Result<(), Failure> {
        self.context.bind_to_thread()?;
        // SAFETY: as above.
        Ok(unsafe { result::memcpy_dtod_async(to, from.address, bytes, self.stream.cu_stream()) }?)
    }

    /// Loads a CUBIN, or PTX that ends with a zero byte.
    pub fn load(&self, image: Vec<u8>) -> Result<Arc<Module>, Failure> {
        let module = self.context.load_module(Ptx::from_binary(image))?;
        self.live.modules.fetch_add(1, Relaxed);
        Ok(Arc::new(Module { module, stream: self.stream.clone(), live: self.live.clone() }))
    }

    /// Looks a kernel up in a module; `dynamic` bytes of shared memory are passed at its launch.
    pub fn function(&self, module: &Arc<Module>, name: &str, dynamic: u32) -> Result<Function, Failure> {
        let function = module.module.load_function(name)?;
        if dynamic > 0 {
            let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to a loaded module.
            unsafe { result::function::set_function_attribute(function.cu_function(), attribute, dynamic as i32) }?;
        }
        Ok(Function { function, dynamic, _module: module.clone() })
    }

    /// Enqueues a kernel. The caller has checked that `blocks` live and fit the kernel's signature.
    pub fn launch(&self, function: &Function, shape: &Shape, blocks: &[&Block]) -> Result<(), Failure> {
        self.context.bind_to_thread()?;
        let mut params: Vec<*mut c_void> =
            blocks.iter().map(|block| (&raw const block.address).cast_mut().cast::<c_void>()).collect();
        let (grid, lanes) = (shape.grid, shape.lanes);
        let (handle, stream) = (function.function.cu_function(), self.stream.cu_stream());
        let dynamic = function.dynamic;
        // SAFETY: one pointer per parameter of the kernel, each to a device address that lives during this call, in
        // which the driver copies it; memory and module outlive the launch because both synchronise before they go.
        Ok(unsafe {
            if shape.cooperative {
                result::launch_cooperative_kernel(handle, grid.into(), lanes.into(), dynamic, stream, &mut params)
            } else {
                result::launch_kernel(handle, grid.into(), lanes.into(), dynamic, stream, &mut params)
            }
        }?)
    }

    /// A graph without launches. They are added one by one: a capture of the stream would break when another thread of
    /// the process waits for the whole device meanwhile.
    pub fn graph(&self) -> Result<Graph, Failure> {
        self.context.bind_to_thread()?;
        let mut graph = std::ptr::null_mut();
        // SAFETY: the context is current; the graph is destroyed once, by `Graph`.
        unsafe { sys::cuGraphCreate(&raw mut graph, 0) }.result()?;
        Ok(Graph { graph, last: None, ready: None, stream: self.stream.clone() })
    }

    /// Marks a point of the stream, for timing.
    pub fn mark(&self) -> Result<Mark, Failure> {
        Ok(Mark(self.stream.record_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))?))
    }

    /// The pinned buffers of transfers.
    pub fn pinned(&self) -> Result<Pinned, Failure> {
        self.context.bind_to_thread()?;
        Ok(Pinned { halves: [Half::new(&self.stream)?, Half::new(&self.stream)?] })
    }
}

/// Grid and block of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Blocks.
    pub grid: [u32; 3],
    /// Lanes of a block.
    pub lanes: [u32; 3],
    /// Whether blocks wait for each other.
    pub cooperative: bool,
}

/// Device memory.
#[derive(Debug)]
pub struct Block {
    address: sys::CUdeviceptr,
    bytes: u64,
    stream: Arc<CudaStream>,
    live: Arc<Live>,
}

impl Block {
    /// Its device address.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Whether an address lies in it.
    pub(super) fn contains(&self, address: u64) -> bool {
        (self.address..self.address + self.bytes).contains(&address)
    }

    /// Its address as other libraries take it.
    pub(super) fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let context = self.stream.context();
        context.record_err(self.stream.synchronize());
        // SAFETY: allocated by `zeroed`, freed once, and the stream has finished with it.
        context.record_err(unsafe { result::free_sync(self.address) });
        self.live.blocks.fetch_sub(1, Relaxed);
        self.live.bytes.fetch_sub(self.bytes, Relaxed);
    }
}

/// A loaded unit, unloaded with its last function.
#[derive(Debug)]
pub struct Module {
    module: Arc<CudaModule>,
    stream: Arc<CudaStream>,
    live: Arc<Live>,
}

impl Drop for Module {
    fn drop(&mut self) {
        // Its kernels may still be running; the module itself goes right after this.
        self.stream.context().record_err(self.stream.synchronize());
        self.live.modules.fetch_sub(1, Relaxed);
    }
}

/// A kernel of a loaded module, which it keeps loaded.
#[derive(Debug, Clone)]
pub struct Function {
    function: CudaFunction,
    dynamic: u32,
    /// Dropped after the function, so that the module waits for the stream before it is unloaded.
    _module: Arc<Module>,
}

impl Function {
    /// Registers a lane, bytes of shared memory a block (static and dynamic), bytes of local memory a lane.
    pub fn resources(&self) -> Result<[u32; 3], Failure> {
        let attribute = |attribute| {
            // SAFETY: the function belongs to a loaded module.
            let value = unsafe { result::function::get_function_attribute(self.function.cu_function(), attribute) };
            value.map(|value| value as u32)
        };
        let registers = attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?;
        let shared = attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let local = attribute(FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?;
        Ok([registers, shared + self.dynamic, local])
    }

    /// Blocks of so many lanes that fit on a multiprocessor.
    pub fn resident_blocks(&self, lanes: u32) -> Result<u32, Failure> {
        Ok(self.function.occupancy_max_active_blocks_per_multiprocessor(lanes, self.dynamic as usize, None)?)
    }
}

/// A list of launches the device holds.
pub struct Graph {
    graph: sys::CUgraph,
    /// The launch that the next one follows.
    last: Option<sys::CUgraphNode>,
    /// What is enqueued, once it was made ready.
    ready: Option<sys::CUgraphExec>,
    stream: Arc<CudaStream>,
}

impl Graph {
    /// Adds a launch after those that are there. The caller has checked that `blocks` fit the kernel's signature, and
    /// keeps them and the function for as long as the graph.
    pub fn add(&mut self, function: &Function, shape: &Shape, blocks: &[&Block]) -> Result<(), Failure> {
        let mut params: Vec<*mut c_void> =
            blocks.iter().map(|block| (&raw const block.address).cast_mut().cast::<c_void>()).collect();
        let node = sys::CUDA_KERNEL_NODE_PARAMS {
            func: function.function.cu_function(),
            gridDimX: shape.grid[0],
            gridDimY: shape.grid[1],
            gridDimZ: shape.grid[2],
            blockDimX: shape.lanes[0],
            blockDimY: shape.lanes[1],
            blockDimZ: shape.lanes[2],
            sharedMemBytes: function.dynamic,
            kernelParams: params.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        let mut added = std::ptr::null_mut();
        // SAFETY: the graph lives, the node before is one of its nodes; one pointer per parameter of the kernel, each to a
        // device address that lives during this call, in which the driver copies it.
        unsafe {
            add_kernel_node(&mut added, self.graph, self.last.as_slice(), &node).result()?;
            if shape.cooperative {
                let attribute = sys::CUkernelNodeAttrID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
                let value = sys::CUkernelNodeAttrValue { cooperative: 1 };
                sys::cuGraphKernelNodeSetAttribute(added, attribute, &raw const value).result()?;
            }
        }
        self.last = Some(added);
        Ok(())
    }

    /// Makes it ready to be enqueued.
    pub fn finish(&mut self) -> Result<(), Failure> {
        // SAFETY: the graph lives; what is made of it is destroyed once, when this goes.
        self.ready = Some(unsafe { result::graph::instantiate(self.graph, sys::CUgraphInstantiate_flags(0)) }?);
        Ok(())
    }

    /// Enqueues it. It must have been finished.
    pub fn launch(&self) -> Result<(), Failure> {
        let unfinished = || Failure { text: "the graph was not finished".to_owned(), out_of_memory: false };
        let ready = self.ready.ok_or_else(unfinished)?;
        self.stream.context().bind_to_thread()?;
        // SAFETY: both live, and what the kernels work on does, by the promise at `add`.
        Ok(unsafe { result::graph::launch(ready, self.stream.cu_stream()) }?)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let context = self.stream.context();
        // The driver would finish a running graph by itself; the memory it works on must not go before.
        context.record_err(self.stream.synchronize());
        if let Some(ready) = self.ready.take() {
            // SAFETY: made by `finish`, destroyed once, and the stream has finished with it.
            context.record_err(unsafe { result::graph::exec_destroy(ready) });
        }
        // SAFETY: made by `Device::graph`, destroyed once.
        context.record_err(unsafe { result::graph::destroy(self.graph) });
    }
}

/// The driver's function for another kernel in a graph, under the name that it has since CUDA 12 or its older one, which
/// reads the first fields only, the same ones; cudarc knows only the newer and would panic on an older driver.
unsafe fn add_kernel_node(
    added: &mut sys::CUgraphNode,
    graph: sys::CUgraph,
    after: &[sys::CUgraphNode],
    node: &sys::CUDA_KERNEL_NODE_PARAMS,
) -> sys::CUresult {
    type Add = unsafe extern "C" fn(
        *mut sys::CUgraphNode,
        sys::CUgraph,
        *const sys::CUgraphNode,
        usize,
        *const sys::CUDA_KERNEL_NODE_PARAMS,
    ) -> sys::CUresult;
    // SAFETY: a graph exists, so the library is loaded; both names have this type.
    unsafe {
        let library = sys::culib();
        let newer = library.get::<Add>(b"cuGraphAddKernelNode_v2");
        match newer.or_else(|_| library.get::<Add>(b"cuGraphAddKernelNode")) {
            Ok(function) => function(added, graph, after.as_ptr(), after.len(), node),
            Err(_) => sys::CUresult::CUDA_ERROR_NOT_FOUND,
        }
    }
}

/// A point of the stream.
#[derive(Debug)]
pub struct Mark(CudaEvent);

impl Mark {
    /// Seconds from this mark to a later one; waits for both.
    pub fn seconds_to(&self, end: &Mark) -> Result<f64, Failure> {
        self.0.synchronize()?;
        end.0.synchronize()?;
        let mut milliseconds = 0.0_f32;
        // SAFETY: both events are recorded on this context's stream, were made with timing, and are complete.
        unsafe { elapsed(&mut milliseconds, self.0.cu_event(), end.0.cu_event()) }.result()?;
        Ok(f64::from(milliseconds) / 1e3)
    }
}

/// The driver's function for the time between events, under its newer name (12.8) or its older one; cudarc knows only
/// the newer and would panic on an older driver.
unsafe fn elapsed(milliseconds: &mut f32, start: sys::CUevent, end: sys::CUevent) -> sys::CUresult {
    type Elapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;
    // SAFETY: events exist, so the library is loaded; both names have this type.
    unsafe {
        let library = sys::culib();
        let newer = library.get::<Elapsed>(b"cuEventElapsedTime_v2");
        match newer.or_else(|_| library.get::<Elapsed>(b"cuEventElapsedTime")) {
            Ok(function) => function(milliseconds, start, end),
            Err(_) => sys::CUresult::CUDA_ERROR_NOT_FOUND,
        }
    }
}

/// Two pinned buffers that transfers alternate between: while one is filled or emptied, the other is copied. Not
/// write-combined, since results are read from them.
#[derive(Debug)]
pub struct Pinned {
    halves: [Half; 2],
}

#[derive(Debug)]
struct Half {
    start: *mut u8,
    /// Copies from or to this half so far are done when this event is.
    done: CudaEvent,
    stream: Arc<CudaStream>,
}

impl Half {
    fn new(stream: &Arc<CudaStream>) -> Result<Half, Failure> {
        let done = stream.context().new_event(None)?;
        // SAFETY: the context is current.
        let start = unsafe { result::malloc_host(PINNED, 0) }?.cast::<u8>();
        let half = Half { start, done, stream: stream.clone() };
        // SAFETY: allocated with this size; bytes must be initialised before they are seen as a slice.
        unsafe { start.write_bytes(0, PINNED) };
        Ok(half)
    }

    /// Waits for earlier copies and gives the bytes.
    fn bytes(&mut self, len: usize) -> Result<&mut [u8], Failure> {
        self.done.synchronize()?;
        // SAFETY: `len` is at most PINNED, the bytes are initialised, and no copy is under way.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start, len.min(PINNED)) })
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let context = self.stream.context();
        context.record_err(self.stream.synchronize());
        // SAFETY: allocated by `malloc_host`, freed once, and no copy is under way.
        context.record_err(unsafe { result::free_host(self.start.cast()) });
    }
}

impl Pinned {
    /// Copies `bytes` bytes to the start of a block, piece by piece: `fill(offset, piece)` provides them. Returns when
    /// the last piece is enqueued.
    pub fn write(&mut self, to: &Block, bytes: usize, mut fill: impl FnMut(usize, &mut [u8])) -> Result<(), Failure> {
        to.stream.context().bind_to_thread()?;
        for (number, offset) in (0..bytes).step_by(PINNED).enumerate() {
            let half = &mut self.halves[number % 2];
            let piece = half.bytes(PINNED.min(bytes - offset))?;
            fill(offset, piece);
            // SAFETY: within the block; the pinned bytes are not touched before `done`.
            unsafe { result::memcpy_htod_async(to.address + offset as u64, piece, to.stream.cu_stream()) }?;
            half.done.record(&to.stream)?;
        }
        Ok(())
    }

    /// Copies `bytes` bytes from the start of a block, piece by piece: `take(offset, piece)` receives them.
    pub fn read(&mut self, from: &Block, bytes: usize, mut take: impl FnMut(usize, &[u8])) -> Result<(), Failure> {
        from.stream.context().bind_to_thread()?;
        let offsets: Vec<usize> = (0..bytes).step_by(PINNED).collect();
        for number in 0..=offsets.len() {
            if let Some(&offset) = offsets.get(number) {
                let half = &mut self.halves[number % 2];
                let piece = half.bytes(PINNED.min(bytes - offset))?;
                // SAFETY: within the block; the pinned bytes are not touched before `done`.
                unsafe { result::memcpy_dtoh_async(piece, from.address + offset as u64, from.stream.cu_stream()) }?;
                half.done.record(&from.stream)?;
            }
            // The piece before is taken while this one is copied.
            if let Some(&offset) = number.checked_sub(1).and_then(|before| offsets.get(before)) {
                let half = &mut self.halves[(number - 1) % 2];
                take(offset, half.bytes(PINNED.min(bytes - offset))?);
            }
        }
        Ok(())
    }
}
