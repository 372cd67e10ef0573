//! Where in the control a status was raised.
//!
//! The device says *what* was raised and at which iteration. Which step that was follows from the statements of the
//! fences: a `require` has a number, a check stands in one fence, and what a loop does ahead of its first iteration is
//! iteration 0. Where the same status could come from several steps of one iteration (a check in an inner loop, say), the
//! driver looks at the status word after each of them instead, which costs a round trip each; [`Raises::ambiguous`] names
//! those fences.

use std::collections::BTreeMap;

use kernelwright_codegen::loops::{
    BinaryOp, Control, Fence, FenceId, Program, ScalarExpr, ScalarId, ScalarStmt, status,
};

/// What the fences of a program can raise.
#[derive(Debug)]
pub(super) struct Raises {
    ambiguous: Vec<bool>,
}

impl Raises {
    /// Looks through all sections.
    pub(super) fn of(program: &Program) -> Self {
        let statuses: Vec<Vec<i32>> = program.fences.iter().map(raised_by).collect();
        let mut raises = Raises { ambiguous: vec![false; program.fences.len()] };
        let (prepare, start, body) = (&program.prepare, &program.start, &program.body);
        if advances_first(program, body) {
            raises.mark(&statuses, &[prepare, start]);
            raises.mark(&statuses, &[body]);
        } else {
            raises.mark(&statuses, &[prepare, start, body]);
        }
        raises
    }

    /// Whether the status word must be looked at right after this fence.
    pub(super) fn ambiguous(&self, fence: FenceId) -> bool {
        self.ambiguous[fence.0]
    }

    /// Marks the fences of sections whose statuses one iteration may raise in several places.
    fn mark(&mut self, statuses: &[Vec<i32>], sections: &[&Vec<Control>]) {
        let mut steps = Counts::new();
        let mut fences = Vec::new();
        for section in sections {
            add(&mut steps, count(section, statuses, &mut fences, false));
        }
        for (fence, nested) in fences {
            let shared = statuses[fence].iter().any(|word| steps.get(word).is_some_and(|steps| *steps > 1));
            self.ambiguous[fence] |= !statuses[fence].is_empty() && (nested || shared);
        }
    }
}

/// In how many steps of one iteration each status can be raised.
type Counts = BTreeMap<i32, usize>;

fn add(total: &mut Counts, more: Counts) {
    for (word, steps) in more {
        *total.entry(word).or_default() += steps;
    }
}

/// Counts, and lists the fences with whether they stand in a loop of fixed length.
fn count(control: &[Control], statuses: &[Vec<i32>], fences: &mut Vec<(usize, bool)>, nested: bool) -> Counts {
    let mut total = Counts::new();
    for step in control {
        match step {
            Control::Fence(fence) => {
                fences.push((fence.0, nested));
                add(&mut total, statuses[fence.0].iter().map(|word| (*word, 1)).collect());
            }
            Control::Loop { times, body } => {
                add(&mut total, count(body, statuses, fences, nested || times.is_some()));
            }
            // One of the two happens.
            Control::Every { body, otherwise, .. } => {
                let mut either = count(body, statuses, fences, nested);
                for (word, steps) in count(otherwise, statuses, fences, nested) {
                    let known = either.entry(word).or_default();
                    *known = steps.max(*known);
                }
                add(&mut total, either);
            }
            Control::Sweep(_) | Control::Rotate(_) => {}
        }
    }
    total
}

/// Whether the first fence of the main loop advances the iteration before it raises anything: then what the loop raises
/// is of iteration 1 or later.
fn advances_first(program: &Program, body: &[Control]) -> bool {
    let first = |control: &[Control]| control.iter().find(|step| step.holds_fence()).cloned();
    let advances = |step: Option<Control>| match step {
        Some(Control::Fence(fence)) => {
            let assigns = |s: &ScalarStmt| matches!(s, ScalarStmt::Assign { scalar: ScalarId::ITERATION, .. });
            let before = program.fences[fence.0].statements.iter().take_while(|s| !assigns(s));
            let silent = before.clone().all(|s| matches!(s, ScalarStmt::Assign { .. }));
            silent && before.count() < program.fences[fence.0].statements.len()
        }
        _ => false,
    };
    match first(body) {
        Some(Control::Loop { body, .. }) => match first(&body) {
            Some(Control::Every { body, otherwise, .. }) => advances(first(&body)) && advances(first(&otherwise)),
            step => advances(step),
        },
        _ => false,
    }
}

/// Statuses of a fence that must be told apart. A value that is not finite is left out: every sum may raise it, and
/// the vectors are lost wherever it was.
fn raised_by(fence: &Fence) -> Vec<i32> {
    let mut raised = Vec::new();
    for statement in &fence.statements {
        match statement {
            ScalarStmt::Check { .. } => raised.push(status::CONVERGED),
            ScalarStmt::Require { number, .. } => raised.push(status::REQUIRE + *number as i32),
            ScalarStmt::Raise { status, .. } => raised.push(*status),
            ScalarStmt::Assign { .. } | ScalarStmt::Measure { .. } => {}
        }
    }
    raised
}

/// Runs a fence as far as the iteration number goes; true when it may have raised `word` at iteration `at`.
pub(super) fn may_raise(fence: &Fence, word: i32, at: i64, iteration: &mut i64) -> bool {
    let mut raised = word == status::NOT_FINITE && at == *iteration;
    for statement in &fence.statements {
        let candidate = match statement {
            ScalarStmt::Assign { scalar, value, .. } => {
                if *scalar == ScalarId::ITERATION {
                    *iteration = follow(value, *iteration as f64).unwrap_or(*iteration as f64 + 1.0) as i64;
                }
                word == status::NOT_FINITE
            }
            ScalarStmt::Check { .. } => word == status::CONVERGED || word == status::NOT_FINITE,
            ScalarStmt::Require { number, .. } => word == status::REQUIRE + *number as i32,
            ScalarStmt::Raise { status, .. } => word == *status,
            ScalarStmt::Measure { .. } => false,
        };
        raised |= candidate && at == *iteration;
    }
    raised
}

/// Follows the iteration number through a fence.
pub(super) fn follow_fence(fence: &Fence, iteration: &mut i64) {
    may_raise(fence, status::RUNNING, -1, iteration);
}

/// Value of an expression of the iteration number alone.
fn follow(value: &ScalarExpr, iteration: f64) -> Option<f64> {
    Some(match value {
        ScalarExpr::Number(number) => *number,
        ScalarExpr::Scalar(ScalarId::ITERATION) => iteration,
        ScalarExpr::Neg(a) => -follow(a, iteration)?,
        ScalarExpr::Binary(op, a, b) => {
            let (a, b) = (follow(a, iteration)?, follow(b, iteration)?);
            match op {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
            }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::from_text;
    use crate::solve::Solver;

    #[test]
    fn no_schedule_of_the_library_makes_the_driver_look_at_the_device_every_iteration() {
        for solver in kernelwright_syntax::library::names() {
            let text = format!(
                "operator d {{ grid cells [i: nx, j: ny]; flux X[i+1/2] = u[i+1] - u; flux Y[j+1/2] = u[j+1] - u;
                    apply u => u - div(X) - div(Y); boundary i, j: no_flux; claim symmetric; }}
                problem p {{ operator d(nx = 4, ny = 4); rhs 1; solver {solver}; tolerance 1e-8; }}"
            );
            let loaded = from_text("d.kw", text).expect("a right program");
            let planned = Solver::builder(&loaded).plan().expect("it has schedules");
            for plan in &planned.plans {
                let raises = Raises::of(&plan.program);
                let fences = 0..plan.program.fences.len();
                let looked: Vec<&str> = fences
                    .filter(|fence| raises.ambiguous(FenceId(*fence)))
                    .map(|fence| plan.program.fences[fence].name.as_str())
                    .collect();
                assert!(looked.is_empty(), "{}: {looked:?}", plan.program.name);
            }
        }
    }
}
