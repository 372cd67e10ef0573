//! Execution: loads and stores, checked against the shadows.

use super::block::{Block, Local};
use super::code::{BufferInfo, File, Inst, Reg};
use super::error::{FaultKind, Party};
use super::field::Field;
use super::machine::Machine;
use super::memory::{Cells, Global, fits};
use super::order::{Access as Event, Knowledge};
use super::shadow::{Conflict, Shadow};
use crate::kernel::{Access, Space};

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Load,
    Store,
    Atomic,
}

/// The parts of a buffer an access needs.
struct Target<'t, R> {
    cells: &'t mut Cells<R>,
    set: &'t mut [bool],
    /// None where no conflict is possible.
    shadow: Option<&'t mut Shadow>,
    frozen: bool,
}

/// A value on its way from or to a register.
#[derive(Clone, Copy)]
enum Word<R> {
    Real(R),
    Int(i64),
}

impl<F: Field> Machine<'_, F> {
    /// Executes an instruction that touches memory.
    pub fn access(&mut self, block: &mut Block<F::Real>, inst: Inst) {
        let code = self.code;
        match inst {
            Inst::Aligned { buffer, index, of } => {
                self.aligned(block, &code.buffers[buffer as usize], index, of);
            }
            Inst::Load { file, to, buffer, index, offset } => self.load(block, file, to, buffer, index, offset),
            Inst::Store { file, buffer, index, offset, value } => {
                self.store(block, file, value, buffer, index, offset);
            }
            Inst::AtomicAdd { to, buffer, index, value } => self.atomic_add(block, to, buffer, index, value),
            _ => {}
        }
    }

    fn aligned(&mut self, block: &Block<F::Real>, buffer: &BufferInfo, index: Reg, of: u32) {
        for &lane in &block.active {
            let index = block.ints[index as usize * self.lanes + lane as usize];
            if index.rem_euclid(i64::from(of)) != 0 {
                self.fault(block, lane, FaultKind::Misaligned, Some((buffer, index)));
            }
        }
    }

    fn load(&mut self, block: &mut Block<F::Real>, file: File, to: Reg, buffer: u32, index: Reg, offset: u32) {
        let (n, info) = (self.lanes, &self.code.buffers[buffer as usize]);
        self.count(info, buffer, block.active.len(), Kind::Load);
        for k in 0..block.active.len() {
            let lane = block.active[k];
            let index = block.ints[index as usize * n + lane as usize].saturating_add(offset.into());
            let word = self.cell(block, buffer, lane, index, Kind::Load).map(|at| self.get(block, info, at));
            let to = to as usize * n + lane as usize;
            match (file, word) {
                (File::Real, Some(Word::Real(value))) => block.reals[to] = value,
                (File::Real, _) => block.reals[to] = self.field.zero(),
                (_, Some(Word::Int(value))) => block.ints[to] = self.int(block, lane, Some(value)),
                (_, _) => block.ints[to] = 0,
            }
        }
    }

    fn store(&mut self, block: &mut Block<F::Real>, file: File, value: Reg, buffer: u32, index: Reg, offset: u32) {
        let (n, info) = (self.lanes, &self.code.buffers[buffer as usize]);
        self.count(info, buffer, block.active.len(), Kind::Store);
        for k in 0..block.active.len() {
            let lane = block.active[k];
            let index = block.ints[index as usize * n + lane as usize].saturating_add(offset.into());
            let value = value as usize * n + lane as usize;
            let word = match file {
                File::Real => Word::Real(block.reals[value]),
                _ => Word::Int(block.ints[value]),
            };
            if let Some(at) = self.cell(block, buffer, lane, index, Kind::Store) {
                self.put(block, info, lane, (index, at), word);
            }
        }
    }

    fn atomic_add(&mut self, block: &mut Block<F::Real>, to: Reg, buffer: u32, index: Reg, value: Reg) {
        let (n, info) = (self.lanes, &self.code.buffers[buffer as usize]);
        self.count(info, buffer, block.active.len(), Kind::Load);
        self.count(info, buffer, block.active.len(), Kind::Store);
        for k in 0..block.active.len() {
            let lane = block.active[k];
            let index = block.ints[index as usize * n + lane as usize];
            let value = block.ints[value as usize * n + lane as usize];
            let to = to as usize * n + lane as usize;
            block.ints[to] = 0;
            let Some(at) = self.cell(block, buffer, lane, index, Kind::Atomic) else {
                continue;
            };
            if info.space == Space::Global {
                let released = self.released.entry((self.bound[info.number], at)).or_default();
                block.clock.atomic(lane, released);
            }
            if let Word::Int(old) = self.get(block, info, at) {
                block.ints[to] = self.int(block, lane, Some(old));
                self.put(block, info, lane, (index, at), Word::Int(old.saturating_add(value)));
            }
        }
    }

    fn count(&mut self, info: &BufferInfo, buffer: u32, lanes: usize, kind: Kind) {
        let stats = &mut self.stats.buffers[buffer as usize];
        match kind {
            Kind::Load => stats.loads += lanes as u64,
            Kind::Store | Kind::Atomic => stats.stores += lanes as u64,
        }
        if info.space == Space::Global {
            self.stats.global_bytes += info.element.bytes() * lanes as u64;
        }
    }

    /// Checks an access; the place among the cells if it can be made.
    fn cell(&mut self, block: &mut Block<F::Real>, buffer: u32, lane: u32, index: i64, kind: Kind) -> Option<usize> {
        let info = &self.code.buffers[buffer as usize];
        let Some(element) = usize::try_from(index).ok().filter(|&index| (index as u64) < info.extent) else {
            self.fault(block, lane, FaultKind::OutOfBounds, Some((info, index)));
            return None;
        };
        let at = if info.space == Space::Private { element * self.lanes + lane as usize } else { element };
        let wrong_use = match kind {
            Kind::Load if info.access == Access::Write => Some(FaultKind::WriteOnly),
            Kind::Store | Kind::Atomic if info.access.is_read() => Some(FaultKind::ReadOnly),
            _ => None,
        };
        if let Some(wrong) = wrong_use {
            self.fault(block, lane, wrong, Some((info, index)));
            return None;
        }
        self.note_distinct(buffer, info, at, kind);
        let simd = block.simd_depth > 0;
        let party = if simd { block.iteration } else { lane };
        let now = Event { atomic: kind == Kind::Atomic, ..block.clock.access(self.era, party) };
        let conflict = {
            let (locals, clock) = (Locals { shared: &mut block.shared, private: &mut block.private }, &block.clock);
            let known = clock.known(lane);
            let target = target(self.buffers, &self.bound, locals, info);
            let uninitialised = kind != Kind::Store && !target.set.get(at).copied().unwrap_or(false);
            let conflict = target.shadow.and_then(|shadow| touch(shadow, at, &now, known, kind));
            if uninitialised && conflict.is_none() { Some(FaultKind::Uninitialised) } else { conflict }
        };
        if let Some(kind) = conflict {
            let race = kind != FaultKind::Uninitialised;
            let kind = if simd && race { FaultKind::DependentIterations } else { kind };
            self.fault(block, lane, kind, Some((info, index)));
        }
        Some(at)
    }

    fn note_distinct(&mut self, buffer: u32, info: &BufferInfo, at: usize, kind: Kind) {
        if info.space != Space::Global {
            return;
        }
        let Some(global) = self.buffers[self.bound[info.number]].as_mut() else {
            return;
        };
        let stats = &mut self.stats.buffers[buffer as usize];
        let first = |last: &mut u32| std::mem::replace(last, self.first_era) < self.first_era;
        if kind != Kind::Store && first(&mut global.loaded[at]) {
            stats.distinct_loads += 1;
            self.stats.distinct_bytes += info.element.bytes();
        }
        if kind != Kind::Load && first(&mut global.stored[at]) {
            stats.distinct_stores += 1;
            self.stats.distinct_bytes += info.element.bytes();
        }
    }

    fn get(&mut self, block: &mut Block<F::Real>, info: &BufferInfo, at: usize) -> Word<F::Real> {
        let locals = Locals { shared: &mut block.shared, private: &mut block.private };
        match target(self.buffers, &self.bound, locals, info).cells {
            Cells::Real(cells) => Word::Real(cells[at]),
            Cells::Int(cells) => Word::Int(cells[at]),
        }
    }

    fn put(
        &mut self,
        block: &mut Block<F::Real>,
        info: &BufferInfo,
        lane: u32,
        (index, at): (i64, usize),
        word: Word<F::Real>,
    ) {
        let locals = Locals { shared: &mut block.shared, private: &mut block.private };
        let target = target(self.buffers, &self.bound, locals, info);
        if target.frozen {
            return;
        }
        match (target.cells, word) {
            (Cells::Real(cells), Word::Real(value)) => cells[at] = value,
            (Cells::Int(cells), Word::Int(value)) if fits(info.element, value) => cells[at] = value,
            _ => {
                self.fault(block, lane, FaultKind::StoreRange, Some((info, index)));
                return;
            }
        }
        target.set[at] = true;
    }
}

/// The local buffers of a block.
struct Locals<'l, R> {
    shared: &'l mut [Local<R>],
    private: &'l mut [Local<R>],
}

fn target<'t, R>(
    buffers: &'t mut [Option<Global<R>>],
    bound: &[usize],
    locals: Locals<'t, R>,
    info: &BufferInfo,
) -> Target<'t, R> {
    let local = match info.space {
        Space::Global => {
            let global = buffers[bound[info.number]].as_mut().expect("arguments were checked before the launch");
            let shadow = (!info.access.is_read()).then_some(&mut global.shadow);
            return Target { cells: &mut global.cells, set: &mut global.set, shadow, frozen: global.frozen };
        }
        Space::Shared => &mut locals.shared[info.number],
        Space::Private => &mut locals.private[info.number],
    };
    let shadow = (!local.shadow.is_empty()).then_some(&mut local.shadow);
    Target { cells: &mut local.cells, set: &mut local.set, shadow, frozen: false }
}

/// Records an access in a shadow; the fault if it conflicts with an earlier one.
fn touch(shadow: &mut Shadow, at: usize, now: &Event, known: Option<&Knowledge>, kind: Kind) -> Option<FaultKind> {
    let conflict = match kind {
        Kind::Load => shadow.read(at, now, known),
        Kind::Store | Kind::Atomic => shadow.write(at, now, known),
    };
    Some(match (conflict?, kind) {
        (Conflict::Write(by), Kind::Load) => FaultKind::ReadAfterWrite(party(&by)),
        (Conflict::Write(by), _) => FaultKind::WriteAfterWrite(party(&by)),
        (Conflict::Read(by), _) => FaultKind::WriteAfterRead(party(&by)),
    })
}

fn party(access: &Event) -> Party {
    Party { block: access.block.into(), lane: (access.lane != Event::SEVERAL).then_some(access.lane) }
}
