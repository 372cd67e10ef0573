use crate::formats;
use crate::matrices;
use kernelwright_codegen::format::{Basis, Options, operator, store};
use kernelwright_codegen::kernel::Element;
use kernelwright_codegen::map::{self, Target, Variant, map};
use kernelwright_codegen::plan::{plan, search::Limits};
use kernelwright_codegen::trace::{Input, trace};
use kernelwright_syntax::program::{Precision, Preconditioner};

#[test]
fn peek() {
    let Ok(out) = std::env::var("PEEK") else { return };
    let solver = kernelwright_syntax::library::solver("cg").unwrap();
    let solvers = std::slice::from_ref(&solver);
    for (name, lanes) in [
        ("csr", 1),
        ("csr", 8),
        ("sell_c_sigma", 1),
        ("sell_c_sigma", 4),
        ("sell_delta", 1),
        ("pjds", 1),
        ("ellpack_r", 1),
        ("coo", 1),
        ("csr_delta", 8),
    ] {
        let matrix = if name.contains("delta") { matrices::wide() } else { matrices::square().remove(6) };
        let stored =
            store(&formats::named(name), &matrix.view(), Options { basis: Basis::Permuted, diagonal: false }).unwrap();
        let op = operator("matrix", &stored.layout, Vec::new());
        let graph = trace(Input {
            operator: &op,
            solvers,
            solver: 0,
            preconditioner: &Preconditioner::Identity,
            precision: Precision::F64,
        })
        .unwrap();
        let plans = plan(&graph, Limits::default()).unwrap();
        let best = plans.iter().skip(1).min_by(|a, b| a.cost.words.total_cmp(&b.cost.words)).unwrap();
        for target in [Target::Cuda, Target::Host] {
            let mut variant = Variant::for_grid(target, op.space.grid());
            variant.row_lanes = Some(lanes);
            let module =
                map(&best.program, &map::Options { target, precision: Element::F64, history_len: 8, variant }).unwrap();
            let text = if target == Target::Cuda {
                kernelwright_codegen::print::cuda(&module.kernels)
            } else {
                kernelwright_codegen::print::c(&module.kernels)
            };
            let end = if target == Target::Cuda { "cu" } else { "c" };
            std::fs::write(format!("{out}/{name}_{lanes}.{end}"), text).unwrap();
        }
    }
}
