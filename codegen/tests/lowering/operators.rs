//! Operators that several tests use.

use kernelwright_syntax::program::{Centring, CompareOp, Fact, Function, Operator, Outside, Rule};

use crate::build::*;

/// Sum of second differences, Dirichlet in i, no flux elsewhere.
pub fn poisson(dims: usize) -> Operator {
    let mut b = Build::new("poisson", Centring::Cells, dims);
    let mut row = num(0.0);
    for a in 0..dims {
        let second = num(2.0) * u([0; 3]) - u(step(a, 1)) - u(step(a, -1));
        row = row + second * size(a) * size(a);
    }
    b.apply("u", row);
    b.boundary(0, dirichlet(num(1.0)), dirichlet(num(0.0)));
    b.claim(&[Fact::Symmetric, Fact::PositiveDefinite, Fact::MMatrix]);
    b.0
}

/// Harmonic means of a permeability on faces, the same rule on all sides.
pub fn darcy(rule: Rule) -> Operator {
    let mut b = Build::new("darcy", Centring::Cells, 2);
    let kappa = b.data("kappa", &[0, 1], None, Outside::Mirror);
    let mut fluxes = Vec::new();
    for a in 0..2 {
        let (here, next) = (kappa.here(), kappa.at(step(a, 1)));
        let mean = num(2.0) * here.clone() * next.clone() / (here + next);
        let value = mean * (u(step(a, 1)) - u([0; 3])) * sqr(&size(a));
        fluxes.push(b.flux(["X", "Y"][a], a, value));
        b.boundary(a, rule.clone(), rule.clone());
    }
    b.apply("u", -(fluxes[0].div(0) + fluxes[1].div(1)));
    b.claim(&[Fact::Symmetric, Fact::PositiveDefinite]);
    b.0
}

/// The operator of the design's section 2, in full.
pub fn pressure_correction() -> Operator {
    let mut b = Build::new("pressure_correction", Centring::Cells, 3);
    let (omega, lambda, depth) = (b.param("omega"), b.param("lambda"), b.param("depth"));
    let centre = |a: usize| num(-1.0) + (num(2.0) * index(a) + num(1.0)) / size(a);
    let x = b.set("x", centre(0));
    let y = b.set("y", centre(1));
    let (sx, sy) = (sqr(&x.here()), sqr(&y.here()));
    let rho = call(Function::Pow, vec![num(1.0) + sx.clone() + sy.clone(), num(1.5)]);
    let area = b.set("area", num(4.0) / (size(0) * size(1)) / rho);
    let rf = b.set("rf", num(1.0) + depth * sqr(&((index(2) + num(1.0)) / size(2))));
    let below = rf.at([0, 0, -1]);
    let rc = b.set("rc", (below.clone() + rf.here()) / num(2.0));
    let dr = b.set("dr", rf.here() - below.clone());
    let edge = |s: E, t: E| call(Function::Sqrt, vec![(num(1.0) + sqr(&s)) / (num(1.0) + t)]);
    let wx = b.set("wx", edge(x.here() + num(1.0) / size(0), sy));
    let wy = b.set("wy", edge(y.here() + num(1.0) / size(1), sx));
    let xf = b.flux("X", 0, dr.here() * wx.here() * (u([1, 0, 0]) - u([0; 3])));
    let yf = b.flux("Y", 1, dr.here() * wy.here() * (u([0, 1, 0]) - u([0; 3])));
    let distance = rc.at([0, 0, 1]) - rc.here();
    let z = area.here() * sqr(&(lambda * rf.here())) / distance * (u([0, 0, 1]) - u([0; 3]));
    let zf = b.flux("Z", 2, z);
    let volume = area.here() * (cube(&rf.here()) - cube(&below)) / num(3.0);
    b.apply("u", volume * u([0; 3]) - sqr(&omega) * (xf.div(0) + yf.div(1) + zf.div(2)));
    b.claim(&[Fact::Symmetric, Fact::PositiveDefinite]);
    b.0
}

/// All neighbours within two steps on two axes, each times a stored field; every kind of side.
pub fn twenty_five_points() -> Operator {
    let mut b = Build::new("twenty_five", Centring::Cells, 2);
    let a = b.param("a");
    let field = b.data("field", &[0, 1], None, Outside::Clamp);
    let profile = b.data("profile", &[1], None, Outside::Mirror);
    let mut row = a.clone() * u([0; 3]);
    for (di, dj) in (-2..=2).flat_map(|i| (-2..=2).map(move |j| (i, j))) {
        let weight = num(1.0 / f64::from(1 + di * di + 2 * dj * dj));
        row = row - weight * field.at([di, dj, 0]) * profile.at([0, dj, 0]) * u([di, dj, 0]);
    }
    b.apply("u", row);
    b.boundary(0, dirichlet(index(1) + a.clone()), Rule::NoFlux);
    b.boundary(1, dirichlet(num(1.0) + sqr(&index(0))), dirichlet(a));
    b.0
}

/// Two unknowns with fluxes, a cross coupling and conditions on letters and parameters.
pub fn two_unknowns() -> Operator {
    let mut b = Build::new("two", Centring::Cells, 2);
    let a = b.param("a");
    let c = b.data("c", &[0, 1], Some(0), Outside::Error);
    let x = b.flux("X", 0, c.here() * (u([1, 0, 0]) - u([0; 3])));
    let y = b.flux("Y", 1, (index(0) + a.clone()) * (component(1, [0, 1, 0]) - component(1, [0; 3])));
    let low = choose(CompareOp::Lt, index(0), num(2.0), component(1, [0; 3]), a * component(1, [1, 0, 0]));
    b.apply("u", u([0; 3]) - x.div(0) + num(0.5) * low);
    let diagonal = choose(CompareOp::Eq, index(0), index(1), num(3.0), num(2.0));
    b.apply("v", diagonal * component(1, [0; 3]) - y.div(1) - u([0, -1, 0]));
    b.boundary(0, dirichlet(num(1.0)), Rule::NoFlux);
    b.boundary(1, Rule::Periodic, Rule::Periodic);
    b.0
}
