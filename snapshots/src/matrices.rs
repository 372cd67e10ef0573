//! Golden texts of products with sparse matrices: CG on one matrix in every format of the library.

use kernelwright::backend::Target;
use kernelwright_codegen::format::{Basis, Matrix, Options, Stored, companion, operator, store, with_companions};
use kernelwright_codegen::kernel::Kernel;
use kernelwright_codegen::loops::Program;
use kernelwright_codegen::math_text;
use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_codegen::plan::{plan, search::Limits};
use kernelwright_codegen::trace::{Input, trace};
use kernelwright_syntax::library;
use kernelwright_syntax::program::{Precision, Preconditioner};

use crate::build::{default_variant, kernels, source};
use crate::cases::Golden;

/// Rows of the matrix: wider than 16 bits reach.
const ROWS: usize = 100_000;

/// All of them.
pub fn cases() -> Vec<Golden> {
    let mut all = Vec::new();
    let csr = stored("csr");
    let loops = conjugate_gradients(&csr);
    for (target, end) in [(Target::Cuda, "cu"), (Target::Host, "c")] {
        let kernels = kernels(&loops, target, Precision::F64, default_variant(&loops, target));
        all.push(golden(&format!("csr.cg.{end}"), "CG in csr: all kernels", target, kernels));
    }
    let math = math_text::dump(&operator("matrix", &csr.layout, Vec::new()));
    all.push(Golden::text("matrix.csr.math".into(), "a matrix in csr: the operator".into(), math));
    for name in library::format_names() {
        let kernels = product(&conjugate_gradients(&stored(name)), Precision::F32, &[]);
        let description = format!("the product of CG in {name}, f32");
        all.push(golden(&format!("{name}.cu"), &description, Target::Cuda, kernels));
    }
    for (set, name) in [
        ("row_lanes", "csr"),
        ("row_lanes", "sell_c_sigma"),
        ("row_unroll", "csr"),
        ("row_strips", "csr"),
        ("row_staged", "csr"),
        ("balanced", "csr"),
        ("row_once", "sell_delta"),
    ] {
        let value = if matches!(set, "balanced" | "row_once" | "row_staged") { "true" } else { "4" };
        let parts = [(set, value), ("balanced", "true")];
        let parts = if set == "row_staged" { &parts[..] } else { &parts[..1] };
        let kernels = product(&conjugate_gradients(&stored(name)), Precision::F64, parts);
        let description = format!("the product of CG in {name}, {set} {value}");
        all.push(golden(&format!("{name}.{set}.cu"), &description, Target::Cuda, kernels));
    }
    for (preconditioner, reads) in [(Preconditioner::BlockJacobi(4), "block"), (Preconditioner::Ssor(1.0), "forward")] {
        let program = program_of("pcg", &stored_with("csr", &preconditioner), &preconditioner);
        let value = format!("{reads}_value");
        let mut reading = kernels(&program, Target::Cuda, Precision::F32, default_variant(&program, Target::Cuda));
        reading.retain(|kernel| kernel.buffers.iter().any(|buffer| buffer.name == value));
        let name = if reads == "block" { "block_jacobi" } else { "ssor" };
        let description = format!("pcg in csr: what {name} multiplies with, f32");
        all.push(golden(&format!("csr.{name}.cu"), &description, Target::Cuda, reading));
    }
    all
}

fn golden(name: &str, description: &str, target: Target, kernels: Vec<Kernel>) -> Golden {
    let text = source(&kernels, target);
    Golden { name: format!("matrix.{name}"), description: description.into(), text, kernels }
}

/// Bands, and a few far entries.
fn stored(format: &str) -> Stored {
    stored_with(format, &Preconditioner::Identity)
}

/// The same, with what a preconditioner multiplies with.
fn stored_with(format: &str, preconditioner: &Preconditioner) -> Stored {
    let (mut starts, mut column) = (vec![0], Vec::new());
    for row in 0..ROWS {
        let far = if row % 50 == 0 { Some((row + ROWS / 2) % ROWS) } else { None };
        let mut columns: Vec<usize> = (row.saturating_sub(3)..(row + 4).min(ROWS)).chain(far).collect();
        columns.sort_unstable();
        column.extend(columns);
        starts.push(column.len());
    }
    let at = |row: usize| starts[row]..starts[row + 1];
    let of_row = |row: usize| column[at(row)].iter().map(move |&c| if c == row { 8.0 } else { 1.0 });
    let value: Vec<f64> = (0..ROWS).flat_map(of_row).collect();
    let matrix = Matrix { columns: ROWS, starts: &starts, column: &column, value: &value };
    let format = library::format(format).expect("the library has the format");
    let options = Options { basis: Basis::Permuted, diagonal: companion::reads_diagonal(preconditioner) };
    let mut stored = store(&format, &matrix, options).expect("the matrix fits every format");
    companion::add(&mut stored, &matrix, preconditioner).expect("its blocks have inverses");
    stored
}

/// The schedule of fewest words with the loop's own arithmetic.
fn conjugate_gradients(stored: &Stored) -> Program {
    program_of("cg", stored, &Preconditioner::Identity)
}

fn program_of(solver: &str, stored: &Stored, preconditioner: &Preconditioner) -> Program {
    let operator = with_companions("matrix", stored, Vec::new());
    let solver = library::solver(solver).expect("the library has conjugate gradients");
    let solvers = std::slice::from_ref(&solver);
    let input = Input { operator: &operator, solvers, solver: 0, preconditioner, precision: Precision::F64 };
    let graph = trace(input).expect("the library traces");
    let plans = plan(&graph, Limits::default()).expect("the library has schedules");
    let same = plans.into_iter().filter(|plan| {
        plan.schedule.arithmetic == Arithmetic::Same && plan.schedule.main.as_ref().is_none_or(|m| m.delay == 1)
    });
    let least = same.min_by(|a, b| a.cost.words.total_cmp(&b.cost.words));
    least.expect("there is a schedule of the same arithmetic").program
}

/// The kernels of the sweep in the loop that forms the product.
fn product(program: &Program, precision: Precision, set: &[(&str, &str)]) -> Vec<Kernel> {
    let mut variant = default_variant(program, Target::Cuda);
    for (key, value) in set {
        variant.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let reads = |kernel: &&Kernel| kernel.buffers.iter().any(|buffer| buffer.name == "value");
    let all = kernels(program, Target::Cuda, precision, variant);
    let first = all.iter().position(|kernel| reads(&kernel) && kernel.buffers.iter().any(|buffer| buffer.name == "p"));
    let first = first.expect("conjugate gradients form a product with p");
    // Cut by entries, two kernels come before the sweep.
    let count = if set.iter().any(|(key, _)| *key == "balanced") { 3 } else { 1 };
    all[first..first + count].to_vec()
}
