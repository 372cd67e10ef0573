//! Rounds of a placed loop: the run-up of the first iterations, the sweeps and fences of a round, what exits owe.
//!
//! In the round of iteration R a stored value of iteration e is in the buffer e - R + 1 steps ahead of the current
//! one; buffers turn over at the end of a round only, so that an exit finds them as the round began. The run-up uses
//! the buffers as the first round does.

use std::collections::BTreeMap;

use super::build::{Context, Illegal, Source, SweepBuilder, scalar_statements};
use super::debts::Debts;
use super::frame;
use super::join::join;
use super::sequence::{Copy, Sequencer};
use crate::graph::{Loop, NodeId, NodeKind, ReduceKind};
use crate::loops::{Control, ScalarExpr, ScalarId, ScalarStmt, SumId, SumKind, VectorId, Version};
use crate::plan::analysis::Analysis;
use crate::plan::model::{At, Instance, Model, Resolved};
use crate::plan::schedule::{Order, Placement};

/// A placed loop.
pub(super) struct Rounds {
    /// The loop.
    pub body: Vec<Control>,
    /// What an exit owes.
    pub finish: Vec<Control>,
    /// What says at the beginning of a solve that nothing is owed.
    pub reset: Vec<ScalarStmt>,
}

/// Writes the rounds; the run-up goes to the end of `start`.
pub(super) fn rounds(
    sequencer: &mut Sequencer<'_>,
    l: &Loop,
    placement: &Placement,
    solution: VectorId,
    start: &mut Vec<Control>,
) -> Result<Rounds, Illegal> {
    let graph = sequencer.graph;
    let model = Model::new(graph).ok_or_else(|| Illegal("the main loop is not a straight line".into()))?;
    let analysis = model.analyse(placement).map_err(Illegal)?;
    let mut writer = Writer {
        sequencer,
        model: &model,
        placement,
        analysis: &analysis,
        old: BTreeMap::new(),
        debts: Debts::default(),
    };
    writer.enter(l, start)?;
    writer.plan_debts(solution)?;
    writer.enter_delay(start);
    let begin =
        placement.times.values().copied().chain(analysis.scalar_times.iter().map(|(_, t)| t)).min().unwrap_or(0);
    let mut state = vec![false; writer.debts.flags.len()];
    for at in begin.min(placement.first)..placement.first {
        writer.position(at, true, &mut state, start)?;
    }
    let mut body = Vec::new();
    for at in placement.first..placement.first + placement.sweeps {
        writer.position(at, false, &mut state, &mut body)?;
    }
    writer.settle(&state, &mut body);
    let (finish, reset) = writer.finish();
    frame::advance_iteration(&mut sequencer.parts, &mut body);
    if sequencer.order == Order::Fused {
        join(&mut sequencer.parts, &mut body, &finish, solution);
    }
    let turning = sequencer.parts.vectors.iter().enumerate().filter(|(_, v)| v.versions > 1);
    body.extend(turning.map(|(id, _)| Control::Rotate(VectorId(id))));
    Ok(Rounds { body: vec![Control::Loop { times: l.times, body }], finish, reset })
}

/// What a sweep has to do with a delayed update of the solution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Update {
    /// Nothing.
    Plain,
    /// It leaves the update out.
    LeftOut,
    /// It makes the update.
    Made,
    /// A sweep of its own before it makes the update, in the rounds that have one.
    Before,
}

pub(super) struct Writer<'s, 'g> {
    pub sequencer: &'s mut Sequencer<'g>,
    pub model: &'s Model<'g>,
    pub placement: &'s Placement,
    pub analysis: &'s Analysis,
    /// Scalars that keep old values, by how old.
    old: BTreeMap<(NodeId, i64), ScalarId>,
    pub debts: Debts,
}

pub(super) struct Here<'a> {
    homes: &'a super::homes::Homes,
    vectors: &'a [VectorId],
    slots: &'a BTreeMap<NodeId, ScalarId>,
    old: &'a BTreeMap<(NodeId, i64), ScalarId>,
    model: &'a Model<'a>,
    placement: &'a Placement,
    analysis: &'a Analysis,
    c: At,
    /// Scalars are read at this act rather than by a sweep.
    act: Option<Instance>,
}

impl Here<'_> {
    fn buffer(&self, node: NodeId, e: i64) -> Result<Version, Illegal> {
        let home = self.homes.home.get(&node);
        let home = home.ok_or_else(|| Illegal(format!("{} has no home", self.model.graph.label(node))))?;
        let versions = self.analysis.versions.get(&node).copied().unwrap_or(1);
        let ahead = u32::try_from((e + 1).rem_euclid(versions)).unwrap_or(0);
        Ok(Version { vector: self.vectors[*home], ahead })
    }
}

impl Context for Here<'_> {
    fn source(&self, node: NodeId, e: i64) -> Result<Source, Illegal> {
        let resolved = self.model.resolve(self.placement, (node, e), self.c).map_err(Illegal)?;
        Ok(match resolved {
            Resolved::Outside => Source::Load(Version { ahead: 0, ..self.buffer(node, 0)? }),
            Resolved::Stored => Source::Load(self.buffer(node, e)?),
            Resolved::Alias(n, e) => Source::Alias(n, e),
            Resolved::Define => Source::Define,
            Resolved::Linear(map, iteration) => {
                let products = self.model.products();
                let known = products.iter().map(|(operand, product)| (*operand, (*product, iteration))).collect();
                Source::Linear { map, iteration, known }
            }
        })
    }

    fn scalar(&self, node: NodeId, e: i64) -> Result<ScalarId, Illegal> {
        let (node, e) = self.model.trace_back(node, e);
        let missing = || Illegal(format!("scalar {} is not known in time", self.model.graph.label(node)));
        if !self.model.contains(node) {
            return self.slots.get(&node).copied().ok_or_else(missing);
        }
        let times = &self.analysis.scalar_times;
        let depth = match self.act {
            Some(act) => self.model.depth_at_statement(times, self.placement, (node, e), act, self.c.at - 1),
            None => self.model.depth_at_sweep(times, self.placement, (node, e), self.c.at),
        };
        match depth.ok_or_else(missing)? {
            0 => self.slots.get(&node).copied().ok_or_else(missing),
            d => self.old.get(&(node, d)).copied().ok_or_else(missing),
        }
    }
}

impl Writer<'_, '_> {
    pub fn here(&self, c: At, act: Option<Instance>) -> Here<'_> {
        Here {
            homes: self.sequencer.homes,
            vectors: &self.sequencer.vectors,
            slots: &self.sequencer.slots,
            old: &self.old,
            model: self.model,
            placement: self.placement,
            analysis: self.analysis,
            c,
            act,
        }
    }

    /// Initial values of the variables; old scalars begin at zero.
    fn enter(&mut self, l: &Loop, start: &mut Vec<Control>) -> Result<(), Illegal> {
        let graph = self.sequencer.graph;
        let mut initial = Vec::new();
        for p in l.phis.iter().filter(|p| !graph.kind(p.node).is_vector() && self.model.contains(p.next)) {
            let slot = self.sequencer.slot(p.next);
            self.sequencer.slots.insert(p.node, slot);
            self.sequencer.slots.insert(p.result, slot);
            initial.push(p.next);
        }
        let scalars = self.model.body.iter().filter(|n| !graph.kind(**n).is_vector() && !graph.kind(**n).raises());
        for n in scalars {
            self.sequencer.slot(*n);
        }
        let mut zero = Vec::new();
        for (n, depth) in &self.analysis.depths {
            let variable = l.phis.iter().find(|p| p.next == *n).map(|p| graph.node(p.node).name.clone());
            let name = format!("{}_old", variable.unwrap_or_else(|| graph.node(*n).name.clone()));
            for d in 1..=*depth {
                let id = self.sequencer.parts.scalar(&name);
                self.old.insert((*n, d), id);
                zero.push(id);
            }
            if *depth > 0 && !initial.contains(n) {
                zero.push(self.sequencer.slot(*n));
            }
        }
        let copies = self.entries(l);
        self.sequencer.copies("enter", &copies, None, start)?;
        if !zero.is_empty() {
            let mut statements: Vec<ScalarStmt> = zero.into_iter().map(|s| assign(s, 0.0)).collect();
            self.enter_followers(l, &mut statements)?;
            let fence = self.sequencer.parts.fence("enter_old", statements, None);
            start.push(fence);
        }
        Ok(())
    }

    /// Initial values with their buffers. What no buffer is left for is read by nobody; older scalars are set apart.
    fn entries(&self, l: &Loop) -> Vec<Copy> {
        let entry = |p: &crate::graph::Phi| {
            let (node, e) = self.model.initial(p.node);
            let versions = self.analysis.versions.get(&node).copied().unwrap_or(1);
            let ahead = u32::try_from((e + 1).rem_euclid(versions)).unwrap_or(0);
            let vector = self.sequencer.graph.kind(p.node).is_vector();
            let kept = if vector { -e <= versions } else { e == -1 };
            kept.then_some(Copy { target: p.node, source: p.initial, ahead })
        };
        l.phis.iter().filter_map(entry).collect()
    }

    /// Initial values of scalar variables that follow others: they are old values from the beginning.
    fn enter_followers(&mut self, l: &Loop, statements: &mut Vec<ScalarStmt>) -> Result<(), Illegal> {
        for p in l.phis.iter().filter(|p| !self.sequencer.graph.kind(p.node).is_vector()) {
            let (node, e) = self.model.initial(p.node);
            let Some(old) = self.old.get(&(node, -e - 1)).copied() else { continue };
            let from = self.sequencer.slots.get(&p.initial).copied();
            let from =
                from.ok_or_else(|| Illegal(format!("{} is not known yet", self.sequencer.graph.label(p.initial))))?;
            let value = ScalarExpr::Scalar(from);
            statements.retain(|s| !matches!(s, ScalarStmt::Assign { scalar, .. } if *scalar == old));
            statements.push(ScalarStmt::Assign { scalar: old, value, text: String::new() });
        }
        Ok(())
    }

    /// The sweep and the fence of a time; where a delayed solution is updated, twice: without and with it.
    fn position(&mut self, at: i64, runup: bool, state: &mut [bool], out: &mut Vec<Control>) -> Result<(), Illegal> {
        let mut outputs = self.model.outputs(self.placement, at, runup);
        let delayed = self.model.delayed(self.placement).and_then(|x| outputs.iter().position(|o| o.0 == x));
        let Some(solution) = delayed else { return self.variant(at, runup, &outputs, Update::Plain, state, out) };
        let n = self.placement.delay;
        if self.placement.apart {
            let update = outputs.remove(solution);
            let sweep = self.sweep(at, runup, &[update], true, &BTreeMap::new())?;
            out.push(Control::Every { n, body: sweep.into_iter().collect(), otherwise: Vec::new() });
            return self.variant(at, runup, &outputs, Update::Before, state, out);
        }
        let all = outputs.clone();
        outputs.remove(solution);
        let mut after = state.to_vec();
        let mut light = Vec::new();
        self.variant(at, runup, &outputs, Update::LeftOut, &mut after, &mut light)?;
        let mut whole = Vec::new();
        self.variant(at, runup, &all, Update::Made, state, &mut whole)?;
        state.copy_from_slice(&after);
        out.push(Control::Every { n, body: whole, otherwise: light });
        Ok(())
    }

    /// A sweep with some outputs and its fence.
    fn variant(
        &mut self,
        at: i64,
        runup: bool,
        outputs: &[Instance],
        update: Update,
        state: &mut [bool],
        out: &mut Vec<Control>,
    ) -> Result<(), Illegal> {
        let graph = self.sequencer.graph;
        let mut sums: BTreeMap<NodeId, SumId> = BTreeMap::new();
        for (n, _) in outputs {
            if let NodeKind::Reduce(kind, ..) = graph.kind(*n) {
                let kind = if *kind == ReduceKind::Max { SumKind::Max } else { SumKind::Add };
                sums.insert(*n, self.sequencer.parts.sum(kind));
            }
        }
        out.extend(self.sweep(at, runup, outputs, update == Update::Made, &sums)?);
        let mut due = self.due(at, runup);
        due.sort_by_key(|i| self.model.rank(*i));
        let mut statements = Vec::new();
        if update == Update::Before {
            self.debts.count_on(&mut statements);
        }
        for instance in &due {
            if graph.kind(instance.0).raises() {
                // Exits from the run-up owe nothing.
                let owed = self.debts.owed.get(&(instance.0, update == Update::Made));
                self.debts.mark(owed.copied().filter(|_| !runup), state, &mut statements);
            }
            self.statement(*instance, at, &sums, &mut statements)?;
        }
        if matches!(update, Update::LeftOut | Update::Made) {
            self.debts.mark(None, state, &mut statements);
            self.debts.count(update == Update::Made, &mut statements);
        }
        if !statements.is_empty() {
            let names: Vec<&str> = due.iter().map(|(n, _)| graph.node(*n).name.as_str()).collect();
            let name = if names.is_empty() { "count_pending".into() } else { format!("finish_{}", names.join("_")) };
            let fence = self.sequencer.parts.fence(&name, statements, None);
            out.push(fence);
        }
        Ok(())
    }

    /// A sweep with some outputs, if there are any. `updates`: a delayed solution is among them.
    fn sweep(
        &mut self,
        at: i64,
        runup: bool,
        outputs: &[Instance],
        updates: bool,
        sums: &BTreeMap<NodeId, SumId>,
    ) -> Result<Option<Control>, Illegal> {
        let mut builder = SweepBuilder::new(self.sequencer.graph);
        let solution = updates.then(|| -i64::from(self.placement.delay));
        let here = self.here(At { at, runup, solution }, None);
        for (n, e) in outputs {
            match sums.get(n) {
                Some(sum) => builder.reduce(&here, *n, *e, *sum)?,
                None => builder.store(&here, *n, *e, here.buffer(*n, *e)?)?,
            }
        }
        Ok((!builder.is_empty()).then(|| self.sequencer.parts.sweep(builder.finish(None))))
    }

    /// Scalars and acts of the fence at a time.
    fn due(&self, at: i64, runup: bool) -> Vec<Instance> {
        let sweeps = self.placement.sweeps;
        let times = self.analysis.scalar_times.iter();
        let due = times.filter(|(_, t)| (at - *t).rem_euclid(sweeps) == 0);
        let due = due.map(|(n, t)| (n, (at - t).div_euclid(sweeps)));
        due.filter(|(_, e)| !runup || *e >= 0).collect()
    }

    fn statement(
        &mut self,
        instance: Instance,
        at: i64,
        sums: &BTreeMap<NodeId, SumId>,
        out: &mut Vec<ScalarStmt>,
    ) -> Result<(), Illegal> {
        let graph = self.sequencer.graph;
        let (n, e) = instance;
        let act = graph.kind(n).raises();
        for d in (1..=self.analysis.depths.get(&n).copied().unwrap_or(0)).rev() {
            let from = if d == 1 { self.sequencer.slots.get(&n) } else { self.old.get(&(n, d - 1)) };
            if let (Some(to), Some(from)) = (self.old.get(&(n, d)), from) {
                out.push(ScalarStmt::Assign { scalar: *to, value: ScalarExpr::Scalar(*from), text: String::new() });
            }
        }
        let target = if act { None } else { Some(self.sequencer.slot(n)) };
        let here = self.here(At { at: at + 1, runup: false, solution: None }, Some(instance));
        let mut read = |m: NodeId| Ok(ScalarExpr::Scalar(here.scalar(m, e)?));
        scalar_statements(graph, n, target, sums.get(&n).copied(), &mut read, out)
    }

    /// At the end of a round no act has been passed.
    fn settle(&mut self, state: &[bool], body: &mut Vec<Control>) {
        let mut reset = Vec::new();
        self.debts.mark(None, &mut state.to_vec(), &mut reset);
        if reset.is_empty() {
            return;
        }
        match body.last() {
            Some(Control::Fence(id)) => self.sequencer.parts.fences[id.0].statements.extend(reset),
            _ => {
                let fence = self.sequencer.parts.fence("settle", reset, None);
                body.push(fence);
            }
        }
    }
}

pub(super) fn assign(scalar: ScalarId, value: f64) -> ScalarStmt {
    ScalarStmt::Assign { scalar, value: ScalarExpr::Number(value), text: String::new() }
}
