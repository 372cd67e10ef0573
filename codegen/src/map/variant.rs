//! Shapes of blocks, tiles and chunks: what a tuner may choose.

use super::{MapError, Target};
use crate::kernel::MULTIPROCESSORS;
use crate::math::{Grid, Space};

/// Shapes. Every combination that [`Variant::check`] accepts gives a correct kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Variant {
    /// CUDA: lanes of a block along the two fastest lane axes; none leaves it to the axes and, with tiles, to how much is read.
    pub block: Option<[u32; 2]>,
    /// CUDA: points of the last axis that a lane walks through, of rows of a matrix passes; none leaves it to how many blocks
    /// run together.
    pub chunk: Option<u64>,
    /// CUDA, a lane per line: lanes of a block along the two remaining axes.
    pub line_block: [u32; 2],
    /// CUDA, point sweeps: values met again along the walk stay in registers.
    pub carry: bool,
    /// CUDA, point sweeps: points of the walk that a lane has in hand at a time; none is two with tiles on long walks where
    /// few vectors are read, else one. Host, point sweeps: neighbouring rows of a tile that a round of the inner loop takes
    /// together; none is one.
    pub unroll: Option<u32>,
    /// CUDA, point sweeps: values read at neighbours beside the walk stand in tiles in shared memory; none where that
    /// saves readings. Host: they are held in planes around the tile; none where they have to be computed.
    pub staged: Option<bool>,
    /// CUDA, with tiles: points of the second axis that a lane has; none is two, or leaves it to how much is read.
    pub rows: Option<u32>,
    /// CUDA, with tiles: loads are made a step of the walk before they are needed.
    pub early: bool,
    /// CUDA, lines that are split: kinds of arrays of a lane, 0 to 4, that stand in shared memory instead of registers;
    /// none leaves it to their length.
    pub shared: Option<u32>,
    /// CUDA, line sweeps: lanes that a line is split over; one is a lane per line, none leaves it to the line's length.
    /// Lines along the fastest axis, or of a half bandwidth other than 1, always have a lane each.
    pub segments: Option<u32>,
    /// CUDA, lines that are split: lines side by side in a block; none is 32.
    pub columns: Option<u32>,
    /// CUDA, lines that are split: blocks that a multiprocessor should hold, which limits registers; 0 sets no limit,
    /// none leaves it to what a lane holds.
    pub line_resident: Option<u32>,
    /// CUDA, f32, lines that are split: pivots are inverted by the device's reciprocal, within one unit in the last place,
    /// instead of a division.
    pub reciprocal: bool,
    /// CUDA, point sweeps that read nothing beside their points: neighbours along the fastest axis, 1, 2 or 4, that a lane
    /// loads and stores as a vector, where that divides the axis.
    pub vector: u32,
    /// CUDA, point sweeps: blocks that a multiprocessor should hold; 0 sets no limit, nor does none without tiles.
    pub resident: Option<u32>,
    /// Host: points of the second and third axis in a block; none leaves it to the grid, and to the size of what a block
    /// holds.
    pub tile: Option<[u64; 2]>,
    /// Host: iterations of a vector loop that should run side by side, a power of two; none leaves it to the compiler.
    pub width: Option<u32>,
    /// Host, line sweeps: lines that an inner loop advances together at most; fewer where their arrays would leave the
    /// cache.
    pub simd: u64,
    /// Host, line sweeps: steps along the line at which rows are asked for before they are needed, 0 for never; none
    /// leaves it to the size of vectors.
    pub ahead: Option<u32>,
    /// CUDA: which blocks finish sums; none leaves it to the number of blocks.
    pub fence: Option<Finish>,
    /// CUDA: lanes of the block that finishes sums in a kernel of its own; none leaves it to the number of partial sums.
    pub fence_lanes: Option<u32>,
    /// CUDA, products of a matrix: lanes that share a row, a power of two up to 32; none leaves it to the lengths of rows.
    pub row_lanes: Option<u32>,
    /// CUDA, products of a matrix without padding: cut by entries instead of rows, for rows of very unequal length; none
    /// leaves it to the longest row.
    pub balanced: Option<bool>,
    /// Products of a matrix: slots of a row that a lane asks for together (on the host, that a round of its loop takes), 0 and
    /// 1 for one at a time; none leaves it to the lengths of rows.
    pub row_unroll: Option<u32>,
    /// CUDA, products of a matrix without padding: entries that a lane of a block reads at a time, wherever rows begin; 0
    /// leaves rows to the lanes that share them, none leaves it to the lengths of rows where no lanes or slots are asked for.
    pub row_strips: Option<u32>,
    /// CUDA, products cut by entries: a block's lanes read entries side by side, and hand the terms over in shared memory to the
    /// lanes that add them up; otherwise a lane reads its consecutive entries as vectors.
    pub row_staged: bool,
    /// CUDA, products of a matrix: its cells leave caches first, so that the operand stays there.
    pub row_once: bool,
}

/// Where sums are finished and scalar statements run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Finish {
    /// In a kernel of its own.
    Own,
    /// In the last block of the sweep before, where there is one directly before it.
    Last,
    /// In every block of the sweep after, where there always is one directly after it; elsewhere as if nothing was said.
    Next,
}

/// Blocks that keep a device busy.
const ENOUGH_BLOCKS: u64 = 8 * MULTIPROCESSORS;
/// Points of a walk at most: its two ends are read by the neighbours too, which long walks make up for.
const MOST_POINTS: u64 = 64;
/// Blocks that run together. A few more would run alone at the end.
const TOGETHER: u64 = 4 * MULTIPROCESSORS;
/// Points of a walk in three dimensions at least.
const LEAST_POINTS: u64 = 4;
/// Lanes of a block where products are cut by entries: four entries each. On an H200 the power law of a million rows takes
/// 164 us in f32 and 178 in f64; 166 and 189 with eight entries each, 174 and 184 with registers that nobody holds.
const CUT_LANES: u32 = 512;
/// Times that blocks over rows of a matrix fill a device, at least, before a lane takes several rows.
const ROUNDS: u64 = 4;
/// Rows of a matrix that a lane takes at most.
const MOST_ROWS: u64 = 4;
/// Blocks that keep all cores of a host busy, with room for uneven ones.
const ENOUGH_TILES: u64 = 128;

impl Default for Variant {
    /// Sensible shapes on any grid: most are left to the sweeps.
    fn default() -> Variant {
        Variant {
            block: None,
            chunk: None,
            line_block: [64, 1],
            carry: true,
            unroll: None,
            staged: None,
            rows: None,
            early: true,
            shared: None,
            segments: None,
            columns: None,
            line_resident: None,
            reciprocal: true,
            vector: 1,
            resident: None,
            tile: None,
            width: None,
            simd: 256,
            ahead: None,
            fence: None,
            fence_lanes: None,
            row_lanes: None,
            balanced: None,
            row_unroll: None,
            row_strips: None,
            row_staged: false,
            row_once: false,
        }
    }
}

impl Variant {
    /// Sensible shapes for a space. Blocks over rows of a matrix take few rows a lane: where rows are uneven, many small
    /// blocks even out, and a device that runs the last of a few blocks is half empty.
    pub fn for_space(target: Target, space: &Space) -> Variant {
        let usual = Variant::default();
        match space {
            Space::Axes(_) => usual,
            Space::Rows(rows) => {
                let cut = target == Target::Cuda && rows.layout.is_cut();
                let block = if cut { [CUT_LANES, 1] } else { usual.lanes(space.grid()) };
                let tiles = rows.layout.size.div_ceil(u64::from(block[0]));
                let block = Some(block);
                let row_once = target == Target::Cuda && rows.layout.reads_once();
                let chunk = Some((tiles / (ROUNDS * ENOUGH_BLOCKS)).clamp(1, MOST_ROWS));
                Variant { block, chunk, row_once, ..usual }
            }
        }
    }

    /// Lanes of a block along the two fastest lane axes, without regard to tiles.
    pub fn lanes(&self, grid: &Grid) -> [u32; 2] {
        let size = |axis: usize| grid.axes.get(axis).map_or(1, |a| a.size);
        self.block.unwrap_or_else(|| block(size(0), if grid.axes.len() > 2 { size(1) } else { 1 }))
    }

    /// Points of the last axis that a lane walks through; on one axis, points a block apart.
    pub fn walk(&self, grid: &Grid) -> u64 {
        if let Some(chunk) = self.chunk {
            return chunk;
        }
        let size = |axis: usize| grid.axes.get(axis).map_or(1, |a| a.size);
        let [x, y] = self.lanes(grid).map(u64::from);
        let dims = grid.axes.len();
        let tiles = match dims {
            1 | 2 => size(0).div_ceil(x * y),
            _ => size(0).div_ceil(x) * size(1).div_ceil(y),
        };
        let walked = if dims == 1 { tiles } else { size(dims - 1) };
        let chunks = match dims {
            1 => ENOUGH_BLOCKS,
            2 => ENOUGH_BLOCKS.div_ceil(tiles),
            _ => TOGETHER / tiles.div_ceil(2),
        };
        let chunks = chunks.min(walked).max(1);
        let least = if dims == 3 { LEAST_POINTS.min(walked) } else { 1 };
        walked.div_ceil(chunks).clamp(least, MOST_POINTS)
    }

    /// Points of the second and third axis in a block of the host that holds no planes.
    pub fn tile_of(&self, grid: &Grid) -> [u64; 2] {
        let size = |axis: usize| grid.axes.get(axis).map_or(1, |axis| axis.size);
        self.tile.unwrap_or_else(|| tile(size(1), size(2)))
    }

    /// Passes over rows of a matrix that a block makes.
    pub(super) fn passes(&self) -> u64 {
        self.chunk.unwrap_or(1)
    }

    /// Changes one shape: a key of [`Variant`]'s text form and its value, as in `block`, `64x4` or `segments`, `auto`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "block" => self.block = if value == "auto" { None } else { Some(pair(key, value)?) },
            "chunk" => self.chunk = optional(key, value)?,
            "line_block" => self.line_block = pair(key, value)?,
            "carry" => self.carry = number(key, value)?,
            "unroll" => self.unroll = optional(key, value)?,
            "staged" => self.staged = optional(key, value)?,
            "rows" => self.rows = optional(key, value)?,
            "shared" => self.shared = optional(key, value)?,
            "early" => self.early = number(key, value)?,
            "segments" => self.segments = optional(key, value)?,
            "columns" => self.columns = optional(key, value)?,
            "line_resident" => self.line_resident = optional(key, value)?,
            "reciprocal" => self.reciprocal = number(key, value)?,
            "vector" => self.vector = number(key, value)?,
            "resident" => self.resident = optional(key, value)?,
            "tile" => self.tile = if value.trim() == "auto" { None } else { Some(pair(key, value)?) },
            "width" => self.width = optional(key, value)?,
            "simd" => self.simd = number(key, value)?,
            "ahead" => self.ahead = optional(key, value)?,
            "fence" => self.fence = finish(value)?,
            "fence_lanes" => self.fence_lanes = optional(key, value)?,
            "row_lanes" => self.row_lanes = optional(key, value)?,
            "balanced" => self.balanced = flag(key, value)?,
            "row_unroll" => self.row_unroll = optional(key, value)?,
            "row_strips" => self.row_strips = optional(key, value)?,
            "row_staged" => self.row_staged = number(key, value)?,
            "row_once" => self.row_once = number(key, value)?,
            _ => {
                let keys: Vec<&str> = self.entries().into_iter().map(|e| e.0).collect();
                return Err(format!("`{key}` is not part of a variant; its parts are {}", keys.join(", ")));
            }
        }
        Ok(())
    }

    /// Keys and values, in order.
    pub(super) fn entries(&self) -> Vec<(&'static str, String)> {
        let auto = |n: Option<u32>| n.map_or("auto".to_string(), |n| n.to_string());
        let fence = match self.fence {
            None => "auto",
            Some(Finish::Own) => "own",
            Some(Finish::Last) => "last",
            Some(Finish::Next) => "next",
        };
        let staged = self.staged.map_or("auto".to_string(), |staged| staged.to_string());
        vec![
            ("block", self.block.map_or("auto".to_string(), |[x, y]| format!("{x}x{y}"))),
            ("chunk", self.chunk.map_or("auto".to_string(), |n| n.to_string())),
            ("line_block", format!("{}x{}", self.line_block[0], self.line_block[1])),
            ("carry", self.carry.to_string()),
            ("unroll", auto(self.unroll)),
            ("staged", staged),
            ("rows", auto(self.rows)),
            ("early", self.early.to_string()),
            ("shared", auto(self.shared)),
            ("segments", auto(self.segments)),
            ("columns", auto(self.columns)),
            ("line_resident", auto(self.line_resident)),
            ("reciprocal", self.reciprocal.to_string()),
            ("vector", self.vector.to_string()),
            ("resident", auto(self.resident)),
            ("tile", self.tile.map_or("auto".to_string(), |[y, z]| format!("{y}x{z}"))),
            ("width", auto(self.width)),
            ("simd", self.simd.to_string()),
            ("ahead", auto(self.ahead)),
            ("fence", fence.to_string()),
            ("fence_lanes", auto(self.fence_lanes)),
            ("row_lanes", auto(self.row_lanes)),
            ("balanced", self.balanced.map_or("auto".to_string(), |on| on.to_string())),
            ("row_unroll", auto(self.row_unroll)),
            ("row_strips", auto(self.row_strips)),
            ("row_staged", self.row_staged.to_string()),
            ("row_once", self.row_once.to_string()),
        ]
    }

    /// Whether kernels can have these shapes.
    ///
    /// # Errors
    /// A shape that no kernel can have.
    pub fn check(&self) -> Result<(), MapError> {
        let lanes = |block: [u32; 2], what: &str| {
            let total = u64::from(block[0]) * u64::from(block[1]);
            if total == 0 || !total.is_multiple_of(32) || total > 1024 {
                return Err(MapError::Variant(format!(
                    "{what} has {total} lanes; a multiple of 32 up to 1024 is needed"
                )));
            }
            Ok(())
        };
        self.block.map_or(Ok(()), |block| lanes(block, "a block"))?;
        lanes(self.line_block, "a block of lines")?;
        let fence_lanes = self.fence_lanes.unwrap_or(256);
        lanes([fence_lanes, 1], "the block of a fence")?;
        if !fence_lanes.is_power_of_two() {
            return Err(MapError::Variant("the lanes of a fence are not a power of two".into()));
        }
        if [self.resident, self.line_resident].iter().flatten().any(|&n| n > 32) {
            return Err(MapError::Variant("a multiprocessor holds at most 32 blocks".into()));
        }
        if self.rows.is_some_and(|n| n == 0 || n > 8) {
            return Err(MapError::Variant("a lane has between 1 and 8 rows of a tile".into()));
        }
        if self.columns.is_some_and(|n| n == 0 || n > 1024) {
            return Err(MapError::Variant("a block has between 1 and 1024 lines side by side".into()));
        }
        if self.row_lanes.is_some_and(|n| !n.is_power_of_two() || n > 32) {
            return Err(MapError::Variant("the lanes that share a row are a power of two up to 32".into()));
        }
        if !matches!(self.vector, 1 | 2 | 4) {
            return Err(MapError::Variant("vectors have 1, 2 or 4 elements".into()));
        }
        if self.width.is_some_and(|n| !n.is_power_of_two() || n > 64) {
            return Err(MapError::Variant("a power of two up to 64 iterations run side by side".into()));
        }
        if self.unroll.is_some_and(|n| n > 16) {
            return Err(MapError::Variant("at most 16 points or rows are unrolled".into()));
        }
        if self.row_unroll.is_some_and(|n| n > 32) {
            return Err(MapError::Variant("at most 32 slots are asked for together".into()));
        }
        if self.row_strips.is_some_and(|n| n > 64) {
            return Err(MapError::Variant("a lane reads at most 64 entries of a strip".into()));
        }
        if self.chunk == Some(0) || self.simd == 0 || self.tile.is_some_and(|tile| tile.contains(&0)) {
            return Err(MapError::Variant("a chunk or tile is empty".into()));
        }
        Ok(())
    }
}

/// `block=64x4 chunk=16 …`, what [`Variant::set`] reads.
impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = self.entries().into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&parts.join(" "))
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Result<T, String> {
    let kind = if matches!(key, "carry" | "staged" | "early" | "reciprocal" | "row_staged" | "row_once") {
        "true or false"
    } else {
        "a number"
    };
    value.trim().parse().map_err(|_| format!("`{key}` is {kind}, not `{value}`"))
}

/// `auto`, `own`, `last` or `next`.
fn finish(value: &str) -> Result<Option<Finish>, String> {
    match value.trim() {
        "auto" => Ok(None),
        "own" => Ok(Some(Finish::Own)),
        "last" => Ok(Some(Finish::Last)),
        "next" => Ok(Some(Finish::Next)),
        _ => Err(format!("`fence` is auto, own, last or next, not `{value}`")),
    }
}

/// `true`, `false` or `auto`.
fn flag(key: &str, value: &str) -> Result<Option<bool>, String> {
    match value.trim() {
        "auto" => Ok(None),
        word => word.parse().map(Some).map_err(|_| format!("`{key}` is true, false or auto, not `{value}`")),
    }
}

/// A number, or `auto`.
fn optional<T: std::str::FromStr>(key: &str, value: &str) -> Result<Option<T>, String> {
    if value.trim() == "auto" { Ok(None) } else { number(key, value).map(Some) }
}

/// Two numbers: `64x4`, or `64` for `64x1`.
fn pair<T: std::str::FromStr>(key: &str, value: &str) -> Result<[T; 2], String> {
    let (x, y) = value.split_once('x').unwrap_or((value, "1"));
    Ok([number(key, x)?, number(key, y)?])
}

/// A block of 256 lanes, narrow where the axis is short.
fn block(n0: u64, n1: u64) -> [u32; 2] {
    let x = n0.next_power_of_two().clamp(32, if n1 > 1 { 128 } else { 256 }) as u32;
    let y = if n1 > 1 { (256 / u64::from(x)).min(n1.next_power_of_two()) as u32 } else { 1 };
    [x, y]
}

/// Rows of a block: few enough for all cores, many enough to be worth a call.
fn tile(n1: u64, n2: u64) -> [u64; 2] {
    let rows = (n1 * n2).div_ceil(ENOUGH_TILES).clamp(1, 256);
    if n2 > 1 { [rows.min(n1), (rows / n1).clamp(1, n2)] } else { [rows.min(n1), 1] }
}

#[cfg(test)]
mod tests {
    use super::Variant;

    #[test]
    fn a_variant_is_read_as_it_is_written() {
        let mut odd = Variant::default();
        for (key, value) in [("block", "16x2"), ("segments", "8"), ("resident", "3"), ("tile", "5")] {
            odd.set(key, value).expect("a key with a value of its kind");
        }
        assert_eq!((odd.block, odd.segments, odd.tile), (Some([16, 2]), Some(8), Some([5, 1])));
        let mut read = Variant::default();
        for part in odd.to_string().split(' ') {
            let (key, value) = part.split_once('=').expect("parts are key=value");
            read.set(key, value).expect("what is written can be read");
        }
        assert_eq!(read, odd);
        assert!(read.set("segment", "8").is_err_and(|e| e.contains("segments")));
        assert!(read.set("chunk", "many").is_err());
    }
}
