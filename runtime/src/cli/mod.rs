//! The `kernelwright` command.
//!
//! [`main`] may be called from a user's own binary: programs declared there with the macro are then known by name
//! beside files. Results go to standard output, progress and errors to standard error.
//!
//! Exit status: 0 done (for `solve`: converged); 1 the program or an input file is wrong; 2 wrong usage; 3 not
//! converged; 4 the requested back end is not available or failed.

mod args;
mod arrays;
mod failure;
mod out;
mod progress;
mod report;
mod table;

mod bench;
mod bench_compile;
mod bench_dg;
mod cache;
mod check;
mod convert;
mod doctor;
mod emit;
mod explain;
mod info;
mod ir;
mod list;
mod march;
mod paper;
mod solve;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, CompileArgs, ProgramArgs, RunArgs};
use failure::Failure;
use out::Out;

use crate::load::Loaded;
use crate::solve::{Builder, Solver};

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
        Command::Solve(args) => solve::run(&args, out),
        Command::Explain(args) => explain::run(&args, out),
        Command::Ir(args) => ir::run(&args, out),
        Command::Emit(args) => emit::run(&args, out),
        Command::Verify(args) => verify::run(&args, out),
        Command::Bench(args) => bench::run(&args, out),
        Command::Info(args) => info::run(&args, out),
        Command::Convert(args) => convert::run(&args, out),
        Command::Doctor => doctor::run(out),
        Command::List => list::run(out),
        Command::Cache(args) => cache::run(&args, out),
    }
}

/// The problem that the arguments name, with what they set.
fn choose<'l>(loaded: &'l Loaded, args: &ProgramArgs) -> Builder<'l> {
    let mut builder = Solver::builder(loaded);
    if let Some(problem) = &args.problem {
        builder = builder.problem(problem);
    }
    for (name, value) in &args.set {
        builder = builder.set(name, *value);
    }
    if let Some(precision) = args.precision {
        builder = builder.precision(precision);
    }
    builder
}

/// The same, with the schedule that is asked for.
fn choose_scheduled<'l>(loaded: &'l Loaded, args: &CompileArgs) -> Builder<'l> {
    let mut builder = choose(loaded, &args.program);
    for (key, value) in &args.variant {
        builder = builder.variant(key, value);
    }
    match &args.schedule {
        Some(schedule) => builder.schedule(schedule),
        None => builder,
    }
}

/// The problem that the arguments name, with where and how far it is solved.
fn compile_with<'l>(loaded: &'l Loaded, args: &RunArgs) -> Builder<'l> {
    let mut builder = choose_scheduled(loaded, &args.compile).backend(args.backend);
    if let Some(tolerance) = args.tolerance {
        builder = builder.tolerance(tolerance);
    }
    if let Some(iterations) = args.iterations {
        builder = builder.iterations(iterations);
    }
    builder
}

/// Compiles a problem and says on standard error what the user should know.
fn compile(loaded: &Loaded, args: &RunArgs) -> Result<Solver, Failure> {
    let solver = compile_with(loaded, args).compile()?;
    solver.notices().iter().for_each(|notice| eprintln!("note: {notice}"));
    Ok(solver)
}
