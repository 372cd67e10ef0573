//! Printed kernels: goldens, and the real C compiler's opinion of them.

use std::path::{Path, PathBuf};
use std::process::Command;

use kernelwright_codegen::kernel::{Kernel, Type};
use kernelwright_codegen::kernel_verify::{verify, verify_all};
use kernelwright_codegen::print;

use crate::kernel_samples as samples;

fn verified(kernel: Kernel) -> Kernel {
    if let Err(errors) = verify(&kernel) {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        panic!("{}\n{kernel}", errors.join("\n"));
    }
    kernel
}

fn host_kernels() -> Vec<Kernel> {
    let kernels = vec![
        samples::host_line_sweep(),
        samples::every_expression(Type::F32),
        samples::every_expression(Type::F64),
    ];
    kernels.into_iter().map(verified).collect()
}

fn device_kernels() -> Vec<Kernel> {
    let kernels = vec![samples::tiled_sweep(), samples::wide_copy(), samples::two_phases(), samples::large_tile()];
    kernels.into_iter().map(verified).collect()
}

fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Compiles C with the warnings the host back end asks for; gives the object or program.
fn compile(name: &str, source: &str, options: &[&str]) -> PathBuf {
    let (input, output) = (scratch(&format!("{name}.c")), scratch(name));
    std::fs::write(&input, source).expect("the scratch directory is writable");
    let run = Command::new("cc")
        .args(["-std=c11", "-O2", "-fopenmp-simd", "-Wall", "-Wextra", "-Werror"])
        .args(options)
        .arg("-o")
        .args([&output, &input])
        .arg("-lm")
        .output()
        .expect("there is a C compiler");
    assert!(run.status.success(), "{}\n{source}", String::from_utf8_lossy(&run.stderr));
    output
}

#[test]
fn kernels_as_text() {
    for kernel in device_kernels().iter().chain(&host_kernels()) {
        snapshot(&format!("{}.kernel", kernel.name), &kernel.to_string());
    }
}

#[test]
fn kernels_as_cuda() {
    for kernel in device_kernels().iter().chain(&host_kernels()) {
        snapshot(&format!("{}.cu", kernel.name), &print::cuda(std::slice::from_ref(kernel)));
    }
}

#[test]
fn kernels_as_c() {
    for kernel in &host_kernels() {
        snapshot(&format!("{}.c", kernel.name), &print::c(std::slice::from_ref(kernel)));
    }
}

#[test]
fn c_compiles_without_warnings() {
    for kernel in host_kernels() {
        let source = print::c(std::slice::from_ref(&kernel));
        compile(&format!("{}.o", kernel.name), &source, &["-c"]);
        compile(&format!("{}.O3.o", kernel.name), &source, &["-c", "-O3", "-march=native"]);
    }
    let all = host_kernels();
    assert_eq!(verify_all(&all), Ok(()));
    compile("all.o", &print::c(&all), &["-c", "-std=gnu17"]);
}
