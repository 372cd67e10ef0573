//! Apply: a graph and a schedule become a complete loop program.
//!
//! Start, residual and loops with branches or inner loops are written in program order ([`sequence`]), the solution kept in
//! its buffer by [`land`]; a placed main loop as rounds of its sweeps ([`rounds`]). Around them stand the sections of
//! [`frame`]; [`merge`] joins fences in a row.

mod build;
mod debts;
mod frame;
mod homes;
mod join;
mod land;
mod lives;
mod merge;
mod rounds;
mod sequence;
mod split;

use std::collections::{BTreeMap, BTreeSet};

pub use build::Illegal;
use build::Parts;
use sequence::Sequencer;

use crate::graph::{Graph, NodeId, NodeKind, Step};
use crate::loops::{Control, Program, Role, ScalarExpr, ScalarId, ScalarStmt, VectorId};
use crate::plan::schedule::Schedule;

/// Carries a schedule out.
pub fn apply(graph: &Graph, schedule: &Schedule) -> Result<Program, Illegal> {
    apply_with_residual(graph, schedule).map(|(program, _)| program)
}

/// Carries a schedule out; also tells which vector the section `residual` leaves the true residual in.
pub fn apply_with_residual(graph: &Graph, schedule: &Schedule) -> Result<(Program, Option<VectorId>), Illegal> {
    if schedule.main.as_ref().is_some_and(|main| main.sweeps < 1 || main.delay < 1) {
        return Err(Illegal(format!("{} has rounds without a sweep, or updates in no round", schedule.name)));
    }
    let placed = schedule.placed(graph)?;
    let graph = &match &schedule.main {
        Some(_) => land::land_before_loop(&placed)?,
        None => land::land(split::split_neighbour_updates(&placed))?,
    };
    let homes = homes::homes(graph, schedule.main.as_ref())?;
    let mut parts = Parts::default();
    for name in ["tolerance", "iteration", "measure", "bound", "attainable"] {
        parts.scalar(name);
    }
    let find =
        |is: fn(&NodeKind) -> bool| (0..graph.nodes.len()).map(NodeId).find(|n| is(graph.kind(*n)) && homes.holds(*n));
    let guess = (0..graph.nodes.len()).map(NodeId).find(|n| matches!(graph.kind(*n), NodeKind::Guess));
    let guess = guess.ok_or_else(|| Illegal("the graph has no solution".into()))?;
    let solution_home = homes.home.get(&guess).copied();
    let given = parts.vector("f", Role::Rhs, 1);
    let rhs_home = find(|k| matches!(k, NodeKind::Rhs)).map(|n| homes.home[&n]);
    let mut vectors = Vec::new();
    let mut rhs = given;
    for (home, name) in homes.names.iter().enumerate() {
        let members = homes.home.iter().filter(|(_, h)| **h == home).map(|(n, _)| *n);
        let versions = members.clone().filter_map(|n| schedule.main.as_ref()?.versions.get(&n)).max();
        let random = members.clone().find_map(|n| match graph.kind(n) {
            NodeKind::Random(seed) => Some(*seed),
            _ => None,
        });
        let role = match random {
            Some(seed) => Role::Random(seed),
            None if Some(home) == solution_home => Role::Solution,
            None => Role::Work,
        };
        let id = if Some(home) == rhs_home {
            rhs = if frame::changes_rhs(&graph.operator) { parts.vector("rhs", Role::Work, 1) } else { given };
            rhs
        } else {
            parts.vector(name, role, versions.copied().unwrap_or(1))
        };
        vectors.push(id);
    }
    let solution = match solution_home {
        Some(home) => vectors[home],
        None => parts.vector(&graph.node(guess).name, Role::Solution, 1),
    };
    check_solution_home(graph, &homes, schedule)?;
    let mut sequencer = Sequencer {
        graph,
        order: schedule.order,
        homes: &homes,
        vectors,
        slots: BTreeMap::new(),
        parts,
        solution: Some(solution),
        nested: BTreeSet::new(),
    };
    let mut start = sequencer.region(&graph.start, None)?;
    let rounds::Rounds { mut body, mut finish, reset: owed } = match (&schedule.main, graph.main_loop()) {
        (Some(placement), Some(l)) => rounds::rounds(&mut sequencer, l, placement, solution, &mut start)?,
        _ => rounds::Rounds { body: sequencer.region(&graph.body, None)?, finish: Vec::new(), reset: Vec::new() },
    };
    if schedule.main.is_none()
        && let Some(Control::Loop { body, .. }) = body.iter_mut().find(|c| matches!(c, Control::Loop { .. }))
    {
        frame::advance_iteration(&mut sequencer.parts, body);
    }
    let residual = sequencer.region(&graph.residual, None)?;
    let kept = graph.true_residual.and_then(|r| Some(sequencer.vectors[*homes.home.get(&r)?]));
    let mut reset = vec![zero(ScalarId::ITERATION)];
    reset.extend(owed);
    reset.extend(sequencer.nested.iter().map(|condition| zero(*condition)));
    let mut parts = sequencer.parts;
    let mut prepare = frame::prepare(graph, &mut parts, given, rhs, reset);
    frame::mask_vectors(graph, &mut parts, &mut prepare);
    frame::project_solution(graph, &mut parts, solution, &mut finish);
    let mut program = Program {
        name: format!("{} {}", graph.name, schedule.name),
        operator: graph.operator.clone(),
        vectors: parts.vectors,
        scalars: parts.scalars,
        solver_params: graph.solver_params.clone(),
        sums: parts.sums,
        sweeps: parts.sweeps,
        fences: parts.fences,
        requires: graph.requires.clone(),
        prepare,
        start,
        body,
        residual,
        finish,
    };
    join::compact(&mut program);
    merge::fences(&mut program);
    Ok((program, kept))
}

fn zero(scalar: ScalarId) -> ScalarStmt {
    ScalarStmt::Assign { scalar, value: ScalarExpr::Number(0.0), text: String::new() }
}

/// The solution's buffer must hold the solution at the end, and in program order at every act.
fn check_solution_home(graph: &Graph, homes: &homes::Homes, schedule: &Schedule) -> Result<(), Illegal> {
    let guess = graph.nodes.iter().position(|n| n.kind == NodeKind::Guess).map(NodeId);
    let home = guess.and_then(|g| homes.home.get(&g));
    if homes.home.get(&graph.solution) != home {
        return Err(Illegal("the final solution is not in the solution's buffer".into()));
    }
    let mut stack: Vec<&Step> = graph.start.steps.iter().collect();
    if schedule.main.is_none() {
        stack.extend(&graph.body.steps);
    }
    while let Some(step) = stack.pop() {
        match step {
            Step::Node(n) => {
                if let Some(solution) = graph.kind(*n).solution()
                    && homes.home.get(&solution) != home
                {
                    let label = graph.label(solution);
                    return Err(Illegal(format!("{label} is not in the solution's buffer when the solve may end")));
                }
            }
            Step::Loop(l) => stack.extend(&l.body.steps),
            Step::Branch(b) => b.arms.iter().for_each(|a| stack.extend(&a.body.steps)),
        }
    }
    Ok(())
}
