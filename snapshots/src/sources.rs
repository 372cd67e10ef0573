//! All sources that the real compilers must accept.

use kernelwright::backend::Target;
use kernelwright_codegen::kernel::Kernel;
use kernelwright_syntax::program::Precision;

use crate::build::{default_variant, example, kernels, names, planned, source};

/// Different kernels of an example in one precision, from all its schedules, as one source.
pub struct Unit {
    /// Example and precision.
    pub name: String,
    /// The source.
    pub source: String,
    /// Number of kernels in it.
    pub count: usize,
}

/// One unit per example and precision: every kernel of every schedule, equal ones once.
pub fn units(target: Target) -> Vec<Unit> {
    let mut units = Vec::new();
    for name in names() {
        let loaded = example(&name);
        let planned = planned(&loaded, &name, target);
        for precision in [Precision::F32, Precision::F64] {
            let mut unique = Unique::default();
            for plan in &planned.plans {
                let variant = default_variant(&plan.program, target);
                unique.add(kernels(&plan.program, target, precision, variant));
            }
            let name = format!("{name} {precision:?}").to_lowercase();
            units.push(Unit { name, source: source(&unique.kernels, target), count: unique.kernels.len() });
        }
    }
    units
}

/// Kernels that differ, under names that differ.
#[derive(Default)]
struct Unique {
    seen: Vec<Kernel>,
    kernels: Vec<Kernel>,
}

impl Unique {
    fn add(&mut self, kernels: Vec<Kernel>) {
        for kernel in kernels {
            if self.seen.contains(&kernel) {
                continue;
            }
            self.seen.push(kernel.clone());
            let mut named = kernel.clone();
            let mut number = 2;
            while self.kernels.iter().any(|known| known.name == named.name) {
                named.name = format!("{}_v{number}", kernel.name);
                number += 1;
            }
            self.kernels.push(named);
        }
    }
}
