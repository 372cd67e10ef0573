//! Systems for tests: Maxwell, acoustics, advection, and random symmetric ones.

use kernelwright_codegen::galerkin::evaluate::Samples;
use kernelwright_codegen::galerkin::step::Step;
use kernelwright_codegen::galerkin::system::*;

pub fn number(x: f64) -> Expr {
    Expr::Number(x)
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

pub fn add(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Add, a, b)
}

pub fn sub(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Sub, a, b)
}

pub fn mul(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Mul, a, b)
}

pub fn div(a: Expr, b: Expr) -> Expr {
    binary(BinaryOp::Div, a, b)
}

pub fn neg(a: Expr) -> Expr {
    Expr::Neg(Box::new(a))
}

pub fn call(function: Function, args: &[Expr]) -> Expr {
    Expr::Call(function, args.to_vec())
}

pub fn inside(component: usize) -> Expr {
    Expr::Component(Side::Interior, component)
}

pub fn outside(component: usize) -> Expr {
    Expr::Component(Side::Exterior, component)
}

pub fn jump(component: usize) -> Expr {
    sub(outside(component), inside(component))
}

pub fn average(component: usize) -> Expr {
    mul(number(0.5), add(inside(component), outside(component)))
}

fn inner(material: usize) -> Expr {
    Expr::Material(Side::Interior, material)
}

fn outer(material: usize) -> Expr {
    Expr::Material(Side::Exterior, material)
}

fn n(axis: usize) -> Expr {
    Expr::Normal(axis)
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

/// Component `c` of `a x b`.
fn cross(a: impl Fn(usize) -> Expr, b: impl Fn(usize) -> Expr, c: usize) -> Expr {
    let (i, j) = ((c + 1) % 3, (c + 2) % 3);
    sub(mul(a(i), b(j)), mul(a(j), b(i)))
}

fn dot(a: impl Fn(usize) -> Expr, b: impl Fn(usize) -> Expr) -> Expr {
    add(add(mul(a(0), b(0)), mul(a(1), b(1))), mul(a(2), b(2)))
}

fn curl(first: usize, c: usize, coefficient: &Expr) -> Vec<Term> {
    let (i, j) = ((c + 1) % 3, (c + 2) % 3);
    vec![
        Term { coefficient: coefficient.clone(), component: first + j, axis: Some(i) },
        Term { coefficient: neg(coefficient.clone()), component: first + i, axis: Some(j) },
    ]
}

/// Interior values of every material, as exterior ones.
fn same_materials(count: usize) -> Vec<Expr> {
    (0..count).map(inner).collect()
}

/// Maxwell: E, H with epsilon, mu; upwind fluxes of Hesthaven and Warburton (2008), section 10.5, blended by `alpha`;
/// perfectly conducting (0) and absorbing (1) boundaries.
pub fn maxwell(alpha: f64) -> System {
    let (inverse_epsilon, inverse_mu) = (div(number(1.0), inner(0)), div(number(1.0), inner(1)));
    let impedance = |side: fn(usize) -> Expr| call(Function::Sqrt, &[div(side(1), side(0))]);
    let admittance = |side: fn(usize) -> Expr| call(Function::Sqrt, &[div(side(0), side(1))]);
    let (z_sum, y_sum) = (add(impedance(inner), impedance(outer)), add(admittance(inner), admittance(outer)));
    // n.F_E = n x H / epsilon, n.F_H = -n x E / mu.
    let star = |c: usize, own: usize, other: usize, sign: f64, inverse: &Expr, weight: &Expr, sum: &Expr| {
        let jump_other = |a: usize| jump(other + a);
        let jump_own = |a: usize| jump(own + a);
        let normal_jump = dot(n, jump_own);
        // alpha * (jump - n (n . jump)), the tangential jump
        let tangential = mul(number(alpha), sub(jump(own + c), mul(n(c), normal_jump)));
        let upwind = add(mul(mul(number(sign), weight.clone()), cross(n, jump_other, c)), tangential);
        let physical = mul(number(sign), cross(n, |a| inside(other + a), c));
        mul(inverse.clone(), add(physical, div(upwind, sum.clone())))
    };
    let mut rates = Vec::new();
    let mut flux = Vec::new();
    for c in 0..3 {
        rates.push(Rate { terms: curl(3, c, &inverse_epsilon), source: None });
        flux.push(star(c, 0, 3, 1.0, &inverse_epsilon, &impedance(outer), &z_sum));
    }
    for c in 0..3 {
        rates.push(Rate { terms: curl(0, c, &neg(inverse_mu.clone())), source: None });
        flux.push(star(c, 3, 0, -1.0, &inverse_mu, &admittance(outer), &y_sum));
    }
    let exterior = |e: f64, h: f64| {
        let value = |c: usize| mul(number(if c < 3 { e } else { h }), inside(c));
        (0..6).map(value).collect::<Vec<Expr>>()
    };
    let boundary = |tag: &str, e: f64, h: f64| Boundary {
        tag: tag.into(),
        components: exterior(e, h),
        materials: same_materials(2),
    };
    System {
        name: "maxwell".into(),
        components: names(&["E_x", "E_y", "E_z", "H_x", "H_y", "H_z"]),
        materials: names(&["epsilon", "mu"]),
        params: vec![],
        rates,
        flux,
        boundaries: vec![boundary("pec", -1.0, 1.0), boundary("absorbing", 0.0, 0.0)],
        step: Step::lserk4(),
        text: names(&["ddt E = curl(H)/epsilon", "ddt H = -curl(E)/mu"]),
    }
}

/// Acoustics: p, v with bulk modulus and density; the exact Riemann flux; a source; walls (0) and a driven side (1).
pub fn acoustics() -> System {
    let (bulk, density) = (inner(0), inner(1));
    let term = |coefficient: Expr, component: usize, axis: usize| Term { coefficient, component, axis: Some(axis) };
    let mut rates = vec![Rate {
        terms: (0..3).map(|a| term(neg(bulk.clone()), 1 + a, a)).collect(),
        source: Some(mul(
            Expr::Param(0),
            mul(call(Function::Sin, &[add(Expr::Position(0), Expr::Time)]), Expr::Position(2)),
        )),
    }];
    let inverse = neg(div(number(1.0), density.clone()));
    rates.extend((0..3).map(|a| Rate { terms: vec![term(inverse.clone(), 0, a)], source: None }));
    rates[1].terms.push(Term { coefficient: neg(Expr::Param(1)), component: 1, axis: None });
    let impedance = |side: fn(usize) -> Expr| call(Function::Sqrt, &[mul(side(0), side(1))]);
    let (z, z_out) = (impedance(inner), impedance(outer));
    let sum = add(z.clone(), z_out.clone());
    let normal = |side: fn(usize) -> Expr| dot(n, |a| side(1 + a));
    // Pressure and normal velocity between the two waves.
    let p_star = div(
        add(
            add(mul(z.clone(), outside(0)), mul(z_out.clone(), inside(0))),
            mul(mul(z.clone(), z_out.clone()), sub(normal(inside), normal(outside))),
        ),
        sum.clone(),
    );
    let v_star = div(add(add(mul(z, normal(inside)), mul(z_out, normal(outside))), sub(inside(0), outside(0))), sum);
    let mut flux = vec![mul(neg(bulk), v_star)];
    flux.extend((0..3).map(|a| mul(mul(inverse.clone(), n(a)), p_star.clone())));
    let wall = |a: usize| sub(inside(1 + a), mul(mul(number(2.0), n(a)), normal(inside)));
    let drive = call(Function::Sin, &[mul(Expr::Param(0), add(Expr::Time, Expr::Position(1)))]);
    System {
        name: "acoustics".into(),
        components: names(&["p", "v_x", "v_y", "v_z"]),
        materials: names(&["bulk", "density"]),
        params: names(&["omega", "damping"]),
        rates,
        flux,
        boundaries: vec![
            Boundary {
                tag: "wall".into(),
                components: vec![inside(0), wall(0), wall(1), wall(2)],
                materials: same_materials(2),
            },
            Boundary {
                tag: "driven".into(),
                components: vec![drive, inside(1), inside(2), inside(3)],
                materials: vec![mul(number(2.0), inner(0)), inner(1)],
            },
        ],
        step: Step::ssp3(),
        text: names(&["ddt p = -bulk*div(v) + source", "ddt v = -grad(p)/density"]),
    }
}

/// Advection with a constant velocity; the upwind flux; an inflow value.
pub fn advection() -> System {
    let velocity = [Expr::Param(0), Expr::Param(1), Expr::Param(2)];
    let term = |a: usize| Term { coefficient: neg(velocity[a].clone()), component: 0, axis: Some(a) };
    let normal = dot(n, |a| velocity[a].clone());
    let upwind = Condition::Compare(CompareOp::Gt, normal.clone(), number(0.0));
    let value = Expr::Select(Box::new(upwind), Box::new(inside(0)), Box::new(outside(0)));
    let inflow = call(Function::Sin, &[sub(Expr::Position(0), Expr::Time)]);
    System {
        name: "advection".into(),
        components: names(&["u"]),
        materials: vec![],
        params: names(&["a_x", "a_y", "a_z"]),
        rates: vec![Rate { terms: (0..3).map(term).collect(), source: None }],
        flux: vec![neg(mul(normal, value))],
        boundaries: vec![Boundary { tag: "inflow".into(), components: vec![inflow], materials: vec![] }],
        step: Step::lserk4(),
        text: names(&["ddt u = -dot(a, grad(u))"]),
    }
}

/// A random symmetric hyperbolic system of several components: central flux plus a random symmetric penalty on the jumps.
pub fn random(seed: u64) -> System {
    let mut samples = Samples::new(seed);
    let components = 2 + (samples.between(0.0, 4.0) as usize);
    let mut coefficient = vec![vec![vec![0.0; 3]; components]; components];
    let mut penalty = vec![vec![0.0; components]; components];
    for i in 0..components {
        for j in 0..=i {
            let entry = |_| if samples.between(0.0, 1.0) < 0.4 { 0.0 } else { samples.between(-1.0, 1.0) };
            let entries: Vec<f64> = (0..3).map(entry).collect();
            coefficient[i][j] = entries.clone();
            coefficient[j][i] = entries;
            let value = samples.between(-0.3, 0.3) + if i == j { 1.0 } else { 0.0 };
            penalty[i][j] = value;
            penalty[j][i] = value;
        }
    }
    let mut rates = Vec::new();
    let mut flux = Vec::new();
    for i in 0..components {
        let mut terms = Vec::new();
        let mut star = number(0.0);
        for j in 0..components {
            for (axis, &a) in coefficient[i][j].iter().enumerate() {
                if a != 0.0 {
                    terms.push(Term { coefficient: mul(number(a), Expr::Param(0)), component: j, axis: Some(axis) });
                    star = add(star, mul(mul(mul(number(a), Expr::Param(0)), n(axis)), average(j)));
                }
            }
            star = add(star, mul(number(penalty[i][j]), jump(j)));
        }
        terms.push(Term { coefficient: number(samples.between(-1.0, 1.0)), component: i, axis: None });
        rates.push(Rate { terms, source: None });
        flux.push(star);
    }
    let exterior = |i: usize| add(mul(number(samples.between(-1.0, 1.0)), inside(i)), Expr::Position(i % 3));
    System {
        name: "random".into(),
        components: (0..components).map(|i| format!("q_{i}")).collect(),
        materials: vec![],
        params: names(&["scale"]),
        rates,
        flux,
        boundaries: vec![Boundary {
            tag: "edge".into(),
            components: (0..components).map(exterior).collect(),
            materials: vec![],
        }],
        step: Step::lserk4(),
        text: vec![],
    }
}
