//! One bad kernel per rule, and good ones that come close.

use super::{verify, verify_all};
use crate::kernel::{
    Access, Buffer, BufferId, Cmp, Element, Expr, IndexWidth, Kernel, LoopKind, Math, Op, Scope, Shuffle, Space, Stmt,
    Type, VarId, Variable,
};

const X: BufferId = BufferId(0);
const Y: BufferId = BufferId(1);
const COUNT: BufferId = BufferId(2);
const KEPT: BufferId = BufferId(3);
const TILE: BufferId = BufferId(4);
const N: VarId = VarId(0);
const M: VarId = VarId(1);
const A: VarId = VarId(2);
const B: VarId = VarId(3);
const FLAG: VarId = VarId(4);

/// 64 lanes, or a host kernel without the shared buffer.
fn kernel(lanes: u32, body: Vec<Stmt>) -> Kernel {
    let buffer =
        |name: &str, space, element, access| Buffer { name: name.to_owned(), space, element, extent: 64, access };
    let var = |name: &str, ty| Variable { name: name.to_owned(), ty };
    let mut buffers = vec![
        buffer("x", Space::Global, Element::F64, Access::Read),
        buffer("y", Space::Global, Element::F64, Access::Write),
        buffer("count", Space::Global, Element::I32, Access::ReadWrite),
        buffer("kept", Space::Private, Element::F32, Access::ReadWrite),
    ];
    if lanes > 1 {
        buffers.push(buffer("tile", Space::Shared, Element::F64, Access::ReadWrite));
    }
    Kernel {
        name: "sample".to_owned(),
        doc: Vec::new(),
        buffers,
        grid: [2, 1, 1],
        lanes: [lanes, 1, 1],
        resident_blocks: None,
        simd_width: None,
        index: IndexWidth::I32,
        vars: vec![
            var("n", Type::Int),
            var("m", Type::Int),
            var("a", Type::F64),
            var("b", Type::F64),
            var("flag", Type::Bool),
        ],
        body,
    }
}

fn int(value: i64) -> Expr {
    Expr::Int(value)
}
fn real(value: f64) -> Expr {
    Expr::Real(value, Type::F64)
}
fn v(var: VarId) -> Expr {
    Expr::Var(var)
}
fn op(op: Op, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}
fn add(a: Expr, b: Expr) -> Expr {
    op(Op::Add, a, b)
}
fn eq(a: Expr, b: Expr) -> Expr {
    Expr::Compare(Cmp::Eq, Box::new(a), Box::new(b))
}
fn load(buffer: BufferId, index: Expr) -> Expr {
    Expr::Load(buffer, Box::new(index))
}
fn store(buffer: BufferId, index: Expr, value: Expr) -> Stmt {
    Stmt::Store { buffer, index, value }
}
fn when(cond: Expr, then: Vec<Stmt>) -> Stmt {
    Stmt::If { cond, then, otherwise: Vec::new() }
}
fn count(kind: LoopKind, body: Vec<Stmt>) -> Stmt {
    Stmt::For { var: N, from: int(0), to: int(8), step: 1, kind, body }
}
fn shuffle(value: Expr, mode: Shuffle, width: u32) -> Stmt {
    Stmt::Shuffle { var: B, value, mode, width }
}
fn block_barrier() -> Stmt {
    Stmt::Barrier(Scope::Block)
}
fn lane() -> Expr {
    Expr::Lane(0)
}

/// The kernel is refused, for this reason and no other.
fn refused(kernel: &Kernel, why: &str) {
    let errors = verify(kernel).expect_err("the kernel is bad");
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(errors.len() == 1 && errors[0].why.contains(why), "expected `{why}`, found\n{}", texts.join("\n"));
}

fn bad(body: Vec<Stmt>, why: &str) {
    refused(&kernel(64, body), why);
}

fn bad_expr(value: Expr, why: &str) {
    bad(vec![Stmt::Let(A, value)], why);
}

fn bad_on_host(body: Vec<Stmt>, why: &str) {
    refused(&kernel(1, body), why);
}

fn good(body: Vec<Stmt>) {
    let kernel = kernel(64, body);
    assert_eq!(verify(&kernel), Ok(()), "{kernel}");
}

fn changed(change: impl FnOnce(&mut Kernel), why: &str) {
    let mut kernel = kernel(64, vec![]);
    assert_eq!(verify(&kernel), Ok(()));
    change(&mut kernel);
    refused(&kernel, why);
}

#[test]
fn errors_name_the_statement() {
    let kernel = kernel(64, vec![when(Expr::Bool(true), vec![store(X, add(int(1), int(2)), real(0.5))])]);
    let errors = verify(&kernel).expect_err("x is read-only");
    assert_eq!(errors[0].to_string(), "kernel sample, body[0].then[0] `x[1 + 2] = 0.5`: `x` is read-only");
}

#[test]
fn all_errors_are_reported() {
    let kernel = kernel(64, vec![store(X, int(0), real(0.0)), store(Y, int(64), real(0.0)), store(Y, int(0), int(0))]);
    assert_eq!(verify(&kernel).expect_err("three bad statements").len(), 3);
}

#[test]
fn names() {
    changed(|k| k.name = "9th".into(), "not an identifier");
    changed(|k| k.name = "gamma".into(), "function of the C library");
    changed(|k| k.vars[0].name = "template".into(), "meaning of its own");
    changed(|k| k.vars[0].name = "blockDim".into(), "meaning of its own");
    changed(|k| k.buffers[0].name = "a__b".into(), "not an identifier");
    changed(|k| k.vars[0].name = "x".into(), "taken");
    changed(|k| k.vars[0].name = "sample".into(), "taken");
    let twice = [kernel(64, vec![]), kernel(64, vec![])];
    assert_eq!(verify_all(&twice).expect_err("equal names").len(), 1);
    assert_eq!(verify_all(&twice[..1]), Ok(()));
}

#[test]
fn sizes() {
    changed(|k| k.lanes = [1024, 2, 1], "1 to 1024");
    changed(|k| k.lanes = [8, 0, 1], "1 to 1024");
    changed(|k| k.lanes = [1, 1, 128], "along z");
    changed(|k| k.grid = [1, 65_536, 1], "blocks along axis 1");
    changed(|k| k.grid = [0, 1, 1], "blocks along axis 0");
    changed(|k| k.grid = [1 << 31, 1, 1], "blocks along axis 0");
    changed(|k| k.resident_blocks = Some(64), "2048 lanes");
    changed(|k| k.simd_width = Some(12), "a power of two");
    changed(|k| k.buffers[0].extent = 1 << 31, "64-bit indices");
    changed(|k| k.buffers[3].extent = 0, "at least one element");
    let mut host = kernel(1, vec![]);
    host.grid = [1, 1 << 20, 1];
    assert_eq!(verify(&host), Ok(()), "no such limit on the host");
    let mut large = kernel(64, vec![store(TILE, int(0), real(0.0))]);
    large.buffers[4].extent = 29_056;
    assert_eq!(verify(&large), Ok(()), "227 KiB");
    large.buffers[4].extent += 1;
    refused(&large, "bytes of shared memory");
}

#[test]
fn ids() {
    bad(vec![Stmt::Let(VarId(9), int(0))], "no variable 9");
    bad(vec![Stmt::Assign(VarId(9), int(0))], "no variable 9");
    bad(vec![store(BufferId(9), int(0), int(0))], "no buffer 9");
    bad_expr(v(VarId(9)), "no variable 9");
    bad_expr(load(BufferId(9), int(0)), "no buffer 9");
}

#[test]
fn scopes() {
    bad(vec![Stmt::Let(N, int(0)), Stmt::Let(N, int(1))], "declared twice");
    bad(
        vec![when(Expr::Bool(true), vec![Stmt::Let(N, int(0))]), when(Expr::Bool(true), vec![Stmt::Let(N, int(0))])],
        "twice",
    );
    bad(vec![Stmt::Let(M, v(N)), Stmt::Let(N, int(0))], "`n` is not declared here");
    bad(vec![Stmt::Declare(N, v(N))], "`n` is not declared here");
    bad(vec![count(LoopKind::Sequential, vec![]), Stmt::Let(M, v(N))], "`n` is not declared here");
    bad(vec![Stmt::Assign(N, int(0))], "`n` is not declared here");
    bad(vec![Stmt::Let(N, int(0)), Stmt::Assign(N, int(1))], "cannot be assigned");
    bad(vec![count(LoopKind::Sequential, vec![Stmt::Assign(N, int(1))])], "cannot be assigned");
    good(vec![Stmt::Declare(N, int(0)), when(eq(v(N), int(0)), vec![Stmt::Assign(N, int(1))])]);
}

#[test]
fn types() {
    bad_expr(int(1), "must be of type f64, not int");
    bad_expr(Expr::Real(1.0, Type::Int), "cannot be of type int");
    bad_expr(add(real(1.0), Expr::Real(1.0, Type::F32)), "operands must have one type");
    bad_expr(op(Op::Rem, real(1.0), real(2.0)), "Rem has no meaning for f64");
    bad_expr(Expr::Neg(Box::new(Expr::Bool(true))), "no negative");
    bad_expr(Expr::Not(Box::new(int(1))), "operand of `!`");
    bad_expr(Expr::Select(Box::new(int(1)), Box::new(real(1.0)), Box::new(real(2.0))), "condition of a selection");
    bad_expr(Expr::Select(Box::new(Expr::Bool(true)), Box::new(real(1.0)), Box::new(int(2))), "both sides");
    bad_expr(Expr::Call(Math::Sqrt, vec![real(1.0), real(1.0)]), "takes 1 arguments");
    bad_expr(Expr::Call(Math::Fma, vec![real(1.0), real(1.0), int(1)]), "real and of one type");
    bad_expr(Expr::Cast(Type::Bool, Box::new(real(1.0))), "no conversion");
    bad_expr(Expr::Cast(Type::F64, Box::new(Expr::Bool(true))), "no conversion");
    bad_expr(Expr::Cast(Type::F64, Box::new(Expr::Lane(3))), "no axis 3");
    bad_expr(load(X, real(0.0)), "an index must be of type int");
    bad(vec![Stmt::Let(FLAG, op(Op::And, Expr::Bool(true), int(1)))], "operands must have one type");
    bad(vec![Stmt::Let(FLAG, op(Op::Or, int(0), int(1)))], "Or has no meaning for int");
    bad(vec![Stmt::Let(FLAG, eq(int(1), real(1.0)))], "compared values");
    let truths = Box::new(Expr::Bool(true));
    bad(vec![Stmt::Let(FLAG, Expr::Compare(Cmp::Lt, truths.clone(), truths))], "no order");
    bad(vec![Stmt::Let(N, int(1 << 31))], "too large for the kernel's integers");
    bad(vec![Stmt::Let(N, op(Op::Div, int(1), int(0)))], "division of an integer by zero");
    bad(vec![when(int(1), vec![])], "a condition must be of type bool");
    bad(vec![Stmt::ExitIf(int(1))], "a condition must be of type bool");
    bad(vec![store(Y, int(0), Expr::Real(0.0, Type::F32))], "the stored value must be of type f64, not f32");
    bad(vec![store(KEPT, int(0), real(0.0))], "the stored value must be of type f32, not f64");
}

#[test]
fn loops() {
    let bad_loop = |var, from, to, step, why: &str| {
        bad(vec![Stmt::For { var, from, to, step, kind: LoopKind::Sequential, body: vec![] }], why);
    };
    bad_loop(A, int(0), int(1), 1, "counts integers");
    bad_loop(N, real(0.0), int(1), 1, "the first value must be of type int");
    bad_loop(N, int(0), real(1.0), 1, "the bound must be of type int");
    bad_loop(N, int(0), int(1), 0, "needs a step");
    bad_loop(N, int(0), int(1), 1 << 40, "the step is too large");
}

#[test]
fn bounds_do_not_change() {
    let until = |to, body| Stmt::For { var: N, from: int(0), to, step: 1, kind: LoopKind::Sequential, body };
    let grows = |by| vec![Stmt::Assign(M, add(v(M), by))];
    bad(
        vec![Stmt::Declare(M, int(8)), until(v(M), grows(int(-1)))],
        "the body changes what the bound reads: `m = m - 1`",
    );
    let counted = store(COUNT, int(0), int(2));
    bad(vec![until(load(COUNT, int(0)), vec![when(Expr::Bool(true), vec![counted])])], "changes what the bound reads");
    good(vec![Stmt::Declare(M, int(8)), until(load(COUNT, int(1)), grows(int(1)))]);
}

#[test]
fn memory() {
    bad(vec![store(X, int(0), real(0.0))], "`x` is read-only");
    bad_expr(load(Y, int(0)), "`y` is only stored to");
    bad_expr(load(X, int(64)), "element 64 is outside of `x`");
    bad_expr(load(X, op(Op::Sub, int(1), int(2))), "element -1 is outside of `x`");
    bad(vec![store(TILE, int(64), real(0.0))], "element 64 is outside of `tile`");
    bad(vec![Stmt::LoadWide { vars: vec![A, B], buffer: X, index: int(64) }], "element 65 is outside");
    bad(vec![Stmt::LoadWide { vars: vec![A, B], buffer: X, index: int(1) }], "a multiple of 2");
    bad(vec![Stmt::LoadWide { vars: vec![A], buffer: X, index: int(0) }], "2 or 4 elements, not 1");
    bad(vec![Stmt::LoadWide { vars: vec![A, B], buffer: Y, index: int(0) }], "`y` is only stored to");
    bad(vec![Stmt::LoadWide { vars: vec![A, N], buffer: X, index: int(0) }], "`n` is of type int");
    bad(vec![Stmt::LoadWide { vars: vec![A, A], buffer: X, index: int(0) }], "declared twice");
    let four = |index| Stmt::StoreWide { buffer: Y, index, values: vec![real(0.0); 4] };
    bad(vec![four(add(op(Op::Mul, lane(), int(4)), int(2)))], "a multiple of 4");
    bad(vec![Stmt::Let(N, op(Op::Mul, lane(), int(4))), four(add(v(N), int(1)))], "a multiple of 4");
    bad(vec![Stmt::StoreWide { buffer: Y, index: int(0), values: vec![real(0.0), int(0)] }], "must be of type f64");
    bad(vec![Stmt::StoreWide { buffer: X, index: int(0), values: vec![real(0.0); 2] }], "read-only");
    good(vec![four(op(Op::Mul, lane(), int(4))), Stmt::Let(N, lane()), four(v(N))]);
}

#[test]
fn atomics() {
    let atomic = |old, buffer, value| vec![Stmt::AtomicAdd { old, buffer, index: int(0), value }];
    good(atomic(N, COUNT, int(1)));
    bad(atomic(N, COUNT, real(1.0)), "the added value must be of type int");
    bad(atomic(A, COUNT, int(1)), "is an integer");
    bad(atomic(N, TILE, int(1)), "must have i32 elements");
    let integers = |buffer: usize, access| {
        let mut k = kernel(64, atomic(N, BufferId(buffer), int(1)));
        k.buffers[buffer].element = Element::I32;
        k.buffers[buffer].access = access;
        k
    };
    refused(&integers(3, Access::ReadWrite), "is private");
    refused(&integers(2, Access::Write), "must be read and written");
    assert_eq!(verify(&integers(4, Access::ReadWrite)), Ok(()));
}

#[test]
fn barriers_need_uniform_control_flow() {
    let depends = "control flow depends on the lane";
    bad(vec![when(eq(lane(), int(0)), vec![block_barrier()])], depends);
    bad(vec![Stmt::Let(N, add(lane(), int(1))), when(eq(v(N), int(0)), vec![block_barrier()])], depends);
    let last_lanes = Stmt::For {
        var: N,
        from: lane(),
        to: int(8),
        step: 1,
        kind: LoopKind::Sequential,
        body: vec![block_barrier()],
    };
    bad(vec![last_lanes], depends);
    // Through an assignment that only some lanes make, and around a loop.
    let divergent = vec![when(eq(lane(), int(0)), vec![Stmt::Assign(M, int(1))])];
    let waits = when(eq(v(M), int(0)), vec![block_barrier()]);
    bad([vec![Stmt::Declare(M, int(0))], divergent.clone(), vec![waits.clone()]].concat(), depends);
    bad(
        vec![Stmt::Declare(M, int(0)), count(LoopKind::Sequential, [vec![waits.clone()], divergent].concat())],
        depends,
    );
    // Through private memory, an atomic and a shuffle.
    let private = when(eq(load(KEPT, int(0)), Expr::Real(0.0, Type::F32)), vec![block_barrier()]);
    bad(vec![store(KEPT, int(0), Expr::Cast(Type::F32, Box::new(lane()))), private.clone()], depends);
    good(vec![store(KEPT, int(0), Expr::Real(1.0, Type::F32)), private]);
    bad(vec![Stmt::AtomicAdd { old: M, buffer: COUNT, index: int(0), value: int(1) }, waits.clone()], depends);
    let shuffled = when(eq(v(B), real(0.0)), vec![block_barrier()]);
    bad(vec![shuffle(real(1.0), Shuffle::Xor(1), 32), shuffled], depends);
    // The last block to arrive finishes: a flag in shared memory tells all its lanes.
    good(vec![
        when(eq(lane(), int(0)), vec![store(TILE, int(0), real(1.0))]),
        block_barrier(),
        when(eq(load(TILE, int(0)), real(1.0)), vec![block_barrier()]),
    ]);
    good(vec![
        when(eq(Expr::Block(0), int(0)), vec![block_barrier()]),
        when(eq(Expr::Lane(1), int(0)), vec![block_barrier()]),
    ]);
    good(vec![Stmt::Let(M, load(COUNT, int(0))), waits]);
}

#[test]
fn grid_barriers_need_all_blocks() {
    let grid = || Stmt::Barrier(Scope::Grid);
    good(vec![when(eq(load(COUNT, int(0)), int(0)), vec![grid()])]);
    bad(vec![when(eq(Expr::Block(0), int(0)), vec![grid()])], "control flow depends on the block or lane");
    bad(vec![when(eq(load(TILE, int(0)), real(0.0)), vec![grid()])], "control flow depends on the block or lane");
    bad(vec![Stmt::ExitIf(eq(Expr::Block(0), int(0))), grid()], "all blocks must exit or none");
}

#[test]
fn exits() {
    good(vec![Stmt::ExitIf(eq(Expr::Block(0), int(1))), block_barrier()]);
    bad(vec![Stmt::ExitIf(eq(lane(), int(0)))], "the same for all lanes");
    bad(vec![when(Expr::Bool(true), vec![Stmt::ExitIf(Expr::Bool(true))])], "at the top level");
    good(vec![block_barrier(), Stmt::ExitIf(eq(Expr::Block(0), int(1))), block_barrier()]);
}

#[test]
fn shuffles() {
    good(vec![shuffle(real(1.0), Shuffle::Down(16), 32)]);
    bad(
        vec![when(eq(lane(), int(0)), vec![shuffle(real(1.0), Shuffle::Xor(1), 32)])],
        "control flow depends on the lane",
    );
    bad(vec![shuffle(real(1.0), Shuffle::Xor(1), 24)], "not 24");
    bad(vec![shuffle(real(1.0), Shuffle::Xor(1), 64)], "not 64");
    bad(vec![shuffle(real(1.0), Shuffle::Down(8), 8)], "a distance of 8");
    bad(vec![shuffle(real(1.0), Shuffle::Index(int(8)), 8)], "outside of a group of 8");
    bad(vec![shuffle(real(1.0), Shuffle::Index(real(0.0)), 8)], "the source lane must be of type int");
    bad(vec![shuffle(int(1), Shuffle::Xor(1), 8)], "the shuffled value must be of type f64");
    bad(
        vec![Stmt::Shuffle { var: FLAG, value: Expr::Bool(true), mode: Shuffle::Xor(1), width: 8 }],
        "cannot be shuffled",
    );
    refused(&kernel(48, vec![shuffle(real(1.0), Shuffle::Xor(1), 16)]), "no whole number");
    assert_eq!(verify(&kernel(16, vec![shuffle(real(1.0), Shuffle::Xor(1), 16)])), Ok(()));
}

#[test]
fn host_kernels() {
    bad_on_host(vec![block_barrier()], "a barrier in a kernel of one lane");
    bad_on_host(vec![shuffle(real(1.0), Shuffle::Xor(0), 1)], "a shuffle in a kernel of one lane");
    let mut shared = kernel(64, vec![]);
    shared.lanes = [1, 1, 1];
    refused(&shared, "no shared buffers");
}

#[test]
fn vector_loops() {
    let sum = |value| vec![Stmt::Declare(A, real(0.0)), count(LoopKind::Simd(vec![A]), vec![Stmt::Assign(A, value)])];
    for value in [
        add(v(A), real(1.0)),
        add(real(1.0), v(A)),
        op(Op::Sub, v(A), real(1.0)),
        op(Op::Max, v(A), real(1.0)),
        Expr::Call(Math::Fma, vec![real(1.0), real(2.0), v(A)]),
    ] {
        good(sum(value));
    }
    let only = "not only summed into";
    bad(sum(op(Op::Mul, v(A), real(2.0))), only);
    bad(sum(op(Op::Sub, real(1.0), v(A))), only);
    bad(sum(add(v(A), v(A))), only);
    bad(vec![Stmt::Declare(A, real(0.0)), count(LoopKind::Simd(vec![A]), vec![])], only);
    let mixed = vec![Stmt::Assign(A, add(v(A), real(1.0))), Stmt::Assign(A, op(Op::Max, v(A), real(1.0)))];
    bad(vec![Stmt::Declare(A, real(0.0)), count(LoopKind::Simd(vec![A]), mixed)], only);
    let read = vec![Stmt::Assign(A, add(v(A), real(1.0))), store(Y, v(N), v(A))];
    bad(vec![Stmt::Declare(A, real(0.0)), count(LoopKind::Simd(vec![A]), read)], only);
    let assigns = count(LoopKind::Simd(vec![]), vec![Stmt::Assign(A, add(v(A), real(1.0)))]);
    bad(vec![Stmt::Declare(A, real(0.0)), assigns], "not independent: they assign `a`");
    bad(
        vec![count(LoopKind::Simd(vec![A]), vec![Stmt::Declare(A, real(0.0)), Stmt::Assign(A, add(v(A), real(1.0)))])],
        "not declared before the loop",
    );
    let own = vec![Stmt::Declare(A, real(0.0)), Stmt::Assign(A, real(1.0)), store(Y, v(N), v(A))];
    good(vec![count(LoopKind::Simd(vec![]), own)]);
    let inside = |stmt| vec![count(LoopKind::Simd(vec![]), vec![stmt])];
    bad(inside(block_barrier()), "a barrier in a vector loop");
    bad(inside(shuffle(real(1.0), Shuffle::Xor(1), 8)), "a shuffle in a vector loop");
    bad(inside(Stmt::Fence), "a fence in a vector loop");
    bad(
        inside(Stmt::AtomicAdd { old: M, buffer: COUNT, index: int(0), value: int(1) }),
        "an atomic addition in a vector loop",
    );
    let inner = Stmt::For { var: M, from: int(0), to: int(2), step: 1, kind: LoopKind::Simd(vec![]), body: vec![] };
    bad(inside(inner), "cannot stand in another");
}
