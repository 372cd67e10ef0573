//! The `kernelwright` command.
//!
//! [`main`] may be called from a user's own binary: programs declared there with the macro are then known by name
//! beside files. Results go to standard output, progress and errors to standard error.
//!
//! Exit status: 0 done (for `solve`: converged); 1 the program or an input file is wrong; 2 wrong usage; 3 not
//! converged; 4 the requested back end is not available or failed.

mod args;
mod arrays;
mod deadline;
mod failure;
mod matrix;
mod out;
mod progress;
mod report;
mod table;

mod bench;
mod bench_compile;
mod bench_dg;
mod bench_read;
mod bench_spmv;
mod cache;
mod check;
mod convert;
mod doctor;
mod emit;
mod explain;
mod explain_system;
mod info;
mod ir;
mod list;
mod march;
mod paper;
mod solve;
mod spmv;
mod systems;
mod tune;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, CompileArgs, ProgramArgs, RunArgs};
use failure::Failure;
use out::Out;

use crate::load::{Loaded, load};
use crate::solve::{Builder, Solver};
use matrix::{Place, System};

/// Runs the command with the process's arguments.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output; a closed pipe there is nobody's fault.
            let _ = error.print();
            if !error.use_stderr() {
                return ExitCode::SUCCESS;
            }
            // What the arguments mean is not known, but whether they ask for an object is.
            let json = std::env::args_os().any(|argument| argument == "--json");
            return failure::misused(&error, json);
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
        Command::Spmv(args) => spmv::run(&args, out),
        Command::Tune(args) => tune::run(&args, out),
        Command::Info(args) => info::run(&args, out),
        Command::Convert(args) => convert::run(&args, out),
        Command::Doctor => doctor::run(out),
        Command::List => list::run(out),
        Command::Cache(args) => cache::run(&args, out),
    }
}

/// What is compiled: a program, and the matrix of its operator if that comes from a file.
struct Source {
    loaded: Loaded,
    system: Option<System>,
}

/// Loads what the arguments name.
fn source(args: &ProgramArgs, place: Place) -> Result<Source, Failure> {
    match (&args.file, &args.matrix.matrix) {
        (Some(file), None) => Ok(Source { loaded: load(file)?, system: None }),
        (None, Some(path)) => {
            let (loaded, system) = matrix::system(args, path, place)?;
            Ok(Source { loaded, system: Some(system) })
        }
        (Some(file), Some(_)) => {
            Err(Failure::Usage(format!("`{file}` or a matrix, not both; formats and solvers come with --formats")))
        }
        (None, None) => Err(Failure::Usage("a program or a matrix is missing".to_string())),
    }
}

/// The problem that the arguments name, with what they set.
fn choose<'l>(source: &'l Source, args: &ProgramArgs) -> Builder<'l> {
    let mut builder = Solver::builder(&source.loaded);
    if let Some(system) = &source.system {
        builder = builder.stored(&system.stored, system.facts.clone());
        if let Some(known) = system.known() {
            builder = builder.tuned_product(known);
        }
    }
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
fn choose_scheduled<'l>(source: &'l Source, args: &CompileArgs) -> Builder<'l> {
    let mut builder = choose(source, &args.program);
    for (key, value) in &args.variant {
        builder = builder.variant(key, value);
    }
    match &args.schedule {
        Some(schedule) => builder.schedule(schedule),
        None => builder,
    }
}

impl RunArgs {
    /// Where a system with a matrix is solved.
    fn place(&self) -> Place {
        Place::Backend(self.backend, !self.untuned && self.compile.variant.is_empty())
    }
}

/// The problem that the arguments name, with where and how far it is solved.
fn compile_with<'l>(source: &'l Source, args: &RunArgs) -> Builder<'l> {
    let mut builder = choose_scheduled(source, &args.compile).backend(args.backend);
    if let Some(tolerance) = args.tolerance {
        builder = builder.tolerance(tolerance);
    }
    if let Some(iterations) = args.iterations {
        builder = builder.iterations(iterations);
    }
    if args.untuned {
        builder = builder.untuned();
    }
    builder
}

/// Compiles a problem and says on standard error what the user should know.
fn compile(source: &Source, args: &RunArgs) -> Result<Solver, Failure> {
    let solver = compile_with(source, args).compile()?;
    solver.notices().iter().for_each(|notice| eprintln!("note: {notice}"));
    Ok(solver)
}
