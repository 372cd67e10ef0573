//! Kernels in the interpreter against the oracle: systems, orders, targets, precisions, shapes.

use kernelwright_codegen::galerkin::energy::derive;
use kernelwright_codegen::galerkin::evaluate::evaluate;
use kernelwright_codegen::galerkin::map::{Fusion, Geometry, Home, MapError, Options, Purpose, Target, Variant, map};
use kernelwright_codegen::galerkin::mesh::Mesh;
use kernelwright_codegen::galerkin::reference::MAX_ORDER;
use kernelwright_codegen::galerkin::system::System;
use kernelwright_codegen::kernel::Element;

use crate::machine::{Case, Machine, difference, tolerance};
use crate::meshes::{box_mesh, box_of};
use crate::systems::*;

const ENGINES: [(Target, Element); 4] = [
    (Target::Cuda, Element::F64),
    (Target::Host, Element::F64),
    (Target::Cuda, Element::F32),
    (Target::Host, Element::F32),
];

/// A rate, a step and an energy against the oracle.
fn check(case: &Case, options: &Options) {
    let oracle = case.oracle();
    let state = case.state();
    let time = 0.3;
    let context = || format!("{} order {} {:?}", case.system.name, case.element.order, options);
    let tolerance = tolerance(options.precision, case.element.order);

    let mut machine = Machine::new(case, options, time);
    machine.write(&state);
    machine.run(&machine.module.rate.clone());
    let error = difference(&machine.read(machine.module.rate_output), &oracle.rate(&state, time));
    assert!(error <= tolerance, "rate: {error} > {tolerance}\n{}", context());

    let mut machine = Machine::new(case, options, time);
    machine.write(&state);
    let mut registers = vec![state.clone(); case.system.step.registers.len()];
    for number in 0..2 {
        machine.step();
        oracle.step(&mut registers, time + f64::from(number) * case.dt, case.dt);
    }
    let error = difference(&machine.state(), &registers[0]);
    assert!(error <= tolerance, "step: {error} > {tolerance}\n{}", context());
    let clock = machine.raw(machine.module.clock);
    assert_eq!((clock[0], clock[2]), (time + 2.0 * case.dt, 2.0));

    let energy = derive(&case.system);
    let weight = |element: usize, c: usize| {
        let materials = case.materials.iter().map(|m| m[element]).collect();
        let at = kernelwright_codegen::galerkin::evaluate::Point {
            params: case.params.clone(),
            materials: [materials, vec![]],
            ..Default::default()
        };
        evaluate(&energy.weights[c], &at)
    };
    let expected = oracle.energy(&registers[0], weight);
    let found = machine.energy();
    assert!((found - expected).abs() <= tolerance * expected.abs(), "energy: {found} for {expected}\n{}", context());
}

fn with(case: &Case, engine: (Target, Element), change: impl FnOnce(&mut Variant)) -> Options {
    let mut options = Options::new(engine.0, engine.1, case.element.order, &case.system);
    change(&mut options.variant);
    options
}

fn small(options: &mut Variant, target: Target) {
    // Few elements: small blocks, so that there are several and the last one is padded.
    options.parallel = if target == Target::Cuda { 3 } else { 4 };
}

fn meshes() -> [Mesh; 2] {
    [box_mesh([2, 1, 1], 0.0, 2), box_of([2, 2, 1], 0.2, 0, 9)]
}

#[test]
fn systems_agree_with_the_oracle() {
    for system in [maxwell(1.0), acoustics(), random(1), random(4)] {
        let tags = system.boundaries.len() as u32;
        let case = Case::new(system, box_of([2, 2, 2], 0.2, tags, 3), 2);
        for engine in ENGINES {
            check(&case, &with(&case, engine, |v| small(v, engine.0)));
        }
    }
    let case = Case::new(advection(), box_of([2, 2, 2], 0.2, 1, 4), 3);
    for engine in ENGINES {
        check(&case, &with(&case, engine, |v| small(v, engine.0)));
    }
}

#[test]
fn all_orders_agree_with_the_oracle() {
    for order in 1..=9 {
        let [bounded, periodic] = meshes();
        let mesh = if order % 2 == 0 { bounded } else { periodic };
        let mesh = if order > 5 { box_of([1, 1, 1], 0.0, (order % 3) as u32, 2) } else { mesh };
        let system: System = if order % 3 == 0 { acoustics() } else { maxwell(1.0) };
        let case = Case::new(system, mesh, order);
        // The default shapes, as they will run.
        check(&case, &with(&case, (Target::Cuda, Element::F32), |_| ()));
        check(&case, &with(&case, (Target::Host, Element::F64), |v| small(v, Target::Host)));
    }
}

#[test]
fn one_element_wide_periodic_boxes() {
    for cells in [[1, 1, 1], [1, 2, 1]] {
        let case = Case::new(maxwell(1.0), box_of(cells, 0.0, 0, 6), 2);
        for engine in [ENGINES[0], ENGINES[1]] {
            check(&case, &with(&case, engine, |v| small(v, engine.0)));
        }
    }
}

#[test]
fn every_axis_of_the_variants() {
    let case = Case::new(acoustics(), box_of([2, 2, 1], 0.2, 2, 5), 2);
    type Change = fn(&mut Variant);
    let gpu: [Change; 18] = [
        |v| v.fusion = Fusion::Two,
        |v| v.fusion = Fusion::Three,
        |v| (v.inline, v.parallel) = (1, 5),
        |v| (v.inline, v.parallel) = (4, 2),
        |v| v.sequential = 3,
        |v| v.fields = Home::Cache,
        |v| v.matrices = Home::Shared,
        |v| v.geometry = Geometry::Vertices,
        |v| v.geometry = Geometry::Faces,
        |v| (v.geometry, v.fusion, v.sequential) = (Geometry::Faces, Fusion::Three, 3),
        |v| (v.prefetch, v.unroll) = (true, 0),
        |v| v.rows = 2,
        |v| (v.rows, v.fusion, v.prefetch, v.inline) = (5, Fusion::Three, true, 1),
        |v| v.turns = true,
        |v| (v.turns, v.rows, v.fields) = (true, 2, Home::Cache),
        // Lanes without a node in their last row.
        |v| (v.rows, v.prefetch) = (3, true),
        |v| (v.rows, v.fusion, v.fields, v.inline) = (4, Fusion::Three, Home::Cache, 1),
        |v| (v.rows, v.matrices, v.sequential) = (7, Home::Shared, 2),
    ];
    for (n, change) in gpu.into_iter().enumerate() {
        for precision in [Element::F32, Element::F64] {
            let engine = (Target::Cuda, precision);
            let options = with(&case, engine, |v| {
                small(v, Target::Cuda);
                change(v);
                // Some together, too.
                if n == 4 {
                    (v.matrices, v.fusion, v.fields) = (Home::Shared, Fusion::Three, Home::Cache);
                }
            });
            check(&case, &options);
        }
    }
    let host: [Change; 5] = [
        |v| v.fusion = Fusion::Two,
        |v| v.fusion = Fusion::Three,
        |v| v.inline = 1,
        |v| v.inline = 4,
        |v| v.geometry = Geometry::Vertices,
    ];
    for change in host {
        let options = with(&case, (Target::Host, Element::F64), |v| {
            small(v, Target::Host);
            change(v);
        });
        check(&case, &options);
    }
}

/// Even and odd parts instead of nodal values: systems with sources, boundaries and terms without derivative; orders with
/// different numbers of parts; every other axis of the variants.
#[test]
fn even_and_odd_parts_agree_with_the_oracle() {
    let symmetric = |case: &Case, precision: Element, change: &dyn Fn(&mut Variant)| {
        let options = with(case, (Target::Cuda, precision), |v| {
            small(v, Target::Cuda);
            v.symmetric = true;
            change(v);
        });
        check(case, &options);
    };
    for order in 1..=4 {
        for system in [maxwell(1.0), acoustics(), random(1), random(4)] {
            let tags = system.boundaries.len() as u32;
            let case = Case::new(system, box_of([2, 1, 1], 0.2, tags, 3), order);
            symmetric(&case, if order % 2 == 0 { Element::F32 } else { Element::F64 }, &|_| ());
        }
    }
    let case = Case::new(advection(), box_of([2, 1, 1], 0.2, 1, 4), 3);
    symmetric(&case, Element::F64, &|_| ());
    let case = Case::new(acoustics(), box_of([2, 2, 1], 0.2, 2, 5), 2);
    let changes: [fn(&mut Variant); 12] = [
        |v| v.fusion = Fusion::Two,
        |v| (v.fusion, v.prefetch) = (Fusion::Three, true),
        |v| (v.sequential, v.matrices) = (3, Home::Shared),
        |v| (v.inline, v.parallel, v.unroll) = (1, 5, 0),
        |v| (v.inline, v.gather) = (4, 1),
        |v| v.geometry = Geometry::Vertices,
        |v| (v.geometry, v.inline) = (Geometry::Faces, 2),
        |v| v.turns = true,
        |v| (v.turns, v.rows, v.fusion) = (true, 3, Fusion::Three),
        // Lanes without a part, or without a node, in some rows.
        |v| (v.rows, v.prefetch) = (2, true),
        |v| (v.rows, v.fusion) = (3, Fusion::Three),
        |v| (v.rows, v.matrices, v.sequential, v.inline) = (4, Home::Shared, 2, 1),
    ];
    for change in changes {
        symmetric(&case, Element::F64, &change);
    }
    let case = Case::new(maxwell(1.0), box_of([1, 1, 1], 0.0, 2, 2), 5);
    symmetric(&case, Element::F32, &|v| (v.rows, v.inline) = (2, 1));
    let case = Case::new(maxwell(1.0), box_of([1, 1, 1], 0.0, 2, 2), 6);
    symmetric(&case, Element::F64, &|v| (v.rows, v.parallel) = (2, 2));
}

/// The order of elements and of their vertices does not matter.
#[test]
fn shuffled_meshes_give_the_same_energy() {
    let run = |seed: u64| {
        let case = Case::new(maxwell(1.0), box_of([2, 2, 1], 0.0, 1, seed), 3);
        let uniform = Case { materials: vec![vec![1.5; case.mesh.elements.len()]; 2], dt: 0.02, ..case };
        let state = uniform.oracle().project(|c, at| (at[c % 3] * 1.3 + c as f64).sin() * at[(c + 1) % 3]);
        let options = with(&uniform, (Target::Cuda, Element::F64), |v| small(v, Target::Cuda));
        let mut machine = Machine::new(&uniform, &options, 0.0);
        machine.write(&state);
        machine.step();
        machine.step();
        machine.energy()
    };
    let (a, b) = (run(1), run(2));
    assert!((a - b).abs() < 1e-11 * a, "{a} and {b}");
}

/// A constant state stays what it is, to rounding of its derivative; its flux corrections are exactly zero.
#[test]
fn free_stream_is_preserved() {
    for precision in [Element::F32, Element::F64] {
        for order in [1, 4] {
            let case = Case::new(maxwell(1.0), box_of([2, 1, 1], 0.0, 0, 8), order);
            let options = with(&case, (Target::Cuda, precision), |v| small(v, Target::Cuda));
            let state = case.oracle().project(|c, _| c as f64 - 2.3);
            let mut machine = Machine::new(&case, &options, 0.0);
            machine.write(&state);
            machine.step();
            let error = difference(&machine.state(), &state);
            assert!(error <= 0.1 * tolerance(precision, order), "{precision:?} order {order}: {error}");
        }
    }
}

#[test]
fn every_default_is_possible() {
    for (order, components) in (1..=MAX_ORDER).flat_map(|order| (1..=20).map(move |components| (order, components))) {
        for precision in [Element::F32, Element::F64] {
            for target in [Target::Cuda, Target::Host] {
                let purpose = Purpose { target, precision, order, components };
                let checked = Variant::default_for(&purpose).check(&purpose);
                assert!(checked.is_ok(), "order {order}, {components} components, {precision:?}: {checked:?}");
            }
        }
    }
}

#[test]
fn impossible_options_are_errors() {
    let case = Case::new(maxwell(1.0), box_mesh([1, 1, 1], 0.0, 1), 2);
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::new(Target::Cuda, Element::F32, 2, &case.system);
        change(&mut options);
        map(&case.system, &case.mesh, &options).expect_err("it cannot be")
    };
    assert!(matches!(refused(|o| o.order = 0), MapError::Order(_)));
    assert!(matches!(refused(|o| o.variant.parallel = 1000), MapError::Variant(_)));
    assert!(matches!(refused(|o| o.variant.inline = 0), MapError::Variant(_)));
    assert!(matches!(refused(|o| o.variant.rows = 11), MapError::Variant(_)));
    assert!(matches!(refused(|o| (o.variant.symmetric, o.variant.rows) = (true, 11)), MapError::Variant(_)));
    assert!(matches!(refused(|o| (o.variant.symmetric, o.variant.fields) = (true, Home::Cache)), MapError::Variant(_)));
    // Of both targets; 2^30 wraps in a product with the default.
    let large: [fn(&mut Options); 4] = [
        |o| o.variant.inline = 1 << 30,
        |o| o.variant.sequential = 1025,
        |o| o.variant.unroll = 1025,
        |o| o.variant.gather = 1025,
    ];
    for target in [Target::Cuda, Target::Host] {
        for change in large {
            let mut options = Options::new(target, Element::F32, 2, &case.system);
            change(&mut options);
            let error = map(&case.system, &case.mesh, &options).expect_err("it cannot be").to_string();
            assert!(error.contains(", more than "), "{error}");
        }
    }
    assert!(matches!(refused(|o| o.precision = Element::I32), MapError::Precision(_)));
    let mut system = case.system.clone();
    system.flux.pop();
    let options = Options::new(Target::Cuda, Element::F32, 2, &case.system);
    assert!(matches!(map(&system, &case.mesh, &options), Err(MapError::System(_))));
    system = case.system.clone();
    system.boundaries.clear();
    assert!(matches!(map(&system, &case.mesh, &options), Err(MapError::Mesh(_))));
}
