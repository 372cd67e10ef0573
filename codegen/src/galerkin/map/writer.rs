//! A kernel under construction, with the context it is made in.

use super::context::{Context, Shape};
use crate::galerkin::map::Target;
use crate::galerkin::system::System;
use crate::kernel::{Access, BufferId, Expr, Kernel, LoopKind, Math, Scope, Space, Stmt, Type, VarId};
use crate::map::builder::Builder;
use crate::map::fold::{self, add, int, mul};
use crate::module::Arg;

/// A kernel with the buffers (by number) that are its arguments.
pub(super) type Made = (Kernel, Vec<usize>);

/// An element, for arrays with some numbers per element.
#[derive(Debug, Clone)]
pub(super) struct At {
    /// Its number.
    pub element: Expr,
    /// Its pack and place in it, where packs are interleaved.
    pub pack: Expr,
    pub lane: Expr,
}

impl At {
    /// An element of a layout that is not interleaved.
    pub fn element(element: Expr) -> At {
        At { element, pack: int(0), lane: int(0) }
    }
}

/// Writes one kernel.
pub(super) struct Writer<'c, 'a> {
    pub cx: &'c Context<'a>,
    pub b: Builder,
}

impl<'c, 'a> Writer<'c, 'a> {
    /// An empty kernel that stores to the given buffers.
    pub fn new(cx: &'c Context<'a>, name: &str, stored: &[usize]) -> Writer<'c, 'a> {
        let name = format!("{}_{name}", cx.system.name);
        let mut b = Builder::new(&name, stored.iter().map(|&id| Arg::Module(id)).collect());
        b.doc = cx.system.text.clone();
        Writer { cx, b }
    }

    pub fn shape(&self) -> Shape {
        self.cx.shape
    }

    pub fn system(&self) -> &'a System {
        self.cx.system
    }

    fn global(&mut self, id: usize, access: Access) -> BufferId {
        let buffer = &self.cx.buffers[id];
        self.b.global(Arg::Module(id), &buffer.name, buffer.element, buffer.len, access)
    }

    /// An element of a buffer of the module.
    pub fn load(&mut self, id: usize, index: Expr) -> Expr {
        let buffer = self.global(id, Access::Read);
        Expr::Load(buffer, Box::new(index))
    }

    /// Several consecutive elements, by a vector access where they are 2 or 4.
    pub fn load_run(&mut self, name: &str, buffer: BufferId, index: Expr, count: usize) -> Vec<Expr> {
        let element = self.b.type_of(&Expr::Load(buffer, Box::new(int(0))));
        if matches!(count, 2 | 4) {
            let vars: Vec<VarId> = (0..count).map(|n| self.b.result(&format!("{name}_{n}"), element)).collect();
            self.b.push(Stmt::LoadWide { vars: vars.clone(), buffer, index });
            return vars.into_iter().map(Expr::Var).collect();
        }
        let value = |n: usize| Expr::Load(buffer, Box::new(add(index.clone(), int(n as i64))));
        (0..count).map(|n| Expr::Var(self.b.bind_here(name, value(n)))).collect()
    }

    /// A quotient. On a GPU a `float` is divided by through the device's reciprocal, within two units in the last place:
    /// what a face needs is computed by one lane for all others, and a division that rounds correctly would take it
    /// ten times as long. Divisors are geometry, materials and what systems say, far from the ends of the range.
    pub fn quotient(&self, left: Expr, right: Expr) -> Expr {
        let exact = self.cx.options.target != Target::Cuda || self.cx.real != Type::F32;
        match (exact || matches!(right, Expr::Real(..)), &left) {
            (true, _) => fold::div(left, right),
            (false, Expr::Real(1.0, _)) => Expr::Call(Math::Reciprocal, vec![right]),
            (false, _) => mul(left, Expr::Call(Math::Reciprocal, vec![right])),
        }
    }

    /// A buffer of the module, to be read.
    pub fn input(&mut self, id: usize) -> BufferId {
        self.global(id, Access::Read)
    }

    /// Stores to a buffer of the module.
    pub fn store(&mut self, id: usize, index: Expr, value: Expr) {
        let buffer = self.global(id, Access::Write);
        self.b.push(Stmt::Store { buffer, index, value });
    }

    /// Stores to a shared or private buffer.
    pub fn put(&mut self, buffer: BufferId, index: Expr, value: Expr) {
        self.b.push(Stmt::Store { buffer, index, value });
    }

    pub fn shared(&mut self, name: &str, len: usize) -> BufferId {
        self.b.local(name, Space::Shared, self.cx.options.precision, len as u64)
    }

    pub fn private(&mut self, name: &str, len: usize) -> BufferId {
        self.b.local(name, Space::Private, self.cx.options.precision, len as u64)
    }

    pub fn barrier(&mut self) {
        self.b.push(Stmt::Barrier(Scope::Block));
    }

    /// A loop whose body is written by a function of the counter.
    pub fn repeat(
        &mut self,
        name: &str,
        (from, to, step): (Expr, Expr, i64),
        kind: LoopKind,
        body: impl FnOnce(&mut Self, Expr),
    ) {
        let var = self.b.open_loop(name);
        body(self, Expr::Var(var));
        let body = self.b.close();
        self.b.push(Stmt::For { var, from, to, step, kind, body });
    }

    /// A loop from 0 to `count`.
    pub fn count(&mut self, name: &str, count: usize, kind: LoopKind, body: impl FnOnce(&mut Self, Expr)) {
        self.repeat(name, (int(0), int(count as i64), 1), kind, body);
    }

    /// What is done where a condition holds.
    pub fn when(&mut self, cond: Expr, body: impl FnOnce(&mut Self)) {
        self.b.open_if();
        body(self);
        self.b.close_if(cond);
    }

    /// A parameter, in the working precision.
    pub fn param(&mut self, n: usize) -> Expr {
        let id = self.cx.ids.params.expect("a system with parameters has a buffer of them");
        let value = self.load(id, int(n as i64));
        let name = self.cx.system.params[n].clone();
        self.b.bind(&name, fold::cast(self.cx.real, Type::F64, value))
    }

    /// A material of an element.
    pub fn material(&mut self, n: usize, element: &Expr) -> Expr {
        let id = self.cx.ids.materials.expect("a system with materials has a buffer of them");
        let value = self.load(id, add(element.clone(), int((n * self.shape().padded) as i64)));
        let name = self.cx.system.materials[n].clone();
        self.b.bind(&name, value)
    }

    /// Time of the stage.
    pub fn time(&mut self) -> Expr {
        let (clock, stage) = (self.cx.ids.clock, self.cx.ids.stages[0]);
        let (start, length, part) = (self.load(clock, int(0)), self.load(clock, int(1)), self.load(stage, int(0)));
        self.b.bind("time", fold::cast(self.cx.real, Type::F64, add(start, mul(part, length))))
    }

    /// A coordinate of a node of an element: l0 v0 + l1 v1 + l2 v2 + l3 v3, as v0 + sum of l_a (v_a - v0).
    pub fn position(&mut self, element: &At, node: &Expr, axis: usize) -> Expr {
        let corner = |w: &mut Self, v: usize| {
            let id = w.vertex(element, &int(v as i64));
            let value = w.load(w.cx.ids.vertices, add(mul(id, int(3)), int(axis as i64)));
            w.b.bind("corner", value)
        };
        let first = corner(self, 0);
        let mut sum = first.clone();
        for a in 0..3 {
            let weight = self.load(self.cx.ids.places, add(mul(node.clone(), int(3)), int(a as i64)));
            let edge = fold::sub(corner(self, a + 1), first.clone());
            sum = add(sum, mul(weight, edge));
        }
        self.b.bind(["x", "y", "z"][axis], sum)
    }

    /// Number of a vertex of an element.
    pub fn vertex(&mut self, element: &At, corner: &Expr) -> Expr {
        let index = self.of_element(element, corner.clone(), 4);
        let value = self.load(self.cx.ids.vertex_ids, index);
        self.b.bind("vertex", value)
    }

    /// Index of a number of an element, in arrays of `of` numbers an element.
    pub fn of_element(&self, at: &At, number: Expr, of: usize) -> Expr {
        let of = int(of as i64);
        if !self.cx.layout.interleaved {
            return add(mul(at.element.clone(), of), number);
        }
        let pack = int(self.shape().parallel as i64);
        add(mul(add(mul(at.pack.clone(), of), number), pack), at.lane.clone())
    }

    /// Finishes the kernel.
    pub fn finish(self, blocks: usize, lanes: [u32; 3]) -> Made {
        let resident = self.cx.variant().resident;
        let (mut kernel, args) = self.b.finish([blocks as u64, 1, 1], lanes, self.cx.index);
        if kernel.lane_count() > 1 {
            kernel.hold(resident);
        }
        let ids = args.into_iter().filter_map(|arg| match arg {
            Arg::Module(id) => Some(id),
            _ => None,
        });
        (kernel, ids.collect())
    }
}
