//! Expressions free of unknowns at a position: tables, data, parameters and arithmetic on them.

use super::MapError;
use super::eval::{Eval, Guarding, arithmetic, load_at};
use super::fold;
use super::images::{Piece, Place, elements};
use super::names;
use super::position::{Coord, Position};
use super::rows::shifted;
use super::scalars;
use crate::kernel::{Access, BufferId, Cmp, Expr, Type};
use crate::math::{self, Rule};
use crate::module::Arg;

impl Eval<'_, '_> {
    /// A coefficient in the working precision.
    pub(super) fn coefficient(&mut self, e: &math::Expr, at: &Position) -> Result<Expr, MapError> {
        use math::Expr as E;
        let real = self.cx.real;
        Ok(match e {
            E::Number(x) => fold::real(*x, real),
            E::Param(p) => {
                let load = scalars::param(&mut self.b, self.cx, *p);
                let name = self.cx.operator().params[*p].clone();
                self.b.bind(&name, fold::cast(real, Type::F64, load))
            }
            E::Table(t, shift) => self.table(*t, &shifted(at, *shift))?,
            E::Data(d, shift) => self.data(*d, &shifted(at, *shift))?,
            E::Neg(a) => fold::neg(self.coefficient(a, at)?),
            E::Binary(op, a, b) => {
                let (a, b) = (self.coefficient(a, at)?, self.coefficient(b, at)?);
                arithmetic(*op, a, b)
            }
            E::Call(f, args) => {
                let args = args.iter().map(|a| self.coefficient(a, at)).collect::<Result<Vec<_>, _>>()?;
                scalars::call(*f, args)
            }
            E::Select(c, a, b) => {
                let cond = self.coefficient(c, at)?;
                let cond = self.truth(cond);
                let yes = self.under(cond.clone(), |eval| eval.coefficient(a, at))?;
                let no = self.under(fold::not(cond.clone()), |eval| eval.coefficient(b, at))?;
                fold::select(cond, yes, no)
            }
            E::Compare(op, a, b) => {
                let (a, b) = (self.coefficient(a, at)?, self.coefficient(b, at)?);
                let holds = fold::compare(scalars::comparison(*op), a, b);
                fold::select(holds, fold::real(1.0, real), fold::real(0.0, real))
            }
            E::Unknown(..) | E::Flux(..) | E::Slots(_) | E::Entry | E::Gather(_) => {
                return Err(MapError::Internal("a coefficient contains an unknown".into()));
            }
        })
    }

    /// Whether a coefficient is nonzero; a comparison is taken as it stands.
    pub(super) fn truth(&mut self, e: Expr) -> Expr {
        match e {
            Expr::Select(cond, yes, no) if matches!((&*yes, &*no), (Expr::Real(1.0, _), Expr::Real(0.0, _))) => *cond,
            e => fold::compare(Cmp::Ne, e, fold::real(0.0, self.cx.real)),
        }
    }

    /// A table at a position, which its margins cover wherever the position means something.
    pub(super) fn table(&mut self, t: usize, at: &Position) -> Result<Expr, MapError> {
        let table = &self.cx.operator().tables[t];
        let extents = self.cx.table_extents(t);
        let len = extents.iter().product();
        let buffer = self.b.global(Arg::Module(t), &table.name, self.cx.options.precision, len, Access::Read);
        let mut always = true;
        for &axis in &table.axes {
            let (below, above) = (i64::from(table.below[axis]), i64::from(table.above[axis]));
            let (lo, hi) = (-below, self.cx.size(axis) as i64 - 1 + above);
            let coord = &at.coords[axis];
            always &= self.frame.surely(coord, lo, hi);
            let known = coord.range.0 + coord.off >= lo && coord.range.1 + coord.off <= hi;
            if !known && self.ambient.is_none() {
                return Err(MapError::Internal(format!(
                    "the margins of table `{}` do not cover a reading of it",
                    table.name
                )));
            }
        }
        let axes = table.axes.clone();
        let (base, step) = self.element(at, &axes, &self.named(&axes, &extents), &self.joint(&axes));
        // The margins shift the whole array by a constant.
        let mut margin = 0;
        let mut stride = 1;
        for (&axis, &extent) in axes.iter().zip(&extents) {
            margin += stride * i64::from(table.below[axis]);
            stride *= extent as i64;
        }
        let index = fold::add(fold::add(base, step), fold::int(margin));
        let name = format!("{}{}", table.name, self.suffix_on(&axes, at));
        let guard = if always { None } else { self.joined_guard(at.guard) };
        Ok(self.guarded(buffer, index, guard, &name))
    }

    /// A data array at a position, with its own rule outside.
    fn data(&mut self, d: usize, at: &Position) -> Result<Expr, MapError> {
        let data = &self.cx.operator().data[d];
        let axes = data.axes.clone();
        let extents = self.cx.data_extents(d);
        let len = extents.iter().product();
        let element = if data.profile { crate::kernel::Element::F64 } else { self.cx.options.precision };
        let buffer = self.b.global(Arg::Data(d), &data.name, element, len, Access::Read);
        let name = format!("{}{}", data.name, self.suffix_on(&axes, at));
        let mut target = at.clone();
        let mut present = Expr::Bool(true);
        for &axis in &axes {
            let faces = data.half == Some(axis);
            // The array is read whether or not a guard holds, from a place inside.
            let mut coord = self.frame.unwrapped(&at.coords[axis]);
            coord.range = self.frame.range(coord.var);
            let periodic = self.cx.operator().boundary[axis][0] == Rule::Periodic;
            let pieces = elements(data.outside, periodic, faces, self.cx.size(axis), coord.off, coord.range);
            if pieces.iter().any(|p| p.sign == 0) {
                let cond = self.holds(axis, &coord, &pieces, |p| p.sign != 0);
                present = fold::and(present, cond);
            }
            target.coords[axis] = self.element_coord(axis, coord, &pieces);
        }
        let (base, step) = self.element(&target, &axes, &self.named(&axes, &extents), &self.joint(&axes));
        let load = self.b.bind(&name, load_at(buffer, fold::add(base, step)));
        Ok(fold::select(present, load, fold::real(0.0, self.cx.real)))
    }

    /// The element number along an axis as a coordinate.
    fn element_coord(&mut self, axis: usize, mut coord: Coord, pieces: &[Piece]) -> Coord {
        if let [Piece { place: Some(Place::Shifted(d)), .. }] = pieces {
            coord.off = *d;
            return coord;
        }
        self.landing(axis, &coord, pieces)
    }

    /// Extents as expressions: the size's name where it is the size.
    fn named(&self, axes: &[usize], extents: &[u64]) -> Vec<Expr> {
        let name = |(&axis, &extent): (&usize, &u64)| {
            if extent == self.cx.size(axis) { fold::var(self.frame.sizes[axis]) } else { fold::int(extent as i64) }
        };
        axes.iter().zip(extents).map(name).collect()
    }

    /// Name of the shared part of an index over some axes.
    fn joint(&self, axes: &[usize]) -> String {
        if axes.len() == self.cx.dims() {
            return "at".to_string();
        }
        let letters: String = axes.iter().map(|&a| self.cx.letters()[a]).collect();
        format!("at_{letters}")
    }

    /// Suffix for the displacement on the axes that count.
    fn suffix_on(&self, axes: &[usize], at: &Position) -> String {
        let offsets: Vec<i64> =
            (0..at.coords.len()).map(|a| if axes.contains(&a) { at.coords[a].off } else { 0 }).collect();
        let suffix = names::displacement(&self.cx.letters(), &offsets);
        if suffix.is_empty() { "_here".to_string() } else { suffix }
    }

    /// A guard together with the branch that is being evaluated.
    fn joined_guard(&mut self, guard: Option<crate::kernel::VarId>) -> Option<crate::kernel::VarId> {
        match (guard, self.ambient) {
            (Some(g), Some(a)) => Some(self.guard_with(Some(g), fold::var(a))),
            (g, a) => g.or(a),
        }
    }

    /// A load that happens only where the guard holds, bound to a name.
    fn guarded(&mut self, buffer: BufferId, index: Expr, guard: Option<crate::kernel::VarId>, name: &str) -> Expr {
        let zero = fold::real(0.0, self.cx.real);
        let value = match (guard, self.guarding) {
            (None, _) => load_at(buffer, index),
            (Some(g), Guarding::Predicate) => fold::select(fold::var(g), load_at(buffer, index), zero),
            (Some(g), Guarding::Clamp) => {
                let index = self.b.bind("from", fold::select(fold::var(g), index, fold::int(0)));
                load_at(buffer, index)
            }
        };
        self.b.bind(name, value)
    }
}
