//! Values of a walk that a block keeps in shared memory around its points.
//!
//! A lane that walks along the last axis reads values at neighbours beside its own column: the vectors behind them
//! would come from the caches once per row of neighbours. Instead a *plane* of the block's points and those beside it,
//! the halo, is filled with each value once a step, and the neighbours are read there. The halo holds what a reading
//! finds there by the boundary rule; so nothing is left to resolve but the ends of the walk.
//!
//! Planes of a value form a ring, one longer than the levels that are read at a time: a step fills the plane that
//! nobody reads any more, and one barrier a step is enough.

use std::collections::{BTreeMap, BTreeSet};

use super::MapError;
use super::context::Context;
use super::eval::{Eval, Guarding, Key, load_at};
use super::fold;
use super::images::{Piece, Place, images};
use super::march::{self, Part};
use super::position::{Coord, Position, side};
use crate::kernel::{BufferId, Expr, MULTIPROCESSORS, VarId};
use crate::kernel_verify::STATIC_SHARED_BYTES;
use crate::loops::{Sweep, ValueId, ValueKind};

/// Points of the halo that a lane fills at most.
const MOST_ROUNDS: i64 = 4;

/// Which values stand in tiles, and the shape of these.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Plan {
    /// Components of values, each with the levels from the own point at which it is read beside the column.
    pub(super) staged: Vec<(Part, (i64, i64))>,
    /// Lanes along the first two axes (one along the second if the walk is along it).
    pub(super) lanes: [i64; 2],
    /// Points along the second axis that a lane has.
    pub(super) rows: i64,
    /// Lanes that a multiprocessor should hold.
    pub(super) together: i64,
    /// Width of the halo along the two axes.
    pub(super) reach: [i64; 2],
    /// Whether columns displaced along both axes are read.
    pub(super) corners: bool,
    /// Elements of a row of a plane before the first point of the block.
    pub(super) pad: i64,
    /// Planes of a value beyond those that are read at a time.
    spare: i64,
}

impl Plan {
    /// The plan of a sweep; none where direct readings are better or the only way.
    pub(super) fn of(cx: &Context, sweep: &Sweep) -> Result<Option<Plan>, MapError> {
        let variant = &cx.options.variant;
        if !variant.staged.unwrap_or(variant.carry) || cx.dims() < 2 {
            return Ok(None);
        }
        let Shape { lanes, rows, together } = Shape::of(cx, sweep);
        let mut plan = Plan { lanes, rows, together, spare: 1, ..Plan::default() };
        let always = variant.staged == Some(true);
        for (part, asked) in march::beside(cx, sweep)? {
            if leaves(sweep, part.0).is_some() && (always || plan.pays(&asked)) {
                plan.add(part, &asked);
            }
        }
        plan.pad = plan.reach[0];
        // Several blocks share a multiprocessor.
        let fits = !plan.staged.is_empty() && plan.rounds() <= MOST_ROUNDS && plan.bytes(cx) <= STATIC_SHARED_BYTES;
        Ok(fits.then_some(plan))
    }

    /// A plan without values for a block of whole rows, on one lane: a step fills a plane and then reads it.
    pub(super) fn rows(points: i64, pad: i64) -> Plan {
        Plan { lanes: [points, 1], rows: 1, pad, ..Plan::default() }
    }

    /// Whether a tile lets a value's vectors be read less often: once for each point of tile and halo, against once for
    /// each row of neighbours (those along the first axis come with the row).
    fn pays(&self, asked: &BTreeSet<[i64; 3]>) -> bool {
        let mut alone = self.clone();
        alone.staged.clear();
        alone.add((ValueId(0), 0), asked);
        alone.pad = alone.reach[0];
        let rows: BTreeSet<(i64, i64)> = asked.iter().map(|o| (o[1], o[2])).chain([(0, 0)]).collect();
        let points = self.lanes[0] * self.lanes[1] * self.rows;
        points + alone.halo() < rows.len() as i64 * points && rows.iter().any(|r| r.0 != 0)
    }

    pub(super) fn add(&mut self, part: Part, asked: &BTreeSet<[i64; 3]>) {
        let levels = || asked.iter().map(|o| o[2]);
        self.staged.push((part, (levels().min().unwrap_or(0), levels().max().unwrap_or(0))));
        for offset in asked {
            self.reach[0] = self.reach[0].max(offset[0].abs());
            self.reach[1] = self.reach[1].max(offset[1].abs());
            self.corners |= offset[0] != 0 && offset[1] != 0;
        }
    }

    /// Points of a block along an axis of the lanes.
    pub(super) fn extent(&self, axis: usize) -> i64 {
        if axis == 0 { self.lanes[0] } else { self.lanes[1] * self.rows }
    }

    /// Length of a row of a plane.
    pub(super) fn width(&self) -> i64 {
        self.extent(0) + 2 * self.pad
    }

    /// Points of a row of the halo above or below the block.
    pub(super) fn row(&self) -> i64 {
        if self.corners { self.width() } else { self.extent(0) }
    }

    /// Points of the rows of the halo above and below the block.
    pub(super) fn in_rows(&self) -> i64 {
        2 * self.reach[1] * self.row()
    }

    /// Points of the halo.
    pub(super) fn halo(&self) -> i64 {
        self.in_rows() + 2 * self.reach[0] * self.extent(1)
    }

    /// Points of the halo that a lane fills.
    pub(super) fn rounds(&self) -> i64 {
        let lanes = self.lanes[0] * self.lanes[1];
        (self.halo() + lanes - 1) / lanes
    }

    /// Points of a plane.
    pub(super) fn plane(&self) -> i64 {
        self.width() * (self.extent(1) + 2 * self.reach[1])
    }

    /// Bytes of all planes.
    pub(super) fn bytes(&self, cx: &Context) -> u64 {
        self.bytes_of_row(cx) * (self.plane() / self.width()) as u64
    }

    /// Bytes of a row of all planes.
    pub(super) fn bytes_of_row(&self, cx: &Context) -> u64 {
        let planes: i64 = self.staged.iter().map(|s| self.ring(s.1)).sum();
        (planes * self.width()) as u64 * cx.options.precision.bytes()
    }

    /// Planes of a value read at these levels.
    pub(super) fn ring(&self, (low, high): (i64, i64)) -> i64 {
        high - low + 1 + self.spare
    }
}

/// Points along the second axis that a lane has: their loads are on their way together.
const ROWS: i64 = 2;
/// Words of such points where little is read.
const LIGHT_ROWS: i64 = 4;
/// Lanes that a multiprocessor should hold, in f32: a half of those that fit. In f64, and where little is read, a quarter.
const TOGETHER: i64 = 1024;
/// Points of a walk that is long.
pub(super) const LONG: u64 = 16;

/// How many points a block has, and how they are dealt out.
struct Shape {
    lanes: [i64; 2],
    rows: i64,
    together: i64,
}

impl Shape {
    /// What the variant says; the rest from how much is read. Where that is little, and there are points enough for all
    /// multiprocessors, fewer lanes with more points each have more loads on their way: on an H200 a stencil sweep over two
    /// vectors takes 38 us for 41 at 256 x 256 x 128 in f32, and 68 for 71 in f64.
    fn of(cx: &Context, sweep: &Sweep) -> Shape {
        let variant = &cx.options.variant;
        let words = cx.words() as i64;
        let [x, y] = variant.lanes(cx.grid).map(i64::from);
        let [x, y] = if cx.dims() == 3 { [x, y] } else { [x * y, 1] };
        let many = MULTIPROCESSORS as i64 * (TOGETHER / 2) * (LIGHT_ROWS / words) * LONG as i64;
        let light = cx.dims() == 3 && cx.points as i64 >= many && is_light(cx, sweep);
        let usual = if light { LIGHT_ROWS / words } else { ROWS };
        let y = if light && variant.block.is_none() { (y / 2).max(1) } else { y };
        let most = if cx.dims() < 3 { 1 } else { (cx.size(1) as i64 + y - 1) / y };
        Shape {
            lanes: [x, y],
            rows: variant.rows.map_or(usual, i64::from).min(most).max(1),
            together: if light { TOGETHER / 2 } else { TOGETHER / words },
        }
    }
}

/// Whether few numbers are read at a point, of vectors and of coefficients that have one there: then there are registers for
/// more points at a time. A lane has half as many points in f64, so that twice as many numbers are few.
pub(super) fn is_light(cx: &Context, sweep: &Sweep) -> bool {
    let vectors = sweep.values.iter().filter(|value| matches!(value.kind, ValueKind::Load(_))).count();
    let operator = cx.operator();
    let tables = operator.tables.iter().filter(|table| table.axes.len() == cx.dims()).count();
    let data = operator.data.iter().filter(|data| data.axes.len() == cx.dims()).count();
    vectors * cx.grid.components + tables + data <= 2 * cx.words() as usize
}

/// The loads a value consists of; none if there is more to it than pointwise arithmetic.
pub(super) fn leaves(sweep: &Sweep, v: ValueId) -> Option<BTreeSet<ValueId>> {
    match &sweep.values[v.0].kind {
        ValueKind::Load(_) => Some(BTreeSet::from([v])),
        ValueKind::Map(e) => {
            let mut read = Vec::new();
            super::point::operands(e, &mut |v| read.push(v));
            let all: Option<Vec<_>> = read.into_iter().map(|v| leaves(sweep, v)).collect();
            Some(all?.into_iter().flatten().collect())
        }
        _ => None,
    }
}

/// A value in shared memory.
#[derive(Debug, Clone)]
pub(super) struct Staged {
    pub(super) part: Part,
    pub(super) levels: (i64, i64),
    pub(super) buffer: BufferId,
}

/// What the evaluation knows of tiles.
#[derive(Default)]
pub(super) struct Tile {
    plan: Option<Plan>,
    staged: Vec<Staged>,
    /// Whether the planes are filled.
    open: bool,
    /// Place of the own point in a plane.
    place: Option<Expr>,
    /// Steps of the walk so far.
    step: Option<Expr>,
    /// Whether the own point is in the grid, where that is not sure.
    live: Option<VarId>,
    /// Offsets beside the own column at which values are read, if they are recorded.
    record: Option<BTreeMap<Part, BTreeSet<[i64; 3]>>>,
}

impl Tile {
    /// A tile that only notes what is read.
    pub(super) fn recording() -> Tile {
        Tile { record: Some(BTreeMap::new()), ..Tile::default() }
    }

    /// What was noted.
    pub(super) fn take_record(self) -> BTreeMap<Part, BTreeSet<[i64; 3]>> {
        self.record.unwrap_or_default()
    }

    /// A tile with its planes.
    pub(super) fn new(plan: Plan, staged: Vec<Staged>) -> Tile {
        Tile { plan: Some(plan), staged, ..Tile::default() }
    }

    /// Guard of positions on the own column.
    pub(super) fn live(&self) -> Option<VarId> {
        self.live
    }

    /// Says whether the own point is in the grid.
    pub(super) fn set_live(&mut self, live: Option<VarId>) {
        self.live = live;
    }

    /// Says how far the walk is.
    pub(super) fn set_step(&mut self, step: Expr) {
        self.step = Some(step);
    }

    /// The planes are filled, and the own point is at a place in them.
    pub(super) fn enter(&mut self, place: Expr) {
        (self.open, self.place) = (true, Some(place));
    }

    /// The planes are not to be read.
    pub(super) fn leave(&mut self) {
        self.open = false;
    }

    /// Index of the own plane's place of a value, at a level.
    pub(super) fn index(&self, staged: &Staged, level: i64, place: Expr) -> Expr {
        fold::add(self.plane(staged, level), place)
    }

    /// Index of the plane of a value at a level.
    pub(super) fn plane(&self, staged: &Staged, level: i64) -> Expr {
        let (Some(plan), Some(step)) = (&self.plan, &self.step) else {
            return fold::int(0);
        };
        let turn = fold::add(step.clone(), fold::int(level - staged.levels.0));
        let turn = fold::rem(turn, fold::int(plan.ring(staged.levels)));
        fold::mul(turn, fold::int(plan.plane()))
    }

    /// A value that is in a plane at an offset.
    fn find(&self, part: Part, [x, y, level]: [i64; 3]) -> Option<&Staged> {
        let plan = self.plan.as_ref().filter(|_| self.open)?;
        let found = self.staged.iter().find(|s| s.part == part)?;
        let near = x.abs() <= plan.reach[0] && y.abs() <= plan.reach[1] && (plan.corners || x == 0 || y == 0);
        (near && (found.levels.0..=found.levels.1).contains(&level)).then_some(found)
    }
}

impl Eval<'_, '_> {
    /// A value at a position inside the grid, if it is in a plane.
    pub(super) fn staged(&mut self, part: Part, at: &Position) -> Option<Expr> {
        if !self.tile.open {
            return None;
        }
        let mut offset = [0; 3];
        for (axis, coord) in at.coords.iter().enumerate() {
            if coord.var != self.frame.own[axis] {
                return None;
            }
            offset[if axis + 1 == at.coords.len() { 2 } else { axis }] = coord.off;
        }
        self.at_plane(part, offset)
    }

    /// Reads a plane.
    fn at_plane(&mut self, part: Part, offset: [i64; 3]) -> Option<Expr> {
        let [x, y, level] = offset;
        let staged = self.tile.find(part, offset)?.clone();
        let width = self.tile.plan.as_ref()?.width();
        let mut at = self.frame.here();
        let last = at.coords.len() - 1;
        for (axis, coord) in at.coords.iter_mut().enumerate() {
            coord.off = if axis == last { level } else { [x, y][axis] };
        }
        let mut plane = self.tile.plane(&staged, level);
        let own = Key::Value(part.0.0, part.1, at.clone());
        let private = self.guarding == Guarding::Clamp;
        if private {
            if let Some(Some(known)) = self.recall(&own) {
                return Some(known);
            }
            // The same for whole rows.
            plane = self.b.bind("plane", plane);
        }
        let index = fold::add(plane, self.tile.place.clone()?);
        let name = self.value_name(part.0, part.1, &at);
        let value = load_at(staged.buffer, fold::add(index, fold::int(x + width * y)));
        let value = fold::var(self.b.bind_here(&name, value));
        if private {
            self.remember(own, Some(value.clone()));
        }
        Some(value)
    }

    /// A reading, which may leave the grid, from planes and what the lane carries: what is left to resolve is where it
    /// lands along the walk. None if that is not all there; an inner none if the reading is zero.
    pub(super) fn read_staged(&mut self, part: Part, at: &Position) -> Option<Option<Expr>> {
        if !self.tile.open && self.tile.record.is_none() {
            return None;
        }
        let (beside, coord) = self.beside(at)?;
        let last = self.cx.dims() - 1;
        let pieces = images(side(self.cx, last), coord.off, coord.range);
        if self.tile.record.is_some() {
            self.note(part, beside, &pieces);
            return None;
        }
        let mut chosen: Option<Expr> = None;
        for piece in &pieces {
            let value = match piece.place {
                None => fold::real(0.0, self.cx.real),
                Some(Place::Shifted(level)) => self.on_level(part, beside, level)?,
                Some(Place::Mirrored(_)) => return None,
            };
            let value = if piece.sign < 0 { fold::neg(value) } else { value };
            chosen = Some(match chosen {
                None => value,
                Some(before) if piece.range.1 > piece.range.0 => {
                    let range = (piece.range.0, coord.range.1);
                    let cond = self.frame.within(self.cx, &mut self.b, last, &coord, range);
                    fold::select(cond, value, before)
                }
                Some(before) => {
                    let range = (coord.range.0, piece.range.0 - 1);
                    let cond = self.frame.within(self.cx, &mut self.b, last, &coord, range);
                    fold::select(cond, before, value)
                }
            });
        }
        Some(chosen.filter(|value| !matches!(value, Expr::Real(0.0, _))))
    }

    /// A value at a level of a column.
    fn on_level(&mut self, part: Part, beside: [i64; 2], level: i64) -> Option<Expr> {
        if beside == [0, 0]
            && let Some(known) = self.march.known(part, level)
        {
            return Some(known);
        }
        self.at_plane(part, [beside[0], beside[1], level])
    }

    /// How far a position is beside the own column, and its coordinate along the walk.
    fn beside(&self, at: &Position) -> Option<([i64; 2], Coord)> {
        let (along, across) = at.coords.split_last()?;
        let (own_along, own_across) = self.frame.own.split_last()?;
        let mut beside = [0, 0];
        for (axis, (coord, own)) in across.iter().zip(own_across).enumerate() {
            let coord = self.frame.unwrapped(coord);
            if coord.var != *own {
                return None;
            }
            beside[axis] = coord.off;
        }
        let along = self.frame.unwrapped(along);
        (along.var == *own_along).then_some((beside, along))
    }

    /// Notes where a reading lands.
    fn note(&mut self, part: Part, [x, y]: [i64; 2], pieces: &[Piece]) {
        for piece in pieces {
            let Some(Place::Shifted(level)) = piece.place else {
                continue;
            };
            if [x, y] == [0, 0] {
                self.march.ask(part, level);
            } else if let Some(record) = &mut self.tile.record {
                record.entry(part).or_default().insert([x, y, level]);
            }
        }
    }
}
