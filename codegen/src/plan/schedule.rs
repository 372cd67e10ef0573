//! Schedule: when and where every value of a graph is computed, as plain data.
//!
//! # Time
//! The main loop of a solver whose body has no branches and no inner loops is placed by *times*. Sweeps of the loop
//! are numbered 0, 1, 2, … from the first one of iteration 0; a round of the scheduled loop runs `sweeps` of them. A
//! value with time t is computed in sweep t + sweeps·e for iteration e, so that sweep t mod `sweeps` of every round
//! computes it. The loop's round begins at time `first`; what has smaller times is computed ahead, for the first
//! iterations in the section `start`.
//!
//! Only *outputs* have times: stored vectors and reductions. Everything else is recomputed where it is read, down to
//! stored vectors. Scalars follow their reductions at once, in the fence after the sweep.
//!
//! All other parts (start, branches, inner loops) are placed in program order, see [`Order`].

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{predict, recover};
use crate::apply::Illegal;
use crate::graph::{Graph, NodeId};

/// A schedule of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Name, the same on every run.
    pub name: String,
    /// How straight-line parts outside the placed loop are divided into sweeps.
    pub order: Order,
    /// Placement of the main loop; without it the loop is in program order too.
    pub main: Option<Placement>,
    /// A solve of the main loop whose right side is recovered; see [`recover`](super::recover).
    pub recovered: Option<NodeId>,
    /// A sum of the main loop that is predicted, what is recovered being advanced by then; see [`predict`](super::predict).
    pub predicted: Option<NodeId>,
    /// Whether rounding may differ from the textbook loop by more than the order of operations at a point.
    pub arithmetic: Arithmetic,
}

/// Division of straight-line parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One sweep for every stored vector and every reduction.
    Statement,
    /// Each in the earliest sweep that has what it reads.
    Fused,
}

/// What a schedule does to rounding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arithmetic {
    /// The operations of the program.
    Same,
    /// Another recurrence for some vector: used only with the true-residual check.
    DifferentRecurrence,
}

/// Placement of a loop.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Sweeps of a round.
    pub sweeps: i64,
    /// Time at which a round begins.
    pub first: i64,
    /// Time of each output.
    pub times: BTreeMap<NodeId, i64>,
    /// Buffers of each stored vector.
    pub versions: BTreeMap<NodeId, u32>,
    /// Products `A*v` that follow v's recurrence instead: A*(z + beta*p) = A*z + beta*(A*p).
    pub linear: BTreeSet<NodeId>,
    /// Acts at whose exit the solution is behind and is brought up to date by `finish`.
    pub behind: BTreeSet<NodeId>,
    /// Rounds after which the solution is updated, by all it missed at once; 1: in every round. See
    /// [`delay`](super::delay).
    pub delay: u32,
    /// Whether a delayed solution is updated by a sweep of its own, before the one that computes what has the same time.
    pub apart: bool,
}

impl Schedule {
    /// The graph that is placed: the one that is given, rewritten.
    ///
    /// # Errors
    /// A schedule of another graph.
    pub fn placed<'g>(&self, graph: &'g Graph) -> Result<Cow<'g, Graph>, Illegal> {
        let rewritten = match (self.recovered, self.predicted) {
            (None, None) => return Ok(Cow::Borrowed(graph)),
            (Some(solve), None) => recover::recover(graph, solve),
            (None, Some(sum)) => predict::predict(graph, sum),
            (Some(solve), Some(sum)) => recover::advance(graph, solve).and_then(|graph| predict::predict(&graph, sum)),
        };
        rewritten.map(Cow::Owned).ok_or_else(|| Illegal(format!("{} rewrites what is not in the graph", self.name)))
    }

    /// Readable text.
    pub fn text(&self, graph: &Graph) -> String {
        let placed = self.placed(graph).unwrap_or(Cow::Borrowed(graph));
        let graph = placed.as_ref();
        let arithmetic = match self.arithmetic {
            Arithmetic::Same => "same arithmetic",
            Arithmetic::DifferentRecurrence => "different recurrence",
        };
        let mut out = format!("schedule {} ({arithmetic})\n", self.name);
        let Some(main) = &self.main else {
            let _ = writeln!(out, "  in program order, {:?}", self.order);
            return out;
        };
        for position in 0..main.sweeps {
            let at = main.first + position;
            let here: Vec<String> = main
                .times
                .iter()
                .filter(|(_, t)| (**t - at).rem_euclid(main.sweeps) == 0)
                .map(|(n, t)| output_text(graph, main, *n, (at - t).div_euclid(main.sweeps)))
                .collect();
            let _ = writeln!(out, "  sweep {}: {}", position + 1, here.join(", "));
        }
        if let Some(n) = self.recovered {
            let solved = &graph.node(n).name;
            let _ = writeln!(out, "  the right side of {solved} recovered from it");
        }
        if let Some(n) = self.predicted {
            let name = &graph.node(n).name;
            let _ =
                writeln!(out, "  {name} predicted one fence earlier for what vectors wait for, computed for all else");
        }
        for n in &main.linear {
            let _ = writeln!(out, "  {} by linearity", graph.node(*n).name);
        }
        if main.delay > 1 {
            let apart = if main.apart { ", in a sweep of its own" } else { "" };
            let _ = writeln!(out, "  solution updated every {} rounds{apart}", main.delay);
        }
        for n in &main.behind {
            let _ = writeln!(out, "  solution brought up to date after: {}", act_text(graph, *n));
        }
        out
    }
}

fn act_text(graph: &Graph, act: NodeId) -> String {
    graph.node(act).text.clone().unwrap_or_else(|| graph.label(act))
}

fn output_text(graph: &Graph, main: &Placement, node: NodeId, ahead: i64) -> String {
    let mut text = graph.node(node).name.clone();
    if let Some(n) = main.versions.get(&node).filter(|n| **n > 1) {
        let _ = write!(text, " ({n} versions)");
    }
    if ahead > 0 {
        let _ = write!(text, " of {ahead} ahead");
    }
    text
}
