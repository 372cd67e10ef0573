//! Kernels of discontinuous Galerkin systems: golden texts per fusion and variant, sources of every order.

// The systems and meshes of the compiler's own tests.
#[allow(dead_code)]
#[path = "../../codegen/tests/galerkin/meshes.rs"]
mod meshes;
#[allow(dead_code)]
#[path = "../../codegen/tests/galerkin/systems.rs"]
mod systems;

use kernelwright::backend::Target;
use kernelwright_codegen::galerkin::map::{Fusion, Geometry, Home, Options, Target as MapTarget, Variant, map};
use kernelwright_codegen::galerkin::system::System;
use kernelwright_codegen::galerkin::text;
use kernelwright_codegen::kernel::{Element, Kernel};

use crate::build::source;
use crate::cases::Golden;
use crate::sources::Unit;

fn kernels(
    system: &System,
    target: Target,
    precision: Element,
    order: usize,
    change: impl Fn(&mut Variant),
) -> Vec<Kernel> {
    let to = if target == Target::Cuda { MapTarget::Cuda } else { MapTarget::Host };
    let mesh = meshes::box_mesh([3, 3, 3], 0.0, system.boundaries.len() as u32);
    let mut options = Options::new(to, precision, order, system);
    change(&mut options.variant);
    map(system, &mesh, &options).unwrap_or_else(|error| panic!("{error}")).kernels
}

fn end(target: Target) -> &'static str {
    if target == Target::Cuda { "cu" } else { "c" }
}

/// The text of all kernels.
fn golden(
    name: &str,
    system: &System,
    target: Target,
    (precision, order): (Element, usize),
    change: impl Fn(&mut Variant),
) -> Golden {
    let kernels = kernels(system, target, precision, order, change);
    let description = format!("{} of order {order}: {name}", system.name);
    Golden::text(format!("galerkin.{name}.{}", end(target)), description, source(&kernels, target))
}

/// All golden texts.
pub fn cases() -> Vec<Golden> {
    let (maxwell, acoustics, advection) = (systems::maxwell(1.0), systems::acoustics(), systems::advection());
    let (gpu, host) = (Target::Cuda, Target::Host);
    let single = (Element::F32, 2);
    let double = (Element::F64, 1);
    vec![
        Golden::text("galerkin.system".into(), "acoustics: the system as text".into(), text::print(&acoustics)),
        golden("one", &maxwell, gpu, single, |_| ()),
        golden("one", &maxwell, host, single, |_| ()),
        golden("two", &acoustics, gpu, double, |v| v.fusion = Fusion::Two),
        golden("two", &acoustics, host, double, |v| v.fusion = Fusion::Two),
        golden("three", &acoustics, gpu, double, |v| v.fusion = Fusion::Three),
        golden("three", &acoustics, host, double, |v| v.fusion = Fusion::Three),
        golden("shared_matrices", &advection, gpu, single, |v| (v.matrices, v.sequential) = (Home::Shared, 2)),
        golden("cached_fields", &advection, gpu, single, |v| v.fields = Home::Cache),
        golden("vertices", &advection, gpu, single, |v| v.geometry = Geometry::Vertices),
        golden("faces", &advection, gpu, single, |v| v.geometry = Geometry::Faces),
        golden("symmetric", &advection, gpu, single, |v| v.symmetric = true),
        golden("rows", &advection, gpu, single, |v| (v.rows, v.prefetch) = (2, true)),
    ]
}

/// All orders, for a GPU in both precisions and for the host, whose sources are long and differ in their types, in one by
/// turns: each order's kernels of Maxwell as one source. The first three orders count as usual.
pub fn units(target: Target) -> Vec<Unit> {
    let system = systems::maxwell(1.0);
    let mut units = Vec::new();
    for order in 1..=9 {
        for (turn, precision) in [Element::F32, Element::F64].into_iter().enumerate() {
            if target == Target::Host && (order + turn) % 2 != 0 {
                continue;
            }
            let kernels = kernels(&system, target, precision, order, |_| ());
            let name = format!("maxwell_{order} {precision:?}").to_lowercase();
            units.push(Unit { name, kernels, usual: order <= 3 });
        }
    }
    units
}
