//! What was found on this machine, what was not, and what to install: `kernelwright doctor`.
//!
//! Nothing here fails: an absence is a finding. Plain data, serialisable; [`Report`] prints as aligned text.

use crate::backend::host::cc::Compiler;
use crate::backend::{cuda, cuda::nvrtc::Nvrtc};
use crate::cache::Cache;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of kernelwright.
    pub version: String,
    /// The machine itself.
    pub machine: Machine,
    /// The C compiler of the host back end.
    pub compiler: Found<CompilerFound>,
    /// The CUDA compiler.
    pub nvrtc: Found<NvrtcFound>,
    /// The CUDA driver and its devices.
    pub driver: Found<DriverFound>,
    /// The kernel cache.
    pub cache: CacheFound,
    /// Which back ends can be used: of `cuda`, `host`, `interp`, in order of preference.
    pub backends: Vec<String>,
}

/// Something that is there, or why it is not and what would help.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Found<T> {
    /// It is there.
    Here(T),
    /// It is not; the text says why, and what to install.
    Missing(String),
}

/// The machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// Operating system and architecture.
    pub system: String,
    /// Name of the processor, where the system tells.
    pub processor: Option<String>,
    /// Cores this process may use.
    pub cores: usize,
    /// Bytes of memory, where the system tells.
    pub memory: Option<u64>,
}

/// The C compiler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompilerFound {
    /// What it calls itself.
    pub version: String,
    /// The file.
    pub path: Option<PathBuf>,
}

/// NVRTC.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NvrtcFound {
    /// Version.
    pub version: String,
    /// The file.
    pub path: Option<PathBuf>,
    /// Architectures it compiles for.
    pub architectures: Vec<u32>,
}

/// The driver.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriverFound {
    /// CUDA version.
    pub version: String,
    /// Devices in order of their number.
    pub devices: Vec<Found<DeviceFound>>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceFound {
    /// Name of the product.
    pub name: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Compute capability, `9.0`.
    pub capability: String,
    /// Multiprocessors.
    pub multiprocessors: u32,
}

/// The kernel cache.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CacheFound {
    /// Its directory; none without a home directory.
    pub directory: Option<PathBuf>,
    /// Entries in it.
    pub entries: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Entries that are damaged; they are built anew when needed.
    pub damaged: usize,
    /// Why kernels cannot be kept, if so.
    pub trouble: Option<String>,
}

impl Report {
    /// Looks at everything.
    pub fn collect() -> Report {
        let compiler = compiler();
        let nvrtc = found_nvrtc();
        let driver = driver();
        let mut backends = Vec::new();
        if matches!((&nvrtc, &driver), (Found::Here(_), Found::Here(_))) {
            backends.push("cuda".to_owned());
        }
        if matches!(compiler, Found::Here(_)) {
            backends.push("host".to_owned());
        }
        backends.push("interp".to_owned());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Report { version, machine: machine(), compiler, nvrtc, driver, cache: cache(&Cache::of_user()), backends }
    }
}

fn machine() -> Machine {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let memory = field(&read("/proc/meminfo"), "MemTotal");
    let kib = memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    Machine {
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        processor: field(&read("/proc/cpuinfo"), "model name"),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        memory: kib.map(|kib| kib * 1024),
    }
}

fn compiler() -> Found<CompilerFound> {
    match Compiler::of_user() {
        Ok(compiler) => Found::Here(CompilerFound { version: compiler.version, path: compiler.path }),
        Err(why) => Found::Missing(why.to_string()),
    }
}

fn found_nvrtc() -> Found<NvrtcFound> {
    match Nvrtc::find() {
        Ok(nvrtc) => Found::Here(NvrtcFound {
            version: dotted(nvrtc.version),
            path: nvrtc.path.clone(),
            architectures: nvrtc.architectures.clone(),
        }),
        Err(why) => Found::Missing(why.to_string()),
    }
}

fn driver() -> Found<DriverFound> {
    let survey = match cuda::survey() {
        Ok(survey) => survey,
        Err(why) => return Found::Missing(why.to_string()),
    };
    let device = |device| match device {
        Ok(cuda::Facts { name, memory, capability, multiprocessors, .. }) => {
            let capability = dotted((capability / 10, capability % 10));
            Found::Here(DeviceFound { name, memory, capability, multiprocessors })
        }
        Err(why) => Found::Missing(why),
    };
    Found::Here(DriverFound {
        version: dotted(survey.version),
        devices: survey.devices.into_iter().map(device).collect(),
    })
}

fn cache(cache: &Cache) -> CacheFound {
    let Some(directory) = cache.directory().map(Path::to_owned) else {
        let trouble = cache.take_notices().into_iter().next();
        return CacheFound { directory: None, entries: 0, bytes: 0, damaged: 0, trouble };
    };
    let (entries, unreadable) = match cache.list() {
        Ok(entries) => (entries, None),
        Err(error) => (Vec::new(), Some(format!("it cannot be read: {error}"))),
    };
    CacheFound {
        entries: entries.len(),
        bytes: entries.iter().map(|entry| entry.bytes).sum(),
        damaged: entries.iter().filter(|entry| entry.state.is_err()).count(),
        trouble: unreadable.or_else(|| cache.probe().err().map(|error| format!("it cannot be written: {error}"))),
        directory: Some(directory),
    }
}

fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (label, lines) in [
            ("kernelwright", vec![self.version.clone()]),
            ("machine", self.machine.lines()),
            ("C compiler", lines_of(&self.compiler, CompilerFound::lines)),
            ("NVRTC", lines_of(&self.nvrtc, NvrtcFound::lines)),
            ("CUDA driver", lines_of(&self.driver, DriverFound::lines)),
            ("kernel cache", self.cache.lines()),
            ("back ends", vec![self.backends.join(", ")]),
        ] {
            for (number, line) in lines.iter().enumerate() {
                writeln!(f, "{:<14}{line}", if number == 0 { label } else { "" })?;
            }
        }
        Ok(())
    }
}

/// The lines of what is there, or of what is missing with the remedy on a line of its own.
fn lines_of<T>(found: &Found<T>, lines: impl Fn(&T) -> Vec<String>) -> Vec<String> {
    match found {
        Found::Here(item) => lines(item),
        Found::Missing(why) => {
            let (what, remedy) = why.rsplit_once("; ").map_or((why.as_str(), None), |(what, how)| (what, Some(how)));
            let first = format!("not found: {}", what.trim_end());
            let mut lines: Vec<String> = first.lines().map(str::to_owned).collect();
            lines.extend(remedy.map(|remedy| format!("  to have it: {remedy}")));
            lines
        }
    }
}

impl Machine {
    fn lines(&self) -> Vec<String> {
        let memory = self.memory.map_or_else(String::new, |memory| format!(", {}", size(memory)));
        let mut lines = vec![format!("{}, {} cores{memory}", self.system, self.cores)];
        lines.extend(self.processor.clone());
        lines
    }
}

impl CompilerFound {
    fn lines(&self) -> Vec<String> {
        [Some(self.version.clone()), shown(self.path.as_ref())].into_iter().flatten().collect()
    }
}

impl NvrtcFound {
    fn lines(&self) -> Vec<String> {
        let known: Vec<String> = self.architectures.iter().map(u32::to_string).collect();
        let first = format!("{}, for sm_ {}", self.version, known.join(" "));
        [Some(first), shown(self.path.as_ref())].into_iter().flatten().collect()
    }
}

impl DriverFound {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("CUDA {}", self.version)];
        for (number, device) in self.devices.iter().enumerate() {
            lines.push(match device {
                Found::Here(device) => format!(
                    "cuda:{number}  {}, {}, compute capability {}, {} multiprocessors",
                    device.name,
                    size(device.memory),
                    device.capability,
                    device.multiprocessors
                ),
                Found::Missing(why) => format!("cuda:{number}  cannot be opened: {why}"),
            });
        }
        lines
    }
}

impl CacheFound {
    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = shown(self.directory.as_ref()).into_iter().collect();
        let damaged = if self.damaged > 0 { format!(", {} damaged", self.damaged) } else { String::new() };
        lines.push(format!("{} units, {}{damaged}", self.entries, size(self.bytes)));
        lines.extend(self.trouble.clone());
        lines
    }
}

fn shown(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", units[unit]) }
}
