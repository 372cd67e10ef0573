//! Order between blocks through atomic operations.

use kernelwright_codegen::interp::FaultKind;
use kernelwright_codegen::kernel::*;

use crate::interp_support::*;

/// Block 0 writes `data` and adds to `flag`; block 1 adds to `flag` and reads `data` if it came second.
/// `write` makes block 0's side, given (data, flag), `read` what block 1 does first, likewise.
fn message(write: impl FnOnce(&mut Builder, BufferId, BufferId), read: impl FnOnce(&mut Builder, BufferId)) -> Kernel {
    let mut b = Builder::new("message", 2, 4);
    let data = b.global("data", Element::F64, 4);
    let flag = b.global("flag", Element::I32, 2);
    let out = b.output("out", Element::F64, 4);
    b.when_else(
        eq(block(), 0),
        |b| write(b, data, flag),
        |b| {
            read(b, flag);
            b.store(out, lane(), load(data, lane()));
        },
    );
    b.finish()
}

fn write_own(b: &mut Builder, data: BufferId) {
    b.store(data, lane(), real(1.0, Type::F64));
}

fn signal(b: &mut Builder, flag: BufferId) {
    b.when(eq(lane(), 0), |b| {
        b.push(Stmt::Fence);
        b.atomic_add(flag, 0, 1);
    });
}

fn wait(b: &mut Builder, flag: BufferId) {
    b.when(eq(lane(), 0), |b| {
        b.atomic_add(flag, 0, 1);
    });
    b.barrier();
}

/// Lanes of the readers that see conflicts on `data`.
fn conflicts(kernel: &Kernel) -> u64 {
    let faults = faults(kernel);
    assert!(faults.len() <= 1, "{faults:?}");
    for fault in &faults {
        assert!(matches!(fault.kind, FaultKind::ReadAfterWrite(by) if by.block == 0), "{fault}");
    }
    faults.iter().map(|fault| fault.count).sum()
}

#[test]
fn barrier_fence_atomic_orders_the_whole_block() {
    let write = |b: &mut Builder, data, flag| {
        write_own(b, data);
        b.barrier();
        signal(b, flag);
    };
    assert_eq!(conflicts(&message(write, wait)), 0);
}

#[test]
fn without_barrier_only_the_own_lane_is_ordered() {
    let write = |b: &mut Builder, data, flag| {
        write_own(b, data);
        signal(b, flag);
    };
    assert_eq!(conflicts(&message(write, wait)), 3);
}

#[test]
fn the_reader_needs_its_barrier() {
    let write = |b: &mut Builder, data, flag| {
        write_own(b, data);
        b.barrier();
        signal(b, flag);
    };
    let read = |b: &mut Builder, flag| {
        b.when(eq(lane(), 0), |b| {
            b.atomic_add(flag, 0, 1);
        });
    };
    assert_eq!(conflicts(&message(write, read)), 3);
}

#[test]
fn a_store_between_fence_and_atomic_is_not_released() {
    let write = |b: &mut Builder, data: BufferId, flag: BufferId| {
        b.when(eq(lane(), 0), |b| {
            b.push(Stmt::Fence);
            b.store(data, 0, real(1.0, Type::F64));
            b.atomic_add(flag, 0, 1);
        });
    };
    assert_eq!(conflicts(&message(write, wait)), 1);
}

#[test]
fn another_element_orders_nothing() {
    let write = |b: &mut Builder, data, flag| {
        write_own(b, data);
        b.barrier();
        b.when(eq(lane(), 0), |b| {
            b.push(Stmt::Fence);
            b.atomic_add(flag, 1, 1);
        });
    };
    assert_eq!(conflicts(&message(write, wait)), 4);
}

/// Order is transitive: block 0 tells block 1, which tells block 2.
fn chain(fence: bool) -> Kernel {
    let mut b = Builder::new("chain", 3, 1);
    let data = b.global("data", Element::F64, 1);
    let flag = b.global("flag", Element::I32, 2);
    let out = b.output("out", Element::F64, 1);
    b.when(eq(block(), 0), |b| {
        b.store(data, 0, real(1.0, Type::F64));
        b.push(Stmt::Fence);
        b.atomic_add(flag, 0, 1);
    });
    b.when(eq(block(), 1), |b| {
        b.atomic_add(flag, 0, 1);
        if fence {
            b.push(Stmt::Fence);
        }
        b.atomic_add(flag, 1, 1);
    });
    b.when(eq(block(), 2), |b| {
        b.atomic_add(flag, 1, 1);
        b.store(out, 0, load(data, 0));
    });
    b.finish()
}

#[test]
fn order_is_transitive_through_fences() {
    assert_eq!(conflicts(&chain(true)), 0);
    assert_eq!(conflicts(&chain(false)), 1);
}

#[test]
fn plain_and_atomic_accesses_conflict() {
    let mut b = Builder::new("mixed", 2, 1);
    let flag = b.global("flag", Element::I32, 1);
    b.when_else(
        eq(block(), 0),
        |b| {
            b.atomic_add(flag, 0, 1);
        },
        |b| b.store(flag, 0, 0),
    );
    let faults = faults(&b.finish());
    assert!(matches!(faults[..], [ref fault] if matches!(fault.kind, FaultKind::WriteAfterWrite(_))), "{faults:?}");
}

#[test]
fn atomic_operations_count_across_blocks() {
    let mut b = Builder::new("take_turns", 5, 8);
    let count = b.global("count", Element::I32, 1);
    let seen = b.output("seen", Element::I32, 40);
    let old = b.atomic_add(count, 0, 2);
    b.store(seen, block() * 8 + lane(), old);
    let kernel = b.finish();
    let mut bench = Bench::<f64>::new();
    let args = [bench.ints(Element::I32, &[0]), bench.empty(Element::I32, 40)];
    bench.launch(&kernel, &args);
    // Three launches of 40 additions of 2.
    assert_eq!(bench.0.ints(args[0]).unwrap(), [240]);
    let mut seen = bench.0.ints(args[1]).unwrap().to_vec();
    seen.sort();
    assert_eq!(seen, (0..40).map(|n| 160 + 2 * n).collect::<Vec<i64>>());
}
