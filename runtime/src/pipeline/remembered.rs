//! Schedules that were chosen before, kept in the kernel cache: the search takes most of the time from a program to
//! kernels that are there already.
//!
//! An entry is a schedule as JSON, keyed by the graph, its operator, the limits of the search and the planner itself
//! (the text of its modules, so that no version of it is handed what another one chose). A schedule that is read is
//! carried out like one that was found: the placement is simulated and the program verified. One that does not pass
//! is searched for again.

use kernelwright_codegen::graph::{Graph, NodeId};
use kernelwright_codegen::math_text;
use kernelwright_codegen::plan::schedule::{Arithmetic, Order, Placement, Schedule};
use kernelwright_codegen::plan::search::Limits;
use kernelwright_codegen::plan::{self, Plan};
use serde::{Deserialize, Serialize};

use crate::cache::{Cache, Description, Key, KeyBuilder};

/// The plan of a graph that `search` would choose: as it was chosen before, or searched for now and kept.
pub(super) fn recall<E>(
    cache: &Cache,
    graph: &Graph,
    limits: Limits,
    asked: Option<&str>,
    search: impl Fn() -> Result<Plan, E>,
) -> Result<Plan, E> {
    let about = Description {
        backend: "schedule".into(),
        kernels: vec![graph.name.clone()],
        compiler: format!("kernelwright {}", env!("CARGO_PKG_VERSION")),
        ..Description::default()
    };
    let mut searched = None;
    let entry = cache.get_or_build(&key(graph, limits, asked), about, || {
        let plan = search()?;
        let text = serde_json::to_vec(&Stored::from(&plan.schedule));
        searched = Some(plan);
        Ok(text.expect("numbers, names and lists are always JSON"))
    })?;
    match searched {
        Some(plan) => Ok(plan),
        None => match read(&entry, graph) {
            Some(plan) => Ok(plan),
            None => search(),
        },
    }
}

fn key(graph: &Graph, limits: Limits, asked: Option<&str>) -> Key {
    KeyBuilder::new("schedule")
        .list("planner", plan::SOURCES)
        .part("preference", include_str!("../pipeline.rs"))
        .part("graph", graph.text())
        .part("operator", math_text::dump(&graph.operator))
        .part("limits", format!("{limits:?}"))
        .part("asked", asked.unwrap_or_default())
        .finish()
}

fn read(entry: &[u8], graph: &Graph) -> Option<Plan> {
    let stored: Stored = serde_json::from_slice(entry).ok()?;
    let schedule = Schedule::from(stored);
    fits(&schedule, graph).then(|| plan::carry_out(graph, schedule).ok())?
}

/// Whether a schedule names nodes of the graph only, and counts from one.
fn fits(schedule: &Schedule, graph: &Graph) -> bool {
    let named = [schedule.recovered, schedule.predicted];
    if named.into_iter().flatten().any(|n| n.0 >= graph.nodes.len()) {
        return false;
    }
    let Ok(placed) = schedule.placed(graph) else { return false };
    let count = placed.nodes.len();
    schedule.main.as_ref().is_none_or(|p| {
        let mut nodes = p.times.keys().chain(p.versions.keys()).chain(&p.linear).chain(&p.behind);
        p.sweeps >= 1 && p.delay >= 1 && nodes.all(|n| n.0 < count)
    })
}

/// A schedule as it is written.
#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    fused: bool,
    main: Option<StoredPlacement>,
    recovered: Option<usize>,
    predicted: Option<usize>,
    different_recurrence: bool,
}

/// A placement as it is written; nodes by number.
#[derive(Serialize, Deserialize)]
struct StoredPlacement {
    sweeps: i64,
    first: i64,
    times: Vec<(usize, i64)>,
    versions: Vec<(usize, u32)>,
    linear: Vec<usize>,
    behind: Vec<usize>,
    delay: u32,
    apart: bool,
}

impl From<&Schedule> for Stored {
    fn from(schedule: &Schedule) -> Stored {
        Stored {
            name: schedule.name.clone(),
            fused: schedule.order == Order::Fused,
            main: schedule.main.as_ref().map(|p| StoredPlacement {
                sweeps: p.sweeps,
                first: p.first,
                times: p.times.iter().map(|(n, t)| (n.0, *t)).collect(),
                versions: p.versions.iter().map(|(n, v)| (n.0, *v)).collect(),
                linear: p.linear.iter().map(|n| n.0).collect(),
                behind: p.behind.iter().map(|n| n.0).collect(),
                delay: p.delay,
                apart: p.apart,
            }),
            recovered: schedule.recovered.map(|n| n.0),
            predicted: schedule.predicted.map(|n| n.0),
            different_recurrence: schedule.arithmetic == Arithmetic::DifferentRecurrence,
        }
    }
}

impl From<Stored> for Schedule {
    fn from(stored: Stored) -> Schedule {
        Schedule {
            name: stored.name,
            order: if stored.fused { Order::Fused } else { Order::Statement },
            main: stored.main.map(|p| Placement {
                sweeps: p.sweeps,
                first: p.first,
                times: p.times.into_iter().map(|(n, t)| (NodeId(n), t)).collect(),
                versions: p.versions.into_iter().map(|(n, v)| (NodeId(n), v)).collect(),
                linear: p.linear.into_iter().map(NodeId).collect(),
                behind: p.behind.into_iter().map(NodeId).collect(),
                delay: p.delay,
                apart: p.apart,
            }),
            recovered: stored.recovered.map(NodeId),
            predicted: stored.predicted.map(NodeId),
            arithmetic: if stored.different_recurrence { Arithmetic::DifferentRecurrence } else { Arithmetic::Same },
        }
    }
}
