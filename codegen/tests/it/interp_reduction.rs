//! Reductions of a block by shuffles, of a grid by its last block, and phases of a grid apart by its barrier.

use kernelwright_codegen::interp::Residue;
use kernelwright_codegen::kernel::*;

use crate::interp_support::*;

const LANES: usize = 128;
const WARPS: usize = LANES / 32;
const BLOCKS: usize = 6;
const N: usize = 1500;

/// Sum over the block, in lane 0; by shuffles in warps, then across them.
fn block_sum(b: &mut Builder, ty: Type, warps: BufferId, value: E) -> E {
    let mut sum = value;
    for n in [16, 8, 4, 2, 1] {
        let other = b.shuffle(ty, sum.clone(), Shuffle::Down(n), 32);
        sum = b.set("sum", ty, sum + other);
    }
    b.when(eq(lane() % 32, 0), |b| b.store(warps, lane() / 32, sum));
    b.barrier();
    let mut total = b.set("total", ty, select(lt(lane(), WARPS as i64), load(warps, lane()), real(0.0, ty)));
    for n in [2, 1] {
        let other = b.shuffle(ty, total.clone(), Shuffle::Xor(n), WARPS as u32);
        total = b.set("total", ty, total + other);
    }
    // The next sum uses the same words.
    b.barrier();
    total
}

/// Every lane takes every (LANES * BLOCKS)-th product.
fn lane_sum(b: &mut Builder, ty: Type, x: BufferId, y: BufferId) -> E {
    let sum = b.declare("lane_sum", ty, real(0.0, ty));
    let stride = (LANES * BLOCKS) as i64;
    b.repeat_by(block() * LANES as i64 + lane(), N as i64, stride, LoopKind::Sequential, |b, n| {
        b.assign(sum, var(sum) + load(x, n.clone()) * load(y, n));
    });
    var(sum)
}

fn two_stage(element: Element) -> Kernel {
    let ty = value_type(element);
    let mut b = Builder::new("dot_partial", BLOCKS as u64, LANES as u32);
    let (x, y) = (b.input("x", element, N), b.input("y", element, N));
    let partial = b.output("partial", element, BLOCKS);
    let warps = b.shared("warps", element, WARPS);
    let own = lane_sum(&mut b, ty, x, y);
    let total = block_sum(&mut b, ty, warps, own);
    b.when(eq(lane(), 0), |b| b.store(partial, block(), total));
    b.finish()
}

/// The order of additions of [`two_stage`], in plain Rust.
fn tree<T: Number>(values: &[T]) -> T {
    if let [value] = values {
        return *value;
    }
    let (low, high) = values.split_at(values.len() / 2);
    tree(&low.iter().zip(high).map(|(a, b)| a.plus(*b)).collect::<Vec<_>>())
}

fn partial_sums<T: Number>(x: &[T], y: &[T]) -> Vec<T> {
    let lane = |block: usize, lane: usize| {
        let own = (block * LANES + lane..N).step_by(LANES * BLOCKS);
        own.fold(T::integer(0), |sum, n| sum.plus(x[n].times(y[n])))
    };
    let warp = |block, warp| tree(&(0..32).map(|n| lane(block, warp * 32 + n)).collect::<Vec<_>>());
    (0..BLOCKS).map(|block| tree(&(0..WARPS).map(|n| warp(block, n)).collect::<Vec<_>>())).collect()
}

fn check_two_stage<T: Number>() {
    let mut rng = Rng(17);
    let (x, y) = (T::randoms(&mut rng, N), T::randoms(&mut rng, N));
    let mut bench = Bench::<T>::new();
    let args = [bench.reals(&x), bench.reals(&y), bench.empty(T::ELEMENT, BLOCKS)];
    let stats = bench.launch(&two_stage(T::ELEMENT), &args);
    assert_eq!(bench.read(args[2]), partial_sums(&x, &y));
    assert_eq!((stats.buffers[0].loads, stats.buffers[0].distinct_loads), (N as u64, N as u64));
    assert_eq!(stats.barriers, 2 * BLOCKS as u64);
}

#[test]
fn two_stage_sum_in_f32() {
    check_two_stage::<f32>();
}

#[test]
fn two_stage_sum_in_f64() {
    check_two_stage::<f64>();
}

#[test]
fn two_stage_sum_modulo_p() {
    check_two_stage::<Residue>();
}

/// Whether the fence before the atomic operation is there.
fn last_block(element: Element, fence: bool) -> Kernel {
    let ty = value_type(element);
    let mut b = Builder::new("dot", BLOCKS as u64, LANES as u32);
    let (x, y) = (b.input("x", element, N), b.input("y", element, N));
    let scale = b.global("scale", element, 1);
    let partial = b.global("partial", element, BLOCKS);
    let count = b.global("count", Element::I32, 1);
    let result = b.output("result", element, 1);
    let warps = b.shared("warps", element, WARPS);
    let turn = b.shared("turn", Element::I32, 1);
    let own = lane_sum(&mut b, ty, x, y);
    let own = b.set("scaled", ty, own * load(scale, 0));
    let total = block_sum(&mut b, ty, warps, own);
    b.when(eq(lane(), 0), |b| {
        b.store(partial, block(), total);
        if fence {
            b.push(Stmt::Fence);
        }
        let old = b.atomic_add(count, 0, 1);
        b.store(turn, 0, old);
    });
    b.barrier();
    b.comment("the last block adds the sums of all");
    let last = b.set("last", Type::Bool, eq(load(turn, 0), BLOCKS as i64 - 1));
    let mine = E(Expr::Binary(Op::And, Box::new(last.0.clone()), Box::new(lt(lane(), BLOCKS as i64).0)));
    let value = b.set("value", ty, select(mine, load(partial, lane()), real(0.0, ty)));
    let total = block_sum(&mut b, ty, warps, value);
    let writes = E(Expr::Binary(Op::And, Box::new(last.0), Box::new(eq(lane(), 0).0)));
    b.when(writes, |b| {
        b.store(result, 0, total);
        // All blocks have read it, before their fences.
        b.store(scale, 0, real(1.0, ty));
        b.store(count, 0, 0);
    });
    b.finish()
}

fn check_last_block<T: Number>() {
    let mut rng = Rng(23);
    let (x, y) = (T::randoms(&mut rng, N), T::randoms(&mut rng, N));
    let mut bench = Bench::<T>::new();
    let args = [
        bench.reals(&x),
        bench.reals(&y),
        bench.reals(&[T::integer(1)]),
        bench.empty(T::ELEMENT, BLOCKS),
        bench.ints(Element::I32, &[0]),
        bench.empty(T::ELEMENT, 1),
    ];
    bench.launch(&last_block(T::ELEMENT, true), &args);
    let mut sums = partial_sums(&x, &y);
    sums.resize(32, T::integer(0));
    assert_eq!(bench.read(args[5]), [tree(&sums)]);
}

#[test]
fn last_block_sum_in_f32() {
    check_last_block::<f32>();
}

#[test]
fn last_block_sum_in_f64() {
    check_last_block::<f64>();
}

#[test]
fn last_block_sum_modulo_p() {
    check_last_block::<Residue>();
}

#[test]
fn last_block_without_fence_is_a_race() {
    use kernelwright_codegen::interp::FaultKind;
    let faults = faults(&last_block(Element::F64, false));
    let of = |name: &str| faults.iter().find(|fault| fault.buffer.as_deref() == Some(name));
    let partial = of("partial").expect("the sums of the other blocks are read in no order");
    assert!(matches!(partial.kind, FaultKind::ReadAfterWrite(_)), "{partial}");
    let scale = of("scale").expect("the scale is overwritten in no order with reads");
    assert!(matches!(scale.kind, FaultKind::WriteAfterRead(_)), "{scale}");
    assert!(of("count").is_none(), "the counter itself is ordered by its atomic operations");
}

const SWEEPS: usize = 5;
const POINTS: usize = 70;

/// Sweeps u <- (left + right) * weight on a periodic line, between two buffers, a barrier of the grid after each.
fn sweeps(element: Element, barrier: bool) -> Kernel {
    let ty = value_type(element);
    let lanes = 16;
    let mut b = Builder::new("sweeps", POINTS.div_ceil(lanes) as u64, lanes as u32);
    let weight = b.input("weight", element, 1);
    let start = b.input("start", element, POINTS);
    let u = b.global("u", element, 2 * POINTS);
    let points = POINTS as i64;
    let own = b.set("own", Type::Int, block() * lanes as i64 + lane());
    let inside = b.set("inside", Type::Bool, lt(own.clone(), points));
    b.when(inside.clone(), |b| b.store(u, own.clone(), load(start, own.clone())));
    b.grid_barrier();
    b.repeat(0, SWEEPS as i64, |b, sweep| {
        let from = b.set("from", Type::Int, sweep.clone() % 2 * points);
        let to = b.set("to", Type::Int, (sweep + 1) % 2 * points);
        b.when(inside, |b| {
            let left = load(u, from.clone() + (own.clone() + (points - 1)) % points);
            let right = load(u, from + (own.clone() + 1) % points);
            let value = b.set("value", ty, (left + right) * load(weight, 0));
            b.store(u, to + own, value);
        });
        if barrier {
            b.grid_barrier();
        } else {
            b.barrier();
        }
    });
    b.finish()
}

fn check_sweeps<T: Number>() {
    let mut rng = Rng(29);
    let (start, weight) = (T::randoms(&mut rng, POINTS), T::random(&mut rng));
    let mut bench = Bench::<T>::new();
    let args = [bench.reals(&[weight]), bench.reals(&start), bench.empty(T::ELEMENT, 2 * POINTS)];
    bench.launch(&sweeps(T::ELEMENT, true), &args);
    let sweep = |u: Vec<T>| -> Vec<T> {
        let at = |n: usize| u[(n + POINTS - 1) % POINTS].plus(u[(n + 1) % POINTS]).times(weight);
        (0..POINTS).map(at).collect()
    };
    let expected = (0..SWEEPS).fold(start, |u, _| sweep(u));
    let half = SWEEPS % 2 * POINTS;
    assert_eq!(bench.read(args[2])[half..half + POINTS], expected);
}

#[test]
fn grid_barriers_in_f32() {
    check_sweeps::<f32>();
}

#[test]
fn grid_barriers_in_f64() {
    check_sweeps::<f64>();
}

#[test]
fn grid_barriers_modulo_p() {
    check_sweeps::<Residue>();
}

#[test]
fn block_barriers_do_not_order_blocks() {
    let faults = faults(&sweeps(Element::F64, false));
    assert!(faults.iter().any(|fault| fault.buffer.as_deref() == Some("u")), "{faults:?}");
}
