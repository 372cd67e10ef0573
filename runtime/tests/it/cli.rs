//! Running the command in tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The command; the kernel cache is the test run's own.
pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kernelwright"));
    command.args(args).env("KERNELWRIGHT_CACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    command
}

/// What a run gave.
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// Runs the command to its end.
#[track_caller]
pub fn run(args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } = command(args).output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    let ran = Ran { status: status.code().expect("no signal"), out: text(stdout), err: text(stderr) };
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    ran
}

impl Ran {
    /// The one object on standard output.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.out, self.err))
    }
}

/// A program of the repository.
pub fn example(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of the workspace");
    root.join("examples/programs").join(name).display().to_string()
}

/// Diffusion with a reaction term on a small grid, closed along i and periodic along j.
pub const DIFFUSION: &str = "operator diffusion {
    grid cells [i: nx, j: ny];
    param m = 0.1;
    flux X[i+1/2] = u[i+1] - u;
    flux Y[j+1/2] = u[j+1] - u;
    apply u => m*u - (div(X) + div(Y));
    boundary i: no_flux; boundary j: periodic;
}
";

/// A fresh folder for the files of a test.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder of the target directory");
    folder
}

/// A file with a text.
pub fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file of the target directory");
    path.display().to_string()
}
