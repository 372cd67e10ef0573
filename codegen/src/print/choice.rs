//! Choices without branches in vector loops of the host.
//!
//! A condition that is the same for a whole loop (a row has a neighbour to the north) invites optimisers to split the
//! loop's body into paths, one for each way that several such conditions can turn out; what has paths is not vectorised,
//! and runs several times slower. Such a choice between two reals is made on their bits instead: the chosen side keeps
//! its bits, the other loses them, so that no value changes, not even a NaN.

use std::cell::Cell;

use super::writer::Writer;
use crate::kernel::{Expr, Kernel, LoopKind, Stmt, Type};
use crate::kernel_walk::{each_expr, each_stmt};

/// What is known of a kernel's vector loops.
pub(super) struct Choices {
    /// Variables declared inside of one.
    inside: Vec<bool>,
    /// A vector loop is being printed.
    in_loop: Cell<bool>,
}

impl Choices {
    pub(super) fn of(kernel: &Kernel) -> Choices {
        let mut inside = vec![false; kernel.vars.len()];
        each_vector_loop(kernel, &mut |stmt| {
            each_stmt(std::slice::from_ref(stmt), &mut |s| {
                for var in s.declares() {
                    if let Some(slot) = inside.get_mut(var.0) {
                        *slot = true;
                    }
                }
            });
        });
        Choices { inside, in_loop: Cell::new(false) }
    }

    /// A vector loop begins; they do not stand in each other.
    pub(super) fn enter(&self) {
        self.in_loop.set(true);
    }

    /// A loop ends.
    pub(super) fn leave(&self, kind: &LoopKind) {
        if matches!(kind, LoopKind::Simd(_)) {
            self.in_loop.set(false);
        }
    }

    /// The function that makes a choice, where that is one for it.
    pub(super) fn function(&self, kernel: &Kernel, cond: &Expr, a: &Expr, b: &Expr) -> Option<&'static str> {
        if self.in_loop.get() { self.name(kernel, cond, a, b) } else { None }
    }

    /// Both sides are computed, so neither may load, which the condition might keep in bounds.
    fn name(&self, kernel: &Kernel, cond: &Expr, a: &Expr, b: &Expr) -> Option<&'static str> {
        let name = name(kernel.type_of(a))?;
        let loads = |e: &Expr| e.any(&mut |part| matches!(part, Expr::Load(..)));
        let varies = cond.any(&mut |part| match part {
            Expr::Var(var) => self.inside.get(var.0) != Some(&false),
            _ => false,
        });
        (!varies && !loads(cond) && !loads(a) && !loads(b)).then_some(name)
    }

    /// Whether the kernel needs the function of a type.
    fn uses(&self, kernel: &Kernel, ty: Type) -> bool {
        let mut uses = false;
        each_vector_loop(kernel, &mut |stmt| {
            each_expr(std::slice::from_ref(stmt), &mut |e| {
                if let Expr::Select(cond, a, b) = e {
                    uses |= kernel.type_of(a) == ty && self.name(kernel, cond, a, b).is_some();
                }
            });
        });
        uses
    }
}

fn name(ty: Type) -> Option<&'static str> {
    match ty {
        Type::F32 => Some("choose_float"),
        Type::F64 => Some("choose_double"),
        Type::Int | Type::Bool => None,
    }
}

/// Vector loops of a kernel that has one lane a block; others have none that are printed as such.
fn each_vector_loop(kernel: &Kernel, f: &mut impl FnMut(&Stmt)) {
    if kernel.lane_count() != 1 {
        return;
    }
    each_stmt(&kernel.body, &mut |stmt| {
        if let Stmt::For { kind: LoopKind::Simd(_), .. } = stmt {
            f(stmt);
        }
    });
}

/// The types, if any, whose functions some kernel needs.
pub(super) fn needed(kernels: &[&Kernel]) -> Vec<Type> {
    let needs = |ty: &Type| kernels.iter().any(|kernel| Choices::of(kernel).uses(kernel, *ty));
    [Type::F32, Type::F64].into_iter().filter(needs).collect()
}

/// Writes the function of a type.
pub(super) fn function(out: &mut Writer, ty: Type) {
    let Some(name) = name(ty) else { return };
    let (real, bits) = if ty == Type::F32 { ("float", "int") } else { ("double", "long long") };
    out.blank();
    out.comment("wanted ? a : b, without a branch that would keep a loop from being vectorised.");
    out.open(&format!("static inline {real} {name}(bool wanted, {real} a, {real} b) {{"));
    out.code(&format!("const {bits} mask = -({bits})wanted;"));
    out.code(&format!("{bits} x, y;"));
    out.code("memcpy(&x, &a, sizeof a);");
    out.code("memcpy(&y, &b, sizeof b);");
    out.code("x = (x & mask) | (y & ~mask);");
    out.code("memcpy(&a, &x, sizeof a);");
    out.code("return a;");
    out.close("}");
}
