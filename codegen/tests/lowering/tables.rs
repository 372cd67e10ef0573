//! What becomes a table, what it is called, how far it reaches; what is refused.

use kernelwright_codegen::lower::{LowerError, lower};
use kernelwright_codegen::math::{self, Expr};
use kernelwright_codegen::math_text::{dump, expr};
use kernelwright_codegen::math_verify::verify;
use kernelwright_syntax::program::{Centring, CompareOp, Function, Outside, Rule};

use crate::build::*;
use crate::operators::*;

/// Lines of the dump that start with one of the words.
fn lines(op: &math::Operator, words: &[&str]) -> String {
    let text = dump(op);
    let picked: Vec<&str> =
        text.lines().map(str::trim).filter(|l| words.iter().any(|w| l.starts_with(&format!("{w} ")))).collect();
    picked.join("\n")
}

#[track_caller]
fn check(op: &math::Operator, expected: &str) {
    let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
    assert_eq!(lines(op, &["table", "flux", "apply", "mask"]), expected.join("\n"));
}

#[test]
fn pressure_correction_is_split_by_axes() {
    let op = lower(&pressure_correction(), &[8, 8, 16]).unwrap();
    check(
        &op,
        "table dr[k] = dr
         table wx[i-1, j] = wx
         table wy[i, j-1] = wy
         table area[i, j] = area
         table Z_coefficient_k[k-1] = lambda * rf * lambda * rf / (rc[k+1] - rc)
         table u_coefficient_k[k] = (rf * rf * rf - rf[k-1] * rf[k-1] * rf[k-1]) / 3
         table u_coefficient[] = omega * omega
         flux X[i+1/2] = dr * wx * (u[i+1] - u)
         flux Y[j+1/2] = dr * wy * (u[j+1] - u)
         flux Z[k+1/2] = area * Z_coefficient_k * (u[k+1] - u)
         apply u => area * u_coefficient_k * u - u_coefficient * (X - X[i-1] + (Y - Y[j-1]) + (Z - Z[k-1]))",
    );
    assert!(op.nullspace.eq(&false));
    assert_eq!(op.tables[4].text, "Z_coefficient_k[k] = lambda * rf * lambda * rf / (rc[k+1] - rc)");
}

#[test]
fn numbers_stay_numbers_and_signs_go_into_tables() {
    let mut b = Build::new("op", Centring::Cells, 2);
    let p = b.param("p");
    let c = b.set("c", num(1.0) + index(0));
    let halves = num(2.0) * size(0) / num(4.0) * u([1, 0, 0]);
    let sign = -(u([0, 1, 0]) * sqr(&c.here()) / p.clone()) + num(1.0) * u([0, -1, 0]);
    b.apply("u", halves + p * u([0; 3]) - num(-1.0) * u([-1, 0, 0]) + sign - num(0.0) * u([2, 0, 0]));
    check(
        &lower(&b.0, &[10, 4]).unwrap(),
        "table u_coefficient[] = p
         table u_coefficient_i[i] = -(c * c / p)
         apply u => 5 * u[i+1] + u_coefficient * u - (-u[i-1]) + (u_coefficient_i * u[j+1] + u[j-1])",
    );
}

#[test]
fn sums_over_all_axes_become_full_tables_and_lets_are_opened() {
    let mut b = Build::new("op", Centring::Cells, 2);
    let sum = b.set("sum", num(1.0) + index(0) * index(1));
    let product = b.set("product", (num(1.0) + index(0)) * call(Function::Exp, vec![index(1)]));
    b.apply(
        "u",
        num(3.0) * sum.here() * index(0) * u([0; 3]) + product.at([1, 0, 0]) * u([1, 0, 0]) + sum.here() * u([0, 1, 0]),
    );
    check(
        &lower(&b.0, &[10, 4]).unwrap(),
        "table u_coefficient_ij[i, j] = 3 * sum * i
         table u_coefficient_i[i] = 1 + (i + 1)
         table u_coefficient_j[j] = exp(j)
         table sum[i, j] = sum
         apply u => u_coefficient_ij * u + u_coefficient_i * u_coefficient_j * u[i+1] + sum * u[j+1]",
    );
}

#[test]
fn equal_tables_are_shared_modulo_shift() {
    let mut b = Build::new("op", Centring::Cells, 1);
    let w = b.set("w", num(1.0) + index(0));
    let difference = |s: i32| sqr(&w.at([s, 0, 0])) - w.at([s - 1, 0, 0]);
    b.apply(
        "u",
        difference(1) * u([1, 0, 0])
            + difference(-1) * u([-1, 0, 0])
            + w.at([2, 0, 0]) * u([0; 3])
            + w.here() * u([2, 0, 0]),
    );
    b.boundary(0, dirichlet(num(2.0)), dirichlet(num(2.0)));
    let op = lower(&b.0, &[10]).unwrap();
    check(
        &op,
        "table u_coefficient_i[i-2] = w[i+1] * w[i+1] - w
         table w[i+2] = w
         table boundary_i_low[] = 2
         apply u => u_coefficient_i * u[i+1] + u_coefficient_i[i-2] * u[i-1] + w[i+2] * u + w * u[i+2]",
    );
    assert_eq!(op.boundary[0], [math::Rule::Dirichlet(2), math::Rule::Dirichlet(2)]);
}

#[test]
fn data_stay_in_rows_and_divide_last() {
    let mut b = Build::new("op", Centring::Cells, 2);
    let kappa = b.data("kappa", &[0, 1], None, Outside::Mirror);
    let depth = b.data("depth", &[1], None, Outside::Clamp);
    let (here, next) = (kappa.here(), kappa.at([1, 0, 0]));
    let mean = here.clone() * next.clone() * num(2.0) / (here + next) / depth.here() * (index(0) + num(0.5));
    let x = b.flux("X", 0, mean * (u([1, 0, 0]) - u([0; 3])));
    b.apply("u", x.div(0));
    check(
        &lower(&b.0, &[10, 4]).unwrap(),
        "table X_coefficient_i[i-1] = 2 * (i + 0.5)
         table X_coefficient_j[j] = 1 / depth
         flux X[i+1/2] = X_coefficient_i * X_coefficient_j * kappa * kappa[i+1] / (kappa + kappa[i+1]) * (u[i+1] - u)
         apply u => X - X[i-1]",
    );
}

#[test]
fn conditions_become_tables_of_zero_and_one() {
    let mut b = Build::new("op", Centring::Cells, 2);
    let p = b.param("p");
    let wide = choose(CompareOp::Lt, size(0), num(3.0), u([5, 0, 0]), u([1, 0, 0]));
    let edge = choose(CompareOp::Eq, index(0), num(0.0), num(0.0) * u([1, 0, 0]), p * u([0, 1, 0]));
    let diagonal = choose(CompareOp::Eq, index(0), index(1), u([0; 3]), num(0.0));
    b.apply("u", wide + edge + diagonal);
    b.0.mask = Some(choose(CompareOp::Gt, index(0), num(2.0), num(0.0), num(1.0)).0);
    check(
        &lower(&b.0, &[10, 4]).unwrap(),
        "table u_coefficient[] = p
         table u_condition_i[i] = if i == 0 { 1 } else { 0 }
         table u_condition_ij[i, j] = if i == j { 1 } else { 0 }
         table mask_i[i] = if !(i > 2) { 1 } else { 0 }
         apply u => u[i+1] + if u_condition_i { 0 } else { u_coefficient * u[j+1] } + if u_condition_ij { u } else { 0 }
         mask mask_i",
    );
}

#[test]
fn prescribed_values_are_stored_where_corners_read_them() {
    let mut b = Build::new("op", Centring::Cells, 3);
    b.apply("u", u([2, -1, 1]));
    b.boundary(0, dirichlet(index(1) * index(2)), Rule::NoFlux);
    b.boundary(1, Rule::NoFlux, dirichlet(index(0) + index(2)));
    b.boundary(2, Rule::Periodic, Rule::Periodic);
    let op = lower(&b.0, &[4, 5, 6]).unwrap();
    // On axis 0 the later axes may still be outside; on axis 1 axis 0 is already inside.
    assert_eq!((op.tables[0].below, op.tables[0].above), ([0, 1, 0], [0, 0, 1]));
    assert_eq!((op.tables[1].below, op.tables[1].above), ([0, 0, 0], [0, 0, 1]));
}

#[test]
fn unknowns_in_lets_are_substituted_up_to_a_limit() {
    let mut b = Build::new("op", Centring::Cells, 1);
    let second = b.set("second", u([1, 0, 0]) - num(2.0) * u([0; 3]) + u([-1, 0, 0]));
    let at = |s: i32| second.at([s, 0, 0]);
    b.apply("u", at(1) - num(2.0) * at(0) + at(-1));
    let op = lower(&b.0, &[9]).unwrap();
    let text = expr(&op, &op.rows[0].value);
    assert_eq!(text, "u[i+2] - 2 * u[i+1] + u - 2 * (u[i+1] - 2 * u + u[i-1]) + (u - 2 * u[i-1] + u[i-2])");

    let mut b = Build::new("op", Centring::Cells, 1);
    let mut last = b.set("v0", u([1, 0, 0]) + u([0; 3]));
    for n in 1..60 {
        last = b.set(&format!("v{n}"), last.here() + last.at([1, 0, 0]));
    }
    b.apply("u", last.here());
    assert!(matches!(lower(&b.0, &[9]), Err(LowerError::TooLarge { .. })));
    // The same without unknowns: tables would be as large.
    let mut b = Build::new("op", Centring::Cells, 1);
    let mut last = b.set("v0", index(0));
    for n in 1..60 {
        last = b.set(&format!("v{n}"), last.here() + last.at([1, 0, 0]));
    }
    b.apply("u", last.here() * u([0; 3]));
    assert!(matches!(lower(&b.0, &[9]), Err(LowerError::TooLarge { .. })));
}

#[test]
fn long_sums_are_lowered_and_endless_ones_refused() {
    for (terms, fits) in [(900, true), (1100, false)] {
        let mut b = Build::new("op", Centring::Cells, 1);
        let p = b.param("p");
        let row = (0..terms).fold(num(0.0), |sum, n| sum + p.clone() * (u([n % 40, 0, 0]) - u([0; 3])));
        b.apply("u", row);
        match lower(&b.0, &[9]) {
            Ok(op) => assert!(fits && verify(&op).is_ok()),
            Err(e) => assert!(!fits && matches!(e, LowerError::TooLarge { limit: 1000, .. }), "{e}"),
        }
    }
}

#[test]
fn what_is_not_linear_or_has_no_size_is_refused() {
    let cases = [
        (u([0; 3]) * u([1, 0, 0]), "a product of unknowns"),
        (num(1.0) / u([0; 3]), "a division by an unknown"),
        (call(Function::Sqrt, vec![u([0; 3])]), "a function of an unknown"),
        (u([0; 3]) * (u([1, 0, 0]) + num(1.0)), "a product of unknowns"),
    ];
    for (row, expected) in cases {
        let mut b = Build::new("op", Centring::Cells, 1);
        b.apply("u", row);
        match lower(&b.0, &[9]) {
            Err(LowerError::NotLinear { what, .. }) => assert_eq!(what, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    for sizes in [vec![], vec![0], vec![1 << 63]] {
        assert!(matches!(lower(&poisson(1), &sizes), Err(LowerError::Sizes { .. })), "{sizes:?}");
    }
}

#[test]
fn the_verifier_notices() {
    let good = lower(&pressure_correction(), &[8, 8, 16]).unwrap();
    type Breakage = (&'static str, fn(&mut math::Operator));
    let broken: [Breakage; 6] = [
        ("Z_coefficient_k: read", |op| op.tables[4].below = [0; 3]),
        ("axes of table dr", |op| op.tables[0].axes = vec![2, 2]),
        ("dr: letter 2", |op| {
            op.tables[0] = math::Table { value: math::TableExpr::Index(2), axes: vec![0], ..op.tables[0].clone() }
        }),
        ("axis 1 is periodic on one side", |op| op.boundary[1][0] = math::Rule::Periodic),
        ("X: flux 1", |op| op.fluxes[0].value = Expr::Flux(1, [0; 3])),
        ("let 3 is not an earlier one", |op| op.lets[3].value = math::TableExpr::Let(3, [0; 3])),
    ];
    assert_eq!(verify(&good), Ok(()));
    for (expected, breakage) in broken {
        let mut op = good.clone();
        breakage(&mut op);
        let errors = verify(&op).unwrap_err().join("\n");
        assert!(errors.contains(expected), "{expected}: {errors}");
    }
}
