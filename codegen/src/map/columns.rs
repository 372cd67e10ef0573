//! Columns of a matrix as kernels find them: plain, or as a base, a code and what lies aside.
//!
//! What a chunk needs differs: nearly all chunks of a matrix that is worth compressing have nothing aside, and of one that
//! follows a pattern few have codes. So a loop over slots is written once for each case there is, and a test of the
//! chunk chooses; on a device all lanes of a chunk go the same way. Where columns are counted from the row
//! ([`Origin`]), its origin is added last.

use super::MapError;
use super::eval::Eval;
use super::fold;
use super::slots::Walk;
use crate::format::layout::{Layout, Role, nest};
use crate::kernel::{Cmp, Expr, Op, Stmt, VarId};
use kernelwright_syntax::program::{Base, Coding, Level, Origin};

/// Codes there are; see [`format`](crate::format), "Columns".
const CODES: i64 = 1 << 16;

/// How the columns of a row are written.
#[derive(Debug, Clone, Default)]
pub(super) struct Coded {
    /// What is added to every distance: the row's number without what distances are raised by, or its first column.
    origin: Option<Expr>,
    /// Codes of the chunk.
    codes: Codes,
    /// Where the chunk's columns aside begin, and how many there are.
    aside: Option<(Expr, Expr)>,
}

/// Where the codes of a chunk are.
#[derive(Debug, Clone, Default)]
enum Codes {
    /// Beside the values; or there are none, columns being plain.
    #[default]
    Beside,
    /// No chunk has any.
    Nowhere,
    /// So many cells beyond the values, of a chunk that has some.
    Moved { shift: Expr, any: Expr },
}

/// What a loop over slots reads of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Bases alone.
    Exact,
    /// Bases and codes: the chunk has nothing aside.
    Near,
    /// What lies aside is read where it is needed.
    Perhaps,
    /// Both columns are read, of a chunk that has some aside: no branch stands between loads.
    Both,
}

impl Eval<'_, '_> {
    /// How the columns of a row are written.
    pub(super) fn coded(&mut self, layout: &Layout, walk: &Walk) -> Result<Coded, MapError> {
        let Coding::Delta { origin, .. } = layout.format.coding else {
            return Ok(Coded::default());
        };
        let origin = match origin {
            Origin::Zero => None,
            Origin::Row => Some(fold::sub(walk.row.clone(), fold::int(layout.bias() as i64))),
            Origin::First => Some(self.load(Role::First, walk.row.clone())?),
        };
        let origin = origin.map(|origin| self.b.bind("counted_from", origin));
        Ok(Coded { origin, codes: self.codes_of(layout, walk)?, aside: self.aside_of(layout, walk)? })
    }

    /// Where the codes of a chunk are.
    fn codes_of(&mut self, layout: &Layout, walk: &Walk) -> Result<Codes, MapError> {
        if !layout.elides() {
            return Ok(Codes::Beside);
        }
        if layout.array(Role::Code).is_none() {
            return Ok(Codes::Nowhere);
        }
        let from = self.load(Role::CodeStart, walk.chunk.clone())?;
        let from = self.b.bind("codes_from", from);
        let next = self.load(Role::CodeStart, fold::add(walk.chunk.clone(), fold::int(1)))?;
        let any = self.b.bind("has_codes", fold::compare(Cmp::Gt, next, from.clone()));
        let slots = fold::sub(from, walk.before.clone());
        let shift = self.b.bind("to_codes", fold::mul(slots, fold::int(layout.height as i64)));
        Ok(Codes::Moved { shift, any })
    }

    /// Where a chunk's columns aside begin, and how many there are.
    fn aside_of(&mut self, layout: &Layout, walk: &Walk) -> Result<Option<(Expr, Expr)>, MapError> {
        if layout.array(Role::Escape).is_none() {
            return Ok(None);
        }
        let from = self.load(Role::EscapeStart, walk.chunk.clone())?;
        let from = self.b.bind("aside_from", from);
        let next = self.load(Role::EscapeStart, fold::add(walk.chunk.clone(), fold::int(1)))?;
        let count = self.b.bind("aside_count", fold::sub(next, from.clone()));
        Ok(Some((from, count)))
    }

    /// Writes a loop over slots for every way in which the chunk's columns may be written; `together` says whether what lies
    /// aside is [read where it is needed](Reach::Perhaps), by one loop for chunks with and without.
    pub(super) fn by_codes(
        &mut self,
        layout: &Layout,
        walk: &Walk,
        together: bool,
        write: &mut dyn FnMut(&mut Self, Reach) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        debug_assert!(layout.elides() || matches!(walk.coded.codes, Codes::Beside));
        match walk.coded.codes.clone() {
            Codes::Nowhere => write(self, Reach::Exact),
            Codes::Beside => self.by_aside(walk, together, write),
            Codes::Moved { any, .. } => {
                self.open_if();
                self.by_aside(walk, together, write)?;
                let then = self.close_block();
                self.open_if();
                write(self, Reach::Exact)?;
                let otherwise = self.close_block();
                self.b.push(Stmt::If { cond: any, then, otherwise });
                Ok(())
            }
        }
    }

    /// The same for chunks with codes.
    fn by_aside(
        &mut self,
        walk: &Walk,
        together: bool,
        write: &mut dyn FnMut(&mut Self, Reach) -> Result<(), MapError>,
    ) -> Result<(), MapError> {
        let Some((_, count)) = &walk.coded.aside else {
            return write(self, Reach::Near);
        };
        if together {
            return write(self, Reach::Perhaps);
        }
        self.open_if();
        write(self, Reach::Near)?;
        let then = self.close_block();
        self.open_if();
        write(self, Reach::Both)?;
        let otherwise = self.close_block();
        self.b.push(Stmt::If { cond: fold::compare(Cmp::Eq, count.clone(), fold::int(0)), then, otherwise });
        Ok(())
    }

    /// The column of a cell, as a variable.
    pub(super) fn column(
        &mut self,
        layout: &Layout,
        walk: &Walk,
        at: Expr,
        slot: Expr,
        reach: Reach,
    ) -> Result<VarId, MapError> {
        let Coding::Delta { base, .. } = layout.format.coding else {
            let column = self.load(Role::Column, at)?;
            return Ok(self.known_column(layout, column));
        };
        let order = nest(&layout.format);
        let by_slot = order.iter().position(|l| *l == Level::Slot) < order.iter().position(|l| *l == Level::Chunk);
        let unit = match base {
            Base::Row => walk.row.clone(),
            Base::Chunk => walk.chunk.clone(),
            Base::ChunkSlot if by_slot => fold::add(self.chunks_before(layout, slot.clone())?, walk.chunk.clone()),
            Base::ChunkSlot => fold::add(walk.before.clone(), slot.clone()),
        };
        let base = self.load(Role::Base, unit)?;
        let base = self.b.bind("base_here", base);
        let distance = if reach == Reach::Exact { base } else { self.distance(layout, walk, base, [at, slot], reach)? };
        let column = match &walk.coded.origin {
            Some(origin) => fold::add(origin.clone(), distance),
            None => distance,
        };
        Ok(self.known_column(layout, column))
    }

    /// The distance of a cell of a chunk with codes.
    fn distance(
        &mut self,
        layout: &Layout,
        walk: &Walk,
        base: Expr,
        [at, slot]: [Expr; 2],
        reach: Reach,
    ) -> Result<Expr, MapError> {
        let at = match &walk.coded.codes {
            Codes::Moved { shift, .. } => fold::add(at, shift.clone()),
            Codes::Beside | Codes::Nowhere => at,
        };
        let code = self.load(Role::Code, at)?;
        let code = self.b.bind("code_here", code);
        let near = fold::add(base, code.clone());
        match &walk.coded.aside {
            Some(of_chunk) if reach != Reach::Near => {
                let ordinal = fold::add(fold::mul(slot, fold::int(layout.height as i64)), walk.lane.clone());
                self.near_or_aside(layout, of_chunk, code, near, ordinal, reach)
            }
            _ => Ok(near),
        }
    }

    /// The distance of a code that may be one of the columns aside; `ordinal` is its place in the chunk.
    fn near_or_aside(
        &mut self,
        layout: &Layout,
        (from, count): &(Expr, Expr),
        code: Expr,
        near: Expr,
        ordinal: Expr,
        reach: Reach,
    ) -> Result<Expr, MapError> {
        let first = self.b.bind("first_aside", fold::sub(fold::int(CODES), count.clone()));
        let numbered = fold::sub(code.clone(), first.clone());
        let numbered = if reach == Reach::Both { fold::binary(Op::Max, numbered, fold::int(0)) } else { numbered };
        let number = if layout.escapes > CODES as u64 {
            // Only a chunk with more columns aside than there are codes is stored by position.
            fold::select(fold::compare(Cmp::Lt, first.clone(), fold::int(0)), ordinal, numbered)
        } else {
            numbered
        };
        let column = self.load(Role::Escape, fold::add(from.clone(), number))?;
        let column = if reach == Reach::Both { self.b.bind("column_aside", column) } else { column };
        Ok(fold::select(fold::compare(Cmp::Lt, code, first), near, column))
    }

    /// A column, which is inside.
    pub(super) fn known_column(&mut self, layout: &Layout, column: Expr) -> VarId {
        let var = self.b.bind_here("column_here", column);
        self.frame.know(var, (0, layout.size as i64 - 1));
        var
    }
}
