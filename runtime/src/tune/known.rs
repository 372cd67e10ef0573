//! What earlier tunes chose, and whether it holds now.

use kernelwright_codegen::module::Module;
use kernelwright_codegen::plan::Plan;
use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_syntax::program::{Problem, Program};
use serde::Serialize;

use super::key;
use super::record::{Kind, Record, Verdict};
use super::step::steps;
use super::store::Store;
use crate::backend::{Backend, BackendError, Target};
use crate::pipeline;

/// A choice of an earlier tune.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Known {
    /// The schedule.
    pub schedule: String,
    /// Parts of the variant, `block` or `update_u_r.block`, with their values.
    pub variant: Vec<(String, String)>,
    /// Threads, where they were chosen.
    pub threads: Option<usize>,
    /// Where it was found.
    pub from: String,
    /// Whether it was tuned for these sizes, not only for others of their class.
    pub exact: bool,
    /// Sizes it was tuned for.
    pub sizes: Vec<usize>,
    /// Seconds of an iteration then, and of the default.
    pub seconds: Option<f64>,
    /// The same of the default.
    pub default_seconds: Option<f64>,
    /// Hash of the code that was measured.
    #[serde(skip)]
    code: String,
}

/// Choices that are looked at, whether they hold, at most.
pub(super) const MOST: usize = 4;

/// What a look into the store gave.
#[derive(Default)]
pub struct Found {
    /// Choices, the best first: the first one that [holds](Known::holds) is meant.
    pub known: Vec<Known>,
    /// What the user should know.
    pub notices: Vec<String>,
}

/// The choices for a problem on a back end: those for these sizes, then those of their class; the last one first, since a
/// tune takes the choice before into its final.
pub fn find(mut store: Store, program: &Program, problem: &Problem, backend: &dyn Backend) -> Found {
    let Ok(family) = key::family(program, problem, backend) else { return Found::default() };
    let records = store.read(&family);
    let class = key::class_of(&problem.sizes);
    let exact = |record: &Record| record.about.sizes == problem.sizes;
    let place = store.directory().map(|place| place.display().to_string()).unwrap_or_default();
    let known = choices(&records, exact, |record| record.about.class == class);
    let known = known.into_iter().map(|record| Known {
        schedule: record.schedule.clone(),
        variant: record.variant.clone(),
        threads: record.threads,
        from: place.clone(),
        exact: exact(record),
        sizes: record.about.sizes.clone(),
        seconds: record.seconds,
        default_seconds: record.default_seconds,
        code: record.code.clone(),
    });
    Found { known: known.collect(), notices: store.take_notices() }
}

/// Choices among records: the last ones of those that are exact, then of those that are near.
pub(super) fn choices(
    records: &[Record],
    exact: impl Fn(&Record) -> bool,
    near: impl Fn(&Record) -> bool,
) -> Vec<&Record> {
    let mut found: Vec<&Record> = Vec::new();
    let passes: [&dyn Fn(&Record) -> bool; 2] = [&exact, &|record| !exact(record) && near(record)];
    for fits in passes {
        for record in records.iter().rev() {
            let what = |r: &Record| (r.schedule.clone(), r.variant.clone(), r.threads, r.code.clone());
            let chosen = record.kind == Kind::Choice && record.verdict == Verdict::Timed && fits(record);
            if found.len() < MOST && chosen && !found.iter().any(|other| what(other) == what(record)) {
                found.push(record);
            }
        }
    }
    found
}

impl Known {
    /// Checks the choice against what is compiled now: the plan it names can be verified, its variant can be mapped, and
    /// for the sizes it was tuned for the code is the code that was proven and timed.
    ///
    /// # Errors
    /// Why it does not hold.
    pub fn holds(&self, plan: &Plan, backend: &dyn Backend, problem: &Problem) -> Result<(), String> {
        if plan.schedule.arithmetic == Arithmetic::DifferentRecurrence && plan.program.residual.is_empty() {
            return Err(format!("{} has another recurrence, and no residual would be verified", self.schedule));
        }
        let module = module(plan, backend.target(), problem, &self.variant)?;
        if self.exact && code(plan, &module, backend.target()) != self.code {
            return Err("other code is generated now; tune again".to_string());
        }
        Ok(())
    }

    /// For people.
    pub fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(usize::to_string).collect();
        let gain = gain(self.seconds, self.default_seconds);
        let whole =
            if self.exact { String::new() } else { format!(" for {} (the same size class)", sizes.join(" x ")) };
        let variant: Vec<String> = self.variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let variant = if variant.is_empty() { "the default variant".to_string() } else { variant.join(" ") };
        format!("tuned{whole}: schedule {}, {variant} (from {}{gain})", self.schedule, self.from)
    }
}

/// What a choice gained when it was made, for people.
pub(super) fn gain(seconds: Option<f64>, default_seconds: Option<f64>) -> String {
    match (seconds, default_seconds) {
        (Some(now), Some(before)) if now > 0.0 => format!(", {:.2} times as fast as the default then", before / now),
        _ => String::new(),
    }
}

/// Has a back end use so many threads, of those there are.
pub(crate) fn set_threads(threads: Option<usize>, backend: &mut dyn Backend) -> Result<(), BackendError> {
    match (threads, backend.threads()) {
        (Some(threads), Some(most)) => backend.set_threads(threads.clamp(1, most.max(1))),
        _ => Ok(()),
    }
}

/// A plan under a variant.
///
/// # Errors
/// A variant that cannot be mapped.
pub(super) fn module(
    plan: &Plan,
    target: Target,
    problem: &Problem,
    variant: &[(String, String)],
) -> Result<Module, String> {
    let module = pipeline::module(&plan.program, target, problem.precision, problem.iterations, variant);
    module.map_err(|error| error.to_string())
}

/// Hash of the code of the main loop's sweeps. Fences are left out: they hold the iteration limit, which is nothing a
/// choice depends on.
pub(super) fn code(plan: &Plan, module: &Module, target: Target) -> String {
    let delay = plan.schedule.main.as_ref().map_or(1, |main| main.delay);
    let sweeps =
        steps(&plan.program, delay).into_iter().filter(|(step, _)| matches!(step, super::bench::Step::Sweep(_)));
    let kernels: Vec<_> = sweeps.flat_map(|(step, _)| step.kernels(module)).collect();
    key::code(target, &kernels)
}
