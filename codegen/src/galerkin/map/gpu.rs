//! Element kernels for a GPU: a lane is a node (or a few: `rows`) of `parallel` elements side by side and holds `inline`
//! elements in registers.
//!
//! Phases of a microblock, barriers between them:
//! 1. the own state to shared memory (lanes read consecutive words); what is the same for a face or element, a lane a face;
//! 2. a lane a face node: traces of both sides (the neighbour's from global memory, that is from the caches), the flux
//!    correction to shared memory;
//! 3. a lane a node: derivatives along the three reference coordinates, with matrix entries that differ between lanes and
//!    are used for all components of `inline` elements, and fields that are the same for all lanes of an element; then
//!    geometry and materials, the lift of the corrections, and the assignments of the time step.

use super::context::{Context, Shape};
use super::faces::{self, FaceAt, Link, Trace, traces};
use super::rates::{NodeAt, rates};
use super::update::{self, Pattern, Registers};
use super::variant::Home;
use super::writer::{At, Made, Writer};
use crate::kernel::{BufferId, Cmp, Element, Expr, LoopKind, Space, Stmt, VarId};
use crate::map::fold::{self, add, int, mul, real};

/// What a kernel does of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts<'p> {
    /// Derivatives, geometry, sources.
    pub volume: bool,
    /// Fluxes and their lift.
    pub surface: bool,
    /// Assignments of the time step; without them the rate is stored.
    pub update: Option<&'p Pattern>,
    /// Where a rate without update goes.
    pub rate: usize,
}

impl Parts<'_> {
    pub fn name(&self) -> &'static str {
        match (self.volume, self.surface, self.update.is_some()) {
            (true, true, true) => "stage",
            (true, true, false) => "rate",
            (true, false, _) => "volume",
            _ => "surface",
        }
    }
}

/// Shared arrays.
struct Arrays {
    /// `[group][inline element, component][node]`, rows and groups padded.
    fields: Option<BufferId>,
    /// `[group][inline element, component][face node]`.
    flux: Option<BufferId>,
    /// `[element][gradients, slots]`.
    elements: BufferId,
    /// `[slot][face]`.
    faces: Option<BufferId>,
    /// Per face: first value of the neighbour, first entry of `met_nodes`, tag.
    base: Option<BufferId>,
    first_met: Option<BufferId>,
    tag: Option<BufferId>,
    derivative: BufferId,
    lift: Option<BufferId>,
}

/// A group's stride: a multiple of a vector that is an odd number of vectors, so that groups of a warp use different banks.
fn group_stride(len: usize, wide: usize) -> usize {
    let vectors = len.div_ceil(wide);
    (vectors + usize::from(vectors.is_multiple_of(2))) * wide
}

struct Gpu<'w, 'c, 'a, 'p> {
    w: &'w mut Writer<'c, 'a>,
    parts: Parts<'p>,
    shape: Shape,
    arrays: Arrays,
    node: Expr,
    group: Expr,
    /// Number of the lane in the block.
    lane: Expr,
    /// Number of the microblock, and of its first value in the state.
    microblock: Expr,
    own: Expr,
}

/// Writes the kernel of some parts of a stage.
pub(super) fn kernel(cx: &Context<'_>, parts: Parts<'_>) -> Made {
    let shape = cx.shape;
    let stored: Vec<usize> = match parts.update {
        Some(pattern) => pattern.writes().into_iter().map(|r| target(cx, r)).chain([cx.ids.state[1]]).collect(),
        None => vec![parts.rate],
    };
    let mut w = Writer::new(cx, parts.name(), &stored);
    let node = w.b.bind("node", Expr::Lane(0));
    let group = w.b.bind("group", Expr::Lane(1));
    let lane = w.b.bind("lane", add(mul(group.clone(), int(shape.lanes as i64)), node.clone()));
    let arrays = arrays(&mut w, &parts);
    let mut gpu = Gpu { w: &mut w, parts, shape, arrays, node, group, lane, microblock: Expr::Block(0), own: int(0) };
    gpu.before();
    if shape.sequential > 1 {
        let first = gpu.w.b.bind("first_microblock", mul(Expr::Block(0), int(shape.sequential as i64)));
        let var = gpu.w.b.open_loop("turn");
        gpu.microblock = add(first, Expr::Var(var));
        gpu.run();
        gpu.w.barrier();
        let body = gpu.w.b.close();
        let (from, to) = (int(0), int(shape.sequential as i64));
        gpu.w.b.push(Stmt::For { var, from, to, step: 1, kind: LoopKind::Unroll(1), body });
    } else {
        gpu.run();
    }
    w.finish(shape.padded / (shape.microblock * shape.sequential), [shape.lanes as u32, shape.parallel as u32, 1])
}

/// The buffer that a register's new value goes to.
fn target(cx: &Context<'_>, register: usize) -> usize {
    if register == 0 { cx.ids.state[1] } else { cx.ids.registers[register] }
}

fn arrays(w: &mut Writer<'_, '_>, parts: &Parts<'_>) -> Arrays {
    let cx = w.cx;
    let s = cx.shape;
    let faces = 4 * s.microblock;
    let record = (9 + cx.forms.element_slots.len()).next_multiple_of(s.wide);
    let values = s.inline * s.components;
    let fields = (cx.variant().fields == Home::Shared)
        .then(|| w.shared("fields", s.parallel * group_stride(values * s.wide_nodes, s.wide)));
    let flux = parts.surface.then(|| w.shared("flux", s.parallel * group_stride(values * s.all_face_nodes, s.wide)));
    let elements = w.shared("element_data", s.microblock * record);
    let slots = cx.forms.face_slots.len();
    let face_data = (parts.surface && slots > 0).then(|| w.shared("face_data", slots * faces));
    let ints = |w: &mut Writer<'_, '_>, name: &str| w.b.local(name, Space::Shared, integer(cx), faces as u64);
    let base = parts.surface.then(|| ints(w, "neighbour_values"));
    let first_met = parts.surface.then(|| ints(w, "first_met_node"));
    let tag = (parts.surface && !cx.system.boundaries.is_empty()).then(|| ints(w, "face_tag"));
    let shared = cx.variant().matrices == Home::Shared;
    let derivative = match shared && parts.volume {
        true => w.shared("derivative_copy", 3 * s.wide_nodes * s.nodes),
        false => w.input(cx.ids.derivative),
    };
    let lift = parts.surface.then(|| match shared {
        true => w.shared("lift_copy", s.all_face_nodes * s.nodes),
        false => w.input(cx.ids.lift),
    });
    Arrays { fields, flux, elements, faces: face_data, base, first_met, tag, derivative, lift }
}

/// Element type of offsets.
fn integer(cx: &Context<'_>) -> Element {
    if cx.index == crate::kernel::IndexWidth::I64 { Element::I64 } else { Element::I32 }
}

impl Gpu<'_, '_, '_, '_> {
    fn lanes(&self) -> usize {
        self.shape.lanes * self.shape.parallel
    }

    /// Node of a row of the lane.
    fn row_node(&self, row: usize) -> Expr {
        add(self.node.clone(), int((row * self.shape.lanes) as i64))
    }

    /// Numbers of an element in its record: gradients, then slots.
    fn record(&self) -> usize {
        (9 + self.w.cx.forms.element_slots.len()).next_multiple_of(self.shape.wide)
    }

    fn each_value(&self) -> Vec<(usize, usize)> {
        (0..self.shape.inline).flat_map(|i| (0..self.shape.components).map(move |c| (i, c))).collect()
    }

    /// Rows of the lane, with all inline elements and components.
    fn each_sum(&self) -> Vec<(usize, usize, usize)> {
        let values = self.each_value();
        (0..self.shape.rows).flat_map(|r| values.iter().map(move |&(i, c)| (r, i, c)).collect::<Vec<_>>()).collect()
    }

    /// Index in the state of a node of the lane and an inline element.
    fn value(&self, r: usize, i: usize, c: usize) -> Expr {
        let s = self.shape;
        add(self.own.clone(), int(((i * s.components + c) * s.parallel * s.nodes + r * s.lanes) as i64))
    }

    /// Index of a node's value in the shared fields.
    fn field(&self, group: &Expr, row: Expr, node: Expr) -> Expr {
        let s = self.shape;
        let stride = group_stride(s.inline * s.components * s.wide_nodes, s.wide);
        add(add(mul(group.clone(), int(stride as i64)), mul(row, int(s.wide_nodes as i64))), node)
    }

    /// Index of a face node's value in the shared fluxes.
    fn flux(&self, group: &Expr, row: Expr, place: Expr) -> Expr {
        let s = self.shape;
        let stride = group_stride(s.inline * s.components * s.all_face_nodes, s.wide);
        add(add(mul(group.clone(), int(stride as i64)), mul(row, int(s.all_face_nodes as i64))), place)
    }

    /// What is done once a block: padding of the shared fields, matrices.
    fn before(&mut self) {
        let s = self.shape;
        if let Some(fields) = self.arrays.fields
            && s.wide_nodes > s.nodes
        {
            let padding = (s.wide_nodes - s.nodes) as i64;
            self.w.b.comment("Rows end in zeros.");
            let first = fold::compare(Cmp::Lt, self.node.clone(), int(padding));
            let (group, rows) = (self.group.clone(), self.each_value().len());
            let place = add(self.node.clone(), int(s.nodes as i64));
            let indices: Vec<Expr> = (0..rows).map(|row| self.field(&group, int(row as i64), place.clone())).collect();
            let zero = real(0.0, self.w.cx.real);
            self.w.when(first, |w| indices.into_iter().for_each(|index| w.put(fields, index, zero.clone())));
        }
        if self.w.cx.variant().matrices == Home::Shared {
            let ids = &self.w.cx.ids;
            let (derivative, lift) = (ids.derivative, ids.lift);
            if self.parts.volume {
                self.copy(derivative, self.arrays.derivative, 3 * s.wide_nodes * s.nodes);
            }
            if let Some(to) = self.arrays.lift {
                self.copy(lift, to, s.all_face_nodes * s.nodes);
            }
        }
    }

    fn copy(&mut self, from: usize, to: BufferId, len: usize) {
        let range = (self.lane.clone(), int(len as i64), self.lanes() as i64);
        self.w.repeat("entry", range, LoopKind::Sequential, |w, n| {
            let value = w.load(from, n.clone());
            w.put(to, n, value);
        });
    }

    fn run(&mut self) {
        let s = self.shape;
        let first = mul(self.microblock.clone(), int((s.microblock * s.components * s.nodes) as i64));
        let inside = add(mul(self.group.clone(), int(s.nodes as i64)), self.node.clone());
        self.own = self.w.b.bind("own", add(first, inside));
        let values = self.load_fields();
        self.face_data();
        self.store_fields(values);
        self.w.barrier();
        if self.parts.surface {
            self.surface();
            self.w.barrier();
        }
        let mut before = self.registers();
        if self.w.cx.variant().prefetch {
            self.load_registers(&mut before);
        }
        let sums = if self.parts.volume { self.volume() } else { self.stored_rates() };
        if self.parts.surface {
            self.lift(&sums);
        }
        self.finish(&sums, before);
    }

    /// All loads stand together and before what else there is to wait for.
    fn load_fields(&mut self) -> Vec<Expr> {
        if self.arrays.fields.is_none() {
            return Vec::new();
        }
        self.w.b.comment("The own state.");
        let mut values = Vec::new();
        for (r, i, c) in self.each_sum() {
            let value = self.w.load(self.w.cx.ids.state[0], self.value(r, i, c));
            let name = self.w.system().components[c].clone();
            values.push(Expr::Var(self.w.b.bind_here(&name, value)));
        }
        values
    }

    fn store_fields(&mut self, values: Vec<Expr>) {
        let Some(fields) = self.arrays.fields else { return };
        for ((r, i, c), value) in self.each_sum().into_iter().zip(values) {
            let row = int((i * self.shape.components + c) as i64);
            let index = self.field(&self.group.clone(), row, self.row_node(r));
            self.w.put(fields, index, value);
        }
    }

    /// A lane a face: connection, gradients, slots.
    fn face_data(&mut self) {
        let s = self.shape;
        let faces = 4 * s.microblock;
        self.w.b.comment("What is the same for a face or an element.");
        let var = self.w.b.open_loop("face");
        let number = Expr::Var(var);
        let inner = self.w.b.bind("inner_element", fold::div(number.clone(), int(4)));
        let face = self.w.b.bind("side", fold::rem(number.clone(), int(4)));
        let element = add(mul(self.microblock.clone(), int(s.microblock as i64)), inner.clone());
        let element = self.w.b.bind("element", element);
        let at = FaceAt { at: At::element(element), face: face.clone() };
        let outward = faces::outward(self.w, &at);
        if self.parts.surface {
            let link = faces::link(self.w, &at);
            self.connect(&number, &link);
            let slots = faces::slots(self.w, &at, &link, &outward);
            let face_data = self.arrays.faces;
            for (n, slot) in slots.into_iter().enumerate() {
                let to = face_data.expect("there is an array for the slots");
                self.w.put(to, add(number.clone(), int((n * faces) as i64)), slot);
            }
        }
        if self.parts.volume {
            self.element_data(&at, &inner, outward);
        }
        let body = self.w.b.close();
        let (from, to, step) = (self.lane.clone(), int(faces as i64), self.lanes() as i64);
        self.w.b.push(Stmt::For { var, from, to, step, kind: LoopKind::Sequential, body });
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

    /// Faces 1 to 3 store the gradients of their coordinate, face 0 the slots.
    fn element_data(&mut self, at: &FaceAt, inner: &Expr, outward: [Expr; 3]) {
        let (to, record) = (self.arrays.elements, self.record() as i64);
        let first = mul(inner.clone(), int(record));
        let later = fold::compare(Cmp::Gt, at.face.clone(), int(0));
        let row = mul(fold::sub(at.face.clone(), int(1)), int(3));
        self.w.when(later, |w| {
            for (axis, value) in outward.into_iter().enumerate() {
                w.put(to, add(add(first.clone(), row.clone()), int(axis as i64)), fold::neg(value));
            }
        });
        if !self.w.cx.forms.element_slots.is_empty() {
            let zero = fold::compare(Cmp::Eq, at.face.clone(), int(0));
            self.w.when(zero, |w| {
                for (n, value) in faces::element_slots(w, &at.at).into_iter().enumerate() {
                    w.put(to, add(first.clone(), int(9 + n as i64)), value);
                }
            });
        }
    }

    /// A lane a face node of an element of its group. What does not fill all lanes comes last.
    fn surface(&mut self) {
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
        let own = self.w.load(self.w.cx.ids.face_nodes, place.clone());
        let own = self.w.b.bind("own_node", own);
        let at = FacePoint { number, place, along, inner, i, group, own };
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
                        at.own.clone(),
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
        let places: Vec<Expr> = (0..s.components).map(|c| self.field(&at.group, row(c), at.own.clone())).collect();
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

    /// Rates without the flux, by inline element and component.
    fn volume(&mut self) -> Vec<VarId> {
        let s = self.shape;
        let cx = self.w.cx;
        self.w.b.comment("Derivatives along the reference coordinates.");
        let mut sums: Vec<Vec<VarId>> = Vec::new();
        for (_, _, c) in self.each_sum() {
            let count = if cx.differentiated(c) { 3 } else { 0 };
            let name = |a: usize| format!("d{}_{}", a + 1, cx.system.components[c]);
            sums.push((0..count).map(|a| self.w.b.declare(&name(a), real(0.0, cx.real))).collect());
        }
        let var = self.w.b.open_loop("column");
        let column = Expr::Var(var);
        let entries: Vec<Vec<Expr>> =
            (0..3 * s.rows).map(|n| self.entries(self.arrays.derivative, n % 3, n / 3, &column)).collect();
        for (row, (i, c)) in self.each_value().into_iter().enumerate() {
            if sums[row].is_empty() {
                continue;
            }
            let values = self.field_run(row, (i, c), &column);
            for (k, value) in values.iter().enumerate() {
                for n in 0..3 * s.rows {
                    let sum = sums[n / 3 * s.inline * s.components + row][n % 3];
                    let product = mul(entries[n][k].clone(), value.clone());
                    self.w.b.push(Stmt::Assign(sum, add(Expr::Var(sum), product)));
                }
            }
        }
        let body = self.w.b.close();
        let (from, to, kind) = (int(0), int(s.wide_nodes as i64), LoopKind::Unroll(cx.variant().unroll));
        self.w.b.push(Stmt::For { var, from, to, step: s.wide as i64, kind, body });
        self.combine(&sums)
    }

    /// Entries of a matrix in the lane's row, from a column on.
    fn entries(&mut self, matrix: BufferId, number: usize, r: usize, column: &Expr) -> Vec<Expr> {
        let s = self.shape;
        let first = int((number * s.wide_nodes * s.nodes + r * s.lanes * s.wide) as i64);
        let lane = mul(self.node.clone(), int(s.wide as i64));
        let index = add(add(mul(column.clone(), int(s.nodes as i64)), lane), first);
        self.w.load_run(&format!("entry_{}", number + 1), matrix, index, s.wide)
    }

    /// Several values of a row, the same for all lanes of a group.
    fn field_run(&mut self, row: usize, (i, c): (usize, usize), column: &Expr) -> Vec<Expr> {
        let s = self.shape;
        let name = self.w.system().components[c].clone();
        if let Some(fields) = self.arrays.fields {
            let index = self.field(&self.group.clone(), int(row as i64), column.clone());
            return self.w.load_run(&name, fields, index, s.wide);
        }
        // Rows are not padded there: entries of the matrix beyond the last column are zero, and the last value is read.
        let first = fold::sub(self.value(0, i, c), self.node.clone());
        let state = self.w.input(self.w.cx.ids.state[0]);
        (0..s.wide)
            .map(|k| {
                let place = add(column.clone(), int(k as i64));
                let padded = s.wide_nodes > s.nodes;
                let place = if padded { fold::min(place, int(s.nodes as i64 - 1)) } else { place };
                Expr::Var(self.w.b.bind_here(&name, Expr::Load(state, Box::new(add(first.clone(), place)))))
            })
            .collect()
    }

    /// Geometry and materials.
    fn combine(&mut self, sums: &[Vec<VarId>]) -> Vec<VarId> {
        let s = self.shape;
        let cx = self.w.cx;
        let mut list: Vec<Vec<VarId>> = vec![Vec::new(); s.rows];
        for i in 0..s.inline {
            self.w.b.comment("Geometry and materials.");
            let inner = add(self.group.clone(), int((i * s.parallel) as i64));
            let data = self.record_of(&inner);
            let element = add(mul(self.microblock.clone(), int(s.microblock as i64)), inner);
            let element = self.w.b.bind("element", element);
            for (r, list) in list.iter_mut().enumerate() {
                let own: Vec<Expr> = (0..s.components).map(|c| self.own_value(r, i, c)).collect();
                let node = NodeAt {
                    at: At::element(element.clone()),
                    node: self.row_node(r),
                    derivative: &|c, a| Expr::Var(sums[(r * s.inline + i) * s.components + c][a]),
                    gradient: &|a, axis| data[a * 3 + axis].clone(),
                    component: &|_, c| own[c].clone(),
                    slot: &|_, n| data[9 + n].clone(),
                };
                for (c, rate) in rates(self.w, &node).into_iter().enumerate() {
                    let name = format!("rate_{}", cx.system.components[c]);
                    list.push(self.w.b.declare(&name, rate));
                }
            }
        }
        list.concat()
    }

    /// The record of an element of the microblock: gradients, then slots.
    fn record_of(&mut self, inner: &Expr) -> Vec<Expr> {
        let wide = self.shape.wide;
        let first = self.w.b.bind("record", mul(inner.clone(), int(self.record() as i64)));
        let (count, elements) = (9 + self.w.cx.forms.element_slots.len(), self.arrays.elements);
        let mut data = Vec::new();
        for run in (0..count).step_by(wide) {
            let index = add(first.clone(), int(run as i64));
            if run + wide <= count {
                data.extend(self.w.load_run("gradient", elements, index, wide));
                continue;
            }
            // What is left of a vector is padding that nobody wrote.
            for n in 0..count - run {
                let value = Expr::Load(elements, Box::new(add(index.clone(), int(n as i64))));
                data.push(Expr::Var(self.w.b.bind_here("gradient", value)));
            }
        }
        data
    }

    /// The lane's own value, from where the state is kept.
    fn own_value(&mut self, r: usize, i: usize, c: usize) -> Expr {
        match self.arrays.fields {
            Some(fields) => {
                let row = int((i * self.shape.components + c) as i64);
                Expr::Load(fields, Box::new(self.field(&self.group.clone(), row, self.row_node(r))))
            }
            None => self.w.load(self.w.cx.ids.state[0], self.value(r, i, c)),
        }
    }

    /// Rates that another kernel left.
    fn stored_rates(&mut self) -> Vec<VarId> {
        let mut list = Vec::new();
        for (r, i, c) in self.each_sum() {
            let value = self.w.load(self.parts.rate, self.value(r, i, c));
            let name = format!("rate_{}", self.w.system().components[c]);
            list.push(self.w.b.declare(&name, value));
        }
        list
    }

    fn lift(&mut self, sums: &[VarId]) {
        let s = self.shape;
        self.w.b.comment("The lift of the flux corrections.");
        let (lift, flux) = (self.arrays.lift, self.arrays.flux);
        let (lift, flux) = (lift.expect("surface kernels have it"), flux.expect("surface kernels have fluxes"));
        let var = self.w.b.open_loop("place");
        let place = Expr::Var(var);
        let entries: Vec<Vec<Expr>> = (0..s.rows).map(|r| self.entries(lift, 0, r, &place)).collect();
        for (row, (_, c)) in self.each_value().into_iter().enumerate() {
            let index = self.flux(&self.group.clone(), int(row as i64), place.clone());
            let name = format!("flux_{}", self.w.system().components[c]);
            let values = self.w.load_run(&name, flux, index, s.wide);
            for (k, value) in values.iter().enumerate() {
                for (r, entries) in entries.iter().enumerate() {
                    let sum = sums[r * s.inline * s.components + row];
                    let product = mul(entries[k].clone(), value.clone());
                    self.w.b.push(Stmt::Assign(sum, add(Expr::Var(sum), product)));
                }
            }
        }
        let body = self.w.b.close();
        let (from, to, kind) = (int(0), int(s.all_face_nodes as i64), LoopKind::Unroll(self.w.cx.variant().unroll));
        self.w.b.push(Stmt::For { var, from, to, step: s.wide as i64, kind, body });
    }

    /// Registers at the lane's values, nothing loaded yet.
    fn registers(&self) -> Vec<Registers> {
        let count = self.w.cx.ids.registers.len();
        self.each_sum().iter().map(|_| vec![None; count]).collect()
    }

    fn load_registers(&mut self, registers: &mut [Registers]) {
        let Some(pattern) = self.parts.update else { return };
        for (row, (r, i, c)) in self.each_sum().into_iter().enumerate() {
            // The state is at hand.
            registers[row][0] = Some(int(0));
            let index = self.value(r, i, c);
            update::load(self.w, pattern, &mut registers[row], &index);
            registers[row][0] = None;
        }
    }

    fn finish(&mut self, rates: &[VarId], mut registers: Vec<Registers>) {
        let Some(pattern) = self.parts.update else {
            for (row, (r, i, c)) in self.each_sum().into_iter().enumerate() {
                let index = self.value(r, i, c);
                self.w.store(self.parts.rate, index, Expr::Var(rates[row]));
            }
            return;
        };
        self.w.b.comment("The time step.");
        self.load_registers(&mut registers);
        for (row, (r, i, c)) in self.each_sum().into_iter().enumerate() {
            let state = self.own_value(r, i, c);
            let state = Expr::Var(self.w.b.bind_here("state", state));
            let mut own = std::mem::take(&mut registers[row]);
            own[0] = Some(state.clone());
            let new = update::advance(self.w, pattern, own, Expr::Var(rates[row]));
            let index = self.value(r, i, c);
            // Nobody else writes the other copy of the state, so one that a stage keeps is copied.
            if new.iter().all(|&(register, _)| register != 0) {
                self.w.store(self.w.cx.ids.state[1], index.clone(), state);
            }
            for (register, value) in new {
                self.w.store(target(self.w.cx, register), index.clone(), value);
            }
        }
    }
}

/// A face node of a microblock.
struct FacePoint {
    /// Face of the microblock.
    number: Expr,
    /// Face node of the element, and of the face.
    place: Expr,
    along: Expr,
    /// Element of the microblock, as inline number and group.
    inner: Expr,
    i: Expr,
    group: Expr,
    /// Node of the element.
    own: Expr,
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
