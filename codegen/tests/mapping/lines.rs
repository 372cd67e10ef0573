//! Sweeps that solve along lines.

use kernelwright_codegen::kernel::{Element, Kernel, LoopKind, Stmt};
use kernelwright_codegen::kernel_walk::each_stmt;
use kernelwright_codegen::loops::*;
use kernelwright_codegen::map::{Target, Variant};
use kernelwright_codegen::math::{self, BinaryOp};
use kernelwright_codegen::math_eval::{Evaluator, Matrix};
use kernelwright_tests::random::Random;

use crate::support::*;

/// The case with a diagonal that makes elimination without pivoting stable.
pub fn dominant(mut case: Case) -> Case {
    let reference = Evaluator::new(&case.op, &case.params, &case.data).unwrap();
    let most = reference.magnitude(&vec![1.0; case.len()]).into_iter().fold(1.0, f64::max);
    for (c, row) in case.op.rows.iter_mut().enumerate() {
        let own = math::Expr::Unknown(c, [0; 3]);
        let more = math::Expr::Binary(BinaryOp::Mul, Box::new(math::Expr::Number((2.0 * most).ceil())), Box::new(own));
        row.value = math::Expr::Binary(BinaryOp::Add, Box::new(row.value.clone()), Box::new(more));
    }
    case
}

fn absolute(m: &Matrix, x: &[f64]) -> Vec<f64> {
    m.rows.iter().map(|row| row.iter().map(|(c, v)| (v * x[*c]).abs()).sum()).collect()
}

/// Checks `m x = b` up to rounding.
fn solves(what: &str, m: &Matrix, x: &[f64], b: &[f64], eps: f64, context: impl Fn() -> String) {
    let (got, size) = (m.times(x), absolute(m, x));
    close(what, &got, b, |n| eps * (size[n] + b[n].abs() + 1e-30), context);
}

/// `r -= alpha t; z = inv(line) r; w = A t + z`, with sums; `r` is overwritten on the way.
#[test]
fn solves_of_random_operators() {
    for seed in 0..40 {
        let case = dominant(Case::random(seed));
        for axis in 0..case.grid().axes.len() {
            for (target, precision) in ENGINES {
                one_solve(&case, seed, axis, target, precision, None);
            }
        }
    }
}

#[test]
fn solves_under_a_mask() {
    let case = dominant(masked());
    for axis in 0..2 {
        for (target, precision) in ENGINES {
            one_solve(&case, 7, axis, target, precision, None);
        }
    }
}

#[test]
fn solves_with_other_shapes() {
    for seed in 200..212 {
        let case = dominant(Case::random(seed));
        for axis in 0..case.grid().axes.len() {
            for (target, precision) in ENGINES {
                let shape = Variant { line_block: [16, 4], simd: 3, ahead: Some(1), ..Variant::default() };
                one_solve(&case, seed, axis, target, precision, Some(shape));
            }
        }
    }
}

/// Lines split over lanes of a block: any number of segments and of lines side by side, grids that fit neither.
#[test]
fn solves_split_over_lanes() {
    let mut split = 0;
    for seed in 300..324 {
        let case = dominant(Case::random(seed));
        for axis in 1..case.grid().axes.len() {
            for (segments, columns) in [(2, 32), (3, 32), (4, 16), (32, 8)] {
                split += one_split(&case, seed, axis, segments, columns);
            }
        }
    }
    assert!(split > 40, "only {split} sweeps were split");
}

/// Splits one sweep in both precisions; the number of kernels that really are.
fn one_split(case: &Case, seed: u64, axis: usize, segments: u32, columns: u32) -> usize {
    let shape = Variant {
        segments: Some(segments),
        columns: Some(columns),
        shared: Some((seed % 5) as u32),
        ..Variant::default()
    };
    let run = |precision| one_solve(case, seed, axis, Target::Cuda, precision, Some(shape.clone()));
    [Element::F32, Element::F64].into_iter().map(run).filter(|kernel| kernel.lanes[1] > 1).count()
}

/// Long columns of a box, open and closed.
fn columns(rule: &str, [nx, ny, nz]: [u64; 3]) -> Case {
    let text = format!(
        "operator columns {{
    grid cells [i: nx, j: ny, k: nz];
    let c[k+1/2] = 2 + sin(k);
    flux Z[k+1/2] = c * (1 + i) * (u[k+1] - u);
    apply u => (0.25 + j) * u - div(Z) - 0.01 * (u[i+1] - u);
    boundary i, j: no_flux;
    boundary k: {rule};
}}
problem main {{ operator columns(nx = {nx}, ny = {ny}, nz = {nz}); rhs random(seed = 1); solver richardson; iterations 3; }}
"
    );
    Case::parse(&text, 1)
}

/// Rows are asked for ahead of their use: in pieces where they are long, whether or not pieces divide them.
#[test]
fn columns_that_ask_ahead() {
    for (rule, sizes, ahead, lines) in [
        ("no_flux", [96, 2, 5], 2, 96),
        ("no_flux", [75, 3, 4], 1, 75),
        ("dirichlet(1)", [75, 2, 6], 4, 50),
        ("periodic", [40, 1, 7], 1, 40),
        ("periodic", [70, 2, 5], 5, 70),
    ] {
        let case = dominant(columns(rule, sizes));
        let shape = Variant { ahead: Some(ahead), simd: lines, ..Variant::default() };
        for precision in [Element::F32, Element::F64] {
            let kernel = one_solve(&case, 5, 2, Target::Host, precision, Some(shape.clone()));
            let mut asked = 0;
            each_stmt(&kernel.body, &mut |s| asked += usize::from(matches!(s, Stmt::Prefetch { .. })));
            assert_eq!(asked > 0, u64::from(ahead) < sizes[2], "{sizes:?}");
        }
    }
}

/// What couplings have in common along a line is formed once a block of lines; the walk needs no other loop at its ends.
#[test]
fn couplings_are_formed_before_the_walk() {
    for rule in ["no_flux", "dirichlet(1)", "periodic"] {
        let text = format!(
            "operator shell {{
    grid cells [i: nx, j: ny, k: nz];
    let c[k+1/2] = 2 + sin(k);
    let t[k] = 3 + cos(k);
    let area = 2 + sin(i + 2*j);
    let edge[i+1/2] = 3 + cos(2*i - j);
    flux X[i+1/2] = t*edge*(u[i+1] - u);
    flux Z[k+1/2] = area*c*(u[k+1] - u);
    apply u => area*t*u - div(X) - 0.5*div(Z);
    boundary i: {rule};
    boundary j, k: no_flux;
}}
problem main {{ operator shell(nx = 40, ny = 2, nz = 7); rhs random(seed = 1); solver richardson; iterations 3; }}
"
        );
        let kernel = one_solve(&dominant(Case::parse(&text, 1)), 5, 2, Target::Host, Element::F64, None);
        let by_line = kernel.buffers.iter().filter(|buffer| buffer.name.contains("_by_line"));
        assert_eq!(by_line.count(), 2, "{rule}: a line's sum of couplings across, and its coupling along");
        let mut walks = 0;
        each_stmt(&kernel.body, &mut |s| {
            if let Stmt::For { kind: LoopKind::Simd(_), body, .. } = s {
                let eliminates =
                    |s: &Stmt| s.stores_to().is_some_and(|b| kernel.buffers[b.0].name.starts_with("upper"));
                walks += usize::from(body.iter().any(eliminates));
            }
        });
        assert_eq!(walks, 1, "{rule}");
    }
}

#[test]
fn columns_split_over_lanes() {
    for (rule, sizes, segments) in [
        ("no_flux", [33, 2, 61], 8),
        ("no_flux", [32, 2, 64], 16),
        ("dirichlet(1)", [5, 3, 29], 7),
        ("dirichlet(1)", [32, 1, 17], 2),
        ("periodic", [33, 2, 64], 8),
        ("periodic", [7, 2, 60], 16),
        ("periodic", [7, 2, 8], 4),
    ] {
        let case = columns(rule, sizes);
        assert_eq!(one_split(&case, 11, 2, segments, 32), 2, "{rule} {sizes:?} in {segments}");
    }
}

/// Lines of any length are split where nobody chose a shape.
#[test]
fn long_lines_are_split_by_default() {
    for (n, precision, lanes) in [
        (600, Element::F32, [16, 38]),
        (1000, Element::F64, [16, 56]),
        (2500, Element::F32, [8, 120]),
        (4096, Element::F64, [4, 256]),
    ] {
        let kernel = one_solve(&columns("no_flux", [5, 1, n]), 3, 2, Target::Cuda, precision, None);
        assert_eq!(kernel.lanes[..2], lanes, "{n}");
    }
}

/// Lines whose intermediate values do not fit into private memory.
#[test]
fn long_lines() {
    for (n, target) in [(17000, Target::Cuda), (70000, Target::Host)] {
        let text = format!(
            "operator rod {{ grid cells [i: nx]; apply u => 2.5*u - u[i+1] - u[i-1]; boundary i: dirichlet(0); }}
problem main {{ operator rod(nx = {n}); rhs random(seed = 1); solver richardson; iterations 3; }}
"
        );
        let case = Case::parse(&text, 1);
        one_solve(&case, 1, 0, target, Element::F64, None);
    }
}

fn difference(a: usize, b: usize) -> ValueKind {
    let scaled = Box::new(PointExpr::Binary(BinaryOp::Mul, s(5), v(b)));
    ValueKind::Map(PointExpr::Binary(BinaryOp::Sub, v(a), scaled))
}

fn total(a: usize, b: usize) -> ValueKind {
    ValueKind::Map(PointExpr::Binary(BinaryOp::Add, v(a), v(b)))
}

/// Checks one sweep and returns its kernel.
fn one_solve(
    case: &Case,
    seed: u64,
    axis: usize,
    target: Target,
    precision: Element,
    variant: Option<Variant>,
) -> Kernel {
    let mut build = Build::new(&case.op, &["r", "t", "z", "w"]);
    build.program.sums = vec![SumKind::Add, SumKind::Add];
    let values = vec![
        value("r", load(0)),
        value("t", load(1)),
        value("r", difference(0, 1)),
        value("z", ValueKind::Solve(axis, ValueId(2))),
        value("q", ValueKind::Apply(ValueId(1))),
        value("w", total(4, 3)),
    ];
    let sums = vec![sum(0, 2, Some(3)), sum(1, 2, Some(2))];
    build.sweep("relax", Granule::Line(axis), values, vec![store(2, 0), store(3, 2), store(5, 3)], sums);
    let assign = |scalar: usize, from: usize| ScalarStmt::Assign {
        scalar: ScalarId(scalar),
        value: ScalarExpr::Sum(SumId(from)),
        text: "a sum".into(),
    };
    build.program.fences.push(Fence {
        name: "finish".into(),
        statements: vec![assign(5, 0), assign(6, 1)],
        predicate: None,
    });
    let reference = Evaluator::new(&case.op, &case.params, &case.data).unwrap();
    let mut random = Random::new(seed + 2000);
    let active: Vec<f64> = reference.active().iter().map(|&a| f64::from(u8::from(a))).collect();
    let mut vector = || -> Vec<f64> {
        random.vector(case.len()).iter().enumerate().map(|(n, x)| x * active[n % active.len()]).collect()
    };
    let (r0, t) = (vector(), vector());
    let mut machine = Machine::new(case, &build.program, target, precision, variant);
    machine.write(0, &r0);
    machine.write(1, &t);
    let alpha = 0.375;
    machine.set_scalars(&[0.0, 0.0, 0.0, 0.0, 0.0, alpha, 0.0]);
    machine.sweep(0);
    machine.fence(0);
    let text = || format!("seed {seed} axis {axis} {target:?}\n{}\n{}", case.text, machine.text(target));
    let eps = 256.0 * epsilon(precision);
    let (r, z, w) = (machine.read(0), machine.read(2), machine.read(3));
    let want: Vec<f64> = r0.iter().zip(&t).map(|(r, t)| r - alpha * t).collect();
    close("r", &r, &want, |_| eps, text);
    solves("z", &reference.line_part(axis), &z, &r, eps, text);
    let (q, size) = (reference.linear(&t), reference.magnitude(&t));
    let want: Vec<f64> = q.iter().zip(&z).map(|(q, z)| q + z).collect();
    close("w", &w, &want, |n| eps * (size[n] + z[n].abs()), text);
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    close("sums", &[machine.scalar(5), machine.scalar(6)], &[dot(&r, &z), dot(&r, &r)], |_| eps * dot(&r, &r), text);
    machine.module.kernels[machine.module.sweeps[0][0].kernel].clone()
}

/// Two solves in one sweep, the second one of the first one's solution; and an operator applied to a load that the
/// first loop needs and the last one again.
#[test]
fn solves_in_a_row() {
    for seed in 100..120 {
        let case = dominant(Case::random(seed));
        let axis = case.grid().axes.len() - 1;
        let mut build = Build::new(&case.op, &["r", "z", "y", "w"]);
        let values = vec![
            value("r", load(0)),
            value("q", ValueKind::Apply(ValueId(0))),
            value("z", ValueKind::Solve(axis, ValueId(1))),
            value("s", total(2, 1)),
            value("y", ValueKind::Solve(axis, ValueId(3))),
            value("w", total(4, 1)),
        ];
        build.sweep("twice", Granule::Line(axis), values, vec![store(2, 1), store(4, 2), store(5, 3)], vec![]);
        let reference = Evaluator::new(&case.op, &case.params, &case.data).unwrap();
        let mut u = Random::new(seed).vector(case.len());
        // Vectors are zero outside the mask.
        let inside = |n: usize| reference.active()[n % reference.points()];
        u.iter_mut().enumerate().filter(|(n, _)| !inside(*n)).for_each(|(_, value)| *value = 0.0);
        for (target, precision) in ENGINES {
            let mut machine = Machine::new(&case, &build.program, target, precision, None);
            machine.write(0, &u);
            machine.sweep(0);
            let text = || format!("seed {seed} axis {axis}\n{}\n{}", case.text, machine.text(target));
            let eps = 256.0 * epsilon(precision);
            let (z, y, w) = (machine.read(1), machine.read(2), machine.read(3));
            let (q, size, line) = (reference.linear(&u), reference.magnitude(&u), reference.line_part(axis));
            let near = |what: &str, x: &[f64], b: &[f64]| {
                let (got, most) = (line.times(x), absolute(&line, x));
                close(what, &got, b, |n| eps * (most[n] + size[n] + b[n].abs()), text);
            };
            near("z", &z, &q);
            near("y", &y, &z.iter().zip(&q).map(|(a, b)| a + b).collect::<Vec<_>>());
            close(
                "w",
                &w,
                &y.iter().zip(&q).map(|(a, b)| a + b).collect::<Vec<_>>(),
                |n| eps * (y[n].abs() + size[n]),
                text,
            );
        }
    }
}

/// A value divided by the diagonal, alone and inside the operator.
#[test]
fn diagonals_of_random_operators() {
    for seed in 0..60 {
        let case = dominant(Case::random(seed));
        let mut build = Build::new(&case.op, &["u", "d", "q"]);
        let values = vec![
            value("u", load(0)),
            value("d", ValueKind::Diagonal(ValueId(0))),
            value("q", ValueKind::Apply(ValueId(1))),
        ];
        build.sweep("jacobi", Granule::Point, values, vec![store(1, 1), store(2, 2)], vec![]);
        let reference = Evaluator::new(&case.op, &case.params, &case.data).unwrap();
        let u = Random::new(seed).vector(case.len());
        let want: Vec<f64> = reference.matrix().diagonal().iter().zip(&u).map(|(d, u)| u / d).collect();
        let (q, size) = (reference.linear(&want), reference.magnitude(&want));
        for (target, precision) in ENGINES {
            let mut machine = Machine::new(&case, &build.program, target, precision, None);
            machine.write(0, &u);
            machine.sweep(0);
            let text = || format!("seed {seed}\n{}\n{}", case.text, machine.text(target));
            let eps = 256.0 * epsilon(precision);
            close("u / diagonal", &machine.read(1), &want, |n| eps * want[n].abs(), text);
            close("A (u / diagonal)", &machine.read(2), &q, |n| eps * size[n], text);
        }
    }
}

/// A stiff column in f32: the solution keeps the digits that a folded diagonal loses.
#[test]
fn a_small_zero_order_term_survives() {
    let text = "operator column {
    grid cells [i: nx, k: nz];
    flux Z[k+1/2] = 1000000 * (u[k+1] - u);
    apply u => 0.01 * u - div(Z);
    boundary i, k: no_flux;
}
problem main { operator column(nx = 3, nz = 40); rhs random(seed = 1); solver richardson; iterations 3; }
";
    let case = Case::parse(text, 1);
    let mut build = Build::new(&case.op, &["r", "z"]);
    let values = vec![value("r", load(0)), value("z", ValueKind::Solve(1, ValueId(0)))];
    build.sweep("solve", Granule::Line(1), values, vec![store(1, 1)], vec![]);
    for (target, segments) in [(Target::Cuda, 1), (Target::Cuda, 4), (Target::Cuda, 16), (Target::Host, 1)] {
        let variant = Variant { segments: Some(segments), ..Variant::default() };
        let mut machine = Machine::new(&case, &build.program, target, Element::F32, Some(variant));
        machine.write(0, &vec![1.0; case.len()]);
        machine.sweep(0);
        close("z", &machine.read(1), &vec![100.0; case.len()], |_| 100.0 * 1e-5, || machine.text(target));
    }
}

/// Splitting a stiff column over lanes loses no digits: the error is that of a lane per line, within a factor of two.
#[test]
fn split_columns_are_as_accurate() {
    let text = "operator column {
    grid cells [i: nx, k: nz];
    let stiffness[k+1/2] = 10000 * (2 + sin(3 * k)) * pow(1.05, k);
    flux Z[k+1/2] = stiffness * (u[k+1] - u);
    apply u => (0.01 + 0.001*i) * u - div(Z);
    boundary i, k: no_flux;
}
problem main { operator column(nx = 32, nz = 128); rhs random(seed = 1); solver richardson; iterations 3; }
";
    let case = Case::parse(text, 1);
    let mut build = Build::new(&case.op, &["r", "z"]);
    let values = vec![value("r", load(0)), value("z", ValueKind::Solve(1, ValueId(0)))];
    build.sweep("solve", Granule::Line(1), values, vec![store(1, 1)], vec![]);
    let right: Vec<f64> = Random::new(5).vector(case.len()).iter().map(|&x| f64::from(x as f32) + 2.0).collect();
    let solve = |precision, segments| {
        let variant = Variant { segments: Some(segments), ..Variant::default() };
        let mut machine = Machine::new(&case, &build.program, Target::Cuda, precision, Some(variant));
        machine.write(0, &right);
        machine.sweep(0);
        machine.read(1)
    };
    let exact = solve(Element::F64, 1);
    let error = |z: Vec<f64>| {
        let each = exact.iter().zip(z).map(|(e, z)| ((z - e) / e).abs());
        each.fold(0.0, f64::max)
    };
    let whole = error(solve(Element::F32, 1));
    for segments in [2, 8, 16, 32] {
        let split = error(solve(Element::F32, segments));
        assert!(split <= 2.0 * whole.max(1e-6), "{segments} segments: {split:e}, a lane per line: {whole:e}");
    }
    assert!(error(solve(Element::F64, 16)) < 1e-10);
}
