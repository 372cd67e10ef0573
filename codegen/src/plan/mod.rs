//! Plan: schedules for a graph.
//!
//! A main loop that is a straight line is placed ([`search`]); a loop with branches or inner loops is divided in
//! program order. [`plan`] returns `statement` first, then everything on the front, each applied and verified.

pub mod analysis;
pub mod cost;
pub mod delay;
pub mod few;
pub mod model;
pub mod schedule;
pub mod search;

use std::fmt::Write as _;

use cost::{Cost, cost};
use model::Model;
use schedule::{Arithmetic, Order, Placement, Schedule};

use crate::apply::{Illegal, apply};
use crate::graph::Graph;
use crate::loops::Program;

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
    let mut plans = vec![carry_out(graph, statement(graph)?)?];
    let mut complete = true;
    match Model::new(graph) {
        None => plans.push(carry_out(graph, in_order("fused", Order::Fused))?),
        Some(model) => {
            let mut names: Vec<String> = Vec::new();
            let searched = search::search(&model, limits);
            complete = searched.complete;
            if searched.front.is_empty() {
                plans.push(carry_out(graph, in_order("fused", Order::Fused))?);
            }
            for found in searched.front {
                let linear = !found.placement.linear.is_empty();
                let base = name_of(&found);
                let name = unused(&base, &names);
                names.push(name.clone());
                let arithmetic = if linear { Arithmetic::DifferentRecurrence } else { Arithmetic::Same };
                plans.extend(carry_out(graph, placed(&name, found.placement, arithmetic)).ok());
            }
        }
    }
    Ok((plans, complete))
}

/// One sweep per statement: the schedule everything else is compared with.
pub fn statement(graph: &Graph) -> Result<Schedule, Illegal> {
    Ok(match Model::new(graph) {
        None => in_order("statement", Order::Statement),
        Some(model) => {
            let placement = search::statement(&model).map_err(Illegal)?;
            Schedule { order: Order::Statement, ..placed("statement", placement, Arithmetic::Same) }
        }
    })
}

fn in_order(name: &str, order: Order) -> Schedule {
    Schedule { name: name.into(), order, main: None, arithmetic: Arithmetic::Same }
}

fn placed(name: &str, placement: Placement, arithmetic: Arithmetic) -> Schedule {
    Schedule { name: name.into(), order: Order::Fused, main: Some(placement), arithmetic }
}

fn carry_out(graph: &Graph, schedule: Schedule) -> Result<Plan, Illegal> {
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
        let _ = write!(name, "_every_{}", found.placement.delay);
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
