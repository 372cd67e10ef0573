//! Runs printed C: a generated `main` feeds the buffers, runs all blocks and prints the buffers again.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernelwright_codegen::kernel::{Element, Kernel};
use kernelwright_codegen::print;

/// Compiles C with the warnings the host back end asks for; gives the object or program.
pub fn compile(name: &str, source: &str, options: &[&str]) -> PathBuf {
    let scratch = |name: &str| Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
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

/// Runs a kernel over its grid; one array per global buffer in and out.
pub fn run(kernel: &Kernel, buffers: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let source = format!("{}{}", print::c(std::slice::from_ref(kernel)), main_function(kernel));
    let program = compile(&format!("{}.run", kernel.name), &source, &[]);
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it was built");
    let mut input = String::new();
    for value in buffers.iter().flatten() {
        writeln!(input, "{value:?}").expect("a string takes all");
    }
    let mut pipe = child.stdin.take().expect("it is piped");
    let feeder = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it runs");
    feeder.join().expect("no panic").expect("it reads everything");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("numbers");
    let mut values = text.lines().map(|line| line.parse::<f64>().expect("a number"));
    let result = buffers.iter().map(|buffer| values.by_ref().take(buffer.len()).collect()).collect();
    assert_eq!(values.next(), None);
    result
}

fn main_function(kernel: &Kernel) -> String {
    let mut text = "\n#include <stdio.h>\n\n".to_owned();
    let (mut read, mut write, mut names) = (String::new(), String::new(), Vec::new());
    for (n, id) in kernel.arguments().enumerate() {
        let buffer = &kernel.buffers[id.0];
        let (ty, len) = (c_type(buffer.element), buffer.extent);
        text += &format!("static {ty} array_{n}[{len}];\n");
        read += &format!(
            "    for (int n = 0; n < {len}; ++n) {{ if (scanf(\"%lf\", &value) != 1) return 1; array_{n}[n] = ({ty})value; }}\n"
        );
        write += &format!("    for (int n = 0; n < {len}; ++n) printf(\"%.17g\\n\", (double)array_{n}[n]);\n");
        names.push(format!("array_{n}"));
    }
    let [x, y, z] = kernel.grid;
    text += &format!(
        "\nint main(void) {{\n    double value;\n{read}    void *const arrays[] = {{ {} }};\n",
        names.join(", ")
    );
    text += &format!("    for (int z = 0; z < {z}; ++z) for (int y = 0; y < {y}; ++y) for (int x = 0; x < {x}; ++x) ");
    text += &format!("{}(x, y, z, arrays);\n{write}    return 0;\n}}\n", kernel.name);
    text
}

fn c_type(element: Element) -> &'static str {
    match element {
        Element::F32 => "float",
        Element::F64 => "double",
        Element::I16 => "short",
        Element::U16 => "unsigned short",
        Element::I32 => "int",
        Element::U32 => "unsigned int",
        Element::I64 => "long long",
    }
}
