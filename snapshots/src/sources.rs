//! All sources that the real compilers must accept.

use std::collections::BTreeSet;

use kernelwright::backend::Target;
use kernelwright::pipeline::Planned;
use kernelwright_codegen::kernel::Kernel;
use kernelwright_syntax::program::Precision;

use crate::build::{default_variant, example, kernels, names, planned, source};
use crate::cases::Golden;

/// Kernels of an example in one precision, from all its schedules, as one source.
pub struct Unit {
    /// Example and precision.
    pub name: String,
    /// The kernels in it.
    pub kernels: Vec<Kernel>,
    /// Whether it runs when nobody asks for a schedule: the preferred one, the textbook's, element kernels, shapes.
    pub usual: bool,
}

impl Unit {
    /// A golden text that is a source for itself.
    pub fn of(golden: Golden) -> Option<Unit> {
        let Golden { name, kernels, .. } = golden;
        (!kernels.is_empty()).then_some(Unit { name, kernels, usual: true })
    }
}

/// Two units per example and precision: the kernels of the preferred schedule and the textbook's, and those of all other
/// schedules, which take the precisions by turns; code that occurs again only once.
pub fn units(target: Target) -> Vec<Unit> {
    let loaded = names().into_iter().map(|name| (example(&name), name));
    // Of systems alone: `galerkin` has their kernels.
    let examples = loaded.filter(|(loaded, _)| !loaded.program.problems.is_empty());
    let examples: Vec<(Planned, String)> = examples.map(|(loaded, name)| (planned(&loaded, &name), name)).collect();
    let mut units = Vec::new();
    let mut seen = BTreeSet::new();
    // What is usual comes first, so that it is there even if an unusual schedule has it too.
    for usual in [true, false] {
        for (planned, name) in &examples {
            for (turn, precision) in [Precision::F32, Precision::F64].into_iter().enumerate() {
                let mut chosen: Vec<Kernel> = Vec::new();
                let wanted = |number: &usize| match *number == 0 || *number == planned.chosen {
                    true => usual,
                    false => !usual && number % 2 == turn,
                };
                for plan in (0..planned.plans.len()).filter(wanted).map(|number| &planned.plans[number]) {
                    let all = kernels(&plan.program, target, precision, default_variant(&plan.program, target));
                    let unseen = all.into_iter().filter(|kernel| seen.insert(code(kernel, target)));
                    unseen.for_each(|kernel| add(&mut chosen, kernel));
                }
                if !chosen.is_empty() {
                    let name = format!("{name} {precision:?}{}", if usual { "" } else { " others" }).to_lowercase();
                    units.push(Unit { name, kernels: chosen, usual });
                }
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

/// What a compiler sees of a kernel: neither names nor comments. Schedules of one example, and examples of one loop,
/// share many kernels but for what their vectors and scalars are called.
fn code(kernel: &Kernel, target: Target) -> String {
    let mut kernel = Kernel { name: "kernel".into(), ..kernel.clone() };
    kernel.vars.iter_mut().enumerate().for_each(|(n, var)| var.name = format!("v{n}"));
    kernel.buffers.iter_mut().enumerate().for_each(|(n, buffer)| buffer.name = format!("b{n}"));
    let source = source(&[kernel], target);
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    let lines: Vec<&str> = source.lines().filter(|line| !is_comment(line)).collect();
    lines.join("\n")
}
