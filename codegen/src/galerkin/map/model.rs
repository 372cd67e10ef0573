//! Traffic and arithmetic of a stage.

use super::context::Context;
use super::faces::{Trace, traces};
use super::update::Pattern;
use super::variant::{Fusion, Geometry};
use crate::galerkin::module::Model;
use crate::galerkin::system::Expr;

/// Counts a stage, averaged over the stages of a step, per value.
pub(super) fn model(cx: &Context<'_>) -> Model {
    let s = cx.shape;
    let stages = &cx.system.step.stages;
    let patterns: Vec<Pattern> = stages.iter().map(Pattern::of).collect();
    let mean = |f: &dyn Fn(&Pattern) -> usize| patterns.iter().map(f).sum::<usize>() as f64 / patterns.len() as f64;
    let real = cx.options.precision.bytes() as f64;
    // The state is read and written in any case; the other registers where the assignments say so.
    let update = mean(&|p: &Pattern| p.reads().iter().chain(&p.writes()).filter(|&&r| r != 0).count() + 2);
    let split = match cx.variant().fusion {
        Fusion::One => 0.0,
        // The state read once more, the rate written and read.
        Fusion::Two => 3.0,
        // Twice more, the rate written twice and read twice.
        Fusion::Three => 6.0,
    };
    let passes = if cx.variant().fusion == Fusion::Three { 2.0 } else { 1.0 };
    let geometry = match cx.variant().geometry {
        Geometry::Stored => 9.0 * real,
        Geometry::Vertices => 16.0,
        Geometry::Faces => cx.record() as f64 * real,
    };
    let (materials, slots) = (cx.system.materials.len() as f64, 4.0 * cx.forms.face_slots.len() as f64);
    let constant = if cx.variant().geometry == Geometry::Faces { slots } else { materials };
    let element = passes * geometry + 4.0 * 6.0 + constant * real;
    let values = (s.components * s.nodes) as f64;
    let wanted = traces(cx);
    let crossing = |c: &usize| wanted.contains(&Trace::Exterior(*c)) || wanted.contains(&Trace::Jump(*c));
    let trace_count = ((0..s.components).filter(crossing).count() * s.all_face_nodes) as f64;
    Model {
        bytes: (update + split) * real + element / values,
        trace_bytes: trace_count * real / values,
        flops: flops(cx) / values + mean(&Pattern::flops),
        values: (s.elements * s.components * s.nodes) as u64,
        stages: stages.len(),
    }
}

/// Operations of an element without the update.
fn flops(cx: &Context<'_>) -> f64 {
    let s = cx.shape;
    let (nodes, points) = (s.nodes as f64, s.all_face_nodes as f64);
    let differentiated = (0..s.components).filter(|&c| cx.differentiated(c)).count() as f64;
    let volume = 6.0 * differentiated * nodes * s.columns.min(s.nodes) as f64;
    let mut axes: Vec<(usize, usize)> = cx
        .forms
        .rates
        .iter()
        .flatten()
        .flat_map(|group| &group.terms)
        .filter_map(|&(_, c, axis)| Some((c, axis?)))
        .collect();
    axes.sort_unstable();
    axes.dedup();
    let groups: usize = cx.forms.rates.iter().flatten().map(|group| group.terms.len() + 1).sum();
    let sources: usize = cx.forms.sources.iter().flatten().map(operations).sum();
    let geometry = nodes * (5 * axes.len() + groups + sources) as f64;
    let jumps = traces(cx).iter().filter(|trace| matches!(trace, Trace::Jump(_))).count();
    let surface = points * (cx.forms.corrections.iter().map(operations).sum::<usize>() + jumps) as f64;
    let components = s.components as f64;
    let lift = 2.0 * nodes * s.flux_columns as f64 * components;
    // Eight additions for an orbit of at most four values, and a weighted sum of four parts at a node.
    let parts = cx.split.as_ref().map_or(0.0, |split| {
        let orbits = (split.nodes.orbits.len() + split.faces.orbits.len()) as f64;
        components * (8.0 * orbits + 7.0 * nodes)
    });
    volume + geometry + surface + lift + parts
}

fn operations(e: &Expr) -> usize {
    let mut count = 0;
    e.visit(&mut |e| count += usize::from(matches!(e, Expr::Binary(..) | Expr::Call(..) | Expr::Select(..))));
    count
}
