//! Sweeps over points.

use kernelwright_codegen::kernel::{Element, Stmt};
use kernelwright_codegen::kernel_walk::each_stmt;
use kernelwright_codegen::loops::*;
use kernelwright_codegen::map::{Target, Variant};
use kernelwright_codegen::math_eval::Evaluator;
use kernelwright_tests::random::Random;

use crate::support::*;

/// `q = A u`, `g = affine part`, `m = |A| |u|`, `w = A (u + alpha t)`: random operators, all engines.
#[test]
fn readings_of_random_operators() {
    for seed in 0..60 {
        readings(&Case::random(seed), seed);
    }
}

/// Points that take no part read as zero and stay zero.
#[test]
fn readings_under_a_mask() {
    readings(&masked(), 7);
}

/// Formulas of fluxes that are infinite on closed faces, as factors and where unknowns are divided.
#[test]
fn closed_faces_are_not_evaluated() {
    let text = "operator shells {
    grid cells [i: nx, j: ny];
    let low[i+1/2] = i + 1;
    let high[i+1/2] = nx - 1 - i;
    let side[j+1/2] = (j + 1)*(ny - 1 - j);
    let steep[j+1/2] = 3/side;
    flux X[i+1/2] = 2/low*(u[i+1] - u);
    flux V[i+1/2] = 4*((u[i+1] - u)/high);
    flux Y[j+1/2] = steep*(u[j+1] - u);
    flux W[j+1/2] = 2*(steep*(u[j+1] - u));
    apply u => u - div(X) - div(V) - div(Y) - div(W);
    boundary i, j: no_flux;
}
problem shells { operator shells(nx = 7, ny = 5); rhs 0; solver cg; tolerance 1e-6; }";
    readings(&Case::parse(text, 3), 3);
}

fn readings(case: &Case, seed: u64) {
    let mut build = Build::new(&case.op, &["u", "t", "q", "g", "m", "w"]);
    build.program.sums = vec![SumKind::Add, SumKind::Max];
    let values = vec![
        value("u", load(0)),
        value("t", load(1)),
        value("q", ValueKind::Apply(ValueId(0))),
        value("g", ValueKind::AffinePart),
        value("m", ValueKind::Magnitude(ValueId(0))),
        value(
            "p",
            ValueKind::Map(PointExpr::Binary(
                BinaryOp::Add,
                v(0),
                Box::new(PointExpr::Binary(BinaryOp::Mul, s(5), v(1))),
            )),
        ),
        value("w", ValueKind::Apply(ValueId(5))),
    ];
    let stores = vec![store(2, 2), store(3, 3), store(4, 4), store(6, 5)];
    build.sweep("readings", Granule::Point, values, stores, vec![sum(0, 0, Some(2)), sum(1, 2, None)]);
    let fence = vec![
        ScalarStmt::Assign { scalar: ScalarId(5), value: ScalarExpr::Sum(SumId(0)), text: "alpha = dot(u, q)".into() },
        ScalarStmt::Assign { scalar: ScalarId(6), value: ScalarExpr::Sum(SumId(1)), text: "beta = norm_max(q)".into() },
    ];
    build.program.fences.push(Fence { name: "finish".into(), statements: fence, predicate: None });

    let reference = Evaluator::new(&case.op, &case.params, &case.data).unwrap();
    let mut random = Random::new(seed + 1000);
    let active = reference.active();
    let mut vector = || -> Vec<f64> {
        let part = |n: usize| f64::from(u8::from(active[n % active.len()]));
        random.vector(case.len()).iter().enumerate().map(|(n, x)| x * part(n)).collect()
    };
    let (u, t) = (vector(), vector());
    let alpha = 0.75;
    let p: Vec<f64> = u.iter().zip(&t).map(|(u, t)| u + alpha * t).collect();
    let most: Vec<f64> = u.iter().zip(&t).map(|(u, t)| u.abs() + alpha * t.abs()).collect();
    let (q, g, m, w) = (reference.linear(&u), reference.affine_part(), reference.magnitude(&u), reference.linear(&p));
    let bound_w = reference.magnitude(&most);
    let dot: f64 = u.iter().zip(&q).map(|(a, b)| a * b).sum();
    let largest = q.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
    for (target, precision) in ENGINES {
        let own = Variant::default();
        let small = Variant { chunk: Some(2), block: Some([32, 1]), tile: Some([2, 1]), ..own.clone() };
        let afresh = Variant { chunk: Some(3), carry: false, unroll: Some(2), ..own.clone() };
        let mut variants = vec![None, Some(small), Some(afresh)];
        if target == Target::Cuda {
            let tiles = Variant { staged: Some(true), block: Some([8, 4]), chunk: Some(3), ..own };
            variants.push(Some(Variant { rows: Some(2), ..tiles.clone() }));
            variants.push(Some(Variant { early: false, block: Some([4, 8]), ..tiles.clone() }));
            // What large grids have by themselves where little is read.
            let few = Variant { block: Some([32, 1]), rows: Some(4), unroll: Some(2), chunk: Some(5), ..tiles.clone() };
            variants.push(Some(few));
            variants.push(Some(Variant { block: Some([2, 16]), chunk: Some(64), unroll: Some(2), ..tiles }));
        } else {
            // Groups of rows, with rows left over in the last tile and within each.
            let direct = Variant { staged: Some(false), width: Some(8), ..own.clone() };
            let groups = Variant { tile: Some([5, 2]), unroll: Some(2), ..direct };
            variants.push(Some(Variant { tile: Some([4, 3]), unroll: Some(4), ..groups.clone() }));
            variants.push(Some(groups));
            // Planes of what is computed, of all that is read at neighbours, of tiles that do not divide the grid.
            variants.push(Some(Variant { tile: Some([3, 2]), ..own.clone() }));
            variants.push(Some(Variant { staged: Some(true), ..own.clone() }));
            variants.push(Some(Variant { staged: Some(true), tile: Some([2, 3]), ..own }));
        }
        for variant in variants {
            let mut machine = Machine::new(case, &build.program, target, precision, variant);
            machine.write(0, &u);
            machine.write(1, &t);
            machine.set_scalars(&[0.0, 0.0, 0.0, 0.0, 0.0, alpha, 0.0]);
            machine.sweep(0);
            machine.fence(0);
            let text = || format!("seed {seed}\n{}\n{}", case.text, machine.text(target));
            // Coefficients are themselves rounded, with some cancellation in random ones.
            let eps = 256.0 * epsilon(precision);
            close("A u", &machine.read(2), &q, |n| eps * m[n], text);
            close("affine part", &machine.read(3), &g, |n| eps * (g[n].abs() + 100.0), text);
            close("magnitude", &machine.read(4), &m, |n| eps * m[n], text);
            close("A (u + alpha t)", &machine.read(5), &w, |n| eps * bound_w[n], text);
            let total: f64 = m.iter().sum();
            close("dot", &[machine.scalar(5)], &[dot], |_| eps * total, text);
            close("max", &[machine.scalar(6)], &[largest], |_| eps * total, text);
        }
    }
}

/// What a lane meets again along its walk is neither loaded nor computed again, and the result is the same to the bit.
#[test]
fn a_walk_carries_values() {
    for chunk in [21, 8] {
        let run =
            |carry| updates(Target::Cuda, |own| Variant { carry, chunk: Some(chunk), block: Some([32, 4]), ..own });
        let (carried, afresh) = (run(true), run(false));
        assert_eq!(carried.1, afresh.1);
        // Six neighbours and the point itself, of two vectors, against four neighbours and the point above.
        assert!(carried.0 * 5 < afresh.0 * 4, "{} loads instead of {}", carried.0, afresh.0);
    }
}

/// On the host what is computed and read at neighbours is computed once, and the result is the same to the bit.
#[test]
fn planes_hold_what_is_computed() {
    let direct = updates(Target::Host, |own| Variant { staged: Some(false), ..own });
    for tile in [None, Some([4, 21]), Some([3, 8]), Some([1, 1])] {
        let held = updates(Target::Host, |own| Variant { tile, ..own });
        assert_eq!(held.1, direct.1, "{tile:?}");
        // Seven points of a plane and two vectors to fill it, against seven points of two vectors.
        let fewer = tile.is_none_or(|tile| tile[1] == 21);
        assert!(!fewer || held.0 * 10 < direct.0 * 9, "{tile:?}: {} loads instead of {}", held.0, direct.0);
    }
}

/// `q = A (z + s p); p = z + s p; u += s p` in a box; the loads that takes, and what is left.
fn updates(target: Target, shape: impl Fn(Variant) -> Variant) -> (u64, [Vec<f64>; 3]) {
    let text = "operator box {
    grid cells [i: nx, j: ny, k: nz];
    flux X[i+1/2] = u[i+1] - u;
    flux Y[j+1/2] = u[j+1] - u;
    flux Z[k+1/2] = 3 * (u[k+1] - u);
    apply u => u - div(X) - div(Y) - div(Z);
    boundary i, j, k: no_flux;
}
problem main { operator box(nx = 32, ny = 4, nz = 21); rhs random(seed = 1); solver richardson; iterations 3; }
";
    let case = Case::parse(text, 1);
    let mut build = Build::new(&case.op, &["z", "p", "u", "q", "p_next"]);
    let add = |a: usize, b: usize| {
        let scaled = Box::new(PointExpr::Binary(BinaryOp::Mul, s(5), v(b)));
        ValueKind::Map(PointExpr::Binary(BinaryOp::Add, v(a), scaled))
    };
    let values = vec![
        value("z", load(0)),
        value("p", load(1)),
        value("u", load(2)),
        value("p", add(0, 1)),
        value("q", ValueKind::Apply(ValueId(3))),
        value("u", add(2, 1)),
    ];
    build.sweep("step", Granule::Point, values, vec![store(4, 3), store(3, 4), store(5, 2)], vec![]);
    let mut random = Random::new(9);
    let given: Vec<Vec<f64>> = (0..3).map(|_| random.vector(case.len())).collect();
    let variant = shape(Variant::default());
    let mut machine = Machine::new(&case, &build.program, target, Element::F64, Some(variant));
    given.iter().enumerate().for_each(|(n, x)| machine.write(n, x));
    machine.set_scalars(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0]);
    let loads = machine.sweep(0);
    (loads, [2, 3, 4].map(|n| machine.read(n)))
}

/// Points side by side in a lane, loaded and stored as vectors, come out the same to the bit; where a row has a rest, a
/// lane has one.
#[test]
fn points_side_by_side() {
    let axes = ["i: nx", "j: ny", "k: nz"];
    for (sizes, width, wide) in [
        (vec![264], 4, true),
        (vec![265], 4, false),
        (vec![24, 5], 2, true),
        (vec![8, 3, 5], 4, true),
        (vec![136, 2, 3], 2, true),
        (vec![7, 3, 5], 4, false),
    ] {
        let grid = axes[..sizes.len()].join(", ");
        let given: Vec<String> =
            ["nx", "ny", "nz"].iter().zip(&sizes).map(|(n, size)| format!("{n} = {size}")).collect();
        let text = format!(
            "operator points {{ grid cells [{grid}]; apply u => 2*u - u[i+1]; boundary {}: dirichlet(0); }}
problem main {{ operator points({}); rhs random(seed = 1); solver richardson; iterations 3; }}
",
            ["i", "j", "k"][..sizes.len()].join(", "),
            given.join(", ")
        );
        let case = Case::parse(&text, 1);
        for precision in [Element::F32, Element::F64] {
            let (scalar, one) = updated(&case, precision, 1);
            let (vector, several) = updated(&case, precision, width);
            assert_eq!((scalar, one.0), (false, several.0), "{sizes:?}");
            assert_eq!(vector, wide, "{sizes:?}");
            close("dot", &[several.1], &[one.1], |_| 1e-12 * case.len() as f64, || text.clone());
        }
    }
}

/// `u = u + alpha*p; w = u*p`, with the sum of `w`: whether vectors were loaded, both results and the sum.
fn updated(case: &Case, precision: Element, width: u32) -> (bool, ([Vec<f64>; 2], f64)) {
    let mut build = Build::new(&case.op, &["u", "p", "w"]);
    build.program.sums = vec![SumKind::Add];
    let scaled = Box::new(PointExpr::Binary(BinaryOp::Mul, s(5), v(1)));
    let values = vec![
        value("u", load(0)),
        value("p", load(1)),
        value("u", ValueKind::Map(PointExpr::Binary(BinaryOp::Add, v(0), scaled))),
        value("w", ValueKind::Map(PointExpr::Binary(BinaryOp::Mul, v(2), v(1)))),
    ];
    build.sweep("update", Granule::Point, values, vec![store(2, 0), store(3, 2)], vec![sum(0, 3, None)]);
    let total = ScalarExpr::Sum(SumId(0));
    let statements = vec![ScalarStmt::Assign { scalar: ScalarId(6), value: total, text: "beta = sum(w)".into() }];
    build.program.fences.push(Fence { name: "finish".into(), statements, predicate: None });
    let variant = Variant { vector: width, chunk: Some(2), block: Some([32, 1]), ..Variant::default() };
    let mut machine = Machine::new(case, &build.program, Target::Cuda, precision, Some(variant));
    let mut random = Random::new(3);
    (0..2).for_each(|n| machine.write(n, &random.vector(case.len())));
    machine.set_scalars(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0]);
    machine.sweep(0);
    machine.fence(0);
    let mut vectors = false;
    each_stmt(&machine.module.kernels[machine.module.sweeps[0][0].kernel].body, &mut |s| {
        vectors |= matches!(s, Stmt::LoadWide { .. });
    });
    (vectors, ([machine.read(0), machine.read(2)], machine.scalar(6)))
}
