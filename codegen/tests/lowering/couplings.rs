//! Rows as terms, and their matrix put together again.

use std::collections::BTreeMap;

use kernelwright_codegen::couplings::{bandwidth, diagonal_entries, entries, line_entries, offsets, reach, terms};
use kernelwright_codegen::lower::lower;
use kernelwright_codegen::math::{Operator, Term};
use kernelwright_codegen::math_eval::Evaluator;
use kernelwright_codegen::math_text::{Names, expr};
use kernelwright_codegen::resolve;
use kernelwright_syntax::program::{Centring, Outside, Rule};

use crate::build::*;
use crate::operators::*;

fn text(op: &Operator, t: &Term) -> String {
    let names = Names::of(op);
    let unknown = |(c, s): (usize, [i32; 3])| names.at(&op.unknowns[c], s);
    let flux = t.flux.map_or(String::new(), |(id, s)| format!("{}: ", names.at(&op.fluxes[id].name, s)));
    let outer = t.outer.as_ref().map_or(String::new(), |o| format!("{} | ", expr(op, o)));
    let minus = t.minus.map_or(String::new(), |m| format!(" - {}", unknown(m)));
    format!("{flux}{outer}{} | {}{minus}", expr(op, &t.coefficient), unknown(t.plus))
}

#[test]
fn fluxes_are_opened_and_differences_kept() {
    let op = lower(&pressure_correction(), &[8, 8, 16]).unwrap();
    let all: Vec<String> = terms(&op, 0).iter().map(|t| text(&op, t)).collect();
    let expected = [
        "area * u_coefficient_k | u",
        "X: -u_coefficient | dr * wx | u[i+1] - u",
        "X[i-1]: u_coefficient | dr * wx | u[i+1] - u",
        "Y: -u_coefficient | dr * wy | u[j+1] - u",
        "Y[j-1]: u_coefficient | dr * wy | u[j+1] - u",
        "Z: -u_coefficient | area * Z_coefficient_k | u[k+1] - u",
        "Z[k-1]: u_coefficient | area * Z_coefficient_k | u[k+1] - u",
    ];
    assert_eq!(all, expected);
    assert_eq!(offsets(&op, 0).len(), 7);
    assert_eq!(reach(&op), [1, 1, 1]);
    assert_eq!([0, 1, 2].map(|a| bandwidth(&op, a)), [1, 1, 1]);
}

#[test]
fn differences_are_found_in_sums() {
    let mut b = Build::new("op", Centring::Cells, 1);
    let c = b.data("c", &[0], None, Outside::Clamp);
    let (e, w) = (u([1, 0, 0]), u([-1, 0, 0]));
    b.apply("u", c.here() * e.clone() - u([0; 3]) * c.here() + num(3.0) * (w.clone() - (u([0; 3]) + e)) / c.here());
    let op = lower(&b.0, &[9]).unwrap();
    let all: Vec<String> = terms(&op, 0).iter().map(|t| text(&op, t)).collect();
    assert_eq!(all, ["c | u[i+1] - u", "3 / c | u[i-1] - u", "-(3 / c) | u[i+1]"]);
}

/// Puts the matrix together from the terms, resolving every entry on its own.
pub fn matrix(op: &Operator, evaluator: &Evaluator, keep: impl Fn(usize, usize) -> bool) -> Vec<BTreeMap<usize, f64>> {
    let grid = op.space.grid();
    let mut rows = Vec::new();
    for row in 0..op.rows.len() {
        for point in 0..evaluator.points() {
            let here = evaluator.position(point);
            let mut out = BTreeMap::new();
            for term in terms(op, row) {
                let mut at = here;
                if let Some((id, s)) = term.flux {
                    at = [0, 1, 2].map(|a| at[a] + i64::from(s[a]));
                    let axis = op.fluxes[id].axis;
                    match resolve::flux(&op.boundary[axis], at[axis], grid.axes[axis].size) {
                        Some(x) => at[axis] = x,
                        None => continue,
                    }
                }
                let outer = term.outer.as_ref().map_or(1.0, |o| evaluator.coefficient(o, here));
                let value = outer * evaluator.coefficient(&term.coefficient, at);
                for (sign, end) in [(1.0, Some(term.plus)), (-1.0, term.minus)] {
                    let Some((component, s)) = end else { continue };
                    let (mut to, mut factor) = ([0; 3], sign * value);
                    for (a, axis) in grid.axes.iter().enumerate() {
                        let q = at[a] + i64::from(s[a]);
                        let reading = resolve::unknown(&op.boundary[a], grid.centring, q, axis.size);
                        to[a] = reading.index.unwrap_or(0) as i64;
                        factor *= reading.sign;
                    }
                    let (r, c) =
                        (row * evaluator.points() + point, component * evaluator.points() + evaluator.point(to));
                    if factor != 0.0 && keep(r, c) {
                        *out.entry(c).or_insert(0.0) += factor;
                    }
                }
            }
            rows.push(out);
        }
    }
    rows
}

#[test]
fn terms_make_the_same_matrix() {
    let ring = {
        let mut b = Build::new("ring", Centring::Cells, 2);
        let w = b.set("w", num(1.0) + index(0) * num(0.25));
        let x = b.flux("X", 0, w.here() * (u([1, 0, 0]) - u([0; 3])));
        b.apply("u", w.here() * x.div(0) + u([0, 3, 0]) - u([-2, 0, 0]));
        b.boundary(0, Rule::Periodic, Rule::Periodic);
        b.0
    };
    let cases = [
        (pressure_correction(), vec![3, 4, 2], vec![1.0, 0.1, 0.2]),
        (twenty_five_points(), vec![3, 4], vec![0.3]),
        (two_unknowns(), vec![4, 3], vec![0.7]),
        (ring.clone(), vec![2, 2], vec![]),
        (ring, vec![1, 5], vec![]),
    ];
    for (source, sizes, params) in cases {
        let op = lower(&source, &sizes).unwrap();
        let len = |d: &kernelwright_codegen::math::Data| {
            d.axes.iter().map(|&a| sizes[a] as usize + usize::from(d.half == Some(a))).product::<usize>()
        };
        let data: Vec<Vec<f64>> = op.data.iter().map(|d| (0..len(d)).map(|n| 1.0 + n as f64).collect()).collect();
        let evaluator = Evaluator::new(&op, &params, &data).unwrap();
        let expected = evaluator.matrix();
        for (r, row) in matrix(&op, &evaluator, |_, _| true).iter().enumerate() {
            let scale: f64 = row.values().map(|v| v.abs()).fold(1.0, f64::max);
            for c in 0..evaluator.unknowns() {
                let (a, b) = (row.get(&c).copied().unwrap_or(0.0), expected.at(r, c));
                assert!((a - b).abs() <= 1e-13 * scale, "{} ({r}, {c}): {a}, {b}", op.name);
            }
        }
    }
}

#[test]
fn lines_hold_what_boundaries_fold_back() {
    let mut b = Build::new("corner", Centring::Cells, 2);
    b.apply("u", num(9.0) * u([0; 3]) - u([-1, 2, 0]) - u([1, 0, 0]) - u([3, 1, 0]));
    b.boundary(0, Rule::NoFlux, dirichlet(num(0.0)));
    // A mirrored neighbour one step outside is the point itself; three steps reach it from two inside.
    let op = lower(&b.0, &[9, 9]).unwrap();
    let shifts = |e: Vec<kernelwright_codegen::couplings::Entry>| e.iter().map(|e| e.shift).collect::<Vec<_>>();
    assert_eq!(shifts(line_entries(&op, 0, 1)), [[0, 0, 0], [-1, 2, 0], [1, 0, 0], [3, 1, 0]]);
    // Two steps across a mirror never end where they began.
    assert_eq!(shifts(diagonal_entries(&op, 0)), [[0, 0, 0], [1, 0, 0], [3, 1, 0]]);
    assert_eq!(bandwidth(&op, 1), 2);
    // Prescribed at nodes, nothing comes back.
    b.0.centring = Centring::Nodes;
    b.boundary(0, dirichlet(num(0.0)), dirichlet(num(0.0)));
    let op = lower(&b.0, &[9, 9]).unwrap();
    assert_eq!(shifts(line_entries(&op, 0, 1)), [[0, 0, 0]]);
    assert_eq!(bandwidth(&op, 1), 0);
    assert_eq!(entries(&terms(&op, 0)).len(), 4);
}

#[test]
fn line_part_of_the_matrix() {
    let op = lower(&twenty_five_points(), &[4, 5]).unwrap();
    let data = vec![vec![1.5; 20], vec![2.0; 5]];
    let evaluator = Evaluator::new(&op, &[0.5], &data).unwrap();
    let line = evaluator.line_part(1);
    let expected = matrix(&op, &evaluator, |r, c| r % 4 == c % 4);
    for (r, row) in line.rows.iter().enumerate() {
        let wanted: Vec<usize> = expected[r].keys().copied().collect();
        assert_eq!(row.iter().map(|e| e.0).collect::<Vec<_>>(), wanted);
        assert!(row.iter().all(|(c, v)| (v - expected[r][c]).abs() < 1e-12));
    }
}
