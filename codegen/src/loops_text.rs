//! Loop IR as text, for people and dumps.

use std::fmt::Write as _;

use crate::graph::{compare_text, op_text};
use crate::loops::{
    Control, Fence, Granule, PointExpr, Program, ScalarCondition, ScalarExpr, ScalarStmt, SumKind, Sweep, ValueId,
    ValueKind, Version,
};

/// Readable text of a whole program, the same on every run.
pub fn text(program: &Program) -> String {
    let mut out = format!("program {}\n", program.name);
    for v in &program.vectors {
        let buffers = if v.versions == 1 { String::new() } else { format!(", {} versions", v.versions) };
        let _ = writeln!(out, "vector {}: {:?}{buffers}", v.name, v.role);
    }
    let sections = [
        ("prepare", &program.prepare),
        ("start", &program.start),
        ("body", &program.body),
        ("residual", &program.residual),
        ("finish", &program.finish),
    ];
    for (name, controls) in sections {
        let _ = writeln!(out, "{name}:");
        controls_text(program, controls, 1, &mut out);
    }
    out
}

fn controls_text(program: &Program, controls: &[Control], depth: usize, out: &mut String) {
    let pad = "  ".repeat(depth);
    for control in controls {
        match control {
            Control::Sweep(id) => sweep_text(program, &program.sweeps[id.0], &pad, out),
            Control::Fence(id) => fence_text(program, &program.fences[id.0], &pad, out),
            Control::Rotate(v) => {
                let _ = writeln!(out, "{pad}rotate {}", program.vectors[v.0].name);
            }
            Control::Loop { times, body } => {
                let times = times.map_or(String::new(), |n| format!(" {n} times"));
                let _ = writeln!(out, "{pad}repeat{times}");
                controls_text(program, body, depth + 1, out);
            }
            Control::Every { n, body, otherwise } => {
                let _ = writeln!(out, "{pad}every {n}");
                controls_text(program, body, depth + 1, out);
                if !otherwise.is_empty() {
                    let _ = writeln!(out, "{pad}otherwise");
                    controls_text(program, otherwise, depth + 1, out);
                }
            }
        }
    }
}

fn sweep_text(program: &Program, sweep: &Sweep, pad: &str, out: &mut String) {
    let granule = match sweep.granule {
        Granule::Point => "points".to_string(),
        Granule::Line(axis) => format!("lines along axis {axis}"),
    };
    let when = sweep.predicate.map_or(String::new(), |s| format!(" if {}", program.scalars[s.0]));
    let _ = writeln!(out, "{pad}sweep {} over {granule}{when}", sweep.name);
    for line in &sweep.text {
        let _ = writeln!(out, "{pad}  // {line}");
    }
    for (i, value) in sweep.values.iter().enumerate() {
        let _ = writeln!(out, "{pad}  %{i} {} = {}", value.name, value_text(program, &value.kind));
    }
    for store in &sweep.stores {
        let _ = writeln!(out, "{pad}  store {} := %{}", version_text(program, store.to), store.value.0);
    }
    for sum in &sweep.sums {
        let right = sum.right.map_or(String::new(), |r| format!(" * %{}", r.0));
        let kind = match program.sums[sum.sum.0] {
            SumKind::Add => "sum",
            SumKind::Max => "max",
        };
        let _ = writeln!(out, "{pad}  {kind} #{} of %{}{right}", sum.sum.0, sum.left.0);
    }
}

fn version_text(program: &Program, v: Version) -> String {
    let name = &program.vectors[v.vector.0].name;
    if v.ahead == 0 { name.clone() } else { format!("{name}+{}", v.ahead) }
}

fn value_text(program: &Program, kind: &ValueKind) -> String {
    let at = |v: &ValueId| format!("%{}", v.0);
    match kind {
        ValueKind::Load(v) => format!("load {}", version_text(program, *v)),
        ValueKind::Map(e) => point_text(program, e),
        ValueKind::Apply(v) => format!("apply {}", at(v)),
        ValueKind::AffinePart => "affine part".into(),
        ValueKind::Magnitude(v) => format!("magnitude {}", at(v)),
        ValueKind::Solve(axis, v) => format!("solve along axis {axis} {}", at(v)),
        ValueKind::Along(axis, v) => format!("couplings along axis {axis} {}", at(v)),
        ValueKind::Diagonal(v) => format!("{} / diagonal", at(v)),
        ValueKind::Companion { number, step, operand } => {
            let rows = step.map_or(String::new(), |step| format!(" at step {}", program.scalars[step.0]));
            format!("companion {number}{rows} {}", at(operand))
        }
        ValueKind::Inside(v) => format!("{} inside the mask", at(v)),
    }
}

fn point_text(program: &Program, e: &PointExpr) -> String {
    match e {
        PointExpr::Value(v) => format!("%{}", v.0),
        PointExpr::Scalar(s) => program.scalars[s.0].clone(),
        PointExpr::Number(x) => format!("{x}"),
        PointExpr::Neg(a) => format!("-{}", point_text(program, a)),
        PointExpr::Abs(a) => format!("|{}|", point_text(program, a)),
        PointExpr::Binary(op, a, b) => {
            format!("({} {} {})", point_text(program, a), op_text(*op), point_text(program, b))
        }
    }
}

fn fence_text(program: &Program, fence: &Fence, pad: &str, out: &mut String) {
    let when = fence.predicate.map_or(String::new(), |s| format!(" if {}", program.scalars[s.0]));
    let _ = writeln!(out, "{pad}fence {}{when}", fence.name);
    for s in &fence.statements {
        let line = match s {
            ScalarStmt::Assign { scalar, value, .. } => {
                format!("{} = {}", program.scalars[scalar.0], scalar_text(program, value))
            }
            ScalarStmt::Require { number, condition } => {
                let outcome = program.requires[*number].outcome;
                format!("require {} else {outcome:?}", condition_text(program, condition))
            }
            ScalarStmt::Check { measure, bound } => {
                format!("check {} <= {}", scalar_text(program, measure), scalar_text(program, bound))
            }
            ScalarStmt::Measure { measure, bound } => {
                format!("measure {} <= {}", scalar_text(program, measure), scalar_text(program, bound))
            }
            ScalarStmt::Raise { status, condition } => {
                format!("raise {status} if {}", condition_text(program, condition))
            }
        };
        let _ = writeln!(out, "{pad}  {line}");
    }
}

fn scalar_text(program: &Program, e: &ScalarExpr) -> String {
    match e {
        ScalarExpr::Number(x) => format!("{x}"),
        ScalarExpr::Scalar(s) => program.scalars[s.0].clone(),
        ScalarExpr::Sum(s) => format!("#{}", s.0),
        ScalarExpr::Param(p) => program.solver_params[*p].clone(),
        ScalarExpr::Neg(a) => format!("-{}", scalar_text(program, a)),
        ScalarExpr::Binary(op, a, b) => {
            format!("({} {} {})", scalar_text(program, a), op_text(*op), scalar_text(program, b))
        }
        ScalarExpr::Call(f, args) => {
            let args: Vec<String> = args.iter().map(|a| scalar_text(program, a)).collect();
            format!("{}({})", format!("{f:?}").to_lowercase(), args.join(", "))
        }
        ScalarExpr::Truth(c) => format!("[{}]", condition_text(program, c)),
        ScalarExpr::Select(c, a, b) => {
            let (a, b) = (scalar_text(program, a), scalar_text(program, b));
            format!("({a} if {} else {b})", condition_text(program, c))
        }
    }
}

fn condition_text(program: &Program, c: &ScalarCondition) -> String {
    match c {
        ScalarCondition::Compare(op, a, b) => {
            format!("{} {} {}", scalar_text(program, a), compare_text(*op), scalar_text(program, b))
        }
        ScalarCondition::And(a, b) => format!("({} and {})", condition_text(program, a), condition_text(program, b)),
        ScalarCondition::Or(a, b) => format!("({} or {})", condition_text(program, a), condition_text(program, b)),
        ScalarCondition::Not(a) => format!("not ({})", condition_text(program, a)),
    }
}
