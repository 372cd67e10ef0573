//! Which accesses come before which: the happens-before relation of Kernel IR.
//!
//! - Accesses of one lane are in order.
//! - A barrier of the block orders all accesses of its lanes before it with all after it. The number of barriers a
//!   block has passed is its *epoch*.
//! - A launch, or a barrier of the grid, orders everything. Their number is the *era*.
//! - An atomic operation on a global element *releases* what its lane knew when it last executed a `Fence` (its own
//!   accesses, those its block made before its last barrier, and what it had acquired), and *acquires* what
//!   earlier atomic operations on the same element released.
//!
//! What a lane has acquired is a [`Knowledge`]. It spreads to the block at the next barrier.

use std::collections::BTreeMap;
use std::rc::Rc;

/// One access, as far as order needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Access {
    /// 0: no access at all (eras count from 1).
    pub era: u32,
    /// Block, counted x fastest.
    pub block: u32,
    /// Barriers the block had passed.
    pub epoch: u32,
    /// Lane, or iteration of a loop declared independent; [`Access::SEVERAL`] lanes of one epoch.
    pub lane: u32,
    /// Fences the lane had executed.
    pub fences: u32,
    /// Indivisible?
    pub atomic: bool,
    /// (In records of reads:) earlier readers are on the overflow list.
    pub spilled: bool,
}

impl Access {
    /// More than one lane.
    pub const SEVERAL: u32 = u32::MAX;
    /// No access.
    pub const NONE: Access = Access { era: 0, block: 0, epoch: 0, lane: 0, fences: 0, atomic: false, spilled: false };

    /// Whether `self`, which happened, is ordered before `next`, by a lane that knows `known`.
    pub fn precedes(&self, next: &Access, known: Option<&Knowledge>) -> bool {
        if self.era < next.era {
            return true;
        }
        let same_block = self.block == next.block
            && (self.epoch < next.epoch || (self.lane == next.lane && self.lane != Access::SEVERAL));
        same_block || known.is_some_and(|known| known.covers(self))
    }
}

/// What was seen of one block: all of its accesses before `epoch`, and in that epoch those of some lanes before
/// their n-th fence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    epoch: u32,
    lanes: BTreeMap<u32, u32>,
}

/// What is known of other blocks in this era.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Knowledge {
    blocks: BTreeMap<u32, Seen>,
}

impl Knowledge {
    fn covers(&self, access: &Access) -> bool {
        self.blocks.get(&access.block).is_some_and(|seen| {
            access.epoch < seen.epoch
                || (access.epoch == seen.epoch
                    && seen.lanes.get(&access.lane).is_some_and(|&fences| access.fences < fences))
        })
    }

    fn see(&mut self, block: u32, epoch: u32, lanes: &BTreeMap<u32, u32>) {
        let seen = self.blocks.entry(block).or_default();
        if seen.epoch < epoch {
            *seen = Seen { epoch, lanes: lanes.clone() };
        } else if seen.epoch == epoch {
            for (&lane, &fences) in lanes {
                let known = seen.lanes.entry(lane).or_default();
                *known = fences.max(*known);
            }
        }
    }

    fn join(&mut self, other: &Knowledge) {
        for (&block, seen) in &other.blocks {
            self.see(block, seen.epoch, &seen.lanes);
        }
    }
}

/// Adds `more` to `known`, sharing where nothing changes.
fn join(known: &mut Option<Rc<Knowledge>>, more: &Option<Rc<Knowledge>>) {
    match (known.as_mut(), more) {
        (_, None) => {}
        (None, Some(more)) => *known = Some(Rc::clone(more)),
        (Some(known), Some(more)) => Rc::make_mut(known).join(more),
    }
}

/// What a lane knew at its last fence.
#[derive(Debug, Clone)]
struct Fenced {
    epoch: u32,
    count: u32,
    known: Option<Rc<Knowledge>>,
}

/// The time of a block and of its lanes.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    block: u32,
    epoch: u32,
    /// Known to every lane since the last barrier.
    known: Option<Rc<Knowledge>>,
    /// Acquired since, by lane (on top of `known`).
    acquired: BTreeMap<u32, Option<Rc<Knowledge>>>,
    fenced: BTreeMap<u32, Fenced>,
}

impl Clock {
    pub fn new(block: u32) -> Clock {
        Clock { block, epoch: 0, known: None, acquired: BTreeMap::new(), fenced: BTreeMap::new() }
    }

    /// An access of a lane now.
    pub fn access(&self, era: u32, lane: u32) -> Access {
        let fences = if self.fenced.is_empty() { 0 } else { self.fenced.get(&lane).map_or(0, |fenced| fenced.count) };
        Access { era, block: self.block, epoch: self.epoch, lane, fences, atomic: false, spilled: false }
    }

    /// What a lane knows now.
    pub fn known(&self, lane: u32) -> Option<&Knowledge> {
        let known = if self.acquired.is_empty() { None } else { self.acquired.get(&lane) };
        known.unwrap_or(&self.known).as_deref()
    }

    /// All lanes meet.
    pub fn barrier(&mut self) {
        self.epoch += 1;
        for (_, known) in std::mem::take(&mut self.acquired) {
            join(&mut self.known, &known);
        }
    }

    /// A lane executes a fence.
    pub fn fence(&mut self, lane: u32) {
        let known = self.acquired.get(&lane).unwrap_or(&self.known).clone();
        let count = self.fenced.get(&lane).map_or(0, |fenced| fenced.count) + 1;
        self.fenced.insert(lane, Fenced { epoch: self.epoch, count, known });
    }

    /// A lane executes an atomic operation on an element; `released` is what such operations on it released.
    pub fn atomic(&mut self, lane: u32, released: &mut Option<Rc<Knowledge>>) {
        let known = self.acquired.entry(lane).or_insert_with(|| self.known.clone());
        join(known, released);
        if let Some(fenced) = self.fenced.get(&lane) {
            join(released, &fenced.known);
            let lanes = BTreeMap::from([(lane, fenced.count)]);
            Rc::make_mut(released.get_or_insert_default()).see(self.block, fenced.epoch, &lanes);
        }
    }
}
