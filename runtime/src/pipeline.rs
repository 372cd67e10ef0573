//! The way from a checked problem to mapped kernels, stage by stage.
//!
//! Every stage of the compiler is one call here; the command shows what stands between two of them.

pub mod diagnose;
mod remembered;

use kernelwright_codegen::correct;
use kernelwright_codegen::facts;
use kernelwright_codegen::graph::Graph;
use kernelwright_codegen::graph_verify;
use kernelwright_codegen::kernel::Element;
use kernelwright_codegen::loops::VectorId;
use kernelwright_codegen::lower;
use kernelwright_codegen::map::{self, MapError, Options, Own, Variant};
use kernelwright_codegen::math::{self, KnownFact, Standing};
use kernelwright_codegen::module::Module;
use kernelwright_codegen::plan::schedule::Arithmetic;
use kernelwright_codegen::plan::search::Limits;
use kernelwright_codegen::plan::{self, Plan};
use kernelwright_codegen::trace;
use kernelwright_codegen::{loops, math_verify};
use kernelwright_syntax::program::{Fact, Precision, Problem, Program};

use crate::backend::Target;
use crate::cache::Cache;
use crate::inputs::sources::Context;
use crate::load::Loaded;
use crate::solve::Error;

/// A problem scheduled: what all targets share.
pub struct Planned {
    /// The lowered operator.
    pub operator: math::Operator,
    /// The loop as vector values.
    pub graph: Graph,
    /// Schedules to choose from, carried out: the textbook's first, then fewest words first.
    pub plans: Vec<Plan>,
    /// Which one is used.
    pub chosen: usize,
}

impl Planned {
    /// The schedule that is used.
    pub fn plan(&self) -> &Plan {
        &self.plans[self.chosen]
    }
}

/// Lowers the operator of a problem for its sizes.
///
/// # Errors
/// An operator the compiler cannot handle.
pub fn operator(program: &Program, problem: &Problem) -> Result<math::Operator, Error> {
    let sizes: Vec<u64> = problem.sizes.iter().map(|size| *size as u64).collect();
    let source = &program.operators[problem.operator];
    let operator = lower::lower(source, &sizes)
        .map_err(|error| diagnose::refused(program, diagnose::of_lowering(&error, source, problem)))?;
    math_verify::verify(&operator).map_err(|faults| Error::Internal(faults.join("; ")))?;
    Ok(operator)
}

/// What is known of a problem's operator: what the author claims and what the solver requires, proved from the
/// coefficients or tested with the problem's parameters and arrays.
///
/// # Errors
/// An array of the problem that cannot be read.
pub fn facts(loaded: &Loaded, problem: &Problem, operator: &math::Operator) -> Result<Vec<KnownFact>, Error> {
    if operator.space.rows().is_some() {
        // A matrix brings its facts along.
        return Ok(operator.facts.clone());
    }
    let source = &loaded.program.operators[problem.operator];
    let required = loaded.program.solvers[problem.solver].operators.first().map(|argument| &argument.requires);
    let mut wanted: Vec<Fact> = source.claims.iter().map(|claim| claim.fact).collect();
    wanted.extend(required.into_iter().flatten());
    wanted.sort_unstable();
    wanted.dedup();
    let settled = facts::establish(operator, &wanted);
    if settled.iter().all(|fact| fact.standing != Standing::ToTest) {
        return Ok(settled);
    }
    let params = problem.parameters();
    let context = Context { operator: source, problem, params: &params, folder: &loaded.folder };
    let data: Result<Vec<Vec<f64>>, String> = (0..source.data.len()).map(|number| context.data(number)).collect();
    let data = data.map_err(Error::Input)?;
    facts::test(source, operator, &wanted, &params, &data).map_err(|error| Error::Internal(error.to_string()))
}

/// Traces the solver of a problem on its operator; in mixed precision the loop is one of f32.
///
/// # Errors
/// A loop the compiler cannot handle.
pub fn graph(program: &Program, problem: &Problem, operator: &math::Operator) -> Result<Graph, Error> {
    let precision = match problem.precision {
        Precision::Mixed => Precision::F32,
        precision => precision,
    };
    trace_in(program, problem, operator, precision)
}

/// In mixed precision: the program that computes the residual in f64, and the vector that holds it.
///
/// # Errors
/// A loop the compiler cannot handle.
pub fn residual(
    program: &Program,
    problem: &Problem,
    operator: &math::Operator,
) -> Result<(loops::Program, VectorId), Error> {
    let graph = trace_in(program, problem, operator, Precision::F64)?;
    correct::residual(&graph).map_err(|error| Error::Internal(error.to_string()))
}

fn trace_in(
    program: &Program,
    problem: &Problem,
    operator: &math::Operator,
    precision: Precision,
) -> Result<Graph, Error> {
    let input = trace::Input {
        operator,
        solvers: &program.solvers,
        solver: problem.solver,
        preconditioner: &problem.preconditioner,
        precision,
    };
    let graph = trace::trace(input).map_err(|error| diagnose::refused(program, diagnose::of_trace(&error, problem)))?;
    graph_verify::verify(&graph).map_err(|faults| Error::Internal(faults.join("; ")))?;
    Ok(graph)
}

/// The operator that the loop solves with: in mixed precision without boundary values.
///
/// # Errors
/// An operator the compiler cannot handle.
pub fn operator_of_loop(program: &Program, problem: &Problem) -> Result<math::Operator, Error> {
    let operator = operator(program, problem)?;
    Ok(if problem.precision == Precision::Mixed { correct::homogeneous(&operator) } else { operator })
}

/// All stages from an operator up to the loop as sweeps and fences; `schedule` is a name, or none for the one that is
/// preferred on the target.
///
/// # Errors
/// A program the compiler cannot handle, or a schedule that does not exist.
pub fn plan(
    program: &Program,
    problem: &Problem,
    operator: math::Operator,
    schedule: Option<&str>,
) -> Result<Planned, Error> {
    let (operator, graph) = graph_of(program, problem, operator)?;
    let (plans, chosen) = search(&graph, schedule, Limits::default())?;
    Ok(Planned { operator, graph, plans, chosen })
}

/// As [`plan`], for whoever runs what is used and looks at nothing else: that plan alone, which is the same. It is
/// searched for once and then remembered by the cache.
///
/// # Errors
/// As [`plan`].
pub fn plan_to_run(
    program: &Program,
    problem: &Problem,
    operator: math::Operator,
    schedule: Option<&str>,
    cache: &Cache,
) -> Result<Planned, Error> {
    let (operator, graph) = graph_of(program, problem, operator)?;
    // What is never preferred is not searched for.
    let limits = Limits { alternatives: schedule.is_some(), ..Limits::default() };
    let plan = remembered::recall(cache, &graph, limits, schedule, || {
        search(&graph, schedule, limits).map(|(mut plans, chosen)| plans.swap_remove(chosen))
    })?;
    Ok(Planned { operator, graph, plans: vec![plan], chosen: 0 })
}

/// The operator that the loop solves with, and the loop as vector values.
fn graph_of(
    program: &Program,
    problem: &Problem,
    mut operator: math::Operator,
) -> Result<(math::Operator, Graph), Error> {
    if problem.precision == Precision::Mixed {
        operator = correct::homogeneous(&operator);
    }
    let graph = graph(program, problem, &operator)?;
    Ok((operator, graph))
}

/// All schedules, and the number of the one to use.
fn search(graph: &Graph, schedule: Option<&str>, limits: Limits) -> Result<(Vec<Plan>, usize), Error> {
    let plans = plan::plan(graph, limits).map_err(|error| Error::Internal(error.to_string()))?;
    let chosen = match schedule {
        None => preferred(&plans),
        Some(name) => plans.iter().position(|plan| plan.schedule.name == name).ok_or_else(|| {
            let names: Vec<&str> = plans.iter().map(|plan| plan.schedule.name.as_str()).collect();
            Error::Usage(format!("no schedule is called `{name}`; there are {}", names.join(", ")))
        })?,
    };
    Ok((plans, chosen))
}

/// Memory traffic and operations of a schedule, as words a point and iteration.
pub fn weight(plan: &Plan) -> f64 {
    plan.cost.words + plan.cost.flops / plan::OPERATIONS_PER_WORD
}

/// The schedule that should be fastest where nothing was measured: of those with the program's own arithmetic, the
/// one with least memory traffic and operations. Its solution is updated in some rounds only where that takes no vectors
/// more: on an H200 pcg with lines gains 9 % from every second round, and less from every fourth, which keeps two
/// vectors more and reads them all in one sweep.
fn preferred(plans: &[Plan]) -> usize {
    let least = |of: &dyn Fn(&Plan) -> bool| {
        let fitting = (0..plans.len()).filter(|number| of(&plans[*number]));
        fitting.min_by(|a, b| weight(&plans[*a]).total_cmp(&weight(&plans[*b])))
    };
    let own = |plan: &Plan| plan.schedule.arithmetic == Arithmetic::Same;
    let delay = |plan: &Plan| plan.schedule.main.as_ref().map_or(1, |main| main.delay);
    let Some(whole) = least(&|plan| own(plan) && delay(plan) == 1) else { return 0 };
    let cost = &plans[whole].cost;
    let no_more = |plan: &Plan| plan.cost.sweeps <= cost.sweeps && plan.cost.fences <= cost.fences;
    least(&|plan| own(plan) && delay(plan) > 1 && no_more(plan) && plan.cost.buffers <= cost.buffers)
        .filter(|delayed| weight(&plans[*delayed]) < weight(&plans[whole]))
        .unwrap_or(whole)
}

/// Maps a scheduled loop to kernels of a target; `set` changes parts of the default variant, for all kernels (`block`)
/// or for one, which then counts (`update_u_r.block`).
///
/// # Errors
/// A loop the mapping cannot handle; a part or a kernel that does not exist.
pub fn module(
    loops: &loops::Program,
    target: Target,
    precision: Precision,
    limit: u32,
    set: &[(String, String)],
) -> Result<Module, Error> {
    let (target, precision) = (map::Target::from(target), element_of(precision));
    let mut variant = Variant::for_space(target, &loops.operator.space);
    for (key, value) in set.iter().filter(|(key, _)| !key.contains('.')) {
        variant.set(key, value).map_err(Error::Usage)?;
    }
    let own = own_variants(loops, &variant, set)?;
    let options = Options { target, precision, history_len: history_len(limit), variant };
    map::map_each(loops, &options, &own).map_err(|error| match error {
        MapError::Unsupported(_) | MapError::Precision(_) | MapError::Variant(_) => Error::Input(error.to_string()),
        MapError::Internal(what) => Error::Internal(what),
    })
}

/// The element type of a loop's vectors; in mixed precision the loop is in f32.
pub fn element_of(precision: Precision) -> Element {
    match precision {
        Precision::F32 | Precision::Mixed => Element::F32,
        Precision::F64 => Element::F64,
    }
}

/// Variants of single kernels: parts whose keys begin with the name of a sweep or fence.
fn own_variants(loops: &loops::Program, base: &Variant, set: &[(String, String)]) -> Result<Own, Error> {
    let mut own = Own::new();
    for (key, value) in set {
        let Some((kernel, part)) = key.split_once('.') else { continue };
        let mut names = loops.sweeps.iter().map(|s| &s.name).chain(loops.fences.iter().map(|f| &f.name));
        if !names.any(|name| name == kernel) {
            return Err(Error::Usage(format!("no kernel of schedule {} is called `{kernel}`", loops.name)));
        }
        let variant = own.entry(kernel.to_string()).or_insert_with(|| base.clone());
        variant.set(part, value).map_err(Error::Usage)?;
    }
    Ok(own)
}

/// Most measures that a history holds: a limit that stands for "none" should not cost gigabytes.
const LONGEST_HISTORY: u64 = 1 << 20;

/// Measures that the history holds for an iteration limit; those of later iterations are not kept. It is part of the
/// kernels, so that a limit a little higher or lower should not compile them again.
pub fn history_len(limit: u32) -> u64 {
    (u64::from(limit) + 1).next_power_of_two().clamp(1024, LONGEST_HISTORY)
}
