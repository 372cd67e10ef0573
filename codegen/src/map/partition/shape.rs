//! How many lanes a line is split over, and how many lines a block has.

use crate::map::Target;
use crate::map::context::Context;
use crate::map::elimination::Solver;

/// How lines are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::map) struct Shape {
    /// Lines side by side in a block.
    pub(in crate::map) columns: u64,
    /// Segments of a line, one a lane.
    pub(in crate::map) segments: u64,
    /// Points of a segment.
    pub(in crate::map) levels: u64,
    /// The line is closed.
    pub(in crate::map) cyclic: bool,
}

/// Segments of a line, if the variant does not say and they need not be longer than [`MOST_LEVELS`].
const MOST_SEGMENTS: u64 = 32;
/// Bytes of memory that lines side by side have at least: what a block with the most segments reads together.
const SECTOR: u64 = 32;
/// Segments at most of lines along the fastest axis: a lane reads neighbouring words one after the other, whichever line it
/// is of, so that a line may have a block of its own.
const MOST_SEGMENTS_OF_ROWS: u64 = 512;
/// Lanes of a block of such lines.
const LANES_OF_ROWS: u64 = 128;
/// Points of a segment, likewise; more would not fit into registers.
const MOST_LEVELS: u64 = 16;
/// Words of a segment of the longest lines that are split: beyond registers, in memory of the lane's own, which is still
/// ten times as fast as a lane for a line of four thousand points.
const MOST_WORDS: u64 = 64;
/// Points of a segment along the fastest axis, where neighbouring lanes read a segment apart.
const LEVELS_OF_ROWS: u64 = 8;
/// Words of a segment's array in a small problem, which needs the lanes.
const FEW_WORDS: u64 = 8;
/// Lanes that a problem should have at least for segments of most levels, few of which are to be joined.
const MANY_LANES: u64 = 1 << 17;
/// Lanes of a block at most.
const MOST_LANES: u64 = 1024;
/// Lines side by side: what neighbouring lanes read together should be long. In f64, lines of one system take half: their
/// arrays stand in registers ([`super::Arrays`]), and a multiprocessor holds more of the smaller blocks.
const COLUMNS: u64 = 32;
/// Points of a problem in f32 whose blocks are so many that they do not load and compute in step: there lines of one system
/// have twice the points a segment, and twice the lines a block.
const HUGE: u64 = 1 << 26;

impl Shape {
    /// The shape for the lines along an axis; none where a lane per line is the better or the only way.
    pub(in crate::map) fn of(cx: &Context, solvers: &[Solver], axis: usize) -> Option<Shape> {
        let (n, variant) = (cx.size(axis), &cx.options.variant);
        let cyclic = solvers.first().is_some_and(Solver::is_closed);
        if cx.options.target != Target::Cuda || n < 4 || !solvers.iter().all(Solver::is_tridiagonal) {
            return None;
        }
        let most = if axis == 0 { MOST_SEGMENTS_OF_ROWS } else { MOST_LANES * 4 * cx.words() / SECTOR };
        let longest = MOST_WORDS / cx.words();
        let alone = solvers.len() == 1;
        let usual = match axis {
            0 => LEVELS_OF_ROWS,
            _ if alone && cx.words() == 1 && cx.points >= HUGE => 2 * MOST_LEVELS,
            _ => MOST_LEVELS,
        };
        let wanted = match variant.segments {
            Some(0 | 1) => return None,
            Some(wanted) => u64::from(wanted),
            None if n > most * longest => return None,
            None => n.div_ceil(levels(cx, usual)).clamp(2, MOST_SEGMENTS.max(n.div_ceil(usual)).min(most)),
        };
        let (mut segments, mut levels) = divided(n, wanted.min(n / 2));
        if cyclic {
            // The lanes of a closed line find their neighbours modulo a power of two, without rows beyond the end.
            segments = 1 << wanted.min(n / 2).ilog2();
            while segments > 1 && !n.is_multiple_of(segments) {
                segments /= 2;
            }
            levels = n / segments;
            if segments < 2 || variant.segments.is_none() && levels > longest {
                return None;
            }
        }
        let mut columns = side_by_side(cx, axis, segments, alone);
        // Somewhat longer segments may make whole groups.
        while variant.segments.is_none() && !cyclic && !whole_groups(columns * segments) && levels < longest {
            levels += 1;
            segments = n.div_ceil(levels);
            columns = side_by_side(cx, axis, segments, alone);
        }
        (segments > 1 && whole_groups(columns * segments)).then_some(Shape { columns, segments, levels, cyclic })
    }
}

/// Lines of a block, each in so many segments, of one system or of several.
fn side_by_side(cx: &Context, axis: usize, segments: u64, alone: bool) -> u64 {
    if cx.dims() == 1 {
        return 1;
    }
    let usual = match (axis, alone) {
        (0, _) => lines_of_rows(segments),
        (_, true) if cx.words() == 2 => COLUMNS / 2,
        (_, true) if cx.points >= HUGE => 2 * COLUMNS,
        _ => COLUMNS,
    };
    let mut columns = cx.options.variant.columns.map_or(usual, u64::from);
    while columns > 1 && columns * segments > MOST_LANES {
        columns /= 2;
    }
    columns
}

/// Whether a block may have so many lanes: groups are whole, for the sums.
fn whole_groups(lanes: u64) -> bool {
    lanes <= MOST_LANES && lanes.is_multiple_of(32)
}

/// Lines of a block where a line is a row of the memory: none has to lie beside another, so no more than give a block its
/// lanes, in whole groups for the sums.
fn lines_of_rows(segments: u64) -> u64 {
    let fits = |columns: &u64| columns * segments >= LANES_OF_ROWS && (columns * segments).is_multiple_of(32);
    (1..COLUMNS).find(fits).unwrap_or(COLUMNS)
}

/// Points of a segment, if the variant does not say: as many as is usual, fewer in a small problem.
fn levels(cx: &Context, usual: u64) -> u64 {
    if cx.points / MOST_LEVELS >= MANY_LANES { usual } else { usual.min(FEW_WORDS / cx.words()) }
}

/// The number of segments with a point each, near the wanted one, and their length.
fn divided(n: u64, wanted: u64) -> (u64, u64) {
    let levels = n.div_ceil(wanted.max(1)).max(2);
    (n.div_ceil(levels), levels)
}
