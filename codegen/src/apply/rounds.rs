//! Rounds of a placed loop.
use super::build::Illegal;
use super::sequence::Sequencer;
use crate::graph::Loop;
use crate::loops::{Control, ScalarId, Sweep, VectorId};
use crate::plan::schedule::Placement;

pub(super) fn rounds(
    _sequencer: &mut Sequencer<'_>,
    _l: &Loop,
    _placement: &Placement,
    _solution: VectorId,
    _start: &mut Vec<Control>,
) -> Result<(Vec<Control>, Vec<(ScalarId, Sweep)>), Illegal> {
    Err(Illegal("x".into()))
}
