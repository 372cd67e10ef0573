//! Reading a stored matrix back: what a kernel does, in plain arithmetic, cell by cell.
//!
//! The reference semantics of a layout, from the table in [`super`]; independent of the way [`store`](super::store)
//! writes and of the kernels that `map` makes.

use kernelwright_syntax::program::{Base, Coding, Level, Origin};

use super::delta::decode;
use super::layout::{Layout, Role, nest};

/// Cells of a stored row in the order of slots: stored column and value, padding included where a product reads it.
/// `get` gives an element of the array of a role.
pub fn row(layout: &Layout, get: &dyn Fn(Role, u64) -> f64, row: u64) -> Vec<(u64, f64)> {
    let has = |role| layout.array(role).is_some();
    let whole = |role, at| get(role, at) as u64;
    if layout.by_entries() {
        let mine = (0..layout.cells).filter(|&at| whole(Role::Row, at) == row);
        return mine.map(|at| (whole(Role::Column, at), get(Role::Value, at))).collect();
    }
    let (h, chunk, lane) = (layout.height, row / layout.height, row % layout.height);
    let start = |c: u64| if has(Role::ChunkStart) { whole(Role::ChunkStart, c) } else { c * layout.longest };
    let slot_start = |s: u64| if has(Role::SlotStart) { whole(Role::SlotStart, s) } else { s * layout.chunks };
    let slots = match (has(Role::ChunkStart), has(Role::SlotStart)) {
        (true, _) => start(chunk + 1) - start(chunk),
        (_, true) => (0..layout.longest).take_while(|&s| chunk < slot_start(s + 1) - slot_start(s)).count() as u64,
        _ => layout.longest,
    };
    let read = if has(Role::Length) { whole(Role::Length, row) } else { slots };
    let order = nest(&layout.format);
    let by_slot = order.iter().position(|l| *l == Level::Slot) < order.iter().position(|l| *l == Level::Chunk);
    let column = |slot: u64, at: u64| {
        if has(Role::Column) {
            return whole(Role::Column, at);
        }
        let (base, origin) = match layout.format.coding {
            Coding::Delta { base, origin, .. } => (base, origin),
            Coding::U32 | Coding::U64 => (Base::Row, Origin::Zero),
        };
        let unit = match base {
            Base::Row => row,
            Base::Chunk => chunk,
            Base::ChunkSlot if by_slot => slot_start(slot) + chunk,
            Base::ChunkSlot => start(chunk) + slot,
        };
        let first = if has(Role::Escape) { whole(Role::EscapeStart, chunk) } else { 0 };
        let count = if has(Role::Escape) { whole(Role::EscapeStart, chunk + 1) - first } else { 0 };
        let aside = |n: u64| whole(Role::Escape, first + n);
        let code = match layout.elides() {
            false => get(Role::Code, at) as u16,
            true if !has(Role::Code) || whole(Role::CodeStart, chunk) == whole(Role::CodeStart, chunk + 1) => 0,
            true => get(Role::Code, whole(Role::CodeStart, chunk) * h + at - start(chunk) * h) as u16,
        };
        let distance = decode(code, whole(Role::Base, unit), count, &aside, slot * h + lane);
        match origin {
            Origin::Zero => distance,
            Origin::Row => distance + row - layout.size,
            Origin::First => distance + whole(Role::First, row),
        }
    };
    let total = layout.cells / h;
    let place = |slot: u64| match (order[0], order[1]) {
        (Level::Chunk, Level::Slot) => (start(chunk) + slot) * h + lane,
        (Level::Chunk, _) => start(chunk) * h + lane * slots + slot,
        (Level::Slot, Level::Chunk) => (slot_start(slot) + chunk) * h + lane,
        (Level::Slot, _) => slot_start(slot) * h + lane * (slot_start(slot + 1) - slot_start(slot)) + chunk,
        (_, Level::Chunk) => lane * total + start(chunk) + slot,
        (_, _) => lane * total + slot_start(slot) + chunk,
    };
    (0..read).map(|slot| (slot, place(slot))).map(|(slot, at)| (column(slot, at), get(Role::Value, at))).collect()
}
