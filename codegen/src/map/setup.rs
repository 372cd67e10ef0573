//! Set-up kernels: a table each, evaluated in f64 and stored, with its margins, in the working precision.

use std::collections::BTreeMap;

use super::builder::Builder;
use super::context::{Context, Made};
use super::eval::{arithmetic, load_at};
use super::fold;
use super::images::elements;
use super::position::{Coord, Frame};
use super::scalars;
use super::{MapError, Target, names};
use crate::kernel::{Access, Cmp, Element, Expr, LoopKind, Stmt, Type, VarId};
use crate::math::{Rule, Shift, TableCondition, TableExpr};
use crate::module::Arg;

/// Lanes of a set-up block.
const LANES: u32 = 128;

/// Maps the evaluation of a table.
pub(super) fn table(cx: &Context, t: usize) -> Result<Made, MapError> {
    let table = &cx.operator().tables[t];
    let arg = Arg::Module(t);
    let mut b = Builder::new(&format!("set_{}", table.name), vec![arg]);
    b.doc.push(table.text.clone());
    let frame = Frame::new(cx, &mut b);
    let mut setup = Setup { cx, b, frame, index: [None; 3], lets: vec![BTreeMap::new()] };
    let extents = cx.table_extents(t);
    let total: u64 = extents.iter().product();
    if cx.options.target == Target::Cuda && total > 1 {
        let at = fold::add(fold::mul(Expr::Block(0), fold::int(i64::from(LANES))), Expr::Lane(0));
        let at = fold::var(setup.b.bind_here("at", at));
        setup.b.open_if();
        setup.place(t, &extents, at.clone());
        setup.write(t, at.clone())?;
        setup.b.close_if(fold::compare(Cmp::Lt, at, fold::int(total as i64)));
        let blocks = total.div_ceil(u64::from(LANES));
        return Ok(setup.b.finish([blocks, 1, 1], [LANES, 1, 1], cx.index));
    }
    setup.nest(t, &extents)
}

/// Writes a set-up kernel.
struct Setup<'a, 'c> {
    cx: &'c Context<'a>,
    b: Builder,
    frame: Frame,
    /// Position along each axis of the table.
    index: [Option<VarId>; 3],
    /// Definitions evaluated in the open blocks, by number and shift.
    lets: Vec<BTreeMap<(usize, Shift), Expr>>,
}

impl Setup<'_, '_> {
    /// Positions of a lane's element.
    fn place(&mut self, t: usize, extents: &[u64], at: Expr) {
        let table = &self.cx.operator().tables[t];
        let mut rest = at;
        for (number, (&axis, &extent)) in table.axes.iter().zip(extents).enumerate() {
            let slot = if number + 1 == extents.len() {
                rest.clone()
            } else {
                fold::rem(rest.clone(), fold::int(extent as i64))
            };
            rest = fold::div(rest, fold::int(extent as i64));
            self.position(t, axis, slot);
        }
    }

    /// Declares the position along an axis from the slot in the table.
    fn position(&mut self, t: usize, axis: usize, slot: Expr) {
        let table = &self.cx.operator().tables[t];
        let (below, above) = (i64::from(table.below[axis]), i64::from(table.above[axis]));
        let var = self.b.bind_here(self.cx.letters()[axis], fold::sub(slot, fold::int(below)));
        self.frame.know(var, (-below, self.cx.size(axis) as i64 - 1 + above));
        self.index[axis] = Some(var);
    }

    /// A nest of loops, the slowest axis over blocks.
    fn nest(mut self, t: usize, extents: &[u64]) -> Result<Made, MapError> {
        let axes = self.cx.operator().tables[t].axes.clone();
        let mut open = Vec::new();
        let mut at = fold::int(0);
        for number in (0..axes.len()).rev() {
            let slowest = number + 1 == axes.len() && axes.len() > 1;
            let slot = if slowest {
                Expr::Block(0)
            } else {
                let slot = self.b.open_loop(&format!("slot_{}", self.cx.letters()[axes[number]]));
                self.lets.push(BTreeMap::new());
                open.push((slot, extents[number]));
                fold::var(slot)
            };
            at = fold::add(slot.clone(), fold::mul(fold::int(extents[number] as i64), at));
            self.position(t, axes[number], slot);
        }
        self.write(t, at)?;
        for (slot, extent) in open.into_iter().rev() {
            self.b.close_loop(slot, fold::int(0), fold::int(extent as i64), 1, LoopKind::Sequential);
        }
        let blocks = if axes.len() > 1 { extents[axes.len() - 1] } else { 1 };
        Ok(self.b.finish([blocks, 1, 1], [1, 1, 1], self.cx.index))
    }

    /// Evaluates and stores.
    fn write(&mut self, t: usize, at: Expr) -> Result<(), MapError> {
        let table = &self.cx.operator().tables[t];
        let value = self.value(&table.value, [0; 3])?;
        let value = fold::cast(self.cx.real, Type::F64, value);
        let len = self.cx.table_extents(t).iter().product();
        let buffer = self.b.global(Arg::Module(t), &table.name, self.cx.options.precision, len, Access::Write);
        self.b.push(Stmt::Store { buffer, index: at, value });
        Ok(())
    }

    /// A definition at a shift from the element's position, f64.
    fn value(&mut self, e: &TableExpr, shift: Shift) -> Result<Expr, MapError> {
        Ok(match e {
            TableExpr::Number(x) => fold::real(*x, Type::F64),
            TableExpr::Param(p) => {
                let load = scalars::param(&mut self.b, self.cx, *p);
                self.b.bind(&self.cx.operator().params[*p], load)
            }
            TableExpr::Size(axis) => fold::real(self.cx.size(*axis) as f64, Type::F64),
            TableExpr::Index(axis) => {
                let index = fold::add(fold::var(self.own(*axis)?), fold::int(i64::from(shift[*axis])));
                Expr::Cast(Type::F64, Box::new(index))
            }
            TableExpr::Let(l, s) => self.definition(*l, sum(shift, *s))?,
            TableExpr::Data(d, s) => self.data(*d, sum(shift, *s))?,
            TableExpr::Neg(a) => fold::neg(self.value(a, shift)?),
            TableExpr::Binary(op, a, b) => {
                let (a, b) = (self.value(a, shift)?, self.value(b, shift)?);
                arithmetic(*op, a, b)
            }
            TableExpr::Call(f, args) => {
                let args = args.iter().map(|a| self.value(a, shift)).collect::<Result<Vec<_>, _>>()?;
                scalars::call(*f, args)
            }
            TableExpr::Select(c, a, b) => {
                let cond = self.condition(c, shift)?;
                let (a, b) = (self.value(a, shift)?, self.value(b, shift)?);
                fold::select(cond, a, b)
            }
        })
    }

    /// A let at a shift, evaluated once.
    fn definition(&mut self, l: usize, shift: Shift) -> Result<Expr, MapError> {
        if let Some(known) = self.lets.iter().rev().find_map(|m| m.get(&(l, shift))) {
            return Ok(known.clone());
        }
        let definition = &self.cx.operator().lets[l];
        let value = self.value(&definition.value, shift)?;
        let offsets: Vec<i64> = shift.iter().take(self.cx.dims()).map(|&s| i64::from(s)).collect();
        let suffix = names::displacement(&self.cx.letters(), &offsets);
        let suffix = if suffix.is_empty() { "_here" } else { &suffix };
        let value = self.b.bind(&format!("{}{suffix}", definition.name), value);
        self.lets.last_mut().expect("the kernel's own block is open").insert((l, shift), value.clone());
        Ok(value)
    }

    /// A profile at a shift, with its rule outside.
    fn data(&mut self, d: usize, shift: Shift) -> Result<Expr, MapError> {
        let data = &self.cx.operator().data[d];
        let extents = self.cx.data_extents(d);
        let mut index = fold::int(0);
        let mut present = Expr::Bool(true);
        for (&axis, &extent) in data.axes.iter().zip(&extents).rev() {
            let var = self.own(axis)?;
            let coord = Coord { var, off: i64::from(shift[axis]), range: self.frame.range(var) };
            let periodic = self.cx.operator().boundary[axis][0] == Rule::Periodic;
            let faces = data.half == Some(axis);
            let pieces = elements(data.outside, periodic, faces, self.cx.size(axis), coord.off, coord.range);
            for piece in pieces.iter().filter(|p| p.sign == 0) {
                let on = self.frame.within(self.cx, &mut self.b, axis, &coord, piece.range);
                present = fold::and(present, fold::not(on));
            }
            let element = self.frame.index_of(self.cx, &mut self.b, axis, &coord, &pieces);
            let element = self.b.bind(&format!("element_{}", self.cx.letters()[axis]), element);
            index = fold::add(element, fold::mul(fold::int(extent as i64), index));
        }
        let element = if data.profile { Element::F64 } else { self.cx.options.precision };
        let from = if data.profile { Type::F64 } else { self.cx.real };
        let len = extents.iter().product();
        let buffer = self.b.global(Arg::Data(d), &data.name, element, len, Access::Read);
        let load = fold::cast(Type::F64, from, load_at(buffer, index));
        let name = format!("{}_value", data.name);
        let load = self.b.bind(&name, load);
        Ok(fold::select(present, load, fold::real(0.0, Type::F64)))
    }

    /// The position variable of an axis.
    fn own(&self, axis: usize) -> Result<VarId, MapError> {
        self.index[axis].ok_or_else(|| MapError::Internal("a table reads an axis it does not depend on".into()))
    }

    fn condition(&mut self, c: &TableCondition, shift: Shift) -> Result<Expr, MapError> {
        Ok(match c {
            TableCondition::Compare(op, a, b) => {
                let (a, b) = (self.value(a, shift)?, self.value(b, shift)?);
                fold::compare(scalars::comparison(*op), a, b)
            }
            TableCondition::And(a, b) => fold::and(self.condition(a, shift)?, self.condition(b, shift)?),
            TableCondition::Or(a, b) => fold::or(self.condition(a, shift)?, self.condition(b, shift)?),
            TableCondition::Not(a) => fold::not(self.condition(a, shift)?),
        })
    }
}

/// Shifts added.
fn sum(a: Shift, b: Shift) -> Shift {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}
