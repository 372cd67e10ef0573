//! Sweeps that solve along lines.
use super::MapError;
use super::context::{Context, Made};
use crate::loops::SweepId;
/// Maps a sweep that solves along an axis.
pub(super) fn kernel(_cx: &mut Context, _sweep: SweepId, _axis: usize) -> Result<Made, MapError> {
    Err(MapError::Unsupported("line".into()))
}
