//! The order of rows.

use kernelwright_syntax::program::Order;
use rayon::prelude::*;

/// Rows in the order of the format: element r is the row of the matrix that becomes row r. None where nothing moves.
///
/// Rows of equal length keep their order.
pub fn order(order: Order, lengths: &[u64]) -> Option<Vec<u64>> {
    let Order::Sorted { window } = order else {
        return None;
    };
    let window = window.map_or(lengths.len(), |window| usize::try_from(window).unwrap_or(usize::MAX)).max(1);
    let mut rows: Vec<u64> = (0..lengths.len() as u64).collect();
    let key = |row: &u64| std::cmp::Reverse(lengths[*row as usize]);
    if window < rows.len() {
        rows.par_chunks_mut(window).for_each(|part| part.sort_by_key(key));
    } else {
        rows.par_sort_by_key(key);
    }
    let moved = rows.iter().enumerate().any(|(new, &old)| new as u64 != old);
    moved.then_some(rows)
}

/// Where each row of the matrix went.
pub fn inverse(order: &[u64]) -> Vec<u64> {
    let mut inverse = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        inverse[old as usize] = new as u64;
    }
    inverse
}
