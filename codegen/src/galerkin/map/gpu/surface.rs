//! Faces: what is the same for a face or an element (a lane a face), and flux corrections (a lane a face node).

use super::Gpu;
use crate::galerkin::map::context::Context;
use crate::galerkin::map::faces::{self, FaceAt, Link, Trace, traces};
use crate::galerkin::map::variant::Geometry;
use crate::galerkin::map::writer::{At, Writer};
use crate::kernel::{BufferId, Cmp, Expr, LoopKind, Stmt, VarId};
use crate::map::fold::{self, add, int, mul};

impl Gpu<'_, '_, '_, '_> {
    /// A lane a face: connection, gradients, slots; or copies of what was prepared.
    pub(super) fn face_data(&mut self) {
        let prepared = self.w.cx.variant().geometry == Geometry::Faces;
        self.w.b.comment(match prepared {
            false => "What is the same for a face or an element.",
            true => "What is the same for a face or an element, as it was prepared.",
        });
        if prepared {
            self.prepared();
            if !self.parts.surface {
                return;
            }
        }
        let s = self.shape;
        let faces = 4 * s.microblock;
        let var = self.w.b.open_loop("face");
        let number = Expr::Var(var);
        let inner = self.w.b.bind("inner_element", fold::div(number.clone(), int(4)));
        let face = self.w.b.bind("side", fold::rem(number.clone(), int(4)));
        let element = add(mul(self.microblock.clone(), int(s.microblock as i64)), inner.clone());
        let element = self.w.b.bind("element", element);
        let at = FaceAt { at: At::element(element), face: face.clone() };
        let outward = (!prepared).then(|| faces::outward(self.w, &at));
        if self.parts.surface {
            let link = faces::link(self.w, &at);
            self.connect(&number, &link);
            let slots = outward.as_ref().map_or(Vec::new(), |outward| faces::slots(self.w, &at, &link, outward));
            for (n, slot) in slots.into_iter().enumerate() {
                let to = self.arrays.faces.expect("there is an array for the slots");
                self.w.put(to, add(number.clone(), int((n * faces) as i64)), slot);
            }
        }
        if let Some(outward) = outward.filter(|_| self.parts.volume) {
            let (to, record) = (self.arrays.elements, self.w.cx.record() as i64);
            let put = |w: &mut Writer<'_, '_>, index: Expr, value: Expr| w.put(to, index, value);
            element_record(self.w, &at, &mul(inner, int(record)), outward, &put);
        }
        let body = self.w.b.close();
        let (from, to, step) = (self.lane.clone(), int(faces as i64), self.lanes() as i64);
        self.w.b.push(Stmt::For { var, from, to, step, kind: LoopKind::Sequential, body });
    }

    /// Slots and records of the microblock lie side by side.
    fn prepared(&mut self) {
        let s = self.shape;
        let cx = self.w.cx;
        if let (true, Some(from), Some(to)) = (self.parts.surface, cx.ids.face_values, self.arrays.faces) {
            let len = 4 * s.microblock * cx.forms.face_slots.len();
            self.copy(from, mul(self.microblock.clone(), int(len as i64)), to, len);
        }
        if let (true, Some(from)) = (self.parts.volume, cx.ids.element_values) {
            let len = s.microblock * cx.record();
            self.copy(from, mul(self.microblock.clone(), int(len as i64)), self.arrays.elements, len);
        }
    }

    /// First value of the neighbour in the state, first entry of its met nodes, tag.
    fn connect(&mut self, number: &Expr, link: &Link) {
        let s = self.shape;
        let pack = int(s.parallel as i64);
        let of_pack =
            mul(fold::div(link.neighbour.clone(), pack.clone()), int((s.components * s.parallel * s.nodes) as i64));
        let inside = mul(fold::rem(link.neighbour.clone(), pack), int(s.nodes as i64));
        let first_met = faces::first_met(self.w, link);
        let all = [
            (self.arrays.base, add(of_pack, inside)),
            (self.arrays.first_met, first_met),
            (self.arrays.tag, link.tag.clone()),
        ];
        for (array, value) in all {
            if let Some(array) = array {
                self.w.put(array, number.clone(), value);
            }
        }
    }

    /// A lane a face node of an element of its group. What does not fill all lanes comes last.
    pub(super) fn surface(&mut self) {
        let s = self.shape;
        self.w.b.comment("Flux corrections at the face nodes.");
        let points = s.inline * s.all_face_nodes;
        let whole = points / s.lanes;
        if whole > 0 {
            let var = self.w.b.open_loop("round");
            let point = add(mul(Expr::Var(var), int(s.lanes as i64)), self.node.clone());
            self.face_point(point);
            let body = self.w.b.close();
            let (from, to, kind) = (int(0), int(whole as i64), LoopKind::Unroll(self.w.cx.variant().gather));
            self.w.b.push(Stmt::For { var, from, to, step: 1, kind, body });
        }
        if !points.is_multiple_of(s.lanes) {
            let point = self.w.b.bind("last_point", add(self.node.clone(), int((whole * s.lanes) as i64)));
            self.w.b.open_if();
            self.face_point(point.clone());
            self.w.b.close_if(fold::compare(Cmp::Lt, point, int(points as i64)));
        }
    }

    /// The corrections at a face node, by its number among those of the group.
    fn face_point(&mut self, point: Expr) {
        let s = self.shape;
        let per_element = int(s.all_face_nodes as i64);
        let point = self.w.b.bind("point", point);
        let one = s.inline == 1;
        let i = if one { int(0) } else { self.w.b.bind("turn", fold::div(point.clone(), per_element.clone())) };
        let place = if one { point } else { self.w.b.bind("place", fold::rem(point, per_element)) };
        let side = self.w.b.bind("side", fold::div(place.clone(), int(s.face_nodes as i64)));
        let along = self.w.b.bind("along", fold::rem(place.clone(), int(s.face_nodes as i64)));
        let group = self.group.clone();
        let inner = self.w.b.bind("inner_element", add(mul(i.clone(), int(s.parallel as i64)), group.clone()));
        let number = self.w.b.bind("face", add(mul(inner.clone(), int(4)), side));
        let table = self.split_ids().map(|ids| (ids.own_places, ids.flux_places));
        // Where parts are formed the node matters only for its position.
        let of_node = table.filter(|_| !self.w.cx.reads_position()).map_or(self.w.cx.ids.face_nodes, |table| table.0);
        let own = self.w.load(of_node, place.clone());
        let own = self.w.b.bind("own_node", own);
        let (mut shared, mut to) = (own.clone(), place.clone());
        if let Some((own_places, flux_places)) = table {
            let (from, stored) = (self.w.load(own_places, place.clone()), self.w.load(flux_places, place));
            shared = self.w.b.bind("own_place", from);
            to = self.w.b.bind("flux_place", stored);
        }
        let at = FacePoint { number, place: to, along, inner, i, group, own, shared };
        let values = self.traces(&at);
        let slots: Vec<(usize, Expr)> = faces::slots_read(self.w.cx)
            .into_iter()
            .map(|n| (n, face_slot(self.w, self.arrays.faces, &at.number, n, 4 * s.microblock)))
            .collect();
        let flux = self.arrays.flux.expect("surface kernels have fluxes");
        let corrections: Vec<Expr> = (0..s.components).map(|c| faces::correction(self.w, c, &values, &slots)).collect();
        for (c, value) in corrections.into_iter().enumerate() {
            let row = add(mul(at.i.clone(), int(s.components as i64)), int(c as i64));
            let index = self.flux(&at.group, row, at.place.clone());
            self.w.put(flux, index, value);
        }
    }

    /// Interior and exterior values and jumps at a face node, as far as they are read.
    fn traces(&mut self, at: &FacePoint) -> Vec<(Trace, Expr)> {
        let s = self.shape;
        let wanted = traces(self.w.cx);
        let reads = |c: usize, side: fn(usize) -> Trace| wanted.contains(&side(c)) || wanted.contains(&Trace::Jump(c));
        let outside: Vec<usize> = (0..s.components).filter(|&c| reads(c, Trace::Exterior)).collect();
        let exterior = self.exterior(at, &outside);
        let mut list = Vec::new();
        for c in 0..s.components {
            if reads(c, Trace::Interior) {
                let value = interior(
                    self.w,
                    self.arrays.fields,
                    &self.microblock,
                    self.field(
                        &at.group,
                        add(mul(at.i.clone(), int(s.components as i64)), int(c as i64)),
                        at.shared.clone(),
                    ),
                    at,
                    c,
                );
                list.push((Trace::Interior(c), value));
            }
        }
        for (c, value) in outside.into_iter().zip(exterior) {
            list.push((Trace::Exterior(c), value));
        }
        for c in 0..s.components {
            if wanted.contains(&Trace::Jump(c)) {
                let find =
                    |trace: Trace| list.iter().find(|(t, _)| *t == trace).expect("both sides of a jump").1.clone();
                let value = fold::sub(find(Trace::Exterior(c)), find(Trace::Interior(c)));
                let name = format!("jump_{}", self.w.system().components[c]);
                let jump = Expr::Var(self.w.b.bind_here(&name, value));
                list.push((Trace::Jump(c), jump));
            }
        }
        list
    }

    /// The neighbour's values, replaced at boundaries.
    fn exterior(&mut self, at: &FacePoint, components: &[usize]) -> Vec<Expr> {
        let s = self.shape;
        let load = |array: Option<BufferId>| {
            Expr::Load(array.expect("surface kernels have connections"), Box::new(at.number.clone()))
        };
        let (base, first) = (load(self.arrays.base), load(self.arrays.first_met));
        let met = self.w.load(self.w.cx.ids.met_nodes, add(first, at.along.clone()));
        let met = Expr::Var(self.w.b.bind_here("met_node", met));
        let base = Expr::Var(self.w.b.bind_here("met_value", add(base, met)));
        let changed = |c: usize| self.w.system().boundaries.iter().any(|b| Context::changes(b, c).is_some());
        let mutable: Vec<bool> = components.iter().map(|&c| changed(c)).collect();
        let mut vars: Vec<VarId> = Vec::new();
        for (&c, &mutable) in components.iter().zip(&mutable) {
            let index = add(base.clone(), int((c * s.parallel * s.nodes) as i64));
            let value = self.w.load(self.w.cx.ids.state[0], index);
            let name = format!("exterior_{}", self.w.system().components[c]);
            vars.push(if mutable { self.w.b.declare(&name, value) } else { self.w.b.bind_here(&name, value) });
        }
        self.boundaries(at, components, &vars);
        vars.into_iter().map(Expr::Var).collect()
    }

    fn boundaries(&mut self, at: &FacePoint, components: &[usize], vars: &[VarId]) {
        let s = self.shape;
        let Some(tags) = self.arrays.tag else { return };
        let tag = Expr::Var(self.w.b.bind_here("tag", Expr::Load(tags, Box::new(at.number.clone()))));
        let element = add(mul(self.microblock.clone(), int(s.microblock as i64)), at.inner.clone());
        let element = self.w.b.bind("element", element);
        let (fields, face_data, microblock) = (self.arrays.fields, self.arrays.faces, self.microblock.clone());
        let row = |c: usize| add(mul(at.i.clone(), int(s.components as i64)), int(c as i64));
        let places: Vec<Expr> = (0..s.components).map(|c| self.field(&at.group, row(c), at.shared.clone())).collect();
        for (number, boundary) in self.w.system().boundaries.iter().enumerate() {
            let changes: Vec<(VarId, usize)> = components
                .iter()
                .zip(vars)
                .filter(|&(&c, _)| Context::changes(boundary, c).is_some())
                .map(|(&c, &v)| (v, c))
                .collect();
            if changes.is_empty() {
                continue;
            }
            let here = fold::compare(Cmp::Eq, tag.clone(), int(number as i64 + 1));
            self.w.when(here, |w| {
                w.b.comment(format!("Boundary {}.", boundary.tag));
                let inside =
                    |w: &mut Writer<'_, '_>, c: usize| interior(w, fields, &microblock, places[c].clone(), at, c);
                let slot = |w: &mut Writer<'_, '_>, n: usize| face_slot(w, face_data, &at.number, n, 4 * s.microblock);
                let element = At::element(element.clone());
                for (var, c) in changes {
                    let value = faces::boundary_value(w, &boundary.components[c], &element, &at.own, &inside, &slot);
                    w.b.push(Stmt::Assign(var, value));
                }
            });
        }
    }
}

/// Writes an element's record from an index on: faces 1 to 3 the gradients of their coordinate, face 0 the slots.
pub(super) fn element_record(
    w: &mut Writer<'_, '_>,
    at: &FaceAt,
    first: &Expr,
    outward: [Expr; 3],
    put: &dyn Fn(&mut Writer<'_, '_>, Expr, Expr),
) {
    let later = fold::compare(Cmp::Gt, at.face.clone(), int(0));
    let row = mul(fold::sub(at.face.clone(), int(1)), int(3));
    w.when(later, |w| {
        for (axis, value) in outward.into_iter().enumerate() {
            put(w, add(add(first.clone(), row.clone()), int(axis as i64)), fold::neg(value));
        }
    });
    if !w.cx.forms.element_slots.is_empty() {
        let zero = fold::compare(Cmp::Eq, at.face.clone(), int(0));
        w.when(zero, |w| {
            for (n, value) in faces::element_slots(w, &at.at).into_iter().enumerate() {
                put(w, add(first.clone(), int(9 + n as i64)), value);
            }
        });
    }
}

/// A face node of a microblock.
struct FacePoint {
    /// Face of the microblock.
    number: Expr,
    /// Place of the face node's flux among those of the element, and the node of the face.
    place: Expr,
    along: Expr,
    /// Element of the microblock, as inline number and group.
    inner: Expr,
    i: Expr,
    group: Expr,
    /// Node of the element, and its place among the shared fields.
    own: Expr,
    shared: Expr,
}

/// The own value of a component at a face node.
fn interior(
    w: &mut Writer<'_, '_>,
    fields: Option<BufferId>,
    microblock: &Expr,
    field: Expr,
    at: &FacePoint,
    c: usize,
) -> Expr {
    let s = w.shape();
    let value = match fields {
        Some(fields) => Expr::Load(fields, Box::new(field)),
        None => {
            let first = mul(microblock.clone(), int((s.microblock * s.components * s.nodes) as i64));
            let row = add(mul(at.i.clone(), int(s.components as i64)), int(c as i64));
            let row = mul(row, int((s.parallel * s.nodes) as i64));
            let inside = add(mul(at.group.clone(), int(s.nodes as i64)), at.own.clone());
            w.load(w.cx.ids.state[0], add(add(first, row), inside))
        }
    };
    let name = w.system().components[c].clone();
    Expr::Var(w.b.bind_here(&name, value))
}

fn face_slot(w: &mut Writer<'_, '_>, array: Option<BufferId>, number: &Expr, n: usize, faces: usize) -> Expr {
    let array = array.expect("slots that are read have an array");
    let value = Expr::Load(array, Box::new(add(number.clone(), int((n * faces) as i64))));
    Expr::Var(w.b.bind_here("face_value", value))
}
