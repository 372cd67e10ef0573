//! Where in the control a status was raised.
//!
//! The device says *what* was raised and at which iteration. Which step that was follows from the statements of the
//! fences: a `require` has a number, a check stands in one fence. Where the same status could come from several
//! steps of one iteration (a check in an inner loop, say), the driver looks at the status word after each of them
//! instead; [`Raises::ambiguous`] names those fences.

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
        let mut uses = Uses { count: vec![0; program.fences.len()], nested: vec![false; program.fences.len()] };
        for section in [&program.prepare, &program.start, &program.body] {
            uses.visit(section, false);
        }
        let statuses: Vec<Vec<i32>> = program.fences.iter().map(raised_by).collect();
        let ambiguous = (0..program.fences.len())
            .map(|fence| {
                let shared = |word: &i32| {
                    let raisers = statuses.iter().zip(&uses.count).filter(|(raised, _)| raised.contains(word));
                    raisers.map(|(_, count)| *count).sum::<usize>() > 1
                };
                !statuses[fence].is_empty() && (uses.nested[fence] || statuses[fence].iter().any(shared))
            })
            .collect();
        Raises { ambiguous }
    }

    /// Whether the status word must be looked at right after this fence.
    pub(super) fn ambiguous(&self, fence: FenceId) -> bool {
        self.ambiguous[fence.0]
    }
}

/// How often and where the control runs each fence.
struct Uses {
    count: Vec<usize>,
    nested: Vec<bool>,
}

impl Uses {
    fn visit(&mut self, control: &[Control], nested: bool) {
        for step in control {
            match step {
                Control::Fence(fence) => {
                    self.count[fence.0] += 1;
                    self.nested[fence.0] |= nested;
                }
                Control::Loop { times, body } => self.visit(body, nested || times.is_some()),
                Control::Every { body, otherwise, .. } => {
                    self.visit(body, nested);
                    self.visit(otherwise, nested);
                }
                Control::Sweep(_) | Control::Rotate(_) => {}
            }
        }
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
