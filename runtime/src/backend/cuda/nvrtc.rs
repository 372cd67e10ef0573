//! NVRTC: CUDA C++ to CUBIN or PTX, without a device or a driver.
//!
//! Beside [`ffi`](super::ffi) and [`cusparse`](super::cusparse) the only file that names cudarc. NVRTC is looked for
//! once a process: the library that [`VARIABLE`] names, else what the system's search finds. Nothing is called before it
//! is found, since cudarc panics where a library is missing.
#![allow(unsafe_code)]

use super::log::{Resources, resources};
use crate::backend::build::{Stop, stopped};
use crate::backend::{Arithmetic, BackendError, host};
use cudarc::nvrtc::result::{compile_program, create_program, destroy_program, get_program_log, get_ptx};
use cudarc::nvrtc::sys;
use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Environment variable with the path of the NVRTC library.
pub const VARIABLE: &str = "KERNELWRIGHT_NVRTC";
/// What to do when there is none.
pub const HINT: &str = "install the CUDA toolkit, or `pip install nvidia-cuda-nvrtc` and set KERNELWRIGHT_NVRTC to the \
                        path of its libnvrtc.so.13";
/// Oldest version that knows all that is asked of it.
const OLDEST: (i32, i32) = (12, 0);

/// A usable NVRTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nvrtc {
    /// Major and minor version.
    pub version: (u32, u32),
    /// Architectures it compiles for (90 for `sm_90`), ascending.
    pub architectures: Vec<u32>,
    /// The file, where the system tells.
    pub path: Option<PathBuf>,
}

/// What is compiled for an architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Machine code of the card.
    Cubin,
    /// Portable text that the driver compiles: for cards newer than NVRTC.
    Ptx,
}

/// A compiled source.
#[derive(Debug, Clone, PartialEq)]
pub struct Compiled {
    /// CUBIN, or PTX with its final zero byte.
    pub image: Vec<u8>,
    /// Everything the compiler said.
    pub log: String,
    /// What every kernel uses, where it was asked for.
    pub resources: Vec<Resources>,
}

impl Nvrtc {
    /// Finds NVRTC, or says what is missing and what would help.
    pub fn find() -> Result<&'static Nvrtc, BackendError> {
        static FOUND: OnceLock<Result<Nvrtc, String>> = OnceLock::new();
        FOUND.get_or_init(find).as_ref().map_err(|why| BackendError::Unavailable(format!("{why}; {HINT}")))
    }

    /// What to compile for a device of a compute capability: its own architecture, else an older one of the same
    /// major number, whose machine code runs on it, else PTX of the newest older one.
    pub fn choose(&self, capability: u32) -> Option<(u32, Form)> {
        let older = || self.architectures.iter().copied().filter(|&known| known <= capability);
        let same = older().filter(|known| known / 10 == capability / 10).max();
        same.map(|known| (known, Form::Cubin)).or_else(|| older().max().map(|known| (known, Form::Ptx)))
    }

    /// Options of a compilation. Sources include nothing, so no search paths are needed; the log of machine code tells
    /// what kernels use.
    pub fn options(architecture: u32, form: Form, arithmetic: Arithmetic) -> Vec<String> {
        let machine = match form {
            Form::Cubin => "sm",
            Form::Ptx => "compute",
        };
        let contract = arithmetic == Arithmetic::Contracted;
        let mut options = vec![
            format!("--gpu-architecture={machine}_{architecture}"),
            "--std=c++17".to_owned(),
            format!("--fmad={contract}"),
        ];
        if form == Form::Cubin {
            options.push("--ptxas-options=-v".to_owned());
        }
        options
    }

    /// Compiles a source; `name` is the file's name in the log. Where NVRTC can be asked (since CUDA 12.8), it ends soon
    /// after a request to.
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        options: &[String],
        form: Form,
        stop: &Stop,
    ) -> Result<Compiled, BackendError> {
        if stop.asked() {
            return Err(stopped());
        }
        let refused = |log: String| BackendError::Compile { language: "CUDA C++", log };
        let text = |text: &str| CString::new(text).map_err(|_| refused("a zero byte in the source".to_owned()));
        if options.iter().any(|option| option.contains('\0')) {
            return Err(refused("a zero byte in an option".to_owned()));
        }
        let program = Program::new(text(source)?, text(&format!("{name}.cu"))?)?;
        program.ends_when(stop);
        // SAFETY: the program lives; options have no zero bytes, on which cudarc would panic.
        let done = unsafe { compile_program(program.handle, options) };
        let log = program.log();
        if let Err(error) = done {
            if stop.asked() {
                return Err(stopped());
            }
            return Err(if error.0 == sys::nvrtcResult::NVRTC_ERROR_COMPILATION {
                refused(log)
            } else {
                BackendError::Device(format!("NVRTC {}.{}: {error}\n{log}", self.version.0, self.version.1))
            });
        }
        let image = program.image(form)?;
        Ok(Compiled { image, resources: resources(&log), log })
    }
}

/// `nvrtcSetFlowCallback`, which cudarc does not declare.
type SetFlowCallback =
    unsafe extern "C" fn(sys::nvrtcProgram, extern "C" fn(*mut c_void, *mut c_void) -> c_int, *mut c_void) -> c_int;

/// Called by NVRTC now and then, from any thread; 1 ends the compilation, and stays 1.
extern "C" fn asked(request: *mut c_void, _: *mut c_void) -> c_int {
    // SAFETY: the request that `Program::ends_when` gave, which lives until the compilation has ended.
    let stop = unsafe { &*request.cast_const().cast::<Stop>() };
    c_int::from(stop.asked())
}

/// A program of NVRTC, destroyed when dropped: tuning compiles hundreds.
struct Program {
    handle: sys::nvrtcProgram,
    /// NVRTC may refer to these until the program is destroyed.
    _texts: [CString; 2],
}

impl Program {
    fn new(source: CString, name: CString) -> Result<Program, BackendError> {
        let handle = create_program(&source, Some(&name)).map_err(failed)?;
        Ok(Program { handle, _texts: [source, name] })
    }

    /// Has NVRTC look at a request to end as it compiles. One that is too old to be asked compiles to its end.
    fn ends_when(&self, stop: &Stop) {
        // SAFETY: the library is present; only looked up here.
        let Ok(set) = (unsafe { sys::culib().get::<SetFlowCallback>(b"nvrtcSetFlowCallback") }) else { return };
        let request: *const Stop = stop;
        // SAFETY: the function has this signature since it exists; the program lives, and the request outlives the one
        // compilation in which the program calls back.
        let _ = unsafe { set(self.handle, asked, request.cast_mut().cast()) };
    }

    /// The log, which warnings and resources stand in even if all went well.
    fn log(&self) -> String {
        // SAFETY: the program lives.
        let bytes = unsafe { get_program_log(self.handle) }.unwrap_or_default();
        let bytes: Vec<u8> = bytes.into_iter().map(|c| c as u8).take_while(|&c| c != 0).collect();
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }

    fn image(&self, form: Form) -> Result<Vec<u8>, BackendError> {
        if form == Form::Ptx {
            // SAFETY: the program lives and was compiled.
            let text = unsafe { get_ptx(self.handle) }.map_err(failed)?;
            return Ok(text.into_iter().map(|c| c as u8).collect());
        }
        let mut size = 0_usize;
        // SAFETY: the program lives and was compiled; `size` outlives the call.
        unsafe { sys::nvrtcGetCUBINSize(self.handle, &raw mut size) }.result().map_err(failed)?;
        let mut image = vec![0_u8; size];
        // SAFETY: as above; the image has the size just given.
        unsafe { sys::nvrtcGetCUBIN(self.handle, image.as_mut_ptr().cast()) }.result().map_err(failed)?;
        Ok(image)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once. An error has nobody to go to and leaves only the program behind.
        let _ = unsafe { destroy_program(self.handle) };
    }
}

fn failed(error: cudarc::nvrtc::result::NvrtcError) -> BackendError {
    BackendError::Device(format!("NVRTC: {error}"))
}

fn find() -> Result<Nvrtc, String> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        // cudarc searches by name; a library that is loaded already is found by its SONAME.
        host::load_for_good(Path::new(&path))
            .map_err(|why| format!("{VARIABLE} names {}, which cannot be loaded ({why})", path.display()))?;
    }
    // SAFETY: opens and closes the library, whose initialisers are NVRTC's own.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no NVRTC (libnvrtc.so)".to_owned());
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is present, and every version has this function.
    unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) }.result().map_err(|error| format!("NVRTC: {error}"))?;
    if (major, minor) < OLDEST {
        return Err(format!("NVRTC is {major}.{minor}; {}.{} or newer is needed", OLDEST.0, OLDEST.1));
    }
    let architectures = architectures().map_err(|error| format!("NVRTC: {error}"))?;
    Ok(Nvrtc { version: (major as u32, minor as u32), architectures, path: loaded_from() })
}

fn architectures() -> Result<Vec<u32>, cudarc::nvrtc::result::NvrtcError> {
    let mut count = 0;
    // SAFETY: the library is present and new enough to have this function.
    unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }.result()?;
    let mut known = vec![0; count.max(0) as usize];
    // SAFETY: as above; the list has the length just given.
    unsafe { sys::nvrtcGetSupportedArchs(known.as_mut_ptr()) }.result()?;
    let mut known: Vec<u32> = known.into_iter().filter_map(|number| u32::try_from(number).ok()).collect();
    known.sort_unstable();
    Ok(known)
}

/// The file NVRTC was loaded from, on Linux.
fn loaded_from() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| PathBuf::from(&line[start..])));
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvrtc.so"));
    paths.into_iter().find(named)
}
