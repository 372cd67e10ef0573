//! A sparse product in the SELL-C-sigma format: chunks of C rows, one lane a row, as many slots as the longest row of
//! the chunk, rows sorted by length within windows.

use kernelwright_codegen::interp::Residue;
use kernelwright_codegen::kernel::*;

use crate::interp_support::*;

const C: usize = 32;
const SIGMA: usize = 64;
const ROWS: usize = 150;
const COLUMNS: usize = 97;

/// Rows of (column, value); some empty, one long.
fn matrix<N: Number>(rng: &mut Rng) -> Vec<Vec<(usize, N)>> {
    let row = |n: usize| {
        let len = if n == 41 { 40 } else { rng.below(9) };
        (0..len).map(|_| (rng.below(COLUMNS), N::random(rng))).collect()
    };
    (0..ROWS).map(row).collect()
}

struct Sell<N> {
    /// Row of each lane of each chunk; `ROWS` where there is none.
    row: Vec<i64>,
    /// First slot of each chunk, and the end.
    start: Vec<i64>,
    column: Vec<i64>,
    value: Vec<N>,
}

fn sell<N: Number>(rows: &[Vec<(usize, N)>]) -> Sell<N> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.chunks_mut(SIGMA).for_each(|window| window.sort_by_key(|&row| std::cmp::Reverse(rows[row].len())));
    let mut sell = Sell { row: Vec::new(), start: vec![0], column: Vec::new(), value: Vec::new() };
    for chunk in order.chunks(C) {
        let slots = chunk.iter().map(|&row| rows[row].len()).max().unwrap();
        for slot in 0..slots {
            for lane in 0..C {
                let entry = chunk.get(lane).and_then(|&row| rows[row].get(slot));
                let (column, value) = entry.copied().unwrap_or((0, N::integer(0)));
                sell.column.push(column as i64);
                sell.value.push(value);
            }
        }
        sell.start.push(sell.start.last().unwrap() + slots as i64);
        sell.row.extend((0..C).map(|lane| chunk.get(lane).map_or(ROWS as i64, |&row| row as i64)));
    }
    sell
}

/// One block a chunk. The slots of a chunk are a run-time loop; columns are 16-bit.
fn kernel(chunks: usize, slots: usize, element: Element) -> Kernel {
    let ty = value_type(element);
    let mut b = Builder::new("sell_product", chunks as u64, C as u32);
    let start = b.input("start", Element::I32, chunks + 1);
    let row = b.input("row", Element::U32, chunks * C);
    let column = b.input("column", Element::U16, slots * C);
    let value = b.input("value", element, slots * C);
    let x = b.input("x", element, COLUMNS);
    let y = b.output("y", element, ROWS);
    b.comment("y = A*x");
    let sum = b.declare("sum", ty, real(0.0, ty));
    b.repeat(load(start, block()), load(start, block() + 1), |b, slot| {
        let at = b.set("at", Type::Int, slot * C as i64 + lane());
        let gathered = b.set("gathered", ty, load(x, load(column, at.clone())));
        b.assign(sum, var(sum) + load(value, at) * gathered);
    });
    let own = b.set("own", Type::Int, load(row, block() * C as i64 + lane()));
    b.when(lt(own.clone(), ROWS as i64), |b| b.store(y, own, var(sum)));
    b.finish()
}

fn check<N: Number>() {
    let mut rng = Rng(11);
    let rows = matrix::<N>(&mut rng);
    let x = N::randoms(&mut rng, COLUMNS);
    let sell = sell(&rows);
    let (chunks, slots) = (sell.start.len() - 1, sell.column.len() / C);
    let mut bench = Bench::<N>::new();
    let args = [
        bench.ints(Element::I32, &sell.start),
        bench.ints(Element::U32, &sell.row),
        bench.ints(Element::U16, &sell.column),
        bench.reals(&sell.value),
        bench.reals(&x),
        bench.empty(N::ELEMENT, ROWS),
    ];
    let stats = bench.launch(&kernel(chunks, slots, N::ELEMENT), &args);
    // Same order of additions: equal to the last bit. The padding adds zeros.
    let expected = rows.iter().map(|row| {
        let add = |sum: N, &(column, value): &(usize, N)| sum.plus(value.times(x[column]));
        row.iter().fold(N::integer(0), add)
    });
    assert_eq!(bench.read(args[5]), expected.collect::<Vec<_>>());
    assert_eq!(stats.flops, 2 * (slots * C) as u64);
    let loads: Vec<u64> = stats.buffers.iter().map(|buffer| buffer.loads).collect();
    let (lanes, padded) = ((chunks * C) as u64, (slots * C) as u64);
    assert_eq!(loads, [2 * lanes, lanes, padded, padded, padded, 0]);
    assert_eq!(stats.buffers[5].distinct_stores, ROWS as u64);
    assert_eq!(stats.buffers[0].distinct_loads, chunks as u64 + 1);
}

#[test]
fn sell_product_in_f32() {
    check::<f32>();
}

#[test]
fn sell_product_in_f64() {
    check::<f64>();
}

#[test]
fn sell_product_modulo_p() {
    check::<Residue>();
}
