//! Element kernels for the host: a block is a pack of elements, one per SIMD lane; every inner loop is over lanes.
//!
//! Phases: what is the same for a face or element; flux corrections at the face nodes; then, some nodes at a time, the
//! derivatives along the three reference coordinates (a load of the field serves all rows of these nodes), geometry and
//! materials, the lift, and the assignments of the time step.

use super::Parts;
use super::context::{Context, Shape};
use super::faces::{self, FaceAt, Trace, traces};
use super::rates::{NodeAt, rates};
use super::update;
use super::writer::{At, Made, Writer};
use crate::kernel::{BufferId, Cmp, Expr, LoopKind, Op, Space, Stmt, VarId};
use crate::map::fold::{self, add, int, mul, real};

/// Sums that stay in registers: three quarters of the sixteen that vectors of x86-64 with AVX2 have.
const SUMS: usize = 12;

/// Private arrays; lanes are adjacent in all of them.
struct Arrays {
    /// `[slot or gradient]`, of the elements.
    elements: BufferId,
    /// `[face][slot]`.
    faces: Option<BufferId>,
    /// `[face]`: first value of the neighbour, first entry of `met_nodes`, tag.
    base: BufferId,
    first_met: BufferId,
    tag: BufferId,
    /// `[component]`: exterior values at a face node.
    exterior: BufferId,
    /// `[component][face node]`.
    flux: BufferId,
    /// `[component][coordinate][node of the tile]`.
    derivatives: BufferId,
    /// `[component][node of the tile]`.
    rates: BufferId,
}

struct Host<'w, 'c, 'a, 'p> {
    w: &'w mut Writer<'c, 'a>,
    parts: Parts<'p>,
    shape: Shape,
    arrays: Arrays,
}

/// Writes the kernel of some parts of a stage.
pub(super) fn kernel(cx: &Context<'_>, parts: Parts<'_>) -> Made {
    let shape = cx.shape;
    let mut w = Writer::new(cx, parts.name(), &parts.stored(cx));
    let arrays = arrays(&mut w);
    let mut host = Host { w: &mut w, parts, shape, arrays };
    host.face_data();
    if parts.surface {
        (0..4).for_each(|face| host.surface(face));
    }
    host.tiles();
    w.finish(shape.padded / shape.parallel, [1, 1, 1])
}

fn arrays(w: &mut Writer<'_, '_>) -> Arrays {
    let cx = w.cx;
    let s = cx.shape;
    let (pack, slots) = (s.parallel, cx.forms.face_slots.len());
    let ints = |w: &mut Writer<'_, '_>, name: &str| w.b.local(name, Space::Private, cx.integer(), 4 * pack as u64);
    Arrays {
        elements: w.private("element_data", (9 + cx.forms.element_slots.len()) * pack),
        faces: (slots > 0).then(|| w.private("face_data", 4 * slots * pack)),
        base: ints(w, "neighbour_values"),
        first_met: ints(w, "first_met_node"),
        tag: ints(w, "face_tag"),
        exterior: w.private("exterior", s.components * pack),
        flux: w.private("flux", s.components * s.all_face_nodes * pack),
        derivatives: w.private("derivatives", 3 * s.components * s.inline * pack),
        rates: w.private("rates", s.components * s.inline * pack),
    }
}

impl Host<'_, '_, '_, '_> {
    /// A loop over the lanes, with the element of a lane.
    fn lanes(&mut self, kind: LoopKind, body: impl FnOnce(&mut Self, Expr, At)) {
        let pack = self.shape.parallel as i64;
        let var = self.w.b.open_loop("lane");
        let lane = Expr::Var(var);
        let at =
            At { element: add(mul(Expr::Block(0), int(pack)), lane.clone()), pack: Expr::Block(0), lane: lane.clone() };
        body(self, lane, at);
        let body = self.w.b.close();
        self.w.b.push(Stmt::For { var, from: int(0), to: int(pack), step: 1, kind, body });
    }

    fn simd(&mut self, body: impl FnOnce(&mut Self, Expr, At)) {
        self.lanes(LoopKind::Simd(vec![]), body);
    }

    /// Index in a private array.
    fn of(&self, row: Expr, lane: &Expr) -> Expr {
        add(mul(row, int(self.shape.parallel as i64)), lane.clone())
    }

    fn private(&self, array: BufferId, row: Expr, lane: &Expr) -> Expr {
        Expr::Load(array, Box::new(self.of(row, lane)))
    }

    /// Index in the state.
    fn value(&self, component: usize, node: Expr, lane: &Expr) -> Expr {
        let s = self.shape;
        let row = add(mul(Expr::Block(0), int((s.components * s.nodes) as i64)), int((component * s.nodes) as i64));
        self.of(add(row, node), lane)
    }

    fn face_data(&mut self) {
        self.w.b.comment("What is the same for a face or an element.");
        for face in 0..4 {
            self.simd(|host, lane, at| host.one_face(face, lane, at));
        }
    }

    fn one_face(&mut self, face: usize, lane: Expr, at: At) {
        let s = self.shape;
        let place = FaceAt { at: at.clone(), face: int(face as i64) };
        let outward = faces::outward(self.w, &place);
        if self.parts.surface {
            let link = faces::link(self.w, &place);
            let pack = int(s.parallel as i64);
            let group = fold::div(link.neighbour.clone(), pack.clone());
            let base = add(
                mul(group, int((s.components * s.nodes * s.parallel) as i64)),
                fold::rem(link.neighbour.clone(), pack),
            );
            let first_met = faces::first_met(self.w, &link);
            let row = self.of(int(face as i64), &lane);
            self.w.put(self.arrays.base, row.clone(), base);
            self.w.put(self.arrays.first_met, row.clone(), first_met);
            self.w.put(self.arrays.tag, row, link.tag.clone());
            let slots = faces::slots(self.w, &place, &link, &outward);
            let count = slots.len();
            for (n, slot) in slots.into_iter().enumerate() {
                let index = self.of(int((face * count + n) as i64), &lane);
                self.w.put(self.arrays.faces.expect("there is an array for the slots"), index, slot);
            }
        }
        if face > 0 {
            for (axis, value) in outward.into_iter().enumerate() {
                let index = self.of(int((3 * (face - 1) + axis) as i64), &lane);
                self.w.put(self.arrays.elements, index, fold::neg(value));
            }
        } else {
            for (n, value) in faces::element_slots(self.w, &at).into_iter().enumerate() {
                let index = self.of(int(9 + n as i64), &lane);
                self.w.put(self.arrays.elements, index, value);
            }
        }
    }

    fn surface(&mut self, face: usize) {
        let s = self.shape;
        self.w.b.comment(format!("Flux corrections at face {face}."));
        let boundaries = !self.w.system().boundaries.is_empty();
        let edge = boundaries.then(|| {
            let edge = self.w.b.declare("boundary_faces", int(0));
            self.lanes(LoopKind::Simd(vec![edge]), |host, lane, _| {
                let tag = host.private(host.arrays.tag, int(face as i64), &lane);
                host.w.b.push(Stmt::Assign(edge, fold::binary(Op::Add, Expr::Var(edge), tag)));
            });
            edge
        });
        let var = self.w.b.open_loop("along");
        let along = Expr::Var(var);
        let place = add(along.clone(), int((face * s.face_nodes) as i64));
        let own = self.w.load(self.w.cx.ids.face_nodes, place.clone());
        let own = self.w.b.bind("own_node", own);
        self.simd(|host, lane, _| host.exterior(face, &along, &lane));
        if let Some(edge) = edge {
            let any = fold::compare(Cmp::Gt, Expr::Var(edge), int(0));
            self.w.b.open_if();
            self.lanes(LoopKind::Sequential, |host, lane, at| host.boundaries(face, &own, &lane, &at));
            self.w.b.close_if(any);
        }
        self.simd(|host, lane, _| host.corrections(face, &own, &place, &lane));
        let body = self.w.b.close();
        let (from, to) = (int(0), int(s.face_nodes as i64));
        self.w.b.push(Stmt::For { var, from, to, step: 1, kind: LoopKind::Sequential, body });
    }

    /// The neighbours' values.
    fn exterior(&mut self, face: usize, along: &Expr, lane: &Expr) {
        let s = self.shape;
        let first = self.private(self.arrays.first_met, int(face as i64), lane);
        let met = self.w.load(self.w.cx.ids.met_nodes, add(first, along.clone()));
        let met = Expr::Var(self.w.b.bind_here("met_node", met));
        let base = self.private(self.arrays.base, int(face as i64), lane);
        let base = add(base, mul(met, int(s.parallel as i64)));
        let base = Expr::Var(self.w.b.bind_here("met_value", base));
        for c in self.read(Trace::Exterior) {
            let index = add(base.clone(), int((c * s.nodes * s.parallel) as i64));
            let value = self.w.load(self.w.cx.ids.state[0], index);
            let to = self.of(int(c as i64), lane);
            self.w.put(self.arrays.exterior, to, value);
        }
    }

    /// Components that corrections read on a side.
    fn read(&self, side: fn(usize) -> Trace) -> Vec<usize> {
        let wanted = traces(self.w.cx);
        let reads = |&c: &usize| wanted.contains(&side(c)) || wanted.contains(&Trace::Jump(c));
        (0..self.shape.components).filter(reads).collect()
    }

    fn boundaries(&mut self, face: usize, own: &Expr, lane: &Expr, at: &At) {
        let tag = self.private(self.arrays.tag, int(face as i64), lane);
        let tag = Expr::Var(self.w.b.bind_here("tag", tag));
        let read = self.read(Trace::Exterior);
        let slots = self.w.cx.forms.face_slots.len();
        let values: Vec<Expr> = (0..self.shape.components).map(|c| self.value(c, own.clone(), lane)).collect();
        let records: Vec<Expr> = (0..slots).map(|n| self.of(int((face * slots + n) as i64), lane)).collect();
        let faces = self.arrays.faces;
        for (number, boundary) in self.w.system().boundaries.iter().enumerate() {
            self.w.b.open_if();
            for &c in &read {
                let Some(e) = Context::changes(boundary, c) else { continue };
                let inside = |w: &mut Writer<'_, '_>, c: usize| {
                    let value = w.load(w.cx.ids.state[0], values[c].clone());
                    w.b.bind(&w.cx.system.components[c], value)
                };
                let slot = |_: &mut Writer<'_, '_>, n: usize| {
                    Expr::Load(faces.expect("slots that are read have an array"), Box::new(records[n].clone()))
                };
                let value = faces::boundary_value(self.w, e, at, own, &inside, &slot);
                let to = self.of(int(c as i64), lane);
                self.w.put(self.arrays.exterior, to, value);
            }
            self.w.b.close_if(fold::compare(Cmp::Eq, tag.clone(), int(number as i64 + 1)));
        }
    }

    fn corrections(&mut self, face: usize, own: &Expr, place: &Expr, lane: &Expr) {
        let s = self.shape;
        let mut values = Vec::new();
        for c in self.read(Trace::Interior) {
            let value = self.w.load(self.w.cx.ids.state[0], self.value(c, own.clone(), lane));
            let name = &self.w.system().components[c];
            values.push((Trace::Interior(c), Expr::Var(self.w.b.bind_here(name, value))));
        }
        for c in self.read(Trace::Exterior) {
            let value = self.private(self.arrays.exterior, int(c as i64), lane);
            let name = format!("exterior_{}", self.w.system().components[c]);
            values.push((Trace::Exterior(c), Expr::Var(self.w.b.bind_here(&name, value))));
        }
        for trace in traces(self.w.cx) {
            let Trace::Jump(c) = trace else { continue };
            let find = |wanted| values.iter().find(|(t, _)| *t == wanted).expect("both sides of a jump").1.clone();
            let value = fold::sub(find(Trace::Exterior(c)), find(Trace::Interior(c)));
            let name = format!("jump_{}", self.w.system().components[c]);
            values.push((trace, Expr::Var(self.w.b.bind_here(&name, value))));
        }
        let count = self.w.cx.forms.face_slots.len();
        let mut slots = Vec::new();
        for n in faces::slots_read(self.w.cx) {
            let array = self.arrays.faces.expect("slots that are read have an array");
            let value = self.private(array, int((face * count + n) as i64), lane);
            slots.push((n, Expr::Var(self.w.b.bind_here("face_value", value))));
        }
        for c in 0..s.components {
            let value = faces::correction(self.w, c, &values, &slots);
            let index = self.of(add(int((c * s.all_face_nodes) as i64), place.clone()), lane);
            self.w.put(self.arrays.flux, index, value);
        }
    }

    /// Some nodes at a time, then those that are left over.
    fn tiles(&mut self) {
        let s = self.shape;
        let whole = s.nodes / s.inline * s.inline;
        if whole > 0 {
            let var = self.w.b.open_loop("first_node");
            self.tile(Expr::Var(var), s.inline);
            let body = self.w.b.close();
            let (from, to) = (int(0), int(whole as i64));
            self.w.b.push(Stmt::For { var, from, to, step: s.inline as i64, kind: LoopKind::Sequential, body });
        }
        if whole < s.nodes {
            self.tile(int(whole as i64), s.nodes - whole);
        }
    }

    fn tile(&mut self, first: Expr, size: usize) {
        let s = self.shape;
        let all: Vec<usize> = (0..s.components).collect();
        if self.parts.volume {
            let moved: Vec<usize> = all.iter().copied().filter(|&c| self.w.cx.differentiated(c)).collect();
            for group in moved.chunks((SUMS / (3 * size)).max(1)) {
                self.simd(|host, lane, _| host.derivatives(group, &first, size, &lane));
            }
            for t in 0..size {
                self.simd(|host, lane, at| host.rates(t, &first, &lane, at));
            }
        }
        if self.parts.surface {
            for group in all.chunks((SUMS / size).max(1)) {
                self.simd(|host, lane, _| host.lift(group, &first, size, &lane));
            }
        }
        for t in 0..size {
            self.simd(|host, lane, _| host.finish(t, &first, &lane));
        }
    }

    /// Row of a tile's rate.
    fn rate_row(&self, c: usize, t: usize) -> Expr {
        int((c * self.shape.inline + t) as i64)
    }

    fn derivative_row(&self, c: usize, a: usize, t: usize) -> Expr {
        int(((3 * c + a) * self.shape.inline + t) as i64)
    }

    /// Derivatives of some components at the nodes of a tile: an entry of the matrix serves all of these components, a
    /// value of the field all rows.
    fn derivatives(&mut self, group: &[usize], first: &Expr, size: usize, lane: &Expr) {
        let s = self.shape;
        let cx = self.w.cx;
        let rows: Vec<(usize, usize)> = (0..size).flat_map(|t| (0..3).map(move |a| (t, a))).collect();
        let mut sums = Vec::new();
        for &c in group {
            for &(_, a) in &rows {
                let name = format!("d{}_{}", a + 1, cx.system.components[c]);
                sums.push(self.w.b.declare(&name, real(0.0, cx.real)));
            }
        }
        let column = self.w.b.open_loop("column");
        let mut values = Vec::new();
        for &c in group {
            let value = self.w.load(cx.ids.state[0], self.value(c, Expr::Var(column), lane));
            values.push(Expr::Var(self.w.b.bind_here(&cx.system.components[c], value)));
        }
        for (number, &(t, a)) in rows.iter().enumerate() {
            let row = add(first.clone(), int((a * s.nodes + t) as i64));
            let entry = self.w.load(cx.ids.derivative, add(mul(row, int(s.nodes as i64)), Expr::Var(column)));
            self.accumulate(entry, &values, sums[number..].iter().step_by(rows.len()));
        }
        self.close_sequential(column, s.nodes);
        let mut sums = sums.into_iter();
        for &c in group {
            for &(t, a) in &rows {
                let sum = sums.next().expect("a sum for every row of every component");
                let index = self.of(self.derivative_row(c, a, t), lane);
                self.w.put(self.arrays.derivatives, index, Expr::Var(sum));
            }
        }
    }

    /// Adds the products of a matrix entry with values to a sum each.
    fn accumulate<'s>(&mut self, entry: Expr, values: &[Expr], sums: impl Iterator<Item = &'s VarId>) {
        let entry = if values.len() > 1 { Expr::Var(self.w.b.bind_here("entry", entry)) } else { entry };
        for (value, &sum) in values.iter().zip(sums) {
            self.w.b.push(Stmt::Assign(sum, add(Expr::Var(sum), mul(entry.clone(), value.clone()))));
        }
    }

    fn close_sequential(&mut self, var: VarId, count: usize) {
        let body = self.w.b.close();
        let (from, to) = (int(0), int(count as i64));
        self.w.b.push(Stmt::For { var, from, to, step: 1, kind: LoopKind::Sequential, body });
    }

    fn rates(&mut self, t: usize, first: &Expr, lane: &Expr, at: At) {
        let s = self.shape;
        let node = add(first.clone(), int(t as i64));
        let own: Vec<Expr> = (0..s.components).map(|c| self.value(c, node.clone(), lane)).collect();
        let row = |a: usize, c: usize| self.private(self.arrays.derivatives, self.derivative_row(c, a, t), lane);
        let derivatives: Vec<Vec<Expr>> = (0..s.components).map(|c| (0..3).map(|a| row(a, c)).collect()).collect();
        let slots = 9 + self.w.cx.forms.element_slots.len();
        let data: Vec<Expr> = (0..slots).map(|n| self.private(self.arrays.elements, int(n as i64), lane)).collect();
        let values = rates(
            self.w,
            &NodeAt {
                at,
                node,
                derivative: &|c, a| derivatives[c][a].clone(),
                gradient: &|a, axis| data[3 * a + axis].clone(),
                component: &|w, c| {
                    let value = w.load(w.cx.ids.state[0], own[c].clone());
                    w.b.bind(&w.cx.system.components[c], value)
                },
                slot: &|_, n| data[9 + n].clone(),
                along: &[0, 1, 2],
                plain: true,
                sources: true,
            },
        );
        for (c, value) in values.into_iter().enumerate() {
            let index = self.of(self.rate_row(c, t), lane);
            self.w.put(self.arrays.rates, index, value);
        }
    }

    /// The lift of some components at the nodes of a tile.
    fn lift(&mut self, group: &[usize], first: &Expr, size: usize, lane: &Expr) {
        let s = self.shape;
        let cx = self.w.cx;
        let mut sums = Vec::new();
        for &c in group {
            for t in 0..size {
                let value = if self.parts.volume {
                    self.private(self.arrays.rates, self.rate_row(c, t), lane)
                } else {
                    let index = self.value(c, add(first.clone(), int(t as i64)), lane);
                    self.w.load(self.parts.rate, index)
                };
                sums.push(self.w.b.declare(&format!("rate_{}", cx.system.components[c]), value));
            }
        }
        let place = self.w.b.open_loop("place");
        let mut values = Vec::new();
        for &c in group {
            let row = add(int((c * s.all_face_nodes) as i64), Expr::Var(place));
            let value = self.private(self.arrays.flux, row, lane);
            values.push(Expr::Var(self.w.b.bind_here(&format!("flux_{}", cx.system.components[c]), value)));
        }
        for t in 0..size {
            let row = mul(add(first.clone(), int(t as i64)), int(s.all_face_nodes as i64));
            let entry = self.w.load(cx.ids.lift, add(row, Expr::Var(place)));
            self.accumulate(entry, &values, sums[t..].iter().step_by(size));
        }
        self.close_sequential(place, s.all_face_nodes);
        let mut sums = sums.into_iter();
        for &c in group {
            for t in 0..size {
                let sum = sums.next().expect("a sum for every node of every component");
                let index = self.of(self.rate_row(c, t), lane);
                self.w.put(self.arrays.rates, index, Expr::Var(sum));
            }
        }
    }

    fn finish(&mut self, t: usize, first: &Expr, lane: &Expr) {
        let cx = self.w.cx;
        for c in 0..self.shape.components {
            let index = self.value(c, add(first.clone(), int(t as i64)), lane);
            let rate = self.private(self.arrays.rates, self.rate_row(c, t), lane);
            let Some(pattern) = self.parts.update else {
                self.w.store(self.parts.rate, index, rate);
                continue;
            };
            let state = self.w.load(cx.ids.state[0], index.clone());
            let state = Expr::Var(self.w.b.bind_here("state", state));
            let mut registers = vec![None; cx.ids.registers.len()];
            registers[0] = Some(state.clone());
            update::load(self.w, pattern, &mut registers, &index);
            let new = update::advance(self.w, pattern, registers, rate);
            if new.iter().all(|&(register, _)| register != 0) {
                self.w.store(cx.ids.state[1], index.clone(), state);
            }
            for (register, value) in new {
                self.w.store(cx.target(register), index.clone(), value);
            }
        }
    }
}
