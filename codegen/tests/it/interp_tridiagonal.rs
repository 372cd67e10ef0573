//! Tridiagonal systems by the partition method: a column is split over 8 lanes; each eliminates its interior in private
//! arrays until its rows couple to its first and last unknown only, the 16 rows of those are solved through shared
//! memory, and the interior follows by substitution. Compared with Thomas' algorithm on the whole column.

use kernelwright_codegen::interp::Residue;
use kernelwright_codegen::kernel::*;

use crate::interp_support::*;

const PARTS: usize = 8;
const ROWS: usize = 5;
const N: usize = PARTS * ROWS;
const COLUMNS: usize = 10;
/// Columns of a block.
const GROUP: usize = 4;

/// A private array, indexed by row.
#[derive(Clone, Copy)]
struct Row {
    sub: BufferId,
    sup: BufferId,
    rhs: BufferId,
}

fn at(axis: u8) -> E {
    E(Expr::Lane(axis))
}

fn get(buffer: BufferId, row: usize) -> E {
    load(buffer, row as i64)
}

fn kernel(element: Element) -> Kernel {
    let mut b = Builder::new("solve_k", COLUMNS.div_ceil(GROUP) as u64, PARTS as u32);
    b.kernel.lanes = [PARTS as u32, GROUP as u32, 1];
    let inputs = ["lower", "diagonal", "upper", "f"].map(|name| b.input(name, element, N * COLUMNS));
    let x = b.output("x", element, N * COLUMNS);
    let rows = Row {
        sub: b.private("sub", element, ROWS),
        sup: b.private("sup", element, ROWS),
        rhs: b.private("rhs", element, ROWS),
    };
    let reduced = Row {
        sub: b.shared("sub_ends", element, 2 * PARTS * GROUP),
        sup: b.shared("sup_ends", element, 2 * PARTS * GROUP),
        rhs: b.shared("rhs_ends", element, 2 * PARTS * GROUP),
    };
    let column = b.set("column", Type::Int, block() * GROUP as i64 + at(1));
    let inside = b.set("inside", Type::Bool, lt(column.clone(), COLUMNS as i64));
    let first = b.set("first", Type::Int, (at(1) * PARTS as i64 + at(0)) * 2);
    let place = |row: usize| (at(0) * ROWS as i64 + row as i64) * COLUMNS as i64 + column.clone();
    b.when(inside.clone(), |b| {
        eliminate(b, element, inputs, rows, &place);
        for (end, row) in [(0, 0), (1, ROWS - 1)] {
            b.store(reduced.sub, first.clone() + end, get(rows.sub, row));
            b.store(reduced.sup, first.clone() + end, get(rows.sup, row));
            b.store(reduced.rhs, first.clone() + end, get(rows.rhs, row));
        }
    });
    b.barrier();
    b.when(E(Expr::Binary(Op::And, Box::new(inside.0.clone()), Box::new(eq(at(0), 0).0))), |b| {
        solve_ends(b, element, reduced);
    });
    b.barrier();
    b.when(inside, |b| {
        let ty = value_type(element);
        let low = b.set("low", ty, load(reduced.rhs, first.clone()));
        let high = b.set("high", ty, load(reduced.rhs, first + 1));
        b.store(x, place(0), low.clone());
        for row in 1..ROWS - 1 {
            let coupled = get(rows.sub, row) * low.clone() + get(rows.sup, row) * high.clone();
            b.store(x, place(row), get(rows.rhs, row) - coupled);
        }
        b.store(x, place(ROWS - 1), high);
    });
    b.finish()
}

/// Rows become x[i] + sub[i]*x[first] + sup[i]*x[last] = rhs[i] (first: the part before's last; last: the part after's first).
fn eliminate(b: &mut Builder, element: Element, inputs: [BufferId; 4], rows: Row, place: &dyn Fn(usize) -> E) {
    let ty = value_type(element);
    let Row { sub, sup, rhs } = rows;
    for row in 0..ROWS {
        let [lower, diagonal, upper, f] = inputs.map(|input| load(input, place(row)));
        if row < 2 {
            let inverse = b.set("inverse", ty, real(1.0, ty) / diagonal);
            b.store(sub, row as i64, lower * inverse.clone());
            b.store(sup, row as i64, upper * inverse.clone());
            b.store(rhs, row as i64, f * inverse);
            continue;
        }
        let a = b.set("a", ty, lower);
        let inverse = b.set("inverse", ty, real(1.0, ty) / (diagonal - a.clone() * get(sup, row - 1)));
        b.store(rhs, row as i64, inverse.clone() * (f - a.clone() * get(rhs, row - 1)));
        b.store(sup, row as i64, inverse.clone() * upper);
        b.store(sub, row as i64, E(Expr::Neg(Box::new((inverse * a * get(sub, row - 1)).0))));
    }
    b.repeat_by((ROWS - 3) as i64, 0, -1, LoopKind::Sequential, |b, row| {
        let c = b.set("c", ty, load(sup, row.clone()));
        let next = row.clone() + 1;
        b.store(rhs, row.clone(), load(rhs, row.clone()) - c.clone() * load(rhs, next.clone()));
        b.store(sub, row.clone(), load(sub, row.clone()) - c.clone() * load(sub, next.clone()));
        b.store(sup, row, real(0.0, ty) - c * load(sup, next));
    });
    let inverse = b.set("inverse", ty, real(1.0, ty) / (real(1.0, ty) - get(sub, 1) * get(sup, 0)));
    b.store(rhs, 0, inverse.clone() * (get(rhs, 0) - get(sup, 0) * get(rhs, 1)));
    b.store(sub, 0, inverse.clone() * get(sub, 0));
    b.store(sup, 0, real(0.0, ty) - inverse * get(sup, 0) * get(sup, 1));
}

/// Thomas on the ends of a column, in place.
fn solve_ends(b: &mut Builder, element: Element, ends: Row) {
    let ty = value_type(element);
    let base = b.set("base", Type::Int, at(1) * (2 * PARTS) as i64);
    b.repeat(base.clone() + 1, base.clone() + (2 * PARTS) as i64, |b, n| {
        let before = b.set("before", Type::Int, n.clone() - 1);
        let a = b.set("a", ty, load(ends.sub, n.clone()));
        let pivot = real(1.0, ty) - a.clone() * load(ends.sup, before.clone());
        let inverse = b.set("inverse", ty, real(1.0, ty) / pivot);
        b.store(ends.sup, n.clone(), load(ends.sup, n.clone()) * inverse.clone());
        b.store(ends.rhs, n.clone(), (load(ends.rhs, n) - a * load(ends.rhs, before)) * inverse);
    });
    b.repeat_by(base.clone() + (2 * PARTS - 2) as i64, base - 1, -1, LoopKind::Sequential, |b, n| {
        let value = load(ends.rhs, n.clone()) - load(ends.sup, n.clone()) * load(ends.rhs, n.clone() + 1);
        b.store(ends.rhs, n, value);
    });
}

fn thomas<T: Number>([a, b, c, f]: [&[T]; 4], column: usize) -> Vec<T> {
    let at = |v: &[T], k: usize| v[k * COLUMNS + column];
    let (mut sup, mut x) = (vec![at(c, 0).over(at(b, 0))], vec![at(f, 0).over(at(b, 0))]);
    for k in 1..N {
        let pivot = at(b, k).minus(at(a, k).times(sup[k - 1]));
        sup.push(at(c, k).over(pivot));
        x.push(at(f, k).minus(at(a, k).times(x[k - 1])).over(pivot));
    }
    for k in (0..N - 1).rev() {
        x[k] = x[k].minus(sup[k].times(x[k + 1]));
    }
    x
}

fn check<T: Number>() {
    let mut rng = Rng(3);
    let mut values = || T::randoms(&mut rng, N * COLUMNS);
    let (mut a, b, mut c, f) = (values(), values(), values(), values());
    let b: Vec<T> = b.into_iter().map(|b| b.plus(T::integer(4))).collect();
    a[..COLUMNS].fill(T::integer(0));
    c[(N - 1) * COLUMNS..].fill(T::integer(0));
    let mut bench = Bench::<T>::new();
    let args =
        [bench.reals(&a), bench.reals(&b), bench.reals(&c), bench.reals(&f), bench.empty(T::ELEMENT, N * COLUMNS)];
    let stats = bench.launch(&kernel(T::ELEMENT), &args);
    let x = bench.read(args[4]);
    for column in 0..COLUMNS {
        for (k, expected) in thomas([&a, &b, &c, &f], column).into_iter().enumerate() {
            let found = x[k * COLUMNS + column];
            assert!(found.close(expected), "row {k} of column {column}: {found:?} and not {expected:?}");
        }
    }
    for buffer in &stats.buffers[..4] {
        assert_eq!(buffer.loads, (N * COLUMNS) as u64);
    }
    assert_eq!(stats.divisions, (COLUMNS * (N + PARTS + 2 * PARTS - 1)) as u64);
}

#[test]
fn partition_method_in_f32() {
    check::<f32>();
}

#[test]
fn partition_method_in_f64() {
    check::<f64>();
}

#[test]
fn partition_method_modulo_p() {
    check::<Residue>();
}
