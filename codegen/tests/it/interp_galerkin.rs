//! The volume part of a discontinuous Galerkin operator, in the shape of a system of three fields:
//! for every element, rhs_p = c_p(element) * sum over directions of metric(element, d) * D_d * field_q(p, d).
//!
//! A block holds a *microblock* of elements, one lane a node (x the node, y the element of the microblock). The
//! matrices D are in shared memory, loaded once per block; the fields of the microblock are staged there too.

use kernelwright_codegen::interp::Residue;
use kernelwright_codegen::kernel::*;

use crate::interp_support::*;

const NODES: usize = 10;
const ELEMENTS: usize = 23;
const MICROBLOCK: usize = 4;
const FIELDS: usize = 3;
const DIRECTIONS: usize = 3;

/// Which field enters equation p in direction d (a rotation, as in a curl).
fn source(p: usize, d: usize) -> usize {
    (p + d) % FIELDS
}

fn at(axis: u8) -> E {
    E(Expr::Lane(axis))
}

fn kernel(element: Element) -> Kernel {
    let ty = value_type(element);
    let mut b = Builder::new("volume", ELEMENTS.div_ceil(MICROBLOCK) as u64, NODES as u32);
    b.kernel.lanes = [NODES as u32, MICROBLOCK as u32, 1];
    let matrices = b.input("matrices", element, DIRECTIONS * NODES * NODES);
    let metric = b.input("metric", element, ELEMENTS * DIRECTIONS);
    let fields = b.input("fields", element, FIELDS * ELEMENTS * NODES);
    let rhs = b.output("rhs", element, FIELDS * ELEMENTS * NODES);
    let d_shared = b.shared("d_shared", element, DIRECTIONS * NODES * NODES);
    let f_shared = b.shared("f_shared", element, FIELDS * MICROBLOCK * NODES);

    let thread = b.set("thread", Type::Int, at(1) * NODES as i64 + at(0));
    b.repeat_by(
        thread,
        (DIRECTIONS * NODES * NODES) as i64,
        (NODES * MICROBLOCK) as i64,
        LoopKind::Sequential,
        |b, n| {
            b.store(d_shared, n.clone(), load(matrices, n));
        },
    );
    let own = b.set("own", Type::Int, block() * MICROBLOCK as i64 + at(1));
    let inside = b.set("inside", Type::Bool, lt(own.clone(), ELEMENTS as i64));
    b.when(inside.clone(), |b| {
        for p in 0..FIELDS {
            let from = (own.clone() + (p * ELEMENTS) as i64) * NODES as i64 + at(0);
            b.store(f_shared, (at(1) + (p * MICROBLOCK) as i64) * NODES as i64 + at(0), load(fields, from));
        }
    });
    b.barrier();
    b.when(inside, |b| {
        for p in 0..FIELDS {
            let sum = b.declare("sum", ty, real(0.0, ty));
            for d in 0..DIRECTIONS {
                let derivative = b.declare("derivative", ty, real(0.0, ty));
                b.repeat_by(0, NODES as i64, 1, LoopKind::Unroll(0), |b, m| {
                    let entry = load(d_shared, (at(0) + (d * NODES) as i64) * NODES as i64 + m.clone());
                    let value = load(f_shared, (at(1) + (source(p, d) * MICROBLOCK) as i64) * NODES as i64 + m);
                    b.assign(derivative, var(derivative) + entry * value);
                });
                let factor = load(metric, own.clone() * DIRECTIONS as i64 + d as i64);
                b.assign(sum, var(sum) + factor * var(derivative));
            }
            b.store(rhs, (own.clone() + (p * ELEMENTS) as i64) * NODES as i64 + at(0), var(sum));
        }
    });
    b.finish()
}

fn oracle<N: Number>(matrices: &[N], metric: &[N], fields: &[N]) -> Vec<N> {
    let mut rhs = Vec::new();
    for p in 0..FIELDS {
        for e in 0..ELEMENTS {
            for n in 0..NODES {
                let derivative = |d: usize| {
                    let term = |m: usize| {
                        matrices[(d * NODES + n) * NODES + m].times(fields[(source(p, d) * ELEMENTS + e) * NODES + m])
                    };
                    (0..NODES).fold(N::integer(0), |sum, m| sum.plus(term(m)))
                };
                let add = |sum: N, d: usize| sum.plus(metric[e * DIRECTIONS + d].times(derivative(d)));
                rhs.push((0..DIRECTIONS).fold(N::integer(0), add));
            }
        }
    }
    rhs
}

fn check<N: Number>() {
    let mut rng = Rng(5);
    let matrices = N::randoms(&mut rng, DIRECTIONS * NODES * NODES);
    let metric = N::randoms(&mut rng, ELEMENTS * DIRECTIONS);
    let fields = N::randoms(&mut rng, FIELDS * ELEMENTS * NODES);
    let mut bench = Bench::<N>::new();
    let args =
        [bench.reals(&matrices), bench.reals(&metric), bench.reals(&fields), bench.empty(N::ELEMENT, fields.len())];
    let stats = bench.launch(&kernel(N::ELEMENT), &args);
    assert_eq!(bench.read(args[3]), oracle(&matrices, &metric, &fields));
    let blocks = ELEMENTS.div_ceil(MICROBLOCK) as u64;
    assert_eq!(stats.buffers[0].loads, blocks * matrices.len() as u64);
    assert_eq!(stats.buffers[0].distinct_loads, matrices.len() as u64);
    assert_eq!(stats.buffers[2].loads, fields.len() as u64);
    assert_eq!(stats.flops, (fields.len() * DIRECTIONS * (2 * NODES + 2)) as u64);
}

#[test]
fn volume_in_f32() {
    check::<f32>();
}

#[test]
fn volume_in_f64() {
    check::<f64>();
}

#[test]
fn volume_modulo_p() {
    check::<Residue>();
}
