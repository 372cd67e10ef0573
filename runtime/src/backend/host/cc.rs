//! The system's C compiler: who it is, and one run of it.

use crate::backend::build::{Stop, stopped};
use crate::backend::{Arithmetic, BackendError};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Environment variable that names the compiler, with options if need be.
pub const VARIABLE: &str = "CC";
/// How often a running compiler is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// What to do when there is none.
pub const HINT: &str = "install gcc or clang (Debian, Ubuntu: apt install gcc libc6-dev), or name one in CC";

/// A C compiler that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    program: OsString,
    options: Vec<OsString>,
    /// First line of what it says to `--version`.
    pub version: String,
    /// All it says to `--version`.
    identity: String,
    /// The file that is run, where it could be found.
    pub path: Option<PathBuf>,
}

impl Compiler {
    /// The compiler of [`VARIABLE`], else `cc`.
    pub fn of_user() -> Result<Compiler, BackendError> {
        let given = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        Compiler::named(&given.unwrap_or_else(|| "cc".into()))
    }

    /// A compiler by name or path; options may follow, separated by blanks.
    pub fn named(command: &OsString) -> Result<Compiler, BackendError> {
        let (program, options) = split(command);
        let run = Command::new(&program).args(&options).arg("--version").stdin(Stdio::null()).output();
        let name = program.to_string_lossy().into_owned();
        let output =
            run.map_err(|error| BackendError::Unavailable(format!("no C compiler: {name}: {error}; {HINT}")))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let text = format!("no C compiler: `{name} --version` failed ({}): {log}; {HINT}", output.status);
            return Err(BackendError::Unavailable(text));
        }
        let identity = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        let version = identity.lines().next().unwrap_or_default().to_owned();
        Ok(Compiler { path: locate(&program), program, options, version, identity })
    }

    /// All that distinguishes this compiler from another one.
    pub fn identity(&self) -> Vec<String> {
        let path = self.path.clone().unwrap_or_default();
        let program = [self.program.clone(), path.into()].into_iter().chain(self.options.iter().cloned());
        program.map(|text| text.to_string_lossy().into_owned()).chain([self.identity.clone()]).collect()
    }

    /// Options for a shared library of kernels. No errno and no traps: neither changes a value, both keep loops from
    /// being vectorised. (Not `-fno-thread-jumps`, though it would vectorise more: gcc 12 then loses the chosen side of
    /// `c ? x : 0` in some loops of few rounds.)
    pub fn options(arithmetic: Arithmetic) -> Vec<&'static str> {
        let contract = match arithmetic {
            Arithmetic::Contracted => "-ffp-contract=fast",
            Arithmetic::Strict => "-ffp-contract=off",
        };
        vec![
            "-std=c11",
            "-O3",
            "-march=native",
            "-fopenmp-simd",
            contract,
            "-fno-math-errno",
            "-fno-trapping-math",
            "-shared",
            "-fPIC",
        ]
    }

    /// Compiles C to a shared library. `name` is the file's name in the log.
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        arithmetic: Arithmetic,
        stop: &Stop,
    ) -> Result<Vec<u8>, BackendError> {
        match self.run(source, name, arithmetic, stop).map_err(no_scratch)? {
            Ok(library) => Ok(library),
            Err(_) if stop.asked() => Err(stopped()),
            Err(log) => {
                // A compiler that fails on anything at all (no libc, no linker) is not a fault of this source.
                let trivial = "double kw_probe(double a) { return a; }\n";
                match self.run(trivial, "probe", arithmetic, stop).map_err(no_scratch)? {
                    Ok(_) => Err(BackendError::Compile { language: "C", log }),
                    Err(log) => {
                        let name = self.program.to_string_lossy();
                        let text = format!("the C compiler {name} cannot make shared libraries; {HINT}\n{log}");
                        Err(BackendError::Unavailable(text))
                    }
                }
            }
        }
    }

    /// One run in a directory of its own, where paths are relative: the log and the library do not depend on it. What the
    /// compiler writes aside goes there too, and with it when it is killed.
    fn run(
        &self,
        source: &str,
        name: &str,
        arithmetic: Arithmetic,
        stop: &Stop,
    ) -> std::io::Result<Result<Vec<u8>, String>> {
        let scratch = tempfile::Builder::new().prefix("kernelwright-").tempdir()?;
        let (file, said) = (format!("{name}.c"), scratch.path().join("log"));
        std::fs::write(scratch.path().join(&file), source)?;
        let child = Command::new(&self.program)
            .args(&self.options)
            .args(Self::options(arithmetic))
            .args(["-o", "unit.so", &file, "-lm"])
            .current_dir(scratch.path())
            .env("TMPDIR", scratch.path())
            // Messages without translation, so that places in them are found.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&said)?)
            .spawn()?;
        let status = wait(child, stop)?;
        if !status.success() {
            let log = String::from_utf8_lossy(&std::fs::read(&said)?).trim().to_owned();
            let log = if log.is_empty() { format!("the compiler ended with {status}") } else { log };
            return Ok(Err(log));
        }
        std::fs::read(scratch.path().join("unit.so")).map(Ok)
    }
}

/// Waits for a compiler; kills it when asked to.
fn wait(mut child: Child, stop: &Stop) -> std::io::Result<ExitStatus> {
    loop {
        if stop.asked() {
            // One that has just ended cannot be killed, and need not be.
            let _ = child.kill();
            return child.wait();
        }
        match child.try_wait()? {
            Some(status) => return Ok(status),
            None => std::thread::sleep(LOOK),
        }
    }
}

/// What `-march=native` stands for on this machine: part of the cache key, since caches travel with home directories.
pub fn processor() -> String {
    let arch = std::env::consts::ARCH;
    let Ok(info) = std::fs::read_to_string("/proc/cpuinfo") else { return arch.to_owned() };
    let wanted = ["vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU implementer", "CPU part"];
    let first = info.split("\n\n").next().unwrap_or_default();
    let facts = first.lines().filter_map(|line| line.split_once(':')).filter(|(key, _)| wanted.contains(&key.trim()));
    facts.fold(arch.to_owned(), |text, (key, value)| format!("{text}\n{}={}", key.trim(), value.trim()))
}

fn no_scratch(error: std::io::Error) -> BackendError {
    let place = std::env::temp_dir();
    BackendError::Device(format!("compiling needs a scratch directory in {}: {error}", place.display()))
}

/// Program and options of a command; a command that is the path of a file is a program, blanks or not.
fn split(command: &OsString) -> (OsString, Vec<OsString>) {
    let text = match command.to_str() {
        Some(text) if !Path::new(command).is_file() => text,
        _ => return (command.clone(), Vec::new()),
    };
    let mut words = text.split_whitespace().map(OsString::from);
    (words.next().unwrap_or_else(|| "cc".into()), words.collect())
}

/// The file a program's name stands for.
fn locate(program: &OsString) -> Option<PathBuf> {
    let path = Path::new(program);
    let found = if path.components().count() > 1 {
        Some(path.to_owned())
    } else {
        std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(path)).find(|file| file.is_file())
    };
    found.map(|file| file.canonicalize().unwrap_or(file))
}
