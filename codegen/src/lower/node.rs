//! Program expressions with definitions substituted: what lowering sorts into tables and arithmetic.
//!
//! Letters carry their shift here (`Index(k, 1)` is `k + 1`), so that a node moved along an axis is the same node
//! with other shifts. Lets that a table can evaluate stay references; lets that depend on an unknown or on an array
//! of the full grid are substituted.

use kernelwright_syntax::program::{self as p, BinaryOp, CompareOp, ExprKind, Function, Shift};

use super::LowerError;

/// Largest number of nodes of an expression after substitution.
pub(super) const LARGEST: usize = 20_000;

/// An expression at a position.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Number(f64),
    Size(usize),
    Index(usize, i32),
    Param(usize),
    /// A let by its number in the program; shifts of axes it does not depend on are zero.
    Let(usize, Shift),
    Data(usize, Shift),
    Unknown(usize, Shift),
    Flux(usize, Shift),
    Neg(Box<Node>),
    Binary(BinaryOp, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    If(Box<Cond>, Box<Node>, Box<Node>),
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cond {
    Compare(CompareOp, Node, Node),
    And(Box<Cond>, Box<Cond>),
    Or(Box<Cond>, Box<Cond>),
    Not(Box<Cond>),
}

/// What an expression depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Traits {
    /// Axes of tabulable parts and of arrays.
    pub axes: [bool; 3],
    /// Reads an unknown or a flux.
    pub unknown: bool,
    /// Reads an array of the full grid.
    pub data: bool,
    /// Reads a parameter.
    pub param: bool,
}

impl Traits {
    fn join(self, o: Traits) -> Traits {
        Traits {
            axes: [0, 1, 2].map(|a| self.axes[a] || o.axes[a]),
            unknown: self.unknown || o.unknown,
            data: self.data || o.data,
            param: self.param || o.param,
        }
    }

    /// Whether tables can evaluate it.
    pub fn tabulable(self) -> bool {
        !self.unknown && !self.data
    }
}

/// The operator being lowered with what is known about its lets.
pub(super) struct Source<'a> {
    pub op: &'a p::Operator,
    pub sizes: &'a [u64],
    pub lets: Vec<Traits>,
}

impl<'a> Source<'a> {
    pub fn new(op: &'a p::Operator, sizes: &'a [u64]) -> Self {
        let mut source = Source { op, sizes, lets: Vec::new() };
        for l in &op.lets {
            let traits = source.expr_traits(&l.value);
            source.lets.push(traits);
        }
        source
    }

    /// Number of axes.
    pub fn dims(&self) -> usize {
        self.op.axes.len()
    }

    /// Whether a set of axes is all of the grid's.
    pub fn is_all(&self, axes: [bool; 3]) -> bool {
        (0..self.dims()).all(|a| axes[a])
    }

    /// Whether a data array is a profile.
    pub fn is_profile(&self, data: usize) -> bool {
        self.op.data[data].axes.len() < self.dims()
    }

    fn data_axes(&self, data: usize) -> [bool; 3] {
        [0, 1, 2].map(|a| self.op.data[data].axes.contains(&a))
    }

    fn data_traits(&self, data: usize) -> Traits {
        Traits { axes: self.data_axes(data), data: !self.is_profile(data), ..Traits::default() }
    }

    fn expr_traits(&self, e: &p::Expr) -> Traits {
        match &e.kind {
            ExprKind::Number(_) | ExprKind::Size(_) => Traits::default(),
            ExprKind::Index(a) => Traits { axes: [0, 1, 2].map(|b| b == *a), ..Traits::default() },
            ExprKind::Param(_) => Traits { param: true, ..Traits::default() },
            ExprKind::Let(id, _) => self.lets[*id],
            ExprKind::Data(id, _) => self.data_traits(*id),
            ExprKind::Unknown(..) | ExprKind::Flux(..) => Traits { unknown: true, ..Traits::default() },
            ExprKind::Neg(a) => self.expr_traits(a),
            ExprKind::Binary(_, a, b) => self.expr_traits(a).join(self.expr_traits(b)),
            ExprKind::Call(_, args) => args.iter().fold(Traits::default(), |t, a| t.join(self.expr_traits(a))),
            ExprKind::If(c, a, b) => self.condition_traits(c).join(self.expr_traits(a)).join(self.expr_traits(b)),
        }
    }

    fn condition_traits(&self, c: &p::Condition) -> Traits {
        match c {
            p::Condition::Compare(_, a, b) => self.expr_traits(a).join(self.expr_traits(b)),
            p::Condition::And(a, b) | p::Condition::Or(a, b) => self.condition_traits(a).join(self.condition_traits(b)),
            p::Condition::Not(a) => self.condition_traits(a),
        }
    }

    /// What a node depends on.
    pub fn traits(&self, n: &Node) -> Traits {
        match n {
            Node::Number(_) | Node::Size(_) => Traits::default(),
            Node::Index(a, _) => Traits { axes: [0, 1, 2].map(|b| b == *a), ..Traits::default() },
            Node::Param(_) => Traits { param: true, ..Traits::default() },
            Node::Let(id, _) => self.lets[*id],
            Node::Data(id, _) => self.data_traits(*id),
            Node::Unknown(..) | Node::Flux(..) => Traits { unknown: true, ..Traits::default() },
            Node::Neg(a) => self.traits(a),
            Node::Binary(_, a, b) => self.traits(a).join(self.traits(b)),
            Node::Call(_, args) => args.iter().fold(Traits::default(), |t, a| t.join(self.traits(a))),
            Node::If(c, a, b) => self.cond_traits(c).join(self.traits(a)).join(self.traits(b)),
        }
    }

    /// What a condition depends on.
    pub fn cond_traits(&self, c: &Cond) -> Traits {
        match c {
            Cond::Compare(_, a, b) => self.traits(a).join(self.traits(b)),
            Cond::And(a, b) | Cond::Or(a, b) => self.cond_traits(a).join(self.cond_traits(b)),
            Cond::Not(a) => self.cond_traits(a),
        }
    }

    /// The expression at a shift, with lets substituted that no table can evaluate.
    pub fn expand(&self, e: &p::Expr, at: Shift) -> Result<Node, LowerError> {
        Expansion { source: self, left: LARGEST }.expr(e, at)
    }

    /// The definition of a tabulable let, one level deep, at a shift.
    pub fn definition(&self, id: usize, at: Shift) -> Result<Node, LowerError> {
        self.expand(&self.op.lets[id].value, at)
    }

    /// The value of a node that is a number; none where it depends on anything.
    pub fn number(&self, n: &Node) -> Option<f64> {
        Some(match n {
            Node::Number(v) => *v,
            Node::Size(a) => self.sizes[*a] as f64,
            // A let without dependencies holds a number; its definition is small (`check_sizes` saw to it).
            Node::Let(id, _) => self.number(&self.definition(*id, [0; 3]).ok()?)?,
            Node::Neg(a) => -self.number(a)?,
            Node::Binary(op, a, b) => crate::real::binary(*op, self.number(a)?, self.number(b)?),
            Node::Call(f, args) => {
                let args = args.iter().map(|a| self.number(a)).collect::<Option<Vec<f64>>>()?;
                crate::real::call(*f, &args)
            }
            Node::If(c, a, b) => self.number(if self.holds(c)? { a } else { b })?,
            _ => return None,
        })
    }

    /// The truth of a condition on numbers.
    pub fn holds(&self, c: &Cond) -> Option<bool> {
        Some(match c {
            Cond::Compare(op, a, b) => crate::real::compare(*op, self.number(a)?, self.number(b)?),
            Cond::And(a, b) => self.holds(a)? && self.holds(b)?,
            Cond::Or(a, b) => self.holds(a)? || self.holds(b)?,
            Cond::Not(a) => !self.holds(a)?,
        })
    }
}

/// One substitution, with what is left of its allowance.
struct Expansion<'a> {
    source: &'a Source<'a>,
    left: usize,
}

impl Expansion<'_> {
    fn expr(&mut self, e: &p::Expr, at: Shift) -> Result<Node, LowerError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| LowerError::too_large(&self.source.op.name, e.span))?;
        let two = |s: &mut Self, a, b| Ok((Box::new(s.expr(a, at)?), Box::new(s.expr(b, at)?)));
        Ok(match &e.kind {
            ExprKind::Number(v) => Node::Number(*v),
            ExprKind::Size(a) => Node::Size(*a),
            ExprKind::Index(a) => Node::Index(*a, at[*a]),
            ExprKind::Param(q) => Node::Param(*q),
            ExprKind::Let(id, s) => {
                let traits = self.source.lets[*id];
                let moved = plus(at, *s);
                if traits.tabulable() {
                    Node::Let(*id, along(moved, traits.axes))
                } else {
                    self.expr(&self.source.op.lets[*id].value, moved)?
                }
            }
            ExprKind::Data(id, s) => Node::Data(*id, along(plus(at, *s), self.source.data_axes(*id))),
            ExprKind::Unknown(c, s) => Node::Unknown(*c, plus(at, *s)),
            ExprKind::Flux(id, s) => Node::Flux(*id, plus(at, *s)),
            ExprKind::Neg(a) => Node::Neg(Box::new(self.expr(a, at)?)),
            ExprKind::Binary(op, a, b) => {
                let (a, b) = two(self, a, b)?;
                Node::Binary(*op, a, b)
            }
            ExprKind::Call(f, args) => Node::Call(*f, args.iter().map(|a| self.expr(a, at)).collect::<Result<_, _>>()?),
            ExprKind::If(c, a, b) => {
                let c = self.condition(c, at)?;
                match self.source.holds(&c) {
                    Some(true) => self.expr(a, at)?,
                    Some(false) => self.expr(b, at)?,
                    None => {
                        let (a, b) = two(self, a, b)?;
                        Node::If(Box::new(c), a, b)
                    }
                }
            }
        })
    }

    fn condition(&mut self, c: &p::Condition, at: Shift) -> Result<Cond, LowerError> {
        let mut sub = |c: &p::Condition| Ok(Box::new(self.condition(c, at)?));
        Ok(match c {
            p::Condition::And(a, b) => Cond::And(sub(a)?, sub(b)?),
            p::Condition::Or(a, b) => Cond::Or(sub(a)?, sub(b)?),
            p::Condition::Not(a) => Cond::Not(sub(a)?),
            p::Condition::Compare(op, a, b) => Cond::Compare(*op, self.expr(a, at)?, self.expr(b, at)?),
        })
    }
}

/// Sum of two shifts. Offsets of a program are small; a sum that would overflow saturates and fails as too large a margin.
pub(super) fn plus(a: Shift, b: Shift) -> Shift {
    [0, 1, 2].map(|x| a[x].saturating_add(b[x]))
}

/// The shift along some axes only.
fn along(s: Shift, axes: [bool; 3]) -> Shift {
    [0, 1, 2].map(|a| if axes[a] { s[a] } else { 0 })
}

impl Node {
    /// Calls `f` with the axis-wise shifts of everything that depends on an axis: (axis, shift).
    pub fn each_shift(&self, source: &Source, f: &mut impl FnMut(usize, i32)) {
        match self {
            Node::Index(a, s) => f(*a, *s),
            Node::Let(id, s) => {
                (0..3).filter(|&a| source.lets[*id].axes[a]).for_each(|a| f(a, s[a]));
            }
            Node::Data(id, s) => source.op.data[*id].axes.iter().for_each(|&a| f(a, s[a])),
            Node::Neg(a) => a.each_shift(source, f),
            Node::Binary(_, a, b) => {
                a.each_shift(source, f);
                b.each_shift(source, f);
            }
            Node::Call(_, args) => args.iter().for_each(|a| a.each_shift(source, f)),
            Node::If(c, a, b) => {
                c.each_shift(source, f);
                a.each_shift(source, f);
                b.each_shift(source, f);
            }
            Node::Number(_) | Node::Size(_) | Node::Param(_) | Node::Unknown(..) | Node::Flux(..) => {}
        }
    }

    /// The same node with every letter moved back by `by`.
    pub fn moved_back(&self, source: &Source, by: Shift) -> Node {
        let sub = |n: &Node| Box::new(n.moved_back(source, by));
        let minus = |s: &Shift, axes: [bool; 3]| along([0, 1, 2].map(|a| s[a].saturating_sub(by[a])), axes);
        match self {
            Node::Index(a, s) => Node::Index(*a, s.saturating_sub(by[*a])),
            Node::Let(id, s) => Node::Let(*id, minus(s, source.lets[*id].axes)),
            Node::Data(id, s) => Node::Data(*id, minus(s, source.data_axes(*id))),
            Node::Neg(a) => Node::Neg(sub(a)),
            Node::Binary(op, a, b) => Node::Binary(*op, sub(a), sub(b)),
            Node::Call(f, args) => Node::Call(*f, args.iter().map(|a| a.moved_back(source, by)).collect()),
            Node::If(c, a, b) => Node::If(Box::new(c.moved_back(source, by)), sub(a), sub(b)),
            other => other.clone(),
        }
    }
}

impl Cond {
    fn each_shift(&self, source: &Source, f: &mut impl FnMut(usize, i32)) {
        match self {
            Cond::Compare(_, a, b) => {
                a.each_shift(source, f);
                b.each_shift(source, f);
            }
            Cond::And(a, b) | Cond::Or(a, b) => {
                a.each_shift(source, f);
                b.each_shift(source, f);
            }
            Cond::Not(a) => a.each_shift(source, f),
        }
    }

    fn moved_back(&self, source: &Source, by: Shift) -> Cond {
        let sub = |c: &Cond| Box::new(c.moved_back(source, by));
        match self {
            Cond::Compare(op, a, b) => Cond::Compare(*op, a.moved_back(source, by), b.moved_back(source, by)),
            Cond::And(a, b) => Cond::And(sub(a), sub(b)),
            Cond::Or(a, b) => Cond::Or(sub(a), sub(b)),
            Cond::Not(a) => Cond::Not(sub(a)),
        }
    }
}
