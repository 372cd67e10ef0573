//! Sweeps with products of a matrix, mapped and interpreted, against the plain product in compressed rows.
//!
//! Bounds: a sum of m terms in any order, in arithmetic of unit roundoff e, is within (m + 2) e of the sum of absolute
//! values (Higham 2002, section 4.2), the products' and the entries' own roundings included.

use crate::formats;
use crate::matrices::{self, Csr};
use crate::support::*;
use kernelwright_codegen::format::{
    Array, Basis, Contents, Kind, Options, Role, Stored, layout, operator, store as convert,
};
use kernelwright_codegen::kernel::{Element, IndexWidth};
use kernelwright_codegen::loops::*;
use kernelwright_codegen::map::{self, Part, Target, Variant, Work};
use kernelwright_syntax::program::Format;
use kernelwright_tests::random::Random;

const PLAIN: Options = Options { basis: Basis::Permuted, diagonal: true };

/// A stored matrix as a case.
pub fn case(stored: &Stored) -> Case {
    let data = stored.contents.iter().map(Contents::reals).collect();
    let text = format!("format {}", stored.layout.format.name);
    Case { text, op: operator("matrix", &stored.layout, Vec::new()), params: Vec::new(), data }
}

/// `y = A*x; z = x - 0.5*(A*x) + w; m = |A|*|x|; d = x/diagonal` with the sum of x*y, in one sweep.
fn fused(case: &Case) -> Program {
    let mut build = Build::new(&case.op, &["x", "w", "y", "z", "m", "d"]);
    build.program.sums = vec![SumKind::Add, SumKind::Max];
    let half = Box::new(PointExpr::Number(0.5));
    let scaled = Box::new(PointExpr::Binary(BinaryOp::Mul, half, v(2)));
    let less = Box::new(PointExpr::Binary(BinaryOp::Sub, v(0), scaled));
    let values = vec![
        value("x", load(0)),
        value("w", load(1)),
        value("y", ValueKind::Apply(ValueId(0))),
        value("z", ValueKind::Map(PointExpr::Binary(BinaryOp::Add, less, v(1)))),
        value("m", ValueKind::Magnitude(ValueId(0))),
        value("d", ValueKind::Diagonal(ValueId(0))),
    ];
    let stores = vec![store(2, 2), store(3, 3), store(4, 4), store(5, 5)];
    build.sweep("fused", Granule::Point, values, stores, vec![sum(0, 0, Some(2)), sum(1, 3, None)]);
    build.program.fences.push(Fence {
        name: "sums".into(),
        statements: vec![
            ScalarStmt::Assign { scalar: ScalarId(5), value: ScalarExpr::Sum(SumId(0)), text: "dot".into() },
            ScalarStmt::Assign { scalar: ScalarId(6), value: ScalarExpr::Sum(SumId(1)), text: "max".into() },
        ],
        predicate: None,
    });
    build.program
}

fn rounded(precision: Element, values: Vec<f64>) -> Vec<f64> {
    let round = |v: f64| if precision == Element::F32 { f64::from(v as f32) } else { v };
    values.into_iter().map(round).collect()
}

/// One sweep of everything, against the oracle.
fn agrees(matrix: &Csr, format: &Format, target: Target, precision: Element, change: impl Fn(&mut Variant)) {
    let mut matrix = matrix.clone();
    matrix.value = rounded(precision, matrix.value);
    let stored = convert(format, &matrix.view(), Options { basis: Basis::Permuted, diagonal: true }).unwrap();
    let case = case(&stored);
    let program = fused(&case);
    let mut variant = Variant::for_space(target, &case.op.space);
    change(&mut variant);
    let shape = variant.to_string();
    let mut machine = Machine::new(&case, &program, target, precision, Some(variant));
    let n = case.len();
    let mut random = Random::new(3);
    let (x, w) = (rounded(precision, random.vector(n)), rounded(precision, random.vector(n)));
    let order: Vec<usize> = match &stored.order {
        Some(order) => order.iter().map(|&row| row as usize).collect(),
        None => (0..n).collect(),
    };
    let there = |v: &[f64]| -> Vec<f64> { order.iter().map(|&row| v[row]).collect() };
    machine.write(0, &there(&x));
    machine.write(1, &there(&w));
    for output in 2..6 {
        machine.write(output, &vec![f64::NAN; n]);
    }
    machine.sweep(0);
    machine.fence(0);
    let (y, m) = matrix.product(&x);
    let longest = stored.layout.longest as f64;
    let e = epsilon(precision) / 2.0;
    let bound: Vec<f64> = m.iter().map(|m| (longest + 2.0) * e * m + f64::MIN_POSITIVE).collect();
    let context =
        || format!("{} in {}, {target:?} {precision:?} {shape}\n{}", matrix.name, format.name, machine.text(target));
    let back = |number: usize| -> Vec<f64> {
        let stored = machine.read(number);
        let mut given = vec![0.0; n];
        order.iter().zip(stored).for_each(|(&row, value)| given[row] = value);
        given
    };
    close("y", &back(2), &y, |i| bound[i], context);
    close("m", &back(4), &m, |i| bound[i], context);
    let z: Vec<f64> = (0..n).map(|i| x[i] - 0.5 * y[i] + w[i]).collect();
    close("z", &back(3), &z, |i| bound[i] + 3.0 * e * (x[i].abs() + m[i] + w[i].abs()), context);
    let diagonal = |i: usize| matrix.row(i).find(|c| c.0 == i).map_or(0.0, |c| c.1);
    for (i, got) in back(5).into_iter().enumerate().filter(|(i, _)| diagonal(*i) != 0.0) {
        let want = x[i] / diagonal(i);
        assert!((got - want).abs() <= 2.0 * e * want.abs(), "x/diagonal at {i}: {got} for {want}\n{}", context());
    }
    let dot: f64 = (0..n).map(|i| x[i] * y[i]).sum();
    let slack: f64 = (0..n).map(|i| x[i].abs() * (bound[i] + n as f64 * 1.2e-16 * y[i].abs())).sum();
    assert!((machine.scalar(5) - dot).abs() <= slack + 1e-300, "dot {} for {dot}\n{}", machine.scalar(5), context());
    let most = back(3).iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    assert_eq!(machine.scalar(6), most, "{}", context());
}

#[test]
fn every_format_multiplies_every_matrix() {
    for format in formats::all() {
        for matrix in matrices::square() {
            for (target, precision) in ENGINES {
                agrees(&matrix, &format, target, precision, |_| {});
            }
        }
    }
}

#[test]
fn every_sharing_of_rows_gives_the_product() {
    for name in [
        "csr",
        "csr_delta",
        "coo",
        "pjds",
        "sell_c_sigma",
        "sell_delta",
        "ellpack_r",
        "odd_lane_inside",
        "odd_pattern_lanes",
        "sliced_dia",
    ] {
        let format = formats::named(name);
        for matrix in matrices::square() {
            for (lanes, together) in [(1, Some(3)), (2, None), (8, Some(1)), (32, Some(16))] {
                agrees(&matrix, &format, Target::Cuda, Element::F64, |variant| {
                    (variant.row_lanes, variant.row_unroll) = (Some(lanes), together);
                    variant.block = Some([64, 1]);
                    variant.chunk = Some(2);
                });
            }
        }
    }
}

#[test]
fn strips_of_entries_give_the_product() {
    for name in ["csr", "odd_csr_sorted"] {
        let format = formats::named(name);
        for matrix in matrices::square().into_iter().chain(matrices::long()) {
            for (items, lanes, chunk) in [(1, 32, 1), (4, 64, 2), (8, 128, 4)] {
                let precision = if items == 4 { Element::F32 } else { Element::F64 };
                agrees(&matrix, &format, Target::Cuda, precision, |variant| {
                    (variant.row_strips, variant.block, variant.chunk) = (Some(items), Some([lanes, 1]), Some(chunk));
                    variant.balanced = Some(false);
                });
            }
        }
    }
}

#[test]
fn strips_that_do_not_fit_are_refused() {
    let stored = convert(&formats::named("csr"), &matrices::square()[4].view(), PLAIN).unwrap();
    let case = case(&stored);
    let mut variant = Variant::for_space(Target::Cuda, &case.op.space);
    (variant.row_strips, variant.block) = (Some(16), Some([256, 1]));
    let options = map::Options { target: Target::Cuda, precision: Element::F64, history_len: 4, variant };
    let error = map::map(&fused(&case), &options).unwrap_err();
    assert!(error.to_string().contains("do not fit the shared memory"), "{error}");
}

/// Any two parts of a variant, with whatever values a search gives them, make a kernel.
#[test]
fn what_a_search_would_try_can_be_mapped() {
    for name in ["csr", "sell_c_sigma"] {
        let stored = convert(&formats::named(name), &matrices::square()[4].view(), PLAIN).unwrap();
        let case = case(&stored);
        let program = fused(&case);
        let products = program.sweeps[0].values.iter().filter(|value| value.kind.gathers()).count();
        let default = Variant::for_space(Target::Cuda, &case.op.space);
        let parts = Variant::parts(Target::Cuda, &case.op.space, Element::F64, Work::Rows);
        let values = |part: &Part| part.values.iter().map(|value| (part.key, value.clone())).collect::<Vec<_>>();
        for (n, part) in parts.iter().enumerate() {
            for (first, second) in
                values(part).iter().flat_map(|a| parts[..n].iter().flat_map(values).map(move |b| (a.clone(), b)))
            {
                let mut variant = default.clone();
                variant.set(first.0, &first.1).unwrap();
                variant.set(second.0, &second.1).unwrap();
                if ![first.0, second.0].iter().all(|key| variant.matters(key, Target::Cuda, Work::Rows)) {
                    continue;
                }
                let fits = variant.holds_strips(products, Element::F64);
                let options = map::Options { target: Target::Cuda, precision: Element::F64, history_len: 4, variant };
                let mapped = map::map(&program, &options);
                assert_eq!(mapped.is_ok(), fits, "{name}: {first:?} {second:?}: {:?}", mapped.err());
            }
        }
    }
}

#[test]
fn columns_aside_are_found() {
    let matrix = matrices::wide();
    for name in ["csr_delta", "sell_delta", "sell_pattern"] {
        agrees(&matrix, &formats::named(name), Target::Host, Element::F64, |_| {});
    }
}

/// Lanes of a block, and whether terms go through shared memory.
const CUTS: [([u32; 2], bool); 4] = [([256, 1], false), ([512, 1], true), ([64, 1], false), ([1024, 1], false)];

#[test]
fn products_cut_by_entries_agree() {
    for (number, name) in ["csr", "odd_csr_sorted"].into_iter().enumerate() {
        let format = formats::named(name);
        for (n, matrix) in matrices::square().into_iter().chain(matrices::long()).enumerate() {
            for (m, precision) in [Element::F64, Element::F32].into_iter().enumerate() {
                let (block, staged) = CUTS[(number + n + 2 * m) % CUTS.len()];
                agrees(&matrix, &format, Target::Cuda, precision, |variant| {
                    (variant.balanced, variant.block, variant.row_staged) = (Some(true), Some(block), staged);
                });
            }
        }
    }
}

/// A sweep that stores its product and does nothing else is not launched, unless a row has no entries.
#[test]
fn products_alone_go_where_they_are_stored() {
    for (n, mut matrix) in matrices::square().into_iter().chain(matrices::long()).enumerate() {
        for (block, row_staged) in CUTS.into_iter().skip(n % 2).step_by(2) {
            let precision = if block[0] < 512 { Element::F64 } else { Element::F32 };
            matrix.value = rounded(precision, matrix.value);
            let stored = convert(&formats::named("csr"), &matrix.view(), PLAIN).unwrap();
            let case = case(&stored);
            let mut build = Build::new(&case.op, &["x", "y"]);
            let values = vec![value("x", load(0)), value("y", ValueKind::Apply(ValueId(0)))];
            build.sweep("product", Granule::Point, values, vec![store(1, 1)], Vec::new());
            let mut variant = Variant::for_space(Target::Cuda, &case.op.space);
            (variant.balanced, variant.block, variant.row_staged) = (Some(true), Some(block), row_staged);
            let mut machine = Machine::new(&case, &build.program, Target::Cuda, precision, Some(variant));
            let rows = matrix.rows();
            let (entries, filled) = (matrix.column.len(), (0..rows).filter(|&row| matrix.row(row).count() > 0).count());
            let launches = match entries {
                0 => 1,
                _ => 1 + usize::from(entries > 2048) + usize::from(filled < rows),
            };
            assert_eq!(machine.module.sweeps[0].len(), launches, "{}", matrix.name);
            let x = rounded(precision, Random::new(4).vector(case.len()));
            machine.write(0, &x);
            machine.write(1, &vec![f64::NAN; case.len()]);
            machine.sweep(0);
            let (y, m) = matrix.product(&x);
            let e = epsilon(precision) / 2.0;
            let bound = |row: usize| (matrix.row(row).count() as f64 + 2.0) * e * m[row] + f64::MIN_POSITIVE;
            close("y", &machine.read(1), &y, bound, || format!("{} {precision:?} {block:?}", matrix.name));
        }
    }
}

#[test]
fn a_huge_row_is_cut_without_being_asked() {
    let matrix = matrices::long().remove(1);
    let options = Options { basis: Basis::Permuted, diagonal: true };
    let stored = convert(&formats::named("csr"), &matrix.view(), options).unwrap();
    let case = case(&stored);
    let program = fused(&case);
    let machine = Machine::new(&case, &program, Target::Cuda, Element::F64, None);
    // Parts and runs of two products, and the sweep.
    assert_eq!(machine.module.sweeps[0].len(), 5);
    let banded = matrices::square().remove(4);
    let stored = convert(&formats::named("csr"), &banded.view(), options).unwrap();
    let case = self::case(&stored);
    let program = fused(&case);
    assert_eq!(Machine::new(&case, &program, Target::Cuda, Element::F64, None).module.sweeps[0].len(), 1);
}

/// Mapped only: arrays of this size are not made.
#[test]
fn sizes_choose_the_width_of_indices() {
    for (longest, wide) in [(30_000, false), (40_000, true)] {
        let lengths = vec![longest; 60_000];
        let arranged = layout::arrange(&formats::named("ellpack"), 60_000, 60_000, &lengths).unwrap();
        assert_eq!(arranged.layout.cells > 1 << 31, wide);
        let mut layout = arranged.layout;
        layout.arrays.push(Array { role: Role::Diagonal, kind: Kind::Real, len: layout.size });
        let op = operator("large", &layout, Vec::new());
        let case = Case { text: "large".into(), op, params: Vec::new(), data: Vec::new() };
        for target in [Target::Cuda, Target::Host] {
            let variant = Variant::for_space(target, &case.op.space);
            let options = map::Options { target, precision: Element::F64, history_len: 4, variant };
            let module = map::map(&fused(&case), &options).unwrap();
            let width = if wide { IndexWidth::I64 } else { IndexWidth::I32 };
            assert!(module.kernels.iter().all(|kernel| kernel.index == width));
            kernelwright_codegen::kernel_verify::verify_all(&module.kernels).unwrap();
        }
    }
}

#[test]
fn a_diagonal_that_was_not_stored_is_asked_for() {
    let matrix = matrices::square().remove(2);
    let options = Options { basis: Basis::Permuted, diagonal: false };
    let case = case(&convert(&formats::named("csr"), &matrix.view(), options).unwrap());
    let variant = Variant::for_space(Target::Cuda, &case.op.space);
    let options = map::Options { target: Target::Cuda, precision: Element::F64, history_len: 4, variant };
    let error = map::map(&fused(&case), &options).unwrap_err();
    assert!(error.to_string().contains("without its diagonal"), "{error}");
}
