//! Working on even and odd parts: forming them in shared memory, and going back to nodes.

use super::Gpu;
use crate::galerkin::map::rates::{NodeAt, source};
use crate::galerkin::map::symmetric::{Ids, is_partial};
use crate::galerkin::map::writer::At;
use crate::kernel::{BufferId, Cmp, Expr, LoopKind, Stmt, VarId};
use crate::map::fold::{self, add, int, mul, real, sub};

impl Gpu<'_, '_, '_, '_> {
    pub(super) fn split_ids(&self) -> Option<&Ids> {
        self.w.cx.split.as_ref().map(|split| &split.ids)
    }

    /// First places of the parts that the lane reads: for the three derivatives and the lift.
    pub(super) fn segments(&mut self) -> Vec<Expr> {
        let Some(table) = self.split_ids().map(|ids| ids.segments) else { return Vec::new() };
        let mut list = Vec::new();
        let (volume, surface) = (self.parts.volume, self.parts.surface);
        let reads = [("first_a", volume), ("first_b", volume), ("first_c", volume), ("first_flux", surface)];
        for (n, (name, read)) in reads.into_iter().enumerate() {
            if read {
                let value = self.w.load(table, add(self.node.clone(), int((n * self.shape.lanes) as i64)));
                list.push(self.w.b.bind(name, value));
            } else {
                list.push(int(0));
            }
        }
        list
    }

    /// Zeros at the places that belong to no part.
    pub(super) fn clear_pads(&mut self) {
        let cx = self.w.cx;
        let Some(split) = &cx.split else { return };
        let pads = |parts| super::super::symmetric::pads(parts).len();
        let lists = [
            (self.arrays.fields, split.ids.node_pads, pads(&split.nodes), false),
            (self.arrays.flux, split.ids.flux_pads, pads(&split.faces), true),
        ];
        self.w.b.comment("What belongs to no part is zero.");
        for (array, table, count, of_flux) in lists {
            let (Some(array), true) = (array, count > 0) else { continue };
            let var = self.w.b.open_loop("pad");
            let place = self.w.load(table, Expr::Var(var));
            let place = Expr::Var(self.w.b.bind_here("place", place));
            for row in 0..self.each_value().len() {
                let index = self.place(of_flux, int(row as i64), place.clone());
                let zero = real(0.0, self.w.cx.real);
                self.w.put(array, index, zero);
            }
            let body = self.w.b.close();
            let (from, to, step) = (self.node.clone(), int(count as i64), self.shape.lanes as i64);
            self.w.b.push(Stmt::For { var, from, to, step, kind: LoopKind::Sequential, body });
        }
    }

    fn place(&self, of_flux: bool, row: Expr, place: Expr) -> Expr {
        if of_flux { self.flux(&self.group, row, place) } else { self.field(&self.group, row, place) }
    }

    /// Puts parts in the place of values, an orbit at a time.
    pub(super) fn divide(&mut self) {
        let cx = self.w.cx;
        let Some(split) = &cx.split else { return };
        let fields = (self.arrays.fields, split.ids.node_orbits, split.nodes.orbits.len());
        let flux = (self.arrays.flux, split.ids.flux_orbits, split.faces.orbits.len());
        self.w.b.comment("Parts that are even or odd under two symmetries of the element.");
        if let (Some(array), true) = (fields.0, self.parts.volume) {
            self.divide_rows(array, (fields.1, fields.2), false);
        }
        if let (Some(array), true) = (flux.0, self.parts.surface) {
            self.divide_rows(array, (flux.1, flux.2), true);
        }
        self.w.barrier();
    }

    fn divide_rows(&mut self, array: BufferId, (table, orbits): (usize, usize), of_flux: bool) {
        let of_task = self.rows_of_task(orbits);
        let var = self.w.b.open_loop("task");
        let count = int(orbits as i64);
        let row = mul(fold::div(Expr::Var(var), count.clone()), int(of_task as i64));
        let row = self.w.b.bind("row", row);
        let orbit = self.w.b.bind("orbit", fold::rem(Expr::Var(var), count));
        let mut places = Vec::new();
        for n in 0..8 {
            let place = self.w.load(table, add(orbit.clone(), int((n * orbits) as i64)));
            places.push(Expr::Var(self.w.b.bind_here("place", place)));
        }
        for n in 0..of_task {
            self.divide_orbit(array, &add(row.clone(), int(n as i64)), &places, of_flux);
        }
        let body = self.w.b.close();
        let tasks = int((self.each_value().len() / of_task * orbits) as i64);
        let (from, step) = (self.node.clone(), self.shape.lanes as i64);
        self.w.b.push(Stmt::For { var, from, to: tasks, step, kind: LoopKind::Sequential, body });
    }

    /// Rows that a lane divides with the places of an orbit it has loaded: the divisor of their number that takes the fewest
    /// accesses, eight for the places and eight a row.
    fn rows_of_task(&self, orbits: usize) -> usize {
        let rows = self.each_value().len();
        let divisors = (1..=rows).filter(|n| rows.is_multiple_of(*n));
        let accesses = |n: &usize| (rows / n * orbits).div_ceil(self.shape.lanes) * (8 + 8 * n);
        divisors.min_by_key(accesses).unwrap_or(1)
    }

    fn divide_orbit(&mut self, array: BufferId, row: &Expr, places: &[Expr], of_flux: bool) {
        let mut values = Vec::new();
        for place in &places[..4] {
            let index = self.place(of_flux, row.clone(), place.clone());
            values.push(Expr::Var(self.w.b.bind_here("value", Expr::Load(array, Box::new(index)))));
        }
        let (one, s, t, both) = (&values[0], &values[1], &values[2], &values[3]);
        let mut pair = |name: &str, value: Expr| Expr::Var(self.w.b.bind_here(name, value));
        let even = [pair("even", add(one.clone(), s.clone())), pair("even", add(t.clone(), both.clone()))];
        let odd = [pair("odd", sub(one.clone(), s.clone())), pair("odd", sub(t.clone(), both.clone()))];
        let parts = [
            add(even[0].clone(), even[1].clone()),
            add(odd[0].clone(), odd[1].clone()),
            sub(even[0].clone(), even[1].clone()),
            sub(odd[0].clone(), odd[1].clone()),
        ];
        // The first kind is there for all orbits and comes last: kinds that are not there stand at its place.
        for (kind, part) in parts.into_iter().enumerate().rev() {
            let index = self.place(of_flux, row.clone(), places[4 + kind].clone());
            self.w.put(array, index, part);
        }
    }

    /// Gradients that belong to the derivatives A, B and C.
    pub(super) fn turned(&mut self, data: Vec<Expr>) -> Vec<Expr> {
        if self.w.cx.split.is_none() {
            return data;
        }
        let half = |value: Expr, kind| mul(real(0.5, kind), value);
        let kind = self.w.cx.real;
        let mut list = data.clone();
        for axis in 0..3 {
            let [l1, l2, l3] = [0, 1, 2].map(|a: usize| data[3 * a + axis].clone());
            let mean = half(add(l2.clone(), l3.clone()), kind);
            list[6 + axis] = self.w.b.bind("gradient_c", mean);
            list[3 + axis] = self.w.b.bind("gradient_b", half(sub(l3, l2), kind));
            list[axis] = self.w.b.bind("gradient_a", add(l1, list[6 + axis].clone()));
        }
        list
    }

    /// The place of the part of a row of the lane as the table has it.
    fn place_of_row(&mut self, r: usize) -> Expr {
        let table = self.split_ids().expect("parts are worked on").row_places;
        let index = add(self.node.clone(), int((r * self.shape.lanes) as i64));
        self.w.load(table, index)
    }

    /// Whether some lanes have no part in this row, and the width of all parts, which then is their place.
    fn no_part(&self, r: usize) -> Option<i64> {
        let split = self.w.cx.split.as_ref()?;
        is_partial(&split.nodes, self.shape.rows, r).then_some(split.nodes.width as i64)
    }

    /// The place of the part of a row of the lane, some place where it has none.
    pub(super) fn row_place(&mut self, r: usize) -> Expr {
        let place = self.place_of_row(r);
        match self.no_part(r) {
            Some(width) => fold::min(place, int(width - 1)),
            None => place,
        }
    }

    /// Sums of parts, before anything is added.
    pub(super) fn no_parts(&mut self) -> Vec<VarId> {
        let zero = real(0.0, self.w.cx.real);
        let names: Vec<String> =
            self.each_sum().into_iter().map(|(_, _, c)| format!("rate_{}", self.w.system().components[c])).collect();
        names.into_iter().map(|name| self.w.b.declare(&name, zero.clone())).collect()
    }

    /// Rates at the nodes of the lane from the parts of all lanes; with what does not come from parts.
    pub(super) fn unite(&mut self, sums: Vec<VarId>) -> Vec<VarId> {
        let Some(Ids { back_places, back_weights, .. }) = self.split_ids() else { return sums };
        let (back_places, back_weights) = (*back_places, *back_weights);
        let s = self.shape;
        let fields = self.arrays.fields.expect("parts are formed in shared memory");
        self.w.barrier();
        self.w.b.comment("From parts to nodes.");
        for r in 0..s.rows {
            let place = self.place_of_row(r);
            let place = self.w.b.bind("place", place);
            let there = self.no_part(r).map(|width| fold::compare(Cmp::Lt, place.clone(), int(width)));
            if there.is_some() {
                self.w.b.open_if();
            }
            for (n, (_, i, c)) in self.each_sum().into_iter().enumerate().filter(|(_, (row, ..))| *row == r) {
                let index = self.field(&self.group, int((i * s.components + c) as i64), place.clone());
                self.w.put(fields, index, Expr::Var(sums[n]));
            }
            if let Some(there) = there {
                self.w.b.close_if(there);
            }
        }
        self.w.barrier();
        let mut nodal = Vec::new();
        for r in 0..s.rows {
            let mut from = Vec::new();
            for kind in 0..4 {
                let index = add(self.row_node(r), int((kind * s.nodes) as i64));
                let (place, weight) = (self.w.load(back_places, index.clone()), self.w.load(back_weights, index));
                from.push((self.w.b.bind("place", place), self.w.b.bind("weight", weight)));
            }
            for i in 0..s.inline {
                let sources = self.sources(r, i);
                for (c, source) in sources.into_iter().enumerate() {
                    let row = int((i * s.components + c) as i64);
                    let part = |(place, weight): &(Expr, Expr)| {
                        let index = self.field(&self.group, row.clone(), place.clone());
                        mul(weight.clone(), Expr::Load(fields, Box::new(index)))
                    };
                    let terms = from.iter().map(part).chain(source);
                    let value = terms.reduce(add).expect("there are four parts");
                    let name = format!("rate_{}", self.w.system().components[c]);
                    nodal.push(self.w.b.declare(&name, value));
                }
            }
        }
        nodal
    }

    /// What rates at a node have beside derivatives and fluxes: sources, or what another kernel left.
    fn sources(&mut self, r: usize, i: usize) -> Vec<Option<Expr>> {
        let s = self.shape;
        if !self.parts.volume {
            let load = |c| Some(Expr::Var(self.load_there("rate", self.parts.rate, r, self.value(r, i, c))));
            return (0..s.components).map(load).collect();
        }
        if self.w.cx.forms.sources.iter().all(Option::is_none) {
            return vec![None; s.components];
        }
        let inner = add(self.group.clone(), int((i * s.parallel) as i64));
        let data = self.record_of(&inner);
        let element = add(mul(self.microblock.clone(), int(s.microblock as i64)), inner);
        let element = self.w.b.bind("element", element);
        let nothing = || real(0.0, self.w.cx.real);
        let node = NodeAt {
            at: At::element(element),
            node: self.row_node(r),
            derivative: &|_, _| nothing(),
            gradient: &|_, _| nothing(),
            component: &|w, _| real(0.0, w.cx.real),
            slot: &|_, n| data[9 + n].clone(),
            along: &[0, 1, 2],
            plain: true,
            sources: true,
        };
        (0..s.components).map(|c| source(self.w, &node, c)).collect()
    }
}
