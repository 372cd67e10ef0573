//! Checks of expressions: types, scopes, literals, loads.

use super::body::Checker;
use super::residue::fits;
use crate::kernel::{Access, BufferId, Expr, Math, Op, Space, Type};
use crate::kernel_text::type_name;

impl Checker<'_, '_> {
    /// Checks an expression; `None` when an error was reported on the way.
    pub(super) fn expr(&mut self, expr: &Expr) -> Option<Type> {
        match expr {
            Expr::Real(_, ty) => self.real_literal(*ty),
            Expr::Int(value) => {
                self.require(fits(*value, self.kernel().index), || {
                    format!("{value} is too large for the kernel's integers")
                })?;
                Some(Type::Int)
            }
            Expr::Bool(_) => Some(Type::Bool),
            Expr::Var(var) => {
                let name = self.kernel().var_name(*var);
                self.require(self.in_scope(*var), || format!("`{name}` is not declared here"))?;
                Some(self.kernel().vars[var.0].ty)
            }
            Expr::Lane(axis) | Expr::Block(axis) => {
                self.require(*axis < 3, || format!("there is no axis {axis}"))?;
                Some(Type::Int)
            }
            Expr::Load(buffer, index) => self.load(*buffer, index),
            Expr::Neg(a) => {
                let ty = self.expr(a)?;
                self.require(ty != Type::Bool, || "a truth value has no negative".to_owned())?;
                Some(ty)
            }
            Expr::Not(a) => self.expect(a, Type::Bool, "the operand of `!`"),
            Expr::Binary(op, a, b) => self.binary(*op, a, b),
            Expr::Compare(cmp, a, b) => {
                use crate::kernel::Cmp::{Eq, Ne};
                let ty = self.same(a, b, "compared values")?;
                let ordered = ty != Type::Bool || matches!(cmp, Eq | Ne);
                self.require(ordered, || "truth values have no order".to_owned())?;
                Some(Type::Bool)
            }
            Expr::Select(cond, a, b) => {
                let cond = self.expect(cond, Type::Bool, "the condition of a selection");
                let ty = self.same(a, b, "both sides of a selection")?;
                cond.map(|_| ty)
            }
            Expr::Call(function, args) => self.call(*function, args),
            Expr::Cast(to, a) => self.cast(*to, a),
        }
    }

    /// Checks an expression that must have a type.
    pub(super) fn expect(&mut self, expr: &Expr, wanted: Type, what: &str) -> Option<Type> {
        let found = self.expr(expr)?;
        self.require(found == wanted, || {
            format!("{what} must be of type {}, not {}", type_name(wanted), type_name(found))
        })?;
        Some(found)
    }

    /// Checks the index of a buffer.
    pub(super) fn index(&mut self, buffer: BufferId, index: &Expr, elements: usize) {
        if self.expect(index, Type::Int, "an index").is_none() {
            return;
        }
        let extent = self.kernel().buffers[buffer.0].extent;
        let name = self.kernel().buffer_name(buffer);
        if let Some(first) = index.constant() {
            // Extents above i64::MAX are refused elsewhere.
            let extent = i64::try_from(extent).unwrap_or(i64::MAX);
            let last = first.saturating_add(elements as i64 - 1);
            self.require(first >= 0 && last < extent, || {
                format!("element {last} is outside of `{name}`, which has {extent} elements")
            });
        }
    }

    fn real_literal(&mut self, ty: Type) -> Option<Type> {
        self.require(matches!(ty, Type::F32 | Type::F64), || {
            format!("a real number cannot be of type {}", type_name(ty))
        })?;
        Some(ty)
    }

    fn load(&mut self, buffer: BufferId, index: &Expr) -> Option<Type> {
        self.loadable(buffer);
        self.index(buffer, index, 1);
        Some(self.kernel().buffers[buffer.0].element.value_type())
    }

    /// Checks that a buffer may be loaded from.
    pub(super) fn loadable(&mut self, buffer: BufferId) {
        let of = &self.kernel().buffers[buffer.0];
        let allowed = of.space == Space::Private || of.access != Access::Write;
        let name = self.kernel().buffer_name(buffer);
        self.require(allowed, || format!("`{name}` is only stored to, by its declaration"));
    }

    fn same(&mut self, a: &Expr, b: &Expr, what: &str) -> Option<Type> {
        let (a, b) = (self.expr(a), self.expr(b));
        let (a, b) = (a?, b?);
        self.require(a == b, || format!("{what} must have one type, not {} and {}", type_name(a), type_name(b)))?;
        Some(a)
    }

    fn binary(&mut self, op: Op, a: &Expr, b: &Expr) -> Option<Type> {
        let ty = self.same(a, b, "operands")?;
        let allowed = match op {
            Op::And | Op::Or => ty == Type::Bool,
            Op::Rem => ty == Type::Int,
            _ => ty != Type::Bool,
        };
        self.require(allowed, || format!("{op:?} has no meaning for {}", type_name(ty)))?;
        let divides = ty == Type::Int && matches!(op, Op::Div | Op::Rem);
        self.require(!divides || b.constant() != Some(0), || "division of an integer by zero".to_owned())?;
        Some(ty)
    }

    fn call(&mut self, function: Math, args: &[Expr]) -> Option<Type> {
        let types: Vec<Option<Type>> = args.iter().map(|arg| self.expr(arg)).collect();
        self.require(args.len() == function.arity(), || {
            format!("{function:?} takes {} arguments, not {}", function.arity(), args.len())
        })?;
        let types: Vec<Type> = types.into_iter().collect::<Option<_>>()?;
        let first = *types.first()?;
        let fine = matches!(first, Type::F32 | Type::F64) && types.iter().all(|&ty| ty == first);
        self.require(fine, || format!("the arguments of {function:?} must be real and of one type"))?;
        Some(first)
    }

    fn cast(&mut self, to: Type, a: &Expr) -> Option<Type> {
        let from = self.expr(a)?;
        let real = |ty| matches!(ty, Type::F32 | Type::F64);
        let fine = (real(from) && to != Type::Bool) || (from == Type::Int && real(to));
        self.require(fine, || format!("there is no conversion from {} to {}", type_name(from), type_name(to)))?;
        Some(to)
    }
}
