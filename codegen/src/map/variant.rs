//! Shapes of blocks, tiles and chunks: what a tuner may choose.

use super::{MapError, Target};
use crate::math::Grid;

/// Shapes. Every combination that [`Variant::check`] accepts gives a correct kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Variant {
    /// CUDA: lanes of a block along the two fastest lane axes.
    pub block: [u32; 2],
    /// CUDA: points of the last axis that a lane walks through.
    pub chunk: u64,
    /// CUDA, line sweeps: lanes of a block along the two remaining axes.
    pub line_block: [u32; 2],
    /// Host: points of the second and third axis in a block.
    pub tile: [u64; 2],
    /// Host, line sweeps: lines that an inner loop advances together at most; fewer where their arrays would leave the
    /// cache.
    pub simd: u64,
    /// CUDA: lanes of the block that finishes sums.
    pub fence_lanes: u32,
}

/// Blocks that keep a device busy.
const ENOUGH_BLOCKS: u64 = 1024;
/// Blocks that keep all cores of a host busy, with room for uneven ones.
const ENOUGH_TILES: u64 = 128;

impl Variant {
    /// Sensible shapes for a grid.
    pub fn for_grid(target: Target, grid: &Grid) -> Variant {
        let size = |axis: usize| grid.axes.get(axis).map_or(1, |a| a.size);
        let block = block(size(0), if grid.axes.len() > 2 { size(1) } else { 1 });
        let tiles = match grid.axes.len() {
            1 => size(0).div_ceil(u64::from(block[0])),
            2 => size(0).div_ceil(u64::from(block[0])),
            _ => size(0).div_ceil(u64::from(block[0])) * size(1).div_ceil(u64::from(block[1])),
        };
        let walked = if grid.axes.len() == 1 { tiles } else { size(grid.axes.len() - 1) };
        let chunks = ENOUGH_BLOCKS.div_ceil(if grid.axes.len() == 1 { 1 } else { tiles }).min(walked).max(1);
        Variant {
            block,
            chunk: walked.div_ceil(chunks).clamp(1, 16),
            line_block: [64, 1],
            tile: tile(target, size(1), size(2)),
            simd: 256,
            fence_lanes: 256,
        }
    }

    /// Whether kernels can have these shapes.
    pub(super) fn check(&self) -> Result<(), MapError> {
        let lanes = |block: [u32; 2], what: &str| {
            let total = u64::from(block[0]) * u64::from(block[1]);
            if total == 0 || !total.is_multiple_of(32) || total > 1024 {
                return Err(MapError::Variant(format!(
                    "{what} has {total} lanes; a multiple of 32 up to 1024 is needed"
                )));
            }
            Ok(())
        };
        lanes(self.block, "a block")?;
        lanes(self.line_block, "a block of lines")?;
        lanes([self.fence_lanes, 1], "the block of a fence")?;
        if !self.fence_lanes.is_power_of_two() {
            return Err(MapError::Variant("the lanes of a fence are not a power of two".into()));
        }
        if self.chunk == 0 || self.simd == 0 || self.tile.contains(&0) {
            return Err(MapError::Variant("a chunk or tile is empty".into()));
        }
        Ok(())
    }
}

/// A block of 256 lanes, narrow where the axis is short.
fn block(n0: u64, n1: u64) -> [u32; 2] {
    let x = n0.next_power_of_two().clamp(32, if n1 > 1 { 64 } else { 256 }) as u32;
    let y = if n1 > 1 { (256 / u64::from(x)).min(n1.next_power_of_two()) as u32 } else { 1 };
    [x, y]
}

/// Rows of a block: few enough for all cores, many enough to be worth a call.
fn tile(target: Target, n1: u64, n2: u64) -> [u64; 2] {
    if target == Target::Cuda {
        return [1, 1];
    }
    let rows = (n1 * n2).div_ceil(ENOUGH_TILES).clamp(1, 256);
    if n2 > 1 { [rows.min(n1), (rows / n1).clamp(1, n2)] } else { [rows.min(n1), 1] }
}
