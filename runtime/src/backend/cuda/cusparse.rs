//! cuSPARSE: the vendor's products of sparse matrices, to compare with.
//!
//! The library is looked for once a process: the file that [`VARIABLE`] names, else what the system's search finds. It
//! is used for comparisons only; nothing that kernelwright computes for a user needs it.
#![allow(unsafe_code)]

use super::ffi::{Block, Device, Pinned, driver};
use crate::backend::convert::{decode, encode, size_of};
use crate::backend::{BackendError, host};
use cudarc::cusparse::sys::{self, cusparseSpMVAlg_t as Algorithm, cusparseStatus_t as Status};

use kernelwright_codegen::kernel::Element;
use std::ffi::{CStr, c_void};
use std::path::Path;
use std::sync::OnceLock;

/// Environment variable with the path of the cuSPARSE library.
pub const VARIABLE: &str = "KERNELWRIGHT_CUSPARSE";

/// Products before the clock counts.
const WARM_UP: usize = 3;
/// Products between two marks of the clock.
const PRODUCTS: usize = 10;
/// Times that are taken; odd, so that the median is one of them.
const REPEATS: usize = 7;

/// A matrix as cuSPARSE stores it, with 32-bit indices from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// Rows; as many columns.
    pub rows: usize,
    /// Entries, padding not counted.
    pub entries: usize,
    /// How the arrays are laid out.
    pub layout: Layout,
    /// Where rows (or slices) begin among columns and values; one element more than there are.
    pub start: Vec<i32>,
    /// Columns; -1 where padded.
    pub column: Vec<i32>,
    /// Values; 0 where padded.
    pub value: Vec<f64>,
}

/// Layouts that are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Row after row.
    Csr,
    /// Slices of so many rows, each padded to its longest row, stored column by column.
    SlicedEllpack(usize),
}

/// A measured product `y = A x`.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// Name of cuSPARSE's algorithm, in lower case.
    pub algorithm: &'static str,
    /// Seconds of one product: the median.
    pub seconds: f64,
    /// The result; NaN where it was not written.
    pub y: Vec<f64>,
}

/// cuSPARSE on a device, with a stream of its own.
pub struct Cusparse {
    handle: sys::cusparseHandle_t,
    pinned: Pinned,
    device: Device,
}

impl Cusparse {
    /// Opens the device of a number, from 0; `Unavailable` without driver, device or library.
    pub fn open(ordinal: usize) -> Result<Cusparse, BackendError> {
        static FOUND: OnceLock<Result<(), String>> = OnceLock::new();
        FOUND.get_or_init(find).clone().map_err(BackendError::Unavailable)?;
        let driver = driver().map_err(BackendError::Unavailable)?;
        if ordinal >= driver.devices {
            return Err(BackendError::Unavailable(format!("there is no CUDA device {ordinal}")));
        }
        let device = Device::open(ordinal)?;
        let pinned = device.pinned()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the library is present, and the device's context is current since `pinned` bound it.
        check(unsafe { sys::cusparseCreate(&raw mut handle) })?;
        let ready = Cusparse { handle, pinned, device };
        // SAFETY: the handle was just made; the stream lives as long as the device beside it. Runtime and driver name
        // the same object by two types.
        check(unsafe { sys::cusparseSetStream(handle, ready.device.stream().cu_stream().cast()) })?;
        Ok(ready)
    }

    /// The library's version, such as 12.6.3.
    pub fn version(&self) -> String {
        let mut version = 0;
        // SAFETY: the handle lives.
        match unsafe { sys::cusparseGetVersion(self.handle, &raw mut version) } {
            Status::CUSPARSE_STATUS_SUCCESS => {
                format!("{}.{}.{}", version / 1000, version % 1000 / 100, version % 100)
            }
            _ => "of unknown version".to_owned(),
        }
    }

    /// Multiplies with every algorithm for the matrix's layout, in f32 or f64.
    pub fn measure(&mut self, matrix: &Stored, x: &[f64], real: Element) -> Result<Vec<Product>, BackendError> {
        let (kind, width) = match real {
            Element::F32 => (sys::cudaDataType::CUDA_R_32F, 4),
            Element::F64 => (sys::cudaDataType::CUDA_R_64F, 8),
            _ => return Err(BackendError::Argument("vectors are f32 or f64".to_owned())),
        };
        if x.len() != matrix.rows || matrix.column.len() != matrix.value.len() {
            return Err(BackendError::Argument("the arrays of a matrix do not fit together".to_owned()));
        }
        let start = self.upload(matrix.start.len() * 4, |from, piece| words(&matrix.start[from / 4..], piece))?;
        let column = self.upload(matrix.column.len() * 4, |from, piece| words(&matrix.column[from / 4..], piece))?;
        let value = self.upload_reals(&matrix.value, real)?;
        let x = self.upload_reals(x, real)?;
        let y = self.device.zeroed(matrix.rows * width)?;
        let a = describe(matrix, kind, [&start, &column, &value])?;
        let (x, to) = (Vector::new(matrix.rows, &x, kind)?, Vector::new(matrix.rows, &y, kind)?);
        let algorithms: &[(&str, Algorithm)] = match matrix.layout {
            Layout::Csr => {
                &[("csr_alg1", Algorithm::CUSPARSE_SPMV_CSR_ALG1), ("csr_alg2", Algorithm::CUSPARSE_SPMV_CSR_ALG2)]
            }
            Layout::SlicedEllpack(_) => &[("sell_alg1", Algorithm::CUSPARSE_SPMV_SELL_ALG1)],
        };
        let mut products = Vec::new();
        for (name, algorithm) in algorithms {
            // All ones are a NaN in both precisions: what a product leaves out shows.
            self.device.fill(&y, 0xff)?;
            let seconds = self.time(&a, &x, &to, kind, *algorithm)?;
            let mut values = vec![0.0; matrix.rows];
            self.pinned.read(&y, matrix.rows * width, |from, piece| {
                decode(real, piece, &mut values[from / width..(from + piece.len()) / width]);
            })?;
            products.push(Product { algorithm: name, seconds, y: values });
        }
        Ok(products)
    }

    fn time(
        &self,
        a: &Matrix,
        x: &Vector,
        y: &Vector,
        kind: sys::cudaDataType,
        algorithm: Algorithm,
    ) -> Result<f64, BackendError> {
        let operation = sys::cusparseOperation_t::CUSPARSE_OPERATION_NON_TRANSPOSE;
        // Scalars are read on the host when a call is made. A zero is the same in both precisions.
        let (one_single, one_double, zero) = (1.0_f32, 1.0_f64, 0.0_f64);
        let one: *const c_void = match kind {
            sys::cudaDataType::CUDA_R_32F => (&raw const one_single).cast(),
            _ => (&raw const one_double).cast(),
        };
        let zero: *const c_void = (&raw const zero).cast();
        let (a, x, y) = (a.0.cast_const(), x.0.cast_const(), y.0);
        let mut bytes = 0;
        // SAFETY: handle and descriptors live, and so do the arrays that they name.
        check(unsafe {
            sys::cusparseSpMV_bufferSize(self.handle, operation, one, a, x, zero, y, kind, algorithm, &raw mut bytes)
        })?;
        let scratch = self.device.zeroed(bytes)?;
        let at = scratch.pointer();
        // SAFETY: as above; the scratch memory has the size that was asked for and lives until the stream is done.
        check(unsafe {
            sys::cusparseSpMV_preprocess(self.handle, operation, one, a, x, zero, y, kind, algorithm, at)
        })?;
        let product = || {
            // SAFETY: as above.
            check(unsafe { sys::cusparseSpMV(self.handle, operation, one, a, x, zero, y, kind, algorithm, at) })
        };
        (0..WARM_UP).try_for_each(|_| product())?;
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            let begin = self.device.mark()?;
            (0..PRODUCTS).try_for_each(|_| product())?;
            times.push(begin.seconds_to(&self.device.mark()?)? / PRODUCTS as f64);
        }
        times.sort_by(f64::total_cmp);
        Ok(times[REPEATS / 2])
    }

    fn upload(&mut self, bytes: usize, fill: impl FnMut(usize, &mut [u8])) -> Result<Block, BackendError> {
        let block = self.device.zeroed(bytes)?;
        self.pinned.write(&block, bytes, fill)?;
        Ok(block)
    }

    fn upload_reals(&mut self, values: &[f64], real: Element) -> Result<Block, BackendError> {
        let width = size_of(real);
        let fill = |from: usize, piece: &mut [u8]| {
            let part = &values[from / width..(from + piece.len()) / width];
            encode(real, part, piece).expect("invariant: every f64 is encoded as a real");
        };
        self.upload(values.len() * width, fill)
    }
}

impl Drop for Cusparse {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once. An error has nobody to go to.
        let _ = unsafe { sys::cusparseDestroy(self.handle) };
    }
}

/// A matrix's descriptor.
struct Matrix(sys::cusparseSpMatDescr_t);

impl Drop for Matrix {
    fn drop(&mut self) {
        // SAFETY: made once, destroyed once; products wait for nothing of it, since times are taken to their end.
        let _ = unsafe { sys::cusparseDestroySpMat(self.0.cast_const()) };
    }
}

/// A vector's descriptor.
struct Vector(sys::cusparseDnVecDescr_t);

impl Vector {
    fn new(len: usize, block: &Block, kind: sys::cudaDataType) -> Result<Vector, BackendError> {
        let mut vector = std::ptr::null_mut();
        // SAFETY: the block has this many elements of this kind.
        check(unsafe { sys::cusparseCreateDnVec(&raw mut vector, len as i64, block.pointer(), kind) })?;
        Ok(Vector(vector))
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        // SAFETY: as for a matrix.
        let _ = unsafe { sys::cusparseDestroyDnVec(self.0.cast_const()) };
    }
}

fn describe(matrix: &Stored, kind: sys::cudaDataType, arrays: [&Block; 3]) -> Result<Matrix, BackendError> {
    let index = sys::cusparseIndexType_t::CUSPARSE_INDEX_32I;
    let base = sys::cusparseIndexBase_t::CUSPARSE_INDEX_BASE_ZERO;
    let (rows, entries, stored) = (matrix.rows as i64, matrix.entries as i64, matrix.column.len() as i64);
    let [start, column, value] = arrays.map(Block::pointer);
    let mut out = std::ptr::null_mut();
    let to = &raw mut out;
    // SAFETY: the arrays have the lengths that the sizes say and outlive the descriptor in `measure`.
    check(unsafe {
        match matrix.layout {
            Layout::Csr => {
                sys::cusparseCreateCsr(to, rows, rows, entries, start, column, value, index, index, base, kind)
            }
            Layout::SlicedEllpack(slice) => sys::cusparseCreateSlicedEll(
                to,
                rows,
                rows,
                entries,
                stored,
                slice as i64,
                start,
                column,
                value,
                index,
                index,
                base,
                kind,
            ),
        }
    })?;
    Ok(Matrix(out))
}

fn words(values: &[i32], piece: &mut [u8]) {
    for (bytes, value) in piece.chunks_exact_mut(4).zip(values) {
        bytes.copy_from_slice(&value.to_ne_bytes());
    }
}

fn check(status: Status) -> Result<(), BackendError> {
    if status == Status::CUSPARSE_STATUS_SUCCESS {
        return Ok(());
    }
    // SAFETY: the library is present; the text is a constant of it.
    let text = unsafe { CStr::from_ptr(sys::cusparseGetErrorString(status)) };
    Err(BackendError::Device(format!("cuSPARSE: {}", text.to_string_lossy())))
}

fn find() -> Result<(), String> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        // cudarc searches by name; a library that is loaded already is found by its SONAME.
        host::load_for_good(Path::new(&path))
            .map_err(|why| format!("{VARIABLE} names {}, which cannot be loaded ({why})", path.display()))?;
    }
    // SAFETY: opens and closes the library, whose initialisers are cuSPARSE's own.
    if !unsafe { sys::is_culib_present() } {
        return Err(format!("there is no cuSPARSE (libcusparse.so); {VARIABLE} may name one"));
    }
    // cudarc panics at the first call of a function that an older library lacks.
    for name in ["cusparseCreateSlicedEll", "cusparseSpMV_preprocess", "cusparseGetErrorString"] {
        // SAFETY: only looked up, never called by this type.
        if unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err() {
            return Err(format!("cuSPARSE is too old: it has no {name}; CUDA 12.4 or newer has"));
        }
    }
    Ok(())
}
