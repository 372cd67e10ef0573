//! From a checked system of the language, one of its fluxes and a time step to System IR.
//!
//! Names become components one by one; boundary conditions become boundaries in the order of the program.

use kernelwright_syntax::program::system as syntax;

use super::step::Step;
use super::system::{Boundary, Condition, Expr, Rate, System, Term};

/// Lowers a system with the flux of that number (0 is the default) and a time step. The result is verified by
/// [`verify`](super::verify::verify).
pub fn lower(system: &syntax::System, flux: usize, step: &syntax::TimeStep) -> System {
    let numerical = system.fluxes.get(flux);
    let mut text = system.text.clone();
    text.extend(numerical.iter().flat_map(|flux| flux.text.iter().map(|line| format!("flux {}: {line}", flux.name))));
    System {
        name: system.name.clone(),
        components: system.components(),
        materials: system.material_names(),
        params: system.param_names(),
        rates: system.rates.iter().map(rate).collect(),
        flux: numerical.map_or_else(Vec::new, |flux| flux.values.iter().map(expr).collect()),
        boundaries: system.conditions.iter().map(boundary).collect(),
        step: time_step(step),
        text,
    }
}

fn rate(rate: &syntax::Rate) -> Rate {
    let term =
        |term: &syntax::Term| Term { coefficient: expr(&term.coefficient), component: term.component, axis: term.axis };
    Rate { terms: rate.terms.iter().map(term).collect(), source: rate.source.as_ref().map(expr) }
}

fn boundary(condition: &syntax::ExteriorState) -> Boundary {
    Boundary {
        tag: condition.name.clone(),
        components: condition.fields.iter().map(expr).collect(),
        materials: condition.materials.iter().map(expr).collect(),
    }
}

fn time_step(step: &syntax::TimeStep) -> Step {
    Step { name: step.name.clone(), registers: step.registers.clone(), stages: step.stages.clone() }
}

/// A formula as an expression of System IR.
pub fn expr(formula: &syntax::Formula) -> Expr {
    use syntax::Formula;
    match formula {
        Formula::Number(value) => Expr::Number(*value),
        Formula::Param(n) => Expr::Param(*n),
        Formula::Material(of, n) => Expr::Material(*of, *n),
        Formula::Component(of, n) => Expr::Component(*of, *n),
        // The check takes equations apart; no derivative is left in them.
        Formula::Derivative(..) => Expr::Number(f64::NAN),
        Formula::Normal(axis) => Expr::Normal(*axis),
        Formula::Position(axis) => Expr::Position(*axis),
        Formula::Time => Expr::Time,
        Formula::Neg(inner) => Expr::Neg(Box::new(expr(inner))),
        Formula::Binary(operator, left, right) => Expr::Binary(*operator, Box::new(expr(left)), Box::new(expr(right))),
        Formula::Call(function, arguments) => Expr::Call(*function, arguments.iter().map(expr).collect()),
        Formula::Select(test, then, other) => {
            Expr::Select(Box::new(condition(test)), Box::new(expr(then)), Box::new(expr(other)))
        }
    }
}

fn condition(test: &syntax::Test) -> Condition {
    use syntax::Test;
    match test {
        Test::Compare(operator, left, right) => Condition::Compare(*operator, expr(left), expr(right)),
        Test::And(left, right) => Condition::And(Box::new(condition(left)), Box::new(condition(right))),
        Test::Or(left, right) => Condition::Or(Box::new(condition(left)), Box::new(condition(right))),
        Test::Not(inner) => Condition::Not(Box::new(condition(inner))),
    }
}
