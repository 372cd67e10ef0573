//! Legality: does a loop program do what the solver says?
//!
//! Two parts that share nothing: [`versions`] carries a placement out with iterations in place of numbers, before there is a
//! program; what follows judges the finished program.
//!
//! The checker knows nothing of graphs or schedules. It runs the solver's own statements ([`textbook`]) and the loop
//! program ([`machine`]) side by side over a few iterations in a world of exact arithmetic with random matrices
//! ([`world`]), and demands that
//! - every test happens in the same order, at the same iteration, with the same values;
//! - ended at *any* test, or at an iteration limit, the program delivers exactly the textbook's solution of that
//!   moment, and its true residual; solving on from there does what the textbook would do from that solution;
//! - the structural rules hold ([`loops_verify`](crate::loops_verify)): the order of points cannot matter.
//!
//! Since only linearity and the symmetry of what is symmetric are built into the world, a program passes if and only if it computes the same formulas, but
//! for chances of about 1e-16.

pub mod field;
pub mod machine;
pub mod textbook;
pub mod versions;
pub mod world;

use field::Element;
use kernelwright_syntax::program::{CompareOp, Function, Preconditioner, Solver};
use machine::Machine;
use textbook::{Case, Event, Run, Test};
use world::{Vector, World, call, compare, dot};

use crate::loops::{self, Control, Program, Role, ScalarExpr, ScalarId, ScalarStmt, VectorId, status};
use crate::math::Operator;

/// Rounds of the main loop that are compared, at least: enough for all buffers to turn over.
const ROUNDS: u64 = 6;
/// Unit roundoffs of the precisions: a program does not say in which it will run.
const ROUNDOFFS: [f64; 2] = [f32::EPSILON as f64 / 2.0, f64::EPSILON / 2.0];
/// How far above rounding a right-hand side's part in the null space may be.
const RANGE_FACTOR: f64 = 1024.0;
/// Worlds tried.
const WORLDS: u64 = 2;
/// Worlds tried where there are branches, so that they go every way together with others.
const WORLDS_WITH_BRANCHES: u64 = 16;

/// Checks a program against the solver it was made from; the error says what differs first.
pub fn check(
    program: &Program,
    solvers: &[Solver],
    solver: usize,
    preconditioner: &Preconditioner,
) -> Result<(), String> {
    crate::loops_verify::verify(program).map_err(|e| e.to_string())?;
    let case = Case { solvers, solver, preconditioner };
    let predicates =
        program.sweeps.iter().any(|s| s.predicate.is_some()) || program.fences.iter().any(|f| f.predicate.is_some());
    let branches = predicates || program.fences.iter().flat_map(|f| &f.statements).any(decides);
    let worlds = if branches { WORLDS_WITH_BRANCHES } else { WORLDS };
    (1..=worlds).try_for_each(|seed| check_in(program, case, &World::new(&program.operator, seed)))
}

fn check_in(program: &Program, case: Case<'_>, world: &World) -> Result<(), String> {
    let rhs = expected_rhs(program, world);
    let rounds = rounds(program);
    let expected = textbook::run(case, world, rhs, world.guess, rounds)?;
    // A pipelined program is ahead of the textbook: compare as far as the textbook goes.
    let mut machine = Machine::new(program, world, rounds);
    machine.section(&program.prepare)?;
    check_range(program, world, &machine)?;
    let prepared = machine.clone();
    machine.section(&program.start)?;
    machine.section(&program.body)?;
    compare_events(&machine.events, &expected.events)?;
    if let Some(name) = given_changed(program, &machine, world) {
        return Err(format!("{name}, which is given, was overwritten"));
    }
    let expected_tests = tests(&expected.events);
    for (number, event) in expected_tests.iter().enumerate() {
        let at = position_of_test(&machine.events, number).ok_or("the program has fewer tests")?;
        exit_at(program, case, world, &prepared, rhs, at, event).map_err(|e| format!("ended at test {number}: {e}"))?;
    }
    let guards = machine.events.iter().enumerate().filter(|(_, e)| e.test == Test::Guard);
    for (at, _) in guards {
        let before = machine.events[..at].iter().filter(|e| is_test(e)).count();
        if before > expected_tests.len() {
            break;
        }
        // The solution of the test before or of the one after it, whichever the guard stands nearer to.
        let near = [before.checked_sub(1), Some(before)].into_iter().flatten().filter_map(|n| expected_tests.get(n));
        let ended = near.map(|event| exit_at(program, case, world, &prepared, rhs, at, event));
        let ended: Vec<Result<(), String>> = ended.collect();
        if let Some(Err(e)) = ended.first()
            && ended.iter().all(Result::is_err)
        {
            return Err(format!("ended at a guard behind test {before}: {e}"));
        }
    }
    for rounds in 1..=rounds {
        let limit = expected.events.iter().filter(|e| e.test == Test::Round).nth(rounds as usize - 1);
        let Some(event) = limit else { break };
        limit_at(program, case, world, &prepared, rhs, rounds, event)
            .map_err(|e| format!("limited to {rounds} iterations: {e}"))?;
    }
    Ok(())
}

/// Rounds that are compared: one more than it takes until everything has happened.
fn rounds(program: &Program) -> u64 {
    fn longest(section: &[Control]) -> u64 {
        let of = |control: &Control| match control {
            Control::Loop { body, .. } => longest(body),
            Control::Every { n, body, otherwise } => u64::from(*n).max(longest(body)).max(longest(otherwise)),
            Control::Sweep(_) | Control::Fence(_) | Control::Rotate(_) => 0,
        };
        section.iter().map(of).max().unwrap_or(0)
    }
    ROUNDS.max(longest(&program.body) + 1)
}

/// A singular operator's right-hand side must be tested for its part in the null space; nothing else is.
fn check_range(program: &Program, world: &World, machine: &Machine<'_>) -> Result<(), String> {
    if !program.operator.nullspace {
        return if machine.raised.is_empty() { Ok(()) } else { Err("a regular operator's side is tested".into()) };
    }
    let side = given_rhs(program, world);
    let sqrt = |x| call(Function::Sqrt, &[x]);
    let count = count(&program.operator, &side);
    let mean = side.iter().fold(Element::ZERO, |s, x| s + *x) * count.inverse();
    let part = call(Function::Abs, &[mean]) * sqrt(count);
    let tested = ROUNDOFFS.map(|u| {
        let bound = Element::from_f64(RANGE_FACTOR * u) * sqrt(dot(&side, &side));
        vec![(status::INCOMPATIBLE, vec![compare(CompareOp::Gt, part, bound)])]
    });
    if tested.contains(&machine.raised) { Ok(()) } else { Err("the right-hand side's range is tested wrongly".into()) }
}

/// Whether a statement chooses between values.
fn decides(s: &ScalarStmt) -> bool {
    fn inside(e: &ScalarExpr) -> bool {
        match e {
            ScalarExpr::Select(..) | ScalarExpr::Truth(_) => true,
            ScalarExpr::Neg(a) => inside(a),
            ScalarExpr::Binary(_, a, b) => inside(a) || inside(b),
            ScalarExpr::Call(_, args) => args.iter().any(inside),
            ScalarExpr::Number(_) | ScalarExpr::Scalar(_) | ScalarExpr::Sum(_) | ScalarExpr::Param(_) => false,
        }
    }
    matches!(s, ScalarStmt::Assign { value, .. } if inside(value))
}

/// What loops see: f less the affine part, less its mean where the operator is singular.
fn expected_rhs(program: &Program, world: &World) -> Vector {
    let rhs = given_rhs(program, world);
    if program.operator.nullspace { remove_mean(&program.operator, &rhs) } else { rhs }
}

/// f less the affine part.
fn given_rhs(program: &Program, world: &World) -> Vector {
    let operator = &program.operator;
    let mut rhs = world.rhs;
    if crate::sources::has_affine_part(operator) {
        rhs = std::array::from_fn(|i| rhs[i] - world.affine[i]);
    }
    rhs
}

/// Points that take part.
fn count(operator: &Operator, v: &Vector) -> Element {
    let grid = operator.space.grid();
    let count = grid.axes.iter().map(|a| a.size).product::<u64>() as f64 * grid.components as f64;
    // With a mask the program counts points by a sum of ones, which here has as many terms as a vector.
    let count = if operator.mask.is_some() { v.len() as f64 } else { count };
    Element::from_f64(count)
}

fn remove_mean(operator: &Operator, v: &Vector) -> Vector {
    let mean = v.iter().fold(Element::ZERO, |s, x| s + *x) * count(operator, v).inverse();
    v.map(|x| x - mean)
}

fn is_test(event: &Event) -> bool {
    !matches!(event.test, Test::Round | Test::Guard)
}

fn tests(events: &[Event]) -> Vec<&Event> {
    events.iter().filter(|e| is_test(e)).collect()
}

fn position_of_test(events: &[Event], number: usize) -> Option<usize> {
    let mut seen = 0;
    events.iter().position(|e| {
        let test = is_test(e);
        seen += usize::from(test);
        test && seen == number + 1
    })
}

fn compare_events(got: &[Event], expected: &[Event]) -> Result<(), String> {
    let (got, expected) = (tests(got), tests(expected));
    for (i, want) in expected.iter().enumerate() {
        let Some(have) = got.get(i) else { return Err(format!("test {i} is missing: {:?}", want.test)) };
        if have.test != want.test {
            return Err(format!("test {i} differs: {:?} for {:?}", have.test, want.test));
        }
        let counts = matches!(want.test, Test::Check { .. });
        if counts && have.iteration != want.iteration {
            return Err(format!("test {i} is counted as iteration {} for {}", have.iteration, want.iteration));
        }
    }
    Ok(())
}

/// The first given vector that is not as it was; masks do nothing in the world.
fn given_changed<'p>(program: &'p Program, machine: &Machine<'_>, world: &World) -> Option<&'p str> {
    let given = |role: Role| match role {
        Role::Rhs => Some(world.rhs),
        Role::Random(seed) => Some(world.random(seed)),
        Role::Solution | Role::Work => None,
    };
    let changed = |(number, vector): &(usize, &loops::Vector)| {
        given(vector.role).is_some_and(|was| machine.vector(VectorId(*number)) != Some(was))
    };
    program.vectors.iter().enumerate().find(changed).map(|(_, vector)| vector.name.as_str())
}

fn exit_at<'p>(
    program: &'p Program,
    case: Case<'_>,
    world: &'p World,
    prepared: &Machine<'p>,
    rhs: Vector,
    at: usize,
    event: &Event,
) -> Result<(), String> {
    let mut machine = prepared.clone();
    machine.stop_at = Some(at + 1);
    machine.section(&program.start)?;
    machine.section(&program.body)?;
    machine.resume();
    after_exit(program, case, world, machine, rhs, event)
}

fn limit_at<'p>(
    program: &'p Program,
    case: Case<'_>,
    world: &'p World,
    prepared: &Machine<'p>,
    rhs: Vector,
    rounds: u64,
    event: &Event,
) -> Result<(), String> {
    let mut machine = prepared.clone().limited(rounds);
    machine.section(&program.start)?;
    machine.section(&program.body)?;
    machine.resume();
    after_exit(program, case, world, machine, rhs, event)
}

/// After an exit: the solution, the true residual, and the way on.
fn after_exit(
    program: &Program,
    case: Case<'_>,
    world: &World,
    mut machine: Machine<'_>,
    rhs: Vector,
    event: &Event,
) -> Result<(), String> {
    machine.section(&program.finish)?;
    let solution = machine.solution().ok_or("the solution has no value")?;
    let expected =
        if program.operator.nullspace { remove_mean(&program.operator, &event.solution) } else { event.solution };
    if solution != expected {
        return Err("the solution is not the one of the program's text".into());
    }
    let mut before: Run<'_> = textbook::run(case, world, rhs, world.guess, 0)?;
    if let Some(truth) = textbook::true_residual(&mut before, solution)? {
        machine.section(&program.residual)?;
        let measured = [ScalarId::MEASURE, ScalarId::BOUND].map(|scalar| machine.scalar(scalar));
        if measured != [Some(truth.measure), Some(truth.bound)] {
            return Err("the true residual is measured wrongly".into());
        }
        let allowed = ROUNDOFFS.map(|u| Some(Element::from_f64(u) * truth.magnitude));
        if !allowed.contains(&machine.scalar(ScalarId::ATTAINABLE)) {
            return Err("the attainable residual is estimated wrongly".into());
        }
        let kept = (0..program.vectors.len()).any(|v| machine.vector(VectorId(v)) == Some(truth.residual));
        if !kept {
            return Err("the true residual is not kept".into());
        }
    }
    let again = textbook::run(case, world, rhs, solution, 2)?;
    let mut machine = machine.limited(2);
    machine.events.clear();
    left_at_once(program, machine.clone(), solution)?;
    machine.section(&program.start)?;
    machine.section(&program.body)?;
    let count = |events: &[Event]| -> Vec<Test> { tests(events).iter().map(|e| e.test.clone()).collect() };
    let (got, want) = (count(&machine.events), count(&again.events));
    if got.len() < want.len() || got[..want.len()] != want[..] {
        return Err("solving on from the exit goes wrong".into());
    }
    Ok(())
}

/// Going on that ends before the loop leaves the solution as it is: what the exit before owed is paid only once.
fn left_at_once(program: &Program, mut machine: Machine<'_>, solution: Vector) -> Result<(), String> {
    machine.stop_at = Some(1);
    machine.section(&program.start)?;
    if !machine.stopped {
        return Ok(());
    }
    machine.resume();
    machine.section(&program.finish)?;
    let solution = if program.operator.nullspace { remove_mean(&program.operator, &solution) } else { solution };
    if machine.solution() != Some(solution) {
        return Err("a second exit changes the solution".into());
    }
    Ok(())
}

#[cfg(test)]
mod grid;
#[cfg(test)]
mod tests;
