//! Sweeps over points on the host whose operand is computed: each point of it once, held in planes around a tile.
//!
//! Where a sweep applies the operator to a value that it has to compute (`z + beta*p`), reading it at neighbours computes
//! it once per neighbour, from vectors that have left the near caches a plane ago. Instead a block walks along the last
//! axis with a tile of rows and fills a *plane* of its points and those beside them a step ahead of what is computed; see
//! [`tile`](super::tile). What is beside the tile holds what a reading finds there by the boundary rule, so the rows of
//! the tile need no cutting at their ends.
//!
//! Nothing is asked for ahead: a row of a tile is long enough for the machine to foresee the next, and asking cost up to 10 %.

use super::MapError;
use super::context::{Context, Made};
use super::eval::{Eval, Guarding};
use super::fold;
use super::march;
use super::point::{Blocks, cut, end_of, reach_of_sweep};
use super::position::{Coord, Position};
use super::reading::Landed;
use super::sums::{Accumulators, Places};
use super::tile::{Plan, Staged, Tile, leaves};
use crate::kernel::{Expr, LoopKind, Space, Stmt, VarId};
use crate::loops::{Sweep, ValueKind};
use crate::math::{self, Operator, Rule};

/// Bytes of planes that stay in the second cache of a core beside what streams through it.
const CACHE_BYTES: u64 = 128 << 10;
/// Bytes of planes at most, whatever tile is asked for.
const MOST_BYTES: u64 = 8 << 20;
/// Blocks that keep the cores of a host busy.
const ENOUGH_BLOCKS: u64 = 64;
/// Rows of a tile and steps of a walk at least: what is beside them is filled by the neighbours too.
const LEAST_ROWS: u64 = 4;
const LEAST_STEPS: u64 = 16;
/// Bytes of a cache line.
const LINE: u64 = 64;
/// Elements before a row of a plane: those beside the tile, and as many more as let vectors begin at cache lines.
const PAD: i64 = 16;

/// Maps a sweep with held planes; none where it computes nothing that is read at neighbours, or where planes leave the cache.
pub(super) fn kernel(cx: &mut Context, sweep: &Sweep) -> Result<Option<Made>, MapError> {
    let Some((mut plan, whole)) = plan(cx, sweep)? else {
        return Ok(None);
    };
    let last = cx.dims() - 1;
    let Some([rows, steps]) = shape(cx, &plan) else {
        return Ok(None);
    };
    plan.lanes[1] = rows as i64;
    if plan.bytes(cx) > MOST_BYTES {
        return Ok(None);
    }
    let across = if last > 1 { cx.size(1).div_ceil(rows) } else { 1 };
    let blocks = Blocks::new([across, cx.size(last).div_ceil(steps), 1]);
    let mut places = Places::reserve(cx, &sweep.sums, blocks.count());
    let mut eval = Eval::new(cx, sweep, Guarding::Clamp);
    let sums = Accumulators::declare(&mut eval);
    let staged = plan.staged.iter().map(|&(part, levels)| {
        let name = format!("{}_planes", sweep.values[part.0.0].name);
        let extent = (plan.ring(levels) * plan.plane()) as u64;
        Staged { part, levels, buffer: eval.b.local(&name, Space::Private, cx.options.precision, extent) }
    });
    let staged: Vec<Staged> = staged.collect();
    eval.tile = Tile::new(plan.clone(), staged.clone());
    eval.frame.own = vec![VarId(usize::MAX); cx.dims()];
    let first = fold::mul(blocks.tile(0), fold::int(rows as i64));
    let tile = (last > 1).then(|| {
        let letter = cx.letters()[1];
        let first = eval.b.bind(&format!("first_{letter}"), first);
        let end = end_of(&mut eval, 1, first.clone(), rows, &format!("end_{letter}"));
        (first, end)
    });
    let mut writer = Writer { eval, sums, plan, staged, tile, whole };
    writer.walk(blocks.tile(1), steps)?;
    let Writer { mut eval, sums, .. } = writer;
    sums.finish(&mut eval.b, &mut places, fold::int(0), 1, blocks.number());
    eval.b.doc.push(match last {
        1 => format!("{steps} rows a block, neighbours held"),
        _ => format!("{rows} rows and {steps} steps a block, planes held"),
    });
    Ok(Some(eval.b.finish(blocks.grid(), [1, 1, 1], cx.index)))
}

/// What is held, with rows as wide as the grid and the number of rows open; and whether rows need no cutting.
fn plan(cx: &Context, sweep: &Sweep) -> Result<Option<(Plan, bool)>, MapError> {
    let wanted = cx.options.variant.staged;
    if cx.dims() < 2 || wanted == Some(false) || cx.operator().space.rows().is_some() {
        return Ok(None);
    }
    let mut plan = Plan::rows(cx.size(0) as i64, PAD);
    for (part, offsets) in march::around(cx, sweep)? {
        let computed = matches!(sweep.values[part.0.0].kind, ValueKind::Map(_));
        if leaves(sweep, part.0).is_some() && (computed || wanted == Some(true)) {
            plan.add(part, &offsets);
        }
    }
    if plan.staged.is_empty() || plan.reach[0] > PAD {
        return Ok(None);
    }
    let held = |v: usize| plan.staged.iter().any(|s| s.0.0.0 == v);
    let whole = reads_inside(cx.operator())
        && sweep.values.iter().all(|value| match &value.kind {
            ValueKind::Load(_) | ValueKind::Map(_) => true,
            ValueKind::Apply(v) | ValueKind::Magnitude(v) => held(v.0),
            _ => false,
        });
    Ok(Some((plan, whole)))
}

/// Whether coefficients of rows are read along the first axis where they stand, without indices chosen by position.
fn reads_inside(op: &Operator) -> bool {
    fn of_tables(op: &Operator, e: &math::Expr) -> bool {
        use math::Expr as E;
        match e {
            E::Data(d, _) => !op.data[*d].axes.contains(&0),
            E::Flux(f, _) => of_tables(op, &op.fluxes[*f].value),
            E::Neg(a) => of_tables(op, a),
            E::Binary(_, a, b) => of_tables(op, a) && of_tables(op, b),
            E::Call(..) | E::Select(..) | E::Compare(..) | E::Slots(_) | E::Entry | E::Gather(_) => false,
            E::Number(_) | E::Param(_) | E::Table(..) | E::Unknown(..) => true,
        }
    }
    op.boundary[0][0] != Rule::Periodic && op.rows.iter().all(|row| of_tables(op, &row.value))
}

/// Rows of a tile and steps of a walk; none where the variant leaves it open and planes would leave the cache.
fn shape(cx: &Context, plan: &Plan) -> Option<[u64; 2]> {
    let last = cx.dims() - 1;
    let n = cx.size(last);
    if let Some(tile) = cx.options.variant.tile {
        return Some(if last > 1 { [tile[0].min(cx.size(1)), tile[1].min(n)] } else { [1, tile[0].min(n)] });
    }
    let fitting = CACHE_BYTES / plan.bytes_of_row(cx).max(1);
    let (rows, tiles, least) = if last > 1 {
        let rows = fitting.saturating_sub(2 * plan.reach[1] as u64).max(1);
        let rows = (1 << rows.ilog2()).min(cx.size(1));
        (rows, cx.size(1).div_ceil(rows), LEAST_ROWS.min(cx.size(1)))
    } else {
        (1, 1, 1)
    };
    let stay = fitting > 0 && rows >= least;
    let steps = n.div_ceil(ENOUGH_BLOCKS.div_ceil(tiles)).max(LEAST_STEPS).min(n);
    (stay || cx.options.variant.staged == Some(true)).then_some([rows, steps])
}

/// A row of a plane that is filled.
struct To<'s> {
    staged: &'s Staged,
    /// From the own plane.
    level: i64,
    /// Where it is read.
    row: Landed,
    /// Place of its first point in the grid.
    place: Expr,
}

/// Writes the kernel.
struct Writer<'a, 'c> {
    eval: Eval<'a, 'c>,
    sums: Accumulators,
    plan: Plan,
    staged: Vec<Staged>,
    /// First row of the tile and the end of its rows; none where a plane is a row.
    tile: Option<(Expr, Expr)>,
    /// Rows need no cutting at their ends.
    whole: bool,
}

impl Writer<'_, '_> {
    /// The walk of a block.
    fn walk(&mut self, number: Expr, steps: u64) -> Result<(), MapError> {
        let cx = self.eval.cx;
        let last = cx.dims() - 1;
        let letter = cx.letters()[last];
        let first = self.eval.b.bind(&format!("first_{letter}"), fold::mul(number, fold::int(steps as i64)));
        let end = end_of(&mut self.eval, last, first.clone(), steps, &format!("end_{letter}"));
        let start = self.eval.b.bind_here("start", first.clone());
        self.at(last, start);
        self.eval.tile.set_step(fold::int(0));
        for staged in self.staged.clone() {
            for level in staged.levels.0..staged.levels.1 {
                self.fill(&staged, level)?;
            }
        }
        let k = self.eval.open_loop(letter);
        self.at(last, k);
        let step = self.eval.b.bind("step", fold::sub(fold::var(k), first.clone()));
        self.eval.tile.set_step(step);
        for staged in self.staged.clone() {
            self.fill(&staged, staged.levels.1)?;
        }
        self.points()?;
        self.eval.close_loop(k, first, end, 1, LoopKind::Sequential);
        Ok(())
    }

    /// The own point is at a variable along an axis.
    fn at(&mut self, axis: usize, var: VarId) {
        self.eval.frame.know(var, (0, self.eval.cx.size(axis) as i64 - 1));
        self.eval.frame.own[axis] = var;
    }

    /// Place in a plane of the first point of a row.
    fn row(&mut self, j: Option<VarId>) -> Expr {
        let (Some(j), Some((first, _))) = (j, self.tile.clone()) else {
            return fold::int(self.plan.pad);
        };
        let row = fold::add(fold::sub(fold::var(j), first), fold::int(self.plan.reach[1]));
        self.eval.b.bind("row", fold::add(fold::mul(row, fold::int(self.plan.width())), fold::int(self.plan.pad)))
    }

    /// Fills a plane at a level from the own one.
    fn fill(&mut self, staged: &Staged, level: i64) -> Result<(), MapError> {
        let Some((first, end)) = self.tile.clone() else {
            return self.fill_row(staged, level, None);
        };
        let reach = self.plan.reach[1];
        let j = self.eval.open_loop(&format!("{}_held", self.eval.cx.letters()[1]));
        self.eval.frame.know(j, (-reach, self.eval.cx.size(1) as i64 - 1 + reach));
        self.fill_row(staged, level, Some(j))?;
        let (from, to) = (fold::sub(first, fold::int(reach)), fold::add(end, fold::int(reach)));
        self.eval.close_loop(j, from, to, 1, LoopKind::Sequential);
        Ok(())
    }

    /// Fills a row of a plane: its points in the grid, and those beside it.
    fn fill_row(&mut self, staged: &Staged, level: i64, j: Option<VarId>) -> Result<(), MapError> {
        let (n, reach) = (self.eval.cx.size(0) as i64, self.plan.reach[0]);
        let size = fold::var(self.eval.frame.sizes[0]);
        let letter = self.eval.cx.letters()[0];
        let parts = [
            (letter.to_string(), (0, n - 1), fold::int(0), size.clone(), LoopKind::Simd(Vec::new())),
            (format!("{letter}_low"), (-reach, -1), fold::int(-reach), fold::int(0), LoopKind::Sequential),
            (
                format!("{letter}_high"),
                (n, n - 1 + reach),
                size.clone(),
                fold::add(size, fold::int(reach)),
                LoopKind::Sequential,
            ),
        ];
        let (row, place) = (self.land_row(j), self.row(j));
        let to_row = To { staged, level, row, place };
        for (name, range, from, to, kind) in parts {
            if range.0 > range.1 {
                continue;
            }
            let i = self.eval.open_loop(&name);
            self.eval.frame.know(i, range);
            self.fill_point(&to_row, i)?;
            self.eval.close_loop(i, from, to, 1, kind);
        }
        Ok(())
    }

    /// Where the points of a row are read, with any point for the first axis.
    fn land_row(&mut self, j: Option<VarId>) -> Landed {
        let any = self.coord(self.eval.frame.sizes[0]);
        let coords = [Some(any), j.map(|j| self.coord(j))].into_iter().flatten().collect();
        let open: &[usize] = if j.is_some() { &[1] } else { &[] };
        self.eval.land(Position { coords, guard: None }, open)
    }

    fn coord(&self, var: VarId) -> Coord {
        Coord { var, off: 0, range: self.eval.frame.range(var) }
    }

    /// Fills a place of a plane, which may be beside the grid, with what a reading finds there.
    fn fill_point(&mut self, to: &To, i: VarId) -> Result<(), MapError> {
        let mut at = to.row.at.clone();
        at.coords[0] = self.coord(i);
        let landed = self.eval.land(at, &[0]);
        let mut at = landed.at;
        let walk = self.eval.frame.own.last().copied().unwrap_or(i);
        at.coords.push(self.coord(walk));
        self.eval.frame.own = at.coords.iter().map(|c| c.var).collect();
        let zero = fold::real(0.0, self.eval.cx.real);
        let mut value = match self.eval.at_level(at, to.level) {
            Some(at) => self.eval.value(to.staged.part.0, to.staged.part.1, &at)?,
            None => zero.clone(),
        };
        for flipped in [landed.flipped, to.row.flipped.clone()].into_iter().flatten() {
            value = fold::select(flipped, fold::neg(value.clone()), value);
        }
        let present = fold::and(to.row.present.clone(), landed.present);
        let value = fold::select(present, value, zero);
        let plane = self.eval.tile.plane(to.staged, to.level);
        let plane = self.eval.b.bind("plane", plane);
        let index = fold::add(plane, fold::add(fold::var(i), to.place.clone()));
        self.eval.b.push(Stmt::Store { buffer: to.staged.buffer, index, value });
        Ok(())
    }

    /// The points of the tile in the own plane.
    fn points(&mut self) -> Result<(), MapError> {
        let Some((first, end)) = self.tile.clone() else {
            return self.points_of_row(None);
        };
        let j = self.eval.open_loop(self.eval.cx.letters()[1]);
        self.at(1, j);
        self.points_of_row(Some(j))?;
        self.eval.close_loop(j, first, end, 1, LoopKind::Sequential);
        Ok(())
    }

    fn points_of_row(&mut self, j: Option<VarId>) -> Result<(), MapError> {
        let row = self.row(j);
        let cx = self.eval.cx;
        let reach = reach_of_sweep(cx, self.eval.sweep);
        // Where nothing is read outside, ends only need other coefficients: they are cut off where vectors begin.
        let line = (LINE / cx.options.precision.bytes()) as i64;
        let ends = |n: i64| if self.whole { (n + line - 1) / line * line } else { n };
        let (whole, reach) = (self.whole, (ends(reach.0), ends(reach.1)));
        let (from, to) = (fold::int(0), fold::var(self.eval.frame.sizes[0]));
        let sums = &self.sums;
        cut(&mut self.eval, reach, from, to, &mut |eval, part| {
            let i = eval.open_loop(&part.name);
            eval.frame.know(i, part.range);
            eval.frame.own[0] = i;
            eval.tile.enter(fold::add(fold::var(i), row.clone()));
            sums.point(eval, &eval.sweep.stores, &eval.sweep.sums)?;
            eval.tile.leave();
            let kind = if part.simd || whole { sums.simd() } else { LoopKind::Sequential };
            eval.close_loop(i, part.from, part.to, 1, kind);
            Ok(())
        })
    }
}
