//! All sources that the real compilers must accept.

use std::collections::BTreeSet;

use kernelwright::backend::Target;
use kernelwright_codegen::kernel::Kernel;
use kernelwright_syntax::program::Precision;

use crate::build::{default_variant, example, kernels, names, planned, source};
use crate::cases::Golden;

/// Kernels of an example in one precision, from all its schedules, as one source.
pub struct Unit {
    /// Example and precision.
    pub name: String,
    /// The source.
    pub source: String,
    /// The kernels in it.
    pub kernels: Vec<Kernel>,
}

impl Unit {
    /// A golden text that is a source for itself.
    pub fn of(golden: Golden) -> Option<Unit> {
        let Golden { name, text, kernels, .. } = golden;
        (!kernels.is_empty()).then_some(Unit { name, source: text, kernels })
    }
}

/// One unit per example and precision: every kernel of every schedule, but code that occurs again only once.
pub fn units(target: Target) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut seen = BTreeSet::new();
    for name in names() {
        let loaded = example(&name);
        if loaded.program.problems.is_empty() {
            // Of systems alone: `galerkin` has their kernels.
            continue;
        }
        let planned = planned(&loaded, &name);
        for precision in [Precision::F32, Precision::F64] {
            let mut chosen: Vec<Kernel> = Vec::new();
            for plan in &planned.plans {
                let all = kernels(&plan.program, target, precision, default_variant(&plan.program, target));
                let unseen = all.into_iter().filter(|kernel| seen.insert(code(kernel, target)));
                unseen.for_each(|kernel| add(&mut chosen, kernel));
            }
            if !chosen.is_empty() {
                let name = format!("{name} {precision:?}").to_lowercase();
                units.push(Unit { name, source: source(&chosen, target), kernels: chosen });
            }
        }
    }
    units
}

/// Adds a kernel under a name that no other has.
fn add(chosen: &mut Vec<Kernel>, mut kernel: Kernel) {
    let wanted = kernel.name.clone();
    let mut number = 2;
    while chosen.iter().any(|known| known.name == kernel.name) {
        kernel.name = format!("{wanted}_v{number}");
        number += 1;
    }
    chosen.push(kernel);
}

/// What a compiler sees of a kernel: neither its name nor comments.
fn code(kernel: &Kernel, target: Target) -> String {
    let kernel = Kernel { name: "kernel".into(), ..kernel.clone() };
    let source = source(&[kernel], target);
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let lines: Vec<&str> = source.lines().filter(|line| !is_comment(line)).collect();
    lines.join("\n")
}
