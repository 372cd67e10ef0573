//! The energy, and the clock.
//!
//! energy = sum over elements of 6 V * sum over components of w_c * (values . mass * values), in f64, in a fixed order:
//! per block first, then over the blocks by one.

use super::context::Context;
use super::expression::write;
use super::writer::{At, Made, Writer};
use crate::galerkin::system::{Expr as SystemExpr, Side};
use crate::kernel::{Cmp, Element, Expr, LoopKind, Space, Stmt, Type, VarId};
use crate::map::fold::{self, add, int, mul, real};

/// Lanes of the block that adds the blocks' sums, and of the second level within a block.
const LANES: usize = 256;
const GROUP: usize = 32;

/// Weight of a component on an element, in f64.
fn weight(w: &mut Writer<'_, '_>, component: usize, at: &At) -> Expr {
    let cx = w.cx;
    let leaves = |w: &mut Writer<'_, '_>, e: &SystemExpr| match e {
        SystemExpr::Material(Side::Interior, n) => {
            let value = w.material(*n, &at.element);
            fold::cast(Type::F64, w.cx.real, value)
        }
        SystemExpr::Param(n) => {
            let id = w.cx.ids.params.expect("a system with parameters has a buffer of them");
            w.load(id, int(*n as i64))
        }
        _ => real(0.0, Type::F64),
    };
    write(w, Type::F64, &leaves, &cx.energy.weights[component])
}

/// Adds to a sum.
fn accumulate(w: &mut Writer<'_, '_>, sum: VarId, value: Expr) {
    w.b.push(Stmt::Assign(sum, add(Expr::Var(sum), value)));
}

/// The kernel of a block's energy.
pub(super) fn partial(cx: &Context<'_>) -> Made {
    if cx.layout.interleaved { host_partial(cx) } else { gpu_partial(cx) }
}

fn gpu_partial(cx: &Context<'_>) -> Made {
    let s = cx.shape;
    let mut w = Writer::new(cx, "energy", &[cx.ids.partial]);
    let node = w.b.bind("node", Expr::Lane(0));
    let group = w.b.bind("group", Expr::Lane(1));
    let sum = w.b.declare("energy_of_lane", real(0.0, Type::F64));
    w.count("turn", s.inline, LoopKind::Sequential, |w, i| {
        let row = add(mul(Expr::Block(0), int(s.inline as i64)), i);
        let row = w.b.bind("row", row);
        let element = add(mul(row.clone(), int(s.parallel as i64)), group.clone());
        let at = At::element(w.b.bind("element", element));
        let measure = w.load(w.cx.ids.measure, at.element.clone());
        let measure = w.b.bind("measure", measure);
        for c in 0..s.components {
            let first = add(mul(row.clone(), int(s.components as i64)), int(c as i64));
            let first = add(mul(first, int((s.parallel * s.nodes) as i64)), mul(group.clone(), int(s.nodes as i64)));
            let first = w.b.bind("first", first);
            let product = row_product(w, |w, m| w.load(w.cx.ids.state[0], add(first.clone(), m)), &node);
            let own = w.load(w.cx.ids.state[0], add(first.clone(), node.clone()));
            let own = fold::cast(Type::F64, w.cx.real, own);
            let weight = weight(w, c, &at);
            accumulate(w, sum, mul(mul(measure.clone(), weight), mul(own, product)));
        }
    });
    let lanes = s.nodes * s.parallel;
    let lane = w.b.bind("lane", add(mul(group, int(s.nodes as i64)), node));
    let total = in_block(&mut w, sum, &lane, lanes);
    let first = fold::compare(Cmp::Eq, lane, int(0));
    w.when(first, |w| {
        let total = total(w);
        w.store(w.cx.ids.partial, Expr::Block(0), total);
    });
    w.finish(s.padded / s.microblock, [s.nodes as u32, s.parallel as u32, 1])
}

/// (mass * values) at a node.
fn row_product(w: &mut Writer<'_, '_>, value: impl FnOnce(&mut Writer<'_, '_>, Expr) -> Expr, node: &Expr) -> Expr {
    let nodes = w.shape().nodes;
    let product = w.b.declare("product", real(0.0, Type::F64));
    w.count("column", nodes, LoopKind::Sequential, |w, m| {
        // The matrix is symmetric: neighbouring nodes read neighbouring entries.
        let entry = w.load(w.cx.ids.mass, add(mul(m.clone(), int(nodes as i64)), node.clone()));
        let value = value(w, m);
        let value = fold::cast(Type::F64, w.cx.real, value);
        accumulate(w, product, mul(entry, value));
    });
    Expr::Var(product)
}

/// Adds the sums of a block's lanes: some lanes add strided parts, one adds these. Gives what that one is to do.
fn in_block<'f>(
    w: &mut Writer<'_, '_>,
    sum: VarId,
    lane: &Expr,
    lanes: usize,
) -> impl FnOnce(&mut Writer<'_, '_>) -> Expr + use<'f> {
    let parts = lanes.min(GROUP);
    let all = w.b.local("lane_sums", Space::Shared, Element::F64, lanes as u64);
    let few = w.b.local("part_sums", Space::Shared, Element::F64, parts as u64);
    w.put(all, lane.clone(), Expr::Var(sum));
    w.barrier();
    let early = fold::compare(Cmp::Lt, lane.clone(), int(parts as i64));
    w.when(early, |w| {
        let part = w.b.declare("part", real(0.0, Type::F64));
        w.repeat("other", (lane.clone(), int(lanes as i64), parts as i64), LoopKind::Sequential, |w, n| {
            accumulate(w, part, Expr::Load(all, Box::new(n)));
        });
        w.put(few, lane.clone(), Expr::Var(part));
    });
    w.barrier();
    move |w: &mut Writer<'_, '_>| {
        let total = w.b.declare("total", real(0.0, Type::F64));
        w.count("part_number", parts, LoopKind::Sequential, |w, n| accumulate(w, total, Expr::Load(few, Box::new(n))));
        Expr::Var(total)
    }
}

fn host_partial(cx: &Context<'_>) -> Made {
    let s = cx.shape;
    let pack = s.parallel as i64;
    let mut w = Writer::new(cx, "energy", &[cx.ids.partial]);
    let total = w.b.declare("total", real(0.0, Type::F64));
    w.count("lane", s.parallel, LoopKind::Sequential, |w, lane| {
        let element = w.b.bind("element", add(mul(Expr::Block(0), int(pack)), lane.clone()));
        let at = At { element: element.clone(), pack: Expr::Block(0), lane: lane.clone() };
        let measure = w.load(w.cx.ids.measure, element);
        let measure = w.b.bind("measure", measure);
        for c in 0..s.components {
            let index = |node: Expr| {
                let row = add(mul(Expr::Block(0), int(s.components as i64)), int(c as i64));
                add(mul(add(mul(row, int(s.nodes as i64)), node), int(pack)), lane.clone())
            };
            let weight = weight(w, c, &at);
            let factor = w.b.bind("factor", mul(measure.clone(), weight));
            w.count("node", s.nodes, LoopKind::Sequential, |w, node| {
                let product = row_product(w, |w, m| w.load(w.cx.ids.state[0], index(m)), &node);
                let own = w.load(w.cx.ids.state[0], index(node));
                let own = fold::cast(Type::F64, w.cx.real, own);
                accumulate(w, total, mul(factor.clone(), mul(own, product)));
            });
        }
    });
    w.store(cx.ids.partial, Expr::Block(0), Expr::Var(total));
    w.finish(s.padded / s.parallel, [1, 1, 1])
}

/// The kernel that adds the blocks' energies.
pub(super) fn total(cx: &Context<'_>) -> Made {
    let count = cx.buffers[cx.ids.partial].len as usize;
    let mut w = Writer::new(cx, "total_energy", &[cx.ids.energy]);
    let sum = w.b.declare("energy_of_lane", real(0.0, Type::F64));
    if cx.layout.interleaved {
        w.count("block_number", count, LoopKind::Sequential, |w, n| {
            let part = w.load(w.cx.ids.partial, n);
            accumulate(w, sum, part);
        });
        w.store(cx.ids.energy, int(0), Expr::Var(sum));
        return w.finish(1, [1, 1, 1]);
    }
    let lane = w.b.bind("lane", Expr::Lane(0));
    w.repeat("block_number", (lane.clone(), int(count as i64), LANES as i64), LoopKind::Sequential, |w, n| {
        let part = w.load(w.cx.ids.partial, n);
        accumulate(w, sum, part);
    });
    let total = in_block(&mut w, sum, &lane, LANES);
    let first = fold::compare(Cmp::Eq, lane, int(0));
    w.when(first, |w| {
        let total = total(w);
        w.store(w.cx.ids.energy, int(0), total);
    });
    w.finish(1, [LANES as u32, 1, 1])
}

/// The kernel that ends a step: counts it and sets the time from the count, so that rounding does not add up.
pub(super) fn clock(cx: &Context<'_>) -> Made {
    let clock = cx.ids.clock;
    let mut w = Writer::new(cx, "clock", &[clock]);
    let load = |w: &mut Writer<'_, '_>, n: i64| w.load(clock, int(n));
    let (dt, done, start) = (load(&mut w, 1), load(&mut w, 2), load(&mut w, 3));
    let done = Expr::Var(w.b.bind_here("steps", add(done, real(1.0, Type::F64))));
    let time = Expr::Var(w.b.bind_here("time", add(start, mul(done.clone(), dt))));
    w.store(clock, int(2), done);
    w.store(clock, int(0), time);
    w.finish(1, [1, 1, 1])
}
