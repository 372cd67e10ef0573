//! Arguments of the command, with the help that explains them.

mod matrix;
mod written;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use kernelwright_syntax::program::Precision;

use crate::backend::Target;
use crate::backend::open::Choice;
use crate::tune::strategy::Choice as Strategy;

pub(super) use matrix::{FormatArgs, MatrixArgs, SpmvArgs};

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
  kernelwright solve --matrix A.mtx

FILE is a .kw file, - for standard input, or the name of a program declared in this binary (see list).

Exit status: 0 done (solve: converged); 1 the program or an input file is wrong; 2 wrong usage;
3 not converged; 4 the requested back end is not available or failed.";

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check programs and report every error with its place.
    Check(CheckArgs),
    /// Solve a problem.
    Solve(Box<SolveArgs>),
    /// Explain what a problem is compiled to: schedules, memory traffic, arithmetic, facts with their proofs.
    Explain(ExplainArgs),
    /// Print what stands between two stages of the compiler.
    Ir(IrArgs),
    /// Print the generated source.
    Emit(EmitArgs),
    /// Probe an operator on a small grid (matrix, symmetry, extreme eigenvalues, null space) or a system on a small mesh
    /// (fluxes, waves, spectral radius, time step).
    Verify(VerifyArgs),
    /// Solve repeatedly and report times and memory traffic.
    Bench(Box<BenchArgs>),
    /// Find the best schedule and variants for the device at hand; every candidate is proven before it is timed.
    Tune(Box<TuneArgs>),
    /// Multiply a matrix from a file with a vector and report time, bytes and formats.
    Spmv(SpmvArgs),
    /// Say what a matrix looks like: sizes, row lengths, bandwidth, symmetry, diagonal.
    Info(InfoArgs),
    /// Convert a matrix from one file format to another.
    Convert(ConvertArgs),
    /// List the programs declared in this binary and the solvers of the library.
    List,
    /// Say what was found on this machine, what not, and what would help.
    Doctor,
    /// Look after the cache of compiled kernels.
    Cache(CacheArgs),
}

/// Which problem of which program, and what is changed in it.
#[derive(Debug, Clone, Args)]
pub(super) struct ProgramArgs {
    /// A .kw file, - for standard input, or the name of a program declared in this binary.
    #[arg(value_name = "FILE", required_unless_present = "matrix")]
    pub(super) file: Option<String>,
    /// Which problem, where the program has several.
    #[arg(long, value_name = "NAME")]
    pub(super) problem: Option<String>,
    /// Set a size or a parameter; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(super) set: Vec<(String, f64)>,
    /// Precision of vectors, instead of the problem's (mixed: solution and residual in f64, the loop in f32).
    #[arg(long, value_name = "f32|f64|mixed", value_parser = precision)]
    pub(super) precision: Option<Precision>,
    #[command(flatten)]
    pub(super) matrix: MatrixArgs,
}

/// What else decides how a problem is compiled.
#[derive(Debug, Clone, Args)]
pub(super) struct CompileArgs {
    #[command(flatten)]
    pub(super) program: ProgramArgs,
    /// A schedule by name, instead of the planner's choice (explain lists them).
    #[arg(long, value_name = "NAME")]
    pub(super) schedule: Option<String>,
    /// Part of the variant of the kernels, instead of the default; may be repeated (segments=16, block=64x4).
    #[arg(long, value_name = "KEY=VALUE", value_parser = part)]
    pub(super) variant: Vec<(String, String)>,
}

/// How a problem is solved.
#[derive(Debug, Clone, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) compile: CompileArgs,
    /// Where to compute: auto, cuda, cuda:N, host or interp.
    #[arg(long, value_name = "BACKEND", default_value = "auto", value_parser = str::parse::<Choice>)]
    pub(super) backend: Choice,
    /// Tolerance, instead of the problem's.
    #[arg(long, value_name = "X", value_parser = positive, allow_hyphen_values = true)]
    pub(super) tolerance: Option<f64>,
    /// Iteration limit, instead of the problem's.
    #[arg(long, value_name = "N")]
    pub(super) iterations: Option<u32>,
    /// Leave out what earlier tunes chose.
    #[arg(long)]
    pub(super) untuned: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kernelwright solve model.kw --out u.vti --plot convergence.svg
  kernelwright solve model.kw --set nx=256 --set omega=0.2 --precision f64 --tolerance 1e-10
  kernelwright solve model.kw --rhs f.npy --rhs-order i,j,k --guess u0.npy --out u.npy
  kernelwright solve model.kw --backend host --json
  kernelwright solve cavity.kw --mesh cavity.msh --set N=5 --out fields.pvd --probes probes.csv
  kernelwright solve --matrix A.mtx --rhs b.npy --out x.npy
  kernelwright solve --matrix A.mtx --solver bicgstab --format measure --tolerance 1e-10 --relative-to r0

Arrays have one axis per axis of the grid (and a leading one for the components, where there are several unknowns).
--rhs-order and --guess-order name their axes, slowest first as NumPy shows them; without them they are in the order of
--out: last axis of the grid first. With --matrix they have one axis, in the order of the matrix; without --rhs the
right-hand side is the file's own, else the one whose solution is all ones. Ctrl-C ends a solve cleanly and still writes --out; a second one ends the process at once.

Exit status: 0 converged; 1 the program or an input file is wrong; 2 wrong usage; 3 not converged, unstable, or interrupted;
4 the back end is not available or failed.")]
pub(super) struct SolveArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Right-hand side, instead of the problem's.
    #[arg(long, value_name = "FILE.npy")]
    pub(super) rhs: Option<PathBuf>,
    /// Initial guess, instead of the problem's.
    #[arg(long, value_name = "FILE.npy")]
    pub(super) guess: Option<PathBuf>,
    /// Names of the axes of --rhs, slowest first.
    #[arg(long, value_name = "k,j,i", value_delimiter = ',', requires = "rhs")]
    pub(super) rhs_order: Vec<String>,
    /// Names of the axes of --guess, slowest first.
    #[arg(long, value_name = "k,j,i", value_delimiter = ',', requires = "guess")]
    pub(super) guess_order: Vec<String>,
    /// Write the solution (.npy, or .vti for ParaView; of a system .vtu, or .pvd for a series in time).
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Write the measure at every iteration.
    #[arg(long, value_name = "FILE.csv", value_parser = written::csv)]
    pub(super) history: Option<PathBuf>,
    /// Draw the convergence.
    #[arg(long, value_name = "FILE.svg", value_parser = written::svg)]
    pub(super) plot: Option<PathBuf>,
    /// A mesh (gmsh 2.2 or 4.1), instead of the problem's.
    #[arg(long, value_name = "FILE.msh", help_heading = "Problems of systems")]
    pub(super) mesh: Option<PathBuf>,
    /// Write the values at the probes.
    #[arg(long, value_name = "FILE.csv", value_parser = written::csv, help_heading = "Problems of systems")]
    pub(super) probes: Option<PathBuf>,
    /// Write a checkpoint at every output and when interrupted.
    #[arg(long, value_name = "FILE", help_heading = "Problems of systems")]
    pub(super) checkpoint: Option<PathBuf>,
    /// Go on from a checkpoint.
    #[arg(long, value_name = "FILE", help_heading = "Problems of systems")]
    pub(super) restart: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kernelwright bench pcg --sizes 256x256x128,1024x1024x128 --precisions f32,f64
  kernelwright bench pcg --backend host --sizes 64x64x64 --schedules all
  kernelwright bench model.kw --set nx=512 --json > before.json
  kernelwright bench model.kw --compile --backend host
  kernelwright bench model.kw --compile --architecture 90
  kernelwright bench --matrix A.mtx --format measure
  kernelwright bench spmv --backend cuda --json
  kernelwright bench spmv --scale 0.01 --kind poisson7 --kind powerlaw
  kernelwright bench read --matrix A.mtx

`pcg` is the model problem: pressure correction with line solves. Every run starts from the problem's guess; the first
one is not counted. An iteration is timed by the difference of two runs of fixed length, a solve to its verified end.
`spmv` multiplies with matrices of seven kinds (or that of --matrix), in every format, side by side with cuSPARSE where it
is there; `read` times the reader of MatrixMarket.")]
pub(super) struct BenchArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Sizes of the grid, one case for each.
    #[arg(long, value_name = "NXxNYx…", value_delimiter = ',', value_parser = sizes)]
    pub(super) sizes: Vec<Sizes>,
    /// Precisions, one case for each.
    #[arg(long, value_name = "P", value_delimiter = ',', value_parser = precision)]
    pub(super) precisions: Vec<Precision>,
    /// Schedules by name, one case for each; `all` for all.
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "schedule")]
    pub(super) schedules: Vec<String>,
    /// Words a point that the floor moves; by default the fewest of a schedule with the program's own arithmetic (9 for
    /// the model problem).
    #[arg(long, value_name = "WORDS", value_parser = above_zero)]
    pub(super) floor: Option<f64>,
    /// Counted runs.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Measure how long compiling takes instead: with an empty cache and with a full one, stage by stage.
    #[arg(long)]
    pub(super) compile: bool,
    /// Compile CUDA kernels for this architecture (90 is sm_90) without a card; NVRTC is enough.
    #[arg(long, value_name = "NUMBER", requires = "compile", conflicts_with = "backend")]
    pub(super) architecture: Option<u32>,
    /// spmv, read: scale of the number of rows of the generated matrices, at most 100.
    #[arg(long, value_name = "X", value_parser = scale, allow_hyphen_values = true)]
    pub(super) scale: Option<f64>,
    /// spmv, read: a kind of matrix, instead of all; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(super) kind: Vec<String>,
}

/// What has no meaning beside `tune --compare`.
const COMPARED: [&str; 10] =
    ["count", "exhaustive", "strategy", "fresh", "show", "export", "import", "mesh", "matrix", "plot"];

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kernelwright tune model.kw --budget 30s
  kernelwright tune model.kw --set nx=512 --precision f32 --plot tune.svg
  kernelwright tune model.kw --exhaustive --json > all.json
  kernelwright tune --matrix A.mtx --precision f32
  kernelwright tune cavity.kw --mesh cavity.msh --set N=5
  kernelwright tune --show
  kernelwright tune --export team.jsonl
  kernelwright tune --import team.jsonl
  kernelwright tune model.kw --compare before --compare team.jsonl

Measurements are kept under KERNELWRIGHT_TUNED, or in the user's cache folder; a tune that was ended goes on there.
Ctrl-C ends the search and chooses the best of what is known; a second one ends the process at once.
docs/TUNING.md tells what is searched and how it is proven.")]
pub(super) struct TuneArgs {
    /// A .kw file, - for standard input, or the name of a program declared in this binary.
    #[arg(value_name = "FILE")]
    pub(super) file: Option<String>,
    /// Which problem, where the program has several.
    #[arg(long, value_name = "NAME")]
    pub(super) problem: Option<String>,
    /// Set a size or a parameter; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    pub(super) set: Vec<(String, f64)>,
    /// Precision of vectors, instead of the problem's.
    #[arg(long, value_name = "f32|f64", value_parser = precision)]
    pub(super) precision: Option<Precision>,
    /// Where to compute: auto, cuda, cuda:N, host or interp.
    #[arg(long, value_name = "BACKEND", default_value = "auto", value_parser = str::parse::<Choice>)]
    pub(super) backend: Choice,
    /// One schedule only, by name (explain lists them).
    #[arg(long, value_name = "NAME")]
    pub(super) schedule: Option<String>,
    /// Search this kernel alone, by the name that the closing table gives it; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub(super) kernel: Vec<String>,
    /// Time for everything: 90s, 5min, or seconds. Without it, and without --count or --exhaustive, 60s.
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(super) budget: Option<Duration>,
    /// Candidates to compile at most.
    #[arg(long, value_name = "N")]
    pub(super) count: Option<usize>,
    /// Look at everything.
    #[arg(long, conflicts_with = "strategy")]
    pub(super) exhaustive: bool,
    /// How candidates are picked: exhaustive, random or guided.
    #[arg(long, value_name = "NAME", default_value = "guided", value_parser = str::parse::<Strategy>)]
    pub(super) strategy: Strategy,
    /// Measure again what earlier tunes measured.
    #[arg(long)]
    pub(super) fresh: bool,
    /// Show what is known, of FILE or of everything, and tune nothing.
    #[arg(long)]
    pub(super) show: bool,
    /// Write what is known, of FILE or of everything, into a file that --import takes.
    #[arg(long, value_name = "FILE")]
    pub(super) export: Option<PathBuf>,
    /// Take over what --export wrote.
    #[arg(long, value_name = "FILE")]
    pub(super) import: Option<PathBuf>,
    /// Tune nothing, and time what searches chose for the kernels of FILE as the store at this place has it, a folder or what
    /// --export wrote: the default and the kernels of all stores in turns, in this process; may be repeated. Differences of a few
    /// per cent between tunes show only here, as processes differ by more.
    #[arg(long, value_name = "STORE", requires = "file", conflicts_with_all = COMPARED)]
    pub(super) compare: Vec<PathBuf>,
    /// A mesh (gmsh 2.2 or 4.1), instead of the problem's.
    #[arg(long, value_name = "FILE.msh", help_heading = "Problems of systems")]
    pub(super) mesh: Option<PathBuf>,
    /// Tune products of a matrix, in a file of any format that info reads: its storage format and the product's kernel.
    #[arg(long, value_name = "FILE", help_heading = "Products of a matrix")]
    pub(super) matrix: Option<PathBuf>,
    /// Tune products of a generated matrix, of one of the kinds of bench spmv.
    #[arg(long, value_name = "NAME", help_heading = "Products of a matrix")]
    pub(super) kind: Option<String>,
    /// Scale of the number of rows of a generated matrix, at most 100.
    #[arg(long, value_name = "X", value_parser = scale, requires = "kind", help_heading = "Products of a matrix")]
    pub(super) scale: Option<f64>,
    #[command(flatten)]
    pub(super) format: FormatArgs,
    /// Draw the search.
    #[arg(long, value_name = "FILE.svg", value_parser = written::svg)]
    pub(super) plot: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  kernelwright explain examples/programs/pressure_correction.kw
  kernelwright explain examples/programs/pressure_correction.kw --bandwidth 4240 --paper
  kernelwright explain examples/programs/cavity.kw --set N=5 --set n=30 --bandwidth 4240")]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) compile: CompileArgs,
    /// Whose copy bandwidth is measured; the first of them that is there by default.
    #[arg(long, value_enum)]
    pub(super) target: Option<TargetArg>,
    /// Copy bandwidth for predicted times, instead of a measured one.
    #[arg(long, value_name = "GB/s", value_parser = above_zero, allow_hyphen_values = true)]
    pub(super) bandwidth: Option<f64>,
    /// Also count words and operations as the paper of the model problem does.
    #[arg(long)]
    pub(super) paper: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Stages, in the order of the data:
  program    as checked and pretty printed       math      the operator as couplings between points
  graph      the loop as vector values           schedule  what is computed in which sweep
  loops      sweeps and fences                   kernel    lanes and memory, for --target
Of a system there are program, math (the equations by components, with fluxes, energy and time step) and kernel.

Example:
  kernelwright ir examples/programs/poisson_2d.kw --stage loops")]
pub(super) struct IrArgs {
    #[command(flatten)]
    pub(super) compile: CompileArgs,
    /// Which stage's result.
    #[arg(long, value_enum)]
    pub(super) stage: Stage,
    /// What kernels are made for.
    #[arg(long, value_enum, default_value = "cuda")]
    pub(super) target: TargetArg,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kernelwright emit examples/programs/pressure_correction.kw --target cuda
  kernelwright emit examples/programs/poisson_2d.kw --target host --kernel update_u_r")]
pub(super) struct EmitArgs {
    #[command(flatten)]
    pub(super) compile: CompileArgs,
    /// CUDA C++ or C.
    #[arg(long, value_enum)]
    pub(super) target: TargetArg,
    /// One kernel only.
    #[arg(long, value_name = "NAME")]
    pub(super) kernel: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Sizes that are not set are reduced to a grid small enough for a dense matrix. A claim of the program that the numbers
contradict is an error (exit status 1). A system is looked at on its own box with two cubes along each axis; where its mesh
comes from a file, on a box with joined sides.

Examples:
  kernelwright verify examples/programs/pressure_correction.kw
  kernelwright verify model.kw --set nx=5 --set ny=4 --out A.mtx")]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub(super) program: ProgramArgs,
    /// Write the matrix in MatrixMarket form.
    #[arg(long, value_name = "FILE.mtx", value_parser = written::mtx)]
    pub(super) out: Option<PathBuf>,
}

/// Results of the stages of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Stage {
    Program,
    Math,
    Graph,
    Schedule,
    Loops,
    Kernel,
}

/// What kernels are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TargetArg {
    Cuda,
    Host,
}

impl From<TargetArg> for Target {
    fn from(target: TargetArg) -> Target {
        match target {
            TargetArg::Cuda => Target::Cuda,
            TargetArg::Host => Target::Host,
        }
    }
}

/// Sizes of the axes of a grid.
#[derive(Debug, Clone)]
pub(super) struct Sizes(pub(super) Vec<usize>);

/// `256x256x128`.
fn sizes(text: &str) -> Result<Sizes, String> {
    let one = |size: &str| match size.trim().parse() {
        Ok(0) | Err(_) => Err(format!("`{size}` is not a size; write 256x256x128")),
        Ok(size) => Ok(size),
    };
    text.split('x').map(one).collect::<Result<Vec<usize>, String>>().map(Sizes)
}

fn part(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.trim().to_string(), value.trim().to_string()))
}

/// `name=value`.
fn assignment(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let number = value.trim().parse().map_err(|_| format!("`{value}` is not a number"))?;
    Ok((name.trim().to_string(), number))
}

/// `f32`, `f64` or `mixed`.
fn precision(text: &str) -> Result<Precision, String> {
    match text {
        "f32" => Ok(Precision::F32),
        "f64" => Ok(Precision::F64),
        "mixed" => Ok(Precision::Mixed),
        _ => Err("vectors are f32 or f64, or mixed".to_string()),
    }
}

/// `90s`, `5min`, `2h` or a number of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("min", 60.0), ("ms", 1e-3), ("h", 3600.0), ("s", 1.0)];
    let found = units.iter().find_map(|(unit, factor)| text.strip_suffix(unit).map(|number| (number, *factor)));
    let (number, factor) = found.unwrap_or((text, 1.0));
    let number: f64 = number.trim().parse().map_err(|_| format!("`{text}` is no time; write 90s or 5min"))?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| format!("`{text}` is no time; write 90s or 5min"))
}

/// A number that is zero or greater.
fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if number >= 0.0 && number.is_finite() {
        Ok(number)
    } else {
        Err("it is zero or a finite number above".to_string())
    }
}

/// A scale of generated matrices: their sizes are to be numbers, and to fit some memory.
fn scale(text: &str) -> Result<f64, String> {
    positive(text).ok().filter(|number| *number <= 100.0).ok_or("it is between 0 and 100".to_string())
}

/// A number greater than zero.
fn above_zero(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("greater than zero".to_string()) }
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

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kernelwright info A.mtx
  kernelwright info bcsstk13.rsa --spy spy.svg --histogram lengths.svg --json

What the file is shows in its contents: MatrixMarket, Harwell-Boeing, Rutherford-Boeing or SciPy's .npz, also compressed
with gzip. Both triangles of a symmetric matrix are counted. Rows and columns count from 1.")]
pub(super) struct InfoArgs {
    /// A matrix.
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Draw where the entries stand.
    #[arg(long, value_name = "FILE.svg", value_parser = written::svg)]
    pub(super) spy: Option<PathBuf>,
    /// Draw how many rows there are of which length.
    #[arg(long, value_name = "FILE.svg", value_parser = written::svg)]
    pub(super) histogram: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  kernelwright convert bcsstk13.rsa bcsstk13.mtx
  kernelwright convert A.mtx.gz A.npz

Read is what info reads; written are .mtx, .mtx.gz, .npz (csr of SciPy), Harwell-Boeing (.hb, .rua, .rra, .rsa, .rza) with
its vectors, and Rutherford-Boeing (.rb). A symmetric file stays one, but for .npz.")]
pub(super) struct ConvertArgs {
    /// A matrix.
    #[arg(value_name = "IN")]
    pub(super) from: PathBuf,
    /// Where to write it; the name's end says in which format.
    #[arg(value_name = "OUT")]
    pub(super) to: PathBuf,
}
