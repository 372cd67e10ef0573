//! From an example to kernels.

use std::path::{Path, PathBuf};

use kernelwright::backend::Target;
use kernelwright::load::{Loaded, load};
use kernelwright::pipeline::{self, Planned};
use kernelwright::solve::Solver;
use kernelwright_codegen::kernel::{Element, Kernel};
use kernelwright_codegen::loops::Program;
use kernelwright_codegen::map::{self, Options, Variant, map};
use kernelwright_codegen::{kernel_verify, print};
use kernelwright_syntax::program::Precision;

/// The programs under `examples/programs`, by name.
pub fn names() -> Vec<String> {
    let entries = std::fs::read_dir(programs()).expect("the examples are part of the repository");
    let stem = |path: PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let paths = entries.map(|entry| entry.expect("a folder entry is readable").path());
    let mut names: Vec<String> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "kw")).filter_map(stem).collect();
    names.sort();
    names
}

fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/programs")
}

/// An example, loaded.
pub fn example(name: &str) -> Loaded {
    let path = programs().join(format!("{name}.kw"));
    load(&path.to_string_lossy()).unwrap_or_else(|error| panic!("{error}"))
}

/// The schedules of the problem of an example's name.
pub fn planned(loaded: &Loaded, name: &str) -> Planned {
    // An example may declare several problems; the first one stands for it.
    let problem = loaded.program.problems.first().map_or(name, |problem| problem.name.as_str());
    let builder = Solver::builder(loaded).problem(problem);
    builder.plan().unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Shapes that a target takes by default.
pub fn default_variant(program: &Program, target: Target) -> Variant {
    Variant::for_space(of_map(target), &program.operator.space)
}

/// Verified kernels of a scheduled program.
pub fn kernels(program: &Program, target: Target, precision: Precision, variant: Variant) -> Vec<Kernel> {
    let precision = match precision {
        Precision::F32 | Precision::Mixed => Element::F32,
        Precision::F64 => Element::F64,
    };
    let options = Options { target: of_map(target), precision, history_len: pipeline::history_len(1000), variant };
    let module = map(program, &options).unwrap_or_else(|error| panic!("{}: {error}", program.name));
    for kernel in &module.kernels {
        kernel_verify::verify(kernel).unwrap_or_else(|faults| panic!("{}: {faults:?}", kernel.name));
    }
    module.kernels
}

/// Their source.
pub fn source(kernels: &[Kernel], target: Target) -> String {
    match target {
        Target::Cuda => print::cuda(kernels),
        Target::Host => print::c(kernels),
    }
}

fn of_map(target: Target) -> map::Target {
    match target {
        Target::Cuda => map::Target::Cuda,
        Target::Host => map::Target::Host,
    }
}
