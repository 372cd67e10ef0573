//! Which format suits a matrix: a prediction from row lengths, without converting anything.
//!
//! A product is limited by the bytes it moves, or by its longest row where one lane (or a few) must walk through it
//! alone. Both follow from the layout; what part of the memory's speed a kind of walk reaches, and how long a step of a
//! lone lane takes, are constants of the target, from measurements. [`measured`](super::measured) takes times of the best few
//! instead.

use kernelwright_codegen::format::layout::Starts;
use kernelwright_codegen::format::{self, Basis, Layout, Role};
use kernelwright_syntax::library;
use kernelwright_syntax::program::{Coding, Format, Height, Order, Precision, Program};

use super::cost::Cost;
use crate::backend::Target;
use crate::matrix::Csr;

/// A format that can store the matrix, with what a product is predicted to take.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The format.
    pub format: Format,
    /// Bytes and padding.
    pub cost: Cost,
    /// Predicted seconds of a product.
    pub seconds: f64,
    /// What limits it.
    pub limit: Limit,
}

/// What limits a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The bytes it moves.
    Bytes,
    /// What cores do for each row and entry.
    Rows,
    /// The longest row.
    LongestRow,
}

/// Formats in the order of predicted times.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranking {
    /// The fastest first.
    pub candidates: Vec<Candidate>,
    /// Formats that cannot store the matrix, and why.
    pub refused: Vec<(String, String)>,
    /// Entries of the longest row.
    longest: u64,
}

/// Every format there is: those of a program, then those of the library.
pub fn formats(program: Option<&Program>) -> Vec<Format> {
    match program {
        Some(program) => program.format_names().iter().filter_map(|name| program.format(name)).collect(),
        None => library::format_names().filter_map(library::format).collect(),
    }
}

/// Rows of a chunk, and of a window in which rows are sorted, that are worth trying.
const HEIGHTS: [u64; 4] = [16, 32, 64, 128];
const WINDOWS: [Option<u64>; 3] = [Some(512), Some(16_384), None];

/// A format in other shapes that it allows: chunks of other heights, other windows of sorted rows. Their names say which,
/// as in `sell_c_sigma/64` and `sell_c_sigma/window=none`.
pub fn shapes(format: &Format) -> Vec<Format> {
    let named = |ending: String, change: &dyn Fn(&mut Format)| {
        let mut shape = Format { name: format!("{}/{ending}", format.name), ..format.clone() };
        change(&mut shape);
        shape
    };
    let mut shapes = Vec::new();
    if let Height::Rows(own) = format.height
        && own > 1
    {
        let others = HEIGHTS.into_iter().filter(|rows| *rows != own);
        shapes.extend(others.map(|rows| named(rows.to_string(), &|format| format.height = Height::Rows(rows))));
    }
    if let Order::Sorted { window: own } = format.order {
        let others = WINDOWS.into_iter().filter(|window| *window != own);
        shapes.extend(others.map(|window| {
            let word = window.map_or("none".to_string(), |rows| rows.to_string());
            named(format!("window={word}"), &|format| format.order = Order::Sorted { window })
        }));
    }
    shapes.retain(|shape| !shape.has_ragged_slots());
    shapes
}

/// The format of a name, in a list or a shape of one there.
pub fn named(formats: &[Format], name: &str) -> Option<Format> {
    let own = formats.iter().find(|format| format.name == name).cloned();
    own.or_else(|| formats.iter().flat_map(shapes).find(|format| format.name == name))
}

/// Speeds of a target.
struct Speeds {
    /// Bytes a second of a copy.
    copy: f64,
    /// Parts of it that walks reach: rows one by one, rows side by side, entry by entry.
    rows: f64,
    chunks: f64,
    entries: f64,
    /// Rows side by side that all have the same number of slots, which the compiler then knows.
    even: f64,
    /// The same for 16-bit columns, as a part of that, and for columns that follow from bases alone; and where every chunk
    /// has columns aside, as a part of both.
    coded: f64,
    exact: f64,
    aside: f64,
    /// Rows in another order read the operand less regularly; as a part of that.
    sorted: f64,
    /// Seconds that a lane takes for a slot of a row it has alone.
    slot: f64,
    /// Seconds that all cores together take for an entry, and for beginning and ending a row that has its own loop.
    entry: f64,
    row: f64,
}

impl Speeds {
    fn of(target: Target) -> Speeds {
        match target {
            // An H200: sliced ELLPACK of cuSPARSE reaches 0.98 of a copy, its CSR 0.65 on short rows and 0.85 on long
            // ones; its sorted slices take 0.19 us for each of the 4,000 entries of the longest row of a power law.
            Target::Cuda => {
                // Our ELLPACK reaches all of a copy; rows with columns aside, which wait once more, 0.7 of those without.
                let (rows, chunks, entries, even) = (0.75, 0.95, 0.4, 1.0);
                let (entry, row) = (0.0, 0.0);
                Speeds {
                    copy: 4.2e12,
                    rows,
                    chunks,
                    entries,
                    even,
                    coded: 0.97,
                    exact: 0.95,
                    aside: 0.7,
                    sorted: 0.98,
                    slot: 0.19e-6,
                    entry,
                    row,
                }
            }
            // A core gathers one element at a time whatever the order; a row's contiguous values are what it likes.
            Target::Host => {
                // Short rows wait for their own ends instead of memory, unless all are of one length and share a vector's
                // lanes: two cores take 393 us for 79,507 rows of a 7-point stencil in compressed rows, 192 us in ELLPACK.
                // Columns that follow from bases alone were not measured here: they count as no gain over ELLPACK's.
                let (rows, chunks, entries, even) = (0.9, 0.75, 0.4, 0.75);
                let (entry, row) = (0.35e-9, 2.5e-9);
                Speeds {
                    copy: 2e10,
                    rows,
                    chunks,
                    entries,
                    even,
                    coded: 0.7,
                    exact: 0.5,
                    aside: 0.9,
                    sorted: 0.95,
                    slot: 1e-9,
                    entry,
                    row,
                }
            }
        }
    }
}

/// Ranks formats for a matrix whose columns are in a basis: the given one for products alone, that of the rows for loops.
pub fn rank(matrix: &Csr, formats: &[Format], precision: Precision, target: Target, basis: Basis) -> Ranking {
    let (mut candidates, mut refused) = (Vec::new(), Vec::new());
    for format in formats {
        match format::predict(format, &matrix.view(), basis) {
            Ok(layout) => {
                let cost = Cost::of(&layout, precision);
                let (seconds, limit) = time(&layout, &cost, target);
                candidates.push(Candidate { format: format.clone(), cost, seconds, limit });
            }
            Err(error) => refused.push((format.name.clone(), error.to_string())),
        }
    }
    // Stable: of equal ones, the one that is declared first.
    candidates.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let longest = (0..matrix.rows()).map(|row| matrix.row_length(row) as u64).max().unwrap_or(0);
    Ranking { candidates, refused, longest }
}

fn time(layout: &Layout, cost: &Cost, target: Target) -> (f64, Limit) {
    let speeds = Speeds::of(target);
    let single = layout.height == 1;
    let mut part = match (layout.by_entries(), single) {
        (true, _) => speeds.entries,
        (_, true) => speeds.rows,
        _ if is_even(layout) => speeds.even,
        (_, false) => speeds.chunks,
    };
    if matches!(layout.format.coding, Coding::Delta { .. }) {
        // Columns aside of a chunk; nearly all chunks have some where there is one each.
        let open = (layout.escapes as f64 / layout.chunks.max(1) as f64).min(1.0);
        let codes = layout.array(Role::Code).map_or(0, |(_, array)| array.len);
        let with_codes = codes as f64 / layout.cells.max(1) as f64;
        part *= speeds.exact + (speeds.coded - speeds.exact) * with_codes;
        part *= 1.0 - (1.0 - speeds.aside) * open;
    }
    if layout.permuted {
        part *= speeds.sorted;
    }
    let bytes = cost.product_bytes as f64 / (part * speeds.copy);
    let own_loops = if is_even(layout) { 0 } else { layout.size };
    let work = layout.entries as f64 * speeds.entry + own_loops as f64 * speeds.row;
    let row = longest_row(layout, target) * speeds.slot;
    let limits = [(bytes, Limit::Bytes), (work, Limit::Rows), (row, Limit::LongestRow)];
    // Of equal ones the first.
    limits.into_iter().reduce(|most, next| if next.0 > most.0 { next } else { most }).unwrap_or((bytes, Limit::Bytes))
}

/// Whether rows side by side have the same number of slots, all of which are read.
fn is_even(layout: &Layout) -> bool {
    layout.side_by_side() && layout.starts() == Starts::Even && !layout.format.lengths
}

/// Slots that one lane walks through for the longest row.
fn longest_row(layout: &Layout, target: Target) -> f64 {
    if target == Target::Host {
        return layout.longest as f64;
    }
    let cut = if layout.cuts() { layout.cut_beyond() } else { u64::MAX };
    layout.longest.min(cut) as f64 / f64::from(layout.row_lanes())
}

impl Ranking {
    /// The best candidate, by number, and why.
    ///
    /// # Errors
    /// That no format can store the matrix, and why the first cannot.
    pub fn best(&self) -> Result<(&Candidate, String), String> {
        let Some(best) = self.candidates.first() else {
            let why = self.refused.first().map_or("there is none".to_string(), |(_, why)| why.clone());
            return Err(format!("no format can store the matrix: {why}"));
        };
        let megabytes = |candidate: &Candidate| candidate.cost.product_bytes as f64 / 1e6;
        let mut why = format!("{:.3} MB a product", megabytes(best));
        if let Some(next) = self.candidates.get(1) {
            let slower = 100.0 * (next.seconds / best.seconds - 1.0);
            why.push_str(&match next.limit {
                Limit::Bytes | Limit::Rows => {
                    format!(
                        "; next {} with {:.3} MB, predicted {slower:.0} % slower",
                        next.format.name,
                        megabytes(next)
                    )
                }
                Limit::LongestRow => {
                    let longest = self.longest;
                    format!(
                        "; next {}, predicted {slower:.0} % slower for a row of {longest} entries",
                        next.format.name
                    )
                }
            });
        }
        if best.limit == Limit::LongestRow {
            why.push_str(&format!("; the longest row, {} entries, limits it", self.longest));
        }
        Ok((best, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::kinds;

    fn best(name: &str, scale: f64, target: Target) -> String {
        let kind = kinds::all(scale).into_iter().find(|kind| kind.name == name).expect("a kind");
        let ranking = rank(&kind.build(), &formats(None), Precision::F32, target, Basis::Given);
        assert!(ranking.candidates.is_sorted_by(|a, b| a.seconds <= b.seconds));
        ranking.best().expect("a candidate").0.format.name.clone()
    }

    #[test]
    fn a_power_law_is_not_left_to_single_lanes() {
        // At full size the longest of a million rows has 4,000 entries; a lane of its own would take 0.8 ms.
        let chosen = best("powerlaw", 0.05, Target::Cuda);
        assert!(["coo", "csr", "csr_delta"].contains(&chosen.as_str()), "{chosen}");
    }

    #[test]
    fn short_rows_share_the_lanes_of_a_vector_on_a_host() {
        assert_eq!(best("poisson7", 0.01, Target::Host), "ellpack");
        // Padding three times what is stored would not pay.
        assert_ne!(best("samg-like", 0.01, Target::Host), "ellpack");
    }

    #[test]
    fn what_follows_a_pattern_is_stored_without_columns() {
        for stencil in ["poisson7", "fem27"] {
            assert_eq!(best(stencil, 0.02, Target::Cuda), "sliced_dia", "{stencil}");
        }
        // Few rows of an hp method wait for the longest; what each format would move is known all the same.
        let kind = kinds::all(0.02).into_iter().find(|kind| kind.name == "hpfem-p4").expect("a kind");
        let bytes = |basis| {
            let ranking = rank(&kind.build(), &formats(None), Precision::F32, Target::Cuda, basis);
            let of =
                |name: &str| ranking.candidates.iter().find(|c| c.format.name == name).map(|c| c.cost.product_bytes);
            [of("sell_pattern").expect("stored"), of("sell_delta").expect("stored")].map(|bytes| bytes as f64)
        };
        let [pattern, delta] = bytes(Basis::Given);
        assert!(pattern < 0.85 * delta, "{pattern} for {delta}");
        // Where columns move with the rows, shapes are lost.
        let [pattern, delta] = bytes(Basis::Permuted);
        assert!(pattern > delta, "{pattern} for {delta}");
    }
}
