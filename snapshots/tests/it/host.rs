//! Generated C, compiled with every warning an error.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernelwright::backend::Target;
use kernelwright_snapshots::build::source;
use kernelwright_snapshots::cases::cases;
use kernelwright_snapshots::galerkin;
use kernelwright_snapshots::sources::{Unit, units};

fn compile(folder: &Path, number: usize, source: &str) -> Output {
    let file = folder.join(format!("unit_{number}.c"));
    std::fs::write(&file, source).unwrap();
    // Warnings about values that may not be set need the optimiser's analysis.
    let options = ["-std=c11", "-O1", "-fopenmp-simd", "-Wall", "-Wextra", "-Werror", "-c", "-o", "/dev/null"];
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    Command::new(compiler).args(options).arg(&file).output().expect("the host back end needs a C compiler")
}

#[test]
fn every_source_is_compiled_without_a_warning() {
    let mut units = units(Target::Host);
    units.extend(galerkin::units(Target::Host));
    units.extend(cases().into_iter().filter(|case| case.name.ends_with(".c")).filter_map(Unit::of));
    let folder = tempfile::tempdir().unwrap();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = units.get(number) else { return };
            let output = compile(folder.path(), number, &source(&unit.kernels, Target::Host));
            if !output.status.success() {
                let log = String::from_utf8_lossy(&output.stderr).into_owned();
                failures.lock().unwrap().push(format!("{}:\n{log}", unit.name));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
