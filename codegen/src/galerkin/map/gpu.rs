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

mod parts;
mod prepare;
mod surface;

pub(super) use prepare::kernel as prepare;

use super::Parts;
use super::context::{Context, Shape};
use super::rates::{NodeAt, rates as rates_at};
use super::update::{self, Pattern, Registers};
use super::variant::Home;
use super::writer::{At, Made, Writer};
use crate::kernel::{BufferId, Cmp, Expr, LoopKind, Space, Stmt, VarId};
use crate::map::fold::{self, add, int, mul, real};

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
    microblock: Expr,
    /// Nodes of the lane, the last node where it has none; and the first values there in the state.
    row_nodes: Vec<Expr>,
    own: Vec<Expr>,
    /// First value of the group in the state.
    group_first: Expr,
    /// First places of the parts that the lane reads; empty where it works on nodal values.
    segments: Vec<Expr>,
}

/// Writes the kernel of some parts of a stage.
pub(super) fn kernel(cx: &Context<'_>, parts: Parts<'_>) -> Made {
    let shape = cx.shape;
    let mut w = Writer::new(cx, parts.name(), &parts.stored(cx));
    let node = w.b.bind("node", Expr::Lane(0));
    let group = w.b.bind("group", Expr::Lane(1));
    let lane = w.b.bind("lane", add(mul(group.clone(), int(shape.lanes as i64)), node.clone()));
    let arrays = arrays(&mut w, &parts);
    let (microblock, segments) = (Expr::Block(0), Vec::new());
    let (row_nodes, own, group_first) = (Vec::new(), Vec::new(), int(0));
    let mut gpu =
        Gpu { w: &mut w, parts, shape, arrays, node, group, lane, microblock, row_nodes, own, group_first, segments };
    gpu.row_nodes = (0..shape.rows).map(|r| gpu.find_row_node(r)).collect();
    gpu.segments = gpu.segments();
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

fn arrays(w: &mut Writer<'_, '_>, parts: &Parts<'_>) -> Arrays {
    let cx = w.cx;
    let s = cx.shape;
    let faces = 4 * s.microblock;
    let record = cx.record();
    let values = s.inline * s.components;
    let fields = (cx.variant().fields == Home::Shared)
        .then(|| w.shared("fields", s.parallel * group_stride(values * s.row, s.wide)));
    let flux = parts.surface.then(|| w.shared("flux", s.parallel * group_stride(values * s.flux_row, s.wide)));
    let elements = w.shared("element_data", s.microblock * record);
    let slots = cx.forms.face_slots.len();
    let face_data = (parts.surface && slots > 0).then(|| w.shared("face_data", slots * faces));
    let ints = |w: &mut Writer<'_, '_>, name: &str| w.b.local(name, Space::Shared, cx.integer(), faces as u64);
    let base = parts.surface.then(|| ints(w, "neighbour_values"));
    let first_met = parts.surface.then(|| ints(w, "first_met_node"));
    let tag = (parts.surface && !cx.system.boundaries.is_empty()).then(|| ints(w, "face_tag"));
    let shared = cx.variant().matrices == Home::Shared;
    let derivative = match shared && parts.volume {
        true => w.shared("derivative_copy", 3 * s.columns * s.all_rows),
        false => w.input(cx.ids.derivative),
    };
    let lift = parts.surface.then(|| match shared {
        true => w.shared("lift_copy", s.flux_columns * s.all_rows),
        false => w.input(cx.ids.lift),
    });
    Arrays { fields, flux, elements, faces: face_data, base, first_met, tag, derivative, lift }
}

impl Gpu<'_, '_, '_, '_> {
    fn lanes(&self) -> usize {
        self.shape.lanes * self.shape.parallel
    }

    /// Whether some lanes have no node in this row.
    fn is_partial(&self, row: usize) -> bool {
        (row + 1) * self.shape.lanes > self.shape.nodes
    }

    /// Node of a row of the lane; the last node where the lane has none.
    fn find_row_node(&mut self, row: usize) -> Expr {
        let node = add(self.node.clone(), int((row * self.shape.lanes) as i64));
        if !self.is_partial(row) {
            return node;
        }
        self.w.b.bind("own_node", fold::min(node, int(self.shape.nodes as i64 - 1)))
    }

    fn row_node(&self, row: usize) -> Expr {
        self.row_nodes[row].clone()
    }

    /// What only lanes with a node in this row do.
    fn when_there(&mut self, row: usize, body: impl FnOnce(&mut Self)) {
        if !self.is_partial(row) {
            return body(self);
        }
        self.w.b.open_if();
        body(self);
        let node = add(self.node.clone(), int((row * self.shape.lanes) as i64));
        self.w.b.close_if(fold::compare(Cmp::Lt, node, int(self.shape.nodes as i64)));
    }

    /// A value that others may be writing where the lane has no node; zero there.
    fn load_there(&mut self, name: &str, id: usize, row: usize, index: Expr) -> VarId {
        if !self.is_partial(row) {
            let value = self.w.load(id, index);
            return self.w.b.declare(name, value);
        }
        let var = self.w.b.declare(name, real(0.0, self.w.cx.real));
        self.when_there(row, |gpu| {
            let value = gpu.w.load(id, index);
            gpu.w.b.push(Stmt::Assign(var, value));
        });
        var
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
        let along = if self.is_partial(r) { 0 } else { r * s.lanes };
        add(self.own[r].clone(), int(((i * s.components + c) * s.parallel * s.nodes + along) as i64))
    }

    /// Index of a node's value in the shared fields.
    fn field(&self, group: &Expr, row: Expr, node: Expr) -> Expr {
        let s = self.shape;
        let stride = group_stride(s.inline * s.components * s.row, s.wide);
        add(add(mul(group.clone(), int(stride as i64)), mul(row, int(s.row as i64))), node)
    }

    /// Index of a face node's value in the shared fluxes.
    fn flux(&self, group: &Expr, row: Expr, place: Expr) -> Expr {
        let s = self.shape;
        let stride = group_stride(s.inline * s.components * s.flux_row, s.wide);
        add(add(mul(group.clone(), int(stride as i64)), mul(row, int(s.flux_row as i64))), place)
    }

    /// What is done once a block: padding of the shared fields, matrices.
    fn before(&mut self) {
        let s = self.shape;
        self.clear_pads();
        if let Some(fields) = self.arrays.fields
            && s.wide_nodes > s.nodes
            && self.w.cx.split.is_none()
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
                self.copy(derivative, int(0), self.arrays.derivative, 3 * s.columns * s.all_rows);
            }
            if let Some(to) = self.arrays.lift {
                self.copy(lift, int(0), to, s.flux_columns * s.all_rows);
            }
        }
    }

    /// Copies from a buffer of the module, from an index on, to a shared array.
    fn copy(&mut self, from: usize, first: Expr, to: BufferId, len: usize) {
        let range = (self.lane.clone(), int(len as i64), self.lanes() as i64);
        self.w.repeat("entry", range, LoopKind::Sequential, |w, n| {
            let value = w.load(from, add(first, n.clone()));
            w.put(to, n, value);
        });
    }

    fn run(&mut self) {
        let s = self.shape;
        let first = mul(self.microblock.clone(), int((s.microblock * s.components * s.nodes) as i64));
        let of_group = mul(self.group.clone(), int(s.nodes as i64));
        self.group_first = add(first.clone(), of_group.clone());
        // Rows of which every lane has a node are found from its first one.
        let from = |gpu: &Self, r: usize| if gpu.is_partial(r) { gpu.row_node(r) } else { gpu.node.clone() };
        let own = (0..s.rows).map(|r| add(first.clone(), add(of_group.clone(), from(self, r)))).collect::<Vec<_>>();
        self.own = own.into_iter().map(|own| self.w.b.bind("own", own)).collect();
        let values = self.load_fields();
        self.face_data();
        self.store_fields(values);
        self.w.barrier();
        if self.parts.surface {
            self.surface();
            self.w.barrier();
        }
        self.divide();
        let mut before = self.registers();
        if self.w.cx.variant().prefetch {
            self.load_registers(&mut before, |gpu, r| !gpu.is_partial(r));
        }
        let sums = match (self.parts.volume, self.w.cx.split.is_some()) {
            (true, _) => self.volume(),
            (false, true) => self.no_parts(),
            (false, false) => self.stored_rates(),
        };
        if self.parts.surface {
            self.lift(&sums);
        }
        let sums = self.unite(sums);
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
        let mut places = self.row_nodes.clone();
        if let Some(table) = self.split_ids().map(|ids| ids.node_places) {
            for place in &mut places {
                let value = self.w.load(table, place.clone());
                *place = self.w.b.bind("place", value);
            }
        }
        let sums: Vec<_> = self.each_sum().into_iter().zip(values).collect();
        for (r, place) in places.into_iter().enumerate() {
            self.when_there(r, |gpu| {
                for ((_, i, c), value) in sums.iter().filter(|((row, ..), _)| *row == r) {
                    let row = int((i * gpu.shape.components + c) as i64);
                    let index = gpu.field(&gpu.group, row, place.clone());
                    gpu.w.put(fields, index, value.clone());
                }
            });
        }
    }

    /// Rates without the flux, by inline element and component.
    fn volume(&mut self) -> Vec<VarId> {
        let at_once: &[&[usize]] = if self.w.cx.variant().turns { &[&[0], &[1], &[2]] } else { &[&[0, 1, 2]] };
        let mut rates = Vec::new();
        for along in at_once {
            let sums = self.derivatives(along);
            self.combine(&sums, along, &mut rates);
        }
        rates
    }

    /// Derivatives along some reference coordinates, by those.
    fn derivatives(&mut self, along: &[usize]) -> Vec<Vec<VarId>> {
        let s = self.shape;
        let cx = self.w.cx;
        self.w.b.comment("Derivatives along the reference coordinates.");
        let mut sums: Vec<Vec<VarId>> = Vec::new();
        for (_, _, c) in self.each_sum() {
            let wanted = if cx.differentiated(c) { along } else { &[] };
            let name = |a: &usize| format!("d{}_{}", a + 1, cx.system.components[c]);
            sums.push(wanted.iter().map(|a| self.w.b.declare(&name(a), real(0.0, cx.real))).collect());
        }
        let var = self.w.b.open_loop("column");
        let (column, count) = (Expr::Var(var), along.len());
        let entries: Vec<Vec<Expr>> = (0..count * s.rows)
            .map(|n| self.entries(self.arrays.derivative, along[n % count], n / count, &column))
            .collect();
        for (row, (i, c)) in self.each_value().into_iter().enumerate() {
            if sums[row].is_empty() {
                continue;
            }
            let values = self.field_runs(row, (i, c), along, &column);
            for k in 0..s.wide {
                for n in 0..count * s.rows {
                    let sum = sums[n / count * s.inline * s.components + row][n % count];
                    let product = mul(entries[n][k].clone(), values[n % count][k].clone());
                    self.w.b.push(Stmt::Assign(sum, add(Expr::Var(sum), product)));
                }
            }
        }
        let body = self.w.b.close();
        let (from, to, kind) = (int(0), int(s.columns as i64), LoopKind::Unroll(cx.variant().unroll));
        self.w.b.push(Stmt::For { var, from, to, step: s.wide as i64, kind, body });
        sums
    }

    /// Entries of a matrix in the lane's row, from a column on.
    fn entries(&mut self, matrix: BufferId, number: usize, r: usize, column: &Expr) -> Vec<Expr> {
        let s = self.shape;
        let first = int((number * s.columns * s.all_rows + r * s.lanes * s.wide) as i64);
        let lane = mul(self.node.clone(), int(s.wide as i64));
        let index = add(add(mul(column.clone(), int(s.all_rows as i64)), lane), first);
        self.w.load_run(&format!("entry_{}", number + 1), matrix, index, s.wide)
    }

    /// What derivatives read of a row.
    fn field_runs(&mut self, row: usize, value: (usize, usize), along: &[usize], column: &Expr) -> Vec<Vec<Expr>> {
        if self.w.cx.split.is_some() {
            let read = |&a: &usize| {
                let place = add(self.segments[a].clone(), column.clone());
                self.field_run(row, value, &place)
            };
            return along.iter().map(read).collect();
        }
        vec![self.field_run(row, value, column); along.len()]
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
        let first = match self.is_partial(0) {
            true => add(self.group_first.clone(), int(((i * s.components + c) * s.parallel * s.nodes) as i64)),
            false => fold::sub(self.value(0, i, c), self.node.clone()),
        };
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

    /// Geometry and materials: what derivatives along some reference coordinates make of the rates; with the first of them
    /// what has no derivative.
    fn combine(&mut self, sums: &[Vec<VarId>], along: &[usize], rates: &mut Vec<VarId>) {
        let s = self.shape;
        let cx = self.w.cx;
        let first = rates.is_empty();
        let mut list: Vec<Vec<VarId>> = vec![Vec::new(); s.rows];
        for i in 0..s.inline {
            self.w.b.comment("Geometry and materials.");
            let inner = add(self.group.clone(), int((i * s.parallel) as i64));
            let data = self.record_of(&inner);
            let data = self.turned(data);
            let element = add(mul(self.microblock.clone(), int(s.microblock as i64)), inner);
            let element = self.w.b.bind("element", element);
            for (r, list) in list.iter_mut().enumerate() {
                let own: Vec<Expr> = (0..s.components).map(|c| self.own_value(r, i, c)).collect();
                let place = |a: usize| along.iter().position(|other| *other == a).expect("only these are asked for");
                let of_row = (r * s.inline + i) * s.components;
                let node = NodeAt {
                    at: At::element(element.clone()),
                    node: self.row_node(r),
                    derivative: &|c, a| Expr::Var(sums[of_row + c][place(a)]),
                    gradient: &|a, axis| data[a * 3 + axis].clone(),
                    component: &|_, c| own[c].clone(),
                    slot: &|_, n| data[9 + n].clone(),
                    along,
                    plain: first,
                    sources: first && cx.split.is_none(),
                };
                for (c, rate) in rates_at(self.w, &node).into_iter().enumerate() {
                    let name = format!("rate_{}", cx.system.components[c]);
                    match rates.get(of_row + c) {
                        Some(&sum) => self.w.b.push(Stmt::Assign(sum, add(Expr::Var(sum), rate))),
                        None => list.push(self.w.b.declare(&name, rate)),
                    }
                }
            }
        }
        if first {
            *rates = list.concat();
        }
    }

    /// The record of an element of the microblock: gradients, then slots.
    fn record_of(&mut self, inner: &Expr) -> Vec<Expr> {
        let wide = self.shape.wide;
        let first = self.w.b.bind("record", mul(inner.clone(), int(self.w.cx.record() as i64)));
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

    /// The lane's own state: where parts are worked on there is no copy left.
    fn own_state(&mut self, r: usize, i: usize, c: usize) -> Expr {
        match self.w.cx.split {
            Some(_) => self.w.load(self.w.cx.ids.state[0], self.value(r, i, c)),
            None => self.own_value(r, i, c),
        }
    }

    /// The lane's own value, or part, from where the fields are kept.
    fn own_value(&mut self, r: usize, i: usize, c: usize) -> Expr {
        match self.arrays.fields {
            Some(fields) => {
                let row = int((i * self.shape.components + c) as i64);
                let place = match self.w.cx.split {
                    Some(_) => self.row_place(r),
                    None => self.row_node(r),
                };
                Expr::Load(fields, Box::new(self.field(&self.group.clone(), row, place)))
            }
            None => self.w.load(self.w.cx.ids.state[0], self.value(r, i, c)),
        }
    }

    /// Rates that another kernel left.
    fn stored_rates(&mut self) -> Vec<VarId> {
        let mut list = Vec::new();
        for (r, i, c) in self.each_sum() {
            let name = format!("rate_{}", self.w.system().components[c]);
            list.push(self.load_there(&name, self.parts.rate, r, self.value(r, i, c)));
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
            let from = self.segments.get(3).map_or(place.clone(), |first| add(first.clone(), place.clone()));
            let index = self.flux(&self.group.clone(), int(row as i64), from);
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
        let (from, to, kind) = (int(0), int(s.flux_columns as i64), LoopKind::Unroll(self.w.cx.variant().unroll));
        self.w.b.push(Stmt::For { var, from, to, step: s.wide as i64, kind, body });
    }

    /// Registers at the lane's values, nothing loaded yet.
    fn registers(&self) -> Vec<Registers> {
        let count = self.w.cx.ids.registers.len();
        self.each_sum().iter().map(|_| vec![None; count]).collect()
    }

    /// Loads them in rows of which every lane has a node, or in the others.
    fn load_registers(&mut self, registers: &mut [Registers], wanted: impl Fn(&Self, usize) -> bool) {
        let Some(pattern) = self.parts.update else { return };
        for (row, (r, i, c)) in self.each_sum().into_iter().enumerate() {
            if !wanted(self, r) {
                continue;
            }
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
                self.when_there(r, |gpu| gpu.w.store(gpu.parts.rate, index, Expr::Var(rates[row])));
            }
            return;
        };
        self.w.b.comment("The time step.");
        self.load_registers(&mut registers, |gpu, r| !gpu.is_partial(r));
        for r in 0..self.shape.rows {
            self.when_there(r, |gpu| gpu.finish_row(r, pattern, rates, &mut registers));
        }
    }

    fn finish_row(&mut self, wanted: usize, pattern: &Pattern, rates: &[VarId], registers: &mut [Registers]) {
        self.load_registers(registers, |gpu, r| r == wanted && gpu.is_partial(r));
        for (row, (r, i, c)) in self.each_sum().into_iter().enumerate().filter(|(_, (r, ..))| *r == wanted) {
            let state = self.own_state(r, i, c);
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
                self.w.store(self.w.cx.target(register), index.clone(), value);
            }
        }
    }
}
