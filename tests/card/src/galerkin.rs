//! Discontinuous Galerkin systems on a back end: two steps and the energy against dense algebra, and how fast stages are.

// The systems, meshes and the oracle of the compiler's own tests.
#[allow(dead_code)]
#[path = "../../../codegen/tests/galerkin/systems.rs"]
mod systems;
#[allow(dead_code)]
#[path = "../../../codegen/tests/galerkin/meshes.rs"]
mod meshes;
#[allow(dead_code)]
#[path = "../../../codegen/tests/galerkin/oracle.rs"]
mod oracle;
mod engine;
mod measure;

use kernelwright::backend::open::Choice;
use kernelwright_codegen::galerkin::evaluate::Samples;
use kernelwright_codegen::galerkin::map::{Options, Target};
use kernelwright_codegen::galerkin::mesh::Mesh;
use kernelwright_codegen::galerkin::reference::Element;
use kernelwright_codegen::galerkin::system::System;
use kernelwright_codegen::kernel;

use crate::Case;
use engine::Engine;
use oracle::Oracle;

pub use measure::measure;

/// Every order in both precisions, by turns on the usual systems.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for order in 1..=9 {
        for precision in [kernel::Element::F32, kernel::Element::F64] {
            let kinds: [fn() -> System; 3] = [|| systems::maxwell(1.0), systems::acoustics, systems::advection];
            let make = kinds[(order + usize::from(precision == kernel::Element::F64)) % 3];
            cases.push(Case {
                name: format!("galerkin/{}_order_{order}_{precision:?}", make().name).to_lowercase(),
                run: Box::new(move |choice| compare(&make(), order, precision, None, choice)),
            });
        }
    }
    // The way that is not the default of the order.
    for (order, precision, symmetric) in [
        (1, kernel::Element::F64, true),
        (4, kernel::Element::F32, true),
        (5, kernel::Element::F32, false),
        (8, kernel::Element::F64, false),
    ] {
        let way = if symmetric { "parts" } else { "nodes" };
        cases.push(Case {
            name: format!("galerkin/{way}_order_{order}_{precision:?}").to_lowercase(),
            run: Box::new(move |choice| compare(&systems::maxwell(1.0), order, precision, Some(symmetric), choice)),
        });
    }
    cases
}

/// Rounding of sums of N_p terms whose cancellation grows with the entries of the derivative matrix, about N^2.
fn tolerance(precision: kernel::Element, order: usize) -> f64 {
    let epsilon = if precision == kernel::Element::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    30.0 * epsilon * (order * order) as f64
}

/// Against the oracle, with the default shape or with nodal values or their even and odd parts instead.
fn compare(
    system: &System,
    order: usize,
    precision: kernel::Element,
    symmetric: Option<bool>,
    choice: Choice,
) -> Result<(), String> {
    let cells = if order > 4 { [1, 1, 1] } else { [2, 2, 1] };
    let mesh: Mesh = meshes::box_of(cells, 0.2, system.boundaries.len() as u32, 3);
    let element = Element::new(order).map_err(|error| error.to_string())?;
    let mut samples = Samples::new(17);
    let params = samples.many(system.params.len(), 0.5, 1.5);
    let count = mesh.elements.len();
    let materials: Vec<Vec<f64>> = system.materials.iter().map(|_| samples.many(count, 0.5, 2.0)).collect();
    let state = samples.many(count * system.components.len() * element.node_count(), -1.0, 1.0);
    let (time, dt) = (0.3, 0.05 / (order * order) as f64);
    let mut engine = Engine::open(choice, |target| {
        let mut options = Options::new(target, precision, order, system);
        options.variant.symmetric = symmetric.unwrap_or(options.variant.symmetric);
        if target == Target::Host {
            // Few elements need no more lanes.
            options.variant.parallel = 4;
        }
        (system, &mesh, options)
    })?;
    engine.begin(&params, &materials, [time, dt], &state)?;
    engine.step()?;
    engine.step()?;
    let oracle = Oracle::new(system, &mesh, &element, &params, &materials);
    let mut registers = vec![state; system.step.registers.len()];
    oracle.step(&mut registers, time, dt);
    oracle.step(&mut registers, time + dt, dt);
    let found = engine.state()?;
    let size = registers[0].iter().fold(0.0f64, |a, b| a.max(b.abs()));
    let bound = tolerance(precision, order) * size;
    for (n, (found, expected)) in found.iter().zip(&registers[0]).enumerate() {
        let error = (found - expected).abs();
        if error.is_nan() || error > bound {
            return Err(format!("value {n}: {found} instead of {expected}, bound {bound:e}"));
        }
    }
    let energy = engine.energy()?;
    if energy.is_finite() && energy > 0.0 { Ok(()) } else { Err(format!("an energy of {energy}")) }
}
