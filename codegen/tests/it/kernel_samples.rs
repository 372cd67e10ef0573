//! Hand-written kernels that together use every statement and expression.

use kernelwright_codegen::kernel::{
    Access, Buffer, BufferId, Cmp, Element, Expr, IndexWidth, Kernel, LoopKind, Math, Op, Scope, Shuffle, Space, Stmt,
    Type, VarId, Variable,
};

/// An empty kernel, to be filled.
pub fn kernel(name: &str, grid: [u64; 3], lanes: [u32; 3]) -> Kernel {
    Kernel {
        name: name.to_owned(),
        doc: Vec::new(),
        buffers: Vec::new(),
        grid,
        lanes,
        resident_blocks: None,
        simd_width: None,
        index: IndexWidth::I32,
        vars: Vec::new(),
        body: Vec::new(),
    }
}

/// Adds to a kernel.
pub trait Build {
    fn buffer(&mut self, name: &str, space: Space, element: Element, extent: u64, access: Access) -> BufferId;
    fn read(&mut self, name: &str, element: Element, extent: u64) -> BufferId {
        self.buffer(name, Space::Global, element, extent, Access::Read)
    }
    fn write(&mut self, name: &str, element: Element, extent: u64) -> BufferId {
        self.buffer(name, Space::Global, element, extent, Access::ReadWrite)
    }
    fn var(&mut self, name: &str, ty: Type) -> VarId;
}

impl Build for Kernel {
    fn buffer(&mut self, name: &str, space: Space, element: Element, extent: u64, access: Access) -> BufferId {
        self.buffers.push(Buffer { name: name.to_owned(), space, element, extent, access });
        BufferId(self.buffers.len() - 1)
    }

    fn var(&mut self, name: &str, ty: Type) -> VarId {
        self.vars.push(Variable { name: name.to_owned(), ty });
        VarId(self.vars.len() - 1)
    }
}

pub fn v(var: VarId) -> Expr {
    Expr::Var(var)
}
pub fn int(value: i64) -> Expr {
    Expr::Int(value)
}
pub fn f32(value: f64) -> Expr {
    Expr::Real(value, Type::F32)
}
pub fn f64(value: f64) -> Expr {
    Expr::Real(value, Type::F64)
}
pub fn op(op: Op, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}
pub fn add(a: Expr, b: Expr) -> Expr {
    op(Op::Add, a, b)
}
pub fn sub(a: Expr, b: Expr) -> Expr {
    op(Op::Sub, a, b)
}
pub fn mul(a: Expr, b: Expr) -> Expr {
    op(Op::Mul, a, b)
}
pub fn div(a: Expr, b: Expr) -> Expr {
    op(Op::Div, a, b)
}
pub fn neg(a: Expr) -> Expr {
    Expr::Neg(Box::new(a))
}
pub fn not(a: Expr) -> Expr {
    Expr::Not(Box::new(a))
}
pub fn cmp(cmp: Cmp, a: Expr, b: Expr) -> Expr {
    Expr::Compare(cmp, Box::new(a), Box::new(b))
}
pub fn lt(a: Expr, b: Expr) -> Expr {
    cmp(Cmp::Lt, a, b)
}
pub fn select(c: Expr, a: Expr, b: Expr) -> Expr {
    Expr::Select(Box::new(c), Box::new(a), Box::new(b))
}
pub fn call(function: Math, args: &[Expr]) -> Expr {
    Expr::Call(function, args.to_vec())
}
pub fn cast(ty: Type, a: Expr) -> Expr {
    Expr::Cast(ty, Box::new(a))
}
pub fn load(buffer: BufferId, index: Expr) -> Expr {
    Expr::Load(buffer, Box::new(index))
}
pub fn store(buffer: BufferId, index: Expr, value: Expr) -> Stmt {
    Stmt::Store { buffer, index, value }
}
pub fn comment(text: &str) -> Stmt {
    Stmt::Comment(text.to_owned())
}
pub fn count(var: VarId, to: Expr, kind: LoopKind, body: Vec<Stmt>) -> Stmt {
    Stmt::For { var, from: int(0), to, step: 1, kind, body }
}
pub fn when(cond: Expr, then: Vec<Stmt>) -> Stmt {
    Stmt::If { cond, then, otherwise: Vec::new() }
}

/// A host sweep: line solves in blocks of 8 points along x, with sums.
pub fn host_line_sweep() -> Kernel {
    let (nx, nz) = (64, 32);
    let mut k = kernel("solve_lines", [(nx / 8) as u64, 16, 1], [1, 1, 1]);
    k.doc = vec!["z = inv(M)*r; rho = dot(r, z);".to_owned(), "host, 8 lines together".to_owned()];
    let n = (nx * 16 * nz) as u64;
    let diagonal = k.read("diagonal", Element::F32, nz as u64);
    let r = k.read("r", Element::F32, n);
    let z = k.write("z", Element::F32, n);
    let partial = k.write("partial", Element::F64, 2 * 8 * 16);
    let upper = k.buffer("upper", Space::Private, Element::F32, 8 * nz as u64, Access::ReadWrite);
    let (base, level, line) = (k.var("base", Type::Int), k.var("level", Type::Int), k.var("line", Type::Int));
    let (at, pivot, rho) = (k.var("at", Type::Int), k.var("pivot", Type::F32), k.var("rho", Type::F64));
    let (back, lane, largest) = (k.var("back", Type::Int), k.var("line_back", Type::Int), k.var("largest", Type::F64));
    let value = k.var("value", Type::F32);
    let own = |level: Expr, line: Expr| add(add(v(base), line), mul(level, int(nx * 16)));
    let kept = |level: VarId, line: VarId| add(mul(v(level), int(8)), v(line));
    let forward = vec![
        Stmt::Let(at, own(v(level), v(line))),
        Stmt::Let(
            pivot,
            div(
                f32(1.0),
                sub(
                    load(diagonal, v(level)),
                    select(lt(int(0), v(level)), load(upper, sub(kept(level, line), int(8))), f32(0.0)),
                ),
            ),
        ),
        store(upper, kept(level, line), neg(v(pivot))),
        store(z, v(at), mul(load(r, v(at)), v(pivot))),
    ];
    let backward = vec![
        Stmt::Let(value, sub(load(z, own(v(back), v(lane))), mul(load(upper, kept(back, lane)), f32(0.5)))),
        store(z, own(v(back), v(lane)), v(value)),
        Stmt::Assign(rho, add(v(rho), mul(cast(Type::F64, v(value)), cast(Type::F64, load(r, own(v(back), v(lane))))))),
        Stmt::Assign(largest, op(Op::Max, v(largest), cast(Type::F64, call(Math::Abs, &[v(value)])))),
    ];
    k.body = vec![
        comment("z = inv(M)*r;"),
        Stmt::Let(base, add(mul(Expr::Block(0), int(8)), mul(Expr::Block(1), int(nx)))),
        Stmt::Declare(rho, f64(0.0)),
        Stmt::Declare(largest, f64(0.0)),
        count(level, int(nz), LoopKind::Sequential, vec![count(line, int(8), LoopKind::Simd(vec![]), forward)]),
        Stmt::For {
            var: back,
            from: int(nz - 1),
            to: int(-1),
            step: -1,
            kind: LoopKind::Sequential,
            body: vec![count(lane, int(8), LoopKind::Simd(vec![rho, largest]), backward)],
        },
        comment("rho = dot(r, z);"),
        Stmt::StoreWide {
            buffer: partial,
            index: mul(int(2), add(Expr::Block(0), mul(Expr::Block(1), int(nx / 8)))),
            values: vec![v(rho), v(largest)],
        },
    ];
    k
}

/// A GPU sweep: a stencil on a shared tile, with sums by shuffles and a last block that finishes them.
pub fn tiled_sweep() -> Kernel {
    let (nx, ny) = (256, 64);
    let blocks = (nx / 32) * (ny / 8);
    let mut k = kernel("update_r_sigma", [(nx / 32) as u64, (ny / 8) as u64, 1], [32, 8, 1]);
    k.doc = vec!["r = r - alpha*A*p; sigma = dot(r, r);".to_owned(), "tile 32 x 8".to_owned()];
    k.resident_blocks = Some(4);
    let n = (nx * ny) as u64;
    let status = k.read("status", Element::I32, 2);
    let scalars = k.read("scalars", Element::F64, 4);
    let p = k.read("p", Element::F32, n);
    let r = k.write("r", Element::F32, n);
    let partial = k.write("partial", Element::F64, blocks as u64);
    let arrived = k.write("arrived", Element::I32, 1);
    let sums = k.buffer("sums", Space::Global, Element::F64, 1, Access::Write);
    let tile = k.buffer("tile", Space::Shared, Element::F32, 34 * 10, Access::ReadWrite);
    let warp = k.buffer("warp_sums", Space::Shared, Element::F64, 8, Access::ReadWrite);
    let last = k.buffer("is_last", Space::Shared, Element::I32, 1, Access::ReadWrite);
    let names = ["i", "j", "here", "cell", "row", "column", "before", "part", "entry"];
    let [i, j, here, cell, row, column, before, part, entry] = names.map(|name| k.var(name, Type::Int));
    let [alpha, centre, r_new] = ["alpha", "centre", "r_new"].map(|name| k.var(name, Type::F32));
    let [sigma, total, from_half, from_rest] =
        ["sigma", "total", "half_sum", "rest_sum"].map(|name| k.var(name, Type::F64));
    let lane_is =
        |x: i64, y: i64| op(Op::And, cmp(Cmp::Eq, Expr::Lane(0), int(x)), cmp(Cmp::Eq, Expr::Lane(1), int(y)));
    let clamp = |e: Expr, n: i64| op(Op::Min, op(Op::Max, e, int(0)), int(n - 1));
    let fill = Stmt::For {
        var: row,
        from: Expr::Lane(1),
        to: int(10),
        step: 8,
        kind: LoopKind::Sequential,
        body: vec![Stmt::For {
            var: column,
            from: Expr::Lane(0),
            to: int(34),
            step: 32,
            kind: LoopKind::Sequential,
            body: vec![store(
                tile,
                add(mul(v(row), int(34)), v(column)),
                load(
                    p,
                    add(
                        clamp(sub(add(mul(Expr::Block(0), int(32)), v(column)), int(1)), nx),
                        mul(clamp(sub(add(mul(Expr::Block(1), int(8)), v(row)), int(1)), ny), int(nx)),
                    ),
                ),
            )],
        }],
    };
    let at = |offset: i64| load(tile, add(v(cell), int(offset)));
    let differences =
        add(add(sub(at(1), v(centre)), sub(at(-1), v(centre))), add(sub(at(34), v(centre)), sub(at(-34), v(centre))));
    let finish = vec![
        Stmt::Fence,
        Stmt::AtomicAdd { old: before, buffer: arrived, index: int(0), value: int(1) },
        store(last, int(0), select(cmp(Cmp::Eq, v(before), int(blocks - 1)), int(1), int(0))),
    ];
    let total_up = vec![
        Stmt::Prefetch { buffer: partial, index: int(0) },
        Stmt::Fence,
        comment("sigma = dot(r, r);"),
        Stmt::Declare(total, f64(0.0)),
        count(part, int(blocks), LoopKind::Unroll(4), vec![Stmt::Assign(total, add(v(total), load(partial, v(part))))]),
        when(lane_is(0, 0), vec![store(sums, int(0), v(total)), store(arrived, int(0), int(0))]),
    ];
    k.body = vec![
        Stmt::ExitIf(cmp(Cmp::Ne, load(status, int(0)), int(0))),
        comment("r = r - alpha*A*p;"),
        Stmt::Let(alpha, cast(Type::F32, load(scalars, int(2)))),
        Stmt::Let(i, add(mul(Expr::Block(0), int(32)), Expr::Lane(0))),
        Stmt::Let(j, add(mul(Expr::Block(1), int(8)), Expr::Lane(1))),
        Stmt::Let(here, add(v(i), mul(v(j), int(nx)))),
        fill,
        Stmt::Barrier(Scope::Block),
        Stmt::Let(cell, add(add(Expr::Lane(0), int(1)), mul(add(Expr::Lane(1), int(1)), int(34)))),
        Stmt::Let(centre, at(0)),
        Stmt::Let(r_new, sub(load(r, v(here)), mul(v(alpha), sub(mul(f32(0.1), v(centre)), differences)))),
        store(r, v(here), v(r_new)),
        comment("sigma = dot(r, r);"),
        Stmt::Declare(sigma, mul(cast(Type::F64, v(r_new)), cast(Type::F64, v(r_new)))),
        Stmt::Shuffle { var: from_half, value: v(sigma), mode: Shuffle::Down(16), width: 32 },
        Stmt::Assign(sigma, add(v(sigma), v(from_half))),
        Stmt::Shuffle { var: from_rest, value: v(sigma), mode: Shuffle::Index(add(Expr::Lane(0), int(0))), width: 32 },
        when(cmp(Cmp::Eq, Expr::Lane(0), int(0)), vec![store(warp, Expr::Lane(1), v(from_rest))]),
        Stmt::Barrier(Scope::Block),
        when(
            lane_is(0, 0),
            [
                vec![
                    Stmt::Assign(sigma, f64(0.0)),
                    count(
                        entry,
                        int(8),
                        LoopKind::Unroll(0),
                        vec![Stmt::Assign(sigma, add(v(sigma), load(warp, v(entry))))],
                    ),
                    store(partial, add(Expr::Block(0), mul(Expr::Block(1), int(nx / 32))), v(sigma)),
                ],
                finish,
            ]
            .concat(),
        ),
        Stmt::Barrier(Scope::Block),
        when(cmp(Cmp::Ne, load(last, int(0)), int(0)), total_up),
    ];
    k
}

/// Wide accesses of every kind, 64-bit indices; four elements a lane.
pub fn wide_copy(blocks: u64) -> Kernel {
    let n = blocks * 256 * 4;
    let mut k = kernel("wide_copy", [blocks, 1, 1], [256, 1, 1]);
    k.index = IndexWidth::I64;
    k.doc = vec!["wide accesses".to_owned()];
    let x = k.read("x", Element::F32, n);
    let y = k.write("y", Element::F32, n);
    let c = k.read("columns", Element::U32, n);
    let d = k.write("d", Element::F64, n);
    let kept = k.buffer("kept", Space::Private, Element::F32, 4, Access::ReadWrite);
    let staged = k.buffer("staged", Space::Shared, Element::F32, 2048, Access::ReadWrite);
    let at = k.var("at", Type::Int);
    let [a0, a1, a2, a3, b0, b1] = ["a0", "a1", "a2", "a3", "b0", "b1"].map(|name| k.var(name, Type::F32));
    let [c0, c1] = ["c0", "c1"].map(|name| k.var(name, Type::Int));
    let [d0, d1, d2, d3] = ["d0", "d1", "d2", "d3"].map(|name| k.var(name, Type::F64));
    let index = mul(int(8), Expr::Lane(0));
    k.body = vec![
        Stmt::Let(at, mul(int(4), add(mul(Expr::Block(0), int(256)), Expr::Lane(0)))),
        Stmt::LoadWide { vars: vec![a0, a1, a2, a3], buffer: x, index: v(at) },
        Stmt::StoreWide { buffer: kept, index: int(0), values: vec![v(a0), v(a1), v(a2), f32(f64::INFINITY)] },
        Stmt::LoadWide { vars: vec![b0, b1], buffer: kept, index: int(2) },
        Stmt::StoreWide { buffer: staged, index: index.clone(), values: vec![v(a3), v(b0)] },
        Stmt::LoadWide { vars: vec![c0, c1], buffer: c, index: v(at) },
        Stmt::StoreWide {
            buffer: y,
            index: v(at),
            values: vec![load(x, v(c0)), load(x, sub(load(c, v(c1)), int(1))), v(b0), load(y, add(v(at), int(3)))],
        },
        Stmt::LoadWide { vars: vec![d0, d1, d2, d3], buffer: d, index: v(at) },
        Stmt::StoreWide { buffer: d, index: v(at), values: vec![v(d0), v(d2), load(d, v(at)), add(v(d0), v(d3))] },
        store(
            y,
            add(v(at), op(Op::Rem, add(mul(int(70_000), int(70_000)), op(Op::Min, v(at), int(1))), int(4))),
            load(staged, index),
        ),
    ];
    k
}

/// Every operator and function, in one precision; on the host.
pub fn every_expression(ty: Type) -> Kernel {
    let (name, element) =
        if ty == Type::F32 { ("expressions_f32", Element::F32) } else { ("expressions_f64", Element::F64) };
    let mut k = kernel(name, [4, 3, 2], [1, 1, 1]);
    k.doc = vec!["every expression".to_owned()];
    let x = k.read("x", element, 24);
    let y = k.write("y", element, 640);
    let (n, m) = (k.var("n", Type::Int), k.var("m", Type::Int));
    let (a, b, c) = (k.var("a", ty), k.var("b", ty), k.var("c", ty));
    let (odd, unread) = (k.var("odd", Type::Bool), k.var("unread", ty));
    let real = |value: f64| Expr::Real(value, ty);
    k.body = vec![
        Stmt::Let(n, add(add(Expr::Block(0), mul(int(4), Expr::Block(1))), mul(int(12), Expr::Block(2)))),
        Stmt::Let(m, add(add(v(n), mul(Expr::Lane(0), int(7))), neg(int(-3)))),
        Stmt::Let(a, load(x, v(n))),
        Stmt::Let(b, add(cast(ty, v(m)), real(0.1))),
        Stmt::Declare(c, real(-1.5)),
        Stmt::Let(odd, cmp(Cmp::Eq, op(Op::Rem, v(n), int(2)), int(1))),
        Stmt::Let(unread, real(f64::NAN)),
    ];
    let (a, b, c) = (v(a), v(b), v(c));
    let functions =
        [Math::Sqrt, Math::Exp, Math::Log, Math::Sin, Math::Cos, Math::Tan, Math::Tanh, Math::Abs, Math::Floor];
    let mut values: Vec<Expr> = functions.iter().map(|&f| call(f, std::slice::from_ref(&a))).collect();
    values.extend([
        call(Math::Pow, &[a.clone(), b.clone()]),
        call(Math::Fma, &[a.clone(), b.clone(), c.clone()]),
        add(call(Math::IsFinite, std::slice::from_ref(&a)), real(1e-30)),
        op(Op::Min, a.clone(), b.clone()),
        op(Op::Max, a.clone(), real(f64::NEG_INFINITY)),
        sub(a.clone(), sub(b.clone(), c.clone())),
        sub(sub(a.clone(), b.clone()), c.clone()),
        sub(a.clone(), neg(b.clone())),
        neg(neg(a.clone())),
        neg(real(-2.0)),
        mul(neg(add(a.clone(), b.clone())), neg(c.clone())),
        div(a.clone(), mul(b.clone(), c.clone())),
        mul(div(a.clone(), b.clone()), c.clone()),
        add(a.clone(), real(-3.0)),
        select(
            op(Op::Or, v(odd), op(Op::And, lt(a.clone(), b.clone()), not(lt(b.clone(), c.clone())))),
            a.clone(),
            select(v(odd), b.clone(), c.clone()),
        ),
        select(cmp(Cmp::Ne, not(v(odd)), lt(a.clone(), b.clone())), a.clone(), b.clone()),
        select(
            op(Op::And, op(Op::Or, v(odd), Expr::Bool(true)), cmp(Cmp::Ge, a.clone(), b.clone())),
            add(a.clone(), real(1.0)),
            real(0.5),
        ),
        cast(ty, cast(Type::Int, b.clone())),
        cast(ty, div(op(Op::Max, sub(v(n), int(1)), int(0)), int(2))),
        cast(ty, cast(Type::F64, cast(Type::F32, a.clone()))),
        mul(add(a.clone(), select(v(odd), b.clone(), c.clone())), real(0.25)),
        mul(call(Math::Reciprocal, &[add(a.clone(), b.clone())]), call(Math::Reciprocal, std::slice::from_ref(&c))),
    ]);
    for (at, value) in values.into_iter().enumerate() {
        k.body.push(store(y, add(v(n), int(24 * at as i64 % 600)), value));
    }
    k
}

/// Two phases with a barrier of the whole grid between them, and a block smaller than a warp.
pub fn two_phases() -> Kernel {
    let mut k = kernel("two_phases", [4, 1, 1], [16, 1, 1]);
    k.doc = vec!["y = x; x = y reversed".to_owned()];
    let x = k.write("x", Element::F64, 64);
    let y = k.write("y", Element::F64, 64);
    let count_of = k.write("count", Element::I32, 1);
    let (at, swapped, up, old) = (
        k.var("at", Type::Int),
        k.var("swapped", Type::F64),
        k.var("from_below", Type::Int),
        k.var("unused_count", Type::Int),
    );
    k.body = vec![
        Stmt::Let(at, add(mul(Expr::Block(0), int(16)), Expr::Lane(0))),
        Stmt::Shuffle { var: swapped, value: load(x, v(at)), mode: Shuffle::Xor(1), width: 2 },
        Stmt::Shuffle { var: up, value: v(at), mode: Shuffle::Up(2), width: 16 },
        store(y, v(at), add(v(swapped), cast(Type::F64, v(up)))),
        Stmt::AtomicAdd { old, buffer: count_of, index: int(0), value: int(2) },
        Stmt::Barrier(Scope::Grid),
        store(x, v(at), load(y, sub(int(63), v(at)))),
    ];
    k
}

/// More shared memory than can be declared, and nothing but it.
pub fn large_tile() -> Kernel {
    let mut k = kernel("large_tile", [1, 1, 1], [64, 1, 1]);
    let y = k.buffer("y", Space::Global, Element::F32, 64, Access::Write);
    let first = k.buffer("first", Space::Shared, Element::F32, 12_289, Access::ReadWrite);
    let second = k.buffer("second", Space::Shared, Element::F64, 64, Access::ReadWrite);
    k.body = vec![
        store(first, Expr::Lane(0), f32(1.0)),
        store(second, Expr::Lane(0), f64(2.0)),
        Stmt::Barrier(Scope::Block),
        Stmt::If {
            cond: lt(Expr::Lane(0), int(8)),
            then: vec![store(y, Expr::Lane(0), load(first, sub(int(63), Expr::Lane(0))))],
            otherwise: vec![Stmt::If {
                cond: lt(Expr::Lane(0), int(16)),
                then: vec![store(y, Expr::Lane(0), f32(0.0))],
                otherwise: vec![store(y, Expr::Lane(0), cast(Type::F32, load(second, sub(int(63), Expr::Lane(0)))))],
            }],
        },
    ];
    k
}
