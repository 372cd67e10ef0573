use super::cases::Case;
use super::schedule::Order;
use super::search::Limits;
use super::*;
use kernelwright_syntax::program::Preconditioner;

fn sound(case: &Case) {
    let graph = case.graph();
    for order in [Order::Statement, Order::Fused] {
        let program = apply(&graph, &in_order("order", order)).unwrap_or_else(|e| panic!("{e}\n{}", graph.text()));
        expect_legal(case, &graph, &program);
    }
}

fn expect_legal(case: &Case, graph: &Graph, program: &Program) {
    if let Err(e) = case.check(program) {
        panic!("{e}\n{}\n{}", graph.text(), crate::loops_text::text(program));
    }
}

fn sound_plans(case: &Case, limits: Limits) -> Vec<Plan> {
    let graph = case.graph();
    let plans = plan(&graph, limits).unwrap_or_else(|e| panic!("{e}\n{}", graph.text()));
    for plan in &plans {
        eprintln!("{} {:?}", plan.program.name, plan.cost);
        eprintln!("{}", plan.schedule.text(&graph));
        expect_legal(case, &graph, &plan.program);
    }
    plans
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

#[test]
fn statements_of_the_library() {
    for name in kernelwright_syntax::library::names() {
        let case = Case::library(name, Preconditioner::Line(2));
        let graph = case.graph();
        let schedule = statement(&graph).unwrap_or_else(|e| panic!("{name}: {e}\n{}", graph.text()));
        let program = apply(&graph, &schedule).unwrap_or_else(|e| panic!("{name}: {e}\n{}", graph.text()));
        expect_legal(&case, &graph, &program);
    }
}

#[test]
fn pcg() {
    let case = Case::library("pcg", Preconditioner::Line(2));
    let plans = sound_plans(&case, Limits::default());
    assert_eq!(plans[0].cost.words, 18.0);
}
