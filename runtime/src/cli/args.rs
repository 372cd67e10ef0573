//! Arguments of the command, with the help that explains them.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Describe a PDE operator and a Krylov loop; get fused kernels and the solution.
#[derive(Debug, Parser)]
#[command(name = "kernelwright", version, max_term_width = 100, after_help = AFTER)]
pub(super) struct Cli {
    /// Print the result as exactly one JSON object on standard output.
    #[arg(long, global = true)]
    pub(super) json: bool,
    #[command(subcommand)]
    pub(super) command: Command,
}

const AFTER: &str = "\
A first tour:
  kernelwright check examples/programs/pressure_correction.kw
  kernelwright explain examples/programs/pressure_correction.kw
  kernelwright solve examples/programs/pressure_correction.kw --plot convergence.svg
  kernelwright emit examples/programs/pressure_correction.kw --target cuda

FILE is a .kw file, - for standard input, or the name of a program declared in this binary (see list).

Exit status: 0 done (solve: converged); 1 the program or an input file is wrong; 2 wrong usage;
3 not converged; 4 the requested back end is not available or failed.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check programs and report every error with its place.
    Check(CheckArgs),
    /// List the programs declared in this binary and the solvers of the library.
    List,
    /// Look after the cache of compiled kernels.
    Cache(CacheArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kernelwright check model.kw
  kernelwright check examples/programs/*.kw --json")]
pub(super) struct CheckArgs {
    /// Programs to check.
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Compiled kernels are kept across runs under a key of everything that determines them. The folder is
KERNELWRIGHT_CACHE, or the user's cache folder.")]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    pub(super) action: CacheAction,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum CacheAction {
    /// Show what is kept.
    List,
    /// Check every entry against its checksum.
    Verify,
    /// Remove everything.
    Clear,
}
