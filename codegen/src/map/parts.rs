//! The space of variants: which parts matter to which kernels, and the values worth trying.
//!
//! A new part of a [`Variant`] joins the tuner here: list its values in [`Variant::parts`] for the work that it shapes,
//! and say in [`Variant::matters`] when another part makes it idle. Nothing else has to know of it. Combinations that
//! give one kernel are found by comparing kernels; this page only keeps most of them from being mapped at all.

use super::{Target, Variant};
use crate::format::layout::Layout;
use crate::kernel::{Element, MULTIPROCESSOR_LANES};
use crate::loops::{Granule, Program, Sweep, ValueKind};
use crate::math::Space;

/// Bytes of vectors that do not stay in near caches.
const FAR: u64 = 1 << 20;

/// What a kernel does, as far as its shapes depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// A sweep over independent points that reads its neighbours.
    Point,
    /// A sweep over independent points that reads nothing beside them.
    Plain,
    /// A sweep that solves along an axis.
    Line(usize),
    /// A sweep with products of a sparse matrix.
    Rows,
    /// The end of sums, and scalar statements.
    Fence,
}

impl Work {
    /// What a sweep is mapped to.
    pub fn of(program: &Program, sweep: &Sweep) -> Work {
        if program.operator.space.rows().is_some() {
            let products = sweep.values.iter().any(|value| value.kind.gathers());
            return if products { Work::Rows } else { Work::Plain };
        }
        let solves = sweep.values.iter().any(|value| matches!(value.kind, ValueKind::Solve(..)));
        match sweep.granule {
            Granule::Line(axis) if solves => Work::Line(axis),
            _ if sweep.values.iter().all(|value| matches!(value.kind, ValueKind::Load(_) | ValueKind::Map(_))) => {
                Work::Plain
            }
            _ => Work::Point,
        }
    }
}

/// A part of a variant with values worth trying, as [`Variant::set`] reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its key.
    pub key: &'static str,
    /// Values, in the order of their number.
    pub values: Vec<String>,
}

impl Part {
    /// A part with its values.
    pub fn new<T: ToString>(key: &'static str, values: impl IntoIterator<Item = T>) -> Part {
        Part { key, values: values.into_iter().map(|value| value.to_string()).collect() }
    }
}

impl Variant {
    /// The parts that shape some work on a space, each with the values worth trying there. Empty where nothing can be
    /// chosen. A default that is not among the values counts as one more.
    pub fn parts(target: Target, space: &Space, precision: Element, work: Work) -> Vec<Part> {
        let grid = space.grid();
        let size = |axis: usize| grid.axes.get(axis).map_or(1, |axis| axis.size);
        let dims = grid.axes.len();
        let parts = match (target, work) {
            (Target::Cuda, Work::Point) => cuda_point(dims, [size(0), size(1), size(2)], true),
            (Target::Cuda, Work::Plain) => cuda_point(dims, [size(0), size(1), size(2)], false),
            (Target::Cuda, Work::Line(axis)) => {
                let others: Vec<u64> = (0..dims).filter(|other| *other != axis).map(size).collect();
                cuda_line(axis, size(axis), &others, precision)
            }
            (Target::Cuda, Work::Rows) => cuda_rows(size(0), space.rows().map(|rows| &rows.layout)),
            (Target::Cuda, Work::Fence) => vec![Part::new("fence_lanes", ["auto", "64", "128", "256", "512", "1024"])],
            (Target::Host, Work::Point) => host_point(dims, [size(1), size(2)], precision, true),
            (Target::Host, Work::Plain) => host_point(dims, [size(1), size(2)], precision, false),
            (Target::Host, Work::Line(axis)) => {
                let first = (0..dims).find(|other| *other != axis).map_or(1, size);
                vec![
                    Part::new("simd", powers(8, 512).into_iter().filter(|lines| *lines < 2 * first)),
                    widths(precision),
                ]
            }
            (Target::Host, Work::Rows) => vec![Part::new("row_unroll", ["auto", "1", "2", "4", "8"])],
            (Target::Host, Work::Fence) => Vec::new(),
        };
        let parts = parts.into_iter().chain(of_size(target, space, precision, work));
        parts.filter(|part| part.values.len() > 1).collect()
    }

    /// Whether a part matters to some work, given the others.
    pub fn matters(&self, key: &str, target: Target, work: Work) -> bool {
        let split = !matches!(self.segments, Some(0 | 1));
        let walks = self.chunk != Some(1);
        // More blocks than a multiprocessor has lanes for are as many as it has lanes for.
        let most = u64::from(MULTIPROCESSOR_LANES / self.row_block().max(1));
        match (work, key) {
            (Work::Point | Work::Plain | Work::Rows, "resident") => self.resident.is_none_or(|n| u64::from(n) <= most),
            (Work::Point | Work::Plain, "unroll") if target == Target::Host => {
                self.tile.is_none_or(|tile| u64::from(self.unroll.unwrap_or(1)) <= tile[0])
            }
            (Work::Point | Work::Plain, "unroll") => walks,
            (Work::Point, "staged") => walks,
            // Tiles carry along the walk in any case.
            (Work::Point, "carry") => walks && self.staged != Some(true),
            (Work::Point, "rows" | "early") => walks && self.staged.unwrap_or(self.carry),
            (Work::Line(_), "columns" | "line_resident" | "shared") => split,
            // Entries are dealt out in another way.
            (Work::Rows, "row_strips") => self.balanced != Some(true),
            (Work::Rows, "row_lanes" | "row_unroll") => {
                self.balanced != Some(true) && self.row_strips.is_none_or(|items| items == 0)
            }
            (Work::Rows, "row_staged") => self.balanced != Some(false),
            (Work::Line(_), "line_block") => !split,
            _ => true,
        }
    }

    /// Text of a part's value, as [`Variant::set`] reads it.
    pub fn get(&self, key: &str) -> Option<String> {
        self.entries().into_iter().find(|entry| entry.0 == key).map(|entry| entry.1)
    }
}

/// Powers of two from one to another.
fn powers(from: u64, to: u64) -> Vec<u64> {
    (from.ilog2()..=to.ilog2()).map(|exponent| 1 << exponent).collect()
}

/// Parts that matter to vectors of some sizes only.
fn of_size(target: Target, space: &Space, precision: Element, work: Work) -> Vec<Part> {
    let (grid, rows) = (space.grid(), space.rows().is_some());
    let bytes = grid.axes.iter().map(|axis| axis.size).product::<u64>() * grid.components as u64 * precision.bytes();
    match (target, work) {
        _ if bytes < FAR => Vec::new(),
        // Lines along the fastest axis are read as they lie.
        (Target::Host, Work::Line(axis)) if axis > 0 => vec![Part::new("ahead", ["auto", "0", "1", "4"])],
        (Target::Cuda, Work::Plain) if !rows => {
            let most = if precision == Element::F32 { 4 } else { 2 };
            let first = grid.axes.first().map_or(1, |axis| axis.size);
            vec![Part::new("vector", [1, most].into_iter().filter(|n| first.is_multiple_of(*n)))]
        }
        _ => Vec::new(),
    }
}

/// Walks along the last axis: a lane's points, up to the whole axis.
fn walks(n: u64) -> Vec<u64> {
    powers(1, 128).into_iter().filter(|points| *points < 2 * n).collect()
}

/// What is chosen if nothing is said, then these.
fn or_auto(values: impl IntoIterator<Item = u64>) -> impl Iterator<Item = String> {
    std::iter::once("auto".to_string()).chain(values.into_iter().map(|value| value.to_string()))
}

/// Iterations of vector loops side by side: what a machine's vectors may hold.
fn widths(precision: Element) -> Part {
    let most = if precision == Element::F32 { 16 } else { 8 };
    Part::new("width", ["auto".to_string(), (most / 2).to_string(), most.to_string()])
}

fn cuda_point(dims: usize, n: [u64; 3], neighbours: bool) -> Vec<Part> {
    // Lanes far beyond the axis have nothing to do.
    let fits = |lanes: &u64, n: u64| *lanes < 2 * n.max(32);
    let blocks: Vec<String> = if dims == 3 {
        let shapes = [32, 64, 128, 256].into_iter().flat_map(|x| [1, 2, 4, 8].map(|y| (x, y)));
        let shapes = shapes.filter(|(x, y)| (64..=512).contains(&(x * y)) && fits(x, n[0]) && *y < 2 * n[1]);
        shapes.map(|(x, y)| format!("{x}x{y}")).collect()
    } else {
        [64, 128, 256, 512].into_iter().filter(|x| fits(x, n[0])).map(|x| format!("{x}x1")).collect()
    };
    let walked = match dims {
        1 => n[0].div_ceil(64),
        2 => n[1],
        _ => n[2],
    };
    let mut parts = vec![Part::new("block", blocks), Part::new("chunk", or_auto(walks(walked)))];
    if dims > 1 {
        parts.push(Part::new("unroll", ["auto", "1", "2"]));
    }
    if dims > 1 && neighbours {
        parts.push(Part::new("carry", ["true", "false"]));
        parts.push(Part::new("staged", ["true", "false"]));
        parts.push(Part::new("early", ["true", "false"]));
    }
    if dims > 2 && neighbours {
        parts.push(Part::new("rows", ["auto", "1", "2", "4"]));
    }
    parts.push(Part::new("resident", ["auto", "0", "4", "8"]));
    parts
}

fn cuda_line(axis: usize, n: u64, others: &[u64], precision: Element) -> Vec<Part> {
    let [first, second] = [others.first().copied().unwrap_or(1), others.get(1).copied().unwrap_or(1)];
    let shapes = [(32, 1), (64, 1), (128, 1), (32, 2), (32, 4)];
    let shapes = shapes.into_iter().filter(|(x, y)| *x < 2 * first.max(32) && *y < 2 * second);
    let blocks = Part::new("line_block", shapes.map(|(x, y)| format!("{x}x{y}")));
    if n < 4 {
        return vec![blocks];
    }
    let most = if precision == Element::F32 { 64 } else { 32 };
    let split =
        powers(2, 512).into_iter().filter(|s| 4 * s <= n.max(8) && n.div_ceil(*s) <= most).map(|s| s.to_string());
    let segments = ["auto".to_string(), "1".to_string()].into_iter().chain(split);
    if axis == 0 {
        return vec![Part::new("segments", segments), blocks];
    }
    vec![
        Part::new("segments", segments),
        Part::new("columns", ["auto", "8", "16", "32", "64"]),
        Part::new("line_resident", ["auto", "0", "1", "2", "3", "4"]),
        Part::new("shared", ["auto", "0", "2", "3", "4"]),
        blocks,
    ]
}

fn cuda_rows(n: u64, layout: Option<&Layout>) -> Vec<Part> {
    let cuts = layout.is_some_and(Layout::cuts);
    vec![
        Part::new("balanced", ["true", "false"].into_iter().filter(|_| cuts)),
        Part::new("row_staged", ["false", "true"].into_iter().filter(|_| cuts)),
        Part::new("row_lanes", ["auto", "1", "2", "4", "8", "16", "32"]),
        Part::new("row_unroll", ["auto", "1", "2", "4", "8", "16"]),
        Part::new("row_strips", ["auto", "0", "4", "8", "16"].into_iter().filter(|_| cuts)),
        Part::new("block", [64, 128, 256, 512, 1024].map(|lanes| format!("{lanes}x1"))),
        Part::new("chunk", walks(n.div_ceil(256)).into_iter().filter(|steps| *steps <= 16)),
        Part::new("resident", ["auto", "0", "4", "6", "8"]),
        Part::new("row_once", ["false", "true"]),
    ]
}

fn host_point(dims: usize, n: [u64; 2], precision: Element, neighbours: bool) -> Vec<Part> {
    let rows = |n: u64| powers(1, 256).into_iter().filter(move |rows| *rows < 2 * n);
    let auto = std::iter::once("auto".to_string());
    let tiles = match dims {
        1 => return vec![widths(precision)],
        2 => Part::new("tile", auto.chain(rows(n[0]).map(|y| format!("{y}x1")))),
        _ => {
            // Planes that are held want long walks.
            let walks: &[u64] = if neighbours { &[1, 2, 4, 8, 32, 64, 128] } else { &[1, 2, 4, 8] };
            let tiles = rows(n[0]).filter(|y| *y >= 2).flat_map(|y| walks.iter().map(move |z| (y, *z)));
            let tiles = tiles.filter(|(_, z)| *z < 2 * n[1]).map(|(y, z)| format!("{y}x{z}"));
            Part::new("tile", auto.chain(tiles))
        }
    };
    let together = [2, 4].into_iter().filter(|rows| *rows <= n[0]);
    let mut parts = vec![tiles, Part::new("unroll", or_auto(together)), widths(precision)];
    if neighbours {
        parts.push(Part::new("staged", ["auto", "true", "false"]));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{Axis, Centring, Grid};

    fn grid(sizes: &[u64]) -> Space {
        let axis = |(n, size): (usize, &u64)| Axis {
            letter: ["i", "j", "k"][n].into(),
            size_name: format!("n{n}"),
            size: *size,
        };
        Space::Axes(Grid {
            axes: sizes.iter().enumerate().map(axis).collect(),
            centring: Centring::Cells,
            components: 1,
        })
    }

    #[test]
    fn every_value_is_one_that_set_reads_and_check_accepts() {
        for sizes in [vec![1000], vec![67, 45], vec![256, 256, 128], vec![5, 3, 2]] {
            let grid = grid(&sizes);
            for target in [Target::Cuda, Target::Host] {
                let works = (0..sizes.len()).map(Work::Line).chain([Work::Point, Work::Plain, Work::Fence]);
                for work in works {
                    for part in Variant::parts(target, &grid, Element::F64, work) {
                        for value in &part.values {
                            let mut variant = Variant::for_space(target, &grid);
                            variant.set(part.key, value).expect("a value of the part");
                            assert_eq!(variant.get(part.key).as_ref(), Some(value));
                            variant.check().expect("a value that kernels can have");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn parts_that_other_parts_make_idle_do_not_matter() {
        let mut variant = Variant::for_space(Target::Cuda, &grid(&[64, 64, 64]));
        assert!(
            variant.matters("columns", Target::Cuda, Work::Line(2))
                && !variant.matters("line_block", Target::Cuda, Work::Line(2))
        );
        variant.set("segments", "1").expect("a number");
        assert!(
            !variant.matters("columns", Target::Cuda, Work::Line(2))
                && variant.matters("line_block", Target::Cuda, Work::Line(2))
        );
        variant.set("chunk", "1").expect("a number");
        assert!(
            !variant.matters("carry", Target::Cuda, Work::Point)
                && !variant.matters("staged", Target::Cuda, Work::Point)
        );
        variant.set("chunk", "8").expect("a number");
        assert!(
            variant.matters("carry", Target::Cuda, Work::Point) && variant.matters("rows", Target::Cuda, Work::Point)
        );
        variant.set("staged", "true").expect("a word");
        assert!(
            !variant.matters("carry", Target::Cuda, Work::Point) && variant.matters("early", Target::Cuda, Work::Point)
        );
        variant.set("staged", "false").expect("a word");
        assert!(!variant.matters("rows", Target::Cuda, Work::Point));
    }

    #[test]
    fn what_is_dealt_out_in_another_way_does_not_matter() {
        let mut variant = Variant::for_space(Target::Cuda, &grid(&[4096]));
        let matters = |variant: &Variant, key| variant.matters(key, Target::Cuda, Work::Rows);
        assert!(["row_lanes", "row_unroll", "row_strips"].iter().all(|key| matters(&variant, key)));
        variant.set("row_strips", "4").expect("a number");
        assert!(!matters(&variant, "row_lanes") && !matters(&variant, "row_unroll"));
        variant.set("balanced", "true").expect("a word");
        assert!(!matters(&variant, "row_strips"));
        // A multiprocessor that holds four blocks holds no eight.
        variant.set("block", "512x1").expect("a pair");
        variant.set("resident", "8").expect("a number");
        assert!(!matters(&variant, "resident"));
        let mut host = Variant::for_space(Target::Host, &grid(&[64, 2, 64]));
        assert!(host.matters("unroll", Target::Host, Work::Point));
        host.set("tile", "2x1").expect("a pair");
        host.set("unroll", "4").expect("a number");
        assert!(!host.matters("unroll", Target::Host, Work::Point), "a tile has two rows");
    }
}
