//! The `kernelwright` command; see [`kernelwright::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    kernelwright::cli::main()
}
