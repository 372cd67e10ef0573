//! Values that a walk does not change, formed before it.
//!
//! Inside a walk (along a line, say) an inner loop advances many lines together. Whatever a round of the inner loop
//! computes from its line alone is the same at every step of the walk: it moves into a loop over the lines before the
//! walk, which leaves it in an array, one element a line. A plain load stays, since reading the array would be one too.
//!
//! Values are compared by number, not by name: equal operations on equal operands are one value, and `-(a*b)` is `a*b`
//! with its sign turned, so that the couplings to both sides of a line share an array.

use std::collections::{BTreeMap, BTreeSet};

use super::Builder;
use crate::kernel::{BufferId, Element, Expr, LoopKind, Op, Space, Stmt, Type, VarId, Variable};
use crate::kernel_walk::{each_expr, map_operands};
use crate::map::fold;
use crate::map::tidy::{each_stmt_mut, own_exprs_mut};

/// The inner loop of a walk: the innermost open block.
pub(crate) struct Lines {
    /// Its variable, from 0 up to the number of lines; other loops may cut it into pieces.
    pub(crate) line: VarId,
    /// Number of lines, known before the walk.
    pub(crate) count: Expr,
    /// That number at most.
    pub(crate) most: u64,
    /// Depth of the block of the walk.
    pub(crate) walk: usize,
    /// Element type of real values.
    pub(crate) element: Element,
}

/// A value with its sign: whether it is turned, and its number.
type Signed = (bool, usize);

/// A value that the walk does not change.
struct Known {
    /// Whether it differs from line to line.
    by_line: bool,
    /// Whether more than a load is needed to know it.
    work: bool,
}

/// Values that the walk does not change, by number.
struct Still<'b, 'l> {
    builder: &'b mut Builder,
    lines: &'l Lines,
    known: Vec<Known>,
    /// Numbers of operations on numbered operands.
    numbers: BTreeMap<String, usize>,
    /// Variables of the inner loop that the walk does not change, with their definitions.
    vars: BTreeMap<VarId, (Signed, Expr)>,
    /// Arrays made so far: value, array, what an element is; in order.
    arrays: Vec<(Signed, BufferId, Expr)>,
}

impl Builder {
    /// Moves what the walk does not change from its inner loop to a loop before it.
    pub(crate) fn spread(&mut self, lines: &Lines) {
        let depth = self.depth();
        let mut body = std::mem::take(&mut self.blocks[depth].stmts);
        let mut still = Still {
            builder: self,
            lines,
            known: Vec::new(),
            numbers: BTreeMap::new(),
            vars: BTreeMap::new(),
            arrays: Vec::new(),
        };
        for stmt in &mut body {
            match stmt {
                Stmt::Let(v, e) => match still.number(e) {
                    Some(number) => _ = still.vars.insert(*v, (number, e.clone())),
                    None => *e = still.replaced(e, &still.builder.vars[v.0].variable.name.clone()),
                },
                stmt => still.replace_in(stmt),
            }
        }
        // What the inner loop still needs of what moves, it computes for itself.
        let mut read = BTreeSet::new();
        for stmt in body.iter().rev() {
            if !matches!(stmt, Stmt::Let(v, _) if still.vars.contains_key(v) && !read.contains(v)) {
                each_expr(std::slice::from_ref(stmt), &mut |e| {
                    if let Expr::Var(v) = e {
                        read.insert(*v);
                    }
                });
            }
        }
        let moved = still.before_the_walk(&read);
        body.retain(|stmt| !matches!(stmt, Stmt::Let(v, _) if moved.contains(v)));
        self.blocks[depth].stmts = body;
    }
}

impl Still<'_, '_> {
    /// The number of an expression that the walk does not change.
    fn number(&mut self, e: &Expr) -> Option<Signed> {
        let real = matches!(self.builder.type_of(e), Type::F32 | Type::F64);
        let mut turned = false;
        let (mut by_line, mut work) = (false, real);
        let key = match e {
            Expr::Var(v) => {
                if let Some((number, _)) = self.vars.get(v) {
                    return Some(*number);
                }
                let declared = &self.builder.vars[v.0];
                by_line = *v == self.lines.line;
                if !by_line && (declared.level >= self.lines.walk || declared.mutable) {
                    return None;
                }
                work = false;
                format!("{e:?}")
            }
            Expr::Real(x, ty) if x.is_sign_negative() => {
                let (turned, number) = self.number(&Expr::Real(-x, *ty))?;
                return Some((!turned, number));
            }
            Expr::Neg(a) if real => {
                let (turned, number) = self.number(a)?;
                return Some((!turned, number));
            }
            Expr::Binary(op @ (Op::Mul | Op::Div), a, b) if real => {
                let (a, b) = (self.number(a)?, self.number(b)?);
                turned = a.0 ^ b.0;
                by_line = self.known[a.1].by_line || self.known[b.1].by_line;
                format!("{op:?} {} {}", a.1, b.1)
            }
            e => {
                if let Expr::Load(buffer, _) = e {
                    if !self.builder.moves(*buffer) {
                        return None;
                    }
                    work = false;
                }
                work &= !matches!(e, Expr::Real(..));
                let mut parts = Some(Vec::new());
                let shape = map_operands(e, &mut |operand| {
                    let number = self.number(operand);
                    by_line |= number.is_some_and(|n| self.known[n.1].by_line);
                    parts = parts.take().zip(number).map(|(mut parts, number)| {
                        parts.push(number);
                        parts
                    });
                    Expr::Int(0)
                });
                format!("{shape:?} {:?}", parts?)
            }
        };
        let next = self.known.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.known.push(Known { by_line, work });
        }
        Some((turned, number))
    }

    /// An expression of the inner loop with what the walk does not change read from arrays.
    fn replaced(&mut self, e: &Expr, name: &str) -> Expr {
        if matches!(self.builder.type_of(e), Type::F32 | Type::F64)
            && let Some(number) = self.number(e)
            && self.known[number.1].by_line
            && self.known[number.1].work
        {
            return self.array(number, e, name);
        }
        map_operands(e, &mut |operand| self.replaced(operand, name))
    }

    fn replace_in(&mut self, stmt: &mut Stmt) {
        let name = "factor";
        each_stmt_mut(std::slice::from_mut(stmt), &mut |stmt| {
            own_exprs_mut(stmt, &mut |e| *e = self.replaced(e, name));
        });
    }

    /// The element of the own line in the array of a value.
    fn array(&mut self, number: Signed, e: &Expr, name: &str) -> Expr {
        let found = self.arrays.iter().find(|(own, ..)| own.1 == number.1).map(|(own, buffer, _)| (own.0, *buffer));
        let (turned, buffer) = found.unwrap_or_else(|| {
            let name = match e {
                Expr::Var(v) => self.builder.vars[v.0].variable.name.as_str(),
                _ => name,
            };
            let name = format!("{name}_by_line");
            let buffer = self.builder.local(&name, Space::Private, self.lines.element, self.lines.most);
            self.arrays.push((number, buffer, e.clone()));
            (number.0, buffer)
        });
        let load = Expr::Load(buffer, Box::new(fold::var(self.lines.line)));
        if turned == number.0 { load } else { fold::neg(load) }
    }

    /// Writes the loop over the lines that fills the arrays. Variables that the inner loop does not read move there and are
    /// returned.
    fn before_the_walk(self, read: &BTreeSet<VarId>) -> BTreeSet<VarId> {
        let Still { builder, lines, vars, arrays, .. } = self;
        if arrays.is_empty() {
            return BTreeSet::new();
        }
        let level = lines.walk;
        let line = builder.declare_at("line", Type::Int, level, false);
        let mut moving = Moving {
            builder,
            vars: &vars,
            read,
            level,
            renamed: BTreeMap::from([(lines.line, line)]),
            body: Vec::new(),
        };
        for (_, buffer, e) in arrays {
            let value = moving.moved(&e);
            moving.body.push(Stmt::Store { buffer, index: fold::var(line), value });
        }
        let Moving { builder, renamed, body, .. } = moving;
        let before = &mut builder.blocks[level - 1].stmts;
        before.push(Stmt::Comment("the same at every step".into()));
        let (from, to) = (fold::int(0), lines.count.clone());
        before.push(Stmt::For { var: line, from, to, step: 1, kind: LoopKind::Simd(Vec::new()), body });
        renamed.into_iter().filter(|(own, there)| own == there).map(|pair| pair.0).collect()
    }
}

/// Definitions on their way to the loop before the walk.
struct Moving<'b, 'v> {
    builder: &'b mut Builder,
    vars: &'v BTreeMap<VarId, (Signed, Expr)>,
    /// Variables that the inner loop goes on reading.
    read: &'v BTreeSet<VarId>,
    /// Depth of the body of the loop.
    level: usize,
    /// Variables by those of the inner loop.
    renamed: BTreeMap<VarId, VarId>,
    body: Vec<Stmt>,
}

impl Moving<'_, '_> {
    /// An expression in terms of variables of the loop, which are declared as needed.
    fn moved(&mut self, e: &Expr) -> Expr {
        let Expr::Var(v) = e else {
            return map_operands(e, &mut |operand| self.moved(operand));
        };
        if !self.renamed.contains_key(v)
            && let Some((_, definition)) = self.vars.get(v)
        {
            let value = self.moved(definition);
            let mut own = *v;
            if self.read.contains(v) {
                let Variable { name, ty } = self.builder.vars[v.0].variable.clone();
                own = self.builder.declare_at(&name, ty, self.level, false);
            }
            self.builder.vars[own.0].level = self.level;
            self.body.push(Stmt::Let(own, value));
            self.renamed.insert(*v, own);
        }
        fold::var(self.renamed.get(v).copied().unwrap_or(*v))
    }
}
