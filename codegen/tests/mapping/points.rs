//! Sweeps over points.

use kernelwright_codegen::loops::*;
use kernelwright_codegen::map::Variant;
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
        let own = Variant::for_grid(target, case.grid());
        let small = Variant { chunk: 2, block: [32, 1], tile: [2, 1], ..own.clone() };
        let afresh = Variant { chunk: 3, carry: false, unroll: 2, ..own };
        let variants = [None, Some(small), Some(afresh)];
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
