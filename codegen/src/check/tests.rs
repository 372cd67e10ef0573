//! What a correct program passes and a wrong one fails.

use super::field::mix;
use super::grid::{Seen, observe};
use super::*;
use crate::loops::{BinaryOp, Control, PointExpr, ScalarExpr, ScalarStmt, SumId, ValueId, ValueKind, Version};
use crate::plan::cases::Case;
use crate::plan::schedule::Placement;
use crate::plan::{Plan, plan, search::Limits};

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(1);
        (mix(self.0) % sides.max(1) as u64) as usize
    }
}

/// Changes one thing somewhere; nothing where the chosen thing does not exist.
fn corrupt(p: &mut Program, dice: &mut Dice) -> String {
    let sweep = dice.roll(p.sweeps.len());
    let fence = dice.roll(p.fences.len());
    let kind = dice.roll(13);
    let (vectors, scalars) = (p.vectors.len(), p.scalars.len());
    let versions: Vec<u32> = p.vectors.iter().map(|v| v.versions).collect();
    let s = &mut p.sweeps[sweep];
    let what = match kind {
        0 => {
            let at = dice.roll(s.stores.len());
            if at < s.stores.len() {
                s.stores.remove(at);
            }
            "store dropped"
        }
        1 => {
            if let Some(store) = s.stores.first_mut() {
                store.to.ahead = (store.to.ahead + 1) % versions[store.to.vector.0];
            }
            "store moved to another version"
        }
        2 => {
            let at = dice.roll(s.values.len());
            if let Some(ValueKind::Load(v)) = s.values.get_mut(at).map(|v| &mut v.kind) {
                v.ahead = (v.ahead + 1) % versions[v.vector.0];
            }
            "load of another version"
        }
        3 => {
            let at = dice.roll(s.values.len());
            let vector = VectorId(dice.roll(vectors));
            if let Some(ValueKind::Load(v)) = s.values.get_mut(at).map(|v| &mut v.kind) {
                *v = Version { vector, ahead: 0 };
            }
            "load of another vector"
        }
        4 => {
            let at = dice.roll(s.values.len());
            let scalar = ScalarId(dice.roll(scalars));
            if let Some(ValueKind::Map(e)) = s.values.get_mut(at).map(|v| &mut v.kind) {
                change_point(e, scalar, dice);
            }
            "arithmetic changed"
        }
        5 => {
            let value = ValueId(dice.roll(s.values.len()));
            if let Some(sum) = s.sums.first_mut() {
                sum.left = value;
            }
            "sum of another value"
        }
        6 => {
            let at = dice.roll(p.fences[fence].statements.len());
            if at < p.fences[fence].statements.len() {
                p.fences[fence].statements.remove(at);
            }
            "statement dropped"
        }
        7 => {
            let count = p.fences[fence].statements.len();
            if count > 1 {
                let at = dice.roll(count - 1);
                p.fences[fence].statements.swap(at, at + 1);
            }
            "statements swapped"
        }
        8 => {
            let at = dice.roll(p.fences[fence].statements.len());
            let scalar = ScalarId(dice.roll(scalars));
            if let Some(ScalarStmt::Assign { value, .. }) = p.fences[fence].statements.get_mut(at) {
                change_scalar(value, scalar, dice);
            }
            "scalar arithmetic changed"
        }
        9 => {
            let value = ValueId(dice.roll(s.values.len()));
            if let Some(store) = s.stores.last_mut() {
                store.value = value;
            }
            "store of another value"
        }
        10 => {
            let to = dice.roll(p.fences.len());
            if let Some(statement) = p.fences[fence].statements.pop() {
                p.fences[to].statements.insert(0, statement);
            }
            "statement moved"
        }
        _ => {
            let section = [&mut p.start, &mut p.body, &mut p.finish, &mut p.residual];
            let section = section.into_iter().nth(dice.roll(4)).expect("four sections");
            let list = match section.first_mut() {
                Some(Control::Loop { body, .. }) => body,
                _ => section,
            };
            let at = dice.roll(list.len());
            if kind == 11 && at < list.len() {
                list.remove(at);
            } else if at + 1 < list.len() {
                list.swap(at, at + 1);
            }
            if kind == 11 { "step dropped" } else { "steps swapped" }
        }
    };
    what.to_string()
}

fn change_point(e: &mut PointExpr, scalar: ScalarId, dice: &mut Dice) {
    match e {
        PointExpr::Binary(op, a, b) => match dice.roll(4) {
            0 => *op = if *op == BinaryOp::Add { BinaryOp::Sub } else { BinaryOp::Add },
            1 => std::mem::swap(a, b),
            2 => change_point(a, scalar, dice),
            _ => change_point(b, scalar, dice),
        },
        PointExpr::Neg(a) | PointExpr::Abs(a) => *e = (**a).clone(),
        PointExpr::Scalar(s) => *s = scalar,
        PointExpr::Number(x) => *x += 1.0,
        PointExpr::Value(_) => {}
    }
}

fn change_scalar(e: &mut ScalarExpr, scalar: ScalarId, dice: &mut Dice) {
    match e {
        ScalarExpr::Binary(op, a, b) => match dice.roll(4) {
            0 => *op = if *op == BinaryOp::Div { BinaryOp::Mul } else { BinaryOp::Div },
            1 => std::mem::swap(a, b),
            2 => change_scalar(a, scalar, dice),
            _ => change_scalar(b, scalar, dice),
        },
        ScalarExpr::Scalar(s) => *s = scalar,
        ScalarExpr::Sum(s) => *s = SumId(s.0.saturating_sub(1)),
        ScalarExpr::Number(x) => *x += 1.0,
        ScalarExpr::Neg(a) => *e = (**a).clone(),
        ScalarExpr::Select(_, a, b) => std::mem::swap(a, b),
        ScalarExpr::Param(_) | ScalarExpr::Call(..) | ScalarExpr::Truth(_) => {}
    }
}

fn near(a: &[Vec<f64>], b: &[Vec<f64>]) -> bool {
    let same = |x: &f64, y: &f64| (x - y).abs() <= 1e-7 * (1.0 + x.abs().max(y.abs()));
    a.iter().zip(b).all(|(v, w)| v.len() == w.len() && v.iter().zip(w).all(|(x, y)| same(x, y)))
}

fn close(a: &Seen, b: &Seen) -> bool {
    let pairs = [(&a.tests, &b.tests), (&a.raised, &b.raised), (&a.exits, &b.exits), (&a.limits, &b.limits)];
    pairs.iter().all(|(a, b)| a.len() == b.len() && near(a, b))
}

/// Whether two programs do the same, though one may be ahead of the other by some tests.
fn agree(a: &Seen, b: &Seen) -> bool {
    near(&a.tests, &b.tests) && near(&a.exits, &b.exits) && near(&a.limits, &b.limits)
}

/// Changes one thing in a placement; nothing where the chosen thing does not exist.
fn corrupt_placement(p: &mut Placement, dice: &mut Dice) -> String {
    let nodes: Vec<_> = p.times.keys().copied().collect();
    let node = nodes[dice.roll(nodes.len())];
    let what = match dice.roll(9) {
        0 | 1 => {
            *p.times.entry(node).or_default() += [-2, -1, 1, 2][dice.roll(4)];
            "another time"
        }
        2 => {
            p.times.remove(&node);
            "not stored"
        }
        3 => {
            p.versions.entry(node).and_modify(|v| *v = v.saturating_sub(1).max(1));
            "a buffer less"
        }
        4 => {
            p.first += [-1, 1][dice.roll(2)];
            "another beginning"
        }
        5 => {
            p.sweeps += [-1, 1][dice.roll(2)];
            "another number of sweeps"
        }
        6 => {
            p.linear = if p.linear.is_empty() { [node].into() } else { [].into() };
            "linearity"
        }
        7 => {
            p.apart = !p.apart;
            "the solution with others, or apart"
        }
        _ => {
            p.delay = if p.delay == 1 { 2 } else { p.delay - 1 };
            "another delay"
        }
    };
    what.to_string()
}

/// A corrupted placement is refused when it is carried out, or makes another program that is refused, or does no harm.
fn hunt_placements(case: &Case, plan: &Plan, mutants: u64) -> [u64; 3] {
    let graph = case.graph();
    let right = observe(&plan.program);
    let placed = plan.schedule.placed(&graph).expect("the schedule is of this graph");
    let [mut refused, mut harmless, mut simulated] = [0, 0, 0];
    for seed in 0..mutants {
        let mut schedule = plan.schedule.clone();
        let mut dice = Dice(seed * 977 + 5);
        let mut what = String::new();
        while schedule == plan.schedule {
            what = corrupt_placement(schedule.main.as_mut().expect("a placed loop"), &mut dice);
        }
        let main = schedule.main.as_ref().expect("a placed loop");
        let refuses = versions::simulate(&placed, main).is_err();
        simulated += u64::from(refuses);
        let Ok(program) = crate::apply::apply(&graph, &schedule) else {
            refused += 1;
            continue;
        };
        let verdict = case.check(&program);
        if verdict.is_err() || refuses {
            refused += 1;
            continue;
        }
        assert!(agree(&observe(&program), &right), "mutant {seed} of {} is accepted: {what}", plan.schedule.name);
        harmless += 1;
    }
    [refused, harmless, simulated]
}

/// Whatever a real grid shows to be wrong, the checker must refuse; and it must not refuse the program itself.
fn hunt(case: &Case, program: &Program, mutants: u64) {
    case.check(program).expect("the program is legal");
    let right = observe(program);
    let mut wrong = 0;
    let mut refused = 0;
    for seed in 0..mutants {
        let mut mutant = program.clone();
        let mut dice = Dice(seed * 1000);
        let mut what = String::new();
        while mutant == *program {
            what = corrupt(&mut mutant, &mut dice);
        }
        let verdict = case.check(&mutant);
        refused += u64::from(verdict.is_err());
        // A malformed program cannot be run.
        if crate::loops_verify::verify(&mutant).is_ok() && !close(&observe(&mutant), &right) {
            wrong += 1;
            let (text, before) = (crate::loops_text::text(&mutant), crate::loops_text::text(program));
            let text: Vec<(&str, &str)> = before.lines().zip(text.lines()).filter(|(a, b)| a != b).take(3).collect();
            assert!(verdict.is_err(), "mutant {seed} of {} is accepted: {what} {text:?}", program.name);
        }
    }
    assert!(wrong * 10 > mutants, "only {wrong} of {mutants} mutants were wrong");
    assert!(refused * 3 > mutants, "only {refused} of {mutants} mutants were refused");
}

#[test]
fn corrupted_schedules_are_refused() {
    for preconditioner in [Preconditioner::Line(2), Preconditioner::Jacobi] {
        let case = Case::library("pcg", preconditioner);
        let plans = plan(&case.graph(), Limits::default()).expect("pcg has schedules");
        for plan in &plans {
            hunt(&case, &plan.program, 15);
        }
    }
}

#[test]
fn corrupted_placements_are_refused() {
    let mut total = [0; 3];
    for (name, preconditioner) in [("pcg", Preconditioner::Line(2)), ("minres", Preconditioner::Identity)] {
        let case = Case::library(name, preconditioner);
        let limits = Limits { steps: 3_000, ..Limits::default() };
        for plan in plan(&case.graph(), limits).expect("the solver has schedules").iter().skip(1) {
            let found = hunt_placements(&case, plan, 16);
            total = std::array::from_fn(|i| total[i] + found[i]);
        }
    }
    assert!(total[0] >= 200, "{total:?}: refused, harmless, refused by the simulation of versions");
    assert!(total[2] >= 80, "{total:?}: refused, harmless, refused by the simulation of versions");
}

#[test]
fn corrupted_frames_are_refused() {
    for case in [
        Case::library("pcg", Preconditioner::Jacobi).singular(),
        Case::library("conjugate_residual", Preconditioner::Line(2)).boundary_values(),
        Case::library("minres", Preconditioner::Identity).singular().boundary_values(),
    ] {
        let limits = Limits { steps: 2_000, ..Limits::default() };
        for plan in plan(&case.graph(), limits).expect("the solver has schedules").iter().take(6) {
            hunt(&case, &plan.program, 25);
        }
    }
}

#[test]
fn corrupted_branches_are_refused() {
    for name in ["bicgstab", "chebyshev", "richardson"] {
        let case = Case::library(name, Preconditioner::Jacobi);
        let plans = plan(&case.graph(), Limits::default()).expect("the solver has schedules");
        for plan in &plans {
            hunt(&case, &plan.program, 15);
        }
    }
}
