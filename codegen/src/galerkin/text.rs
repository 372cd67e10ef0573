//! Text form of System IR, for dumps and snapshots.

use std::fmt::Write as _;

use super::step::Step;
use super::system::{BinaryOp, CompareOp, Condition, Expr, Rate, Side, System};

const AXES: [&str; 3] = ["x", "y", "z"];

/// The system as text.
pub fn print(system: &System) -> String {
    let mut out = String::new();
    line(&mut out, format_args!("system {}", system.name));
    for (kind, names) in
        [("components", &system.components), ("materials", &system.materials), ("params", &system.params)]
    {
        if !names.is_empty() {
            line(&mut out, format_args!("  {kind} {}", names.join(", ")));
        }
    }
    for (component, rate) in system.rates.iter().enumerate() {
        line(&mut out, format_args!("  ddt {} = {}", name(&system.components, component), rate_text(system, rate)));
    }
    for (component, flux) in system.flux.iter().enumerate() {
        line(&mut out, format_args!("  n.F*[{}] = {}", name(&system.components, component), expr(system, flux)));
    }
    for boundary in &system.boundaries {
        line(&mut out, format_args!("  boundary {}", boundary.tag));
        let parts = [(&system.components, &boundary.components), (&system.materials, &boundary.materials)];
        for (names, values) in parts {
            for (n, value) in values.iter().enumerate() {
                line(&mut out, format_args!("    exterior({}) = {}", name(names, n), expr(system, value)));
            }
        }
    }
    step(&mut out, &system.step);
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes all");
}

fn name(names: &[String], n: usize) -> String {
    names.get(n).cloned().unwrap_or_else(|| format!("#{n}"))
}

fn rate_text(system: &System, rate: &Rate) -> String {
    let term = |term: &super::system::Term| {
        let component = name(&system.components, term.component);
        let value = match term.axis {
            Some(axis) => format!("d{}({component})", AXES.get(axis).unwrap_or(&"?")),
            None => component,
        };
        match &term.coefficient {
            Expr::Number(1.0) => value,
            coefficient => format!("{} * {value}", atom(system, coefficient)),
        }
    };
    let mut parts: Vec<String> = rate.terms.iter().map(term).collect();
    parts.extend(rate.source.iter().map(|source| expr(system, source)));
    if parts.is_empty() { "0".into() } else { parts.join(" + ") }
}

fn step(out: &mut String, step: &Step) {
    line(out, format_args!("  step {} ({})", step.name, step.registers.join(", ")));
    for (number, stage) in step.stages.iter().enumerate() {
        for update in &stage.updates {
            let mut parts: Vec<String> = update
                .terms
                .iter()
                .map(|&(register, factor)| format!("{factor:?} * {}", name(&step.registers, register)))
                .collect();
            if update.rate != 0.0 {
                parts.push(format!("{:?} * dt * L", update.rate));
            }
            let target = name(&step.registers, update.register);
            line(out, format_args!("    {number} at {:?}: {target} = {}", stage.time, parts.join(" + ")));
        }
    }
}

/// An expression as text.
pub fn expr(system: &System, e: &Expr) -> String {
    match e {
        Expr::Binary(op, a, b) => {
            let symbol = match op {
                BinaryOp::Add => "+",
                BinaryOp::Sub => "-",
                BinaryOp::Mul => "*",
                BinaryOp::Div => "/",
            };
            format!("{} {symbol} {}", atom(system, a), atom(system, b))
        }
        Expr::Select(c, a, b) => {
            format!("if {} {{ {} }} else {{ {} }}", condition(system, c), expr(system, a), expr(system, b))
        }
        other => atom(system, other),
    }
}

/// As [`expr`], in parentheses where it is more than one word.
fn atom(system: &System, e: &Expr) -> String {
    let side = |side: &Side, text: String| match side {
        Side::Interior => text,
        Side::Exterior => format!("exterior({text})"),
    };
    match e {
        Expr::Number(x) => format!("{x:?}"),
        Expr::Param(n) => name(&system.params, *n),
        Expr::Material(s, n) => side(s, name(&system.materials, *n)),
        Expr::Component(s, n) => side(s, name(&system.components, *n)),
        Expr::Normal(axis) => format!("n_{}", AXES.get(*axis).unwrap_or(&"?")),
        Expr::Position(axis) => (*AXES.get(*axis).unwrap_or(&"?")).to_owned(),
        Expr::Time => "t".into(),
        Expr::Neg(a) => format!("-{}", atom(system, a)),
        Expr::Call(function, args) => {
            let args: Vec<String> = args.iter().map(|a| expr(system, a)).collect();
            format!("{}({})", format!("{function:?}").to_lowercase(), args.join(", "))
        }
        Expr::Binary(..) | Expr::Select(..) => format!("({})", expr(system, e)),
    }
}

fn condition(system: &System, c: &Condition) -> String {
    match c {
        Condition::Compare(op, a, b) => {
            let symbol = match op {
                CompareOp::Lt => "<",
                CompareOp::Le => "<=",
                CompareOp::Gt => ">",
                CompareOp::Ge => ">=",
                CompareOp::Eq => "==",
                CompareOp::Ne => "!=",
            };
            format!("{} {symbol} {}", expr(system, a), expr(system, b))
        }
        Condition::And(a, b) => format!("({}) && ({})", condition(system, a), condition(system, b)),
        Condition::Or(a, b) => format!("({}) || ({})", condition(system, a), condition(system, b)),
        Condition::Not(a) => format!("!({})", condition(system, a)),
    }
}
