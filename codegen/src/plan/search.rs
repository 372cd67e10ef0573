//! Search for placements.
//!
//! Enumerated are: the number of sweeps, which products follow a recurrence, which intermediate vectors are stored
//! (all others are recomputed where they are read), and the time of every output. Outputs are placed in program
//! order, each at its earliest time or up to one round later. A branch is cut when the words it is sure to move
//! exceed those of a placement already found for the same number of sweeps by more than [`SLACK`]. What survives on
//! the front of words, sweeps, buffers and operations is returned.

use std::collections::{BTreeMap, BTreeSet};

use super::analysis::Analysis;
use super::model::{Instance, Model, UNPLACED};
use super::schedule::Placement;
use crate::graph::{NodeId, NodeKind};

/// Words above the best that are still of interest: simpler sweeps may win with more words.
const SLACK: usize = 2;
/// Most buffers of one vector.
const MAX_VERSIONS: i64 = 3;

/// Limits of a search.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most sweeps of a round.
    pub sweeps: i64,
    /// Most intermediate vectors for which both ways are tried.
    pub optional: usize,
    /// Most outputs placed, over the whole search; what has been found until then counts.
    pub steps: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { sweeps: 3, optional: 5, steps: 30_000 }
    }
}

/// A placement that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The placement, complete.
    pub placement: Placement,
    /// What follows from it.
    pub analysis: Analysis,
    /// Buffers of stored vectors.
    pub buffers: i64,
}

/// One sweep for every stored vector and every reduction, in program order.
pub fn statement(model: &Model<'_>) -> Result<Placement, String> {
    let graph = model.graph;
    let operands: BTreeSet<NodeId> = model.products().keys().copied().collect();
    let carried = model.carried();
    let mut times = BTreeMap::new();
    for n in &model.body {
        let node = graph.node(*n);
        let kept = node.kind.is_vector() && (node.named || operands.contains(n) || carried.contains(n));
        if kept || matches!(node.kind, NodeKind::Reduce(..)) {
            times.insert(*n, times.len() as i64);
        }
    }
    let sweeps = times.len().max(1) as i64;
    let p = Placement { sweeps, first: 0, times, ..empty() };
    complete(model, p).map(|(p, _)| p)
}

fn empty() -> Placement {
    Placement {
        sweeps: 1,
        first: 0,
        times: BTreeMap::new(),
        versions: BTreeMap::new(),
        linear: BTreeSet::new(),
        behind: BTreeSet::new(),
    }
}

/// Fills in what follows from the times.
fn complete(model: &Model<'_>, mut p: Placement) -> Result<(Placement, Analysis), String> {
    let last = p.times.values().copied().max().unwrap_or(0);
    p.first = last - p.sweeps + 1;
    let analysis = model.analyse(&p)?;
    if analysis.versions.values().any(|v| *v > MAX_VERSIONS) {
        return Err("too many buffers".into());
    }
    p.versions = analysis.versions.iter().map(|(n, v)| (*n, u32::try_from(*v).unwrap_or(1))).collect();
    p.behind.clone_from(&analysis.behind);
    Ok((p, analysis))
}

/// All placements on the front, fewest words first.
pub fn search(model: &Model<'_>, limits: Limits) -> Vec<Found> {
    let carried = model.carried();
    let optional: Vec<NodeId> = model
        .body
        .iter()
        .copied()
        .filter(|n| model.graph.kind(*n).is_vector() && !carried.contains(n))
        .take(limits.optional)
        .collect();
    let linear: Vec<NodeId> = model.linear_candidates().into_iter().take(3).collect();
    let mut search = Search { model, limits, steps: 0, best: BTreeMap::new(), found: Vec::new() };
    for sweeps in 1..=limits.sweeps {
        for stored in subsets(&optional) {
            for linear in subsets(&linear).filter(|l| l.iter().all(|n| stored.contains(n) || carried.contains(n))) {
                search.place(sweeps, &carried, &stored, linear);
            }
        }
    }
    search.front()
}

fn subsets(of: &[NodeId]) -> impl Iterator<Item = BTreeSet<NodeId>> + use<'_> {
    (0..1u32 << of.len())
        .map(|mask| of.iter().enumerate().filter(|(i, _)| mask & (1 << i) != 0).map(|(_, n)| *n).collect())
}

struct Search<'m, 'g> {
    model: &'m Model<'g>,
    limits: Limits,
    steps: usize,
    /// Fewest words by number of sweeps.
    best: BTreeMap<i64, usize>,
    found: Vec<Found>,
}

impl Search<'_, '_> {
    fn place(&mut self, sweeps: i64, carried: &BTreeSet<NodeId>, stored: &BTreeSet<NodeId>, linear: BTreeSet<NodeId>) {
        let graph = self.model.graph;
        let outputs: Vec<NodeId> = self
            .model
            .body
            .iter()
            .copied()
            .filter(|n| carried.contains(n) || stored.contains(n) || matches!(graph.kind(*n), NodeKind::Reduce(..)))
            .collect();
        let times = outputs.iter().map(|n| (*n, UNPLACED)).collect();
        let mut p = Placement { sweeps, times, linear, ..empty() };
        self.next(&mut p, &outputs, 0);
    }

    fn next(&mut self, p: &mut Placement, outputs: &[NodeId], placed: usize) {
        self.steps += 1;
        if self.steps > self.limits.steps || self.hopeless(p, &outputs[..placed], outputs.len()) {
            return;
        }
        let Some(output) = outputs.get(placed) else {
            self.record(p);
            return;
        };
        let times = self.model.scalar_times(p);
        let Some(earliest) = self.earliest(p, &times, *output) else { return };
        let last = if placed == 0 { earliest } else { earliest + p.sweeps - 1 };
        for at in earliest..=last {
            if at == earliest || self.fits(p, &times, *output, at) {
                p.times.insert(*output, at);
                self.next(p, outputs, placed + 1);
            }
        }
        p.times.insert(*output, UNPLACED);
    }

    /// First time at which all is there that the output reads of its own iteration.
    fn earliest(&self, p: &mut Placement, times: &BTreeMap<NodeId, i64>, output: NodeId) -> Option<i64> {
        (0..=4 * p.sweeps).find(|at| self.fits(p, times, output, *at))
    }

    fn fits(&self, p: &mut Placement, times: &BTreeMap<NodeId, i64>, output: NodeId, at: i64) -> bool {
        p.times.insert(output, at);
        let reads = self.model.sweep_reads(p, &[(output, 0)], at, false);
        p.times.insert(output, UNPLACED);
        reads.is_ok_and(|reads| reads.scalars.iter().all(|s| self.model.depth_at_sweep(times, p, *s, at).is_some()))
    }

    /// Words that the placed outputs are sure to move, against the best known.
    fn hopeless(&self, p: &Placement, placed: &[NodeId], all: usize) -> bool {
        let Some(best) = self.best.get(&p.sweeps) else { return false };
        if placed.is_empty() {
            return false;
        }
        let mut words = p.times.keys().filter(|n| self.model.graph.kind(**n).is_vector()).count();
        for position in 0..p.sweeps {
            let here: Vec<Instance> = placed
                .iter()
                .filter(|n| (position - p.times[n]).rem_euclid(p.sweeps) == 0)
                .map(|n| (*n, (position - p.times[n]).div_euclid(p.sweeps)))
                .collect();
            let Ok(reads) = self.model.sweep_reads(p, &here, position, false) else { return true };
            let unsure = |v: &Instance| all > placed.len() && p.times.get(&v.0) == Some(&UNPLACED);
            words += reads.loads.keys().filter(|v| !unsure(v)).count();
        }
        words > best + SLACK
    }

    fn record(&mut self, p: &Placement) {
        let Ok((placement, analysis)) = complete(self.model, p.clone()) else { return };
        let best = self.best.entry(p.sweeps).or_insert(usize::MAX / 2);
        *best = (*best).min(analysis.words);
        let buffers = analysis.versions.values().sum();
        let found = Found { placement, analysis, buffers };
        if !self.found.iter().any(|f| dominates(f, &found)) {
            self.found.retain(|f| !dominates(&found, f));
            self.found.push(found);
        }
    }

    fn front(mut self) -> Vec<Found> {
        self.found.sort_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal));
        self.found
    }
}

type Key = (usize, i64, i64, f64, usize);

fn key(f: &Found) -> Key {
    (f.analysis.words, f.placement.sweeps, f.buffers, f.analysis.work, f.placement.linear.len())
}

/// Whether one is as good in every respect. Of equals the first stays.
fn dominates(a: &Found, b: &Found) -> bool {
    let (a, b) = (key(a), key(b));
    a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2 && a.3 <= b.3 && a.4 <= b.4
}
