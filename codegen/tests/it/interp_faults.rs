//! Every kind of fault is found, where it is, and its correct counterpart passes.

use kernelwright_codegen::interp::{Fault, FaultKind, InterpError, Memory, Modular, Native, Options, Party, launch};
use kernelwright_codegen::kernel::*;

use crate::interp_support::*;

/// The only fault of a kernel.
#[track_caller]
fn fault(kernel: &Kernel) -> Fault {
    let faults = faults(kernel);
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults[0].clone()
}

#[track_caller]
fn clean(kernel: &Kernel) {
    let faults = faults(kernel);
    assert!(faults.is_empty(), "{faults:?}");
}

fn one(value: f64) -> E {
    real(value, Type::F64)
}

/// Each lane writes a word of shared memory and reads that of its neighbour.
fn neighbour(barriers: bool) -> Kernel {
    let mut b = Builder::new("neighbour", 2, 8);
    let out = b.output("out", Element::F64, 16);
    let words = b.shared("words", Element::F64, 8);
    b.repeat(0, 3, |b, _| {
        b.store(words, lane(), cast(Type::F64, lane()));
        if barriers {
            b.barrier();
        }
        b.store(out, block() * 8 + lane(), load(words, (lane() + 1) % 8));
        if barriers {
            b.barrier();
        }
    });
    b.finish()
}

#[test]
fn shared_memory_without_barrier() {
    clean(&neighbour(true));
    let faults = faults(&neighbour(false));
    let kinds: Vec<FaultKind> = faults.iter().map(|fault| fault.kind).collect();
    let by = |lane| Party { block: 0, lane: Some(lane) };
    assert_eq!(kinds, [FaultKind::ReadAfterWrite(by(1)), FaultKind::WriteAfterRead(by(7))]);
    let first = &faults[0];
    assert_eq!((first.block, first.lane, first.index), ([0, 0, 0], [0, 0, 0], Some(1)));
    assert_eq!(first.place, "body[0].body[1]");
    assert_eq!(first.statement, "out[block.x * 8 + lane.x] = words[(lane.x + 1) % 8]");
    // Two blocks, three rounds, eight lanes.
    assert_eq!(first.count, 48);
}

#[test]
fn equal_values_conflict_too() {
    let mut b = Builder::new("flag", 1, 4);
    let flag = b.output("flag", Element::I32, 1);
    b.store(flag, 0, 1);
    let found = fault(&b.finish());
    assert_eq!(found.kind, FaultKind::WriteAfterWrite(Party { block: 0, lane: Some(0) }));
    assert_eq!((found.lane, found.count), ([1, 0, 0], 3));
}

#[test]
fn write_after_reads_of_several_lanes() {
    let mut b = Builder::new("overwrite", 1, 4);
    let u = b.global("u", Element::F64, 4);
    let sum = b.set("sum", Type::F64, load(u, 0) + load(u, lane()));
    b.store(u, lane(), sum);
    let found = fault(&b.finish());
    assert_eq!(found.kind, FaultKind::WriteAfterRead(Party { block: 0, lane: None }));
    assert_eq!((found.lane, found.index), ([0, 0, 0], Some(0)));
}

#[test]
fn blocks_conflict_even_past_barriers() {
    let mut b = Builder::new("halo", 3, 4);
    let u = b.global("u", Element::F64, 12);
    let own = b.set("own", Type::Int, block() * 4 + lane());
    let value = b.set("value", Type::F64, load(u, (own.clone() + 1) % 12));
    b.barrier();
    b.store(u, own, value);
    let faults = faults(&b.finish());
    let kinds: Vec<FaultKind> = faults.iter().map(|fault| fault.kind).collect();
    let by = |block, lane| Party { block, lane: Some(lane) };
    // Block 0 reads what block 1 writes; block 2 reads what block 0 has written.
    assert_eq!(kinds, [FaultKind::WriteAfterRead(by(0, 3)), FaultKind::ReadAfterWrite(by(0, 0))]);
}

#[test]
fn launches_are_in_order() {
    let mut b = Builder::new("shift", 1, 4);
    let (u, v) = (b.input("u", Element::F64, 4), b.output("v", Element::F64, 4));
    b.store(v, lane(), load(u, (lane() + 1) % 4));
    let kernel = b.finish();
    let mut bench = Bench::<f64>::new();
    let (u, v) = (bench.reals(&[1.0, 2.0, 3.0, 4.0]), bench.empty(Element::F64, 4));
    for args in [[u, v], [v, u]] {
        launch(&kernel, &args, &mut bench.0, &Options::default()).unwrap();
    }
    assert_eq!(bench.read(u), [3.0, 4.0, 1.0, 2.0]);
}

#[test]
fn out_of_bounds() {
    for (index, at, lane_at) in [(lane() - 1, -1, 0), (lane() + 1, 4, 3)] {
        let mut b = Builder::new("outside", 1, 4);
        let (u, v) = (b.input("u", Element::F64, 4), b.output("v", Element::F64, 4));
        b.store(v, lane(), load(u, index));
        let found = fault(&b.finish());
        assert_eq!((found.kind, found.index), (FaultKind::OutOfBounds, Some(at)));
        assert_eq!((found.lane, found.buffer.as_deref()), ([lane_at, 0, 0], Some("u")));
    }
}

#[test]
fn the_side_not_chosen_is_not_evaluated() {
    let mut b = Builder::new("guarded", 1, 4);
    let (u, v) = (b.input("u", Element::F64, 4), b.output("v", Element::F64, 4));
    let inside = b.set("inside", Type::Bool, lt(lane(), 3));
    b.store(v, lane(), select(inside.clone(), load(u, lane() + 1), one(0.0)));
    let positive = compare(Cmp::Gt, load(u, lane() + 1), one(0.0));
    let both = E(Expr::Binary(Op::And, Box::new(inside.0.clone()), Box::new(positive.clone().0)));
    let outside = Expr::Not(Box::new(inside.0));
    let either = E(Expr::Binary(Op::Or, Box::new(outside), Box::new(positive.0)));
    b.when(both, |_| {});
    b.when(either, |_| {});
    clean(&b.finish());
}

/// Reads `space` memory where only lanes below `set` wrote it.
fn partly_written(space: Space, set: i64) -> Kernel {
    let mut b = Builder::new("partly", 1, 4);
    let out = b.output("out", Element::F64, 4);
    let words = match space {
        Space::Private => b.private("words", Element::F64, 4),
        _ => b.shared("words", Element::F64, 4),
    };
    b.when(lt(lane(), set), |b| b.store(words, lane(), one(1.0)));
    b.barrier();
    b.store(out, lane(), load(words, lane()));
    b.finish()
}

#[test]
fn uninitialised_reads() {
    for space in [Space::Private, Space::Shared] {
        clean(&partly_written(space, 4));
        let found = fault(&partly_written(space, 3));
        assert_eq!((found.kind, found.index, found.count), (FaultKind::Uninitialised, Some(3), 1));
    }
}

#[test]
fn uninitialised_and_poisoned_global_memory() {
    let mut b = Builder::new("copy", 1, 4);
    let (u, v) = (b.input("u", Element::F64, 4), b.output("v", Element::F64, 4));
    b.store(v, lane(), load(u, lane()));
    let kernel = b.finish();
    let mut bench = Bench::<f64>::new();
    let args = [bench.empty(Element::F64, 4), bench.empty(Element::F64, 4)];
    let run = |bench: &mut Bench<f64>| launch(&kernel, &args, &mut bench.0, &Options::default());
    let uninitialised = |result| match result {
        Err(InterpError::Faults(report)) => report.faults[0].kind == FaultKind::Uninitialised,
        _ => false,
    };
    assert!(uninitialised(run(&mut bench)));
    bench.0.write(args[0], &[1.0; 4]).unwrap();
    run(&mut bench).unwrap();
    bench.0.poison(args[0]).unwrap();
    assert!(uninitialised(run(&mut bench)));
    bench.0.clear(args[0]).unwrap();
    run(&mut bench).unwrap();
}

#[test]
fn divergent_barrier() {
    let kernel = |limit: i64| {
        let mut b = Builder::new("divergent", 1, 8);
        b.when(lt(lane(), limit), |b| b.barrier());
        b.finish()
    };
    clean(&kernel(8));
    let found = fault(&kernel(5));
    assert_eq!(found.kind, FaultKind::DivergentBarrier { missing: 5 });
    assert_eq!(found.place, "body[0].then[0]");
}

#[test]
fn barrier_in_a_loop_that_lanes_leave_apart() {
    let mut b = Builder::new("ragged", 1, 4);
    b.repeat(0, lane() / 2 + 1, |b, _| b.barrier());
    assert_eq!(fault(&b.finish()).kind, FaultKind::DivergentBarrier { missing: 0 });
}

#[test]
fn divergent_exit() {
    let kernel = |cond: E| {
        let mut b = Builder::new("exit", 2, 4);
        b.push(Stmt::ExitIf(cond.0));
        b.barrier();
        b.finish()
    };
    clean(&kernel(eq(block(), 1)));
    assert_eq!(fault(&kernel(eq(lane(), 1))).kind, FaultKind::DivergentExit);
}

#[test]
fn grid_barrier_that_a_block_misses() {
    let mut b = Builder::new("missed", 3, 4);
    b.push(Stmt::ExitIf(eq(block(), 1).0));
    b.grid_barrier();
    assert_eq!(fault(&b.finish()).kind, FaultKind::GridBarrierMissed { block: 1 });
}

#[test]
fn shuffles_need_their_group() {
    let kernel = |lanes: u32, limit: i64, mode: Shuffle| {
        let mut b = Builder::new("shuffled", 1, lanes);
        b.when(lt(lane(), limit), |b| {
            b.shuffle(Type::Int, lane(), mode, 4);
        });
        b.finish()
    };
    clean(&kernel(8, 8, Shuffle::Down(1)));
    clean(&kernel(8, 4, Shuffle::Down(1)));
    assert_eq!(fault(&kernel(8, 6, Shuffle::Down(1))).kind, FaultKind::DivergentShuffle { missing: 6 });
    assert_eq!(fault(&kernel(6, 6, Shuffle::Xor(2))).kind, FaultKind::ShuffleSource);
    assert_eq!(fault(&kernel(8, 8, Shuffle::Index((lane() % 5).0))).kind, FaultKind::ShuffleSource);
}

#[test]
fn wide_accesses_are_aligned() {
    let kernel = |factor: i64| {
        let mut b = Builder::new("wide", 1, 4);
        let (u, v) = (b.input("u", Element::F64, 8), b.output("v", Element::F64, 8));
        let vars = vec![b.variable("a", Type::F64), b.variable("b", Type::F64)];
        let index = (lane() * factor).0;
        b.push(Stmt::LoadWide { vars: vars.clone(), buffer: u, index });
        let values = vec![Expr::Var(vars[1]), Expr::Var(vars[0])];
        b.push(Stmt::StoreWide { buffer: v, index: (lane() * 2).0, values });
        b.finish()
    };
    clean(&kernel(2));
    let found = fault(&kernel(1));
    assert_eq!((found.kind, found.index, found.count), (FaultKind::Misaligned, Some(1), 2));
}

#[test]
fn access_kinds() {
    let kernel = |access: [Access; 2]| {
        let mut b = Builder::new("copy", 1, 4);
        let (u, v) = (b.input("u", Element::F64, 4), b.output("v", Element::F64, 4));
        b.store(v, lane(), load(u, lane()));
        let mut kernel = b.finish();
        (kernel.buffers[0].access, kernel.buffers[1].access) = (access[0], access[1]);
        kernel
    };
    clean(&kernel([Access::Read, Access::Write]));
    clean(&kernel([Access::ReadWrite, Access::ReadWrite]));
    assert_eq!(fault(&kernel([Access::Write, Access::Write])).kind, FaultKind::WriteOnly);
    assert_eq!(fault(&kernel([Access::Read, Access::Read])).kind, FaultKind::ReadOnly);
}

/// The fault of an integer expression.
#[track_caller]
fn int_fault(value: E) -> FaultKind {
    let mut b = Builder::new("integers", 1, 2);
    b.set("value", Type::Int, value);
    fault(&b.finish()).kind
}

#[test]
fn integers() {
    assert_eq!(int_fault(lane() + i64::from(i32::MAX)), FaultKind::IntegerOverflow);
    assert_eq!(int_fault(int(7) / lane()), FaultKind::IntegerDivision);
    assert_eq!(int_fault((lane() - 1) % 4), FaultKind::IntegerDivision);
    assert_eq!(int_fault(cast(Type::Int, one(3e9))), FaultKind::IntegerOverflow);
    assert_eq!(int_fault(cast(Type::Int, one(f64::NAN))), FaultKind::Truncation);
    let mut b = Builder::new("narrow", 1, 2);
    let out = b.output("out", Element::U16, 2);
    b.store(out, lane(), lane() + 65535);
    assert_eq!(fault(&b.finish()).kind, FaultKind::StoreRange);
}

#[test]
fn division_by_zero_modulo_p() {
    let mut b = Builder::new("divide", 1, 2);
    let u = b.input("u", Element::F64, 2);
    b.set("inverse", Type::F64, one(1.0) / load(u, lane()));
    let kernel = b.finish();
    clean(&kernel);
    let mut memory = Memory::new(Modular::default());
    let u = memory.allocate(Element::F64, 2);
    memory.write(u, &[0.5, 0.0]).unwrap();
    let Err(InterpError::Faults(report)) = launch(&kernel, &[u], &mut memory, &Options::default()) else {
        panic!("zero has no inverse");
    };
    assert_eq!((report.faults[0].kind, report.faults[0].lane), (FaultKind::Undefined, [1, 0, 0]));
}

/// A host kernel over 8 points; `offset` is how far each iteration reads behind what it writes.
fn host_loop(offset: i64, kind: LoopKind) -> Kernel {
    let mut b = Builder::new("points", 1, 1);
    let u = b.global("u", Element::F64, 16);
    let held = b.private("held", Element::F64, 8);
    for _ in 0..2 {
        b.repeat_by(0, 8, 1, kind.clone(), |b, n| {
            b.store(held, n.clone(), load(u, n.clone() + 8 - offset));
            b.store(u, n.clone() + 8, load(held, n));
        });
    }
    b.finish()
}

#[test]
fn independent_iterations() {
    clean(&host_loop(8, LoopKind::Simd(Vec::new())));
    clean(&host_loop(1, LoopKind::Sequential));
    let kinds = faults(&host_loop(1, LoopKind::Simd(Vec::new()))).into_iter().map(|fault| fault.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [FaultKind::DependentIterations; 2]);
}

#[test]
fn private_words_shared_by_independent_iterations() {
    let mut b = Builder::new("scratch", 1, 1);
    let held = b.private("held", Element::F64, 1);
    b.repeat_by(0, 8, 1, LoopKind::Simd(Vec::new()), |b, n| b.store(held, 0, cast(Type::F64, n)));
    assert_eq!(fault(&b.finish()).kind, FaultKind::DependentIterations);
}

#[test]
fn only_the_first_faults_are_kept() {
    let mut b = Builder::new("many", 1, 2);
    let u = b.global("u", Element::F64, 4);
    for n in 0..10 {
        b.store(u, 4 + n, one(0.0));
    }
    let kernel = b.finish();
    let mut memory = Memory::new(Native);
    let u = memory.allocate(Element::F64, 4);
    let options = Options { max_faults: 3, ..Options::default() };
    let Err(error @ InterpError::Faults(_)) = launch(&kernel, &[u], &mut memory, &options) else {
        panic!("not found");
    };
    let text = error.to_string();
    assert_eq!(text.matches("index out of bounds: u[").count(), 3, "{text}");
    assert!(text.contains("at body[2]: u[6] = 0.0"), "{text}");
    assert!(text.ends_with("(given up here)"), "{text}");
}
