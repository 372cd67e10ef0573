//! Set-up kernels: tables evaluated in f64 and stored, with their margins, in the working precision.
//!
//! Tables over the same axes are one kernel, which visits the positions of all of them and computes once what they share;
//! a table with a smaller margin is stored where it has the position.

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

/// Names of tables that a kernel's name lists.
const NAMED: usize = 3;

/// Maps the evaluation of all tables that are read: one kernel for those over the same axes, in the order of the first
/// of each.
pub(super) fn tables(cx: &Context, reads: &dyn Fn(usize) -> bool) -> Result<Vec<Made>, MapError> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (t, table) in cx.operator().tables.iter().enumerate().filter(|(t, _)| reads(*t)) {
        match groups.iter_mut().find(|group| cx.operator().tables[group[0]].axes == table.axes) {
            Some(group) => group.push(t),
            None => groups.push(vec![t]),
        }
    }
    groups.into_iter().map(|group| kernel(cx, group)).collect()
}

/// The kernel of tables over the same axes.
fn kernel(cx: &Context, tables: Vec<usize>) -> Result<Made, MapError> {
    let mut b = Builder::new(&name(cx, &tables), tables.iter().map(|&t| Arg::Module(t)).collect());
    let axes = cx.operator().tables[tables[0]].axes.clone();
    let letters: Vec<&str> = axes.iter().map(|&axis| cx.letters()[axis]).collect();
    b.doc.push(match letters[..] {
        [] => "Coefficients that are numbers".to_string(),
        _ => format!("Coefficients along {}", letters.join(", ")),
    });
    let frame = Frame::new(cx, &mut b);
    let mut setup = Setup { cx, b, frame, tables, axes, index: [None; 3], lets: vec![BTreeMap::new()] };
    let extents: Vec<u64> = setup.axes.iter().map(|&axis| (setup.last(axis) - setup.first(axis) + 1) as u64).collect();
    let total: u64 = extents.iter().product();
    if cx.options.target == Target::Cuda && total > 1 {
        let at = fold::add(fold::mul(Expr::Block(0), fold::int(i64::from(LANES))), Expr::Lane(0));
        let at = fold::var(setup.b.bind_here("at", at));
        setup.b.open_if();
        setup.place(&extents, at.clone());
        setup.write_all()?;
        setup.b.close_if(fold::compare(Cmp::Lt, at, fold::int(total as i64)));
        let blocks = total.div_ceil(u64::from(LANES));
        return Ok(setup.b.finish([blocks, 1, 1], [LANES, 1, 1], cx.index));
    }
    setup.nest(&extents)
}

fn name(cx: &Context, tables: &[usize]) -> String {
    let operator = cx.operator();
    if tables.len() <= NAMED {
        let names: Vec<&str> = tables.iter().map(|&t| operator.tables[t].name.as_str()).collect();
        return format!("set_{}", names.join("_"));
    }
    let letters: Vec<&str> = operator.tables[tables[0]].axes.iter().map(|&axis| cx.letters()[axis]).collect();
    if letters.is_empty() { "set_numbers".to_string() } else { format!("set_along_{}", letters.join("_")) }
}

/// Writes a set-up kernel.
struct Setup<'a, 'c> {
    cx: &'c Context<'a>,
    b: Builder,
    frame: Frame,
    tables: Vec<usize>,
    /// Axes of all of them.
    axes: Vec<usize>,
    /// Position along each axis of the tables.
    index: [Option<VarId>; 3],
    /// Definitions evaluated in the open blocks, by number and shift.
    lets: Vec<BTreeMap<(usize, Shift), Expr>>,
}

impl Setup<'_, '_> {
    /// First position of a table along an axis.
    fn first_of(&self, t: usize, axis: usize) -> i64 {
        -i64::from(self.cx.operator().tables[t].below[axis])
    }

    /// Last position of a table along an axis.
    fn last_of(&self, t: usize, axis: usize) -> i64 {
        self.cx.size(axis) as i64 - 1 + i64::from(self.cx.operator().tables[t].above[axis])
    }

    /// First position of any table along an axis.
    fn first(&self, axis: usize) -> i64 {
        self.tables.iter().map(|&t| self.first_of(t, axis)).min().unwrap_or(0)
    }

    /// Last position of any table along an axis.
    fn last(&self, axis: usize) -> i64 {
        self.tables.iter().map(|&t| self.last_of(t, axis)).max().unwrap_or(0)
    }

    /// Positions of a lane's elements.
    fn place(&mut self, extents: &[u64], at: Expr) {
        let mut rest = at;
        for (number, &extent) in extents.iter().enumerate() {
            let slot = if number + 1 == extents.len() {
                rest.clone()
            } else {
                fold::rem(rest.clone(), fold::int(extent as i64))
            };
            rest = fold::div(rest, fold::int(extent as i64));
            self.position(self.axes[number], slot);
        }
    }

    /// Declares the position along an axis from the number of the slot.
    fn position(&mut self, axis: usize, slot: Expr) {
        let (first, last) = (self.first(axis), self.last(axis));
        let var = self.b.bind_here(self.cx.letters()[axis], fold::add(slot, fold::int(first)));
        self.frame.know(var, (first, last));
        self.index[axis] = Some(var);
    }

    /// A nest of loops, the slowest axis over blocks.
    fn nest(mut self, extents: &[u64]) -> Result<Made, MapError> {
        let axes = self.axes.clone();
        let mut open = Vec::new();
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
            self.position(axes[number], slot);
        }
        self.write_all()?;
        for (slot, extent) in open.into_iter().rev() {
            self.b.close_loop(slot, fold::int(0), fold::int(extent as i64), 1, LoopKind::Sequential);
        }
        let blocks = if axes.len() > 1 { extents[axes.len() - 1] } else { 1 };
        Ok(self.b.finish([blocks, 1, 1], [1, 1, 1], self.cx.index))
    }

    /// Evaluates and stores every table that has the position.
    fn write_all(&mut self) -> Result<(), MapError> {
        for t in self.tables.clone() {
            let narrow: Vec<usize> = self.axes.iter().copied().filter(|&axis| self.is_narrow(t, axis)).collect();
            if narrow.is_empty() {
                self.write(t)?;
                continue;
            }
            self.b.open_if();
            self.lets.push(BTreeMap::new());
            let mut present = Expr::Bool(true);
            for &axis in &narrow {
                let var = self.own(axis)?;
                let (first, last) = (self.first_of(t, axis), self.last_of(t, axis));
                if first > self.first(axis) {
                    present = fold::and(present, fold::compare(Cmp::Ge, fold::var(var), fold::int(first)));
                }
                if last < self.last(axis) {
                    present = fold::and(present, fold::compare(Cmp::Le, fold::var(var), fold::int(last)));
                }
                self.frame.know(var, (first, last));
            }
            self.write(t)?;
            for &axis in &narrow {
                let var = self.own(axis)?;
                self.frame.know(var, (self.first(axis), self.last(axis)));
            }
            self.lets.pop();
            self.b.close_if(present);
        }
        Ok(())
    }

    /// Whether a table has fewer positions along an axis than others of the kernel.
    fn is_narrow(&self, t: usize, axis: usize) -> bool {
        self.first_of(t, axis) > self.first(axis) || self.last_of(t, axis) < self.last(axis)
    }

    /// Evaluates and stores a table.
    fn write(&mut self, t: usize) -> Result<(), MapError> {
        let table = &self.cx.operator().tables[t];
        self.b.comment(table.text.clone());
        let value = self.value(&table.value, [0; 3])?;
        let value = fold::cast(self.cx.real, Type::F64, value);
        let extents = self.cx.table_extents(t);
        let mut at = fold::int(0);
        for (&axis, &extent) in table.axes.iter().zip(&extents).rev() {
            let slot = fold::sub(fold::var(self.own(axis)?), fold::int(self.first_of(t, axis)));
            at = fold::add(slot, fold::mul(fold::int(extent as i64), at));
        }
        let len = extents.iter().product();
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
