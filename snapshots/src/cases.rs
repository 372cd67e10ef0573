//! The golden texts.

use std::fmt::Write;

use kernelwright::backend::Target;
use kernelwright::pipeline::Planned;
use kernelwright_codegen::kernel::Kernel;
use kernelwright_codegen::loops::ValueKind;
use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_codegen::{loops_text, math_text};
use kernelwright_syntax::program::Precision;

use crate::build::{default_variant, example, kernels, planned, source};
use crate::matrices;

/// A text and what it shows.
pub struct Golden {
    /// Name of its file, without the ending.
    pub name: String,
    /// What it shows, for the head of the file.
    pub description: String,
    /// The text.
    pub text: String,
    /// The kernels whose source it is, if they are to be compiled for themselves.
    pub kernels: Vec<Kernel>,
}

impl Golden {
    /// A text that nobody compiles, or that is compiled elsewhere.
    pub fn text(name: String, description: String, text: String) -> Golden {
        Golden { name, description, text, kernels: Vec::new() }
    }
}

/// All golden texts, in a fixed order.
pub fn cases() -> Vec<Golden> {
    let mut all = Vec::new();
    for program in ["poisson_2d", "pressure_correction", "neumann", "heat_step", "variable_coefficients"] {
        all.extend(preferred(program));
    }
    all.extend(statement("pressure_correction"));
    all.push(single("poisson_2d"));
    all.push(recovered("2_sweeps_9_words_recovered", Target::Cuda, Precision::F32));
    all.push(recovered("2_sweeps_9_words_recovered", Target::Host, Precision::F64));
    all.push(recovered("1_sweeps_8_words_recovered_predicted", Target::Cuda, Precision::F64));
    all.extend(AXES.iter().map(of_axis));
    all.extend(stages("poisson_2d"));
    all.push(front("pressure_correction"));
    all.extend(crate::galerkin::cases());
    all.extend(matrices::cases());
    all
}

/// Kernels as they are by default.
fn preferred(program: &str) -> Vec<Golden> {
    let one = |target| {
        let loaded = example(program);
        let planned = planned(&loaded, program);
        let text = whole(&planned.plan().program, target, Precision::F64);
        let description = format!("{program}: all kernels of schedule {}", planned.plan().schedule.name);
        Golden::text(format!("{program}.{}", end(target)), description, text)
    };
    [Target::Cuda, Target::Host].map(one).into()
}

/// Kernels of the schedule with a sweep per statement.
fn statement(program: &str) -> Vec<Golden> {
    let one = |target| {
        let loaded = example(program);
        let planned = planned(&loaded, program);
        let text = whole(&planned.plans[0].program, target, Precision::F64);
        let description = format!("{program}: all kernels, a sweep per statement");
        Golden::text(format!("{program}.statement.{}", end(target)), description, text)
    };
    [Target::Cuda, Target::Host].map(one).into()
}

fn single(program: &str) -> Golden {
    let loaded = example(program);
    let planned = planned(&loaded, program);
    let text = whole(&planned.plan().program, Target::Cuda, Precision::F32);
    Golden::text(format!("{program}.f32.cu"), format!("{program}: all kernels in f32"), text)
}

/// The kernels of a schedule of the model problem that recover a right side from its solution.
fn recovered(schedule: &str, target: Target, precision: Precision) -> Golden {
    let loaded = example("pressure_correction");
    let planned = planned(&loaded, "pressure_correction");
    let plan = planned.plans.iter().find(|plan| plan.schedule.name == schedule);
    let program = &plan.unwrap_or_else(|| panic!("no schedule is called {schedule}")).program;
    let along = |name: &str| {
        let sweep = program.sweeps.iter().find(|sweep| sweep.name == name);
        sweep.is_some_and(|sweep| sweep.values.iter().any(|value| matches!(value.kind, ValueKind::Along(..))))
    };
    let mut kernels = kernels(program, target, precision, default_variant(program, target));
    kernels.retain(|kernel| along(&kernel.name));
    let name = format!("pressure_correction.{schedule}.{}", end(target));
    Golden::text(
        name,
        format!("pressure_correction: what {schedule} recovers, {precision:?}"),
        source(&kernels, target),
    )
}

fn whole(program: &kernelwright_codegen::loops::Program, target: Target, precision: Precision) -> String {
    source(&kernels(program, target, precision, default_variant(program, target)), target)
}

/// A choice that a variant makes, away from its default, on the first kernel of a program that it changes.
pub struct Axis {
    target: Target,
    precision: Precision,
    program: &'static str,
    /// Keys and values of the variant; the first key names the case.
    set: &'static [(&'static str, &'static str)],
}

const fn axis(target: Target, program: &'static str, set: &'static [(&'static str, &'static str)]) -> Axis {
    Axis { target, precision: Precision::F64, program, set }
}

/// Every axis of a [variant](kernelwright_codegen::map::Variant) once.
pub const AXES: [Axis; 23] = [
    axis(Target::Cuda, "poisson_3d", &[("block", "32x4")]),
    axis(Target::Cuda, "poisson_2d", &[("chunk", "4")]),
    axis(Target::Cuda, "poisson_2d", &[("resident", "4")]),
    axis(Target::Cuda, "pressure_correction", &[("carry", "false")]),
    axis(Target::Cuda, "pressure_correction", &[("unroll", "4")]),
    axis(Target::Cuda, "pressure_correction", &[("staged", "false")]),
    axis(Target::Cuda, "pressure_correction", &[("rows", "1")]),
    axis(Target::Cuda, "pressure_correction", &[("early", "false")]),
    axis(Target::Cuda, "pressure_correction", &[("shared", "2")]),
    axis(Target::Cuda, "poisson_2d", &[("fence", "own")]),
    axis(Target::Cuda, "pressure_correction", &[("line_block", "32x4"), ("segments", "1")]),
    axis(Target::Cuda, "pressure_correction", &[("segments", "4")]),
    axis(Target::Cuda, "pressure_correction", &[("columns", "8")]),
    axis(Target::Cuda, "pressure_correction", &[("line_resident", "3")]),
    Axis {
        precision: Precision::F32,
        ..axis(Target::Cuda, "pressure_correction", &[("reciprocal", "false"), ("segments", "4")])
    },
    axis(Target::Cuda, "poisson_2d", &[("fence_lanes", "64"), ("fence", "own")]),
    axis(Target::Cuda, "pressure_correction", &[("vector", "2")]),
    axis(Target::Host, "poisson_3d", &[("tile", "5x3")]),
    axis(Target::Host, "poisson_2d", &[("unroll", "2"), ("tile", "5x1")]),
    axis(Target::Host, "poisson_2d", &[("width", "8")]),
    axis(Target::Host, "pressure_correction", &[("staged", "false")]),
    axis(Target::Host, "pressure_correction", &[("simd", "16")]),
    axis(Target::Host, "pressure_correction", &[("ahead", "3")]),
];

/// The first kernel that differs from what the default gives; one that differs nowhere is no axis of this program.
fn of_axis(axis: &Axis) -> Golden {
    let loaded = example(axis.program);
    let planned = planned(&loaded, axis.program);
    let program = &planned.plan().program;
    let usual = default_variant(program, axis.target);
    let mut variant = usual.clone();
    for (key, value) in axis.set {
        variant.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    let name = axis.set[0].0;
    let one = |variant| kernels(program, axis.target, axis.precision, variant);
    let pairs = one(usual).into_iter().zip(one(variant));
    let mut changed = pairs.filter(|(before, after)| before != after);
    let (_, kernel) = changed.next().unwrap_or_else(|| panic!("{name} changes no kernel of {}", axis.program));
    Golden {
        name: format!("variant.{name}.{}", end(axis.target)),
        description: format!("{}: kernel {} with another {name}", axis.program, kernel.name),
        text: source(std::slice::from_ref(&kernel), axis.target),
        kernels: vec![kernel],
    }
}

/// What stands between two stages.
fn stages(program: &str) -> Vec<Golden> {
    let loaded = example(program);
    let planned = planned(&loaded, program);
    let plan = planned.plan();
    let kernels = kernels(&plan.program, Target::Cuda, Precision::F64, default_variant(&plan.program, Target::Cuda));
    let kernels: Vec<String> = kernels.iter().map(|kernel| kernel.to_string()).collect();
    let texts = [
        ("math", math_text::dump(&planned.operator)),
        ("graph", planned.graph.text()),
        ("schedule", plan.schedule.text(&planned.graph)),
        ("loops", loops_text::text(&plan.program)),
        ("kernel", kernels.join("\n")),
    ];
    let golden =
        |(stage, text): (&str, String)| Golden::text(format!("{program}.{stage}"), format!("{program}: {stage}"), text);
    texts.into_iter().map(golden).collect()
}

/// All schedules with what they cost, and how the best one goes.
fn front(program: &str) -> Golden {
    let loaded = example(program);
    let planned = planned(&loaded, program);
    let description = format!("{program}: the schedules and their costs per point and iteration");
    Golden::text(format!("{program}.front"), description, front_text(&planned))
}

fn front_text(planned: &Planned) -> String {
    let mut text = String::new();
    for plan in &planned.plans {
        let (cost, name) = (&plan.cost, &plan.schedule.name);
        let other = if plan.schedule.arithmetic == Arithmetic::Same { "" } else { ", different recurrence" };
        writeln!(
            text,
            "{name}: {} words (coefficients {}), {} operations, {} divisions, {} sweeps, {} fences, {} vectors{other}",
            cost.words, cost.coefficient_words, cost.flops, cost.divisions, cost.sweeps, cost.fences, cost.buffers
        )
        .expect("a string grows");
    }
    writeln!(text, "\nused: {}", planned.plan().schedule.text(&planned.graph)).expect("a string grows");
    text
}

fn end(target: Target) -> &'static str {
    match target {
        Target::Cuda => "cu",
        Target::Host => "c",
    }
}
