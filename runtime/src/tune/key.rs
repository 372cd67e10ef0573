//! Keys of measurements, and small instances of a problem.
//!
//! A measurement holds for one program on one device with one compiler. What a program is, apart from its sizes, shows
//! in its intermediate representations at fixed small sizes: comments, names of files and the order of declarations do
//! not count.

use kernelwright_codegen::graph::Graph;
use kernelwright_codegen::kernel::Kernel;
use kernelwright_codegen::map::{self, Variant, Work};
use kernelwright_codegen::math;
use kernelwright_codegen::{math_text, print};
use kernelwright_syntax::program::{Precision, Problem, Program};

use super::record::FORMAT;
use super::space;
use crate::backend::build::Identity;
use crate::backend::{Arithmetic, Backend, Target};
use crate::pipeline;
use crate::solve::Error;

/// What a candidate must have passed, part of every key: exact equality with the default in the integers modulo a
/// prime at small sizes, and agreement within what rounding explains at the sizes asked for.
pub(super) const VERIFICATION: &str = "modular at small sizes, rounding at the exact ones";

/// Points along the axes of small instances, by number of axes: prime and not, shorter and longer than a block.
const SMALL: [&[&[usize]]; 3] = [&[&[709], &[320]], &[&[67, 13], &[32, 20]], &[&[35, 5, 11], &[16, 6, 16]]];

/// The problem at small sizes that make blocks, tiles and segments end in odd places.
pub fn small(problem: &Problem) -> Vec<Problem> {
    let sizes = SMALL[problem.sizes.len().clamp(1, 3) - 1];
    sizes.iter().map(|sizes| Problem { sizes: sizes.to_vec(), ..problem.clone() }).collect()
}

/// The size class of sizes: each axis rounded to a power of two.
pub fn class_of(sizes: &[usize]) -> String {
    let rounded = sizes.iter().map(|size| (*size as f64).log2().round().exp2().to_string());
    rounded.collect::<Vec<_>>().join("x")
}

/// Hash of all that measurements of a program depend on, but for its sizes and the space of candidates.
///
/// # Errors
/// A program that cannot be lowered at small sizes.
pub fn family(program: &Program, problem: &Problem, backend: &dyn Backend) -> Result<String, Error> {
    let small = small(problem).swap_remove(0);
    let operator = pipeline::operator_of_loop(program, &small)?;
    let graph = pipeline::graph(program, &small, &operator)?;
    Ok(family_of(&operator, &graph, problem.precision, backend.target(), &backend.identity()))
}

fn family_of(
    operator: &math::Operator,
    graph: &Graph,
    precision: Precision,
    target: Target,
    identity: &Identity,
) -> String {
    let program = [math_text::dump(operator), graph.text()];
    family_with(&program.each_ref().map(String::as_str), VERIFICATION, precision, target, identity)
}

/// Hash of what something is, how it is proven, and all that its measurements depend on beside sizes and candidates.
pub(super) fn family_with(
    what: &[&str],
    verification: &str,
    precision: Precision,
    target: Target,
    identity: &Identity,
) -> String {
    let options = identity.options.join("\n");
    let (format, mode) = (FORMAT.to_string(), format!("{precision:?} {target:?} {:?}", Arithmetic::default()));
    let from = [&mode, &identity.device, &identity.driver, &identity.compiler, &options].map(String::as_str);
    hash(&[&["kernelwright tuned", &format, verification], what, &from].concat())
}

/// Hash of a family with sizes and the candidates there are for them.
pub fn exact(family: &str, sizes: &[usize], space: &str) -> String {
    hash(&[family, &format!("{sizes:?}"), &class_of(sizes), space])
}

/// The candidates for some sizes, as text.
pub fn space(target: Target, operator: &math::Operator, precision: Precision) -> String {
    let axes = (0..operator.space.grid().axes.len()).map(Work::Line);
    let rows = operator.space.rows().map(|_| Work::Rows);
    let works = axes.chain([Work::Point, Work::Plain, Work::Fence]).chain(rows);
    let parts = |work| Variant::parts(target.into(), &operator.space, pipeline::element_of(precision), work);
    space::text(works.flat_map(parts))
}

/// Hash of the generated code of some kernels.
pub fn code(target: impl Into<map::Target>, kernels: &[Kernel]) -> String {
    // What a header tells people does not count.
    let kernels: Vec<Kernel> = kernels.iter().map(|kernel| Kernel { doc: Vec::new(), ..kernel.clone() }).collect();
    let text = match target.into() {
        map::Target::Cuda => print::cuda(&kernels),
        map::Target::Host => print::c(&kernels),
    };
    hash(&[&text])
}

/// A hash of texts; lengths count, so that they do not run into each other.
pub(super) fn hash(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_holds_sizes_of_one_magnitude() {
        assert_eq!(class_of(&[256, 250, 100]), "256x256x128");
        assert_eq!(class_of(&[256, 256, 128]), class_of(&[300, 200, 140]));
        assert_ne!(class_of(&[256]), class_of(&[512]));
    }

    #[test]
    fn parts_of_a_key_do_not_run_into_each_other() {
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }
}
