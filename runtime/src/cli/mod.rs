//! The `kernelwright` command.
//!
//! [`main`] may be called from a user's own binary: programs declared there with the macro are then known by name
//! beside files. Results go to standard output, progress and errors to standard error.
//!
//! Exit status: 0 done (for `solve`: converged); 1 the program or an input file is wrong; 2 wrong usage; 3 not
//! converged; 4 the requested back end is not available or failed.

mod args;
mod failure;
mod out;
mod table;

mod cache;
mod check;
mod list;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;
use out::Out;

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output; a closed pipe there is nobody's fault.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { failure::USAGE } else { 0 });
        }
    };
    let mut out = Out::new(cli.json);
    let result = dispatch(cli.command, &mut out);
    match result.and_then(|status| out.flush().map(|()| status)) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => failure.report(&mut out),
    }
}

fn dispatch(command: Command, out: &mut Out) -> Result<u8, Failure> {
    match command {
        Command::Check(args) => check::run(&args, out),
        Command::List => list::run(out),
        Command::Cache(args) => cache::run(&args, out),
    }
}
