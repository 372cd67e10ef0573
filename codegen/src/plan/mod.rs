//! Plan: schedules for a graph.
//!
//! A main loop that is a straight line is placed ([`search`]); a loop with branches or inner loops is divided in
//! program order. [`plan`] returns `statement` first, then everything on the front, each applied and verified.

pub mod analysis;
pub mod cost;
pub mod delay;
pub mod few;
pub mod model;
pub mod predict;
pub mod recover;
pub mod schedule;
pub mod search;

use std::fmt::Write as _;

use cost::{Cost, cost};
use model::Model;
use schedule::{Arithmetic, Order, Placement, Schedule};

use crate::apply::{Illegal, apply};
use crate::graph::{Graph, NodeId};
use crate::loops::Program;

/// Operations that take as long as one word from memory. A processor does more of them while it waits, but words alone
/// do not rank schedules: recomputing costs registers and second readings. With this weight the choice is the fastest
/// of the PCG schedules measured on two cores of a Zen 3 and on an H200, in f64 and f32.
pub const OPERATIONS_PER_WORD: f64 = 16.0;

/// What decides which schedules are found and legal, and what they cost, as source text: whoever keeps a schedule keeps
/// this with it.
pub const SOURCES: &[&str] = &[
    include_str!("analysis.rs"),
    include_str!("cost.rs"),
    include_str!("delay.rs"),
    include_str!("few.rs"),
    include_str!("mod.rs"),
    include_str!("model.rs"),
    include_str!("predict.rs"),
    include_str!("recover.rs"),
    include_str!("schedule.rs"),
    include_str!("search.rs"),
    include_str!("../graph.rs"),
    include_str!("../check/versions.rs"),
    include_str!("../loops_verify.rs"),
    include_str!("../apply/build.rs"),
    include_str!("../apply/debts.rs"),
    include_str!("../apply/frame.rs"),
    include_str!("../apply/homes.rs"),
    include_str!("../apply/join.rs"),
    include_str!("../apply/merge.rs"),
    include_str!("../apply/mod.rs"),
    include_str!("../apply/rounds.rs"),
    include_str!("../apply/sequence.rs"),
    include_str!("../apply/split.rs"),
];

/// A schedule carried out.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The schedule.
    pub schedule: Schedule,
    /// The program.
    pub program: Program,
    /// What a round costs.
    pub cost: Cost,
}

/// All schedules worth a measurement: `statement` first, then fewest words first. Never empty on success.
pub fn plan(graph: &Graph, limits: search::Limits) -> Result<Vec<Plan>, Illegal> {
    plan_within(graph, limits).map(|(plans, _)| plans)
}

/// The same, and whether the search came to its end: otherwise there may be better schedules than those.
pub fn plan_within(graph: &Graph, limits: search::Limits) -> Result<(Vec<Plan>, bool), Illegal> {
    let mut plans = vec![carry_out(graph, statement(graph))?];
    let mut complete = true;
    match Model::new(graph) {
        None => plans.push(carry_out(graph, in_order("fused", Order::Fused))?),
        Some(model) => {
            let mut names: Vec<String> = Vec::new();
            let searched = search::search(&model, limits);
            complete = searched.complete;
            for found in searched.front {
                let linear = !found.placement.linear.is_empty();
                let base = name_of(&found);
                let name = unused(&base, &names);
                names.push(name.clone());
                let arithmetic = if linear { Arithmetic::DifferentRecurrence } else { Arithmetic::Same };
                plans.extend(best_begin(graph, &model, placed(&name, found.placement, arithmetic)));
            }
            if plans.len() == 1 {
                plans.push(carry_out(graph, in_order("fused", Order::Fused))?);
            }
            if limits.alternatives {
                for solve in recover::candidates(graph) {
                    let found = recovered(graph, solve, limits, &plans, &mut names);
                    complete &= found.1;
                    plans.extend(found.0);
                }
            }
            let fewest = plans.iter().map(|plan| plan.cost.fences).fold(f64::INFINITY, f64::min);
            // A prediction takes sums and perhaps solves; for more words it is of no interest.
            let plain = plans.iter().filter(|plan| plan.schedule.main.as_ref().is_some_and(|main| main.delay == 1));
            let words = plain.map(|plan| plan.cost.words).fold(f64::INFINITY, f64::min);
            let limits = search::Limits { words, slack: 0.0, ..limits };
            if limits.alternatives {
                let advanced = recover::candidates(graph).into_iter();
                let advanced = advanced.filter_map(|solve| Some((Some(solve), recover::advance(graph, solve)?)));
                for (recovered, rewritten) in std::iter::once((None, graph.clone())).chain(advanced) {
                    for sum in predict::candidates(&rewritten) {
                        let found = predicted((graph, recovered), sum, limits, fewest, &mut names);
                        complete &= found.1;
                        plans.extend(found.0);
                    }
                }
            }
        }
    }
    plans[1..].sort_by(|a, b| a.cost.words.total_cmp(&b.cost.words));
    Ok((plans, complete))
}

/// Carries a placement out; its rounds begin where the fewest fences are left, since fences join within a round only.
fn best_begin(graph: &Graph, model: &Model<'_>, schedule: Schedule) -> Option<Plan> {
    let placement = schedule.main.clone()?;
    let begins = (1..placement.sweeps).filter_map(|later| search::begin_later(model, &placement, later).ok());
    let others: Vec<Schedule> = begins.map(|main| Schedule { main: Some(main), ..schedule.clone() }).collect();
    let plans = std::iter::once(schedule).chain(others).filter_map(|schedule| carry_out(graph, schedule).ok());
    // Of equals the first.
    plans.reduce(|best, plan| if plan.cost.fences < best.cost.fences { plan } else { best })
}

/// Schedules with a recovered right side that move fewer words, or compute less, than all of `plain` that update the solution
/// as often; and whether the search came to its end.
fn recovered(
    graph: &Graph,
    solve: NodeId,
    limits: search::Limits,
    plain: &[Plan],
    names: &mut Vec<String>,
) -> (Vec<Plan>, bool) {
    let Some(rewritten) = recover::recover(graph, solve) else { return (Vec::new(), true) };
    let Some(model) = Model::new(&rewritten) else { return (Vec::new(), true) };
    let searched = search::search(&model, limits);
    let often = |plan: &Plan| plan.schedule.main.as_ref().map(|main| (main.delay, main.apart));
    let mut plans: Vec<Plan> = Vec::new();
    for found in searched.front {
        let name = unused(&format!("{}_recovered", name_of(&found)), names);
        let schedule = placed(&name, found.placement, Arithmetic::DifferentRecurrence);
        let schedule = Schedule { recovered: Some(solve), ..schedule };
        let Some(plan) = best_begin(graph, &model, schedule) else { continue };
        let (often_so, cost) = (often(&plan), plan.cost);
        let alike = plain.iter().filter(|other| often(other) == often_so).map(|other| other.cost);
        let no_worse =
            |other: Cost| other.fences <= cost.fences && other.words <= cost.words && other.flops <= cost.flops;
        if !alike.into_iter().any(no_worse) {
            names.push(name);
            plans.push(plan);
        }
    }
    (plans, searched.complete)
}

/// Schedules with a predicted sum that pass fewer fences than any without; and whether the search came to its end.
fn predicted(
    (graph, recovered): (&Graph, Option<NodeId>),
    sum: NodeId,
    limits: search::Limits,
    fewest: f64,
    names: &mut Vec<String>,
) -> (Vec<Plan>, bool) {
    let asked = Schedule { recovered, predicted: Some(sum), ..in_order("asked", Order::Fused) };
    let Ok(rewritten) = asked.placed(graph) else { return (Vec::new(), true) };
    let Some(model) = Model::new(&rewritten) else { return (Vec::new(), true) };
    let searched = search::search(&model, limits);
    let mut plans: Vec<Plan> = Vec::new();
    let suffix = if recovered.is_some() { "recovered_predicted" } else { "predicted" };
    // A sweep that does all else has no registers left for what a solution waits for: it is updated every round, or apart.
    let light = |found: &search::Found| recovered.is_none() || found.placement.delay == 1 || found.placement.apart;
    for found in searched.front.into_iter().filter(light) {
        let name = unused(&format!("{}_{suffix}", name_of(&found)), names);
        let schedule = placed(&name, found.placement, Arithmetic::DifferentRecurrence);
        let schedule = Schedule { recovered, predicted: Some(sum), ..schedule };
        if let Some(plan) = best_begin(graph, &model, schedule).filter(|plan| plan.cost.fences < fewest) {
            names.push(name);
            plans.push(plan);
        }
    }
    (plans, searched.complete)
}

/// One sweep per statement: the schedule everything else is compared with.
pub fn statement(graph: &Graph) -> Schedule {
    // What cannot be placed so, such as a test that is known before the solution it sees, is written in program order.
    match Model::new(graph).and_then(|model| search::statement(&model).ok()) {
        None => in_order("statement", Order::Statement),
        Some(placement) => Schedule { order: Order::Statement, ..placed("statement", placement, Arithmetic::Same) },
    }
}

fn in_order(name: &str, order: Order) -> Schedule {
    Schedule { name: name.into(), order, main: None, recovered: None, predicted: None, arithmetic: Arithmetic::Same }
}

fn placed(name: &str, placement: Placement, arithmetic: Arithmetic) -> Schedule {
    let (name, main) = (name.into(), Some(placement));
    Schedule { name, order: Order::Fused, main, recovered: None, predicted: None, arithmetic }
}

/// Carries a schedule out: simulates its placement, writes the program, verifies it and counts what it costs.
///
/// # Errors
/// A schedule that is not one of this graph.
pub fn carry_out(graph: &Graph, schedule: Schedule) -> Result<Plan, Illegal> {
    if let Some(placement) = &schedule.main {
        let placed = schedule.placed(graph)?;
        crate::check::versions::simulate(&placed, placement).map_err(Illegal)?;
    }
    let program = apply(graph, &schedule)?;
    crate::loops_verify::verify(&program).map_err(|e| Illegal(e.to_string()))?;
    let delay = schedule.main.as_ref().map_or(1, |p| p.delay);
    let cost = cost(&program, delay);
    Ok(Plan { schedule, program, cost })
}

/// What tells a placement from others: sweeps, words to two decimals, what it does to the arithmetic.
fn name_of(found: &search::Found) -> String {
    let words = (found.analysis.words * 100.0).round() / 100.0;
    let mut name = format!("{}_sweeps_{words}_words", found.placement.sweeps).replace('.', "_");
    if !found.placement.linear.is_empty() {
        name += "_linear";
    }
    if found.placement.delay > 1 {
        let apart = if found.placement.apart { "_apart" } else { "" };
        let _ = write!(name, "_every_{}{apart}", found.placement.delay);
    }
    name
}

fn unused(base: &str, names: &[String]) -> String {
    let mut candidate = base.to_string();
    let mut n = 2;
    while names.contains(&candidate) {
        candidate = format!("{base}_{n}");
        n += 1;
    }
    candidate
}

#[cfg(test)]
pub(crate) mod cases;
#[cfg(test)]
mod tests;
