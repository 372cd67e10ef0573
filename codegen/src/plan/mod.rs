//! Plan: schedules for a graph.

#[cfg(test)]
mod cases;
pub mod schedule;

#[cfg(test)]
mod tests {
    use super::cases::Case;
    use super::schedule::{Arithmetic, Order, Schedule};
    use crate::apply::apply;
    use kernelwright_syntax::program::Preconditioner;

    fn plain(order: Order) -> Schedule {
        Schedule { name: format!("{order:?}"), order, main: None, arithmetic: Arithmetic::Same }
    }

    fn sound(case: &Case) {
        let graph = case.graph();
        for order in [Order::Statement, Order::Fused] {
            let program = apply(&graph, &plain(order)).unwrap_or_else(|e| panic!("{e}\n{}", graph.text()));
            if let Err(e) = case.check(&program) {
                panic!("{e}\n{}\n{}", graph.text(), crate::loops_text::text(&program));
            }
        }
    }

    #[test]
    fn library_in_program_order() {
        for name in kernelwright_syntax::library::names() {
            for preconditioner in [Preconditioner::Identity, Preconditioner::Jacobi, Preconditioner::Line(2)] {
                sound(&Case::library(name, preconditioner.clone()));
                sound(&Case::library(name, preconditioner.clone()).singular());
                sound(&Case::library(name, preconditioner).boundary_values());
            }
        }
    }

    #[test]
    fn inner_solvers() {
        for inner in kernelwright_syntax::library::names() {
            sound(&Case::library("pcg_flexible", Preconditioner::Identity).inner(inner, 2, Preconditioner::Jacobi));
        }
    }
}
