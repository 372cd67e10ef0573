//! Rates at a node from derivatives along the reference coordinates.

use std::collections::BTreeMap;

use super::expression::write;
use super::forms::{Leaf, Meaning};
use super::writer::{At, Writer};
use crate::galerkin::system::{Expr as SystemExpr, Side};
use crate::kernel::Expr;
use crate::map::fold::{add, mul, neg, real, sub};

/// What a rate is made of, at a node of an element.
pub(super) struct NodeAt<'f> {
    pub at: At,
    pub node: Expr,
    /// d component / d l_(a+1).
    pub derivative: &'f dyn Fn(usize, usize) -> Expr,
    /// Entry (a, axis) of the gradients of l1, l2, l3.
    pub gradient: &'f dyn Fn(usize, usize) -> Expr,
    /// A component.
    pub component: &'f dyn Fn(&mut Writer<'_, '_>, usize) -> Expr,
    /// The reference coordinates whose derivatives contribute, and whether what has no derivative does.
    pub along: &'f [usize],
    pub plain: bool,
    /// Whether sources are added.
    pub sources: bool,
    /// A slot of the element.
    pub slot: &'f dyn Fn(&mut Writer<'_, '_>, usize) -> Expr,
}

/// The rates of all components without the flux, zero where nothing contributes.
pub(super) fn rates(w: &mut Writer<'_, '_>, node: &NodeAt<'_>) -> Vec<Expr> {
    let mut physical: BTreeMap<(usize, usize), Expr> = BTreeMap::new();
    (0..w.shape().components).map(|component| rate(w, node, component, &mut physical)).collect()
}

fn rate(
    w: &mut Writer<'_, '_>,
    node: &NodeAt<'_>,
    component: usize,
    physical: &mut BTreeMap<(usize, usize), Expr>,
) -> Expr {
    let cx = w.cx;
    let mut sum: Option<Expr> = None;
    for group in &cx.forms.rates[component] {
        let mut inner: Option<Expr> = None;
        for &(negated, c, axis) in &group.terms {
            let value = match axis {
                None if !node.plain => continue,
                Some(axis) => physical.entry((c, axis)).or_insert_with(|| along_axis(w, node, c, axis)).clone(),
                None => (node.component)(w, c),
            };
            inner = Some(match (inner, negated) {
                (None, false) => value,
                (None, true) => neg(value),
                (Some(sum), false) => add(sum, value),
                (Some(sum), true) => sub(sum, value),
            });
        }
        let Some(inner) = inner else { continue };
        let coefficient = write(w, cx.real, &|w, e| leaf(w, node, e), &group.coefficient);
        let term = mul(coefficient, inner);
        sum = Some(match sum {
            None => term,
            Some(sum) => add(sum, term),
        });
    }
    if node.sources
        && let Some(value) = source(w, node, component)
    {
        sum = Some(match sum {
            None => value,
            Some(sum) => add(sum, value),
        });
    }
    sum.unwrap_or(real(0.0, cx.real))
}

/// The source of a component, if it has one.
pub(super) fn source(w: &mut Writer<'_, '_>, node: &NodeAt<'_>, component: usize) -> Option<Expr> {
    let source = w.cx.forms.sources[component].as_ref()?;
    Some(write(w, w.cx.real, &|w, e| leaf(w, node, e), source))
}

/// d component / d axis = sum over a of grad(l_a) . axis * d component / d l_a, as far as they contribute.
fn along_axis(w: &mut Writer<'_, '_>, node: &NodeAt<'_>, component: usize, axis: usize) -> Expr {
    let term = |a: usize| mul((node.gradient)(a, axis), (node.derivative)(component, a));
    let value = node.along.iter().map(|&a| term(a)).reduce(add).expect("a derivative contributes");
    let name = format!("d{}_{}", ["x", "y", "z"][axis], w.system().components[component]);
    Expr::Var(w.b.bind_here(&name, value))
}

fn leaf(w: &mut Writer<'_, '_>, node: &NodeAt<'_>, e: &SystemExpr) -> Expr {
    match (Leaf::of(w.system()).meaning(e), e) {
        (Some(Meaning::ElementSlot(n)), _) => (node.slot)(w, n),
        (None, SystemExpr::Material(Side::Interior, n)) => w.material(*n, &node.at.element),
        (None, SystemExpr::Param(n)) => w.param(*n),
        (None, SystemExpr::Position(axis)) => w.position(&node.at, &node.node, *axis),
        (None, SystemExpr::Time) => w.time(),
        _ => real(0.0, w.cx.real),
    }
}
