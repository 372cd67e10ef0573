//! Search for placements.
//!
//! Enumerated are: the number of sweeps, which products follow a recurrence, which intermediate vectors are stored
//! (all others are recomputed where they are read), and the time of every output. Outputs are placed in program
//! order, each at its earliest time or up to one round later. Rounds of fewer sweeps than the scalars' recurrences
//! take are not tried. A branch is cut when the words it is sure to move exceed those of a placement already found
//! with as many sweeps or fewer by more than [`Limits::slack`]. What survives on the front of words, sweeps, buffers and
//! operations is returned, and whether the search came to its end.

use std::collections::{BTreeMap, BTreeSet};

use super::OPERATIONS_PER_WORD;
use super::analysis::Analysis;
use super::few::Times;
use super::model::{Instance, Model, UNPLACED};
use super::schedule::Placement;
use crate::graph::{NodeId, NodeKind};

/// Outputs placed at the first look at what is stored.
const FIRST_LOOK: usize = 100;
/// Most buffers of one vector, beside those that a delayed update keeps.
const MAX_VERSIONS: i64 = 3;

/// Rounds between delayed updates of the solution that are tried.
const DELAYS: [u32; 3] = [2, 3, 4];
/// The same where the solution is updated by a sweep of its own, which costs as much every time.
const DELAYS_APART: [u32; 2] = [4, 8];

/// Limits of a search.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most sweeps of a round, unless the loop's recurrences take more.
    pub sweeps: i64,
    /// Most intermediate vectors for which both ways are tried.
    pub optional: usize,
    /// Most outputs placed for each number of sweeps; what has been found until then counts.
    pub steps: usize,
    /// Words that are known to be possible.
    pub words: f64,
    /// Words above the best that are still of interest: simpler sweeps may win with more words.
    pub slack: f64,
    /// Whether placements with another recurrence are looked for too. What is found without them is the same either
    /// way.
    pub alternatives: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { sweeps: 3, optional: 5, steps: 10_000, words: f64::INFINITY, slack: 2.0, alternatives: true }
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
    let gathering = model.body.iter().map(|n| graph.kind(*n)).filter(|kind| kind.gathers());
    let operands: BTreeSet<NodeId> = gathering.flat_map(|kind| kind.args()).collect();
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
        delay: 1,
        apart: false,
    }
}

/// Fills in what follows from the times.
fn complete(model: &Model<'_>, mut p: Placement) -> Result<(Placement, Analysis), String> {
    let last = p.times.values().copied().max().unwrap_or(0);
    p.first = last - p.sweeps + 1;
    let analysis = model.analyse(&p)?;
    if analysis.versions.values().any(|v| *v > MAX_VERSIONS + i64::from(p.delay) - 1) {
        return Err("too many buffers".into());
    }
    p.versions = analysis.versions.iter().map(|(n, v)| (*n, u32::try_from(*v).unwrap_or(1))).collect();
    p.behind.clone_from(&analysis.behind);
    Ok((p, analysis))
}

/// The same placement with rounds that begin some sweeps later: what comes before is done ahead.
pub fn begin_later(model: &Model<'_>, p: &Placement, sweeps: i64) -> Result<Placement, String> {
    let mut later = Placement { first: p.first + sweeps, ..p.clone() };
    let analysis = model.analyse(&later)?;
    if analysis.versions.values().sum::<i64>() > p.versions.values().map(|v| i64::from(*v)).sum() {
        return Err("more buffers".into());
    }
    later.versions = analysis.versions.iter().map(|(n, v)| (*n, u32::try_from(*v).unwrap_or(1))).collect();
    later.behind.clone_from(&analysis.behind);
    Ok(later)
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// All placements on the front, fewest words first.
    pub front: Vec<Found>,
    /// Whether everything was tried: no limit was met.
    pub complete: bool,
}

/// All placements on the front.
pub fn search(model: &Model<'_>, limits: Limits) -> Outcome {
    let carried = model.carried();
    let linear: Vec<NodeId> = model.linear_candidates().into_iter().take(3).collect();
    let mut search = Search { model, steps: 0, until: 0, best: limits.words, slack: limits.slack, found: Vec::new() };
    let mut complete = true;
    // Other recurrences last, and never preferred to the program's own: without them the same is found.
    let passes = [false, true].into_iter().filter(|others| !others || (limits.alternatives && !linear.is_empty()));
    let counts = |others| (others, model.least_sweeps(others));
    let counts = passes.map(counts).flat_map(|(others, least)| {
        let most = limits.sweeps.max(least);
        (least..=most).map(move |sweeps| (others, sweeps))
    });
    for (others, sweeps) in counts {
        let mut open: Vec<(BTreeSet<NodeId>, BTreeSet<NodeId>)> = Vec::new();
        let (stored, all) = stores(model, &carried, if others { &linear } else { &[] }, limits.optional);
        complete &= all;
        for stored in stored {
            let known = |n: &NodeId| stored.contains(n) || carried.contains(n);
            let choices = subsets(&linear).filter(|l| l.is_empty() != others && l.iter().all(known));
            open.extend(choices.map(|l| (stored.clone(), l)));
        }
        let comparable = search.found.iter().filter(|f| f.placement.sweeps <= sweeps);
        search.best = comparable.map(|f| f.analysis.words).fold(f64::INFINITY, f64::min);
        // A short look at each before a long one at any: good placements found early cut the rest.
        search.steps = 0;
        for share in [FIRST_LOOK, limits.steps] {
            open.retain(|(stored, linear)| {
                search.until = (search.steps + share).min(limits.steps);
                !search.place(sweeps, &carried, stored, linear)
            });
        }
        complete &= open.is_empty();
    }
    search.delay();
    Outcome { front: search.front(), complete }
}

/// Vectors stored beside those that are carried, in every way that is tried; and whether those are all ways. What a matrix
/// gathers is always stored, except where products follow recurrences.
fn stores(
    model: &Model<'_>,
    carried: &BTreeSet<NodeId>,
    linear: &[NodeId],
    most: usize,
) -> (Vec<BTreeSet<NodeId>>, bool) {
    let gathered = &model.gathered(linear) - carried;
    let vectors = model.body.iter().copied().filter(|n| model.graph.kind(*n).is_vector());
    let optional: Vec<NodeId> = vectors.filter(|n| !carried.contains(n) && !gathered.contains(n)).collect();
    let tried = &optional[..most.min(optional.len())];
    let mut stored: Vec<BTreeSet<NodeId>> = subsets(tried).map(|chosen| &chosen | &gathered).collect();
    // Few stores first: what they find bounds the rest.
    stored.sort_by_key(BTreeSet::len);
    if model.gathers() {
        // To multiply with a matrix again takes more words than any store.
        stored.reverse();
    }
    (stored, tried.len() == optional.len())
}

fn subsets(of: &[NodeId]) -> impl Iterator<Item = BTreeSet<NodeId>> + use<'_> {
    (0..1u32 << of.len())
        .map(|mask| of.iter().enumerate().filter(|(i, _)| mask & (1 << i) != 0).map(|(_, n)| *n).collect())
}

struct Search<'m, 'g> {
    model: &'m Model<'g>,
    steps: usize,
    /// Steps at which to stop.
    until: usize,
    /// Fewest words, with as many sweeps or fewer.
    best: f64,
    slack: f64,
    found: Vec<Found>,
}

impl Search<'_, '_> {
    /// Tries all times of what is stored; tells whether that came to its end.
    fn place(
        &mut self,
        sweeps: i64,
        carried: &BTreeSet<NodeId>,
        stored: &BTreeSet<NodeId>,
        linear: &BTreeSet<NodeId>,
    ) -> bool {
        let graph = self.model.graph;
        let outputs: Vec<NodeId> = self
            .model
            .body
            .iter()
            .copied()
            .filter(|n| carried.contains(n) || stored.contains(n) || matches!(graph.kind(*n), NodeKind::Reduce(..)))
            .collect();
        let times = outputs.iter().map(|n| (*n, UNPLACED)).collect();
        let mut p = Placement { sweeps, times, linear: linear.clone(), ..empty() };
        // What cannot be computed from all that is stored cannot be computed at any time.
        if outputs.iter().any(|n| self.alone(&mut p, *n).is_err()) {
            return true;
        }
        self.next(&mut p, &outputs, 0);
        self.steps < self.until
    }

    fn next(&mut self, p: &mut Placement, outputs: &[NodeId], placed: usize) {
        if self.steps >= self.until {
            return;
        }
        self.steps += 1;
        if self.hopeless(p, &outputs[..placed], outputs.len()) {
            return;
        }
        let Some(output) = outputs.get(placed) else {
            self.record(p);
            return;
        };
        let times = self.model.scalar_times(p);
        let Some(earliest) = self.earliest(p, &times, *output) else { return };
        // With one sweep a round the next one is another choice: it loads what this one would recompute.
        let last = if placed == 0 { earliest } else { earliest + (p.sweeps - 1).max(1) };
        for at in earliest..=last {
            if at == earliest || self.fits(p, &times, *output, at) {
                p.times.insert(*output, at);
                self.next(p, outputs, placed + 1);
            }
        }
        p.times.insert(*output, UNPLACED);
    }

    /// First time at which all is there that the output reads of its own iteration.
    fn earliest(&self, p: &mut Placement, times: &Times, output: NodeId) -> Option<i64> {
        (0..=4 * p.sweeps).find(|at| self.fits(p, times, output, *at))
    }

    /// What an output reads when everything else is stored.
    fn alone(&self, p: &mut Placement, output: NodeId) -> Result<super::model::Reads, String> {
        p.times.insert(output, 0);
        let reads = self.model.sweep_reads(p, &[(output, 0)], 0, false);
        p.times.insert(output, UNPLACED);
        reads
    }

    fn fits(&self, p: &mut Placement, times: &Times, output: NodeId, at: i64) -> bool {
        p.times.insert(output, at);
        let reads = self.model.sweep_reads(p, &[(output, 0)], at, false);
        p.times.insert(output, UNPLACED);
        reads.is_ok_and(|reads| reads.scalars.keys().all(|s| self.model.depth_at_sweep(times, p, *s, at).is_some()))
    }

    /// Words that a placement is sure to move once some outputs are placed, against the best known. What is stored is
    /// also loaded somewhere: a variable in the next round, anything else because storing it would be idle.
    fn hopeless(&self, p: &Placement, placed: &[NodeId], all: usize) -> bool {
        let mut missing: BTreeSet<NodeId> =
            p.times.keys().copied().filter(|n| self.model.graph.kind(*n).is_vector()).collect();
        let mut words = missing.len();
        for position in 0..p.sweeps {
            let here: Vec<Instance> = placed
                .iter()
                .filter(|n| (position - p.times[n]).rem_euclid(p.sweeps) == 0)
                .map(|n| (*n, (position - p.times[n]).div_euclid(p.sweeps)))
                .collect();
            let Ok(reads) = self.model.sweep_reads(p, &here, position, false) else { return true };
            let unsure = |v: &Instance| all > placed.len() && p.times.get(&v.0) == Some(&UNPLACED);
            for v in reads.loads.keys().filter(|v| !unsure(v)) {
                words += 1;
                missing.remove(&v.0);
            }
        }
        (words + missing.len()) as f64 > self.best + self.slack
    }

    fn record(&mut self, p: &Placement) {
        self.record_as(p.clone());
    }

    /// Delayed updates where words are fewest, and of the placement whose words and operations together weigh least; of
    /// those with another recurrence where they have the fewest words of all.
    fn delay(&mut self) {
        let words = |f: &Found| f.analysis.words;
        let weight = |f: &Found| f.analysis.words + f.analysis.work / OPERATIONS_PER_WORD;
        let least = |sweeps: i64, of: &dyn Fn(&Found) -> f64| {
            let own = self.found.iter().filter(|f| f.placement.sweeps == sweeps && f.placement.linear.is_empty());
            own.map(of).fold(f64::INFINITY, f64::min)
        };
        let own = self.found.iter().filter(|f| f.placement.linear.is_empty());
        let least_weight = own.map(weight).fold(f64::INFINITY, f64::min);
        let best = self.found.iter().filter(|f| {
            let lightest = f.placement.linear.is_empty() && weight(f) <= least_weight;
            lightest || words(f) <= least(f.placement.sweeps, &words)
        });
        let found: Vec<Placement> = best.map(|f| f.placement.clone()).collect();
        for p in found {
            for delay in DELAYS {
                self.record_as(Placement { delay, ..p.clone() });
            }
            self.delay_apart(&p);
        }
    }

    /// Updates by sweeps of their own, at any time of the round: the vectors in their terms are kept until then.
    fn delay_apart(&mut self, p: &Placement) {
        let Some((solution, _)) = self.model.final_solution() else { return };
        for delay in DELAYS_APART {
            for at in p.first..p.first + p.sweeps {
                let mut placement = Placement { delay, apart: true, ..p.clone() };
                placement.times.insert(solution, at);
                self.record_as(placement);
            }
        }
    }

    fn record_as(&mut self, p: Placement) {
        let Ok((placement, analysis)) = complete(self.model, p) else { return };
        self.best = self.best.min(analysis.words);
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

type Key = (f64, i64, i64, f64, usize, bool, u32);

/// What counts, less being better: one sweep for the solution and for what reads neighbours too holds more vectors at once.
fn key(f: &Found) -> Key {
    let Placement { sweeps, linear, delay, apart, .. } = &f.placement;
    (f.analysis.words, *sweeps, f.buffers, f.analysis.work, linear.len(), *delay > 1 && !apart, *delay)
}

/// Whether one is as good in every respect. Of equals the first stays.
fn dominates(a: &Found, b: &Found) -> bool {
    let (a, b) = (key(a), key(b));
    a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2 && a.3 <= b.3 && a.4 <= b.4 && a.5 <= b.5 && a.6 <= b.6
}
