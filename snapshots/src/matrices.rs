//! Golden texts of products with sparse matrices: CG on one matrix in every format of the library.

use kernelwright::backend::Target;
use kernelwright_codegen::format::{Basis, Matrix, Options, Stored, operator, store};
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
    for (set, name) in [("row_lanes", "csr"), ("row_lanes", "sell_c_sigma"), ("row_unroll", "csr"), ("balanced", "csr")]
    {
        let value = if set == "balanced" { "true" } else { "4" };
        let kernels = product(&conjugate_gradients(&stored(name)), Precision::F64, &[(set, value)]);
        let description = format!("the product of CG in {name}, {set} {value}");
        all.push(golden(&format!("{name}.{set}.cu"), &description, Target::Cuda, kernels));
    }
    all
}

fn golden(name: &str, description: &str, target: Target, kernels: Vec<Kernel>) -> Golden {
    let text = source(&kernels, target);
    Golden { name: format!("matrix.{name}"), description: description.into(), text, kernels }
}

/// Bands, and a few far entries.
fn stored(format: &str) -> Stored {
    let (mut starts, mut column) = (vec![0], Vec::new());
    for row in 0..ROWS {
        let far = if row % 50 == 0 { Some((row + ROWS / 2) % ROWS) } else { None };
        let mut columns: Vec<usize> = (row.saturating_sub(3)..(row + 4).min(ROWS)).chain(far).collect();
        columns.sort_unstable();
        column.extend(columns);
        starts.push(column.len());
    }
    let value = vec![1.0; column.len()];
    let matrix = Matrix { columns: ROWS, starts: &starts, column: &column, value: &value };
    let format = library::format(format).expect("the library has the format");
    store(&format, &matrix, Options { basis: Basis::Permuted, diagonal: false }).expect("the matrix fits every format")
}

/// The schedule of fewest words with the loop's own arithmetic.
fn conjugate_gradients(stored: &Stored) -> Program {
    let operator = operator("matrix", &stored.layout, Vec::new());
    let solver = library::solver("cg").expect("the library has conjugate gradients");
    let (solvers, preconditioner) = (std::slice::from_ref(&solver), &Preconditioner::Identity);
    let input = Input { operator: &operator, solvers, solver: 0, preconditioner, precision: Precision::F64 };
    let graph = trace(input).expect("the library traces");
    let plans = plan(&graph, Limits::default()).expect("the library has schedules");
    let same = plans.into_iter().filter(|plan| {
        plan.schedule.arithmetic == Arithmetic::Same && plan.schedule.main.as_ref().is_some_and(|m| m.delay == 1)
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
