//! 16-bit codes of columns: bases, and columns aside.
//!
//! A chunk is coded at once, because its units share the columns aside. The more columns lie aside, the fewer codes are
//! left for distances; so the number is found by repetition, which ends because it only grows.

/// Codes there are.
const CODES: u64 = 1 << 16;

/// The codes of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// One base per unit.
    pub bases: Vec<u64>,
    /// One code per cell, in the order of the cells given.
    pub codes: Vec<u16>,
    /// Columns aside.
    pub aside: Vec<u64>,
}

/// Codes the cells of a chunk. A cell is a column, or none for padding, and belongs to a unit below `units`; cells come
/// in the order (slot, lane). A unit without columns has the base `rest`.
pub fn chunk(cells: &[Cell], units: usize, rest: u64) -> Chunk {
    if let Some(windows) = spans(cells, units, rest) {
        return coded(cells, &windows, CODES);
    }
    let mut by_unit: Vec<Vec<u64>> = vec![Vec::new(); units];
    for cell in cells {
        if let Some(column) = cell.column {
            by_unit[cell.unit].push(column);
        }
    }
    by_unit.iter_mut().for_each(|columns| columns.sort_unstable());
    let all = by_unit.iter().map(Vec::len).sum::<usize>() as u64;
    let mut aside = 0;
    loop {
        let reach = CODES - aside.min(CODES);
        let windows: Vec<Window> = by_unit.iter().map(|columns| window(columns, reach, rest)).collect();
        let outside = all - windows.iter().map(|w| w.inside).sum::<u64>();
        if outside > CODES {
            return everything(cells, units);
        }
        if outside <= aside {
            return coded(cells, &windows, reach);
        }
        aside = outside;
    }
}

/// Windows of units, where each holds all columns of its own: what [`window`] would find, without sorting.
fn spans(cells: &[Cell], units: usize, rest: u64) -> Option<Vec<Window>> {
    let mut ends = vec![(u64::MAX, 0); units];
    for cell in cells {
        if let Some(column) = cell.column {
            let (low, high) = ends[cell.unit];
            ends[cell.unit] = (low.min(column), high.max(column));
        }
    }
    let near = ends.iter().all(|(low, high)| high.saturating_sub(*low) < CODES);
    let window = |(low, _): (u64, u64)| Window { base: if low == u64::MAX { rest } else { low }, inside: 0 };
    near.then(|| ends.into_iter().map(window).collect())
}

/// A cell of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// Its column; none for padding.
    pub column: Option<u64>,
    /// A column that padding may take: one of its row.
    pub fill: u64,
    /// Whether padding takes the base of its unit instead, so that its code is 0.
    pub follows: bool,
    /// Its unit.
    pub unit: usize,
}

/// Columns of a unit that one base reaches.
#[derive(Debug, Clone, Copy)]
struct Window {
    base: u64,
    inside: u64,
}

/// The base from which `reach` consecutive columns hold the most of some ascending ones; the first such, `rest` of none.
fn window(columns: &[u64], reach: u64, rest: u64) -> Window {
    let mut best = Window { base: columns.first().copied().unwrap_or(rest), inside: 0 };
    let mut end = 0;
    for (first, &base) in columns.iter().enumerate() {
        while end < columns.len() && columns[end] - base < reach {
            end += 1;
        }
        let inside = end.saturating_sub(first) as u64;
        if inside > best.inside {
            best = Window { base, inside };
        }
        end = end.max(first + 1);
    }
    best
}

fn coded(cells: &[Cell], windows: &[Window], reach: u64) -> Chunk {
    let within = |unit: usize, column: u64| column.checked_sub(windows[unit].base).filter(|&d| d < reach);
    let outside = |cell: &Cell| cell.column.filter(|&column| within(cell.unit, column).is_none());
    let aside: Vec<u64> = cells.iter().filter_map(outside).collect();
    // Codes from here on mean columns aside.
    let first = CODES - aside.len() as u64;
    let mut next = 0;
    let mut code = |cell: &Cell| match cell.column {
        Some(column) => within(cell.unit, column).unwrap_or_else(|| {
            next += 1;
            first + next - 1
        }),
        None if cell.follows => 0,
        None => within(cell.unit, cell.fill).unwrap_or(0),
    };
    let codes = cells.iter().map(|cell| code(cell) as u16).collect();
    Chunk { bases: windows.iter().map(|w| w.base).collect(), codes, aside }
}

/// Every column aside.
fn everything(cells: &[Cell], units: usize) -> Chunk {
    let aside = cells.iter().map(|cell| cell.column.unwrap_or(cell.fill)).collect();
    Chunk { bases: vec![0; units], codes: vec![0; cells.len()], aside }
}

/// The column that a code means; what kernels do, in plain arithmetic. `count` columns of the chunk lie aside, `aside`
/// gives one of them, `ordinal` is the cell's place in its chunk in the order (slot, lane).
pub fn decode(code: u16, base: u64, count: u64, aside: &dyn Fn(u64) -> u64, ordinal: u64) -> u64 {
    let code = u64::from(code);
    if count > CODES {
        return aside(ordinal);
    }
    let first = CODES - count;
    if code < first { base + code } else { aside(code - first) }
}
