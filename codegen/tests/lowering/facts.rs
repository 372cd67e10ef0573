//! Facts: proved, decided by values, tested, refuted.

use kernelwright_codegen::facts;
use kernelwright_codegen::lower::lower;
use kernelwright_codegen::math::{Fact, KnownFact, Standing};
use kernelwright_syntax::program::{Centring, Operator, Outside, Rule};

use crate::build::*;
use crate::operators::*;

const ALL: [Fact; 3] = [Fact::Symmetric, Fact::PositiveDefinite, Fact::MMatrix];

fn standings(facts: &[KnownFact]) -> Vec<Standing> {
    facts.iter().map(|f| f.standing).collect()
}

fn tested(op: &Operator, sizes: &[u64], params: &[f64], data: &[Vec<f64>]) -> Vec<KnownFact> {
    facts::test(op, &lower(op, sizes).unwrap(), &ALL, params, data).unwrap()
}

#[test]
fn poisson_is_proved() {
    use Standing::Proved;
    for dims in 1..=3 {
        let op = lower(&poisson(dims), &vec![300; dims]).unwrap();
        assert_eq!(standings(&op.facts), [Proved, Proved, Proved], "{:?}", op.facts);
        assert!(!op.nullspace);
    }
}

#[test]
fn parameters_decide_the_pressure_correction() {
    let source = pressure_correction();
    let op = lower(&source, &[48, 40, 32]).unwrap();
    assert_eq!(standings(&op.facts), [Standing::Proved, Standing::ToTest]);
    assert_eq!(op.facts[0].why, "both neighbours of a face read the same X, Y, Z; and boundaries keep it");
    let known = tested(&source, &[48, 40, 32], &[8.5 / 48.0, 0.1, 0.01], &[]);
    assert_eq!(standings(&known), [Standing::Proved, Standing::Tested, Standing::Tested]);
    assert_eq!(known[1].why, "couplings are <= 0 and row sums > 0");
    // A shell turned inside out: layers of negative thickness.
    let known = tested(&source, &[8, 8, 8], &[1.0, 0.1, -0.5], &[]);
    assert_eq!(known[1].standing, Standing::Refuted, "{known:?}");
}

#[test]
fn null_spaces() {
    let closed = lower(&darcy(Rule::NoFlux), &[6, 5]).unwrap();
    assert!(closed.nullspace);
    assert!(lower(&darcy(Rule::Periodic), &[6, 5]).unwrap().nullspace);
    assert!(!lower(&darcy(dirichlet(num(0.0))), &[6, 5]).unwrap().nullspace);
    let mut b = Build::new("point", Centring::Cells, 1);
    b.apply("u", num(2.0) / num(3.0) * u([0; 3]) - u([1, 0, 0]) / num(3.0) - u([-1, 0, 0]) / num(3.0));
    assert!(lower(&b.0, &[9]).unwrap().nullspace);
    b.0.nullspace = Some(kernelwright_syntax::program::NullSpace::None);
    assert!(!lower(&b.0, &[9]).unwrap().nullspace);
    let mut b = Build::new("overflow", Centring::Cells, 1);
    b.apply("u", num(1e308) * num(10.0) * u([0; 3]));
    assert!(!lower(&b.0, &[9]).unwrap().nullspace, "what is infinite does not cancel");
    // A flux of a sum: it cancels between faces, but not beside a closed one.
    let mut b = Build::new("flow", Centring::Cells, 1);
    let x = b.flux("X", 0, u([1, 0, 0]) + u([0; 3]));
    b.apply("u", x.div(0));
    assert!(!lower(&b.0, &[9]).unwrap().nullspace);
}

#[test]
fn values_decide_data() {
    let kappa: Vec<f64> = (0..30 * 20).map(|n| 1.0 + f64::from(n % 7)).collect();
    for rule in [Rule::NoFlux, Rule::Periodic, dirichlet(num(0.0))] {
        let source = darcy(rule);
        let op = lower(&source, &[30, 20]).unwrap();
        assert_eq!(standings(&op.facts), [Standing::Proved, Standing::ToTest]);
        let known = tested(&source, &[30, 20], &[], std::slice::from_ref(&kappa));
        assert_eq!(known[1].standing, Standing::Tested);
        assert!(known[1].why.contains("all points are connected"), "{}", known[1].why);
    }
    // Sides where nothing is known to hold: a permeability of both signs.
    let source = darcy(dirichlet(num(0.0)));
    let signs: Vec<f64> = (0..30 * 20).map(|n| if n % 3 == 0 { -1.0 } else { 4.0 }).collect();
    let known = tested(&source, &[30, 20], &[], &[signs]);
    assert_eq!(known[0].standing, Standing::Proved);
    assert_eq!(known[1].standing, Standing::Refuted);
    assert!(known[1].why.contains("smallest eigenvalue -"), "{}", known[1].why);
}

#[test]
fn the_offending_pair_is_named() {
    // Upwinding with constant coefficients is refuted without values.
    let mut b = Build::new("upwind", Centring::Cells, 2);
    b.apply("u", num(5.0) * u([0; 3]) - u([1, 0, 0]) - num(1.5) * u([-1, 0, 0]) - u([0, 1, 0]) - u([0, -1, 0]));
    let op = lower(&b.0, &[20, 20]).unwrap();
    let known = facts::establish(&op, &ALL);
    assert_eq!(known[0].standing, Standing::Refuted);
    assert_eq!(known[0].why, "row u couples to u[i-1] with -1.5, but row u[i-1] couples to u with -1");
    // A coefficient read at the own cell on both faces is not.
    let mut b = Build::new("own", Centring::Cells, 2);
    let c = b.data("c", &[0, 1], None, Outside::Error);
    b.apply("u", u([0; 3]) - c.here() * (u([1, 0, 0]) - u([0; 3])) - c.here() * (u([-1, 0, 0]) - u([0; 3])));
    let mut values = vec![2.0; 12 * 9];
    values[4 + 12 * 2] = 7.0;
    let op = lower(&b.0, &[12, 9]).unwrap();
    assert_eq!(facts::establish(&op, &ALL)[0].standing, Standing::ToTest);
    let known = tested(&b.0, &[12, 9], &[], &[values]);
    assert_eq!(known[0].standing, Standing::Refuted);
    let pair = "row u(3, 2) couples to u(4, 2) with -2, but row u(4, 2) couples to u(3, 2) with -7";
    assert!(known[0].why.starts_with(pair), "{}", known[0].why);
    assert_eq!(known[2].standing, Standing::Tested, "{}", known[2].why);
}

#[test]
fn symmetry_is_not_proved_where_it_fails() {
    // Each of these is symmetric away from boundaries; not every assembled matrix is.
    let far = u([2, 0, 0]) + u([-2, 0, 0]);
    let mut cases = Vec::new();
    let mut b = Build::new("far", Centring::Cells, 1);
    b.apply("u", num(3.0) * u([0; 3]) - far.clone());
    cases.push((b.0, vec![7], true));
    // Mirrored, u[i-2] at 0 reads w(-2) and u[i-2] at 1 reads w(-1).
    let mut b = Build::new("far", Centring::Cells, 1);
    let w = b.set("w", num(9.0) + index(0));
    b.apply("u", num(3.0) * u([0; 3]) - w.here() * u([2, 0, 0]) - w.at([-2, 0, 0]) * u([-2, 0, 0]));
    cases.push((b.0, vec![7], false));
    // Prescribed at nodes outside: couplings are dropped, and it stays symmetric.
    let mut b = Build::new("far", Centring::Nodes, 1);
    b.apply("u", num(3.0) * u([0; 3]) - far);
    b.boundary(0, dirichlet(num(0.0)), dirichlet(num(1.0)));
    cases.push((b.0, vec![7], true));
    // A letter in the coefficient round a ring: u[i+1] at n-1 reads w(n-1), u[i-1] at 0 reads w(-1).
    let mut b = Build::new("ring", Centring::Cells, 1);
    let w = b.set("w", num(1.0) + index(0));
    b.apply("u", w.here() * (u([1, 0, 0]) - u([0; 3])) + w.at([-1, 0, 0]) * (u([-1, 0, 0]) - u([0; 3])));
    b.boundary(0, Rule::Periodic, Rule::Periodic);
    cases.push((b.0, vec![7], false));
    // The same as a flux is read at the same face by both.
    let mut b = Build::new("ring", Centring::Cells, 1);
    let w = b.set("w", num(1.0) + index(0));
    let x = b.flux("X", 0, w.here() * (u([1, 0, 0]) - u([0; 3])));
    b.apply("u", x.div(0));
    b.boundary(0, Rule::Periodic, Rule::Periodic);
    cases.push((b.0, vec![7], true));
    // Corner neighbours and mirrors.
    let mut b = Build::new("corner", Centring::Cells, 2);
    let v = b.set("v", num(1.0) + index(1));
    let corner = |i: i32, j: i32| u([i, j, 0]);
    b.apply("u", v.here() * (corner(1, 1) + corner(-1, 1)) + v.at([0, -1, 0]) * (corner(1, -1) + corner(-1, -1)));
    cases.push((b.0, vec![4, 5], true));
    for (op, sizes, symmetric) in cases {
        let lowered = lower(&op, &sizes).unwrap();
        let probe = facts::probe(&lowered, &[], &[]).unwrap();
        assert_eq!(probe.holds(Fact::Symmetric).is_ok(), symmetric, "{}: {probe:?}", op.name);
        let known = &facts::establish(&lowered, &ALL)[0];
        assert!(symmetric || known.standing == Standing::ToTest, "{}: {known:?}", op.name);
        let expected = if symmetric { [Standing::Proved, Standing::Tested] } else { [Standing::Refuted; 2] };
        let known = &tested(&op, &sizes, &[], &[])[0];
        assert!(expected.contains(&known.standing), "{}: {known:?}", op.name);
    }
}

#[test]
fn several_unknowns_are_tested() {
    // A coupled pair: symmetric when the coupling is the same seen from both.
    for (other, symmetric) in [(0.5, true), (0.4, false)] {
        let mut b = Build::new("pair", Centring::Cells, 1);
        let laplace = |c: usize| {
            let d = num(2.0) * component(c, [0; 3]) - component(c, [1, 0, 0]) - component(c, [-1, 0, 0]);
            d + component(c, [0; 3])
        };
        b.apply("u", laplace(0) - num(0.5) * component(1, [0; 3]));
        b.apply("v", laplace(1) - num(other) * component(0, [0; 3]));
        let known = tested(&b.0, &[50], &[], &[]);
        let wanted = if symmetric { Standing::Proved } else { Standing::Refuted };
        assert_eq!(known[0].standing, wanted);
        if !symmetric {
            assert_eq!(known[0].why, "row u couples to v with -0.5, but row v couples to u with -0.4");
        }
        assert!(matches!(known[1].standing, Standing::Proved | Standing::Tested));
    }
}
