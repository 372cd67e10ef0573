//! What surrounds the loop: preparing the right-hand side, verifying the residual, finishing the solution.

use super::build::Parts;
use super::sequence::pointwise;
use crate::graph::Graph;
use crate::loops::{
    BinaryOp, Control, FenceId, Granule, PointExpr, Role, ScalarCondition, ScalarExpr, ScalarId, ScalarStmt, Store,
    Sum, SumId, SumKind, Sweep, Value, ValueId, ValueKind, Vector, VectorId, Version, status,
};
use crate::math::Operator;
use crate::sources::has_affine_part;
use crate::trace::unit_roundoff;
use kernelwright_syntax::program::{CompareOp, Function};

/// How far above rounding the right-hand side's part in the null space may be.
const INCOMPATIBLE_FACTOR: f64 = 1024.0;

/// Whether loops see another right-hand side than the given one.
pub(super) fn changes_rhs(operator: &Operator) -> bool {
    operator.nullspace || operator.mask.is_some() || has_affine_part(operator)
}

fn unknowns(operator: &Operator) -> f64 {
    let grid = operator.space.grid();
    grid.axes.iter().map(|a| a.size as f64).product::<f64>() * grid.components as f64
}

fn load(vector: VectorId, name: &str) -> Value {
    Value { name: name.into(), kind: ValueKind::Load(Version { vector, ahead: 0 }), text: None }
}

fn minus(a: PointExpr, b: PointExpr) -> PointExpr {
    PointExpr::Binary(BinaryOp::Sub, Box::new(a), Box::new(b))
}

fn binary(op: BinaryOp, a: ScalarExpr, b: ScalarExpr) -> ScalarExpr {
    ScalarExpr::Binary(op, Box::new(a), Box::new(b))
}

fn assign(scalar: ScalarId, value: ScalarExpr, text: &str) -> ScalarStmt {
    ScalarStmt::Assign { scalar, value, text: text.into() }
}

/// The number of unknowns: known, unless a mask decides; then it is counted with the sums.
fn count(parts: &mut Parts, operator: &Operator, sweep: &mut Sweep) -> ScalarExpr {
    if operator.mask.is_none() {
        return ScalarExpr::Number(unknowns(operator));
    }
    sweep.values.push(Value { name: "one".into(), kind: ValueKind::Map(PointExpr::Number(1.0)), text: None });
    push_inside(operator, &mut sweep.values, "counted");
    let sum = parts.sum(SumKind::Add);
    sweep.sums.push(Sum { sum, left: ValueId(sweep.values.len() - 1), right: None });
    ScalarExpr::Sum(sum)
}

/// Once per right-hand side: the iteration counter at zero, `rhs` less the affine part and in the range.
pub(super) fn prepare(
    graph: &Graph,
    parts: &mut Parts,
    given: VectorId,
    rhs: VectorId,
    reset: Vec<ScalarStmt>,
) -> Vec<Control> {
    let mut out = Vec::new();
    let begin = parts.fence("begin", reset, None);
    out.push(begin);
    if given == rhs {
        return out;
    }
    let operator = &graph.operator;
    let mut values = vec![load(given, "f")];
    push_inside(operator, &mut values, "f_inside");
    let mut result = last(&values);
    if has_affine_part(operator) {
        values.push(Value { name: "boundary_values".into(), kind: ValueKind::AffinePart, text: None });
        result = minus(result, last(&values));
    }
    let to = Version { vector: rhs, ahead: 0 };
    let mut sweep = pointwise("prepare_rhs", "right-hand side less boundary values", values, to, result);
    if operator.nullspace {
        project_rhs(graph, parts, rhs, sweep, &mut out);
    } else {
        sweep.name = "prepare_rhs".into();
        let control = parts.sweep(sweep);
        out.push(control);
    }
    out
}

/// Vectors that come from outside, zero outside the mask from here on: products, solutions along lines and linear
/// combinations leave zeros there, so that all vectors have them.
pub(super) fn mask_vectors(graph: &Graph, parts: &mut Parts, out: &mut Vec<Control>) {
    if graph.operator.mask.is_none() {
        return;
    }
    for number in 0..parts.vectors.len() {
        let Vector { name, role, .. } = parts.vectors[number].clone();
        if !matches!(role, Role::Solution | Role::Random(_)) {
            continue;
        }
        let vector = VectorId(number);
        let mut values = vec![load(vector, &name)];
        push_inside(&graph.operator, &mut values, &format!("{name}_inside"));
        let inside = ValueId(values.len() - 1);
        out.push(parts.sweep(Sweep {
            name: format!("mask_{name}"),
            text: vec![format!("{name} inside the mask")],
            granule: Granule::Point,
            values,
            stores: vec![Store { value: inside, to: Version { vector, ahead: 0 } }],
            sums: Vec::new(),
            predicate: None,
        }));
    }
}

/// The last value so far, where the point takes part; nothing to do without a mask.
fn push_inside(operator: &Operator, values: &mut Vec<Value>, name: &str) {
    if operator.mask.is_some() {
        let kind = ValueKind::Inside(ValueId(values.len() - 1));
        values.push(Value { name: name.into(), kind, text: None });
    }
}

fn last(values: &[Value]) -> PointExpr {
    PointExpr::Value(ValueId(values.len() - 1))
}

/// Takes the mean off the right-hand side, unless so much of it is in the null space that it was not meant to be.
fn project_rhs(graph: &Graph, parts: &mut Parts, rhs: VectorId, mut sweep: Sweep, out: &mut Vec<Control>) {
    let operator = &graph.operator;
    let value = ValueId(sweep.values.len() - 1);
    let [total, squares] = [SumKind::Add, SumKind::Add].map(|k| parts.sum(k));
    sweep.sums.push(Sum { sum: total, left: value, right: None });
    sweep.sums.push(Sum { sum: squares, left: value, right: Some(value) });
    let count = count(parts, operator, &mut sweep);
    let control = parts.sweep(sweep);
    out.push(control);
    let mean = parts.scalar("rhs_mean");
    let size = parts.scalar("rhs_norm");
    let points = parts.scalar("rhs_points");
    let sqrt = |e| ScalarExpr::Call(Function::Sqrt, vec![e]);
    let abs = ScalarExpr::Call(Function::Abs, vec![ScalarExpr::Scalar(mean)]);
    // The part in the null space has norm |mean| * sqrt(points).
    let part = binary(BinaryOp::Mul, abs, sqrt(ScalarExpr::Scalar(points)));
    let allowed = INCOMPATIBLE_FACTOR * unit_roundoff(graph.precision);
    let bound = binary(BinaryOp::Mul, ScalarExpr::Number(allowed), ScalarExpr::Scalar(size));
    let statements = vec![
        assign(points, count, "number of points that take part"),
        assign(mean, binary(BinaryOp::Div, ScalarExpr::Sum(total), ScalarExpr::Scalar(points)), "mean of f"),
        assign(size, sqrt(ScalarExpr::Sum(squares)), "norm(f)"),
        ScalarStmt::Raise {
            status: status::INCOMPATIBLE,
            condition: ScalarCondition::Compare(CompareOp::Gt, part, bound),
        },
    ];
    let fence = parts.fence("test_rhs", statements, None);
    out.push(fence);
    let control = remove_mean(parts, operator, rhs, mean, "project_rhs", "f - mean(f)");
    out.push(control);
}

fn remove_mean(
    parts: &mut Parts,
    operator: &Operator,
    vector: VectorId,
    mean: ScalarId,
    name: &str,
    text: &str,
) -> Control {
    let to = Version { vector, ahead: 0 };
    let result = minus(PointExpr::Value(ValueId(0)), PointExpr::Scalar(mean));
    let mut sweep = pointwise(name, text, vec![load(vector, "value")], to, result);
    push_inside(operator, &mut sweep.values, "inside");
    sweep.stores[0].value = ValueId(sweep.values.len() - 1);
    parts.sweep(sweep)
}

/// Takes the mean off the solution of a singular operator.
pub(super) fn project_solution(graph: &Graph, parts: &mut Parts, solution: VectorId, out: &mut Vec<Control>) {
    if !graph.operator.nullspace {
        return;
    }
    let total: SumId = parts.sum(SumKind::Add);
    let mut sweep = Sweep {
        name: "sum_solution".into(),
        text: vec!["mean of the solution".into()],
        granule: Granule::Point,
        values: vec![load(solution, "u")],
        stores: Vec::new(),
        sums: vec![Sum { sum: total, left: ValueId(0), right: None }],
        predicate: None,
    };
    let count = count(parts, &graph.operator, &mut sweep);
    let control = parts.sweep(sweep);
    out.push(control);
    let mean = parts.scalar("solution_mean");
    let value = binary(BinaryOp::Div, ScalarExpr::Sum(total), count);
    let fence = parts.fence("mean_solution", vec![assign(mean, value, "mean of the solution")], None);
    out.push(fence);
    let control = remove_mean(parts, &graph.operator, solution, mean, "project_solution", "u - mean(u)");
    out.push(control);
}

/// Advances the iteration in the first fence of a round. A fence with a predicate will not do: drivers follow the
/// number on the host, where predicates are not known.
pub(super) fn advance_iteration(parts: &mut Parts, body: &mut Vec<Control>) {
    let advance = assign(
        ScalarId::ITERATION,
        binary(BinaryOp::Add, ScalarExpr::Scalar(ScalarId::ITERATION), ScalarExpr::Number(1.0)),
        "iteration",
    );
    let first = body.iter().find(|c| c.holds_fence());
    if let Some(Control::Every { body: whole, otherwise: light, .. }) = first
        && let (Some(whole), Some(light)) = (only_fence(whole), only_fence(light))
    {
        // One of the two runs in every round.
        for fence in [light, whole] {
            parts.fences[fence.0].statements.insert(0, advance.clone());
        }
        return;
    }
    match first {
        Some(Control::Fence(id)) if parts.fences[id.0].predicate.is_none() => {
            parts.fences[id.0].statements.insert(0, advance)
        }
        _ => {
            let fence = parts.fence("next_iteration", vec![advance], None);
            body.insert(0, fence);
        }
    }
}

/// The fence of steps that hold one fence and otherwise sweeps.
fn only_fence(steps: &[Control]) -> Option<FenceId> {
    let [sweeps @ .., Control::Fence(fence)] = steps else { return None };
    sweeps.iter().all(|step| matches!(step, Control::Sweep(_))).then_some(*fence)
}
