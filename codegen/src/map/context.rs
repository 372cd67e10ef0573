//! What all kernels of a module share: the program, the grid, the buffers of the module.

use std::collections::BTreeMap;

use super::balanced::Ahead;
use super::{MapError, Options};
use crate::format::Kind;
use crate::kernel::{Element, IndexWidth, Kernel, Type};
use crate::loops::{FenceId, Program, SumId, ValueId};
use crate::math::{Grid, Operator};
use crate::module::{Arg, ModuleBuffer, partial_name};

/// A kernel with the arguments of its launch.
pub(super) type Made = (Kernel, Vec<Arg>);

/// Element type of an array of a stored matrix.
pub(super) fn element(kind: Kind, real: Element) -> Element {
    match kind {
        Kind::Real => real,
        Kind::U16 => Element::U16,
        Kind::U32 => Element::U32,
        Kind::U64 => Element::I64,
    }
}

/// State of the mapping between kernels.
pub(super) struct Context<'a> {
    pub(super) program: &'a Program,
    pub(super) options: &'a Options,
    pub(super) grid: &'a Grid,
    /// Type of vectors in kernels.
    pub(super) real: Type,
    /// Points of the grid.
    pub(super) points: u64,
    /// Width of integers.
    pub(super) index: IndexWidth,
    /// Tables first, in order, then partial sums and scratch as sweeps need them.
    pub(super) buffers: Vec<ModuleBuffer>,
    /// Products of the sweep at hand that were formed ahead of it, cut by entries.
    pub(super) ahead: BTreeMap<ValueId, Ahead>,
    /// Buffer and number of partial sums, by [`SumId`].
    pub(super) partials: Vec<Option<(usize, u64)>>,
    /// The fence that the last block of the sweep being mapped carries out, if it does.
    pub(super) closing: Option<FenceId>,
    /// The fence that every block of the sweep being mapped begins with, if it does.
    pub(super) leading: Option<FenceId>,
    /// Module buffer that counts blocks, if any sweep does; zero between launches.
    pub(super) arrivals: usize,
}

impl<'a> Context<'a> {
    /// Checks what kernels cannot check and lays the tables out.
    pub(super) fn new(program: &'a Program, options: &'a Options) -> Result<Self, MapError> {
        options.variant.check()?;
        let real = match options.precision {
            Element::F32 => Type::F32,
            Element::F64 => Type::F64,
            other => return Err(MapError::Precision(other)),
        };
        let grid = program.operator.space.grid();
        if grid.axes.is_empty() || grid.axes.len() > 3 || grid.axes.iter().any(|a| a.size == 0) {
            return Err(MapError::Internal("a grid has one to three axes, none of them empty".into()));
        }
        let points: u64 = grid.axes.iter().map(|a| a.size).product();
        let mut context = Context {
            program,
            options,
            grid,
            real,
            points,
            index: IndexWidth::I32,
            buffers: Vec::new(),
            ahead: BTreeMap::new(),
            partials: vec![None; program.sums.len()],
            closing: None,
            leading: None,
            arrivals: usize::MAX,
        };
        for table in 0..program.operator.tables.len() {
            let len = context.table_extents(table).iter().product();
            let name = program.operator.tables[table].name.clone();
            context.buffers.push(ModuleBuffer { name, element: options.precision, len });
        }
        // Margins of a few points beyond the largest index must be representable too.
        let arrays = program.operator.data.iter().filter_map(|data| data.stored.as_ref().map(|array| array.len));
        let tables = context.buffers.iter().map(|b| b.len);
        let largest = tables.chain([points * grid.components as u64]).chain(arrays).max().unwrap_or(0);
        if largest >= (1 << 31) - (1 << 16) {
            context.index = IndexWidth::I64;
        }
        Ok(context)
    }

    pub(super) fn operator(&self) -> &'a Operator {
        &self.program.operator
    }

    /// Points along an axis.
    pub(super) fn size(&self, axis: usize) -> u64 {
        self.grid.axes[axis].size
    }

    /// Words of four bytes, and registers, of a real.
    pub(super) fn words(&self) -> u64 {
        if self.options.precision == Element::F32 { 1 } else { 2 }
    }

    /// Number of axes.
    pub(super) fn dims(&self) -> usize {
        self.grid.axes.len()
    }

    /// Letters of the axes.
    pub(super) fn letters(&self) -> Vec<&'a str> {
        self.grid.axes.iter().map(|a| a.letter.as_str()).collect()
    }

    /// Stored positions of a table along its axes, margins included.
    pub(super) fn table_extents(&self, table: usize) -> Vec<u64> {
        let table = &self.operator().tables[table];
        table.axes.iter().map(|&a| self.size(a) + u64::from(table.below[a]) + u64::from(table.above[a])).collect()
    }

    /// Elements of a data array along its axes.
    pub(super) fn data_extents(&self, data: usize) -> Vec<u64> {
        let data = &self.operator().data[data];
        data.axes.iter().map(|&a| self.size(a) + u64::from(data.half == Some(a))).collect()
    }

    /// The module buffer for the partial sums of a sum, one per block.
    pub(super) fn partial(&mut self, sum: SumId, blocks: u64) -> usize {
        let number = self.buffer(partial_name(sum), Element::F64, blocks);
        self.partials[sum.0] = Some((number, blocks));
        number
    }

    /// A new module buffer.
    pub(super) fn buffer(&mut self, name: String, element: Element, len: u64) -> usize {
        self.buffers.push(ModuleBuffer { name, element, len });
        self.buffers.len() - 1
    }
}
