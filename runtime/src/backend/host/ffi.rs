//! Loaded libraries and raw memory of the host: with `pool.rs` all that is `unsafe` here.
//!
//! What makes the calls sound: a [`Library`] keeps its library loaded as long as its entries can be called; memory is
//! owned by [`Memory`] and handed out as slices only between calls; a call runs generated code, which touches its
//! arguments within the extents of its signature (kernels are verified before they are printed, and
//! [`Signature::check`](crate::backend::signature::Signature::check) compares every launch with the signature).
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;

/// What the C printer makes of a kernel: runs one block on the buffers.
type Run = unsafe extern "C" fn(block_x: i64, block_y: i64, block_z: i64, buffers: *const *mut c_void);

/// A loaded unit with the entries of its kernels.
#[derive(Debug)]
pub struct Library {
    entries: Vec<Run>,
    /// Dropped, and so unloaded, after the entries.
    _library: libloading::Library,
}

impl Library {
    /// Loads a library and looks its kernels up, in order.
    pub fn load(path: &Path, kernels: &[&str]) -> Result<Library, String> {
        // SAFETY: the library was compiled from generated C, which has no constructors or destructors.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
        let find = |name: &&str| {
            // SAFETY: the printer gives kernels exactly the type `Run`.
            let symbol = unsafe { library.get::<Run>(name.as_bytes()) };
            symbol.map(|run| *run).map_err(|error| error.to_string())
        };
        let entries = kernels.iter().map(find).collect::<Result<Vec<Run>, String>>()?;
        Ok(Library { entries, _library: library })
    }

    /// A call of a kernel on a grid with buffers, ready to be made for ranges of blocks by several threads.
    pub fn call(&self, kernel: usize, grid: [u64; 3], buffers: &[&Memory]) -> Call<'_> {
        let pointers = buffers.iter().map(|memory| memory.start.as_ptr().cast::<c_void>()).collect();
        Call { run: self.entries[kernel], grid, pointers, _library: self }
    }
}

/// A kernel with its grid and buffers.
pub struct Call<'unit> {
    run: Run,
    grid: [u64; 3],
    pointers: Vec<*mut c_void>,
    _library: &'unit Library,
}

// SAFETY: the pointers are only passed to generated code, whose blocks do not write what others touch (an invariant
// of verified kernels), so blocks may run on any thread.
unsafe impl Sync for Call<'_> {}

impl Call<'_> {
    /// Runs blocks `from..to`, numbered x fastest.
    pub fn blocks(&self, from: u64, to: u64) {
        let [width, height, _] = self.grid;
        for block in from..to {
            let (x, y, z) = (block % width, block / width % height, block / width / height);
            // SAFETY: number, types and extents of the buffers were checked against the signature; they live in the
            // back end that makes this call and outlive it. The block lies in the grid, whose size is below 2^63.
            unsafe { (self.run)(x as i64, y as i64, z as i64, self.pointers.as_ptr()) }
        }
    }
}

/// Bytes aligned for vector instructions and cache lines.
#[derive(Debug)]
pub struct Memory {
    /// First byte.
    start: NonNull<u8>,
    bytes: usize,
    /// Of the allocation, which ends with the last byte.
    layout: Layout,
}

// SAFETY: `Memory` owns its bytes as a `Vec<u8>` does.
unsafe impl Send for Memory {}
// SAFETY: shared access only reads.
unsafe impl Sync for Memory {}

impl Memory {
    /// Alignment of every buffer.
    pub const ALIGNMENT: usize = 64;
    /// Alignment of large buffers, which ask for pages of this size: a sweep along the slowest axis meets a new page of
    /// the usual size at every point.
    pub const HUGE: usize = 2 << 20;
    /// Colours of large buffers: how many start at different distances from such a page, and how far apart. Elements of
    /// one number in vectors whose sizes are powers of two would otherwise fall into one set of a cache, which holds
    /// eight lines or so, fewer than a sweep over several vectors and their neighbours touches at a point. The distance
    /// spreads the colours over the sets of caches with ways of 4 KiB to 64 KiB.
    const COLOURS: (u64, usize) = (16, 4096 + 5 * 64);

    /// Whether buffers of this size have large pages and a colour.
    pub fn is_large(bytes: usize) -> bool {
        bytes >= 2 * Self::HUGE
    }

    /// Zeroed bytes of a colour (any number); `None` when the system has not enough memory. `each` is called once with a
    /// function that zeroes bytes `from..to` and must have it do so for parts that cover `0..bytes`: whoever zeroes a page
    /// first decides which memory bank it lies in, so the parts are those that kernels will work on.
    pub fn zeroed(bytes: usize, colour: u64, each: impl FnOnce(u64, &(dyn Fn(u64, u64) + Sync))) -> Option<Memory> {
        let bytes = bytes.max(1);
        let large = Self::is_large(bytes);
        let (colours, apart) = Self::COLOURS;
        let skipped = if large { (colour % colours) as usize * apart } else { 0 };
        let align = if large { Self::HUGE } else { Self::ALIGNMENT };
        let layout = Layout::from_size_align(bytes.checked_add(skipped)?, align).ok()?;
        // SAFETY: the size is not zero.
        let base = NonNull::new(unsafe { std::alloc::alloc(layout) })?;
        // SAFETY: the allocation is longer than what is skipped.
        let start = unsafe { base.add(skipped) };
        let memory = Memory { start, bytes, layout };
        if large {
            memory.ask_for_huge_pages();
        }
        let shared = &memory;
        each(bytes as u64, &|from, to| {
            let (from, to) = (from as usize, (to as usize).min(shared.bytes));
            if from < to {
                // SAFETY: within the allocation; parts given to different threads do not overlap.
                unsafe { shared.start.as_ptr().add(from).write_bytes(0, to - from) };
            }
        });
        Some(memory)
    }

    /// First byte of the allocation.
    fn base(&self) -> *mut u8 {
        // SAFETY: that many bytes lie before the first one in the same allocation.
        unsafe { self.start.as_ptr().sub(self.layout.size() - self.bytes) }
    }

    /// Asks the system to back the bytes by large pages; it may decline, and nothing but speed depends on it.
    fn ask_for_huge_pages(&self) {
        #[cfg(target_os = "linux")]
        {
            // MADV_HUGEPAGE of <sys/mman.h>.
            const HUGE_PAGES: i32 = 14;
            // SAFETY: the declaration is that of the C library on Linux. The range starts at a page and ends inside the
            // allocation; the advice changes no contents.
            unsafe {
                unsafe extern "C" {
                    fn madvise(start: *mut c_void, bytes: usize, advice: i32) -> i32;
                }
                madvise(self.base().cast(), self.layout.size(), HUGE_PAGES);
            }
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: that many were allocated, and zeroed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Its bytes, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout and not freed before.
        unsafe { std::alloc::dealloc(self.base(), self.layout) }
    }
}

/// Loads a library for the rest of the process, so that a later search for its SONAME finds this one.
pub fn load_for_good(path: &Path) -> Result<(), String> {
    // SAFETY: a library the user named; its initialisers are its own business, as when it is found by the system.
    let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
    std::mem::forget(library);
    Ok(())
}
