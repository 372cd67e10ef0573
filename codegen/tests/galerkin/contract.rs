//! Systems, steps and meshes: what verifiers accept and refuse.

use kernelwright_codegen::galerkin::energy::derive;
use kernelwright_codegen::galerkin::evaluate::{Point, evaluate};
use kernelwright_codegen::galerkin::mesh::{Face, Mesh};
use kernelwright_codegen::galerkin::step::{Stage, Step, StepError, Update};
use kernelwright_codegen::galerkin::system::{Expr, Function, Side, Term};
use kernelwright_codegen::galerkin::text;
use kernelwright_codegen::galerkin::verify::{SystemError, verify};

use crate::systems::*;

#[test]
fn usual_systems_are_well_formed() {
    for system in [maxwell(1.0), maxwell(0.0), acoustics(), advection(), random(1), random(2)] {
        verify(&system).unwrap_or_else(|e| panic!("{e:?}\n{}", text::print(&system)));
    }
}

#[test]
fn an_inconsistent_flux_is_refused() {
    let mut system = advection();
    system.flux[0] = mul(number(2.0), system.flux[0].clone());
    let errors = verify(&system).expect_err("twice the flux");
    assert!(matches!(&errors[..], [SystemError::Inconsistent { component, .. }] if component == "u"), "{errors:?}");
}

#[test]
fn a_nonlinear_flux_is_refused() {
    let mut system = advection();
    system.flux[0] = mul(inside(0), outside(0));
    let errors = verify(&system).expect_err("a product of states");
    assert!(errors.iter().any(|e| matches!(e, SystemError::Linear { kind: "linear", .. })), "{errors:?}");
}

#[test]
fn scopes_are_checked() {
    let mut system = maxwell(1.0);
    system.rates[0].terms[0].coefficient = Expr::Material(Side::Exterior, 0);
    system.flux[1] = Expr::Time;
    system.boundaries[0].components[2] = outside(2);
    let errors = verify(&system).expect_err("three reads out of scope");
    assert_eq!(errors.iter().filter(|e| matches!(e, SystemError::Scope { .. })).count(), 3, "{errors:?}");
}

#[test]
fn steps_have_their_orders() {
    for (step, order) in [(Step::lserk4(), 4), (Step::ssp3(), 3)] {
        assert_eq!(step.verify(), Ok(()));
        assert_eq!(step.linear_order(), order, "{:?}", step.stability_polynomial());
    }
    let mut wrong = Step::lserk4();
    wrong.stages[2].time += 0.01;
    assert!(matches!(wrong.verify(), Err(StepError::Inconsistent(_))));
    let update = Update { register: 0, terms: vec![(1, 1.0)], rate: 1.0 };
    let unset = Step {
        name: "unset".into(),
        registers: vec!["a".into(), "b".into()],
        stages: vec![Stage { time: 0.0, updates: vec![update] }],
    };
    assert!(matches!(unset.verify(), Err(StepError::Unset { .. })));
}

#[test]
fn meshes_are_checked() {
    let mesh = crate::meshes::box_mesh([2, 1, 1], 0.0, 1);
    assert_eq!(mesh.verify(1), Ok(()));
    let mut inverted = mesh.clone();
    inverted.elements[3].swap(0, 1);
    assert!(inverted.verify(1).is_err());
    let mut one_sided: Mesh = mesh.clone();
    let shared = one_sided.faces.iter_mut().flatten().find(|face| matches!(face, Face::Shared { .. }));
    *shared.expect("elements have neighbours") = Face::Boundary(0);
    assert!(one_sided.verify(1).is_err());
    assert!(mesh.verify(0).is_err(), "there are boundaries");
}

#[test]
fn text_names_everything() {
    let text = text::print(&acoustics());
    for part in ["ddt p = -bulk * dx(v_x)", "exterior(density) = density", "boundary driven", "step ssp3", "n.F*[v_z]"]
    {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn energies_are_derived() {
    for (system, weights) in
        [(maxwell(1.0), vec![2.0, 2.0, 2.0, 3.0, 3.0, 3.0]), (acoustics(), vec![0.5, 3.0, 3.0, 3.0])]
    {
        let energy = derive(&system);
        assert!(energy.symmetric, "{}", system.name);
        let at = Point { materials: [vec![2.0, 3.0], vec![]], ..Point::default() };
        for (weight, expected) in energy.weights.iter().zip(weights) {
            assert!((evaluate(weight, &at) - expected).abs() < 1e-12, "{}", system.name);
        }
    }
    assert!(derive(&advection()).symmetric && derive(&random(3)).symmetric);
    let mut skew = random(3);
    let added = skew.rates[0].terms[0].clone();
    let component = (added.component + 1) % skew.components.len();
    skew.rates[0].terms.push(Term { component, coefficient: number(9.0), ..added });
    assert!(!derive(&skew).symmetric || component == 0);
}

#[test]
fn systems_that_are_not_hyperbolic_are_refused() {
    // q_0' = d q_1 / dx, q_1' = factor * d q_0 / dx: speeds are the roots of the factor.
    let refused = |factor: f64| {
        let mut system = random(1);
        let term =
            |coefficient: f64, component: usize| Term { coefficient: number(coefficient), component, axis: Some(0) };
        system.components.truncate(2);
        system.rates.truncate(2);
        system.rates[0].terms = vec![term(1.0, 1)];
        system.rates[1].terms = vec![term(factor, 0)];
        system.flux = vec![mul(Expr::Normal(0), average(1)), mul(mul(number(factor), Expr::Normal(0)), average(0))];
        system.boundaries.clear();
        match verify(&system) {
            Ok(()) => false,
            Err(errors) => {
                assert!(matches!(&errors[..], [SystemError::NotHyperbolic { .. }]), "{errors:?}");
                true
            }
        }
    };
    assert!(!refused(1.0) && !refused(4.0));
    assert!(refused(-1.0), "complex speeds");
    assert!(refused(0.0), "a missing eigenvector");
}

/// Roots of 1 - p^2, real for a third of the samples near 1, and of p - 40, for none of them.
#[test]
fn samples_without_value_are_drawn_again() {
    let with = |domain: fn(Expr) -> Expr, factor: f64| {
        let mut system = advection();
        let root = call(Function::Sqrt, &[domain(Expr::Param(0))]);
        let one = div(root.clone(), root);
        system.params.truncate(1);
        system.rates[0].terms = vec![Term { component: 0, coefficient: one.clone(), axis: Some(0) }];
        system.flux = vec![mul(number(factor), mul(one, mul(Expr::Normal(0), average(0))))];
        system.boundaries.clear();
        verify(&system)
    };
    let domains: [fn(Expr) -> Expr; 2] = [|p| sub(number(1.0), mul(p.clone(), p)), |p| sub(p, number(40.0))];
    for domain in domains {
        assert_eq!(with(domain, 1.0), Ok(()));
        let errors = with(domain, 1.01).expect_err("not consistent");
        assert!(matches!(&errors[..], [SystemError::Inconsistent { .. }]), "{errors:?}");
    }
    let errors = with(|p| sub(number(-1.0), mul(p.clone(), p)), 1.0).expect_err("never real");
    assert!(errors.iter().any(|e| matches!(e, SystemError::Undefined { .. })), "{errors:?}");
    let mut system = advection();
    system.flux[0] = mul(number(0.0), call(Function::Sqrt, &[inside(0)]));
    let errors = verify(&system).expect_err("real for some states");
    assert!(errors.iter().any(|e| matches!(e, SystemError::Linear { .. })), "{errors:?}");
}
