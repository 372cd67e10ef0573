//! Assembled matrices: Math IR evaluated against the oracle, which reads the checked program.

use kernelwright_codegen::lower::lower;
use kernelwright_codegen::math_eval::Evaluator;
use kernelwright_codegen::math_verify::verify;
use kernelwright_syntax::program::{CompareOp, Operator, Outside, Rule};
use kernelwright_tests::oracle::Instance;
use kernelwright_tests::random::Random;

use crate::build::*;
use crate::operators::*;

/// Lowers and compares matrix, affine part and the readings of a vector with the oracle.
pub fn check(op: &Operator, sizes: &[u64], params: &[f64]) {
    let instance_sizes = sizes.iter().map(|&n| n as usize).collect();
    let mut random = Random::new(7);
    let mut instance = Instance { operator: op, sizes: instance_sizes, params: params.to_vec(), data: vec![] };
    let lens: Vec<usize> = (0..op.data.len()).map(|d| instance.data_shape(d).iter().product()).collect();
    instance.data = lens.iter().map(|&n| random.vector(n).iter().map(|v| 1.5 + v).collect()).collect();
    let expected = instance.assemble();
    let lowered = lower(op, sizes).unwrap();
    assert_eq!(verify(&lowered), Ok(()));
    let evaluator = Evaluator::new(&lowered, params, &instance.data).unwrap();
    let n = evaluator.unknowns();
    let slack = 1e-14 * instance.operations() as f64;
    let matrix = evaluator.matrix();
    for r in 0..n {
        for c in 0..n {
            // The oracle keeps couplings to points outside the mask, where vectors are zero.
            let active = evaluator.active()[c % evaluator.points()];
            let (a, b) = (matrix.at(r, c), if active { expected.matrix.at(r, c) } else { 0.0 });
            let bound = slack * expected.magnitude.at(r, c);
            assert!((a - b).abs() <= bound, "{sizes:?} ({r}, {c}): {a}, expected {b}\n{}", text(&lowered));
        }
    }
    let affine = evaluator.affine_part();
    for (r, (a, b)) in affine.iter().zip(&expected.affine).enumerate() {
        assert!((a - b).abs() <= slack * expected.affine_magnitude[r], "affine {sizes:?} {r}: {a}, expected {b}");
    }
    let mut v = random.vector(n);
    // Vectors are zero outside the mask.
    v.iter_mut().enumerate().filter(|(c, _)| !evaluator.active()[c % evaluator.points()]).for_each(|(_, v)| *v = 0.0);
    let (by_rows, by_matrix, magnitude) = (evaluator.linear(&v), matrix.times(&v), evaluator.magnitude(&v));
    for r in 0..n {
        assert!((by_rows[r] - by_matrix[r]).abs() <= slack * magnitude[r], "row {r} of {sizes:?}");
        let entries = matrix.rows[r].iter().map(|(c, a)| (a * v[*c]).abs()).sum::<f64>();
        assert!(magnitude[r] >= entries * (1.0 - 1e-12), "magnitude {r} of {sizes:?}");
    }
}

fn text(op: &kernelwright_codegen::math::Operator) -> String {
    kernelwright_codegen::math_text::dump(op)
}

#[test]
fn poisson_in_one_to_three_dimensions() {
    for dims in 1..=3 {
        let op = poisson(dims);
        for n in [1, 2, 5] {
            check(&op, &vec![n; dims], &[]);
        }
    }
}

#[test]
fn variable_coefficients_in_flux_form() {
    for rule in [Rule::NoFlux, Rule::Periodic, dirichlet(num(2.0))] {
        let op = darcy(rule);
        check(&op, &[4, 5], &[]);
        check(&op, &[1, 2], &[]);
    }
}

#[test]
fn pressure_correction_on_small_grids() {
    for sizes in [[4, 3, 5], [1, 2, 1], [2, 2, 7]] {
        check(&pressure_correction(), &sizes, &[8.5 / 4.0, 0.1, 0.01]);
    }
}

#[test]
fn twenty_five_points_with_a_field_and_mixed_boundaries() {
    for sizes in [[7, 6], [3, 4], [1, 2]] {
        check(&twenty_five_points(), &sizes, &[0.3]);
    }
}

#[test]
fn offsets_longer_than_the_axis() {
    for rules in [[Rule::NoFlux, dirichlet(num(1.0))], [dirichlet(num(0.5)), dirichlet(num(3.0))]] {
        for centring in [kernelwright_syntax::program::Centring::Cells, kernelwright_syntax::program::Centring::Nodes] {
            let mut b = Build::new("far", centring, 2);
            let c = b.set("c", num(1.0) + sqr(&index(0)) * num(0.1) + index(1));
            b.apply("u", c.at([7, -5, 0]) * u([7, -5, 0]) - num(2.0) * u([-9, 0, 0]) + u([0, 11, 0]));
            b.boundary(0, rules[0].clone(), rules[1].clone());
            b.boundary(1, rules[1].clone(), rules[0].clone());
            for sizes in [[3, 2], [1, 1], [2, 5]] {
                check(&b.0, &sizes, &[]);
            }
        }
    }
}

#[test]
fn cyclic_axes_of_one_and_two_cells() {
    let mut b = Build::new("ring", kernelwright_syntax::program::Centring::Cells, 2);
    // The coefficient depends on the letter along the ring, so that wrapping the flux's position matters.
    let w = b.set("w", num(1.0) + index(0) * num(0.25));
    let x = b.flux("X", 0, w.here() * (u([1, 0, 0]) - u([0; 3])));
    b.apply("u", w.here() * x.div(0) + u([0, 3, 0]) - u([-2, 0, 0]));
    b.boundary(0, Rule::Periodic, Rule::Periodic);
    b.boundary(1, Rule::Periodic, Rule::Periodic);
    for sizes in [[1, 1], [2, 1], [1, 2], [2, 2], [5, 3]] {
        check(&b.0, &sizes, &[]);
    }
}

#[test]
fn several_unknowns_conditions_and_masks() {
    for sizes in [[4, 3], [1, 5]] {
        check(&two_unknowns(), &sizes, &[0.7]);
    }
    let mut b = Build::new("disc", kernelwright_syntax::program::Centring::Cells, 2);
    let kappa = b.data("kappa", &[0, 1], None, Outside::Zero);
    let radius = sqr(&(index(0) - num(2.0))) + sqr(&(index(1) - num(2.0)));
    b.0.mask = Some(choose(CompareOp::Lt, radius, num(5.0), num(1.0), num(0.0)).0);
    let big = choose(CompareOp::Gt, kappa.here(), num(1.5), u([1, 0, 0]), num(2.0) * u([0, -1, 0]));
    b.apply("u", num(4.0) * u([0; 3]) - big - kappa.at([1, 1, 0]) * u([0, 1, 0]) / (kappa.here() + num(2.0)));
    check(&b.0, &[5, 5], &[]);
}

/// The matrix of the paper's section 3 (PAPERS.md, 1), assembled from its own formulas.
#[test]
fn pressure_correction_is_the_published_matrix() {
    let (nx, ny, nz) = (5usize, 4usize, 6usize);
    let (omega, lambda, depth) = (8.5 / 5.0, 0.1, 0.01);
    let lowered = lower(&pressure_correction(), &[nx as u64, ny as u64, nz as u64]).unwrap();
    let params = [omega, lambda, depth];
    let matrix = Evaluator::new(&lowered, &params, &[]).unwrap().matrix();

    let r: Vec<f64> = (0..=nz).map(|k| 1.0 + depth * (k as f64 / nz as f64).powi(2)).collect();
    let centre = |i: usize, n: usize| -1.0 + (2 * i + 1) as f64 / n as f64;
    let area = |i: usize, j: usize| {
        let (x, y) = (centre(i, nx), centre(j, ny));
        4.0 / (nx * ny) as f64 / (1.0 + x * x + y * y).powf(1.5)
    };
    // Edge length over distance of centres across the face between i and i+1, and likewise in j.
    let face = |s: f64, t: f64| ((1.0 + s * s) / (1.0 + t * t)).sqrt();
    let alpha_x = |i: usize, j: usize| face(centre(i, nx) + 1.0 / nx as f64, centre(j, ny));
    let alpha_y = |i: usize, j: usize| face(centre(j, ny) + 1.0 / ny as f64, centre(i, nx));
    let a = |k: usize| (r[k + 1].powi(3) - r[k].powi(3)) / 3.0;
    let d = |k: usize| -omega * omega * (r[k + 1] - r[k]);
    let b = |k: usize| -omega * omega * lambda * lambda * r[k + 1].powi(2) / ((r[k + 2] - r[k]) / 2.0);

    let n = nx * ny * nz;
    let at = |i: usize, j: usize, k: usize| i + nx * (j + ny * k);
    let mut expected = vec![0.0; n * n];
    let mut couple = |p: usize, q: usize, v: f64| {
        expected[p * n + q] += v;
        expected[q * n + p] += v;
        expected[p * n + p] -= v;
        expected[q * n + q] -= v;
    };
    for (k, j, i) in (0..nz).flat_map(|k| (0..ny).flat_map(move |j| (0..nx).map(move |i| (k, j, i)))) {
        if i + 1 < nx {
            couple(at(i, j, k), at(i + 1, j, k), alpha_x(i, j) * d(k));
        }
        if j + 1 < ny {
            couple(at(i, j, k), at(i, j + 1, k), alpha_y(i, j) * d(k));
        }
        if k + 1 < nz {
            couple(at(i, j, k), at(i, j, k + 1), area(i, j) * b(k));
        }
    }
    for (k, j, i) in (0..nz).flat_map(|k| (0..ny).flat_map(move |j| (0..nx).map(move |i| (k, j, i)))) {
        expected[at(i, j, k) * (n + 1)] += area(i, j) * a(k);
    }
    for p in 0..n {
        for q in 0..n {
            let (given, wanted) = (matrix.at(p, q), expected[p * n + q]);
            assert!((given - wanted).abs() <= 1e-11 * expected[p * (n + 1)].abs(), "({p}, {q}): {given}, {wanted}");
        }
    }
}
